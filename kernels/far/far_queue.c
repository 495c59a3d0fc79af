/* far_queue.c: the lanes and the thread that empties them. It runs what somebody waits for, in the
 * order of each lane; between lanes it draws, so that a missing event shows as a wrong result under
 * some seed. */
#include "kernels/far/far_internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/str.h"

static const char *const work_names[] = {
    [DG_FAR_UPLOAD] = "upload", [DG_FAR_DOWNLOAD] = "download", [DG_FAR_COPY] = "copy",
    [DG_FAR_CLEAR] = "clear",   [DG_FAR_LAUNCH] = "launch",     [DG_FAR_CALL] = "call",
    [DG_FAR_SIGN] = "sign",     [DG_FAR_RECORD] = "event",      [DG_FAR_WAIT] = "wait",
};

int dg_far_fault(dg_far *f, int rc, int mark, const char *fmt, ...)
{
    va_list ap;

    if (f->status == 0) {
        f->status = rc;
        f->mark = mark;
        va_start(ap, fmt);
        vsnprintf(f->why, sizeof f->why, fmt, ap);
        va_end(ap);
    }
    return rc;
}

/* ---- what an item uses ----------------------------------------------------------------------- */

typedef struct range {
    dg_far_kind kind;
    const void *p;
    size_t bytes;
    bool written;
    int operand; /* of a launch; or -1 */
} range;

static range device(const void *p, size_t bytes, bool written)
{
    return (range){ DG_FAR_DEVICE, p, p ? bytes : 0, written, -1 };
}

static range pinned(const void *p, size_t bytes, bool written)
{
    return (range){ DG_FAR_PINNED, p, bytes, written, -1 };
}

static bool launch_range(const dg_launch *l, int k, range *r)
{
    const dg_args *a = l->args;

    if (k < a->n) {
        const dg_tensor *t = &a->t[k];
        size_t bytes = t->data ? (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype) : 0;

        *r = device(t->data, bytes, k >= l->n_in);
        r->operand = k;
        return true;
    }
    switch (k - a->n) {
    case 0:
        *r = device(l->guard, sizeof *l->guard, false);
        return true;
    case 1:
        *r = device(a->control, sizeof *a->control, false);
        return true;
    case 2:
        *r = device(a->workspace, 1, true); /* its size is the planner's */
        return true;
    default:
        return false;
    }
}

/* Number k of the item's memory, from 0; false: that was all. */
static bool range_at(const dg_far_item *it, int k, range *r)
{
    switch (it->work) {
    case DG_FAR_LAUNCH:
        return launch_range(it->launch, k, r);
    case DG_FAR_UPLOAD:
        *r = k == 0 ? device(it->to, it->bytes, true)
                    : pinned(it->from, it->owned ? 0 : it->bytes, false);
        return k < 2;
    case DG_FAR_DOWNLOAD:
        *r = k == 0 ? device(it->from, it->bytes, false)
                    : pinned(it->to, it->pageable ? 0 : it->bytes, true);
        return k < 2;
    case DG_FAR_COPY:
        *r = k == 0 ? device(it->to, it->bytes, true) : device(it->from, it->bytes, false);
        return k < 2;
    case DG_FAR_CLEAR:
        *r = device(it->to, it->bytes, true);
        return k < 1;
    default:
        return false;
    }
}

static bool overlap(const void *a, size_t n, const void *b, size_t m)
{
    return (uintptr_t)a < (uintptr_t)b + m && (uintptr_t)b < (uintptr_t)a + n;
}

