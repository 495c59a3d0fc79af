/* fuzz_draw.c: draws a pipeline. Parts are put together as people write them, with operands and
 * guards that are mostly safe to use (always there, the same on all ranks, of a steady size, as
 * far as this file can tell); then, in half of the pipelines, something is spoiled. */
#include <math.h>
#include <string.h>

#include "tests/invariance/fuzz_draw.h"

/* A wire that may be used, and what is believed of it. */
typedef struct offer {
    fz_wire wire;
    int     type;   /* FZ_T_INT, FZ_T_REAL, FZ_T_TENSOR, FZ_T_LABELS, FZ_T_RECORD */
    int     family; /* tensors of one family have one shape */
    bool    same, sure, steady, trained;
} offer;

typedef struct drawer {
    fz_model *m;
    fz_dice   dice, *d;
    int       scope, loop, n_offers, n_losses, batch;
    offer     offers[FZ_NODES * 2];
    fz_wire   losses[FZ_IN];
    bool      steady;     /* image sizes are the same on all ranks */
    int       everywhere; /* the mask of all axes */
} drawer;

static fz_wire wire(int node, int port)
{
    return (fz_wire){ node, port, FZ_NONE };
}

static int last(const drawer *w)
{
    return w->m->n_nodes - 1;
}

static fz_node *add(drawer *w, int op)
{
    fz_node *n = fz_model_add(w->m, op, w->scope);

    if (n)
        n->loop = w->loop;
    return n;
}

static void propose(drawer *w, offer o)
{
    if (w->n_offers < FZ_NODES * 2)
        w->offers[w->n_offers++] = o;
}

/* A random offer of one of the types (bits); legal: same, or sure, or steady, if there is any. */
enum { WANT_SAME = 1, WANT_SURE = 2, WANT_STEADY = 4 };
static const offer *choose(drawer *w, uint32_t types, int want)
{
    const offer *best = NULL;
    int          seen = 0;

    if (fz_chance(w->d, 3))
        want = 0;
    for (int pass = 0; pass < 2 && !seen; pass++)
        for (int i = 0; i < w->n_offers; i++) {
            const offer *o = &w->offers[i];

            if (!(types >> o->type & 1))
                continue;
            if (pass == 0 && ((want & WANT_SAME && !o->same) || (want & WANT_SURE && !o->sure) ||
                              (want & WANT_STEADY && !o->steady)))
                continue;
            if (fz_below(w->d, ++seen) == 0)
                best = o;
        }
    return best;
}

#define T(x) (1u << FZ_T_##x)
enum { SCALARS = 1u << FZ_T_INT | 1u << FZ_T_REAL, TENSORS = 1u << FZ_T_TENSOR };

/* --- data -------------------------------------------------------------------------------------- */

static int stream(drawer *w, int op, int in)
{
    fz_node *n = add(w, op);

    if (n && in != FZ_NONE)
        n->in[0] = wire(in, 0);
    return n ? last(w) : in;
}

static int partition(drawer *w, int in)
{
    int      at = stream(w, FZ_PARTITION, in);
    fz_node *n = &w->m->node[at];

    n->axis = FZ_DP;
    n->equal = fz_chance(w->d, 93) ? 1 + fz_below(w->d, 2) : fz_chance(w->d, 50) ? FZ_NONE : FZ_EQ_NONE;
    n->aligned = fz_chance(w->d, 20) ? 1 : FZ_NONE;
    if (fz_chance(w->d, 30)) {
        n->shuffle = 1;
        n->seed = fz_chance(w->d, 93) ? FZ_SEED_SHARED : FZ_NONE;
    }
    return at;
}

static int sampler(drawer *w, int in, bool deals)
{
    int      at = stream(w, fz_chance(w->d, deals ? 20 : 75) ? FZ_PLAIN : FZ_SAMPLER, in);
    fz_node *n = &w->m->node[at];

    w->batch = n->batch = fz_chance(w->d, 15) ? 1 : 2;
    n->sizes = n->op == FZ_PLAIN ? 0 : deals ? fz_below(w->d, 4) : 2 + fz_below(w->d, 2);
    n->tail = fz_chance(w->d, 94) ? fz_below(w->d, 2) : fz_chance(w->d, 50) ? FZ_NONE : FZ_TAIL_KEEP;
    if (deals)
        n->axis = FZ_DP;
    if (fz_chance(w->d, 20))
        n->shuffle = fz_below(w->d, 2);
    if (fz_chance(w->d, 10))
        n->seed = fz_chance(w->d, 80) ? FZ_SEED_SHARED : FZ_SEED_RANK;
    if (fz_chance(w->d, 8) && w->scope == FZ_IN_TRAIN && w->m->steps)
        n->repeat = 1;
    w->steady = deals || n->sizes == 0;
    return at;
}

