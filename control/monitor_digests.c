/* monitor_digests.c: see monitor_digests.h. */
#include "control/monitor_digests.h"

#include "base/log.h"
#include "control/link.h"
#include "graph/monitor.h"

struct dg_monitor_digests {
    const dg_monitors *monitors;
    dg_link *link;
    int64_t scope, step, batch;
    uint64_t *part, *seen; /* by monitor: digest so far, and when complete; 0: none */
    bool news, alone;      /* alone: only this rank executes the scope */
    double seconds;
};

dg_monitor_digests *dg_monitor_digests_open(dg_arena *a, const dg_monitors *m, const dg_world *w)
{
    dg_monitor_digests *x = NULL;

    for (int i = 0; m && w->ranks > 1 && w->link && !x && i < m->list.n; i++)
        if (dg_monitor_is_joint(&m->list.items[i]))
            x = DG_NEW(a, dg_monitor_digests);
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

/* n bytes of monitor i's value, in pieces, then its end. */
static void see(void *ctx, int i, const void *bytes, size_t n)
{
    dg_monitor_digests *w = ctx;
    double begin_s = dg_monotonic_s();

    w->part[i] = dg_hash64(w->part[i], bytes, n);
    w->part[i] += w->part[i] == 0; /* 0 would mean "not seen" */
    w->seconds += dg_monotonic_s() - begin_s;
}

static void end(void *ctx, int i)
{
    dg_monitor_digests *w = ctx;

    w->news = true; /* also if there is no value: every rank reports at the same places */
    w->seen[i] = w->part[i];
}

/* Digests of the epoch's plan: items left by each choice, number of batches, image size. */
static void see_plan(dg_monitor_digests *w, const dg_scope *scope, const dg_feeder_batch *b)
{
    for (int i = 0; i < w->monitors->list.n; i++) {
        const dg_monitor *m = &w->monitors->list.items[i];
        int choice = 0;

        if (m->scope != scope || (m->kind != DG_MONITOR_SIZE && m->kind != DG_MONITOR_COUNT))
            continue;
        while (choice < b->n_choices && b->choices[choice] != m->node)
            choice++;
        if (m->kind == DG_MONITOR_SIZE)
            see(w, i, &b->size, sizeof b->size);
        else
            see(w, i, choice < b->n_choices ? &b->left[choice] : &b->n_in_epoch, sizeof(int64_t));
        end(w, i);
    }
}

void dg_monitor_digests_begin(dg_monitor_digests *w, const dg_graph *g, const dg_scope *scope,
                              int64_t step, const dg_feeder_batch *b)
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

static void before_wait(void *ctx)
{
    dg_monitor_digests *w = ctx;

    if (!w->news || w->alone)
        return;
    double begin_s = dg_monotonic_s();
    dg_sight s = {
        .scope = w->scope, .step = w->step, .batch = w->batch, .digests = dg_monitor_digests_take(w)
    };

    dg_link_see(w->link, &s);
    w->seconds += dg_monotonic_s() - begin_s;
}

dg_exec_observer dg_monitor_digests_observer(dg_monitor_digests *w)
{
    return (
        dg_exec_observer){ .ctx = w, .value = see, .value_end = end, .before_wait = before_wait };
}

dg_digests dg_monitor_digests_take(dg_monitor_digests *w)
{
    if (!w)
        return (dg_digests){ 0 };
    w->news = false;
    return (dg_digests){ w->monitors->list.n, w->seen };
}

double dg_monitor_digests_seconds(const dg_monitor_digests *w)
{
    return w ? w->seconds : 0;
}
