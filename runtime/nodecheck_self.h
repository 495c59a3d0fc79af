/* nodecheck_self.h: what the files of nodecheck share: a draw (attributes, dimensions, numbers), the program that lower makes
 * of it and its execution, and a data set that is drawn. */
#ifndef DG_RUNTIME_NODECHECK_SELF_H
#define DG_RUNTIME_NODECHECK_SELF_H

#include "base/rng.h"
#include "runtime/machine.h"
#include "runtime/nodecheck.h"

typedef enum dg_trial_kind {
    DG_TRIAL_DRAWN,
    DG_TRIAL_DEFAULT,  /* attributes as they are without being given, every input wired */
    DG_TRIAL_SMALLEST, /* so, every dimension 1, every number 0 */
} dg_trial_kind;

#define DG_TRIAL_FILE "check-node" /* what messages call the pipeline of a draw */

/* One draw. */
typedef struct dg_trial {
    const dg_node_class *class;
    dg_registry         *registry;
    const dg_node_check *how;
    uint64_t             seed;
    dg_trial_kind        kind;
    const dg_set        *given; /* one more attribute that is not drawn, or NULL */
    int64_t              ranks; /* on axis dp; 0: there is no such axis */
    bool                 unasked; /* an attribute axis is left out all the same, unless it is required */
    dg_arena            *arena;
    const char          *element;
    dg_graph            *g;
    const dg_node       *node;
    int64_t             *sizes; /* of letters, by root variable; 0: not met yet */
    dg_str               dims;  /* "B=2 N=3" */
    int64_t              least; /* of the sizes: integers stay below it */
    dg_diag             *d;
} dg_trial;

/* 0; 1: the class refuses these attributes, d says why; -DG_E...: they cannot be tried, d says why. */
int  dg_trial_open(dg_trial *t);
void dg_trial_close(dg_trial *t);

/* Of the draw: where the numbers of an input come from, or NULL; the shape of a type. */
const dg_number_range *dg_trial_range(const dg_trial *t, const char *name);
dg_shape               dg_trial_shape(const dg_trial *t, const dg_contract *c);
bool                   dg_trial_shares(const dg_trial *t); /* its attribute axis names the ranks' */
/* Does a row of this kind hold that says from what it follows (from), or over what (not from)? */
bool dg_trial_declares(const dg_trial *t, dg_rule_kind kind, bool from);

/* n items of 3 classes, without files, in the arena. Those with other objects or sizes are alike in all else. */
enum { DG_OTHER_OBJECTS = 1, DG_OTHER_SIZES = 2, DG_DRAWN_CLASSES = 3 };
const dg_dataset *dg_trial_data(const dg_trial *t, int n, unsigned other);

typedef struct dg_leaf { /* a tensor among a node's inputs or outputs */
    const char *name; /* "targets.boxes" */
    int32_t     value;
    int         param; /* of a real input: it is one, so that it has a gradient; else -1 */
} dg_leaf;

/* A draw as a program: inputs, the node, a loss over its outputs and the gradients. */
typedef struct dg_probe {
    const dg_trial *trial;
    dg_params      *params;
    dg_program     *p;
    dg_diag        *d;
    DG_VEC(dg_leaf) in, out;
    int32_t         loss; /* 0: no output is real and follows from anything */
    const char     *wrong; /* an output that does not keep its type: what is wrong with it; */
    const char     *wrong_port;
    const dg_port  *missing; /* an output that lower leaves open */
} dg_probe;

/* 0; 1: lower refuses (dg_error); -DG_E...: the builder does, or a type is not kept. */
int  dg_probe_open(dg_probe *pr, dg_trial *t, bool training);
void dg_probe_close(dg_probe *pr);
bool dg_probe_is_input(const dg_probe *pr, int param);
/* Numbers of a parameter (an input's, or the node's own: initial values, moved a little so that zeros are none) and of an
 * integer input. */
void dg_probe_numbers(const dg_probe *pr, int param, double *out);
void dg_probe_integers(const dg_probe *pr, const dg_leaf *leaf, double *out);

/* Everything that a draw comes to: outputs and gradients, as doubles. */
typedef struct dg_outcome {
    int      n; /* outputs, then the gradients of all parameters that reach the loss */
    const char **names;
    bool    *is_gradient;
    dg_shape *shapes;
    double **numbers;
} dg_outcome;

dg_machine *dg_probe_machine(const dg_probe *pr, int bits); /* with all numbers in place */
void dg_machine_outcome(dg_outcome *o, const dg_probe *pr, const dg_machine *m);
/* As a run does it: passes, plan, kernels of the host. low: DG_BF16 or DG_F32. The program is used up. */
int dg_probe_execute(dg_outcome *o, dg_probe *pr, dg_dtype low, int threads, dg_diag *d) DG_MUST_USE;

/* A test of one draw. */
typedef struct dg_node_test dg_node_test;
bool dg_test_miss(dg_node_test *k, const dg_trial *t, const char *port, const char *help, const char *fmt, ...)
    DG_PRINTF(5, 6); /* false */
/* What was tried: so many things, with this largest error, relative to a tensor's largest; negative: no numbers were compared. */
void dg_test_tally(dg_node_test *k, int n, const char *what, double worst);

/* The class refuses the draw, and says why. */
bool        dg_test_refuse(dg_node_test *k, const dg_diag *d); /* true */
/* Nothing is declared that could be broken; a test that is idle in all draws is skipped. why: a constant. */
bool        dg_test_idle(dg_node_test *k, const char *why); /* true */
bool        dg_test_refused(const dg_node_test *k);
const char *dg_test_why(dg_arena *a, const dg_diag *d);        /* what the class has said first, and about which file */
/* Boxes inside the image, labels below n_classes? */
bool dg_test_objects(dg_node_test *k, dg_trial *t, const dg_sample *s, int n_classes);
/* As classes ask for memory. */
void *dg_test_alloc(void *arena, size_t bytes);
/* run(each), for each of n things of so many bytes, on threads side by side. */
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
