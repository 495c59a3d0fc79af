/* comm.c: collectives over shared memory: every reduction of every type, byte broadcasts, many at
 * once; equal bits on all ranks; and every wait ends, whatever the other ranks do. */
#include "base/diag.h"
#include "comm/world.h"
#include "tests/comm/crew.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"

static const int crews[] = { 1, 2, 3, 5 };

static void each_crew(crew_fn *fn, void *ctx)
{
    for (size_t i = 0; i < sizeof crews / sizeof crews[0]; i++)
        crew_run(crews[i], fn, ctx);
}

static int reduce(dg_comm *c, dg_dtype type, void *x, size_t n, dg_reduce op)
{
    int64_t ticket;
    int rc = c->start(c, (dg_tensor){ type, DG_SHAPE((int64_t)n), x }, op, &ticket);

    return rc < 0 ? rc : c->wait(c, ticket);
}

/* ---- reductions ------------------------------------------------------------------------------ */

static double value(int rank, size_t i)
{
    return sin(0.37 * (double)i + rank) * (1 + rank);
}

static double joined(double a, double v, dg_reduce op)
{
    return op == DG_MAX ? fmax(a, v) : op == DG_MIN ? fmin(a, v) : a + v;
}

/* Reduces in rank order in the element type's own arithmetic. */
static float expect_f32(int ranks, size_t i, dg_reduce op)
{
    float a = (float)value(0, i);

    for (int r = 1; r < ranks; r++) {
        float v = (float)value(r, i);

        a = op == DG_MAX ? fmaxf(a, v) : op == DG_MIN ? fminf(a, v) : a + v;
    }
    return op == DG_MEAN ? a * (float)(1.0 / ranks) : a;
}

static double expect_f64(int ranks, size_t i, dg_reduce op)
{
    double a = value(0, i);

    for (int r = 1; r < ranks; r++)
        a = joined(a, value(r, i), op);
    return op == DG_MEAN ? a * (1.0 / ranks) : a;
}

static int32_t expect_i32(int ranks, size_t i, dg_reduce op)
{
    double a = (int32_t)(1000 * value(0, i));

    for (int r = 1; r < ranks; r++)
        a = joined(a, (int32_t)(1000 * value(r, i)), op);
    return (int32_t)(op == DG_MEAN ? a / ranks : a);
}

static const char *reduces(dg_comm *c, void *ctx)
{
    static const size_t sizes[] = { 1, 15, 1024, 1030, 70001 };
    const char *wrong = NULL;

    (void)ctx;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0] && !wrong; k++)
        for (int op = DG_SUM; op <= DG_MEAN && !wrong; op++) {
            size_t n = sizes[k];
            float *f = calloc(n, sizeof *f);
            double *g = calloc(n, sizeof *g);
            int32_t *h = calloc(n, sizeof *h);

            for (size_t i = 0; i < n; i++) {
                f[i] = (float)value(c->rank, i);
                g[i] = value(c->rank, i);
                h[i] = (int32_t)(1000 * value(c->rank, i));
            }
            if (reduce(c, DG_F32, f, n, (dg_reduce)op) || reduce(c, DG_F64, g, n, (dg_reduce)op) ||
                reduce(c, DG_I32, h, n, (dg_reduce)op))
                wrong = "a status";
            for (size_t i = 0; i < n && !wrong; i++)
                if (f[i] != expect_f32(c->ranks, i, (dg_reduce)op) ||
                    g[i] != expect_f64(c->ranks, i, (dg_reduce)op) ||
                    h[i] != expect_i32(c->ranks, i, (dg_reduce)op))
                    wrong = "a value";
            free(f);
            free(g);
            free(h);
        }
    return wrong;
}

static void reductions(void **state)
{
    (void)state;
    each_crew(reduces, NULL);
}

static const char *keeps_nan(dg_comm *c, void *ctx)
{
    for (int where = 0; where < c->ranks; where++)
        for (int op = DG_SUM; op <= DG_MEAN; op++) {
            double x[2] = { c->rank == where ? NAN : 1, c->rank };

            WRONG_UNLESS(reduce(c, DG_F64, x, 2, (dg_reduce)op) == 0);
            WRONG_UNLESS(isnan(x[0]) && !isnan(x[1]));
        }
    (void)ctx;
    return NULL;
}

static void nan_wins(void **state)
{
    (void)state;
    each_crew(keeps_nan, NULL);
}