static int augment(drawer *w, int in)
{
    int at = stream(w, FZ_AUGMENT, in);

    if (fz_chance(w->d, 50))
        w->m->node[at].seed = fz_below(w->d, 3);
    return at;
}

static int resize(drawer *w, int in)
{
    int          at;
    fz_node     *n;
    const offer *size = choose(w, SCALARS, WANT_SAME | WANT_SURE);

    if (!size)
        return in;
    at = stream(w, FZ_RESIZE, in);
    n = &w->m->node[at];
    n->in[1] = size->wire;
    n->sizes = 1;
    w->steady = size->same;
    return at;
}

static void offer_batch(drawer *w, int at)
{
    propose(w, (offer){ wire(at, 0), FZ_T_TENSOR, 1, false, true, w->steady, false });
    propose(w, (offer){ wire(at, 3), FZ_T_TENSOR, 2, false, true, true, false });
    propose(w, (offer){ wire(at, 4), FZ_T_LABELS, 3, false, true, true, false });
}

static int equalize(drawer *w, int in)
{
    int at = stream(w, FZ_EQUALIZE, in);

    w->m->node[at].axis = w->everywhere;
    return at;
}

/* What happens to a data set before it is sampled. */
static int choose_items(drawer *w, int at)
{
    if (fz_chance(w->d, 15))
        at = stream(w, FZ_FILTER, at);
    at = partition(w, at);
    if (fz_chance(w->d, 30)) {
        at = stream(w, FZ_FILTER, at);
        if (fz_chance(w->d, 85))
            at = equalize(w, at);
    } else if (fz_chance(w->d, 25)) {
        at = equalize(w, at);
    }
    return at;
}

/* What happens to samples. */
static int change_samples(drawer *w, int at)
{
    for (int i = fz_below(w->d, 3); i > 0; i--) {
        int k = fz_below(w->d, 100);

        if (k < 72)
            at = augment(w, at);
        else if (k < 87)
            at = resize(w, at);
        else if (k < 97) {
            at = stream(w, k < 92 ? FZ_CROP : FZ_FILTER, at);
            if (fz_chance(w->d, 80))
                at = equalize(w, at);
        } else {
            at = stream(w, FZ_BROADCAST, at);
            w->m->node[at].axis = FZ_DP;
        }
    }
    return at;
}

static void data(drawer *w)
{
    int at = stream(w, FZ_LOADER, FZ_NONE), kind = fz_below(w->d, 100);

    w->m->node[at].images = 64;
    if (fz_chance(w->d, 4))
        w->m->node[at].files = 1;
    if (kind < 50) {
        if (fz_chance(w->d, 15))
            at = stream(w, FZ_FILTER, at);
        at = sampler(w, at, true);
    } else if (kind < 88) {
        at = sampler(w, choose_items(w, at), false);
        if (w->m->node[at].op == FZ_SAMPLER ? fz_chance(w->d, 80) : fz_chance(w->d, 10))
            at = equalize(w, at);
    } else {
        at = sampler(w, at, false); /* every rank sees all */
        if (fz_chance(w->d, 40))
            at = partition(w, at);
    }
    at = change_samples(w, at);
    at = stream(w, FZ_BATCH, at);
    offer_batch(w, at);
}

/* --- numbers ----------------------------------------------------------------------------------- */

static void source(drawer *w)
{
    static const int ops[] = { FZ_NUMBER, FZ_NUMBER, FZ_STEP, FZ_EPOCH, FZ_RANDOM, FZ_RANDOM, FZ_RANDOM, FZ_RANK,
                               FZ_CLOCK, FZ_MEMORY, FZ_FILE };
    int      op = ops[fz_below(w->d, 11)];
    fz_node *n = add(w, op);
    bool     same = op == FZ_NUMBER || op == FZ_STEP || op == FZ_EPOCH;

    if (!n)
        return;
    if (op == FZ_NUMBER)
        n->value = fz_below(w->d, 4);
    if (op == FZ_RANDOM) {
        n->seed = fz_chance(w->d, 50) ? FZ_SEED_SHARED : fz_chance(w->d, 50) ? FZ_SEED_RANK : FZ_NONE;
        n->low = -1;
        n->high = 1 + fz_below(w->d, 3);
        same = n->seed == FZ_SEED_SHARED;
    }
    propose(w, (offer){ wire(last(w), 0), op == FZ_RANDOM || op == FZ_CLOCK || op == FZ_NUMBER || op == FZ_MEMORY
                                              ? FZ_T_REAL : FZ_T_INT, 0, same, true, true, false });
}

