/* review.c: what AP does not say of an evaluation: what a box that never moves reaches, precision
 * and recall over the threshold, which classes are taken for which, and the worst images.
 *
 * At IoU 0.50. Detections by descending score take truths greedily, as in COCO's evaluator: for
 * precision and recall those of their class; for the confusion matrix of any, rather of their own.
 * What is taken does not depend on lower scores, so one pass gives all thresholds. */
#include "media/review_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double least_iou = 0.5;

typedef struct reviewing {
    dg_review_parts r;
    const dg_detection *v;
    int64_t n;
    int64_t *order; /* detections by descending score */
    int64_t *first; /* [items + 1]: truths of an item in `truths` */
    const dg_coco_annotation **truths;
    uint8_t *used;
} reviewing;

static double iou_of(const dg_detection *x, const dg_coco_annotation *t)
{
    const double w = fmin(x->x + x->w, t->x + t->w) - fmax(x->x, t->x),
                 h = fmin(x->y + x->h, t->y + t->h) - fmax(x->y, t->y);
    const double both = w > 0 && h > 0 ? w * h : 0;

    return both > 0 ? both / (t->crowd ? x->w * x->h : x->w * x->h + t->w * t->h - both) : 0;
}

static int by_score(const void *p, const void *q, void *ctx)
{
    const dg_detection *v = ctx;
    const int64_t a = *(const int64_t *)p, b = *(const int64_t *)q;

    if (v[a].score > v[b].score || v[a].score < v[b].score)
        return v[a].score > v[b].score ? -1 : 1;
    return (a > b) - (a < b);
}

/* Orders detections by score and truths by image. */
static void prepare(reviewing *w)
{
    const dg_dataset *data = w->r.data;
    dg_arena *a = w->r.arena;
    int64_t *at = DG_NEW_N(a, data->n_items + 1, int64_t);

    w->order = DG_NEW_N(a, w->n + 1, int64_t);
    w->first = DG_NEW_N(a, data->n_items + 2, int64_t);
    w->truths = DG_NEW_N(a, data->n_truths + 1, const dg_coco_annotation *);
    w->used = DG_NEW_N(a, data->n_truths + 1, uint8_t);
    for (int64_t i = 0; i < w->n; i++)
        w->order[i] = i;
    if (w->n)
        qsort_r(w->order, (size_t)w->n, sizeof *w->order, by_score, (void *)(uintptr_t)w->v);
    for (int64_t i = 0; i < data->n_truths; i++)
        w->first[data->truths[i].image + 1]++;
    for (int i = 0; i < data->n_items; i++) {
        w->first[i + 1] += w->first[i];
        at[i] = w->first[i];
    }
    for (int64_t i = 0; i < data->n_truths; i++)
        w->truths[at[data->truths[i].image]++] = &data->truths[i];
}

/* The free truth that the detection overlaps most; own: of its class only. -1: none; -2: a crowd.
 */
static int64_t take(const reviewing *w, const dg_detection *x, bool own)
{
    double best = least_iou;
    int64_t found = -1;
    bool crowd = false;

    for (int64_t k = w->first[x->image]; k < w->first[x->image + 1]; k++) {
        const dg_coco_annotation *t = w->truths[k];
        const double iou = (own && t->label != x->label) || w->used[k] ? 0 : iou_of(x, t);

        if (t->crowd)
            crowd |= iou >= least_iou && t->label == x->label;
        else if (iou >= best) {
            best = iou;
            found = k;
        }
    }
    return found >= 0 ? found : crowd ? -2 : -1;
}

/* ---- precision and recall -------------------------------------------------------------------- */

static double f1_of(int64_t hits, int64_t found, int64_t truths)
{
    return hits ? 2.0 * (double)hits / (double)(found + truths) : 0;
}

