/* peers: collectives between devices over the stand-ins of CUDA and NCCL: the bits of the host's,
 * for every type, operation and number of ranks; ranks that differ are named before anything moves;
 * a rank that is killed, stands still or meets an error ends the wait of all. */
#include "tests/comm/crew.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "kernels/peers.h"

enum { MARK = 77, MOST = 20000 };

typedef struct device {
    dg_backend *b;
    dg_peers *p;
    char why[DG_BACKEND_WHY];
    char *x, *y; /* MOST doubles each */
    double *host, *seen;
} device;

/* words: "" or more of the stand-in's, each with a comma; nccl: NULL is the stand-in's. */
static const char *name_of(char *buf, size_t n, const char *words, const char *nccl)
{
    const char *top = getenv("builddir") ? getenv("builddir") : ".";

    snprintf(buf, n, "cuda:module=%s/tests/cuda/.libs/standin.so%s,nccl=%s%s", top, words,
             nccl ? nccl : top, nccl ? "" : "/tests/cuda/.libs/nccl.so");
    return buf;
}

/* NULL, or what went wrong. */
static const char *device_open_as(device *v, dg_comm *c, const char *words, const char *nccl)
{
    dg_diag *d = dg_diag_open();
    char name[4096];
    int rc;

    *v = (device){ 0 };
    name_of(name, sizeof name, words, nccl);
    rc = dg_backend_open(&v->b, name, d);
    if (rc == 0)
        rc = v->b->peers_open(v->b, c, v->why, d);
    if (rc < 0)
        fprintf(stderr, "%s", dg_diag_text(d));
    dg_diag_close(&d);
    if (rc < 0)
        return "the device does not open";
    v->p = c->peers;
    v->x = v->b->alloc(v->b, MOST * sizeof(double));
    v->y = v->b->alloc(v->b, MOST * sizeof(double));
    v->host = calloc(MOST, sizeof *v->host);
    v->seen = calloc(MOST, sizeof *v->seen);
    return v->x && v->y && v->host && v->seen ? NULL : "no memory";
}

static const char *device_open(device *v, dg_comm *c)
{
    char words[32];
    const char *wrong;

    snprintf(words, sizeof words, ",seed=%d", c->rank);
    wrong = device_open_as(v, c, words, NULL);
    if (!wrong && (!v->p || v->p->reserve(v->p, MOST * sizeof(double), MOST * sizeof(double)) < 0))
        wrong = v->p ? "no room for operands" : "no peers";
    return wrong;
}

static void device_close(device *v)
{
    if (v->p)
        v->p->close(&v->p);
    v->b->free(v->b, v->x);
    v->b->free(v->b, v->y);
    dg_backend_close(&v->b);
    free(v->host);
    free(v->seen);
}

