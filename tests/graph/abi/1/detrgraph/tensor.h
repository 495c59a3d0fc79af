/* tensor.h: element types, shapes, and a dense tensor in memory. */
#ifndef DETRGRAPH_TENSOR_H
#define DETRGRAPH_TENSOR_H

#include <detrgraph/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DG_REAL is "a real number whose storage the precision pass chooses"; it stands in programs before that
 * pass and never reaches a kernel. */
typedef enum dg_dtype { DG_REAL, DG_F32, DG_F64, DG_BF16, DG_I32, DG_I64, DG_U8, DG_N_DTYPES } dg_dtype;

DG_PUBLIC size_t      dg_dtype_size(dg_dtype t); /* bytes of one element; 0 for DG_REAL */
DG_PUBLIC const char *dg_dtype_name(dg_dtype t); /* "f32" */
static inline bool dg_dtype_is_real(dg_dtype t) { return t <= DG_BF16; }

enum { DG_MAX_DIMS = 6 };

/* Row-major; rank 0 is a scalar with one element. Every dimension is at least 1: emptiness is a count
 * beside a tensor, never a dimension of 0. */
typedef struct dg_shape {
    int     rank;
    int64_t d[DG_MAX_DIMS];
} dg_shape;

#define DG_N_ARGS_(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
#define DG_SHAPE(...) ((dg_shape){ (int)DG_N_ARGS_(__VA_ARGS__), { __VA_ARGS__ } })
#define DG_SCALAR ((dg_shape){ 0, { 0 } })

DG_PUBLIC int64_t dg_shape_elements(dg_shape s);
DG_PUBLIC bool    dg_shape_equal(dg_shape a, dg_shape b);
/* "[4,300,256]" into buf, which is returned; cut to n bytes. */
DG_PUBLIC char   *dg_shape_print(dg_shape s, char *buf, size_t n);

/* A dense tensor: data has dg_shape_elements(shape) elements of dtype. data == NULL: an optional operand
 * that is absent. */
typedef struct dg_tensor {
    dg_dtype dtype;
    dg_shape shape;
    void    *data;
} dg_tensor;

#ifdef __cplusplus
}
#endif
#endif
