/* epoch_plan.c: see epoch_plan.h. Choices before the sampler select from the items of the data set,
 * those after it from this rank's batches: either way from a list to a list. The sampler sees the
 * remaining items as a data set; its picks are translated back. */
#include "feed/epoch_plan.h"

#include <string.h>

#include "graph/rule.h"
#include "nodes/items.h"

typedef struct view {
    const dg_dataset *of;
    const int32_t *items;
} view;

static void view_info(void *self, int item, dg_item_info *out)
{
    const view *v = self;

    v->of->info(v->of->self, dg_item_of(v->items[item]), out);
}

static void *arena_alloc(void *arena, size_t bytes)
{
    return dg_alloc(arena, bytes);
}

static int64_t least_alone(void *ctx, int64_t n)
{
    (void)ctx;
    return n;
}

/* The questions of a plan to the other ranks. A rank that fails answers the others' next one, which
 * must be for the same node. */
typedef struct vote {
    const dg_node *next;
    int status; /* negative: a question failed, and the ranks ask no more */
} vote;

/* The first choice from number i on that asks the other ranks; else the plan itself does. */
static const dg_node *next_to_ask(const dg_planning *p, int i)
{
    for (; i < p->chain->n_choices; i++)
        if (p->dealt >> i & 1 && dg_node_has_row(p->chain->choices[i], DG_RULE_EQUAL))
            return p->chain->choices[i];
    return p->chain->sampler;
}

/* Context of a choice's question to the other ranks. */
typedef struct question {
    const dg_planning *p;
    int choice;
    dg_diag *d;
    vote *votes;
} question;

static int64_t ask_least(void *ctx, int64_t n)
{
    const question *q = ctx;
    int64_t least = q->p->least(q->p->ctx, q->p->chain->choices[q->choice], n, q->d);

    q->votes->next = next_to_ask(q->p, q->choice + 1);
    q->votes->status = least < 0 ? (int)least : q->votes->status;
    return least;
}

/* Fails unless all items are valid indices: later nodes read by them. */
static int check_items(const int32_t *items, int64_t n, int n_items, const dg_node *node,
                       dg_diag *d)
{
    for (int64_t i = 0; i < n; i++)
        if (dg_item_of(items[i]) >= n_items) {
            dg_fail(d, DG_EINTERNAL, node->where, "contract-item",
                    "broke a declared contract: node \"%s\" gave item %d, of %d items", node->path,
                    dg_item_of(items[i]), n_items);
            dg_help(d,
                    "items count from 0; ~item is padding, which is computed and does not count");
            return -DG_EINTERNAL;
        }
    return 0;
}

/* What choices first .. end - 1 leave of all items of data. */
static int make_choices(dg_choice *out, dg_arena *arena, const dg_planning *p,
                        const dg_dataset *data, int first, int end, int64_t epoch, int64_t *left,
                        vote *votes, dg_diag *d)
{
    question q = { p, 0, d, votes };
    int32_t *all = DG_NEW_N(arena, data->n_items + 1, int32_t);
    int rc = 0;

    for (int i = 0; i < data->n_items; i++)
        all[i] = i;
    *out = (dg_choice){ data->n_items, all };
    for (int i = first; i < end && rc == 0; i++) {
        const dg_node *node = p->chain->choices[i];
        bool dealt = p->dealt >> i & 1;
        const dg_choose_args args = {
            .data = data,
            .n = out->n,
            .items = out->items,
            .epoch = epoch,
            .seed = p->seed ^ dg_fnv1a_text(node->path),
            .rank = dealt ? p->rank : 0,
            .ranks = dealt ? p->ranks : 1,
            .least = dealt && p->least ? ask_least : least_alone,
            .ctx = &q,
            .alloc = arena_alloc,
            .arena = arena,
        };

        q.choice = i;
        votes->next = next_to_ask(p, i);
        rc = node->class->choose(out, node->conf, &args, d);
        rc = rc < 0 ? rc : check_items(out->items, out->n, data->n_items, node, d);
        if (left)
            left[i] = out->n;
    }
    return rc;
}