static void guard(drawer *w, fz_node *n, bool *same, bool *sure, int percent)
{
    const offer *g;

    if (!fz_chance(w->d, percent))
        return;
    g = choose(w, SCALARS, WANT_SAME);
    if (!g)
        return;
    n->when = g->wire;
    *same &= g->same;
    *sure &= false;
}

static void test(drawer *w)
{
    const offer *in = choose(w, SCALARS | TENSORS | T(LABELS), 0);
    fz_node     *n = in ? add(w, FZ_TEST) : NULL;
    bool         same, sure;

    if (!n)
        return;
    same = in->same;
    sure = in->sure;
    n->in[0] = in->wire;
    n->is = in->trained || in->type == FZ_T_REAL ? fz_below(w->d, 6) : fz_below(w->d, 2) ? fz_below(w->d, 2) : FZ_ABOVE;
    if (n->is >= FZ_ABOVE)
        n->than = in->type == FZ_T_LABELS ? fz_below(w->d, 2) : 0.25 * fz_below(w->d, 4);
    guard(w, n, &same, &sure, 8);
    propose(w, (offer){ wire(last(w), 0), FZ_T_INT, 0, same, sure, true, false });
}

static int some_axis(drawer *w)
{
    if (w->everywhere == FZ_DP || fz_chance(w->d, 70))
        return w->everywhere;
    return fz_chance(w->d, 60) ? FZ_DP : FZ_TP;
}

static void collective(drawer *w)
{
    static const int ops[] = { FZ_AGREE, FZ_AGREE, FZ_ALLREDUCE, FZ_ALLREDUCE, FZ_BROADCAST, FZ_REDUCE, FZ_ALLGATHER };
    int          op = ops[fz_below(w->d, 7)];
    const offer *in = choose(w, op == FZ_AGREE ? T(INT) : op == FZ_ALLGATHER ? TENSORS : SCALARS | TENSORS | T(LABELS),
                             op == FZ_AGREE ? 0 : WANT_SURE | WANT_STEADY);
    offer        from;
    fz_node     *n = in ? add(w, op) : NULL;
    bool         same = true, sure = true;

    if (!n)
        return;
    from = *in;
    n->in[0] = from.wire;
    n->axis = some_axis(w);
    if (op == FZ_AGREE)
        n->how = fz_chance(w->d, 70) ? FZ_ANY + fz_below(w->d, 2) : FZ_MAX + fz_below(w->d, 2);
    else if (op == FZ_ALLREDUCE || op == FZ_REDUCE)
        n->how = from.type == FZ_T_INT || from.type == FZ_T_LABELS ? FZ_MAX + fz_below(w->d, 2) : fz_below(w->d, 4);
    if (n->how == FZ_SUMMED && from.same)
        n->how = FZ_MAX;
    guard(w, n, &same, &sure, 15);
    propose(w, (offer){ wire(last(w), 0), from.type, op == FZ_ALLGATHER ? 100 + last(w) : from.family,
                        same && op != FZ_REDUCE && n->axis == w->everywhere, sure && (from.sure || op == FZ_AGREE),
                        from.steady, false });
}

/* --- layers ------------------------------------------------------------------------------------ */

