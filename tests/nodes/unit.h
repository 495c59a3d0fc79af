/* unit.h: a node class on its own: inputs with given numbers, parameters by the value formula
 * (tests/ops/formula.h), draws from a function, run by reference kernels in f64 or f32. */
#ifndef DG_TESTS_NODES_UNIT_H
#define DG_TESTS_NODES_UNIT_H

#include "check/interpreter.h"
#include <detrgraph/node.h>

typedef struct unit_value {
    dg_val v;
    const double *values;
} unit_value;

typedef struct unit {
    dg_arena *arena;
    dg_diag *d;
    dg_params *params;
    dg_program *p;
    dg_build *b;
    dg_interpreter *m;
    int bits;
    DG_VEC(unit_value) set;
    /* number i of the draw "node/name"; i counts through the batch */
    double (*draw)(void *ctx, const char *name, int64_t i, int64_t each);
    void *ctx;
} unit;

void unit_open(unit *u, int bits, bool training);
void unit_close(unit *u);
/* The node whose inputs, parameters and draws follow. */
void unit_enter(unit *u, const char *name);
/* An input, or, if live, a parameter, whose gradient is wanted. The numbers are not copied. */
dg_val unit_input(unit *u, dg_dtype type, bool live, const char *name, dg_shape shape,
                  const double *values);
/* A class's conf with the defaults of its table; sets a number, a word's number or a flag of it. */
void *unit_conf(unit *u, const dg_node_class *class);
void unit_set(const dg_node_class *class, void *conf, const char *name, double value);
/* Lowers the class; fails the test if it reports an error. */
void unit_lower(unit *u, const dg_node_class *class, const void *conf, const dg_val in[],
                dg_val out[]);
/* Runs the program; loss: differentiates it, or DG_NONE. */
void unit_run(unit *u, dg_val loss);
/* Again, after a change of values. */
void unit_rerun(unit *u);

/* The value that a node named so; 0 fails the test. */
int32_t unit_named(const unit *u, const char *name);
double unit_get(const unit *u, const char *name, int64_t i);
/* The gradient of a parameter or live input by its name; 0: it has none. */
int32_t unit_gradient(const unit *u, const char *param);

/* For unit.draw: the fixtures' keys of Co-DETR's other heads. */
double unit_head_key(void *ctx, const char *name, int64_t i, int64_t each);

#endif
