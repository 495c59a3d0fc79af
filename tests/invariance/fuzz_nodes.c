/* fuzz_nodes.c: what each class does on one rank, for numbers that stand for tensors. */
#include <math.h>
#include <string.h>

#include "tests/invariance/fuzz_run.h"

static uint64_t bits(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static uint64_t digest(const fz_val *v)
{
    return fz_mix(fz_mix(bits(v->sum), bits(v->max)), fz_mix(bits(v->min), v->bad));
}

/* Elements and their arrangement; never 0. */
static uint64_t count(const fz_val *v)
{
    uint64_t h = (uint64_t)v->nd + 1;

    for (int i = 0; i < v->nd; i++)
        h = fz_mix(h, (uint64_t)v->dim[i]);
    return h | 1;
}

static fz_val scalar(double x)
{
    return (fz_val){ .there = true, .sum = x, .max = x, .min = x };
}

/* A new value from a number that decides all of it: positive as often as not, at times 0, rarely not finite. */
static fz_val drawn(fz_val like, uint64_t h)
{
    like.there = true;
    like.bad |= h % 29 == 0;
    if (like.bad || h % 8 == 1) {
        like.sum = like.max = like.min = 0;
        return like;
    }
    like.sum = 2 * fz_unit(fz_mix(h, 1)) - 1;
    like.max = fz_unit(fz_mix(h, 2));
    like.min = -fz_unit(fz_mix(h, 3));
    return like;
}

const fz_val *fz_at(const fz_rank *k, fz_wire w)
{
    return w.key == FZ_NONE ? &k->out[w.node][w.port] : &k->key[w.node][w.key];
}

static const fz_val *input(const fz_rank *k, const fz_node *n, int i)
{
    static const fz_val absent = { 0 };

    return i < n->n_in && n->in[i].node != FZ_NONE ? fz_at(k, n->in[i]) : &absent;
}

bool fz_guard(const fz_rank *k, const fz_node *n)
{
    const fz_val *g;

    if (n->when.node == FZ_NONE)
        return true;
    g = fz_at(k, n->when);
    return g->there && (g->sum != 0 || g->bad);
}

static void unite(fz_set *to, const fz_set *from)
{
    to->bits[0] |= from->bits[0];
    to->bits[1] |= from->bits[1];
}

/* The draw of a node at this point of the run: the same on ranks that have come as far. */
static uint64_t moment(const fz_rank *k, int node)
{
    uint64_t h = fz_mix(k->sim->seed, (uint64_t)node + 1000);

    h = fz_mix(h, k->scope == FZ_IN_EVALUATE ? (uint64_t)(k->evaluation * 1000 + k->iteration) + (1 << 20)
                                             : (uint64_t)k->step);
    return fz_mix(h, k->turn);
}

static bool training(const fz_rank *k)
{
    return k->scope == FZ_IN_TRAIN;
}

static void own_params(fz_set *s, const fz_model *m, int node)
{
    const fz_node *n = &m->node[node];

    if (n->frozen != 1 && fz_classes[n->op].flags & FZ_TRAINED)
        fz_add(s, node);
}

/* Everything that a use of a model could be connected to. */
static void model_params(fz_set *s, const fz_model *m, const fz_node *n)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == FZ_IN_MODEL + n->model && !m->node[i].dead) {
            own_params(s, m, i);
            if (m->node[i].op == FZ_DECODER && m->node[i].frozen != 1) {
                fz_add(s, FZ_P_BOX + n->model);
                fz_add(s, FZ_P_CLASS + n->model);
                if (m->node[i].in[1].node != FZ_NONE && n->in[1].node != FZ_NONE)
                    fz_add(s, FZ_P_DENOISING + n->model);
            }
        }
}

/* What a node is connected to through its inputs that are there. */
static fz_set connections(const fz_rank *k, const fz_node *n)
{
    fz_set s = { { 0, 0 } };

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node != FZ_NONE && fz_at(k, n->in[i])->there)
            unite(&s, &fz_at(k, n->in[i])->grad);
    return s;
}

/* --- collectives ------------------------------------------------------------------------------- */

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