/* ---- the sampler's batches ------------------------------------------------------------------- */

static bool is_listed(const dg_size *sizes, int n, const dg_pick *pick)
{
    for (int i = 0; i < n; i++)
        if (sizes[i].w == pick->w && sizes[i].h == pick->h)
            return true;
    return false;
}

/* Fails unless the plan uses only sizes that the sampler lists: programs and memory are made for
 * those. */
static int check_plan(const dg_schedule *plan, const dg_node *sampler, int ranks, int n_items,
                      dg_diag *d)
{
    const dg_size *sizes;
    int batch, n = sampler->class->sizes(sampler->conf, &sizes, &batch);

    for (int64_t i = 0; plan->batch == batch && i < plan->n_picks; i++)
        if (!is_listed(sizes, n, &plan->picks[i])) {
            dg_fail(d, DG_EINTERNAL, sampler->where, "contract-size",
                    "broke a declared contract: node \"%s\" picked %lldx%lld for batch %lld, and "
                    "does not list that size",
                    sampler->path, (long long)plan->picks[i].w, (long long)plan->picks[i].h,
                    (long long)i + 1);
            dg_help(d, "`sizes` of <%s> lists every image size that `schedule` may pick",
                    sampler->class->name);
            return -DG_EINTERNAL;
        }
    for (int64_t i = 0; plan->batch == batch && i < plan->n_picks; i++)
        if (check_items(plan->picks[i].items, (int64_t)batch * ranks, n_items, sampler, d) < 0)
            return -DG_EINTERNAL;
    return plan->batch == batch
               ? 0
               : dg_fail(d, DG_EINTERNAL, sampler->where, "contract-size",
                         "broke a declared contract: node \"%s\" plans batches of %d, declared %d",
                         sampler->path, plan->batch, batch);
}

static int schedule(dg_schedule *plan, dg_arena *arena, const dg_planning *p, dg_dataset *data,
                    int64_t epoch, dg_diag *d)
{
    const dg_schedule_args args = {
        .data = data,
        .epoch = epoch,
        .seed = p->seed ^ dg_fnv1a_text(p->chain->sampler->path),
        .ranks = p->own_plan ? 1 : p->ranks,
        .alloc = arena_alloc,
        .arena = arena,
        .rank = p->rank,
    };

    int rc = p->chain->sampler->class->schedule(plan, p->chain->sampler->conf, &args, d);

    return rc < 0 ? rc : check_plan(plan, p->chain->sampler, args.ranks, data->n_items, d);
}

/* Keeps this rank's slots and translates their indices into items: padding if the sampler, or a
 * choice before it, made them padding. */
static void take_own(dg_schedule *plan, dg_arena *arena, const dg_planning *p, const int32_t *items)
{
    dg_pick *picks = DG_NEW_N(arena, plan->n_picks + 1, dg_pick);
    int32_t *out = items ? DG_NEW_N(arena, plan->n_picks * plan->batch + 1, int32_t) : NULL;

    for (int64_t i = 0; i < plan->n_picks; i++) {
        const int32_t *slots =
            plan->picks[i].items + (p->own_plan ? 0 : (int64_t)p->rank * plan->batch);

        picks[i] = plan->picks[i];
        picks[i].items = items ? out : slots;
        for (int k = 0; k < plan->batch && items; k++, out++) {
            int32_t item = items[dg_item_of(slots[k])];

            *out = slots[k] < 0 ? dg_item_padding(item) : item;
        }
    }
    plan->picks = picks;
}

