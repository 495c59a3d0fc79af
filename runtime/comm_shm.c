/* comm_shm.c: see comm_shm.h.
 *
 *     | head: counters, and what each rank has begun | boxes: two a rank | pieces: one a rank, once asked for |
 *
 * Collectives are numbered; every rank begins the same ones in the same order. Beginning number k, a rank notes what it
 * came with, puts its operand where the others see it and adds itself to counter k; who waits sleeps on that counter
 * (futex) until all ranks are in. Then
 *
 *   small operands  lie in boxes: everyone adds all of them up itself, in rank order. Two boxes a rank are enough: who
 *                   writes into one again has waited for a later collective, hence for all who read it.
 *   pieces          are reduced where they are: rank r adds slice r of all pieces up, in rank order, and writes the sum
 *                   into all of them. A second counter says when every slice is done.
 *
 * Counters count by two: bit 0 says that the run was stopped, and no sleeper can miss it, because it changes the value
 * that futexes compare. */
#include "runtime/comm_shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum {
    SLOTS = 64,      /* counters; more than twice UNDER_WAY, so that no slot means two collectives at once */
    UNDER_WAY = 24,  /* begun and not waited for */
    BOX = 256 << 10, /* bytes */
    BLOCK = 1024,    /* elements that are added up at a time */
    LOOK_MS = 100,   /* so often a sleeper looks whether the others are alive */
    SPINS = 200,     /* looks at a counter before sleeping, where every rank may have a core */
};

typedef enum kind { REDUCE = 1, REDUCE_PIECES, BROADCAST, GATHER, BARRIER } kind;

typedef struct counter {
    _Alignas(64) _Atomic uint32_t n;
} counter;

typedef struct peer {
    _Alignas(64) _Atomic uint64_t begun;  /* number of the next collective */
    _Atomic uint64_t              came[SLOTS]; /* what it came with */
    _Atomic int32_t               pid;    /* 0: not there yet */
    _Atomic int32_t               left;   /* it has closed */
} peer;

typedef struct head {
    counter          all_in[SLOTS], all_done[SLOTS];
    _Atomic uint32_t broken; /* 0; 1 while why is written; 2 + status afterwards */
    char             why[192];
    peer             peers[];
} head;

typedef enum state { OVER, BEGUN, ADDED } state;

typedef struct work { /* a collective of this rank's under way */
    state     state;
    kind      kind;
    dg_tensor x;
    dg_reduce op;
    int       box; /* of small operands */
    uint32_t  done;
} work;

typedef struct shm {
    dg_comm       pub;
    int           fd, failed, spins;
    head         *head;
    char         *boxes;
    size_t        head_bytes, file_bytes;
    char         *pieces; /* of rank 0; rank r's begins piece_bytes * r behind it */
    size_t        piece_bytes;
    uint64_t      next, oldest; /* numbers: of the one begun next; of the first not waited for */
    uint64_t      n_boxed;
    uint32_t      done_target[SLOTS];
    work          works[SLOTS];
    const void  **from; /* one a rank */
    void        **to;
} shm;

static shm *self_of(dg_comm *c)
{
    return (shm *)(void *)c; /* pub comes first */
}

/* ---- stopping ---------------------------------------------------------------------------------------------- */