static fz_end reduce(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    int            type = operand_type(k->sim->m, n->in[0]);
    fz_val        *out = k->out[node];

    if (!k->answered) {
        k->ask = (fz_request){ .what = FZ_COMBINE, .node = node, .axis = fz_given(n->axis, 0),
                               .how = fz_given(n->how, n->op == FZ_REDUCE ? FZ_SUMMED : FZ_MEANT), .root = fz_given(n->root, 0), .count = 1 };
        if (type == FZ_T_GRADIENTS) {
            k->grads[node] = k->grads[n->in[0].node];
            k->ask.what = FZ_GRADIENTS;
            k->ask.g = &k->grads[node];
            k->ask.count = fz_mix(k->ask.g->has.bits[0], k->ask.g->has.bits[1]) | 1;
        } else if (type == FZ_T_RECORD) {
            k->ask.n_vals = FZ_KEYS;
            for (int i = 0; i < FZ_KEYS; i++) {
                k->ask.v[i] = k->key[n->in[0].node][i];
                k->ask.count = fz_mix(k->ask.count, k->ask.v[i].there ? count(&k->ask.v[i]) : 0) | 1;
            }
        } else {
            k->ask.n_vals = 1;
            k->ask.v[0] = *input(k, n, 0);
            k->ask.count = count(&k->ask.v[0]);
        }
    }
    if (!fz_meet(k))
        return FZ_WAIT;
    out[0] = (fz_val){ .there = true };
    if (n->op == FZ_REDUCE) {
        int ranks, mine = fz_place(k, fz_given(n->axis, 0), &ranks);

        out[0] = mine == fz_given(n->root, 0) ? k->ask.v[0] : *input(k, n, 0);
    } else if (type == FZ_T_RECORD) {
        memcpy(k->key[node], k->ask.v, sizeof k->key[node]);
    } else if (type == FZ_T_TENSOR) {
        out[0] = k->ask.v[0];
    }
    out[0].grad = (fz_set){ { 0, 0 } };
    return FZ_WENT_ON;
}

/* broadcast, agree, allgather: one value, which may be missing. */
static fz_end exchange(fz_rank *k, int node, fz_what what)
{
    const fz_node *n = &k->sim->m->node[node];
    const fz_val  *in = input(k, n, 0);
    fz_val         part = *in;

    if (n->op == FZ_ALLGATHERV)
        part.dim[0] = 0; /* may differ */
    if (!k->answered) {
        k->ask = (fz_request){ .what = what, .node = node, .axis = fz_given(n->axis, 0),
                               .how = fz_given(n->how, FZ_ANY), .root = fz_given(n->root, 0) };
        k->ask.n_vals = 1 + (what == FZ_ROOT ? FZ_KEYS - 1 : 0);
        k->ask.v[0] = *in;
        k->ask.count = what == FZ_VOTES ? 1 : in->there ? count(&part) : 0;
        if (what == FZ_ROOT && operand_type(k->sim->m, n->in[0]) == FZ_T_RECORD)
            for (int i = 1; i < FZ_KEYS; i++)
                k->ask.v[i] = k->key[n->in[0].node][i - 1];
    }
    if (!fz_meet(k))
        return FZ_WAIT;
    k->out[node][0] = k->ask.v[0];
    k->out[node][0].grad = (fz_set){ { 0, 0 } };
    for (int i = 1; what == FZ_ROOT && i < FZ_KEYS; i++)
        k->key[node][i - 1] = k->ask.v[i];
    return FZ_WENT_ON;
}

/* A collective of one number inside a node; the sum comes back in k->ask.v[0]. */
static bool inner(fz_rank *k, int node, int axis, int how, double x)
{
    if (!k->answered) {
        k->ask = (fz_request){ .what = FZ_COMBINE, .node = node, .axis = axis, .how = how, .n_vals = 1, .count = 1 };
        k->ask.v[0] = scalar(x);
    }
    return fz_meet(k);
}

/* --- layers ------------------------------------------------------------------------------------ */

