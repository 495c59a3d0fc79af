/* meeting.c: see meeting.h. Entering number k, a rank notes what it came to and adds itself to counter k; who waits sleeps on
 * that counter (futex) until all ranks are in.
 *
 * Counters count by two: bit 0 says that the run was stopped, and no sleeper can miss it, because it changes the value
 * that futexes compare. A sleeper wakes now and then to see whether those it waits for are alive and on the same errand. */
#include "runtime/meeting.h"

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
    LOOK_MS = 100, /* so often a sleeper looks whether the others are alive */
    SPINS = 200,   /* looks at a counter before sleeping, where every rank may have a core */
};

typedef struct counter {
    _Alignas(64) _Atomic uint32_t n;
} counter;

typedef struct peer {
    _Alignas(64) _Atomic uint64_t begun; /* number of the collective that it enters next */
    _Atomic uint64_t came[DG_MEETING_SLOTS]; /* what it came to */
    _Atomic int32_t  pid;                /* 0: not there yet */
    _Atomic int32_t  left;
} peer;

typedef struct dg_place {
    counter          all_in[DG_MEETING_SLOTS], all_done[DG_MEETING_SLOTS];
    _Atomic uint32_t broken; /* 0; 1 while why is written; 2 + status afterwards */
    char             why[192];
    peer             peers[];
} dg_place;

/* ---- stopping ---------------------------------------------------------------------------------------------- */

