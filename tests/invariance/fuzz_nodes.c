/* fuzz_nodes.c: what each class does on one rank, for numbers that stand for tensors. */
#include <math.h>
#include <string.h>

#include "tests/invariance/fuzz_val.h"

const fz_val *fz_at(const fz_rank *k, fz_wire w)
{
    return w.key == FZ_NONE ? &k->out[w.node][w.port] : &k->key[w.node][w.key];
}

bool fz_guard(const fz_rank *k, const fz_node *n)
{
    const fz_val *g;

    if (n->when.node == FZ_NONE)
        return true;
    g = fz_at(k, n->when);
    return g->there && (g->sum != 0 || g->bad);
}

/* ---- gradients and state --------------------------------------------------------------------- */

static void backward(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    const fz_val *l = fz_input(k, n, 0);
    fz_grads *g = &k->grads[node];

    k->out[node][0] = fz_scalar(0);
    if (!k->accumulated)
        memset(g, 0, sizeof *g);
    fz_unite(&g->has, &l->grad);
    for (int p = 0; p < FZ_PARAMS; p++)
        if (fz_in(&l->grad, p) && !l->bad)
            g->g[p] +=
                2 * fz_unit(fz_mix(fz_mix(fz_mix(fz_digest(l), l->grad.made), fz_bits(k->w[p])),
                                   (uint64_t)p)) -
                1;
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
    const fz_node *n = &k->m->node[node];
    const fz_grads *g = gradients(k, n);
    bool given = n->in[1].node != FZ_NONE; /* one that is missing is 0 */
    double clip = !given ? length(g) : fz_input(k, n, 1)->there ? fz_input(k, n, 1)->sum : 0;

    for (int p = 0; p < FZ_PARAMS; p++)
        if (fz_in(&g->has, p)) {
            k->w[p] -= 0.1 * g->g[p] / (1 + fabs(clip));
            k->state_of[FZ_NODES + p] = fz_mix(k->state_of[FZ_NODES + p], fz_bits(k->w[p]));
        }
    k->out[node][0] = fz_scalar(0);
    k->state_of[node] = fz_mix(k->state_of[node], 1); /* moments decay at each update */
}

static void ema(fz_rank *k, int node)
{
    k->out[node][0] = fz_scalar(0);
    for (int p = 0; p < FZ_PARAMS; p++)
        k->state_of[node] = fz_mix(k->state_of[node], fz_bits(k->w[p]));
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Is it exactly 0 this time, as every number may be? */
static bool is_zero(const fz_rank *k, int node, uint64_t h)
{
    return h % 5 == 0 || (fz_mood_of(k, node) == FZ_EMPTY && h % 5 < 4);
}

/* From 0 to 1, by this rank's own draws. */
static double part(fz_rank *k, int node)
{
    uint64_t h = fz_roll(&k->own);

    return is_zero(k, node, h) ? 0 : fz_unit(h);
}

static double source(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    double low = isnan(n->low) ? 0 : n->low, high = isnan(n->high) ? 1 : n->high;

    switch (n->op) {
    case FZ_NUMBER:
        return isnan(n->value) ? 0 : n->value;
    case FZ_STEP:
        return k->scope == FZ_IN_TRAIN ? k->step : k->iteration;
    case FZ_EPOCH:
        return k->first + k->epoch;
    case FZ_RANK:
        return k->r;
    case FZ_CLOCK:
        return 5000 * part(k, node);
    case FZ_MEMORY:
        return floor(1e10 * part(k, node));
    case FZ_FILE:
        return fz_below(&k->own, 2); /* files come and go */
    default: {
        uint64_t h =
            fz_given(n->seed, FZ_SEED_RANK) == FZ_SEED_RANK ? fz_roll(&k->own) : fz_moment(k, node);

        return low <= 0 && high > 0 && is_zero(k, node, h) ? 0 : low + (high - low) * fz_unit(h);
    }
    }
}

void fz_number(fz_rank *k, int node)
{
    k->out[node][0] = fz_scalar(source(k, node));
}

void fz_number_of(fz_rank *k, int node, int at, int root)
{
    const fz_node *n = &k->m->node[at];
    const double low = isnan(n->low) ? 0 : n->low, high = isnan(n->high) ? 1 : n->high;

    if (n->op == FZ_RANK)
        k->out[node][0] = fz_scalar(root);
    else if (n->op == FZ_RANDOM)
        k->out[node][0] = fz_scalar(low + (high - low) * fz_unit(fz_moment(k, at)));
    else
        fz_number(k, at), k->out[node][0] = k->out[at][0];
}

static double test(const fz_node *n, const fz_val *x)
{
    double than = isnan(n->than) ? 0 : n->than;

    switch (n->is) {
    case FZ_POSITIVE:
        return !x->bad && x->sum > 0;
    case FZ_ZERO:
        return !x->bad && x->sum == 0;
    case FZ_FINITE:
        return !x->bad;
    case FZ_NONFINITE:
        return x->bad;
    case FZ_ABOVE:
        return !x->bad && x->max > than;
    default:
        return !x->bad && x->min < than;
    }
}

static void add_up(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    fz_val *out = &k->out[node][0];

    *out = (fz_val){ 0 };
    for (int i = 0; i < n->n_in; i++) {
        const fz_val *x = fz_input(k, n, i);

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
        fz_unite(&out->grad, &x->grad);
    }
    if (out->bad)
        out->sum = out->max = out->min = 0;
}

static void record(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];

    k->out[node][0] = fz_scalar(0);
    for (int i = 0; i < n->n_in && i < FZ_KEYS; i++)
        k->key[node][i] = *fz_input(k, n, i);
}