static void layer(drawer *w)
{
    const offer *in = choose(w, TENSORS, WANT_SURE);
    int          kind = fz_below(w->d, 100);
    offer        from, out;
    fz_node     *n;
    bool         sure, same;

    if (!in)
        return;
    from = *in;
    n = add(w, kind < 50 ? FZ_LINEAR : kind < 65 ? FZ_NORM : kind < 80 ? FZ_EMBED : kind < 92 ? FZ_SUM : FZ_NOISE);
    if (!n)
        return;
    sure = from.sure;
    same = from.same;
    out = (offer){ wire(last(w), 0), FZ_T_TENSOR, from.family, same, sure, from.steady, true };
    switch (n->op) {
    case FZ_LINEAR:
        n->in[0] = from.wire;
        n->width = 4 * (1 + fz_below(w->d, 2));
        out.family = from.family * 16 + n->width;
        break;
    case FZ_NORM: {
        const offer *count = fz_chance(w->d, 60) ? choose(w, T(LABELS), WANT_SURE) : NULL;

        n->in[0] = from.wire;
        if (count && count->family == 3)
            n->in[1] = count->wire;
        n->norm = fz_chance(w->d, 94) ? FZ_SYNC_NORM : FZ_NONE;
        n->empty = fz_chance(w->d, 94) ? FZ_EMPTY_ZERO : FZ_NONE;
        break;
    }
    case FZ_EMBED: {
        int batch = FZ_NONE;

        for (int i = 0; i < w->m->n_nodes; i++)
            if (w->m->node[i].op == FZ_BATCH && w->m->node[i].scope == w->scope)
                batch = i;
        n->in[0] = wire(batch, 1);
        n->empty = fz_chance(w->d, 92) ? FZ_EMPTY_ZERO : FZ_EMPTY_ABSENT;
        sure = n->empty == FZ_EMPTY_ZERO;
        out.family = 2;
        out.steady = true;
        break;
    }
    case FZ_SUM:
        n->n_in = 0;
        for (int i = 0; i < w->n_offers && n->n_in < 2; i++)
            if (w->offers[i].family == from.family && w->offers[i].type == FZ_T_TENSOR) {
                strcpy(n->name[n->n_in], n->n_in ? "b" : "a");
                sure |= w->offers[i].sure;
                out.trained |= w->offers[i].trained;
                n->in[n->n_in++] = w->offers[i].wire;
            }
        break;
    default: /* noise: a number */
        n->in[0] = from.wire;
        out.type = FZ_T_REAL;
        out.family = 0;
        out.same = false;
        out.steady = true;
    }
    if (n->op != FZ_SUM && fz_chance(w->d, 4))
        n->frozen = 1;
    guard(w, n, &same, &sure, 12);
    if (n->when.node != FZ_NONE && fz_chance(w->d, 35)) {
        n->connect = 1;
        sure = from.sure;
    }
    out.sure = sure;
    propose(w, out);
}

static void mean(drawer *w, const offer *in)
{
    fz_node *n = add(w, FZ_MEAN);
    bool     same, sure;

    if (!n)
        return;
    same = in->same;
    sure = in->sure;
    n->in[0] = in->wire;
    guard(w, n, &same, &sure, 8);
    if (n->when.node != FZ_NONE && fz_chance(w->d, 60)) {
        n->connect = 1;
        sure = in->sure;
    }
    propose(w, (offer){ wire(last(w), 0), FZ_T_REAL, 0, same, sure, true, true });
    if (w->n_losses < FZ_IN)
        w->losses[w->n_losses++] = wire(last(w), 0);
}

static void record(drawer *w)
{
    fz_node *n;
    int      n_keys = 1 + fz_below(w->d, 3), r;
    bool     sure = true;

    n = add(w, FZ_RECORD);
    if (!n)
        return;
    r = last(w);
    n->n_in = 0;
    for (int k = 0; k < n_keys; k++) {
        const offer *in = choose(w, T(REAL), WANT_SURE);

        if (!in)
            continue;
        snprintf(n->name[n->n_in], FZ_ID, "loss_%c", 'a' + k);
        n->in[n->n_in++] = in->wire;
        sure &= in->sure;
    }
    if (!n->n_in) {
        n->dead = true;
        return;
    }
    if (fz_chance(w->d, 85)) {
        n = add(w, FZ_ALLREDUCE);
        if (!n)
            return;
        n->in[0] = wire(r, 0);
        n->axis = w->everywhere;
        r = last(w);
        if (fz_chance(w->d, 50))
            propose(w, (offer){ { r, 0, 0 }, FZ_T_REAL, 0, true, sure, true, false });
    }
    n = add(w, FZ_LOG);
    if (n)
        n->in[0] = wire(r, 0);
}

static void leave(drawer *w)
{
    const offer *g = choose(w, SCALARS, WANT_SAME);
    fz_node     *n;

    /* what is always so says little */
    if (!g || (w->m->node[g->wire.node].op == FZ_NUMBER && fz_chance(w->d, 90)))
        return;
    n = add(w, fz_chance(w->d, 60) ? FZ_SKIP : FZ_STOP);
    if (n)
        n->when = g->wire;
}

static void body(drawer *w, int n_nodes);

static void loop(drawer *w)
{
    const offer *count = fz_chance(w->d, 60) ? choose(w, SCALARS, WANT_SAME | WANT_SURE) : NULL;
    fz_node     *n = add(w, FZ_LOOP);
    int          outer = w->loop, before = w->n_offers;

    if (!n)
        return;
    if (count)
        n->in[0] = count->wire;
    else
        n->times = 1 + fz_below(w->d, 3);
    w->loop = last(w);
    body(w, 1 + fz_below(w->d, 4));
    w->loop = outer;
    if (fz_chance(w->d, 50))
        w->n_offers = before;
    for (int i = before; i < w->n_offers; i++)
        w->offers[i].sure = !count;
}

