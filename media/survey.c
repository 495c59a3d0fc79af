/* survey: annotations of a data set: classes over all splits, boxes and their faults, histograms,
 * and what suits a training. Files are looked at in survey_images.c. */
#include "media/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

static const double twice = 0.9; /* overlap (IoU) from which two boxes are one object drawn twice */

/* ---- splits and classes -------------------------------------------------------------------- */

static void open_splits(dg_survey *s, const dg_survey_options *o)
{
    dg_diag *said = dg_diag_open();

    s->n_splits = s->layout.splits.n;
    s->splits = DG_NEW_N(s->arena, s->n_splits, dg_survey_split);
    for (int i = 0; i < s->n_splits; i++) {
        s->splits[i] = (dg_survey_split){ .split = &s->layout.splits.items[i], .name = s->layout.splits.items[i].name };
        if (o->progress)
            o->progress(o->ctx, "annotations", i, s->n_splits);
        s->faults.split = i;
        if (dg_layout_open(&s->splits[i].index, &s->layout, i, &s->faults, said) < 0)
            dg_fault_take(&s->faults, DG_FAULT_ANNOTATION, -1, said);
        dg_diag_clear(said);
    }
    s->faults.split = -1;
    dg_diag_close(&said);
}

static int class_of(dg_survey *s, const char *name)
{
    for (int i = 0; i < s->n_classes; i++)
        if (strcmp(s->classes[i], name) == 0)
            return i;
    return -1;
}

/* Splits must number the same classes alike, as a run requires. */
static void compare_classes(dg_survey *s, int first, int i)
{
    const dg_coco *a = s->splits[first].index, *b = s->splits[i].index;

    for (int k = 0; k < a->n_classes || k < b->n_classes; k++) {
        const char *x = k < a->n_classes ? a->classes[k].name : NULL, *y = k < b->n_classes ? b->classes[k].name : NULL;

        if (x && y && strcmp(x, y) == 0)
            continue;
        s->faults.split = i;
        dg_fault_note(&s->faults, DG_FAULT_CLASSES_DIFFER, -1, (dg_where){ .file = b->path },
                      "class %d is %s%s%s, in %s %s%s%s", k, y ? "\"" : "", y ? y : "none", y ? "\"" : "",
                      s->splits[first].name, x ? "\"" : "", x ? x : "none", x ? "\"" : "");
        s->faults.split = -1;
        return;
    }
}

static void join_classes(dg_survey *s)
{
    int most = 0, first = -1;

    for (int i = 0; i < s->n_splits; i++)
        most += s->splits[i].index ? s->splits[i].index->n_classes : 0;
    s->classes = DG_NEW_N(s->arena, most, const char *);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_classes; k++)
            if (class_of(s, c->classes[k].name) < 0)
                s->classes[s->n_classes++] = c->classes[k].name;
        if (c && first >= 0)
            compare_classes(s, first, i);
        first = first < 0 && c ? i : first;
    }
    s->per_class = DG_NEW_N(s->arena, s->n_classes, int64_t);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        s->splits[i].per_class = DG_NEW_N(s->arena, s->n_classes, int64_t);
        for (int k = 0; c && k < c->n_classes; k++) {
            int label = class_of(s, c->classes[k].name);

            s->splits[i].per_class[label] += c->report.per_class[k];
            s->per_class[label] += c->report.per_class[k];
        }
    }
}

static void note_classes(dg_survey *s)
{
    const dg_survey_split *first = s->n_splits ? &s->splits[0] : NULL;
    bool                   train = first && first->index && s->n_splits > 1 && dg_split_is(first->split, "train");

    for (int k = 0; k < s->n_classes; k++) {
        if (s->per_class[k] == 0)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_EMPTY, -1, DG_NOWHERE, "%s", s->classes[k]);
        else if (train && first->per_class[k] == 0)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_UNTRAINED, -1, DG_NOWHERE, "%s: %lld objects, none in %s", s->classes[k],
                          (long long)s->per_class[k], first->name);
    }
}

double dg_survey_imbalance(const dg_survey *s)
{
    int64_t most = 0, least = INT64_MAX;
    int     n = 0;

    for (int k = 0; k < s->n_classes; k++) {
        if (!s->per_class[k])
            continue;
        n++;
        most = s->per_class[k] > most ? s->per_class[k] : most;
        least = s->per_class[k] < least ? s->per_class[k] : least;
    }
    return n > 1 ? (double)most / (double)least : 0;
}

/* ---- boxes --------------------------------------------------------------------------------- */

