/* graph.h: a pipeline as nodes and wires, read from XML, checked, ready to be lowered.
 *
 * dg_graph_load reads, expands (let, include, stack) and resolves; it reports every error of the
 * file at once. dg_graph_check runs what needs lowering (contracts, coverage). dg_graph_lower
 * makes one program. */
#ifndef DG_GRAPH_GRAPH_H
#define DG_GRAPH_GRAPH_H

#include "base/map.h"
#include "graph/contract.h"
#include "graph/expand.h"
#include "graph/registry.h"
#include "tensor/program.h"

typedef struct dg_node  dg_node;
typedef struct dg_scope dg_scope;
typedef struct dg_graph dg_graph;
typedef struct dg_monitors dg_monitors; /* graph/monitor.h */

/* One input of a node: who feeds it. */
typedef struct dg_wire {
    const dg_node *from;  /* NULL: not wired */
    int            port;  /* output port of from, counted among its ports table's outputs */
    const char    *key;   /* "terms.loss_vfl" below that port, or NULL */
    dg_where       where; /* of the attribute */
} dg_wire;

/* The structural node <use> and <input> have classes of their own (graph/structure.c) so that
 * they are nodes like others: input has one output, use has the model's inputs and outputs. */
struct dg_node {
    const dg_node_class *class;
    const char           *id;     /* given, or made from the class and its number: "conv#2" */
    const char           *path;   /* "train/loss" */
    int                   number; /* in document order over the whole graph */
    dg_where              where;  /* of the start tag; where.node == path */
    void                 *conf;
    bool                  recompute;
    dg_scope             *scope;
    int                   n_in, n_out;
    dg_wire              *in; /* one per input port */
    const dg_port *const *in_ports, *const *out_ports;
    const char *const *names;     /* of the n_names inputs behind a port "*": dg_names */
    int                n_names;
    bool               needs_one; /* of these inputs, one at least must be there */
    const char *const *out_types; /* port types after `type`, text */
    const dg_scope    *model;     /* of <use>: the model */
    const char *pretrained; /* path or NULL; a node whose class has a `reference` may have it */
    dg_where    pretrained_where;
    const char *element; /* name as written; class->name unless broken */
    bool broken; /* of a class that is not known: the graph cannot be used, but can be drawn */
    int  index;  /* in scope->nodes */
    const dg_item      *item;                      /* its element: positions of its attributes */
    const dg_contract **in_types, **out_contracts; /* parsed, one per port */
    const char         *reference; /* first part of names in checkpoints: the class's, or the id */
    /* words that any node may carry (docs/invariance.md) */
    dg_wire        when;    /* from NULL: no guard */
    int64_t        connect; /* 0 none, 1 zero */
    int64_t        on;      /* the one rank that it fires on; -1: all */
    dg_when        budget;
    int64_t        on_fail; /* dg_on_fail */
    const char    *device;  /* NULL: that of its class */
    bool           exact, frozen;
    const dg_node *loop;    /* the innermost <loop> around it, or NULL */
};

typedef enum dg_on_fail { DG_FAIL_ABORT, DG_FAIL_VOTE, DG_FAIL_SKIP } dg_on_fail;
typedef enum dg_capture { DG_CAPTURE_NEVER, DG_CAPTURE_ALWAYS, DG_CAPTURE_SHAPE } dg_capture;

typedef enum dg_scope_kind { DG_SCOPE_MODEL, DG_SCOPE_TRAIN, DG_SCOPE_EVALUATE } dg_scope_kind;

struct dg_scope {
    dg_scope_kind kind;
    const char   *id; /* "detr", "train", "evaluate" */
    dg_where      where;
    const dg_item *item; /* its element: positions of its attributes */
    int           n_nodes;
    dg_node     **nodes; /* document order */
    /* train */
    int64_t steps, epochs; /* one of them, 0: not given */
    int64_t accumulate;    /* batches per update */
    int64_t precision;     /* 0 f32, 1 bf16, 2 f64 */
    dg_when patience;      /* early stopping: so long without a better `best`; DG_NEVER */
    int64_t on_fail, capture; /* dg_on_fail, dg_capture */
    /* evaluate */
    dg_when        every, budget;
    int64_t        on;      /* the one rank that evaluates; -1: all */
    const dg_node *weights; /* of weights="@ema": the node; NULL: the weights as trained */
    /* model */
    int             n_inputs;
    const dg_node **inputs;
    const dg_node  *output; /* its last node */
    dg_map         *ids; /* id -> dg_node; ids of includes and stacks stand for their last node */
    const char     *prefix; /* of its own include: model ids begin with it */
};