static void body(drawer *w, int n_nodes)
{
    while (n_nodes-- > 0 && w->m->n_nodes < FZ_NODES - 30) {
        int k = fz_below(w->d, 100);

        if (k < 18)
            source(w);
        else if (k < 40)
            test(w);
        else if (k < 64)
            collective(w);
        else if (k < 85 && w->loop == FZ_NONE && w->scope == FZ_IN_TRAIN)
            layer(w);
        else if (k < 91 && w->scope == FZ_IN_TRAIN)
            record(w);
        else if (k < 95)
            leave(w);
        else if (w->loop == FZ_NONE || w->m->node[w->loop].loop == FZ_NONE)
            loop(w);
    }
}

/* --- a step of training ------------------------------------------------------------------------ */

/* Makes losses of the layers' outputs that nobody uses. */
static void gather_losses(drawer *w)
{
    int before = w->n_offers;

    for (int i = 0; i < before; i++) {
        const offer *o = &w->offers[i];
        bool         used = false;

        if (!o->trained || o->type != FZ_T_TENSOR)
            continue;
        for (int k = 0; k < w->m->n_nodes; k++) {
            const fz_node *n = &w->m->node[k];

            for (int j = 0; j < n->n_in; j++)
                used |= n->in[j].node == o->wire.node && !(fz_classes[n->op].flags & FZ_COLLECTIVE) &&
                        n->op != FZ_TEST && n->op != FZ_NOISE && n->op != FZ_LOG;
        }
        if (!used && w->n_losses < FZ_IN && !fz_chance(w->d, 3))
            mean(w, o);
        else if (!used && fz_chance(w->d, 80))
            w->m->node[o->wire.node].frozen = fz_classes[w->m->node[o->wire.node].op].flags & FZ_TRAINED ? 1 : FZ_NONE;
    }
}

/* Is there a trained layer among what the losses come from? Then the engine differentiates them. */
static bool learns(const drawer *w)
{
    bool from[FZ_NODES] = { false }, some = false;

    for (int i = 0; i < w->n_losses; i++)
        from[w->losses[i].node] = true;
    for (int i = w->m->n_nodes - 1; i >= 0; i--) {
        const fz_node *n = &w->m->node[i];

        if (!from[i] || n->op == FZ_TEST || fz_classes[n->op].flags & FZ_COLLECTIVE)
            continue;
        some |= n->op == FZ_USE || (fz_classes[n->op].flags & FZ_TRAINED && n->frozen != 1);
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].node != FZ_NONE)
                from[n->in[k].node] = true;
    }
    return some;
}

static void step_of_training(drawer *w)
{
    fz_wire  loss, gradients;
    fz_node *n;

    if (!w->n_losses || !learns(w)) {
        for (int i = 0; i < w->m->n_nodes; i++)
            if (fz_classes[w->m->node[i].op].flags & FZ_TRAINED)
                w->m->node[i].frozen = 1;
        return;
    }
    loss = w->losses[0];
    if (w->n_losses > 1) {
        n = add(w, FZ_SUM);
        if (!n)
            return;
        n->n_in = 0;
        for (int i = 0; i < w->n_losses; i++) {
            snprintf(n->name[n->n_in], FZ_ID, "l%d", i);
            n->in[n->n_in++] = w->losses[i];
        }
        loss = wire(last(w), 0);
    }
    if (fz_chance(w->d, 15)) { /* a loss that is not finite is left out, by all or by one */
        fz_node *bad = add(w, FZ_TEST), *vote, *skip;
        int      at = last(w);

        if (!bad)
            return;
        bad->in[0] = loss;
        bad->is = FZ_NONFINITE;
        if (fz_chance(w->d, 75) && (vote = add(w, FZ_AGREE))) {
            vote->in[0] = wire(at, 0);
            vote->how = FZ_ANY;
            vote->axis = w->everywhere;
            at = last(w);
        }
        if ((skip = add(w, FZ_SKIP)))
            skip->when = wire(at, 0);
    }
    n = add(w, FZ_BACKWARD);
    if (!n)
        return;
    n->in[0] = loss;
    gradients = wire(last(w), 0);
    if (fz_chance(w->d, 95) && (n = add(w, FZ_ALLREDUCE))) {
        n->in[0] = gradients;
        n->axis = fz_chance(w->d, 80) ? FZ_DP : w->everywhere;
        if (fz_chance(w->d, 97))
            gradients = wire(last(w), 0);
    }
    if (fz_chance(w->d, 15) && (n = add(w, FZ_GRADIENT_NORM))) {
        n->in[0] = fz_chance(w->d, 80) ? gradients : wire(gradients.node - 1, 0);
        if (w->m->node[n->in[0].node].op != FZ_BACKWARD)
            n->in[0] = gradients;
        n = add(w, FZ_ADAMW);
        if (n)
            n->in[1] = wire(last(w) - 1, 0);
    } else {
        n = add(w, FZ_ADAMW);
    }
    if (!n)
        return;
    n->in[0] = gradients;
    if (fz_chance(w->d, 30) && (n = add(w, FZ_EMA)))
        n->in[0] = wire(last(w) - 1, 0);
}

