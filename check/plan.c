/* plan.c: tests nodes with `schedule` (samplers): plans of drawn data, in several epochs, by
 * several ranks. Plans may depend on the items' contents, or differ between ranks, only as their
 * rules declare (DG_RULE_RATE, DIMS, VALUE). */
#include "check/check_internal.h"

#include <math.h>
#include <string.h>

#include "nodes/items.h"

enum { EPOCHS = 3, THREADS = 2 * EPOCHS, RANKS = 3 };

typedef struct planned {
    const dg_trial *t;
    const dg_dataset *data;
    int64_t epoch;
    int rank, ranks;
    dg_arena *arena;
    dg_diag *d;
    dg_schedule plan;
    int rc;
} planned;

static void *run_plan(void *ctx)
{
    planned *p = ctx;
    const dg_schedule_args args = { .data = p->data,
                                    .epoch = p->epoch,
                                    .seed = p->t->seed,
                                    .ranks = p->ranks,
                                    .alloc = dg_test_alloc,
                                    .arena = p->arena,
                                    .rank = p->rank };

    p->rc = p->t->class->schedule(&p->plan, p->t->node->conf, &args, p->d);
    return NULL;
}

static planned plan_of(const dg_trial *t, const dg_dataset *data, int64_t epoch, int rank,
                       int ranks)
{
    return (planned){ t, data, epoch, rank, ranks, dg_arena_open(), dg_diag_open(), { 0 }, 0 };
}

static planned made_plan(const dg_trial *t, const dg_dataset *data, int64_t epoch, int rank,
                         int ranks)
{
    planned p = plan_of(t, data, epoch, rank, ranks);

    run_plan(&p);
    return p;
}

static void forget(planned *p)
{
    dg_arena_close(&p->arena);
    dg_diag_close(&p->d);
}

/* Items per rank in a batch. */
static int batch_of(const dg_trial *t)
{
    const dg_size *sizes;
    int batch = 0;

    (void)t->class->sizes(t->node->conf, &sizes, &batch);
    return batch < 1 ? 1 : batch > 4096 ? 4096 : batch;
}

/* Data for a few batches on all ranks. */
static const dg_dataset *data_for(const dg_trial *t, int ranks, unsigned other)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "items"), 0, 0);
    int whole = batch_of(t) * ranks;

    return dg_trial_data(t,
                         whole * (1 + (int)dg_rng_below(&r, 3)) +
                             (int)dg_rng_below(&r, (uint64_t)whole),
                         other);
}

/* ---- what a plan is -------------------------------------------------------------------------- */

bool dg_test_sizes(dg_node_test *k, dg_trial *t)
{
    const dg_size *sizes = NULL;
    int batch = -1, n = t->class->sizes(t->node->conf, &sizes, &batch);

    if (n < 1 || !sizes)
        return dg_test_miss(k, t, NULL, "a program is made for each size", "`sizes` lists none");
    for (int i = 0; i < n; i++)
        if (sizes[i].w < 1 || sizes[i].h < 1)
            return dg_test_miss(k, t, NULL, NULL, "`sizes` lists %lldx%lld", (long long)sizes[i].w,
                                (long long)sizes[i].h);
    if (t->class->schedule ? batch < 1 : batch != 0)
        return dg_test_miss(k, t, NULL, NULL,
                            t->class->schedule
                                ? "`sizes` says batches of %d"
                                : "`sizes` says batches of %d: others plan them, say 0",
                            batch);
    dg_test_tally(k, n, "sizes", -1);
    return true;
}

static bool is_listed(const dg_trial *t, const dg_pick *pick)
{
    const dg_size *sizes;
    int batch, n = t->class->sizes(t->node->conf, &sizes, &batch);

    for (int i = 0; i < n; i++)
        if (sizes[i].w == pick->w && sizes[i].h == pick->h)
            return true;
    return false;
}

static bool check_pick(dg_node_test *k, dg_trial *t, const planned *p, int64_t at, int64_t *padded,
                       bool *seen)
{
    const dg_pick *pick = &p->plan.picks[at];

    if (!is_listed(t, pick))
        return dg_test_miss(
            k, t, NULL,
            "`sizes` lists every size that `schedule` may pick: programs are made for these",
            "batch %lld of epoch %lld is %lldx%lld, and `sizes` does not list that",
            (long long)at + 1, (long long)p->epoch + 1, (long long)pick->w, (long long)pick->h);
    for (int s = 0; s < p->plan.batch * p->ranks; s++) {
        int item = dg_item_of(pick->items[s]);

        if (item >= p->data->n_items)
            return dg_test_miss(
                k, t, NULL, NULL,
                "batch %lld of epoch %lld has item %d in slot %d, and there are %d items",
                (long long)at + 1, (long long)p->epoch + 1, item, s, p->data->n_items);
        *padded += pick->items[s] < 0;
        seen[item] = seen[item] || pick->items[s] >= 0;
    }
    return true;
}

