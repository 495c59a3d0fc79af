/* join.c: launches that are given together. Each first says which kernels it has, stage by stage;
 * kernels of one stage that are the same become one launch with the parameters of all. Results do
 * not depend on it: a call has the blocks that it would have by itself. */
#include <string.h>

#include "kernels/cuda/host/internal.h"

_Static_assert(sizeof(dg_cuda_calls) < 32000, "a guard and a place come behind, in 32764 bytes");

static bool make_room(dg_cuda *c, int bytes)
{
    dg_cuda_part *parts = dg_cuda_room(c->parts, c->n_parts, &c->cap_parts, sizeof *parts);
    char *more = parts ? dg_cuda_room(c->bytes, c->n_bytes + bytes - 1, &c->cap_bytes, 1) : NULL;

    c->parts = parts ? parts : c->parts;
    c->bytes = more ? more : c->bytes;
    return more != NULL;
}

int dg_cuda_collect(dg_cuda *c, dg_cuda_lane *lane, dg_cuda_function f, dg_cuda_grid grid,
                    const void *params, size_t bytes, const int32_t *guard)
{
    if (!make_room(c, (int)bytes))
        return -DG_EMEMORY;
    memcpy(c->bytes + c->n_bytes, params, bytes);
    c->parts[c->n_parts++] = (dg_cuda_part){ .kernel = f,
                                             .many = lane->queue.many,
                                             .grid = grid,
                                             .guard = guard,
                                             .mark = lane->mark,
                                             .stage = c->stage++,
                                             .at = c->n_bytes,
                                             .bytes = bytes };
    c->n_bytes += (int)bytes;
    lane->queue.many = NULL;
    return 0;
}

static bool fits(const dg_cuda_calls *all, const dg_cuda_part *first, const dg_cuda_part *p)
{
    return p->many && p->many == first->many && p->grid.threads == first->grid.threads &&
           all->n < DG_CUDA_CALLS && ((size_t)all->n + 1) * p->bytes <= sizeof all->params &&
           p->bytes % sizeof(double) == 0 && all->first[all->n] + p->grid.blocks <= INT32_MAX;
}

/* In turn there is one block for all. */
static void take(const dg_cuda *c, dg_cuda_calls *all, dg_cuda_grid *grid, dg_cuda_part *p)
{
    int i = all->n++;

    memcpy((char *)all->params + (size_t)i * p->bytes, c->bytes + p->at, p->bytes);
    all->mark[i] = p->mark;
    all->guard[i] = p->guard;
    all->first[i + 1] = all->first[i] + (int32_t)p->grid.blocks;
    grid->shared = p->grid.shared > grid->shared ? p->grid.shared : grid->shared;
    grid->blocks = all->in_turn ? 1 : all->first[i + 1];
    p->done = true;
}

/* Part i and those after it that are the same kernel in the same stage; in turn, as far as nothing
 * else is between them. */
static int put_from(dg_cuda *c, dg_cuda_lane *lane, int i, bool in_turn)
{
    dg_cuda_part *first = &c->parts[i];
    dg_cuda_calls all = { .in_turn = in_turn };
    dg_cuda_grid grid = { .threads = first->grid.threads };

    if (fits(&all, first, first))
        for (int k = i; k < c->n_parts; k++) {
            dg_cuda_part *p = &c->parts[k];
            bool same = p->stage == first->stage && !p->done && fits(&all, first, p);

            if (same)
                take(c, &all, &grid, p);
            else if (in_turn)
                break;
        }
    first->done = true;
    if (all.n < 2)
        return dg_cuda_put_kernel(c, lane, first->kernel, first->grid, c->bytes + first->at,
                                  first->bytes, first->guard, first->mark);
    return dg_cuda_put_kernel(c, lane, first->many, grid, &all, sizeof all, NULL, first->mark);
}

int dg_cuda_put_collected(dg_cuda *c, dg_cuda_lane *lane, bool in_turn)
{
    int rc = 0, stages = 0;

    for (int i = 0; i < c->n_parts; i++)
        stages = c->parts[i].stage >= stages ? c->parts[i].stage + 1 : stages;
    if (in_turn) { /* as they came */
        for (int i = 0; i < c->n_parts && rc == 0; i++)
            if (!c->parts[i].done)
                rc = put_from(c, lane, i, stages == 1);
        return rc;
    }
    for (int stage = 0; stage < stages; stage++)
        for (int i = 0; i < c->n_parts && rc == 0; i++)
            if (c->parts[i].stage == stage && !c->parts[i].done)
                rc = put_from(c, lane, i, false);
    return rc;
}
