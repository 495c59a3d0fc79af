/* shape_ranks.c: shapes of collectives: the leading axis of a gathered value is the sum of the
 * ranks' leading axes. */
#include "tensor/rules.h"

int dg_shape_all_gather(dg_infer *s)
{
    const reduce_attr *a = s->attr;

    if (s->in[0].rank < 1)
        return dg_infer_fail(s, "a scalar has no leading axis");
    if (a->ranks < 1 || a->ranks > INT32_MAX || s->in[0].d[0] > INT64_MAX / INT32_MAX)
        return dg_infer_fail(s, "%lld ranks", (long long)a->ranks);
    s->out[0] = s->in[0];
    s->out[0].d[0] *= a->ranks;
    return 0;
}

int dg_shape_all_gather_i32(dg_infer *s)
{
    return dg_shape_all_gather(s);
}

/* x [R*N,..], counts [R] */
int dg_shape_pack_rows(dg_infer *s)
{
    if (s->in[1].rank != 1 || s->in[0].rank < 1 || s->in[0].d[0] % s->in[1].d[0])
        return dg_infer_fail(s, "x must have as many rows for each of the counts");
    s->out[0] = s->in[0];
    return 0;
}

int dg_shape_pack_rows_i32(dg_infer *s)
{
    return dg_shape_pack_rows(s);
}