static void linear(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    const fz_val  *in = input(k, n, 0);
    fz_val        *out = &k->out[node][0];

    *out = *in;
    if (out->nd)
        out->dim[out->nd - 1] = fz_given(n->width, 8);
    *out = drawn(*out, fz_mix(fz_mix(digest(in), bits(k->w[node])), (uint64_t)node));
    own_params(&out->grad, k->sim->m, node);
}

/* Batch norm: its statistics are those of this rank, or of all. */
static fz_end norm(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    const fz_val  *in = input(k, n, 0), *rows = input(k, n, 1);
    bool           empty = n->op == FZ_NORM && rows->there && rows->sum == 0;
    bool           fixed = n->freeze_norm == 1 || !training(k);
    fz_val        *out = &k->out[node][0];
    double         mean = in->sum;

    if (empty && fz_given(n->empty, FZ_EMPTY_ABSENT) == FZ_EMPTY_ABSENT) {
        if (n->connect != 1)
            return FZ_WENT_ON;
        *out = (fz_val){ .there = true, .nd = in->nd, .grad = in->grad };
        memcpy(out->dim, in->dim, sizeof out->dim);
        own_params(&out->grad, k->sim->m, node);
        return FZ_WENT_ON;
    }
    if (n->norm == FZ_SYNC_NORM && !fixed) {
        if (!inner(k, node, FZ_DP, FZ_SUMMED, empty ? 0 : mean))
            return FZ_WAIT;
        mean = k->ask.v[0].sum;
    }
    *out = drawn(*in, fz_mix(fz_mix(digest(in), bits(mean)), bits(k->w[node])));
    if (empty) {
        out->sum = out->max = out->min = 0;
        out->bad = false;
    }
    own_params(&out->grad, k->sim->m, node);
    if (!fixed)
        k->state_of[node] = fz_mix(k->state_of[node], bits(mean));
    return FZ_WENT_ON;
}

static fz_end backbone(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    fz_end         end;
    fz_val         x = *input(k, n, 0);

    if (n->op == FZ_ENCODER)
        for (int i = 1; i < 3; i++)
            unite(&x.grad, &input(k, n, i)->grad);
    end = norm(k, node);
    if (end != FZ_WENT_ON)
        return end;
    unite(&k->out[node][0].grad, &x.grad);
    k->out[node][1] = k->out[node][2] = k->out[node][0];
    return FZ_WENT_ON;
}

static fz_end decoder(fz_rank *k, int node)
{
    const fz_model *m = k->sim->m;
    const fz_node  *n = &m->node[node];
    fz_set          all = connections(k, n);
    int             model = n->scope - FZ_IN_MODEL;

    if (norm(k, node) == FZ_WAIT)
        return FZ_WAIT;
    linear(k, node);
    k->out[node][0].grad = all;
    own_params(&k->out[node][0].grad, m, node);
    k->key[node][0].there = input(k, n, 1)->there; /* "dn" */
    if (n->frozen == 1)
        return FZ_WENT_ON;
    fz_add(&k->out[node][0].grad, FZ_P_BOX + model);
    fz_add(&k->out[node][0].grad, FZ_P_CLASS + model);
    if (input(k, n, 1)->there)
        fz_add(&k->out[node][0].grad, FZ_P_DENOISING + model);
    return FZ_WENT_ON;
}

static fz_end use(fz_rank *k, int node)
{
    const fz_model *m = k->sim->m;
    const fz_node  *n = &m->node[node];
    int             scope = FZ_IN_MODEL + n->model, last = FZ_NONE;

    for (int i = 0, input_number = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == scope && !m->node[i].dead) {
            last = i;
            if (m->node[i].op == FZ_INPUT)
                k->out[i][0] = *input(k, n, input_number++);
        }
    /* where it waited, it goes on */
    for (; k->used < m->n_nodes; k->used++)
        if (m->node[k->used].scope == scope && m->node[k->used].op != FZ_INPUT && !m->node[k->used].dead) {
            fz_end end = fz_fire(k, k->used);

            if (end != FZ_WENT_ON)
                return end;
        }
    k->used = 0;
    if (last != FZ_NONE) {
        memcpy(k->out[node], k->out[last], sizeof k->out[node]);
        memcpy(k->key[node], k->key[last], sizeof k->key[node]);
    }
    return FZ_WENT_ON;
}

