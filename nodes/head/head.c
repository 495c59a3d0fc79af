/* head.c: see head.h. */
#include "nodes/head/head.h"

#include <stdlib.h>

/* [1,M,1]: 0, 1, 2, ... */
static dg_val numbers(dg_build *b, int64_t m)
{
    double *v = malloc((size_t)m * sizeof *v);
    dg_val out;

    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld objects", (long long)m);
    for (int64_t i = 0; i < m; i++)
        v[i] = (double)i;
    out = dg_const(b, DG_SHAPE(1, m, 1), v);
    free(v);
    return out;
}

static void read_objects(dg_head *h, dg_val targets, dg_val sizes)
{
    dg_build *b = h->b;
    dg_val side[2], both, live;
    int64_t m;

    h->size = sizes;
    for (int k = 0; k < 2; k++)
        side[k] = dg_slice(b, dg_real(b, sizes), 1, 1 - k, 2 - k);
    both = dg_concat(b, 1, 2, side);
    h->sides =
        dg_reshape(b, dg_concat(b, 1, 2, (dg_val[]){ both, both }), DG_SHAPE(h->batch, 1, 4));
    h->labels = dg_record_get(b, targets, "labels");
    h->count = dg_record_get(b, targets, "count");
    h->boxes = dg_record_get(b, targets, "boxes");
    m = dg_dim(b, h->boxes, 1);
    live = dg_at_least(b,
                       dg_reshape(b, dg_scale(b, dg_real(b, h->count), 1, -1),
                                  DG_SHAPE(h->batch, 1, 1)),
                       numbers(b, m));
    h->boxes = dg_select(b, live, dg_mul(b, h->boxes, h->sides), dg_number(b, 0));
}

bool dg_head_open(dg_head *h, dg_build *b, dg_val maps, int most, int64_t stride, dg_val targets,
                  dg_val sizes, dg_val *error)
{
    int n = dg_record_n(b, maps);

    *h = (dg_head){ .b = b, .n = n < most ? n : most };
    if (h->n < 1 || n > DG_MAX_LEVELS) {
        *error = dg_error(b, "head-maps", "%d feature maps, 1 to %d are expected", n,
                          (int)DG_MAX_LEVELS);
        return false;
    }
    for (int l = 0; l < h->n; l++) {
        const char *key = dg_record_key(b, maps, l);
        int rank;

        h->map[l] = dg_record_get(b, maps, key);
        rank = dg_shape_of(b, h->map[l]).rank;
        if (rank && rank != 4) { /* poison has none */
            *error =
                dg_error(b, "head-maps", "%s has %d dimensions, [B,H,W,C] is expected", key, rank);
            return false;
        }
        h->h[l] = dg_dim(b, h->map[l], 1);
        h->w[l] = dg_dim(b, h->map[l], 2);
        h->stride[l] = stride << l;
    }
    h->batch = dg_dim(b, h->map[0], 0);
    h->width = dg_dim(b, h->map[0], -1);
    if (!dg_training(b))
        return true;
    if (!dg_has(targets) || !dg_has(sizes)) {
        *error = dg_error(b, "head-targets",
                          "needs the objects of a batch and the sizes of its images in training: "
                          "wire targets and sizes, also of the <use>");
        return false;
    }
    read_objects(h, targets, sizes);
    return true;
}

double dg_head_ranks(dg_build *b, const char *axis)
{
    return axis ? (double)dg_axis_size(b, axis) : 1;
}

dg_val dg_head_normaliser(dg_build *b, dg_val count, const char *axis)
{
    if (axis)
        count = dg_all_reduce(b, count, DG_SUM, axis);
    return dg_scale(b, dg_max2(b, count, dg_number(b, 1)), 1 / dg_head_ranks(b, axis), 0);
}

dg_val dg_head_known(dg_build *b, dg_val x)
{
    return dg_real(b, dg_at_least(b, dg_real(b, x), dg_number(b, 0)));
}

dg_val dg_head_keys(dg_build *b, dg_val keys, dg_val row)
{
    int64_t batch = dg_dim(b, keys, 0), n = dg_dim(b, keys, 1), rows = dg_dim(b, row, 1);

    keys = dg_gather(b, dg_reshape(b, keys, DG_SHAPE(batch, n, 1)), row);
    return dg_reshape(b, keys, DG_SHAPE(batch, rows));
}

dg_val dg_head_queries(const dg_head *h, const dg_query_rows_of *q, dg_val boxes)
{
    dg_build *b = h->b;
    dg_val out = dg_record(b);

    dg_record_set(b, out, "boxes", dg_detach(b, dg_div(b, boxes, h->sides)));
    dg_record_set(b, out, "meta", q->dn);
    dg_record_set(b, out, "query", q->query);
    dg_record_set(b, out, "gt", q->gt);
    return out;
}

dg_val dg_head_nobody(const dg_head *h)
{
    int32_t *v = malloc((size_t)h->batch * sizeof *v);
    dg_val out;

    if (!v)
        return dg_error(h->b, "out-of-memory", "no memory for a batch");
    for (int64_t i = 0; i < h->batch; i++)
        v[i] = -1;
    out = dg_const_i32(h->b, DG_SHAPE(h->batch, 1), v);
    free(v);
    return out;
}

dg_val dg_head_no_queries(const dg_head *h)
{
    static const int32_t none[4] = { 0 };
    dg_build *b = h->b;
    dg_val out = dg_record(b);

    dg_record_set(b, out, "boxes", dg_zeros(b, DG_SHAPE(h->batch, 1, 4)));
    dg_record_set(b, out, "meta", dg_const_i32(b, DG_SHAPE(4), none));
    dg_record_set(b, out, "query", dg_head_nobody(h));
    dg_record_set(b, out, "gt", dg_head_nobody(h));
    return out;
}

dg_val dg_head_no_terms(dg_build *b, const char *const names[])
{
    dg_val out = dg_record(b);

    for (int i = 0; names[i]; i++)
        dg_record_set(b, out, names[i], dg_number(b, 0));
    return out;
}
