/* node.h: a node class: what a user writes as an XML element. One file, one conf struct, a port table, an
 * attribute table, a few plain functions, one const struct. The engine fills the conf struct from the XML,
 * checks types, prints documentation and schema from the tables, and differentiates what `lower` emits. */
#ifndef DETRGRAPH_NODE_H
#define DETRGRAPH_NODE_H

#include <detrgraph/data.h>
#include <detrgraph/kernel.h>
#include <detrgraph/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ports -------------------------------------------------------------------------------------------- */

/* Type language of a port:
 *   f[B,N,D]        real tensor; letters are unified over all ports of the node and along wires; numbers are
 *                   literal; `N<=M` is a capacity: at most M rows are live, the rest is void
 *   i[B,M]          i32 tensor;  f[] i[] scalars;  f[...] any shape
 *   {a:T,b?:T,c_*:T} record with a closed key set; `?` a key that may be missing on some steps, `c_*` the keys
 *                   that `type` lists
 *   dataset picks samples batch    data on its way, host side
 *   stream                         dataset, picks or samples; as an output: what the first stream input is
 *   gradients parameters           whole-model values
 *   metrics                        named numbers of an evaluation
 *   any
 */
enum {
    DG_PORT_OUT = 1,
    DG_PORT_OPTIONAL = 2, /* input: need not be wired */
    DG_PORT_MAIN = 4,     /* output: what a bare @id means when there are several */
    DG_PORT_DROPS = 8,    /* output: may emit fewer items than it takes (rate) */
    DG_PORT_EMPTY_ABSENT = 16, /* output: absent when its input holds nothing (presence) */
    DG_PORT_VARIES = 32,  /* output: its value differs over the ranks whatever the inputs (own random numbers, own files) */
    DG_PORT_INVARIANT = 64, /* output: the same on all ranks whatever the inputs (after a reduction) */
};
typedef struct dg_port {
    const char *name; /* NULL ends the table */
    const char *type;
    uint32_t    flags;
    const char *doc;
} dg_port;
#define DG_IN(name, type, doc) { name, type, 0, doc }
#define DG_IN_OPTIONAL(name, type, doc) { name, type, DG_PORT_OPTIONAL, doc }
#define DG_OUT(name, type, doc) { name, type, DG_PORT_OUT, doc }
#define DG_OUT_MAIN(name, type, doc) { name, type, DG_PORT_OUT | DG_PORT_MAIN, doc }
#define DG_OUT_FLAGS(name, type, flags, doc) { name, type, DG_PORT_OUT | (flags), doc }

/* ---- attributes ---------------------------------------------------------------------------------------- */

typedef enum dg_attr_kind {
    DG_ATTR_NUM,  /* double; "4e-4" */
    DG_ATTR_INT,  /* int64_t */
    DG_ATTR_BOOL, /* bool; true false */
    DG_ATTR_STR,  /* const char * */
    DG_ATTR_PATH, /* const char *; relative to the pipeline file, given absolute */
    DG_ATTR_ENUM, /* int64_t; number of the word in "a|b|c" */
    DG_ATTR_WHEN, /* dg_when; "step 952", "epoch 71", "153 steps", "1 epoch", "10 min" */
    DG_ATTR_INTS, /* dg_ints; "480,512" or "256:320:32" (both ends included), mixed */
    DG_ATTR_SIZES,/* dg_sizes; like INTS for squares, "640x480" (width x height) for others */
} dg_attr_kind;

typedef enum dg_unit { DG_NEVER, DG_STEPS, DG_EPOCHS, DG_MINUTES } dg_unit;
typedef struct dg_when { dg_unit unit; double n; } dg_when;
typedef struct dg_ints { int n; const int64_t *v; } dg_ints;
typedef struct dg_size { int64_t w, h; } dg_size;
typedef struct dg_sizes { int n; const dg_size *v; } dg_sizes;

typedef struct dg_attr {
    const char  *name; /* NULL ends the table */
    dg_attr_kind kind;
    uint32_t     offset;
    bool         required;
    double       def, lo, hi; /* NUM, INT, BOOL (0 or 1), ENUM (number of the word) */
    const char  *text;        /* default of STR, PATH, WHEN, INTS, SIZES (NULL: none); words of ENUM */
    const char  *doc;
} dg_attr;

