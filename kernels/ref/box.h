/* box.h: overlap of two boxes (cx, cy, w, h): intersection over union and its generalised form,
 *
 *     IoU = |A n B| / |A u B|      GIoU = IoU - (|hull| - |A u B|) / |hull|
 *
 * (Rezatofighi et al. 2019) without an epsilon. 0/0, from boxes without area, counts as 0. A
 * negative side counts as 0. */
#ifndef DG_KERNELS_REF_BOX_H
#define DG_KERNELS_REF_BOX_H

#include "kernels/ref/ref.h"

typedef struct overlap {
    double a[4], b[4];       /* x1 y1 x2 y2 */
    double inner_w, inner_h; /* of the intersection; negative: they do not intersect */
    double hull_w, hull_h;
    double inner, both, hull; /* areas: intersection, union, hull */
    double iou, giou;
} overlap;

static inline void corners(const real *box, double c[4])
{
    for (int k = 0; k < 2; k++) {
        double half = box[k + 2] < 0 ? 0 : 0.5 * box[k + 2]; /* NaN stays NaN */

        c[k] = box[k] - half;
        c[k + 2] = box[k] + half;
    }
}

static inline double smaller(double x, double y)
{
    return x < y ? x : y;
}

static inline double larger(double x, double y)
{
    return x > y ? x : y;
}

static inline double ratio(double x, double y)
{
    return x == 0 && y == 0 ? 0 : x / y;
}

static inline overlap overlap_of(const real *a, const real *b)
{
    overlap o;

    corners(a, o.a);
    corners(b, o.b);
    o.inner_w = smaller(o.a[2], o.b[2]) - larger(o.a[0], o.b[0]);
    o.inner_h = smaller(o.a[3], o.b[3]) - larger(o.a[1], o.b[1]);
    o.hull_w = larger(o.a[2], o.b[2]) - smaller(o.a[0], o.b[0]);
    o.hull_h = larger(o.a[3], o.b[3]) - smaller(o.a[1], o.b[1]);
    o.inner = o.inner_w < 0 || o.inner_h < 0 ? 0 : o.inner_w * o.inner_h;
    o.both =
        (o.a[2] - o.a[0]) * (o.a[3] - o.a[1]) + (o.b[2] - o.b[0]) * (o.b[3] - o.b[1]) - o.inner;
    o.hull = o.hull_w * o.hull_h;
    o.iou = ratio(o.inner, o.both);
    o.giou = o.iou - ratio(o.hull - o.both, o.hull);
    return o;
}

#endif
