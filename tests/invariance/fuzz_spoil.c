/* fuzz_spoil.c: faults, as people make them: something is left out, or said wrongly. */
#include "tests/invariance/fuzz_parts.h"

void fz_remove(fz_model *m, int node)
{
    m->node[node].dead = true;
    if (m->best.node == node)
        m->best.node = FZ_NONE;
    for (int i = 0; i < m->n_nodes; i++) {
        fz_node *n = &m->node[i];
        int left = 0;

        if (n->dead)
            continue;
        if (n->when.node == node) {
            n->when.node = FZ_NONE;
            if (n->op == FZ_SKIP || n->op == FZ_STOP) {
                fz_remove(m, i);
                continue;
            }
        }
        for (int k = 0; k < n->n_in && !n->dead; k++) {
            if (n->in[k].node == node) {
                n->in[k].node = FZ_NONE;
                if (!fz_input_optional(n->op, k))
                    fz_remove(m, i);
            }
            left += n->in[k].node != FZ_NONE;
        }
        if (!n->dead && fz_classes[n->op].flags & FZ_ANY_NAMES && !left)
            fz_remove(m, i);
    }
}

/* What w led to, from behind it: a key of a record stays one. */
static fz_wire behind(fz_wire from, fz_wire w)
{
    return (fz_wire){ from.node, from.port, w.key == FZ_NONE ? from.key : w.key };
}

void fz_bypass(fz_model *m, int node)
{
    fz_wire from = m->node[node].in[0];

    for (int i = 0; i < m->n_nodes; i++) {
        fz_node *n = &m->node[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].node == node)
                n->in[k] = behind(from, n->in[k]);
        if (n->when.node == node)
            n->when = behind(from, n->when);
    }
    m->node[node].dead = true;
}

static bool on_the_way(int op)
{
    return op == FZ_AGREE || op == FZ_BROADCAST || op == FZ_EQUALIZE || op == FZ_REDUCE ||
           op == FZ_ALLREDUCE;
}

void fz_peer(fz_model *peer, const fz_model *m)
{
    *peer = *m;
    if (m->peer < 0)
        return;
    if (on_the_way(m->node[m->peer].op))
        fz_bypass(peer, m->peer);
    else
        fz_remove(peer, m->peer);
}

static void spoil_node(fz_drawer *w, fz_node *n, int i)
{
    static const int word[] = { FZ_NONE, FZ_NONE, 0, 1 };

    switch (fz_below(w->d, 8)) {
    case 0:
        if (on_the_way(n->op))
            fz_bypass(w->m, i);
        return;
    case 1:
        n->equal = n->op == FZ_PARTITION ? word[fz_below(w->d, 3)] : FZ_NONE;
        return;
    case 2:
        if (n->op == FZ_SAMPLER || n->op == FZ_PLAIN)
            n->tail = FZ_NONE;
        if (n->op == FZ_SAMPLER || n->op == FZ_PLAIN || n->op == FZ_PARTITION ||
            n->op == FZ_RANDOM || n->op == FZ_AUGMENT)
            n->seed = FZ_SEED_RANK;
        return;
    case 3:
        if (!w->filtered && (n->op == FZ_NORM || n->op == FZ_EMBED || n->op == FZ_DENOISING))
            n->empty = FZ_NONE;
        n->connect = FZ_NONE;
        return;
    case 4:
        if (!(fz_classes[n->op].flags & FZ_DATA) && n->scope < FZ_IN_MODEL) {
            n->on = fz_below(w->d, w->m->dp * (w->m->tp > 1 ? w->m->tp : 1) > 1 ? 2 : 1);
            n->budget = 5;
        }
        return;
    case 5:
        if (n->op == FZ_NORM || n->op == FZ_BACKBONE)
            n->norm = FZ_NONE;
        if (fz_classes[n->op].flags & FZ_COLLECTIVE && w->m->tp > 1)
            n->axis = fz_chance(w->d, 50) ? FZ_DP : FZ_TP;
        if (n->root >= (n->axis == FZ_TP ? w->m->tp : w->m->dp)) /* no such rank there */
            n->root = FZ_NONE;
        return;
    case 6:
        if (((fz_classes[n->op].flags & FZ_TENSOR_OP) && n->scope < FZ_IN_MODEL) ||
            fz_classes[n->op].flags & FZ_COLLECTIVE || n->op == FZ_ADAMW || n->op == FZ_EMA)
            n->exact = 0;
        return;
    default:
        if (fz_classes[n->op].flags & FZ_TENSOR_OP && n->scope != FZ_IN_EVALUATE &&
            fz_chance(w->d, 30))
            n->on_fail = fz_below(w->d, 2);
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
static void spoil_guard(fz_drawer *w, fz_node *n, int i)
{
    for (int tries = 0; tries < 20; tries++) {
        int at = fz_below(w->d, w->m->n_nodes);
        fz_node *g = &w->m->node[at];
        bool scalar = fz_classes[g->op].flags & FZ_SCALAR || g->op == FZ_TEST || g->op == FZ_MEAN;

        /* before the sampler all is done once an epoch; what equalize counts has no guards */
        if (fz_classes[n->op].flags & FZ_DATA && (n->op < FZ_AUGMENT || equalized(w->m, n->scope)))
            return;
        if (at < i && scalar && g->scope == n->scope && !g->dead && n->op != FZ_LOADER &&
            n->scope < FZ_IN_MODEL && n->op != FZ_SKIP && n->op != FZ_STOP && n->op != FZ_BATCH) {
            n->when = fz_wire_to(at, 0);
            return;
        }
    }
}

void fz_spoil(fz_drawer *w)
{
    fz_model *m = w->m;

    for (int tries = 0; tries < 4; tries++) {
        int i = fz_below(w->d, m->n_nodes);
        fz_node *n = &m->node[i];

        if (n->dead)
            continue;
        if (fz_chance(w->d, 15))
            spoil_guard(w, n, i);
        else
            spoil_node(w, n, i);
    }
}

void fz_say_more(fz_drawer *w)
{
    for (int tries = 0; tries < 30; tries++) {
        fz_node *n = &w->m->node[fz_below(w->d, w->m->n_nodes)];
        int k = 0;

        while (fz_attrs[k].name)
            k++;
        const fz_attr *a = &fz_attrs[fz_below(w->d, k)];
        bool has = a->ops ? a->ops >> n->op & 1 : fz_classes[n->op].flags & FZ_TENSOR_OP;

        if (has && a->kind == FZ_WORD && a->otherwise != FZ_NONE && n->op != FZ_USE &&
            *(int *)((char *)n + a->at) == FZ_NONE)
            *(int *)((char *)n + a->at) = a->otherwise;
    }
}
