/* peers.c: collectives between GPUs. NCCL moves bytes only; sums are ours, in the order of ranks,
 * so the bits are the host's.
 *
 *   small     every rank gets all operands and adds them up
 *   large     rank r gets slice r of all operands, adds them up, and sends the sum to all
 *
 * Its communicator does not block, and a thread watches it: when NCCL reports an error, or the
 * host's communicator has failed or was aborted, it ends NCCL's work on the device by aborting it,
 * and waits for the device return that failure. Locks: that of peers, then the device's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "base/log.h"
#include "kernels/cuda/host/internal.h"
#include "kernels/cuda/host/nccl.h"
#include "kernels/peers.h"

enum {
    SMALL = 64 << 10, /* bytes over all ranks */
    LOOK_MS = 10,     /* between two looks of the watcher */
};

static const double patience_s = 10; /* for an orderly end */

typedef struct peers {
    dg_peers pub; /* first: what the caller has */
    dg_cuda *owner;
    dg_comm *comm;
    dg_nccl nccl;
    dg_nccl_comm *c; /* NULL: aborted or closed */
    char name[40];
    void *workspace; /* for slices of all ranks; behind them a result that is not used */
    size_t bytes, given;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t watcher;
    bool watched, closing;
    int failed, mark; /* mark: of the latest call */
} peers;

static peers *self_of(dg_peers *p)
{
    return (peers *)(void *)p;
}

static void nap(void)
{
    const struct timespec t = { 0, 50000 };

    (void)nanosleep(&t, NULL);
}

/* ---- failing: with the lock held ------------------------------------------------------------- */

/* Whoever reads it without the lock, from the first byte on, sees nothing or all of it. */
static void publish(peers *p, const char *why)
{
    snprintf(p->pub.why + 1, sizeof p->pub.why - 1, "%s", *why ? why + 1 : "");
    __atomic_store_n(&p->pub.why[0], *why, __ATOMIC_RELEASE);
}

/* Ends NCCL's work. The device's users are told first: the end of that work wakes them. */
static int fail(peers *p, int status, const char *why)
{
    int32_t begun = __atomic_load_n(p->owner->lanes[DG_LANE_COMM].word, __ATOMIC_RELAXED);

    if (p->failed)
        return p->failed;
    p->failed = status;
    publish(p, why);
    dg_cuda_work_failed(p->owner, status, begun == DG_NO_MARK ? p->mark : begun);
    if (p->c)
        (void)p->nccl.abort(p->c);
    p->c = NULL;
    return status;
}

/* A rank that has ended is the reason for any error of the others. */
static int fail_by_nccl(peers *p, int code)
{
    char lost[DG_COMM_WHY] = "", why[DG_COMM_WHY];
    const char *more = p->nccl.last_error(p->c);
    int rc = p->comm->look(p->comm, true, lost);

    snprintf(why, sizeof why, "%.160s%sNCCL: %.100s%s%.200s", rc < 0 ? lost : "",
             rc < 0 ? "; " : "", p->nccl.error(code), more && *more ? ": " : "", more ? more : "");
    return fail(p, rc < 0 ? rc : -DG_EIO, why);
}

/* What NCCL or the host's communicator says without being asked for anything. */
static int look(peers *p)
{
    char why[DG_COMM_WHY] = "";
    int rc = p->comm->look(p->comm, false, why), code = DG_NCCL_OK;

    if (p->failed)
        return p->failed;
    if (rc < 0)
        return fail(p, rc, why);
    if (p->c && p->nccl.async_error(p->c, &code) != DG_NCCL_OK)
        code = DG_NCCL_REMOTE_ERROR;
    return code == DG_NCCL_OK || code == DG_NCCL_IN_PROGRESS ? 0 : fail_by_nccl(p, code);
}

