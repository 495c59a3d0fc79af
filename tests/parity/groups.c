/* groups.c: what RF-DETR's fixtures list by groups of queries: selected tokens, whose order matters
 * because content belongs to a rank, and assignments. */
#include <stdlib.h>
#include <string.h>

#include "tests/parity/fixture.h"

static int missing(const fixture *f, const char *name)
{
    return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value", "the run has no value %s",
                   name);
}

int fixture_check_groups(fixture *f, const dg_json *expected)
{
    int64_t moved = 0;

    f->n_groups_of_queries = expected->items[0].n;
    for (int g = 0; g < f->n_groups_of_queries; g++) {
        const char *name = dg_printf(f->arena, "enc.%d.topk", g);
        dg_shape shape;
        const int32_t *topk = fixture_read_i32(f, name, &shape);

        if (!topk)
            return missing(f, name);
        for (int64_t b = 0; b < f->batch; b++) {
            const dg_json *tokens = &expected->items[b].items[g];

            report_fact(f->report, "selected tokens", tokens->n == shape.d[1], name);
            for (int r = 0; r < tokens->n && tokens->n == shape.d[1]; r++)
                moved += topk[b * shape.d[1] + r] != tokens->items[r].number;
        }
    }
    report_add(f->report, "tokens at another rank", (double)moved, fixture_bound(f, 0.5, 0.5),
               "enc.topk");
    return 0;
}

const char *fixture_match_name(const fixture *f, const char *key)
{
    if (strcmp(key, "main") == 0)
        return "match";
    return dg_printf(f->arena, "match_%s", strncmp(key, "aux_", 4) == 0 ? key + 4 : key);
}

/* ours [groups,slots]: the query of each target in each group. */
static bool same_pairs(const fixture *f, const dg_json *pairs, const int32_t *ours, int64_t slots)
{
    const dg_json *query = dg_json_get(pairs, "query"), *gt = dg_json_get(pairs, "gt");
    int64_t n = f->n_groups_of_queries * slots, matched = 0, found = 0;

    for (int64_t j = 0; j < n; j++)
        matched += ours[j] >= 0;
    for (int i = 0; i < query->n; i++)
        for (int64_t g = 0; g < f->n_groups_of_queries; g++)
            found += ours[g * slots + (int64_t)gt->items[i].number] == query->items[i].number;
    return matched == query->n && found == query->n;
}

int fixture_check_group_matches(fixture *f, const dg_json *matches)
{
    for (int i = 0; i < matches->n && f->set->precision != BF16; i++) {
        const char *name = fixture_match_name(f, matches->items[i].key);
        dg_shape shape;
        const int32_t *ours = fixture_read_i32(f, name, &shape);

        if (!ours)
            return missing(f, name);
        for (int64_t b = 0; b < f->batch; b++)
            report_fact(f->report, "assignments",
                        same_pairs(f, &matches->items[i].items[b], ours + b * shape.d[1],
                                   shape.d[1] / f->n_groups_of_queries),
                        name);
    }
    return 0;
}

/* Scores of all tokens by all groups, which the run has group by group. */
static double *all_scores(fixture *f, dg_shape *shape)
{
    double *all = NULL;

    for (int64_t g = 0; g < f->n_groups_of_queries; g++) {
        dg_shape one;
        double *v = fixture_read(f, dg_printf(f->arena, "enc.%d.logits_all", (int)g), &one);
        int64_t n = v ? dg_shape_elements(one) : 0;

        if (!v)
            return NULL;
        if (!all)
            all = DG_NEW_N(f->arena, n * f->n_groups_of_queries, double);
        memcpy(all + g * n, v, (size_t)n * sizeof *all);
        *shape = DG_SHAPE(f->n_groups_of_queries, n);
    }
    return all;
}

double *fixture_read_named(fixture *f, const char *name, dg_shape *shape)
{
    double *v = fixture_read(f, name, shape);

    if (v || !f->normalized)
        return v;
    if (strcmp(name, "enc.logits_all") == 0)
        return all_scores(f, shape);
    /* where every proposal is valid */
    return strcmp(name, "masked_memory") == 0 ? fixture_read(f, "memory", shape) : NULL;
}

/* Layers from this number on are computed by the reference, and used by nothing. */
static int last_feature(const fixture *f)
{
    const dg_json *all = dg_json_get(dg_json_get(f->root, "preset"), "out_feature_indexes");

    return all && all->n ? (int)all->items[all->n - 1].number : INT32_MAX;
}

bool fixture_lacks(const fixture *f, const char *name, bool training)
{
    int64_t last = dg_json_get(dg_json_get(f->root, "preset"), "dec_layers")
                       ? (int64_t)dg_json_get(dg_json_get(f->root, "preset"), "dec_layers")->number
                       : 0;

    if (!f->normalized)
        return false;
    if (strncmp(name, "vit.layer.", 10) == 0) /* behind the last feature */
        return atoi(name + 10) >= last_feature(f);
    if (strcmp(name, "enc.deltas_all") == 0) /* computed for chosen tokens alone */
        return true;
    if (strcmp(name, "proposals") == 0) /* of one image they are a constant */
        return f->batch == 1;
    if (training)
        return false;
    if (strncmp(name, "seg.", 4) == 0) /* masks of the last layer alone */
        return name[4] - '0' != last - 1;
    return strcmp(name, "enc.topk_logits") == 0 ||
           (strncmp(name, "dec.", 4) == 0 && name[4] - '0' < last - 1 &&
            strstr(name, ".state") == NULL);
}
