/* shm.c: see shm.h.
 *
 *    | head: dg_shm_sync | boxes: two per rank | pieces: one per rank, when asked for | ...
 *    ... at DUPLICATE_AT, far behind all that, in the same sparse file: head and boxes of a
 * duplicate
 *
 *  boxes   hold small operands: every rank adds up all of them, in rank order. Two per rank are
 *          enough: a rank that writes into one again has waited for a later collective, so all have
 *          read it.
 *  pieces  are reduced in place: rank r adds up slice r of all pieces, in rank order, and writes
 * the result into all of them; the collective ends when every slice is done. */
#include "comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "kernels/addition.h"
#include "comm/duplicate.h"
#include "comm/shm_sync.h"

enum {
    BOX = 256 << 10, /* bytes */
};
static const off_t DUPLICATE_AT = (off_t)1 << 43;

typedef enum state { OVER, BEGUN, ADDED } state;

typedef struct work { /* a collective that this rank has started */
    state state;
    bool boxed; /* the operand is in a box */
    int box;
    dg_tensor x;
    dg_reduce op;
} work;

typedef struct shm {
    dg_comm pub;
    int fd;
    off_t at; /* of the head in the file */
    dg_duplicate duplicate;
    dg_duplicate *original; /* of a duplicate: the original's */
    dg_shm_sync sync;
    void *head;
    char *boxes;
    size_t head_bytes, file_bytes;
    char *pieces; /* rank 0's; rank r's is at offset piece_bytes * r */
    size_t piece_bytes;
    uint64_t oldest; /* number of the oldest collective that may be unfinished */
    uint64_t n_boxed;
    work works[DG_SHM_SLOTS];
    const void **from; /* one entry per rank */
    void **to;
} shm;

static shm *self_of(dg_comm *c)
{
    return (shm *)(void *)c; /* pub is the first member */
}

static void shm_stop(dg_comm *c)
{
    dg_shm_sync_stop(&self_of(c)->sync);
    dg_duplicate_abort(&self_of(c)->duplicate);
}

static work *work_of(shm *s, uint64_t k)
{
    return &s->works[k % DG_SHM_SLOTS];
}

/* ---- reducing -------------------------------------------------------------------------------- */

static char *box_of(const shm *s, int rank, int box)
{
    return s->boxes + ((size_t)rank * 2 + (size_t)box) * BOX;
}

/* Reduces operands in boxes: every rank computes the whole result. */
static void add_boxes(shm *s, const work *w)
{
    for (int r = 0; r < s->pub.ranks; r++)
        s->from[r] = box_of(s, r, w->box);
    s->to[0] = w->x.data;
    dg_add_up(&(dg_addition){ w->x.dtype, w->op, s->from, s->pub.ranks, s->to, 1 }, 0,
              (size_t)dg_shape_elements(w->x.shape));
}

/* Reduces this rank's slice of the pieces, for all ranks. Slices end at cache lines. */
static void add_slice(shm *s, const work *w)
{
    size_t n = (size_t)dg_shape_elements(w->x.shape), lines = (n + 15) / 16,
           ranks = (size_t)s->pub.ranks;
    size_t begin = lines * (size_t)s->pub.rank / ranks * 16,
           end = lines * ((size_t)s->pub.rank + 1) / ranks * 16;
    size_t offset =
        (size_t)((char *)w->x.data - (s->pieces + s->piece_bytes * (size_t)s->pub.rank));

    for (size_t r = 0; r < ranks; r++)
        s->from[r] = s->to[r] = s->pieces + s->piece_bytes * r + offset;
    dg_add_up(&(dg_addition){ w->x.dtype, w->op, s->from, s->pub.ranks, s->to, s->pub.ranks },
              begin, end < n ? end : n);
}

/* ---- reductions in flight -------------------------------------------------------------------- */

/* Computes this rank's part of reduction k. block: wait for the other ranks; else only if they have
 * arrived. */
