/* evaluate.c: the forward pass of evaluation and the detections that it ends in. */
#include <math.h>
#include <string.h>

#include "tests/parity/fixture.h"

/* The decoder names its one output in evaluation after the layer that it is of. */
static const char *our_name(const fixture *f, const char *key)
{
    const char *tail =
        strcmp(key, "pred_logits") ? strcmp(key, "pred_boxes") ? NULL : ".boxes" : ".logits";

    for (int i = 0; tail && i < dg_run_n_values(f->run); i++) {
        const char *name = dg_run_value_at(f->run, i).name, *end = strrchr(name, '.');

        if (end && strncmp(name, "dec.", 4) == 0 && strcmp(end, tail) == 0)
            return name;
    }
    return key;
}

static void check_values(fixture *f, const char *group, const dg_json *list, double bound, bool all)
{
    for (int i = 0; list && i < list->n; i++) {
        const char *key = list->items[i].key;
        dg_arena *all_read = fixture_remember(f);
        dg_shape shape;
        double *v = fixture_read_named(f, our_name(f, key), &shape);
        bool rows = strncmp(key, "dec.", 4) == 0 || strncmp(key, "pred_", 5) == 0;

        if (v)
            fixture_compare(f, group, key, &list->items[i], v, shape,
                            rows                                 ? SELECTED
                            : strcmp(key, "enc.logits_all") == 0 ? AS_STORED
                                                                 : MAPS,
                            bound);
        else if (all && !fixture_lacks(f, key, false))
            report_fact(f->report, "named values", false, key);
        fixture_forget(f, all_read);
    }
}

/* Detections of one image, best first: corners in pixels. */
typedef struct found {
    const int32_t *labels;
    const double *scores;
    double *boxes; /* [n,4] */
    int64_t n;
} found;

static double box_error(const found *d, int64_t at, const dg_json *row)
{
    double worst = 0;

    for (int c = 0; c < 4; c++)
        worst = fmax(worst, fabs(d->boxes[at * 4 + c] - row[1 + c].number));
    return worst;
}

/* Where the fixture's detection number i stands with us: in f32 neighbours whose scores differ by
 * less than its noise may have changed places. */
static int64_t place_of(const fixture *f, const found *d, int64_t i, const dg_json *row)
{
    int64_t best = i;

    for (int64_t at = i > 0 ? i - 1 : 0; f->set->precision != F64 && at <= i + 1 && at < d->n; at++)
        if (d->labels[at] == row[0].number &&
            (d->labels[best] != row[0].number || box_error(d, at, row) < box_error(d, best, row)))
            best = at;
    return best;
}

static void check_first(fixture *f, const found *d, const dg_json *rows)
{
    for (int i = 0; i < rows->n && i < d->n; i++) {
        const dg_json *row = rows->items[i].items;
        int64_t at = place_of(f, d, i, row);

        report_fact(f->report, "labels of detections", d->labels[at] == row[0].number, "");
        report_add(f->report, "scores of detections", fabs(d->scores[at] - row[5].number),
                   fixture_bound(f, f->normalized ? 1e-10 : 1e-8, 5e-6), "");
        report_add(f->report, "boxes of detections, pixels", box_error(d, at, row),
                   fixture_bound(f, f->normalized ? 1e-8 : 1e-6, 1e-3), "");
    }
}

/* All of them; in f32 those at the end, and the order of boxes, hang on the noise. */
static void check_all(fixture *f, const found *d, const dg_json *expected)
{
    const dg_json *scores = dg_json_get(expected, "scores"),
                  *boxes = dg_json_get(expected, "boxes"),
                  *counts =
                      dg_json_get(expected, f->normalized ? "label_histogram" : "label_counts");

    if (scores)
        fixture_compare(f, "all scores", "scores", scores, d->scores, DG_SHAPE(d->n), AS_STORED,
                        fixture_bound(f, 1e-8, 1e-5));
    if (boxes)
        fixture_compare(f, "all boxes", "boxes", boxes, d->boxes, DG_SHAPE(d->n, 4), AS_STORED,
                        fixture_bound(f, 1e-8, -1));
    for (int label = 0; counts && label < counts->n; label++) {
        double n = 0;

        for (int64_t i = 0; i < d->n; i++)
            n += d->labels[i] == label;
        report_add(f->report, "detections of each class", fabs(n - counts->items[label].number),
                   fixture_bound(f, 0.5, -1), "");
    }
}

static int check_detections(fixture *f)
{
    const dg_json *images = dg_json_get(f->root, "detections"),
                  *sizes = dg_json_get(f->root, "orig_sizes_wh");
    dg_shape shape;
    int32_t *labels = fixture_read_i32(f, "detections.labels", &shape);
    double *scores = fixture_read(f, "detections.scores", &shape),
           *boxes = fixture_read(f, "detections.boxes", &shape);

    if (!labels || !scores || !boxes)
        return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value",
                       "the run has no detections");
    for (int64_t b = 0; b < f->batch; b++) {
        int64_t k = shape.d[1];
        double w = sizes->items[b].items[0].number, h = sizes->items[b].items[1].number;
        double n = dg_json_get(&images->items[b], "count")->number;
        /* RF-DETR's fixture lists fewer than the preset finds */
        found d = { labels + b * k, scores + b * k, boxes + b * k * 4,
                    f->normalized && n < (double)k ? (int64_t)n : k };

        for (double *box = d.boxes; box < d.boxes + k * 4; box += 4) {
            double cx = box[0] * w, cy = box[1] * h;
            double half_w = box[2] * w / 2, half_h = box[3] * h / 2;

            box[0] = cx - half_w;
            box[1] = cy - half_h;
            box[2] = cx + half_w;
            box[3] = cy + half_h;
        }
        report_fact(f->report, "number of detections", (double)d.n == n, "");
        check_first(f, &d, dg_json_get(&images->items[b], "first50"));
        check_all(f, &d, &images->items[b]);
    }
    return 0;
}

int fixture_eval(fixture *f)
{
    const dg_json *acts = dg_json_get(dg_json_get(f->root, "f32_deviation"), "acts_vec_rel");
    double widest = 1e-6, bound;
    int rc = 0;

    for (int i = 0; acts && i < acts->n; i++)
        widest = fmax(widest, acts->items[i].number);
    bound = fixture_bound(f, f->normalized ? 1e-10 : 1e-8, 10 * widest);
    DG_TRY(dg_run_select(f->run, "evaluate", f->w, f->h, f->d));
    DG_TRY(fixture_feed_images(f, fixture_images(f)));
    DG_TRY(dg_run_forward(f->run, false, f->d));
    DG_TRY((f->normalized ? fixture_check_groups
                          : fixture_match_ranks)(f, dg_json_get(f->root, "enc_topk_indices")));
    check_values(f, "forward", dg_json_get(f->root, "tensors"), bound, true);
    check_values(f, "forward, inside modules", dg_json_get(f->root, "debug_tensors"), bound, false);
    DG_TRY(check_detections(f));
out:
    return rc;
}
