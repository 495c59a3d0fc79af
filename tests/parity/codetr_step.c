/* codetr_step.c: Co-DETR's fixtures: one training step, several in a row, and evaluation. With
 * --parts the pipeline is the one without the other heads, and what it computes is compared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/codetr.h"
#include "tests/parity/formula.h"

/* The fixtures' description, section 7; errors of samples are over the tensor's root mean square,
 * so that in f32 the worst of them may be some ten times the relative error of the vector. */
static double forward_bound(const fixture *f)
{
    return fixture_bound(f, 1e-10, 1e-4);
}

static codetr_batch only_batch(const fixture *f, const char *suffix)
{
    const dg_json *root = f->root;

    return (codetr_batch){ .images = dg_json_get(root, "image_name")->text,
                           .suffix = suffix,
                           .sizes = dg_json_get(root, "image_sizes_hw"),
                           .targets = dg_json_get(root, "targets"),
                           .denoising = dg_json_get(root, "denoising"),
                           .h = f->h,
                           .w = f->w };
}

/* ---- tensors --------------------------------------------------------------------------------- */

static layout layout_of(const char *name)
{
    if (strncmp(name, "roi.", 4) == 0)
        return AS_STORED;
    if (strncmp(name, "dec.", 4) == 0 && (strstr(name, ".state") || strstr(name, ".new_ref")))
        return QUERIES;
    if (strncmp(name, "dn.", 3) == 0 || strncmp(name, "aux", 3) == 0)
        return DENOISING;
    if (strncmp(name, "dec.", 4) == 0 || strncmp(name, "enc.topk", 8) == 0)
        return SELECTED;
    return MAPS;
}

/* Values that the engine has no single tensor of: gradients of both kinds of rows together. */
static double *both_kinds(fixture *f, const char *name, dg_shape *shape)
{
    const char *end = strstr(name, "(dn+match)"), *part = strchr(name, '.');
    dg_shape s[2];
    double *v[2], *all;
    int64_t width;

    if (!end || !part)
        return NULL;
    v[0] = fixture_read(f, dg_printf(f->arena, "grad.dn%.*s", (int)(end - part), part), &s[0]);
    v[1] = fixture_read(f, dg_printf(f->arena, "grad.dec%.*s", (int)(end - part), part), &s[1]);
    if (!v[0] || !v[1])
        return NULL;
    width = s[0].d[2];
    *shape = DG_SHAPE(f->batch, s[0].d[1] + s[1].d[1], width);
    all = DG_NEW_N(f->arena, dg_shape_elements(*shape), double);
    for (int64_t b = 0; b < f->batch; b++)
        for (int k = 0; k < 2; k++)
            memcpy(all + (b * shape->d[1] + k * s[0].d[1]) * width, v[k] + b * s[k].d[1] * width,
                   (size_t)(s[k].d[1] * width) * sizeof *all);
    return all;
}

/* Whether a run has no such value: what is computed for chosen tokens alone; with --parts what
 * other heads have a part in; and what has another order of regions. */
static bool is_absent(const fixture *f, const char *name, const char *prefix)
{
    if (strcmp(name, "enc.coord_unact") == 0)
        return true;
    if (strncmp(name, "roi.", 4) == 0)
        return f->set->parts || f->other_order;
    return f->set->parts && *prefix && strncmp(name, "dec.", 4) != 0 &&
           strncmp(name, "enc.", 4) != 0;
}

static double *read_tensor(fixture *f, const char *name, const char *prefix, dg_shape *shape)
{
    const char *ours = dg_printf(f->arena, "%s%s", prefix, name);

    if (strstr(name, "(dn+match)"))
        return both_kinds(f, name, shape);
    return (strncmp(name, "roi.", 4) == 0 ? codetr_regions : fixture_read)(f, ours, shape);
}

