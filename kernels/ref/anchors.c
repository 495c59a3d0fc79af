/* anchors.c: boxes on grids, and which object each of them belongs to; the rules are in
 * <detrgraph/heads.h>. Objects past an image's count are never read.
 *
 * anchor_grid   boxes at the corners of cells
 * delta_decode  boxes moved by deltas: Girshick et al. 2014 (R-CNN)
 * iou_assign    by the largest IoU: Ren et al. 2015 (Faster R-CNN)
 * atss_assign   by a threshold of each object's own: Zhang et al. 2020 (ATSS) */
#include <math.h>
#include <string.h>

#include <detrgraph/heads.h>

#include "kernels/ref/iou.h"

/* ---- anchor_grid: size [B,2] -> boxes [N,4] valid [B,N] -------------------------------------- */

/* Width and height of each shape of a level. */
static void shape_of(const dg_anchor_attr *f, int64_t level, int64_t shape, real side[2])
{
    double octave = (double)(shape % f->octaves) / (double)f->octaves;
    double length = (double)f->stride[level] * f->base * exp2(octave),
           root = sqrt(f->ratio[shape / f->octaves]);

    side[0] = (real)(length / root);
    side[1] = (real)(length * root);
}

static int anchor_grid(const dg_args *a)
{
    const dg_anchor_attr *f = a->attr;
    int64_t n = 0, each = f->ratios * f->octaves, all = dim(a, DG_ANCHOR_GRID_BOXES, 0);

    for (int64_t l = 0; l < f->n_levels; l++)
        for (int64_t i = 0; i < f->h[l] * f->w[l] * each; i++, n++) {
            int64_t cell = i / each, x = cell % f->w[l], y = cell / f->w[l];
            real *box = out(a, DG_ANCHOR_GRID_BOXES) + n * 4;

            box[0] = (real)(x * f->stride[l]);
            box[1] = (real)(y * f->stride[l]);
            shape_of(f, l, i % each, box + 2);
            for (int64_t b = 0; b < dim(a, DG_ANCHOR_GRID_SIZE, 0); b++) {
                const int32_t *size = in_i32(a, DG_ANCHOR_GRID_SIZE) + b * 2;

                out_i32(a, DG_ANCHOR_GRID_VALID)[b * all + n] =
                    y * f->stride[l] < size[0] && x * f->stride[l] < size[1];
            }
        }
    return 0;
}

/* ---- delta_decode: d box -> y ---------------------------------------------------------------- */

static double bound(double x, double limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static int delta_decode(const dg_args *a)
{
    const dg_delta_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_DELTA_DECODE_Y); n += 4) {
        const real *d = in(a, DG_DELTA_DECODE_D) + n, *box = in(a, DG_DELTA_DECODE_BOX) + n;
        real *y = out(a, DG_DELTA_DECODE_Y) + n;

        for (int k = 0; k < 2; k++) { /* y may be d */
            double side = box[k + 2], centre = box[k] + d[k] * f->centre_std * side;

            y[k + 2] = (real)(side * exp(bound(d[k + 2] * f->side_std, f->limit)));
            y[k] = (real)centre;
        }
    }
    return 0;
}

/* dy d box -> dd; at the limit itself the gradient passes */
static int delta_decode_grad(const dg_args *a)
{
    const dg_delta_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_DELTA_DECODE_GRAD_DD); n += 4) {
        const real *dy = in(a, DG_DELTA_DECODE_GRAD_DY) + n, *d = in(a, DG_DELTA_DECODE_GRAD_D) + n,
                   *box = in(a, DG_DELTA_DECODE_GRAD_BOX) + n;
        real *dd = out(a, DG_DELTA_DECODE_GRAD_DD) + n;

        for (int k = 0; k < 2; k++) { /* dd may be dy */
            double side = box[k + 2], t = d[k + 2] * f->side_std;
            double by_side = dy[k + 2] * side * f->side_std * exp(bound(t, f->limit));

            dd[k] = (real)(dy[k] * f->centre_std * side);
            dd[k + 2] = (real)(fabs(t) > f->limit ? 0 : by_side);
        }
    }
    return 0;
}