static const char *refuses_bf16(dg_comm *c, void *ctx)
{
    uint16_t x[4] = { 0 };

    (void)ctx;
    WRONG_UNLESS(reduce(c, DG_BF16, x, 4, DG_SUM) == -DG_EUNSUPPORTED);
    WRONG_UNLESS(strstr(c->why, "cannot be reduced"));
    return NULL;
}

static void other_types(void **state)
{
    (void)state;
    crew_run(2, refuses_bf16, NULL);
}

/* ---- memory of the communicator -------------------------------------------------------------- */

enum { PARTS = 30, PART = 3001 };

/* Starts more buckets than the communicator runs at once, with small ones between, and waits in
 * reverse order. */
static const char *reduces_in_place(dg_comm *c, void *ctx)
{
    size_t n = PARTS * PART;
    float *g = c->memory(c, n * sizeof *g);
    int64_t tickets[PARTS];

    (void)ctx;
    WRONG_UNLESS(g && ((uintptr_t)g & 63) == 0);
    for (size_t i = 0; i < n; i++) {
        WRONG_UNLESS(g[i] == 0);
        g[i] = (float)value(c->rank, i);
    }
    for (int p = PARTS - 1; p >= 0; p--) {
        double sum = c->rank;

        WRONG_UNLESS(c->start(c, (dg_tensor){ DG_F32, DG_SHAPE(PART), g + p * PART }, DG_MEAN,
                              &tickets[p]) == 0);
        WRONG_UNLESS(p % 4 || reduce(c, DG_F64, &sum, 1, DG_SUM) == 0);
        WRONG_UNLESS(p % 4 || sum == c->ranks * (c->ranks - 1) / 2.0);
    }
    for (int p = 0; p < PARTS; p++)
        WRONG_UNLESS(c->wait(c, tickets[p]) == 0 && c->wait(c, tickets[p]) == 0);
    for (size_t i = 0; i < n; i++)
        WRONG_UNLESS(g[i] == expect_f32(c->ranks, i, DG_MEAN));
    g = c->memory(c, 100);
    WRONG_UNLESS(g && g[0] == 0 && g[24] == 0); /* a smaller block is zeroed too */
    g = c->memory(c, 2 * n * sizeof *g);
    WRONG_UNLESS(g && g[0] == 0 && g[2 * n - 1] == 0);
    g[2 * n - 1] = 1;
    WRONG_UNLESS(reduce(c, DG_F32, g + 2 * n - 1, 1, DG_SUM) == 0 &&
                 g[2 * n - 1] == (float)c->ranks);
    return NULL;
}