int dg_far_check(dg_far *f, const dg_far_item *it)
{
    static const char *const kinds[] = { "device", "pinned" };
    range r;
    const void *host;
    size_t bytes;

    for (int k = 0; range_at(it, k, &r); k++) {
        dg_far_share share =
            r.bytes ? dg_far_memory_share(&f->memory, r.kind, r.p, r.bytes) : DG_FAR_ALL;
        char operand[32] = "";

        if (share == DG_FAR_ALL)
            continue;
        if (r.operand >= 0)
            snprintf(operand, sizeof operand, ", operand %d", r.operand);
        return dg_far_fault(f, -DG_EINTERNAL, it->mark, "%s%s: %zu bytes at %p are %s %s memory",
                            work_names[it->work], operand, r.bytes, r.p,
                            share == DG_FAR_PART ? "partly in" : "not in", kinds[r.kind]);
    }
    host = it->pageable ? it->to : it->work == DG_FAR_SIGN ? (void *)it->word : NULL;
    bytes = it->pageable ? it->bytes : sizeof *it->word;
    if (host && dg_far_memory_share(&f->memory, DG_FAR_DEVICE, host, bytes) != DG_FAR_NONE)
        return dg_far_fault(f, -DG_EINTERNAL, it->mark, "%s: %zu bytes at %p are in device memory",
                            work_names[it->work], bytes, host);
    if (it->work == DG_FAR_COPY && overlap(it->to, it->bytes, it->from, it->bytes))
        return dg_far_fault(f, -DG_EINTERNAL, it->mark, "copy: %zu bytes at %p and %p overlap",
                            it->bytes, it->to, it->from);
    return 0;
}

/* NOLINTBEGIN(bugprone-sizeof-expression): pointers are compared, not what they point to */
#define ADD(x) h = dg_hash64(h, &(x), sizeof(x))

/* Field by field: padding may change. */
uint64_t dg_far_launch_digest(const dg_launch *l)
{
    const dg_args *a = l->args;
    uint64_t h = 0;

    ADD(l->kernel);
    ADD(l->args);
    ADD(l->guard);
    ADD(l->otherwise);
    ADD(l->zero_outputs);
    ADD(l->n_in);
    ADD(l->mark);
    ADD(a->t);
    ADD(a->n);
    ADD(a->attr);
    ADD(a->control);
    ADD(a->workspace);
    ADD(a->handle);
    ADD(a->threads);
    for (int i = 0; i < a->n; i++) {
        ADD(a->t[i].dtype);
        ADD(a->t[i].shape.rank);
        for (int k = 0; k < a->t[i].shape.rank; k++)
            ADD(a->t[i].shape.d[k]);
        ADD(a->t[i].data);
    }
    return h;
}
/* NOLINTEND(bugprone-sizeof-expression) */

/* ---- order ----------------------------------------------------------------------------------- */

/* Raises upto[lane] to all items that have to run before those that it counts. */
static void add_what_must_precede(const dg_far *f, uint64_t upto[DG_N_LANES])
{
    for (bool more = true; more;) {
        more = false;
        for (int lane = 0; lane < DG_N_LANES; lane++) {
            uint64_t seq = f->lanes[lane].done;

            for (const dg_far_item *it = f->lanes[lane].first; it && seq < upto[lane];
                 it = it->next, seq++)
                if (it->work == DG_FAR_WAIT && upto[it->until.lane] <= it->until.seq) {
                    upto[it->until.lane] = it->until.seq + 1;
                    more = true;
                }
        }
    }
}

/* Whether work that is pending and comes before the lane's next item may write to pinned memory
 * there: a call may write anywhere. */
static bool may_be_written_before(const dg_far *f, dg_lane lane, const void *p, size_t bytes)
{
    uint64_t upto[DG_N_LANES] = { 0 };

    upto[lane] = f->lanes[lane].queued;
    add_what_must_precede(f, upto);
    for (int k = 0; k < DG_N_LANES; k++) {
        uint64_t seq = f->lanes[k].done;

        for (const dg_far_item *it = f->lanes[k].first; it && seq < upto[k]; it = it->next, seq++) {
            range r;

            if (it->work == DG_FAR_CALL)
                return true;
            for (int i = 0; range_at(it, i, &r); i++)
                if (r.kind == DG_FAR_PINNED && r.written && overlap(r.p, r.bytes, p, bytes))
                    return true;
        }
    }
    return false;
}

static bool uses(const dg_far_item *it, const dg_far_block *b)
{
    range r;

    for (int k = 0; range_at(it, k, &r); k++)
        if (r.kind == b->kind && r.bytes && overlap(r.p, r.bytes, b->p, b->bytes))
            return true;
    return false;
}

bool dg_far_in_use(const dg_far *f, const dg_far_block *b)
{
    for (int lane = 0; lane < DG_N_LANES; lane++)
        for (const dg_far_item *it = f->lanes[lane].first; it; it = it->next)
            if (uses(it, b))
                return true;
    return false;
}

