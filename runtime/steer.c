/* steer.c: see steer.h. */
#include "runtime/steer.h"

#include <string.h>

#include "runtime/facts.h"
#include "runtime/link.h"
#include "runtime/witness.h"

static int meet(const dg_run *run, dg_rows (*facts)(const void *ctx, dg_arena *a), const void *ctx, dg_diag *d)
{
    dg_arena *a;
    dg_rows   rows;
    int       rc;

    if (!run->world.link)
        return 0;
    a = dg_arena_open();
    rows = facts(ctx, a);
    rc = dg_link_meet(run->world.link, &rows, d);
    dg_arena_close(&a);
    return rc;
}

static dg_rows of_pipeline(const void *ctx, dg_arena *a)
{
    return dg_facts_of_pipeline(ctx, a);
}

int dg_steer_meet_pipeline(dg_run *run, dg_diag *d)
{
    return meet(run, of_pipeline, run, d);
}

static dg_rows of_data(const void *ctx, dg_arena *a)
{
    const dg_train *t = ctx;

    return dg_facts_of_data(t->run, &t->identity, t->data, a);
}

int dg_steer_meet_data(dg_train *t, dg_diag *d)
{
    if (t->run->progress.step > 0)
        dg_steer_saved(t->run, t->run->progress.step);
    return meet(t->run, of_data, t, d);
}

void dg_steer_folder(const dg_train *t)
{
    if (t->out)
        dg_link_folder(t->run->world.link, t->out);
}

/* ---- fewer ranks ---------------------------------------------------------------------------------------------------- */

/* The `batch` of a sampler that deals over the ranks, or NULL. */
static int64_t *dealt_batch(const dg_run *run, const dg_node *n)
{
    for (const dg_attr *a = n->class->attrs; n->class->schedule && a && a->name; a++)
        if (strcmp(a->name, "batch") == 0 && a->kind == DG_ATTR_INT && dg_run_shares(run, n))
            return (int64_t *)(void *)((char *)n->conf + a->offset);
    return NULL;
}

static int indivisible(const dg_node *n, int64_t all, int ranks, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, n->where, "elastic-batch", "a batch of %lld over all ranks is not divided by the %d that may be left", (long long)all,
            ranks);
    dg_help(d, "--elastic with --max-restarts K needs a batch that every number of ranks divides that K losses of a rank or of a machine may leave");
    return -DG_EINPUT;
}

/* A number of ranks that are left, or may be, and do not divide a batch of all; 0: there is none. */
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

/* Fewer ranks could not take up the plan of an epoch that each rank makes for itself. */
static int check_plan(const dg_run *run, const dg_scope *train, dg_diag *d)
{
    dg_chain chain;
    int      rc = dg_graph_chain(&chain, train, d);

    if (rc < 0 || !chain.sampler || !dg_run_plans_by_ranks(run, &chain))
        return rc;
    dg_fail(d, DG_EINPUT, chain.sampler->where, "elastic-plan",
            "each rank plans for its own share: with fewer ranks the rest of an epoch would be another one");
    dg_help(d, "axis on the sampler deals one plan, which fewer ranks can go on with; or leave --elastic out");
    return -DG_EINPUT;
}

int dg_steer_deal(dg_run *run, dg_diag *d)
{
    const dg_world *w = &run->world;
    const dg_scope *train = run->graph->train;
    int             rc = train && w->may_lose > 0 ? check_plan(run, train, d) : 0;

    if (rc < 0)
        return rc;
    for (int i = 0; train && w->may_lose > 0 && i < train->n_nodes; i++) {
        int64_t *batch = dealt_batch(run, train->nodes[i]), all = batch ? *batch * w->first_ranks : 0;
        int      n = batch ? cannot_share(w, all) : 0;

        if (n)
            return indivisible(train->nodes[i], all, n, d);
        if (batch)
            *batch = all / w->ranks;
    }
    return 0;
}

/* So many ranks are left at least: whole machines are lost first, but never the first one's last rank. */
static int fewest_left(const dg_world *w)
{
    int left = w->first_ranks, lose = w->may_lose;

    if (lose <= 0)
        return w->ranks;
    for (; lose > 0 && left > w->machine_ranks; lose--)
        left -= w->machine_ranks;
    return left - lose > 1 ? left - lose : 1;
}

int dg_steer_places(const dg_run *run, dg_diag *d)
{
    const dg_world *w = &run->world;

    for (int i = 0; i < run->graph->n_evaluates; i++) {
        const dg_scope *s = run->graph->evaluates[i];

        if (s->on < fewest_left(w))
            continue;
        if (w->may_lose <= 0)
            return dg_fail(d, DG_EINPUT, s->where, "on-rank", "on=\"%lld\": there is no such rank: %d %s started, counted from 0",
                           (long long)s->on, w->ranks, w->ranks == 1 ? "is" : "are");
        dg_fail(d, DG_EINPUT, s->where, "on-rank", "on=\"%lld\": losses may leave %d of %d ranks, counted from 0, and not this one",
                (long long)s->on, fewest_left(w), w->first_ranks);
        dg_help(d, "on=\"0\": there is always a rank 0; or fewer --max-restarts, or leave --elastic out");
        return -DG_EINPUT;
    }
    return 0;
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

int dg_steer_begin(dg_train *t, const dg_stream_batch *b, dg_diag *d)
{
    dg_run *run = t->run;
    dg_word w = { .step = run->progress.step, .batch = run->progress.batch, .epoch = b->epoch, .index = b->index,
                  .n_in_epoch = b->n_in_epoch, .width = b->size.w, .height = b->size.h, .slots = b->n,
                  .saved = t->out ? t->saved_step : -1 };
    double  begin_s;
    int     rc;

    if (!run->world.link)
        return 0;
    begin_s = run->env.now_s();
    w.schedule = run->current->exchange;
    w.seen = dg_witness_take(run->witness);
    rc = dg_link_begin(run->world.link, &w, d);
    t->steer_s += run->env.now_s() - begin_s;
    return rc;
}

int dg_steer_end(dg_train *t, dg_diag *d)
{
    double    begin_s = t->run->env.now_s();
    dg_orders o;
    int       rc = dg_link_orders(t->run->world.link, &o, d);

    t->steer_s += t->run->env.now_s() - begin_s;
    return rc < 0 || !o.save ? rc : dg_train_save(t, d);
}

void dg_steer_rates(dg_run *run, dg_control *c)
{
    double set = dg_link_lr(run->world.link), was = c->n_groups ? c->lr[c->n_groups - 1] : 0;

    if (set != 0)
        run->progress.lr = set > 0 ? set : 0;
    for (int i = 0; run->progress.lr > 0 && was > 0 && i < c->n_groups; i++)
        c->lr[i] *= run->progress.lr / was;
}

/* ---- where ----------------------------------------------------------------------------------------------------------- */

void dg_steer_at(const dg_run *run, const dg_where *at, const char *name)
{
    dg_recorder *r = dg_link_recorder(run->world.link);
    dg_where     where = *at;

    if (!r)
        return;
    if (name)
        where.node = name;
    dg_recorder_at(r, dg_recorder_place(r, &where));
}

void dg_steer_saved(const dg_run *run, int64_t step)
{
    dg_recorder_saved(dg_link_recorder(run->world.link), step);
}
