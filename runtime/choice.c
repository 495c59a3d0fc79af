/* choice.c: see choice.h. The sampler sees what stayed as a data set of its own; its picks are translated back. */
#include "runtime/choice.h"

typedef struct view {
    const dg_dataset *of;
    const int32_t    *items;
} view;

static int32_t item_of(int32_t item)
{
    return item < 0 ? ~item : item;
}

static void view_info(void *self, int item, dg_item_info *out)
{
    const view *v = self;

    v->of->info(v->of->self, item_of(v->items[item]), out);
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

/* The items that all choices leave. */
static int choose(dg_choice *out, dg_arena *arena, const dg_planning *p, int64_t epoch, dg_diag *d)
{
    int32_t *all = DG_NEW_N(arena, p->data->n_items + 1, int32_t);
    int      rc = 0;

    for (int i = 0; i < p->data->n_items; i++)
        all[i] = i;
    *out = (dg_choice){ p->data->n_items, all };
    for (int i = 0; i < p->chain->n_choices && rc == 0; i++) {
        const dg_node       *node = p->chain->choices[i];
        bool                 dealt = p->dealt >> i & 1;
        const dg_choose_args args = {
            .data = p->data,
            .n = out->n,
            .items = out->items,
            .epoch = epoch,
            .seed = p->seed ^ dg_hash_str(node->path),
            .rank = dealt ? p->rank : 0,
            .ranks = dealt ? p->ranks : 1,
            .least = dealt && p->least ? p->least : least_alone,
            .ctx = p->ctx,
            .alloc = arena_alloc,
            .arena = arena,
        };

        rc = node->class->choose(out, node->conf, &args, d);
    }
    return rc;
}

static int schedule(dg_schedule *plan, dg_arena *arena, const dg_planning *p, dg_dataset *data, int64_t epoch, dg_diag *d)
{
    const dg_schedule_args args = {
        .data = data, .epoch = epoch, .seed = p->seed ^ dg_hash_str(p->chain->sampler->path), .ranks = p->whole ? 1 : p->ranks,
        .alloc = arena_alloc, .arena = arena,
    };

    return p->chain->sampler->class->schedule(plan, p->chain->sampler->conf, &args, d);
}

/* Places in the view become items: padding where the sampler, or a choice before it, made it so. */
static const int32_t *translate(dg_arena *arena, const int32_t *slots, int64_t n, const int32_t *items)
{
    int32_t *out = DG_NEW_N(arena, n, int32_t);

    for (int64_t k = 0; k < n; k++) {
        int32_t item = items[item_of(slots[k])];

        out[k] = slots[k] < 0 && item >= 0 ? ~item : item;
    }
    return out;
}

int dg_plan_epoch(dg_schedule *plan, dg_arena *arena, const dg_planning *p, int64_t epoch, dg_diag *d)
{
    dg_dataset seen = *p->data;
    dg_choice  chosen;
    view       v;
    dg_pick   *picks;
    int        rc;

    if (!p->chain->n_choices)
        return schedule(plan, arena, p, p->data, epoch, d);
    DG_TRY(choose(&chosen, arena, p, epoch, d));
    v = (view){ p->data, chosen.items };
    seen.n_items = (int)chosen.n;
    seen.self = &v;
    seen.info = view_info;
    DG_TRY(schedule(plan, arena, p, &seen, epoch, d));
    picks = DG_NEW_N(arena, plan->n_picks + 1, dg_pick);
    for (int64_t i = 0; i < plan->n_picks; i++) {
        picks[i] = plan->picks[i];
        picks[i].items = translate(arena, plan->picks[i].items, (int64_t)plan->batch * (p->whole ? 1 : p->ranks), chosen.items);
    }
    plan->picks = picks;
out:
    return rc;
}