/* ---- iou_assign: boxes valid? tboxes count -> gt --------------------------------------------- */

static int64_t objects_of(const dg_args *a, int count, int tboxes, int64_t b)
{
    int64_t n = in_i32(a, count)[b], m = dim(a, tboxes, 1);

    return n < 0 ? 0 : n < m ? n : m;
}

/* Box i of image b; NULL: it does not take part. */
static const real *box_at(const dg_args *a, int64_t b, int64_t i)
{
    int64_t n = dim(a, DG_IOU_ASSIGN_GT, 1);
    bool shared = a->t[DG_IOU_ASSIGN_BOXES].shape.rank == 2;
    const real *box = in(a, DG_IOU_ASSIGN_BOXES) + (shared ? i : b * n + i) * 4;

    if (has(a, DG_IOU_ASSIGN_VALID) && !in_i32(a, DG_IOU_ASSIGN_VALID)[b * n + i])
        return NULL;
    return has_area(box) ? box : NULL;
}

/* The largest IoU of each object with any box; object k is number k mod M of image k div M. */
static void best_of_objects(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    int64_t m = dim(a, DG_IOU_ASSIGN_TBOXES, 1), n = dim(a, DG_IOU_ASSIGN_GT, 1);
    double *best = a->workspace;

    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        int64_t b = k / m;

        best[k] = 0;
        if (k % m >= objects_of(a, DG_IOU_ASSIGN_COUNT, DG_IOU_ASSIGN_TBOXES, b))
            continue;
        sides object = sides_of(in(a, DG_IOU_ASSIGN_TBOXES) + k * 4);

        for (int64_t i = 0; i < n; i++) {
            const real *box = box_at(a, b, i);
            sides s = box ? sides_of(box) : (sides){ 0 };
            double iou = box ? iou_of(&s, &object) : 0;

            best[k] = iou > best[k] ? iou : best[k];
        }
    }
}

/* The object of a box that takes part. */
static int32_t object_of(const dg_args *a, int64_t b, const real *box)
{
    const dg_assign_attr *f = a->attr;
    int64_t m = dim(a, DG_IOU_ASSIGN_TBOXES, 1),
            count = objects_of(a, DG_IOU_ASSIGN_COUNT, DG_IOU_ASSIGN_TBOXES, b);
    const double *best = (const double *)a->workspace + b * m;
    int32_t most = -1, own = -1;
    double largest = 0;
    sides s = sides_of(box);

    for (int64_t j = 0; j < count; j++) {
        sides object = sides_of(in(a, DG_IOU_ASSIGN_TBOXES) + (b * m + j) * 4);
        double iou = iou_of(&s, &object);

        if (most < 0 || iou > largest) {
            most = (int32_t)j;
            largest = iou;
        }
        if (best[j] >= f->low_quality && iou >= best[j] - f->tie)
            own = (int32_t)j;
    }
    if (own >= 0)
        return own;
    if (most >= 0 && largest >= f->positive)
        return most;
    return largest < f->negative ? DG_ASSIGNED_NONE : DG_ASSIGNED_VOID;
}

static void assign_boxes(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_assign_attr *f = a->attr;
    int64_t n = dim(a, DG_IOU_ASSIGN_GT, 1), m = dim(a, DG_IOU_ASSIGN_TBOXES, 1);

    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        const real *box = box_at(a, k / n, k % n);
        int64_t count = objects_of(a, DG_IOU_ASSIGN_COUNT, DG_IOU_ASSIGN_TBOXES, k / n);
        int32_t gt = DG_ASSIGNED_VOID;

        if (f->own_rows && k % n < m)
            gt = k % n < count ? (int32_t)(k % n) : gt;
        else if (box)
            gt = object_of(a, k / n, box);
        out_i32(a, DG_IOU_ASSIGN_GT)[k] = gt;
    }
}