static dg_where in_image(const dg_coco_image *im)
{
    return (dg_where){ .file = im->file_name };
}

static dg_box box_of(const dg_coco_annotation *x)
{
    return (dg_box){ x->x, x->y, x->x + x->w, x->y + x->h };
}

/* Every pair of an image: objects are few in each. */
static void note_twice(dg_survey *s, const dg_coco *c, int i)
{
    const dg_coco_image      *im = &c->images[i];
    const dg_coco_annotation *a = &c->annotations[im->first];

    for (int p = 0; p < im->n; p++)
        for (int q = 0; q < p; q++) {
            double iou;

            if (a[p].crowd || a[q].crowd || a[p].x > a[q].x + a[q].w || a[q].x > a[p].x + a[p].w)
                continue;
            iou = dg_box_iou(box_of(&a[p]), box_of(&a[q]));
            if (iou < twice)
                continue;
            dg_fault_note(&s->faults, DG_FAULT_BOX_TWICE, i, in_image(im), "%s and %s, boxes %lld and %lld, overlap by %.2f",
                          c->classes[a[q].label].name, c->classes[a[p].label].name, (long long)a[q].id, (long long)a[p].id, iou);
        }
}

static void look_at_boxes(dg_survey *s, dg_survey_split *split)
{
    static const dg_fault_kind kinds[] = { [DG_BOX_EMPTY] = DG_FAULT_BOX_EMPTY,
                                           [DG_BOX_OUTSIDE] = DG_FAULT_BOX_OUTSIDE,
                                           [DG_BOX_CUT] = DG_FAULT_BOX_CUT };
    const dg_coco *c = split->index;

    s->faults.split = (int)(split - s->splits);
    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image *im = &c->images[i];

        for (int k = 0; k < im->n; k++) {
            const dg_coco_annotation *x = &c->annotations[im->first + k];
            dg_box                    box;
            int                       fault;

            split->n_truncated += x->truncated;
            if (x->crowd || im->w < 1)
                continue;
            (void)dg_coco_box(&box, &fault, x, im);
            if (fault >= 0)
                dg_fault_note(&s->faults, kinds[fault], i, in_image(im),
                              "%s, box %lld: left %g, top %g, width %g, height %g in an image of %d x %d",
                              c->classes[x->label].name, (long long)x->id, x->x, x->y, x->w, x->h, im->w, im->h);
        }
        note_twice(s, c, i);
    }
    s->faults.split = -1;
}

/* ---- histograms ---------------------------------------------------------------------------- */

static void set_labels(dg_histogram *h, const char *title, const char *key, const char *const labels[])
{
    h->title = title;
    h->key = key;
    for (h->n = 0; labels[h->n]; h->n++)
        h->label[h->n] = labels[h->n];
}

static int within(const dg_histogram *h, int bin)
{
    return bin < 0 ? 0 : bin >= h->n ? h->n - 1 : bin;
}

static void count_shapes(dg_survey *s)
{
    static const char *const side[] = { "< 4", "4 .. 8", "8 .. 16", "16 .. 32", "32 .. 64", "64 .. 128", "128 .. 256",
                                        "256 .. 512", "512 ..", NULL };
    static const char *const aspect[] = { "< 1:4", "1:4 .. 1:2.8", "1:2.8 .. 1:2", "1:2 .. 1:1.4", "1:1.4 .. 1:1",
                                          "1:1 .. 1.4:1", "1.4:1 .. 2:1", "2:1 .. 2.8:1", "2.8:1 .. 4:1", "> 4:1", NULL };
    static const char *const objects[] = { "0",        "1",        "2",         "3 .. 4", "5 .. 8", "9 .. 16",
                                           "17 .. 32", "33 .. 64", "65 .. 128", "129 ..", NULL };
    dg_histogram *h = s->hist;

    set_labels(&h[DG_HIST_SIDE], "box side in pixels (root of the area)", "box_side", side);
    set_labels(&h[DG_HIST_ASPECT], "box aspect (width : height)", "box_aspect", aspect);
    set_labels(&h[DG_HIST_OBJECTS], "objects in an image", "objects_per_image", objects);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_images; k++) {
            const dg_coco_image *im = &c->images[k];
            int                  n = 0;

            for (int j = 0; j < im->n; j++) {
                const dg_coco_annotation *x = &c->annotations[im->first + j];
                dg_box                    box;
                int                       fault;

                if (x->crowd || !dg_coco_box(&box, &fault, x, im))
                    continue;
                double w = box.x2 - box.x1, h2 = box.y2 - box.y1;

                n++;
                h[DG_HIST_SIDE].count[within(&h[DG_HIST_SIDE], (int)floor(log2(sqrt(w * h2))) - 1)]++;
                h[DG_HIST_ASPECT].count[within(&h[DG_HIST_ASPECT], (int)floor(2 * log2(w / h2)) + 5)]++;
            }
            h[DG_HIST_OBJECTS].count[within(&h[DG_HIST_OBJECTS], n < 2 ? n : (int)ceil(log2(n)) + 1)]++;
        }
    }
}