static int advance_reduction(shm *s, uint64_t k, bool block)
{
    work *w = work_of(s, k);
    double begin;
    int rc;

    if (w->state != BEGUN || (!block && !dg_shm_sync_complete(&s->sync, k)))
        return 0;
    rc = dg_shm_sync_await(&s->sync, k);
    if (rc < 0)
        return rc;
    begin = dg_monotonic_s();
    if (w->boxed) {
        add_boxes(s, w);
        w->state = OVER;
    } else {
        add_slice(s, w);
        w->state = ADDED;
        dg_shm_sync_done(&s->sync, k);
    }
    s->pub.cost.work_s += dg_monotonic_s() - begin;
    return 0;
}

/* Does the parts that other ranks may be waiting for, while the data is in cache. */
static int advance_all(shm *s)
{
    int rc = 0;

    for (uint64_t k = s->oldest; k < s->sync.next && rc == 0; k++)
        rc = advance_reduction(s, k, false);
    return rc;
}

static int finish_reduction(shm *s, uint64_t k)
{
    int rc = advance_reduction(s, k, true);

    if (rc == 0 && work_of(s, k)->state == ADDED)
        rc = advance_all(s);
    if (rc == 0 && work_of(s, k)->state == ADDED)
        rc = dg_shm_sync_await_done(&s->sync, k);
    if (rc < 0)
        return rc;
    work_of(s, k)->state = OVER;
    while (s->oldest < s->sync.next && work_of(s, s->oldest)->state == OVER)
        s->oldest++;
    return 0;
}

/* Finishes the reduction whose operand is in a box, if any: the other ranks may then reuse the
 * boxes. */
static int finish_boxed(shm *s)
{
    for (uint64_t k = s->sync.next; k > s->oldest; k--)
        if (work_of(s, k - 1)->state == BEGUN && work_of(s, k - 1)->boxed)
            return finish_reduction(s, k - 1);
    return 0;
}

/* Makes sure that one more collective may be in flight. */
static int make_room(shm *s)
{
    int rc = dg_shm_sync_status(&s->sync);

    if (rc < 0)
        return rc;
    return s->sync.next - s->oldest < DG_SHM_IN_FLIGHT ? 0 : finish_reduction(s, s->oldest);
}

/* Ten bits of x's offset in the gradient space, so that equally large operands at another offset
 * count as a mismatch. */
static int place_of(const shm *s, const dg_tensor *x)
{
    uint64_t offset =
        (uint64_t)((const char *)x->data - (s->pieces + s->piece_bytes * (size_t)s->pub.rank));

    return (int)(offset * 0x9E3779B97F4A7C15u >> 54);
}

static int begin_pieces(shm *s, dg_tensor x, dg_reduce op)
{
    dg_meeting what = dg_meeting_of(&s->pub, DG_MEET_REDUCE_PIECES, (int)op | place_of(s, &x) << 2,
                                    (int)x.dtype, (size_t)dg_shape_elements(x.shape));
    int rc = make_room(s);

    if (rc < 0)
        return rc;
    *work_of(s, s->sync.next) = (work){ .state = BEGUN, .x = x, .op = op };
    (void)dg_shm_sync_enter(&s->sync, &what, true);
    return advance_all(s);
}

/* Begins reducing n elements of x, at most one box. */
static int begin_boxed(shm *s, dg_tensor x, dg_reduce op)
{
    size_t n = (size_t)dg_shape_elements(x.shape);
    dg_meeting what = dg_meeting_of(&s->pub, DG_MEET_REDUCE, (int)op, (int)x.dtype, n);
    int rc = make_room(s), box;

    if (rc == 0)
        rc = finish_boxed(s);
    if (rc < 0)
        return rc;
    box = (int)(s->n_boxed++ % 2);
    if (n)
        memcpy(box_of(s, s->pub.rank, box), x.data, n * dg_dtype_size(x.dtype));
    *work_of(s, s->sync.next) = (work){ BEGUN, true, box, x, op };
    (void)dg_shm_sync_enter(&s->sync, &what, false);
    return 0;
}

