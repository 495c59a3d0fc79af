/* shm_sync.c: see shm_sync.h. A rank that enters collective k publishes what it came to and adds
 * itself to counter k; waiters sleep on the counter (futex) until all ranks have entered.
 *
 * Counters step by two: bit 0 means "stopped", which no sleeper can miss, because it changes the
 * value that futexes compare. Sleepers wake periodically to check that the others are alive and in
 * the same collective. */
#include "comm/shm_sync.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum {
    LOOK_MS = 100, /* interval at which a sleeper checks the others */
    SPINS = 200,   /* polls of a counter before sleeping, if every rank may have a core */
};

typedef struct counter {
    _Alignas(64) _Atomic uint32_t n;
} counter;

typedef struct peer {
    _Alignas(64) _Atomic uint64_t begun; /* number of the collective that it enters next */
    dg_meeting met[DG_SHM_SLOTS];        /* the collectives that it entered; `begun` publishes */
    _Atomic int32_t pid;                 /* 0: not opened yet */
    _Atomic int32_t left;
} peer;

typedef struct dg_shm_area {
    counter all_in[DG_SHM_SLOTS], all_done[DG_SHM_SLOTS];
    _Atomic uint32_t broken; /* 0; 1 while `why` is being written; then 2 + status */
    char why[DG_COMM_WHY];
    peer peers[];
} dg_shm_area;

/* ---- stopping -------------------------------------------------------------------------------- */

