/* fuzz_turn.c: the course of an iteration: nodes in order, loops, skips and stops. */
#include <string.h>

#include "tests/invariance/fuzz_run.h"

void fz_forget(fz_rank *k, int loop)
{
    const fz_model *m = k->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (loop == FZ_NONE ? m->node[i].scope == k->scope : fz_inside(m, i, loop)) {
            for (int o = 0; o < FZ_OUT; o++)
                k->out[i][o].there = false;
            for (int o = 0; o < FZ_KEYS; o++)
                k->key[i][o].there = false;
        }
}

static bool needs(const fz_model *m, int node, int other)
{
    const fz_node *n = &m->node[node];

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node == other)
            return true;
    return n->when.node == other;
}

/* Nodes [at, end) of the order that stay together: one, or a loop with its body. */
static int unit_end(const fz_rank *k, int at, int end)
{
    const fz_model *m = k->m;
    int to = at + 1;

    while (m->node[k->order[at]].op == FZ_LOOP && to < end &&
           fz_inside(m, k->order[to], k->order[at]))
        to++;
    return to;
}

static bool unit_needs(const fz_model *m, const int *order, int from, int to, int other,
                       int other_to)
{
    for (int i = from; i < to; i++)
        for (int j = other; j < other_to; j++)
            if (needs(m, order[i], order[j]))
                return true;
    return false;
}

/* Puts the units of [at, end) into any order that wires allow. */
static void shuffle_units(fz_rank *k, int at, int end)
{
    const fz_model *m = k->m;
    int was[FZ_NODES], first[FZ_NODES + 1], n = 0, put = at;
    bool done[FZ_NODES] = { false };

    memcpy(was, k->order, (size_t)k->n_order * sizeof *was);
    for (int i = at; i < end; i = unit_end(k, i, end))
        first[n++] = i;
    first[n] = end;
    for (int step = 0; step < n; step++) {
        int ready[FZ_NODES], n_ready = 0, pick;

        for (int i = 0; i < n; i++) {
            bool waits = done[i];

            for (int j = 0; j < n && !waits; j++)
                waits = !done[j] && j != i &&
                        unit_needs(m, was, first[i], first[i + 1], first[j], first[j + 1]);
            if (!waits)
                ready[n_ready++] = i;
        }
        pick = ready[fz_below(&k->own, n_ready)];
        done[pick] = true;
        for (int i = first[pick]; i < first[pick + 1]; i++)
            k->order[put++] = was[i];
    }
}

/* Document order; with order="ready", any order between <skip> and <stop> that wires allow. */
void fz_put_in_order(fz_rank *k)
{
    const fz_model *m = k->m;

    k->n_order = 0;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && !m->node[i].dead)
            k->order[k->n_order++] = i;
    for (int at = 0, end; m->order == FZ_READY && at < k->n_order; at = end + 1) {
        for (end = at; end < k->n_order; end++)
            if (m->node[k->order[end]].op == FZ_SKIP || m->node[k->order[end]].op == FZ_STOP)
                break;
        if (end < k->n_order && m->node[k->order[end]].loop != FZ_NONE)
            return; /* leaves a loop: what is around it stays */
        shuffle_units(k, at, end);
    }
}

/* The position after p, going round the loops that end there. */
static int onward(fz_rank *k, int p)
{
    const fz_model *m = k->m;

    while (k->loop != FZ_NONE && (p >= k->n_order || !fz_inside(m, k->order[p], k->loop))) {
        if (--k->trips[k->loop] > 0) {
            k->turn++;
            fz_forget(k, k->loop);
            for (p = 0; k->order[p] != k->loop; p++)
                ;
            return p + 1;
        }
        k->turn = k->turn / 16;
        k->loop = m->node[k->loop].loop;
    }
    return p;
}

static int end_of(const fz_rank *k, int loop, int p)
{
    while (p < k->n_order && fz_inside(k->m, k->order[p], loop))
        p++;
    return p;
}

static void enter(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    bool wired = n->in[0].node != FZ_NONE;
    const fz_val *count = wired ? fz_at(k, n->in[0]) : NULL;
    int trips = fz_given(n->times, 0) < 4 ? fz_given(n->times, 0) : 4;

    if (wired)
        trips = !count->there || count->bad || count->sum < 0 ? 0
                : count->sum > 4                              ? 4
                                                              : (int)(count->sum + 0.5);
    if (!fz_guard(k, n) || (n->on != FZ_NONE && n->on != k->r))
        trips = 0;
    if (end_of(k, node, k->pos + 1) == k->pos + 1)
        trips = 0;
    fz_forget(k, node);
    if (trips == 0) {
        k->pos = onward(k, end_of(k, node, k->pos + 1));
        return;
    }
    k->trips[node] = trips;
    k->turn = k->turn * 16 + 1;
    k->loop = node;
    k->pos++;
}

/* skip and stop */
static void leave(fz_rank *k, bool stop)
{
    if (k->loop == FZ_NONE) {
        *(k->scope == FZ_IN_TRAIN ? &k->stopped : &k->ended) |= stop;
        k->pos = k->n_order;
        return;
    }
    if (stop)
        k->trips[k->loop] = 1;
    k->pos = onward(k, end_of(k, k->loop, k->pos));
}

bool fz_is_stream(const fz_node *n)
{
    return fz_classes[n->op].flags & FZ_DATA && n->op != FZ_BATCH;
}

/* Runs nodes until the iteration ends; false: waits. */
bool fz_iterate(fz_rank *k)
{
    const fz_model *m = k->m;

    while (k->pos < k->n_order) {
        int i = k->order[k->pos];
        const fz_node *n = &m->node[i];
        fz_end end = FZ_WENT_ON;
        bool threads = n->n_in && n->in[0].node != FZ_NONE &&
                       fz_is_stream(&m->node[n->in[0].node]) &&
                       fz_classes[n->op].flags & FZ_COLLECTIVE;

        k->sim->work++;
        if (n->op == FZ_LOOP) {
            enter(k, i);
            continue;
        }
        if (n->op == FZ_SKIP || n->op == FZ_STOP) {
            if (fz_guard(k, n) && (n->on == FZ_NONE || n->on == k->r))
                leave(k, n->op == FZ_STOP);
            else
                k->pos = onward(k, k->pos + 1);
            continue;
        }
        if (!threads)
            end = fz_fire(k, i);
        if (end == FZ_WAIT)
            return false;
        if (end == FZ_LOST_BATCH || end == FZ_LEFT_OUT) {
            k->loop = FZ_NONE;
            k->pos = k->n_order;
            k->turn = 0;
            k->lost = end == FZ_LOST_BATCH;
            return true;
        }
        k->pos = onward(k, k->pos + 1);
    }
    return true;
}