static bool in_piece(const shm *s, const void *p, size_t bytes)
{
    const char *mine = s->pieces ? s->pieces + s->piece_bytes * (size_t)s->pub.rank : NULL;

    return mine && (const char *)p >= mine && (const char *)p + bytes <= mine + s->piece_bytes;
}

static int shm_start(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    shm *s = self_of(c);
    size_t n = (size_t)dg_shape_elements(x.shape), each = dg_dtype_size(x.dtype), most = BOX / each;
    int rc = 0;

    if (x.dtype != DG_F32 && x.dtype != DG_F64 && x.dtype != DG_I32) {
        snprintf(c->why, sizeof c->why, "%s cannot be reduced", dg_dtype_name(x.dtype));
        return -DG_EUNSUPPORTED;
    }
    c->cost.bytes += (int64_t)(n * each);
    if (in_piece(s, x.data, n * each)) {
        rc = begin_pieces(s, x, op);
    } else {
        for (size_t at = 0; rc == 0 && (at < n || at == 0); at += most) {
            size_t part = n - at < most ? n - at : most;

            rc = begin_boxed(s,
                             (dg_tensor){ x.dtype, DG_SHAPE((int64_t)part),
                                          (char *)x.data + at * each },
                             op);
        }
    }
    *ticket = (int64_t)s->sync.next - 1;
    return rc;
}

