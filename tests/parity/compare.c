/* compare.c: what a fixture lists, beside the same of a run. Queries are compared by the token
 * they came from. */
#include <math.h>
#include <string.h>

#include "tests/parity/fixture.h"

static const dg_run_tensor *find_value(const fixture *f, const char *name, dg_run_tensor *out)
{
    for (int i = 0; i < dg_run_n_values(f->run); i++) {
        *out = dg_run_value_at(f->run, i);
        if (strcmp(out->name, name) == 0)
            return out;
    }
    return NULL;
}

static void *read_value(fixture *f, const char *name, dg_dtype dtype, dg_shape *shape)
{
    dg_run_tensor t;
    int64_t n;
    void *v;

    if (!find_value(f, name, &t) || t.dtype != dtype)
        return NULL;
    n = dg_shape_elements(t.shape);
    v = dg_alloc(f->arena, (size_t)n * sizeof(double));
    *shape = t.shape;
    return dg_run_read(f->run, name, v, n, f->d) ? NULL : v;
}

double *fixture_read(fixture *f, const char *name, dg_shape *shape)
{
    return read_value(f, name, DG_F64, shape);
}

int32_t *fixture_read_i32(fixture *f, const char *name, dg_shape *shape)
{
    return read_value(f, name, DG_I32, shape);
}

dg_arena *fixture_remember(fixture *f)
{
    dg_arena *all = f->arena;

    f->arena = dg_arena_open();
    return all;
}

void fixture_forget(fixture *f, dg_arena *all)
{
    dg_arena_close(&f->arena);
    f->arena = all;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Where the fixture's flat index i of a tensor of shape s (PyTorch's layout) stands with us. */
static int64_t place(const fixture *f, dg_shape s, dg_shape ours, layout kind, int64_t i)
{
    int64_t d, r, b;

    if (kind == MAPS && s.rank == 4) {
        int64_t x = i % s.d[3], y = i / s.d[3] % s.d[2], c = i / (s.d[3] * s.d[2]) % s.d[1];

        b = i / (s.d[3] * s.d[2] * s.d[1]);
        return ((b * s.d[2] + y) * s.d[3] + x) * s.d[1] + c;
    }
    if (kind <= MAPS)
        return i;
    d = i % s.d[2];
    r = i / s.d[2] % s.d[1];
    b = i / (s.d[2] * s.d[1]);
    if (kind == SELECTED || (kind == QUERIES && r >= f->n_dn)) {
        int64_t q = kind == QUERIES ? r - f->n_dn : r;

        r = (kind == QUERIES ? f->capacity : 0) + (f->rank ? f->rank[b * f->n_queries + q] : q);
    }
    return (b * ours.d[1] + r) * s.d[2] + d;
}

static dg_shape shape_of(const dg_json *list, dg_shape otherwise)
{
    dg_shape s = { .rank = 0 };

    if (!list)
        return otherwise;
    for (int i = 0; i < list->n && i < DG_MAX_DIMS; i++)
        s.d[s.rank++] = (int64_t)list->items[i].number;
    return s;
}

static bool fits(dg_shape expected, dg_shape ours, layout kind)
{
    if (kind == MAPS && expected.rank == 4)
        return ours.rank == 4 && expected.d[1] == ours.d[3] && expected.d[2] == ours.d[1] &&
               expected.d[3] == ours.d[2];
    if (kind > MAPS)
        return expected.rank == 3 && ours.rank == 3 && expected.d[0] == ours.d[0] &&
               expected.d[1] <= ours.d[1] && expected.d[2] == ours.d[2];
    return dg_shape_elements(expected) == dg_shape_elements(ours);
}

