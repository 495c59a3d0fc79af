/* codetr.c: feeds a batch of Co-DETR's fixtures and compares what its queries are. */
#include "tests/parity/codetr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/formula.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

bool codetr_input(const fixture *f, const char *name, dg_run_tensor *out)
{
    size_t n = strlen(name);

    for (int i = 0; i < dg_run_n_inputs(f->run); i++) {
        size_t m;

        *out = dg_run_input_at(f->run, i);
        m = strlen(out->name);
        if (m >= n && strcmp(out->name + m - n, name) == 0)
            return true;
    }
    return false;
}

static double size_of(const codetr_batch *batch, int64_t b, int side)
{
    return batch->sizes->items[b].items[side].number;
}

/* The formula's pixels, channels last, and 0 outside of each image. */
static int feed_images(fixture *f, const codetr_batch *batch)
{
    int64_t h = batch->h, w = batch->w, area = h * w, n = f->batch * area * 3;
    double *v = malloc((size_t)n * sizeof *v);
    int rc;

    if (!v)
        return dg_fail(f->d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for images");
    for (int64_t at = 0; at < n; at++) {
        int64_t c = at % 3, i = at / 3 % area, b = at / 3 / area;
        bool inside =
            (double)(i / w) < size_of(batch, b, 0) && (double)(i % w) < size_of(batch, b, 1);

        v[at] = inside ? (double)formula_draw(batch->images, (b * 3 + c) * area + i) : 0;
    }
    rc = dg_run_feed(f->run, "b.images", v, n, f->d);
    free(v);
    return rc;
}

static int feed_sizes(fixture *f, const codetr_batch *batch)
{
    int32_t *v = DG_NEW_N(f->arena, f->batch * 2, int32_t);

    for (int64_t i = 0; i < 2 * f->batch; i++)
        v[i] = (int32_t)size_of(batch, i / 2, (int)(i % 2));
    return dg_run_feed(f->run, "b.sizes", v, 2 * f->batch, f->d);
}

/* Target j of image b as (cx, cy, w, h), in fractions of the image. */
static void target_box(const codetr_batch *batch, int64_t b, int64_t j, double to[4])
{
    const dg_json *x = dg_json_get(&batch->targets->items[b], "boxes_xyxy")->items[j].items;

    for (int k = 0; k < 2; k++) {
        double side = size_of(batch, b, 1 - k), low = x[k].number, high = x[k + 2].number;

        to[k] = 0.5 * (low + high) / side;
        to[k + 2] = (high - low) / side;
    }
}

static int64_t n_targets(const codetr_batch *batch, int64_t b)
{
    return dg_json_get(&batch->targets->items[b], "labels")->n;
}

static int feed_targets(fixture *f, const codetr_batch *batch)
{
    dg_run_tensor t;
    int64_t slots;
    int32_t *labels, *count = DG_NEW_N(f->arena, f->batch, int32_t);
    double *boxes;
    int rc = 0;

    if (!codetr_input(f, "b.targets.labels", &t))
        return 0;
    slots = f->slots = t.shape.d[1];
    labels = DG_NEW_N(f->arena, f->batch * slots, int32_t);
    boxes = DG_NEW_N(f->arena, f->batch * slots * 4, double);
    for (int64_t b = 0; b < f->batch; b++) {
        count[b] = (int32_t)n_targets(batch, b);
        for (int64_t j = 0; j < count[b]; j++) {
            labels[b * slots + j] =
                (int32_t)dg_json_get(&batch->targets->items[b], "labels")->items[j].number;
            target_box(batch, b, j, boxes + (b * slots + j) * 4);
        }
    }
    DG_TRY(dg_run_feed(f->run, "b.targets.labels", labels, f->batch * slots, f->d));
    DG_TRY(dg_run_feed(f->run, "b.targets.boxes", boxes, f->batch * slots * 4, f->d));
    DG_TRY(dg_run_feed(f->run, "b.targets.count", count, f->batch, f->d));
out:
    return rc;
}

/* ---- draws of the denoising queries ---------------------------------------------------------- */

/* The formula's draw: flat index over [B,P] or [B,P,4]. */
static double draw(fixture *f, const codetr_batch *batch, const char *name, int64_t i)
{
    return (double)formula_draw(dg_printf(f->arena, "%s%s", name, batch->suffix), i);
}

static double clip01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* The noisy box of row q, which has target j, in double: the op rounds it to single precision. */
static void noisy_box(fixture *f, const codetr_batch *batch, int64_t b, int64_t q, int64_t slots,
                      double to[4])
{
    double box[4], c[4];

    target_box(batch, b, q % slots, box);
    for (int k = 0; k < 4; k++) {
        int64_t i = (b * f->n_dn + q) * 4 + k;
        double half = 0.5 * box[2 + k % 2], edge = box[k % 2] + (k < 2 ? -half : half);
        double sign = draw(f, batch, "dn.sign", i) < 0.5 ? -1 : 1;
        double size = draw(f, batch, "dn.mag", i) + (double)(q / slots % 2);

        c[k] = clip01(edge + sign * size * half);
    }
    for (int k = 0; k < 2; k++) {
        to[k] = 0.5 * (c[k] + c[k + 2]);
        to[k + 2] = c[k + 2] - c[k];
    }
}

static int feed_draws(fixture *f, const codetr_batch *batch)
{
    static const char *const ours[] = { "/label_mask", "/new_label", "/sign", "/mag", "/boxes" },
                             *const names[] = { "dn.label_mask", "dn.new_label", "dn.sign",
                                                "dn.mag" };
    int64_t slots = (int64_t)dg_json_get(batch->denoising, "slots_per_half")->number;
    int rc = 0;

    f->n_dn = (int64_t)dg_json_get(batch->denoising, "n_dn")->number;
    for (int i = 0; i < 5; i++) {
        int64_t each = i < 2 ? 1 : 4;
        dg_run_tensor t;
        double *v;

        if (i == 4 && f->set->precision != F64)
            break;
        if (!codetr_input(f, ours[i], &t))
            return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value", "no draw %s", ours[i]);
        f->capacity = t.shape.d[1];
        v = DG_NEW_N(f->arena, f->batch * f->capacity * each, double);
        for (int64_t b = 0; b < f->batch; b++)
            for (int64_t q = 0; q < f->n_dn; q++) {
                double *at = v + (b * f->capacity + q) * each;

                for (int64_t k = 0; k < each && i < 4; k++)
                    at[k] = draw(f, batch, names[i], (b * f->n_dn + q) * each + k);
                if (i == 4 && q % slots < n_targets(batch, b))
                    noisy_box(f, batch, b, q, slots, at);
            }
        DG_TRY(dg_run_feed(f->run, t.name, v, f->batch * f->capacity * each, f->d));
    }
out:
    return rc;
}

int codetr_feed(fixture *f, const char *scope, const codetr_batch *batch)
{
    int rc = 0;

    f->h = batch->h;
    f->w = batch->w;
    DG_TRY(dg_run_select(f->run, scope, f->w, f->h, f->d));
    DG_TRY(feed_images(f, batch));
    DG_TRY(feed_sizes(f, batch));
    if (batch->targets)
        DG_TRY(feed_targets(f, batch));
    if (batch->denoising)
        DG_TRY(feed_draws(f, batch));
    if (batch->denoising)
        DG_TRY(codetr_feed_keys(f, batch));
out:
    return rc;
}

/* ---- queries --------------------------------------------------------------------------------- */

static int missing(const fixture *f, const char *name)
{
    return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value", "the run has no value %s",
                   name);
}

