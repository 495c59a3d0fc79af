/* fuzz_turn.c: the course of an iteration: nodes in order, skips and stops. */
#include "tests/invariance/fuzz_run.h"

void fz_forget(fz_rank *k)
{
    const fz_model *m = k->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope) {
            for (int o = 0; o < FZ_OUT; o++)
                k->out[i][o].there = false;
            for (int o = 0; o < FZ_KEYS; o++)
                k->key[i][o].there = false;
        }
}

void fz_put_in_order(fz_rank *k)
{
    const fz_model *m = k->m;

    k->n_order = 0;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && !m->node[i].dead)
            k->order[k->n_order++] = i;
}

/* skip and stop */
static void leave(fz_rank *k, bool stop)
{
    *(k->scope == FZ_IN_TRAIN ? &k->stopped : &k->ended) |= stop;
    k->pos = k->n_order;
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
        if (n->op == FZ_SKIP || n->op == FZ_STOP) {
            if (fz_guard(k, n) && (n->on == FZ_NONE || n->on == k->r))
                leave(k, n->op == FZ_STOP);
            else
                k->pos++;
            continue;
        }
        if (!threads)
            end = fz_fire(k, i);
        if (end == FZ_WAIT)
            return false;
        if (end == FZ_LOST_BATCH) {
            k->pos = k->n_order;
            k->lost = true;
            return true;
        }
        k->pos++;
        /* all that follows belongs to the update, which takes place once for several batches */
        if (n->op == FZ_BACKWARD && k->scope == FZ_IN_TRAIN && k->accumulated + 1 < m->accumulate)
            k->pos = k->n_order;
    }
    return true;
}
