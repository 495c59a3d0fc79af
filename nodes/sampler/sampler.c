/* sampler.c: see sampler.h.
 *
 *  1. Sizes of one aspect ratio form a group; an image belongs to the group whose ratio is nearest
 *     to its own (in logarithm). With square sizes only there is one group.
 *  2. The items of each group are shuffled and cut into batches; each batch draws a size of its
 *     group, where a size that is listed twice is twice as likely.
 *  3. Remaining items of a group are dropped, or the batch is filled up (tail).
 *  4. The batches of all groups are shuffled together.
 *  5. If `alike` batches share a size, or sizes are drawn as RF-DETR's reference does, sizes are
 *     drawn here, for as many batches each; those that are left over are dropped. */
#include "nodes/sampler/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes/items.h"
#include "nodes/sampler/python.h"

static void shuffle_picks(dg_pick *v, int64_t n, dg_draw *draw)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = dg_draw_below(draw, i + 1);
        dg_pick t = v[i];

        v[i] = v[j];
        v[j] = t;
    }
}

/* The group of size k: the first size of the same aspect ratio. */
static int group_of(const dg_sizes *s, int k)
{
    for (int i = 0; i < k; i++)
        if (s->v[i].w * s->v[k].h == s->v[k].w * s->v[i].h)
            return i;
    return k;
}

static int nearest_group(const dg_sizes *s, int w, int h)
{
    double want = log((double)w / h), best = HUGE_VAL;
    int group = 0;

    for (int k = 0; k < s->n; k++) {
        double off = fabs(log((double)s->v[k].w / (double)s->v[k].h) - want);

        if (group_of(s, k) == k && off < best) {
            best = off;
            group = k;
        }
    }
    return group;
}

static dg_size draw_size(const dg_sizes *s, int group, dg_draw *draw)
{
    int n = 0, k;

    for (int i = 0; i < s->n; i++)
        n += group_of(s, i) == group;
    k = (int)dg_draw_below(draw, n);
    for (int i = 0;; i++)
        if (group_of(s, i) == group && k-- == 0)
            return s->v[i];
}

/* Cuts the n items of one group into global batches of `whole` items. */
static int cut(dg_schedule *out, dg_pick *picks, const dg_sampler_conf *c, const dg_sizes *sizes,
               int group, int32_t *items, int64_t n, int64_t whole, dg_draw *draw,
               const dg_schedule_args *a)
{
    /* with repeat there is no last batch that could be smaller */
    bool drop = c->tail == DG_TAIL_DROP || (c->tail == DG_TAIL_KEEP && c->repeat);
    int64_t full = n / whole, left = n % whole, more = left > 0 && !drop;

    for (int64_t k = 0; k < full + more; k++) {
        dg_size size = draw_size(sizes, group, draw);
        int32_t *slots = items + k * whole;

        if (k == full) {
            slots = a->alloc(a->arena, (size_t)whole * sizeof *slots);
            if (!slots)
                return -DG_EMEMORY;
            memcpy(slots, items + k * whole, (size_t)left * sizeof *slots);
            for (int64_t j = left; j < whole; j++)
                slots[j] = ~items[(j - left) % n];
            out->padded += whole - left;
        }
        picks[out->n_picks++] = (dg_pick){ size.w, size.h, slots };
    }
    if (!more)
        out->dropped += left;
    return 0;
}

/* Random numbers for the plan: equal on every rank, or each rank's own; rank 0 draws the same
 * either way. */
static dg_draw begin_draws(const dg_sampler_conf *c, const dg_schedule_args *a)
{
    char name[32] = "plan";

    if (c->seed == DG_SAMPLER_OWN && a->rank > 0)
        snprintf(name, sizeof name, "plan of rank %d", a->rank);
    return dg_draw_begin(a->seed, name, (uint64_t)a->epoch);
}

/* Sizes of `alike` batches at a time. The reference seeds Python's generator with the number of the
 * optimizer's step, which counts steps that its epochs would have if no image were dropped. */
static void draw_sizes(dg_schedule *out, dg_pick *picks, const dg_sampler_conf *c,
                       const dg_sizes *sizes, int64_t n_items, dg_draw *draw,
                       const dg_schedule_args *a)
{
    int64_t items = c->batch * a->ranks * c->alike, steps = out->n_picks / c->alike,
            counted = (n_items + items - 1) / items;

    out->dropped += (out->n_picks - steps * c->alike) * c->batch * a->ranks;
    out->n_picks = (int)(steps * c->alike);
    for (int64_t i = 0; i < steps; i++) {
        int k = c->draw == DG_SAMPLER_PYTHON
                    ? dg_python_choice((uint64_t)(a->epoch * counted + i), sizes->n)
                    : (int)dg_draw_below(draw, sizes->n);

        for (int64_t j = i * c->alike; j < (i + 1) * c->alike; j++) {
            picks[j].w = sizes->v[k].w;
            picks[j].h = sizes->v[k].h;
        }
    }
}

int dg_sampler_schedule(dg_schedule *out, const void *self, const dg_schedule_args *a, dg_diag *d)
{
    const dg_sampler_conf *c = self;
    dg_clock clock = { .epoch = a->epoch, .step = a->epoch };
    dg_sizes sizes = c->base.n && dg_reached(&c->until, &clock) ? c->base : c->sizes;
    dg_draw draw = begin_draws(c, a);
    int64_t n = a->data->n_items, whole = c->batch * a->ranks, at = 0;
    int32_t *items = a->alloc(a->arena, (size_t)(n + 1) * sizeof *items);
    int *group = a->alloc(a->arena, (size_t)(n + 1) * sizeof *group);
    dg_pick *picks = a->alloc(a->arena, (size_t)(n / whole + sizes.n + 1) * sizeof *picks);

    *out = (dg_schedule){ .picks = picks, .batch = (int)c->batch };
    if (!items || !group || !picks)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory for the plan of %lld items", (long long)n);
    for (int i = 0; i < n; i++) {
        dg_item_info info;

        a->data->info(a->data->self, i, &info);
        group[i] = nearest_group(&sizes, info.w, info.h);
    }
    for (int g = 0; g < sizes.n; g++) {
        int32_t *mine = items + at;
        int64_t n_mine = 0;

        for (int i = 0; i < n; i++)
            if (group[i] == g)
                mine[n_mine++] = i;
        if (c->shuffle)
            dg_items_shuffle(mine, n_mine, &draw);
        if (n_mine && cut(out, picks, c, &sizes, g, mine, n_mine, whole, &draw, a) < 0)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                           "no memory for the plan of %lld items", (long long)n);
        at += n_mine;
    }
    if (c->shuffle)
        shuffle_picks(picks, out->n_picks, &draw);
    if (c->alike > 1 || c->draw == DG_SAMPLER_PYTHON)
        draw_sizes(out, picks, c, &sizes, n, &draw, a);
    if (!out->n_picks) {
        int rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "sampler-empty",
                         "%s has %lld image%s: not one batch of %lld over %d rank%s", a->data->name,
                         (long long)n, n == 1 ? "" : "s",
                         (long long)(c->batch * (c->alike > 1 ? c->alike : 1)), a->ranks,
                         a->ranks == 1 ? "" : "s");

        dg_help(d, "make batch smaller, or fill up with tail=\"pad\"");
        return rc;
    }
    return 0;
}

int dg_sampler_sizes(const void *self, const dg_size **sizes, int *batch)
{
    const dg_sampler_conf *c = self;

    *sizes = c->sizes.v;
    *batch = (int)c->batch;
    return c->sizes.n;
}