static void check_rows(fixture *f, const dg_json *image, int64_t b, const int32_t *labels,
                       const double *boxes)
{
    const dg_json *l = dg_json_get(image, "labels"), *x = dg_json_get(image, "boxes");

    for (int q = 0; l && q < l->n; q++) {
        bool filled = x->items[q].kind == DG_JSON_ARRAY;

        report_fact(f->report, "denoising labels",
                    labels[b * f->capacity + q] == l->items[q].number, "dn.labels");
        for (int k = 0; filled && k < 4; k++)
            report_add(f->report, "denoising boxes",
                       fabs(boxes[(b * f->capacity + q) * 4 + k] - x->items[q].items[k].number),
                       fixture_bound(f, 1e-7, 1e-6), "dn.boxes"); /* the op rounds */
    }
}

int codetr_check_denoising(fixture *f, const codetr_batch *batch)
{
    const dg_json *images = dg_json_get(batch->denoising, "per_image");
    dg_shape shape;
    int32_t *labels = fixture_read_i32(f, "dn.labels", &shape),
            *query = fixture_read_i32(f, "dn.query", &shape),
            *gt = fixture_read_i32(f, "dn.gt", &shape),
            *meta = fixture_read_i32(f, "dn.meta", &shape);
    double *boxes = fixture_read(f, "dn.boxes", &shape);

    if (!labels || !query || !gt || !meta || !boxes)
        return missing(f, "dn.*");
    report_fact(f->report, "denoising rows", meta[2] == f->n_dn, "dn.meta");
    if (f->n_dn)
        report_fact(f->report, "denoising groups",
                    meta[1] == dg_json_get(batch->denoising, "groups")->number, "dn.meta");
    for (int64_t b = 0; images && b < f->batch; b++) {
        const dg_json *pq = dg_json_get(&images->items[b], "positive_idx"),
                      *pg = dg_json_get(&images->items[b], "positive_gt");

        check_rows(f, &images->items[b], b, labels, boxes);
        for (int64_t i = 0; i < f->capacity / 2; i++) {
            int64_t at = b * (f->capacity / 2) + i;
            bool right = i < pq->n
                             ? query[at] == pq->items[i].number && gt[at] == pg->items[i].number
                             : query[at] < 0;

            report_fact(f->report, "denoising pairs", right, "dn.query");
        }
    }
    return 0;
}

