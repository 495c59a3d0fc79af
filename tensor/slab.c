/* slab.c: offline placement of blocks. Takes blocks in some order of importance, each into the
 * tightest gap between placed blocks whose lifetimes overlap its own (best fit). No order is best
 * for all programs, so several are tried: largest first, largest area first, and by birth. */
#include "tensor/slab.h"

#include <stdlib.h>

typedef struct ranked {
    double rank; /* larger is placed first */
    int block;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;

    return x->rank != y->rank ? (x->rank > y->rank ? -1 : 1) : x->block - y->block;
}

enum { ORDERS = 3 };

static double importance(const dg_block *b, int order)
{
    double bytes = (double)b->bytes;

    switch (order) {
    case 0:
        return bytes;
    case 1:
        return bytes * (b->last - b->first + 1);
    default:
        return -(double)b->first;
    }
}

typedef struct taken {
    int64_t offset, end;
    int first, last;
} taken;

/* The offset of the tightest gap for b. placed: sorted by offset. */
static int64_t best_gap(const taken *placed, int n, const dg_block *b)
{
    int64_t end = 0, best = -1, best_bytes = INT64_MAX;

    for (const taken *o = placed; o < placed + n; o++) {
        if (o->last < b->first || o->first > b->last)
            continue;
        int64_t gap = o->offset - end;

        if (gap >= b->bytes && gap < best_bytes) {
            best = end;
            best_bytes = gap;
        }
        if (o->end > end)
            end = o->end;
    }
    return best >= 0 ? best : end;
}

static int64_t place_in_order(dg_block *blocks, int n, int order, ranked *rank, taken *placed)
{
    int64_t slab = 0;

    for (int i = 0; i < n; i++)
        rank[i] = (ranked){ importance(&blocks[i], order), i };
    qsort(rank, (size_t)n, sizeof *rank, by_rank);
    for (int i = 0; i < n; i++) {
        dg_block *b = &blocks[rank[i].block];
        int k = i;

        b->offset = best_gap(placed, i, b);
        for (; k > 0 && placed[k - 1].offset > b->offset; k--)
            placed[k] = placed[k - 1];
        placed[k] = (taken){ b->offset, b->offset + b->bytes, b->first, b->last };
        if (placed[k].end > slab)
            slab = placed[k].end;
    }
    return slab;
}

int64_t dg_slab_pack(dg_block *blocks, int n)
{
    dg_arena *scratch = dg_arena_open();
    ranked *rank = DG_NEW_N(scratch, n, ranked);
    taken *placed = DG_NEW_N(scratch, n, taken);
    const int64_t least = dg_live_peak(blocks, n);
    int64_t best = INT64_MAX;
    int chosen = 0, tried = -1;

    while (tried < ORDERS - 1 && best > least) {
        int64_t slab = place_in_order(blocks, n, ++tried, rank, placed);

        if (slab < best) {
            best = slab;
            chosen = tried;
        }
    }
    if (chosen != tried)
        best = place_in_order(blocks, n, chosen, rank, placed);
    dg_arena_close(&scratch);
    return best;
}

int64_t dg_live_peak(const dg_block *blocks, int n)
{
    int n_at = 0;

    for (int i = 0; i < n; i++)
        n_at = blocks[i].last >= n_at ? blocks[i].last + 1 : n_at;
    dg_arena *scratch = dg_arena_open();
    int64_t *delta = DG_NEW_N(scratch, n_at + 1, int64_t);
    int64_t live = 0, peak = 0;

    for (int i = 0; i < n; i++) {
        delta[blocks[i].first] += blocks[i].bytes;
        delta[blocks[i].last + 1] -= blocks[i].bytes;
    }
    for (int i = 0; i < n_at; i++) {
        live += delta[i];
        peak = live > peak ? live : peak;
    }
    dg_arena_close(&scratch);
    return peak;
}
