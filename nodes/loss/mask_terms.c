/* mask_terms.c: see mask_terms.h. */
#include "nodes/loss/mask_terms.h"

#include <stdio.h>

enum { SPARSE = 16, OVERSAMPLE = 3 };

static dg_val part(const dg_mask_set *s, const char *key)
{
    return dg_record_get(s->b, s->masks, key);
}

static dg_val draw(const dg_mask_set *s, const char *what, dg_shape shape)
{
    char name[48];

    snprintf(name, sizeof name, "%s%s", what, s->set);
    return dg_uniform(s->b, name, shape);
}

/* Pixels of the predicted masks over SPARSE: 0 is an error. */
static int64_t fewest(const dg_mask_set *s, dg_val map)
{
    int64_t h = dg_dim(s->b, map, 1), w = dg_dim(s->b, map, 2), n = h * w / SPARSE;

    if (n < 1)
        dg_error(s->b, "masks-size",
                 "masks of %lldx%lld have no points to sample: at least %d "
                 "pixels are needed",
                 (long long)w, (long long)h, SPARSE);
    return n;
}

/* map [B,H,W,D] at points [B,N,2], bilinear and held inside the pixels' centres: [B,N,D]. */
static dg_val features_at(dg_build *b, dg_val map, dg_val points)
{
    int64_t batch = dg_dim(b, map, 0), h = dg_dim(b, map, 1), w = dg_dim(b, map, 2),
            n = dg_dim(b, points, 1), d = dg_dim(b, map, 3);
    dg_levels level = { 1, { h }, { w }, { 1 } };
    double ones[2] = { 1, 1 };
    dg_val x = dg_slice(b, points, 2, 0, 1), y = dg_slice(b, points, 2, 1, 2), ref[3];

    ref[0] = dg_clamp(b, x, 0.5 / (double)w, 1 - 0.5 / (double)w);
    ref[1] = dg_clamp(b, y, 0.5 / (double)h, 1 - 0.5 / (double)h);
    ref[2] = dg_expand(b, dg_const(b, DG_SHAPE(1, 1, 2), ones), DG_SHAPE(batch, n, 2));
    return dg_deform_attention(b, dg_reshape(b, map, DG_SHAPE(batch, h * w, d)),
                               dg_concat(b, 2, 3, ref), dg_zeros(b, DG_SHAPE(batch, n, 2)),
                               dg_expand(b, dg_const(b, DG_SHAPE(1, 1, 1, 1), ones),
                                         DG_SHAPE(batch, n, 1, 1)),
                               1, &level, false);
}

dg_val dg_mask_set_cost(const dg_mask_set *s, dg_val cost, dg_val count, double ce, double dice)
{
    dg_build *b = s->b;
    dg_val map = dg_detach(b, part(s, "map")), queries = dg_detach(b, part(s, "queries"));
    int64_t n = fewest(s, map);

    if (n < 1)
        return cost;
    dg_val points = draw(s, "match_points", DG_SHAPE(dg_dim(b, map, 0), n, 2)),
           features = dg_permute(b, features_at(b, map, points), 3, (int[]){ 0, 2, 1 });
    dg_val logits = dg_add(b, dg_matmul(b, queries, features), dg_detach(b, part(s, "bias")));

    return dg_mask_cost(b, cost, logits, s->targets, count, points, ce, dice);
}

/* Of OVERSAMPLE n candidates [B,P,.,2] the `keep` whose logits are nearest to 0: [B P,keep,2]. */
static dg_val uncertain(const dg_mask_set *s, dg_val candidates, dg_val query, int64_t keep)
{
    dg_build *b = s->b;
    int64_t pairs = dg_dim(b, candidates, 0) * dg_dim(b, candidates, 1),
            n = dg_dim(b, candidates, 2);
    dg_val logits = dg_mask_sample(b, dg_detach(b, part(s, "map")),
                                   dg_detach(b, part(s, "queries")), candidates, query);
    dg_val certain = dg_abs(b, dg_add(b, logits, dg_detach(b, part(s, "bias"))));
    dg_val index = dg_topk(b, dg_scale(b, dg_reshape(b, certain, DG_SHAPE(pairs, n)), -1, 0), keep);

    return dg_gather(b, dg_reshape(b, candidates, DG_SHAPE(pairs, n, 2)), index);
}

dg_mask_losses dg_mask_set_loss(const dg_mask_set *s, dg_val query, dg_val gt)
{
    dg_build *b = s->b;
    dg_val map = part(s, "map"), points[2], all;
    int64_t batch = dg_dim(b, query, 0), pairs = dg_dim(b, query, 1), h = dg_dim(b, map, 1),
            n = fewest(s, map), keep;

    n = n > h ? n : h;
    keep = n * 3 / 4;
    points[1] = dg_reshape(b, draw(s, "points", DG_SHAPE(batch, pairs, n - keep, 2)),
                           DG_SHAPE(batch * pairs, n - keep, 2));
    all = points[1];
    if (keep) {
        points[0] = uncertain(s, draw(s, "candidates", DG_SHAPE(batch, pairs, OVERSAMPLE * n, 2)),
                              query, keep);
        all = dg_concat(b, 1, 2, points);
    }
    all = dg_reshape(b, all, DG_SHAPE(batch, pairs, n, 2));

    dg_val logits = dg_mask_sample(b, map, part(s, "queries"), all, query);

    return dg_mask_loss(b, dg_add(b, logits, part(s, "bias")), s->targets, query, gt, all);
}