typedef struct size_count {
    int     w, h;
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

/* The sizes that most images have, by how many have them. */
static void count_sizes(dg_survey *s)
{
    dg_histogram *h = &s->hist[DG_HIST_IMAGES];
    size_count   *v = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *v);
    int64_t       n = 0, kinds = 0, rest = 0;

    h->title = "image size";
    h->key = "image_size";
    if (!v)
        return;
    for (int i = 0; i < s->n_splits; i++)
        for (int k = 0; s->splits[i].index && k < s->splits[i].index->n_images; k++)
            v[n++] = (size_count){ s->splits[i].index->images[k].w, s->splits[i].index->images[k].h, 1 };
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
        h->label[h->n] = dg_printf(s->arena, "%lld others", (long long)(kinds - 8));
        h->count[h->n++] = rest;
    }
    dg_free(v);
}

/* ---- advice -------------------------------------------------------------------------------- */

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

/* The longer side of most images, in steps of 32, from 320 to 640; more, up to 1024, where the
 * smallest tenth of the boxes would shrink below 10 pixels. */
static void advise(dg_survey *s)
{
    float *sides = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *sides),
          *aspects = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *aspects);
    float  *boxes = dg_try_alloc((size_t)(s->n_objects + 1) * sizeof *boxes);
    int64_t n = 0, m = 0;

    for (int i = 0; sides && aspects && boxes && i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_images; k++) {
            const dg_coco_image *im = &c->images[k];

            if (im->w < 2 || im->h < 2) /* not known */
                continue;
            sides[n] = (float)(im->w > im->h ? im->w : im->h);
            aspects[n++] = (float)im->w / (float)im->h;
            for (int j = 0; j < im->n; j++) {
                const dg_coco_annotation *x = &c->annotations[im->first + j];
                dg_box                    box;
                int                       fault;

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
    }
    double side = s->advice.median_side > 0 ? s->advice.median_side : 640, size = fmin(fmax(32 * ceil(side / 32), 320), 640);

    while (size + 64 <= fmin(32 * ceil(side / 32), 1024) && s->advice.small_side * size / side < 10 && m)
        size += 64;
    s->advice.size = (int)size;
    s->advice.small_scaled = s->advice.small_side * size / side;
    s->advice.max_objects = s->most_objects < 10 ? 10 : (s->most_objects + 9) / 10 * 10;
    dg_free(sides);
    dg_free(aspects);
    dg_free(boxes);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void sum_up(dg_survey *s)
{
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        if (!c)
            continue;
        s->n_images += c->n_images;
        s->n_objects += c->report.n_objects;
        s->n_crowd += c->report.n_crowd;
        s->n_empty += c->report.n_empty;
        s->n_truncated += s->splits[i].n_truncated;
        if (c->report.most_objects > s->most_objects) {
            s->most_objects = c->report.most_objects;
            s->most_image = c->images[c->report.most_objects_image].file_name;
        }
    }
}

int dg_survey_open(dg_survey **out, const char *path, const dg_survey_options *o, dg_diag *d)
{
    dg_arena  *a = dg_arena_open();
    dg_survey *s = DG_NEW(a, dg_survey);
    int        rc;

    s->arena = a;
    s->faults.arena = a;
    s->faults.split = -1;
    DG_TRY(dg_layout_find(&s->layout, a, path, o->splits, d));
    open_splits(s, o);
    join_classes(s);
    for (int i = 0; i < s->n_splits; i++)
        if (s->splits[i].index)
            look_at_boxes(s, &s->splits[i]);
    note_classes(s);
    sum_up(s);
    count_shapes(s);
    count_sizes(s);
    advise(s);
    DG_TRY(dg_survey_images(s, o, d));
    *out = s;
out:
    if (rc < 0)
        dg_survey_close(&s);
    return rc;
}

void dg_survey_close(dg_survey **s)
{
    if (!*s)
        return;
    dg_arena *a = (*s)->arena;

    for (int i = 0; i < (*s)->n_splits; i++)
        dg_coco_close(&(*s)->splits[i].index);
    *s = NULL;
    dg_arena_close(&a);
}
