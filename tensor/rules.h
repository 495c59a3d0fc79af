/* rules.h: the shape and gradient rules named in ops.def, and their helpers. */
#ifndef DG_TENSOR_RULES_H
#define DG_TENSOR_RULES_H

#include "tensor/ops.h"

#define OP(name, signature, effect, precision, attr, shape, grad, host, tolerance) \
    int dg_shape_##shape(dg_infer *s);                                             \
    void dg_grad_##grad(dg_build *b, dg_grad_call *g);
#include "kernels/ops.def"
#undef OP

/* The shape that a and b broadcast to by NumPy's rule; false if they do not. */
bool dg_broadcast_shape(dg_shape a, dg_shape b, dg_shape *out);
/* Number of window positions over n: (n + 2 pad - size) / stride + 1; <= 0 if none fits. */
int64_t dg_window(int64_t n, int64_t size, int64_t stride, int64_t pad);
/* w [O,I,kh,kw] as devices want it: [O,kh,kw,I]. */
dg_shape dg_packed_shape(dg_shape w);
/* Gives output entry `out` the shape of in[in]. */
int dg_shape_copy(dg_infer *s, int out, int in);

/* Sums g over the axes that were broadcast, back to `shape`. */
dg_val dg_unbroadcast(dg_build *b, dg_val g, dg_shape shape);
/* Emits an op with at most three inputs and one output. */
dg_val dg_emit1(dg_build *b, const dg_op *op, const void *attr, dg_val x, dg_val y, dg_val z,
                int n_in);

#endif
