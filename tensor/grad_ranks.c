/* grad_ranks.c: gradients of collectives, which are collectives: what is minimised is the mean of
 * all ranks' losses, and averaging the parameters' gradients over the ranks divides by their
 * number.
 *
 *  y = sum of x over the ranks    dx = sum of dy
 *  y = mean of x                  dx = mean of dy
 *  y = x of the root              dx = sum of dy on the root, zeros elsewhere
 *  y = x of all, in a row         dx = this rank's rows of the sum of dy
 *
 * A maximum or minimum, and a result that only the root has, pass no gradient on. */
#include "tensor/build_internal.h"

static dg_val sum_over_ranks(dg_build *b, const reduce_attr *of, dg_val dy)
{
    reduce_attr sum = { .op = DG_SUM, .axis = of->axis, .ranks = of->ranks };

    return dg_emit1(b, DG_OP(all_reduce), &sum, dy, DG_NONE, DG_NONE, 1);
}

void dg_grad_all_reduce(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(all_reduce), g->attr, g->dout[0], DG_NONE, DG_NONE, 1);
}

void dg_grad_broadcast(dg_build *b, dg_grad_call *g)
{
    const reduce_attr *a = g->attr;
    dg_val sum = sum_over_ranks(b, a, g->dout[0]);

    g->din[0] = dg_select(b, dg_own_flag(b, a->axis, dg_axis_place(b, a->axis) == a->root), sum,
                          dg_number(b, 0));
}

void dg_grad_all_gather(dg_build *b, dg_grad_call *g)
{
    const reduce_attr *a = g->attr;
    dg_shape x = dg_shape_of(b, g->in[0]);
    dg_val rows =
        dg_reshape(b, sum_over_ranks(b, a, g->dout[0]), DG_SHAPE(a->ranks, dg_shape_elements(x)));
    dg_val mine = dg_own_choice(b, a->axis, a->ranks, dg_axis_place(b, a->axis));

    rows = dg_select(b, dg_reshape(b, mine, DG_SHAPE(a->ranks, 1)), rows, dg_number(b, 0));
    g->din[0] = dg_reshape(b, dg_sum(b, rows, 1, false), x);
}
