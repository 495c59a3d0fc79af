/* roi.c: twins of kernels/ref/roi.c. Forward a thread has a channel of a cell and takes its samples
 * one by one; backward it has a channel of a pixel and looks for the regions of its level that
 * reach it, in their order, so that nothing is scattered. Places of samples are computed in double.
 */
#include <detrgraph/heads.h>

#include "kernels/cuda/device.h"

enum { MOST_SAMPLES = 1 << 12 };

/* As in kernels/ref/roi.h. */
typedef struct roi_place {
    int32_t level;
    double begin[2], side[2]; /* x, y */
} roi_place;

typedef struct regions {
    dg_roi_attr f;
    const real *rois;
    const real *maps[DG_MAX_LEVELS], *dy;
    int64_t h[DG_MAX_LEVELS], w[DG_MAX_LEVELS];
    real *y; /* or dx */
    roi_place *places;
    int64_t batch, rois_each, channels;
} regions;

KERNEL(place_kernel, regions)
{
    for (int64_t r = first(); r < p->batch * p->rois_each; r += step()) {
        double cx = (double)get(p->rois[r * 4]), cy = (double)get(p->rois[r * 4 + 1]),
               w = (double)get(p->rois[r * 4 + 2]), h = (double)get(p->rois[r * 4 + 3]);
        double level = floor(log2(sqrt(w * h) / p->f.finest + 1e-6)),
               top = (double)(p->f.n_levels - 1);
        roi_place *to = p->places + r;
        double stride;

        to->level = level > 0 ? level < top ? (int32_t)level : (int32_t)top : 0;
        stride = (double)p->f.stride[to->level];
        to->side[0] = w / stride;
        to->side[1] = h / stride;
        to->begin[0] = cx / stride - 0.5 * to->side[0] - 0.5;
        to->begin[1] = cy / stride - 0.5 * to->side[1] - 0.5;
    }
}

DEVICE int64_t samples_of(double side, int64_t cells)
{
    double n = ceil(side / (double)cells);

    return n > 0 ? n < MOST_SAMPLES ? (int64_t)n : MOST_SAMPLES : 0;
}

/* Sample k of n of cell i along an axis: its two pixels and their weights; false: outside. */
DEVICE bool sample_at(const roi_place *a, int axis, int64_t cells, int64_t i, int64_t k, int64_t n,
                      int64_t pixels, int64_t *pixel, wide *weight)
{
    double part = a->side[axis] / (double)cells;
    double at = a->begin[axis] + part * ((double)i + ((double)k + 0.5) / (double)n);

    if (!(at >= -1 && at <= (double)pixels))
        return false;
    at = at < 0 ? 0 : at;
    pixel[0] = (int64_t)at < pixels - 1 ? (int64_t)at : pixels - 1;
    pixel[1] = pixel[0] < pixels - 1 ? pixel[0] + 1 : pixel[0];
    weight[1] = pixel[1] > pixel[0] ? (wide)(at - (double)pixel[0]) : 0;
    weight[0] = 1 - weight[1];
    return true;
}

KERNEL(align_kernel, regions)
{
    int64_t cells = p->f.size * p->f.size;

    for (int64_t n = first(); n < p->batch * p->rois_each * cells * p->channels; n += step()) {
        int64_t c = (uint32_t)n % (uint32_t)p->channels, rest = (uint32_t)n / (uint32_t)p->channels;
        int64_t r = rest / cells, i = rest % cells / p->f.size, k = rest % cells % p->f.size;
        const roi_place *a = p->places + r;
        int64_t h = p->h[a->level], w = p->w[a->level], ny = samples_of(a->side[1], p->f.size),
                nx = samples_of(a->side[0], p->f.size), row[2], column[2];
        const real *x = p->maps[a->level] + r / p->rois_each * h * w * p->channels + c;
        wide sum = 0, by_row[2], by_column[2];

        for (int64_t sy = 0; sy < ny; sy++) {
            if (!sample_at(a, 1, p->f.size, i, sy, ny, h, row, by_row))
                continue;
            for (int64_t sx = 0; sx < nx; sx++) {
                if (!sample_at(a, 0, p->f.size, k, sx, nx, w, column, by_column))
                    continue;
                for (int e = 0; e < 4; e++)
                    sum += by_row[e / 2] * by_column[e % 2] *
                           get(x[(row[e / 2] * w + column[e % 2]) * p->channels]);
            }
        }
        p->y[(r * p->channels + c) * cells + i * p->f.size + k] =
            put(ny > 0 && nx > 0 ? sum / (wide)(ny * nx) : 0);
    }
}

/* Whether the samples of cells b..e-1 may weigh a pixel. */
DEVICE bool reaches(const roi_place *a, int axis, int64_t cells, int64_t b, int64_t e,
                    int64_t pixel)
{
    double part = a->side[axis] / (double)cells, lo = a->begin[axis] + part * (double)b,
           hi = a->begin[axis] + part * (double)e;

    return hi >= (double)pixel - 1 && lo <= (double)pixel + 1;
}

