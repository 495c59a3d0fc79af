/* coco.c: <evaluate.coco>: a detector's COCO scores AP, AP50, ... of boxes, and of masks if it has
 * them, equal to the official evaluator's.
 *
 * Detections arrive in fractions of the image and are scored in pixels of the original image, with
 * the data set's category ids in the result file. If AP is exactly 0 although there are truths and
 * detections, the evaluation explains why, from evidence in the data. */
#include <detrgraph/node.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes/evaluate/coco_files.h"
#include "nodes/evaluate/masks.h"

typedef struct conf {
    bool per_class;
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "{labels:i[B,K],scores:f[B,K],boxes:f[B,K,4],masks?:f[B,K,H,W]}",
          "the K best detections of each image"),
    DG_OUT("metrics", "metrics",
           "AP, AP50, AP75, APs, APm, APl, AR1, AR10, AR100, ARs, ARm, ARl, constant_AP, "
           "constant_AP50, F1, threshold; those of masks as mask_AP and so on"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_BOOL(conf, per_class, true, "report AP and AP50 of each class as AP/NAME and AP50/NAME"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to gather detections over; if omitted, score only this rank's images"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_METRIC, .to = "metrics", .from = "in", .axis = "axis",
      .why = "scores the images of all ranks" },
    { 0 },
};

#define BOXES "AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl"
#define MASKS                                                                               \
    "mask_AP mask_AP50 mask_AP75 mask_APs mask_APm mask_APl mask_AR1 mask_AR10 mask_AR100 " \
    "mask_ARs mask_ARm mask_ARl"
static const dg_metric_row metrics[] = {
    { .names = BOXES " constant_AP constant_AP50 F1 threshold" },
    { .names = "AP/? AP50/?", .when = "per_class" },
    { .names = MASKS, .key = "masks" },
    { .names = "mask_AP/? mask_AP50/?", .when = "per_class", .key = "masks" },
    { 0 },
};

typedef struct state {
    const conf *conf;
    dg_sink_args args;
    dg_detection *v;
    dg_rle *masks; /* of v; used only if has_masks */
    bool has_masks;
    int64_t n, cap;
    int64_t *seen; /* per item: 1 + its number in the run; 0: not seen. Images count once. */
    bool merged;
    double widest;     /* largest box side, as a fraction of the image */
    bool unread;       /* there were masks */
    int64_t n_foreign; /* detections of classes that the data set lacks; not scored */
} state;

static int begin_scores(void **out, const void *self, const dg_sink_args *args, dg_diag *d)
{
    state *s = calloc(1, sizeof *s);

    if (s)
        s->seen = calloc((size_t)args->data->n_items + 1, sizeof *s->seen);
    if (!s || !s->seen) {
        free(s);
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to evaluate %s",
                       args->data->name);
    }
    s->conf = self;
    s->args = *args;
    *out = s;
    return 0;
}

static const dg_tensor *input(const dg_sink_batch *b, const char *field)
{
    for (int i = 0; i < b->n_in; i++) {
        const char *dot = strrchr(b->keys[i], '.');

        if (dot && strcmp(dot + 1, field) == 0)
            return &b->in[i];
    }
    return NULL;
}

static double number(const dg_tensor *t, int64_t i)
{
    return t->dtype == DG_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static int reserve(state *s, int64_t more, dg_diag *d)
{
    if (s->n + more > s->cap) {
        int64_t cap = 2 * s->cap + more;
        dg_detection *v = realloc(s->v, (size_t)cap * sizeof *v);

        if (!v)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                           "no memory for %lld detections", (long long)cap);
        s->v = v;
        if (s->has_masks) {
            dg_rle *masks = realloc(s->masks, (size_t)cap * sizeof *masks);

            if (!masks)
                return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                               "no memory for %lld masks", (long long)cap);
            s->masks = masks;
        }
        s->cap = cap;
    }
    return 0;
}

/* Masks are of use only if the data has some. */
static bool scores_masks(const dg_dataset *data, const dg_tensor *masks)
{
    return masks && data->size >= sizeof *data && data->mask;
}

