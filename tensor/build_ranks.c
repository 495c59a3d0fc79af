/* build_ranks.c: op.h's operations between ranks. On an axis of one rank they emit nothing. */
#include <string.h>

#include "base/str.h"
#include "tensor/build_internal.h"

/* The name of axes: without those of one rank, and in the order of the mesh. */
static uint64_t name_of(const dg_build *b, const char *axis)
{
    dg_str name = { 0 };
    uint64_t hash;

    for (int i = 0; i < b->axes.n; i++)
        for (const char *s = axis; s && *s; s += strcspn(s, "+"), s += *s == '+')
            if (strlen(b->axes.items[i].name) == strcspn(s, "+") &&
                strncmp(b->axes.items[i].name, s, strcspn(s, "+")) == 0)
                dg_str_fmt(&name, "%s%s", name.n ? "+" : "", b->axes.items[i].name);
    hash = dg_fnv1a_text(name.n ? name.s : axis ? axis : "");
    dg_str_free(&name);
    return hash;
}

int64_t dg_axis_place(const dg_build *b, int64_t axis)
{
    int64_t place = 0;

    for (int i = 0; i < b->axes.n; i++) {
        if (axis == (int64_t)dg_fnv1a_text(b->axes.items[i].name))
            return b->axes.items[i].place;
        place = place * b->axes.items[i].size + b->axes.items[i].place;
    }
    return place; /* all of them */
}

reduce_attr dg_reduce_attr(const dg_build *b, dg_reduce op, int root, const char *axis)
{
    return (reduce_attr){
        .op = op,
        .axis = (int64_t)name_of(b, axis),
        .root = root,
        .ranks = dg_axis_size(b, axis),
    };
}

static bool is_i32(dg_build *b, dg_val x)
{
    const dg_value *v = dg_value_of(b, x);

    return v && v->dtype == DG_I32;
}

static dg_val collective(dg_build *b, const dg_op *real, const dg_op *i32, dg_val x, dg_reduce op,
                         int root, const char *axis)
{
    reduce_attr a = dg_reduce_attr(b, op, root, axis);
    bool whole = is_i32(b, x);

    if (root < 0 || root >= a.ranks)
        return dg_error(b, "root-range", "rank %d of axis \"%s\", which has ranks 0 to %lld", root,
                        axis ? axis : "", (long long)a.ranks - 1);
    if (whole && op == DG_MEAN)
        return dg_error(b, "mean-of-integers",
                        "integers have no mean: sum them, or make them real first");
    return a.ranks == 1 ? x : dg_emit1(b, whole ? i32 : real, &a, x, DG_NONE, DG_NONE, 1);
}

dg_val dg_all_reduce(dg_build *b, dg_val x, dg_reduce op, const char *axis)
{
    return collective(b, DG_OP(all_reduce), DG_OP(all_reduce_i32), x, op, 0, axis);
}

dg_val dg_broadcast(dg_build *b, dg_val x, int root, const char *axis)
{
    return collective(b, DG_OP(broadcast), DG_OP(broadcast_i32), x, DG_SUM, root, axis);
}

dg_val dg_reduce_to(dg_build *b, dg_val x, dg_reduce op, int root, const char *axis)
{
    return collective(b, DG_OP(reduce_to), DG_OP(reduce_to_i32), x, op, root, axis);
}

dg_val dg_all_gather(dg_build *b, dg_val x, const char *axis)
{
    const dg_value *v = dg_value_of(b, x);

    if (v && v->shape.rank == 0)
        x = dg_reshape(b, x, DG_SHAPE(1));
    return collective(b, DG_OP(all_gather), DG_OP(all_gather_i32), x, DG_SUM, 0, axis);
}

/* Ranks exchange their full capacity, so that message sizes do not depend on counts. */
dg_val dg_all_gatherv(dg_build *b, dg_val x, dg_val count, const char *axis, dg_val *counts)
{
    dg_val all = dg_all_gather(b, x, axis);

    *counts = dg_all_gather(b, count, axis);
    return dg_emit1(b, is_i32(b, x) ? DG_OP(pack_rows_i32) : DG_OP(pack_rows), NULL, all, *counts,
                    DG_NONE, 2);
}

/* ---- batch norm ------------------------------------------------------------------------------ */

dg_val dg_batch_norm_sync(dg_build *b, dg_val x, dg_val scale, dg_val shift, dg_val live,
                          double eps, const char *axis, dg_val *mean, dg_val *var, dg_val *count)
{
    reduce_attr r = dg_reduce_attr(b, DG_SUM, 0, axis);
    sync_attr a = { .norm = { .eps = eps }, .axis = r.axis, .ranks = r.ranks };
    dg_val stats = dg_emit1(b, DG_OP(batch_stats), NULL, x, live, DG_NONE, 2),
           out[DG_MAX_SIGNATURE];

    stats = dg_all_gather(b, stats, axis);
    dg_emit(b, DG_OP(join_stats), NULL, 1, &stats, out);
    *mean = out[0];
    *var = out[1];
    *count = out[2];
    dg_emit(b, DG_OP(batch_norm_sync), &a, 8,
            (dg_val[]){ x, scale, shift, *mean, *var, *count, live, DG_NONE }, out);
    return out[0];
}
