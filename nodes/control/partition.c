/* partition.c: <partition>: divides items over an axis: item i goes to rank i mod n. Its input is
 * the same list on all ranks.
 *
 * aligned: items of one size form a group, which is cut into rows of one item per rank; a row takes
 * the position of its last item. Incomplete rows come last, the fullest first. So the k-th items of
 * all ranks that have one are of one size, whatever is done about the incomplete rows. */
#include "nodes/builtin.h"

#include <stdlib.h>

#include "nodes/items.h"

typedef struct conf {
    const char *axis;
    int64_t equal, seed;
    bool aligned, shuffle;
} conf;

enum { NONE, DROP, PAD };

static const dg_port ports[] = {
    DG_IN("in", "stream", "items, equal on all ranks of the axis"),
    DG_OUT("out", "stream", "this rank's items"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_AXES_REQUIRED(conf, axis, "mesh axis to divide the items over"),
    DG_ENUM(conf, equal, NONE, "none|drop|pad",
            "how to make the shares equal in number: not at all, by dropping remaining items, or "
            "by repeating some"),
    DG_BOOL(conf, aligned, false, "give all ranks images of one size at the same position"),
    DG_BOOL(conf, shuffle, false, "shuffle the items first"),
    DG_ENUM(conf, seed, 0, "rank|shared", "random numbers differ per rank, or are equal on all"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .why = "deals items over the axis" },
    { DG_RULE_DIMS, .to = "out", .axis = "axis", .when = "!aligned",
      .why = "deals items of different sizes to ranks at the same step" },
    { DG_RULE_LEADING, .to = "out", .axis = "axis",
      .why = "deals the smaller last batch to one rank" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = "equal=none",
      .why = "deals what there is, and equal is not given: ranks may hold different item counts" },
    { DG_RULE_SEED, .to = "out", .from = "in", .axis = "axis",
      .why = "shares out what is not the same on all its ranks" },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = "shuffle,seed=rank",
      .why = "draws the order that is dealt on each rank for itself" },
    { DG_RULE_VALUE, .to = "out", .when = "shuffle,seed=rank",
      .why = "draws its order on each rank for itself" },
    { DG_RULE_DIMS, .to = "out", .when = "shuffle,seed=rank",
      .why = "draws its order on each rank for itself" },
    { 0 },
};

static int no_memory_to_deal(const dg_choose_args *a, dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to deal %lld items",
                   (long long)a->n);
}

/* ---- in rows of one size --------------------------------------------------------------------- */

typedef struct unit {
    int w, h;
    int64_t at;
    int32_t item;
} unit;
typedef struct row {
    int64_t at, n; /* n: ranks that get an item from the row */
    const unit *group, *first, *end;
} row;

static int by_size(const void *p, const void *q)
{
    const unit *a = p, *b = q;

    if (a->w != b->w)
        return a->w < b->w ? -1 : 1;
    if (a->h != b->h)
        return a->h < b->h ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static int by_place(const void *p, const void *q)
{
    const row *a = p, *b = q;

    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

/* Cuts the units of one size into rows; returns the end of the rows. */
static row *cut(row *rows, const conf *c, const unit *group, const unit *end, int64_t ranks)
{
    for (const unit *u = group; u < end; u += ranks) {
        int64_t n = end - u < ranks ? end - u : ranks;

        if (n < ranks && c->equal == DROP)
            break;
        *rows++ = (row){ u[n - 1].at, c->equal == PAD ? ranks : n, group, u, end };
    }
    return rows;
}

static void deal_rows(dg_choice *out, const conf *c, const dg_choose_args *a, unit *units,
                      row *rows, int32_t *own)
{
    row *end = rows;
    int64_t n = 0;

    qsort(units, (size_t)a->n, sizeof *units, by_size);
    for (int64_t i = 0, k; i < a->n; i = k) {
        for (k = i; k < a->n && units[k].w == units[i].w && units[k].h == units[i].h;)
            k++;
        end = cut(end, c, units + i, units + k, a->ranks);
    }
    qsort(rows, (size_t)(end - rows), sizeof *rows, by_place);
    for (const row *r = rows; r < end; r++) {
        int64_t left = r->end - r->first;

        if (a->rank < left && a->rank < r->n)
            own[n++] = r->first[a->rank].item;
        else if (a->rank < r->n)
            own[n++] = dg_item_padding(r->group[(a->rank - left) % (r->end - r->group)].item);
    }
    *out = (dg_choice){ n, own };
}

static int choose_aligned(dg_choice *out, const conf *c, const dg_choose_args *a,
                          const int32_t *all, dg_diag *d)
{
    unit *units = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *units);
    row *rows = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *rows);
    int32_t *own = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *own);

    if (!units || !rows || !own)
        return no_memory_to_deal(a, d);
    for (int64_t i = 0; i < a->n; i++) {
        dg_item_info info;

        a->data->info(a->data->self, dg_item_of(all[i]), &info);
        units[i] = (unit){ info.w, info.h, i, all[i] };
    }
    deal_rows(out, c, a, units, rows, own);
    return 0;
}

/* ---- item by item ---------------------------------------------------------------------------- */

static int choose_any(dg_choice *out, const conf *c, const dg_choose_args *a, const int32_t *all,
                      dg_diag *d)
{
    int64_t ranks = a->ranks, each = a->n / ranks, more = a->n % ranks;
    int64_t n = c->equal == DROP || !more ? each
                : c->equal == PAD         ? each + 1
                                          : each + (a->rank < more);
    int32_t *own = a->alloc(a->arena, (size_t)(n + 1) * sizeof *own);

    if (!own)
        return no_memory_to_deal(a, d);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i * ranks + a->rank;

        own[i] = k < a->n ? all[k] : dg_item_padding(all[k % a->n]);
    }
    *out = (dg_choice){ n, own };
    return 0;
}

static int choose(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    const conf *c = self;
    dg_draw draw = dg_draw_begin(a->seed, "order", (uint64_t)a->epoch);
    int32_t *all = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *all);

    if (!all)
        return no_memory_to_deal(a, d);
    for (int64_t i = 0; i < a->n; i++)
        all[i] = a->items[i];
    if (c->shuffle)
        dg_items_shuffle(all, a->n, &draw);
    return c->aligned ? choose_aligned(out, c, a, all, d) : choose_any(out, c, a, all, d);
}

const dg_node_class dg_node_partition = {
    DG_NODE_CLASS,
    .name = "partition",
    .role = DG_ROLE_SAMPLER,
    .brief = "Divides the items over the ranks of a mesh axis.",
    .doc = "Between loader and sampler an item is an image; after the sampler, a batch.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .choose = choose,
};
