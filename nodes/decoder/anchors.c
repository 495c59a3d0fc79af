/* anchors.c: anchors of query selection, Zhu et al. 2021 (two-stage deformable DETR), scaled as in
 * RT-DETR. */
#include "nodes/decoder/anchors.h"

#include <math.h>

int64_t dg_anchors_n(const dg_levels *levels)
{
    int64_t n = 0;

    for (int l = 0; l < levels->n; l++)
        n += levels->h[l] * levels->w[l];
    return n;
}

static bool proposal(double box[4], double cx, double cy, double side)
{
    const double a[4] = { cx, cy, side, side };
    bool inside = true;

    for (int i = 0; i < 4; i++)
        inside = inside && a[i] > DG_ANCHOR_MARGIN && a[i] < 1 - DG_ANCHOR_MARGIN;
    for (int i = 0; i < 4; i++)
        box[i] = inside ? a[i] : 0;
    return inside;
}

bool dg_proposals(const dg_levels *levels, double *boxes, double *valid)
{
    bool all = true;

    for (int l = 0; l < levels->n; l++) {
        int64_t h = levels->h[l], w = levels->w[l];

        for (int64_t i = 0; i < h * w; i++, boxes += 4, valid++) {
            double x = ((double)(i % w) + 0.5) / (double)w, y = ((double)(i / w) + 0.5) / (double)h;

            *valid = proposal(boxes, x, y, ldexp(DG_ANCHOR_SIDE, l));
            all = all && *valid > 0;
        }
    }
    return all;
}

bool dg_anchors(const dg_levels *levels, double *boxes, double *valid)
{
    bool all = dg_proposals(levels, boxes, valid);

    for (int64_t i = 0; i < 4 * dg_anchors_n(levels); i++)
        boxes[i] = valid[i / 4] > 0 ? log(boxes[i] / (1 - boxes[i])) : (double)INFINITY;
    return all;
}
