/* onnx_internal.h: shared by onnx.c (values, messages, the file) and onnx_ops.c (one function per
 * op). */
#ifndef DG_WEIGHTS_ONNX_INTERNAL_H
#define DG_WEIGHTS_ONNX_INTERNAL_H

#include "base/map.h"
#include "base/proto.h"
#include "kernels/attrs.h"
#include "exec/store.h"
#include "tensor/program.h"

/* Our feature maps are channels-last, ONNX convolves channels-first. A value may exist in both
 * orders; a Transpose makes the other one when it is needed. */
typedef struct dg_onnx_value {
    const char *plain, *chw; /* names in the file; NULL: not there (yet) */
} dg_onnx_value;

/* A tensor of the file: a parameter, a constant of the program, or integers. */
typedef struct dg_onnx_tensor {
    const char *name;
    dg_shape shape;
    int param; /* -1: values or integers */
    const double *values;
    const int64_t *integers;
    bool half; /* stored as f16 */
} dg_onnx_tensor;

typedef struct dg_onnx {
    const dg_program *p;
    const dg_store *store;
    dg_space space;
    bool half; /* parameters are stored as f16, and cast when the file is loaded */
    dg_diag *d;
    dg_arena *arena;
    int64_t batch;         /* images in the program; the file accepts any number */
    const char *n_name;    /* tensor [1] with the number of images; NULL until needed */
    const char *images;    /* the input whose axis 0 is that number */
    dg_shape input;        /* its shape here: N, height, width, 3 */
    const dg_instr *at;    /* the instruction being translated */
    dg_onnx_value *values; /* by value number */
    dg_str nodes;          /* the graph's fields */
    int n_nodes;
    dg_map *names; /* names of constants already added */
    DG_VEC(dg_onnx_tensor) tensors;
} dg_onnx;

/* ---- attributes of nodes --------------------------------------------------------------------- */

typedef struct dg_onnx_attr {
    const char *name;
    /* as numbered in AttributeProto */
    enum { DG_ONNX_INT = 2, DG_ONNX_FLOAT = 1, DG_ONNX_TEXT = 3, DG_ONNX_INTS = 7 } kind;
    int64_t i;
    double f;
    const char *text;
    const int64_t *ints;
    int n;
} dg_onnx_attr;
#define DG_ONNX_I(name, v) { name, DG_ONNX_INT, .i = (v) }
#define DG_ONNX_F(name, v) { name, DG_ONNX_FLOAT, .f = (v) }
#define DG_ONNX_S(name, v) { name, DG_ONNX_TEXT, .text = (v) }
#define DG_ONNX_N(name, v, count) { name, DG_ONNX_INTS, .ints = (v), .n = (count) }

/* ---- nodes and values ------------------------------------------------------------------------ */

/* Inputs of a node: names; "": absent. */
#define DG_ONNX_IN(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define DG_ONNX_ATTRS(...) ((const dg_onnx_attr[]){ __VA_ARGS__, { .name = NULL } })

/* Appends a node whose outputs get new names; returns the first output. attrs may be NULL. */
const char *dg_onnx_add(dg_onnx *o, const char *type, const char *const in[],
                        const dg_onnx_attr attrs[]);
void dg_onnx_add_n(dg_onnx *o, const char *type, const char *const in[], const dg_onnx_attr attrs[],
                   int n_out, const char *out[]);

const char *dg_onnx_integers(dg_onnx *o, int n, const int64_t v[]); /* a constant i64 [n] */
const char *dg_onnx_number(dg_onnx *o, double v);                   /* a constant f32 [] */
const char *dg_onnx_numbers(dg_onnx *o, int n, const double v[]);   /* f32 [n] */
const char *dg_onnx_images(dg_onnx *o);                             /* i64 [1]: number of images */
/* -1: the remaining size */
const char *dg_onnx_reshape(dg_onnx *o, const char *x, int n, const int64_t d[]);
const char *dg_onnx_transpose(dg_onnx *o, const char *x, int n, const int64_t axes[]);

const char *dg_onnx_plain(dg_onnx *o, int32_t v);
const char *dg_onnx_chw(dg_onnx *o, int32_t v);
dg_shape dg_onnx_shape(const dg_onnx *o, int32_t v);

/* Translates o->at. */
int dg_onnx_op(dg_onnx *o) DG_MUST_USE;

#endif
