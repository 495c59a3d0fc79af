/* nccl.c: a stand-in of NCCL for tests, with its binary interface, between processes or threads
 * that use the stand-in of CUDA. As strict as NCCL may be: a communicator that does not block says
 * "in progress" and puts its work on the stream only when it is asked again; a call before that is
 * misuse; ranks that do different things wait for ever; a stopped rank is not noticed, a killed one
 * is; nothing but an abort ends work that waits.
 *
 * Misuse ends the process with a line. The variable STANDIN_NCCL, words with commas:
 *   error=N    the N-th operation meets an error of the system
 *   rank=R     on that rank alone
 *   refuse=R   rank R's communicator cannot be made
 * Bytes travel through boxes in shared memory, one for each pair of ranks. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda/host/nccl.h"
#include "tests/cuda/standin.h"

enum { MOST = 8, BOX = 32 << 10, PARTS = 2 * MOST, INVALID_USAGE = 5, SYSTEM_ERROR = 2 };

typedef struct box {
    _Atomic uint32_t full;
    uint32_t n;
    uint64_t total; /* of the message that these bytes are of */
    char bytes[BOX];
} box;

typedef struct board {
    _Atomic int32_t here, gone, ranks;
    _Atomic int32_t pids[MOST];
    box boxes[MOST][MOST]; /* from, to */
} board;

typedef struct part {
    bool gives;
    int rank;
    char *p;
    size_t n, done;
} part;

typedef struct job {
    struct dg_nccl_comm *c;
    dg_cuda_stream *stream;
    part parts[PARTS];
    int n;
} job;

struct dg_nccl_comm {
    board *b;
    char name[64];
    int rank, ranks;
    pthread_mutex_t lock;
    job *next;   /* begun, and not on its stream yet */
    int polls;   /* since that */
    int running; /* on the stream, not over */
    int n_jobs, error;
    bool joining, leaving;
    _Atomic bool aborted;
};

/* The group of this thread. */
static _Thread_local struct {
    int depth;
    job *job;
} group;

#define EXPORT __attribute__((visibility("default")))

