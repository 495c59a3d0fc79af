/* fuzz_data.c: streams of the simulator. A list of items goes through the data nodes at the start
 * of each epoch; samples come out of it in batches. */
#include <string.h>

#include "tests/invariance/fuzz_val.h"

static const int width[4][4] = { { 64 }, { 64, 96 }, { 64, 96 }, { 64, 96, 96, 192 } };
static const int height[4][4] = { { 64 }, { 64, 96 }, { 64, 64 }, { 64, 96, 64, 128 } };
static const int aspect[4][4] = { { 0 }, { 0, 0 }, { 0, 1 }, { 0, 0, 1, 1 } };
static const int has_aspects[4] = { 0, 0, 1, 1 };

int fz_place(const fz_rank *k, int axis, int *n)
{
    const fz_model *m = k->m;
    int at = 0;

    *n = 1;
    if (axis & FZ_DP) {
        at = k->dp;
        *n = m->dp;
    }
    if (axis & FZ_TP) {
        at = at * m->tp + k->tp;
        *n *= m->tp;
    }
    return at;
}

static fz_dice dice(const fz_rank *k, int node, int seed)
{
    uint64_t key = fz_mix(fz_mix(k->sim->seed, (uint64_t)node + 77), (uint64_t)k->plan);

    return (fz_dice){ seed == FZ_SEED_RANK ? fz_mix(key, (uint64_t)k->r + 1) : key, 0 };
}