static void futex_wake(_Atomic uint32_t *at)
{
    (void)syscall(SYS_futex, at, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* All sleepers of all ranks wake, and nobody sleeps again. */
static void stop_all(dg_place *h)
{
    for (int i = 0; i < 2 * DG_MEETING_SLOTS; i++) {
        counter *c = i < DG_MEETING_SLOTS ? &h->all_in[i] : &h->all_done[i - DG_MEETING_SLOTS];

        atomic_fetch_or(&c->n, 1);
        futex_wake(&c->n);
    }
}

void dg_meeting_stop(dg_meeting *m)
{
    dg_place *h = m->place;
    uint32_t  none = 0;

    atomic_compare_exchange_strong(&h->broken, &none, 2 + DG_ESTOP);
    stop_all(h);
}

/* What the rank that saw it first has written down. */
static int stopped(dg_meeting *m)
{
    uint32_t broken = atomic_load(&m->place->broken);

    for (int i = 0; broken == 1 && i < 1000; i++) { /* its text is a moment away, unless its writer has died */
        (void)poll(NULL, 0, 1);
        broken = atomic_load(&m->place->broken);
    }
    m->failed = broken > 2 ? -(int)(broken - 2) : -DG_ESTOP;
    if (broken > 2 && !m->comm->why[0])
        snprintf(m->comm->why, sizeof m->comm->why, "%s", broken == 2 + DG_ESTOP ? "stopped" : m->place->why);
    return m->failed;
}

static int breaks(dg_meeting *m, dg_code code, const char *why)
{
    dg_place *h = m->place;
    uint32_t  none = 0;

    if (atomic_compare_exchange_strong(&h->broken, &none, 1)) {
        snprintf(h->why, sizeof h->why, "%s", why);
        atomic_store(&h->broken, 2 + (uint32_t)code);
        stop_all(h);
    }
    return stopped(m);
}

/* ---- what ranks came with ---------------------------------------------------------------------------------- */

uint64_t dg_meeting_word(dg_errand to, int a, int b, size_t n)
{
    return (uint64_t)to << 60 | (uint64_t)a << 48 | (uint64_t)b << 44 | (uint64_t)n;
}

static const char *say(char *buf, size_t size, uint64_t what)
{
    static const char *const reductions[] = { "sum", "max", "min", "mean" };
    int                      a = (int)(what >> 48 & 0xfff);
    unsigned long long       n = what & 0xfffffffffffULL;

    switch ((dg_errand)(what >> 60)) {
    case DG_TO_REDUCE:
    case DG_TO_REDUCE_PIECES:
        snprintf(buf, size, "the %s of %llu %s%s", reductions[a & 3], n, dg_dtype_name((dg_dtype)(what >> 44 & 0xf)),
                 what >> 60 == DG_TO_REDUCE ? "" : " in the gradients");
        break;
    case DG_TO_BROADCAST: snprintf(buf, size, "a broadcast of %llu bytes from rank %d", n, a); break;
    case DG_TO_GATHER: snprintf(buf, size, "a gather of %llu bytes", n); break;
    case DG_TO_MEET: snprintf(buf, size, "a barrier"); break;
    default: snprintf(buf, size, "nothing known");
    }
    return buf;
}

static int differ(dg_meeting *m, int rank, uint64_t theirs, uint64_t ours)
{
    char a[80], b[80], why[192];

    if (m->comm->rank < rank)
        snprintf(why, sizeof why, "rank %d came to %s, rank %d to %s", m->comm->rank, say(a, sizeof a, ours), rank,
                 say(b, sizeof b, theirs));
    else
        snprintf(why, sizeof why, "rank %d came to %s, rank %d to %s", rank, say(a, sizeof a, theirs), m->comm->rank,
                 say(b, sizeof b, ours));
    return breaks(m, DG_EINTERNAL, why);
}

/* Has every rank that has begun number k come with the same? */
static int compare(dg_meeting *m, uint64_t k)
{
    uint64_t ours = atomic_load_explicit(&m->place->peers[m->comm->rank].came[k % DG_MEETING_SLOTS], memory_order_relaxed);

    for (int r = 0; r < m->comm->ranks; r++) {
        peer    *p = &m->place->peers[r];
        uint64_t theirs;

        if (atomic_load_explicit(&p->begun, memory_order_acquire) <= k)
            continue;
        theirs = atomic_load_explicit(&p->came[k % DG_MEETING_SLOTS], memory_order_relaxed);
        if (theirs != ours)
            return differ(m, r, theirs, ours);
    }
    return 0;
}

/* ---- waiting ----------------------------------------------------------------------------------------------- */

static bool reached(uint32_t n, uint32_t target)
{
    return (int32_t)((n & ~1u) - target) >= 0;
}

/* Has this process ended? A child that nobody has waited for yet has. */
static bool ended(int32_t pid)
{
    int           fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    bool          gone = fd < 0 ? errno == ESRCH : poll(&p, 1, 0) == 1;

    if (fd >= 0)
        close(fd);
    return gone;
}

/* Looks for a rank that will never come. */
static int look(dg_meeting *m, const counter *c, uint32_t target, uint64_t k)
{
    char why[192];
    int  rc = compare(m, k);

    for (int r = 0; r < m->comm->ranks && rc == 0; r++) {
        peer   *p = &m->place->peers[r];
        int32_t pid = atomic_load(&p->pid);
        bool    left = atomic_load(&p->left) != 0;

        if (r == m->comm->rank || !pid || (!left && !ended(pid)) || reached(atomic_load(&c->n), target))
            continue;
        snprintf(why, sizeof why, "rank %d (process %d) has %s", r, (int)pid, left ? "left" : "ended");
        rc = breaks(m, DG_EIO, why);
    }
    return rc;
}

/* What is complete stays so when somebody stops the run in the next moment: all see the same of it. */
static int await(dg_meeting *m, counter *c, uint32_t target, uint64_t k)
{
    const struct timespec nap = { 0, LOOK_MS * 1000000L };
    uint32_t              n = atomic_load_explicit(&c->n, memory_order_acquire);
    double                begin;
    int                   rc = 0;

    for (int i = 0; i < m->spins && !reached(n, target) && !(n & 1); i++)
        n = atomic_load_explicit(&c->n, memory_order_acquire);
    if (reached(n, target))
        return 0;
    begin = dg_monotonic_s();
    while (rc == 0 && !(n & 1) && !reached(n, target)) {
        if (syscall(SYS_futex, &c->n, FUTEX_WAIT, n, &nap, NULL, 0) < 0 && errno == ETIMEDOUT)
            rc = look(m, c, target, k);
        n = atomic_load_explicit(&c->n, memory_order_acquire);
    }
    m->comm->cost.wait_s += dg_monotonic_s() - begin;
    return rc < 0 ? rc : reached(n, target) ? 0 : stopped(m);
}

static void arrive(counter *c, uint32_t target)
{
    uint32_t n = atomic_fetch_add_explicit(&c->n, 2, memory_order_acq_rel) + 2;

    if (reached(n, target))
        futex_wake(&c->n);
}

static uint32_t in_target(const dg_meeting *m, uint64_t k)
{
    return (uint32_t)(2 * (uint64_t)m->comm->ranks * (k / DG_MEETING_SLOTS + 1));
}

int dg_meeting_await(dg_meeting *m, uint64_t k)
{
    int rc = await(m, &m->place->all_in[k % DG_MEETING_SLOTS], in_target(m, k), k);

    return rc < 0 ? rc : compare(m, k);
}

bool dg_meeting_complete(const dg_meeting *m, uint64_t k)
{
    uint32_t n = atomic_load_explicit(&m->place->all_in[k % DG_MEETING_SLOTS].n, memory_order_acquire);

    return reached(n, in_target(m, k));
}

uint64_t dg_meeting_enter(dg_meeting *m, uint64_t word, bool two)
{
    uint64_t k = m->next++;
    peer    *p = &m->place->peers[m->comm->rank];

    if (two)
        m->done_target[k % DG_MEETING_SLOTS] += 2 * (uint32_t)m->comm->ranks;
    atomic_store_explicit(&p->came[k % DG_MEETING_SLOTS], word, memory_order_relaxed);
    atomic_store_explicit(&p->begun, k + 1, memory_order_release);
    m->comm->cost.n++;
    arrive(&m->place->all_in[k % DG_MEETING_SLOTS], in_target(m, k));
    return k;
}

void dg_meeting_done(dg_meeting *m, uint64_t k)
{
    arrive(&m->place->all_done[k % DG_MEETING_SLOTS], m->done_target[k % DG_MEETING_SLOTS]);
}

int dg_meeting_await_done(dg_meeting *m, uint64_t k)
{
    return await(m, &m->place->all_done[k % DG_MEETING_SLOTS], m->done_target[k % DG_MEETING_SLOTS], k);
}

int dg_meeting_status(dg_meeting *m)
{
    return m->failed ? m->failed : atomic_load_explicit(&m->place->broken, memory_order_relaxed) ? stopped(m) : 0;
}

/* ---- coming and going -------------------------------------------------------------------------------------- */

size_t dg_meeting_bytes(int ranks)
{
    return sizeof(dg_place) + (size_t)ranks * sizeof(peer);
}

void dg_meeting_open(dg_meeting *m, void *memory, dg_comm *comm)
{
    *m = (dg_meeting){ .place = memory, .comm = comm };
    m->spins = comm->ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS : 0;
    atomic_store(&m->place->peers[comm->rank].pid, (int32_t)getpid());
}

void dg_meeting_leave(dg_meeting *m)
{
    atomic_store(&m->place->peers[m->comm->rank].left, 1);
}
