/* backend.c: memory of a CUDA device, its opening and closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#include "base/diag.h"
#include "kernels/cuda/host/internal.h"

/* ---- memory ---------------------------------------------------------------------------------- */

void *dg_cuda_room(void *items, int n, int *cap, size_t bytes)
{
    const int more = 2 * n + 64;
    void *grown;

    if (n < *cap)
        return items;
    grown = realloc(items, (size_t)more * bytes);
    if (grown)
        *cap = more;
    return grown;
}

bool dg_cuda_ranges_add(dg_cuda_ranges *r, dg_cuda_range one)
{
    dg_cuda_range *items = dg_cuda_room(r->items, r->n, &r->cap, sizeof *items);

    if (!items)
        return false;
    r->items = items;
    r->items[r->n++] = one;
    return true;
}

const dg_cuda_range *dg_cuda_ranges_at(const dg_cuda_ranges *r, const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p;

    for (int i = 0; i < r->n; i++) {
        uintptr_t begin = (uintptr_t)r->items[i].p;

        if (at >= begin && at + bytes <= begin + r->items[i].bytes)
            return &r->items[i];
    }
    return NULL;
}

static int memory(dg_backend *self, int64_t *free_bytes, int64_t *total_bytes)
{
    dg_cuda *c = dg_cuda_lock(self);
    size_t have = 0, total = 0;
    int rc = dg_cuda_check(c, c->r->memory(c->r, &have, &total), DG_NO_MARK, "asking for memory");

    *free_bytes = (int64_t)have;
    *total_bytes = (int64_t)total;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* Zeros are there before any lane can see the memory. */
static void *alloc(dg_backend *self, size_t bytes)
{
    dg_cuda *c = dg_cuda_lock(self);
    dg_cuda_stream *s = c->lanes[DG_LANE_COPY].stream;
    size_t n = bytes ? bytes : 1;
    void *p = NULL;
    int rc = c->recording ? DG_CUDA_NOT_SUPPORTED : c->r->alloc(c->r, &p, n);

    if (rc == 0) {
        rc = c->r->clear(c->r, s, p, n);
        rc = rc ? rc : c->r->stream_wait(c->r, s);
    }
    if (rc && p) {
        c->r->free(c->r, p);
        p = NULL;
    }
    if (rc && rc != DG_CUDA_NO_MEMORY && rc != DG_CUDA_INVALID_VALUE && !c->recording)
        dg_cuda_check(c, rc, DG_NO_MARK, "an allocation");
    pthread_mutex_unlock(&c->lock);
    return p;
}

/* The lanes' work may use the memory: whatever it is, it is done first. */
static void free_device(dg_backend *self, void *p)
{
    dg_cuda *c = (dg_cuda *)self;

    if (!p)
        return;
    (void)self->finish(self);
    dg_cuda_lock(self);
    dg_cuda_check(c, c->r->free(c->r, p), DG_NO_MARK, "freeing memory");
    pthread_mutex_unlock(&c->lock);
}

static void *alloc_pinned(dg_backend *self, size_t bytes)
{
    dg_cuda *c = dg_cuda_lock(self);
    size_t n = bytes ? bytes : 1;
    void *p = NULL;

    if (c->recording || c->r->alloc_pinned(c->r, &p, n)) {
        p = NULL;
    } else if (!dg_cuda_ranges_add(&c->pinned, (dg_cuda_range){ .p = p, .bytes = n })) {
        c->r->free_pinned(c->r, p);
        p = NULL;
    } else {
        memset(p, 0, n);
    }
    pthread_mutex_unlock(&c->lock);
    return p;
}

static void free_pinned(dg_backend *self, void *p)
{
    dg_cuda *c = dg_cuda_lock(self);

    for (int i = 0; i < c->pinned.n && p; i++)
        if (c->pinned.items[i].p == p) {
            c->pinned.items[i] = c->pinned.items[--c->pinned.n];
            dg_cuda_check(c, c->r->free_pinned(c->r, p), DG_NO_MARK, "freeing pinned memory");
            break;
        }
    pthread_mutex_unlock(&c->lock);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const dg_kernel *select_kernel(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                                      bool *is_ref)
{
    const dg_cuda_kernel *k = ((dg_cuda *)self)->module->find(op->name, t, n);

    *is_ref = false;
    return k ? &k->base : NULL;
}

static bool prefers_wide(dg_backend *self, const dg_op *op, const dg_tensor *t, int n)
{
    (void)self, (void)op, (void)t, (void)n;
    return false;
}

/* What the libraries multiply, they want in one type. */
static bool wants_casts(dg_backend *self, const dg_op *op)
{
    (void)self;
    return strcmp(op->name, "matmul") == 0;
}

static dg_dtype low_precision(dg_backend *self, const char **reason)
{
    bool fast = ((dg_cuda *)self)->r->has_bf16;

    *reason = fast ? "bf16: the device multiplies it at twice the rate of f32 or more"
                   : "f32: the device has no products of bf16";
    return fast ? DG_BF16 : DG_F32;
}

static bool allow_tf32(dg_backend *self)
{
    dg_cuda *c = dg_cuda_lock(self);

    c->tf32 = c->r->has_tf32;
    pthread_mutex_unlock(&c->lock);
    return c->tf32;
}

static const char *describe(dg_backend *self, char *buf, size_t n)
{
    dg_cuda *c = dg_cuda_lock(self);
    char device[160];

    c->r->describe(c->r, device, sizeof device);
    snprintf(buf, n, "%s%s%s", device, c->status < 0 ? "; " : "", c->status < 0 ? c->why : "");
    pthread_mutex_unlock(&c->lock);
    return buf;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void release(dg_cuda *c)
{
    void *handle = c->handle;

    if (c->r) {
        if (c->order)
            dg_cuda_event_free(c, c->order);
        for (int i = 0; i < c->n_plans; i++)
            c->r->plan_close(c->r, c->plans[i].plan);
        for (int i = 0; i < c->n_conv_plans; i++)
            if (c->conv_plans[i].plan)
                c->r->conv_close(c->r, c->conv_plans[i].plan);
        for (int i = 0; i < c->observed.n; i++)
            if (!c->observed.items[i].refused)
                c->r->unpin(c->r, c->observed.items[i].p);
        if (c->workspace)
            c->r->free(c->r, c->workspace);
        if (c->counters)
            c->r->free(c->r, c->counters);
        dg_cuda_close_lanes(c);
        c->r->close(c->r);
    }
    free(c->pinned.items);
    free(c->observed.items);
    free(c->plans);
    free(c->conv_plans);
    free(c->parts);
    free(c->bytes);
    free(c->followed);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->jobs_lock);
    free(c->nccl);
    free(c);
    if (handle)
        dlclose(handle);
}

static void close_device(dg_backend **self)
{
    dg_cuda *c = (dg_cuda *)*self;

    if (c->recording) {
        dg_recording *r;

        if (dg_cuda_record_end(c, &r) == 0)
            dg_cuda_recording_close(c, r);
    }
    (void)(*self)->finish(*self);
    release(c);
    *self = NULL;
}

static int open_counters(dg_cuda *c)
{
    dg_cuda_lane *compute = &c->lanes[DG_LANE_COMPUTE];
    const size_t bytes = DG_CUDA_COUNTERS * sizeof *c->counters;
    void *p = NULL;
    int rc = c->r->alloc(c->r, &p, bytes);

    c->counters = compute->queue.counters = p;
    rc = rc ? rc : c->r->clear(c->r, compute->stream, p, bytes);
    return rc ? rc : c->r->stream_wait(c->r, compute->stream);
}

static int open_parts(dg_cuda *c)
{
    int rc = dg_cuda_open_lanes(c);

    rc = rc ? rc : open_counters(c);

    if (rc == 0 && c->r->workspace_bytes)
        rc = c->r->alloc(c->r, &c->workspace, c->r->workspace_bytes);
    if (rc == 0) {
        c->order = c->table.event_open(&c->table);
        rc = c->order ? 0 : DG_CUDA_NO_MEMORY;
    }
    return rc;
}

int dg_cuda_open_with(dg_backend **b, const dg_cuda_module *m, int number, const char *options,
                      dg_diag *d)
{
    dg_cuda *c = calloc(1, sizeof *c);
    char text[192];
    int rc;

    *b = NULL;
    if (!c)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a backend");
    c->table = (dg_backend){
        .name = "cuda",
        .immediate = false,
        .alignment = 256,
        .close = close_device,
        .describe = describe,
        .memory = memory,
        .alloc = alloc,
        .free = free_device,
        .alloc_pinned = alloc_pinned,
        .free_pinned = free_pinned,
        .select = select_kernel,
        .wants_casts = wants_casts,
        .prefers_wide = prefers_wide,
        .low_precision = low_precision,
        .allow_tf32 = allow_tf32,
        .peers_open = dg_cuda_peers_open,
    };
    dg_cuda_work_functions(&c->table);
    c->module = m;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->jobs_lock, NULL);
    rc = m->open(&c->r, number, options);
    if (rc == 0)
        rc = open_parts(c);
    if (rc == 0)
        c->table.limits = c->r->limits;
    if (rc) {
        release(c);
        dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "device-open", "cuda:%d does not open: %s", number,
                m->error(rc, text, sizeof text));
        dg_help(d, "`nvidia-smi` shows whether other processes fill or hold it");
        return -DG_EUNSUPPORTED;
    }
    *b = &c->table;
    return 0;
}
