/* work.c: what is put on lanes, and waiting for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/host/internal.h"

static dg_cuda *lock(dg_backend *self)
{
    dg_cuda *c = (dg_cuda *)self;

    pthread_mutex_lock(&c->lock);
    return c;
}

static int unlock(dg_cuda *c, int rc)
{
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Errors of the call itself; others are those of work that ran before. */
static bool is_of_the_call(int code)
{
    return code == DG_CUDA_INVALID_VALUE || code == DG_CUDA_NO_MEMORY ||
           code == DG_CUDA_INVALID_CONFIGURATION || code == DG_CUDA_INVALID_FUNCTION ||
           code == DG_CUDA_NO_IMAGE || code == DG_CUDA_NO_RESOURCES ||
           code == DG_CUDA_NOT_SUPPORTED;
}

static bool is_of_a_capture(int code)
{
    return code >= DG_CUDA_CAPTURE_FIRST && code <= DG_CUDA_CAPTURE_LAST;
}

static bool is_followed(const dg_cuda *c)
{
    return c->mark + 1 >= 0 && c->mark + 1 < c->n_followed && c->followed[c->mark + 1];
}

int dg_cuda_check(dg_cuda *c, int code, int mark, const char *what)
{
    char text[192];

    if (code == 0)
        return c->status;
    if (is_of_a_capture(code) && c->status == 0)
        return -DG_EUNSUPPORTED;
    if (c->status == 0) {
        c->status = code == DG_CUDA_NO_MEMORY ? -DG_EMEMORY : -DG_EIO;
        c->mark = is_of_the_call(code) && mark != DG_NO_MARK
                      ? mark
                      : __atomic_load_n(c->lanes[0].word, __ATOMIC_RELAXED);
        snprintf(c->why, sizeof c->why, "%s, seen in %s%s",
                 c->module->error(code, text, sizeof text), what,
                 is_followed(c) ? "; it, or the library's work that follows it" : "");
    }
    return c->status;
}

/* A job's failure becomes the device's when somebody waits. */
static int status_after_wait(dg_cuda *c, int code, const char *what)
{
    int rc = dg_cuda_check(c, code, DG_NO_MARK, what);

    pthread_mutex_lock(&c->jobs_lock);
    if (rc == 0 && c->job_status < 0) {
        c->status = rc = c->job_status;
        c->mark = c->job_mark;
        snprintf(c->why, sizeof c->why, "a call of the host failed");
    }
    pthread_mutex_unlock(&c->jobs_lock);
    return rc;
}

/* ---- launches -------------------------------------------------------------------------------- */

static int put_kernel(dg_cuda_queue *q, dg_cuda_function f, dg_cuda_grid grid, const void *params,
                      size_t bytes, const int32_t *guard)
{
    dg_cuda_lane *lane = (dg_cuda_lane *)q;
    dg_cuda *c = lane->owner;

    if (c->collecting)
        return dg_cuda_collect(c, lane, f, grid, params, bytes, guard);
    q->many = NULL;
    return dg_cuda_put_kernel(c, lane, f, grid, params, bytes, guard, lane->mark);
}

int dg_cuda_put_kernel(dg_cuda *c, dg_cuda_lane *lane, dg_cuda_function f, dg_cuda_grid grid,
                       const void *params, size_t bytes, const int32_t *guard, int mark)
{
    dg_cuda_place here = { mark == DG_NO_MARK ? NULL : lane->word, mark };

    lane->marked = true;
    lane->before = mark == DG_NO_MARK ? lane->before : mark;
    c->table.n_put++;
    return dg_cuda_check(c, c->r->launch(c->r, lane->stream, f, grid, params, bytes, guard, here),
                         mark, "a launch");
}

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

/* What a launch leaves whose guard is 0. */
static int put_skipped(dg_cuda *c, dg_cuda_lane *lane, const dg_launch *l)
{
    const dg_tensor *t = l->args->t, *out = t + l->n_in;
    int rc = 0;

    if (l->otherwise >= 0)
        return t[l->otherwise].data == out->data
                   ? 0
                   : c->module->skip(&lane->queue, l->guard, out->data, t[l->otherwise].data,
                                     bytes_of(out));
    for (int k = 0; k < l->args->n - l->n_in && rc == 0; k++)
        if (l->zero_outputs >> k & 1)
            rc = c->module->skip(&lane->queue, l->guard, out[k].data, NULL, bytes_of(&out[k]));
    return rc;
}

