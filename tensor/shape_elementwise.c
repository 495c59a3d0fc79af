/* shape_elementwise.c: shapes of elementwise ops with NumPy's broadcasting: shapes are aligned at
 * the last axis; a dimension of 1 or a missing one repeats. */
#include "tensor/rules.h"

bool dg_broadcast_shape(dg_shape a, dg_shape b, dg_shape *out)
{
    dg_shape o = { a.rank > b.rank ? a.rank : b.rank, { 0 } };

    for (int i = 0; i < o.rank; i++) {
        int ia = a.rank - o.rank + i, ib = b.rank - o.rank + i;
        int64_t da = ia >= 0 ? a.d[ia] : 1, db = ib >= 0 ? b.d[ib] : 1;

        if (da != db && da != 1 && db != 1)
            return false;
        o.d[i] = da == 1 ? db : da;
    }
    *out = o;
    return true;
}

int dg_shape_copy(dg_infer *s, int out, int in)
{
    s->out[out] = s->in[in];
    return 0;
}

static int broadcast_pair(dg_infer *s, dg_shape x, dg_shape y)
{
    char a[64], b[64];

    if (dg_broadcast_shape(x, y, &s->out[0]))
        return 0;
    return dg_infer_fail(s, "%s and %s do not broadcast", dg_shape_print(x, a, sizeof a),
                         dg_shape_print(y, b, sizeof b));
}

int dg_shape_broadcast(dg_infer *s)
{
    return broadcast_pair(s, s->in[0], s->in[1]);
}

int dg_shape_compare(dg_infer *s)
{
    return broadcast_pair(s, s->in[0], s->in[1]);
}

int dg_shape_where(dg_infer *s)
{
    int rc = broadcast_pair(s, s->in[1], s->in[2]);

    return rc ? rc : broadcast_pair(s, s->out[0], s->in[0]);
}

/* All inputs have the same shape: x -> y, and dy with the tensor that the gradient needs. */
int dg_shape_same(dg_infer *s)
{
    for (int i = 1; i < s->n_in; i++)
        if (!dg_shape_equal(s->in[0], s->in[i]))
            return dg_infer_fail(s, "all operands must have one shape");
    return dg_shape_copy(s, 0, 0);
}

int dg_shape_same_i32(dg_infer *s)
{
    return dg_shape_copy(s, 0, 0);
}

int dg_shape_truth(dg_infer *s)
{
    return dg_shape_copy(s, 0, 0);
}

int dg_shape_truth_i32(dg_infer *s)
{
    if (s->in[1].rank >= 0 && !dg_shape_equal(s->in[0], s->in[1]))
        return dg_infer_fail(s, "both operands must have one shape");
    return dg_shape_copy(s, 0, 0);
}

int dg_shape_cast(dg_infer *s)
{
    const cast_attr *a = s->attr;

    if (a->to < 0 || a->to >= DG_N_DTYPES || !dg_dtype_is_real((dg_dtype)a->to))
        return dg_infer_fail(s, "cannot cast to dtype %lld", (long long)a->to);
    s->out_type[0] = (dg_dtype)a->to;
    return dg_shape_copy(s, 0, 0);
}

int dg_shape_real(dg_infer *s)
{
    return dg_shape_copy(s, 0, 0);
}
