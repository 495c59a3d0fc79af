/* nodecheck_self.h: what the files of nodecheck share: a draw (attributes, dimensions, numbers), the program that lower makes
 * of it, and its execution. */
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

#endif
