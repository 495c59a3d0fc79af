/* score.c: COCO evaluation of boxes or masks, with the same numbers as the official evaluator
 * (pycocotools).
 *
 * For each class and image the 100 best detections, by descending score, take truths greedily:
 * among the truths not taken, the one of largest IoU that reaches the threshold. Truths that count
 * are preferred to ignored ones. Crowds are ignored truths and may be taken repeatedly; their IoU
 * is over the detection's area. A truth is also ignored outside the area range. A detection counts
 * neither for nor against if it took an ignored truth, or took none and is itself outside the
 * range. Then over all images by descending score
 *
 *     recall_i = tp_i / truths,   precision_i = tp_i / (tp_i + fp_i + eps),
 *     p_i = max_{j >= i} precision_j,
 *
 * sampled at the first recall >= r for r = 0, 0.01, .. 1 (0 beyond the last). AP is the mean of the
 * samples over thresholds 0.50 .. 0.95 and the classes that have truths; AR the mean of the last
 * recalls.
 *
 * One difference: the official evaluator treats a match with a truth of annotation id 0 as no
 * match. */
#include "media/score.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum {
    IOUS = DG_SCORE_IOUS,
    RECALLS = DG_SCORE_RECALLS,
    AREAS = DG_SCORE_AREAS,
    LIMITS = 3,
    BEST = 100,
    MAX_CLASSES = 1 << 16, /* their curves take 2 GB */
};

static const int limits[LIMITS] = { 1, 10, BEST };
static const double area_from[AREAS] = { 0.0, 0.0, 32.0 * 32.0, 96.0 * 96.0 };
static const double area_to[AREAS] = { 1e10, 32.0 * 32.0, 96.0 * 96.0, 1e10 };

struct dg_score {
    int n_classes;
    double *precision; /* [class][area][iou][recall] */
    double *recall;    /* [class][area][limit][iou] */
    double numbers[DG_N_SCORES];
};

/* A truth or a detection, for sorting by class and image. */
typedef struct entry {
    int label, image;
    double score;  /* 0 for truths */
    int64_t index; /* in the caller's list; keeps ties in order */
} entry;

/* A detection among the best 100 of its image. */
typedef struct hit {
    double score;
    int rank;                              /* within its image */
    int64_t order;                         /* by image, then rank */
    uint16_t taken[AREAS], ignored[AREAS]; /* bit t: at threshold t */
} hit;

typedef struct scoring {
    dg_score *s;
    const dg_coco_annotation *truths;
    const dg_detection *detections;
    const dg_rle *truth_masks, *masks; /* NULL: boxes are scored */
    entry *by_truth, *by_detection;
    int64_t n_truths, n_detections;
    double thresholds[IOUS], recalls[RECALLS];
    hit *hits; /* of the current class */
    int64_t n_hits;
    int64_t counted[AREAS]; /* truths of the class that count */
    /* of the current image: */
    double *iou;    /* [detection][truth in matching order] */
    int64_t *order; /* truths in matching order */
    uint8_t *ignore, *used;
    int64_t most;      /* most truths of one class in one image */
    double *precision; /* [n_hits], of the current curve */
    int64_t *tp, *fp;
} scoring;

/* ---- matching -------------------------------------------------------------------------------- */

static double iou_of(const dg_detection *d, const dg_coco_annotation *g)
{
    double w = fmin(d->w + d->x, g->w + g->x) - fmax(d->x, g->x);
    double h = fmin(d->h + d->y, g->h + g->y) - fmax(d->y, g->y);
    double both = w <= 0.0 || h <= 0.0 ? 0.0 : w * h;

    return both == 0.0 ? 0.0 : both / (g->crowd ? d->w * d->h : d->w * d->h + g->w * g->h - both);
}

/* Of detection i with truth j, which are boxes or masks. */
static double overlap_of(const scoring *w, int64_t i, int64_t j)
{
    return w->masks ? dg_rle_iou(&w->masks[i], &w->truth_masks[j], w->truths[j].crowd)
                    : iou_of(&w->detections[i], &w->truths[j]);
}

static double area_of(const scoring *w, int64_t i)
{
    return w->masks ? dg_rle_area(&w->masks[i]) : w->detections[i].w * w->detections[i].h;
}

static bool outside(double area, int range)
{
    return area < area_from[range] || area > area_to[range];
}

/* Orders truths: those that count first, each kind in the caller's order; returns how many
 * count. */