/* --- the detector ------------------------------------------------------------------------------ */

static void detector_model(drawer *w)
{
    fz_model *m = w->m;
    fz_node  *n;
    int       scope = w->scope, bb, norm = fz_chance(w->d, 85) ? FZ_SYNC_NORM : FZ_NONE;

    w->scope = FZ_IN_MODEL;
    m->n_models = 1;
    strcpy(m->model_id[0], "detr");
    strcpy(add(w, FZ_INPUT)->id, "images");
    n = add(w, FZ_INPUT);
    strcpy(n->id, "denoising");
    n->optional = 1;
    n = add(w, FZ_BACKBONE);
    bb = last(w);
    n->in[0] = wire(0, 0);
    n->norm = norm;
    if (fz_chance(w->d, 10))
        n->frozen = 1;
    n = add(w, FZ_ENCODER);
    n->norm = fz_chance(w->d, 95) ? norm : FZ_NONE;
    for (int i = 0; i < 3; i++)
        n->in[i] = wire(bb, i);
    n = add(w, FZ_DECODER);
    n->in[0] = wire(bb + 1, 0);
    n->in[1] = wire(1, 0);
    n->norm = fz_chance(w->d, 95) ? norm : FZ_NONE;
    w->scope = scope;
}

static void detector_step(drawer *w, int batch)
{
    fz_node *n;
    int      dn = FZ_NONE, out, objects = FZ_NONE, loss;
    bool     same = true, sure = true;

    if (fz_chance(w->d, 85)) {
        n = add(w, FZ_DENOISING);
        dn = last(w);
        n->in[0] = wire(batch, 1);
        n->empty = fz_chance(w->d, 80) ? FZ_EMPTY_PAD : FZ_NONE;
        n->axis = fz_chance(w->d, 90) ? FZ_DP : FZ_NONE;
        guard(w, n, &same, &sure, 15);
    }
    n = add(w, FZ_USE);
    out = last(w);
    n->model = 0;
    n->n_in = 2;
    n->in[0] = wire(batch, 0);
    if (dn != FZ_NONE)
        n->in[1] = wire(dn, 0);
    if (fz_chance(w->d, 25) && (n = add(w, FZ_ALLREDUCE))) {
        objects = last(w);
        n->in[0] = wire(batch, 4);
        n->axis = FZ_DP;
        n->how = FZ_SUMMED;
    }
    n = add(w, FZ_LOSS);
    loss = last(w);
    n->in[0] = wire(out, 0);
    n->in[1] = wire(batch, 1);
    if (objects != FZ_NONE)
        n->in[2] = wire(objects, 0);
    else if (fz_chance(w->d, 90))
        n->axis = FZ_DP;
    else if (fz_chance(w->d, 50))
        n->in[2] = wire(batch, 4);
    if (fz_chance(w->d, 8))
        n->empty = FZ_EMPTY_ABSENT;
    if (fz_chance(w->d, 5))
        n->terms = FZ_TERMS_ALL + fz_below(w->d, 3);
    if (fz_chance(w->d, 60) && (n = add(w, FZ_ALLREDUCE))) {
        n->in[0] = wire(loss, 1);
        n->axis = FZ_DP;
    }
    w->losses[w->n_losses++] = wire(loss, 0);
}

/* --- evaluation -------------------------------------------------------------------------------- */