static int prepare_iou(dg_prepare *p)
{
    const dg_shape *t = &p->t[DG_IOU_ASSIGN_TBOXES].shape;

    p->workspace_bytes = (size_t)(t->d[0] * t->d[1]) * sizeof(double);
    return 0;
}

static int iou_assign(const dg_args *a)
{
    parallel(a, elements(a, DG_IOU_ASSIGN_TBOXES) / 4, best_of_objects);
    parallel(a, elements(a, DG_IOU_ASSIGN_GT), assign_boxes);
    return 0;
}

/* ---- atss_assign: boxes valid tboxes count -> gt threshold centerness ------------------------ */

enum { MOST_NEAREST = 32 };

/* Puts the places of the nearest valid boxes of begin..end-1 into list; returns their number. */
static int64_t nearest_of(const dg_args *a, int64_t b, const real *object, int64_t begin,
                          int64_t end, int32_t *list)
{
    const dg_atss_attr *f = a->attr;
    const int32_t *valid = in_i32(a, DG_ATSS_ASSIGN_VALID) + b * dim(a, DG_ATSS_ASSIGN_GT, 1);
    int64_t n = 0, most = f->nearest < MOST_NEAREST ? f->nearest : MOST_NEAREST;
    double distance[MOST_NEAREST + 1] = { 0 };

    for (int64_t i = begin; i < end; i++) {
        const real *box = in(a, DG_ATSS_ASSIGN_BOXES) + i * 4;
        double x = (double)box[0] - object[0], y = (double)box[1] - object[1], d = x * x + y * y;
        int64_t at = n;

        if (!valid[i] || (n > 0 && n == most && !(d < distance[n - 1])))
            continue;
        for (; at > 0 && d < distance[at - 1]; at--) {
            distance[at] = distance[at - 1];
            if (at < most)
                list[at] = list[at - 1];
        }
        distance[at] = d;
        list[at] = (int32_t)i;
        n += n < most;
    }
    return n;
}

/* Candidates of an object: n_levels * nearest places, -1 at the end. Returns the threshold: a
 * single candidate has no deviation and is never positive. */
static double candidates_of(const dg_args *a, int64_t b, const real *object, int32_t *list)
{
    const dg_atss_attr *f = a->attr;
    int64_t n = 0, begin = 0;
    double mean = 0, square = 0;
    sides o = sides_of(object);

    for (int64_t l = 0; l < f->n_levels; begin += f->n[l++])
        n += nearest_of(a, b, object, begin, begin + f->n[l], list + n);
    for (int64_t i = n; i < f->n_levels * f->nearest; i++)
        list[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        sides s = sides_of(in(a, DG_ATSS_ASSIGN_BOXES) + (int64_t)list[i] * 4);

        mean += iou_of(&s, &o) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        sides s = sides_of(in(a, DG_ATSS_ASSIGN_BOXES) + (int64_t)list[i] * 4);
        double d = iou_of(&s, &o) - mean;

        square += d * d;
    }
    return n < 2 ? 2 : mean + sqrt(square / (double)(n - 1));
}

static void find_candidates(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_atss_attr *f = a->attr;
    int64_t m = dim(a, DG_ATSS_ASSIGN_TBOXES, 1), each = f->n_levels * f->nearest;

    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        double threshold = 0;

        if (k % m < objects_of(a, DG_ATSS_ASSIGN_COUNT, DG_ATSS_ASSIGN_TBOXES, k / m))
            threshold = candidates_of(a, k / m, in(a, DG_ATSS_ASSIGN_TBOXES) + k * 4,
                                      (int32_t *)a->workspace + k * each);
        out(a, DG_ATSS_ASSIGN_THRESHOLD)[k] = (real)threshold;
    }
}