static void check_tensors(fixture *f, const char *group, const char *list, const char *prefix,
                          double bound, bool all)
{
    const dg_json *tensors = dg_json_get(f->root, list);

    for (int i = 0; tensors && i < tensors->n; i++) {
        const char *name = tensors->items[i].key;
        dg_arena *all_read = fixture_remember(f);
        bool absent = is_absent(f, name, prefix);
        dg_shape shape;
        double *v = absent ? NULL : read_tensor(f, name, prefix, &shape);

        if (v && dg_json_get(&tensors->items[i], "l2"))
            fixture_compare(f, f->set->verbose ? name : group, name, &tensors->items[i], v, shape,
                            strstr(name, "(dn+match)") ? QUERIES : layout_of(name), bound);
        else if (all && !absent && !f->set->parts)
            report_fact(f->report, "named values", false,
                        dg_printf(f->arena, "%s%s", prefix, name));
        fixture_forget(f, all_read);
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

static double *read_param(fixture *f, dg_run_space space, const char *name, dg_shape *shape)
{
    for (int i = 0; i < dg_run_n_params(f->run); i++) {
        dg_run_param p = dg_run_param_at(f->run, i);
        int64_t n = dg_shape_elements(p.shape);
        double *v;

        if (strcmp(p.name, name) != 0)
            continue;
        v = dg_alloc(f->arena, (size_t)n * sizeof *v);
        *shape = p.shape;
        if (dg_run_get(f->run, space, name, v, n, f->d) == 0)
            return v;
    }
    report_fact(f->report, "parameters", false, name);
    return NULL;
}

static double norm(const double *v, int64_t n)
{
    double s = 0;

    for (int64_t i = 0; i < n; i++)
        s += v[i] * v[i];
    return sqrt(s);
}

static void check_gradient(fixture *f, const dg_json *expected)
{
    const dg_json *samples = dg_json_get(expected, "samples");
    double l2 = dg_json_get(expected, "l2")->number, rms;
    dg_shape shape;
    double *g = read_param(f, DG_RUN_GRADIENTS, expected->key, &shape);
    int64_t n = g ? dg_shape_elements(shape) : 0;

    if (!g)
        return;
    if (l2 == 0) {
        report_fact(f->report, "gradients that are exactly 0", norm(g, n) == 0, expected->key);
        return;
    }
    report_add(f->report, "parameter gradients, l2", fabs(norm(g, n) - l2) / l2,
               fixture_bound(f, 1e-7, 5e-3), expected->key);
    rms = l2 / sqrt((double)n);
    for (int j = 0; j < samples->n; j++) {
        const dg_json *s = samples->items[j].items;

        report_add(f->report, "parameter gradients, samples",
                   fabs(g[(int64_t)s[0].number] - s[1].number) / rms, fixture_bound(f, 1e-6, 2e-2),
                   expected->key);
    }
}

/* Where the weights went, over the rate; where |g| is small its sign decides. */
static void check_update(fixture *f, const dg_json *after, const dg_json *gradient)
{
    const dg_json *groups = dg_json_get(dg_json_get(f->root, "optimizer"), "groups");
    const dg_json *samples = dg_json_get(after, "samples"), *delta = dg_json_get(after, "delta");
    double lr = dg_json_get(&groups->items[(int)dg_json_get(after, "group")->number], "lr")->number;
    double l2 = dg_json_get(gradient, "l2")->number, rms;
    dg_shape shape;
    double *w = read_param(f, DG_RUN_WEIGHTS, after->key, &shape), *old;

    if (!w)
        return;
    old = dg_alloc(f->arena, (size_t)dg_shape_elements(shape) * sizeof *old);
    formula_fill(after->key, shape, old);
    rms = l2 / sqrt((double)dg_shape_elements(shape));
    for (int j = 0; j < samples->n; j++) {
        int64_t at = (int64_t)samples->items[j].items[0].number;
        double g = dg_json_get(gradient, "samples")->items[j].items[1].number, rounding;

        if (at < 0 || at >= dg_shape_elements(shape)) {
            report_fact(f->report, "shapes of parameters", false, after->key);
            return;
        }
        rounding = f->set->precision == F64 ? 0 : ldexp(fabs(old[at]), -23);
        if (fabs(g) > 0.1 * rms || l2 == 0)
            report_add(f->report, "update, over the rate",
                       fmax(0, fabs(w[at] - old[at] - delta->items[j].number) - rounding) / lr,
                       fixture_bound(f, 1e-5, 1e-2), after->key);
    }
}

static void check_parameters(fixture *f)
{
    const dg_json *gradients = dg_json_get(f->root, "param_grads"),
                  *after = dg_json_get(f->root, "params_after"),
                  *frozen = dg_json_get(f->root, "frozen_parameters");
    int trainable = 0, fixed = 0;

    for (int i = 0; i < dg_run_n_params(f->run); i++) {
        dg_run_param p = dg_run_param_at(f->run, i);

        trainable += p.trainable;
        fixed += !p.trainable && !p.buffer;
        if (p.trainable)
            report_fact(f->report, "trainable parameters", dg_json_get(gradients, p.name) != NULL,
                        p.name);
    }
    report_fact(f->report, "trainable parameters", trainable == gradients->n, "another number");
    report_fact(f->report, "frozen parameters", fixed == frozen->n, "another number");
    for (int i = 0; i < gradients->n; i++) {
        dg_arena *all = fixture_remember(f);

        check_gradient(f, &gradients->items[i]);
        if (dg_json_get(after, gradients->items[i].key))
            check_update(f, dg_json_get(after, gradients->items[i].key), &gradients->items[i]);
        fixture_forget(f, all);
    }
}

static void use_rates(fixture *f, const dg_json *optimizer)
{
    const dg_json *groups = dg_json_get(optimizer, "groups"), *lr = dg_json_get(optimizer, "lr");

    f->n_groups = 2;
    f->lr[0] = lr ? dg_json_get(optimizer, "lr_backbone")->number
                  : dg_json_get(&groups->items[0], "lr")->number;
    f->lr[1] = lr ? lr->number : dg_json_get(&groups->items[1], "lr")->number;
}

/* The fixture has neither schedule nor warm-up, and the preset's first step has none. */
static void check_rates(fixture *f)
{
    report_fact(f->report, "groups of parameters", f->n_own == f->n_groups, "another number");
    for (int i = 0; i < f->n_groups; i++)
        report_add(f->report, "learning rates of groups", fabs(f->own_lr[i] - f->lr[i]) / f->lr[i],
                   1e-12, "optimizer");
}

/* ---- modes ----------------------------------------------------------------------------------- */

int codetr_train_step(fixture *f)
{
    codetr_batch batch = only_batch(f, "");
    int rc = 0;

    use_rates(f, dg_json_get(f->root, "optimizer"));
    DG_TRY(codetr_feed(f, "train", &batch));
    DG_TRY(dg_run_step(f->run, f->d));
    check_rates(f);
    DG_TRY(codetr_check_denoising(f, &batch));
    DG_TRY(codetr_check_queries(f, f->root));
    if (!f->set->parts)
        f->other_order = !codetr_check_choices(f, f->root);
    check_tensors(f, "forward", "tensors", "", forward_bound(f), true);
    check_tensors(f, "forward, inside modules", "debug_tensors", "", forward_bound(f), false);
    DG_TRY(codetr_check_losses(f, f->root, fixture_bound(f, 1e-10, 3e-6),
                               fixture_bound(f, 1e-9, 3e-5)));
    check_tensors(f, "gradients of values", "tensor_grads", "grad.", fixture_bound(f, 1e-6, 2e-2),
                  true);
    if (!f->set->parts)
        check_parameters(f);
out:
    return rc;
}

static void check_final(fixture *f)
{
    const dg_json *list = dg_json_get(f->root, "params_final");

    for (int i = 0; list && i < list->n; i++) {
        const dg_json *delta = dg_json_get(&list->items[i], "delta"),
                      *samples = dg_json_get(&list->items[i], "samples");
        dg_arena *all = fixture_remember(f);
        double square = 0, off = 0;
        dg_shape shape;
        double *w = read_param(f, DG_RUN_WEIGHTS, list->items[i].key, &shape), *old;

        if (w) {
            old = dg_alloc(f->arena, (size_t)dg_shape_elements(shape) * sizeof *old);
            formula_fill(list->items[i].key, shape, old);
            for (int j = 0; j < samples->n; j++) {
                int64_t at = (int64_t)samples->items[j].items[0].number;
                double want = delta->items[j].number, got = w[at] - old[at];

                square += want * want;
                off += (got - want) * (got - want);
            }
            if (square > 0)
                report_add(f->report, "where the weights went", sqrt(off / square),
                           fixture_bound(f, 1e-4, -1), list->items[i].key);
        }
        fixture_forget(f, all);
    }
}

int codetr_trace(fixture *f)
{
    const dg_json *steps = dg_json_get(f->root, "steps"),
                  *sizes = dg_json_get(f->root, "image_sizes_hw"),
                  *names = dg_json_get(f->root, "image_names"),
                  *targets = dg_json_get(f->root, "batch_targets");
    int rc = 0;

    use_rates(f, dg_json_get(f->root, "optimizer"));
    for (int t = 0; t < steps->n; t++) {
        const dg_json *step = &steps->items[t];
        codetr_batch batch = { .images = names->items[t].text,
                               .suffix = dg_json_get(step, "draw_suffix")->text,
                               .sizes = &sizes->items[t],
                               .targets = &targets->items[t],
                               .denoising = dg_json_get(step, "denoising") };

        for (int b = 0; b < batch.sizes->n; b++) {
            batch.h = (int64_t)fmax((double)batch.h, batch.sizes->items[b].items[0].number);
            batch.w = (int64_t)fmax((double)batch.w, batch.sizes->items[b].items[1].number);
        }
        DG_TRY(codetr_feed(f, "train", &batch));
        DG_TRY(dg_run_step(f->run, f->d));
        DG_TRY(codetr_check_denoising(f, &batch));
        DG_TRY(codetr_check_queries(f, step));
        if (!f->set->parts)
            (void)codetr_check_choices(f, step);
        DG_TRY(codetr_check_losses(f, step, fixture_bound(f, 1e-8, 1e-5),
                                   fixture_bound(f, 1e-7, 3e-4)));
    }
    if (!f->set->parts)
        check_final(f);
out:
    return rc;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Detections are fractions of the image; the fixture has pixels of the original, which is the image
 * over its scale factors (x, y, x, y). */
static void check_image(fixture *f, const codetr_batch *batch, int64_t b, int64_t most,
                        const int32_t *labels, const double *scores, const double *boxes)
{
    const dg_json *rows = dg_json_get(&dg_json_get(f->root, "detections")->items[b], "rows"),
                  *scale = &dg_json_get(f->root, "scale_factors")->items[b];

    report_fact(f->report, "number of detections",
                rows->n == most || (rows->n < most && labels[rows->n] < 0), "");
    for (int i = 0; i < rows->n && i < most; i++) {
        const dg_json *row = rows->items[i].items;
        double worst = 0;

        for (int k = 0; k < 4; k++) {
            double side = batch->sizes->items[b].items[1 - k % 2].number,
                   half = boxes[4 * i + 2 + k % 2] / 2;
            double at = (boxes[4 * i + k % 2] + (k < 2 ? -half : half)) * side;

            at = fmin(fmax(at, 0), side) / scale->items[k].number;
            worst = fmax(worst, fabs(at - row[1 + k].number));
        }
        report_fact(f->report, "labels of detections", labels[i] == row[0].number, "");
        report_add(f->report, "scores of detections", fabs(scores[i] - row[5].number),
                   fixture_bound(f, 1e-8, 3e-5), "");
        report_add(f->report, "boxes of detections, pixels", worst, fixture_bound(f, 1e-6, 2e-3),
                   "");
    }
}

int codetr_eval(fixture *f)
{
    codetr_batch batch = only_batch(f, "");
    dg_shape shape, pairs;
    int32_t *labels;
    double *scores, *boxes;
    int rc = 0;

    DG_TRY(codetr_feed(f, "evaluate", &batch));
    DG_TRY(dg_run_forward(f->run, false, f->d));
    DG_TRY(codetr_check_queries(f, f->root));
    check_tensors(f, "forward", "tensors", "", forward_bound(f), false);
    labels = fixture_read_i32(f, "detections.labels", &pairs);
    scores = fixture_read(f, "detections.scores", &shape);
    boxes = fixture_read(f, "detections.boxes", &shape);
    if (!labels || !scores || !boxes)
        return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value",
                       "the run has no detections");
    for (int64_t b = 0; b < f->batch && !f->set->parts; b++)
        check_image(f, &batch, b, pairs.d[1], labels + b * pairs.d[1], scores + b * pairs.d[1],
                    boxes + b * pairs.d[1] * 4);
out:
    return rc;
}
