/* roi.c: features of regions; the rule and the weights along an axis are those of
 * kernels/ref/roi.h. Channels are neighbours in maps and 49 numbers apart in features, so a
 * region's features are collected cell by cell and transposed at the end. The gradient divides the
 * rows of the maps among threads: each takes the regions in their order, so the bits do not depend
 * on their number. */
#include <detrgraph/heads.h>

#include "kernels/host/simd/simd.h"
#include "kernels/ref/roi.h"

/* Memory of a thread: weights of rows and columns, their ranges, and features [cell][channel]. */
typedef struct region {
    double *by_row, *by_column;
    int32_t *rows, *columns;
    float *features;
    int64_t h, w, channels, size;
} region;

static size_t region_bytes(int64_t size, int64_t h, int64_t w, int64_t channels)
{
    size_t bytes = (size_t)(size * (h + w)) * sizeof(double) + (size_t)size * 4 * sizeof(int32_t) +
                   (size_t)(size * size * channels) * sizeof(float);

    return (bytes + 63) / 64 * 64;
}

static region open_region(int64_t size, int64_t h, int64_t w, int64_t channels, void *memory)
{
    region g = { .by_row = memory, .h = h, .w = w, .channels = channels, .size = size };

    g.by_column = g.by_row + size * h;
    g.rows = (int32_t *)(g.by_column + size * w);
    g.columns = g.rows + 2 * size;
    g.features = (float *)(g.columns + 2 * size);
    return g;
}

static roi_place place_at(const dg_roi_attr *f, const float *roi)
{
    return place_of((double)roi[0], (double)roi[1], (double)roi[2], (double)roi[3], f->finest,
                    f->n_levels, f->stride);
}

static void weigh(const region *g, const roi_place *p)
{
    weigh_axis(p->begin[1], p->side[1], g->size, g->h, g->by_row, g->rows);
    weigh_axis(p->begin[0], p->side[0], g->size, g->w, g->by_column, g->columns);
}

/* ---- roi_align: rois [B,R,4] x* [B,H,W,C] -> y [B,R,C S S] ----------------------------------- */

/* W channels from c on of cell (i, k). */
ALWAYS vf cell(const region *g, const float *x, int64_t i, int64_t k, int64_t c, int64_t n)
{
    vf sum = { 0 };

    for (int64_t row = g->rows[2 * i]; row < g->rows[2 * i + 1]; row++)
        for (int64_t column = g->columns[2 * k]; column < g->columns[2 * k + 1]; column++) {
            float weight = (float)(g->by_row[i * g->h + row] * g->by_column[k * g->w + column]);

            sum = vf_fma(vf_set(weight), vf_load_n(x + (row * g->w + column) * g->channels + c, n),
                         sum);
        }
    return sum;
}

static void align_rois(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const dg_roi_attr *f = a->attr;
    const dg_tensor *maps = a->t + DG_ROI_ALIGN_X, *y = maps + f->n_levels;
    int64_t rois = a->t[DG_ROI_ALIGN_ROIS].shape.d[1], cells = f->size * f->size,
            channels = maps->shape.d[3];
    size_t most = 0;

    for (int64_t l = 0; l < f->n_levels; l++) {
        size_t here = region_bytes(f->size, maps[l].shape.d[1], maps[l].shape.d[2], channels);

        most = here > most ? here : most;
    }
    for (int64_t r = begin; r < end; r++) {
        roi_place p = place_at(f, (const float *)a->t[DG_ROI_ALIGN_ROIS].data + r * 4);
        const dg_shape *s = &maps[p.level].shape;
        const float *x =
            (const float *)maps[p.level].data + r / rois * s->d[1] * s->d[2] * channels;
        region g = open_region(f->size, s->d[1], s->d[2], channels,
                               (char *)a->workspace + (size_t)thread * most);
        float *to = (float *)y->data + r * channels * cells;

        weigh(&g, &p);
        for (int64_t n = 0; n < cells; n++)
            for (int64_t c = 0; c < channels; c += W) {
                int64_t w = min64(channels - c, W);

                vf_store_n(g.features + n * channels + c,
                           cell(&g, x, n / f->size, n % f->size, c, w), w);
            }
        for (int64_t c = 0; c < channels; c++)
            for (int64_t n = 0; n < cells; n++)
                to[c * cells + n] = g.features[n * channels + c];
    }
}

static int prepare_align(dg_prepare *p)
{
    const dg_roi_attr *f = p->attr;
    size_t most = 0;

    for (int64_t l = 0; l < f->n_levels; l++) {
        const dg_shape *s = &p->t[DG_ROI_ALIGN_X + l].shape;
        size_t here = region_bytes(f->size, s->d[1], s->d[2], s->d[3]);

        most = here > most ? here : most;
    }
    p->workspace_bytes = most * (size_t)p->threads;
    return 0;
}