/* Distances from a centre to the sides of an object: left, top, right, bottom; the least. */
static double inside(const real *box, const sides *o, double d[4])
{
    d[0] = box[0] - o->x0;
    d[1] = box[1] - o->y0;
    d[2] = o->x1 - box[0];
    d[3] = o->y1 - box[1];
    return fmin(fmin(d[0], d[1]), fmin(d[2], d[3]));
}

static double centerness(const double d[4])
{
    return sqrt(fmin(d[0], d[2]) / fmax(d[0], d[2]) * (fmin(d[1], d[3]) / fmax(d[1], d[3])));
}

/* Gives object j of image b its candidates, unless another one overlaps them more. */
static void claim(const dg_args *a, int64_t b, int64_t j, double threshold, const int32_t *list,
                  int64_t n)
{
    const real *objects = in(a, DG_ATSS_ASSIGN_TBOXES) + b * dim(a, DG_ATSS_ASSIGN_TBOXES, 1) * 4;
    int64_t all = dim(a, DG_ATSS_ASSIGN_GT, 1);
    int32_t *gt = out_i32(a, DG_ATSS_ASSIGN_GT) + b * all;
    sides o = sides_of(objects + j * 4);

    for (int64_t i = 0; i < n && list[i] >= 0; i++) {
        const real *box = in(a, DG_ATSS_ASSIGN_BOXES) + (int64_t)list[i] * 4;
        sides s = sides_of(box);
        double iou = iou_of(&s, &o), d[4];

        if (!(iou >= threshold) || !(inside(box, &o, d) > 0.01))
            continue;
        if (gt[list[i]] >= 0) {
            sides other = sides_of(objects + (int64_t)gt[list[i]] * 4);

            if (!(iou > iou_of(&s, &other)))
                continue;
        }
        gt[list[i]] = (int32_t)j;
        out(a, DG_ATSS_ASSIGN_CENTERNESS)[b * all + list[i]] = (real)centerness(d);
    }
}

static void claim_images(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_atss_attr *f = a->attr;
    int64_t n = dim(a, DG_ATSS_ASSIGN_GT, 1), m = dim(a, DG_ATSS_ASSIGN_TBOXES, 1),
            each = f->n_levels * f->nearest;

    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        for (int64_t i = b * n; i < (b + 1) * n; i++) {
            out_i32(a, DG_ATSS_ASSIGN_GT)[i] =
                in_i32(a, DG_ATSS_ASSIGN_VALID)[i] ? DG_ASSIGNED_NONE : DG_ASSIGNED_VOID;
            out(a, DG_ATSS_ASSIGN_CENTERNESS)[i] = 0;
        }
        for (int64_t j = 0; j < objects_of(a, DG_ATSS_ASSIGN_COUNT, DG_ATSS_ASSIGN_TBOXES, b); j++)
            claim(a, b, j, out(a, DG_ATSS_ASSIGN_THRESHOLD)[b * m + j],
                  (const int32_t *)a->workspace + (b * m + j) * each, each);
    }
}

static int prepare_atss(dg_prepare *p)
{
    const dg_atss_attr *f = p->attr;
    const dg_shape *t = &p->t[DG_ATSS_ASSIGN_TBOXES].shape;

    p->workspace_bytes = (size_t)(t->d[0] * t->d[1] * f->n_levels * f->nearest) * sizeof(int32_t);
    return 0;
}

static int atss_assign(const dg_args *a)
{
    parallel(a, elements(a, DG_ATSS_ASSIGN_THRESHOLD), find_candidates);
    parallel(a, dim(a, DG_ATSS_ASSIGN_GT, 0), claim_images);
    return 0;
}

DG_REF(anchor_grid, NULL, anchor_grid);
DG_REF(delta_decode, NULL, delta_decode);
DG_REF(delta_decode_grad, NULL, delta_decode_grad);
DG_REF(iou_assign, prepare_iou, iou_assign);
DG_REF(atss_assign, prepare_atss, atss_assign);
