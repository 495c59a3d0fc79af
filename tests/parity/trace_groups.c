/* trace_groups.c: several optimizer steps of RF-DETR: each of several batches, whose gradients add
 * up, at a size of its own. The pipeline's rates, averages and clipping are the recipe's; a trace
 * of smaller rates scales them all. */
#include <math.h>

#include "tests/parity/fixture.h"
#include "tests/parity/formula.h"

typedef struct bounds {
    double term, total, norm, value, moved;
} bounds;

static bounds bounds_of(const fixture *f)
{
    return (bounds){
        .term = fixture_bound(f, 1e-9, 3e-4),
        .total = fixture_bound(f, 1e-10, 3e-5),
        .norm = fixture_bound(f, 1e-9, 5e-4),
        .value = fixture_bound(f, 1e-10, 1e-5),
        /* in f32 small rates are rounded away, as the reference's are */
        .moved = fixture_bound(f, 1e-5, -1),
    };
}

/* Items first to first + n - 1 of a list. */
static dg_json part_of(const dg_json *list, int64_t first, int64_t n)
{
    dg_json part = *list;

    part.items = list->items + first;
    part.n = (int)n;
    return part;
}

/* One batch of step t, its number-th; adds its loss to the step's. */
static int micro(fixture *f, const dg_json *step, int number, const bounds *k, double *total)
{
    int batch = (int)dg_json_get(step, "batch")->number, rc = 0;
    const dg_json *stored = &dg_json_get(step, "micro")->items[number];
    dg_json names = part_of(&dg_json_get(f->root, "batches")->items[batch], number * f->batch,
                            f->batch),
            targets = part_of(&dg_json_get(f->root, "batch_targets")->items[batch],
                              number * f->batch, f->batch);
    dg_shape shape;
    double *v;

    DG_TRY(fixture_feed_resized(f, &names, (int64_t)dg_json_get(step, "size")->number));
    DG_TRY(fixture_feed_targets(f, &targets));
    DG_TRY(dg_run_step(f->run, f->d));
    DG_TRY(fixture_check_groups(f, dg_json_get(stored, "enc_topk_indices")));
    DG_TRY(fixture_check_group_matches(f, dg_json_get(stored, "matches")));
    fixture_check_terms(f, dg_json_get(stored, "losses"), k->term);
    v = fixture_read(f, "loss.total", &shape);
    report_fact(f->report, "total loss is there", v != NULL, "loss.total");
    *total += v ? *v : NAN;
out:
    return rc;
}

static int one_step(fixture *f, const dg_json *step, const bounds *k)
{
    const dg_json *parts = dg_json_get(step, "micro"), *batches = dg_json_get(f->root, "batches");
    int64_t size = (int64_t)dg_json_get(step, "size")->number,
            batch = (int64_t)dg_json_get(step, "batch")->number, n = parts->n;
    double total = 0, want = dg_json_get(step, "total_loss")->number, *norm;
    dg_arena *all;
    dg_shape shape;
    int rc = 0;

    if (batch >= batches->n || batches->items[batch].n < n * f->batch)
        return dg_fail(f->d, DG_EINPUT, step->at, "fixture-batch", "there is no such batch");
    all = fixture_remember(f);
    DG_TRY(dg_run_select(f->run, "train", size, size, f->d));
    for (int i = 0; i < n; i++)
        DG_TRY(micro(f, step, i, k, &total));
    report_add(f->report, "total loss of a step", fixture_relative(total / (double)n, want),
               k->total, "loss.total");
    norm = fixture_read(f, "grad_norm", &shape);
    report_add(f->report, "gradient norm",
               norm ? fixture_relative(*norm, dg_json_get(step, "grad_norm")->number) : NAN,
               k->norm, "grad_norm");
out:
    fixture_forget(f, all);
    return rc;
}

/* How far a tensor has come in all steps, beside the fixture's deltas. Where a gradient vanishes,
 * rounding alone moves it. */
static void check_moved(fixture *f, const dg_json *stored, const double *v, dg_shape shape,
                        double bound)
{
    const dg_json *l2 = dg_json_get(stored, "delta_l2");
    int64_t n = dg_shape_elements(shape);
    double *old = DG_NEW_N(f->arena, n, double), square = 0;

    if (!l2 || l2->number < 1e-9)
        return;
    formula_fill(stored->key, shape, old);
    for (int64_t i = 0; i < n; i++)
        square += (v[i] - old[i]) * (v[i] - old[i]);
    report_add(f->report, "how far parameters moved", fabs(sqrt(square) / l2->number - 1), bound,
               stored->key);
}

static void check_final(fixture *f, const char *group, const char *key, dg_run_space space,
                        const bounds *k)
{
    const dg_json *list = dg_json_get(f->root, key);
    int found = 0;

    for (int j = 0; list && j < dg_run_n_params(f->run); j++) {
        dg_run_param p = dg_run_param_at(f->run, j);
        const dg_json *stored = dg_json_get(list, p.name);
        int64_t n = dg_shape_elements(p.shape);
        dg_arena *all;
        double *v;

        if (!stored)
            continue;
        all = fixture_remember(f);
        v = DG_NEW_N(f->arena, n, double);
        if (dg_run_get(f->run, space, p.name, v, n, f->d) == 0) {
            found++;
            fixture_compare(f, group, p.name, stored, v, p.shape, AS_STORED, k->value);
            if (space == DG_RUN_WEIGHTS)
                check_moved(f, stored, v, p.shape, k->moved);
        }
        fixture_forget(f, all);
    }
    report_fact(f->report, "tensors at the end", list && found == list->n, key);
}

int fixture_trace_groups(fixture *f)
{
    static const double recipe = 1e-4; /* the pipeline's rate */
    const dg_json *batches, *steps = dg_json_get(f->root, "steps");
    const bounds k = bounds_of(f);
    int rc = 0;

    DG_TRY(dg_json_need(&batches, f->root, "batches", DG_JSON_ARRAY, f->d));
    f->rate = dg_json_get(dg_json_get(f->root, "optimizer"), "lr")->number / recipe;
    for (int t = 0; t < steps->n; t++)
        DG_TRY(one_step(f, &steps->items[t], &k));
    check_final(f, "final parameters", "params_final", DG_RUN_WEIGHTS, &k);
    check_final(f, "final averages", "ema_final", DG_RUN_EMA, &k);
out:
    return rc;
}
