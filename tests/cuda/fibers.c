/* fibers.c: see fibers.h. */
#include "tests/cuda/switch.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/fibers.h"
#include "tests/cuda/products.h"

enum { STACK = 128 << 10 };

typedef enum state { READY, RUNNING, AT_BARRIER, IN_WARP, ENDED } state;

typedef struct thread {
    state state;
    int line;     /* where it waits */
    fiber *fiber; /* NULL: not begun */
} thread;

typedef struct warp {
    uint64_t values[2][DG_CUDA_WARP]; /* of this meeting and of the one before */
    int turn, arrived, line;          /* of the first who has arrived */
} warp;

/* The block that runs; a process has one. */
static struct {
    fibers *owner;
    dg_cuda_fibers place;
    void (*kernel)(const void *params, const int32_t *guard, dg_cuda_place here);
    const void *params;
    const int32_t *guard;
    thread threads[DG_CUDA_THREADS];
    int ready[2][DG_CUDA_THREADS], n_ready[2]; /* begun or not; 1: those that come last */
    int last_from, last_to;                    /* threads of this block that come last */
    warp warps[DG_CUDA_THREADS / DG_CUDA_WARP];
    int at_barrier, barrier_line, ended; /* line of the first at it */
    fiber pool[DG_CUDA_THREADS];
    fiber *idle[DG_CUDA_THREADS];
    int n_idle;
    fiber *current;
    fiber main; /* the caller's stack */
    uint64_t rng;
    _Alignas(64) char stacks[DG_CUDA_THREADS][STACK];
} now;

static uint32_t draw(uint32_t below)
{
    now.rng ^= now.rng << 13; /* Marsaglia's xorshift */
    now.rng ^= now.rng >> 7;
    now.rng ^= now.rng << 17;
    return (uint32_t)((now.rng >> 32) * below >> 32);
}

static void fault(const char *what, int line, int other)
{
    if (!now.owner->why[0])
        snprintf(now.owner->why, sizeof now.owner->why, what, line, other);
}

/* ---- switching ------------------------------------------------------------------------------- */

/* To a fiber, or back to the caller of the block. */
static void switch_to(fiber *from, fiber *to)
{
    now.owner->switches++;
    fiber_switch(&now.main, from, to);
}

static void wait_for_others(state why, int line)
{
    thread *t = &now.threads[now.place.thread];
    fiber *self = now.current;

    t->state = why;
    t->line = line;
    switch_to(self, &now.main);
}

/* A fiber runs one thread after another. */
static void live(void)
{
    fiber *self = now.current;

    fiber_arrive(&now.main, NULL, true);
    for (;;) {
        now.kernel(now.params, now.guard, (dg_cuda_place){ NULL, 0 });
        now.threads[now.place.thread].state = ENDED;
        now.threads[now.place.thread].fiber = NULL;
        now.ended++;
        now.idle[now.n_idle++] = self;
        switch_to(self, &now.main);
    }
}

static void make_idle(fiber *f)
{
    fiber_make(f, live);
    now.idle[now.n_idle++] = f;
}

static void open_pool(void)
{
    now.main.begun = true;
    for (int i = 0; i < DG_CUDA_THREADS; i++) {
        now.pool[i] = (fiber){ .stack = now.stacks[i], .size = STACK };
        make_idle(&now.pool[i]);
    }
}

/* ---- meeting --------------------------------------------------------------------------------- */

const dg_cuda_fibers *dg_cuda_thread(void)
{
    return &now.place;
}

static void release(int from, int n)
{
    for (int i = from; i < from + n; i++) {
        int list = i >= now.last_from && i < now.last_to;

        now.threads[i].state = READY;
        now.ready[list][now.n_ready[list]++] = i;
    }
}

