/* fuzz_layers.c: collectives and layers of the simulator. */
#include <string.h>

#include "tests/invariance/fuzz_val.h"

/* ---- collectives ----------------------------------------------------------------------------- */

static int operand_type(const fz_model *m, fz_wire w)
{
    int op = m->node[w.node].op;

    if (w.key != FZ_NONE)
        return FZ_T_TENSOR;
    if (fz_classes[op].flags & FZ_DATA && op != FZ_BATCH)
        return FZ_T_SAMPLES;
    if (op == FZ_RECORD || (op == FZ_LOSS && w.port == 1))
        return FZ_T_RECORD;
    if (op == FZ_BACKWARD)
        return FZ_T_GRADIENTS;
    if (op == FZ_ALLREDUCE || op == FZ_BROADCAST || op == FZ_REDUCE)
        return operand_type(m, m->node[w.node].in[0]);
    return FZ_T_TENSOR;
}

fz_end fz_reduce(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    int type = operand_type(k->m, n->in[0]);
    fz_val *out = k->out[node];

    if (!k->answered) {
        k->ask = (fz_request){ .what = FZ_COMBINE,
                               .node = node,
                               .axis = fz_given(n->axis, 0),
                               .how = fz_given(n->how, n->op == FZ_REDUCE ? FZ_SUMMED : FZ_MEANT),
                               .root = fz_given(n->root, 0),
                               .count = 1 };
        if (type == FZ_T_GRADIENTS) {
            k->grads[node] = k->grads[n->in[0].node];
            k->ask.what = FZ_GRADIENTS;
            k->ask.g = &k->grads[node];
            k->ask.count = fz_mix(k->ask.g->has.bits[0], k->ask.g->has.bits[1]) | 1;
        } else if (type == FZ_T_RECORD) {
            k->ask.n_vals = FZ_KEYS;
            for (int i = 0; i < FZ_KEYS; i++) {
                k->ask.v[i] = k->key[n->in[0].node][i];
                k->ask.count =
                    fz_mix(k->ask.count, k->ask.v[i].there ? fz_count(&k->ask.v[i]) : 0) | 1;
            }
        } else {
            k->ask.n_vals = 1;
            k->ask.v[0] = *fz_input(k, n, 0);
            k->ask.count = fz_count(&k->ask.v[0]);
        }
    }
    if (!fz_meet(k))
        return FZ_WAIT;
    out[0] = (fz_val){ .there = true };
    if (n->op == FZ_REDUCE) {
        int ranks, mine = fz_place(k, fz_given(n->axis, 0), &ranks);

        out[0] = mine == fz_given(n->root, 0) ? k->ask.v[0] : *fz_input(k, n, 0);
    } else if (type == FZ_T_RECORD) {
        memcpy(k->key[node], k->ask.v, sizeof k->key[node]);
        for (int i = 0; i < FZ_KEYS; i++)
            k->key[node][i].grad = fz_through(n, &k->key[n->in[0].node][i]);
    } else if (type == FZ_T_TENSOR) {
        out[0] = k->ask.v[0];
    }
    out[0].grad = type == FZ_T_TENSOR ? fz_through(n, fz_input(k, n, 0)) : (fz_set){ { 0, 0 }, 0 };
    return FZ_WENT_ON;
}