static int take_batch(void *self, const dg_sink_batch *b, dg_diag *d)
{
    state *s = self;
    const dg_tensor *labels = input(b, "labels"), *scores = input(b, "scores"),
                    *boxes = input(b, "boxes"), *masks = input(b, "masks");
    int64_t k = labels->shape.d[1];

    s->unread = masks != NULL;
    s->has_masks = scores_masks(s->args.data, masks);

    for (int slot = 0; slot < b->n; slot++) {
        const dg_sample *sm = &b->samples[slot];

        if (b->padding[slot] || s->seen[sm->item])
            continue;
        s->seen[sm->item] = (int64_t)sm->index + 1;
        if (reserve(s, k, d) < 0)
            return -DG_EMEMORY;
        for (int64_t j = slot * k; j < (slot + 1) * k; j++) {
            double cx = number(boxes, 4 * j), cy = number(boxes, 4 * j + 1);
            double w = number(boxes, 4 * j + 2), h = number(boxes, 4 * j + 3);
            int label = ((const int32_t *)labels->data)[j];

            if (label < 0) /* there is no detection */
                continue;
            if (label >= s->args.data->n_classes) {
                s->n_foreign++;
                continue;
            }
            s->widest = fmax(s->widest, fmax(w, h));
            if (s->has_masks &&
                dg_detected_mask(&s->masks[s->n], masks, j, sm->orig_w, sm->orig_h, d) < 0)
                return -DG_EMEMORY;
            s->v[s->n++] = (dg_detection){
                .image = sm->item,
                .label = label,
                .x = (cx - w / 2) * sm->orig_w,
                .y = (cy - h / 2) * sm->orig_h,
                .w = w * sm->orig_w,
                .h = h * sm->orig_h,
                .score = number(scores, j),
            };
        }
    }
    return 0;
}

/* ---- several ranks --------------------------------------------------------------------------- */

typedef struct packed { /* a header; the images, their detections, and masks follow */
    int64_t n_images, n, n_foreign, has_masks, unread;
    double widest;
} packed;
typedef struct packed_image {
    int64_t item, seen;
} packed_image;

static int pack_scores(void *self, void **bytes, size_t *n, dg_diag *d)
{
    const state *s = self;
    packed head = { 0, s->n, s->n_foreign, s->has_masks, s->unread, s->widest };
    size_t masks = s->has_masks ? dg_masks_bytes(s->masks, s->n) : 0;
    char *out;

    for (int i = 0; i < s->args.data->n_items; i++)
        head.n_images += s->seen[i] != 0;
    *n = sizeof head + (size_t)head.n_images * sizeof(packed_image) + (size_t)s->n * sizeof *s->v +
         masks;
    *bytes = out = malloc(*n);
    if (!out)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory to send %lld detections", (long long)s->n);
    memcpy(out, &head, sizeof head);
    out += sizeof head;
    for (int i = 0; i < s->args.data->n_items; i++)
        if (s->seen[i]) {
            memcpy(out, &(packed_image){ i, s->seen[i] }, sizeof(packed_image));
            out += sizeof(packed_image);
        }
    if (s->n)
        memcpy(out, s->v, (size_t)s->n * sizeof *s->v);
    if (masks)
        dg_masks_pack(out + (size_t)s->n * sizeof *s->v, s->masks, s->n);
    return 0;
}

/* A rank that had no batch does not know yet that there are masks. */
static int adopt_masks(state *s, bool masks, dg_diag *d)
{
    if (!masks || s->has_masks)
        return 0;
    s->has_masks = true;
    s->masks = calloc((size_t)s->cap + 1, sizeof *s->masks);
    return s->masks ? 0
                    : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                              "no memory for the masks of other ranks");
}

/* Adds another rank's detections. Images already here were its padding, or are in both data sets:
 * they count once. */
