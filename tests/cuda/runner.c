/* runner.c: see runner.h. A thread runs on the fiber that is free until it waits for others; a
 * kernel without barriers is a loop of calls. */
#include "tests/cuda/switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/runner.h"

#include "kernels/cuda/device.h"

/* Stacks end at different lines of the cache, or 32 of them would share a few sets of it. */
enum { STACK = 192 << 10, STAGGER = 576, WARPS = DG_CUDA_THREADS / DG_CUDA_WARP };

typedef void kernel_fn(const void *params, const int32_t *guard, dg_cuda_place here);

typedef struct warp {
    uint64_t values[2][DG_CUDA_WARP]; /* of this meeting and of the one before */
    int turn, arrived;
} warp;

static struct {
    dg_cuda_fibers place;
    kernel_fn *kernel;
    const void *params;
    const int32_t *guard;
    dg_cuda_place here;
    fiber *on[DG_CUDA_THREADS]; /* where a thread waits */
    int waiting[DG_CUDA_THREADS];
    int begun, ended;                           /* threads of the block */
    int ready[DG_CUDA_THREADS], first, n_ready; /* that have waited, in a ring */
    int at_barrier;
    warp warps[WARPS];
    fiber pool[DG_CUDA_THREADS + 1];
    fiber *idle[DG_CUDA_THREADS + 1];
    int n_idle;
    fiber main;
    _Alignas(64) char stacks[DG_CUDA_THREADS + 1][STACK];
} now;

const dg_cuda_fibers *dg_cuda_thread(void)
{
    return &now.place;
}

int64_t dg_cuda_most_blocks(void)
{
    return 65536;
}

/* ---- switching ------------------------------------------------------------------------------- */

/* From a fiber whose thread waits, or that has none, to the one that can go on. */
static void go_on(fiber *self)
{
    fiber *to = &now.main;

    if (now.begun < now.place.threads) {
        to = now.idle[--now.n_idle];
    } else if (now.n_ready) {
        int i = now.ready[now.first];

        now.first = (now.first + 1) % DG_CUDA_THREADS;
        now.n_ready--;
        now.place.thread = i;
        to = now.on[i];
    }
    fiber_switch(&now.main, self, to);
}

static void live(void)
{
    fiber *self = now.idle[now.n_idle]; /* which go_on or runner_run has just taken */

    fiber_arrive(&now.main, NULL, true);
    for (;;) {
        while (now.begun < now.place.threads) {
            int i = now.begun++;

            now.place.thread = i;
            now.on[i] = self;
            now.kernel(now.params, now.guard, now.here);
            now.ended++;
        }
        now.idle[now.n_idle++] = self;
        go_on(self);
    }
}

static void release(int from, int n, int but)
{
    for (int i = from; i < from + n; i++)
        if (i != but)
            now.ready[(now.first + now.n_ready++) % DG_CUDA_THREADS] = i;
}

void dg_cuda_barrier(int line)
{
    int self = now.place.thread;

    now.waiting[self] = line;
    if (++now.at_barrier < now.place.threads) {
        go_on(now.on[self]);
        return;
    }
    now.at_barrier = 0;
    release(0, now.place.threads, self);
}

/* combine: NULL, or for the last to come. */
static const uint64_t *meet(int line, uint64_t value, void (*combine)(uint64_t *values))
{
    int self = now.place.thread;
    warp *w = &now.warps[self / DG_CUDA_WARP];
    uint64_t *values = w->values[w->turn];

    now.waiting[self] = line;
    values[self % DG_CUDA_WARP] = value;
    if (++w->arrived < DG_CUDA_WARP) {
        go_on(now.on[self]);
        return values;
    }
    if (combine)
        combine(values);
    w->arrived = 0;
    w->turn = !w->turn;
    release(self / DG_CUDA_WARP * DG_CUDA_WARP, DG_CUDA_WARP, self);
    return values;
}

const uint64_t *dg_cuda_meet(int line, uint64_t value)
{
    return meet(line, value, NULL);
}

/* ---- a launch -------------------------------------------------------------------------------- */

static void open_pool(void)
{
    now.main.begun = true;
    for (int i = 0; i <= DG_CUDA_THREADS; i++) {
        now.pool[i] = (fiber){ .stack = now.stacks[i], .size = STACK - (size_t)(i % 64) * STAGGER };
        fiber_make(&now.pool[i], live);
        now.idle[now.n_idle++] = &now.pool[i];
    }
}

static void run_block(int64_t block)
{
    now.place.block = block;
    now.begun = now.ended = now.n_ready = now.first = now.at_barrier = 0;
    for (int i = 0; i < now.place.threads / DG_CUDA_WARP; i++)
        now.warps[i].turn = now.warps[i].arrived = 0;
    go_on(&now.main);
    if (now.ended == now.place.threads)
        return;
    for (int i = 0; i < now.place.threads; i++)
        fprintf(stderr, "%s%d", i ? " " : "threads wait for ever, the last time in lines ",
                now.waiting[i]);
    abort();
}

void runner_run(dg_cuda_function f, dg_cuda_grid grid, const void *params, const int32_t *guard,
                dg_cuda_place here)
{
    if (!now.pool[0].stack)
        open_pool();
    now.kernel = (kernel_fn *)f;
    now.params = params;
    now.guard = guard;
    now.here = here;
    now.place = (dg_cuda_fibers){ .threads = grid.threads,
                                  .blocks = grid.blocks,
                                  .reduce = meet,
                                  .shared = malloc(grid.shared ? grid.shared : 1) };
    if (!now.place.shared)
        abort();
    memset(now.place.shared, 0xFF, grid.shared); /* NaN */
    for (int64_t i = 0; i < grid.blocks; i++)
        run_block(i);
    free(now.place.shared);
}
