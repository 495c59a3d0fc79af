/* control_hooks.c: see control_hooks.h. */
#include "runtime/control_hooks.h"

#include "control/link.h"
#include "control/monitor_digests.h"
#include "runtime/handshake.h"

static int compare_facts(dg_link *link, dg_rows (*facts)(const void *ctx, dg_arena *a),
                         const void *ctx, dg_diag *d)
{
    dg_arena *a;
    dg_rows rows;
    int rc;

    if (!link)
        return 0;
    a = dg_arena_open();
    rows = facts(ctx, a);
    rc = dg_link_meet(link, &rows, d);
    dg_arena_close(&a);
    return rc;
}

static dg_rows facts_of_pipeline(const void *ctx, dg_arena *a)
{
    return dg_facts_of_pipeline(dg_run_pipeline(ctx), dg_run_programs(ctx), a);
}

int dg_control_hooks_meet_pipeline(const dg_run *run, dg_diag *d)
{
    return compare_facts(dg_run_world(run)->link, facts_of_pipeline, run, d);
}

static dg_rows facts_of_data(const void *ctx, dg_arena *a)
{
    const dg_train *t = ctx;

    return dg_facts_of_data(dg_run_data_sets(t->run), t->data, &t->identity, t->progress, a);
}

int dg_control_hooks_meet_data(dg_train *t, dg_diag *d)
{
    if (t->progress->step > 0)
        dg_control_hooks_saved(t->world->link, t->progress->step);
    return compare_facts(t->world->link, facts_of_data, t, d);
}

void dg_control_hooks_folder(const dg_train *t)
{
    if (t->out)
        dg_link_folder(t->world->link, t->out);
}

/* ---- fewer ranks ----------------------------------------------------------------------------- */

/* The batch attribute of a sampler that divides over the ranks, or NULL. */
static int64_t *dealt_batch(const dg_graph *g, const dg_node *n)
{
    return n->class->schedule && dg_node_is_dealt(g, n) ? dg_node_batch_size(n) : NULL;
}

static int indivisible(const dg_node *n, int64_t all, int ranks, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, n->where, "elastic-batch",
            "a batch of %lld over all ranks is not divided by the %d that may be left",
            (long long)all, ranks);
    dg_help(d, "--elastic with --max-restarts K needs a batch that every number of ranks divides "
               "that K losses of a rank or of a machine may leave");
    return -DG_EINPUT;
}

/* A number of ranks, current or possible after losses, that does not divide the total batch; 0:
 * none. */
static int cannot_share(const dg_world *w, int64_t all)
{
    if (all % w->ranks)
        return w->ranks;
    for (int machines = 0, left; machines <= w->may_lose; machines++) {
        left = w->first_ranks - machines * w->machine_ranks;
        for (int k = 0; k <= w->may_lose - machines && left - k > 0; k++)
            if (all % (left - k))
                return left - k;
        if (left <= 0)
            break;
    }
    return 0;
}

/* Refuses plans that each rank makes separately: fewer ranks could not continue them. */
static int check_plan(const dg_graph *g, dg_diag *d)
{
    dg_chain chain;
    int rc = dg_graph_chain(&chain, g->train, d);

    if (rc < 0 || !chain.sampler || !dg_chain_plans_by_ranks(g, &chain))
        return rc;
    dg_fail(d, DG_EINPUT, chain.sampler->where, "elastic-plan",
            "each rank plans for its own share: with fewer ranks the rest of an epoch would be "
            "another one");
    dg_help(d, "axis on the sampler deals one plan, which fewer ranks can go on with; or leave "
               "--elastic out");
    return -DG_EINPUT;
}

int dg_control_hooks_deal(const dg_graph *g, const dg_world *w, dg_diag *d)
{
    const dg_scope *train = g->train;
    int rc = train && w->may_lose > 0 ? check_plan(g, d) : 0;

    if (rc < 0)
        return rc;
    for (int i = 0; train && w->may_lose > 0 && i < train->n_nodes; i++) {
        int64_t *batch = dealt_batch(g, train->nodes[i]), all = batch ? *batch * w->first_ranks : 0;
        int n = batch ? cannot_share(w, all) : 0;

        if (n)
            return indivisible(train->nodes[i], all, n, d);
        if (batch)
            *batch = all / w->ranks;
    }
    return 0;
}