static int roi_align(const dg_args *a)
{
    const dg_roi_attr *f = a->attr;
    dg_args copy = *a;

    parallel(a, elements(a, DG_ROI_ALIGN_ROIS) / 4, width(a, DG_ROI_ALIGN_X + (int)f->n_levels) * 8,
             align_rois, &copy);
    return 0;
}

/* ---- roi_align_grad: dy rois -> dx of one level ---------------------------------------------- */

/* Adds a region's gradient to rows first..last-1 of an image's map. */
static void give_back(const region *g, int64_t first, int64_t last, float *dx)
{
    for (int64_t n = 0; n < g->size * g->size; n++) {
        int64_t i = n / g->size, k = n % g->size;

        for (int64_t row = max64(first, g->rows[2 * i]); row < min64(last, g->rows[2 * i + 1]);
             row++)
            for (int64_t column = g->columns[2 * k]; column < g->columns[2 * k + 1]; column++) {
                float weight = (float)(g->by_row[i * g->h + row] * g->by_column[k * g->w + column]);
                float *to = dx + (row * g->w + column) * g->channels;

                for (int64_t c = 0; c < g->channels; c += W) {
                    int64_t w = min64(g->channels - c, W);
                    vf from = vf_load_n(g->features + n * g->channels + c, w);

                    vf_store_n(to + c, vf_fma(vf_set(weight), from, vf_load_n(to + c, w)), w);
                }
            }
    }
}

static bool reaches(const region *g, int64_t first, int64_t last)
{
    for (int64_t i = 0; i < g->size; i++)
        if (g->rows[2 * i] < last && g->rows[2 * i + 1] > first)
            return true;
    return false;
}

/* Rows first..last-1 of the map of image b. */
static void give_back_rows(const dg_args *a, int64_t b, int64_t first, int64_t last, region *g)
{
    const dg_roi_attr *f = a->attr;
    int64_t rois = a->t[DG_ROI_ALIGN_GRAD_ROIS].shape.d[1], cells = f->size * f->size,
            row = f->w * g->channels;
    float *dx = (float *)a->t[DG_ROI_ALIGN_GRAD_DX].data + b * f->h * row;

    memset(dx + first * row, 0, (size_t)((last - first) * row) * sizeof *dx);
    for (int64_t r = b * rois; r < (b + 1) * rois; r++) {
        roi_place p = place_at(f, (const float *)a->t[DG_ROI_ALIGN_GRAD_ROIS].data + r * 4);
        const float *dy = (const float *)a->t[DG_ROI_ALIGN_GRAD_DY].data + r * g->channels * cells;

        if (p.level != f->level)
            continue;
        weigh(g, &p);
        if (!reaches(g, first, last))
            continue;
        for (int64_t c = 0; c < g->channels; c++)
            for (int64_t n = 0; n < cells; n++)
                g->features[n * g->channels + c] = dy[c * cells + n];
        give_back(g, first, last, dx);
    }
}

static void give_back_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const dg_roi_attr *f = a->attr;
    int64_t channels = width(a, DG_ROI_ALIGN_GRAD_DX);
    size_t bytes = region_bytes(f->size, f->h, f->w, channels);
    region g =
        open_region(f->size, f->h, f->w, channels, (char *)a->workspace + (size_t)thread * bytes);

    for (int64_t n = begin; n < end;) {
        int64_t b = n / f->h, first = n % f->h, last = min64(f->h, first + end - n);

        give_back_rows(a, b, first, last, &g);
        n += last - first;
    }
}

static int prepare_grad(dg_prepare *p)
{
    const dg_roi_attr *f = p->attr;
    const dg_shape *dx = &p->t[DG_ROI_ALIGN_GRAD_DX].shape;

    p->workspace_bytes = (size_t)p->threads * region_bytes(f->size, f->h, f->w, dx->d[3]);
    return 0;
}

static int roi_align_grad(const dg_args *a)
{
    const dg_roi_attr *f = a->attr;
    dg_args copy = *a;

    parallel(a, a->t[DG_ROI_ALIGN_GRAD_DX].shape.d[0] * f->h, f->w * width(a, DG_ROI_ALIGN_GRAD_DX),
             give_back_range, &copy);
    return 0;
}

DG_SIMD(roi_align, prepare_align, roi_align);
DG_SIMD(roi_align_grad, prepare_grad, roi_align_grad);