static bool same_pairs(const dg_json *pairs, const int32_t *ours, int64_t slots)
{
    const dg_json *query = dg_json_get(pairs, "query"), *gt = dg_json_get(pairs, "gt");
    int64_t matched = 0;

    for (int64_t j = 0; j < slots; j++)
        matched += ours[j] >= 0;
    for (int i = 0; i < query->n; i++)
        if (ours[(int64_t)gt->items[i].number] != query->items[i].number)
            return false;
    return matched == query->n;
}

int codetr_check_queries(fixture *f, const dg_json *step)
{
    const dg_json *tokens = dg_json_get(step, "enc_topk_indices"),
                  *matches = dg_json_get(step, "matches");
    dg_shape shape;
    int32_t *ours = fixture_read_i32(f, "enc.topk", &shape);
    int64_t moved = 0;

    if (!ours)
        return missing(f, "enc.topk");
    for (int64_t b = 0; b < f->batch; b++)
        for (int q = 0; q < tokens->items[b].n; q++)
            moved += ours[b * shape.d[1] + q] != tokens->items[b].items[q].number;
    report_add(f->report, "queries at another rank", (double)moved, fixture_bound(f, 0.5, 0.5),
               "enc.topk");
    for (int i = 0; matches && i < matches->n && f->set->precision != BF16; i++) {
        const char *key = matches->items[i].key;
        const char *name = strcmp(key, "main") ? dg_printf(f->arena, "match_%s", key) : "match";

        ours = fixture_read_i32(f, name, &shape);
        if (!ours)
            return missing(f, name);
        for (int64_t b = 0; b < f->batch; b++)
            report_fact(f->report, "assignments",
                        same_pairs(&matches->items[i].items[b], ours + b * shape.d[1], shape.d[1]),
                        name);
    }
    return 0;
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* The engine's name of a term: "d3.dn_loss_cls" is loss.loss_cls_dn_d3, "enc_loss_iou" is
 * loss.loss_iou_enc, "d0.loss_bbox_aux1" is loss.loss_bbox_aux1_d0. Terms of heads keep their
 * names. */
static const char *our_term(const fixture *f, const char *key)
{
    const char *layer = key[0] == 'd' && key[1] >= '0' && key[1] <= '9' ? key : NULL;
    const char *rest = layer ? strchr(key, '.') + 1 : key, *set = "";
    const char *base = strstr(rest, "loss_"), *tail;
    size_t n;

    if (!base)
        return dg_printf(f->arena, "loss.%s", key);
    if (strncmp(rest, "enc_", 4) == 0)
        set = "_enc";
    if (strncmp(rest, "dn_", 3) == 0)
        set = "_dn";
    tail = strstr(base, "_aux");
    n = tail ? (size_t)(tail - base) : strlen(base);
    return dg_printf(f->arena, "loss.%.*s%s%s%s%.*s", (int)n, base, set, tail ? tail : "",
                     layer ? "_" : "", layer ? (int)strcspn(layer, ".") : 0, layer ? layer : "");
}

static bool is_listed(const fixture *f, const dg_json *losses, const char *name)
{
    for (int i = 0; i < losses->n; i++)
        if (strcmp(our_term(f, losses->items[i].key), name) == 0)
            return true;
    return false;
}

int codetr_check_losses(fixture *f, const dg_json *step, double total, double term)
{
    const dg_json *losses = dg_json_get(step, "losses");
    dg_shape shape;
    double *v;
    int found = 0;

    for (int i = 0; i < losses->n; i++) {
        const char *name = our_term(f, losses->items[i].key);
        double want = losses->items[i].number, zero = fixture_bound(f, 1e-12, 1e-6);

        v = fixture_read(f, name, &shape);
        if (!v && !f->set->parts)
            report_fact(f->report, "loss terms", false, losses->items[i].key);
        if (!v)
            continue;
        found++;
        if (want == 0)
            report_add(f->report, "loss terms that vanish", fabs(*v), zero, name);
        else
            report_add(f->report, "loss terms, value", fabs(*v - want) / fabs(want), term, name);
    }
    for (int i = 0; i < dg_run_n_values(f->run); i++) {
        const char *name = dg_run_value_at(f->run, i).name;

        if (strncmp(name, "loss.loss_", 10) == 0)
            report_fact(f->report, "further loss terms", is_listed(f, losses, name), name);
    }
    report_fact(f->report, "loss terms", found > 0, "none");
    if (f->set->parts)
        return 0;
    v = fixture_read(f, "loss/differentiated", &shape);
    if (!v)
        return missing(f, "loss/differentiated");
    report_add(f->report, "total loss",
               fabs(*v - dg_json_get(step, "total_loss")->number) /
                   dg_json_get(step, "total_loss")->number,
               total, "");
    v = fixture_read(f, "grad_norm", &shape);
    if (!v)
        return missing(f, "grad_norm");
    report_add(f->report, "gradient norm",
               fabs(*v - dg_json_get(step, "grad_norm")->number) /
                   dg_json_get(step, "grad_norm")->number,
               fixture_bound(f, 1e-8, 1e-4), "grad_norm");
    return 0;
}
