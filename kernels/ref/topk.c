/* topk.c: the k largest of a list, descending: queries for the decoder, detections for the
 * evaluation.
 *
 * Ties go to the lower index and NaN comes last. A heap yields them one by one: O(n + k log n). */
#include <math.h>

#include "kernels/ref/heap.h"

/* Writes the indices of the k best of x[0..n-1] to best; heap has room for n. */
static void pick_best(const real *x, int64_t n, int64_t k, int32_t *heap, int32_t *best)
{
    for (int64_t i = 0; i < n; i++)
        heap[i] = (int32_t)i;
    heap_make(x, heap, n, heap_better);
    for (int64_t i = 0; i < k; i++)
        best[i] = heap_take(x, heap, &n, heap_better);
}

/* Workspace for a heap and the k best of one image. */
static int prepare(dg_prepare *p)
{
    const index_attr *f = p->attr;
    const dg_shape *x = &p->t[DG_TOPK_X].shape;

    p->workspace_bytes = (size_t)(dg_shape_elements(*x) / x->d[0] + f->n) * sizeof(int32_t);
    return 0;
}

/* x [B,S] or [B,S,C] -> index [B,k] of rows */
static int topk(const dg_args *a)
{
    int64_t c = a->t[DG_TOPK_X].shape.rank == 3 ? dim(a, DG_TOPK_X, 2) : 1,
            n = dim(a, DG_TOPK_X, 1) * c, k = dim(a, DG_TOPK_INDEX, 1);
    int32_t *best = a->workspace, *heap = best + k;

    for (int64_t b = 0; b < dim(a, DG_TOPK_X, 0); b++) {
        pick_best(in(a, DG_TOPK_X) + b * n, n, k, heap, best);
        for (int64_t i = 0; i < k; i++)
            out_i32(a, DG_TOPK_INDEX)[b * k + i] = (int32_t)(best[i] / c);
    }
    return 0;
}

/* logits [B,Q,C], boxes [B,Q,4] -> labels, scores [B,k], dboxes [B,k,4]. Ordered by logit: sigmoids
 * may be equal where logits still differ. */
static int detect(const dg_args *a)
{
    int64_t q = dim(a, DG_DETECT_LOGITS, 1), c = dim(a, DG_DETECT_LOGITS, 2),
            k = dim(a, DG_DETECT_LABELS, 1);
    int32_t *best = a->workspace, *heap = best + k;

    for (int64_t b = 0; b < dim(a, DG_DETECT_LOGITS, 0); b++) {
        const real *logits = in(a, DG_DETECT_LOGITS) + b * q * c,
                   *boxes = in(a, DG_DETECT_BOXES) + b * q * 4;

        pick_best(logits, q * c, k, heap, best);
        for (int64_t i = 0; i < k; i++) {
            out_i32(a, DG_DETECT_LABELS)[b * k + i] = (int32_t)(best[i] % c);
            out(a, DG_DETECT_SCORES)[b * k + i] = (real)(1 / (1 + exp(-(double)logits[best[i]])));
            for (int n = 0; n < 4; n++)
                out(a, DG_DETECT_DBOXES)[(b * k + i) * 4 + n] = boxes[best[i] / c * 4 + n];
        }
    }
    return 0;
}

DG_SAME_PLACE(DG_TOPK_X, DG_DETECT_LOGITS);
DG_REF(topk, prepare, topk);
DG_REF(detect, prepare, detect);
