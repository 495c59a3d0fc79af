/* box.h: twin of kernels/ref/box.h, in double: gradients differ where two corners are equal. */
#ifndef DG_KERNELS_CUDA_BOX_H
#define DG_KERNELS_CUDA_BOX_H

#include "kernels/cuda/device.h"

typedef struct overlap {
    double a[4], b[4]; /* x1 y1 x2 y2 */
    double inner_w, inner_h, hull_w, hull_h;
    double inner, both, hull; /* areas: intersection, union, hull */
    double iou, giou;
} overlap;

DEVICE double smallest(double x, double y)
{
    return x < y ? x : y;
}

DEVICE double largest(double x, double y)
{
    return x > y ? x : y;
}

DEVICE double ratio(double x, double y)
{
    return x == 0 && y == 0 ? 0 : x / y;
}

DEVICE void corners(const real *box, double *c)
{
    double x = (double)get(box[0]), y = (double)get(box[1]), w = (double)get(box[2]),
           h = (double)get(box[3]);

    w = w < 0 ? 0 : w;
    h = h < 0 ? 0 : h;
    c[0] = x - 0.5 * w;
    c[1] = y - 0.5 * h;
    c[2] = x + 0.5 * w;
    c[3] = y + 0.5 * h;
}

DEVICE overlap overlap_of(const real *a, const real *b)
{
    overlap o;

    corners(a, o.a);
    corners(b, o.b);
    o.inner_w = smallest(o.a[2], o.b[2]) - largest(o.a[0], o.b[0]);
    o.inner_h = smallest(o.a[3], o.b[3]) - largest(o.a[1], o.b[1]);
    o.hull_w = largest(o.a[2], o.b[2]) - smallest(o.a[0], o.b[0]);
    o.hull_h = largest(o.a[3], o.b[3]) - smallest(o.a[1], o.b[1]);
    o.inner = o.inner_w < 0 || o.inner_h < 0 ? 0 : o.inner_w * o.inner_h;
    o.both =
        (o.a[2] - o.a[0]) * (o.a[3] - o.a[1]) + (o.b[2] - o.b[0]) * (o.b[3] - o.b[1]) - o.inner;
    o.hull = o.hull_w * o.hull_h;
    o.iou = ratio(o.inner, o.both);
    o.giou = o.iou - ratio(o.hull - o.both, o.hull);
    return o;
}

#endif