static void set_place(dg_comm *c, uint64_t id, const char *text)
{
    c->place = (dg_comm_place){ .id = id };
    snprintf(c->place.text, sizeof c->place.text, "%s", text);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Numbers whose sum depends on the order; where that is no matter, some that are none. */
static void fill(void *to, dg_dtype type, dg_reduce op, int64_t n, int rank)
{
    uint64_t state = (uint64_t)rank * 1000003 + (uint64_t)n * 7 + (uint64_t)op;

    for (int64_t i = 0; i < n; i++) {
        double v;

        state = state * 6364136223846793005u + 1442695040888963407u;
        v = ((double)(state >> 40) - (1 << 23)) * ((state >> 33 & 3) ? 1e-3 : 1e6);
        if ((op == DG_MAX || op == DG_MIN) && type != DG_I32 && i % 13 == rank)
            v = (double)NAN;
        if (type == DG_F32)
            ((float *)to)[i] = (float)v;
        else if (type == DG_F64)
            ((double *)to)[i] = v;
        else
            ((int32_t *)to)[i] = (int32_t)(v / 1e4);
    }
}

static const char *one_reduction(device *v, dg_comm *c, dg_dtype type, dg_reduce op, int64_t n,
                                 bool in_place)
{
    size_t bytes = (size_t)n * dg_dtype_size(type);
    dg_tensor x = { type, DG_SHAPE(n), v->x };
    char *to = in_place ? v->x : v->y;
    int64_t ticket;

    fill(v->host, type, op, n, c->rank);
    set_place(c, 5, "of the reduction");
    WRONG_UNLESS(v->b->upload(v->b, DG_LANE_COMM, v->x, v->host, bytes) == 0);
    WRONG_UNLESS(v->p->reduce(v->p, x, to, op, MARK) == 0);
    WRONG_UNLESS(v->b->download(v->b, DG_LANE_COMM, v->seen, to, bytes) == 0);
    x.data = v->host;
    WRONG_UNLESS(c->start(c, x, op, &ticket) == 0 && c->wait(c, ticket) == 0);
    WRONG_UNLESS(memcmp(v->seen, v->host, bytes) == 0);
    return NULL;
}

static const char *reduces_as_host(dg_comm *c, void *ctx)
{
    static const dg_dtype types[] = { DG_F32, DG_F64, DG_I32 };
    static const dg_reduce ops[] = { DG_SUM, DG_MAX, DG_MIN, DG_MEAN };
    static const int64_t sizes[] = { 1, 7, 1000, MOST };
    device v;
    const char *wrong = device_open(&v, c);

    (void)ctx;
    for (int k = 0; k < 3 * 4 * 4 && !wrong; k++)
        wrong = one_reduction(&v, c, types[k % 3], ops[k / 3 % 4], sizes[k / 12], k % 5 == 0);
    device_close(&v);
    return wrong;
}

static const char *move_bytes(device *v, dg_comm *c, size_t bytes)
{
    const int root = c->ranks - 1;
    const int64_t before = c->cost.bytes, given = (int64_t)bytes;
    char *all = (char *)v->seen;

    fill(v->host, DG_I32, DG_SUM, (int64_t)(bytes / 4), c->rank);
    set_place(c, 6, "of the bytes");
    WRONG_UNLESS(v->b->upload(v->b, DG_LANE_COMM, v->x, v->host, bytes) == 0);
    WRONG_UNLESS(v->p->gather(v->p, v->x, bytes, v->y, MARK) == 0);
    WRONG_UNLESS(v->p->broadcast(v->p, v->x, bytes, root, MARK) == 0);
    WRONG_UNLESS(c->cost.bytes - before == (c->rank == root ? 2 : 1) * given);
    WRONG_UNLESS(v->b->download(v->b, DG_LANE_COMM, all, v->y, bytes * (size_t)c->ranks) == 0);
    for (int r = 0; r < c->ranks; r++) {
        fill(v->host, DG_I32, DG_SUM, (int64_t)(bytes / 4), r);
        WRONG_UNLESS(memcmp(all + (size_t)r * bytes, v->host, bytes) == 0);
    }
    WRONG_UNLESS(v->b->download(v->b, DG_LANE_COMM, all, v->x, bytes) == 0);
    WRONG_UNLESS(memcmp(all, v->host, bytes) == 0); /* the last rank's */
    return NULL;
}

/* A rank that only gives keeps what it has. */
static const char *only_gives(device *v, dg_comm *c, int n)
{
    const dg_tensor x = { DG_F64, DG_SHAPE(n), v->x };
    const size_t bytes = (size_t)n * sizeof(double);

    for (int i = 0; i < n; i++)
        v->host[i] = c->rank + i;
    set_place(c, 7, "of the root's");
    WRONG_UNLESS(v->b->upload(v->b, DG_LANE_COMM, v->x, v->host, bytes) == 0);
    WRONG_UNLESS(v->p->reduce(v->p, x, c->rank ? NULL : v->x, DG_SUM, MARK) == 0);
    WRONG_UNLESS(v->b->download(v->b, DG_LANE_COMM, v->seen, v->x, bytes) == 0);
    for (int i = 0; i < n; i++)
        WRONG_UNLESS(v->seen[i] ==
                     (c->rank ? c->rank + i : c->ranks * (c->ranks - 1) / 2 + c->ranks * i));
    return NULL;
}

static const char *moves_bytes(dg_comm *c, void *ctx)
{
    device v;
    const char *wrong = device_open(&v, c);

    (void)ctx;
    for (size_t bytes = 4; bytes <= 40000 && !wrong; bytes *= 100)
        wrong = move_bytes(&v, c, bytes);
    if (!wrong)
        wrong = only_gives(&v, c, 5);
    if (!wrong)
        wrong = only_gives(&v, c, MOST);
    device_close(&v);
    return wrong;
}

static void the_bits_are_the_hosts(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        crew_run(ranks, reduces_as_host, NULL);
        crew_run(ranks, moves_bytes, NULL);
    }
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static const char *differs(dg_comm *c, void *ctx)
{
    const dg_tensor x = { DG_F32, DG_SHAPE(c->rank ? 8 : 9), NULL };
    dg_tensor own = x;
    device v;
    const char *wrong = device_open(&v, c);

    (void)ctx;
    own.data = v.x;
    set_place(c, c->rank ? 11 : 12, c->rank ? "of train/a (x.xml:8:5)" : "of train/b (x.xml:9:5)");
    if (!wrong && v.p->reduce(v.p, own, v.x, DG_MEAN, MARK) != -DG_EINTERNAL)
        wrong = "it is not refused";
    if (!wrong && (!strstr(c->why, "rank 0 came to the mean of 9 f32 of train/b (x.xml:9:5)") ||
                   !strstr(c->why, "rank 1 to the mean of 8 f32 of train/a (x.xml:8:5)")))
        wrong = c->why;
    if (!wrong && strcmp(v.p->why, c->why) != 0) /* at once, and it stays */
        wrong = "the peers have another reason";
    if (!wrong && v.p->gather(v.p, v.x, 4, v.y, MARK) >= 0)
        wrong = "it goes on";
    device_close(&v);
    return wrong;
}

static void ranks_that_differ_are_named(void **state)
{
    (void)state;
    crew_run(2, differs, NULL);
}

/* The device's status when its work is over; the call itself may have it already. */
static int reduce_and_wait(device *v, dg_comm *c)
{
    const dg_tensor x = { DG_F64, DG_SHAPE(MOST), v->x };
    int rc, late;

    set_place(c, 21, "of the gradients");
    rc = v->p->reduce(v->p, x, v->x, DG_SUM, MARK);
    late = v->b->finish(v->b);
    return rc < 0 ? rc : late;
}

/* Rank 1 meets the others and puts nothing on its device: NCCL itself would wait for ever. */
static const char *stands_still(dg_comm *c, void *ctx)
{
    char why[DG_COMM_WHY];
    device v;
    const char *wrong = device_open(&v, c);

    (void)ctx;
    if (c->rank == 1) {
        set_place(c, 21, "of the gradients");
        if (!wrong && c->meet(c, DG_MEET_REDUCE, DG_SUM, DG_F64, MOST) < 0)
            wrong = "they do not meet";
        usleep(30000);
        c->abort(c);
    } else if (!wrong) {
        wrong = reduce_and_wait(&v, c) == -DG_ESTOP ? NULL : "the wait does not end with a stop";
        if (!wrong && (v.b->fault(v.b) != MARK || strcmp(v.p->why, "stopped") != 0))
            wrong = "the fault has another place or reason";
    }
    if (!wrong && c->look(c, false, why) != -DG_ESTOP)
        wrong = "it does not look stopped";
    device_close(&v);
    return wrong;
}

static void an_abort_ends_the_device_s_wait(void **state)
{
    (void)state;
    crew_run(3, stands_still, NULL);
}

/* NCCL reports an error on one rank, which then aborts, as a run does. */
static const char *meets_an_error(dg_comm *c, void *ctx)
{
    device v;
    const char *wrong = device_open(&v, c);
    int rc = wrong ? 0 : reduce_and_wait(&v, c);

    (void)ctx;
    if (c->rank == 1)
        c->abort(c);
    if (!wrong && rc != (c->rank == 1 ? -DG_EIO : -DG_ESTOP))
        wrong = "the status is another";
    if (!wrong && v.b->fault(v.b) != MARK)
        wrong = "the fault has another place";
    if (!wrong && c->rank == 1 && !strstr(v.p->why, "NCCL: unhandled system error"))
        wrong = v.p->why;
    if (!wrong)
        device_close(&v);
    return wrong;
}

static void errors_of_nccl_are_told(void **state)
{
    (void)state;
    setenv("STANDIN_NCCL", "error=1,rank=1", 1);
    crew_run(2, meets_an_error, NULL);
    unsetenv("STANDIN_NCCL");
}

/* Rank 1, a process of its own. */
static void die_after_meeting(int fd)
{
    dg_diag *d = dg_diag_open();
    dg_comm *c;
    device v;

    if (dg_comm_shm_open(&c, fd, 1, 2, d) < 0 || device_open(&v, c))
        _exit(1);
    set_place(c, 21, "of the gradients");
    if (c->meet(c, DG_MEET_REDUCE, DG_SUM, DG_F64, MOST) < 0)
        _exit(1);
    raise(SIGKILL);
}

static void a_lost_rank_is_named(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_comm *c;
    device v;
    char expected[64];
    int fd, status;
    pid_t pid;

    (void)state;
    assert_int_equal(dg_comm_shm_make(&fd, d), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        die_after_meeting(fd);
    assert_int_equal(dg_comm_shm_open(&c, fd, 0, 2, d), 0);
    assert_null(device_open(&v, c));
    assert_int_equal(reduce_and_wait(&v, c), -DG_EIO);
    assert_int_equal(v.b->fault(v.b), MARK);
    snprintf(expected, sizeof expected, "rank 1 (process %d) has ended", (int)pid);
    assert_non_null(strstr(v.p->why, expected));
    assert_non_null(strstr(v.p->why, "remote process exited"));
    device_close(&v);
    c->close(&c);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    dg_diag_close(&d);
}

/* ---- without NCCL ---------------------------------------------------------------------------- */

typedef struct without {
    const char *words, *nccl, *why;
} without;

static const char *goes_without(dg_comm *c, void *ctx)
{
    const without *w = ctx;
    device v;
    const char *wrong = device_open_as(&v, c, w->words, w->nccl);

    if (!wrong && (v.p || c->peers || !strstr(v.why, w->why)))
        wrong = "there are peers, or another reason";
    if (wrong)
        fprintf(stderr, "%s: %s\n", w->why, v.why);
    device_close(&v);
    return wrong;
}

static void without_nccl_the_reason_is_said(void **state)
{
    static const without all[] = {
        { "", "none", "rank 0: nccl=none was asked for" },
        { "", "/nowhere/libnccl.so.2", "rank 0: /nowhere/libnccl.so.2: cannot open" },
        { "", "/lib/x86_64-linux-gnu/libm.so.6", "rank 0: " },
        { ",share=1", NULL, "ranks 0 and 1 share a GPU" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        crew_run(2, goes_without, (void *)(uintptr_t)&all[i]);
}

/* NCCL makes no communicator for rank 1, which says why: no rank has one, and none waits. */
static const char *is_refused(dg_comm *c, void *ctx)
{
    dg_diag *d = dg_diag_open();
    dg_backend *b = NULL;
    char name[4096], why[DG_BACKEND_WHY] = "";
    const char *wrong = NULL, *said;
    int rc = dg_backend_open(&b, name_of(name, sizeof name, "", NULL), d);

    (void)ctx;
    if (rc == 0)
        rc = b->peers_open(b, c, why, d);
    said = dg_diag_text(d);
    if (rc >= 0 || c->peers || *said == '\0' ||
        (c->rank == 1 &&
         (!strstr(said, "error[device-peers]") || !strstr(said, "rank 1: NCCL: invalid usage") ||
          !strstr(said, "cuda:nccl=none"))))
        wrong = "it is not refused so";
    if (wrong)
        fprintf(stderr, "%d: %s\n", rc, said);
    dg_backend_close(&b);
    dg_diag_close(&d);
    return wrong;
}

static void what_nccl_refuses_ends_all(void **state)
{
    (void)state;
    setenv("STANDIN_NCCL", "refuse=1", 1);
    crew_run(3, is_refused, NULL);
    unsetenv("STANDIN_NCCL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_rank_is_named),
        cmocka_unit_test(the_bits_are_the_hosts),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(an_abort_ends_the_device_s_wait),
        cmocka_unit_test(errors_of_nccl_are_told),
        cmocka_unit_test(what_nccl_refuses_ends_all),
        cmocka_unit_test(without_nccl_the_reason_is_said),
    };

    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
