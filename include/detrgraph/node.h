/* node.h: node classes, which users write as XML elements. A class is one file: a conf struct, a
 * port table, an attribute table, a few plain functions and one const struct. The engine fills the
 * conf struct from the XML, checks types, prints documentation and schema from the tables, and
 * differentiates what `lower` emits. */
#ifndef DETRGRAPH_NODE_H
#define DETRGRAPH_NODE_H

#include <detrgraph/data.h>
#include <detrgraph/kernel.h>
#include <detrgraph/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ports ----------------------------------------------------------------------------------- */

/* Types of ports:
 *  f[B,N,D]        real tensor; letters are unified over all ports of the node and along wires;
 *                  numbers are literal; `N<=M` is a capacity: at most M rows are live
 *  i[B,M]          i32 tensor
 *  f[] i[]         scalars
 *  f[...]          any shape
 *  {a:T,b?:T,c_*:T}  record with a closed set of keys; `?`: may be absent on some steps; `c_*`: the
 *                  keys that `type` lists
 *  dataset picks samples batch    data on the host
 *  stream          dataset, picks or samples; as an output: the type of the first stream input
 *  gradients parameters           values of the whole model
 *  metrics         named numbers of an evaluation
 *  any */
enum {
    DG_PORT_OUT = 1,
    DG_PORT_OPTIONAL = 2,      /* input: may stay unwired */
    DG_PORT_MAIN = 4,          /* output: the one that a bare @id means, if there are several */
    DG_PORT_DROPS = 8,         /* output: may drop samples, which others then replace */
    DG_PORT_EMPTY_ABSENT = 16, /* output: absent if the input holds nothing (presence) */
    /* output: differs between ranks whatever the inputs (random numbers or files of its own) */
    DG_PORT_VARIES = 32,
    /* output: equal on all ranks whatever the inputs (after a reduction) */
    DG_PORT_INVARIANT = 64,
    /* output of a class with `item`: made of further images, too (dg_sample_further) */
    DG_PORT_FURTHER = 128,
};
typedef struct dg_port {
    const char *name; /* NULL terminates the table */
    const char *type;
    uint32_t flags;
    const char *doc;
} dg_port;
#define DG_IN(name, type, doc) { name, type, 0, doc }
#define DG_IN_OPTIONAL(name, type, doc) { name, type, DG_PORT_OPTIONAL, doc }
#define DG_OUT(name, type, doc) { name, type, DG_PORT_OUT, doc }
#define DG_OUT_MAIN(name, type, doc) { name, type, DG_PORT_OUT | DG_PORT_MAIN, doc }
#define DG_OUT_FLAGS(name, type, flags, doc) { name, type, DG_PORT_OUT | (flags), doc }

/* ---- attributes ------------------------------------------------------------------------------ */

typedef enum dg_attr_kind {
    DG_ATTR_NUM,  /* double; "4e-4" */
    DG_ATTR_INT,  /* int64_t */
    DG_ATTR_BOOL, /* bool; true false */
    DG_ATTR_STR,  /* const char * */
    DG_ATTR_PATH, /* const char *; relative to the pipeline file in XML, absolute in conf */
    DG_ATTR_ENUM, /* int64_t; index of the word in "a|b|c" */
    /* dg_when; "step 952", "epoch 71", "153 steps", "1 epoch", "10 min", "55 %" of the run */
    DG_ATTR_WHEN,
    DG_ATTR_INTS,  /* dg_ints; "480,512" or "256:320:32" (both ends included), or a mixture */
    DG_ATTR_SIZES, /* dg_sizes; like INTS for squares, or "640x480" (width x height) */
} dg_attr_kind;

/* DG_SHARE: percent of the run's steps */
typedef enum dg_unit { DG_NEVER, DG_STEPS, DG_EPOCHS, DG_MINUTES, DG_SHARE } dg_unit;
typedef struct dg_when {
    dg_unit unit;
    double n;
} dg_when;
typedef struct dg_ints {
    int n;
    const int64_t *v;
} dg_ints;
typedef struct dg_size {
    int64_t w, h;
} dg_size;
typedef struct dg_sizes {
    int n;
    const dg_size *v;
} dg_sizes;