static void evaluation(drawer *w)
{
    fz_model *m = w->m;
    int       kind = fz_below(w->d, 100), batch;
    fz_node  *n;

    m->evaluates = 1;
    if (kind < 60)
        m->every_epochs = 1;
    else if (kind < 85)
        m->every_steps = 2 + fz_below(w->d, 3);
    else
        m->every_minutes = 10;
    if (!m->every_epochs && !m->every_steps && fz_chance(w->d, 70)) {
        m->every_minutes = 0;
        m->every_epochs = 1;
    }
    if (fz_chance(w->d, 20)) {
        m->eval_on = 0;
        m->eval_budget = 5;
    }
    w->scope = FZ_IN_EVALUATE;
    w->n_offers = 0;
    data(w);
    batch = last(w);
    body(w, fz_below(w->d, 4));
    n = add(w, FZ_METRIC);
    if (!n)
        return;
    n->in[0] = wire(batch, 3);
    n->axis = fz_chance(w->d, 70) && m->eval_on == FZ_NONE ? w->everywhere : FZ_NONE;
    if (fz_chance(w->d, 60)) {
        m->best = wire(last(w), 0);
        if (fz_chance(w->d, 40) && m->every_epochs)
            m->patience = 1;
        else if (fz_chance(w->d, 4))
            m->patience_minutes = 10;
        if ((m->patience || m->patience_minutes) && !m->steps)
            m->epochs = 4;
    }
}

/* --- spoiling ---------------------------------------------------------------------------------- */

void fz_remove(fz_model *m, int node)
{
    m->node[node].dead = true;
    if (m->best.node == node)
        m->best.node = FZ_NONE;
    for (int i = 0; i < m->n_nodes; i++) {
        fz_node *n = &m->node[i];
        int      left = 0;

        if (n->dead)
            continue;
        if (n->when.node == node) {
            n->when.node = FZ_NONE;
            if (n->op == FZ_SKIP || n->op == FZ_STOP) {
                fz_remove(m, i);
                continue;
            }
        }
        if (n->loop == node)
            fz_remove(m, i);
        for (int k = 0; k < n->n_in && !n->dead; k++) {
            if (n->in[k].node == node) {
                n->in[k].node = FZ_NONE;
                if (!fz_input_optional(n->op, k) || n->op == FZ_LOOP)
                    fz_remove(m, i);
            }
            left += n->in[k].node != FZ_NONE;
        }
        if (!n->dead && fz_classes[n->op].flags & FZ_ANY_NAMES && !left)
            fz_remove(m, i);
    }
}

void fz_bypass(fz_model *m, int node)
{
    fz_wire from = m->node[node].in[0];

    for (int i = 0; i < m->n_nodes; i++) {
        fz_node *n = &m->node[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].node == node)
                n->in[k] = (fz_wire){ from.node, from.port, n->in[k].key };
        if (n->when.node == node)
            n->when = (fz_wire){ from.node, from.port, n->when.key };
    }
    m->node[node].dead = true;
}

static bool on_the_way(int op)
{
    return op == FZ_AGREE || op == FZ_BROADCAST || op == FZ_EQUALIZE || op == FZ_REDUCE || op == FZ_ALLREDUCE;
}

static void spoil_node(drawer *w, fz_node *n, int i)
{
    static const int word[] = { FZ_NONE, FZ_NONE, 0, 1 };

    switch (fz_below(w->d, 8)) {
    case 0:
        if (on_the_way(n->op))
            fz_bypass(w->m, i);
        return;
    case 1: n->equal = n->op == FZ_PARTITION ? word[fz_below(w->d, 3)] : FZ_NONE; return;
    case 2:
        if (n->op == FZ_SAMPLER || n->op == FZ_PLAIN)
            n->tail = FZ_NONE;
        if (n->op == FZ_SAMPLER || n->op == FZ_PLAIN || n->op == FZ_PARTITION || n->op == FZ_RANDOM || n->op == FZ_AUGMENT)
            n->seed = FZ_SEED_RANK;
        return;
    case 3:
        if (n->op == FZ_NORM || n->op == FZ_EMBED || n->op == FZ_DENOISING)
            n->empty = FZ_NONE;
        n->connect = FZ_NONE;
        return;
    case 4:
        if (!(fz_classes[n->op].flags & FZ_DATA) && n->scope < FZ_IN_MODEL) {
            n->on = fz_below(w->d, 2);
            n->budget = 5;
        }
        return;
    case 5:
        if (n->op == FZ_NORM || n->op == FZ_BACKBONE)
            n->norm = FZ_NONE;
        if (fz_classes[n->op].flags & FZ_COLLECTIVE && w->m->tp > 1)
            n->axis = fz_chance(w->d, 50) ? FZ_DP : FZ_TP;
        return;
    case 6:
        if (fz_classes[n->op].flags & FZ_TENSOR_OP && n->scope < FZ_IN_MODEL)
            n->exact = 0;
        return;
    default:
        if (fz_classes[n->op].flags & FZ_TENSOR_OP && n->scope == FZ_IN_TRAIN && fz_chance(w->d, 30))
            n->on_fail = fz_below(w->d, 3);
        else if (fz_classes[n->op].flags & FZ_TENSOR_OP && n->scope == FZ_IN_TRAIN && fz_chance(w->d, 20))
            n->device = FZ_DEV_CUDA1;
    }
}