static int plan_items(dg_schedule *plan, dg_arena *arena, const dg_planning *p, int64_t epoch,
                      int64_t *left, vote *votes, dg_diag *d)
{
    dg_dataset seen = { 0 };
    dg_choice chosen;
    view v;
    int rc;

    if (!p->chain->n_before) {
        DG_TRY(schedule(plan, arena, p, p->data, epoch, d));
        take_own(plan, arena, p, NULL);
        return 0;
    }
    DG_TRY(make_choices(&chosen, arena, p, p->data, 0, p->chain->n_before, epoch, left, votes, d));
    v = (view){ p->data, chosen.items };
    /* a plugin with older headers has fewer members */
    memcpy(&seen, p->data, p->data->size < sizeof seen ? p->data->size : sizeof seen);
    seen.n_items = (int)chosen.n;
    seen.self = &v;
    seen.info = view_info;
    DG_TRY(schedule(plan, arena, p, &seen, epoch, d));
    take_own(plan, arena, p, chosen.items);
out:
    return rc;
}

/* ---- choices among batches ------------------------------------------------------------------- */

typedef struct batches {
    const dg_dataset *of;
    const dg_schedule *plan;
} batches;

static void batch_info(void *self, int item, dg_item_info *out)
{
    const batches *b = self;
    const dg_pick *pick = &b->plan->picks[item];

    *out = (dg_item_info){ .id = item, .name = "a batch", .w = (int)pick->w, .h = (int)pick->h };
    for (int k = 0; k < b->plan->batch; k++) {
        dg_item_info one;

        if (pick->items[k] < 0)
            continue;
        b->of->info(b->of->self, pick->items[k], &one);
        out->n_objects += one.n_objects;
    }
}

/* The batch's items, all as padding. */
static const int32_t *all_padding(dg_arena *arena, const int32_t *items, int n)
{
    int32_t *out = DG_NEW_N(arena, n, int32_t);

    for (int k = 0; k < n; k++)
        out[k] = dg_item_padding(items[k]);
    return out;
}

static int choose_batches(dg_schedule *plan, dg_arena *arena, const dg_planning *p, int64_t epoch,
                          int64_t *left, vote *votes, dg_diag *d)
{
    const dg_schedule made = *plan;
    batches b = { p->data, &made };
    const dg_dataset data = {
        .size = sizeof data,
        .n_items = (int)made.n_picks,
        .n_classes = p->data->n_classes,
        .classes = p->data->classes,
        .name = p->data->name,
        .self = &b,
        .info = batch_info,
    };
    dg_choice chosen;
    dg_pick *picks;
    int rc = make_choices(&chosen, arena, p, &data, p->chain->n_before, p->chain->n_choices, epoch,
                          left, votes, d);

    if (rc < 0)
        return rc;
    picks = DG_NEW_N(arena, chosen.n + 1, dg_pick);
    for (int64_t i = 0; i < chosen.n; i++) {
        picks[i] = made.picks[dg_item_of(chosen.items[i])];
        if (chosen.items[i] < 0)
            picks[i].items = all_padding(arena, picks[i].items, made.batch);
    }
    plan->picks = picks;
    plan->n_picks = chosen.n;
    return 0;
}

int dg_epoch_plan_make(dg_schedule *plan, dg_arena *arena, const dg_planning *p, int64_t epoch,
                       int64_t *left, dg_diag *d)
{
    vote votes = { next_to_ask(p, 0), 0 };
    int rc = plan_items(plan, arena, p, epoch, left, &votes, d);

    if (rc == 0 && p->chain->n_choices > p->chain->n_before)
        rc = choose_batches(plan, arena, p, epoch, left, &votes, d);
    if (rc == 0 && plan->n_picks < 1) {
        rc = dg_fail(d, DG_EINPUT, p->chain->sampler->where, "epoch-empty",
                     "of the %d image%s of %s no batch of %d is left in epoch %lld",
                     p->data->n_items, dg_plural(p->data->n_items, "s"), p->data->name, plan->batch,
                     (long long)epoch + 1);
        dg_help(d, "make batch smaller, or let more through what chooses");
    }
    /* a rank that failed answers the others' next question, or this one */
    if (p->ends_together && votes.status == 0) {
        int64_t least = rc < 0 ? p->least(p->ctx, votes.next, -1, d)
                               : p->least(p->ctx, p->chain->sampler, plan->n_picks, d);

        rc = rc == 0 && least < 0 ? (int)least : rc;
    }
    return rc < 0 ? rc : votes.status; /* a choice may have ignored it */
}
