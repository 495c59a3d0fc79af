/* nms.c: suppression of boxes that overlap a better one of their group; <detrgraph/heads.h> has the
 * rules. Boxes are taken in the order of their scores, from a heap; a box can only be suppressed by
 * better ones of its group, so the search ends with the n-th box that is kept.
 *
 * soft_nms    a score is multiplied by 1 - IoU instead (Bodla et al. 2017) and goes when it falls
 *             below `least`. The best box of an image is kept whatever its score; a box without an
 *             area overlaps none and stays */
#include <math.h>

#include <detrgraph/heads.h>

#include "kernels/ref/heap.h"
#include "kernels/ref/iou.h"

static bool is_scored(const real *score, int64_t i)
{
    return score[i] > -(real)INFINITY; /* NaN is not */
}

/* ---- nms: boxes [B,N,4] score group [B,N] -> row [B,n] count [B] ----------------------------- */

static bool suppressed(const real *boxes, const int32_t *group, int32_t i, const int32_t *kept,
                       int64_t n, double most)
{
    sides s = sides_of(boxes + (int64_t)i * 4);

    for (int64_t k = 0; k < n; k++) {
        if (group[kept[k]] != group[i])
            continue;
        sides other = sides_of(boxes + (int64_t)kept[k] * 4);

        if (iou_of(&other, &s) > most)
            return true;
    }
    return false;
}

static void keep_of_images(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_nms_attr *f = a->attr;
    int64_t n = dim(a, DG_NMS_SCORE, 1);

    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const real *boxes = in(a, DG_NMS_BOXES) + b * n * 4, *score = in(a, DG_NMS_SCORE) + b * n;
        const int32_t *group = in_i32(a, DG_NMS_GROUP) + b * n;
        int32_t *heap = (int32_t *)a->workspace + b * n, *row = out_i32(a, DG_NMS_ROW) + b * f->n;
        int64_t left = 0, kept = 0;

        for (int64_t i = 0; i < n; i++)
            if (is_scored(score, i) && has_area(boxes + i * 4))
                heap[left++] = (int32_t)i;
        heap_make(score, heap, left, heap_better);
        while (left && kept < f->n) {
            int32_t best = heap_take(score, heap, &left, heap_better);

            if (!suppressed(boxes, group, best, row, kept, f->iou))
                row[kept++] = best;
        }
        out_i32(a, DG_NMS_COUNT)[b] = (int32_t)kept;
        for (; kept < f->n; kept++)
            row[kept] = -1;
    }
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_NMS_SCORE].shape) * sizeof(int32_t);
    return 0;
}

static int nms(const dg_args *a)
{
    parallel(a, dim(a, DG_NMS_SCORE, 0), keep_of_images);
    return 0;
}

/* ---- soft_nms: boxes score group -> row kept [B,n] count [B] --------------------------------- */

/* Index of the largest of now[0..n-1]; -1: none is left. What has gone is minus infinity. */
static int64_t largest(const double *now, int64_t n)
{
    int64_t best = -1;

    for (int64_t i = 0; i < n; i++)
        if (now[i] > -(double)INFINITY && (best < 0 || now[i] > now[best]))
            best = i;
    return best;
}

static void decay(const dg_nms_attr *f, const real *boxes, const int32_t *group, double *now,
                  int64_t n, int64_t best)
{
    sides s = sides_of(boxes + best * 4);

    for (int64_t i = 0; i < n; i++) {
        if (!(now[i] > -(double)INFINITY))
            continue;
        if (group[i] == group[best]) {
            sides other = sides_of(boxes + i * 4);
            double iou = iou_of(&s, &other);

            now[i] *= iou >= f->iou ? 1 - iou : 1;
        }
        if (now[i] < f->least)
            now[i] = -(double)INFINITY;
    }
}

static void soften_images(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_nms_attr *f = a->attr;
    int64_t n = dim(a, DG_SOFT_NMS_SCORE, 1);

    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const real *boxes = in(a, DG_SOFT_NMS_BOXES) + b * n * 4;
        const int32_t *group = in_i32(a, DG_SOFT_NMS_GROUP) + b * n;
        double *now = (double *)a->workspace + b * n;
        int64_t kept = 0;

        for (int64_t i = 0; i < n; i++)
            now[i] = is_scored(in(a, DG_SOFT_NMS_SCORE) + b * n, i)
                         ? in(a, DG_SOFT_NMS_SCORE)[b * n + i]
                         : -(double)INFINITY;
        for (int64_t best; kept < f->n && (best = largest(now, n)) >= 0; kept++) {
            out_i32(a, DG_SOFT_NMS_ROW)[b * f->n + kept] = (int32_t)best;
            out(a, DG_SOFT_NMS_KEPT)[b * f->n + kept] = (real)now[best];
            now[best] = -(double)INFINITY;
            decay(f, boxes, group, now, n, best);
        }
        out_i32(a, DG_SOFT_NMS_COUNT)[b] = (int32_t)kept;
        for (; kept < f->n; kept++) {
            out_i32(a, DG_SOFT_NMS_ROW)[b * f->n + kept] = -1;
            out(a, DG_SOFT_NMS_KEPT)[b * f->n + kept] = 0;
        }
    }
}

static int prepare_soft(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_SOFT_NMS_SCORE].shape) * sizeof(double);
    return 0;
}

static int soft_nms(const dg_args *a)
{
    parallel(a, dim(a, DG_SOFT_NMS_SCORE, 0), soften_images);
    return 0;
}

DG_REF(nms, prepare, nms);
DG_REF(soft_nms, prepare_soft, soft_nms);
