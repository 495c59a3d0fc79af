/* step.c: one training step: activations, losses, assignments, gradients, and what the optimizer
 * made of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/fixture.h"
#include "tests/parity/formula.h"

typedef struct bounds {
    double forward, memory, loss, total, gradient_l2, gradient, zero, statistics, delta, own_delta,
        ema;
} bounds;

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Those of the fixtures' own description. */
static bounds bounds_of_rfdetr(const fixture *f)
{
    return (bounds){
        .forward = fixture_bound(f, 1e-10, 1e-5),
        .loss = fixture_bound(f, 1e-11, 5e-6),
        .total = fixture_bound(f, 1e-11, 2e-6),
        .gradient_l2 = fixture_bound(f, 1e-8, 2e-3),
        .gradient = fixture_bound(f, 1e-7, 3e-2),
        .zero = fixture_bound(f, 1e-12, 1e-7),
        .delta = fixture_bound(f, 1e-6, 2e-2), /* the fixture has seven digits */
        .own_delta = fixture_bound(f, 1e-8, 1e-3),
        .ema = fixture_bound(f, 1e-8, 1e-6),
    };
}

static bounds bounds_of(const fixture *f)
{
    const dg_json *acts = dg_json_get(dg_json_get(f->root, "f32_deviation"), "acts_vec_rel");
    bool objects = dg_json_get(f->root, "num_boxes")->number > 1;
    double widest = 1e-5;

    if (f->normalized)
        return bounds_of_rfdetr(f);
    for (int i = 0; acts && i < acts->n; i++)
        widest = fmax(widest, acts->items[i].number);
    return (bounds){
        .forward = fixture_bound(f, 1e-8, 10 * widest),
        .loss = fixture_bound(f, 1e-8, objects ? 3e-5 : 1e-4),
        .total = fixture_bound(f, 1e-8, 5e-6),
        .gradient_l2 = fixture_bound(f, 1e-8, 1e-2),
        .gradient = fixture_bound(f, 1e-8, 1), /* a flipped gate moves a sample by about its size */
        .zero = fixture_bound(f, 1e-12, 1e-7),
        .statistics = fixture_bound(f, 1e-8, 1e-5),
        .delta = fixture_bound(f, 1e-6, 2e-2), /* the fixture has seven digits */
        .own_delta = fixture_bound(f, 1e-8, 2e-3),
        .ema = fixture_bound(f, 1e-8, 1e-6),
    };
}

static layout layout_of(const char *name)
{
    if (strstr(name, ".state"))
        return QUERIES;
    if (strcmp(name, "enc.logits_all") == 0)
        return AS_STORED;
    if (starts(name, "dn."))
        return DENOISING;
    if (starts(name, "enc.topk") || starts(name, "dec.") || starts(name, "pred_"))
        return SELECTED;
    return MAPS;
}

static bool is_object(const dg_json *v)
{
    return v && v->kind == DG_JSON_OBJECT;
}

static void check_tensors(fixture *f, const char *group, const dg_json *list, const char *prefix,
                          double bound, bool all)
{
    for (int i = 0; list && i < list->n; i++) {
        const char *name = list->items[i].key;
        dg_arena *all_read = fixture_remember(f);
        dg_shape shape;
        double *v = fixture_read_named(f, dg_printf(f->arena, "%s%s", prefix, name), &shape);

        if (v)
            fixture_compare(f, group, name, &list->items[i], v, shape, layout_of(name), bound);
        else if (all && !fixture_lacks(f, name, true))
            report_fact(f->report, "named values", false, name);
        fixture_forget(f, all_read);
    }
}

static double *read_param(fixture *f, dg_run_space space, const char *name, dg_shape *shape)
{
    for (int i = 0, all = dg_run_n_params(f->run); i < all; i++) {
        dg_run_param p = dg_run_param_at(f->run, i);

        if (strcmp(p.name, name) == 0) {
            int64_t n = dg_shape_elements(p.shape);
            double *v = dg_alloc(f->arena, (size_t)n * sizeof *v);

            *shape = p.shape;
            if (dg_run_get(f->run, space, name, v, n, f->d) == 0)
                return v;
        }
    }
    report_fact(f->report, "parameters", false, name);
    return NULL;
}

static bool is_zero(const dg_json *gradient)
{
    const dg_json *zero = dg_json_get(gradient, "zero"), *l2 = dg_json_get(gradient, "l2");

    return (zero && zero->kind == DG_JSON_BOOL && zero->truth) || (l2 && l2->number == 0);
}