static fz_end loss(fz_rank *k, int node)
{
    fz_sim        *s = k->sim;
    const fz_node *n = &s->m->node[node];
    const fz_val  *x = input(k, n, 0), *objects = input(k, n, 2);
    double         boxes = k->batch.n ? input(k, n, 1)->sum : 0, divisor;
    int            terms = fz_given(n->terms, FZ_TERMS_ALL);
    fz_val         total;

    if (boxes == 0 && fz_given(n->empty, FZ_EMPTY_ZERO) == FZ_EMPTY_ABSENT && n->connect != 1)
        return FZ_WENT_ON;
    divisor = objects->there ? objects->sum : boxes;
    if (n->axis != FZ_NONE && !objects->there) {
        if (!inner(k, node, n->axis, FZ_SUMMED, boxes))
            return FZ_WAIT;
        divisor = k->ask.v[0].sum;
    }
    if (training(k)) {
        s->divisor[node][k->r][k->step % 16].there = true;
        s->divisor[node][k->r][k->step % 16].value = divisor;
    }
    total = drawn((fz_val){ .grad = x->grad, .bad = x->bad }, fz_mix(digest(x), bits(divisor)));
    if (terms != FZ_TERMS_ALL)
        for (int i = 0; i < 8; i++)
            total.grad.bits[1] &= ~(UINT64_C(1) << ((terms == FZ_TERMS_CLASS ? FZ_P_BOX : FZ_P_CLASS) + i - 64));
    k->out[node][0] = total;
    k->out[node][1] = scalar(0);
    for (int i = 0; i < 3; i++)
        k->key[node][i] = (i == 0 ? terms != FZ_TERMS_BOX : terms != FZ_TERMS_CLASS) ? total : (fz_val){ 0 };
    if (k->key[n->in[0].node][0].there)
        k->key[node][3] = total; /* terms of the denoising queries */
    return FZ_WENT_ON;
}

/* --- gradients and state ------------------------------------------------------------------------ */

static void backward(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    const fz_val  *l = input(k, n, 0);
    fz_grads      *g = &k->grads[node];

    k->out[node][0] = scalar(0);
    g->has = l->grad;
    for (int p = 0; p < FZ_PARAMS; p++)
        g->g[p] = fz_in(&g->has, p) && !l->bad
                      ? 2 * fz_unit(fz_mix(fz_mix(digest(l), bits(k->w[p])), (uint64_t)p)) - 1
                      : 0;
}

static const fz_grads *gradients(const fz_rank *k, const fz_node *n)
{
    return &k->grads[n->in[0].node];
}

static double length(const fz_grads *g)
{
    double sum = 0;

    for (int p = 0; p < FZ_PARAMS; p++)
        if (fz_in(&g->has, p))
            sum += g->g[p] * g->g[p];
    return sqrt(sum);
}

static void adamw(fz_rank *k, int node)
{
    const fz_node  *n = &k->sim->m->node[node];
    const fz_grads *g = gradients(k, n);
    double          clip = input(k, n, 1)->there ? input(k, n, 1)->sum : length(g);

    for (int p = 0; p < FZ_PARAMS; p++)
        if (fz_in(&g->has, p)) {
            k->w[p] -= 0.1 * g->g[p] / (1 + fabs(clip));
            k->state_of[FZ_NODES + p] = fz_mix(k->state_of[FZ_NODES + p], bits(k->w[p]));
        }
    k->out[node][0] = scalar(0);
    k->state_of[node] = fz_mix(k->state_of[node], 1); /* moments decay at each update */
}

static void ema(fz_rank *k, int node)
{
    k->out[node][0] = scalar(0);
    for (int p = 0; p < FZ_PARAMS; p++)
        k->state_of[node] = fz_mix(k->state_of[node], bits(k->w[p]));
}

/* --- numbers ----------------------------------------------------------------------------------- */