/* broadcast, agree, allgather: one value, which may be missing. */
fz_end fz_exchange(fz_rank *k, int node, fz_what what)
{
    const fz_node *n = &k->m->node[node];
    const fz_val *in = fz_input(k, n, 0);
    fz_val part = *in;

    if (n->op == FZ_ALLGATHERV)
        part.dim[0] = 0; /* may differ */
    if (!k->answered) {
        k->ask = (fz_request){ .what = what,
                               .node = node,
                               .axis = fz_given(n->axis, 0),
                               .how = fz_given(n->how, FZ_ANY),
                               .root = fz_given(n->root, 0) };
        k->ask.n_vals = 1 + (what == FZ_ROOT ? FZ_KEYS - 1 : 0);
        k->ask.v[0] = *in;
        k->ask.count = what == FZ_VOTES ? 1 : in->there ? fz_count(&part) : 0;
        if (what == FZ_ROOT && operand_type(k->m, n->in[0]) == FZ_T_RECORD)
            for (int i = 1; i < FZ_KEYS; i++)
                k->ask.v[i] = k->key[n->in[0].node][i - 1];
    }
    if (!fz_meet(k))
        return FZ_WAIT;
    k->out[node][0] = k->ask.v[0];
    if (what == FZ_ROOT && !k->ask.v[0].there) { /* the root has sent zeros */
        fz_val shape = fz_shape_of(k, n->in[0].node);

        k->out[node][0] = (fz_val){ .there = true, .nd = shape.nd };
        memcpy(k->out[node][0].dim, shape.dim, sizeof shape.dim);
    }
    k->out[node][0].grad = fz_through(n, in);
    for (int i = 1; what == FZ_ROOT && i < FZ_KEYS; i++) {
        k->key[node][i - 1] = k->ask.v[i];
        k->key[node][i - 1].grad = fz_through(n, &k->key[n->in[0].node][i - 1]);
    }
    return FZ_WENT_ON;
}

/* A collective of one number inside a node; the sum comes back in k->ask.v[0]. */
bool fz_inner(fz_rank *k, int node, int axis, int how, double x)
{
    if (!k->answered) {
        k->ask = (fz_request){
            .what = FZ_COMBINE, .node = node, .axis = axis, .how = how, .n_vals = 1, .count = 1
        };
        k->ask.v[0] = fz_scalar(x);
    }
    return fz_meet(k);
}

/* ---- layers ---------------------------------------------------------------------------------- */

void fz_linear(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    const fz_val *in = fz_input(k, n, 0);
    fz_val *out = &k->out[node][0];

    *out = *in;
    if (out->nd)
        out->dim[out->nd - 1] = fz_given(n->width, 8);
    *out =
        fz_drawn(k, node, *out, fz_mix(fz_mix(fz_digest(in), fz_bits(k->w[node])), (uint64_t)node));
    fz_own_params(&out->grad, k->m, node);
}

/* Batch norm: its statistics are those of this rank, or of all. */
fz_end fz_norm(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    const fz_val *in = fz_input(k, n, 0), *rows = fz_input(k, n, 1);
    bool empty = n->op == FZ_NORM && rows->there && rows->sum == 0;
    bool fixed = n->freeze_norm == 1 || !fz_training(k);
    fz_val *out = &k->out[node][0];
    /* of the rows that live, if they are counted */
    double mean = in->sum + (n->op == FZ_NORM && rows->there ? 0.1 * rows->sum : 0);

    /* it asks nobody, and leaves its statistics as they are */
    fixed |=
        empty && n->norm == FZ_SYNC_NORM && fz_given(n->empty, FZ_EMPTY_ABSENT) == FZ_EMPTY_ABSENT;
    if (n->norm == FZ_SYNC_NORM && !fixed) {
        if (!fz_inner(k, node, FZ_DP, FZ_SUMMED, empty ? 0 : mean))
            return FZ_WAIT;
        mean = k->ask.v[0].sum;
    }
    *out =
        fz_drawn(k, node, *in, fz_mix(fz_mix(fz_digest(in), fz_bits(mean)), fz_bits(k->w[node])));
    if (empty) {
        out->sum = out->max = out->min = 0;
        out->bad = false;
    }
    fz_own_params(&out->grad, k->m, node);
    if (!fixed)
        k->state_of[node] = fz_mix(k->state_of[node], fz_bits(mean));
    return FZ_WENT_ON;
}

fz_end fz_backbone(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    fz_end end;
    fz_val x = *fz_input(k, n, 0);

    if (n->op == FZ_ENCODER)
        for (int i = 1; i < 3; i++)
            fz_unite(&x.grad, &fz_input(k, n, i)->grad);
    end = fz_norm(k, node);
    if (end != FZ_WENT_ON)
        return end;
    fz_unite(&k->out[node][0].grad, &x.grad);
    k->out[node][1] = k->out[node][2] = k->out[node][0];
    return FZ_WENT_ON;
}

