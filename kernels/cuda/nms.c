/* nms.c: twins of kernels/ref/nms.c, which has the rules. A block for an image keeps the best box
 * of those that are left, and each thread looks whether its boxes go with it; until enough are
 * kept. Known to be slow where thousands are kept: a step passes over all boxes. */
#include <detrgraph/heads.h>

#include "kernels/cuda/iou.h"

typedef struct suppression {
    dg_nms_attr f;
    const real *boxes, *score;
    const int32_t *group;
    int32_t *row, *count;
    real *kept;
    double *now; /* [B,N]: scores; of a box that has gone minus infinity */
    int64_t n;
} suppression;

DEVICE double gone(void)
{
    return -(double)INFINITY;
}

DEVICE contender best_left(const suppression *p, int64_t b, contender *shared)
{
    contender own = { 0, -1 };

    for (int64_t i = thread_id(); i < p->n; i += block_size()) {
        contender here = { p->now[b * p->n + i], (int32_t)i };

        if (here.value > gone())
            own = better_of(own, here);
    }
    return block_best(own, shared);
}

/* What becomes of box i of an image beside the one that is kept. */
DEVICE double beside(const suppression *p, int64_t i, int64_t kept, bool soft)
{
    double now = p->now[i], iou = 0;

    if (i == kept || !(now > gone()))
        return gone();
    if (p->group[i] == p->group[kept]) {
        sides a = sides_of(p->boxes + kept * 4), s = sides_of(p->boxes + i * 4);

        iou = iou_of(&a, &s);
    } else if (!soft) {
        return now;
    }
    if (!soft)
        return iou > p->f.iou ? gone() : now;
    if (p->group[i] == p->group[kept])
        now *= iou >= p->f.iou ? 1 - iou : 1;
    return now < p->f.least ? gone() : now;
}

/* Image b, by a block. */
DEVICE void suppress(const suppression *p, int64_t b, bool soft)
{
    contender *shared = (contender *)shared_memory();
    int64_t n = 0;

    for (int64_t i = b * p->n + thread_id(); i < (b + 1) * p->n; i += block_size()) {
        double score = (double)get(p->score[i]);

        p->now[i] = score > gone() && (soft || has_area(p->boxes + i * 4)) ? score : gone();
    }
    barrier();
    for (; n < p->f.n; n++) {
        contender best = best_left(p, b, shared);

        if (best.of < 0)
            break;
        if (thread_id() == 0) {
            p->row[b * p->f.n + n] = best.of;
            if (soft)
                p->kept[b * p->f.n + n] = put((wide)best.value);
        }
        for (int64_t i = b * p->n + thread_id(); i < (b + 1) * p->n; i += block_size())
            p->now[i] = beside(p, i, b * p->n + best.of, soft);
        barrier();
    }
    if (thread_id() == 0)
        p->count[b] = (int32_t)n;
    for (int64_t i = n + thread_id(); i < p->f.n; i += block_size()) {
        p->row[b * p->f.n + i] = -1;
        if (soft)
            p->kept[b * p->f.n + i] = put(0);
    }
}

/* Shared memory of both: BLOCK_BEST_BYTES. */
KERNEL(nms_kernel, suppression)
{
    suppress(p, block_id(), false);
}

KERNEL(soft_nms_kernel, suppression)
{
    suppress(p, block_id(), true);
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_NMS_SCORE].shape) * sizeof(double);
    return 0;
}

static suppression suppression_of(const dg_args *a, dg_cuda_grid *g)
{
    suppression p = { .f = *(const dg_nms_attr *)a->attr,
                      .boxes = reals(a, DG_NMS_BOXES),
                      .score = reals(a, DG_NMS_SCORE),
                      .group = ints(a, DG_NMS_GROUP),
                      .row = ints(a, DG_NMS_ROW),
                      .now = (double *)a->workspace,
                      .n = dim(a, DG_NMS_SCORE, 1) };

    g->blocks = dim(a, DG_NMS_SCORE, 0);
    g->threads = DG_CUDA_THREADS;
    g->shared = BLOCK_BEST_BYTES;
    return p;
}

static int nms(const dg_cuda_call *c)
{
    dg_cuda_grid g;
    suppression p = suppression_of(c->a, &g);

    p.count = ints(c->a, DG_NMS_COUNT);
    return LAUNCH(c, nms_kernel, g, &p);
}

static int soft_nms(const dg_cuda_call *c)
{
    dg_cuda_grid g;
    suppression p = suppression_of(c->a, &g);

    p.kept = reals(c->a, DG_SOFT_NMS_KEPT);
    p.count = ints(c->a, DG_SOFT_NMS_COUNT);
    return LAUNCH(c, soft_nms_kernel, g, &p);
}

DG_SAME_PLACE(DG_NMS_ROW, DG_SOFT_NMS_ROW);
DG_CUDA(nms, prepare, nms);
DG_CUDA(soft_nms, prepare, soft_nms);
