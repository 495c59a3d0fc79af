/* onnx_internal.h: shared by onnx.c (values, messages, the file) and onnx_ops.c (one function per
 * op). */
#ifndef DG_WEIGHTS_ONNX_INTERNAL_H
#define DG_WEIGHTS_ONNX_INTERNAL_H

#include "base/map.h"
#include "base/proto.h"
#include "kernels/attrs.h"
#include "exec/store.h"
#include "graph/graph.h"
#include "tensor/program.h"

/* A size: the number n, or an i64 [1] that the file computes of the images' size. */
typedef struct dg_onnx_size {
    int64_t n;
    const char *value; /* its name; NULL: n */
} dg_onnx_size;

typedef struct dg_onnx_sizes dg_onnx_sizes;

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
    dg_onnx_sizes *sizes;  /* NULL: height and width are fixed */
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
const char *dg_onnx_reshape(dg_onnx *o, const char *x, int n, const dg_onnx_size d[]);
const char *dg_onnx_transpose(dg_onnx *o, const char *x, int n, const int64_t axes[]);

const char *dg_onnx_plain(dg_onnx *o, int32_t v);
const char *dg_onnx_chw(dg_onnx *o, int32_t v);
/* For what does not follow the images' size: the rank, channels. */
dg_shape dg_onnx_shape(const dg_onnx *o, int32_t v);

/* ---- sizes (onnx_sizes.c) -------------------------------------------------------------------- */

static inline dg_onnx_size dg_onnx_fixed(int64_t n)
{
    return (dg_onnx_size){ .n = n };
}

/* Makes the size of images free: o->p becomes a program of this evaluation. A model that cannot
 * have it is an error ("onnx-size"). */
int dg_onnx_sizes_open(dg_onnx *o, const dg_graph *g, dg_params *params) DG_MUST_USE;
void dg_onnx_sizes_close(dg_onnx_sizes **s);

dg_onnx_size dg_onnx_dim(dg_onnx *o, int32_t v, int axis); /* of a value */
/* Height and width of a level of o->at, which is a deform_attention. */
void dg_onnx_level(dg_onnx *o, int l, dg_onnx_size *h, dg_onnx_size *w);
dg_onnx_size dg_onnx_plus(dg_onnx *o, dg_onnx_size a, dg_onnx_size b);
dg_onnx_size dg_onnx_times(dg_onnx *o, dg_onnx_size a, dg_onnx_size b);
const char *dg_onnx_list(dg_onnx *o, int n, const dg_onnx_size v[]); /* i64 [n] */
/* The values of a constant made by dg_const_of_maps. */
const char *dg_onnx_of_maps(dg_onnx *o, int32_t v);

/* Translates o->at. */
int dg_onnx_op(dg_onnx *o) DG_MUST_USE;

#endif