fz_end fz_decoder(fz_rank *k, int node)
{
    const fz_model *m = k->m;
    const fz_node *n = &m->node[node];
    fz_set all = fz_connections(k, n);
    int model = n->scope - FZ_IN_MODEL;

    if (fz_norm(k, node) == FZ_WAIT)
        return FZ_WAIT;
    fz_linear(k, node);
    k->out[node][0].grad = all;
    fz_own_params(&k->out[node][0].grad, m, node);
    k->key[node][0].there = fz_input(k, n, 1)->there; /* "dn" */
    if (n->frozen == 1)
        return FZ_WENT_ON;
    fz_add(&k->out[node][0].grad, FZ_P_BOX + model);
    fz_add(&k->out[node][0].grad, FZ_P_CLASS + model);
    if (fz_input(k, n, 1)->there)
        fz_add(&k->out[node][0].grad, FZ_P_DENOISING + model);
    return FZ_WENT_ON;
}

fz_end fz_use(fz_rank *k, int node)
{
    const fz_model *m = k->m;
    const fz_node *n = &m->node[node];
    int scope = FZ_IN_MODEL + n->model, last = FZ_NONE, *at = &k->used[node];

    for (int i = 0, input_number = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == scope && !m->node[i].dead) {
            last = i;
            if (m->node[i].op == FZ_INPUT)
                k->out[i][0] = *fz_input(k, n, input_number++);
        }
    /* where it waited, it goes on */
    for (; *at < m->n_nodes; (*at)++)
        if (m->node[*at].scope == scope && m->node[*at].op != FZ_INPUT && !m->node[*at].dead) {
            fz_end end = fz_fire(k, *at);

            if (end != FZ_WENT_ON)
                return end;
        }
    *at = 0;
    if (last != FZ_NONE) {
        memcpy(k->out[node], k->out[last], sizeof k->out[node]);
        memcpy(k->key[node], k->key[last], sizeof k->key[node]);
    }
    return FZ_WENT_ON;
}

fz_end fz_loss(fz_rank *k, int node)
{
    fz_sim *s = k->sim;
    const fz_node *n = &s->m->node[node];
    const fz_val *x = fz_input(k, n, 0), *objects = fz_input(k, n, 2);
    double boxes = k->batch.n ? fz_input(k, n, 1)->sum : 0, divisor;
    int terms = fz_given(n->terms, FZ_TERMS_ALL);
    fz_val total;
    bool given;

    if (boxes == 0 && fz_given(n->empty, FZ_EMPTY_ZERO) == FZ_EMPTY_ABSENT && n->connect != 1)
        return FZ_WENT_ON;
    given = n->in[2].node != FZ_NONE; /* none is 0 */
    divisor = !given ? boxes : objects->there ? objects->sum : 0;
    if (n->axis != FZ_NONE && !given) {
        if (!fz_inner(k, node, n->axis, FZ_SUMMED, boxes))
            return FZ_WAIT;
        divisor = k->ask.v[0].sum;
    }
    fz_compare(k, node, divisor);
    total = fz_drawn(k, node, (fz_val){ .grad = x->grad, .bad = x->bad },
                     fz_mix(fz_digest(x), fz_bits(divisor)));
    if (terms != FZ_TERMS_ALL)
        for (int i = 0; i < 8; i++)
            total.grad.bits[1] &=
                ~(UINT64_C(1) << ((terms == FZ_TERMS_CLASS ? FZ_P_BOX : FZ_P_CLASS) + i - 64));
    k->out[node][0] = total;
    k->out[node][1] = fz_scalar(0);
    for (int i = 0; i < 3; i++)
        k->key[node][i] =
            (i == 0 ? terms != FZ_TERMS_BOX : terms != FZ_TERMS_CLASS) ? total : (fz_val){ 0 };
    if (k->key[n->in[0].node][0].there)
        k->key[node][3] = total; /* terms of the denoising queries */
    return FZ_WENT_ON;
}