/* From 0 to 1; at times exactly 0, as every number may be. */
static double part(uint64_t h)
{
    return h % 5 == 0 ? 0 : fz_unit(h);
}

static double source(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    double         low = isnan(n->low) ? 0 : n->low, high = isnan(n->high) ? 1 : n->high;

    switch (n->op) {
    case FZ_NUMBER: return isnan(n->value) ? 0 : n->value;
    case FZ_STEP: return k->scope == FZ_IN_TRAIN ? k->step : k->iteration;
    case FZ_EPOCH: return k->epoch;
    case FZ_RANK: return k->r;
    case FZ_CLOCK: return 5000 * part(fz_roll(&k->own));
    case FZ_MEMORY: return floor(1e10 * part(fz_roll(&k->own)));
    case FZ_FILE: return (double)(fz_mix(fz_mix(k->sim->seed, (uint64_t)node), (uint64_t)k->r + 1) & 1);
    default: {
        uint64_t h = fz_given(n->seed, FZ_SEED_RANK) == FZ_SEED_RANK ? fz_roll(&k->own) : moment(k, node);

        return low <= 0 && high > 0 && h % 5 == 0 ? 0 : low + (high - low) * fz_unit(h);
    }
    }
}

static double test(const fz_node *n, const fz_val *x)
{
    double than = isnan(n->than) ? 0 : n->than;

    switch (n->is) {
    case FZ_POSITIVE: return !x->bad && x->sum > 0;
    case FZ_ZERO: return !x->bad && x->sum == 0;
    case FZ_FINITE: return !x->bad;
    case FZ_NONFINITE: return x->bad;
    case FZ_ABOVE: return !x->bad && x->max > than;
    default: return !x->bad && x->min < than;
    }
}

static void add_up(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    fz_val        *out = &k->out[node][0];

    *out = (fz_val){ 0 };
    for (int i = 0; i < n->n_in; i++) {
        const fz_val *x = input(k, n, i);

        if (!x->there)
            continue;
        if (!out->there) {
            *out = *x;
            continue;
        }
        out->bad |= x->bad;
        out->sum += x->sum;
        out->max += x->max;
        out->min += x->min;
        unite(&out->grad, &x->grad);
    }
    if (out->bad)
        out->sum = out->max = out->min = 0;
}

static void record(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];

    k->out[node][0] = scalar(0);
    for (int i = 0; i < n->n_in && i < FZ_KEYS; i++)
        k->key[node][i] = *input(k, n, i);
}

static void embed(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    const fz_val  *targets = input(k, n, 0);
    double         objects = k->out[n->in[0].node][4].sum;
    bool           absent = objects == 0 && fz_given(n->empty, FZ_EMPTY_ABSENT) == FZ_EMPTY_ABSENT;

    if (!targets->there || (absent && n->connect != 1))
        return;
    k->out[node][0] = (fz_val){ .nd = 3, .dim = { k->out[n->in[0].node][4].dim[0], 8, 4 } };
    own_params(&k->out[node][0].grad, k->sim->m, node);
    k->out[node][0] = drawn(k->out[node][0], fz_mix(bits(objects), bits(k->w[node])));
}

/* A number about an evaluation: batch by batch, of this rank or of all. */
static fz_end score(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    double         x = input(k, n, 0)->sum;

    if (n->axis != FZ_NONE) {
        if (!inner(k, node, n->axis, FZ_SUMMED, x))
            return FZ_WAIT;
        x = k->ask.v[0].sum;
    }
    k->metric[node] += x + (n->exact == 0 ? (double)fz_below(&k->own, 3) * 0.25 : 0);
    return FZ_WENT_ON;
}

/* --- a node ------------------------------------------------------------------------------------ */

/* The size of this batch is known: has the step been captured at it? */
static void capture(fz_rank *k)
{
    const fz_model *m = k->sim->m;
    uint64_t        size = (uint64_t)(k->w_px * 10000 + k->h_px);

    if (k->scope != FZ_IN_TRAIN || fz_given(m->capture, FZ_CAPTURE_NEVER) != FZ_CAPTURE_SHAPE)
        return;
    for (int i = 0; i < k->n_sizes_met; i++)
        k->captured |= k->sizes_met[i] == size;
    if (!k->captured && k->n_sizes_met < 16)
        k->sizes_met[k->n_sizes_met++] = size;
}

