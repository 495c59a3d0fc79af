/* survey_shapes.c: sizes of a data set's images and boxes: histograms, and training advice. */
#include "media/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* ---- histograms ------------------------------------------------------------------------------ */

const dg_histogram dg_survey_histograms[DG_N_HISTS] = {
    [DG_HIST_SIDE] = { .title = "box side in pixels (root of the area)",
                       .key = "box_side",
                       .n = 9,
                       .label = { "< 4", "4 .. 8", "8 .. 16", "16 .. 32", "32 .. 64", "64 .. 128",
                                  "128 .. 256", "256 .. 512", "512 .." } },
    [DG_HIST_ASPECT] = { .title = "box aspect (width : height)",
                         .key = "box_aspect",
                         .n = 10,
                         .label = { "< 1:4", "1:4 .. 1:2.8", "1:2.8 .. 1:2", "1:2 .. 1:1.4",
                                    "1:1.4 .. 1:1", "1:1 .. 1.4:1", "1.4:1 .. 2:1", "2:1 .. 2.8:1",
                                    "2.8:1 .. 4:1", "> 4:1" } },
    [DG_HIST_OBJECTS] = { .title = "objects in an image",
                          .key = "objects_per_image",
                          .n = 10,
                          .label = { "0", "1", "2", "3 .. 4", "5 .. 8", "9 .. 16", "17 .. 32",
                                     "33 .. 64", "65 .. 128", "129 .." } },
    [DG_HIST_IMAGES] = { .title = "image size", .key = "image_size" },
};

static int within(const dg_histogram *h, int bin)
{
    return bin < 0 ? 0 : bin >= h->n ? h->n - 1 : bin;
}

static void count_shapes(dg_survey *s)
{
    dg_histogram *h = s->hist;

    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_images; k++) {
            const dg_coco_image *im = &c->images[k];
            int n = 0;

            for (int j = 0; j < im->n; j++) {
                const dg_coco_annotation *x = &c->annotations[im->first + j];
                dg_box box;
                int fault;

                if (x->crowd || !dg_coco_box(&box, &fault, x, im))
                    continue;
                double w = box.x2 - box.x1, h2 = box.y2 - box.y1;

                n++;
                h[DG_HIST_SIDE]
                    .count[within(&h[DG_HIST_SIDE], (int)floor(log2(sqrt(w * h2))) - 1)]++;
                h[DG_HIST_ASPECT]
                    .count[within(&h[DG_HIST_ASPECT], (int)floor(2 * log2(w / h2)) + 5)]++;
            }
            h[DG_HIST_OBJECTS]
                .count[within(&h[DG_HIST_OBJECTS], n < 2 ? n : (int)ceil(log2(n)) + 1)]++;
        }
    }
}

typedef struct size_count {
    int w, h;
    int64_t n;
} size_count;

static int by_size(const void *p, const void *q)
{
    const size_count *a = p, *b = q;

    return a->w != b->w ? a->w - b->w : a->h - b->h;
}

static int by_count(const void *p, const void *q)
{
    const size_count *a = p, *b = q;

    return a->n != b->n ? (a->n < b->n) - (a->n > b->n) : by_size(p, q);
}

/* The most common image sizes, most frequent first. */
static void count_sizes(dg_survey *s)
{
    dg_histogram *h = &s->hist[DG_HIST_IMAGES];
    size_count *v = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *v);
    int64_t n = 0, kinds = 0, rest = 0;

    if (!v)
        return;
    for (int i = 0; i < s->n_splits; i++)
        for (int k = 0; s->splits[i].index && k < s->splits[i].index->n_images; k++)
            v[n++] =
                (size_count){ s->splits[i].index->images[k].w, s->splits[i].index->images[k].h, 1 };
    qsort(v, (size_t)n, sizeof *v, by_size);
    for (int64_t i = 0; i < n; i++)
        if (kinds && by_size(&v[kinds - 1], &v[i]) == 0)
            v[kinds - 1].n++;
        else
            v[kinds++] = v[i];
    qsort(v, (size_t)kinds, sizeof *v, by_count);
    for (int64_t i = 0; i < kinds; i++) {
        if (i >= 8 && kinds > 9) {
            rest += v[i].n;
            continue;
        }
        h->label[h->n] = dg_printf(s->arena, "%d x %d", v[i].w, v[i].h);
        h->count[h->n++] = v[i].n;
    }
    if (rest) {
        h->label[h->n] =
            dg_printf(s->arena, "%lld other%s", (long long)(kinds - 8), dg_plural(kinds - 8, "s"));
        h->count[h->n++] = rest;
    }
    dg_free(v);
}

/* ---- advice ---------------------------------------------------------------------------------- */

static double median_side(const dg_survey *s)
{
    return s->advice.median_side > 0 ? s->advice.median_side : 640;
}

double dg_survey_small(const dg_survey *s, double size)
{
    return s->advice.small_side * size / median_side(s);
}

