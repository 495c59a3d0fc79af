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
        dg_shape    shape;
        double     *v = fixture_read(f, our_name(f, key), &shape);
        bool        rows = strncmp(key, "dec.", 4) == 0 || strncmp(key, "pred_", 5) == 0;

        if (v)
            fixture_compare(f, group, key, &list->items[i], v, shape, rows ? SELECTED : MAPS,
                            bound);
        else if (all)
            report_fact(f->report, "named values", false, key);
    }
}

static int check_detections(fixture *f)
{
    const dg_json *images = dg_json_get(f->root, "detections"),
                  *sizes = dg_json_get(f->root, "orig_sizes_wh");
    dg_shape shape;
    int32_t *labels = fixture_read_i32(f, "detections.labels", &shape);
    double  *scores = fixture_read(f, "detections.scores", &shape),
           *boxes = fixture_read(f, "detections.boxes", &shape);

    if (!labels || !scores || !boxes)
        return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value",
                       "the run has no detections");
    for (int64_t b = 0; b < f->batch; b++) {
        const dg_json *rows = dg_json_get(&images->items[b], "first50");
        double         w = sizes->items[b].items[0].number, h = sizes->items[b].items[1].number;
        int64_t        k = shape.d[1];

        report_fact(f->report, "number of detections",
                    (double)k == dg_json_get(&images->items[b], "count")->number, "");
        for (int i = 0; i < rows->n; i++) {
            const dg_json *row = rows->items[i].items;
            const double  *box = boxes + (b * k + i) * 4;
            double         ours[4] = { (box[0] - box[2] / 2) * w, (box[1] - box[3] / 2) * h,
                                       (box[0] + box[2] / 2) * w, (box[1] + box[3] / 2) * h };

            report_fact(f->report, "labels of detections", labels[b * k + i] == row[0].number, "");
            report_add(f->report, "scores of detections", fabs(scores[b * k + i] - row[5].number),
                       fixture_bound(f, 1e-8, 5e-6), "");
            for (int c = 0; c < 4; c++)
                report_add(f->report, "boxes of detections, pixels",
                           fabs(ours[c] - row[1 + c].number), fixture_bound(f, 1e-6, 1e-3), "");
        }
    }
    return 0;
}

int fixture_eval(fixture *f)
{
    const dg_json *acts = dg_json_get(dg_json_get(f->root, "f32_deviation"), "acts_vec_rel");
    double         widest = 1e-6, bound;
    int            rc = 0;

    for (int i = 0; acts && i < acts->n; i++)
        widest = fmax(widest, acts->items[i].number);
    bound = fixture_bound(f, 1e-8, 10 * widest);
    DG_TRY(dg_run_select(f->run, "evaluate", f->w, f->h, f->d));
    DG_TRY(fixture_feed_images(f, dg_json_get(f->root, "image_name")->text));
    DG_TRY(dg_run_forward(f->run, false, f->d));
    DG_TRY(fixture_match_ranks(f, dg_json_get(f->root, "enc_topk_indices")));
    check_values(f, "forward", dg_json_get(f->root, "tensors"), bound, true);
    check_values(f, "forward, inside modules", dg_json_get(f->root, "debug_tensors"), bound, false);
    DG_TRY(check_detections(f));
out:
    return rc;
}
