/* gloo.c: the same collectives over TCP between ranks that find each other at a board: sums equal
 * to those over shared memory, equal bits on all ranks, overlap with computation, and every wait
 * ends. */
#include "tests/comm/crew.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/gloo.h"

#ifdef DG_GLOO

/* ---- a board of one process ------------------------------------------------------------------ */

enum { NOTES = 16 };

typedef struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n;
    char *keys[NOTES];
    void *bytes[NOTES];
    size_t sizes[NOTES];
    bool refuses;
} board;

static int put(void *ctx, const char *key, const void *bytes, size_t n)
{
    board *b = ctx;

    if (b->refuses)
        return -DG_EIO;
    pthread_mutex_lock(&b->lock);
    b->keys[b->n] = strdup(key);
    b->bytes[b->n] = malloc(n + 1);
    if (n)
        memcpy(b->bytes[b->n], bytes, n);
    b->sizes[b->n++] = n;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

static int get(void *ctx, const char *key, double seconds, void **bytes, size_t *n)
{
    board *b = ctx;
    int found = -1;

    (void)seconds;
    pthread_mutex_lock(&b->lock);
    while (found < 0) {
        for (int i = 0; i < b->n; i++)
            found = strcmp(b->keys[i], key) == 0 ? i : found;
        if (found < 0)
            pthread_cond_wait(&b->changed, &b->lock);
    }
    *n = b->sizes[found];
    *bytes = memcpy(malloc(*n), b->bytes[found], *n);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

static void board_free(board *b)
{
    for (int i = 0; i < b->n; i++) {
        free(b->keys[i]);
        free(b->bytes[i]);
    }
    b->n = 0;
}

/* ---- ranks as threads ------------------------------------------------------------------------ */

typedef struct member {
    int rank, ranks;
    board *board;
    crew_fn *fn;
    void *ctx;
    const char *wrong;
} member;

static void *work(void *self)
{
    member *m = self;
    dg_diag *d = dg_diag_open();
    const dg_rendezvous meeting = { m->board, put, get };
    dg_comm *c;

    m->wrong = dg_comm_gloo_open(&c, "127.0.0.1", m->rank, m->ranks, &meeting, d) < 0
                   ? "cannot open"
                   : m->fn(c, m->ctx);
    if (c)
        c->close(&c);
    dg_diag_close(&d);
    return NULL;
}

static void run(int ranks, crew_fn *fn, void *ctx)
{
    board b = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    pthread_t threads[CREW_MOST];
    member members[CREW_MOST];

    for (int r = 0; r < ranks; r++) {
        members[r] = (member){ r, ranks, &b, fn, ctx, NULL };
        assert_int_equal(pthread_create(&threads[r], NULL, work, &members[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    board_free(&b);
    for (int r = 0; r < ranks; r++)
        if (members[r].wrong)
            fail_msg("rank %d of %d: %s", r, ranks, members[r].wrong);
}

/* ---- what they do ---------------------------------------------------------------------------- */

static int reduce(dg_comm *c, dg_dtype type, void *x, size_t n, dg_reduce op)
{
    int64_t ticket;
    int rc = c->start(c, (dg_tensor){ type, DG_SHAPE((int64_t)n), x }, op, &ticket);

    return rc < 0 ? rc : c->wait(c, ticket);
}

static double value(int rank, size_t i)
{
    return sin(0.37 * (double)i + rank) * (1 + rank);
}

static double expected(int ranks, size_t i, dg_reduce op)
{
    double a = value(0, i);

    for (int r = 1; r < ranks; r++)
        a = op == DG_MAX   ? fmax(a, value(r, i))
            : op == DG_MIN ? fmin(a, value(r, i))
                           : a + value(r, i);
    return op == DG_MEAN ? a / ranks : a;
}

static const char *reduces(dg_comm *c, void *ctx)
{
    enum { N = 5000 };
    static const size_t sizes[] = { 1, 3, N };
    double *x = malloc(N * sizeof *x), *all = malloc(N * sizeof *all * (size_t)c->ranks);
    const char *wrong = NULL;

    (void)ctx;
    for (int k = 0; k < 3 && !wrong; k++)
        for (int op = DG_SUM; op <= DG_MEAN && !wrong; op++) {
            size_t n = sizes[k];

            for (size_t i = 0; i < n; i++)
                x[i] = value(c->rank, i);
            wrong = reduce(c, DG_F64, x, n, (dg_reduce)op) ? "a status" : NULL;
            for (size_t i = 0; i < n && !wrong; i++)
                wrong =
                    fabs(x[i] - expected(c->ranks, i, (dg_reduce)op)) < 1e-12 ? NULL : "a value";
            wrong = wrong ? wrong : c->gather(c, x, n * sizeof *x, all) ? "gather" : NULL;
            for (int r = 0; r < c->ranks && !wrong; r++)
                wrong =
                    memcmp(all + (size_t)r * n, x, n * sizeof *x) ? "bits of another rank" : NULL;
        }
    free(x);
    free(all);
    return wrong;
}

static const char *reduces_others(dg_comm *c, void *ctx)
{
    float f[2] = { (float)c->rank, c->rank ? 1 : NAN };
    int32_t w[2] = { c->rank, -c->rank };
    uint16_t h[2] = { 0 };

    (void)ctx;
    WRONG_UNLESS(reduce(c, DG_F32, f, 2, DG_MAX) == 0 && f[0] == (float)(c->ranks - 1) &&
                 isnan(f[1]));
    WRONG_UNLESS(reduce(c, DG_I32, w, 2, DG_MIN) == 0 && w[0] == 0 && w[1] == 1 - c->ranks);
    w[0] = 3 * c->rank;
    WRONG_UNLESS(reduce(c, DG_I32, w, 1, DG_MEAN) == 0 && w[0] == 3 * (c->ranks - 1) / 2);
    f[0] = (float)c->rank;
    WRONG_UNLESS(reduce(c, DG_F32, f, 1, DG_MEAN) == 0 &&
                 fabs((double)f[0] - (c->ranks - 1) / 2.0) < 1e-6);
    WRONG_UNLESS(reduce(c, DG_BF16, h, 2, DG_SUM) == -DG_EUNSUPPORTED);
    return NULL;
}

static const char *moves_bytes(dg_comm *c, void *ctx)
{
    char mine[100], all[CREW_MOST * 100], *at = all;
    size_t each[CREW_MOST];

    (void)ctx;
    for (int root = 0; root < c->ranks; root++) {
        memset(mine, 'a' + c->rank, sizeof mine);
        WRONG_UNLESS(c->broadcast(c, mine, sizeof mine, root) == 0 && mine[0] == 'a' + root &&
                     mine[99] == 'a' + root);
        WRONG_UNLESS(c->broadcast(c, mine, 0, root) == 0);
    }
    memset(mine, 'A' + c->rank, sizeof mine);
    for (int r = 0; r < c->ranks; r++)
        each[r] = r == 1 ? 0 : (size_t)(10 + r);
    WRONG_UNLESS(c->gather_ragged(c, mine, each, all) == 0 && c->barrier(c) == 0);
    for (int r = 0; r < c->ranks; at += each[r++])
        WRONG_UNLESS(!each[r] || (at[0] == 'A' + r && at[each[r] - 1] == 'A' + r));
    memset(each, 0, sizeof each);
    WRONG_UNLESS(c->gather_ragged(c, mine, each, all) == 0);
    return NULL;
}

/* Starts more than the queue holds and waits in reverse order. */
static const char *overlaps(dg_comm *c, void *ctx)
{
    enum { N = 100 };
    double x[N];
    int64_t tickets[N];

    (void)ctx;
    for (int i = 0; i < N; i++) {
        x[i] = i + c->rank;
        WRONG_UNLESS(c->start(c, (dg_tensor){ DG_F64, DG_SCALAR, &x[i] }, DG_SUM, &tickets[i]) ==
                     0);
    }
    for (int i = N - 1; i >= 0; i--)
        WRONG_UNLESS(c->wait(c, tickets[i]) == 0 &&
                     x[i] == c->ranks * i + c->ranks * (c->ranks - 1) / 2.0);
    WRONG_UNLESS(c->cost.n == N && c->cost.bytes == N * 8);
    return NULL;
}

/* Another thread stops rank 1, then rank 0 leaves; the rest see a closed connection. */
static const char *ends(dg_comm *c, void *done)
{
    crew_stop stop = { c, done };
    pthread_t other;
    double x = 0;
    int rc;

    WRONG_UNLESS(c->barrier(c) == 0);
    if (c->rank == 0)
        return sem_wait(done) == 0 ? NULL : "it does not wait";
    if (c->rank == 1)
        WRONG_UNLESS(pthread_create(&other, NULL, crew_stop_soon, &stop) == 0);
    rc = reduce(c, DG_F64, &x, 1, DG_SUM);
    WRONG_UNLESS(c->rank == 1
                     ? rc == -DG_ESTOP && strcmp(c->why, "stopped") == 0
                     : rc == -DG_EIO && strncmp(c->why, "another rank was lost: ", 23) == 0);
    WRONG_UNLESS(c->barrier(c) == rc);
    if (c->rank == 1)
        pthread_join(other, NULL);
    return NULL;
}

/* Two of three ranks come to one collective, the last to another. */
static const char *disagrees(dg_comm *c, void *ctx)
{
    static const char *const said[] = {
        "rank 0 came to the sum of 63 f32, rank 2 to the sum of 64 f32",
        "rank 0 came to the max of 8 f32, rank 2 to the sum of 8 f32",
        "rank 0 came to a broadcast of 8 bytes from rank 0, rank 2 to a barrier",
        "rank 0 came to a broadcast of 8 bytes from rank 0, rank 2 to a broadcast of 8 bytes from "
        "rank 1",
        "rank 0 came to the mean of 1 f32 of train/a (x.xml:8:5), rank 2 to the mean of 1 f32 of "
        "train/b (x.xml:9:5)",
    };
    const int which = *(int *)ctx;
    bool last = c->rank == c->ranks - 1;
    float x[64] = { 3 };
    int rc;

    WRONG_UNLESS(c->barrier(c) == 0);
    if (which == 0)
        rc = reduce(c, DG_F32, x, last ? 64 : 63, DG_SUM);
    else if (which == 1)
        rc = reduce(c, DG_F32, x, 8, last ? DG_SUM : DG_MAX);
    else if (which == 2)
        rc = last ? c->barrier(c) : c->broadcast(c, x, 8, 0);
    else if (which == 3)
        rc = c->broadcast(c, x, 8, last);
    else {
        c->place = (dg_comm_place){ .id = last ? 7 : 9 };
        snprintf(c->place.text, sizeof c->place.text, "of train/%c (x.xml:%d:5)", last ? 'b' : 'a',
                 8 + last);
        rc = reduce(c, DG_F32, x, 1, DG_MEAN);
    }
    WRONG_UNLESS(rc == -DG_EINTERNAL);
    if (strcmp(c->why, said[which]) != 0)
        return "the reason";
    WRONG_UNLESS(x[0] == 3); /* nothing was combined */
    WRONG_UNLESS(c->barrier(c) == rc);
    return NULL;
}

static void disagreements(void **state)
{
    (void)state;
    for (int which = 0; which < 5; which++)
        run(3, disagrees, &which);
}

static void each_crew(crew_fn *fn)
{
    for (int ranks = 1; ranks <= 4; ranks += ranks == 1 ? 1 : 2)
        run(ranks, fn, NULL);
}

static void reductions(void **state)
{
    (void)state;
    each_crew(reduces);
    run(2, reduces_others, NULL);
    run(3, reduces_others, NULL);
}

static void bytes(void **state)
{
    (void)state;
    each_crew(moves_bytes);
}

static void overlap(void **state)
{
    (void)state;
    each_crew(overlaps);
}

static void stops(void **state)
{
    sem_t done;

    (void)state;
    assert_int_equal(sem_init(&done, 0, 0), 0);
    run(3, ends, &done);
    sem_destroy(&done);
}

static void duplicates(void **state)
{
    (void)state;
    each_crew(crew_uses_duplicate);
    run(3, crew_stops_duplicate, NULL);
    run(2, crew_meets, NULL);
}

static void nobody_there(void **state)
{
    dg_diag *d = dg_diag_open();
    board b = { .lock = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
                .refuses = true };
    const dg_rendezvous meeting = { &b, put, get };
    dg_comm *c;

    (void)state;
    assert_int_equal(dg_comm_gloo_open(&c, "127.0.0.1", 0, 2, &meeting, d), -DG_EIO);
    assert_null(c);
    assert_non_null(
        strstr(dg_diag_at(d, 0)->text, "rank 0 at 127.0.0.1 cannot reach the other ranks"));
    check_only(d, "comm-gloo");
    dg_diag_close(&d);
}

#else

static void not_built(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_comm *c;

    (void)state;
    assert_int_equal(dg_comm_gloo_open(&c, "127.0.0.1", 0, 2, NULL, d), -DG_EUNSUPPORTED);
    assert_null(c);
    check_only(d, "comm-gloo");
    dg_diag_close(&d);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef DG_GLOO
        cmocka_unit_test(reductions),    cmocka_unit_test(bytes),
        cmocka_unit_test(overlap),       cmocka_unit_test(stops),
        cmocka_unit_test(disagreements), cmocka_unit_test(nobody_there),
        cmocka_unit_test(duplicates),
#else
        cmocka_unit_test(not_built),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