static int merge_scores(void *self, const void *bytes, size_t n, dg_diag *d)
{
    state *s = self;
    packed head;
    const char *images = (const char *)bytes + sizeof head, *found, *mask;
    int rc;
    int64_t n_items = s->args.data->n_items;

    memcpy(&head, bytes, sizeof head);
    found = images + (size_t)head.n_images * sizeof(packed_image);
    (void)n;
    mask = found + (size_t)head.n * sizeof(dg_detection);
    rc = adopt_masks(s, head.has_masks != 0, d);
    s->unread |= head.unread != 0;
    rc = rc ? rc : reserve(s, head.n, d);
    for (int64_t i = 0; rc == 0 && i < head.n; i++) {
        dg_rle runs = { 0 };
        dg_detection x;

        memcpy(&x, found + (size_t)i * sizeof x, sizeof x);
        if (head.has_masks)
            rc = dg_mask_unpack(&runs, &mask, d);
        if (rc == 0 && x.image >= 0 && x.image < n_items && !s->seen[x.image]) {
            if (s->has_masks)
                s->masks[s->n] = runs;
            s->v[s->n++] = x;
        } else {
            dg_rle_free(&runs);
        }
    }
    for (int64_t i = 0; rc == 0 && i < head.n_images; i++) {
        packed_image x;

        memcpy(&x, images + (size_t)i * sizeof x, sizeof x);
        if (x.item >= 0 && x.item < n_items && !s->seen[x.item])
            s->seen[x.item] = x.seen;
    }
    s->n_foreign += head.n_foreign;
    s->widest = fmax(s->widest, head.widest);
    s->merged = true;
    return rc;
}

static int by_seen(const void *a, const void *b)
{
    const packed_image *x = a, *y = b;

    return (x->seen > y->seen) - (x->seen < y->seen);
}

/* Sorts the detections into the order that one rank would have produced; those of an image stay
 * together. */
static int sort_detections(state *s, dg_diag *d)
{
    int n_items = s->args.data->n_items, n = 0;
    packed_image *images = malloc(((size_t)n_items + 1) * sizeof *images);
    int64_t *first = malloc(((size_t)n_items + 1) * sizeof *first), k = 0;
    dg_detection *v = malloc(((size_t)s->n + 1) * sizeof *v);
    dg_rle *masks = calloc((size_t)s->n + 1, sizeof *masks);
    int rc = images && first && v && masks
                 ? 0
                 : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                           "no memory to order %lld detections", (long long)s->n);

    for (int i = 0; rc == 0 && i < n_items; i++) {
        first[i] = -1;
        if (s->seen[i])
            images[n++] = (packed_image){ i, s->seen[i] };
    }
    for (int64_t i = s->n - 1; rc == 0 && i >= 0; i--)
        first[s->v[i].image] = i;
    if (rc == 0 && n)
        qsort(images, (size_t)n, sizeof *images, by_seen);
    for (int i = 0; rc == 0 && i < n; i++)
        for (int64_t j = first[images[i].item];
             j >= 0 && j < s->n && s->v[j].image == images[i].item; j++) {
            masks[k] = s->has_masks ? s->masks[j] : (dg_rle){ 0 };
            v[k++] = s->v[j];
        }
    if (rc == 0) {
        free(s->v);
        free(s->masks);
        s->v = v;
        s->masks = masks;
        v = NULL;
        masks = NULL;
        s->cap = s->n + 1;
    }
    free(images);
    free(first);
    free(v);
    free(masks);
    return rc;
}

static int write_curves(const state *s, const dg_score *score, dg_diag *d)
{
    char *path = NULL;
    int rc = dg_evaluation_path(&path, s->args.folder, "curves.json", d);

    if (rc == 0)
        rc = dg_score_write_curves(path, score, s->args.data->classes, s->args.data->n_classes,
                                   s->args.step, d);
    free(path);
    return rc;
}

