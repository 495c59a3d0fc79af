/* check_internal.h: shared by the files of this room: a draw (attributes, dimensions, numbers), the
 * program that lower makes of it and its execution, and a drawn data set. */
#ifndef DG_CHECK_CHECK_INTERNAL_H
#define DG_CHECK_CHECK_INTERNAL_H

#include "base/rng.h"
#include "check/interpreter.h"
#include "check/check.h"

typedef enum dg_trial_kind {
    DG_TRIAL_DRAWN,
    DG_TRIAL_DEFAULT,  /* default attributes, every input wired */
    DG_TRIAL_SMALLEST, /* the same with every dimension 1 and every number 0 */
} dg_trial_kind;

#define DG_TRIAL_FILE "check-node" /* file name of a draw's pipeline, for messages */

/* One draw. */
typedef struct dg_trial {
    const dg_node_class *class;
    dg_registry *registry;
    const dg_check_node *how;
    uint64_t seed;
    dg_trial_kind kind;
    const dg_set *given; /* one more attribute that is not drawn, or NULL */
    int64_t ranks;       /* on axis dp; 0: no such axis */
    bool unasked;        /* leave out the attribute axis, unless it is required */
    dg_arena *arena;
    const char *element;
    dg_graph *g;
    const dg_node *node;
    int64_t *sizes; /* sizes of letters, by root variable; 0: not drawn yet */
    dg_str dims;    /* "B=2 N=3", for findings */
    int64_t least;  /* smallest size; drawn integers are smaller */
    dg_diag *d;
} dg_trial;

/* Returns 0; 1: the class refuses these attributes; -DG_E...: they cannot be tried. d has the
 * reason. */
int dg_trial_open(dg_trial *t);
void dg_trial_close(dg_trial *t);

/* For the draw: the range of an input's numbers, or NULL; the shape of a type. */
const dg_number_range *dg_trial_range(const dg_trial *t, const char *name);
dg_shape dg_trial_shape(const dg_trial *t, const dg_contract *c);
bool dg_trial_shares(const dg_trial *t); /* the attribute axis names the ranks' axis */
/* True if a rule of this kind holds with `from` set (from), or without it (not from). */
bool dg_trial_declares(const dg_trial *t, dg_rule_kind kind, bool from);

/* n items of 3 classes, without files, in the arena. DG_OTHER_OBJECTS and DG_OTHER_SIZES change
 * objects or sizes and nothing else. */
enum { DG_OTHER_OBJECTS = 1, DG_OTHER_SIZES = 2, DG_DRAWN_CLASSES = 3 };
const dg_dataset *dg_trial_data(const dg_trial *t, int n, unsigned other);

typedef struct dg_leaf { /* a tensor among a node's inputs or outputs */
    const char *name;    /* e.g. "targets.boxes" */
    int32_t value;
    int param; /* a real input is a parameter, to get its gradient; else -1 */
} dg_leaf;

/* A draw as a program: inputs, the node, a loss over its outputs, and the gradients. */
typedef struct dg_probe {
    const dg_trial *trial;
    dg_params *params;
    dg_program *p;
    dg_diag *d;
    DG_VEC(dg_leaf) in, out;
    int32_t loss;      /* 0: no real output depends on anything */
    const char *wrong; /* an output violates its type: how, and which one */
    const char *wrong_port;
    const dg_port *missing; /* an output that lower leaves unset */
} dg_probe;

/* Returns 0; 1: lower refuses (dg_error); -DG_E...: the builder fails, or a type is violated. */
int dg_probe_open(dg_probe *pr, dg_trial *t, bool training);
void dg_probe_close(dg_probe *pr);
bool dg_probe_is_input(const dg_probe *pr, int param);

/* All results of a draw: outputs and gradients, as doubles. */
typedef struct dg_outcome {
    int n; /* outputs, then the gradients of all parameters that reach the loss */
    const char **names;
    bool *is_gradient;
    dg_shape *shapes;
    double **numbers;
} dg_outcome;