static void embed(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    const fz_val *targets = fz_input(k, n, 0);
    double objects = k->out[n->in[0].node][4].sum;
    bool absent = objects == 0 && fz_given(n->empty, FZ_EMPTY_ABSENT) == FZ_EMPTY_ABSENT;

    if (!targets->there || (absent && n->connect != 1))
        return;
    k->out[node][0] = (fz_val){ .nd = 3, .dim = { k->out[n->in[0].node][4].dim[0], 8, 4 } };
    fz_own_params(&k->out[node][0].grad, k->m, node);
    k->out[node][0] =
        fz_drawn(k, node, k->out[node][0], fz_mix(fz_bits(objects), fz_bits(k->w[node])));
}

/* What a kernel that is not exact may add. */
static double other_bit(fz_rank *k)
{
    return 0.25 * (fz_below(&k->own, 3) - 1);
}

/* A number about an evaluation: batch by batch, of this rank or of all. */
fz_end fz_score(fz_rank *k, int node, double x)
{
    const fz_node *n = &k->m->node[node];

    if (fz_joins_at_end(k->m, node)) {
        k->metric[node] += n->exact == 0 ? other_bit(k) : 0;
        return FZ_WENT_ON;
    }
    if (n->axis != FZ_NONE) {
        if (!fz_inner(k, node, n->axis, FZ_SUMMED, x))
            return FZ_WAIT;
        x = k->ask.v[0].sum;
    }
    k->metric[node] += x + (n->exact == 0 ? other_bit(k) : 0);
    return FZ_WENT_ON;
}

/* ---- a node ---------------------------------------------------------------------------------- */

static bool is_only_logged(const fz_model *m, int node)
{
    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];
        bool reads = n->when.node == node;

        for (int k = 0; k < n->n_in; k++)
            reads |= n->in[k].node == node;
        if (!n->dead && reads && n->op != FZ_LOG && !(n->op == FZ_RECORD && is_only_logged(m, i)))
            return false;
    }
    return true;
}