/* Says beside AP what it is worth. */
static int review(const state *s, dg_metrics *m, dg_diag *d)
{
    char *path = NULL;
    dg_review r = { 0 };
    int rc = s->args.folder ? dg_evaluation_path(&path, s->args.folder, "review.json", d) : 0;

    if (rc == 0)
        rc = dg_review_of(&r, path, s->args.data, s->v, s->n, s->args.step, d);
    free(path);
    if (rc < 0)
        return rc;
    dg_metric(m, r.constant_ap, "constant_AP");
    dg_metric(m, r.constant_ap50, "constant_AP50");
    dg_metric(m, r.f1, "F1");
    dg_metric(m, r.threshold, "threshold");
    if (r.n_truths == 0)
        return 0;
    dg_metric_note(m,
                   "%lld image%s, %lld object%s (%lld small, %lld medium, %lld large); boxes that "
                   "never move reach AP %.3f, AP50 %.3f",
                   (long long)r.n_images, r.n_images == 1 ? "" : "s", (long long)r.n_truths,
                   r.n_truths == 1 ? "" : "s", (long long)r.n_small, (long long)r.n_medium,
                   (long long)r.n_large, r.constant_ap, r.constant_ap50);
    if (r.f1 > 0)
        dg_metric_note(
            m, "best F1 %.3f, at a threshold of %.2f: precision %.3f, recall %.3f (IoU 0.50)", r.f1,
            r.threshold, r.precision, r.recall);
    return 0;
}

/* AP50 as if all objects were of one class. */
static double without_class(const state *s, dg_diag *d)
{
    const dg_dataset *data = s->args.data;
    dg_detection *v = malloc(((size_t)s->n + 1) * sizeof *v);
    dg_coco_annotation *t = malloc(((size_t)data->n_truths + 1) * sizeof *t);
    dg_score *score = NULL;
    double ap50 = 0;

    if (v && t) {
        if (s->n)
            memcpy(v, s->v, (size_t)s->n * sizeof *v);
        if (data->n_truths)
            memcpy(t, data->truths, (size_t)data->n_truths * sizeof *t);
        for (int64_t i = 0; i < s->n; i++)
            v[i].label = 0;
        for (int64_t i = 0; i < data->n_truths; i++)
            t[i].label = 0;
        if (dg_score_open(&score, data->n_items, 1, t, data->n_truths, v, s->n, d) == 0)
            ap50 = dg_score_number(score, DG_AP50);
    }
    dg_score_close(&score);
    free(v);
    free(t);
    return ap50;
}

/* Explains an AP of 0 despite truths and detections: reports each cause for which there is
 * evidence. */
static void explain_zero(const state *s, dg_metrics *m, dg_diag *d)
{
    double best = 0, classless = without_class(s, d);
    bool found = false;

    for (int64_t i = 0; i < s->n; i++)
        best = fmax(best, s->v[i].score);
    if (s->args.n_loaded == 0) {
        dg_metric_note(
            m, "AP is 0: no parameter was loaded from the weights file, these are initial weights");
        found = true;
    }
    if (s->args.ema && s->args.ema_weight < 0.5) {
        dg_metric_note(m,
                       "AP is 0: the averaged weights (EMA) still hold %.0f %% of the initial "
                       "ones; lower decay or warmup "
                       "of <ema>, or evaluate later",
                       100 * (1 - s->args.ema_weight));
        found = true;
    }
    if (classless > 0.05) {
        dg_metric_note(m,
                       "AP is 0: boxes are right but classes are wrong (AP50 without regard to "
                       "class is %.3f); compare "
                       "the categories of the training and the evaluation file",
                       classless);
        found = true;
    }
    if (s->widest > 4 && isfinite(s->widest)) {
        dg_metric_note(m,
                       "AP is 0: boxes reach %.1f times the image's side: they look like pixels, "
                       "not fractions",
                       s->widest);
        found = true;
    }
    if (best < 0.1) {
        dg_metric_note(
            m,
            "AP is 0: the best score of all %lld detections is %.3f: nothing has been learned yet",
            (long long)s->n, best);
        found = true;
    }
    if (!found)
        dg_metric_note(m,
                       "AP is 0: scores reach %.2f but no detection overlaps a truth of its class "
                       "by half; AP50 without "
                       "regard to class is %.3f",
                       best, classless);
}