static void gradients(void **state)
{
    (void)state;
    each_crew(reduces_in_place, NULL);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const char *moves_bytes(dg_comm *c, void *ctx)
{
    static const size_t sizes[] = { 0, 1, 1000, 700000 };
    const char *wrong = NULL;

    (void)ctx;
    for (size_t k = 0; k < 4 && !wrong; k++) {
        size_t n = sizes[k], each[CREW_MOST], total = 0;
        unsigned char *mine = malloc(n + 1), *all = calloc((size_t)c->ranks, n + CREW_MOST),
                      *at = all;

        for (int root = 0; root < c->ranks && !wrong; root++) {
            memset(mine, 'a' + c->rank, n + 1);
            wrong = c->broadcast(c, mine, n, root) ? "broadcast" : NULL;
            for (size_t i = 0; i < n && !wrong; i++)
                wrong = mine[i] != 'a' + root ? "a broadcast byte" : NULL;
        }
        memset(mine, 'A' + c->rank, n + 1);
        wrong = wrong ? wrong : c->gather(c, mine, n, all) ? "gather" : NULL;
        for (size_t i = 0; i < n * (size_t)c->ranks && !wrong; i++)
            wrong = all[i] != 'A' + i / n ? "a gathered byte" : NULL;
        for (int r = 0; r < c->ranks; r++)
            total += each[r] = r == 1 ? 0 : n / (size_t)(r + 1);
        wrong = wrong ? wrong : c->gather_ragged(c, mine, each, all) ? "gather_ragged" : NULL;
        for (int r = 0; r < c->ranks && !wrong; r++)
            for (size_t i = 0; i < each[r] && !wrong; i++)
                wrong = *at++ != 'A' + r ? "a ragged byte" : NULL;
        wrong = wrong                         ? wrong
                : (size_t)(at - all) != total ? "a ragged length"
                : c->barrier(c)               ? "barrier"
                                              : NULL;
        free(mine);
        free(all);
    }
    return wrong;
}

static void bytes(void **state)
{
    (void)state;
    each_crew(moves_bytes, NULL);
}

/* ---- many, by ranks of different speed ------------------------------------------------------- */

static const char *does_many(dg_comm *c, void *ctx)
{
    dg_rng plan = dg_rng_begin(dg_rng_named(5, "plan"), 0, 0),
           own = dg_rng_begin(dg_rng_named(6, "delay"), (uint64_t)c->rank, 0);
    double *g = c->memory(c, 64 * sizeof *g);
    int64_t ticket, pending = -1;

    (void)ctx;
    WRONG_UNLESS(g);
    for (int i = 0; i < 400; i++) {
        int32_t word = c->rank + i;

        if (dg_rng_below(&own, 40) == 0)
            (void)poll(NULL, 0, (int)dg_rng_below(&own, 3));
        switch (dg_rng_below(&plan, 4)) {
        case 0:
            WRONG_UNLESS(reduce(c, DG_I32, &word, 1, DG_MAX) == 0 && word == c->ranks - 1 + i);
            break;
        case 1:
            WRONG_UNLESS(c->broadcast(c, &word, sizeof word, i % c->ranks) == 0 &&
                         word == i % c->ranks + i);
            break;
        case 2:
            WRONG_UNLESS(c->barrier(c) == 0);
            break;
        default:
            if (pending >= 0)
                WRONG_UNLESS(c->wait(c, pending) == 0 && g[63] == c->ranks);
            g[63] = 1;
            WRONG_UNLESS(c->start(c, (dg_tensor){ DG_F64, DG_SHAPE(64), g }, DG_SUM, &ticket) == 0);
            pending = ticket;
        }
    }
    WRONG_UNLESS(c->cost.n > 400 && c->cost.bytes > 0 && c->cost.wait_s >= 0 && c->cost.work_s > 0);
    return NULL;
}

static void many(void **state)
{
    (void)state;
    each_crew(does_many, NULL);
}

/* ---- ranks that do not agree, stop, or end --------------------------------------------------- */

static const char *disagrees(dg_comm *c, void *ctx)
{
    float x[64] = { 0 };
    int rc, which = *(int *)ctx;

    if (which == 0)
        rc = reduce(c, DG_F32, x, c->rank ? 64 : 63, DG_SUM);
    else if (which == 1)
        rc = reduce(c, DG_F32, x, 8, c->rank ? DG_SUM : DG_MAX);
    else if (which == 2)
        rc = c->rank ? c->barrier(c) : c->broadcast(c, x, 8, 0);
    else if (which >= 5) { /* calls of the host that are alike in kind and size */
        dg_diag *d = dg_diag_open();
        dg_world w = { .rank = c->rank, .ranks = 2, .comm = c };
        double n = 1;

        w = dg_world_of(&w, which == 5 && c->rank ? "evaluate/b" : "evaluate/a");
        rc = which == 7 && c->rank ? dg_world_gather(&w, &n, 4, x, "counted images", d)
             : which == 7
                 ? dg_world_agree(&w, 0, "counted images", d)
                 : dg_world_sum(&w, &n,
                                which == 6 && c->rank ? "counted batches" : "counted images", d);
        dg_diag_close(&d);
        WRONG_UNLESS(strstr(c->why,
                            "rank 0 came to the sum of 1 f64 of evaluate/a, while the ranks "
                            "counted images, rank 1 to the ") ||
                     (which == 7 && strstr(c->why, "rank 0 came to a gather of 8 bytes of "
                                                   "evaluate/a, while the ranks counted images")));
        return rc == -DG_EINTERNAL && c->barrier(c) == rc ? NULL : "the wrong status";
    } else if (which == 4) { /* alike in all but the place */
        c->place = (dg_comm_place){ .id = c->rank ? 7 : 9 };
        snprintf(c->place.text, sizeof c->place.text, "of train/%c (x.xml:%d:5)",
                 c->rank ? 'b' : 'a', 8 + c->rank);
        rc = reduce(c, DG_F32, x, 1, DG_MEAN);
        WRONG_UNLESS(strstr(c->why, "rank 0 came to the mean of 1 f32 of train/a (x.xml:8:5), "
                                    "rank 1 to the mean of 1 f32 of train/b (x.xml:9:5)"));
        return rc == -DG_EINTERNAL && c->barrier(c) == rc ? NULL : "the wrong status";
    } else { /* equal size, but for different parameters */
        float *g = c->memory(c, 4096 * sizeof *g);

        WRONG_UNLESS(g);
        rc = reduce(c, DG_F32, g + 2048 * c->rank, 64, DG_SUM);
    }
    WRONG_UNLESS(rc == -DG_EINTERNAL);
    WRONG_UNLESS(strstr(c->why, "rank 0 came to ") && strstr(c->why, "rank 1 to "));
    WRONG_UNLESS(strstr(c->why, which == 0   ? "the sum of 63 f32"
                                : which == 1 ? "the max of 8 f32"
                                : which == 2 ? "a broadcast of 8 bytes from rank 0"
                                             : "the sum of 64 f32 in the gradients"));
    WRONG_UNLESS(c->barrier(c) == -DG_EINTERNAL);
    return NULL;
}

static void disagreements(void **state)
{
    (void)state;
    for (int which = 0; which < 8; which++)
        crew_run(2, disagrees, &which);
}

/* Rank 0 never joins; another thread stops the rest. */
static const char *is_stopped(dg_comm *c, void *done)
{
    crew_stop other = { c, done };
    pthread_t thread;
    float x[1] = { 0 };
    double begin = dg_monotonic_s();

    if (c->rank == 1)
        WRONG_UNLESS(pthread_create(&thread, NULL, crew_stop_soon, &other) == 0);
    if (c->rank)
        WRONG_UNLESS(c->barrier(c) == -DG_ESTOP && strcmp(c->why, "stopped") == 0);
    else
        WRONG_UNLESS(sem_wait(done) == 0);
    WRONG_UNLESS(dg_monotonic_s() - begin < 900); /* it would wait for ever */
    WRONG_UNLESS(reduce(c, DG_F32, x, 1, DG_SUM) == -DG_ESTOP &&
                 c->broadcast(c, x, 4, 0) == -DG_ESTOP);
    if (c->rank == 1)
        pthread_join(thread, NULL);
    return NULL;
}

static void aborts(void **state)
{
    sem_t done;

    (void)state;
    assert_int_equal(sem_init(&done, 0, 0), 0);
    crew_run(4, is_stopped, &done);
    sem_destroy(&done);
}

static void duplicates(void **state)
{
    (void)state;
    each_crew(crew_uses_duplicate, NULL);
    crew_run(3, crew_stops_duplicate, NULL);
}

static void meetings_move_nothing(void **state)
{
    (void)state;
    crew_run(2, crew_meets, NULL);
}

static const char *leaves(dg_comm *c, void *ctx)
{
    (void)ctx;
    WRONG_UNLESS(c->barrier(c) == 0);
    if (c->rank == 0)
        return NULL;
    WRONG_UNLESS(c->barrier(c) == -DG_EIO && strstr(c->why, "rank 0 (process ") &&
                 strstr(c->why, ") has left"));
    return NULL;
}

static void left(void **state)
{
    (void)state;
    crew_run(3, leaves, NULL);
}

/* A process that dies in a collective ends the wait of the others, before and after its parent
 * reaps it. */
static void dies(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_comm *c;
    int fd, status;
    pid_t child;

    (void)state;
    assert_int_equal(dg_comm_shm_make(&fd, d), 0);
    child = fork();
    if (child == 0) {
        if (dg_comm_shm_open(&c, fd, 1, 2, d) < 0 || c->barrier(c) < 0)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(dg_comm_shm_open(&c, fd, 0, 2, d), 0);
    assert_int_equal(c->barrier(c), 0);
    assert_int_equal(c->barrier(c), -DG_EIO);
    assert_non_null(strstr(c->why, "rank 1 (process "));
    assert_non_null(strstr(c->why, ") has ended"));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(c->barrier(c), -DG_EIO);
    c->close(&c);
    dg_diag_close(&d);
}

static void refusals(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_comm *c;
    int fd;

    (void)state;
    assert_int_equal(dg_comm_shm_make(&fd, d), 0);
    assert_int_equal(dg_comm_shm_open(&c, fd, 2, 2, d), -DG_EINPUT);
    assert_null(c);
    check_only(d, "comm-ranks");
    assert_int_equal(dg_comm_shm_open(&c, open("/dev/null", O_RDWR | O_CLOEXEC), 0, 2, d), -DG_EIO);
    assert_null(c);
    check_only(d, "comm-memory");
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* forks, so it runs before threads exist */
        cmocka_unit_test(dies),
        cmocka_unit_test(reductions),
        cmocka_unit_test(nan_wins),
        cmocka_unit_test(other_types),
        cmocka_unit_test(gradients),
        cmocka_unit_test(bytes),
        cmocka_unit_test(many),
        cmocka_unit_test(aborts),
        cmocka_unit_test(disagreements),
        cmocka_unit_test(left),
        cmocka_unit_test(refusals),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(meetings_move_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