/* The member's offset, and a compile error if it is not of type T. */
#define DG_FIELD_(C, m, T) (uint32_t)(offsetof(C, m) + 0 * sizeof((T *)0 == &((C *)0)->m))
#define DG_NUM(C, m, def, lo, hi, doc) { #m, DG_ATTR_NUM, DG_FIELD_(C, m, double), false, def, lo, hi, NULL, doc }
#define DG_NUM_REQUIRED(C, m, lo, hi, doc) { #m, DG_ATTR_NUM, DG_FIELD_(C, m, double), true, 0, lo, hi, NULL, doc }
#define DG_INT(C, m, def, lo, hi, doc) { #m, DG_ATTR_INT, DG_FIELD_(C, m, int64_t), false, def, lo, hi, NULL, doc }
#define DG_INT_REQUIRED(C, m, lo, hi, doc) { #m, DG_ATTR_INT, DG_FIELD_(C, m, int64_t), true, 0, lo, hi, NULL, doc }
#define DG_BOOL(C, m, def, doc) { #m, DG_ATTR_BOOL, DG_FIELD_(C, m, bool), false, def, 0, 1, NULL, doc }
#define DG_STR(C, m, def, doc) { #m, DG_ATTR_STR, DG_FIELD_(C, m, const char *), false, 0, 0, 0, def, doc }
#define DG_STR_REQUIRED(C, m, doc) { #m, DG_ATTR_STR, DG_FIELD_(C, m, const char *), true, 0, 0, 0, NULL, doc }
#define DG_PATH(C, m, def, doc) { #m, DG_ATTR_PATH, DG_FIELD_(C, m, const char *), false, 0, 0, 0, def, doc }
#define DG_PATH_REQUIRED(C, m, doc) { #m, DG_ATTR_PATH, DG_FIELD_(C, m, const char *), true, 0, 0, 0, NULL, doc }
#define DG_ENUM(C, m, def, words, doc) { #m, DG_ATTR_ENUM, DG_FIELD_(C, m, int64_t), false, def, 0, 0, words, doc }
#define DG_WHEN(C, m, def, doc) { #m, DG_ATTR_WHEN, DG_FIELD_(C, m, dg_when), false, 0, 0, 0, def, doc }
#define DG_INTS(C, m, def, doc) { #m, DG_ATTR_INTS, DG_FIELD_(C, m, dg_ints), false, 0, 0, 0, def, doc }
#define DG_SIZES(C, m, def, doc) { #m, DG_ATTR_SIZES, DG_FIELD_(C, m, dg_sizes), false, 0, 0, 0, def, doc }

/* Elements inside a node's element: <augment><flip p="0.5"/></augment>. Their conf structs arrive in document
 * order in the conf member named by the class's `children_offset`. */
typedef struct dg_child_class {
    const char    *name; /* NULL ends the table */
    const dg_attr *attrs;
    size_t         conf_size;
    int            most; /* at most so many; 0: any number */
    const char    *doc;
} dg_child_class;
typedef struct dg_child { int kind; const void *conf; dg_where where; } dg_child; /* kind: place in the table */
typedef struct dg_children { int n; const dg_child *v; } dg_children;

/* A port with the name "*" stands for any number of inputs of its type: every attribute that is a wire and no
 * port of its own becomes one, in document order. Their names arrive in conf. */
typedef struct dg_names { int n; const char *const *v; } dg_names;

/* ---- what classes are given ------------------------------------------------------------------------------ */

/* Reports a fault in a node's attributes from `check`; attr NULL: in the element itself. Several may be reported. */
typedef struct dg_check dg_check;
DG_PUBLIC void dg_check_fail(dg_check *c, const char *attr, const char *id, const char *fmt, ...) DG_PRINTF(4, 5);
DG_PUBLIC void dg_check_help(dg_check *c, const char *fmt, ...) DG_PRINTF(2, 3); /* to the fault reported last */
DG_PUBLIC bool dg_check_wired(const dg_check *c, const char *port);             /* is this optional input wired? */
DG_PUBLIC bool dg_check_has_pretrained(const dg_check *c);                       /* has the element pretrained="file"? */