/* Goes down the scores; a threshold stands between two scores that differ. */
static void over_thresholds(reviewing *w)
{
    dg_review *s = w->r.sums;
    int64_t hits = 0, found = 0;
    int point = DG_REVIEW_POINTS - 1;

    for (int64_t i = 0; i <= w->n; i++) {
        const dg_detection *x = i < w->n ? &w->v[w->order[i]] : NULL;
        const double last = i ? w->v[w->order[i - 1]].score : 1;

        for (; point >= 0 && (!x || x->score < point / 100.0); point--) {
            w->r.precision[point] = found ? (double)hits / (double)found : 0;
            w->r.recall[point] = s->n_truths ? (double)hits / (double)s->n_truths : 0;
        }
        if (i && (!x || x->score < last) && f1_of(hits, found, s->n_truths) > s->f1) {
            s->f1 = f1_of(hits, found, s->n_truths);
            s->threshold = x ? (last + x->score) / 2 : last;
            s->precision = (double)hits / (double)found;
            s->recall = (double)hits / (double)s->n_truths;
        }
        if (!x)
            break;

        const int64_t k = take(w, x, true);
        dg_review_class *c = &w->r.classes[x->label];

        if (k == -2)
            continue;
        if (k >= 0)
            w->used[k] = 1;
        hits += k >= 0;
        found++;
        c->hits += k >= 0;
        c->found++;
        if (f1_of(c->hits, c->found, c->truths) > c->best_f1) {
            c->best_f1 = f1_of(c->hits, c->found, c->truths);
            c->best_threshold = x->score;
        }
    }
}

/* ---- at the threshold ------------------------------------------------------------------------ */

static int by_misses(const void *p, const void *q)
{
    const dg_review_image *a = p, *b = q;
    const int64_t x = a->missed + a->confused, y = b->missed + b->confused;

    if (x != y)
        return x > y ? -1 : 1;
    if (a->wrong != b->wrong)
        return a->wrong > b->wrong ? -1 : 1;
    return a->item - b->item;
}

static void count_cell(dg_review_parts *r, int truth, int found)
{
    if (r->matrix)
        r->matrix[truth * (r->data->n_classes + 1) + found]++;
}

static void at_threshold(reviewing *w)
{
    dg_review_parts *r = &w->r;
    const int none = r->data->n_classes;

    memset(w->used, 0, (size_t)r->data->n_truths);
    for (int k = 0; k < none; k++)
        r->classes[k].hits = r->classes[k].found = 0;
    for (int64_t i = 0; i < w->n && w->v[w->order[i]].score >= r->sums->threshold; i++) {
        const dg_detection *x = &w->v[w->order[i]];
        const int64_t own = take(w, x, true), k = own == -1 ? take(w, x, false) : own;
        dg_review_class *c = &r->classes[x->label];

        if (k == -2)
            continue;
        c->found++;
        c->hits += own >= 0;
        if (k >= 0)
            w->used[k] = 1;
        count_cell(r, k >= 0 ? w->truths[k]->label : none, x->label);
        r->images[x->image].wrong += k < 0;
        r->images[x->image].confused += k >= 0 && own < 0;
    }
    for (int64_t k = 0; k < r->data->n_truths; k++) {
        const dg_coco_annotation *t = w->truths[k];

        if (t->crowd)
            continue;
        r->images[t->image].truths++;
        if (w->used[k])
            continue;
        r->images[t->image].missed++;
        count_cell(r, t->label, none);
    }
    if (r->n_images)
        qsort(r->images, (size_t)r->n_images, sizeof *r->images, by_misses);
}

/* ---- boxes that never move ------------------------------------------------------------------- */

static int by_real(const void *p, const void *q)
{
    const double a = *(const double *)p, b = *(const double *)q;

    return (a > b) - (a < b);
}

static int by_label(const void *p, const void *q)
{
    const dg_coco_annotation *a = *(const dg_coco_annotation *const *)p,
                             *b = *(const dg_coco_annotation *const *)q;

    return (a->label > b->label) - (a->label < b->label);
}

/* The median left, top, right and bottom of n truths, in shares of their images. */
static void median_box(dg_box *out, const reviewing *w, const dg_coco_annotation *const *truths,
                       int64_t n_truths, double *room)
{
    double *const edges[] = { &out->x1, &out->y1, &out->x2, &out->y2 };

    for (int e = 0; e < 4; e++) {
        int64_t n = 0;

        for (int64_t k = 0; k < n_truths; k++) {
            const dg_coco_annotation *t = truths[k];
            dg_item_info info;

            w->r.data->info(w->r.data->self, t->image, &info);
            room[n++] = e == 0   ? t->x / fmax(info.w, 1)
                        : e == 1 ? t->y / fmax(info.h, 1)
                        : e == 2 ? (t->x + t->w) / fmax(info.w, 1)
                                 : (t->y + t->h) / fmax(info.h, 1);
        }
        qsort(room, (size_t)n, sizeof *room, by_real);
        *edges[e] = room[n / 2];
    }
}

/* More boxes, some hundred megabytes, are not worth their memory: what they reach is undefined. */
enum { CONSTANT_BOXES = 2000000 };