static bool equalized(const fz_model *m, int scope)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == scope && m->node[i].op == FZ_EQUALIZE && !m->node[i].dead)
            return true;
    return false;
}

/* A guard that comes from before the node. */
static void spoil_guard(drawer *w, fz_node *n, int i)
{
    for (int tries = 0; tries < 20; tries++) {
        int      at = fz_below(w->d, w->m->n_nodes);
        fz_node *g = &w->m->node[at];
        bool     scalar = fz_classes[g->op].flags & FZ_SCALAR || g->op == FZ_TEST || g->op == FZ_MEAN;

        /* what comes before the sampler is done once an epoch; what equalize counts has no guards */
        if (fz_classes[n->op].flags & FZ_DATA && (n->op < FZ_AUGMENT || equalized(w->m, n->scope)))
            return;
        if (at < i && scalar && g->scope == n->scope && !g->dead && n->op != FZ_LOADER && n->scope < FZ_IN_MODEL &&
            n->op != FZ_SKIP && n->op != FZ_STOP && n->op != FZ_BATCH) {
            n->when = wire(at, 0);
            return;
        }
    }
}

static void spoil(drawer *w)
{
    fz_model *m = w->m;

    for (int tries = 0; tries < 4; tries++) {
        int      i = fz_below(w->d, m->n_nodes);
        fz_node *n = &m->node[i];

        if (n->dead)
            continue;
        if (fz_chance(w->d, 15))
            spoil_guard(w, n, i);
        else if (fz_chance(w->d, 4))
            m->on_fail = FZ_LEAVE_OUT;
        else
            spoil_node(w, n, i);
    }
}

/* --- a pipeline -------------------------------------------------------------------------------- */

static void mesh(drawer *w)
{
    fz_model *m = w->m;

    if (fz_chance(w->d, 18))
        m->tp = 2;
    w->everywhere = m->tp > 1 ? FZ_DP | FZ_TP : FZ_DP;
    if (fz_chance(w->d, 5))
        m->order = FZ_READY;
    if (fz_chance(w->d, 10)) {
        m->devices = FZ_GPU_EACH + fz_below(w->d, 3);
        m->share_gpu = m->devices == FZ_GPU_ONE && fz_chance(w->d, 50) ? 1 : FZ_NONE;
    }
    if (fz_chance(w->d, 40))
        m->steps = 5 + fz_below(w->d, 4);
    if (fz_chance(w->d, 8))
        m->capture = fz_below(w->d, 3);
    if (fz_chance(w->d, 5))
        m->on_fail = fz_below(w->d, 2);
}

static bool learned(const fz_model *m)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].op == FZ_BACKWARD)
            return true;
    return false;
}

void fz_draw(fz_model *m, uint64_t seed)
{
    drawer w = { .m = m, .dice = { fz_mix(seed, 4711), 0 }, .scope = FZ_IN_TRAIN, .loop = FZ_NONE };
    bool   detector;

    w.d = &w.dice;
    fz_model_clear(m);
    mesh(&w);
    detector = fz_chance(w.d, 5);
    if (detector)
        detector_model(&w);
    for (int i = fz_below(w.d, 3); i > 0; i--)
        source(&w);
    data(&w);
    if (detector) {
        body(&w, fz_below(w.d, 3));
        for (int i = 0; i < m->n_nodes; i++)
            if (m->node[i].op == FZ_BATCH) {
                detector_step(&w, i);
                break;
            }
    } else {
        body(&w, 2 + fz_below(w.d, 10));
        if (fz_chance(w.d, 95)) {
            gather_losses(&w);
            for (int tries = 0; tries < 8 && !learns(&w); tries++) {
                layer(&w);
                gather_losses(&w);
            }
        }
    }
    step_of_training(&w);
    if (fz_chance(w.d, 25)) {
        int before = m->n_nodes;

        body(&w, 1 + fz_below(w.d, 3));
        for (int i = before; i < m->n_nodes; i++) /* too late to learn anything */
            if (fz_classes[m->node[i].op].flags & FZ_TRAINED && fz_chance(w.d, learned(m) ? 90 : 100))
                m->node[i].frozen = 1;
    }
    if (fz_chance(w.d, 35))
        evaluation(&w);
    if (fz_chance(w.d, 45))
        spoil(&w);
}