/* ---- queueing and waiting -------------------------------------------------------------------- */

static bool pending(const dg_far *f)
{
    for (int lane = 0; lane < DG_N_LANES; lane++)
        if (f->lanes[lane].first)
            return true;
    return false;
}

static void want_all(dg_far *f)
{
    for (int lane = 0; lane < DG_N_LANES; lane++)
        f->lanes[lane].goal = f->lanes[lane].queued;
}

int dg_far_put(dg_far *f, const dg_far_item *it)
{
    dg_far_lane *lane = &f->lanes[it->lane];
    bool idle = !pending(f);
    dg_far_item *copy = malloc(sizeof *copy);

    if (!copy)
        return -DG_EMEMORY;
    *copy = *it;
    copy->next = NULL;
    if (it->work == DG_FAR_UPLOAD && !it->owned && it->bytes &&
        !may_be_written_before(f, it->lane, it->from, it->bytes)) {
        copy->checked = true;
        copy->digest = dg_hash64(0, it->from, it->bytes);
    }
    if (it->work == DG_FAR_LAUNCH && !it->recorded)
        copy->digest = dg_far_launch_digest(it->launch);
    copy->fails = it->work == DG_FAR_LAUNCH && ++f->n_launches == f->options.fault;
    if (lane->last)
        lane->last->next = copy;
    else
        lane->first = copy;
    lane->last = copy;
    lane->queued++;
    f->last_call_s = dg_monotonic_s();
    if (f->options.eager)
        want_all(f);
    if (idle || f->options.eager)
        pthread_cond_signal(&f->work);
    return 0;
}

static int await(dg_far *f, const uint64_t upto[DG_N_LANES])
{
    if (pthread_equal(pthread_self(), f->thread)) /* a call that waits for the lane it is in */
        return dg_far_fault(f, -DG_EINTERNAL, DG_NO_MARK, "a call waits for the device");
    for (int lane = 0; lane < DG_N_LANES; lane++)
        if (f->lanes[lane].goal < upto[lane])
            f->lanes[lane].goal = upto[lane];
    pthread_cond_signal(&f->work);
    for (int lane = 0; lane < DG_N_LANES; lane++) {
        dg_far_waiter w = { f->waiters, { (dg_lane)lane, upto[lane] } };

        f->waiters = &w;
        while (f->lanes[lane].done < upto[lane])
            pthread_cond_wait(&f->passed, &f->lock);
        for (dg_far_waiter **at = &f->waiters; *at; at = &(*at)->next)
            if (*at == &w) {
                *at = w.next;
                break;
            }
    }
    return f->status;
}

int dg_far_await(dg_far *f, dg_far_place until)
{
    uint64_t upto[DG_N_LANES] = { 0 };

    upto[until.lane] = until.seq + 1;
    add_what_must_precede(f, upto);
    return await(f, upto);
}

int dg_far_await_all(dg_far *f)
{
    uint64_t upto[DG_N_LANES];

    for (int lane = 0; lane < DG_N_LANES; lane++)
        upto[lane] = f->lanes[lane].queued;
    return await(f, upto);
}

void dg_far_await_users(dg_far *f, const dg_far_block *b)
{
    uint64_t upto[DG_N_LANES] = { 0 };

    for (int lane = 0; lane < DG_N_LANES; lane++) {
        uint64_t seq = f->lanes[lane].done;

        for (const dg_far_item *it = f->lanes[lane].first; it; it = it->next, seq++)
            if (uses(it, b))
                upto[lane] = seq + 1;
    }
    add_what_must_precede(f, upto);
    await(f, upto);
}

/* ---- the worker ------------------------------------------------------------------------------ */

static int copy_bytes(const dg_far_item *it)
{
    if (it->bytes)
        memcpy(it->to, it->from, it->bytes);
    return 0;
}

