/* work.c: what is put on lanes, and waiting for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/host/internal.h"

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
    dg_cuda *c = dg_cuda_lock(self);
    dg_cuda_lane *on = &c->lanes[lane];
    const dg_cuda_kernel *k = (const dg_cuda_kernel *)l->kernel;
    const dg_cuda_call call = { l->args, l->guard, &on->queue };
    int rc = c->status;

    if (!dg_cuda_may_put(c, lane) || !may_be_skipped(l, k))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    on->mark = l->mark;
    on->marked = false;
    if (rc == 0 && k)
        rc = k->enqueue(&call);
    if (rc == 0 && l->guard)
        rc = put_skipped(c, on, l);
    on->mark = DG_NO_MARK;
    return dg_cuda_unlock(c, rc);
}

static int launch_joined(dg_backend *self, dg_lane lane, const dg_launch *l, int n, bool in_turn)
{
    dg_cuda *c = dg_cuda_lock(self);
    dg_cuda_lane *on = &c->lanes[lane];
    int rc = c->status;

    if (!dg_cuda_may_put(c, lane))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
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
    return dg_cuda_unlock(c, rc);
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
    dg_cuda *c = dg_cuda_lock(self);
    bool pageable = bytes && !dg_cuda_ranges_at(&c->pinned, host, bytes);
    int rc;

    if (!dg_cuda_may_put(c, lane) || (pageable && c->recording))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    c->table.n_put += bytes != 0;
    rc = bytes ? dg_cuda_check(c, c->r->copy(c->r, c->lanes[lane].stream, to, from, bytes),
                               DG_NO_MARK, "a copy")
               : c->status;
    dg_cuda_unlock(c, 0);
    if (rc < 0 || !pageable)
        return rc;
    rc = c->r->stream_wait(c->r, c->lanes[lane].stream);
    dg_cuda_lock(self);
    return dg_cuda_unlock(c, status_after_wait(c, rc, "a copy"));
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
    dg_cuda *c = dg_cuda_lock(self);

    if (!dg_cuda_may_put(c, lane))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    c->table.n_put += bytes != 0;
    return dg_cuda_unlock(c, bytes ? dg_cuda_check(c,
                                                   c->r->copy(c->r, c->lanes[lane].stream, to, from,
                                                              bytes),
                                                   DG_NO_MARK, "a copy")
                                   : c->status);
}

static int clear(dg_backend *self, dg_lane lane, void *p, size_t bytes)
{
    dg_cuda *c = dg_cuda_lock(self);

    if (!dg_cuda_may_put(c, lane))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    c->table.n_put += bytes != 0;
    return dg_cuda_unlock(c,
                          bytes
                              ? dg_cuda_check(c, c->r->clear(c->r, c->lanes[lane].stream, p, bytes),
                                              DG_NO_MARK, "a clear")
                              : c->status);
}

/* ---- events and waiting ---------------------------------------------------------------------- */

static dg_event *event_open(dg_backend *self)
{
    dg_cuda *c = dg_cuda_lock(self);
    dg_event *e = calloc(1, sizeof *e);

    if (e &&
        (c->r->event_open(c->r, &e->inner, false) || c->r->event_open(c->r, &e->outer, false))) {
        dg_cuda_event_free(c, e);
        e = NULL;
    }
    dg_cuda_unlock(c, 0);
    return e;
}

static dg_event *stamp_open(dg_backend *self)
{
    dg_cuda *c = dg_cuda_lock(self);
    dg_event *e = calloc(1, sizeof *e);

    if (e && c->r->event_open(c->r, &e->outer, true)) {
        free(e);
        e = NULL;
    }
    dg_cuda_unlock(c, 0);
    return e;
}

static int seconds(dg_backend *self, dg_event *from, dg_event *to, double *s)
{
    dg_cuda *c = dg_cuda_lock(self);
    int rc = c->r->event_seconds(c->r, from->outer, to->outer, s);

    return dg_cuda_unlock(c, dg_cuda_check(c, rc, DG_NO_MARK, "the time of an event"));
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
    dg_cuda *c = dg_cuda_lock(self);

    if ((*e)->n_users)
        (*e)->closed = true;
    else
        dg_cuda_event_free(c, *e);
    *e = NULL;
    dg_cuda_unlock(c, 0);
}

static int event_record(dg_backend *self, dg_event *e, dg_lane lane)
{
    dg_cuda *c = dg_cuda_lock(self);

    if (!dg_cuda_may_put(c, lane))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    if (c->recording)
        return dg_cuda_unlock(c, e->inner ? dg_cuda_record_event(c, e, lane) : -DG_EUNSUPPORTED);
    return dg_cuda_unlock(c,
                          dg_cuda_check(c,
                                        c->r->event_record(c->r, e->outer, c->lanes[lane].stream),
                                        DG_NO_MARK, "an event"));
}

static int lane_wait(dg_backend *self, dg_lane lane, dg_event *e)
{
    dg_cuda *c = dg_cuda_lock(self);

    if (c->recording)
        return dg_cuda_unlock(c, dg_cuda_record_wait(c, lane, e));
    return dg_cuda_unlock(c,
                          dg_cuda_check(c, c->r->event_order(c->r, c->lanes[lane].stream, e->outer),
                                        DG_NO_MARK, "an event"));
}

static int event_wait(dg_backend *self, dg_event *e)
{
    dg_cuda *c = dg_cuda_lock(self);
    int rc;

    if (c->recording)
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    dg_cuda_unlock(c, 0);
    rc = c->r->event_wait(c->r, e->outer);
    dg_cuda_lock(self);
    return dg_cuda_unlock(c, status_after_wait(c, rc, "waiting for an event"));
}

static int finish(dg_backend *self)
{
    dg_cuda *c = dg_cuda_lock(self);
    bool recording = c->recording != NULL;
    int rc = 0;

    dg_cuda_unlock(c, 0);
    if (recording)
        return -DG_EUNSUPPORTED;
    for (int lane = 0; lane < DG_N_LANES && rc == 0; lane++)
        rc = c->r->stream_wait(c->r, c->lanes[lane].stream);
    dg_cuda_lock(self);
    return dg_cuda_unlock(c, status_after_wait(c, rc, "waiting for the device"));
}

static int fault(dg_backend *self)
{
    dg_cuda *c = dg_cuda_lock(self);

    return dg_cuda_unlock(c, c->status < 0 ? c->mark : DG_NO_MARK);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static int record_begin(dg_backend *self, dg_lane lane)
{
    dg_cuda *c = dg_cuda_lock(self);

    return dg_cuda_unlock(c, dg_cuda_record_begin(c, lane));
}

static int record_end(dg_backend *self, dg_recording **r)
{
    dg_cuda *c = dg_cuda_lock(self);

    return dg_cuda_unlock(c, dg_cuda_record_end(c, r));
}

static int replay(dg_backend *self, dg_lane lane, const dg_recording *r)
{
    dg_cuda *c = dg_cuda_lock(self);

    return dg_cuda_unlock(c, dg_cuda_replay(c, lane, r));
}

static void recording_close(dg_backend *self, dg_recording **r)
{
    dg_cuda *c = dg_cuda_lock(self);

    dg_cuda_recording_close(c, *r);
    *r = NULL;
    dg_cuda_unlock(c, 0);
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
    b->call = dg_cuda_call_host;
    b->sign = dg_cuda_sign_word;
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