typedef struct dg_attr {
    const char *name; /* NULL terminates the table */
    dg_attr_kind kind;
    uint32_t offset;
    bool required;
    uint8_t flags; /* DG_ATTR_AXES, ...: what the engine itself reads; see below */
    /* NUM, INT, BOOL (0 or 1), ENUM (index of the word); WHEN: def 1 allows a number alone */
    double def, lo, hi;
    const char *text; /* STR, PATH, WHEN, INTS, SIZES: default (NULL: none); ENUM: the words */
    const char *doc;
} dg_attr;

/* Attributes that the engine itself reads. In a class without any flag (a plugin built before flags
 * existed) an attribute with the name in brackets counts as flagged. */
enum {
    DG_ATTR_AXES = 1,      /* STR: the mesh axes that the node works along, "dp+tp" (axis) */
    DG_ATTR_BATCH = 2,     /* INT of a sampler: images of one rank at a step (batch) */
    DG_ATTR_REDUCTION = 4, /* ENUM: how a collective combines values: sum, max, min, mean (op) */
    DG_ATTR_ROOT = 8,      /* INT: the sending or receiving rank's number on the axis (root) */
};

/* The member's offset; does not compile if the member is not of type T. */
#define DG_FIELD_(C, m, T) (uint32_t)(offsetof(C, m) + 0 * sizeof((T *)0 == &((C *)0)->m))
#define DG_NUM(C, m, def, lo, hi, doc) \
    { #m, DG_ATTR_NUM, DG_FIELD_(C, m, double), false, 0, def, lo, hi, NULL, doc }
#define DG_NUM_REQUIRED(C, m, lo, hi, doc) \
    { #m, DG_ATTR_NUM, DG_FIELD_(C, m, double), true, 0, 0, lo, hi, NULL, doc }
#define DG_INT(C, m, def, lo, hi, doc) \
    { #m, DG_ATTR_INT, DG_FIELD_(C, m, int64_t), false, 0, def, lo, hi, NULL, doc }
#define DG_INT_REQUIRED(C, m, lo, hi, doc) \
    { #m, DG_ATTR_INT, DG_FIELD_(C, m, int64_t), true, 0, 0, lo, hi, NULL, doc }
#define DG_BOOL(C, m, def, doc) \
    { #m, DG_ATTR_BOOL, DG_FIELD_(C, m, bool), false, 0, def, 0, 1, NULL, doc }
#define DG_STR(C, m, def, doc) \
    { #m, DG_ATTR_STR, DG_FIELD_(C, m, const char *), false, 0, 0, 0, 0, def, doc }
#define DG_STR_REQUIRED(C, m, doc) \
    { #m, DG_ATTR_STR, DG_FIELD_(C, m, const char *), true, 0, 0, 0, 0, NULL, doc }
#define DG_PATH(C, m, def, doc) \
    { #m, DG_ATTR_PATH, DG_FIELD_(C, m, const char *), false, 0, 0, 0, 0, def, doc }
#define DG_PATH_REQUIRED(C, m, doc) \
    { #m, DG_ATTR_PATH, DG_FIELD_(C, m, const char *), true, 0, 0, 0, 0, NULL, doc }
#define DG_ENUM(C, m, def, words, doc) \
    { #m, DG_ATTR_ENUM, DG_FIELD_(C, m, int64_t), false, 0, def, 0, 0, words, doc }
#define DG_WHEN(C, m, def, doc) \
    { #m, DG_ATTR_WHEN, DG_FIELD_(C, m, dg_when), false, 0, 0, 0, 0, def, doc }
/* WHEN; a number alone counts steps: "200", "5 %" */
#define DG_SPAN(C, m, def, doc) \
    { #m, DG_ATTR_WHEN, DG_FIELD_(C, m, dg_when), false, 0, 1, 0, 0, def, doc }
#define DG_INTS(C, m, def, doc) \
    { #m, DG_ATTR_INTS, DG_FIELD_(C, m, dg_ints), false, 0, 0, 0, 0, def, doc }
#define DG_SIZES(C, m, def, doc) \
    { #m, DG_ATTR_SIZES, DG_FIELD_(C, m, dg_sizes), false, 0, 0, 0, 0, def, doc }
#define DG_AXES(C, m, def, doc) \
    { #m, DG_ATTR_STR, DG_FIELD_(C, m, const char *), false, DG_ATTR_AXES, 0, 0, 0, def, doc }
#define DG_AXES_REQUIRED(C, m, doc) \
    { #m, DG_ATTR_STR, DG_FIELD_(C, m, const char *), true, DG_ATTR_AXES, 0, 0, 0, NULL, doc }
#define DG_BATCH_REQUIRED(C, m, lo, hi, doc) \
    { #m, DG_ATTR_INT, DG_FIELD_(C, m, int64_t), true, DG_ATTR_BATCH, 0, lo, hi, NULL, doc }
#define DG_REDUCTION(C, m, def, words, doc) \
    { #m, DG_ATTR_ENUM, DG_FIELD_(C, m, int64_t), false, DG_ATTR_REDUCTION, def, 0, 0, words, doc }
#define DG_ROOT(C, m, def, lo, hi, doc) \
    { #m, DG_ATTR_INT, DG_FIELD_(C, m, int64_t), false, DG_ATTR_ROOT, def, lo, hi, NULL, doc }

/* Elements inside a node's element: <augment><flip p="0.5"/></augment>. Their conf structs are
 * listed in document order in the dg_children at `children_offset` in conf. */
typedef struct dg_child_class {
    const char *name; /* NULL terminates the table */
    const dg_attr *attrs;
    size_t conf_size;
    int most; /* largest number of them; 0: unlimited */
    const char *doc;
} dg_child_class;
/* kind: index in the table */
typedef struct dg_child {
    int kind;
    const void *conf;
    dg_where where;
} dg_child;
typedef struct dg_children {
    int n;
    const dg_child *v;
} dg_children;

/* A port named "*" stands for any number of inputs of its type: every wired attribute that is not
 * another port becomes one, in document order. conf receives their names. */
typedef struct dg_names {
    int n;
    const char *const *v;
} dg_names;

/* ---- arguments of the classes' functions ---------------------------------------------------- */

/* Reports an error in a node's attribute from `check`; attr NULL: in the element itself. May be
 * called several times. */
typedef struct dg_check dg_check;
DG_PUBLIC void dg_check_fail(dg_check *c, const char *attr, const char *id, const char *fmt, ...)
    DG_PRINTF(4, 5);
/* adds help to the latest error */
DG_PUBLIC void dg_check_help(dg_check *c, const char *fmt, ...) DG_PRINTF(2, 3);
/* true if this optional input is wired */
DG_PUBLIC bool dg_check_wired(const dg_check *c, const char *port);
/* true if the element has pretrained="file" */
DG_PUBLIC bool dg_check_has_pretrained(const dg_check *c);

/* Declares the type of an output if it depends on attributes, in the language above: dg_type(t,
 * "terms", "{loss_vfl:f[],..}"). */
typedef struct dg_typing dg_typing;
DG_PUBLIC void dg_type(dg_typing *t, const char *port, const char *fmt, ...) DG_PRINTF(3, 4);

/* Time of a training run, for schedules. */
typedef struct dg_clock {
    int64_t step, epoch;                        /* of the next step, from 0 */
    int64_t n_steps, n_epochs, steps_per_epoch; /* of the whole run; 0: unknown */
    double minutes;
} dg_clock;
/* True once the moment has come; DG_NEVER: false. */
DG_PUBLIC bool dg_reached(const dg_when *w, const dg_clock *c);

/* Random draws, a pure function of (seed, name, number), where number identifies a sample at a
 * node. Threads, ranks and restarts never change one. */
typedef struct dg_draw {
    uint64_t opaque[6];
} dg_draw;
DG_PUBLIC dg_draw dg_draw_begin(uint64_t seed, const char *name, uint64_t number);
DG_PUBLIC double dg_draw_uniform(dg_draw *r);                     /* [0,1) */
DG_PUBLIC double dg_draw_range(dg_draw *r, double lo, double hi); /* [lo,hi) */
DG_PUBLIC int64_t dg_draw_below(dg_draw *r, int64_t n);           /* 0 .. n-1 */

/* Where `item` gets further images of the data set: what dg_sample.further points to. */
typedef struct dg_further {
    size_t size;
    int64_t most_objects; /* that a sample may have: the batch takes no more; 0: unknown */
    int (*take)(void *self, dg_sample *out, dg_draw *draw, dg_diag *d);
    void *self;
} dg_further;
/* Draws another image of the data set, in the scratch of sm. It comes as sm came to this node:
 * loaded, and changed by the item nodes before it, with draws of its own. It may be the same image.
 * Fails as the loader does, or with "further-none" where there is no data set. size: of *out, which
 * a plugin may have built with fewer members; the macro gives it. */
DG_PUBLIC int dg_sample_further_sized(dg_sample *out, size_t size, const dg_sample *sm,
                                      dg_draw *draw, dg_diag *d) DG_MUST_USE;
/* The same, for plugins from before dg_sample had part_w; others get the macro. */
DG_PUBLIC int dg_sample_further(dg_sample *out, const dg_sample *sm, dg_draw *draw, dg_diag *d)
    DG_MUST_USE;
#define dg_sample_further(out, sm, draw, d) \
    dg_sample_further_sized(out, sizeof(dg_sample), sm, draw, d)

/* Arguments of `supply`. */
typedef struct dg_supply_args {
    dg_clock clock;
    int rank;
    double seconds;      /* since the run began, by this rank's clock */
    double free_bytes;   /* memory that this rank may still allocate; -1: unknown */
    dg_draw shared, own; /* shared: equal on all ranks; own: this rank's */
} dg_supply_args;

/* ---- data: loader, sampler, augment, batch --------------------------------------------------- */

typedef struct dg_item_info {
    int64_t id;
    const char *name; /* the file's name, for messages */
    int w, h;
    int n_objects; /* objects to train on: neither crowd nor degenerate */
} dg_item_info;

/* An open data set; read-only, shared by threads. */
typedef struct dg_dataset {
    uint32_t size;
    int n_items, n_classes;
    const dg_coco_class *classes;
    const dg_coco_annotation *truths; /* for evaluation, crowds included; .image is the item */
    int64_t n_truths;
    const dg_data_report *report; /* NULL: none */
    uint64_t digest;  /* of ids, sizes and objects: equal data sets have equal digests */
    const char *name; /* for messages */
    void *self;
    void (*info)(void *self, int item, dg_item_info *out);
    int (*sample)(void *self, int item, dg_sample *out, dg_scratch *s, dg_diag *d);
    /* checks headers only: can the item be read? NULL: always */
    int (*probe)(void *self, int item, dg_diag *d);
    /* on_error="replace": replace an unreadable item by another and count it; false: end the run */
    bool replace;
    void (*close)(void *self);
    /* the mask of a truth, for evaluation; NULL: the data has no masks */
    int (*mask)(void *self, int64_t truth, dg_rle *out, dg_diag *d);
} dg_dataset;

/* What an evaluation tells beyond AP. -1: undefined, because the data have no truth. */
typedef struct dg_review {
    /* AP of a detector that looks at no image: it finds the same boxes in each, for every class the
     * median box, scored by the share of images with that class. */
    double constant_ap, constant_ap50;
    /* the score that gives the best F1 at IoU 0.50, and F1, precision and recall there */
    double threshold, f1, precision, recall;
    int64_t n_images, n_truths, n_small, n_medium, n_large; /* truths that count, by COCO's sizes */
} dg_review;

/* Writes the names of the items whose number in seen is not 0, one a line. Fails with "file-write".
 */
DG_PUBLIC int dg_dataset_write_names(const char *path, const dg_dataset *data, const int64_t *seen,
                                     dg_diag *d) DG_MUST_USE;
/* Reviews the detections of a data set (.image is the item). path: writes it there as JSON, with
 * precision, recall and F1 over the threshold, the same per class, a confusion matrix and the
 * images with the most misses; NULL: writes nothing. Crowds do not count. */
DG_PUBLIC int dg_review_of(dg_review *out, const char *path, const dg_dataset *data,
                           const dg_detection *v, int64_t n, int64_t step, dg_diag *d) DG_MUST_USE;

/* One batch of an epoch's plan: the size of its images and the items of all ranks: rank r has slots
 * r*batch .. r*batch+batch-1. A negative item ~i is padding: item i again, which training may use
 * and evaluation must not count. */
typedef struct dg_pick {
    int64_t w, h;
    const int32_t *items;
} dg_pick;
typedef struct dg_schedule {
    int64_t n_picks;
    const dg_pick *picks; /* in the epoch's arena */
    int batch;            /* slots per rank */
    int64_t dropped, padded;
} dg_schedule;
typedef struct dg_schedule_args {
    const dg_dataset *data;
    int64_t epoch;
    uint64_t seed; /* of run and node: equal on every rank */
    int ranks;
    void *(*alloc)(void *arena, size_t bytes); /* zeroed, for picks and items */
    void *arena;
    int rank; /* this rank, for plans that each rank draws separately */
} dg_schedule_args;

/* partition, filter, equalize: select or reorder the items of a stream. items[i] is an item of
 * data, or ~item for padding (see dg_pick). After a sampler an item is one of this rank's batches:
 * data then has no samples, and its info describes the batch: image size, total number of
 * objects. */
typedef struct dg_choice {
    int64_t n;
    const int32_t *items; /* in the arena */
} dg_choice;
typedef struct dg_choose_args {
    const dg_dataset *data;
    int64_t n; /* number of items from the node before */
    const int32_t *items;
    int64_t epoch;
    uint64_t seed;   /* of run and node: equal on every rank */
    int rank, ranks; /* this rank's index on the node's axis; size of the axis */
    /* Smallest n over all ranks of the axis; every rank must call it. Negative: failed, see d;
     * choose returns it. */
    int64_t (*least)(void *ctx, int64_t n);
    void *ctx;
    void *(*alloc)(void *arena, size_t bytes); /* zeroed, for items */
    void *arena;
} dg_choose_args;

/* A tensor of the batch; the program receives it as `key` of the batch's output ("images",
 * "targets.boxes"). The host itself reads images [B,H,W,3], targets.labels [B,M], targets.boxes
 * [B,M,4] and targets.count [B], if there are such: pictures show them, and a run counts batches
 * without objects. */
typedef struct dg_feed {
    const char *key;
    dg_dtype dtype; /* DG_REAL, DG_I32 */
    dg_shape shape;
} dg_feed;

/* ---- sinks: evaluation, logs, pictures ------------------------------------------------------- */

typedef struct dg_metrics dg_metrics;
/* a named number; order is kept */
DG_PUBLIC void dg_metric(dg_metrics *m, double value, const char *fmt, ...) DG_PRINTF(3, 4);
/* a line for people */
DG_PUBLIC void dg_metric_note(dg_metrics *m, const char *fmt, ...) DG_PRINTF(2, 3);

typedef struct dg_sink_args {
    const dg_dataset *data; /* of the scope; NULL: none */
    const char *folder;     /* for files of this evaluation; NULL: write none */
    const char *scope;      /* "evaluate" or its id */
    int64_t step;
    bool ema;          /* the weights are averages */
    double ema_weight; /* share of the average that is no longer initial weights; 1 without EMA */
    int64_t n_loaded;  /* parameters loaded from a file; -1: trained here */
} dg_sink_args;
/* One batch of results on the host. in: one tensor per tensor input, or per key of a record
 * input. */
typedef struct dg_sink_batch {
    int n;                    /* slots */
    const dg_sample *samples; /* without image and objects */
    const bool *padding;      /* per slot: computed, but not counted */
    int n_in;
    const char *const *keys; /* "detections.boxes" or the port's name; those that this batch has */
    const dg_tensor *in;     /* f32 or f64, i32 */
} dg_sink_batch;

/* ---- the class ------------------------------------------------------------------------------- */

typedef enum dg_role {
    DG_ROLE_OTHER,
    DG_ROLE_LOADER,
    DG_ROLE_SAMPLER,
    DG_ROLE_AUGMENT,
    DG_ROLE_BATCH,
    DG_ROLE_BACKBONE,
    DG_ROLE_ENCODER,
    DG_ROLE_DENOISING,
    DG_ROLE_DECODER,
    DG_ROLE_LOSS,
    DG_ROLE_GRADIENT,
    DG_ROLE_OPTIMIZER,
    DG_ROLE_EVALUATE,
    DG_ROLE_CONTROL,
    DG_ROLE_SINK,
} dg_role;

/* Rows for the proof of rank invariance (docs/invariance.md). Without rows a node passes on its
 * inputs' properties: values and presence by union, streams with their rate and sizes.
 *
 *  to     an output port; NULL: every output
 *  from   an input port, or "port.key"
 *  axis   the attribute that names the mesh axes ("dp", "dp+tp"), or "=dp" for that axis; NULL: all
 *  when   conditions separated by commas, all of which must hold; NULL: always
 *           name        the attribute is given and not false, or the input is wired
 *           !name       the opposite
 *           name=a|b    the attribute's word is one of these;  name!=a|b  is none of them
 *           name=alike  all sizes listed have one aspect ratio;  name!=alike  they have several
 *  why    a phrase about the node, for messages: "deals batches over its axis" */
typedef enum dg_rule_kind {
    DG_RULE_END,
    /* properties of the outputs */
    DG_RULE_VALUE, /* the value of `to` differs over axis */
    /* `to` is absent if `from` holds nothing; present depends on from's value. With axis: if `from`
     * is absent on all its ranks */
    DG_RULE_PRESENCE,
    DG_RULE_DIMS, /* sizes that change from item to item differ over axis, or with from's value */
    /* the leading dimension of `to` changes with the stream's rate; with axis: if it already does,
     * it differs over axis */
    DG_RULE_LEADING,
    DG_RULE_RATE,    /* the number of items of `to` differs over axis, or with from's value */
    DG_RULE_EQUAL,   /* `to` has the same number of items on all ranks of axis */
    DG_RULE_ENDLESS, /* `to` never ends: its loop must be limited by a number of steps */
    DG_RULE_INEXACT, /* `to` may differ in the last bits from run to run */
    DG_RULE_PARTIAL, /* `to` is this rank's part of a sum over the axes over which `from` differs */
    /* requirements of the node */
    /* draws an order that must be equal over axis; `when` tells where it is not. With from: what is
     * divided over axis must be equal on all its ranks */
    DG_RULE_SEED,
    DG_RULE_CORRELATED, /* draws equal numbers on all ranks although `from` differs: a warning */
    /* `from` divides a loss: invariant once it is reduced over axis (NULL: as given) */
    DG_RULE_NORMALISER,
    DG_RULE_NONLINEAR, /* `from` must not be a pending sum; also assumed without any row */
    DG_RULE_LINEAR,    /* pending sums pass through */
    DG_RULE_STATE,     /* updates replicated state from `from`, reduced over axis if one is named */
    DG_RULE_GRADIENTS, /* `to` holds the gradient of `from` for every trainable parameter */
    DG_RULE_METRIC,    /* `to` is a number about all items of `from`, combined over axis */
    /* collectives over axis, with operand `from` and result `to`; to NULL: of fixed size, inside
     * the node */
    DG_RULE_ALLREDUCE, /* the attribute DG_ATTR_REDUCTION, if any, says how */
    DG_RULE_REDUCE,    /* only the rank in DG_ATTR_ROOT gets the result */
    DG_RULE_BROADCAST, /* from the rank in DG_ATTR_ROOT */
    DG_RULE_AGREE,     /* one number, over the control plane; the operand may be absent */
    DG_RULE_ALLGATHER,
    DG_RULE_ALLGATHERV, /* leading dimensions may differ */
    DG_RULE_BYPASS,     /* the node skips its collectives if `from` holds nothing */
    /* control flow */
    DG_RULE_SKIP,     /* if this node fires, the rest of the iteration is skipped */
    DG_RULE_STOP,     /* if this node fires, the loop ends */
    DG_RULE_WAS_LOOP, /* this and the next have no effect; older plugins may have them */
    DG_RULE_WAS_PROVED,
    DG_RULE_KEYS, /* `to` is a record with every input as a key of that name */
} dg_rule_kind;
enum { DG_RULE_TRAIN = 1 }; /* flags: only in <train> */
typedef struct dg_rule {
    dg_rule_kind kind; /* DG_RULE_END terminates the table */
    const char *to, *from, *axis, *when, *why;
    uint32_t flags;
} dg_rule;

/* An older form of rows for collectives of fixed size inside the node. */
typedef struct dg_collective {
    const char *kind;    /* "allreduce", "batch-norm statistics"; NULL terminates the table */
    const char *operand; /* the input port or parameter set that is reduced */
    const char *axis;    /* the attribute that holds the mesh axis */
} dg_collective;

/* Numbers that an evaluation reports. */
typedef struct dg_metric_row {
    const char *names; /* "AP AP50 AP/?", ? for any text; NULL terminates the table */
    const char *when;  /* the condition of a dg_rule; NULL: always */
    const char *key;   /* only if the record that it takes has this key; or NULL */
} dg_metric_row;

typedef struct dg_node_class {
    uint32_t size, port_size, attr_size; /* set by DG_NODE_CLASS */
    const char *name;                    /* the XML element: "backbone.presnet" */
    dg_role role;
    const char *brief; /* one sentence */
    const char *doc;   /* paragraphs, or NULL */
    const dg_port *ports;
    const dg_attr *attrs;
    size_t conf_size;
    const dg_child_class *children; /* NULL: no child elements */
    size_t children_offset;         /* of a dg_children in conf */
    const dg_collective *collectives;
    const char *reference; /* first part of its parameters' names in the reference: "backbone" */

    /* Reports conflicts between attributes; each is already filled and in range. */
    void (*check)(dg_check *c, const void *conf);
    /* Declares types of outputs that the port table leaves open. */
    void (*type)(dg_typing *t, const void *conf);
    /* Emits ops. in: one entry per input port (DG_NONE if unwired); out: one per output port. */
    void (*lower)(dg_build *b, const void *conf, const dg_val in[], dg_val out[]);
    /* Writes this node's part of the control struct for the clock's step (learning rates,
     * decay). */
    void (*control)(const void *conf, const dg_clock *clock, dg_control *c);

    /* loader: opens the data set; (*data)->close frees it. seed: the run's; if a rule says that the
     * output's value differs (files of its own per rank): this rank's number. */
    int (*open)(dg_dataset **data, const void *conf, uint64_t seed, dg_diag *d);
    /* sampler: plans an epoch from rank-invariant inputs only */
    int (*schedule)(dg_schedule *out, const void *conf, const dg_schedule_args *args, dg_diag *d);
    /* sampler: every image size that it may pick, and the batch size; also for nodes without
     * schedule, whose batches another node plans */
    int (*sizes)(const void *conf, const dg_size **sizes, int *batch);
    /* augment: changes the sample: a pure function of sample, draws and clock, on any thread.
     * Returns 1 to drop the sample, which another one then replaces; without a DG_PORT_DROPS output
     * that ends the run. */
    int (*item)(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d);
    /* batch: feeds lists the tensors for this image size (at most n; returns their number); fill
     * writes a sample into one slot of them (data points to whole tensors; reals are f32). */
    int (*feeds)(const void *conf, dg_size size, int batch, dg_feed out[], int n);
    int (*fill)(const void *conf, dg_size size, int batch, int slot, dg_sample *sm,
                void *const data[], dg_diag *d);
    int64_t (*capacity)(const void *conf); /* batch: most objects an image may have */

    /* sinks: begin makes *state; take gets one batch, in the scope's order; finish reports and
     * frees. */
    int (*begin)(void **state, const void *conf, const dg_sink_args *args, dg_diag *d);
    int (*take)(void *state, const dg_sink_batch *batch, dg_diag *d);
    int (*finish)(void **state, dg_metrics *m, dg_diag *d); /* m NULL: abandon */

    /* Number of object classes the node distinguishes; data sets with more are refused. NULL:
     * classes do not matter. */
    int64_t (*classes)(const void *conf);

    const dg_rule *rules; /* for the proof of rank invariance */
    uint32_t rule_size;   /* set by DG_NODE_CLASS */
    size_t names_offset;  /* of a dg_names in conf, for a class with a port "*"; 0: none */

    /* Streams: selects the items for the epoch in args; a pure function. */
    int (*choose)(dg_choice *out, const void *conf, const dg_choose_args *args, dg_diag *d);

    /* Sinks with DG_ATTR_AXES whose scope is divided over ranks: pack serialises this rank's
     * state (malloc; the caller frees); rank 0 merges the others' bytes, in rank order, before
     * finish. */
    int (*pack)(void *state, void **bytes, size_t *n, dg_diag *d);
    int (*merge)(void *state, const void *bytes, size_t n, dg_diag *d);

    /* For a node without lower: its scalar output, a number from outside the graph, taken before
     * each batch of its scope. */
    double (*supply)(const void *conf, dg_supply_args *args);
    /* supply reads only the clock's step and epoch, the rank and the draws: it can run ahead of the
     * batch */
    bool foreseen;

    /* The numbers that finish reports, for a class with an output of type metrics; NULL: only a run
     * shows them. */
    const dg_metric_row *metrics;
    uint32_t metric_size; /* set by DG_NODE_CLASS */
} dg_node_class;
#define DG_NODE_CLASS                                                                          \
    .size = sizeof(dg_node_class), .port_size = sizeof(dg_port), .attr_size = sizeof(dg_attr), \
    .rule_size = sizeof(dg_rule), .metric_size = sizeof(dg_metric_row)

#ifdef __cplusplus
}
#endif
#endif