static void futex_wake(_Atomic uint32_t *at)
{
    (void)syscall(SYS_futex, at, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* All sleepers of all ranks wake, and nobody sleeps again. */
static void stop_all(head *h)
{
    for (int i = 0; i < 2 * SLOTS; i++) {
        counter *c = i < SLOTS ? &h->all_in[i] : &h->all_done[i - SLOTS];

        atomic_fetch_or(&c->n, 1);
        futex_wake(&c->n);
    }
}

static void stop(dg_comm *c)
{
    head    *h = self_of(c)->head;
    uint32_t none = 0;

    atomic_compare_exchange_strong(&h->broken, &none, 2 + DG_ESTOP);
    stop_all(h);
}

/* What the rank that saw it first has written down. */
static int stopped(shm *s)
{
    uint32_t broken = atomic_load(&s->head->broken);

    for (int i = 0; broken == 1 && i < 1000; i++) { /* its text is a moment away, unless its writer has died */
        (void)poll(NULL, 0, 1);
        broken = atomic_load(&s->head->broken);
    }
    s->failed = broken > 2 ? -(int)(broken - 2) : -DG_ESTOP;
    if (broken > 2 && !s->pub.why[0])
        snprintf(s->pub.why, sizeof s->pub.why, "%s", broken == 2 + DG_ESTOP ? "stopped" : s->head->why);
    return s->failed;
}

static int breaks(shm *s, dg_code code, const char *why)
{
    head    *h = s->head;
    uint32_t none = 0;

    if (atomic_compare_exchange_strong(&h->broken, &none, 1)) {
        snprintf(h->why, sizeof h->why, "%s", why);
        atomic_store(&h->broken, 2 + (uint32_t)code);
        stop_all(h);
    }
    return stopped(s);
}

/* ---- what ranks came with ---------------------------------------------------------------------------------- */

static uint64_t describe(kind k, int a, int b, size_t n)
{
    return (uint64_t)k << 60 | (uint64_t)a << 48 | (uint64_t)b << 44 | (uint64_t)n;
}

static const char *say(char *buf, size_t size, uint64_t what)
{
    static const char *const reductions[] = { "sum", "max", "min", "mean" };
    int                      a = (int)(what >> 48 & 0xfff);
    unsigned long long       n = what & 0xfffffffffffULL;

    switch ((kind)(what >> 60)) {
    case REDUCE:
    case REDUCE_PIECES:
        snprintf(buf, size, "the %s of %llu %s%s", reductions[a & 3], n, dg_dtype_name((dg_dtype)(what >> 44 & 0xf)),
                 what >> 60 == REDUCE ? "" : " in the gradients");
        break;
    case BROADCAST: snprintf(buf, size, "a broadcast of %llu bytes from rank %d", n, a); break;
    case GATHER: snprintf(buf, size, "a gather of %llu bytes", n); break;
    case BARRIER: snprintf(buf, size, "a barrier"); break;
    default: snprintf(buf, size, "nothing known");
    }
    return buf;
}

static int differ(shm *s, int rank, uint64_t theirs, uint64_t ours)
{
    char a[80], b[80], why[192];

    snprintf(why, sizeof why, "rank %d came to %s, rank %d to %s", rank, say(a, sizeof a, theirs), s->pub.rank,
             say(b, sizeof b, ours));
    return breaks(s, DG_EINTERNAL, why);
}

/* Has every rank that has begun number k come with the same? */
static int compare(shm *s, uint64_t k)
{
    uint64_t ours = atomic_load_explicit(&s->head->peers[s->pub.rank].came[k % SLOTS], memory_order_relaxed);

    for (int r = 0; r < s->pub.ranks; r++) {
        peer    *p = &s->head->peers[r];
        uint64_t theirs;

        if (atomic_load_explicit(&p->begun, memory_order_acquire) <= k)
            continue;
        theirs = atomic_load_explicit(&p->came[k % SLOTS], memory_order_relaxed);
        if (theirs != ours)
            return differ(s, r, theirs, ours);
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
static int look(shm *s, const counter *c, uint32_t target, uint64_t k)
{
    char why[192];
    int  rc = compare(s, k);

    for (int r = 0; r < s->pub.ranks && rc == 0; r++) {
        peer   *p = &s->head->peers[r];
        int32_t pid = atomic_load(&p->pid);
        bool    left = atomic_load(&p->left) != 0;

        if (r == s->pub.rank || !pid || (!left && !ended(pid)) || reached(atomic_load(&c->n), target))
            continue;
        snprintf(why, sizeof why, "rank %d (process %d) has %s", r, (int)pid, left ? "left" : "ended");
        rc = breaks(s, DG_EIO, why);
    }
    return rc;
}

static int await(shm *s, counter *c, uint32_t target, uint64_t k)
{
    const struct timespec nap = { 0, LOOK_MS * 1000000L };
    uint32_t              n = atomic_load_explicit(&c->n, memory_order_acquire);
    double                begin;
    int                   rc = 0;

    for (int i = 0; i < s->spins && !reached(n, target) && !(n & 1); i++)
        n = atomic_load_explicit(&c->n, memory_order_acquire);
    if (reached(n, target) && !(n & 1))
        return 0;
    begin = dg_monotonic_s();
    while (rc == 0 && !(n & 1) && !reached(n, target)) {
        if (syscall(SYS_futex, &c->n, FUTEX_WAIT, n, &nap, NULL, 0) < 0 && errno == ETIMEDOUT)
            rc = look(s, c, target, k);
        n = atomic_load_explicit(&c->n, memory_order_acquire);
    }
    s->pub.cost.wait_s += dg_monotonic_s() - begin;
    return rc < 0 ? rc : n & 1 ? stopped(s) : 0;
}

static void arrive(counter *c, uint32_t target)
{
    uint32_t n = atomic_fetch_add_explicit(&c->n, 2, memory_order_acq_rel) + 2;

    if (reached(n, target))
        futex_wake(&c->n);
}

static uint32_t in_target(const shm *s, uint64_t k)
{
    return (uint32_t)(2 * (uint64_t)s->pub.ranks * (k / SLOTS + 1));
}

static int await_all(shm *s, uint64_t k)
{
    int rc = await(s, &s->head->all_in[k % SLOTS], in_target(s, k), k);

    return rc < 0 ? rc : compare(s, k);
}

static bool all_in(const shm *s, uint64_t k)
{
    uint32_t n = atomic_load_explicit(&s->head->all_in[k % SLOTS].n, memory_order_acquire);

    return !(n & 1) && reached(n, in_target(s, k));
}

/* Begins number s->next: what was to be seen by the others has been written. */
static uint64_t enter(shm *s, uint64_t what)
{
    uint64_t k = s->next++;
    peer    *p = &s->head->peers[s->pub.rank];

    atomic_store_explicit(&p->came[k % SLOTS], what, memory_order_relaxed);
    atomic_store_explicit(&p->begun, k + 1, memory_order_release);
    s->pub.cost.n++;
    arrive(&s->head->all_in[k % SLOTS], in_target(s, k));
    return k;
}

/* ---- adding up --------------------------------------------------------------------------------------------- */

#define TAKE_SUM(a, v) ((a) + (v))
#define TAKE_MAX(a, v) ((v) > (a) || (v) != (v) ? (v) : (a)) /* a NaN stays: nothing is larger, and it is not itself */
#define TAKE_MIN(a, v) ((v) < (a) || (v) != (v) ? (v) : (a))

/* acc <- acc op from, n elements; whole blocks have a known length, which makes them vectors. */
#define FOLD(T, A, take)                                       \
    do {                                                       \
        if (n == BLOCK)                                        \
            for (int i = 0; i < BLOCK; i++)                    \
                acc[i] = take(acc[i], (A)from[i]);             \
        else                                                   \
            for (int i = 0; i < n; i++)                        \
                acc[i] = take(acc[i], (A)from[i]);             \
    } while (0)

/* to[0..n_to-1] <- reduction of from[0..ranks-1] over elements begin..end-1, in rank order. A: what sums are kept in. */
#define ADD_UP(name, T, A, MEAN)                                                                                       \
    static void fold_##name(A *restrict acc, const T *restrict from, int n, dg_reduce op)                             \
    {                                                                                                                  \
        if (op == DG_MAX)                                                                                              \
            FOLD(T, A, TAKE_MAX);                                                                                      \
        else if (op == DG_MIN)                                                                                         \
            FOLD(T, A, TAKE_MIN);                                                                                      \
        else                                                                                                           \
            FOLD(T, A, TAKE_SUM);                                                                                      \
    }                                                                                                                  \
    static void add_up_##name(const void *const *from, int ranks, void *const *to, int n_to, size_t begin, size_t end, \
                              dg_reduce op)                                                                            \
    {                                                                                                                  \
        A acc[BLOCK];                                                                                                  \
        T out[BLOCK];                                                                                                  \
                                                                                                                       \
        for (size_t at = begin; at < end; at += BLOCK) {                                                               \
            int n = end - at < BLOCK ? (int)(end - at) : BLOCK;                                                        \
                                                                                                                       \
            for (int i = 0; i < n; i++)                                                                                \
                acc[i] = ((const T *)from[0])[at + (size_t)i];                                                         \
            for (int r = 1; r < ranks; r++)                                                                            \
                fold_##name(acc, (const T *)from[r] + at, n, op);                                                      \
            for (int i = 0; i < n; i++)                                                                                \
                out[i] = (T)(op == DG_MEAN ? MEAN(acc[i]) : acc[i]);                                                   \
            for (int r = 0; r < n_to; r++)                                                                             \
                memcpy((T *)to[r] + at, out, (size_t)n * sizeof(T));                                                   \
        }                                                                                                              \
    }

#define MEAN_F32(a) ((a) * (float)(1.0 / ranks))
#define MEAN_F64(a) ((a) * (1.0 / ranks))
#define MEAN_I32(a) ((a) / ranks)
ADD_UP(f32, float, float, MEAN_F32)
ADD_UP(f64, double, double, MEAN_F64)
ADD_UP(i32, int32_t, int64_t, MEAN_I32)

static void add_up(shm *s, dg_dtype type, int n_to, size_t begin, size_t end, dg_reduce op)
{
    if (type == DG_F32)
        add_up_f32(s->from, s->pub.ranks, s->to, n_to, begin, end, op);
    else if (type == DG_F64)
        add_up_f64(s->from, s->pub.ranks, s->to, n_to, begin, end, op);
    else
        add_up_i32(s->from, s->pub.ranks, s->to, n_to, begin, end, op);
}

static char *box_of(const shm *s, int rank, int box)
{
    return s->boxes + ((size_t)rank * 2 + (size_t)box) * BOX;
}

/* Every rank holds all operands and adds them up for itself. */
static void add_boxes(shm *s, const work *w)
{
    for (int r = 0; r < s->pub.ranks; r++)
        s->from[r] = box_of(s, r, w->box);
    s->to[0] = w->x.data;
    add_up(s, w->x.dtype, 1, 0, (size_t)dg_shape_elements(w->x.shape), w->op);
}

/* This rank's slice of the operands, for everyone. Slices end at cache lines. */
static void add_slice(shm *s, const work *w)
{
    size_t n = (size_t)dg_shape_elements(w->x.shape), lines = (n + 15) / 16, ranks = (size_t)s->pub.ranks;
    size_t begin = lines * (size_t)s->pub.rank / ranks * 16, end = lines * ((size_t)s->pub.rank + 1) / ranks * 16;
    size_t offset = (size_t)((char *)w->x.data - (s->pieces + s->piece_bytes * (size_t)s->pub.rank));

    for (size_t r = 0; r < ranks; r++)
        s->from[r] = s->to[r] = s->pieces + s->piece_bytes * r + offset;
    add_up(s, w->x.dtype, s->pub.ranks, begin, end < n ? end : n, w->op);
}

/* ---- reductions under way ---------------------------------------------------------------------------------- */

/* The sums that number k is this rank's to make. block: wait for the others; else only if they are there already. */
static int advance(shm *s, uint64_t k, bool block)
{
    work  *w = &s->works[k % SLOTS];
    double begin;
    int    rc;

    if (w->state != BEGUN || (!block && !all_in(s, k)))
        return 0;
    rc = await_all(s, k);
    if (rc < 0)
        return rc;
    begin = dg_monotonic_s();
    if (w->kind == REDUCE) {
        add_boxes(s, w);
        w->state = OVER;
    } else {
        add_slice(s, w);
        w->state = ADDED;
        arrive(&s->head->all_done[k % SLOTS], w->done);
    }
    s->pub.cost.work_s += dg_monotonic_s() - begin;
    return 0;
}

static int finish_up_to(shm *s, uint64_t last)
{
    int rc = 0;

    for (uint64_t k = s->oldest; k <= last && rc == 0; k++)
        rc = advance(s, k, true);
    for (uint64_t k = last + 1; k < s->next && rc == 0; k++)
        rc = advance(s, k, false);
    for (; s->oldest <= last && rc == 0; s->oldest++) {
        work *w = &s->works[s->oldest % SLOTS];

        if (w->state == ADDED)
            rc = await(s, &s->head->all_done[s->oldest % SLOTS], w->done, s->oldest);
        w->state = OVER;
    }
    return rc;
}

/* Waits until every reduction whose operand lies in a box is over: boxes are few. */
static int finish_boxed(shm *s)
{
    for (uint64_t k = s->next; k > s->oldest; k--)
        if (s->works[(k - 1) % SLOTS].state == BEGUN && s->works[(k - 1) % SLOTS].kind == REDUCE)
            return finish_up_to(s, k - 1);
    return 0;
}

static int begin_pieces(shm *s, dg_tensor x, dg_reduce op)
{
    int    slot = (int)(s->next % SLOTS);
    size_t n = (size_t)dg_shape_elements(x.shape);

    s->done_target[slot] += 2 * (uint32_t)s->pub.ranks;
    s->works[slot] = (work){ BEGUN, REDUCE_PIECES, x, op, 0, s->done_target[slot] };
    enter(s, describe(REDUCE_PIECES, (int)op, (int)x.dtype, n));
    for (uint64_t k = s->oldest; k < s->next; k++) { /* what the others wait for, while it is warm */
        int rc = advance(s, k, false);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* n elements of x, at most a box full. */
static int begin_boxed(shm *s, dg_tensor x, dg_reduce op)
{
    size_t n = (size_t)dg_shape_elements(x.shape);
    int    rc = finish_boxed(s), slot = (int)(s->next % SLOTS), box;

    if (rc < 0)
        return rc;
    box = (int)(s->n_boxed++ % 2);
    if (n)
        memcpy(box_of(s, s->pub.rank, box), x.data, n * dg_dtype_size(x.dtype));
    s->works[slot] = (work){ BEGUN, REDUCE, x, op, box, 0 };
    enter(s, describe(REDUCE, (int)op, (int)x.dtype, n));
    return 0;
}

static bool in_piece(const shm *s, const void *p, size_t bytes)
{
    const char *mine = s->pieces ? s->pieces + s->piece_bytes * (size_t)s->pub.rank : NULL;

    return mine && (const char *)p >= mine && (const char *)p + bytes <= mine + s->piece_bytes;
}

static int start(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    shm   *s = self_of(c);
    size_t n = (size_t)dg_shape_elements(x.shape), each = dg_dtype_size(x.dtype), most = BOX / each;
    int    rc = s->failed;

    if (rc == 0 && x.dtype != DG_F32 && x.dtype != DG_F64 && x.dtype != DG_I32) {
        snprintf(c->why, sizeof c->why, "%s cannot be reduced", dg_dtype_name(x.dtype));
        return -DG_EUNSUPPORTED;
    }
    if (rc == 0 && s->next - s->oldest >= UNDER_WAY)
        rc = finish_up_to(s, s->oldest);
    c->cost.bytes += (int64_t)(n * each);
    if (rc == 0 && in_piece(s, x.data, n * each)) {
        rc = begin_pieces(s, x, op);
    } else {
        for (size_t at = 0; rc == 0 && (at < n || at == 0); at += most) {
            size_t part = n - at < most ? n - at : most;

            rc = begin_boxed(s, (dg_tensor){ x.dtype, DG_SHAPE((int64_t)part), (char *)x.data + at * each }, op);
        }
    }
    *ticket = (int64_t)s->next - 1;
    return rc;
}

static int wait_for(dg_comm *c, int64_t ticket)
{
    shm *s = self_of(c);

    return s->failed             ? s->failed
           : (uint64_t)ticket < s->oldest ? 0
                                          : finish_up_to(s, (uint64_t)ticket);
}

/* ---- bytes ------------------------------------------------------------------------------------------------- */

/* One box full of every rank: mine goes in, and after it all have arrived. */
static int exchange(shm *s, const void *mine, size_t bytes, uint64_t what, int *box)
{
    int      rc = s->failed ? s->failed : finish_boxed(s);
    uint64_t k;

    if (rc == 0 && s->next - s->oldest >= UNDER_WAY)
        rc = finish_up_to(s, s->oldest);
    if (rc < 0)
        return rc;
    *box = (int)(s->n_boxed++ % 2);
    if (bytes)
        memcpy(box_of(s, s->pub.rank, *box), mine, bytes);
    k = enter(s, what);
    s->works[k % SLOTS].state = OVER;
    s->pub.cost.bytes += (int64_t)bytes;
    return await_all(s, k);
}

static int broadcast(dg_comm *c, void *p, size_t bytes, int root)
{
    shm *s = self_of(c);
    int  rc = 0, box;

    for (size_t at = 0; rc == 0 && (at < bytes || at == 0); at += BOX) {
        size_t part = bytes - at < BOX ? bytes - at : BOX;

        rc = exchange(s, (char *)p + at, c->rank == root ? part : 0, describe(BROADCAST, root, 0, bytes), &box);
        if (rc == 0 && c->rank != root && part)
            memcpy((char *)p + at, box_of(s, root, box), part);
    }
    return rc;
}

static size_t part_of(size_t bytes, size_t at)
{
    return at >= bytes ? 0 : bytes - at < BOX ? bytes - at : BOX;
}

/* each: bytes of every rank, or NULL: `bytes` of each. */
static int collect(shm *s, const void *mine, size_t bytes, const size_t each[], void *all)
{
    size_t most = bytes, total = bytes * (size_t)s->pub.ranks;
    int    rc = 0, box;

    for (int r = 0; each && r < s->pub.ranks; r++) {
        most = r == 0 || each[r] > most ? each[r] : most;
        total = (r == 0 ? 0 : total) + each[r];
    }
    for (size_t at = 0; rc == 0 && (at < most || at == 0); at += BOX) {
        size_t own = part_of(each ? each[s->pub.rank] : bytes, at);
        char  *to = all;

        rc = exchange(s, (const char *)mine + at, own, describe(GATHER, 0, 0, total), &box);
        for (int r = 0; rc == 0 && r < s->pub.ranks; r++) {
            size_t theirs = each ? each[r] : bytes, part = part_of(theirs, at);

            if (part)
                memcpy(to + at, box_of(s, r, box), part);
            to += theirs;
        }
    }
    return rc;
}

static int gather(dg_comm *c, const void *mine, size_t bytes, void *all)
{
    return collect(self_of(c), mine, bytes, NULL, all);
}

static int gather_ragged(dg_comm *c, const void *mine, const size_t bytes[], void *all)
{
    return collect(self_of(c), mine, 0, bytes, all);
}

static int barrier(dg_comm *c)
{
    int box;

    return exchange(self_of(c), NULL, 0, describe(BARRIER, 0, 0, 0), &box);
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

static size_t pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

/* Everybody has opened, and nobody can open any more with a smaller file, once the first barrier is behind us. */
static void *memory(dg_comm *c, size_t bytes)
{
    shm   *s = self_of(c);
    size_t piece = pages(bytes ? bytes : 1), all = piece * (size_t)c->ranks;
    char  *p = NULL;
    int    ok = 1, everywhere = 0;

    if (s->pieces && piece <= s->piece_bytes && barrier(c) == 0) {
        memset(s->pieces + s->piece_bytes * (size_t)c->rank, 0, s->piece_bytes);
        return barrier(c) == 0 ? s->pieces + s->piece_bytes * (size_t)c->rank : NULL;
    }
    if (barrier(c) < 0)
        return NULL;
    if (c->rank == 0)
        ok = ftruncate(s->fd, (off_t)(s->file_bytes + all)) == 0;
    if (ok && c->rank == 0)
        p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->file_bytes);
    if (barrier(c) < 0)
        return NULL;
    if (c->rank != 0)
        p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->file_bytes);
    ok = ok && p && p != MAP_FAILED &&
         fallocate(s->fd, 0, (off_t)(s->file_bytes + piece * (size_t)c->rank), (off_t)piece) == 0;

    dg_tensor all_ok = { DG_I32, DG_SCALAR, &ok };
    int64_t   ticket;

    if (start(c, all_ok, DG_MIN, &ticket) == 0 && wait_for(c, ticket) == 0)
        everywhere = ok;
    s->file_bytes += all;
    if (!everywhere && p && p != MAP_FAILED)
        munmap(p, all);
    if (!everywhere)
        return NULL;
    if (s->pieces)
        munmap(s->pieces, s->piece_bytes * (size_t)c->ranks);
    s->pieces = p;
    s->piece_bytes = piece;
    return p + piece * (size_t)c->rank;
}

/* ---- open and close ---------------------------------------------------------------------------------------- */

static void close_shm(dg_comm **c)
{
    shm *s;

    if (!*c)
        return;
    s = self_of(*c);
    if (s->head) {
        atomic_store(&s->head->peers[s->pub.rank].left, 1);
        munmap(s->head, s->head_bytes);
    }
    if (s->pieces)
        munmap(s->pieces, s->piece_bytes * (size_t)s->pub.ranks);
    if (s->fd >= 0)
        close(s->fd);
    free(s->from);
    free(s->to);
    free(s);
    *c = NULL;
}

int dg_comm_shm_make(int *fd, dg_diag *d)
{
    char buf[128];

    *fd = memfd_create("detrgraph-ranks", MFD_CLOEXEC);
    return *fd >= 0 ? 0
                    : dg_fail(d, DG_EIO, DG_NOWHERE, "comm-memory", "no memory can be shared between ranks: %s",
                              strerror_r(errno, buf, sizeof buf));
}

static int map_head(shm *s, dg_diag *d)
{
    size_t ranks = (size_t)s->pub.ranks, peers = pages(sizeof(head) + ranks * sizeof(peer));
    char   buf[128];
    void  *p;

    s->head_bytes = s->file_bytes = peers + ranks * 2 * BOX;
    p = ftruncate(s->fd, (off_t)s->head_bytes) ? MAP_FAILED
                                               : mmap(NULL, s->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED)
        return dg_fail(d, DG_EIO, DG_NOWHERE, "comm-memory", "rank %d cannot reach the memory that the ranks share: %s",
                       s->pub.rank, strerror_r(errno, buf, sizeof buf));
    s->head = p;
    s->boxes = (char *)p + peers;
    atomic_store(&s->head->peers[s->pub.rank].pid, (int32_t)getpid());
    return 0;
}

int dg_comm_shm_open(dg_comm **comm, int fd, int rank, int ranks, dg_diag *d)
{
    shm     *s;
    dg_comm *c;
    int      rc;

    *comm = NULL;
    if (ranks < 1 || ranks > DG_COMM_SHM_MOST || rank < 0 || rank >= ranks) {
        close(fd);
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "comm-ranks", "rank %d of %d: 1 to %d ranks can share memory", rank, ranks,
                       DG_COMM_SHM_MOST);
    }
    s = calloc(1, sizeof *s);
    if (!s)
        dg_oom(sizeof *s);
    s->pub = (dg_comm){ .name = "shm", .rank = rank, .ranks = ranks, .start = start, .wait = wait_for, .broadcast = broadcast,
                        .gather = gather, .gather_ragged = gather_ragged, .barrier = barrier, .memory = memory, .abort = stop,
                        .close = close_shm };
    s->fd = fd;
    s->spins = ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS : 0;
    s->from = calloc((size_t)ranks, sizeof *s->from);
    s->to = calloc((size_t)ranks, sizeof *s->to);
    if (!s->from || !s->to)
        dg_oom((size_t)ranks * sizeof *s->to);
    c = &s->pub;
    rc = map_head(s, d);
    if (rc < 0)
        close_shm(&c);
    *comm = c;
    return rc;
}
