/* shape.c: ops that move elements without changing them: 2, 4 or 8 bytes each, in runs as long as
 * the layouts allow. */
#include "kernels/host/simd/simd.h"

/* ---- copies of rows -------------------------------------------------------------------------- */

/* n runs of `bytes` from from + i * from_step to to + i * to_step. */
typedef struct copy {
    char *to;
    const char *from;
    int64_t to_step, from_step, bytes;
} copy;

static void copy_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const copy *c = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        memcpy(c->to + i * c->to_step, c->from + i * c->from_step, (size_t)c->bytes);
}

static void run_copy(const dg_args *a, int64_t n, copy c)
{
    enum { PIECE = 1 << 16 };

    if (n == 1 && c.bytes > 2 * PIECE) { /* one long run: split into pieces, plus the rest */
        copy rest = { c.to + c.bytes / PIECE * PIECE, c.from + c.bytes / PIECE * PIECE, 0, 0,
                      c.bytes % PIECE };

        n = c.bytes / PIECE;
        c.to_step = c.from_step = c.bytes = PIECE;
        copy_body(&rest, 0, 1, 0);
    }
    parallel(a, n, c.bytes / 4 + 1, copy_body, &c);
}

static int64_t size_of(const dg_args *a, int i)
{
    return (int64_t)dg_dtype_size(a->t[i].dtype);
}

static int reshape(const dg_args *a)
{
    if (a->t[DG_RESHAPE_X].data != a->t[DG_RESHAPE_Y].data)
        run_copy(a, 1,
                 (copy){ a->t[DG_RESHAPE_Y].data, a->t[DG_RESHAPE_X].data, 0, 0,
                         elements(a, DG_RESHAPE_X) * size_of(a, DG_RESHAPE_X) });
    return 0;
}

/* A tensor seen from one axis: [before, d, after]; after in bytes. */
typedef struct split {
    int64_t before, d, after;
} split;

static split split_at(const dg_args *a, int i, int64_t axis)
{
    const dg_shape *x = &a->t[i].shape;
    split s = { 1, x->d[axis], size_of(a, i) };

    for (int k = 0; k < x->rank; k++)
        if (k < axis)
            s.before *= x->d[k];
        else if (k > axis)
            s.after *= x->d[k];
    return s;
}

/* Copies n rows of the axis from row `from` of x to row `to` of y. */
static void copy_rows(const dg_args *a, int x, int64_t from, int y, int64_t to, int64_t n,
                      int64_t axis)
{
    split sx = split_at(a, x, axis), sy = split_at(a, y, axis);

    run_copy(a, sx.before,
             (copy){ (char *)a->t[y].data + to * sy.after,
                     (const char *)a->t[x].data + from * sx.after, sy.d * sy.after, sx.d * sx.after,
                     n * sx.after });
}

static int concat(const dg_args *a)
{
    const axis_attr *f = a->attr;
    int64_t row = 0;

    for (int i = 0; i < a->n - 1; i++) {
        int64_t n = a->t[i].shape.d[f->axis];

        copy_rows(a, i, 0, a->n - 1, row, n, f->axis);
        row += n;
    }
    return 0;
}

static int slice(const dg_args *a)
{
    const axis_attr *f = a->attr;

    copy_rows(a, DG_SLICE_X, f->begin, 1, 0, a->t[DG_SLICE_Y].shape.d[f->axis], f->axis);
    return 0;
}

typedef struct zero {
    char *to;
    int64_t step, bytes;
} zero;

static void zero_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const zero *z = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        memset(z->to + i * z->step, 0, (size_t)z->bytes);
}

static void zero_rows(const dg_args *a, split s, int64_t row, int64_t n)
{
    zero z = { (char *)a->t[DG_PAD_Y].data + row * s.after, s.d * s.after, n * s.after };

    parallel(a, s.before, z.bytes / 4 + 1, zero_body, &z);
}

static int pad(const dg_args *a)
{
    const axis_attr *f = a->attr;
    split s = split_at(a, DG_PAD_Y, f->axis);
    int64_t n = a->t[DG_PAD_X].shape.d[f->axis];

    zero_rows(a, s, 0, f->begin);
    copy_rows(a, DG_PAD_X, 0, DG_PAD_Y, f->begin, n, f->axis);
    zero_rows(a, s, f->begin + n, s.d - f->begin - n);
    return 0;
}