static fz_end act(fz_rank *k, int node) /* NOLINT(readability-function-size): a case for each op */
{
    const fz_node *n = &k->m->node[node];
    fz_val *out = &k->out[node][0];

    switch (n->op) {
    case FZ_BATCH:
        fz_stream_batch(k, node);
        break;
    case FZ_TEST:
        *out = fz_scalar(test(n, fz_input(k, n, 0)));
        break;
    case FZ_SUM:
        add_up(k, node);
        break;
    case FZ_RECORD:
        record(k, node);
        break;
    case FZ_LINEAR:
        fz_linear(k, node);
        break;
    case FZ_NORM:
        return fz_norm(k, node);
    case FZ_GRADIENT_NORM:
        *out = fz_scalar(length(gradients(k, n)));
        if (!is_only_logged(k->m, node))
            fz_compare(k, node, out->sum);
        break;
    case FZ_ALLREDUCE:
    case FZ_REDUCE:
        return fz_reduce(k, node);
    case FZ_BROADCAST:
        return fz_exchange(k, node, FZ_ROOT);
    case FZ_AGREE:
        return fz_exchange(k, node, FZ_VOTES);
    case FZ_ALLGATHER:
    case FZ_ALLGATHERV:
        return fz_exchange(k, node, FZ_GATHER);
    case FZ_BACKWARD:
        backward(k, node);
        break;
    case FZ_ADAMW:
        adamw(k, node);
        break;
    case FZ_EMA:
        ema(k, node);
        break;
    case FZ_MEAN:
        *out = fz_drawn(k, node,
                        (fz_val){ .grad = fz_input(k, n, 0)->grad, .bad = fz_input(k, n, 0)->bad },
                        fz_mix(fz_digest(fz_input(k, n, 0)), (uint64_t)node));
        out->sum = out->max = out->min = fabs(out->sum); /* of squares */
        break;
    case FZ_EMBED:
        embed(k, node);
        break;
    case FZ_NOISE:
        *out = fz_drawn(k, node, (fz_val){ .grad = fz_input(k, n, 0)->grad }, fz_roll(&k->own));
        break;
    case FZ_FIXED:
        *out = fz_scalar((double)(fz_mix(k->sim->seed, (uint64_t)node) % 3));
        break;
    case FZ_METRIC:
    case FZ_COCO:
        return fz_score(k, node, fz_input(k, n, 0)->sum);
    case FZ_USE:
        return fz_use(k, node);
    case FZ_BACKBONE:
    case FZ_ENCODER:
        return fz_backbone(k, node);
    case FZ_DECODER:
        return fz_decoder(k, node);
    case FZ_DENOISING: {
        double objects = k->batch.n ? fz_input(k, n, 0)->sum : 0;

        if (n->axis != FZ_NONE && !fz_inner(k, node, n->axis, FZ_MAX, objects))
            return FZ_WAIT;
        if (objects == 0 && fz_given(n->empty, FZ_EMPTY_ABSENT) == FZ_EMPTY_ABSENT)
            break;
        *out = fz_drawn(k, node, (fz_val){ .there = true },
                        fz_mix(fz_bits(objects), fz_moment(k, node)));
        out->bad = false;
        break;
    }
    case FZ_LOSS:
        return fz_loss(k, node);
    case FZ_DETECT:
        *out = fz_drawn(k, node, *fz_input(k, n, 0), fz_digest(fz_input(k, n, 0)));
        break;
    case FZ_RESIZE: {
        int sizes = fz_given(n->sizes, 0);
        double pick = fabs(trunc(fz_input(k, n, 1)->sum));
        static const int px[4][4] = { { 64 }, { 64, 96 }, { 64, 96 }, { 64, 96, 96, 192 } };

        k->w_px = px[sizes][(int)fmod(pick, fz_n_sizes[sizes])];
        k->h_px = k->w_px;
        break;
    }
    default: /* sources, and sinks that only look */
        if (fz_classes[n->op].flags & FZ_SCALAR)
            *out = fz_scalar(source(k, node));
    }
    return FZ_WENT_ON;
}

bool fz_elsewhere(const fz_rank *k, const fz_node *n)
{
    if (n->on != FZ_NONE && n->on != k->r)
        return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node != FZ_NONE && !fz_input_optional(n->op, i) && n->op != FZ_BROADCAST &&
            fz_elsewhere(k, &k->m->node[n->in[i].node]))
            return true;
    return false;
}