/* Declares an output's type where it depends on attributes, in the language above: dg_type(t, "terms", "{loss_vfl:f[],..}"). */
typedef struct dg_typing dg_typing;
DG_PUBLIC void dg_type(dg_typing *t, const char *port, const char *fmt, ...) DG_PRINTF(3, 4);

/* Time of a training run, as schedules see it. */
typedef struct dg_clock {
    int64_t step, epoch;            /* of the step about to run, from 0 */
    int64_t n_steps, n_epochs, steps_per_epoch; /* of the whole run; 0 where unknown */
    double  minutes;
} dg_clock;
/* Has this moment come? DG_NEVER: no. */
DG_PUBLIC bool dg_reached(const dg_when *w, const dg_clock *c);

/* Random draws, a pure function of (seed, name, number): number 0, 1, 2, ... of one sample at one node. Threads,
 * ranks and restarts never change one. */
typedef struct dg_draw { uint64_t opaque[6]; } dg_draw;
DG_PUBLIC dg_draw dg_draw_begin(uint64_t seed, const char *name, uint64_t number);
DG_PUBLIC double  dg_draw_uniform(dg_draw *r);                       /* [0,1) */
DG_PUBLIC double  dg_draw_range(dg_draw *r, double lo, double hi);   /* [lo,hi) */
DG_PUBLIC int64_t dg_draw_below(dg_draw *r, int64_t n);              /* 0 .. n-1 */

/* What a number from outside the graph may follow from. */
typedef struct dg_supply_args {
    dg_clock clock;
    int      rank;
    double   seconds;     /* of the run, by this rank's clock */
    double   free_bytes;  /* that this rank may still take; -1: not known */
    dg_draw  shared, own; /* the same draws on every rank; this rank's */
} dg_supply_args;

/* ---- data: loader, sampler, augment, batch ----------------------------------------------------------------- */

typedef struct dg_item_info {
    int64_t     id;
    const char *name; /* file name, for messages */
    int         w, h;
    int         n_objects; /* for training: no crowd, not degenerate */
} dg_item_info;

/* An open data set; read-only and shared by threads. */
typedef struct dg_dataset {
    uint32_t size;
    int      n_items, n_classes;
    const dg_coco_class      *classes;
    const dg_coco_annotation *truths; /* for evaluation: all, crowds too; .image is the item */
    int64_t                   n_truths;
    const dg_data_report     *report; /* NULL: nothing to report */
    uint64_t                  digest; /* of the manifest: ids, sizes, objects */
    const char               *name;   /* for messages */
    void  *self;
    void (*info)(void *self, int item, dg_item_info *out);
    int  (*sample)(void *self, int item, dg_sample *out, dg_scratch *s, dg_diag *d);
    int  (*probe)(void *self, int item, dg_diag *d); /* can this item be read? looks at headers only; NULL: always */
    bool replace; /* on_error="replace": an unreadable item is replaced by another and counted, else it ends the run */
    void (*close)(void *self);
} dg_dataset;

/* One batch of the plan of an epoch: size of the images and the items, all ranks' slots in a row: rank r has
 * slots r*batch .. r*batch+batch-1. A negative item ~i is padding: item i once more, which training may use and
 * evaluation must not count. */
typedef struct dg_pick {
    int64_t        w, h;
    const int32_t *items;
} dg_pick;
typedef struct dg_schedule {
    int64_t        n_picks;
    const dg_pick *picks;    /* in the arena of the epoch */
    int            batch;    /* slots of one rank */
    int64_t        dropped, padded;
} dg_schedule;
typedef struct dg_schedule_args {
    const dg_dataset *data;
    int64_t           epoch;
    uint64_t          seed;   /* of the run and the node: the same on every rank */
    int               ranks;
    void           *(*alloc)(void *arena, size_t bytes); /* zeroed, for picks and items */
    void             *arena;
    int               rank;   /* this one of the run: for a plan that each rank draws for itself */
} dg_schedule_args;

