/* gloo.c: see gloo.h. A thread executes queued collectives in order while the step continues: those
 * that start early are hidden behind it. Operands are reduced as over shared memory, so results
 * have the same bits. comm/gloo_shim.cc wraps Gloo itself. */
#include "comm/gloo.h"

#ifdef DG_GLOO

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/log.h"
#include "base/str.h"
#include "kernels/addition.h"
#include "comm/duplicate.h"
#include "comm/gloo_shim.h"
#include "comm/meeting.h"

enum {
    QUEUE = 64,
    STAGE = 4 << 20,  /* bytes of an operand processed at a time */
    SMALL = 64 << 10, /* bytes over all ranks: below this, one exchange is cheaper than two */
};

typedef enum kind { REDUCE, BROADCAST, GATHER } kind;

typedef struct job {
    kind kind;
    dg_tensor x;
    dg_reduce op;
    void *p;
    const void *mine;
    size_t bytes;
    int root;
    const size_t *each;
    dg_meeting meeting;
} job;

typedef struct lane {
    dg_comm pub;
    dg_gloo *gloo;
    dg_rendezvous board; /* where a duplicate's ranks meet */
    char *address;
    dg_duplicate duplicate;
    dg_duplicate *original; /* of a duplicate: the original's */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job jobs[QUEUE];
    int64_t queued, done; /* numbers of collectives; job k is at index k % QUEUE */
    int failed;
    bool closing, running, busy; /* busy: Gloo is using a job's operands */
    size_t *sizes;               /* of equal gathers, per rank */
    int64_t n_exchanges;
    dg_meeting mine, *theirs; /* of the current job; by rank */
    bool greeted;
    dg_gloo_part *send, *take; /* one entry per rank, like the next two */
    const void **from;
    char *stage;
} lane;

static lane *self_of(dg_comm *c)
{
    return (lane *)(void *)c; /* pub is the first member */
}

/* ---- on the queue's thread ------------------------------------------------------------------- */

/* True if some rank has come to another collective. All ranks compare with rank 0. */
static bool differs(void *self, char why[DG_GLOO_WHY])
{
    lane *l = self;

    l->theirs[l->pub.rank] = l->mine;
    for (int r = 1; r < l->pub.ranks; r++)
        if (!dg_meeting_same(&l->theirs[0], &l->theirs[r])) {
            dg_meeting_print_both(why, DG_GLOO_WHY, 0, &l->theirs[0], r, &l->theirs[r]);
            return true;
        }
    return false;
}

/* Exchanges data, and with the first of a job what the job is. The data's number includes a hash of
 * that, so that data of another collective is never received. */
static int run_exchange(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    const uint64_t what[] = { j->meeting.word, j->meeting.place.id },
                   hash = dg_fnv1a(what, sizeof what);
    uint64_t first = (uint64_t)l->n_exchanges++ << 32,
             number = first | ((hash ^ hash >> 32) & 0x7fffffff);
    dg_gloo_greeting hello = {
        &l->mine, l->theirs, sizeof l->mine, first | 0x80000000, differs, l
    };

    if (l->greeted)
        return dg_gloo_exchange(l->gloo, l->send, l->take, number, NULL, why);
    l->greeted = true;
    l->mine = j->meeting;
    return dg_gloo_exchange(l->gloo, l->send, l->take, number, &hello, why);
}

static dg_gloo_part slice_part(void *p, size_t begin, size_t end, size_t each)
{
    return (dg_gloo_part){ (char *)p + begin * each, (end - begin) * each };
}

/* Reduces with one exchange: every rank receives all operands and adds them up. */
static int reduce_small(lane *l, const job *j, char *x, size_t n, char why[DG_GLOO_WHY])
{
    size_t each = dg_dtype_size(j->x.dtype);
    void *to[] = { x };
    int rc;

    for (int r = 0; r < l->pub.ranks; r++) {
        l->send[r] = slice_part(x, 0, n, each);
        l->take[r] = slice_part(l->stage, (size_t)r * n, (size_t)(r + 1) * n, each);
        l->from[r] = r == l->pub.rank ? x : l->take[r].p;
    }
    rc = run_exchange(l, j, why);
    if (rc == 0)
        dg_add_up(&(dg_addition){ j->x.dtype, j->op, l->from, l->pub.ranks, to, 1 }, 0, n);
    return rc;
}

/* Reduces in slices, as over shared memory: rank r receives slice r of all ranks, adds it up in
 * rank order and sends the result to all. */