void dg_cuda_barrier(int line)
{
    if (now.at_barrier == 0)
        now.barrier_line = line;
    if (now.barrier_line != line)
        fault("threads of a block wait at two barriers, lines %d and %d", now.barrier_line, line);
    if (++now.at_barrier == now.place.threads) {
        now.threads[now.place.thread].state = AT_BARRIER;
        now.at_barrier = 0;
        release(0, now.place.threads);
        /* this one is drawn like the others */
        switch_to(now.current, &now.main);
        return;
    }
    wait_for_others(AT_BARRIER, line);
}

/* combine: NULL, or for the last to come. */
static const uint64_t *meet(int line, uint64_t value, void (*combine)(uint64_t *values))
{
    int first_lane = now.place.thread / DG_CUDA_WARP * DG_CUDA_WARP;
    warp *w = &now.warps[now.place.thread / DG_CUDA_WARP];
    uint64_t *values = w->values[w->turn];

    values[now.place.thread % DG_CUDA_WARP] = value;
    if (w->arrived == 0)
        w->line = line;
    if (w->line != line)
        fault("lanes of a warp meet in two places, lines %d and %d", w->line, line);
    if (++w->arrived == DG_CUDA_WARP) {
        if (combine)
            combine(values);
        w->arrived = 0;
        w->turn = !w->turn;
        release(first_lane, DG_CUDA_WARP);
        switch_to(now.current, &now.main);
        return values;
    }
    wait_for_others(IN_WARP, line);
    return values;
}

const uint64_t *dg_cuda_meet(int line, uint64_t value)
{
    return meet(line, value, NULL);
}

/* ---- a launch -------------------------------------------------------------------------------- */

static void run_thread(int i)
{
    thread *t = &now.threads[i];

    if (!t->fiber)
        t->fiber = now.idle[--now.n_idle];
    t->state = RUNNING;
    now.place.thread = i;
    now.current = t->fiber;
    switch_to(&now.main, t->fiber);
}

/* The fibers of threads that wait for ever go back to where they began. */
static void abandon(void)
{
    for (int i = 0; i < now.place.threads; i++)
        if (now.threads[i].fiber)
            make_idle(now.threads[i].fiber);
}

/* A warp, a thread or none runs only while no other can: all others are then as far ahead of it as
 * the kernel lets them, which draws alone would hardly ever do. */
static void choose_last(void)
{
    int warps = now.place.threads / DG_CUDA_WARP;

    now.last_from = now.last_to = 0;
    switch (draw(3)) {
    case 0:
        now.last_from = (int)draw((uint32_t)warps) * DG_CUDA_WARP;
        now.last_to = now.last_from + DG_CUDA_WARP;
        break;
    case 1:
        now.last_from = (int)draw((uint32_t)now.place.threads);
        now.last_to = now.last_from + 1;
        break;
    default:
        break;
    }
}

static int run_block(int64_t block)
{
    now.place.block = block;
    now.n_ready[0] = now.n_ready[1] = now.at_barrier = now.ended = 0;
    memset(now.warps, 0xA5, sizeof now.warps);
    for (int i = 0; i < now.place.threads; i++) {
        now.threads[i] = (thread){ .state = READY };
        now.warps[i / DG_CUDA_WARP].turn = now.warps[i / DG_CUDA_WARP].arrived = 0;
    }
    choose_last();
    release(0, now.place.threads);
    while ((now.n_ready[0] || now.n_ready[1]) && !now.owner->why[0]) {
        int list = !now.n_ready[0];
        uint32_t k = draw((uint32_t)now.n_ready[list]);
        int i = now.ready[list][k];

        now.ready[list][k] = now.ready[list][--now.n_ready[list]];
        run_thread(i);
    }
    for (int i = 0; i < now.place.threads && now.ended < now.place.threads; i++)
        if (now.threads[i].state != ENDED && now.threads[i].state != READY)
            fault("%2$d threads of a block have ended while others wait in line %1$d",
                  now.threads[i].line, now.ended);
    if (!now.owner->why[0])
        return 0;
    abandon();
    return -DG_EINTERNAL;
}