/* partition, filter, equalize: a stream's items become fewer, or others. items[i] is an item of data, or ~item
 * for padding (see dg_pick). Behind a sampler an item is one of this rank's batches: data then has no samples, and its
 * info says the size of the batch's images and how many objects they hold together. */
typedef struct dg_choice {
    int64_t        n;
    const int32_t *items; /* in the arena */
} dg_choice;
typedef struct dg_choose_args {
    const dg_dataset *data;
    int64_t           n;     /* what the node before this one left */
    const int32_t    *items;
    int64_t           epoch;
    uint64_t          seed;  /* of the run and the node: the same on every rank */
    int               rank, ranks;         /* this rank's place on the node's axis, and how many stand on it */
    int64_t         (*least)(void *ctx, int64_t n); /* the least n of all ranks of the axis: every rank asks; < 0: it failed, and
                                                     * d says why: choose returns it */
    void             *ctx;
    void           *(*alloc)(void *arena, size_t bytes); /* zeroed, for items */
    void             *arena;
} dg_choose_args;

/* A tensor of the batch: fed to the program under `key` of the batch's output ("images", "targets.boxes"). */
typedef struct dg_feed {
    const char *key;
    dg_dtype    dtype; /* DG_REAL, DG_I32 */
    dg_shape    shape;
} dg_feed;

/* ---- sinks: evaluation, logs, pictures ----------------------------------------------------------------------- */

typedef struct dg_metrics dg_metrics;
DG_PUBLIC void dg_metric(dg_metrics *m, double value, const char *fmt, ...) DG_PRINTF(3, 4); /* named number, in order */
DG_PUBLIC void dg_metric_note(dg_metrics *m, const char *fmt, ...) DG_PRINTF(2, 3);         /* a line for people */

typedef struct dg_sink_args {
    const dg_dataset *data;    /* of the scope; NULL if it has none */
    const char       *folder;  /* where files of this evaluation go; NULL: nowhere */
    const char       *scope;   /* "evaluate" or its id */
    int64_t           step;
    bool              ema;     /* the weights are averaged ones */
    double            ema_weight; /* share of the EMA that is no longer the initial weights; 1 without EMA */
    int64_t           n_loaded;   /* parameters that came from a file; -1: trained here */
} dg_sink_args;
/* One batch of results on the host. in: one tensor per input port that is a tensor, or per key of a record port. */
typedef struct dg_sink_batch {
    int               n;       /* slots */
    const dg_sample  *samples; /* image and objects are gone */
    const bool       *padding; /* per slot: computed, not counted */
    int               n_in;
    const char *const *keys;   /* "detections.boxes" or the port's name */
    const dg_tensor  *in;      /* f32 or f64, i32 */
} dg_sink_batch;

/* ---- the class -------------------------------------------------------------------------------------------- */

typedef enum dg_role {
    DG_ROLE_OTHER, DG_ROLE_LOADER, DG_ROLE_SAMPLER, DG_ROLE_AUGMENT, DG_ROLE_BATCH, DG_ROLE_BACKBONE, DG_ROLE_ENCODER,
    DG_ROLE_DENOISING, DG_ROLE_DECODER, DG_ROLE_LOSS, DG_ROLE_GRADIENT, DG_ROLE_OPTIMIZER, DG_ROLE_EVALUATE, DG_ROLE_CONTROL, DG_ROLE_SINK,
} dg_role;

/* What the proof of rank invariance knows of a class (docs/invariance.md has the whole story). Without rows a
 * node passes on what its inputs have: values and presence by union, streams with their rate and sizes.
 *
 *   to     an output port; NULL: every output
 *   from   an input port, or "port.key"
 *   axis   the attribute that names the mesh axes ("dp", "dp+tp"), or "=dp" for that axis; NULL: all axes
 *   when   the row holds if all of these do, separated by commas; NULL: always
 *              name          attribute is given and not false, or the input is wired
 *              !name         the opposite
 *              name=a|b      the attribute's word is one of these;  name!=a|b  is none of them
 *   why    a phrase for messages, about the node: "deals batches over its axis" */
