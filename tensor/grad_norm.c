/* grad_norm.c: gradients of batch norm and layer norm. Keeps only what the activation's gradient
 * needs: for SiLU the pre-activation, from x and the residual; for ReLU its sign, from y, or from x
 * if there is no residual; for a frozen norm without activation nothing. */
#include "tensor/rules.h"

/* dy x? y? s b mean var res? -> dx ds? db? dres? */
static void batch_norm_grad(dg_build *b, dg_grad_call *g, dg_val mean, dg_val var, int res,
                            bool fixed)
{
    const norm_attr *a = g->attr;
    norm_attr attr = { .eps = a->eps, .act = a->act, .fixed = fixed, .plain = !dg_has(g->in[res]) };
    bool x_needed = !fixed || g->wanted[1] || g->wanted[2] || a->act == DG_ACT_SILU;
    bool y_needed = a->act == DG_ACT_RELU && !(attr.plain && x_needed);
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(batch_norm_grad), &attr, 8,
            (dg_val[]){
                g->dout[0],
                x_needed ? g->in[0] : DG_NONE,
                y_needed ? g->out[0] : DG_NONE,
                g->in[1],
                g->in[2],
                mean,
                var,
                a->act == DG_ACT_SILU ? g->in[res] : DG_NONE,
            },
            out);
    for (int i = 0; i < 3; i++)
        g->din[i] = out[i];
    if (dg_has(g->in[res]))
        g->din[res] = out[3];
}

void dg_grad_batch_norm(dg_build *b, dg_grad_call *g)
{
    batch_norm_grad(b, g, g->out[1], g->out[2], 3, false);
}

void dg_grad_batch_norm_fixed(dg_build *b, dg_grad_call *g)
{
    batch_norm_grad(b, g, g->in[3], g->in[4], 5, true);
}

/* x s b mean var n live? res?: the gradient including that through the statistics, whose own
 * gradients are therefore not passed on. dx needs two sums over all ranks; ds and db are this
 * rank's, and are averaged with all other gradients. With a residual dx is computed from the
 * residual's gradient, which is dy through the activation. */
void dg_grad_batch_norm_sync(dg_build *b, dg_grad_call *g)
{
    const sync_attr *a = g->attr;
    const bool res = dg_has(g->in[7]), silu = a->norm.act == DG_ACT_SILU;
    norm_attr attr = { .eps = a->norm.eps, .act = a->norm.act, .plain = !res };
    reduce_attr sum = { .op = DG_SUM, .axis = a->axis, .ranks = a->ranks };
    dg_val y = a->norm.act == DG_ACT_RELU && res ? g->out[0] : DG_NONE;
    dg_val out[DG_MAX_SIGNATURE], dy = g->dout[0], sums;

    dg_emit(b, DG_OP(batch_norm_sums), &attr, 9,
            (dg_val[]){ dy, g->in[0], y, g->in[1], g->in[2], g->in[3], g->in[4], g->in[6],
                        silu ? g->in[7] : DG_NONE },
            out);
    sums = out[0];
    g->din[1] = out[1];
    g->din[2] = out[2];
    if (res) {
        g->din[7] = dy = out[3];
        attr.act = DG_ACT_NONE;
    }
    if (!g->wanted[0])
        return;
    if (a->ranks > 1)
        sums = dg_emit1(b, DG_OP(all_reduce), &sum, sums, DG_NONE, DG_NONE, 1);
    dg_emit(b, DG_OP(batch_norm_dx), &attr, 11,
            (dg_val[]){ dy, g->in[0], DG_NONE, g->in[1], g->in[2], g->in[3], g->in[4], g->in[5],
                        sums, g->in[6], DG_NONE },
            g->din);
}

void dg_grad_layer_norm(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(layer_norm_grad), g->attr, 5,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->out[1], g->out[2] }, out);
    for (int i = 0; i < 3; i++)
        g->din[i] = out[i];
}
