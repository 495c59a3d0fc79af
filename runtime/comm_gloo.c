/* comm_gloo.c: see comm_gloo.h. Collectives stand in one queue, which a thread of its own works off in order while the step
 * goes on: what was begun early is hidden. Operands are added up as over shared memory, so the bits are the same. Gloo
 * itself is behind runtime/gloo.cc. */
#include "runtime/comm_gloo.h"

#ifdef DG_GLOO

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "kernels/addition.h"
#include "runtime/gloo.h"

enum {
    QUEUE = 64,
    STAGE = 4 << 20, /* bytes of an operand that are worked on at a time */
    SMALL = 64 << 10, /* of all ranks together: not worth two exchanges */
};

typedef enum kind { REDUCE, BROADCAST, GATHER } kind;

typedef struct job {
    kind          kind;
    dg_tensor     x;
    dg_reduce     op;
    void         *p;
    const void   *mine;
    size_t        bytes;
    int           root;
    const size_t *each;
} job;

typedef struct lane {
    dg_comm         pub;
    dg_gloo        *gloo;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    job             jobs[QUEUE];
    int64_t         queued, done; /* collectives; job k stands at k % QUEUE */
    int             failed;
    bool            closing, running, busy; /* busy: Gloo has the operands of a job */
    size_t         *sizes; /* of equal gathers */
    int64_t         n_exchanges;
    dg_gloo_part   *send, *take; /* one a rank, as the next two */
    const void    **from;
    char           *stage;
} lane;

static lane *self_of(dg_comm *c)
{
    return (lane *)(void *)c; /* pub comes first */
}

/* What it is goes with its number: ranks that come with different collectives do not meet. */
static uint32_t tag_of(const job *j)
{
    const uint64_t what[] = { (uint64_t)j->kind, (uint64_t)j->op, (uint64_t)j->x.dtype, (uint64_t)j->root,
                              j->kind == REDUCE ? (uint64_t)dg_shape_elements(j->x.shape) : 0 };
    uint64_t       h = dg_hash(what, sizeof what);

    return (uint32_t)(h ^ h >> 32);
}

/* ---- on the lane ------------------------------------------------------------------------------------------- */

static int exchange(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    uint64_t number = (uint64_t)l->n_exchanges++ << 32 | tag_of(j);

    return dg_gloo_exchange(l->gloo, l->send, l->take, number, why);
}

static dg_gloo_part part(void *p, size_t begin, size_t end, size_t each)
{
    return (dg_gloo_part){ (char *)p + begin * each, (end - begin) * each };
}

/* Every rank gets all operands and adds them up for itself: one exchange. */
static int reduce_small(lane *l, const job *j, char *x, size_t n, char why[DG_GLOO_WHY])
{
    size_t each = dg_dtype_size(j->x.dtype);
    void  *to[] = { x };
    int    rc;

    for (int r = 0; r < l->pub.ranks; r++) {
        l->send[r] = part(x, 0, n, each);
        l->take[r] = part(l->stage, (size_t)r * n, (size_t)(r + 1) * n, each);
        l->from[r] = r == l->pub.rank ? x : l->take[r].p;
    }
    rc = exchange(l, j, why);
    if (rc == 0)
        dg_add_up(&(dg_addition){ j->x.dtype, j->op, l->from, l->pub.ranks, to, 1 }, 0, n);
    return rc;
}

/* Slices as in shared memory: rank r gets slice r of all, adds it up in the order of ranks, and sends the sum to all. */
static size_t slice_at(size_t n, int rank, int ranks)
{
    size_t at = (n + 15) / 16 * (size_t)rank / (size_t)ranks * 16;

    return at < n ? at : n;
}