/* Without the lock. why: what else there is to say about a failure. */
static int perform(const dg_far_item *it, const char **why)
{
    switch (it->work) {
    case DG_FAR_UPLOAD:
        *why = "pinned memory changed between the call and its execution";
        if (it->checked && dg_hash64(0, it->from, it->bytes) != it->digest)
            return -DG_EINTERNAL;
        return copy_bytes(it);
    case DG_FAR_DOWNLOAD:
    case DG_FAR_COPY:
        return copy_bytes(it);
    case DG_FAR_CLEAR:
        if (it->bytes)
            memset(it->to, 0, it->bytes);
        return 0;
    case DG_FAR_LAUNCH:
        *why = it->recorded ? "recording is stale" : "its descriptor changed before it ran";
        if (dg_far_launch_digest(it->launch) != it->digest)
            return -DG_EINTERNAL;
        *why = "fault=N asked for it";
        if (it->fails)
            return -DG_EIO;
        *why = "its kernel failed";
        return dg_launch_now(it->launch);
    case DG_FAR_CALL:
        *why = "its function failed";
        return it->fn(it->ctx);
    case DG_FAR_SIGN:
        __atomic_store_n(it->word, it->value, __ATOMIC_RELEASE);
        return 0;
    default:
        return 0;
    }
}

/* Device memory as this item may see it. */
static int open_or_close(dg_far *f, const dg_far_item *it)
{
    range r;

    if (it->work == DG_FAR_CALL)
        dg_far_memory_close(&f->memory);
    else if (range_at(it, 0, &r))
        return dg_far_memory_open(&f->memory);
    return 0;
}

static void wake_waiters(dg_far *f)
{
    for (const dg_far_waiter *w = f->waiters; w; w = w->next)
        if (f->lanes[w->until.lane].done >= w->until.seq) {
            pthread_cond_broadcast(&f->passed);
            return;
        }
}

static void run_first(dg_far *f, dg_far_lane *lane)
{
    dg_far_item *it = lane->first;
    const char *why = "device memory cannot be opened";
    int rc = 0;

    if (f->status == 0) { /* else dropped */
        rc = open_or_close(f, it);
        pthread_mutex_unlock(&f->lock);
        if (rc == 0)
            rc = perform(it, &why);
        pthread_mutex_lock(&f->lock);
    }
    if (rc < 0)
        dg_far_fault(f, rc, it->mark, "%s: %s", work_names[it->work], why);
    lane->first = it->next;
    if (!it->next)
        lane->last = NULL;
    lane->done++;
    free(it->owned);
    free(it);
    wake_waiters(f);
}

/* The lane whose first item runs next, or NULL: nothing has to run now. */
static dg_far_lane *choose(dg_far *f)
{
    dg_far_lane *ready[DG_N_LANES];
    bool wanted = false;
    int n = 0;

    for (int k = 0; k < DG_N_LANES; k++)
        wanted = wanted || f->lanes[k].done < f->lanes[k].goal;
    for (int k = 0; k < DG_N_LANES && wanted; k++) {
        dg_far_lane *lane = &f->lanes[k];
        const dg_far_item *it = lane->first;
        /* A call that is not waited for may block an item that is. */
        bool ahead = it && f->options.seed != 0 && it->work != DG_FAR_CALL;

        if (!it || (lane->done >= lane->goal && !ahead))
            continue;
        if (it->work == DG_FAR_WAIT && f->lanes[it->until.lane].done <= it->until.seq)
            continue;
        ready[n++] = lane;
    }
    if (!wanted)
        return NULL;
    assert(n > 0); /* a wait is for an earlier item: there is a first one */
    return ready[n == 1 ? 0 : dg_rng_below(&f->order, (uint64_t)n)];
}

/* Until there may be something to run; items that are not waited for run after `patience`. */
static void idle(dg_far *f)
{
    double at = f->last_call_s + (double)f->options.patience_ms / 1e3;
    struct timespec until = { (time_t)floor(at), (long)((at - floor(at)) * 1e9) };

    dg_far_memory_close(&f->memory);
    if (!pending(f))
        pthread_cond_wait(&f->work, &f->lock);
    else if (dg_monotonic_s() >= at)
        want_all(f);
    else
        pthread_cond_timedwait(&f->work, &f->lock, &until);
}

void *dg_far_worker(void *far)
{
    dg_far *f = far;

    pthread_mutex_lock(&f->lock);
    while (!f->stopped || pending(f)) {
        dg_far_lane *lane;

        if (f->stopped)
            want_all(f);
        lane = choose(f);
        if (lane)
            run_first(f, lane);
        else
            idle(f);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}
