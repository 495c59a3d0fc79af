/* roi.c: features of regions: RoIAlign, He et al. 2017 (Mask R-CNN), with levels by Lin et al. 2017
 * (FPN); <detrgraph/heads.h> has the rule.
 *
 *     y[r,c,i,k] = sum over pixels of wy[i,row] wx[k,column] x[row,column,c]
 *
 * with the weights of roi.h. The gradient of a map adds up the regions of its level in their
 * order. */
#include <detrgraph/heads.h>

#include "kernels/ref/ref.h"
#include "kernels/ref/roi.h"

/* Weights of a region: rows, then columns, with the ranges behind them. */
typedef struct region {
    double *by_row, *by_column;
    int32_t *rows, *columns;
    int64_t h, w;
} region;

static roi_place place_at(const dg_roi_attr *f, const real *roi)
{
    return place_of(roi[0], roi[1], roi[2], roi[3], f->finest, f->n_levels, f->stride);
}

static size_t region_bytes(const dg_roi_attr *f, int64_t h, int64_t w)
{
    return (size_t)(f->size * (h + w)) * sizeof(double) + (size_t)f->size * 4 * sizeof(int32_t);
}

static region weigh(const dg_roi_attr *f, const roi_place *p, int64_t h, int64_t w, void *memory)
{
    region g = { .by_row = memory, .h = h, .w = w };

    g.by_column = g.by_row + f->size * h;
    g.rows = (int32_t *)(g.by_column + f->size * w);
    g.columns = g.rows + 2 * f->size;
    weigh_axis(p->begin[1], p->side[1], f->size, h, g.by_row, g.rows);
    weigh_axis(p->begin[0], p->side[0], f->size, w, g.by_column, g.columns);
    return g;
}

/* ---- roi_align: rois [B,R,4] x* [B,H,W,C] -> y [B,R,C S S] ----------------------------------- */

static double cell(const region *g, const real *x, int64_t channels, int64_t c, int64_t i,
                   int64_t k)
{
    double sum = 0;

    for (int64_t row = g->rows[2 * i]; row < g->rows[2 * i + 1]; row++)
        for (int64_t column = g->columns[2 * k]; column < g->columns[2 * k + 1]; column++)
            sum += g->by_row[i * g->h + row] * g->by_column[k * g->w + column] *
                   x[(row * g->w + column) * channels + c];
    return sum;
}

static size_t most_bytes(const dg_roi_attr *f, const dg_tensor *maps)
{
    size_t most = 0;

    for (int64_t l = 0; l < f->n_levels; l++) {
        size_t here = region_bytes(f, maps[l].shape.d[1], maps[l].shape.d[2]);

        most = here > most ? here : most;
    }
    return (most + 7) / 8 * 8;
}

static void align_rois(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_roi_attr *f = a->attr;
    const dg_tensor *maps = a->t + DG_ROI_ALIGN_X, *y = maps + f->n_levels;
    int64_t cells = f->size * f->size, each = y->shape.d[2], rois = dim(a, DG_ROI_ALIGN_ROIS, 1);
    char *memory = (char *)a->workspace + (size_t)thread * most_bytes(f, maps);

    for (int64_t r = begin; r < end; r++) {
        roi_place p = place_at(f, in(a, DG_ROI_ALIGN_ROIS) + r * 4);
        const dg_shape *s = &maps[p.level].shape;
        const real *x = (const real *)maps[p.level].data + r / rois * s->d[1] * s->d[2] * s->d[3];
        region g = weigh(f, &p, s->d[1], s->d[2], memory);

        for (int64_t n = 0; n < each; n++)
            ((real *)y->data)[r * each + n] =
                (real)cell(&g, x, s->d[3], n / cells, n % cells / f->size, n % f->size);
    }
}

static int prepare_align(dg_prepare *p)
{
    p->workspace_bytes = (size_t)p->threads * most_bytes(p->attr, p->t + DG_ROI_ALIGN_X);
    return 0;
}

static int roi_align(const dg_args *a)
{
    parallel(a, elements(a, DG_ROI_ALIGN_ROIS) / 4, align_rois);
    return 0;
}

/* ---- roi_align_grad: dy rois -> dx of one level ---------------------------------------------- */

static void give_back(const region *g, const real *dy, int64_t size, int64_t channels, real *dx)
{
    for (int64_t i = 0; i < size; i++)
        for (int64_t k = 0; k < size; k++)
            for (int64_t row = g->rows[2 * i]; row < g->rows[2 * i + 1]; row++)
                for (int64_t column = g->columns[2 * k]; column < g->columns[2 * k + 1]; column++) {
                    double weight = g->by_row[i * g->h + row] * g->by_column[k * g->w + column];
                    real *to = dx + (row * g->w + column) * channels;

                    for (int64_t c = 0; c < channels; c++)
                        to[c] += (real)(weight * dy[(c * size + i) * size + k]);
                }
}

static void give_back_images(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_roi_attr *f = a->attr;
    int64_t rois = dim(a, DG_ROI_ALIGN_GRAD_ROIS, 1), each = dim(a, DG_ROI_ALIGN_GRAD_DY, 2),
            channels = dim(a, DG_ROI_ALIGN_GRAD_DX, 3), map = f->h * f->w * channels;
    char *memory =
        (char *)a->workspace + (size_t)thread * ((region_bytes(f, f->h, f->w) + 7) / 8 * 8);

    for (int64_t b = begin; b < end; b++) {
        real *dx = out(a, DG_ROI_ALIGN_GRAD_DX) + b * map;

        memset(dx, 0, (size_t)map * sizeof *dx);
        for (int64_t r = b * rois; r < (b + 1) * rois; r++) {
            roi_place p = place_at(f, in(a, DG_ROI_ALIGN_GRAD_ROIS) + r * 4);

            if (p.level != f->level)
                continue;
            region g = weigh(f, &p, f->h, f->w, memory);

            give_back(&g, in(a, DG_ROI_ALIGN_GRAD_DY) + r * each, f->size, channels, dx);
        }
    }
}

static int prepare_grad(dg_prepare *p)
{
    const dg_roi_attr *f = p->attr;

    p->workspace_bytes = (size_t)p->threads * ((region_bytes(f, f->h, f->w) + 7) / 8 * 8);
    return 0;
}

static int roi_align_grad(const dg_args *a)
{
    parallel(a, dim(a, DG_ROI_ALIGN_GRAD_DX, 0), give_back_images);
    return 0;
}

DG_REF(roi_align, prepare_align, roi_align);
DG_REF(roi_align_grad, prepare_grad, roi_align_grad);