dg_interpreter *dg_probe_interpreter(const dg_probe *pr, int bits); /* with all numbers set */
void dg_interpreter_outcome(dg_outcome *o, const dg_probe *pr, const dg_interpreter *m);
/* Runs the draw as a run would: passes, plan, host kernels. low: DG_BF16 or DG_F32. Consumes the
 * program. */
int dg_probe_execute(dg_outcome *o, dg_probe *pr, dg_dtype low, int threads, dg_diag *d)
    DG_MUST_USE;

/* A test of one draw. */
typedef struct dg_node_test dg_node_test;
/* Records a failure; returns false. */
bool dg_test_miss(dg_node_test *k, const dg_trial *t, const char *port, const char *help,
                  const char *fmt, ...) DG_PRINTF(5, 6);
/* Adds n tested things and the largest error, relative to the tensor's largest magnitude; negative:
 * no numbers were compared. */
void dg_test_tally(dg_node_test *k, int n, const char *what, double worst);

/* The class refuses the draw; d has the reason. */
bool dg_test_refuse(dg_node_test *k, const dg_diag *d); /* returns true */
/* Nothing is declared that the draw could violate; a test that is idle for all draws is skipped.
 * why: a constant. */
bool dg_test_idle(dg_node_test *k, const char *why); /* returns true */
bool dg_test_refused(const dg_node_test *k);
/* the class's first message, with its file */
const char *dg_test_why(dg_arena *a, const dg_diag *d);
/* Checks that boxes are inside the image and labels below n_classes. */
bool dg_test_objects(dg_node_test *k, dg_trial *t, const dg_sample *s, int n_classes);
/* The allocator that classes are given: zeroed memory from an arena. */
void *dg_test_alloc(void *arena, size_t bytes);
/* Runs run(each) for n things of `bytes` bytes, on parallel threads. */
void dg_test_at_once(void *(*run)(void *each), void *things, size_t bytes, int n);

bool dg_test_shapes(dg_node_test *k, dg_trial *t);
bool dg_test_parameters(dg_node_test *k, dg_trial *t);
bool dg_test_gradients(dg_node_test *k, dg_trial *t);
bool dg_test_kernels(dg_node_test *k, dg_trial *t);
bool dg_test_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_f32(dg_node_test *k, dg_trial *t);
bool dg_test_bf16(dg_node_test *k, dg_trial *t);
bool dg_test_empty(dg_node_test *k, dg_trial *t);
bool dg_test_ranks(dg_node_test *k, dg_trial *t);
bool dg_test_item(dg_node_test *k, dg_trial *t);
bool dg_test_item_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_items(dg_node_test *k, dg_trial *t);
bool dg_test_items_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_reopen(dg_node_test *k, dg_trial *t);
bool dg_test_digest(dg_node_test *k, dg_trial *t);
bool dg_test_sizes(dg_node_test *k, dg_trial *t);
bool dg_test_plan(dg_node_test *k, dg_trial *t);
bool dg_test_plan_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_plan_ranks(dg_node_test *k, dg_trial *t);
bool dg_test_plan_content(dg_node_test *k, dg_trial *t);
bool dg_test_plan_few(dg_node_test *k, dg_trial *t);
bool dg_test_choice(dg_node_test *k, dg_trial *t);
bool dg_test_choice_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_choice_ranks(dg_node_test *k, dg_trial *t);
bool dg_test_choice_content(dg_node_test *k, dg_trial *t);
bool dg_test_feeds(dg_node_test *k, dg_trial *t);
bool dg_test_fill(dg_node_test *k, dg_trial *t);
bool dg_test_fill_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_capacity(dg_node_test *k, dg_trial *t);
bool dg_test_metrics(dg_node_test *k, dg_trial *t);
bool dg_test_metrics_repeat(dg_node_test *k, dg_trial *t);
bool dg_test_padding(dg_node_test *k, dg_trial *t);
bool dg_test_order(dg_node_test *k, dg_trial *t);
bool dg_test_joined(dg_node_test *k, dg_trial *t);
bool dg_test_nothing(dg_node_test *k, dg_trial *t);
bool dg_test_number(dg_node_test *k, dg_trial *t);
bool dg_test_number_ranks(dg_node_test *k, dg_trial *t);

#endif
