/* far.c: the calls of the far device; see far.h. */
#include "kernels/far/far.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "kernels/far/far_internal.h"

static dg_far *lock(dg_backend *self)
{
    dg_far *f = (dg_far *)self;

    pthread_mutex_lock(&f->lock);
    return f;
}

static int unlock(dg_far *f, int rc)
{
    pthread_mutex_unlock(&f->lock);
    return rc;
}

/* ---- options --------------------------------------------------------------------------------- */

/* "512M": bytes; false: not a size. */
static bool parse_size(const char *text, int64_t *bytes)
{
    static const char units[] = "KMG";
    char digits[32];
    size_t n = strlen(text);
    const char *unit = n ? strchr(units, text[n - 1]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;

    if (n >= sizeof digits)
        return false;
    memcpy(digits, text, n + 1);
    if (unit)
        digits[n - 1] = '\0';
    if (!dg_parse_i64(digits, bytes) || *bytes > INT64_MAX >> shift)
        return false;
    *bytes <<= shift;
    return true;
}

/* Ops with kernels. */
static int parse_lack(dg_far_options *o, const char *name, dg_diag *d)
{
#define OP(name, signature, effect, ...) { #name, #effect },
    static const struct {
        const char *name, *effect;
    } ops[] = {
#include "kernels/ops.def"
    };
#undef OP

    if (strcmp(name, "all") == 0) {
        o->lacks_all = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i].name, name) == 0 && strcmp(ops[i].effect, "COLLECTIVE") != 0) {
            if (o->n_lacks == sizeof o->lacks / sizeof o->lacks[0])
                return dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option",
                               "far: it lacks %d ops at most", o->n_lacks);
            o->lacks[o->n_lacks++] = ops[i].name;
            return 0;
        }
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option",
                   "far: lacks=%s: there is no op with kernels of that name", name);
}

static int parse_option(dg_far_options *o, const char *option, dg_diag *d)
{
    const struct {
        const char *name; /* with its "=" */
        int64_t *value;
        int64_t least;
        bool size;
    } numbers[] = {
        { "seed=", &o->seed, 0, false },
        { "patience=", &o->patience_ms, 1, false },
        { "memory=", &o->memory, 1, true },
        { "fault=", &o->fault, 1, false },
    };
    const struct {
        const char *name;
        bool *value;
    } flags[] = { { "eager", &o->eager }, { "ref", &o->ref } };

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(option, flags[i].name) == 0) {
            *flags[i].value = true;
            return 0;
        }
    if (strncmp(option, "lacks=", 6) == 0)
        return parse_lack(o, option + 6, d);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t n = strlen(numbers[i].name);
        bool (*parse)(const char *, int64_t *) = numbers[i].size ? parse_size : dg_parse_i64;

        if (strncmp(option, numbers[i].name, n) != 0)
            continue;
        if (parse(option + n, numbers[i].value) && *numbers[i].value >= numbers[i].least)
            return 0;
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option", "far: \"%s\" has no valid value",
                       option);
    }
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option", "far: there is no option \"%s\"", option);
    dg_help(d, "options: ref, seed=N, eager, patience=MS, memory=SIZE, fault=N, lacks=OP");
    return -DG_EINPUT;
}