/* Waits until a call that returned `code` is over. */
static int settle(peers *p, int code)
{
    while (code == DG_NCCL_IN_PROGRESS && !p->failed) {
        int rc = look(p);

        if (rc < 0)
            return rc;
        if (p->nccl.async_error(p->c, &code) != DG_NCCL_OK)
            code = DG_NCCL_REMOTE_ERROR;
        if (code != DG_NCCL_IN_PROGRESS)
            break;
        pthread_mutex_unlock(&p->lock);
        nap();
        pthread_mutex_lock(&p->lock);
    }
    return p->failed ? p->failed : code == DG_NCCL_OK ? 0 : fail_by_nccl(p, code);
}

static void *watch(void *ctx)
{
    peers *p = ctx;

    pthread_mutex_lock(&p->lock);
    while (!p->closing && look(p) == 0) {
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &until);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void *stream_of(const peers *p)
{
    return p->owner->lanes[DG_LANE_COMM].stream;
}

/* Kernels of this file have the call's mark. */
static int put_mark(peers *p, int mark)
{
    dg_cuda *c = p->owner;
    dg_cuda_lane *lane = &c->lanes[DG_LANE_COMM];
    int rc = -DG_EUNSUPPORTED;

    pthread_mutex_lock(&c->lock);
    lane->mark = mark;
    if (!c->recording)
        rc = c->module->sign(&lane->queue, (uint32_t *)lane->word, (uint32_t)mark);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* The ranks have met, the lane says where it is, and the lock is held. Ranks that did not meet
 * exchange nothing more: what NCCL has ends, and the watcher has nothing to say. */
static int begin(peers *p, dg_meeting_kind kind, int a, dg_dtype type, size_t n, int mark)
{
    int met, rc;

    pthread_mutex_lock(&p->lock);
    p->mark = mark;
    pthread_mutex_unlock(&p->lock);
    met = p->comm->meet(p->comm, kind, a, type, n);
    rc = met < 0 ? met : put_mark(p, mark);
    pthread_mutex_lock(&p->lock);
    if (met < 0)
        (void)fail(p, met, p->comm->why);
    return rc < 0 ? rc : p->failed;
}

static int end(peers *p, int rc)
{
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static int add_up(peers *p, const dg_cuda_addition *a)
{
    dg_cuda *c = p->owner;
    int rc;

    pthread_mutex_lock(&c->lock);
    rc = c->module->add_up(&c->lanes[DG_LANE_COMM].queue, a);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static int64_t slice_at(int64_t n, int rank, int ranks)
{
    int64_t at = (n + 15) / 16 * rank / ranks * 16;

    return at < n ? at : n;
}

/* In a group: gives bytes to a rank and takes some from it. */
static int trade(peers *p, int rank, const void *give, size_t n_give, void *take, size_t n_take)
{
    void *on = stream_of(p);
    int code = n_give ? p->nccl.send(give, n_give, DG_NCCL_BYTES, rank, p->c, on) : DG_NCCL_OK;

    if (n_take && (code == DG_NCCL_OK || code == DG_NCCL_IN_PROGRESS))
        code = p->nccl.take(take, n_take, DG_NCCL_BYTES, rank, p->c, on);
    return code == DG_NCCL_IN_PROGRESS ? DG_NCCL_OK : code;
}

/* x: an operand of n elements. there: slice r of x to rank r, and this rank's slice of all others
 * to the workspace. Else: this rank's slice of x to all, and theirs to x. */
static int trade_slices(peers *p, char *x, int64_t n, size_t each, bool there)
{
    int ranks = p->comm->ranks, self = p->comm->rank;
    int64_t at = slice_at(n, self, ranks);
    size_t mine = (size_t)(slice_at(n, self + 1, ranks) - at) * each;
    int code = p->nccl.group_begin(), last;

    for (int r = 0; r < ranks && code == DG_NCCL_OK; r++) {
        int64_t from = slice_at(n, r, ranks);
        size_t theirs = (size_t)(slice_at(n, r + 1, ranks) - from) * each;
        char *slice = x + (size_t)from * each;

        if (r == self)
            continue;
        code = there ? trade(p, r, slice, theirs, (char *)p->workspace + (size_t)r * mine, mine)
                     : trade(p, r, x + (size_t)at * each, mine, slice, theirs);
    }
    last = p->nccl.group_end();
    return settle(p, code == DG_NCCL_OK ? last : code);
}

static dg_cuda_addition addition_of(const peers *p, dg_tensor x, void *to, dg_reduce op)
{
    return (dg_cuda_addition){ .type = x.dtype,
                               .op = op,
                               .own = x.data,
                               .others = p->workspace,
                               .to = to,
                               .n = dg_shape_elements(x.shape),
                               .rank = p->comm->rank,
                               .ranks = p->comm->ranks };
}

static int reduce_small(peers *p, dg_tensor x, void *y, dg_reduce op)
{
    dg_cuda_addition a = addition_of(p, x, y, op);
    size_t bytes = (size_t)a.n * dg_dtype_size(x.dtype);
    int rc =
        settle(p, p->nccl.gather(x.data, p->workspace, bytes, DG_NCCL_BYTES, p->c, stream_of(p)));

    a.stride = a.n;
    return rc < 0 || !y ? rc : add_up(p, &a);
}

static int copy_on_lane(peers *p, void *to, const void *from, size_t bytes)
{
    dg_backend *b = &p->owner->table;

    return b->copy(b, DG_LANE_COMM, to, from, bytes);
}

/* In y, which begins as a copy of x. */
static int reduce_slices(peers *p, dg_tensor x, void *y, dg_reduce op)
{
    int64_t n = dg_shape_elements(x.shape), at = slice_at(n, p->comm->rank, p->comm->ranks);
    size_t each = dg_dtype_size(x.dtype);
    dg_cuda_addition a;
    int rc = x.data == y ? 0 : copy_on_lane(p, y, x.data, (size_t)n * each);

    x.data = y;
    a = addition_of(p, x, y, op);
    a.own = a.to = (char *)y + (size_t)at * each;
    a.stride = a.n = slice_at(n, p->comm->rank + 1, p->comm->ranks) - at;
    if (rc == 0)
        rc = trade_slices(p, y, n, each, true);
    if (rc == 0)
        rc = add_up(p, &a);
    return rc < 0 ? rc : trade_slices(p, y, n, each, false);
}

/* A slice of each rank, which ends at a multiple of 16 elements; or all of small operands. */
static size_t slices_bytes(const peers *p, size_t bytes)
{
    size_t most = bytes + SMALL + (size_t)p->comm->ranks * 16 * sizeof(double);

    return (most + 255) / 256 * 256;
}

static int peers_reduce(dg_peers *self, dg_tensor x, void *y, dg_reduce op, int mark)
{
    peers *p = self_of(self);
    int64_t n = dg_shape_elements(x.shape);
    size_t bytes = (size_t)n * dg_dtype_size(x.dtype);
    bool small = bytes * (size_t)p->comm->ranks <= SMALL;
    int rc;

    if (x.dtype != DG_F32 && x.dtype != DG_F64 && x.dtype != DG_I32)
        return -DG_EUNSUPPORTED;
    rc = begin(p, DG_MEET_REDUCE, (int)op, x.dtype, (size_t)n, mark);
    if (rc == 0 && (bytes > p->bytes || !p->workspace || (!y && !small && bytes > p->given)))
        rc = -DG_EMEMORY;
    if (rc == 0 && !y && !small)
        y = (char *)p->workspace + slices_bytes(p, p->bytes);
    if (rc == 0 && n)
        rc = small ? reduce_small(p, x, y, op) : reduce_slices(p, x, y, op);
    return end(p, rc);
}

static int peers_broadcast(dg_peers *self, void *x, size_t bytes, int root, int mark)
{
    peers *p = self_of(self);
    int rc = begin(p, DG_MEET_BROADCAST, root, DG_F32, bytes, mark);

    if (rc == 0 && bytes)
        rc = settle(p, p->nccl.broadcast(x, x, bytes, DG_NCCL_BYTES, root, p->c, stream_of(p)));
    return end(p, rc);
}

static int peers_gather(dg_peers *self, const void *mine, size_t bytes, void *all, int mark)
{
    peers *p = self_of(self);
    int rc = begin(p, DG_MEET_GATHER, 0, DG_F32, bytes * (size_t)p->comm->ranks, mark);

    if (rc == 0 && bytes)
        rc = settle(p, p->nccl.gather(mine, all, bytes, DG_NCCL_BYTES, p->c, stream_of(p)));
    return end(p, rc);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int peers_reserve(dg_peers *self, size_t bytes, size_t given)
{
    peers *p = self_of(self);
    dg_backend *b = &p->owner->table;

    if (p->workspace && bytes <= p->bytes && given <= p->given)
        return 0;
    b->free(b, p->workspace);
    p->bytes = bytes > p->bytes ? bytes : p->bytes;
    p->given = given > p->given ? given : p->given;
    p->workspace = b->alloc(b, slices_bytes(p, p->bytes) + p->given);
    return p->workspace ? 0 : -DG_EMEMORY;
}

static void stop_watching(peers *p)
{
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->watched)
        pthread_join(p->watcher, NULL);
    p->watched = false;
}

/* NCCL's communicator ends when those of all ranks do, or is aborted. */
static void end_nccl(peers *p)
{
    double until = dg_monotonic_s() + patience_s;
    char why[DG_COMM_WHY];
    int code = p->nccl.finalize(p->c);

    while (code == DG_NCCL_IN_PROGRESS && dg_monotonic_s() < until &&
           p->comm->look(p->comm, true, why) == 0) {
        nap();
        if (p->nccl.async_error(p->c, &code) != DG_NCCL_OK)
            code = DG_NCCL_REMOTE_ERROR;
    }
    (void)(code == DG_NCCL_OK ? p->nccl.destroy(p->c) : p->nccl.abort(p->c));
    p->c = NULL;
}

static void release(peers *p)
{
    dg_nccl_unload(&p->nccl);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void peers_close(dg_peers **self)
{
    peers *p = self_of(*self);
    dg_backend *b = &p->owner->table;

    (void)b->finish(b); /* the watcher ends work that never would */
    stop_watching(p);
    if (p->c)
        end_nccl(p);
    b->free(b, p->workspace);
    p->comm->peers = NULL;
    release(p);
    *self = NULL;
}

/* What a rank brings to the opening. */
typedef struct hello {
    uint8_t gpu[16];
    int32_t version; /* of NCCL; 0: it has none */
    int32_t unused;
    char why[DG_COMM_WHY];
} hello;

/* The first reason why they cannot, the same on every rank. */
static bool can_exchange(const hello *all, int ranks, char why[DG_BACKEND_WHY])
{
    char a[32], b[32];

    for (int r = 0; r < ranks; r++) {
        if (!all[r].version) {
            snprintf(why, DG_BACKEND_WHY, "rank %d: %.280s", r, all[r].why);
            return false;
        }
        if (all[r].version != all[0].version) {
            snprintf(why, DG_BACKEND_WHY, "rank 0 has NCCL %s, rank %d has %s",
                     dg_nccl_version(all[0].version, a, sizeof a), r,
                     dg_nccl_version(all[r].version, b, sizeof b));
            return false;
        }
        for (int q = 0; q < r; q++)
            if (memcmp(all[q].gpu, all[r].gpu, sizeof all[q].gpu) == 0) {
                snprintf(why, DG_BACKEND_WHY, "ranks %d and %d share a GPU, which NCCL refuses", q,
                         r);
                return false;
            }
    }
    return true;
}

/* The communicator of all ranks; its id comes from rank 0. */
static int meet_by_nccl(peers *p)
{
    dg_nccl_config conf = { .size = sizeof conf,
                            .magic = dg_nccl_magic,
                            .version = DG_NCCL_LEAST,
                            .blocking = 0,
                            .cga_cluster_size = DG_NCCL_NONE,
                            .min_blocks = DG_NCCL_NONE,
                            .max_blocks = DG_NCCL_NONE };
    struct {
        int32_t code;
        dg_nccl_id id;
    } first = { 0 };
    int rc;

    if (p->comm->rank == 0)
        first.code = p->nccl.get_id(&first.id);
    rc = p->comm->broadcast(p->comm, &first, sizeof first, 0);
    if (rc < 0)
        return rc;
    (void)p->owner->r->use(p->owner->r);
    pthread_mutex_lock(&p->lock);
    rc = first.code != DG_NCCL_OK
             ? fail_by_nccl(p, first.code)
             : settle(p, p->nccl.open(&p->c, p->comm->ranks, first.id, p->comm->rank, &conf));
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* The others may wait for this rank in NCCL, which would not tell them. */
static int refuse(peers *p, int rc, dg_diag *d)
{
    stop_watching(p);
    if (rc == -DG_ESTOP || p->comm->why[0])
        return dg_fail(d, (dg_code)-rc, DG_NOWHERE, "collective-failed",
                       "while the ranks opened NCCL: %s",
                       p->comm->why[0] ? p->comm->why : p->pub.why);
    dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-peers",
            "the GPUs of the ranks cannot exchange: rank %d: %s", p->comm->rank, p->pub.why);
    dg_help(d, "NCCL_DEBUG=INFO shows what NCCL tried; --device cuda:nccl=none exchanges through "
               "host memory instead");
    p->comm->abort(p->comm);
    return rc;
}

static bool start_watching(peers *p)
{
    sigset_t all, before;

    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    p->watched = pthread_create(&p->watcher, NULL, watch, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p->watched;
}

static peers *make(dg_cuda *c, dg_comm *comm)
{
    peers *p = calloc(1, sizeof *p);

    if (!p)
        dg_oom(sizeof *p);
    p->pub = (dg_peers){ .name = p->name,
                         .reserve = peers_reserve,
                         .reduce = peers_reduce,
                         .broadcast = peers_broadcast,
                         .gather = peers_gather,
                         .close = peers_close };
    p->owner = c;
    p->comm = comm;
    p->mark = DG_NO_MARK;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    return p;
}

static hello introduce(peers *p)
{
    const dg_cuda *c = p->owner;
    hello mine = { 0 };

    memcpy(mine.gpu, c->r->id, sizeof mine.gpu);
    if (c->nccl && strcmp(c->nccl, "none") == 0)
        snprintf(mine.why, sizeof mine.why, "nccl=none was asked for");
    else if (!c->nccl && !c->module->has_nccl)
        snprintf(mine.why, sizeof mine.why, "%s has no NCCL", c->module->name);
    else if (dg_nccl_load(&p->nccl, c->nccl, mine.why, sizeof mine.why))
        mine.version = p->nccl.version;
    return mine;
}

int dg_cuda_peers_open(dg_backend *self, dg_comm *comm, char why[DG_BACKEND_WHY], dg_diag *d)
{
    peers *p = make((dg_cuda *)self, comm);
    hello mine = introduce(p), *all = calloc((size_t)comm->ranks, sizeof *all);
    char version[32];
    int errors = dg_diag_errors(d), rc;

    if (!all)
        dg_oom((size_t)comm->ranks * sizeof *all);
    comm->peers = NULL;
    DG_TRY(comm->gather(comm, &mine, sizeof mine, all));
    if (!can_exchange(all, comm->ranks, why))
        goto out;
    snprintf(p->name, sizeof p->name, "NCCL %s",
             dg_nccl_version(p->nccl.version, version, sizeof version));
    rc = meet_by_nccl(p);
    if (rc == 0 && !start_watching(p)) {
        rc = -DG_EMEMORY;
        snprintf(p->pub.why, sizeof p->pub.why, "no thread can be started");
    }
    if (rc == 0)
        rc = comm->barrier(comm); /* all have it, or none goes on */
    if (rc < 0)
        DG_TRY(refuse(p, rc, d));
    comm->peers = &p->pub;
out:
    if (rc < 0 && dg_diag_errors(d) == errors)
        dg_fail(d, (dg_code)-rc, DG_NOWHERE, "collective-failed", "while the ranks opened NCCL: %s",
                comm->why);
    if (!comm->peers) {
        stop_watching(p);
        if (p->c)
            (void)p->nccl.abort(p->c);
        release(p);
    }
    free(all);
    return rc;
}
