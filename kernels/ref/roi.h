/* roi.h: RoIAlign along one axis. A region's side is cut into `cells` equal parts, each with
 * ceil(side / cells) samples in the middles of as many equal parts; a sample lies between two
 * pixels' centres and weighs both. So a cell is a list of weights of pixels, and the op is a
 * product of these lists along the two axes: samples outside [-1, pixels] count as zeros along
 * either. */
#ifndef DG_KERNELS_REF_ROI_H
#define DG_KERNELS_REF_ROI_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MOST_SAMPLES = 1 << 12 /* of a cell: sides of more are cut off there */ };

/* Where a region lies on its map: begin and length of its sides, in pixels. */
typedef struct roi_place {
    int64_t level;
    double begin[2], side[2]; /* x, y */
} roi_place;

static inline roi_place place_of(double cx, double cy, double w, double h, double finest,
                                 int64_t n_levels, const int64_t *stride)
{
    roi_place p = { 0 };
    double level = floor(log2(sqrt(w * h) / finest + 1e-6));

    p.level = level > 0 ? level < (double)(n_levels - 1) ? (int64_t)level : n_levels - 1 : 0;
    p.side[0] = w / (double)stride[p.level];
    p.side[1] = h / (double)stride[p.level];
    p.begin[0] = cx / (double)stride[p.level] - 0.5 * p.side[0] - 0.5;
    p.begin[1] = cy / (double)stride[p.level] - 0.5 * p.side[1] - 0.5;
    return p;
}

/* Pixels and weights of the sample at `at`; false: it lies outside. */
static inline bool sample_at(double at, int64_t pixels, int64_t pixel[2], double weight[2])
{
    if (!(at >= -1 && at <= (double)pixels))
        return false;
    at = at < 0 ? 0 : at;
    pixel[0] = (int64_t)at;
    pixel[0] = pixel[0] < pixels - 1 ? pixel[0] : pixels - 1;
    pixel[1] = pixel[0] < pixels - 1 ? pixel[0] + 1 : pixel[0];
    weight[1] = pixel[1] > pixel[0] ? at - (double)pixel[0] : 0;
    weight[0] = 1 - weight[1];
    return true;
}

static inline int64_t samples_of(double side, int64_t cells)
{
    double n = ceil(side / (double)cells);

    return n > 0 ? n < MOST_SAMPLES ? (int64_t)n : MOST_SAMPLES : 0;
}

/* weight [cells][pixels], and in range [cells][2] the pixels that have any. */
static inline void weigh_axis(double begin, double side, int64_t cells, int64_t pixels,
                              double *weight, int32_t *range)
{
    int64_t n = samples_of(side, cells);

    memset(weight, 0, (size_t)(cells * pixels) * sizeof *weight);
    for (int64_t i = 0; i < cells; i++, range += 2, weight += pixels) {
        range[0] = (int32_t)pixels;
        range[1] = 0;
        for (int64_t k = 0; k < n; k++) {
            double part = side / (double)cells, w[2];
            int64_t pixel[2];

            if (!sample_at(begin + part * ((double)i + ((double)k + 0.5) / (double)n), pixels,
                           pixel, w))
                continue;
            for (int e = 0; e < 2; e++)
                weight[pixel[e]] += w[e] / (double)n;
            range[0] = pixel[0] < range[0] ? (int32_t)pixel[0] : range[0];
            range[1] = pixel[1] >= range[1] ? (int32_t)pixel[1] + 1 : range[1];
        }
    }
}

#endif