static int parse_options(dg_far_options *o, const char *device, dg_diag *d)
{
    const char *at = device + strcspn(device, ":");
    int rc = 0;

    *o = (dg_far_options){ .patience_ms = 200 };
    while (*at && rc == 0) {
        size_t n = strcspn(at + 1, ",");
        char *option = strndup(at + 1, n);

        if (!option)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for options");
        rc = parse_option(o, option, d);
        free(option);
        at += n + 1;
    }
    return rc;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int memory(dg_backend *self, int64_t *free_bytes, int64_t *total_bytes)
{
    dg_far *f = lock(self);

    if (!f->memory.limit)
        return unlock(f, f->cpu->memory(f->cpu, free_bytes, total_bytes));
    *free_bytes = f->memory.limit - f->memory.used;
    *total_bytes = f->memory.limit;
    return unlock(f, 0);
}

static void *alloc(dg_backend *self, size_t bytes)
{
    dg_far *f = lock(self);
    void *p = dg_far_memory_new(&f->memory, DG_FAR_DEVICE, bytes);

    unlock(f, 0);
    return p;
}

static void *alloc_pinned(dg_backend *self, size_t bytes)
{
    dg_far *f = lock(self);
    void *p = dg_far_memory_new(&f->memory, DG_FAR_PINNED, bytes);

    unlock(f, 0);
    return p;
}

/* Freed twice, or never allocated, is a fault as well. */
static const dg_far_block *find(dg_far *f, dg_far_kind kind, void *p)
{
    const dg_far_block *b = dg_far_memory_at(&f->memory, kind, p);

    if (!b && p)
        dg_far_fault(f, -DG_EINTERNAL, DG_NO_MARK, "free: %p is no %s memory", p,
                     kind == DG_FAR_PINNED ? "pinned" : "device");
    return b;
}

static void free_device(dg_backend *self, void *p)
{
    dg_far *f = lock(self);
    const dg_far_block *b = find(f, DG_FAR_DEVICE, p);

    if (b) {
        dg_far_await_users(f, b);
        b = dg_far_memory_at(&f->memory, DG_FAR_DEVICE, p); /* others may have moved the table */
    }
    if (b)
        dg_far_memory_drop(&f->memory, b);
    unlock(f, 0);
}

static void free_pinned(dg_backend *self, void *p)
{
    dg_far *f = lock(self);
    const dg_far_block *b = find(f, DG_FAR_PINNED, p);

    if (b && dg_far_in_use(f, b)) {
        dg_far_fault(f, -DG_EINTERNAL, DG_NO_MARK,
                     "pinned memory of %zu bytes was freed before the work that uses it was done",
                     b->bytes);
        dg_far_await_users(f, b); /* drops all but what is running */
        b = dg_far_memory_at(&f->memory, DG_FAR_PINNED, p);
    }
    if (b)
        dg_far_memory_drop(&f->memory, b);
    unlock(f, 0);
}

/* ---- work ------------------------------------------------------------------------------------ */

/* Onto its lane, or into the recording under way. */
static int put(dg_far *f, const dg_far_item *it)
{
    int rc = dg_far_check(f, it);

    if (rc < 0)
        return rc;
    return f->recording ? dg_far_record_put(f, it) : dg_far_put(f, it);
}

static int put_one(dg_backend *self, const dg_far_item *it)
{
    dg_far *f = lock(self);

    return unlock(f, put(f, it));
}

static bool is_pageable(const dg_far *f, const void *p, size_t bytes)
{
    return bytes && dg_far_memory_share(&f->memory, DG_FAR_PINNED, p, bytes) == DG_FAR_NONE;
}

static int upload(dg_backend *self, dg_lane lane, void *device, const void *host, size_t bytes)
{
    dg_far *f = lock(self);
    dg_far_item it = { .work = DG_FAR_UPLOAD,
                       .lane = lane,
                       .mark = DG_NO_MARK,
                       .to = device,
                       .from = host,
                       .bytes = bytes };
    int rc;

    if (is_pageable(f, host, bytes)) {
        if (f->recording)
            return unlock(f, -DG_EUNSUPPORTED);
        it.from = it.owned = malloc(bytes);
        if (!it.owned)
            return unlock(f, -DG_EMEMORY);
        memcpy(it.owned, host, bytes);
    }
    rc = put(f, &it);
    if (rc < 0)
        free(it.owned);
    return unlock(f, rc);
}

static int download(dg_backend *self, dg_lane lane, void *host, const void *device, size_t bytes)
{
    dg_far *f = lock(self);
    dg_far_item it = { .work = DG_FAR_DOWNLOAD,
                       .lane = lane,
                       .mark = DG_NO_MARK,
                       .to = host,
                       .from = device,
                       .bytes = bytes,
                       .pageable = is_pageable(f, host, bytes) };
    int rc;

    if (it.pageable && f->recording)
        return unlock(f, -DG_EUNSUPPORTED);
    rc = put(f, &it);
    if (rc == 0 && it.pageable)
        rc = dg_far_await(f, (dg_far_place){ lane, f->lanes[lane].queued - 1 });
    return unlock(f, rc);
}

static int copy(dg_backend *self, dg_lane lane, void *to, const void *from, size_t bytes)
{
    return put_one(self, &(dg_far_item){ .work = DG_FAR_COPY,
                                         .lane = lane,
                                         .mark = DG_NO_MARK,
                                         .to = to,
                                         .from = from,
                                         .bytes = bytes });
}

static int clear(dg_backend *self, dg_lane lane, void *p, size_t bytes)
{
    return put_one(self, &(dg_far_item){ .work = DG_FAR_CLEAR,
                                         .lane = lane,
                                         .mark = DG_NO_MARK,
                                         .to = p,
                                         .bytes = bytes });
}

static int launch(dg_backend *self, dg_lane lane, const dg_launch *l)
{
    return put_one(self, &(dg_far_item){
                             .work = DG_FAR_LAUNCH, .lane = lane, .mark = l->mark, .launch = l });
}

static int call(dg_backend *self, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark)
{
    return put_one(self,
                   &(dg_far_item){
                       .work = DG_FAR_CALL, .lane = lane, .mark = mark, .fn = fn, .ctx = ctx });
}

static int sign(dg_backend *self, dg_lane lane, uint32_t *word, uint32_t value)
{
    return put_one(self, &(dg_far_item){ .work = DG_FAR_SIGN,
                                         .lane = lane,
                                         .mark = DG_NO_MARK,
                                         .word = word,
                                         .value = value });
}

/* ---- events ---------------------------------------------------------------------------------- */

static dg_event *event_open(dg_backend *self)
{
    (void)self;
    return calloc(1, sizeof(dg_event));
}

static void event_close(dg_backend *self, dg_event **e)
{
    dg_far *f = lock(self);

    if (*e && (*e)->n_recordings)
        (*e)->closed = true;
    else
        free(*e);
    *e = NULL;
    unlock(f, 0);
}

static int event_record(dg_backend *self, dg_event *e, dg_lane lane)
{
    dg_far *f = lock(self);
    dg_far_item it = { .work = DG_FAR_RECORD, .lane = lane, .mark = DG_NO_MARK, .event = e };
    int rc = put(f, &it);

    if (rc == 0 && !f->recording) {
        e->recorded = true;
        e->at = (dg_far_place){ lane, f->lanes[lane].queued - 1 };
    }
    return unlock(f, rc);
}

static int lane_wait(dg_backend *self, dg_lane lane, dg_event *e)
{
    dg_far *f = lock(self);
    dg_far_item it = {
        .work = DG_FAR_WAIT, .lane = lane, .mark = DG_NO_MARK, .event = e, .until = e->at
    };

    return unlock(f, f->recording || e->recorded ? put(f, &it) : 0);
}

static int event_wait(dg_backend *self, dg_event *e)
{
    dg_far *f = lock(self);

    if (f->recording)
        return unlock(f, -DG_EUNSUPPORTED);
    return unlock(f, e->recorded ? dg_far_await(f, e->at) : f->status);
}

static int finish(dg_backend *self)
{
    dg_far *f = lock(self);

    return unlock(f, f->recording ? -DG_EUNSUPPORTED : dg_far_await_all(f));
}

static int fault(dg_backend *self)
{
    dg_far *f = lock(self);

    return unlock(f, f->status < 0 ? f->mark : DG_NO_MARK);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static int record_begin(dg_backend *self, dg_lane lane)
{
    dg_far *f = lock(self);

    return unlock(f, dg_far_record_begin(f, lane));
}

static int record_end(dg_backend *self, dg_recording **r)
{
    dg_far *f = lock(self);

    return unlock(f, dg_far_record_end(f, r));
}

static int replay(dg_backend *self, dg_lane lane, const dg_recording *r)
{
    dg_far *f = lock(self);

    return unlock(f, dg_far_replay(f, lane, r));
}

static void recording_close(dg_backend *self, dg_recording **r)
{
    dg_far *f = lock(self);

    dg_far_recording_free(*r);
    *r = NULL;
    unlock(f, 0);
}

/* ---- kernels: the host's --------------------------------------------------------------------- */

static const dg_kernel *select_kernel(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                                      bool *is_ref)
{
    const dg_far *f = (dg_far *)self;

    for (int i = 0; i < f->options.n_lacks; i++)
        if (strcmp(op->name, f->options.lacks[i]) == 0)
            return NULL;
    if (f->options.lacks_all)
        return NULL;
    return f->cpu->select(f->cpu, op, t, n, is_ref);
}

static bool prefers_wide(dg_backend *self, const dg_op *op, const dg_tensor *t, int n)
{
    dg_backend *cpu = ((dg_far *)self)->cpu;

    return cpu->prefers_wide(cpu, op, t, n);
}

static dg_dtype low_precision(dg_backend *self, const char **reason)
{
    dg_backend *cpu = ((dg_far *)self)->cpu;

    return cpu->low_precision(cpu, reason);
}

static const char *describe(dg_backend *self, char *buf, size_t n)
{
    dg_far *f = lock(self);

    if (f->status < 0)
        snprintf(buf, n, "far device for tests: host kernels, late; fault at mark %d: %s", f->mark,
                 f->why);
    else
        snprintf(buf, n, "far device for tests: host kernels, late");
    unlock(f, 0);
    return buf;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void release(dg_far *f)
{
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->passed);
    pthread_mutex_destroy(&f->lock);
    dg_backend_close(&f->cpu);
    free(f);
}

static void close_device(dg_backend **self)
{
    dg_far *f = lock(*self);

    f->stopped = true;
    pthread_cond_signal(&f->work);
    unlock(f, 0);
    pthread_join(f->thread, NULL);
    dg_far_recording_free(f->recording);
    dg_far_memory_drop_all(&f->memory);
    release(f);
    *self = NULL;
}

/* Signals sent to the process are for the caller's threads; a crash is its own. */
static int start_worker(dg_far *f)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
    sigset_t blocked, before;
    int rc;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rc = pthread_create(&f->thread, NULL, dg_far_worker, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? -DG_EMEMORY : 0;
}

static const dg_backend table = {
    .name = "far",
    .immediate = false,
    .alignment = 256,
    .close = close_device,
    .describe = describe,
    .memory = memory,
    .alloc = alloc,
    .free = free_device,
    .alloc_pinned = alloc_pinned,
    .free_pinned = free_pinned,
    .upload = upload,
    .download = download,
    .copy = copy,
    .clear = clear,
    .launch = launch,
    .call = call,
    .sign = sign,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .lane_wait = lane_wait,
    .event_wait = event_wait,
    .finish = finish,
    .fault = fault,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = replay,
    .recording_close = recording_close,
    .select = select_kernel,
    .prefers_wide = prefers_wide,
    .low_precision = low_precision,
};

int dg_far_open(dg_backend **b, const char *device, dg_diag *d)
{
    dg_far_options options;
    dg_backend *cpu = NULL;
    pthread_condattr_t attr;
    dg_far *f;
    int rc;

    *b = NULL;
    rc = parse_options(&options, device, d);
    if (rc == 0)
        rc = dg_backend_open(&cpu, options.ref ? "ref" : "cpu", d);
    if (rc < 0)
        return rc;
    f = calloc(1, sizeof *f);
    if (!f) {
        dg_backend_close(&cpu);
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a backend");
    }
    f->table = table;
    f->cpu = cpu;
    f->options = options;
    f->memory.limit = options.memory;
    f->order = dg_rng_begin(dg_rng_named((uint64_t)options.seed, "far"), 0, 0);
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->work, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&f->passed, NULL);
    if (start_worker(f) < 0) {
        release(f);
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no thread for a backend");
    }
    *b = &f->table;
    return 0;
}