/* What the samples of cell i weigh a pixel. */
DEVICE wide weight_of(const roi_place *a, int axis, int64_t cells, int64_t i, int64_t pixels,
                      int64_t pixel)
{
    int64_t n = samples_of(a->side[axis], cells), at[2];
    wide sum = 0, weight[2];

    if (!reaches(a, axis, cells, i, i + 1, pixel))
        return 0;
    for (int64_t k = 0; k < n; k++)
        if (sample_at(a, axis, cells, i, k, n, pixels, at, weight))
            sum += (at[0] == pixel ? weight[0] : 0) + (at[1] == pixel ? weight[1] : 0);
    return n ? sum / (wide)n : 0;
}

/* A region's share of the gradient of a channel of a pixel; dy: of that channel. */
DEVICE wide share_of(const regions *p, const roi_place *a, int64_t row, int64_t column,
                     const real *dy)
{
    wide sum = 0;

    for (int64_t i = 0; i < p->f.size; i++) {
        wide by_row = weight_of(a, 1, p->f.size, i, p->f.h, row);

        for (int64_t k = 0; k < p->f.size && by_row != 0; k++) {
            wide by_column = weight_of(a, 0, p->f.size, k, p->f.w, column);

            if (by_column != 0)
                sum += by_row * by_column * get(dy[i * p->f.size + k]);
        }
    }
    return sum;
}

KERNEL(align_grad_kernel, regions)
{
    int64_t cells = p->f.size * p->f.size, map = p->f.h * p->f.w * p->channels;

    for (int64_t n = first(); n < p->batch * map; n += step()) {
        int64_t c = (uint32_t)n % (uint32_t)p->channels, rest = (uint32_t)n / (uint32_t)p->channels;
        int64_t column = rest % p->f.w, row = rest / p->f.w % p->f.h, b = rest / (p->f.w * p->f.h);
        wide sum = 0;

        for (int64_t r = b * p->rois_each; r < (b + 1) * p->rois_each; r++) {
            const roi_place *a = p->places + r;

            if (a->level == p->f.level && reaches(a, 1, p->f.size, 0, p->f.size, row) &&
                reaches(a, 0, p->f.size, 0, p->f.size, column))
                sum += share_of(p, a, row, column, p->dy + (r * p->channels + c) * cells);
        }
        p->y[n] = put(sum);
    }
}

static int prepare_at(dg_prepare *p, int rois)
{
    p->workspace_bytes = (size_t)(dg_shape_elements(p->t[rois].shape) / 4) * sizeof(roi_place);
    return 0;
}

static int prepare(dg_prepare *p)
{
    return prepare_at(p, DG_ROI_ALIGN_ROIS);
}

static int prepare_grad(dg_prepare *p)
{
    return prepare_at(p, DG_ROI_ALIGN_GRAD_ROIS);
}

static regions regions_of(const dg_args *a, int rois)
{
    regions p = { .f = *(const dg_roi_attr *)a->attr, .rois = reals(a, rois) };

    p.batch = dim(a, rois, 0);
    p.rois_each = dim(a, rois, 1);
    p.places = (roi_place *)a->workspace;
    return p;
}

static int roi_align(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    regions p = regions_of(a, DG_ROI_ALIGN_ROIS);
    int y = DG_ROI_ALIGN_X + (int)p.f.n_levels, rc;

    for (int64_t l = 0; l < p.f.n_levels; l++) {
        p.maps[l] = reals(a, DG_ROI_ALIGN_X + (int)l);
        p.h[l] = dim(a, DG_ROI_ALIGN_X + (int)l, 1);
        p.w[l] = dim(a, DG_ROI_ALIGN_X + (int)l, 2);
    }
    p.channels = dim(a, DG_ROI_ALIGN_X, 3);
    p.y = reals(a, y);
    rc = LAUNCH(c, place_kernel, grid_of(p.batch * p.rois_each), &p);
    return rc ? rc : LAUNCH(c, align_kernel, grid_of(elements(a, y)), &p);
}

static int roi_align_grad(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    regions p = regions_of(a, DG_ROI_ALIGN_GRAD_ROIS);
    int rc;

    p.dy = reals(a, DG_ROI_ALIGN_GRAD_DY);
    p.y = reals(a, DG_ROI_ALIGN_GRAD_DX);
    p.channels = dim(a, DG_ROI_ALIGN_GRAD_DX, 3);
    rc = LAUNCH(c, place_kernel, grid_of(p.batch * p.rois_each), &p);
    return rc ? rc : LAUNCH(c, align_grad_kernel, grid_of(elements(a, DG_ROI_ALIGN_GRAD_DX)), &p);
}

DG_CUDA(roi_align, prepare, roi_align);
DG_CUDA(roi_align_grad, prepare_grad, roi_align_grad);