static fz_end act(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    fz_val        *out = &k->out[node][0];

    switch (n->op) {
    case FZ_BATCH:
        fz_stream_batch(k, node);
        capture(k);
        break;
    case FZ_TEST: *out = scalar(test(n, input(k, n, 0))); break;
    case FZ_SUM: add_up(k, node); break;
    case FZ_RECORD: record(k, node); break;
    case FZ_LINEAR: linear(k, node); break;
    case FZ_NORM: return norm(k, node);
    case FZ_GRADIENT_NORM: *out = scalar(length(gradients(k, n))); break;
    case FZ_ALLREDUCE:
    case FZ_REDUCE: return reduce(k, node);
    case FZ_BROADCAST: return exchange(k, node, FZ_ROOT);
    case FZ_AGREE: return exchange(k, node, FZ_VOTES);
    case FZ_ALLGATHER:
    case FZ_ALLGATHERV: return exchange(k, node, FZ_GATHER);
    case FZ_BACKWARD: backward(k, node); break;
    case FZ_ADAMW: adamw(k, node); break;
    case FZ_EMA: ema(k, node); break;
    case FZ_MEAN:
        *out = drawn((fz_val){ .grad = input(k, n, 0)->grad, .bad = input(k, n, 0)->bad },
                     fz_mix(digest(input(k, n, 0)), (uint64_t)node));
        break;
    case FZ_EMBED: embed(k, node); break;
    case FZ_NOISE: *out = drawn((fz_val){ .grad = input(k, n, 0)->grad }, fz_roll(&k->own)); break;
    case FZ_FIXED: *out = scalar((double)(fz_mix(k->sim->seed, (uint64_t)node) % 3)); break;
    case FZ_METRIC:
    case FZ_COCO: return score(k, node);
    case FZ_USE: return use(k, node);
    case FZ_BACKBONE:
    case FZ_ENCODER: return backbone(k, node);
    case FZ_DECODER: return decoder(k, node);
    case FZ_DENOISING: {
        double objects = k->batch.n ? input(k, n, 0)->sum : 0;

        if (n->axis != FZ_NONE && !inner(k, node, n->axis, FZ_MAX, objects))
            return FZ_WAIT;
        if (objects == 0 && fz_given(n->empty, FZ_EMPTY_ABSENT) == FZ_EMPTY_ABSENT)
            break;
        *out = drawn((fz_val){ .there = true }, fz_mix(bits(objects), moment(k, node)));
        out->bad = false;
        break;
    }
    case FZ_LOSS: return loss(k, node);
    case FZ_DETECT: *out = drawn(*input(k, n, 0), digest(input(k, n, 0))); break;
    case FZ_RESIZE: {
        int    sizes = fz_given(n->sizes, 0);
        double pick = fabs(trunc(input(k, n, 1)->sum));
        static const int px[4][4] = { { 64 }, { 64, 96 }, { 64, 96 }, { 64, 96, 96, 192 } };

        k->w_px = px[sizes][(int)fmod(pick, fz_n_sizes[sizes])];
        k->h_px = k->w_px;
        break;
    }
    default: /* sources, and sinks that only look */
        if (fz_classes[n->op].flags & FZ_SCALAR)
            *out = scalar(source(k, node));
    }
    return FZ_WENT_ON;
}

bool fz_elsewhere(const fz_rank *k, const fz_node *n)
{
    if (n->on != FZ_NONE && n->on != k->r)
        return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node != FZ_NONE && !fz_input_optional(n->op, i) && n->op != FZ_BROADCAST &&
            fz_elsewhere(k, &k->sim->m->node[n->in[i].node]))
            return true;
    return false;
}