/* A library's work runs whatever the guard is: the operand that stays must be in another place. */
static bool may_be_skipped(const dg_launch *l, const dg_cuda_kernel *k)
{
    const dg_tensor *t = l->args->t;

    return !l->guard || !k || !k->unguarded || l->otherwise < 0 ||
           t[l->otherwise].data != t[l->n_in].data;
}

static int launch(dg_backend *self, dg_lane lane, const dg_launch *l)
{
    dg_cuda *c = lock(self);
    dg_cuda_lane *on = &c->lanes[lane];
    const dg_cuda_kernel *k = (const dg_cuda_kernel *)l->kernel;
    const dg_cuda_call call = { l->args, l->guard, &on->queue };
    int rc = c->status;

    if (!dg_cuda_may_put(c, lane) || !may_be_skipped(l, k))
        return unlock(c, -DG_EUNSUPPORTED);
    on->mark = l->mark;
    on->marked = false;
    if (rc == 0 && k)
        rc = k->enqueue(&call);
    if (rc == 0 && l->guard)
        rc = put_skipped(c, on, l);
    on->mark = DG_NO_MARK;
    return unlock(c, rc);
}

static int launch_joined(dg_backend *self, dg_lane lane, const dg_launch *l, int n, bool in_turn)
{
    dg_cuda *c = lock(self);
    dg_cuda_lane *on = &c->lanes[lane];
    int rc = c->status;

    if (!dg_cuda_may_put(c, lane))
        return unlock(c, -DG_EUNSUPPORTED);
    c->n_parts = 0;
    c->n_bytes = 0;
    c->collecting = true;
    for (int i = 0; i < n && rc == 0; i++) {
        const dg_cuda_call call = { l[i].args, l[i].guard, &on->queue };

        on->mark = l[i].mark;
        c->stage = 0;
        rc = ((const dg_cuda_kernel *)l[i].kernel)->enqueue(&call);
    }
    c->collecting = false;
    on->queue.many = NULL;
    rc = rc ? rc : dg_cuda_put_collected(c, on, in_turn);
    for (int i = 0; i < n && rc == 0; i++)
        if (l[i].guard) {
            on->mark = l[i].mark;
            rc = put_skipped(c, on, &l[i]);
        }
    on->mark = DG_NO_MARK;
    return unlock(c, rc);
}