static int64_t order_truths(scoring *w, const entry *g, int64_t n_truths, int range)
{
    int64_t n = 0, counted;

    for (int pass = 0; pass < 2; pass++) {
        for (int64_t k = 0; k < n_truths; k++) {
            const dg_coco_annotation *t = &w->truths[g[k].index];
            const bool ignore = t->crowd || outside(t->area, range);

            if (ignore != (pass == 1))
                continue;
            w->ignore[n] = ignore;
            w->order[n++] = g[k].index;
        }
        if (pass == 0)
            counted = n;
    }
    return counted;
}

/* The truth that the detection takes, or -1. */
static int64_t choose_truth(const scoring *w, const double *iou, int64_t n_truths, double threshold)
{
    double best = fmin(threshold, 1.0 - 1e-10);
    int64_t m = -1;

    for (int64_t k = 0; k < n_truths; k++) {
        if (w->used[k] && !w->truths[w->order[k]].crowd)
            continue;
        if (m >= 0 && !w->ignore[m] && w->ignore[k])
            break;
        if (!(iou[k] >= best)) /* false for NaN boxes: they match nothing */
            continue;
        best = iou[k];
        m = k;
    }
    return m;
}

static void match_range(scoring *w, const entry *d, int n_detections, int64_t n_truths, int range,
                        hit *hits)
{
    for (int i = 0; i < n_detections; i++)
        for (int64_t k = 0; k < n_truths; k++)
            w->iou[i * n_truths + k] = overlap_of(w, d[i].index, w->order[k]);
    for (int t = 0; t < IOUS; t++) {
        memset(w->used, 0, (size_t)n_truths);
        for (int i = 0; i < n_detections; i++) {
            const int64_t m = choose_truth(w, w->iou + i * n_truths, n_truths, w->thresholds[t]);
            const bool ignored = m >= 0 ? w->ignore[m] : outside(area_of(w, d[i].index), range);

            if (m >= 0)
                w->used[m] = 1;
            hits[i].taken[range] |= (uint16_t)((m >= 0) << t);
            hits[i].ignored[range] |= (uint16_t)(ignored << t);
        }
    }
}

/* Matches the detections and truths of one class in one image. */
static void match_image(scoring *w, const entry *d, int64_t n_detections, const entry *g,
                        int64_t n_truths)
{
    const int n = n_detections < BEST ? (int)n_detections : BEST;
    hit *hits = w->hits + w->n_hits;

    for (int i = 0; i < n; i++)
        hits[i] = (hit){ .score = d[i].score, .rank = i, .order = w->n_hits + i };
    for (int range = 0; range < AREAS; range++) {
        w->counted[range] += order_truths(w, g, n_truths, range);
        match_range(w, d, n, n_truths, range, hits);
    }
    w->n_hits += n;
}

/* ---- curves ---------------------------------------------------------------------------------- */