static int fill(const dg_args *a)
{
    const fill_attr *f = a->attr;
    bool low = is_low(a, DG_FILL_Y);
    int64_t n = elements(a, DG_FILL_Y), i = 0;

    for (; i + W <= n; i += W)
        st(a->t[DG_FILL_Y].data, i, vf_set((float)f->a), low);
    for (; i < n; i++)
        st1(a->t[DG_FILL_Y].data, i, (float)f->a, low);
    return 0;
}

/* ---- permute and expand: a walk over y with strides through x -------------------------------- */

typedef struct walk {
    const dg_args *a;
    int rank;
    /* bytes per element */
    int64_t size;
    /* axes of y, and the stride in x; the last is a run */
    int64_t d[DG_MAX_DIMS], step[DG_MAX_DIMS];
} walk;

/* Merges axes that are contiguous in x. */
static void fold(walk *w)
{
    int rank = 0;

    for (int k = 0; k < w->rank; k++) {
        if (w->d[k] == 1)
            continue;
        if (rank && (w->step[rank - 1] == w->step[k] * w->d[k])) {
            w->d[rank - 1] *= w->d[k];
            w->step[rank - 1] = w->step[k];
        } else {
            w->d[rank] = w->d[k];
            w->step[rank++] = w->step[k];
        }
    }
    if (!rank) {
        w->d[0] = 1;
        w->step[rank++] = 1;
    }
    w->rank = rank;
}

/* Copies n elements of x, `step` apart, to y. */
ALWAYS void spread(char *y, const char *x, int64_t n, int64_t step, size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(y + (size_t)i * size, x + (size_t)(i * step) * size, size);
}

static void walk_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const walk *w = ctx;
    int64_t run = w->d[w->rank - 1], step = w->step[w->rank - 1];

    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = 0, rest = row;
        char *y = (char *)w->a->t[DG_PERMUTE_Y].data + row * run * w->size;
        const char *x;

        for (int k = w->rank - 2; k >= 0; k--) {
            at += rest % w->d[k] * w->step[k];
            rest /= w->d[k];
        }
        x = (const char *)w->a->t[DG_PERMUTE_X].data + at * w->size;
        if (step == 1)
            memcpy(y, x, (size_t)(run * w->size));
        else if (w->size == 4)
            spread(y, x, run, step, 4);
        else if (w->size == 2)
            spread(y, x, run, step, 2);
        else
            spread(y, x, run, step, (size_t)w->size);
    }
}

static int run_walk(walk *w)
{
    int64_t run;

    fold(w);
    run = w->d[w->rank - 1];
    parallel(w->a, elements(w->a, 1) / run, run, walk_body, w);
    return 0;
}

static int permute(const dg_args *a)
{
    const shape_attr *f = a->attr;
    const dg_shape *x = &a->t[DG_PERMUTE_X].shape, *y = &a->t[DG_PERMUTE_Y].shape;
    walk w = { .a = a, .rank = y->rank, .size = size_of(a, DG_PERMUTE_X) };

    for (int k = 0; k < y->rank; k++) {
        w.d[k] = y->d[k];
        w.step[k] = 1;
        for (int64_t axis = f->d[k] + 1; axis < x->rank; axis++)
            w.step[k] *= x->d[axis];
    }
    return run_walk(&w);
}

static int expand(const dg_args *a)
{
    const dg_shape *x = &a->t[DG_EXPAND_X].shape, *y = &a->t[DG_EXPAND_Y].shape;
    walk w = { .a = a, .rank = y->rank, .size = size_of(a, DG_EXPAND_X) };
    int64_t size = 1;

    for (int k = y->rank - 1; k >= 0; k--) {
        int own = k - (y->rank - x->rank);
        int64_t d = own >= 0 ? x->d[own] : 1;

        w.d[k] = y->d[k];
        w.step[k] = d > 1 ? size : 0;
        size *= d;
    }
    return run_walk(&w);
}

DG_SAME_PLACE(DG_PERMUTE_X, DG_EXPAND_X);
DG_SAME_PLACE(DG_PERMUTE_Y, DG_EXPAND_Y);
DG_SIMD(reshape, NULL, reshape);
DG_SIMD(permute, NULL, permute);
DG_SIMD(concat, NULL, concat);
DG_SIMD(slice, NULL, slice);
DG_SIMD(pad, NULL, pad);
DG_SIMD(fill, NULL, fill);
DG_SIMD(expand, NULL, expand);