/* Few results, so that one block computes them in less time than a launch takes. */
static dg_join joins(dg_backend *self, const dg_op *op, const dg_tensor *t, int n)
{
    enum { FEW = 2048 };
    const dg_cuda_kernel *k = ((dg_cuda *)self)->module->find(op->name, t, n);

    if (!k || k->joins != DG_JOIN_TURN)
        return k ? k->joins : DG_JOIN_NONE;
    return n && dg_shape_elements(t[n - 1].shape) <= FEW ? DG_JOIN_TURN : DG_JOIN_SIDE;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Any host memory but pinned is the caller's again when the call returns, so it waits. */
static int copy_host(dg_backend *self, dg_lane lane, void *to, const void *from, size_t bytes,
                     const void *host)
{
    dg_cuda *c = lock(self);
    bool pageable = bytes && !dg_cuda_ranges_at(&c->pinned, host, bytes);
    int rc;

    if (!dg_cuda_may_put(c, lane) || (pageable && c->recording))
        return unlock(c, -DG_EUNSUPPORTED);
    c->table.n_put += bytes != 0;
    rc = bytes ? dg_cuda_check(c, c->r->copy(c->r, c->lanes[lane].stream, to, from, bytes),
                               DG_NO_MARK, "a copy")
               : c->status;
    unlock(c, 0);
    if (rc < 0 || !pageable)
        return rc;
    rc = c->r->stream_wait(c->r, c->lanes[lane].stream);
    lock(self);
    return unlock(c, status_after_wait(c, rc, "a copy"));
}

static int upload(dg_backend *self, dg_lane lane, void *device, const void *host, size_t bytes)
{
    return copy_host(self, lane, device, host, bytes, host);
}

static int download(dg_backend *self, dg_lane lane, void *host, const void *device, size_t bytes)
{
    return copy_host(self, lane, host, device, bytes, host);
}

static int copy(dg_backend *self, dg_lane lane, void *to, const void *from, size_t bytes)
{
    dg_cuda *c = lock(self);

    if (!dg_cuda_may_put(c, lane))
        return unlock(c, -DG_EUNSUPPORTED);
    c->table.n_put += bytes != 0;
    return unlock(c,
                  bytes ? dg_cuda_check(c, c->r->copy(c->r, c->lanes[lane].stream, to, from, bytes),
                                        DG_NO_MARK, "a copy")
                        : c->status);
}

static int clear(dg_backend *self, dg_lane lane, void *p, size_t bytes)
{
    dg_cuda *c = lock(self);

    if (!dg_cuda_may_put(c, lane))
        return unlock(c, -DG_EUNSUPPORTED);
    c->table.n_put += bytes != 0;
    return unlock(c, bytes ? dg_cuda_check(c, c->r->clear(c->r, c->lanes[lane].stream, p, bytes),
                                           DG_NO_MARK, "a clear")
                           : c->status);
}

/* ---- calls and signs ------------------------------------------------------------------------- */

static void free_job(dg_cuda_job *j)
{
    *j->at = j->next;
    if (j->next)
        j->next->at = j->at;
    free(j);
}

void dg_cuda_work_failed(dg_cuda *c, int status, int mark)
{
    pthread_mutex_lock(&c->jobs_lock);
    if (c->job_status == 0) {
        c->job_status = status;
        c->job_mark = mark;
    }
    pthread_mutex_unlock(&c->jobs_lock);
}

/* On a thread of the runtime's. */
static void run_job(void *ctx)
{
    dg_cuda_job *j = ctx;
    dg_cuda *c = j->owner;
    int rc = j->fn(j->ctx);

    if (rc < 0)
        dg_cuda_work_failed(c, rc, j->mark);
    pthread_mutex_lock(&c->jobs_lock);
    if (!j->recorded)
        free_job(j);
    pthread_mutex_unlock(&c->jobs_lock);
}

static int put_job(dg_cuda *c, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark)
{
    dg_cuda_job *j = calloc(1, sizeof *j);
    int rc;

    if (!j)
        return -DG_EMEMORY;
    *j = (dg_cuda_job){ .owner = c,
                        .fn = fn,
                        .ctx = ctx,
                        .mark = mark,
                        .recorded = c->recording != NULL,
                        .recording = c->recording ? c->recording->number : 0 };
    pthread_mutex_lock(&c->jobs_lock);
    j->next = c->jobs;
    j->at = &c->jobs;
    if (c->jobs)
        c->jobs->at = &j->next;
    c->jobs = j;
    pthread_mutex_unlock(&c->jobs_lock);
    rc = c->r->call(c->r, c->lanes[lane].stream, run_job, j);
    if (rc) { /* it will not run */
        pthread_mutex_lock(&c->jobs_lock);
        free_job(j);
        pthread_mutex_unlock(&c->jobs_lock);
    }
    return dg_cuda_check(c, rc, mark, "a call of the host");
}

static int call(dg_backend *self, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark)
{
    dg_cuda *c = lock(self);

    if (!dg_cuda_may_put(c, lane))
        return unlock(c, -DG_EUNSUPPORTED);
    return unlock(c, put_job(c, lane, fn, ctx, mark));
}

/* Where kernels see the word, whose page gets pinned the first time. */
static const dg_cuda_range *pin_word(dg_cuda *c, uint32_t *word)
{
    const dg_cuda_range *known = dg_cuda_ranges_at(&c->observed, word, sizeof *word);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    dg_cuda_range one = { .p = (char *)word - (uintptr_t)word % page, .bytes = page };
    void *device = NULL;

    if (known || c->recording)
        return known;
    one.refused = c->r->pin(c->r, one.p, page, &device) != 0;
    one.device = device;
    if (!dg_cuda_ranges_add(&c->observed, one)) {
        if (!one.refused)
            c->r->unpin(c->r, one.p);
        return NULL;
    }
    return &c->observed.items[c->observed.n - 1];
}

typedef struct note {
    uint32_t *word, value;
} note;

static int write_word(void *ctx)
{
    note n = *(note *)ctx;

    __atomic_store_n(n.word, n.value, __ATOMIC_RELEASE);
    free(ctx);
    return 0;
}

/* A page that cannot be pinned, such as one that is read only elsewhere, is written by a call. */
static int sign_by_call(dg_cuda *c, dg_lane lane, uint32_t *word, uint32_t value)
{
    note *n = c->recording ? NULL : malloc(sizeof *n);
    int rc;

    if (!n)
        return c->recording ? -DG_EUNSUPPORTED : -DG_EMEMORY;
    *n = (note){ word, value };
    rc = put_job(c, lane, write_word, n, DG_NO_MARK);
    if (rc < 0)
        free(n);
    return rc;
}

static int sign(dg_backend *self, dg_lane lane, uint32_t *word, uint32_t value)
{
    dg_cuda *c = lock(self);
    const dg_cuda_range *page;

    if (!dg_cuda_may_put(c, lane))
        return unlock(c, -DG_EUNSUPPORTED);
    page = pin_word(c, word);
    if (!page && c->recording)
        return unlock(c, -DG_EUNSUPPORTED);
    if (!page || page->refused)
        return unlock(c, sign_by_call(c, lane, word, value));
    return unlock(c, c->module->sign(&c->lanes[lane].queue,
                                     (uint32_t *)(page->device + ((char *)word - page->p)), value));
}

/* ---- events and waiting ---------------------------------------------------------------------- */

static dg_event *event_open(dg_backend *self)
{
    dg_cuda *c = lock(self);
    dg_event *e = calloc(1, sizeof *e);

    if (e &&
        (c->r->event_open(c->r, &e->inner, false) || c->r->event_open(c->r, &e->outer, false))) {
        dg_cuda_event_free(c, e);
        e = NULL;
    }
    unlock(c, 0);
    return e;
}

static dg_event *stamp_open(dg_backend *self)
{
    dg_cuda *c = lock(self);
    dg_event *e = calloc(1, sizeof *e);

    if (e && c->r->event_open(c->r, &e->outer, true)) {
        free(e);
        e = NULL;
    }
    unlock(c, 0);
    return e;
}

static int seconds(dg_backend *self, dg_event *from, dg_event *to, double *s)
{
    dg_cuda *c = lock(self);
    int rc = c->r->event_seconds(c->r, from->outer, to->outer, s);

    return unlock(c, dg_cuda_check(c, rc, DG_NO_MARK, "the time of an event"));
}

void dg_cuda_event_free(dg_cuda *c, dg_event *e)
{
    if (e->inner)
        c->r->event_close(c->r, e->inner);
    if (e->outer)
        c->r->event_close(c->r, e->outer);
    free(e);
}

/* Memory of one that a recording has stays until that is closed. */
static void event_close(dg_backend *self, dg_event **e)
{
    dg_cuda *c = lock(self);

    if ((*e)->n_users)
        (*e)->closed = true;
    else
        dg_cuda_event_free(c, *e);
    *e = NULL;
    unlock(c, 0);
}

static int event_record(dg_backend *self, dg_event *e, dg_lane lane)
{
    dg_cuda *c = lock(self);

    if (!dg_cuda_may_put(c, lane))
        return unlock(c, -DG_EUNSUPPORTED);
    if (c->recording)
        return unlock(c, e->inner ? dg_cuda_record_event(c, e, lane) : -DG_EUNSUPPORTED);
    return unlock(c, dg_cuda_check(c, c->r->event_record(c->r, e->outer, c->lanes[lane].stream),
                                   DG_NO_MARK, "an event"));
}

static int lane_wait(dg_backend *self, dg_lane lane, dg_event *e)
{
    dg_cuda *c = lock(self);

    if (c->recording)
        return unlock(c, dg_cuda_record_wait(c, lane, e));
    return unlock(c, dg_cuda_check(c, c->r->event_order(c->r, c->lanes[lane].stream, e->outer),
                                   DG_NO_MARK, "an event"));
}

static int event_wait(dg_backend *self, dg_event *e)
{
    dg_cuda *c = lock(self);
    int rc;

    if (c->recording)
        return unlock(c, -DG_EUNSUPPORTED);
    unlock(c, 0);
    rc = c->r->event_wait(c->r, e->outer);
    lock(self);
    return unlock(c, status_after_wait(c, rc, "waiting for an event"));
}

static int finish(dg_backend *self)
{
    dg_cuda *c = lock(self);
    bool recording = c->recording != NULL;
    int rc = 0;

    unlock(c, 0);
    if (recording)
        return -DG_EUNSUPPORTED;
    for (int lane = 0; lane < DG_N_LANES && rc == 0; lane++)
        rc = c->r->stream_wait(c->r, c->lanes[lane].stream);
    lock(self);
    return unlock(c, status_after_wait(c, rc, "waiting for the device"));
}

static int fault(dg_backend *self)
{
    dg_cuda *c = lock(self);

    return unlock(c, c->status < 0 ? c->mark : DG_NO_MARK);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static int record_begin(dg_backend *self, dg_lane lane)
{
    dg_cuda *c = lock(self);

    return unlock(c, dg_cuda_record_begin(c, lane));
}

static int record_end(dg_backend *self, dg_recording **r)
{
    dg_cuda *c = lock(self);

    return unlock(c, dg_cuda_record_end(c, r));
}

static int replay(dg_backend *self, dg_lane lane, const dg_recording *r)
{
    dg_cuda *c = lock(self);

    return unlock(c, dg_cuda_replay(c, lane, r));
}

static void recording_close(dg_backend *self, dg_recording **r)
{
    dg_cuda *c = lock(self);

    dg_cuda_recording_close(c, *r);
    *r = NULL;
    unlock(c, 0);
}

/* ---- opening --------------------------------------------------------------------------------- */

int dg_cuda_open_lanes(dg_cuda *c)
{
    void *words = NULL;
    int rc = c->r->alloc_pinned(c->r, &words, DG_N_LANES * sizeof *c->words);

    c->words = words;
    for (int lane = 0; lane < DG_N_LANES && rc == 0; lane++) {
        dg_cuda_lane *l = &c->lanes[lane];

        l->queue = (dg_cuda_queue){ .launch = put_kernel,
                                    .product = dg_cuda_put_product,
                                    .convolve = dg_cuda_put_convolution,
                                    .shared_limit = c->r->shared_limit };
        l->owner = c;
        l->mark = l->before = DG_NO_MARK;
        l->word = &c->words[lane];
        *l->word = DG_NO_MARK;
        rc = c->r->stream_open(c->r, &l->stream);
    }
    return rc;
}

void dg_cuda_close_lanes(dg_cuda *c)
{
    for (int lane = 0; lane < DG_N_LANES; lane++)
        if (c->lanes[lane].stream)
            c->r->stream_close(c->r, c->lanes[lane].stream);
    if (c->words)
        c->r->free_pinned(c->r, c->words);
    for (dg_cuda_job *j = c->jobs, *next; j; j = next) {
        next = j->next;
        free(j);
    }
    c->jobs = NULL;
}

void dg_cuda_work_functions(dg_backend *b)
{
    b->launch = launch;
    b->joins = joins;
    b->launch_joined = launch_joined;
    b->upload = upload;
    b->download = download;
    b->copy = copy;
    b->clear = clear;
    b->call = call;
    b->sign = sign;
    b->event_open = event_open;
    b->event_close = event_close;
    b->event_record = event_record;
    b->lane_wait = lane_wait;
    b->event_wait = event_wait;
    b->stamp_open = stamp_open;
    b->seconds = seconds;
    b->finish = finish;
    b->fault = fault;
    b->record_begin = record_begin;
    b->record_end = record_end;
    b->replay = replay;
    b->recording_close = recording_close;
}