typedef enum dg_rule_kind {
    DG_RULE_END,
    /* what the outputs are */
    DG_RULE_VALUE,      /* the value of `to` differs over axis */
    DG_RULE_PRESENCE,   /* `to` is absent where `from` holds nothing: present with the value of from */
    DG_RULE_DIMS,       /* sizes that change from item to item differ over axis, or with the value of from */
    DG_RULE_LEADING,    /* the leading dimension of `to` changes with the rate of the stream; with axis: where it
                         * does so already, it differs over axis */
    DG_RULE_RATE,       /* the number of items of `to` differs over axis, or with the value of from */
    DG_RULE_EQUAL,      /* `to` has equally many items on all ranks of axis */
    DG_RULE_ENDLESS,    /* `to` never ends: the loop that it drives must end by a number of steps */
    DG_RULE_INEXACT,    /* `to` may differ in the last bit from run to run */
    DG_RULE_PARTIAL,    /* `to` is a summand of a sum over the axes over which `from` differs */
    /* what the node needs */
    DG_RULE_SEED,       /* an order is drawn here, and must be drawn alike over axis; `when` says where it is not.
                         * With from: what is shared out over axis must be the same on all its ranks */
    DG_RULE_CORRELATED, /* draws that are the same on all ranks although `from` differs: a warning */
    DG_RULE_NORMALISER, /* `from` divides a loss: invariant, once it is reduced over axis (NULL: as it comes) */
    DG_RULE_NONLINEAR,  /* `from` must not be a pending sum; so it is without any row, too */
    DG_RULE_LINEAR,     /* pending sums pass as such */
    DG_RULE_STATE,      /* replicated state is updated from `from`; joined over axis, if one is named */
    DG_RULE_GRADIENTS,  /* `to` has the gradient of `from` for every trainable parameter */
    DG_RULE_METRIC,     /* `to` is a number about all items of `from`: joined over axis */
    /* collectives over axis, of operand `from`, with result `to`; to NULL: one of fixed size inside the node */
    DG_RULE_ALLREDUCE,  /* the attribute op, if there is one, says sum, max, min or mean */
    DG_RULE_REDUCE,     /* only the rank in the attribute root knows the result */
    DG_RULE_BROADCAST,  /* of the rank in the attribute root */
    DG_RULE_AGREE,      /* one word, over the control plane; the operand may be missing */
    DG_RULE_ALLGATHER,
    DG_RULE_ALLGATHERV, /* leading dimensions may differ */
    DG_RULE_BYPASS,     /* the node leaves out its collectives where `from` holds nothing */
    /* the course of a step */
    DG_RULE_SKIP,       /* where this node fires, the rest of the iteration does not take place */
    DG_RULE_STOP,       /* where this node fires, the loop ends */
    DG_RULE_LOOP,       /* what is inside is repeated as often as the value of `from` says */
    DG_RULE_PROVED,     /* a word that validate understands and no run executes yet; why says what is missing and, behind "; ",
                         * what runs in its place */
    DG_RULE_KEYS,       /* `to` is a record in which every input is a key, by its name */
} dg_rule_kind;
enum { DG_RULE_TRAIN = 1 }; /* flags: only in <train> */
typedef struct dg_rule {
    dg_rule_kind kind; /* DG_RULE_END ends the table */
    const char  *to, *from, *axis, *when, *why;
    uint32_t     flags;
} dg_rule;

/* An older form of the collective rows: one of fixed size inside the node. */
typedef struct dg_collective {
    const char *kind;    /* "allreduce", "batch-norm statistics"; NULL ends the table */
    const char *operand; /* input port or parameter set that is reduced */
    const char *axis;    /* name of the attribute that holds the mesh axis */
} dg_collective;