static int launch(dg_cuda_queue *q, dg_cuda_function f, dg_cuda_grid grid, const void *params,
                  size_t bytes, const int32_t *guard)
{
    fibers *owner = (fibers *)q;
    int64_t *order = malloc((size_t)grid.blocks * sizeof *order);
    void *copy = malloc(bytes);
    int rc = 0;

    q->many = NULL; /* calls are run one by one */
    assert_true(grid.blocks > 0 && grid.threads > 0 && grid.threads <= DG_CUDA_THREADS &&
                grid.threads % DG_CUDA_WARP == 0);
    assert_true(grid.shared <= q->shared_limit && bytes <= 4096);
    assert_true(order && copy);
    if (!now.pool[0].stack)
        open_pool();
    memcpy(copy, params, bytes);
    now.owner = owner;
    now.rng = owner->seed * 0x9E3779B97F4A7C15u + (uint64_t)++owner->launches;
    now.kernel = (void (*)(const void *, const int32_t *, dg_cuda_place))f;
    now.params = copy;
    now.guard = guard;
    now.place = (dg_cuda_fibers){ .threads = grid.threads,
                                  .blocks = grid.blocks,
                                  .reduce = owner->combines ? meet : NULL };
    for (int64_t i = 0; i < grid.blocks; i++) {
        int64_t k = (int64_t)draw((uint32_t)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    for (int64_t i = 0; i < grid.blocks && rc == 0; i++) {
        now.place.shared = malloc(grid.shared);
        assert_true(now.place.shared || !grid.shared);
        memset(now.place.shared, 0xFF, grid.shared); /* NaN */
        rc = run_block(order[i]);
        free(now.place.shared);
    }
    free(order);
    free(copy);
    return rc;
}

static int product(dg_cuda_queue *q, const dg_cuda_product *p, const dg_cuda_multiplied *at)
{
    (void)q;
    products_run(p, at);
    return 0;
}

static int convolve(dg_cuda_queue *q, const dg_cuda_convolution *p, const dg_cuda_convolved *at)
{
    fibers *owner = (fibers *)q;

    if (owner->plans == FIBERS_NONE ||
        (owner->plans == FIBERS_BARE && (p->bias || p->residual || p->act)))
        return DG_CUDA_NO_PLAN;
    owner->convolutions++;
    assert_true(convolutions_run(p, at));
    return 0;
}

/* Of all queues: only one runs at a time, and leaves zeros. */
static int32_t zeros[DG_CUDA_COUNTERS];

fibers fibers_open(uint64_t seed)
{
    return (fibers){ .queue = { .launch = launch,
                                .product = product,
                                .convolve = convolve,
                                .shared_limit = 48 << 10,
                                .counters = zeros },
                     .seed = seed + 1 };
}

static void check_counters(fibers *f, bool faulty)
{
    int64_t n = f->queue.n_counters;

    for (int64_t i = 0; i < n; i++)
        if (zeros[i] && !faulty && !f->why[0])
            snprintf(f->why, sizeof f->why, "counter %lld is left as %d", (long long)i,
                     (int)zeros[i]);
    memset(zeros, 0, (size_t)n * sizeof *zeros);
}

/* Few, so that threads have more than one element. */
int64_t dg_cuda_most_blocks(void)
{
    return 2;
}

int fibers_run(fibers *f, const dg_cuda_kernel *k, const dg_tensor *t, int n, const void *attr,
               const dg_control *control, const int32_t *guard)
{
    dg_prepare p = { .t = t, .n = n, .attr = attr, .threads = 1 };
    dg_args a = { .t = t, .n = n, .attr = attr, .control = control };
    int rc = k->base.prepare ? k->base.prepare(&p) : 0;

    assert_int_equal(rc, 0);
    a.workspace = malloc(p.workspace_bytes);
    assert_true(a.workspace || !p.workspace_bytes);
    memset(a.workspace, 0xFF, p.workspace_bytes);
    rc = k->enqueue(&(dg_cuda_call){ &a, guard, &f->queue });
    free(a.workspace);
    check_counters(f, rc != 0);
    return rc ? rc : f->why[0] ? -DG_EINTERNAL : 0;
}