/* The smallest number of ranks after all allowed losses: whole machines first, but never the first
 * machine's last rank. */
static int fewest_left(const dg_world *w)
{
    int left = w->first_ranks, lose = w->may_lose;

    if (lose <= 0)
        return w->ranks;
    for (; lose > 0 && left > w->machine_ranks; lose--)
        left -= w->machine_ranks;
    return left - lose > 1 ? left - lose : 1;
}

int dg_control_hooks_places(const dg_graph *g, const dg_world *w, dg_diag *d)
{
    for (int i = 0; i < g->n_evaluates; i++) {
        const dg_scope *s = g->evaluates[i];

        if (s->on < fewest_left(w))
            continue;
        if (w->may_lose <= 0)
            return dg_fail(d, DG_EINPUT, s->where, "on-rank",
                           "on=\"%lld\": there is no such rank: %d %s started, counted from 0",
                           (long long)s->on, w->ranks, w->ranks == 1 ? "is" : "are");
        dg_fail(d, DG_EINPUT, s->where, "on-rank",
                "on=\"%lld\": losses may leave %d of %d ranks, counted from 0, and not this one",
                (long long)s->on, fewest_left(w), w->first_ranks);
        dg_help(
            d,
            "on=\"0\": there is always a rank 0; or fewer --max-restarts, or leave --elastic out");
        return -DG_EINPUT;
    }
    return 0;
}

/* ---- step words ------------------------------------------------------------------------------ */

int dg_control_hooks_begin(dg_train *t, const dg_feeder_batch *b, dg_diag *d)
{
    dg_word w = { .step = t->progress->step,
                  .batch = t->progress->batch,
                  .epoch = b->epoch,
                  .index = b->index,
                  .n_in_epoch = b->n_in_epoch,
                  .width = b->size.w,
                  .height = b->size.h,
                  .slots = b->n,
                  .saved = t->kept_step };
    double begin_s;
    int rc;

    if (!t->world->link)
        return 0;
    begin_s = t->env->now_s();
    w.schedule = t->programs->current->exchange;
    w.seen = dg_monitor_digests_take(dg_run_digests(t->run));
    rc = dg_link_begin(t->world->link, &w, d);
    t->control_s += t->env->now_s() - begin_s;
    return rc;
}

int dg_control_hooks_end(dg_train *t, dg_diag *d)
{
    double begin_s = t->env->now_s();
    dg_orders o;
    int rc = dg_link_orders(t->world->link, &o, d);

    t->control_s += t->env->now_s() - begin_s;
    return rc < 0 || !o.save ? rc : dg_keep_save_now(t, d);
}

void dg_control_hooks_rates(dg_link *link, dg_progress *p, dg_control *c)
{
    double set = dg_link_lr(link), was = c->n_groups ? c->lr[c->n_groups - 1] : 0;

    if (set != 0)
        p->lr = set > 0 ? set : 0;
    for (int i = 0; p->lr > 0 && was > 0 && i < c->n_groups; i++)
        c->lr[i] *= p->lr / was;
}

/* ---- position -------------------------------------------------------------------------------- */

void dg_control_hooks_at(dg_link *link, const dg_where *at, const char *name)
{
    dg_recorder *r = dg_link_recorder(link);
    dg_where where = *at;

    if (!r)
        return;
    if (name)
        where.node = name;
    dg_recorder_at(r, dg_recorder_place(r, &where));
}

void dg_control_hooks_saved(dg_link *link, int64_t step)
{
    dg_recorder_saved(dg_link_recorder(link), step);
}

void dg_control_hooks_saving(dg_link *link, int64_t step)
{
    dg_recorder_saving(dg_link_recorder(link), step);
}
