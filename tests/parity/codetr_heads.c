/* codetr_heads.c: random keys and choices of Co-DETR's other heads: assigned and sampled boxes,
 * proposals, rows of regions, and the queries that are made of positives. Lists of the engine have
 * a capacity and end with -1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/head_draws.h"
#include "tests/parity/codetr.h"
#include "tests/parity/formula.h"

enum { FIRST_ID = 1000 }; /* of a proposal's row: 1000 + the number of its anchor */

int codetr_feed_keys(fixture *f, const codetr_batch *batch)
{
    for (int i = 0; i < N_HEAD_DRAWS; i++) {
        dg_run_tensor t;
        int64_t n;
        double *v;
        int rc;

        if (!codetr_input(f, head_draws[i].ours, &t)) {
            if (f->set->parts)
                continue;
            return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value", "no draw %s",
                           head_draws[i].ours);
        }
        n = t.shape.d[1];
        v = DG_NEW_N(f->arena, f->batch * n, double);
        for (int64_t b = 0; b < f->batch; b++) {
            const char *name =
                dg_printf(f->arena, "%s.%d%s", head_draws[i].theirs, (int)b, batch->suffix);

            for (int64_t k = 0; k < n; k++)
                v[b * n + k] = formula_u(name, k);
        }
        rc = dg_run_feed(f->run, t.name, v, f->batch * n, f->d);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct list {
    int n;
    const int32_t *v;
} list;

/* Row b of an i32 value [B,n], up to its first -1. */
static list row_of(fixture *f, const char *name, int64_t b)
{
    dg_shape shape;
    int32_t *v = fixture_read_i32(f, name, &shape);
    list l = { 0 };

    if (!v) {
        report_fact(f->report, "named values", false, name);
        return l;
    }
    l.v = v + b * shape.d[1];
    while (l.n < shape.d[1] && l.v[l.n] >= 0)
        l.n++;
    return l;
}

static bool same_list(const list *ours, int begin, int n, const dg_json *want)
{
    if (want->n != n || begin + n > ours->n)
        return false;
    for (int i = 0; i < n; i++)
        if (ours->v[begin + i] != want->items[i].number)
            return false;
    return true;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Whether elements begin..begin+n-1 are those of want[from..], in any order. */
static bool same_set(fixture *f, const list *ours, int begin, int n, const dg_json *want, int from)
{
    double *a = DG_NEW_N(f->arena, n + 1, double), *b = DG_NEW_N(f->arena, n + 1, double);

    if (want->n - from < n || begin + n > ours->n)
        return false;
    for (int i = 0; i < n; i++) {
        a[i] = ours->v[begin + i];
        b[i] = want->items[from + i].number;
    }
    qsort(a, (size_t)n, sizeof *a, ascending);
    qsort(b, (size_t)n, sizeof *b, ascending);
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* The elements of an i32 value [B,N] that are 0 or more: their numbers and values. */
static bool same_assigned(fixture *f, const char *name, int64_t b, const dg_json *at,
                          const dg_json *gt, int64_t *negative)
{
    dg_shape shape;
    int32_t *v = fixture_read_i32(f, name, &shape);
    int found = 0;
    bool same = v != NULL;

    *negative = 0;
    for (int64_t i = 0; v && i < shape.d[1]; i++) {
        int32_t is = v[b * shape.d[1] + i];

        *negative += is == -1;
        if (is < 0)
            continue;
        same = same && found < at->n && at->items[found].number == (double)i &&
               (!gt || gt->items[found].number == is);
        found++;
    }
    return same && found == at->n;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static void check_rpn(fixture *f, const dg_json *image, int64_t b)
{
    const dg_json *counts = dg_json_get(image, "counts_pos_neg_ignored"),
                  *sampled = dg_json_get(image, "sampled_pos"),
                  *others = dg_json_get(image, "sampled_neg");
    list rows = row_of(f, "rpn.rows", b);
    int64_t negative = 0;

    if (counts) {
        report_fact(f->report, "assigned anchors",
                    same_assigned(f, "rpn.assigned", b, dg_json_get(image, "assigned_pos"),
                                  dg_json_get(image, "assigned_gt"), &negative),
                    "rpn.assigned");
        report_fact(f->report, "negative anchors", (double)negative == counts->items[1].number,
                    "rpn.assigned");
    }
    report_fact(f->report, "sampled anchors", same_list(&rows, 0, sampled->n, sampled), "rpn.rows");
    if (others)
        report_fact(f->report, "sampled anchors",
                    same_list(&rows, sampled->n, rows.n - sampled->n, others), "rpn.rows");
}

/* Boxes of the best proposals, in pixels, by the number of their anchor: rows x1, y1, x2, y2, score
 * in the order of the numbers. */
static void check_boxes(fixture *f, const dg_json *rows, const dg_json *numbers, const list *ids,
                        int64_t b)
{
    dg_shape shape;
    double *v = fixture_read(f, "rpn.proposals", &shape);

    if (!v)
        report_fact(f->report, "named values", false, "rpn.proposals");
    for (int i = 0; v && i < rows->n && i < numbers->n; i++) {
        const dg_json *want = rows->items[i].items;
        double worst = INFINITY;

        for (int k = 0; k < ids->n; k++) {
            const double *box = v + (b * shape.d[1] + k) * 4;

            if (ids->v[k] != numbers->items[i].number)
                continue;
            worst = 0;
            for (int c = 0; c < 4; c++)
                worst = fmax(worst, fabs(box[c % 2] + (c < 2 ? -0.5 : 0.5) * box[2 + c % 2] -
                                         want[c].number));
        }
        report_add(f->report, "boxes of proposals, pixels", worst, fixture_bound(f, 1e-9, 2e-3),
                   "rpn.proposals");
    }
}

static void check_proposals(fixture *f, const dg_json *image, int64_t b)
{
    const dg_json *all = dg_json_get(image, "anchor_ids"),
                  *first = dg_json_get(image, all ? "anchor_ids" : "first"), *kept;
    list ids = row_of(f, "rpn.ids", b);

    kept = dg_json_get(image, "kept");
    report_fact(f->report, "number of proposals", ids.n == kept->number, "rpn.ids");
    if (all)
        report_fact(f->report, "proposals", same_set(f, &ids, 0, ids.n, all, 0), "rpn.ids");
    if (all && dg_json_get(image, "first"))
        check_boxes(f, dg_json_get(image, "first"), all, &ids, b);
    if (f->set->precision == F64)
        report_fact(f->report, "order of proposals", same_list(&ids, 0, first->n, first),
                    "rpn.ids");
}

/* Numbers of the sampled rows of image b: of objects and of proposals. */
static list region_ids(fixture *f, int64_t b)
{
    list rows = row_of(f, "roi.rows", b), ids = row_of(f, "rpn.ids", b);
    int32_t *v = DG_NEW_N(f->arena, rows.n + 1, int32_t);

    for (int i = 0; i < rows.n; i++)
        v[i] = rows.v[i] < f->slots           ? rows.v[i]
               : rows.v[i] - f->slots < ids.n ? FIRST_ID + ids.v[rows.v[i] - f->slots]
                                              : -1;
    return (list){ rows.n, v };
}

/* Returns whether the rows have the fixture's order, too. */
static bool check_roi(fixture *f, const dg_json *image, int64_t b)
{
    const dg_json *want = dg_json_get(image, "row_ids"), *gt = dg_json_get(image, "pos_gt");
    list rows = region_ids(f, b), of = row_of(f, "roi.gt", b);
    int n = (int)dg_json_get(image, "n_pos")->number;

    report_fact(f->report, "rows of regions",
                rows.n == want->n && of.n == n && same_set(f, &rows, 0, n, want, 0) &&
                    same_set(f, &rows, n, rows.n - n, want, n),
                "roi.rows");
    if (gt && same_list(&rows, 0, rows.n, want))
        report_fact(f->report, "objects of regions", same_list(&of, 0, n, gt), "roi.gt");
    return same_list(&rows, 0, rows.n, want);
}

static void check_atss(fixture *f, const dg_json *image, int64_t b)
{
    const dg_json *limits = dg_json_get(image, "thresholds");
    dg_shape shape;
    double *v = fixture_read(f, "atss.thresholds", &shape), sum = 0;
    int64_t negative;

    report_fact(f->report, "positive cells",
                same_assigned(f, "atss.assigned", b, dg_json_get(image, "pos_anchors"),
                              dg_json_get(image, "pos_gt"), &negative),
                "atss.assigned");
    for (int j = 0; v && j < limits->n; j++)
        report_add(f->report, "thresholds", fabs(v[b * shape.d[1] + j] - limits->items[j].number),
                   fixture_bound(f, 1e-10, 1e-5), "atss.thresholds");
    v = fixture_read(f, "atss.centerness", &shape);
    for (int64_t i = 0; v && i < shape.d[1]; i++)
        sum += v[b * shape.d[1] + i];
    report_add(f->report, "sum of centerness",
               fabs(sum - dg_json_get(image, "centerness_sum")->number),
               fixture_bound(f, 1e-9, 1e-4), "atss.centerness");
}

/* Queries of image b from source 0 (regions) or 1 (cells). */
static void check_queries(fixture *f, int source, const dg_json *want, int64_t b)
{
    list rows = row_of(f, source ? "atss.queries" : "roi.queries", b), ids = region_ids(f, b);
    int32_t *v = DG_NEW_N(f->arena, rows.n + 1, int32_t);
    list ours = { rows.n, v };

    for (int i = 0; i < rows.n; i++)
        v[i] = source ? rows.v[i] : rows.v[i] < ids.n ? ids.v[rows.v[i]] : -1;
    report_fact(f->report, "queries of positives",
                rows.n == want->n &&
                    (f->set->precision == F64 ? same_list(&ours, 0, rows.n, want)
                                              : same_set(f, &ours, 0, rows.n, want, 0)),
                source ? "atss.queries" : "roi.queries");
}

bool codetr_check_choices(fixture *f, const dg_json *step)
{
    const dg_json *rpn = dg_json_get(step, "rpn"), *proposals = dg_json_get(step, "proposals"),
                  *roi = dg_json_get(step, "roi"), *atss = dg_json_get(step, "atss"),
                  *ids = dg_json_get(step, "aux_ids");
    bool ordered = true;

    for (int64_t b = 0; b < f->batch; b++) {
        check_rpn(f, &rpn->items[b], b);
        check_proposals(f, &proposals->items[b], b);
        ordered = check_roi(f, &roi->items[b], b) && ordered;
        if (atss)
            check_atss(f, &atss->items[b], b);
        for (int source = 0; source < 2; source++) {
            const dg_json *aux = dg_json_get(step, source ? "aux1" : "aux0"), *want;

            want = ids ? &ids->items[source].items[b]
                       : dg_json_get(&dg_json_get(aux, "per_image")->items[b], "ids");
            check_queries(f, source, want, b);
        }
    }
    return ordered;
}

double *codetr_regions(fixture *f, const char *name, dg_shape *shape)
{
    double *v = fixture_read(f, name, shape);
    int64_t width = v ? shape->d[shape->rank - 1] : 0, each = v ? shape->d[1] : 0, n = 0;

    for (int64_t b = 0; v && b < f->batch; b++) {
        int live = row_of(f, "roi.rows", b).n;

        memmove(v + n * width, v + b * each * width, (size_t)(live * width) * sizeof *v);
        n += live;
    }
    *shape = DG_SHAPE(n, width);
    return v;
}
