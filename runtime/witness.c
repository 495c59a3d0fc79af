/* witness.c: see witness.h. */
#include "runtime/witness.h"

#include "base/log.h"
#include "runtime/link.h"

struct dg_witness {
    const dg_monitors *monitors;
    dg_link           *link;
    int64_t            scope, step, batch;
    uint64_t          *part, *seen; /* by monitor: as far as it goes, and once it is whole; 0: nothing */
    bool               news, alone; /* alone: no other rank goes through this scope */
    double             seconds;
};

dg_witness *dg_witness_open(dg_arena *a, const dg_monitors *m, const dg_world *w)
{
    dg_witness *x = NULL;

    for (int i = 0; m && w->ranks > 1 && w->link && !x && i < m->list.n; i++)
        if (dg_monitor_is_joint(&m->list.items[i]))
            x = DG_NEW(a, dg_witness);
    if (!x)
        return NULL;
    x->monitors = m;
    x->link = w->link;
    x->part = DG_NEW_N(a, m->list.n, uint64_t);
    x->seen = DG_NEW_N(a, m->list.n, uint64_t);
    return x;
}

static int64_t number_of(const dg_graph *g, const dg_scope *scope)
{
    int64_t i = 0;

    while (i < g->n_evaluates && g->evaluates[i] != scope)
        i++;
    return scope == g->train ? 0 : 1 + i;
}

/* What the plan of the epoch says: as many items as each choice left, as many batches, one size. */
static void see_plan(dg_witness *w, const dg_scope *scope, const dg_stream_batch *b)
{
    for (int i = 0; i < w->monitors->list.n; i++) {
        const dg_monitor *m = &w->monitors->list.items[i];
        int               choice = 0;

        if (m->scope != scope || (m->kind != DG_MONITOR_SIZE && m->kind != DG_MONITOR_COUNT))
            continue;
        while (choice < b->n_choices && b->choices[choice] != m->node)
            choice++;
        if (m->kind == DG_MONITOR_SIZE)
            dg_witness_see(w, i, &b->size, sizeof b->size);
        else
            dg_witness_see(w, i, choice < b->n_choices ? &b->left[choice] : &b->n_in_epoch, sizeof(int64_t));
        dg_witness_end(w, i);
    }
}

void dg_witness_begin(dg_witness *w, const dg_graph *g, const dg_scope *scope, int64_t step, const dg_stream_batch *b)
{
    if (!w)
        return;
    for (int i = 0; i < w->monitors->list.n; i++)
        w->seen[i] = w->part[i] = 0;
    w->scope = number_of(g, scope);
    w->step = step;
    w->batch = b ? b->number : 0;
    w->alone = scope->on >= 0 && scope->kind == DG_SCOPE_EVALUATE;
    w->news = false;
    if (b)
        see_plan(w, scope, b);
}

void dg_witness_see(dg_witness *w, int i, const void *bytes, size_t n)
{
    double begin_s = dg_monotonic_s();

    w->part[i] = dg_hash_more(w->part[i], bytes, n);
    w->part[i] += w->part[i] == 0; /* 0 would be: not seen */
    w->seconds += dg_monotonic_s() - begin_s;
}

void dg_witness_end(dg_witness *w, int i)
{
    w->news = true; /* also that there is nothing to be seen: every rank tells at the same places */
    w->seen[i] = w->part[i];
}

dg_where dg_witness_where(const dg_witness *w, int i)
{
    return w->monitors->list.items[i].node->where;
}

void dg_witness_tell(dg_witness *w)
{
    if (!w || !w->news || w->alone)
        return;
    double   begin_s = dg_monotonic_s();
    dg_sight s = { .scope = w->scope, .step = w->step, .batch = w->batch, .digests = dg_witness_take(w) };

    dg_link_see(w->link, &s);
    w->seconds += dg_monotonic_s() - begin_s;
}

dg_digests dg_witness_take(dg_witness *w)
{
    if (!w)
        return (dg_digests){ 0 };
    w->news = false;
    return (dg_digests){ w->monitors->list.n, w->seen };
}

double dg_witness_seconds(const dg_witness *w)
{
    return w ? w->seconds : 0;
}