void fixture_compare(fixture *f, const char *group, const char *name, const dg_json *expected,
                     const double *ours, dg_shape shape, layout kind, double bound)
{
    dg_shape s = shape_of(dg_json_get(expected, "shape"), shape);
    const dg_json *samples = dg_json_get(expected, "samples"), *sum = dg_json_get(expected, "sum");
    double l2 = dg_json_get(expected, "l2")->number, square = 0, total = 0, rms;
    int64_t n = dg_shape_elements(s);

    if (!fits(s, shape, kind)) {
        report_fact(f->report, "shapes", false, name);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = ours[place(f, s, shape, kind, i)];

        if (isfinite(v)) {
            square += v * v;
            total += v;
        }
    }
    rms = l2 > 0 ? l2 / sqrt((double)n) : 1;
    report_add(f->report, group, fabs(sqrt(square) - l2) / (l2 > 0 ? l2 : 1), bound, name);
    if (sum)
        report_add(f->report, group,
                   fabs(total - sum->number) / (l2 > 0 ? l2 * sqrt((double)n) : 1), bound, name);
    for (int i = 0; i < samples->n; i++) {
        double want = samples->items[i].items[1].number;
        double got = ours[place(f, s, shape, kind, (int64_t)samples->items[i].items[0].number)];

        report_add(f->report, group, fabs(got - want) / rms, bound, name);
    }
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Whether the anchor of a token does not lie inside (0.01, 0.99). */
static bool is_outside(const fixture *f, int64_t token)
{
    for (int l = 0; l < 3; l++) {
        int64_t h = f->h >> (3 + l), w = f->w >> (3 + l);
        double x = ((double)(token % w) + 0.5) / (double)w,
               y = ((double)(token / w) + 0.5) / (double)h;

        if (token < h * w)
            return x <= 0.01 || x >= 0.99 || y <= 0.01 || y >= 0.99;
        token -= h * w;
    }
    return false;
}

/* Our rank of a token of image b, or -1. */
static int64_t rank_of(const fixture *f, const int32_t *topk, int64_t b, int64_t token)
{
    for (int64_t at = 0; at < f->n_queries; at++)
        if (topk[b * f->n_queries + at] == token)
            return at;
    return -1;
}

/* Our first token that lies outside and that the fixture does not list; it is taken off. -1:
 * there is none. */
static int64_t take_alike(const fixture *f, int32_t *topk, int64_t b, const dg_json *listed)
{
    for (int64_t at = 0; at < f->n_queries; at++) {
        int32_t *token = &topk[b * f->n_queries + at];
        bool known = *token < 0 || !is_outside(f, *token);

        for (int q = 0; q < listed->n && !known; q++)
            known = listed->items[q].number == *token;
        if (!known) {
            *token = -1;
            return at;
        }
    }
    return -1;
}

int fixture_match_ranks(fixture *f, const dg_json *expected)
{
    dg_shape shape;
    int32_t *topk = fixture_read_i32(f, "enc.topk", &shape);
    int64_t moved = 0, lost = 0;

    if (!topk)
        return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value",
                       "the run has no value enc.topk");
    f->n_queries = shape.d[1];
    f->rank = DG_NEW_N(f->arena, f->batch * f->n_queries, int64_t);
    for (int64_t i = 0; i < f->batch * f->n_queries; i++)
        f->rank[i] = i % f->n_queries;
    for (int64_t b = 0; b < f->batch; b++)
        for (int q = 0; q < expected->items[b].n; q++) {
            int64_t token = (int64_t)expected->items[b].items[q].number,
                    at = rank_of(f, topk, b, token);

            if (at < 0 && is_outside(f, token))
                at = take_alike(f, topk, b, &expected->items[b]);
            lost += at < 0;
            moved += at != q;
            f->rank[b * f->n_queries + q] = at < 0 ? q : at;
        }
    report_add(f->report, "tokens not selected", (double)lost, fixture_bound(f, 0.5, 0.5),
               "enc.topk");
    report_add(f->report, "queries at another rank", (double)moved, -1, "enc.topk");
    return 0;
}

/* Our query for target gt of image b, and the fixture's, as our ranks. */
static bool same_pairs(const fixture *f, int64_t b, const dg_json *pairs, const int32_t *ours,
                       int64_t slots)
{
    const dg_json *query = dg_json_get(pairs, "query"), *gt = dg_json_get(pairs, "gt");
    int64_t matched = 0;

    for (int64_t j = 0; j < slots; j++)
        matched += ours[b * slots + j] >= 0;
    if (matched != query->n)
        return false;
    for (int i = 0; i < query->n; i++) {
        int64_t q = (int64_t)query->items[i].number, j = (int64_t)gt->items[i].number;

        if (ours[b * slots + j] != (f->rank ? f->rank[b * f->n_queries + q] : q))
            return false;
    }
    return true;
}