static int wait_for(dg_comm *c, int64_t ticket)
{
    shm *s = self_of(c);
    uint64_t k = (uint64_t)ticket;

    if (s->sync.failed)
        return s->sync.failed;
    return k < s->oldest || work_of(s, k)->state == OVER ? 0 : finish_reduction(s, k);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Exchanges at most one box of bytes per rank; returns once all ranks' bytes have arrived. */
static int exchange_boxes(shm *s, const void *mine, size_t bytes, dg_meeting what, int *box)
{
    int rc = make_room(s);

    if (rc == 0)
        rc = finish_boxed(s);
    if (rc < 0)
        return rc;
    *box = (int)(s->n_boxed++ % 2);
    if (bytes)
        memcpy(box_of(s, s->pub.rank, *box), mine, bytes);
    work_of(s, s->sync.next)->state = OVER;
    s->pub.cost.bytes += (int64_t)bytes;
    return dg_shm_sync_await(&s->sync, dg_shm_sync_enter(&s->sync, &what, false));
}

static int shm_broadcast(dg_comm *c, void *p, size_t bytes, int root)
{
    shm *s = self_of(c);
    int rc = 0, box;

    for (size_t at = 0; rc == 0 && (at < bytes || at == 0); at += BOX) {
        size_t part = bytes - at < BOX ? bytes - at : BOX;

        rc = exchange_boxes(s, (char *)p + at, c->rank == root ? part : 0,
                            dg_meeting_of(c, DG_MEET_BROADCAST, root, 0, bytes), &box);
        if (rc == 0 && c->rank != root && part)
            memcpy((char *)p + at, box_of(s, root, box), part);
    }
    return rc;
}

static size_t part_of(size_t bytes, size_t at)
{
    return at >= bytes ? 0 : bytes - at < BOX ? bytes - at : BOX;
}

/* Gathers each[r] bytes of every rank r, or `bytes` of each if each is NULL. */
static int gather_bytes(shm *s, const void *mine, size_t bytes, const size_t each[], void *all)
{
    size_t most = bytes, total = bytes * (size_t)s->pub.ranks;
    int rc = 0, box;

    for (int r = 0; each && r < s->pub.ranks; r++) {
        most = r == 0 || each[r] > most ? each[r] : most;
        total = (r == 0 ? 0 : total) + each[r];
    }
    for (size_t at = 0; rc == 0 && (at < most || at == 0); at += BOX) {
        size_t own = part_of(each ? each[s->pub.rank] : bytes, at);
        char *to = all;

        rc = exchange_boxes(s, (const char *)mine + at, own,
                            dg_meeting_of(&s->pub, DG_MEET_GATHER, 0, 0, total), &box);
        for (int r = 0; rc == 0 && r < s->pub.ranks; r++) {
            size_t theirs = each ? each[r] : bytes, part = part_of(theirs, at);

            if (part)
                memcpy(to + at, box_of(s, r, box), part);
            to += theirs;
        }
    }
    return rc;
}

static int shm_gather(dg_comm *c, const void *mine, size_t bytes, void *all)
{
    return gather_bytes(self_of(c), mine, bytes, NULL, all);
}

static int gather_ragged(dg_comm *c, const void *mine, const size_t bytes[], void *all)
{
    return gather_bytes(self_of(c), mine, 0, bytes, all);
}

static int shm_barrier(dg_comm *c)
{
    int box;

    return exchange_boxes(self_of(c), NULL, 0, dg_meeting_of(c, DG_MEET_BARRIER, 0, 0, 0), &box);
}

static int shm_meet(dg_comm *c, dg_meeting_kind kind, int a, dg_dtype type, size_t n)
{
    int box;

    c->cost.bytes += dg_meeting_bytes(c, kind, a, type, n);
    return exchange_boxes(self_of(c), NULL, 0, dg_meeting_of(c, kind, a, (int)type, n), &box);
}

static int shm_look(dg_comm *c, bool lost, char why[DG_COMM_WHY])
{
    return dg_shm_sync_look(&self_of(c)->sync, lost, why);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t round_to_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

/* Makes the file as long as that, if it is shorter. */
static int reach(int fd, off_t end)
{
    struct stat st;

    return fstat(fd, &st) != 0 ? -1 : st.st_size >= end ? 0 : ftruncate(fd, end);
}

/* Maps the pieces. After the first barrier every rank has opened the file, so none can map a
 * smaller one. */
static void *map_pieces(dg_comm *c, size_t bytes)
{
    shm *s = self_of(c);
    size_t piece = round_to_pages(bytes ? bytes : 1), all = piece * (size_t)c->ranks;
    char *p = NULL;
    int ok = 1, everywhere = 0;

    if (s->pieces && piece <= s->piece_bytes && shm_barrier(c) == 0) {
        memset(s->pieces + s->piece_bytes * (size_t)c->rank, 0, s->piece_bytes);
        return shm_barrier(c) == 0 ? s->pieces + s->piece_bytes * (size_t)c->rank : NULL;
    }
    if (shm_barrier(c) < 0)
        return NULL;
    if (c->rank == 0)
        ok = reach(s->fd, (off_t)(s->file_bytes + all)) == 0;
    if (ok && c->rank == 0)
        p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->file_bytes);
    if (shm_barrier(c) < 0)
        return NULL;
    if (c->rank != 0)
        p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->file_bytes);
    ok = ok && p && p != MAP_FAILED &&
         fallocate(s->fd, 0, (off_t)(s->file_bytes + piece * (size_t)c->rank), (off_t)piece) == 0;

    dg_tensor all_ok = { DG_I32, DG_SCALAR, &ok };
    int64_t ticket;

    if (shm_start(c, all_ok, DG_MIN, &ticket) == 0 && wait_for(c, ticket) == 0)
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

/* ---- open and close -------------------------------------------------------------------------- */

static int shm_duplicate(dg_comm *c, dg_comm **other);

static void close_shm(dg_comm **c)
{
    shm *s;

    if (!*c)
        return;
    s = self_of(*c);
    if (s->original)
        dg_duplicate_set(s->original, NULL);
    pthread_mutex_destroy(&s->duplicate.lock);
    if (s->head) {
        dg_shm_sync_leave(&s->sync);
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
    *fd = memfd_create("detrgraph-ranks", MFD_CLOEXEC);
    return *fd >= 0
               ? 0
               : dg_fail_os(d, errno, NULL, "comm-memory", "no memory can be shared between ranks");
}

static int map_head(shm *s, dg_diag *d)
{
    size_t ranks = (size_t)s->pub.ranks, peers = round_to_pages(dg_shm_sync_bytes(s->pub.ranks));
    void *p;

    s->head_bytes = s->file_bytes = peers + ranks * 2 * BOX;
    p = reach(s->fd, s->at + (off_t)s->head_bytes)
            ? MAP_FAILED
            : mmap(NULL, s->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, s->at);
    if (p == MAP_FAILED)
        return dg_fail_os(d, errno, NULL, "comm-memory",
                          "rank %d cannot reach the memory that the ranks share", s->pub.rank);
    s->head = p;
    s->boxes = (char *)p + peers;
    dg_shm_sync_open(&s->sync, p, &s->pub);
    return 0;
}

static int open_at(dg_comm **comm, int fd, off_t at, int rank, int ranks, dg_diag *d)
{
    shm *s = calloc(1, sizeof *s);
    dg_comm *c;
    int rc;

    if (!s)
        dg_oom(sizeof *s);
    s->pub = (dg_comm){ .name = "shm",
                        .rank = rank,
                        .ranks = ranks,
                        .start = shm_start,
                        .wait = wait_for,
                        .broadcast = shm_broadcast,
                        .gather = shm_gather,
                        .gather_ragged = gather_ragged,
                        .barrier = shm_barrier,
                        .meet = shm_meet,
                        .look = shm_look,
                        .memory = at ? NULL : map_pieces, /* a duplicate has no room behind it */
                        .duplicate = at ? NULL : shm_duplicate,
                        .abort = shm_stop,
                        .close = close_shm };
    pthread_mutex_init(&s->duplicate.lock, NULL);
    s->fd = fd;
    s->at = at;
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

int dg_comm_shm_open(dg_comm **comm, int fd, int rank, int ranks, dg_diag *d)
{
    *comm = NULL;
    if (ranks < 1 || ranks > DG_COMM_SHM_MOST || rank < 0 || rank >= ranks) {
        close(fd);
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "comm-ranks",
                       "rank %d of %d: 1 to %d ranks can share memory", rank, ranks,
                       DG_COMM_SHM_MOST);
    }
    return open_at(comm, fd, 0, rank, ranks, d);
}

/* Rank 0 makes the file longer before the others map that part of it; all agree that it worked. */
static int shm_duplicate(dg_comm *c, dg_comm **other)
{
    shm *s = self_of(c);
    dg_diag *d = dg_diag_open();
    int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0), rc = 0, ok = fd >= 0, failed;
    int64_t ticket;

    *other = NULL;
    if (ok && c->rank == 0)
        ok = open_at(other, fd, DUPLICATE_AT, c->rank, c->ranks, d) == 0;
    rc = shm_barrier(c);
    if (ok && c->rank != 0)
        ok = open_at(other, fd, DUPLICATE_AT, c->rank, c->ranks, d) == 0;
    if (!ok)
        snprintf(c->why, sizeof c->why, "%s",
                 dg_diag_n(d) ? dg_diag_at(d, 0)->text : "too many files are open");
    dg_diag_close(&d);
    failed = !ok;
    if (rc == 0)
        rc = shm_start(c, (dg_tensor){ DG_I32, DG_SCALAR, &failed }, DG_MAX, &ticket);
    if (rc == 0)
        rc = wait_for(c, ticket);
    if (rc == 0 && failed)
        rc = -DG_EIO;
    if (rc < 0 && *other)
        close_shm(other);
    if (*other) {
        self_of(*other)->original = &s->duplicate;
        dg_duplicate_set(&s->duplicate, *other);
    }
    return rc;
}
