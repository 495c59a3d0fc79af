/* tensor.h: element types, shapes, and a dense tensor in memory. */
#ifndef DETRGRAPH_TENSOR_H
#define DETRGRAPH_TENSOR_H

#include <detrgraph/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DG_REAL is a real number whose storage type the precision pass will choose; kernels never see
 * it. */
typedef enum dg_dtype {
    DG_REAL,
    DG_F32,
    DG_F64,
    DG_BF16,
    DG_I32,
    DG_I64,
    DG_U8,
    DG_N_DTYPES
} dg_dtype;

DG_PUBLIC size_t dg_dtype_size(dg_dtype t);      /* bytes of one element; 0 for DG_REAL */
DG_PUBLIC const char *dg_dtype_name(dg_dtype t); /* "f32" */
static inline bool dg_dtype_is_real(dg_dtype t)
{
    return t <= DG_BF16;
}

enum { DG_MAX_DIMS = 6 };

/* Row-major; rank 0 is a scalar with one element. Every dimension is at least 1: a count
 * beside the tensor, not a dimension of 0, expresses emptiness. */
typedef struct dg_shape {
    int rank;
    int64_t d[DG_MAX_DIMS];
} dg_shape;

#define DG_N_ARGS_(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
#define DG_SHAPE(...) ((dg_shape){ (int)DG_N_ARGS_(__VA_ARGS__), { __VA_ARGS__ } })
#define DG_SCALAR ((dg_shape){ 0, { 0 } })

DG_PUBLIC int64_t dg_shape_elements(dg_shape s);
DG_PUBLIC bool dg_shape_equal(dg_shape a, dg_shape b);
/* Writes "[4,300,256]" to buf, truncated to n bytes, and returns buf. */
DG_PUBLIC char *dg_shape_print(dg_shape s, char *buf, size_t n);

/* A dense tensor of dg_shape_elements(shape) elements. data == NULL: an absent optional operand. */
typedef struct dg_tensor {
    dg_dtype dtype;
    dg_shape shape;
    void *data;
} dg_tensor;

#ifdef __cplusplus
}
#endif
#endif
