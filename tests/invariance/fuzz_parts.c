/* fuzz_parts.c: parts of a drawn pipeline: streams, numbers, layers. Operands and guards are
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
    return fz_model_add(w->m, op, w->scope);
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
    int seen = 0;

    if (fz_slip(w, 4))
        want = 0;
    for (int pass = 0; pass < (w->careful ? 1 : 2) && !seen; pass++)
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

/* ---- data ------------------------------------------------------------------------------------ */

static int stream(fz_drawer *w, int op, int in)
{
    fz_node *n = fz_add_node(w, op);

    if (n && in != FZ_NONE)
        n->in[0] = fz_wire_to(in, 0);
    return n ? fz_last(w) : in;
}

static int partition(fz_drawer *w, int in, bool picks)
{
    int at = stream(w, FZ_PARTITION, in);
    fz_node *n = &w->m->node[at];

    n->axis = FZ_DP;
    n->equal = !fz_slip(w, 7) ? 1 + fz_below(w->d, 2) : fz_chance(w->d, 50) ? FZ_NONE : FZ_EQ_NONE;
    if (picks && fz_chance(w->d, 40)) /* items have no size yet */
        n->aligned = 1;
    if (fz_chance(w->d, 30)) {
        n->shuffle = 1;
        n->seed = fz_slip(w, 7) ? FZ_NONE : FZ_SEED_SHARED;
    }
    return at;
}