static size_t slice_at(size_t n, int rank, int ranks)
{
    size_t at = (n + 15) / 16 * (size_t)rank / (size_t)ranks * 16;

    return at < n ? at : n;
}

static int reduce_slices(lane *l, const job *j, char *x, size_t n, char why[DG_GLOO_WHY])
{
    size_t each = dg_dtype_size(j->x.dtype);
    int ranks = l->pub.ranks, self = l->pub.rank, rc;
    size_t begin = slice_at(n, self, ranks), mine = slice_at(n, self + 1, ranks) - begin;
    void *to[] = { x + begin * each };

    for (int r = 0; r < ranks; r++) {
        l->send[r] = slice_part(x, slice_at(n, r, ranks), slice_at(n, r + 1, ranks), each);
        l->take[r] = slice_part(l->stage, (size_t)r * mine, (size_t)(r + 1) * mine, each);
        l->from[r] = r == self ? to[0] : l->take[r].p;
    }
    rc = run_exchange(l, j, why);
    if (rc < 0)
        return rc;
    dg_add_up(&(dg_addition){ j->x.dtype, j->op, l->from, ranks, to, 1 }, 0, mine);
    for (int r = 0; r < ranks; r++) {
        l->take[r] = l->send[r];
        l->send[r] = slice_part(x, begin, begin + mine, each);
    }
    return run_exchange(l, j, why);
}

static int do_reduce(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    size_t n = (size_t)dg_shape_elements(j->x.shape), each = dg_dtype_size(j->x.dtype),
           most = STAGE / each;
    int rc = 0;

    for (size_t at = 0; at < n && rc == 0; at += most) {
        size_t part_n = n - at < most ? n - at : most;
        char *x = (char *)j->x.data + at * each;

        rc = part_n * each * (size_t)l->pub.ranks <= SMALL ? reduce_small(l, j, x, part_n, why)
                                                           : reduce_slices(l, j, x, part_n, why);
    }
    return rc;
}

static int do_broadcast(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    for (int r = 0; r < l->pub.ranks; r++) {
        l->send[r] = (dg_gloo_part){ j->p, l->pub.rank == j->root ? j->bytes : 0 };
        l->take[r] = (dg_gloo_part){ j->p, r == j->root ? j->bytes : 0 };
    }
    return run_exchange(l, j, why);
}

static int do_gather(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    char *at = j->p;

    for (int r = 0; r < l->pub.ranks; at += j->each[r++]) {
        l->send[r] = (dg_gloo_part){ (void *)(uintptr_t)j->mine, j->each[l->pub.rank] };
        l->take[r] = (dg_gloo_part){ at, j->each[r] };
        if (r == l->pub.rank && j->each[r])
            memmove(at, j->mine, j->each[r]);
    }
    return run_exchange(l, j, why);
}

static int do_job(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    l->greeted = false;
    return j->kind == REDUCE      ? do_reduce(l, j, why)
           : j->kind == BROADCAST ? do_broadcast(l, j, why)
                                  : do_gather(l, j, why);
}

static void *run_queue(void *self)
{
    lane *l = self;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        char why[DG_GLOO_WHY] = "";
        job j;
        double begin;
        int rc;

        while (l->done == l->queued && !l->closing)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->done == l->queued || l->failed)
            break;
        j = l->jobs[l->done % QUEUE];
        l->busy = true;
        pthread_mutex_unlock(&l->lock);
        begin = dg_monotonic_s();
        rc = do_job(l, &j, why);
        pthread_mutex_lock(&l->lock);
        l->busy = false;
        l->pub.cost.work_s += dg_monotonic_s() - begin;
        if (rc < 0 && !l->failed) {
            l->failed = rc;
            snprintf(l->pub.why, sizeof l->pub.why, "%s%.480s",
                     rc == -DG_EINTERNAL ? "" : "another rank was lost: ", why);
        }
        l->done++;
        pthread_cond_broadcast(&l->changed);
        if (l->failed)
            break;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* With the lock held: waits until `done` jobs are finished; after a failure, until no thread uses
 * an operand. */
static int wait_until(lane *l, int64_t done)
{
    double begin = dg_monotonic_s();

    while (l->failed ? l->busy : l->done < done)
        pthread_cond_wait(&l->changed, &l->lock);
    l->pub.cost.wait_s += dg_monotonic_s() - begin;
    return l->failed;
}

