/* weight_gradient.c: see weight_gradient.h. dW is a sum over images. The library's threads meet
 * several times inside of one gradient and spin until the last one comes, which costs whole time
 * slices where another process has one of the cores. Here each thread computes the gradient of its
 * images alone, and the threads meet twice: after these parts, and after the parts' sum.
 *
 * Where the CPU multiplies pairs of bf16, a kernel of our own takes maps in bf16, and shares them
 * out itself; but not those of 1x1 kernels, where the library is as fast (docs/performance.md). */
#include "kernels/host/weight_gradient.h"

#include <stdlib.h>

#include "base/pool.h"
#include "kernels/addition.h"
#include "kernels/attrs.h"
#include "kernels/host/host.h"
#include "kernels/host/taps.h"

enum { ALIGN = 64, BUSY_PERCENT = 80 };

/* The images first..first+n-1, and where their part lies in the workspace. */
typedef struct part {
    int64_t first, n;
    void *handle;                /* of dg_host_whole_conv2d_dw, for one thread */
    size_t workspace_at, sum_at; /* the first part is written to dW itself */
    int rc;
} part;

typedef struct shares {
    int n; /* 0: all images in one piece, by `by` */
    const dg_kernel *by;
    void *whole; /* its handle */
    part *part;
    const void **from; /* where each part's sum is; filled in each run */
} shares;

static size_t reserve(size_t *bytes, size_t n)
{
    size_t at = *bytes;

    *bytes += (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return at;
}

static void close_shares(void *handle)
{
    shares *s = handle;

    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        dg_host_whole_conv2d_dw.release(s->part[i].handle);
    s->by->release(s->whole);
    free(s->from);
    free(s->part);
    free(s);
}

/* What takes the gradient in one piece. */
static const dg_kernel *one_piece(const dg_prepare *p)
{
    const conv_attr *at = p->attr;
    const dg_kernel *pairs = dg_host_conv_weights();
    bool low = p->t[0].dtype == DG_BF16 && p->t[1].dtype == DG_BF16 && p->t[2].dtype == DG_F32;

    return pairs && low && at->h * at->w > 1 ? pairs : &dg_host_whole_conv2d_dw;
}

/* Whether the threads are busy for long enough with as many images each as the busiest has. */
static bool pays(const dg_prepare *p)
{
    int64_t images = p->t[0].shape.d[0], threads = p->threads, most;

    if (threads < 2 || images < threads || p->t[2].dtype != DG_F32)
        return false;
    most = (images + threads - 1) / threads;
    return 100 * images >= BUSY_PERCENT * most * threads;
}

static int prepare_part(const dg_prepare *p, part *of, size_t *bytes)
{
    dg_tensor t[3] = { p->t[0], p->t[1], p->t[2] };
    dg_prepare one = { .t = t, .n = 3, .attr = p->attr, .threads = 1 };
    int rc;

    t[0].shape.d[0] = t[1].shape.d[0] = of->n;
    rc = dg_host_whole_conv2d_dw.prepare(&one);
    of->handle = one.handle;
    of->workspace_at = reserve(bytes, one.workspace_bytes);
    if (of->first > 0)
        of->sum_at =
            reserve(bytes, (size_t)dg_shape_elements(t[2].shape) * dg_dtype_size(t[2].dtype));
    return rc;
}

static int prepare_shares(const dg_prepare *p, shares *s, size_t *bytes)
{
    int64_t images = p->t[0].shape.d[0], threads = p->threads;
    int rc = 0;

    s->part = calloc((size_t)threads, sizeof *s->part);
    s->from = calloc((size_t)threads, sizeof *s->from);
    if (!s->part || !s->from)
        return -DG_EMEMORY;
    for (int64_t first = 0; first < images && rc == 0; s->n++) {
        part *of = &s->part[s->n];

        of->first = first;
        of->n = images / threads + (s->n < images % threads);
        first += of->n;
        rc = prepare_part(p, of, bytes);
    }
    return rc;
}

static int prepare(dg_prepare *p)
{
    shares *s = calloc(1, sizeof *s);
    dg_prepare whole = *p;
    size_t bytes = 0;
    int rc;

    if (!s)
        return -DG_EMEMORY;
    s->by = one_piece(p);
    if (s->by == &dg_host_whole_conv2d_dw && pays(p)) {
        rc = prepare_shares(p, s, &bytes);
    } else {
        rc = s->by->prepare(&whole);
        s->whole = whole.handle;
        bytes = whole.workspace_bytes;
    }
    if (rc < 0) {
        close_shares(s);
        return rc;
    }
    p->handle = s;
    p->workspace_bytes = bytes;
    return 0;
}

static void *images_from(const dg_tensor *t, int64_t first)
{
    size_t image = (size_t)(dg_shape_elements(t->shape) / t->shape.d[0]) * dg_dtype_size(t->dtype);

    return (char *)t->data + (size_t)first * image;
}

static float *sum_of(const dg_args *a, const part *of)
{
    return of->first > 0 ? (void *)((char *)a->workspace + of->sum_at) : a->t[2].data;
}

static void run_parts(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const shares *s = a->handle;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        part *of = &s->part[i];
        dg_tensor t[3] = { a->t[0], a->t[1], a->t[2] };
        dg_args one = *a;

        for (int k = 0; k < 2; k++) {
            t[k].data = images_from(&a->t[k], of->first);
            t[k].shape.d[0] = of->n;
        }
        t[2].data = sum_of(a, of);
        one.t = t;
        one.handle = of->handle;
        one.workspace = (char *)a->workspace + of->workspace_at;
        one.threads = 1;
        of->rc = dg_host_whole_conv2d_dw.run(&one);
    }
}

static void add_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    dg_add_up(ctx, (size_t)begin, (size_t)end);
}

static int run(const dg_args *a)
{
    const shares *s = a->handle;
    void *to = a->t[2].data;
    dg_addition sum = { DG_F32, DG_SUM, s->from, s->n, &to, 1 };
    dg_args whole = *a;

    if (s->n == 0) {
        whole.handle = s->whole;
        return s->by->run(&whole);
    }
    dg_parallel_for(a->threads, s->n, run_parts, (void *)a);
    for (int i = 0; i < s->n; i++) {
        if (s->part[i].rc < 0)
            return s->part[i].rc;
        s->from[i] = sum_of(a, &s->part[i]);
    }
    dg_parallel_for(a->threads, dg_shape_elements(a->t[2].shape), add_range, &sum);
    return 0;
}

const dg_kernel dg_host_conv2d_dw = { prepare, run, close_shares };