/* The scores of masks: those of boxes with mask_ before their names. */
static int report_masks(const state *s, dg_metrics *m, dg_diag *d)
{
    const dg_dataset *data = s->args.data;
    dg_score *score = NULL;
    dg_rle *truths = calloc((size_t)data->n_truths + 1, sizeof *truths);
    int rc = truths ? 0
                    : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                              "no memory for %lld masks", (long long)data->n_truths);

    for (int64_t i = 0; rc == 0 && i < data->n_truths; i++)
        rc = data->mask(data->self, i, &truths[i], d);
    if (rc == 0)
        rc = dg_score_open_masks(&score, data->n_items, data->n_classes, data->truths, truths,
                                 data->n_truths, s->v, s->masks, s->n, d);
    for (int i = 0; rc == 0 && i < DG_N_SCORES; i++)
        dg_metric(m, dg_score_number(score, i), "mask_%s", dg_score_name(i));
    for (int i = 0; rc == 0 && s->conf->per_class && i < data->n_classes; i++) {
        dg_metric(m, dg_score_class_ap(score, i), "mask_AP/%s", data->classes[i].name);
        dg_metric(m, dg_score_class_ap50(score, i), "mask_AP50/%s", data->classes[i].name);
    }
    dg_score_close(&score);
    for (int64_t i = 0; truths && i < data->n_truths; i++)
        dg_rle_free(&truths[i]);
    free(truths);
    return rc;
}

static int report(const state *s, dg_metrics *m, dg_diag *d)
{
    const dg_dataset *data = s->args.data;
    dg_score *score = NULL;
    int rc = dg_score_open(&score, data->n_items, data->n_classes, data->truths, data->n_truths,
                           s->v, s->n, d);

    if (rc < 0)
        return rc;
    for (int i = 0; i < DG_N_SCORES; i++)
        dg_metric(m, dg_score_number(score, i), "%s", dg_score_name(i));
    for (int i = 0; s->conf->per_class && i < data->n_classes; i++) {
        dg_metric(m, dg_score_class_ap(score, i), "AP/%s", data->classes[i].name);
        dg_metric(m, dg_score_class_ap50(score, i), "AP50/%s", data->classes[i].name);
    }
    rc = review(s, m, d);
    if (s->n_foreign)
        dg_metric_note(
            m,
            "%lld detections are of classes that %s does not have (it has %d): they are left out",
            (long long)s->n_foreign, data->name, data->n_classes);
    if (s->unread && !s->has_masks)
        dg_metric_note(m,
                       "masks are not scored: %s was read without masks (masks=\"true\" on the "
                       "loader reads them)",
                       data->name);
    if (dg_score_number(score, DG_AP) == 0 && data->n_truths && s->n)
        explain_zero(s, m, d);
    if (rc == 0 && s->args.folder)
        rc = write_curves(s, score, d);
    dg_score_close(&score);
    if (rc == 0 && s->has_masks)
        rc = report_masks(s, m, d);
    if (rc == 0 && s->args.folder)
        rc = dg_coco_write_names(s->args.folder, s->args.data, s->seen, d);
    return rc == 0 && s->args.folder
               ? dg_coco_write_results(s->args.folder, s->args.data, s->v,
                                       s->has_masks ? s->masks : NULL, s->n, d)
               : rc;
}

static int finish_scores(void **self, dg_metrics *m, dg_diag *d)
{
    state *s = *self;
    int rc = m && s->merged ? sort_detections(s, d) : 0;

    if (m && rc == 0)
        rc = report(s, m, d);

    for (int64_t i = 0; s->has_masks && i < s->n; i++)
        dg_rle_free(&s->masks[i]);
    free(s->seen);
    free(s->v);
    free(s->masks);
    free(s);
    *self = NULL;
    return rc;
}

const dg_node_class dg_node_evaluate_coco = {
    DG_NODE_CLASS,
    .name = "evaluate.coco",
    .role = DG_ROLE_EVALUATE,
    .brief = "The 12 COCO scores of boxes, and of masks, and AP per class, equal to the official "
             "evaluator's.",
    .doc = "Writes detections.json in COCO's result form with the data set's ids, curves.json with "
           "precision over recall per class, and review.json with precision, recall and F1 over "
           "the threshold, a confusion matrix and the images with the most misses. Padding and "
           "repeated images count once.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .metrics = metrics,
    .begin = begin_scores,
    .take = take_batch,
    .finish = finish_scores,
    .pack = pack_scores,
    .merge = merge_scores,
};
