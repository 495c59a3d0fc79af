/* graph.h: a pipeline as nodes and wires, read from XML, checked, ready to be lowered.
 *
 * dg_graph_load reads, expands (let, include, stack) and resolves, and reports all errors of a file
 * at once. dg_graph_lower makes a program; proof/ checks what only lowering shows. */
#ifndef DG_GRAPH_GRAPH_H
#define DG_GRAPH_GRAPH_H

#include "base/map.h"
#include "graph/contract.h"
#include "graph/expand.h"
#include "graph/registry.h"
#include "tensor/program.h"

typedef struct dg_node dg_node;
typedef struct dg_scope dg_scope;
typedef struct dg_graph dg_graph;
typedef struct dg_monitors dg_monitors; /* graph/monitor.h */

/* One input of a node: its producer. */
typedef struct dg_wire {
    const dg_node *from; /* NULL: not wired */
    int port;            /* index among from's output ports */
    const char *key;     /* key path below that port, "terms.loss_vfl", or NULL */
    dg_where where;      /* of the attribute */
} dg_wire;

/* <use> and <input> are nodes too (classes in graph/structure.c): input has one output, use has the
 * model's inputs and outputs. */
struct dg_node {
    const dg_node_class *class;
    const char *id;   /* given, or made from class and number: "conv#2" */
    const char *path; /* "train/loss" */
    int number;       /* in document order over the whole graph */
    dg_where where;   /* of the start tag; where.node == path */
    void *conf;
    bool recompute;
    dg_scope *scope;
    int n_in, n_out;
    dg_wire *in; /* one per input port */
    const dg_port *const *in_ports, *const *out_ports;
    const char *const *names; /* names of the n_names inputs of a port "*" (dg_names) */
    int n_names;
    bool needs_one;               /* at least one of these inputs must be present */
    const char *const *out_types; /* output types after `type`, as text */
    const dg_scope *model;        /* for <use>: the model */
    const char *pretrained;       /* path or NULL; only for classes with a `reference` */
    dg_where pretrained_where;
    const char *element; /* name as written; equals class->name unless broken */
    bool broken;         /* of an unknown class: the graph cannot be run, but can be drawn */
    int index;           /* in scope->nodes */
    const dg_item *item; /* its element, for positions of attributes */
    const dg_contract **in_types, **out_contracts; /* parsed, one per port */
    /* first part of its parameters' names in checkpoints: the class's, or the id */
    const char *reference;
    /* attributes that every node may have (docs/invariance.md) */
    dg_wire when;    /* from NULL: unguarded */
    int64_t connect; /* 0 none, 1 zero */
    int64_t on;      /* the only rank that it fires on; -1: all */
    dg_when budget;
    int64_t on_fail; /* dg_on_fail */
    bool exact, frozen;
};

typedef enum dg_on_fail { DG_FAIL_ABORT, DG_FAIL_VOTE } dg_on_fail;

typedef enum dg_scope_kind { DG_SCOPE_MODEL, DG_SCOPE_TRAIN, DG_SCOPE_EVALUATE } dg_scope_kind;

struct dg_scope {
    dg_scope_kind kind;
    const char *id; /* "detr", "train", "evaluate" */
    dg_where where;
    const dg_item *item; /* its element, for positions of attributes */
    int n_nodes;
    dg_node **nodes; /* document order */
    /* train */
    int64_t steps, epochs; /* one of them is given; 0: not given */
    int64_t accumulate;    /* batches per update */
    int64_t precision;     /* 0 f32, 1 bf16, 2 f64, 3 tf32 */
    dg_when patience;      /* early stopping: longest time without a better `best`; or DG_NEVER */
    int64_t on_fail;       /* dg_on_fail */
    /* evaluate */
    dg_when every, budget;
    int64_t on;             /* the only rank that evaluates; -1: all */
    const dg_node *weights; /* the node of weights="@ema"; NULL: the weights being trained */
    /* model */
    int n_inputs;
    const dg_node **inputs;
    const dg_node *output; /* its last node */
    dg_map *ids;           /* id -> dg_node; an id of an include or stack maps to its last node */
    const char *prefix;    /* of the include that contains it: prefix of model ids */
};

typedef struct dg_checkpoint_conf { /* <checkpoint> */
    bool present;
    dg_where where;
    const char *to; /* folder, or NULL */
    dg_when every;
    const dg_node *best;  /* the evaluation node of best="@coco.AP" */
    const char *best_key; /* "AP" */
    const dg_item_attr *best_attr;
    int64_t keep;
} dg_checkpoint_conf;

typedef struct dg_mesh { /* <mesh> */
    const dg_item *item; /* NULL: no <mesh> */
    int64_t tp;
} dg_mesh;

