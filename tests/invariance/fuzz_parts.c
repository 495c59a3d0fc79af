/* fuzz_parts.c: parts of a drawn pipeline: streams, numbers, layers, loops. Operands and guards are
 * mostly safe to use (always there, the same on all ranks, of a steady size, as far as this file
 * can tell). */
#include <math.h>
#include <string.h>

#include "tests/invariance/fuzz_parts.h"

fz_wire fz_wire_to(int node, int port)
{
    return (fz_wire){ node, port, FZ_NONE };
}

int fz_last(const fz_drawer *w)
{
    return w->m->n_nodes - 1;
}

fz_node *fz_add_node(fz_drawer *w, int op)
{
    fz_node *n = fz_model_add(w->m, op, w->scope);

    if (n)
        n->loop = w->loop;
    return n;
}

static void propose(fz_drawer *w, fz_offer o)
{
    if (w->n_offers < FZ_NODES * 2)
        w->offers[w->n_offers++] = o;
}

/* A random offer of one of the types (bits); legal: same, or sure, or steady, if there is any. */
enum { WANT_SAME = 1, WANT_SURE = 2, WANT_STEADY = 4 };
static const fz_offer *choose(fz_drawer *w, uint32_t types, int want)
{
    const fz_offer *best = NULL;
    int             seen = 0;

    if (fz_chance(w->d, 3))
        want = 0;
    for (int pass = 0; pass < 2 && !seen; pass++)
        for (int i = 0; i < w->n_offers; i++) {
            const fz_offer *o = &w->offers[i];

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

/* --- data ------------------------------------------------------------------------------------- */

static int stream(fz_drawer *w, int op, int in)
{
    fz_node *n = fz_add_node(w, op);

    if (n && in != FZ_NONE)
        n->in[0] = fz_wire_to(in, 0);
    return n ? fz_last(w) : in;
}

static int partition(fz_drawer *w, int in)
{
    int      at = stream(w, FZ_PARTITION, in);
    fz_node *n = &w->m->node[at];

    n->axis = FZ_DP;
    n->equal = fz_chance(w->d, 93)   ? 1 + fz_below(w->d, 2)
               : fz_chance(w->d, 50) ? FZ_NONE
                                     : FZ_EQ_NONE;
    n->aligned = fz_chance(w->d, 20) ? 1 : FZ_NONE;
    if (fz_chance(w->d, 30)) {
        n->shuffle = 1;
        n->seed = fz_chance(w->d, 93) ? FZ_SEED_SHARED : FZ_NONE;
    }
    return at;
}

static int sampler(fz_drawer *w, int in, bool deals)
{
    int      at = stream(w, fz_chance(w->d, deals ? 20 : 75) ? FZ_PLAIN : FZ_SAMPLER, in);
    fz_node *n = &w->m->node[at];

    w->batch = n->batch = fz_chance(w->d, 15) ? 1 : 2;
    n->sizes = n->op == FZ_PLAIN ? 0 : deals ? fz_below(w->d, 4) : 2 + fz_below(w->d, 2);
    n->tail = fz_chance(w->d, 94)   ? fz_below(w->d, 2)
              : fz_chance(w->d, 50) ? FZ_NONE
                                    : FZ_TAIL_KEEP;
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

static int augment(fz_drawer *w, int in)
{
    int at = stream(w, FZ_AUGMENT, in);

    if (fz_chance(w->d, 50))
        w->m->node[at].seed = fz_below(w->d, 3);
    return at;
}

static int resize(fz_drawer *w, int in)
{
    int             at;
    fz_node        *n;
    const fz_offer *size = choose(w, SCALARS, WANT_SAME | WANT_SURE);

    if (!size)
        return in;
    at = stream(w, FZ_RESIZE, in);
    n = &w->m->node[at];
    n->in[1] = size->wire;
    n->sizes = 1;
    w->steady = size->same;
    return at;
}

static void offer_batch(fz_drawer *w, int at)
{
    propose(w, (fz_offer){ fz_wire_to(at, 0), FZ_T_TENSOR, 1, false, true, w->steady, false });
    propose(w, (fz_offer){ fz_wire_to(at, 3), FZ_T_TENSOR, 2, false, true, true, false });
    propose(w, (fz_offer){ fz_wire_to(at, 4), FZ_T_LABELS, 3, false, true, true, false });
}

static int equalize(fz_drawer *w, int in)
{
    int at = stream(w, FZ_EQUALIZE, in);

    w->m->node[at].axis = w->everywhere;
    return at;
}

/* What happens to a data set before it is sampled. */
static int choose_items(fz_drawer *w, int at)
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
static int change_samples(fz_drawer *w, int at)
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

void fz_draw_data(fz_drawer *w)
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

/* --- numbers ---------------------------------------------------------------------------------- */

void fz_draw_source(fz_drawer *w)
{
    static const int ops[] = { FZ_NUMBER, FZ_NUMBER, FZ_STEP,  FZ_EPOCH,  FZ_RANDOM, FZ_RANDOM,
                               FZ_RANDOM, FZ_RANK,   FZ_CLOCK, FZ_MEMORY, FZ_FILE };
    int              op = ops[fz_below(w->d, 11)];
    fz_node         *n = fz_add_node(w, op);
    bool             same = op == FZ_NUMBER || op == FZ_STEP || op == FZ_EPOCH;

    if (!n)
        return;
    if (op == FZ_NUMBER)
        n->value = fz_below(w->d, 4);
    if (op == FZ_RANDOM) {
        n->seed = fz_chance(w->d, 50)   ? FZ_SEED_SHARED
                  : fz_chance(w->d, 50) ? FZ_SEED_RANK
                                        : FZ_NONE;
        n->low = -1;
        n->high = 1 + fz_below(w->d, 3);
        same = n->seed == FZ_SEED_SHARED;
    }
    propose(w, (fz_offer){ fz_wire_to(fz_last(w), 0),
                           op == FZ_RANDOM || op == FZ_CLOCK || op == FZ_NUMBER || op == FZ_MEMORY
                               ? FZ_T_REAL
                               : FZ_T_INT,
                           0, same, true, true, false });
}

void fz_draw_guard(fz_drawer *w, fz_node *n, bool *same, bool *sure, int percent)
{
    const fz_offer *g;

    if (!fz_chance(w->d, percent))
        return;
    g = choose(w, SCALARS, WANT_SAME);
    if (!g)
        return;
    n->when = g->wire;
    *same &= g->same;
    *sure &= false;
}

static void test(fz_drawer *w)
{
    const fz_offer *in = choose(w, SCALARS | TENSORS | T(LABELS), 0);
    fz_node        *n = in ? fz_add_node(w, FZ_TEST) : NULL;
    bool            same, sure;

    if (!n)
        return;
    same = in->same;
    sure = in->sure;
    n->in[0] = in->wire;
    n->is = in->trained || in->type == FZ_T_REAL ? fz_below(w->d, 6)
            : fz_below(w->d, 2)                  ? fz_below(w->d, 2)
                                                 : FZ_ABOVE;
    if (n->is >= FZ_ABOVE)
        n->than = in->type == FZ_T_LABELS ? fz_below(w->d, 2) : 0.25 * fz_below(w->d, 4);
    fz_draw_guard(w, n, &same, &sure, 8);
    propose(w, (fz_offer){ fz_wire_to(fz_last(w), 0), FZ_T_INT, 0, same, sure, true, false });
}

static int some_axis(fz_drawer *w)
{
    if (w->everywhere == FZ_DP || fz_chance(w->d, 70))
        return w->everywhere;
    return fz_chance(w->d, 60) ? FZ_DP : FZ_TP;
}

static void collective(fz_drawer *w)
{
    static const int ops[] = { FZ_AGREE,     FZ_AGREE,  FZ_ALLREDUCE, FZ_ALLREDUCE,
                               FZ_BROADCAST, FZ_REDUCE, FZ_ALLGATHER, FZ_ALLGATHERV };
    int              op = ops[fz_below(w->d, 8)];
    bool             gathers = op == FZ_ALLGATHER || op == FZ_ALLGATHERV;
    const fz_offer  *in = choose(w,
                                op == FZ_AGREE ? T(INT)
                                 : gathers      ? TENSORS
                                                : SCALARS | TENSORS | T(LABELS),
                                op == FZ_AGREE ? 0 : WANT_SURE | WANT_STEADY);
    fz_offer         from;
    const fz_offer  *rows = op == FZ_ALLGATHERV ? choose(w, T(INT), WANT_SURE) : in;
    fz_node         *n = in && rows ? fz_add_node(w, op) : NULL;
    bool             same = true, sure = true;

    if (!n)
        return;
    if (op == FZ_ALLGATHERV && w->m->node[rows->wire.node].op != FZ_TEST) {
        w->m->n_nodes--;
        return;
    }
    from = *in;
    n->in[0] = from.wire;
    if (op == FZ_ALLGATHERV)
        n->in[1] = rows->wire;
    n->axis = some_axis(w);
    if (op == FZ_AGREE)
        n->how = fz_chance(w->d, 70) ? FZ_ANY + fz_below(w->d, 2) : FZ_MAX + fz_below(w->d, 2);
    else if (op == FZ_ALLREDUCE || op == FZ_REDUCE)
        n->how = from.type == FZ_T_INT || from.type == FZ_T_LABELS ? FZ_MAX + fz_below(w->d, 2)
                                                                   : fz_below(w->d, 4);
    if (n->how == FZ_SUMMED && from.same)
        n->how = FZ_MAX;
    fz_draw_guard(w, n, &same, &sure, 15);
    propose(w, (fz_offer){ fz_wire_to(fz_last(w), 0), from.type,
                           gathers ? 100 + fz_last(w) : from.family,
                           same && op != FZ_REDUCE && n->axis == w->everywhere,
                           sure && (from.sure || op == FZ_AGREE), from.steady, false });
}

/* --- layers ----------------------------------------------------------------------------------- */

void fz_draw_layer(fz_drawer *w)
{
    const fz_offer *in = choose(w, TENSORS, WANT_SURE);
    int             kind = fz_below(w->d, 100);
    fz_offer        from, out;
    fz_node        *n;
    bool            sure, same;

    if (!in)
        return;
    from = *in;
    n = fz_add_node(w, kind < 50             ? FZ_LINEAR
                       : kind < 65           ? FZ_NORM
                       : kind < 80           ? FZ_EMBED
                       : kind < 92           ? FZ_SUM
                       : fz_chance(w->d, 50) ? FZ_NOISE
                                             : FZ_FIXED);
    if (!n)
        return;
    sure = from.sure;
    same = from.same;
    out = (fz_offer){
        fz_wire_to(fz_last(w), 0), FZ_T_TENSOR, from.family, same, sure, from.steady, true
    };
    switch (n->op) {
    case FZ_LINEAR:
        n->in[0] = from.wire;
        n->width = 4 * (1 + fz_below(w->d, 2));
        out.family = from.family * 16 + n->width;
        break;
    case FZ_NORM: {
        const fz_offer *count = fz_chance(w->d, 60) ? choose(w, T(LABELS), WANT_SURE) : NULL;

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
        n->in[0] = fz_wire_to(batch, 1);
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
        out.same = n->op == FZ_FIXED;
        out.steady = true;
    }
    if (n->op != FZ_SUM && fz_chance(w->d, 4))
        n->frozen = 1;
    fz_draw_guard(w, n, &same, &sure, 12);
    if (n->when.node != FZ_NONE && fz_chance(w->d, 35)) {
        n->connect = 1;
        sure = from.sure;
    }
    out.sure = sure;
    propose(w, out);
}

void fz_draw_mean(fz_drawer *w, const fz_offer *in)
{
    fz_node *n = fz_add_node(w, FZ_MEAN);
    bool     same, sure;

    if (!n)
        return;
    same = in->same;
    sure = in->sure;
    n->in[0] = in->wire;
    fz_draw_guard(w, n, &same, &sure, 8);
    if (n->when.node != FZ_NONE && fz_chance(w->d, 60)) {
        n->connect = 1;
        sure = in->sure;
    }
    propose(w, (fz_offer){ fz_wire_to(fz_last(w), 0), FZ_T_REAL, 0, same, sure, true, true });
    if (w->n_losses < FZ_IN)
        w->losses[w->n_losses++] = fz_wire_to(fz_last(w), 0);
}

static void record(fz_drawer *w)
{
    fz_node *n;
    int      n_keys = 1 + fz_below(w->d, 3), r;
    bool     sure = true;

    n = fz_add_node(w, FZ_RECORD);
    if (!n)
        return;
    r = fz_last(w);
    n->n_in = 0;
    for (int k = 0; k < n_keys; k++) {
        const fz_offer *in = choose(w, T(REAL), WANT_SURE);

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
        n = fz_add_node(w, FZ_ALLREDUCE);
        if (!n)
            return;
        n->in[0] = fz_wire_to(r, 0);
        n->axis = w->everywhere;
        r = fz_last(w);
        if (fz_chance(w->d, 50))
            propose(w, (fz_offer){ { r, 0, 0 }, FZ_T_REAL, 0, true, sure, true, false });
    }
    n = fz_add_node(w, FZ_LOG);
    if (n)
        n->in[0] = fz_wire_to(r, 0);
}

static void leave(fz_drawer *w)
{
    const fz_offer *g = choose(w, SCALARS, WANT_SAME);
    fz_node        *n;

    /* what is always so says little */
    if (!g || (w->m->node[g->wire.node].op == FZ_NUMBER && fz_chance(w->d, 90)))
        return;
    n = fz_add_node(w, fz_chance(w->d, 60) ? FZ_SKIP : FZ_STOP);
    if (n)
        n->when = g->wire;
}

static void loop(fz_drawer *w)
{
    const fz_offer *count = fz_chance(w->d, 60) ? choose(w, SCALARS, WANT_SAME | WANT_SURE) : NULL;
    fz_node        *n = fz_add_node(w, FZ_LOOP);
    int             outer = w->loop, before = w->n_offers;

    if (!n)
        return;
    if (count)
        n->in[0] = count->wire;
    else
        n->times = 1 + fz_below(w->d, 3);
    w->loop = fz_last(w);
    fz_draw_body(w, 1 + fz_below(w->d, 4));
    w->loop = outer;
    if (fz_chance(w->d, 50))
        w->n_offers = before;
    for (int i = before; i < w->n_offers; i++)
        w->offers[i].sure = !count;
}

void fz_draw_body(fz_drawer *w, int n_nodes)
{
    while (n_nodes-- > 0 && w->m->n_nodes < FZ_NODES - 30) {
        int k = fz_below(w->d, 100);

        if (k < 18)
            fz_draw_source(w);
        else if (k < 40)
            test(w);
        else if (k < 64)
            collective(w);
        else if (k < 85 && w->scope == FZ_IN_TRAIN && (w->loop == FZ_NONE || fz_chance(w->d, 15)))
            fz_draw_layer(w);
        else if (k < 91 && w->scope == FZ_IN_TRAIN)
            record(w);
        else if (k < 95)
            leave(w);
        else if (w->loop == FZ_NONE || w->m->node[w->loop].loop == FZ_NONE)
            loop(w);
    }
}