static void futex_wake(_Atomic uint32_t *at)
{
    (void)syscall(SYS_futex, at, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Wakes all sleepers of all ranks, and keeps any from sleeping again. */
static void stop_all(dg_shm_area *h)
{
    for (int i = 0; i < 2 * DG_SHM_SLOTS; i++) {
        counter *c = i < DG_SHM_SLOTS ? &h->all_in[i] : &h->all_done[i - DG_SHM_SLOTS];

        atomic_fetch_or(&c->n, 1);
        futex_wake(&c->n);
    }
}

void dg_shm_sync_stop(dg_shm_sync *m)
{
    dg_shm_area *h = m->shared;
    uint32_t none = 0;

    atomic_compare_exchange_strong(&h->broken, &none, 2 + DG_ESTOP);
    stop_all(h);
}

/* Takes over the status and reason that the first rank to fail has written. */
static int take_failure(dg_shm_sync *m)
{
    uint32_t broken = atomic_load(&m->shared->broken);

    for (int i = 0; broken == 1 && i < 1000;
         /* the writer is about to finish the text, unless it has died */
         i++) {
        (void)poll(NULL, 0, 1);
        broken = atomic_load(&m->shared->broken);
    }
    m->failed = broken > 2 ? -(int)(broken - 2) : -DG_ESTOP;
    if (broken > 2 && !m->comm->why[0])
        snprintf(m->comm->why, sizeof m->comm->why, "%s",
                 broken == 2 + DG_ESTOP ? "stopped" : m->shared->why);
    return m->failed;
}

static int fail_all(dg_shm_sync *m, dg_code code, const char *why)
{
    dg_shm_area *h = m->shared;
    uint32_t none = 0;

    if (atomic_compare_exchange_strong(&h->broken, &none, 1)) {
        snprintf(h->why, sizeof h->why, "%s", why);
        atomic_store(&h->broken, 2 + (uint32_t)code);
        stop_all(h);
    }
    return take_failure(m);
}

/* Fails if a rank that has entered number k came to another collective than this one. */
static int compare(dg_shm_sync *m, uint64_t k)
{
    const dg_meeting *ours = &m->shared->peers[m->comm->rank].met[k % DG_SHM_SLOTS];
    char why[DG_COMM_WHY];

    for (int r = 0; r < m->comm->ranks; r++) {
        peer *p = &m->shared->peers[r];

        if (atomic_load_explicit(&p->begun, memory_order_acquire) <= k ||
            dg_meeting_same(&p->met[k % DG_SHM_SLOTS], ours))
            continue;
        dg_meeting_print_both(why, sizeof why, m->comm->rank, ours, r, &p->met[k % DG_SHM_SLOTS]);
        return fail_all(m, DG_EINTERNAL, why);
    }
    return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool has_reached(uint32_t n, uint32_t target)
{
    return (int32_t)((n & ~1u) - target) >= 0;
}

/* True if the process has ended, including a zombie that is not reaped yet. */
static bool has_ended(int32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    bool gone = fd < 0 ? errno == ESRCH : poll(&p, 1, 0) == 1;

    if (fd >= 0)
        close(fd);
    return gone;
}

/* Whether a rank has ended or left, and why. */
static bool is_gone(const dg_shm_sync *m, int rank, char why[DG_COMM_WHY])
{
    peer *p = &m->shared->peers[rank];
    int32_t pid = atomic_load(&p->pid);
    bool left = atomic_load(&p->left) != 0;

    if (rank == m->comm->rank || !pid || (!left && !has_ended(pid)))
        return false;
    snprintf(why, DG_COMM_WHY, "rank %d (process %d) has %s", rank, (int)pid,
             left ? "left" : "ended");
    return true;
}

/* Fails if a rank that has not entered has ended or left: it will never come. */
static int check_peers(dg_shm_sync *m, const counter *c, uint32_t target, uint64_t k)
{
    char why[DG_COMM_WHY];
    int rc = compare(m, k);

    for (int r = 0; r < m->comm->ranks && rc == 0; r++)
        if (is_gone(m, r, why) && !has_reached(atomic_load(&c->n), target))
            rc = fail_all(m, DG_EIO, why);
    return rc;
}

/* Waits until c reaches target. A complete collective succeeds even if the run is stopped right
 * afterwards, so that all ranks agree on its outcome. */
static int await_counter(dg_shm_sync *m, counter *c, uint32_t target, uint64_t k)
{
    const struct timespec nap = { 0, LOOK_MS * 1000000L };
    uint32_t n = atomic_load_explicit(&c->n, memory_order_acquire);
    double begin;
    int rc = 0;

    for (int i = 0; i < m->spins && !has_reached(n, target) && !(n & 1); i++)
        n = atomic_load_explicit(&c->n, memory_order_acquire);
    if (has_reached(n, target))
        return 0;
    begin = dg_monotonic_s();
    while (rc == 0 && !(n & 1) && !has_reached(n, target)) {
        if (syscall(SYS_futex, &c->n, FUTEX_WAIT, n, &nap, NULL, 0) < 0 && errno == ETIMEDOUT)
            rc = check_peers(m, c, target, k);
        n = atomic_load_explicit(&c->n, memory_order_acquire);
    }
    m->comm->cost.wait_s += dg_monotonic_s() - begin;
    return rc < 0 ? rc : has_reached(n, target) ? 0 : take_failure(m);
}

static void add_arrival(counter *c, uint32_t target)
{
    uint32_t n = atomic_fetch_add_explicit(&c->n, 2, memory_order_acq_rel) + 2;

    if (has_reached(n, target))
        futex_wake(&c->n);
}

static uint32_t in_target(const dg_shm_sync *m, uint64_t k)
{
    return (uint32_t)(2 * (uint64_t)m->comm->ranks * (k / DG_SHM_SLOTS + 1));
}

int dg_shm_sync_await(dg_shm_sync *m, uint64_t k)
{
    int rc = await_counter(m, &m->shared->all_in[k % DG_SHM_SLOTS], in_target(m, k), k);

    return rc < 0 ? rc : compare(m, k);
}

bool dg_shm_sync_complete(const dg_shm_sync *m, uint64_t k)
{
    uint32_t n = atomic_load_explicit(&m->shared->all_in[k % DG_SHM_SLOTS].n, memory_order_acquire);

    return has_reached(n, in_target(m, k));
}

uint64_t dg_shm_sync_enter(dg_shm_sync *m, const dg_meeting *what, bool two)
{
    uint64_t k = m->next++;
    peer *p = &m->shared->peers[m->comm->rank];

    if (two)
        m->done_target[k % DG_SHM_SLOTS] += 2 * (uint32_t)m->comm->ranks;
    p->met[k % DG_SHM_SLOTS] = *what;
    atomic_store_explicit(&p->begun, k + 1, memory_order_release);
    m->comm->cost.n++;
    add_arrival(&m->shared->all_in[k % DG_SHM_SLOTS], in_target(m, k));
    return k;
}

void dg_shm_sync_done(dg_shm_sync *m, uint64_t k)
{
    add_arrival(&m->shared->all_done[k % DG_SHM_SLOTS], m->done_target[k % DG_SHM_SLOTS]);
}

int dg_shm_sync_await_done(dg_shm_sync *m, uint64_t k)
{
    return await_counter(m, &m->shared->all_done[k % DG_SHM_SLOTS],
                         m->done_target[k % DG_SHM_SLOTS], k);
}

int dg_shm_sync_status(dg_shm_sync *m)
{
    return m->failed                                                        ? m->failed
           : atomic_load_explicit(&m->shared->broken, memory_order_relaxed) ? take_failure(m)
                                                                            : 0;
}

int dg_shm_sync_look(const dg_shm_sync *m, bool lost, char why[DG_COMM_WHY])
{
    uint32_t broken = atomic_load(&m->shared->broken);

    if (broken > 2) {
        snprintf(why, DG_COMM_WHY, "%s", broken == 2 + DG_ESTOP ? "stopped" : m->shared->why);
        return -(int)(broken - 2);
    }
    for (int r = 0; r < m->comm->ranks && lost; r++)
        if (is_gone(m, r, why))
            return -DG_EIO;
    return 0;
}

/* ---- entering -------------------------------------------------------------------------------- */

size_t dg_shm_sync_bytes(int ranks)
{
    return sizeof(dg_shm_area) + (size_t)ranks * sizeof(peer);
}

void dg_shm_sync_open(dg_shm_sync *m, void *memory, dg_comm *comm)
{
    *m = (dg_shm_sync){ .shared = memory, .comm = comm };
    m->spins = comm->ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS : 0;
    atomic_store(&m->shared->peers[comm->rank].pid, (int32_t)getpid());
}

void dg_shm_sync_leave(dg_shm_sync *m)
{
    atomic_store(&m->shared->peers[m->comm->rank].left, 1);
}
