/* defects: kernels with a defect are found: one that lacks a barrier, one whose mask is wrong, one
 * that waits for threads that have ended. The sum of a block has no such defect. */
#include "tests/check.h"

#include "tests/cuda/fibers.h"

enum { N = 128, SEEDS = 8 };

typedef struct reversal {
    const int32_t *x;
    int32_t *y;
    int32_t n;
} reversal;

/* y = x, the order within a block reversed. */
KERNEL(reverse, reversal)
{
    int32_t *shared = (int32_t *)shared_memory();

    shared[thread_id()] = p->x[first()];
    barrier();
    p->y[first()] = shared[block_size() - 1 - thread_id()];
}

KERNEL(reverse_without_a_barrier, reversal)
{
    int32_t *shared = (int32_t *)shared_memory();

    shared[thread_id()] = p->x[first()];
    p->y[first()] = shared[block_size() - 1 - thread_id()];
}

/* The threads past n leave before the barrier. */
KERNEL(reverse_and_leave_early, reversal)
{
    int32_t *shared = (int32_t *)shared_memory();

    if (first() >= p->n)
        return;
    shared[thread_id()] = p->x[first()];
    barrier();
    p->y[first()] = shared[block_size() - 1 - thread_id()];
}

/* y[0] = sum of x, of which the last warp has n mod 32 elements. */
KERNEL(sum_of_warps, reversal)
{
    int32_t v = first() < p->n ? p->x[first()] : 0;

    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
        v += shuffle_xor(v, mask);
    if (lane_id() == 0)
        (void)atomic_add(p->y, v);
}

/* Only the lanes that have an element take part. */
KERNEL(sum_with_a_wrong_mask, reversal)
{
    if (first() < p->n) {
        int32_t v = p->x[first()];

        for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
            v += shuffle_xor(v, mask);
        if (lane_id() == 0)
            (void)atomic_add(p->y, v);
    }
}

/* Half of the lanes meet in another line than the others. */
KERNEL(sum_in_two_places, reversal)
{
    int32_t v = p->x[first()];

    if (lane_id() < DG_CUDA_WARP / 2)
        v += shuffle_xor(v, 1);
    else
        v += shuffle_xor(v, 2);
    (void)atomic_add(p->y, v);
}

/* The order of floating-point sums is that of the threads. */
typedef struct running {
    float *sum;
} running;

KERNEL(sum_in_any_order, running)
{
    float *sum = p->sum;

    *sum += 1 / (float)(first() + 1); /* as an atomic addition would */
}

/* Twice the same shared memory: each thread stores sum(x) + 1000 sum(3 x). */
KERNEL(two_sums, reversal)
{
    wide *shared = (wide *)shared_memory(), x = (wide)p->x[thread_id()];
    wide a = block_sum(x, shared), b = block_sum(3 * x, shared);

    p->y[thread_id()] = (int32_t)(a + 1000 * b);
}

typedef struct outcome {
    int right, wrong, faults;
    char why[200];
} outcome;

/* Runs it with several seeds; want: what y[0..n_want-1] should be. */
static outcome try_kernel(dg_cuda_function kernel, int n, int n_want, const int32_t *want)
{
    outcome o = { 0 };
    int32_t x[N], y[N];

    for (int i = 0; i < N; i++)
        x[i] = i * i % 101;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fibers f = fibers_open(seed);
        const dg_cuda_grid grid = { 2, N / 2, N / 2 * sizeof(int32_t) };
        const reversal r = { x, y, n };

        memset(y, 0, sizeof y);
        if (f.queue.launch(&f.queue, kernel, grid, &r, sizeof r, NULL)) {
            o.faults++;
            memcpy(o.why, f.why, sizeof o.why);
        } else if (memcmp(y, want, (size_t)n_want * sizeof *want) == 0) {
            o.right++;
        } else {
            o.wrong++;
        }
    }
    return o;
}

static void a_missing_barrier_shows(void **state)
{
    int32_t want[N];
    outcome o;

    (void)state;
    for (int i = 0; i < N; i++) {
        int from = i < N / 2 ? N / 2 - 1 - i : N + N / 2 - 1 - i;

        want[i] = from * from % 101;
    }
    o = try_kernel((dg_cuda_function)reverse, N, N, want);
    assert_int_equal(o.right, SEEDS);
    o = try_kernel((dg_cuda_function)reverse_without_a_barrier, N, N, want);
    assert_int_equal(o.wrong, SEEDS);
}

static void a_barrier_that_some_never_reach_shows(void **state)
{
    const int32_t want[1] = { 0 };
    outcome o = try_kernel((dg_cuda_function)reverse_and_leave_early, N - 7, 1, want);

    (void)state;
    assert_int_equal(o.faults, SEEDS);
    assert_non_null(strstr(o.why, "7 threads of a block have ended while others wait in line"));
}

static void a_wrong_mask_shows(void **state)
{
    int32_t sum = 0;
    outcome o;

    (void)state;
    for (int i = 0; i < N - 7; i++)
        sum += i * i % 101;
    o = try_kernel((dg_cuda_function)sum_of_warps, N - 7, 1, &sum);
    assert_int_equal(o.right, SEEDS);
    o = try_kernel((dg_cuda_function)sum_with_a_wrong_mask, N - 7, 1, &sum);
    assert_int_equal(o.faults, SEEDS);
    assert_non_null(strstr(o.why, "threads of a block have ended while others wait"));
    o = try_kernel((dg_cuda_function)sum_in_two_places, N, 1, &sum);
    assert_int_equal(o.faults, SEEDS);
    assert_non_null(strstr(o.why, "lanes of a warp meet in two places"));
}

static void sums_of_a_block_follow_each_other(void **state)
{
    int32_t x[DG_CUDA_THREADS], y[DG_CUDA_THREADS], sum = 0;

    (void)state;
    for (int i = 0; i < DG_CUDA_THREADS; i++)
        sum += x[i] = i % 7 + 1;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fibers f = fibers_open(seed);
        const dg_cuda_grid grid = { 1, DG_CUDA_THREADS, BLOCK_SUM_BYTES };
        const reversal r = { x, y, DG_CUDA_THREADS };

        assert_int_equal(f.queue.launch(&f.queue, (dg_cuda_function)two_sums, grid, &r, sizeof r,
                                        NULL),
                         0);
        for (int i = 0; i < DG_CUDA_THREADS; i++)
            assert_int_equal(y[i], sum + 3000 * sum);
    }
}

static void an_order_shows_in_the_bits(void **state)
{
    int differ = 0;
    float first_sum = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fibers f = fibers_open(seed);
        const dg_cuda_grid grid = { 4, DG_CUDA_THREADS, 0 };
        float sum = 0;
        const running r = { &sum };

        assert_int_equal(f.queue.launch(&f.queue, (dg_cuda_function)sum_in_any_order, grid, &r,
                                        sizeof r, NULL),
                         0);
        first_sum = seed ? first_sum : sum;
        differ += memcmp(&sum, &first_sum, sizeof sum) != 0;
    }
    assert_true(differ > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_barrier_shows),
        cmocka_unit_test(a_barrier_that_some_never_reach_shows),
        cmocka_unit_test(a_wrong_mask_shows),
        cmocka_unit_test(an_order_shows_in_the_bits),
        cmocka_unit_test(sums_of_a_block_follow_each_other),
    };

    return cmocka_run_group_tests_name("defects", tests, NULL, NULL);
}