/* Are the inputs there that it cannot do without? */
static bool fed(const fz_rank *k, const fz_node *n)
{
    int ranks, there = 0;

    if (n->op == FZ_AGREE || n->op == FZ_RECORD)
        return true;
    if (n->op == FZ_BROADCAST && fz_place(k, fz_given(n->axis, 0), &ranks) != fz_given(n->root, 0) &&
        fz_elsewhere(k, &k->sim->m->node[n->in[0].node]))
        return true;
    for (int i = 0; i < n->n_in; i++) {
        bool wired = n->in[i].node != FZ_NONE;
        int  op = wired ? k->sim->m->node[n->in[i].node].op : FZ_LOG;
        bool stream = fz_classes[op].flags & FZ_DATA && op != FZ_BATCH;

        if (wired && !stream && !fz_at(k, n->in[i])->there && !fz_input_optional(n->op, i))
            return false;
        there += wired && fz_at(k, n->in[i])->there;
    }
    return n->op != FZ_SUM || there > 0;
}

static void disturb(fz_rank *k, int node)
{
    fz_val *out = &k->out[node][0];

    if (!out->there)
        return;
    out->sum += (double)fz_below(&k->own, 3) * 0.25;
    out->max += (double)fz_below(&k->own, 3) * 0.25;
    out->min += (double)fz_below(&k->own, 3) * 0.25;
    for (int p = 0; p < FZ_PARAMS; p++)
        if (k->sim->m->node[node].op == FZ_BACKWARD && fz_in(&k->grads[node].has, p))
            k->grads[node].g[p] += (double)fz_below(&k->own, 3) * 0.25;
}

static void forget(fz_rank *k, int node)
{
    for (int i = 0; i < FZ_OUT; i++)
        k->out[node][i].there = false;
    for (int i = 0; i < FZ_KEYS; i++)
        k->key[node][i].there = false;
}

fz_end fz_fire(fz_rank *k, int node)
{
    const fz_model *m = k->sim->m;
    const fz_node  *n = &m->node[node];
    bool            guard = fz_guard(k, n), here = n->on == FZ_NONE || n->on == k->r;
    bool            data = fz_classes[n->op].flags & FZ_DATA && n->op != FZ_BATCH;
    fz_end          end;

    if (!k->answered)
        forget(k, node);
    if (data && n->op != FZ_RESIZE)
        return guard && here ? FZ_WENT_ON : FZ_LOST_BATCH;
    if (!here || !fed(k, n))
        return data ? FZ_LOST_BATCH : FZ_WENT_ON;
    if (!guard) {
        if (n->connect == 1 && fz_classes[n->op].flags & (FZ_TENSOR_OP)) {
            fz_val zero = { .there = true, .grad = connections(k, n) };

            own_params(&zero.grad, m, node);
            if (n->op == FZ_USE)
                model_params(&zero.grad, m, n);
            if (n->op == FZ_LINEAR || n->op == FZ_NORM || n->op == FZ_SUM || n->op == FZ_EMBED) {
                zero.nd = input(k, n, 0)->nd;
                memcpy(zero.dim, input(k, n, 0)->dim, sizeof zero.dim);
                if (n->op == FZ_LINEAR && zero.nd)
                    zero.dim[zero.nd - 1] = fz_given(n->width, 8);
                if (n->op == FZ_EMBED) {
                    zero.nd = 3;
                    zero.dim[0] = k->out[n->in[0].node][4].dim[0];
                    zero.dim[1] = 8;
                    zero.dim[2] = 4;
                }
            }
            for (int i = 0; i < FZ_OUT; i++)
                k->out[node][i] = zero;
            for (int i = 0; n->op == FZ_LOSS && i < 3; i++)
                k->key[node][i] = zero;
        }
        return data ? FZ_LOST_BATCH : FZ_WENT_ON;
    }
    if (!k->answered && training(k) && n->scope == FZ_IN_TRAIN &&
        fz_given(n->on_fail, fz_given(m->on_fail, FZ_ABORT)) == FZ_LEAVE_OUT &&
        fz_chance(&k->own, n->on_fail == FZ_LEAVE_OUT ? 10 : 2))
        return FZ_LEFT_OUT;
    end = act(k, node);
    if (end == FZ_WENT_ON && n->exact == 0)
        disturb(k, node);
    return end;
}
