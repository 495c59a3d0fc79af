/* onnx_emit.h: what every translation of an op to ONNX is made of. */
#ifndef DG_WEIGHTS_ONNX_EMIT_H
#define DG_WEIGHTS_ONNX_EMIT_H

#include "weights/onnx_internal.h"

/* The sizes for a reshape. */
#define N(v) dg_onnx_fixed(v)
#define SIZES(...) ((const dg_onnx_size[]){ __VA_ARGS__ })

enum { TO_F32 = 1, TO_I32 = 6, TO_I64 = 7, TO_BOOL = 9 }; /* types for Cast */

/* An elementwise function, independent of the order of axes. */
typedef const char *scalar_fn(dg_onnx *o, const char *x);

typedef struct row {
    const char *op;
    int (*emit)(dg_onnx *o, const struct row *r);
    const char *type; /* the operator, if the op is a single one */
    scalar_fn *each;  /* for emit_each, if the op is several */
} row;

static inline int32_t in(const dg_onnx *o, int i)
{
    return o->at->v[i];
}

static inline dg_onnx_value *out(dg_onnx *o, int i)
{
    return &o->values[o->at->v[o->at->n_in + i]];
}

static inline dg_shape out_shape(const dg_onnx *o)
{
    return dg_onnx_shape(o, o->at->v[o->at->n_in]);
}

/* A dimension of the first output. */
static inline dg_onnx_size out_dim(dg_onnx *o, int axis)
{
    return dg_onnx_dim(o, o->at->v[o->at->n_in], axis);
}

static inline const char *plain(dg_onnx *o, int i)
{
    return dg_onnx_plain(o, in(o, i));
}

static inline const char *unary(dg_onnx *o, const char *type, const char *x)
{
    return dg_onnx_add(o, type, DG_ONNX_IN(x), NULL);
}

static inline const char *binary(dg_onnx *o, const char *type, const char *x, const char *y)
{
    return dg_onnx_add(o, type, DG_ONNX_IN(x, y), NULL);
}

static inline const char *cast(dg_onnx *o, const char *x, int to)
{
    return dg_onnx_add(o, "Cast", DG_ONNX_IN(x), DG_ONNX_ATTRS(DG_ONNX_I("to", to)));
}

static inline const char *integer(dg_onnx *o, int64_t v)
{
    return dg_onnx_integers(o, 1, &v);
}

/* Takes elements begin..end-1 of one axis. */
static inline const char *slice_of(dg_onnx *o, const char *x, int64_t axis, dg_onnx_size begin,
                                   dg_onnx_size end)
{
    return dg_onnx_add(o, "Slice",
                       DG_ONNX_IN(x, dg_onnx_list(o, 1, &begin), dg_onnx_list(o, 1, &end),
                                  integer(o, axis)),
                       NULL);
}

static inline const char *slice(dg_onnx *o, const char *x, int64_t axis, int64_t begin, int64_t end)
{
    return slice_of(o, x, axis, dg_onnx_fixed(begin), dg_onnx_fixed(end));
}

static inline int refuse(const dg_onnx *o, const char *what)
{
    return dg_fail(o->d, DG_EUNSUPPORTED, o->at->origin.where, "onnx-op",
                   "%s has no form in ONNX here%s%s", o->at->op->name, *what ? ": " : "", what);
}

/* onnx_attention.c */
int dg_onnx_emit_attention(dg_onnx *o, const row *r);
int dg_onnx_emit_deform_attention(dg_onnx *o, const row *r);
int dg_onnx_emit_box_decode(dg_onnx *o, const row *r);
int dg_onnx_emit_sine_embed(dg_onnx *o, const row *r);

#endif
