/* topk.c: twins of kernels/ref/topk.c. A block for an image. Every entry has a number of its own,
 * in the order that they rank (order.h), made anew whenever it is read: the list is long, and only
 * the k numbers that are kept are stored. */
#include "kernels/cuda/order.h"

typedef struct best_of {
    const real *x, *boxes;
    int32_t *index; /* topk: entry div c */
    int32_t *labels;
    real *scores, *to_boxes; /* detect */
    order *kept;             /* [B,k] */
    int64_t batch, n, k, c;
} best_of;

/* Shared memory: FIRST_BYTES. */
KERNEL(topk_kernel, best_of)
{
    int32_t *counts = (int32_t *)shared_memory();
    int64_t b = block_id();
    const real *x = p->x + b * p->n;
    order *kept = p->kept + b * p->k;
    numbers s = { true, NULL, x };

    keep_first(s, p->n, p->k, kept, counts);
    for (int64_t i = thread_id(); i < p->k; i += block_size()) {
        int64_t place = b * p->k, entry = entry_of(kept[i]);

        for (int64_t j = 0; j < p->k; j++)
            place += kept[j] > kept[i];
        if (p->index) {
            p->index[place] = (int32_t)(entry / p->c);
            continue;
        }
        p->labels[place] = (int32_t)(entry % p->c);
        p->scores[place] = put(1 / (1 + exp(-get(x[entry]))));
        for (int m = 0; m < 4; m++)
            p->to_boxes[place * 4 + m] = p->boxes[(b * (p->n / p->c) + entry / p->c) * 4 + m];
    }
}

/* Workspace: the k best of every image. */
static int prepare(dg_prepare *p)
{
    const index_attr *f = (const index_attr *)p->attr;

    p->workspace_bytes = (size_t)(p->t[DG_TOPK_X].shape.d[0] * f->n) * sizeof(order);
    return 0;
}

static int enqueue(const dg_cuda_call *c, best_of p)
{
    const dg_args *a = c->a;
    dg_cuda_grid g = { dim(a, DG_TOPK_X, 0), DG_CUDA_THREADS, FIRST_BYTES };

    p.x = reals(a, DG_TOPK_X);
    p.c = a->t[DG_TOPK_X].shape.rank == 3 ? dim(a, DG_TOPK_X, 2) : 1;
    p.n = dim(a, DG_TOPK_X, 1) * p.c;
    p.k = ((const index_attr *)a->attr)->n;
    p.kept = (order *)a->workspace;
    return LAUNCH(c, topk_kernel, g, &p);
}

static int topk(const dg_cuda_call *c)
{
    best_of p = { .index = ints(c->a, DG_TOPK_INDEX) };

    return enqueue(c, p);
}

static int detect(const dg_cuda_call *c)
{
    best_of p = { .boxes = reals(c->a, DG_DETECT_BOXES),
                  .labels = ints(c->a, DG_DETECT_LABELS),
                  .scores = reals(c->a, DG_DETECT_SCORES),
                  .to_boxes = reals(c->a, DG_DETECT_DBOXES) };

    return enqueue(c, p);
}

DG_SAME_PLACE(DG_TOPK_X, DG_DETECT_LOGITS);
DG_CUDA(topk, prepare, topk);
DG_CUDA(detect, prepare, detect);
