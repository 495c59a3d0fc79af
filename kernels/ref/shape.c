/* shape.c: ops that move elements without changing them; sums and maxima over axes. */
#include <string.h>

#include "kernels/ref/ref.h"

static int reshape(const dg_args *a)
{
    if (out(a, DG_RESHAPE_Y) != in(a, DG_RESHAPE_X))
        memcpy(out(a, DG_RESHAPE_Y), in(a, DG_RESHAPE_X),
               (size_t)elements(a, DG_RESHAPE_X) * sizeof(real));
    return 0;
}

static int reshape_i32(const dg_args *a)
{
    if (out_i32(a, DG_RESHAPE_I32_Y) != in_i32(a, DG_RESHAPE_I32_X))
        memcpy(out_i32(a, DG_RESHAPE_I32_Y), in_i32(a, DG_RESHAPE_I32_X),
               (size_t)elements(a, DG_RESHAPE_I32_X) * sizeof(int32_t));
    return 0;
}

/* Axis k of y is axis d[k] of x. */
static int permute(const dg_args *a)
{
    const shape_attr *f = a->attr;
    const dg_shape *x = &a->t[DG_PERMUTE_X].shape, *y = &a->t[DG_PERMUTE_Y].shape;
    int64_t step[DG_MAX_DIMS] = { 0 }; /* strides of x along the axes of y, elements */

    for (int k = 0; k < y->rank; k++) {
        step[k] = 1;
        for (int64_t axis = f->d[k] + 1; axis < x->rank && axis < DG_MAX_DIMS; axis++)
            step[k] *= x->d[axis];
    }
    for (int64_t n = 0; n < elements(a, DG_PERMUTE_Y); n++) {
        int64_t from = 0, rest = n;

        for (int k = y->rank - 1; k >= 0; k--) {
            from += rest % y->d[k] * step[k];
            rest /= y->d[k];
        }
        out(a, DG_PERMUTE_Y)[n] = in(a, DG_PERMUTE_X)[from];
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

/* Copies n rows of [before, d, after], from row from_row of x to row to_row of y; the tensors
 * differ only in d. */
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
    int y = a->n - 1;
    int64_t row = 0;

    for (int i = 0; i < y; i++) {
        split s = split_at(&a->t[i], f->axis);

        copy_rows(in(a, i), s, 0, out(a, y), split_at(&a->t[y], f->axis), row, s.d);
        row += s.d;
    }
    return 0;
}

/* y = rows begin..end-1 of the axis. */
static int slice(const dg_args *a)
{
    const axis_attr *f = a->attr;
    split y = split_at(&a->t[DG_SLICE_Y], f->axis);

    copy_rows(in(a, DG_SLICE_X), split_at(&a->t[DG_SLICE_X], f->axis), f->begin, out(a, DG_SLICE_Y),
              y, 0, y.d);
    return 0;
}

/* y = x with `begin` rows of zeros before and `end` after. */
static int pad(const dg_args *a)
{
    const axis_attr *f = a->attr;
    split x = split_at(&a->t[DG_PAD_X], f->axis);

    memset(out(a, DG_PAD_Y), 0, (size_t)elements(a, DG_PAD_Y) * sizeof(real));
    copy_rows(in(a, DG_PAD_X), x, 0, out(a, DG_PAD_Y), split_at(&a->t[DG_PAD_Y], f->axis), f->begin,
              x.d);
    return 0;
}

/* Repeats x along axes where it has size 1 or none. */
static int expand(const dg_args *a)
{
    const dg_shape *x = &a->t[DG_EXPAND_X].shape, *y = &a->t[DG_EXPAND_Y].shape;

    for (int64_t n = 0; n < elements(a, DG_EXPAND_Y); n++) {
        int64_t from = 0, rest = n, step = 1;

        for (int k = y->rank - 1, own = x->rank - 1; own >= 0; k--, own--) {
            if (x->d[own] > 1)
                from += rest % y->d[k] * step;
            step *= x->d[own];
            rest /= y->d[k];
        }
        out(a, DG_EXPAND_Y)[n] = in(a, DG_EXPAND_X)[from];
    }
    return 0;
}

static int fill(const dg_args *a)
{
    const fill_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_FILL_Y); n++)
        out(a, DG_FILL_Y)[n] = (real)f->a;
    return 0;
}

/* ---- sums and maxima ------------------------------------------------------------------------- */

/* Index in y of element n of x: the axes whose bits are set in `axes` are reduced, y has the others
 * in order. */
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
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_SUM_Y].shape) * sizeof(double);
    return 0;
}

static int sum(const dg_args *a)
{
    const axes_attr *f = a->attr;
    double *total = a->workspace;

    memset(total, 0, (size_t)elements(a, DG_SUM_Y) * sizeof(double));
    for (int64_t n = 0; n < elements(a, DG_SUM_X); n++)
        total[target(&a->t[DG_SUM_X].shape, f->axes, n)] += in(a, DG_SUM_X)[n];
    for (int64_t n = 0; n < elements(a, DG_SUM_Y); n++)
        out(a, DG_SUM_Y)[n] = (real)total[n];
    return 0;
}

static int sum_i32(const dg_args *a)
{
    const axes_attr *f = a->attr;

    memset(out_i32(a, DG_SUM_I32_Y), 0, (size_t)elements(a, DG_SUM_I32_Y) * sizeof(int32_t));
    for (int64_t n = 0; n < elements(a, DG_SUM_I32_X); n++)
        out_i32(a, DG_SUM_I32_Y)[target(&a->t[DG_SUM_I32_X].shape, f->axes, n)] +=
            in_i32(a, DG_SUM_I32_X)[n];
    return 0;
}

/* True if element n is the first of its group: all reduced coordinates are 0. */
static bool is_first(const dg_shape *x, int64_t axes, int64_t n)
{
    for (int k = x->rank - 1; k >= 0; k--) {
        if ((axes >> k & 1) && n % x->d[k])
            return false;
        n /= x->d[k];
    }
    return true;
}

/* NaN wins. */
static int reduce_max(const dg_args *a)
{
    const axes_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_REDUCE_MAX_X); n++) {
        real *y = out(a, DG_REDUCE_MAX_Y) + target(&a->t[DG_REDUCE_MAX_X].shape, f->axes, n),
             x = in(a, DG_REDUCE_MAX_X)[n];

        if (is_first(&a->t[DG_REDUCE_MAX_X].shape, f->axes, n) || x > *y || x != x)
            *y = x;
    }
    return 0;
}

static int reduce_max_i32(const dg_args *a)
{
    const axes_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_REDUCE_MAX_I32_X); n++) {
        int32_t *y = out_i32(a, DG_REDUCE_MAX_I32_Y) +
                     target(&a->t[DG_REDUCE_MAX_I32_X].shape, f->axes, n),
                x = in_i32(a, DG_REDUCE_MAX_I32_X)[n];

        if (is_first(&a->t[DG_REDUCE_MAX_I32_X].shape, f->axes, n) || x > *y)
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