static bool check_plan(dg_node_test *k, dg_trial *t, const planned *p)
{
    bool *seen = DG_NEW_N(t->arena, p->data->n_items + 1, bool);
    int64_t padded = 0, left = p->data->n_items;
    int batch = batch_of(t);

    if (p->plan.batch != batch)
        return dg_test_miss(k, t, NULL, NULL,
                            "`sizes` says batches of %d, and `schedule` plans batches of %d", batch,
                            p->plan.batch);
    if (p->plan.n_picks < 0 || (p->plan.n_picks && !p->plan.picks))
        return dg_test_miss(k, t, NULL, NULL, "the plan of epoch %lld has %lld batches%s",
                            (long long)p->epoch + 1, (long long)p->plan.n_picks,
                            p->plan.n_picks > 0 ? ", and no list of them" : "");
    for (int64_t i = 0; i < p->plan.n_picks; i++)
        if (!check_pick(k, t, p, i, &padded, seen))
            return false;
    for (int i = 0; i < p->data->n_items; i++)
        left -= seen[i];
    if (p->plan.padded != padded)
        return dg_test_miss(k, t, "padded", "a slot ~item is padding: computed, not counted",
                            "the plan of epoch %lld says that %lld slots are padding, and %lld are",
                            (long long)p->epoch + 1, (long long)p->plan.padded, (long long)padded);
    if (p->plan.dropped != left)
        return dg_test_miss(k, t, "dropped", "the log says what an epoch leaves out",
                            "the plan of epoch %lld says that it leaves out %lld of %d items, and "
                            "it leaves out %lld",
                            (long long)p->epoch + 1, (long long)p->plan.dropped, p->data->n_items,
                            (long long)left);
    return true;
}

bool dg_test_plan(dg_node_test *k, dg_trial *t)
{
    int ranks = dg_trial_shares(t) ? (int)t->ranks : 1;
    const dg_dataset *data = data_for(t, ranks, 0);
    bool fine = dg_test_sizes(k, t);

    for (int64_t epoch = 0; fine && epoch < EPOCHS; epoch++) {
        planned p = made_plan(t, data, epoch, 0, ranks);

        fine = p.rc < 0 ? dg_test_refuse(k, p.d) : check_plan(k, t, &p);
        forget(&p);
    }
    dg_test_tally(k, EPOCHS, "plans", -1);
    return fine;
}

bool dg_test_plan_few(dg_node_test *k, dg_trial *t)
{
    bool fine = true;

    for (int n = 0; fine && n <= 1; n++) {
        planned p = made_plan(t, dg_trial_data(t, n, 0), 0, 0, 1);

        if (p.rc < 0 && !dg_diag_n(p.d))
            fine = dg_test_miss(k, t, NULL, "dg_fail says what a user can do",
                                "it refuses %d item%s without a word", n, dg_plural(n, "s"));
        else
            fine = p.rc < 0 || check_plan(k, t, &p);
        forget(&p);
    }
    return fine;
}

/* ---- the same again -------------------------------------------------------------------------- */

/* Describes where two plans differ; NULL: nowhere. */
static const char *difference(dg_arena *a, const planned *x, const planned *y)
{
    const dg_schedule *p = &x->plan, *q = &y->plan;

    if ((x->rc < 0) != (y->rc < 0))
        return dg_printf(a, "it can be made, and cannot (%s)",
                         dg_test_why(a, x->rc < 0 ? x->d : y->d));
    if (x->rc < 0)
        return NULL;
    if (p->n_picks != q->n_picks)
        return dg_printf(a, "%lld batches, and %lld", (long long)p->n_picks, (long long)q->n_picks);
    for (int64_t i = 0; i < p->n_picks; i++) {
        if (p->picks[i].w != q->picks[i].w || p->picks[i].h != q->picks[i].h)
            return dg_printf(a, "batch %lld is %lldx%lld, and %lldx%lld", (long long)i + 1,
                             (long long)p->picks[i].w, (long long)p->picks[i].h,
                             (long long)q->picks[i].w, (long long)q->picks[i].h);
        for (int s = 0; s < p->batch * x->ranks; s++)
            if (p->picks[i].items[s] != q->picks[i].items[s])
                return dg_printf(a, "slot %d of batch %lld has item %d, and item %d", s,
                                 (long long)i + 1, dg_item_of(p->picks[i].items[s]),
                                 dg_item_of(q->picks[i].items[s]));
    }
    return NULL;
}