struct dg_graph {
    dg_arena *arena;
    const char *file, *name;
    uint64_t seed;
    int n_models;
    dg_scope **models;
    dg_scope *train; /* NULL: the file only evaluates */
    int n_evaluates;
    dg_scope **evaluates;
    dg_checkpoint_conf checkpoint;
    const char *axis; /* of <mesh dp="ranks"/>: "dp"; or NULL */
    int64_t ranks;
    dg_open_batch open_batch; /* of <let batch="auto"/> */
    bool ranks_open; /* dp="ranks": as many as are started; `ranks` is 1 until that is known */
    int64_t rank;    /* this rank, for nodes with on=".."; 0 for validate and plan */
    dg_mesh mesh;
    const char *digest; /* the digest that the pipeline requires, or NULL */
    const dg_item *root;
    dg_registry *registry;
    dg_map *sources; /* file name -> dg_source, for diagnostics */
    int n_nodes;
    dg_dims dims;                /* dimensions of all ports */
    bool keep_names;             /* copied into lowered programs: named values stay readable */
    const dg_monitors *monitors; /* NULL, or the monitors: lowering keeps their values readable */
};

typedef struct dg_set dg_set; /* --set name=value */
struct dg_set {
    const char *name, *value;
};

/* Reads file; sets override top-level lets. The graph uses the registry, which its plugins extend.
 * On failure *g is set too (NULL only if the file could not be read), for dg_graph_source and for
 * drawing the graph with its errors; it must not be lowered. */
int dg_graph_load(dg_graph **g, const char *file, const dg_set *sets, int n_sets,
                  dg_registry *registry, dg_diag *d) DG_MUST_USE;
/* The same from memory. file: its name in messages, and the base of relative paths. */
int dg_graph_parse(dg_graph **g, const char *text, size_t n, const char *file, const dg_set *sets,
                   int n_sets, dg_registry *registry, dg_diag *d) DG_MUST_USE;
void dg_graph_close(dg_graph **g);

/* True for inputs of a port "*" of which one must be present. */
bool dg_node_one_of(const dg_node *node, int port);

/* The mesh axes that the node works over, "dp+tp"; NULL: none. */
const char *dg_node_axes(const dg_node *node);
/* The attribute with these axes, as written; NULL: omitted. */
const dg_item_attr *dg_node_axes_given(const dg_node *node);
/* A sampler's attribute for the images per rank and step, which runs with fewer ranks raise; NULL:
 * none. */
int64_t *dg_node_batch_size(const dg_node *node);
/* True if the node reduces or divides over the axis of the ranks, even if there is only one
 * rank. */
bool dg_node_is_dealt(const dg_graph *g, const dg_node *node);

/* "<loss.rtdetr id="loss">", for messages. */
const char *dg_node_called(dg_arena *a, const dg_node *node);

/* Where a copy of the pipeline has a part that stands at `file` for the pipeline in `folder`:
 * "parts/x.xml", and "above/parts/x.xml" for ../parts/x.xml. Includes of the copy find it there.
 * NULL: the part is elsewhere, and the copy reads it there. */
char *dg_part_place(dg_arena *a, const char *folder, const char *file);

/* A dg_source_fn; ctx is the graph. */
const char *dg_graph_source(void *graph, const char *file, size_t *n);

/* Number of scopes, and scope i of them: models, evaluations, then the training if there is one. */
int dg_graph_n_scopes(const dg_graph *g);
const dg_scope *dg_graph_scope(const dg_graph *g, int i);

/* The nodes of a scope's data chain, found by their classes' functions: loader (open), choices in
 * order (choose), the first n_before of them before the sampler, sampler (schedule), resize (only
 * sizes), items in order, batch (feeds). NULL if the scope has none. */
enum { DG_MAX_CHAIN = 32 };
typedef struct dg_chain {
    const dg_node *loader, *sampler, *resize, *batch;
    int n_choices, n_before, n_items;
    const dg_node *choices[DG_MAX_CHAIN], *items[DG_MAX_CHAIN];
} dg_chain;
/* So many nodes of a chain may take further images (DG_PORT_FURTHER): each makes its own by all
 * nodes before it, so that every one more loads several times as many for one sample. */
enum { DG_MOST_FURTHER = 3 };
int dg_further_deep(const dg_node *node, dg_diag *d); /* reports the first of too many */
int dg_graph_chain(dg_chain *chain, const dg_scope *scope, dg_diag *d) DG_MUST_USE;
/* The same; an error if loader, sampler or batch node is missing. */
int dg_scope_chain(dg_chain *chain, const dg_scope *scope, dg_diag *d) DG_MUST_USE;
/* The possible image sizes of its batches; *batch: slots per rank. */
int dg_chain_sizes(const dg_chain *chain, const dg_size **sizes, int *batch);
/* The possible image sizes of a scope, largest area first, in the arena. */
int dg_scope_sizes(const dg_scope *scope, dg_arena *a, dg_size **sizes, int *n, int *batch,
                   dg_diag *d) DG_MUST_USE;

/* Lowers a scope at one image size to a program. Inputs are named "node id.key" after the batch
 * node's feeds ("b.images", "b.targets.boxes"). Results: tensor inputs of nodes with `take` (sinks,
 * evaluations, log) as "id.port[.key]"; for <train> the outputs of its loss nodes: a scalar port as
 * "loss.port" ("loss.total"), a record as "loss.key"; further loss nodes have their id in place of
 * "loss". */
int dg_graph_lower(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                   dg_params *params, dg_diag *d) DG_MUST_USE;

#endif
