/* shape_shape.c: ops that move or repeat elements, and reductions over axes. */
#include "tensor/params.h"
#include "tensor/rules.h"

static bool from_attr(int64_t rank, const int64_t *d, dg_shape *out)
{
    if (rank < 0 || rank > DG_MAX_DIMS)
        return false;
    *out = (dg_shape){ (int)rank, { 0 } };
    for (int i = 0; i < rank; i++)
        out->d[i] = d[i];
    return dg_shape_fits(*out);
}

int dg_shape_reshape(dg_infer *s)
{
    const shape_attr *a = s->attr;
    char x[64];

    if (!from_attr(a->rank, a->d, &s->out[0]))
        return dg_infer_fail(s, "the shape asked for is not one");
    if (dg_shape_elements(s->out[0]) != dg_shape_elements(s->in[0]))
        return dg_infer_fail(s, "%s has %lld elements, the shape asked for %lld",
                             dg_shape_print(s->in[0], x, sizeof x),
                             (long long)dg_shape_elements(s->in[0]),
                             (long long)dg_shape_elements(s->out[0]));
    return 0;
}

int dg_shape_reshape_i32(dg_infer *s)
{
    return dg_shape_reshape(s);
}

int dg_shape_permute(dg_infer *s)
{
    const shape_attr *a = s->attr;
    dg_shape x = s->in[0];
    unsigned seen = 0;

    if (a->rank != x.rank)
        return dg_infer_fail(s, "%lld axes for a tensor of rank %d", (long long)a->rank, x.rank);
    s->out[0].rank = x.rank;
    for (int i = 0; i < x.rank; i++) {
        if (a->d[i] < 0 || a->d[i] >= x.rank || seen >> a->d[i] & 1)
            return dg_infer_fail(s, "axis %lld is not an axis, or named twice", (long long)a->d[i]);
        seen |= 1u << a->d[i];
        s->out[0].d[i] = x.d[a->d[i]];
    }
    return 0;
}

static int want_axis(dg_infer *s, int64_t axis)
{
    if (axis < 0 || axis >= s->in[0].rank)
        return dg_infer_fail(s, "no axis %lld in a tensor of rank %d", (long long)axis,
                             s->in[0].rank);
    return 0;
}

int dg_shape_concat(dg_infer *s)
{
    const axis_attr *a = s->attr;
    dg_shape o = s->in[0];
    char x[64], y[64];
    int rc = want_axis(s, a->axis);

    for (int i = 1; i < s->n_in && rc == 0; i++) {
        dg_shape b = s->in[i], c = b;

        if (b.rank == o.rank)
            c.d[a->axis] = o.d[a->axis];
        if (!dg_shape_equal(c, o))
            rc = dg_infer_fail(s, "%s and %s differ in more than axis %lld",
                               dg_shape_print(s->in[0], x, sizeof x),
                               dg_shape_print(b, y, sizeof y), (long long)a->axis);
        else
            o.d[a->axis] += b.d[a->axis];
    }
    s->out[0] = o;
    return rc;
}

int dg_shape_slice(dg_infer *s)
{
    const axis_attr *a = s->attr;
    int rc = want_axis(s, a->axis);

    if (rc)
        return rc;
    if (a->begin < 0 || a->end <= a->begin || a->end > s->in[0].d[a->axis])
        return dg_infer_fail(s, "[%lld,%lld) is not a part of an axis of %lld", (long long)a->begin,
                             (long long)a->end, (long long)s->in[0].d[a->axis]);
    s->out[0] = s->in[0];
    s->out[0].d[a->axis] = a->end - a->begin;
    return 0;
}

int dg_shape_pad(dg_infer *s)
{
    const axis_attr *a = s->attr;
    int rc = want_axis(s, a->axis);

    if (rc)
        return rc;
    if (a->begin < 0 || a->end < 0 || a->begin > 1LL << 31 || a->end > 1LL << 31)
        return dg_infer_fail(s, "cannot pad by %lld and %lld", (long long)a->begin,
                             (long long)a->end);
    s->out[0] = s->in[0];
    s->out[0].d[a->axis] += a->begin + a->end;
    return 0;
}

int dg_shape_expand(dg_infer *s)
{
    const shape_attr *a = s->attr;
    dg_shape o;
    char x[64];

    if (!from_attr(a->rank, a->d, &s->out[0]))
        return dg_infer_fail(s, "the shape asked for is not one");
    if (!dg_broadcast_shape(s->in[0], s->out[0], &o) || !dg_shape_equal(o, s->out[0]))
        return dg_infer_fail(s, "%s does not broadcast to the shape asked for",
                             dg_shape_print(s->in[0], x, sizeof x));
    return 0;
}

int dg_shape_fill(dg_infer *s)
{
    const fill_attr *a = s->attr;

    return from_attr(a->rank, a->d, &s->out[0])
               ? 0
               : dg_infer_fail(s, "the shape asked for is not one");
}

int dg_shape_uniform(dg_infer *s)
{
    const uniform_attr *a = s->attr;

    if (!from_attr(a->rank, a->d, &s->out[0]) || a->rank < 1)
        return dg_infer_fail(s, "the shape must begin with the batch");
    return 0;
}

int dg_shape_reduce(dg_infer *s)
{
    const axes_attr *a = s->attr;
    dg_shape x = s->in[0];

    if (a->axes >> x.rank)
        return dg_infer_fail(s, "axes beyond the %d of the tensor", x.rank);
    s->out[0].rank = 0;
    for (int i = 0; i < x.rank; i++) {
        bool reduced = a->axes >> i & 1;

        if (!reduced || a->keep)
            s->out[0].d[s->out[0].rank++] = reduced ? 1 : x.d[i];
    }
    return 0;
}

int dg_shape_reduce_i32(dg_infer *s)
{
    return dg_shape_reduce(s);
}