bool dg_test_plan_repeat(dg_node_test *k, dg_trial *t)
{
    int ranks = dg_trial_shares(t) ? (int)t->ranks : 1;
    const dg_dataset *data = data_for(t, ranks, 0);
    planned alone[EPOCHS], again[THREADS];
    const char *off = NULL;
    bool fine = true;

    for (int i = 0; i < EPOCHS; i++)
        alone[i] = made_plan(t, data, i, 0, ranks);
    for (int i = 0; i < THREADS; i++)
        again[i] = plan_of(t, data, EPOCHS - 1 - i % EPOCHS, 0, ranks);
    if (alone[0].rc < 0)
        fine = dg_test_refuse(k, alone[0].d);
    else
        dg_test_at_once(run_plan, again, sizeof *again, THREADS);
    for (int i = 0; fine && !dg_test_refused(k) && i < THREADS; i++) {
        off = difference(t->arena, &alone[again[i].epoch], &again[i]);
        if (off)
            fine = dg_test_miss(k, t, NULL,
                                "a plan is a function of the data, the seed and the epoch: draw by "
                                "dg_draw_begin(args->seed, \"plan\", args->epoch)",
                                "the plan of epoch %lld is another when it is made again, by "
                                "threads side by side: %s",
                                (long long)again[i].epoch + 1, off);
    }
    for (int i = 0; i < EPOCHS; i++)
        forget(&alone[i]);
    for (int i = 0; i < THREADS; i++)
        forget(&again[i]);
    return fine;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* With axis, one plan is divided over the ranks, and all must have it. Without, each rank has a
 * plan, and all are equal unless a rule says that the value differs. */
bool dg_test_plan_ranks(dg_node_test *k, dg_trial *t)
{
    bool shares = dg_trial_shares(t);
    int ranks = shares ? RANKS : 1;
    const dg_dataset *data = data_for(t, RANKS, 0);
    planned p[RANKS];
    bool fine = true;

    if (dg_trial_declares(t, shares ? DG_RULE_SEED : DG_RULE_VALUE, false))
        return dg_test_idle(k, "it is declared that ranks plan each for itself");
    for (int r = 0; r < RANKS; r++)
        p[r] = made_plan(t, data, 1, r, ranks);
    if (p[0].rc < 0)
        fine = dg_test_refuse(k, p[0].d);
    else if (shares)
        fine = check_plan(k, t, &p[0]);
    for (int r = 1; fine && !dg_test_refused(k) && r < RANKS; r++) {
        const char *off = difference(t->arena, &p[0], &p[r]);

        if (off && shares)
            fine = dg_test_miss(
                k, t, NULL,
                "ranks hold one plan and take their slots of it: let it not follow from args->rank",
                "axis=\"dp\" deals one plan to all ranks, and rank %d makes another than rank 0: "
                "%s",
                r, off);
        else if (off)
            fine = dg_test_miss(
                k, t, NULL,
                "a row DG_RULE_VALUE in the class's rules declares it (docs/invariance.md)",
                "rank %d makes another plan than rank 0, and no row of rules says that its output "
                "differs: %s",
                r, off);
    }
    for (int r = 0; r < RANKS; r++)
        forget(&p[r]);
    return fine;
}

/* ---- what items hold ------------------------------------------------------------------------- */

static bool check_sizes_alike(dg_node_test *k, dg_trial *t, const planned *a, const planned *b)
{
    for (int64_t i = 0; i < a->plan.n_picks && i < b->plan.n_picks; i++)
        if (a->plan.picks[i].w != b->plan.picks[i].w || a->plan.picks[i].h != b->plan.picks[i].h)
            return dg_test_miss(k, t, NULL,
                                "a row DG_RULE_DIMS with .from declares it (docs/invariance.md)",
                                "batch %lld is %lldx%lld, and %lldx%lld where items hold other "
                                "sizes or objects: no row of rules says so",
                                (long long)i + 1, (long long)a->plan.picks[i].w,
                                (long long)a->plan.picks[i].h, (long long)b->plan.picks[i].w,
                                (long long)b->plan.picks[i].h);
    return true;
}

bool dg_test_plan_content(dg_node_test *k, dg_trial *t)
{
    bool counts = dg_trial_declares(t, DG_RULE_RATE, true),
         sizes = dg_trial_declares(t, DG_RULE_DIMS, true), fine = true;
    planned a;

    if (counts && sizes)
        return dg_test_idle(k, "both are declared (DG_RULE_RATE and DIMS with .from)");
    a = made_plan(t, data_for(t, 1, 0), 0, 0, 1);
    if (a.rc < 0)
        fine = dg_test_refuse(k, a.d);
    for (unsigned other = 1; fine && !dg_test_refused(k) && other <= 3; other++) {
        planned b = made_plan(t, data_for(t, 1, other), 0, 0, 1);

        if (!counts && ((b.rc < 0) || a.plan.n_picks != b.plan.n_picks))
            fine = dg_test_miss(k, t, NULL,
                                "a row DG_RULE_RATE with .from declares it: ranks with other "
                                "images would have unequally many batches",
                                "the number of batches of %d items is %lld, and %lld where they "
                                "hold other sizes or objects: no row of rules says so",
                                a.data->n_items, (long long)a.plan.n_picks,
                                b.rc < 0 ? 0LL : (long long)b.plan.n_picks);
        else if (!sizes && b.rc >= 0)
            fine = check_sizes_alike(k, t, &a, &b);
        forget(&b);
    }
    dg_test_tally(k, 3, "other contents", -1);
    forget(&a);
    return fine;
}