static int enqueue_job(lane *l, const job *j, int64_t *ticket)
{
    int rc;

    pthread_mutex_lock(&l->lock);
    rc = wait_until(l, l->queued - QUEUE + 1);
    if (rc == 0) {
        l->jobs[l->queued % QUEUE] = *j;
        *ticket = l->queued++;
        l->pub.cost.n++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static int wait_for(dg_comm *c, int64_t ticket)
{
    lane *l = self_of(c);
    int rc;

    pthread_mutex_lock(&l->lock);
    rc = wait_until(l, ticket + 1);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static int gloo_start(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    if (x.dtype != DG_F32 && x.dtype != DG_F64 && x.dtype != DG_I32) {
        snprintf(c->why, sizeof c->why, "%s cannot be reduced", dg_dtype_name(x.dtype));
        return -DG_EUNSUPPORTED;
    }
    c->cost.bytes += dg_shape_elements(x.shape) * (int64_t)dg_dtype_size(x.dtype);
    return enqueue_job(self_of(c),
                       &(job){ .kind = REDUCE,
                               .x = x,
                               .op = op,
                               .meeting = dg_meeting_of(c, DG_MEET_REDUCE, (int)op, (int)x.dtype,
                                                        (size_t)dg_shape_elements(x.shape)) },
                       ticket);
}

static int at_once(dg_comm *c, job j)
{
    int64_t ticket = 0;
    int rc = enqueue_job(self_of(c), &j, &ticket);

    return rc < 0 ? rc : wait_for(c, ticket);
}

static int gloo_broadcast(dg_comm *c, void *p, size_t bytes, int root)
{
    c->cost.bytes += c->rank == root ? (int64_t)bytes : 0;
    return at_once(c, (job){ .kind = BROADCAST,
                             .p = p,
                             .bytes = bytes,
                             .root = root,
                             .meeting = dg_meeting_of(c, DG_MEET_BROADCAST, root, 0, bytes) });
}

static int gather_ragged(dg_comm *c, const void *mine, const size_t bytes[], void *all)
{
    size_t total = 0;

    for (int r = 0; r < c->ranks; r++)
        total += bytes[r];
    c->cost.bytes += (int64_t)bytes[c->rank];
    return at_once(c, (job){ .kind = GATHER,
                             .mine = mine,
                             .p = all,
                             .each = bytes,
                             .meeting = dg_meeting_of(c, DG_MEET_GATHER, 0, 0, total) });
}

static int gloo_gather(dg_comm *c, const void *mine, size_t bytes, void *all)
{
    lane *l = self_of(c);

    for (int r = 0; r < c->ranks; r++)
        l->sizes[r] = bytes;
    return gather_ragged(c, mine, l->sizes, all);
}

static int meet_for(dg_comm *c, dg_meeting what)
{
    int32_t x = 0;

    return at_once(c, (job){ .kind = REDUCE,
                             .x = { DG_I32, DG_SCALAR, &x },
                             .op = DG_MAX,
                             .meeting = what });
}

static int gloo_barrier(dg_comm *c)
{
    return meet_for(c, dg_meeting_of(c, DG_MEET_BARRIER, 0, 0, 0));
}

static int gloo_meet(dg_comm *c, dg_meeting_kind what, int a, dg_dtype type, size_t n)
{
    c->cost.bytes += dg_meeting_bytes(c, what, a, type, n);
    return meet_for(c, dg_meeting_of(c, what, a, (int)type, n));
}

/* What a lost machine did is not known before somebody waits for it. */
static int gloo_look(dg_comm *c, bool lost, char why[DG_COMM_WHY])
{
    lane *l = self_of(c);
    int rc;

    (void)lost;
    pthread_mutex_lock(&l->lock);
    rc = l->failed;
    if (rc < 0)
        snprintf(why, DG_COMM_WHY, "%s", c->why);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static void gloo_stop(dg_comm *c)
{
    lane *l = self_of(c);
    bool first;

    pthread_mutex_lock(&l->lock);
    first = !l->failed;
    if (first) {
        l->failed = -DG_ESTOP;
        snprintf(c->why, sizeof c->why, "stopped");
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (first)
        dg_gloo_stop(l->gloo);
    dg_duplicate_abort(&l->duplicate);
}

static void close_lane(dg_comm **c)
{
    lane *l;

    if (!*c)
        return;
    l = self_of(*c);
    if (l->original)
        dg_duplicate_set(l->original, NULL);
    pthread_mutex_destroy(&l->duplicate.lock);
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (l->running)
        pthread_join(l->thread, NULL);
    if (l->gloo)
        dg_gloo_close(&l->gloo);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->address);
    free(l->sizes);
    free(l->theirs);
    free(l->send);
    free(l->take);
    free(l->from);
    dg_free(l->stage);
    free(l);
    *c = NULL;
}

/* Blocks SIGPIPE, so that writes to a lost peer's socket fail instead of killing the process.
 * Gloo's threads inherit the mask. */
static void block_sigpipe(sigset_t *before)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

static int gloo_duplicate(dg_comm *c, dg_comm **other);

int dg_comm_gloo_open(dg_comm **comm, const char *address, int rank, int ranks,
                      const dg_rendezvous *board, dg_diag *d)
{
    sigset_t before;
    char why[DG_GLOO_WHY] = "";
    lane *l = calloc(1, sizeof *l);
    dg_comm *c;
    int rc;

    if (!l)
        dg_oom(sizeof *l);
    l->pub = (dg_comm){ .name = "gloo",
                        .rank = rank,
                        .ranks = ranks,
                        .start = gloo_start,
                        .wait = wait_for,
                        .broadcast = gloo_broadcast,
                        .gather = gloo_gather,
                        .gather_ragged = gather_ragged,
                        .barrier = gloo_barrier,
                        .meet = gloo_meet,
                        .look = gloo_look,
                        .duplicate = gloo_duplicate,
                        .abort = gloo_stop,
                        .close = close_lane };
    c = &l->pub;
    *comm = NULL;
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->duplicate.lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->board = *board;
    l->address = strdup(address);
    l->sizes = calloc((size_t)ranks, sizeof *l->sizes);
    l->theirs = calloc((size_t)ranks, sizeof *l->theirs);
    l->send = calloc((size_t)ranks, sizeof *l->send);
    l->take = calloc((size_t)ranks, sizeof *l->take);
    l->from = calloc((size_t)ranks, sizeof *l->from);
    /* slices end at multiples of 16 elements */
    l->stage = dg_try_alloc(STAGE + 64 * (size_t)ranks * sizeof(double));
    if (!l->address || !l->sizes || !l->theirs || !l->send || !l->take || !l->from || !l->stage)
        dg_oom(STAGE);
    block_sigpipe(&before);
    rc = dg_gloo_open(&l->gloo, address, rank, ranks, board, why);
    if (rc < 0) {
        dg_fail(d, (dg_code)-rc, DG_NOWHERE, "comm-gloo",
                "rank %d at %s cannot reach the other ranks: %s", rank, address, why);
        dg_help(d, "machines must reach each other by TCP; --coordinator names an address that "
                   "both can see");
        goto out;
    }
    l->running = pthread_create(&l->thread, NULL, run_queue, l) == 0;
    if (!l->running)
        DG_TRY(dg_fail(d, DG_EMEMORY, DG_NOWHERE, "comm-gloo",
                       "rank %d cannot start a thread for its collectives", rank));
    *comm = c;
out:
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc < 0)
        close_lane(&c);
    return rc;
}

/* The board with other keys, so that a duplicate's ranks meet only each other. */
static int put_other(void *ctx, const char *key, const void *bytes, size_t n)
{
    const dg_rendezvous *board = ctx;
    char other[256];

    snprintf(other, sizeof other, "duplicate/%s", key);
    return board->put(board->ctx, other, bytes, n);
}

static int get_other(void *ctx, const char *key, double seconds, void **bytes, size_t *n)
{
    const dg_rendezvous *board = ctx;
    char other[256];

    snprintf(other, sizeof other, "duplicate/%s", key);
    return board->get(board->ctx, other, seconds, bytes, n);
}

static int gloo_duplicate(dg_comm *c, dg_comm **other)
{
    lane *l = self_of(c);
    const dg_rendezvous board = { &l->board, put_other, get_other };
    dg_diag *d = dg_diag_open();
    int rc = dg_comm_gloo_open(other, l->address, c->rank, c->ranks, &board, d);

    if (rc < 0) {
        snprintf(c->why, sizeof c->why, "%s", dg_diag_at(d, 0)->text);
    } else {
        (*other)->duplicate = NULL;
        self_of(*other)->original = &l->duplicate;
        dg_duplicate_set(&l->duplicate, *other);
    }
    dg_diag_close(&d);
    return rc;
}

#else

int dg_comm_gloo_open(dg_comm **comm, const char *address, int rank, int ranks,
                      const dg_rendezvous *board, dg_diag *d)
{
    (void)address, (void)rank, (void)board;
    *comm = NULL;
    dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "comm-gloo",
            "%d ranks on several machines: this detrgraph was built without Gloo", ranks);
    dg_help(d, "install libgloo-dev, then configure and build again");
    return -DG_EUNSUPPORTED;
}

#endif