/* Are the inputs there that it cannot do without? */
static bool fed(const fz_rank *k, const fz_node *n)
{
    int there = 0;

    if (n->op == FZ_AGREE || n->op == FZ_RECORD || n->op == FZ_BROADCAST)
        return true;
    for (int i = 0; i < n->n_in; i++) {
        bool wired = n->in[i].node != FZ_NONE;
        int op = wired ? k->m->node[n->in[i].node].op : FZ_LOG;
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
    out->sum += other_bit(k);
    out->max = out->nd ? out->max + other_bit(k) : out->sum;
    out->min = out->nd ? out->min + other_bit(k) : out->sum;
    for (int i = 0; i < FZ_KEYS; i++)
        k->key[node][i].sum += k->key[node][i].there ? other_bit(k) : 0;
    for (int p = 0; p < FZ_PARAMS; p++)
        if (fz_in(&k->grads[node].has, p))
            k->grads[node].g[p] += other_bit(k);
    if (k->state_of[node] && fz_chance(&k->own, 50))
        k->state_of[node] = fz_mix(k->state_of[node], fz_roll(&k->own));
}

static void forget(fz_rank *k, int node)
{
    for (int i = 0; i < FZ_OUT; i++)
        k->out[node][i].there = false;
    for (int i = 0; i < FZ_KEYS; i++)
        k->key[node][i].there = false;
}

/* The shape at a wire: of another port or a key as it is, of a result as its node makes it. */
static fz_val shape_at(const fz_rank *k, fz_wire w, fz_val otherwise)
{
    if (w.node == FZ_NONE)
        return otherwise;
    return w.port > 0 || w.key != FZ_NONE ? *fz_at(k, w) : fz_shape_of(k, w.node);
}

/* The shape of a node's result, whether it has fired or not. */
fz_val fz_shape_of(const fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    fz_val v = k->out[node][0];

    if (n->op == FZ_LINEAR || n->op == FZ_NORM || n->op == FZ_SUM)
        v = shape_at(k, n->in[0], v);
    if (n->op == FZ_LINEAR && v.nd)
        v.dim[v.nd - 1] = fz_given(n->width, 8);
    if (n->op == FZ_EMBED) {
        v.nd = 3;
        v.dim[0] = k->out[n->in[0].node][4].dim[0];
        v.dim[1] = 8;
        v.dim[2] = 4;
    }
    if (n->op == FZ_USE)
        v = shape_at(k, n->in[0], v);
    for (int i = 0; n->op == FZ_USE && i < k->m->n_nodes; i++) { /* its nodes are a chain */
        const fz_node *inner = &k->m->node[i];

        if (inner->scope == FZ_IN_MODEL + n->model && inner->op == FZ_LINEAR && !inner->dead &&
            v.nd)
            v.dim[v.nd - 1] = fz_given(inner->width, 8);
    }
    if (n->op == FZ_LOSS || n->op == FZ_MEAN)
        v.nd = 0;
    return v;
}

/* connect="zero": zeros in the place of what does not fire. */
static void fill(fz_rank *k, int node)
{
    const fz_model *m = k->m;
    const fz_node *n = &m->node[node];
    fz_val zero = { .there = true, .grad = fz_connections(k, n) }, shape = fz_shape_of(k, node);

    fz_own_params(&zero.grad, m, node);
    if (n->op == FZ_USE)
        fz_model_params(&zero.grad, m, n);
    zero.nd = shape.nd;
    memcpy(zero.dim, shape.dim, sizeof zero.dim);
    for (int i = 0; i < FZ_OUT; i++)
        k->out[node][i] = zero;
    for (int i = 0; n->op == FZ_LOSS && i < 3; i++)
        k->key[node][i] = zero;
}

/* The same for the keys of a record. */
static void fill_keys(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    bool fires = fz_guard(k, n) && (n->on == FZ_NONE || n->on == k->r);

    for (int i = 0; i < n->n_in && i < FZ_KEYS; i++) {
        fz_val zero = fz_shape_of(k, n->in[i].node);

        if (k->key[node][i].there && fires)
            continue;
        k->key[node][i] = (fz_val){ .there = true, .nd = zero.nd };
        memcpy(k->key[node][i].dim, zero.dim, sizeof zero.dim);
    }
}

fz_end fz_fire(fz_rank *k, int node)
{
    const fz_model *m = k->m;
    const fz_node *n = &m->node[node];
    bool guard = fz_guard(k, n), here = n->on == FZ_NONE || n->on == k->r;
    bool data = fz_classes[n->op].flags & FZ_DATA && n->op != FZ_BATCH;
    fz_end end;

    if (!k->answered)
        forget(k, node);
    if (data && n->op != FZ_RESIZE)
        return guard && here ? FZ_WENT_ON : FZ_LOST_BATCH;
    if (n->op == FZ_RECORD && n->connect == 1 && (n->when.node != FZ_NONE || n->on != FZ_NONE)) {
        record(k, node);
        fill_keys(k, node);
        return FZ_WENT_ON;
    }
    if (!here || !guard || !fed(k, n)) {
        if (n->connect == 1 && fz_classes[n->op].flags & FZ_TENSOR_OP)
            fill(k, node);
        return data ? FZ_LOST_BATCH : FZ_WENT_ON;
    }
    end = act(k, node);
    if (end == FZ_WENT_ON && n->exact == 0)
        disturb(k, node);
    return end;
}
