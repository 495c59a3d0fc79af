/* shape.c: ops that move numbers without changing them, and sums and maxima over axes. */
#include <string.h>

#include "kernels/ref/ref.h"

static int reshape(const dg_args *a)
{
    if (out(a, 1) != in(a, 0))
        memcpy(out(a, 1), in(a, 0), (size_t)elements(a, 0) * sizeof(real));
    return 0;
}

static int reshape_i32(const dg_args *a)
{
    if (out_i32(a, 1) != in_i32(a, 0))
        memcpy(out_i32(a, 1), in_i32(a, 0), (size_t)elements(a, 0) * sizeof(int32_t));
    return 0;
}

/* Axis k of y is axis d[k] of x. */
static int permute(const dg_args *a)
{
    const shape_attr *f = a->attr;
    const dg_shape   *x = &a->t[0].shape, *y = &a->t[1].shape;
    int64_t           step[DG_MAX_DIMS]; /* of x, along the axes of y */

    for (int k = 0; k < y->rank; k++) {
        step[k] = 1;
        for (int64_t axis = f->d[k] + 1; axis < x->rank; axis++)
            step[k] *= x->d[axis];
    }
    for (int64_t n = 0; n < elements(a, 1); n++) {
        int64_t from = 0, rest = n;

        for (int k = y->rank - 1; k >= 0; k--) {
            from += rest % y->d[k] * step[k];
            rest /= y->d[k];
        }
        out(a, 1)[n] = in(a, 0)[from];
    }
    return 0;
}

/* A tensor seen from one axis: [before, d, after]. */
typedef struct split {
    int64_t before, d, after;
} split;

static split split_at(const dg_tensor *t, int64_t axis)
{
    split s = { 1, t->shape.d[axis], 1 };

    for (int k = 0; k < t->shape.rank; k++)
        if (k < axis)
            s.before *= t->shape.d[k];
        else if (k > axis)
            s.after *= t->shape.d[k];
    return s;
}

/* Copies [before, d, after] between two tensors that differ in d alone: rows from_row.. of x to
 * to_row.. of y. */
static void copy_rows(const real *x, split from, int64_t from_row, real *y, split to,
                      int64_t to_row, int64_t n)
{
    for (int64_t b = 0; b < from.before; b++)
        memcpy(y + (b * to.d + to_row) * to.after, x + (b * from.d + from_row) * from.after,
               (size_t)(n * from.after) * sizeof(real));
}

static int concat(const dg_args *a)
{
    const axis_attr *f = a->attr;
    int              y = a->n - 1;
    int64_t          row = 0;

    for (int i = 0; i < y; i++) {
        split s = split_at(&a->t[i], f->axis);

        copy_rows(in(a, i), s, 0, out(a, y), split_at(&a->t[y], f->axis), row, s.d);
        row += s.d;
    }
    return 0;
}

/* Rows begin..end-1 of the axis. */
static int slice(const dg_args *a)
{
    const axis_attr *f = a->attr;
    split            y = split_at(&a->t[1], f->axis);

    copy_rows(in(a, 0), split_at(&a->t[0], f->axis), f->begin, out(a, 1), y, 0, y.d);
    return 0;
}

/* begin rows of zeros before, end rows after. */
static int pad(const dg_args *a)
{
    const axis_attr *f = a->attr;
    split            x = split_at(&a->t[0], f->axis);

    memset(out(a, 1), 0, (size_t)elements(a, 1) * sizeof(real));
    copy_rows(in(a, 0), x, 0, out(a, 1), split_at(&a->t[1], f->axis), f->begin, x.d);
    return 0;
}

/* Repeats x along the axes where it has 1 or nothing. */
static int expand(const dg_args *a)
{
    const dg_shape *x = &a->t[0].shape, *y = &a->t[1].shape;

    for (int64_t n = 0; n < elements(a, 1); n++) {
        int64_t from = 0, rest = n, step = 1;

        for (int k = y->rank - 1, own = x->rank - 1; own >= 0; k--, own--) {
            if (x->d[own] > 1)
                from += rest % y->d[k] * step;
            step *= x->d[own];
            rest /= y->d[k];
        }
        out(a, 1)[n] = in(a, 0)[from];
    }
    return 0;
}

static int fill(const dg_args *a)
{
    const fill_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, 0); n++)
        out(a, 0)[n] = (real)f->a;
    return 0;
}

/* --- sums and maxima -------------------------------------------------------------------------- */

/* Axes of x whose bits are set in `axes` are reduced; y holds the others in order. Element n of
 * x belongs to this element of y: */
static int64_t target(const dg_shape *x, int64_t axes, int64_t n)
{
    int64_t at = 0, size = 1;

    for (int k = x->rank - 1; k >= 0; k--) {
        if (!(axes >> k & 1)) {
            at += n % x->d[k] * size;
            size *= x->d[k];
        }
        n /= x->d[k];
    }
    return at;
}

static int prepare_sum(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[1].shape) * sizeof(double);
    return 0;
}

static int sum(const dg_args *a)
{
    const axes_attr *f = a->attr;
    double          *total = a->workspace;

    memset(total, 0, (size_t)elements(a, 1) * sizeof(double));
    for (int64_t n = 0; n < elements(a, 0); n++)
        total[target(&a->t[0].shape, f->axes, n)] += in(a, 0)[n];
    for (int64_t n = 0; n < elements(a, 1); n++)
        out(a, 1)[n] = (real)total[n];
    return 0;
}

static int sum_i32(const dg_args *a)
{
    const axes_attr *f = a->attr;

    memset(out_i32(a, 1), 0, (size_t)elements(a, 1) * sizeof(int32_t));
    for (int64_t n = 0; n < elements(a, 0); n++)
        out_i32(a, 1)[target(&a->t[0].shape, f->axes, n)] += in_i32(a, 0)[n];
    return 0;
}

/* The first element of every group of axes is met first: bits of coordinates that are reduced
 * are all 0. */
static bool is_first(const dg_shape *x, int64_t axes, int64_t n)
{
    for (int k = x->rank - 1; k >= 0; k--) {
        if ((axes >> k & 1) && n % x->d[k])
            return false;
        n /= x->d[k];
    }
    return true;
}

/* A NaN among the elements is the result. */
static int reduce_max(const dg_args *a)
{
    const axes_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, 0); n++) {
        real *y = out(a, 1) + target(&a->t[0].shape, f->axes, n), x = in(a, 0)[n];

        if (is_first(&a->t[0].shape, f->axes, n) || x > *y || x != x)
            *y = x;
    }
    return 0;
}

static int reduce_max_i32(const dg_args *a)
{
    const axes_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, 0); n++) {
        int32_t *y = out_i32(a, 1) + target(&a->t[0].shape, f->axes, n), x = in_i32(a, 0)[n];

        if (is_first(&a->t[0].shape, f->axes, n) || x > *y)
            *y = x;
    }
    return 0;
}

DG_REF(reshape, NULL, reshape);
DG_REF(reshape_i32, NULL, reshape_i32);
DG_REF(permute, NULL, permute);
DG_REF(concat, NULL, concat);
DG_REF(slice, NULL, slice);
DG_REF(pad, NULL, pad);
DG_REF(expand, NULL, expand);
DG_REF(fill, NULL, fill);
DG_REF(sum, prepare_sum, sum);
DG_REF(sum_i32, NULL, sum_i32);
DG_REF(reduce_max, NULL, reduce_max);
DG_REF(reduce_max_i32, NULL, reduce_max_i32);