double dg_survey_zoom(const dg_survey *s, double size)
{
    const double zoom = fmin(s->advice.spread, dg_survey_small(s, size) / 12);

    return fmin(fmax(floor(10 * zoom) / 10, 1), 4);
}

static int by_real(const void *p, const void *q)
{
    float a = *(const float *)p, b = *(const float *)q;

    return (a > b) - (a < b);
}

static double quantile(float *v, int64_t n, double q)
{
    if (n == 0)
        return 0;
    qsort(v, (size_t)n, sizeof *v, by_real);
    return (double)v[(int64_t)(q * (double)(n - 1))];
}

/* Advises numbers of queries and of noisy copies. Ten queries for each object of the fullest image
 * are plenty; 300 is what the presets for COCO have. */
static void advise_queries(dg_survey *s)
{
    const double most = (double)s->most_objects;

    s->advice.queries = (int)fmin(fmax(50 * ceil(most / 5), 100), fmax(300, 50 * ceil(most / 25)));
    s->advice.denoising = (int)fmin(fmax(10 * most, 20), 100);
}

/* Says what of the data each advice follows from, for people. */
static void explain_advice(dg_survey *s)
{
    const int size = s->advice.size;
    const double aspect = s->advice.aspect;
    dg_str why = { 0 };

    if (s->advice.median_side > 0)
        dg_str_fmt(&why, "images have %.0f pixels on their longer side (median)",
                   s->advice.median_side);
    if (s->advice.small_side > 0)
        dg_str_fmt(&why, "; of the boxes a tenth are smaller than %.0f pixels, %.0f at this size",
                   s->advice.small_side, s->advice.small_scaled);
    if (s->advice.one_shape && fabs(aspect - 1) > 0.2)
        dg_str_fmt(&why, "; all have nearly one shape, %.2f : 1, which sizes=\"%dx%d\" would keep",
                   aspect, aspect > 1 ? size : (int)(32 * ceil(size * aspect / 32)),
                   aspect > 1 ? (int)(32 * ceil(size / aspect / 32)) : size);
    s->advice.why_size = dg_strdup(s->arena, why.s ? why.s : "");
    s->advice.why_objects = s->most_image
                                ? dg_printf(s->arena, "the most in one image are %lld, in %s",
                                            (long long)s->most_objects, s->most_image)
                                : "";
    dg_str_free(&why);
}

/* Advises an image size: the longer side of most images, in steps of 32, from 320 to 640; up to
 * 1024 if the smallest tenth of the boxes would shrink below 10 pixels. */
static void advise(dg_survey *s)
{
    float *sides = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *sides),
          *aspects = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *aspects);
    float *boxes = dg_try_alloc((size_t)(s->n_objects + 1) * sizeof *boxes);
    int64_t n = 0, m = 0;

    for (int i = 0; sides && aspects && boxes && i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_images; k++) {
            const dg_coco_image *im = &c->images[k];

            if (im->w < 2 || im->h < 2) /* size unknown */
                continue;
            sides[n] = (float)(im->w > im->h ? im->w : im->h);
            aspects[n++] = (float)im->w / (float)im->h;
            for (int j = 0; j < im->n; j++) {
                const dg_coco_annotation *x = &c->annotations[im->first + j];
                dg_box box;
                int fault;

                if (!x->crowd && dg_coco_box(&box, &fault, x, im) && m < s->n_objects)
                    boxes[m++] = (float)sqrt((box.x2 - box.x1) * (box.y2 - box.y1));
            }
        }
    }
    if (sides && aspects && boxes && n) {
        double low = quantile(aspects, n, 0.05), high = quantile(aspects, n, 0.95);

        s->advice.aspect = quantile(aspects, n, 0.5);
        s->advice.one_shape = high / low < 1.1;
        s->advice.median_side = quantile(sides, n, 0.5);
        s->advice.small_side = quantile(boxes, m, 0.1);
        s->advice.spread = m ? quantile(boxes, m, 0.5) / fmax(s->advice.small_side, 1) : 1;
    }
    double side = median_side(s), size = fmin(fmax(32 * ceil(side / 32), 320), 640);

    while (size + 64 <= fmin(32 * ceil(side / 32), 1024) && dg_survey_small(s, size) < 10 && m)
        size += 64;
    s->advice.size = (int)size;
    s->advice.small_scaled = dg_survey_small(s, size);
    advise_queries(s);
    s->advice.max_objects = s->most_objects < 10 ? 10 : (int)(s->most_objects + 9) / 10 * 10;
    dg_free(sides);
    dg_free(aspects);
    dg_free(boxes);
}

void dg_survey_shapes(dg_survey *s)
{
    memcpy(s->hist, dg_survey_histograms, sizeof s->hist);
    count_shapes(s);
    count_sizes(s);
    advise(s);
    explain_advice(s);
}