int fixture_check_matches(fixture *f, const dg_json *matches, const dg_json *tokens, int *moved)
{
    /* without the list of tokens two neighbours that changed places cannot be told from another
     * assignment */
    bool judged = tokens || f->set->precision == F64;

    for (int i = 0; i < matches->n && f->set->precision != BF16; i++) {
        const char *key = matches->items[i].key;
        const char *name = strcmp(key, "main") ? dg_printf(f->arena, "match_%s", key) : "match";
        dg_shape shape;
        int32_t *ours = fixture_read_i32(f, name, &shape);

        if (!ours)
            return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value",
                           "the run has no value %s", name);
        for (int64_t b = 0; b < f->batch; b++) {
            bool same = same_pairs(f, b, &matches->items[i].items[b], ours, shape.d[1]);

            *moved += !same;
            if (judged)
                report_fact(f->report, "assignments", same, name);
            else
                report_add(f->report, "assignments that differ by rank", same ? 0 : 1, -1, name);
        }
    }
    return 0;
}

int fixture_check_denoising(fixture *f, const dg_json *denoising)
{
    const dg_json *images = dg_json_get(denoising, "per_image");
    dg_shape shape;
    int32_t *labels = fixture_read_i32(f, "dn.labels", &shape),
            *query = fixture_read_i32(f, "dn.query", &shape);
    int32_t *gt = fixture_read_i32(f, "dn.gt", &shape),
            *meta = fixture_read_i32(f, "dn.meta", &shape);
    double *boxes = fixture_read(f, "dn.boxes", &shape);
    double bound = fixture_bound(f, 1e-7, 1e-6);

    if (!labels || !query || !gt || !meta || !boxes)
        return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value",
                       "the run has no denoising values");
    report_fact(f->report, "denoising groups",
                meta[1] == dg_json_get(denoising, "groups")->number && meta[2] == f->n_dn,
                "dn.meta");
    for (int64_t b = 0; b < f->batch; b++) {
        const dg_json *l = dg_json_get(&images->items[b], "labels"),
                      *x = dg_json_get(&images->items[b], "boxes");
        const dg_json *pq = dg_json_get(&images->items[b], "positive_idx"),
                      *pg = dg_json_get(&images->items[b], "positive_gt");

        for (int q = 0; q < l->n; q++) {
            report_fact(f->report, "denoising labels",
                        labels[b * f->capacity + q] == l->items[q].number, "dn.labels");
            for (int k = 0; k < 4; k++)
                report_add(f->report, "denoising boxes",
                           fabs(boxes[(b * f->capacity + q) * 4 + k] - x->items[q].items[k].number),
                           bound, "dn.boxes");
        }
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

/* ---- losses ---------------------------------------------------------------------------------- */

double fixture_relative(double ours, double want)
{
    return fabs(ours - want) / (want == 0 ? 1 : fabs(want));
}

void fixture_check_terms(fixture *f, const dg_json *losses, double bound)
{
    for (int i = 0; i < losses->n; i++) {
        dg_shape shape;
        double *v = fixture_read(f, dg_printf(f->arena, "loss.%s", losses->items[i].key), &shape);

        report_fact(f->report, "loss terms", v != NULL, losses->items[i].key);
        if (v)
            report_add(f->report, "loss terms, value",
                       fixture_relative(*v, losses->items[i].number), bound, losses->items[i].key);
    }
    for (int i = 0; i < dg_run_n_values(f->run); i++) {
        const char *name = dg_run_value_at(f->run, i).name;

        if (strncmp(name, "loss.loss_", 10) == 0)
            report_fact(f->report, "loss terms", dg_json_get(losses, name + 5) != NULL, name);
    }
}

int fixture_check_losses(fixture *f, const dg_json *step, double total_bound, double term_bound)
{
    dg_shape shape;
    double *v;

    fixture_check_terms(f, dg_json_get(step, "losses"), term_bound);
    v = fixture_read(f, "loss.total", &shape);
    if (v)
        report_add(f->report, "total loss",
                   fixture_relative(*v, dg_json_get(step, "total_loss")->number), total_bound,
                   "loss.total");
    v = fixture_read(f, "grad_norm", &shape);
    if (v)
        report_add(f->report, "gradient norm",
                   fixture_relative(*v, dg_json_get(step, "grad_norm")->number),
                   term_bound < 0             ? -1
                   : f->set->precision == F64 ? term_bound
                                              : fmax(f->normalized ? 5e-4 : 1e-3, term_bound),
                   "grad_norm");
    return 0;
}