static void misuse(const char *what)
{
    static const char text[] = "the stand-in of NCCL is misused: ";

    (void)!write(2, text, sizeof text - 1);
    (void)!write(2, what, strlen(what));
    (void)!write(2, "\n", 1);
    abort();
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void nap(void)
{
    (void)nanosleep(&(struct timespec){ 0, 100000 }, NULL);
}

static bool has_ended(int32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    bool gone = fd < 0 ? errno == ESRCH : poll(&p, 1, 0) == 1;

    if (fd >= 0)
        close(fd);
    return gone;
}

static bool lost_one(const dg_nccl_comm *c)
{
    for (int r = 0; r < c->ranks; r++) {
        int32_t pid = c->b->pids[r];

        if (pid && pid != (int32_t)getpid() && has_ended(pid))
            return true;
    }
    return false;
}

static int64_t word(const char *name)
{
    const char *words = getenv("STANDIN_NCCL"), *at = words ? strstr(words, name) : NULL;

    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

/* ---- work: on the stand-in's thread ---------------------------------------------------------- */

/* Moves what can be moved now; true: something was. */
static bool move(const dg_nccl_comm *c, part *t)
{
    box *x = t->gives ? &c->b->boxes[c->rank][t->rank] : &c->b->boxes[t->rank][c->rank];
    size_t n = t->n - t->done < BOX ? t->n - t->done : BOX;

    if (t->done == t->n || (atomic_load(&x->full) != 0) == t->gives)
        return false;
    if (t->gives) {
        memcpy(x->bytes, t->p + t->done, n);
        x->n = (uint32_t)n;
        x->total = t->n;
    } else if (x->total != t->n || x->n != n) {
        return false; /* the other rank does something else: this never ends */
    } else {
        memcpy(t->p + t->done, x->bytes, n);
    }
    t->done += n;
    atomic_store(&x->full, t->gives);
    return true;
}

static bool is_over(const job *j)
{
    for (int i = 0; i < j->n; i++)
        if (j->parts[i].done < j->parts[i].n)
            return false;
    return true;
}

static void run(void *ctx)
{
    job *j = ctx;
    dg_nccl_comm *c = j->c;
    bool fails;

    pthread_mutex_lock(&c->lock);
    fails = ++c->n_jobs == word("error=") && (word("rank=") < 0 || word("rank=") == c->rank);
    if (fails)
        c->error = SYSTEM_ERROR;
    pthread_mutex_unlock(&c->lock);
    while (!c->aborted && !((standin *)j->stream->owner)->error && (fails || !is_over(j))) {
        bool moved = false;

        for (int i = 0; i < j->n && !fails; i++)
            moved = move(c, &j->parts[i]) || moved;
        if (!moved)
            nap();
    }
    pthread_mutex_lock(&c->lock);
    c->running--;
    pthread_mutex_unlock(&c->lock);
    free(j);
}

/* ---- operations ------------------------------------------------------------------------------ */

static int begin_group(void)
{
    group.depth++;
    return DG_NCCL_OK;
}

static job *job_of(dg_nccl_comm *c, void *stream)
{
    job *j = group.job;

    if (!group.depth)
        misuse("an operation outside of a group");
    if (c->joining || c->next)
        misuse("a call while the communicator is in progress");
    if (j && (j->c != c || j->stream != stream))
        misuse("a group on two streams");
    if (!j) {
        j = group.job = calloc(1, sizeof *j);
        if (!j)
            abort();
        j->c = c;
        j->stream = stream;
    }
    return j;
}

static void add(job *j, bool gives, int rank, const void *p, size_t n)
{
    if (rank < 0 || rank >= j->c->ranks || j->n == PARTS)
        misuse("a rank that there is not, or too many of them");
    if (n)
        j->parts[j->n++] = (part){ gives, rank, (char *)(uintptr_t)p, n, 0 };
}

/* Begins the work; it goes to the stream when the caller asks how it stands. */
static int end_group(void)
{
    job *j = group.job;

    if (group.depth-- < 1)
        misuse("the end of no group");
    if (group.depth || !j)
        return DG_NCCL_OK;
    group.job = NULL;
    pthread_mutex_lock(&j->c->lock);
    j->c->next = j;
    j->c->polls = 0;
    pthread_mutex_unlock(&j->c->lock);
    return DG_NCCL_IN_PROGRESS;
}

static void put_next(dg_nccl_comm *c)
{
    job *j = c->next;

    c->next = NULL;
    c->running++;
    if (((standin *)j->stream->owner)->put_peers(j->stream, run, j)) {
        c->running--;
        c->error = SYSTEM_ERROR;
        free(j);
    }
}

EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupEnd(void);
EXPORT int ncclSend(const void *p, size_t n, int type, int to, dg_nccl_comm *c, void *stream);
EXPORT int ncclRecv(void *p, size_t n, int type, int from, dg_nccl_comm *c, void *stream);
EXPORT int ncclAllGather(const void *p, void *all, size_t n, int type, dg_nccl_comm *c,
                         void *stream);
EXPORT int ncclBroadcast(const void *p, void *to, size_t n, int type, int root, dg_nccl_comm *c,
                         void *stream);

int ncclGroupStart(void)
{
    return begin_group();
}

int ncclGroupEnd(void)
{
    return end_group();
}

int ncclSend(const void *p, size_t n, int type, int to, dg_nccl_comm *c, void *stream)
{
    (void)type;
    begin_group();
    add(job_of(c, stream), true, to, p, n);
    return end_group();
}

int ncclRecv(void *p, size_t n, int type, int from, dg_nccl_comm *c, void *stream)
{
    (void)type;
    begin_group();
    add(job_of(c, stream), false, from, p, n);
    return end_group();
}

int ncclAllGather(const void *p, void *all, size_t n, int type, dg_nccl_comm *c, void *stream)
{
    (void)type;
    begin_group();
    for (int r = 0; r < c->ranks; r++) {
        add(job_of(c, stream), true, r, p, n);
        add(job_of(c, stream), false, r, (char *)all + (size_t)r * n, n);
    }
    return end_group();
}

int ncclBroadcast(const void *p, void *to, size_t n, int type, int root, dg_nccl_comm *c,
                  void *stream)
{
    (void)type;
    begin_group();
    for (int r = 0; r < c->ranks && c->rank == root; r++)
        if (r != root)
            add(job_of(c, stream), true, r, p, n);
    if (c->rank != root)
        add(job_of(c, stream), false, root, to, n);
    return end_group();
}

/* ---- communicators --------------------------------------------------------------------------- */

EXPORT int ncclGetVersion(int *version);
EXPORT int ncclGetUniqueId(dg_nccl_id *id);
EXPORT int ncclCommInitRankConfig(dg_nccl_comm **out, int ranks, dg_nccl_id id, int rank,
                                  dg_nccl_config *conf);
EXPORT int ncclCommGetAsyncError(dg_nccl_comm *c, int *code);
EXPORT int ncclCommFinalize(dg_nccl_comm *c);
EXPORT int ncclCommDestroy(dg_nccl_comm *c);
EXPORT int ncclCommAbort(dg_nccl_comm *c);
EXPORT const char *ncclGetErrorString(int code);
EXPORT const char *ncclGetLastError(dg_nccl_comm *c);

int ncclGetVersion(int *version)
{
    *version = 22809;
    return DG_NCCL_OK;
}

int ncclGetUniqueId(dg_nccl_id *id)
{
    static _Atomic int n;
    int fd;

    *id = (dg_nccl_id){ 0 };
    snprintf(id->bytes, sizeof id->bytes, "/standin-nccl-%d-%d", (int)getpid(),
             atomic_fetch_add(&n, 1));
    fd = shm_open(id->bytes, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(board)))
        return SYSTEM_ERROR;
    close(fd);
    return DG_NCCL_OK;
}

int ncclCommInitRankConfig(dg_nccl_comm **out, int ranks, dg_nccl_id id, int rank,
                           dg_nccl_config *conf)
{
    dg_nccl_comm *c = calloc(1, sizeof *c);
    int fd = shm_open(id.bytes, O_RDWR, 0600);

    if (conf->magic != dg_nccl_magic || conf->size < sizeof *conf || conf->version < DG_NCCL_LEAST)
        misuse("the settings are not initialised");
    if (conf->blocking != 0 || ranks > MOST || rank < 0 || rank >= ranks)
        misuse("a communicator that blocks, or ranks that it cannot have");
    if (!c || fd < 0) { /* another rank has given up already */
        free(c);
        return SYSTEM_ERROR;
    }
    c->b = mmap(NULL, sizeof *c->b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->b == MAP_FAILED)
        abort();
    snprintf(c->name, sizeof c->name, "%.60s", id.bytes);
    c->rank = rank;
    c->ranks = ranks;
    c->joining = true;
    c->error = word("refuse=") == rank ? INVALID_USAGE : DG_NCCL_OK;
    pthread_mutex_init(&c->lock, NULL);
    c->b->pids[rank] = (int32_t)getpid();
    if (atomic_fetch_add(&c->b->here, 1) == ranks - 1)
        (void)shm_unlink(c->name); /* all have it open */
    *out = c;
    return DG_NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(dg_nccl_comm *c, int *code)
{
    pthread_mutex_lock(&c->lock);
    if (c->joining && c->b->here == c->ranks)
        c->joining = false;
    else if (c->next && ++c->polls > 1)
        put_next(c);
    if (!c->error && (c->running || c->joining) && lost_one(c))
        c->error = DG_NCCL_REMOTE_ERROR;
    *code = c->error                                                         ? c->error
            : c->joining || c->next || (c->leaving && c->b->gone < c->ranks) ? DG_NCCL_IN_PROGRESS
                                                                             : DG_NCCL_OK;
    pthread_mutex_unlock(&c->lock);
    return DG_NCCL_OK;
}

int ncclCommFinalize(dg_nccl_comm *c)
{
    if (c->leaving || c->joining || c->next)
        misuse("a communicator is finalized twice, or in progress");
    c->leaving = true;
    atomic_fetch_add(&c->b->gone, 1);
    return DG_NCCL_IN_PROGRESS;
}

static void release(dg_nccl_comm *c)
{
    (void)munmap(c->b, sizeof *c->b);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int ncclCommDestroy(dg_nccl_comm *c)
{
    if (!c->leaving || c->running)
        misuse("a communicator is destroyed with work under way");
    release(c);
    return DG_NCCL_OK;
}

/* Returns when the work on the device has ended. */
int ncclCommAbort(dg_nccl_comm *c)
{
    int running = 1;

    c->aborted = true;
    (void)shm_unlink(c->name); /* unless it is gone */
    while (running) {
        pthread_mutex_lock(&c->lock);
        running = c->running;
        pthread_mutex_unlock(&c->lock);
        if (running)
            nap();
    }
    free(c->next);
    release(c);
    return DG_NCCL_OK;
}

const char *ncclGetErrorString(int code)
{
    static const char *const texts[] = { "no error",
                                         "unhandled cuda error",
                                         "unhandled system error",
                                         "internal error",
                                         "invalid argument",
                                         "invalid usage",
                                         "remote process exited or there was a network error",
                                         "NCCL operation in progress" };

    return code >= 0 && code < (int)(sizeof texts / sizeof texts[0]) ? texts[code] : "unknown";
}

const char *ncclGetLastError(dg_nccl_comm *c)
{
    (void)c;
    return "";
}