static int reduce_slices(lane *l, const job *j, char *x, size_t n, char why[DG_GLOO_WHY])
{
    size_t each = dg_dtype_size(j->x.dtype);
    int    ranks = l->pub.ranks, self = l->pub.rank, rc;
    size_t begin = slice_at(n, self, ranks), mine = slice_at(n, self + 1, ranks) - begin;
    void  *to[] = { x + begin * each };

    for (int r = 0; r < ranks; r++) {
        l->send[r] = part(x, slice_at(n, r, ranks), slice_at(n, r + 1, ranks), each);
        l->take[r] = part(l->stage, (size_t)r * mine, (size_t)(r + 1) * mine, each);
        l->from[r] = r == self ? to[0] : l->take[r].p;
    }
    rc = exchange(l, j, why);
    if (rc < 0)
        return rc;
    dg_add_up(&(dg_addition){ j->x.dtype, j->op, l->from, ranks, to, 1 }, 0, mine);
    for (int r = 0; r < ranks; r++) {
        l->take[r] = l->send[r];
        l->send[r] = part(x, begin, begin + mine, each);
    }
    return exchange(l, j, why);
}

static int do_reduce(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    size_t n = (size_t)dg_shape_elements(j->x.shape), each = dg_dtype_size(j->x.dtype), most = STAGE / each;
    int    rc = 0;

    for (size_t at = 0; at < n && rc == 0; at += most) {
        size_t part_n = n - at < most ? n - at : most;
        char  *x = (char *)j->x.data + at * each;

        rc = part_n * each * (size_t)l->pub.ranks <= SMALL ? reduce_small(l, j, x, part_n, why) : reduce_slices(l, j, x, part_n, why);
    }
    return rc;
}

static int do_broadcast(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    for (int r = 0; r < l->pub.ranks; r++) {
        l->send[r] = (dg_gloo_part){ j->p, l->pub.rank == j->root ? j->bytes : 0 };
        l->take[r] = (dg_gloo_part){ j->p, r == j->root ? j->bytes : 0 };
    }
    return exchange(l, j, why);
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
    return exchange(l, j, why);
}

static int do_job(lane *l, const job *j, char why[DG_GLOO_WHY])
{
    return j->kind == REDUCE ? do_reduce(l, j, why) : j->kind == BROADCAST ? do_broadcast(l, j, why) : do_gather(l, j, why);
}

static void *work(void *self)
{
    lane *l = self;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        char   why[DG_GLOO_WHY] = "";
        job    j;
        double begin;
        int    rc;

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
            snprintf(l->pub.why, sizeof l->pub.why, "another rank was lost: %.160s", why);
        }
        l->done++;
        pthread_cond_broadcast(&l->changed);
        if (l->failed)
            break;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Under the lock: until so many are done; after a failure until nobody touches an operand any more. */
static int wait_until(lane *l, int64_t done)
{
    double begin = dg_monotonic_s();

    while (l->failed ? l->busy : l->done < done)
        pthread_cond_wait(&l->changed, &l->lock);
    l->pub.cost.wait_s += dg_monotonic_s() - begin;
    return l->failed;
}

static int enqueue(lane *l, const job *j, int64_t *ticket)
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
    int   rc;

    pthread_mutex_lock(&l->lock);
    rc = wait_until(l, ticket + 1);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static int start(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    if (x.dtype != DG_F32 && x.dtype != DG_F64 && x.dtype != DG_I32) {
        snprintf(c->why, sizeof c->why, "%s cannot be reduced", dg_dtype_name(x.dtype));
        return -DG_EUNSUPPORTED;
    }
    c->cost.bytes += dg_shape_elements(x.shape) * (int64_t)dg_dtype_size(x.dtype);
    return enqueue(self_of(c), &(job){ .kind = REDUCE, .x = x, .op = op }, ticket);
}

static int at_once(dg_comm *c, job j)
{
    int64_t ticket;
    int     rc = enqueue(self_of(c), &j, &ticket);

    return rc < 0 ? rc : wait_for(c, ticket);
}