typedef struct dg_checkpoint_conf { /* <checkpoint> */
    bool           present;
    dg_where       where;
    const char    *to; /* folder, NULL */
    dg_when        every;
    const dg_node *best;     /* the evaluation node of best="@coco.AP" */
    const char    *best_key; /* "AP" */
    int64_t        keep;
} dg_checkpoint_conf;

typedef struct dg_mesh { /* <mesh> */
    const dg_item *item;    /* NULL: there is none */
    int64_t        tp;
    bool           ready;   /* order="ready" */
    const char    *devices; /* "cpu", "cuda", "cuda:0", "cuda:0,cuda:1" */
    bool           share;   /* share_gpu="test" */
} dg_mesh;

struct dg_graph {
    dg_arena          *arena;
    const char        *file, *name;
    uint64_t           seed;
    int                n_models;
    dg_scope         **models;
    dg_scope          *train; /* NULL: the file only evaluates */
    int                n_evaluates;
    dg_scope         **evaluates;
    dg_checkpoint_conf checkpoint;
    const char        *axis; /* of <mesh dp="ranks"/>: "dp", or NULL */
    int64_t            ranks;
    bool               ranks_open; /* dp="ranks": as many as are started; ranks is 1 until somebody knows */
    int64_t            rank;       /* this one, for nodes with on=".."; validate and plan: 0 */
    dg_mesh            mesh;
    const char        *digest; /* what the pipeline pins, or NULL */
    const dg_item     *root;
    dg_registry       *registry;
    dg_map            *sources; /* file name -> text, for diagnostics */
    int                n_nodes;
    dg_dims            dims; /* dimensions of all ports */
    bool keep_names; /* dg_graph_lower copies it into its programs: named values stay readable */
    const dg_monitors *monitors; /* NULL, or: dg_graph_lower keeps what they watch readable */
};

typedef struct dg_set dg_set; /* --set name=value */
struct dg_set {
    const char *name, *value;
};

/* file is read; sets override top-level lets. The registry is kept by the graph and grows by its
 * plugins. On failure *g is set too (NULL only if the file could not be read at all), so that
 * dg_graph_source finds the lines and the graph can be drawn with its faults; it must not be
 * lowered. */
int dg_graph_load(dg_graph **g, const char *file, const dg_set *sets, int n_sets,
                  dg_registry *registry, dg_diag *d) DG_MUST_USE;
/* The same from memory; file names it in messages and is what relative paths are relative to. */
int  dg_graph_parse(dg_graph **g, const char *text, size_t n, const char *file, const dg_set *sets,
                    int n_sets, dg_registry *registry, dg_diag *d) DG_MUST_USE;
void dg_graph_close(dg_graph **g);

/* Is this input one of those behind a port "*", of which one must be there? */
bool dg_node_one_of(const dg_node *node, int port);

/* For dg_diag_print: ctx is the graph. */
const char *dg_graph_source(void *graph, const char *file, size_t *n);

/* The nodes of a scope's data chain, found by what their classes can do: loader (open), choices in
 * order (choose), of which the first n_before stand before the sampler and the others behind it,
 * sampler (schedule), resize (sizes alone), items in order, batch (feeds). NULL where the scope has
 * none. */
enum { DG_MAX_CHAIN = 32 };
typedef struct dg_chain {
    const dg_node *loader, *sampler, *resize, *batch;
    int            n_choices, n_before, n_items;
    const dg_node *choices[DG_MAX_CHAIN], *items[DG_MAX_CHAIN];
} dg_chain;
int dg_graph_chain(dg_chain *chain, const dg_scope *scope, dg_diag *d) DG_MUST_USE;
/* The image sizes that its batches may have; batch: slots of one rank. */
int dg_chain_sizes(const dg_chain *chain, const dg_size **sizes, int *batch);

/* One program: the scope's nodes that lower, at one image size. Inputs are named "node id.key"
 * after the batch node's feeds ("b.images", "b.targets.boxes"). Results: the tensor inputs of
 * every node that takes (sinks, evaluations, log) as "id.port[.key]", and of a train scope the
 * outputs of its loss nodes: a scalar port as "loss.port" ("loss.total"), a record as
 * "loss.key"; of a second loss node with its id for "loss". */
int dg_graph_lower(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                   dg_params *params, dg_diag *d) DG_MUST_USE;

/* Everything `validate` does after loading: lowers every scope at every size that its sampler
 * lists, checks declared port types against what was lowered, and gradient coverage. Needs no
 * data and no kernels. */
int dg_graph_check(const dg_graph *g, dg_diag *d) DG_MUST_USE;

#endif