static double norm(const double *v, int64_t n)
{
    double s = 0;

    for (int64_t i = 0; i < n; i++)
        s += v[i] * v[i];
    return sqrt(s);
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Errors of the samples, over the gradient's root mean square, go to errors[0..most-1]. */
static int check_gradient(fixture *f, const dg_json *expected, const bounds *k, double *errors,
                          int most)
{
    const dg_json *samples = dg_json_get(expected, "samples");
    const char *name = expected->key;
    double l2 = dg_json_get(expected, "l2")->number, rms;
    dg_shape shape;
    double *g = read_param(f, DG_RUN_GRADIENTS, name, &shape);

    if (!g)
        return 0;
    if (is_zero(expected)) {
        report_add(f->report, "vanishing gradients, over the norm",
                   norm(g, dg_shape_elements(shape)) / dg_json_get(f->root, "grad_norm")->number,
                   k->zero, name);
        return 0;
    }
    report_add(f->report, "parameter gradients, l2",
               fabs(norm(g, dg_shape_elements(shape)) - l2) / l2, k->gradient_l2, name);
    rms = l2 / sqrt((double)dg_shape_elements(shape));
    for (int j = 0; j < samples->n && j < most; j++) {
        const dg_json *sample = samples->items[j].items;

        errors[j] = fabs(g[(int64_t)sample[0].number] - sample[1].number) / rms;
        report_add(f->report, "parameter gradients, worst sample", errors[j], k->gradient, name);
    }
    return samples->n < most ? samples->n : most;
}

static void check_gradients(fixture *f, const bounds *k)
{
    enum { MOST = 16 };
    const dg_json *list = dg_json_get(f->root, "param_grads");
    double *errors = DG_NEW_N(f->arena, (int64_t)list->n * MOST, double);
    int n_errors = 0;

    for (int i = 0; i < list->n; i++) {
        dg_arena *all = fixture_remember(f);

        n_errors += check_gradient(f, &list->items[i], k, errors + n_errors, MOST);
        fixture_forget(f, all);
    }
    qsort(errors, (size_t)n_errors, sizeof *errors, order);
    if (n_errors) {
        report_add(f->report, "parameter gradients, 99 % of samples", errors[n_errors * 99 / 100],
                   fixture_bound(f, 1e-8, 2e-2), "");
        report_add(f->report, "parameter gradients, median", errors[n_errors / 2],
                   fixture_bound(f, 1e-9, 2e-3), "");
    }
    report_fact(f->report, "trainable parameters", list->n > 0, "none");
}

/* The update, from the fixture's gradient and from our own. */
static void check_update(fixture *f, const char *name, const dg_json *after,
                         const dg_json *gradient, const bounds *k)
{
    const dg_json *optimizer = dg_json_get(f->root, "optimizer"),
                  *groups = dg_json_get(optimizer, "groups");
    const dg_json *samples = dg_json_get(after, "samples"), *delta = dg_json_get(after, "delta");
    int group = (int)dg_json_get(after, "group")->number;
    double lr = dg_json_get(&groups->items[group], "lr")->number,
           decay = dg_json_get(&groups->items[group], "weight_decay")->number;
    double clip = dg_json_get(optimizer, "clip_max_norm")->number, own_norm, rms;
    dg_shape shape, scalar;
    double *w = read_param(f, DG_RUN_WEIGHTS, name, &shape),
           *g = read_param(f, DG_RUN_GRADIENTS, name, &shape);
    double *e = read_param(f, DG_RUN_EMA, name, &shape),
           *norms = fixture_read(f, "grad_norm", &scalar), *old;
    double d = dg_json_get(dg_json_get(f->root, "ema"), "decay_used")->number;

    if (!w || !g || !e || !norms)
        return;
    own_norm = norms[0];
    old = dg_alloc(f->arena, (size_t)dg_shape_elements(shape) * sizeof *old);
    formula_fill(name, shape, old);
    rms = is_zero(gradient)
              ? 0
              : dg_json_get(gradient, "l2")->number / sqrt((double)dg_shape_elements(shape));
    for (int j = 0; j < samples->n; j++) {
        int64_t at = (int64_t)samples->items[j].items[0].number;
        double want =
            is_zero(gradient) ? 0 : dg_json_get(gradient, "samples")->items[j].items[1].number;
        double c = g[at] * fmin(1, clip / (own_norm + 1e-6)), moved = w[at] - old[at];
        double own = -lr * (decay * old[at] + c / (fabs(c) + 1e-8));
        /* a weight near 1 is stored in steps that a small rate sees */
        double rounding = f->set->precision == F64 ? 0 : ldexp(fabs(w[at]), -23);

        report_add(f->report, "update from our own gradient, /lr",
                   fmax(0, fabs(moved - own) - rounding) / lr, k->own_delta, name);
        report_add(f->report, "average of weights",
                   fabs(e[at] - (d * old[at] + (1 - d) * w[at])) / fmax(fabs(w[at]), 1e-3), k->ema,
                   name);
        if (!is_zero(gradient) && fabs(want) > (f->set->precision == F64 ? 1e-6 : 0.1) * rms)
            report_add(f->report, "update, /lr",
                       fmax(0, fabs(moved - delta->items[j].number) - rounding) / lr, k->delta,
                       name);
    }
}

/* A parameter without a gradient is what it was: not even decayed. */
static void check_untouched(fixture *f, const char *name)
{
    dg_shape shape;
    double *w = read_param(f, DG_RUN_WEIGHTS, name, &shape), *old;

    if (!w)
        return;
    old = dg_alloc(f->arena, (size_t)dg_shape_elements(shape) * sizeof *old);
    formula_fill(name, shape, old);
    report_fact(f->report, "parameters without a gradient",
                memcmp(w, old, (size_t)dg_shape_elements(shape) * sizeof *w) == 0, name);
}

static void check_state(fixture *f, const bounds *k)
{
    const dg_json *after = dg_json_get(f->root, "params_after"),
                  *gradients = dg_json_get(f->root, "param_grads");
    const dg_json *statistics = dg_json_get(f->root, "bn_after"),
                  *ema = dg_json_get(f->root, "ema_after");
    dg_shape shape;
    double *v;

    for (int i = 0; i < after->n; i++) {
        dg_arena *all = fixture_remember(f);

        if (!dg_json_get(gradients, after->items[i].key))
            check_untouched(f, after->items[i].key);
        else
            check_update(f, after->items[i].key, &after->items[i],
                         dg_json_get(gradients, after->items[i].key), k);
        fixture_forget(f, all);
    }
    for (int i = 0; statistics && i < statistics->n; i++)
        if ((v = read_param(f, DG_RUN_WEIGHTS, statistics->items[i].key, &shape)))
            fixture_compare(f, "running statistics", statistics->items[i].key,
                            &statistics->items[i], v, shape, AS_STORED, k->statistics);
    for (int i = 0; ema && f->set->precision == F64 && i < ema->n; i++) {
        dg_arena *all = fixture_remember(f);

        if (dg_json_get(gradients, ema->items[i].key) &&
            !is_zero(dg_json_get(gradients, ema->items[i].key)) &&
            (v = read_param(f, DG_RUN_EMA, ema->items[i].key, &shape)))
            fixture_compare(f, "average, values", ema->items[i].key, &ema->items[i], v, shape,
                            AS_STORED, 1e-6);
        fixture_forget(f, all);
    }
}

/* What losses are divided by. */
static void check_objects(fixture *f)
{
    double want = dg_json_get(f->root, "num_boxes")->number;
    dg_shape shape;
    double *ours = fixture_read(f, "loss.objects", &shape);

    report_fact(f->report, "objects", ours && fabs(*ours - want) < 1e-6 * want, "loss.objects");
}

static void check_frozen(fixture *f)
{
    const dg_json *frozen =
                      dg_json_get(f->root, f->normalized ? "no_gradient" : "frozen_parameters"),
                  *gradients = dg_json_get(f->root, "param_grads");
    int trainable = 0;

    for (int i = 0, all = dg_run_n_params(f->run); i < all; i++) {
        dg_run_param p = dg_run_param_at(f->run, i);

        trainable += p.trainable;
        if (p.trainable)
            report_fact(f->report, "trainable parameters", dg_json_get(gradients, p.name) != NULL,
                        p.name);
    }
    report_fact(f->report, "trainable parameters", trainable == gradients->n, "another number");
    for (int i = 0; frozen && i < frozen->n; i++) {
        bool found = false;

        for (int j = 0, all = dg_run_n_params(f->run); j < all; j++) {
            dg_run_param p = dg_run_param_at(f->run, j);

            found =
                found || (!p.trainable && !p.buffer && strcmp(p.name, frozen->items[i].text) == 0);
        }
        report_fact(f->report, "frozen parameters", found, frozen->items[i].text);
    }
}

static const dg_json *groups_of(const fixture *f)
{
    return dg_json_get(dg_json_get(f->root, "optimizer"), "groups");
}

/* Groups with a parameter that has a gradient. */
static int live_groups(const fixture *f)
{
    const dg_json *after = dg_json_get(f->root, "params_after"),
                  *gradients = dg_json_get(f->root, "param_grads");
    bool live[DG_MAX_GROUPS] = { false };
    int n = 0;

    for (int i = 0; i < after->n; i++) {
        int g = (int)dg_json_get(&after->items[i], "group")->number;

        if (g >= 0 && g < DG_MAX_GROUPS && dg_json_get(gradients, after->items[i].key)) {
            n += !live[g];
            live[g] = true;
        }
    }
    return n;
}

/* The fixture has no warm-up; our preset has: its groups' rates, without it, must be the
 * fixture's. */
static void check_rates(fixture *f)
{
    double warm = f->lr[0] > 0 ? f->own_lr[0] / f->lr[0] : 1;

    if (f->normalized) { /* the order differs; updates show whose rate is whose */
        report_fact(f->report, "groups of parameters", live_groups(f) == f->n_own,
                    "another number");
        return;
    }

    report_fact(f->report, "groups of parameters", f->n_groups == f->n_own, "another number");
    for (int i = 0; i < f->n_groups; i++)
        report_add(f->report, "learning rates of groups",
                   fabs(f->own_lr[i] / warm - f->lr[i]) / f->lr[i], 1e-12, "optimizer");
}

/* Compares the values of the forward pass that the file has. */
static int check_parts(fixture *f)
{
    bounds k = bounds_of(f);
    int rc = 0;

    DG_TRY(dg_run_select(f->run, "train", f->w, f->h, f->d));
    DG_TRY(fixture_feed_images(f, fixture_images(f)));
    DG_TRY(fixture_feed_targets(f, dg_json_get(f->root, "targets")));
    DG_TRY(dg_run_step(f->run, f->d));
    check_tensors(f, "forward", dg_json_get(f->root, "tensors"), "", k.forward, true);
    check_tensors(f, "forward, inside modules", dg_json_get(f->root, "debug_tensors"), "",
                  k.forward, false);
out:
    return rc;
}

int fixture_train_step(fixture *f)
{
    const dg_json *targets = dg_json_get(f->root, "targets"),
                  *denoising = dg_json_get(f->root, "denoising");
    const dg_json *groups = groups_of(f), *tokens = dg_json_get(f->root, "enc_topk_indices");
    bounds k = bounds_of(f);
    int moved = 0, rc = 0;

    if (f->set->parts)
        return check_parts(f);

    for (int i = 0; i < groups->n && i < DG_MAX_GROUPS && !f->normalized; i++) {
        const dg_json *tensors = dg_json_get(&groups->items[i], "tensors");

        if (!tensors || tensors->number > 0) /* the reference lists groups that claim nothing */
            f->lr[f->n_groups++] = dg_json_get(&groups->items[i], "lr")->number;
    }
    DG_TRY(dg_run_select(f->run, "train", f->w, f->h, f->d));
    if (!f->normalized) /* another version of the library */
        fixture_misread(f);
    DG_TRY(fixture_feed_images(f, fixture_images(f)));
    DG_TRY(fixture_feed_targets(f, targets));
    if (is_object(denoising))
        DG_TRY(fixture_feed_draws(f, denoising, f->set->precision == F64));
    if (dg_json_get(f->root, "draws")) {
        DG_TRY(fixture_feed_masks(f, targets));
        DG_TRY(fixture_feed_points(f, dg_json_get(f->root, "matches")));
    }
    DG_TRY(dg_run_step(f->run, f->d));
    check_rates(f);
    check_frozen(f);
    check_objects(f);
    if (is_object(denoising))
        DG_TRY(fixture_check_denoising(f, denoising));
    if (f->normalized) {
        DG_TRY(fixture_check_groups(f, tokens));
        DG_TRY(fixture_check_group_matches(f, dg_json_get(f->root, "matches")));
    } else {
        DG_TRY(fixture_match_ranks(f, tokens));
        DG_TRY(fixture_check_matches(f, dg_json_get(f->root, "matches"), tokens, &moved));
    }
    check_tensors(f, "forward", dg_json_get(f->root, "tensors"), "", k.forward, true);
    check_tensors(f, "forward, inside modules", dg_json_get(f->root, "debug_tensors"), "",
                  k.forward, false);
    DG_TRY(fixture_check_losses(f, f->root, k.total, k.loss));
    check_tensors(f, "gradients of values", dg_json_get(f->root, "tensor_grads"), "grad.",
                  k.gradient, true);
    check_gradients(f, &k);
    check_state(f, &k);
out:
    return rc;
}