static int broadcast(dg_comm *c, void *p, size_t bytes, int root)
{
    return at_once(c, (job){ .kind = BROADCAST, .p = p, .bytes = bytes, .root = root });
}

static int gather_ragged(dg_comm *c, const void *mine, const size_t bytes[], void *all)
{
    return at_once(c, (job){ .kind = GATHER, .mine = mine, .p = all, .each = bytes });
}

static int gather(dg_comm *c, const void *mine, size_t bytes, void *all)
{
    lane *l = self_of(c);

    for (int r = 0; r < c->ranks; r++)
        l->sizes[r] = bytes;
    return gather_ragged(c, mine, l->sizes, all);
}

static int barrier(dg_comm *c)
{
    int32_t x = 0;

    return at_once(c, (job){ .kind = REDUCE, .x = { DG_I32, DG_SCALAR, &x }, .op = DG_MAX });
}

static void stop(dg_comm *c)
{
    lane *l = self_of(c);
    bool  first;

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
}

static void close_lane(dg_comm **c)
{
    lane *l;

    if (!*c)
        return;
    l = self_of(*c);
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
    free(l->sizes);
    free(l->send);
    free(l->take);
    free(l->from);
    dg_free(l->stage);
    free(l);
    *c = NULL;
}

/* Gloo's thread and the lane write to sockets whose peers may be gone: that is an error to them, and no signal. They are
 * born with the mask that holds here. */
static void without_broken_pipes(sigset_t *before)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

int dg_comm_gloo_open(dg_comm **comm, const char *address, int rank, int ranks, const dg_rendezvous *board, dg_diag *d)
{
    sigset_t before;
    char     why[DG_GLOO_WHY] = "";
    lane    *l = calloc(1, sizeof *l);
    dg_comm *c;
    int      rc;

    if (!l)
        dg_oom(sizeof *l);
    l->pub = (dg_comm){ .name = "gloo", .rank = rank, .ranks = ranks, .start = start, .wait = wait_for, .broadcast = broadcast,
                        .gather = gather, .gather_ragged = gather_ragged, .barrier = barrier, .abort = stop, .close = close_lane };
    c = &l->pub;
    *comm = NULL;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->sizes = calloc((size_t)ranks, sizeof *l->sizes);
    l->send = calloc((size_t)ranks, sizeof *l->send);
    l->take = calloc((size_t)ranks, sizeof *l->take);
    l->from = calloc((size_t)ranks, sizeof *l->from);
    l->stage = dg_try_alloc(STAGE + 64 * (size_t)ranks * sizeof(double)); /* slices end at 16 elements */
    if (!l->sizes || !l->send || !l->take || !l->from || !l->stage)
        dg_oom(STAGE);
    without_broken_pipes(&before);
    rc = dg_gloo_open(&l->gloo, address, rank, ranks, board, why);
    if (rc < 0) {
        dg_fail(d, (dg_code)-rc, DG_NOWHERE, "comm-gloo", "rank %d at %s cannot reach the other ranks: %s", rank, address, why);
        dg_help(d, "machines must reach each other by TCP; --coordinator names an address that both can see");
        goto out;
    }
    l->running = pthread_create(&l->thread, NULL, work, l) == 0;
    if (!l->running)
        DG_TRY(dg_fail(d, DG_EMEMORY, DG_NOWHERE, "comm-gloo", "rank %d cannot start a thread for its collectives", rank));
    *comm = c;
out:
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc < 0)
        close_lane(&c);
    return rc;
}

#else

int dg_comm_gloo_open(dg_comm **comm, const char *address, int rank, int ranks, const dg_rendezvous *board, dg_diag *d)
{
    (void)address, (void)rank, (void)board;
    *comm = NULL;
    dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "comm-gloo", "%d ranks on several machines: this detrgraph was built without Gloo", ranks);
    dg_help(d, "install libgloo-dev, then configure and build again");
    return -DG_EUNSUPPORTED;
}

#endif