static int constant_boxes(reviewing *w, dg_diag *d)
{
    const dg_dataset *data = w->r.data;
    dg_arena *a = w->r.arena;
    dg_detection *v;
    double *room = DG_NEW_N(a, data->n_truths + 1, double);
    int *last = DG_NEW_N(a, data->n_classes + 1, int), classes = 0;
    int64_t *images = DG_NEW_N(a, data->n_classes + 1, int64_t), n = 0;
    const dg_coco_annotation **sorted = DG_NEW_N(a, data->n_truths + 1, const dg_coco_annotation *);
    dg_score *score = NULL;
    int64_t n_sorted = 0, at = 0;
    int rc;

    for (int k = 0; k < data->n_classes; k++) {
        last[k] = -1;
        classes += w->r.classes[k].truths > 0;
    }
    if ((int64_t)classes * data->n_items > CONSTANT_BOXES)
        return 0;
    for (int64_t k = 0; k < data->n_truths; k++)
        if (!data->truths[k].crowd)
            sorted[n_sorted++] = &data->truths[k];
    qsort(sorted, (size_t)n_sorted, sizeof *sorted, by_label);
    for (int64_t k = 0; k < data->n_truths; k++) /* ordered by image */
        if (!w->truths[k]->crowd && last[w->truths[k]->label] != w->truths[k]->image) {
            last[w->truths[k]->label] = w->truths[k]->image;
            images[w->truths[k]->label]++;
        }
    v = DG_NEW_N(a, (int64_t)classes * data->n_items + 1, dg_detection);
    for (int k = 0; k < data->n_classes; k++) {
        dg_box b;

        if (!w->r.classes[k].truths)
            continue;
        median_box(&b, w, sorted + at, w->r.classes[k].truths, room);
        at += w->r.classes[k].truths;
        for (int i = 0; i < data->n_items; i++) {
            dg_item_info info;

            data->info(data->self, i, &info);
            v[n++] = (dg_detection){ .image = i,
                                     .label = k,
                                     .x = b.x1 * info.w,
                                     .y = b.y1 * info.h,
                                     .w = (b.x2 - b.x1) * info.w,
                                     .h = (b.y2 - b.y1) * info.h,
                                     .score = (double)images[k] / data->n_items };
        }
    }
    DG_TRY(dg_score_open(&score, data->n_items, data->n_classes, data->truths, data->n_truths, v, n,
                         d));
    w->r.sums->constant_ap = dg_score_number(score, DG_AP);
    w->r.sums->constant_ap50 = dg_score_number(score, DG_AP50);
out:
    dg_score_close(&score);
    return rc;
}

static void count_truths(reviewing *w)
{
    dg_review *s = w->r.sums;

    for (int64_t i = 0; i < w->r.data->n_truths; i++) {
        const dg_coco_annotation *t = &w->r.data->truths[i];

        if (t->crowd)
            continue;
        w->r.classes[t->label].truths++;
        s->n_truths++;
        s->n_small += t->area < 32.0 * 32;
        s->n_large += t->area > 96.0 * 96;
    }
    s->n_medium = s->n_truths - s->n_small - s->n_large;
}

int dg_review_of(dg_review *out, const char *path, const dg_dataset *data, const dg_detection *v,
                 int64_t n, int64_t step, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const int64_t cells = (int64_t)(data->n_classes + 1) * (data->n_classes + 1);
    reviewing w = {
        .r = { .arena = a,
               .data = data,
               .sums = out,
               .n_images = data->n_items,
               .classes = DG_NEW_N(a, data->n_classes + 1, dg_review_class),
               .images = DG_NEW_N(a, data->n_items + 1, dg_review_image),
               .matrix = data->n_classes <= DG_REVIEW_MATRIX ? DG_NEW_N(a, cells, int64_t) : NULL },
        .v = v,
        .n = n,
    };
    int rc = 0;

    *out = (dg_review){ .constant_ap = -1, .constant_ap50 = -1, .n_images = data->n_items };
    for (int i = 0; i < data->n_items; i++)
        w.r.images[i].item = i;
    for (int k = 0; k < data->n_classes; k++)
        w.r.classes[k].best_threshold = NAN;
    prepare(&w);
    count_truths(&w);
    if (out->n_truths == 0)
        out->threshold = out->f1 = out->precision = out->recall = -1;
    else
        over_thresholds(&w);
    if (out->n_truths)
        DG_TRY(constant_boxes(&w, d));
    at_threshold(&w);
    if (path)
        DG_TRY(dg_review_json(path, &w.r, step, d));
out:
    dg_arena_close(&a);
    return rc;
}
