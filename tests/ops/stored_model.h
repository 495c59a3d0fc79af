/* stored_model.h: an entry of data/ops.json as a program under construction: its inputs and
 * parameters by the value formula, then its outputs and gradients compared with the stored
 * arrays. Arrays of images are [B,C,H,W] in the file and channels-last here; `image` says so. */
#ifndef DG_TESTS_OPS_STORED_MODEL_H
#define DG_TESTS_OPS_STORED_MODEL_H

#include "media/json.h"
#include "check/interpreter.h"

typedef struct stored_value {
    dg_val v;
    const double *values; /* our layout */
} stored_value;

typedef struct stored_worst { /* largest error over an array's maximum */
    double error;
    char where[64];
} stored_worst;

typedef struct model {
    dg_arena *arena;
    const dg_json *entry;
    const char *name, *prefix;
    int bits;
    double loose; /* f32 may be off by so many times the usual; 0: once */
    dg_diag *d;
    dg_params *params;
    dg_program *p;
    dg_build *b;
    dg_interpreter *m;
    dg_val loss;
    DG_VEC(stored_value) set;
    stored_worst *worst; /* by precision: [0] f32, [1] f64 */
} model;

void model_open(model *m, const dg_json *file, const char *name, int bits, stored_worst *worst);
void model_close(model *m);

/* inputs.<key>: a live parameter; model_fixed: an input without gradient. */
dg_val model_input(model *m, const char *key, bool image);
double *model_numbers(model *m, const char *key, bool image, dg_shape *shape);
dg_val model_live(model *m, const char *name, dg_shape shape, const double *values);
dg_val model_fixed(model *m, dg_dtype type, const char *name, dg_shape shape, const double *values);
/* A parameter of the model, by the parameter rule: prefix + key. running_*: buffers. */
dg_val model_param(model *m, const char *key, dg_shape shape);
/* Adds sum(y * grad_out) to the loss; model_scalar_loss adds y itself. */
void model_loss(model *m, dg_val y, bool image);
void model_scalar_loss(model *m, dg_val y);

/* Differentiates and runs. Then: */
void model_run(model *m);
/* Compares v with the stored array (or number) at `stored`. */
void model_check(model *m, dg_val v, const dg_json *stored, bool image, const char *what);
/* Compares the gradient of a live value; scale: stored = scale * ours. */
void model_check_gradient(model *m, dg_val v, const dg_json *stored, bool image, double scale,
                          const char *what);
/* Every parameter in param_grad, or, if there is none, in grad. */
void model_check_parameters(model *m);
void model_check_number(model *m, double own, double stored, double most, const char *what);

/* A path of keys, "grad/x"; must exist. */
const dg_json *model_at(const model *m, const char *path);

#endif