typedef struct dg_node_class {
    uint32_t size, port_size, attr_size; /* DG_NODE_CLASS */
    const char *name;      /* "backbone.presnet": the XML element */
    dg_role     role;
    const char *brief;     /* one sentence */
    const char *doc;       /* paragraphs, or NULL */
    const dg_port *ports;
    const dg_attr *attrs;
    size_t         conf_size;
    const dg_child_class *children;  /* NULL: no elements inside */
    size_t                children_offset; /* of a dg_children in conf */
    const dg_collective  *collectives;
    const char *reference; /* first part of its parameters' names in checkpoints: "backbone" */

    /* All attributes are filled and in range. Reports what single attributes cannot say. */
    void (*check)(dg_check *c, const void *conf);
    /* Types of outputs that the port table leaves open. */
    void (*type)(dg_typing *t, const void *conf);
    /* Emits ops; in has one entry per input port (DG_NONE where unwired), out one per output port. */
    void (*lower)(dg_build *b, const void *conf, const dg_val in[], dg_val out[]);
    /* Writes this node's part of the control struct for the step that the clock names (learning rates, decay). */
    void (*control)(const void *conf, const dg_clock *clock, dg_control *c);

    /* loader: opens the data set. Out: *data; its close frees it. seed: of the run; where a row says that the output's
     * value differs (every rank has files of its own): the number of this rank. */
    int (*open)(dg_dataset **data, const void *conf, uint64_t seed, dg_diag *d);
    /* sampler: the plan of an epoch; invariant inputs only. sizes lists every image size it may ever pick. */
    int (*schedule)(dg_schedule *out, const void *conf, const dg_schedule_args *args, dg_diag *d);
    int (*sizes)(const void *conf, const dg_size **sizes, int *batch); /* without schedule: of batches that others plan */
    /* augment: changes the sample; a pure function of sample, draws and clock, on any thread. 1: it drops the sample, as an
     * output with DG_PORT_DROPS may; another one stands in for it. Where no output says so, that ends the run. */
    int (*item)(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d);
    /* batch: which tensors it feeds for this image size (at most n; returns how many), and filling one slot of them
     * with a sample (data points at the whole tensor; reals are f32). */
    int (*feeds)(const void *conf, dg_size size, int batch, dg_feed out[], int n);
    int (*fill)(const void *conf, dg_size size, int batch, int slot, dg_sample *sm, void *const data[], dg_diag *d);
    int64_t (*capacity)(const void *conf); /* batch: the most objects that an image may have */

    /* sinks: state is theirs. take sees one batch at the clock of its scope; finish reports and frees. */
    int (*begin)(void **state, const void *conf, const dg_sink_args *args, dg_diag *d);
    int (*take)(void *state, const dg_sink_batch *batch, dg_diag *d);
    int (*finish)(void **state, dg_metrics *m, dg_diag *d); /* m NULL: abandon */

    /* How many object classes the node tells apart; data with more are refused. NULL: it does not know classes. */
    int64_t (*classes)(const void *conf);

    const dg_rule *rules;     /* of rank invariance */
    uint32_t       rule_size; /* DG_NODE_CLASS */
    size_t         names_offset; /* of a dg_names in conf, for a class with a port "*"; 0: it has none */

    /* Streams: which items of a data set stay, for the epoch that args name; a pure function. */
    int (*choose)(dg_choice *out, const void *conf, const dg_choose_args *args, dg_diag *d);

    /* Sinks with an attribute axis whose scope is dealt over several ranks: pack writes what this rank has taken (malloc;
     * the caller frees), and rank 0 merges what the others have packed, in the order of ranks, before it finishes. */
    int (*pack)(void *state, void **bytes, size_t *n, dg_diag *d);
    int (*merge)(void *state, const void *bytes, size_t n, dg_diag *d);

    /* A number from outside the graph: the scalar output of a node without lower, before each batch of its scope. */
    double (*supply)(const void *conf, dg_supply_args *args);
    bool foreseen; /* supply follows from the clock's step and epoch, the rank and the draws: it is known before its batch */
} dg_node_class;
#define DG_NODE_CLASS .size = sizeof(dg_node_class), .port_size = sizeof(dg_port), .attr_size = sizeof(dg_attr), \
                      .rule_size = sizeof(dg_rule)

#ifdef __cplusplus
}
#endif
#endif