static int by_score(const void *p, const void *q)
{
    const hit *a = p, *b = q;

    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Cumulates tp and fp of detections of rank < limit, by descending score; returns their number. */
static int64_t cumulate(scoring *w, int range, int limit, int t)
{
    int64_t n = 0, tp = 0, fp = 0;

    for (int64_t i = 0; i < w->n_hits; i++) {
        const hit *h = &w->hits[i];

        if (h->rank >= limit)
            continue;
        if (!(h->ignored[range] >> t & 1)) {
            tp += h->taken[range] >> t & 1;
            fp += !(h->taken[range] >> t & 1);
        }
        w->tp[n] = tp;
        w->fp[n++] = fp;
    }
    return n;
}

static void sample_curve(const scoring *w, double *out, int64_t n, double truths)
{
    int64_t i = 0;

    for (int64_t k = 0; k < n; k++)
        w->precision[k] = (double)w->tp[k] / ((double)(w->fp[k] + w->tp[k]) + DBL_EPSILON);
    for (int64_t k = n - 1; k > 0; k--)
        w->precision[k - 1] = fmax(w->precision[k - 1], w->precision[k]);
    for (int r = 0; r < RECALLS; r++) {
        while (i < n && (double)w->tp[i] / truths < w->recalls[r])
            i++;
        out[r] = i < n ? w->precision[i] : 0.0;
    }
}

static void finish_class(scoring *w, int label)
{
    qsort(w->hits, (size_t)w->n_hits, sizeof *w->hits, by_score);
    for (int range = 0; range < AREAS; range++) {
        double *precision = w->s->precision + (label * AREAS + range) * IOUS * RECALLS;
        double *recall = w->s->recall + (label * AREAS + range) * LIMITS * IOUS;

        for (int k = 0; k < LIMITS && w->counted[range]; k++)
            for (int t = 0; t < IOUS; t++) {
                int64_t n = cumulate(w, range, limits[k], t);

                recall[k * IOUS + t] = n ? (double)w->tp[n - 1] / (double)w->counted[range] : 0.0;
                if (limits[k] == BEST)
                    sample_curve(w, precision + t * RECALLS, n, (double)w->counted[range]);
            }
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int by_work(const void *p, const void *q)
{
    const entry *a = p, *b = q;

    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    if (a->image != b->image)
        return a->image < b->image ? -1 : 1;
    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

/* End of the run of entries from i on with the same label and image. */
static int64_t run_end(const entry *e, int64_t i, int64_t n, int label, int image)
{
    while (i < n && e[i].label == label && e[i].image == image)
        i++;
    return i;
}

static void score_all(scoring *w)
{
    int64_t d = 0, g = 0;

    for (int label = 0; label < w->s->n_classes; label++) {
        w->n_hits = 0;
        memset(w->counted, 0, sizeof w->counted);
        for (;;) {
            const bool more_d = d < w->n_detections && w->by_detection[d].label == label;
            const bool more_g = g < w->n_truths && w->by_truth[g].label == label;
            int image;
            int64_t d_end, g_end;

            if (!more_d && !more_g)
                break;
            image = !more_g || (more_d && w->by_detection[d].image < w->by_truth[g].image)
                        ? w->by_detection[d].image
                        : w->by_truth[g].image;
            d_end = run_end(w->by_detection, d, w->n_detections, label, image);
            g_end = run_end(w->by_truth, g, w->n_truths, label, image);
            match_image(w, w->by_detection + d, d_end - d, w->by_truth + g, g_end - g);
            d = d_end;
            g = g_end;
        }
        finish_class(w, label);
    }
}

/* Mean of the defined values (>= 0) in n blocks of `width` values, `step` apart; -1 if none is
 * defined. */
static double mean_defined(const double *v, int64_t n, int64_t step, int64_t width)
{
    double sum = 0.0;
    int64_t k = 0;

    for (int64_t block = 0; block < n; block += step)
        for (int64_t i = block; i < block + width; i++)
            if (v[i] > -1.0) {
                sum += v[i];
                k++;
            }
    return k ? sum / (double)k : -1.0;
}

static void summarise(dg_score *s)
{
    /* numbers per class */
    const int64_t p = (int64_t)AREAS * IOUS * RECALLS, r = (int64_t)AREAS * LIMITS * IOUS;

    for (int range = 0; range < AREAS; range++) {
        const double *precision = s->precision + range * IOUS * RECALLS;
        const double *recall = s->recall + range * LIMITS * IOUS;
        const int place = range ? DG_AP_SMALL + range - 1 : DG_AP;

        s->numbers[place] = mean_defined(precision, s->n_classes * p, p, IOUS * RECALLS);
        s->numbers[range ? DG_AR_SMALL + range - 1 : DG_AR100] =
            mean_defined(recall + 2 * IOUS, s->n_classes * r, r, IOUS);
    }
    s->numbers[DG_AP50] = mean_defined(s->precision, s->n_classes * p, p, RECALLS);
    s->numbers[DG_AP75] = mean_defined(s->precision + 5 * RECALLS, s->n_classes * p, p, RECALLS);
    s->numbers[DG_AR1] = mean_defined(s->recall, s->n_classes * r, r, IOUS);
    s->numbers[DG_AR10] = mean_defined(s->recall + IOUS, s->n_classes * r, r, IOUS);
}

static bool make_entries(scoring *w, int n_images, int n_classes)
{
    int64_t run = 0;

    w->by_truth = dg_try_alloc((size_t)w->n_truths * sizeof(entry));
    w->by_detection = dg_try_alloc((size_t)w->n_detections * sizeof(entry));
    if (!w->by_truth || !w->by_detection)
        return false;
    for (int64_t i = 0; i < w->n_truths; i++) {
        const dg_coco_annotation *t = &w->truths[i];

        assert(t->image >= 0 && t->image < n_images && t->label >= 0 && t->label < n_classes);
        w->by_truth[i] = (entry){ t->label, t->image, 0.0, i };
    }
    for (int64_t i = 0; i < w->n_detections; i++) {
        const dg_detection *x = &w->detections[i];

        assert(x->image >= 0 && x->image < n_images && x->label >= 0 && x->label < n_classes);
        w->by_detection[i] = (entry){ x->label, x->image, x->score, i };
    }
    (void)n_images;
    (void)n_classes;
    qsort(w->by_truth, (size_t)w->n_truths, sizeof(entry), by_work);
    qsort(w->by_detection, (size_t)w->n_detections, sizeof(entry), by_work);
    for (int64_t i = 0; i < w->n_truths; i = run) {
        run = run_end(w->by_truth, i, w->n_truths, w->by_truth[i].label, w->by_truth[i].image);
        w->most = run - i > w->most ? run - i : w->most;
    }
    return true;
}

static bool make_room(scoring *w)
{
    const size_t n = (size_t)w->n_detections, most = (size_t)w->most;
    const size_t curves = (size_t)w->s->n_classes * AREAS * IOUS;

    w->hits = dg_try_alloc(n * sizeof(hit));
    w->tp = dg_try_alloc(n * sizeof(int64_t));
    w->fp = dg_try_alloc(n * sizeof(int64_t));
    w->precision = dg_try_alloc(n * sizeof(double));
    w->iou = dg_try_alloc(most * BEST * sizeof(double));
    w->order = dg_try_alloc(most * sizeof(int64_t));
    w->ignore = dg_try_alloc(most);
    w->used = dg_try_alloc(most);
    w->s->precision = dg_try_alloc(curves * RECALLS * sizeof(double));
    w->s->recall = dg_try_alloc(curves * LIMITS * sizeof(double));
    if (!w->hits || !w->tp || !w->fp || !w->precision || !w->iou || !w->order || !w->ignore ||
        !w->used || !w->s->precision || !w->s->recall)
        return false;
    for (size_t i = 0; i < curves * RECALLS; i++)
        w->s->precision[i] = -1.0;
    for (size_t i = 0; i < curves * LIMITS; i++)
        w->s->recall[i] = -1.0;
    for (int i = 0; i < IOUS; i++) /* with numpy.linspace's rounding */
        w->thresholds[i] = i == IOUS - 1 ? 0.95 : i * ((0.95 - 0.5) / (IOUS - 1)) + 0.5;
    for (int i = 0; i < RECALLS; i++)
        w->recalls[i] = i == RECALLS - 1 ? 1.0 : i * (1.0 / (RECALLS - 1));
    return true;
}

static void clear(scoring *w)
{
    void *const all[] = { w->by_truth,  w->by_detection, w->hits,  w->tp,     w->fp,
                          w->precision, w->iou,          w->order, w->ignore, w->used };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dg_free(all[i]);
}

int dg_score_open(dg_score **out, int n_images, int n_classes, const dg_coco_annotation *truths,
                  int64_t n_truths, const dg_detection *detections, int64_t n_detections,
                  dg_diag *d)
{
    return dg_score_open_masks(out, n_images, n_classes, truths, NULL, n_truths, detections, NULL,
                               n_detections, d);
}

int dg_score_open_masks(dg_score **out, int n_images, int n_classes,
                        const dg_coco_annotation *truths, const dg_rle *truth_masks,
                        int64_t n_truths, const dg_detection *detections, const dg_rle *masks,
                        int64_t n_detections, dg_diag *d)
{
    scoring w = { .truths = truths,
                  .truth_masks = truth_masks,
                  .masks = masks,
                  .detections = detections,
                  .n_truths = n_truths,
                  .n_detections = n_detections };
    int rc = 0;

    for (int64_t i = 0; i < n_detections; i++)
        if (!isfinite(detections[i].score))
            return dg_fail(d, DG_ENUMERIC, DG_NOWHERE, "score-value",
                           "detection %lld has a score that is not finite", (long long)i);
    w.s = n_classes <= MAX_CLASSES ? dg_try_alloc(sizeof *w.s) : NULL;
    if (w.s)
        w.s->n_classes = n_classes;
    if (!w.s || !make_entries(&w, n_images, n_classes) || !make_room(&w)) {
        rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "score-memory",
                     "no memory to score %lld detections of %d classes", (long long)n_detections,
                     n_classes);
        dg_score_close(&w.s);
    } else {
        score_all(&w);
        summarise(w.s);
        *out = w.s;
    }
    clear(&w);
    return rc;
}

void dg_score_close(dg_score **s)
{
    if (!*s)
        return;
    dg_free((*s)->precision);
    dg_free((*s)->recall);
    dg_free(*s);
    *s = NULL;
}

double dg_score_number(const dg_score *s, int which)
{
    return s->numbers[which];
}

const double *dg_score_curve(const dg_score *s, int label, int iou, int area)
{
    return s->precision + ((label * AREAS + area) * IOUS + iou) * RECALLS;
}

double dg_score_class_ap(const dg_score *s, int label)
{
    return mean_defined(dg_score_curve(s, label, 0, 0), 1, 1, IOUS * RECALLS);
}

double dg_score_class_ap50(const dg_score *s, int label)
{
    return mean_defined(dg_score_curve(s, label, 0, 0), 1, 1, RECALLS);
}