static void shuffle(fz_item *v, int n, fz_dice *d)
{
    for (int i = n - 1; i > 0; i--) {
        int j = fz_below(d, i + 1);
        fz_item t = v[i];

        v[i] = v[j];
        v[j] = t;
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void load(const fz_rank *k, int node, fz_list *out)
{
    const fz_node *n = &k->m->node[node];
    uint64_t files = n->files == 1 ? (uint64_t)k->r + 1 : 0;
    fz_dice d = { fz_mix(fz_mix(k->sim->seed, (uint64_t)node), files), 0 };
    fz_mood mood = fz_mood_of(k, node);
    int shy = mood == FZ_EMPTY ? 90 : mood == FZ_UP ? 5 : 35 + 20 * fz_below(&d, 3);
    int tall = mood == FZ_DOWN ? 10 : 40;

    out->n = mood == FZ_BROKEN ? 2 + fz_below(&d, 5) : 6 + fz_below(&d, 14);
    for (int i = 0; i < out->n; i++) {
        fz_item *it = &out->item[i];

        *it = (fz_item){ .id = i + 20 * (int)(files % 3), .pick = FZ_NONE };
        it->objects = fz_chance(&d, shy) ? 0 : 1 + fz_below(&d, 3);
        it->aspect = fz_chance(&d, tall);
    }
}

static uint64_t items_of(const fz_list *l)
{
    uint64_t items = 0;

    for (int i = 0; i < l->n; i++)
        if (!l->item[i].padding)
            items |= UINT64_C(1) << (l->item[i].id % 64);
    return items;
}

static int bits_of(uint64_t items)
{
    int n = 0;

    for (; items; items &= items - 1)
        n++;
    return n;
}

static int batch_of(const fz_node *n)
{
    return fz_given(n->batch, 2) < 1 ? 1 : fz_given(n->batch, 2) > 4 ? 4 : fz_given(n->batch, 2);
}

/* The most items that dealing over n ranks may leave out. */
static int remainder_of(const fz_node *d, int n, bool picks)
{
    int kinds =
        d->op == FZ_PARTITION ? (d->aligned == 1 ? 4 : 1) : 1 + has_aspects[fz_given(d->sizes, 0)];

    if (d->op == FZ_PARTITION)
        return fz_given(d->equal, FZ_EQ_NONE) == FZ_EQ_DROP ? (n - 1) * kinds * (picks ? 4 : 1) : 0;
    return d->tail == FZ_TAIL_DROP || d->repeat == 1 ? (batch_of(d) * n - 1) * kinds : 0;
}

/* Notes what a rank was dealt, and looks whether another rank has some of it, or all have left out
 * more than a remainder. */
static void dealt(fz_rank *k, int node, const fz_list *in, const fz_list *out)
{
    fz_sim *s = k->sim;
    int axis = fz_given(s->m->node[node].axis, 0), n, mine = fz_place(k, axis, &n), asked = 1;
    uint64_t items = items_of(out), all_in = items_of(in), all_out = items;
    bool own_files = false;

    for (int i = 0; i < s->m->n_nodes; i++)
        own_files |= s->m->node[i].op == FZ_LOADER && s->m->node[i].files == 1;
    s->dealt[node][k->r].plan = k->plan + 1;
    s->dealt[node][k->r].in = all_in;
    s->dealt[node][k->r].items = items;
    for (int r = 0; r < s->n_ranks; r++) {
        fz_rank *o = &s->rank[r];

        if (fz_place(o, axis, &n) == mine || !(axis & FZ_DP || o->dp == k->dp) ||
            !(axis & FZ_TP || o->tp == k->tp) || s->dealt[node][r].plan != k->plan + 1)
            continue;
        asked++;
        all_in |= s->dealt[node][r].in;
        all_out |= s->dealt[node][r].items;
        if (s->dealt[node][r].items & items && !own_files)
            fz_part(s, FZ_DEALT_TWICE,
                    "ranks %d and %d got the same item of <%s id=\"%s\"> in epoch %d", r, k->r,
                    fz_classes[s->m->node[node].op].name, s->m->node[node].id, k->epoch);
    }
    if (asked == n && bits_of(all_in & ~all_out) > remainder_of(&s->m->node[node], n, in->picks))
        fz_part(s, FZ_DEALT_TWICE, "nobody got %d items of <%s id=\"%s\"> in epoch %d",
                bits_of(all_in & ~all_out), fz_classes[s->m->node[node].op].name,
                s->m->node[node].id, k->epoch);
}

/* Deals units [from, to) of a group, items or picks, over the axis: a unit behind its last is
 * padding. */
static void deal(const fz_rank *k, const fz_node *n, const fz_list *in, const int unit[],
                 int n_units, int from, int to, fz_list *out)
{
    int ranks, mine = fz_place(k, fz_given(n->axis, 0), &ranks);

    for (int i = from + mine; i < to; i += ranks)
        for (int j = 0; j < in->n; j++) {
            int at = in->picks ? in->item[j].pick : j;

            if (at != unit[i % n_units] || out->n == FZ_ITEMS)
                continue;
            out->item[out->n] = in->item[j];
            out->item[out->n++].padding |= i >= n_units;
        }
}

typedef struct fz_groups {
    int n, size[64], unit[64][FZ_ITEMS];
} fz_groups;

/* Rows of one unit for each rank, group by group; those that do not reach every rank last, the
 * fullest first. */
static void deal_groups(const fz_rank *k, const fz_node *n, const fz_list *in, const fz_groups *g,
                        fz_list *out)
{
    int ranks, equal = fz_given(n->equal, FZ_EQ_NONE);

    (void)fz_place(k, fz_given(n->axis, 0), &ranks);
    for (int c = 0; c < g->n; c++) {
        int full = g->size[c] / ranks * ranks;

        if (equal == FZ_EQ_PAD && full < g->size[c])
            full += ranks;
        deal(k, n, in, g->unit[c], g->size[c], 0, full, out);
    }
    for (int left = ranks - 1; left > 0 && equal == FZ_EQ_NONE; left--)
        for (int c = 0; c < g->n; c++)
            if (g->size[c] % ranks == left)
                deal(k, n, in, g->unit[c], g->size[c], g->size[c] - left, g->size[c], out);
}

static void partition(fz_rank *k, int node, const fz_list *given, fz_list *out)
{
    const fz_node *n = &k->m->node[node];
    fz_dice d = dice(k, node, fz_given(n->seed, FZ_SEED_RANK));
    fz_list in = *given;
    fz_groups groups = { .n = n->aligned == 1 ? 64 : 1 };

    if (n->shuffle == 1 && !in.picks)
        shuffle(in.item, in.n, &d);
    out->picks = in.picks;
    for (int c = 0; c < groups.n; c++) {
        int *unit = groups.unit[c], n_units = 0;

        for (int j = 0; j < in.n; j++) {
            const fz_item *it = &in.item[j];
            int kind = in.picks ? it->w / 32 + 8 * (it->h / 32) : it->aspect;
            int at = in.picks ? it->pick : j;

            if ((groups.n == 1 || kind == c) && (!n_units || unit[n_units - 1] != at))
                unit[n_units++] = at;
        }
        if (n->shuffle == 1 && in.picks)
            for (int i = n_units - 1; i > 0; i--) {
                int j = fz_below(&d, i + 1), t = unit[i];

                unit[i] = unit[j];
                unit[j] = t;
            }
        groups.size[c] = n_units;
    }
    deal_groups(k, n, &in, &groups, out);
    /* pick numbers follow the new order */
    for (int i = 0, last = FZ_NONE, number = FZ_NONE; out->picks && i < out->n; i++) {
        number += out->item[i].pick != last;
        last = out->item[i].pick;
        out->item[i].pick = number;
    }
    dealt(k, node, given, out);
}

/* Cuts the items of one aspect into batches; with an axis, into batches of all its ranks. */
static void cut(fz_rank *k, const fz_node *n, const fz_item *v, int n_items, int group, fz_dice *d,
                fz_list *out, int *pick)
{
    int sizes = fz_given(n->sizes, 0), batch = batch_of(n), ranks,
        mine = fz_place(k, fz_given(n->axis, 0), &ranks);
    /* what a stream that never ends leaves over begins its next round */
    int whole = batch * ranks,
        tail = n->repeat == 1 ? FZ_TAIL_DROP : fz_given(n->tail, FZ_TAIL_KEEP);

    for (int from = 0; from < n_items; from += whole) {
        int left = n_items - from, size, tries = 0;
        /* with an axis, the last batch is kept by those ranks that have something of it */
        bool kept =
            left >= whole || tail == FZ_TAIL_PAD || (tail == FZ_TAIL_KEEP && mine * batch < left);

        do
            size = fz_below(d, fz_n_sizes[sizes]);
        while (aspect[sizes][size] != group && ++tries < 1000);
        for (int j = 0; kept && j < batch && out->n < FZ_ITEMS; j++) {
            int at = mine * batch + j;
            fz_item *it = &out->item[out->n++];

            *it = v[at < left ? from + at : from + (at - left) % left];
            it->padding |= at >= left;
            if (at >= left && tail == FZ_TAIL_KEEP) { /* the last batch is smaller */
                out->n--;
                break;
            }
            it->pick = *pick;
            it->w = width[sizes][size];
            it->h = height[sizes][size];
        }
        ++*pick;
    }
}

static void sample(fz_rank *k, int node, const fz_list *in, fz_list *out)
{
    const fz_node *n = &k->m->node[node];
    fz_dice d = dice(k, node, fz_given(n->seed, FZ_SEED_SHARED));
    int sizes = fz_given(n->sizes, 0), pick = 0, n_picks, order[FZ_ITEMS];
    fz_list all = { 0 };

    for (int g = 0; g <= has_aspects[sizes]; g++) {
        fz_item v[FZ_ITEMS];
        int n_items = 0;

        for (int i = 0; i < in->n; i++)
            if (!has_aspects[sizes] || in->item[i].aspect == g)
                v[n_items++] = in->item[i];
        if (n->shuffle != 0)
            shuffle(v, n_items, &d);
        cut(k, n, v, n_items, g, &d, &all, &pick);
    }
    n_picks = pick;
    for (int i = 0; i < n_picks; i++)
        order[i] = i;
    for (int i = n_picks - 1; i > 0 && n->shuffle != 0 && n->op == FZ_SAMPLER; i--) {
        int j = fz_below(&d, i + 1), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
    pick = 0;
    for (int i = 0; i < n_picks; i++) {
        int before = out->n;

        for (int j = 0; j < all.n; j++)
            if (all.item[j].pick == order[i]) {
                out->item[out->n] = all.item[j];
                out->item[out->n++].pick = pick;
            }
        pick += out->n > before;
    }
    out->picks = true;
    if (n->axis != FZ_NONE)
        dealt(k, node, in, out);
}

static void augment(fz_rank *k, int node, const fz_list *in, fz_list *out)
{
    const fz_node *n = &k->m->node[node];
    int seed = fz_given(n->seed, FZ_SEED_SAMPLE);
    fz_dice d = dice(k, node, seed);

    *out = *in;
    for (int i = 0; i < out->n; i++) {
        fz_item *it = &out->item[i];
        uint64_t h = fz_roll(&d);

        if (seed == FZ_SEED_SAMPLE) /* its own, whoever draws it */
            h = fz_mix(fz_mix(d.key, (uint64_t)it->id), it->padding);
        it->draw = fz_mix(it->draw, h);
        if (it->objects > 0 && h % 3 == 0)
            it->objects--; /* cropped away */
    }
}

/* Behind a sampler a batch stays or goes as a whole, by the objects of all its items. */
static void filter(const fz_node *n, const fz_list *in, fz_list *out)
{
    bool whole = in->picks;

    out->picks = in->picks;
    for (int i = 0, end, pick = 0; i < in->n; i = end) {
        int objects = 0;

        for (end = i; end < in->n && (whole ? in->item[end].pick == in->item[i].pick : end == i);
             end++)
            objects += in->item[end].padding && whole ? 0 : in->item[end].objects;
        if (objects < fz_given(n->min_objects, 1))
            continue;
        for (int j = i; j < end; j++) {
            out->item[out->n] = in->item[j];
            out->item[out->n++].pick = whole ? pick : in->item[j].pick;
        }
        pick++;
    }
}

/* A node that declares that it may drop samples: by draws of the sample. A slot is filled with
 * another item then, so batches stay as they were picked. */
static void crop(fz_rank *k, int node, const fz_list *in, fz_list *out)
{
    out->picks = in->picks;
    for (int i = 0; i < in->n; i++) { /* another item takes the place of one that is dropped */
        out->item[out->n] = in->item[i];
        if (fz_mix(fz_mix(k->sim->seed, (uint64_t)node + 5),
                   (uint64_t)in->item[i].id + in->item[i].draw) %
                4 ==
            0)
            out->item[out->n].draw += 1;
        out->n++;
    }
}

static fz_end equalize(fz_rank *k, int node, const fz_list *in, fz_list *out)
{
    bool whole = in->picks; /* counts picks */
    int units = !whole ? in->n : in->n ? in->item[in->n - 1].pick + 1 : 0;

    if (!k->answered)
        k->ask = (fz_request){ .what = FZ_LEAST,
                               .node = node,
                               .axis = fz_given(k->m->node[node].axis, 0),
                               .least = units,
                               .count = 1 };
    if (!fz_meet(k))
        return FZ_WAIT;
    *out = *in;
    while (out->n && (whole ? out->item[out->n - 1].pick >= k->ask.least : out->n > k->ask.least))
        out->n--;
    return FZ_WENT_ON;
}

fz_end fz_stream_node(fz_rank *k, int node)
{
    const fz_node *n = &k->m->node[node];
    const fz_list *in = n->n_in && n->in[0].node != FZ_NONE ? k->list[n->in[0].node] : NULL;
    fz_list *out;

    if (!k->list[node]) {
        for (int i = 0; i < FZ_LISTS; i++) {
            bool taken = false;

            for (int j = 0; j < k->m->n_nodes; j++)
                taken |= k->list[j] == &k->lists[i];
            if (!taken) {
                k->list[node] = &k->lists[i];
                break;
            }
        }
    }
    out = k->list[node];
    if (!out || (!in && n->op != FZ_LOADER))
        return FZ_WENT_ON;
    memset(out, 0, sizeof *out);
    switch (n->op) {
    case FZ_LOADER:
        load(k, node, out);
        break;
    case FZ_PARTITION:
        partition(k, node, in, out);
        break;
    case FZ_FILTER:
        filter(n, in, out);
        break;
    case FZ_CROP:
        crop(k, node, in, out);
        break;
    case FZ_EQUALIZE:
        return equalize(k, node, in, out);
    case FZ_SAMPLER:
    case FZ_PLAIN:
        sample(k, node, in, out);
        break;
    case FZ_AUGMENT:
        augment(k, node, in, out);
        break;
    default:
        *out = *in;
    }
    return FZ_WENT_ON;
}

/* ---- batches --------------------------------------------------------------------------------- */

bool fz_stream_next(fz_rank *k)
{
    const fz_list *l = k->stream.last;
    int batch = 2, at = k->stream.at;

    for (int i = 0; i < k->m->n_nodes; i++)
        if ((k->m->node[i].op == FZ_SAMPLER || k->m->node[i].op == FZ_PLAIN) &&
            k->m->node[i].scope == k->scope)
            batch = batch_of(&k->m->node[i]);
    memset(&k->batch, 0, sizeof k->batch);
    if (!l || at >= l->n)
        return false;
    while (k->stream.at < l->n && k->batch.n < batch &&
           l->item[k->stream.at].pick == l->item[at].pick)
        k->batch.item[k->batch.n++] = l->item[k->stream.at++];
    k->w_px = k->batch.item[0].w;
    k->h_px = k->batch.item[0].h;
    return true;
}

static fz_val tensor(int nd, int a, int b, int c, int d)
{
    return (fz_val){ .there = true, .nd = nd, .dim = { a, b, c, d } };
}

void fz_stream_batch(fz_rank *k, int node)
{
    int b = k->batch.n, objects = 0, most = 0, least = 1 << 20;
    uint64_t h = (uint64_t)(k->w_px * 1000 + k->h_px);
    fz_val *out = k->out[node];

    for (int i = 0; i < b; i++) {
        const fz_item *it = &k->batch.item[i];

        objects += it->objects;
        most = it->objects > most ? it->objects : most;
        least = it->objects < least ? it->objects : least;
        h = fz_mix(fz_mix(h, (uint64_t)it->id), it->draw + (uint64_t)it->objects);
    }
    out[0] = tensor(4, b, k->h_px, k->w_px, 3);
    if (h % 6) { /* else: nothing but black */
        out[0].sum = fz_unit(h) * b;
        out[0].max = fz_unit(fz_mix(h, 1));
        out[0].min = fz_unit(fz_mix(h, 2)) * out[0].max;
    }
    out[1] = (fz_val){ .there = true, .sum = objects, .max = most, .min = least };
    out[2] = tensor(2, b, 8, 0, 0);
    out[2].sum = objects ? (double)(h % 3) : 0;
    out[2].max = objects ? (double)(h % 3) : 0;
    out[3] = tensor(3, b, 8, 4, 0);
    out[3].sum = objects ? 0.1 + fz_unit(fz_mix(h, 3)) * objects : 0;
    out[3].max = objects ? fz_unit(fz_mix(h, 4)) : 0;
    out[4] = tensor(1, b, 0, 0, 0);
    out[4].sum = objects;
    out[4].max = most;
    out[4].min = least;
}