static int sampler(fz_drawer *w, int in, bool deals)
{
    int at = stream(w, fz_chance(w->d, deals ? 20 : 75) ? FZ_PLAIN : FZ_SAMPLER, in);
    fz_node *n = &w->m->node[at];

    w->batch = n->batch = fz_chance(w->d, 4) ? 1 : 2;
    n->sizes = n->op == FZ_PLAIN ? 0 : deals ? fz_below(w->d, 4) : 2 + fz_below(w->d, 2);
    n->tail = !fz_slip(w, 6) ? fz_below(w->d, 2) : fz_chance(w->d, 50) ? FZ_NONE : FZ_TAIL_KEEP;
    if (deals)
        n->axis = FZ_DP;
    if (fz_chance(w->d, 20))
        n->shuffle = fz_below(w->d, 2);
    if (fz_chance(w->d, 10))
        n->seed = fz_slip(w, 20) ? FZ_SEED_RANK : FZ_SEED_SHARED;
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
    int at;
    fz_node *n;
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

static int filter(fz_drawer *w, int in)
{
    int at = stream(w, FZ_FILTER, in);

    if (w->filtered || fz_chance(w->d, 30)) /* what has passed one passes its like */
        w->m->node[at].min_objects = 2 + fz_below(w->d, 2);
    w->filtered = true;
    return at;
}

/* What happens to a data set before it is sampled. */
static int choose_items(fz_drawer *w, int at)
{
    if (fz_chance(w->d, 15))
        at = filter(w, at);
    at = partition(w, at, false);
    if (fz_chance(w->d, 30)) {
        at = filter(w, at);
        if (!fz_slip(w, 15))
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

        if (k < 80)
            at = augment(w, at);
        else if (k < 98 || w->scope != FZ_IN_TRAIN || w->careful) {
            at = fz_chance(w->d, 50) ? stream(w, FZ_CROP, at) : filter(w, at);
            if (!fz_slip(w, 20))
                at = equalize(w, at);
        } else {
            at = stream(w, FZ_BROADCAST, at);
            w->m->node[at].axis = FZ_DP;
        }
    }
    return w->steady && fz_chance(w->d, 12) ? resize(w, at) : at;
}

void fz_draw_data(fz_drawer *w)
{
    int at = stream(w, FZ_LOADER, FZ_NONE), kind = w->alone ? 99 : fz_below(w->d, 100);

    w->filtered = false;
    w->m->node[at].images = 64;
    if (fz_slip(w, 4))
        w->m->node[at].files = 1;
    if (kind < 50) {
        if (fz_chance(w->d, 15))
            at = filter(w, at);
        at = sampler(w, at, true);
    } else if (kind < 88) {
        at = sampler(w, choose_items(w, at), fz_slip(w, 2));
        if (w->m->node[at].op == FZ_SAMPLER ? !fz_slip(w, 20) : fz_chance(w->d, 10))
            at = equalize(w, at);
    } else {
        at = sampler(w, at, false); /* every rank sees all */
        if (!w->alone && fz_chance(w->d, 40))
            at = partition(w, at, true);
    }
    at = change_samples(w, at);
    at = stream(w, FZ_BATCH, at);
    offer_batch(w, at);
}

/* ---- numbers --------------------------------------------------------------------------------- */

void fz_draw_source(fz_drawer *w)
{
    static const int ops[] = { FZ_NUMBER, FZ_NUMBER, FZ_STEP,  FZ_EPOCH,  FZ_RANDOM, FZ_RANDOM,
                               FZ_RANDOM, FZ_RANK,   FZ_CLOCK, FZ_MEMORY, FZ_FILE };
    int op = ops[fz_below(w->d, 11)];
    fz_node *n = fz_add_node(w, op);
    bool same = op == FZ_NUMBER || op == FZ_STEP || op == FZ_EPOCH;

    if (!n)
        return;
    if (op == FZ_NUMBER)
        n->value = 1 + fz_below(w->d, 3);
    if (op == FZ_RANDOM) {
        n->seed = fz_chance(w->d, 50)   ? FZ_SEED_SHARED
                  : fz_chance(w->d, 50) ? FZ_SEED_RANK
                                        : FZ_NONE;
        n->low = -1;
        n->high = 2 + fz_below(w->d, 3);
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
    static const int is[] = { FZ_POSITIVE, FZ_ZERO, FZ_ABOVE, FZ_BELOW, FZ_FINITE, FZ_NONFINITE };
    const fz_offer *in = choose(w, SCALARS | TENSORS | T(LABELS), 0);
    fz_node *n;
    bool same, sure;

    /* of a number that never changes, nothing is asked */
    n = in && w->m->node[in->wire.node].op != FZ_NUMBER ? fz_add_node(w, FZ_TEST) : NULL;

    if (!n)
        return;
    same = in->same;
    sure = in->sure;
    n->in[0] = in->wire;
    n->is = is[fz_below(w->d, in->trained ? 6 : in->family == 2 ? 3 : 4)]; /* padded boxes are 0 */
    if (w->filtered && n->is <= FZ_ZERO && (in->type == FZ_T_LABELS || in->family == 2))
        n->is = FZ_ABOVE;  /* there are objects, but how many? */
    if (n->is >= FZ_ABOVE) /* nothing that is counted is below 0 */
        n->than = (in->type == FZ_T_LABELS ? 1 : 0.25) *
                  (fz_below(w->d, 3) + (n->is == FZ_BELOW || w->filtered));
    fz_draw_guard(w, n, &same, &sure, 8);
    propose(w, (fz_offer){ fz_wire_to(fz_last(w), 0), FZ_T_INT, 0, same, sure, true, false });
}

static int some_axis(fz_drawer *w)
{
    if (w->everywhere == FZ_DP || !fz_slip(w, 30))
        return w->everywhere;
    return fz_chance(w->d, 60) ? FZ_DP : FZ_TP;
}

static void collective(fz_drawer *w)
{
    static const int ops[] = { FZ_AGREE,     FZ_AGREE,  FZ_ALLREDUCE, FZ_ALLREDUCE,
                               FZ_BROADCAST, FZ_REDUCE, FZ_ALLGATHER, FZ_ALLGATHERV };
    int op = ops[fz_below(w->d, 8)];
    bool gathers = op == FZ_ALLGATHER || op == FZ_ALLGATHERV;
    const fz_offer *in = choose(w,
                                op == FZ_AGREE ? T(INT)
                                : gathers      ? TENSORS
                                               : SCALARS | TENSORS | T(LABELS),
                                op == FZ_AGREE ? 0 : WANT_SURE | WANT_STEADY);
    fz_offer from;
    const fz_offer *rows = op == FZ_ALLGATHERV ? choose(w, T(INT), WANT_SURE) : in;
    fz_node *n;
    bool same = true, sure = true;

    op = op == FZ_REDUCE && in && in->same && !fz_slip(w, 20) ? FZ_ALLREDUCE : op; /* all have it */
    n = in && rows ? fz_add_node(w, op) : NULL;

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
    if ((op == FZ_BROADCAST || op == FZ_REDUCE) && fz_chance(w->d, 30))
        n->root = fz_below(w->d, n->axis == FZ_TP ? w->m->tp : w->m->dp);
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

/* ---- layers ---------------------------------------------------------------------------------- */

void fz_draw_layer(fz_drawer *w)
{
    const fz_offer *in = choose(w, TENSORS, WANT_SURE);
    const fz_offer *rows = fz_chance(w->d, 50) ? choose(w, T(LABELS), WANT_SURE) : NULL;
    int kind = fz_below(w->d, 100);
    fz_offer from, out;
    fz_node *n;
    bool sure, same;

    if (!in)
        return;
    from = *in;
    n = fz_add_node(w, w->net && from.family == 1 && fz_chance(w->d, 60) ? FZ_USE
                       : kind < 50                                       ? FZ_LINEAR
                       : kind < 65                                       ? FZ_NORM
                       : kind < 80                                       ? FZ_EMBED
                       : kind < 92                                       ? FZ_SUM
                       : fz_chance(w->d, 50)                             ? FZ_NOISE
                                                                         : FZ_FIXED);
    if (!n)
        return;
    sure = from.sure;
    same = from.same;
    out = (fz_offer){
        fz_wire_to(fz_last(w), 0), FZ_T_TENSOR, from.family, same, sure, from.steady, true
    };
    switch (n->op) {
    case FZ_USE:
        n->model = 0;
        n->n_in = 2;
        n->in[0] = from.wire;
        if (rows && rows->family == 3)
            n->in[1] = rows->wire;
        out.family = 5;
        break;
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
        n->norm = fz_slip(w, 6) ? FZ_NONE : FZ_SYNC_NORM;
        n->empty = w->filtered || !fz_slip(w, 6) ? FZ_EMPTY_ZERO : FZ_NONE;
        break;
    }
    case FZ_EMBED: {
        int batch = FZ_NONE;

        for (int i = 0; i < w->m->n_nodes; i++)
            if (w->m->node[i].op == FZ_BATCH && w->m->node[i].scope == w->scope)
                batch = i;
        n->in[0] = fz_wire_to(batch, 1);
        n->empty = w->filtered || !fz_slip(w, 8) ? FZ_EMPTY_ZERO : FZ_EMPTY_ABSENT;
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
    if (n->op != FZ_SUM && n->op != FZ_USE && fz_chance(w->d, 4))
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
    bool same, sure;

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
    int n_keys = 1 + fz_below(w->d, 3), r;
    bool sure = true;

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
    const fz_offer *g = choose(w, T(INT), WANT_SAME);
    fz_node *n;

    /* few numbers are 0: behind what is nearly always left out nothing happens */
    if (!g || w->m->node[g->wire.node].op == FZ_NUMBER ||
        (fz_classes[w->m->node[g->wire.node].op].flags & FZ_SCALAR && fz_chance(w->d, 85)))
        return;
    n = fz_add_node(w, fz_chance(w->d, 60) ? FZ_SKIP : FZ_STOP);
    if (n)
        n->when = g->wire;
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
        else if (k < 85 && w->scope == FZ_IN_TRAIN)
            fz_draw_layer(w);
        else if (k < 91 && w->scope == FZ_IN_TRAIN)
            record(w);
        else if (k < 95)
            leave(w);
    }
}
