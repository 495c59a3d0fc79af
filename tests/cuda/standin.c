/* standin.c: see standin.h. The module's table. */
#include "tests/cuda/standin.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- words ----------------------------------------------------------------------------------- */

static bool parse(standin_words *w, const char *words)
{
    const struct {
        const char *name;
        int64_t *value;
    } known[] = { { "devices=", &w->devices }, { "error=", &w->error }, { "memory=", &w->memory },
                  { "fault=", &w->fault },     { "seed=", &w->seed },   { "share=", &w->share },
                  { "plain=", &w->plain },     { "idle=", &w->idle } };

    *w = (standin_words){ .devices = 1 };
    while (*words) {
        size_t n = strcspn(words, ","), i = 0;
        char *end = NULL;

        while (i < sizeof known / sizeof known[0] &&
               strncmp(words, known[i].name, strlen(known[i].name)) != 0)
            i++;
        if (i == sizeof known / sizeof known[0])
            return false;
        *known[i].value = strtoll(words + strlen(known[i].name), &end, 10);
        if (end != words + n || *known[i].value < 0)
            return false;
        words += n + (words[n] == ',');
    }
    return true;
}

static int look(const char *options, int *n, char *text, size_t size)
{
    standin_words w;

    *n = 0;
    snprintf(text, size, "a stand-in of CUDA for tests, on the CPU");
    if (!parse(&w, options))
        return DG_CUDA_BAD_OPTION;
    *n = (int)w.devices;
    return (int)w.error;
}

static const char *error_text(int code, char *buf, size_t n)
{
    static const struct {
        int code;
        const char *text;
    } known[] = {
        { DG_CUDA_INVALID_VALUE, "cudaErrorInvalidValue" },
        { DG_CUDA_NO_MEMORY, "cudaErrorMemoryAllocation: out of memory" },
        { DG_CUDA_OLD_DRIVER, "cudaErrorInsufficientDriver" },
        { DG_CUDA_NO_DEVICE, "cudaErrorNoDevice" },
        { DG_CUDA_ILLEGAL_ADDRESS,
          "cudaErrorIllegalAddress: an illegal memory access was encountered" },
        { DG_CUDA_CAPTURE_FIRST, "cudaErrorStreamCaptureUnsupported" },
    };

    snprintf(buf, n, "CUDA's error %d", code);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == code)
            snprintf(buf, n, "%s", known[i].text);
    return buf;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int memory(dg_cuda_runtime *r, size_t *free_bytes, size_t *total_bytes)
{
    standin *s = standin_lock(r);
    int64_t all = s->words.memory ? s->words.memory : (int64_t)8 << 30;

    *free_bytes = (size_t)(all - s->used);
    *total_bytes = (size_t)all;
    return standin_unlock(s, s->error);
}

static int new_block(dg_cuda_runtime *r, void **p, size_t bytes, bool device)
{
    standin *s = standin_lock(r);
    int rc = standin_outside_capture(s);

    *p = rc ? NULL : standin_block_new(s, bytes, device);
    return standin_unlock(s, rc ? rc : *p ? 0 : DG_CUDA_NO_MEMORY);
}

static int alloc(dg_cuda_runtime *r, void **p, size_t bytes)
{
    return new_block(r, p, bytes, true);
}

static int alloc_pinned(dg_cuda_runtime *r, void **p, size_t bytes)
{
    return new_block(r, p, bytes, false);
}

/* Waits for all work, as cudaFree does. */
static int drop_block(dg_cuda_runtime *r, void *p)
{
    standin *s = standin_lock(r);
    int rc = s->graph ? standin_outside_capture(s) : 0;

    for (int i = 0; i < STANDIN_STREAMS && rc == 0; i++)
        if (s->streams[i])
            standin_await(s, s->streams[i], s->streams[i]->queued);
    if (rc == 0 && !standin_block_at(s, p))
        rc = DG_CUDA_INVALID_VALUE;
    if (rc == 0)
        standin_block_drop(s, standin_block_at(s, p));
    return standin_unlock(s, s->error ? s->error : rc);
}

static int pin(dg_cuda_runtime *r, void *p, size_t bytes, void **device)
{
    standin *s = standin_lock(r);
    void *known = standin_block_at(s, p), *place = NULL;
    int rc = standin_outside_capture(s);

    if (rc == 0)
        rc = known ? DG_CUDA_ALREADY_REGISTERED : 0;
    if (rc == 0) {
        place = standin_block_new(s, 1, false); /* a row in the list */
        rc = place ? 0 : DG_CUDA_NO_MEMORY;
    }
    if (rc == 0) {
        free(place);
        s->blocks[s->n_blocks - 1] = (standin_block){ .p = p, .bytes = bytes, .foreign = true };
    }
    *device = p;
    return standin_unlock(s, rc);
}

/* ---- streams and events ---------------------------------------------------------------------- */

static int stream_open(dg_cuda_runtime *r, dg_cuda_stream **out)
{
    standin *s = standin_lock(r);
    int i = 0;

    while (i < STANDIN_STREAMS && s->streams[i])
        i++;
    *out = i < STANDIN_STREAMS ? calloc(1, sizeof **out) : NULL;
    if (*out) {
        (*out)->owner = r;
        (*out)->index = i;
        s->streams[i] = *out;
    }
    return standin_unlock(s, *out ? s->error : DG_CUDA_NO_MEMORY);
}

static void stream_close(dg_cuda_runtime *r, dg_cuda_stream *on)
{
    standin *s = standin_lock(r);

    standin_await(s, on, on->queued);
    s->streams[on->index] = NULL;
    standin_unlock(s, 0);
    free(on);
}

static int stream_wait(dg_cuda_runtime *r, dg_cuda_stream *on)
{
    standin *s = standin_lock(r);
    int rc = on->captured ? standin_outside_capture(s) : 0;

    return standin_unlock(s, rc ? rc : standin_await(s, on, on->queued));
}

static int event_open(dg_cuda_runtime *r, dg_cuda_event **e, bool timed)
{
    (void)r;
    *e = calloc(1, sizeof **e);
    if (*e)
        (*e)->timed = timed;
    return *e ? 0 : DG_CUDA_NO_MEMORY;
}

static void event_close(dg_cuda_runtime *r, dg_cuda_event *e)
{
    standin *s = standin_lock(r);

    e->closed = true;
    if (!e->n_stamps)
        free(e);
    standin_unlock(s, 0);
}

/* Only between timed events that have passed. */
static int event_seconds(dg_cuda_runtime *r, dg_cuda_event *from, dg_cuda_event *to,
                         double *seconds)
{
    standin *s = standin_lock(r);
    bool fine = from->timed && to->timed && from->recorded && to->recorded && !from->n_stamps &&
                !to->n_stamps;

    *seconds = fine ? to->passed_s - from->passed_s : 0;
    return standin_unlock(s, s->error ? s->error : fine ? 0 : DG_CUDA_INVALID_VALUE);
}

static int event_record(dg_cuda_runtime *r, dg_cuda_event *e, dg_cuda_stream *on)
{
    standin *s = standin_lock(r);

    if (on->captured) {
        on->seen[on->index]++;
        e->capture = s->n_captures;
        memcpy(e->seen, on->seen, sizeof e->seen);
        return standin_unlock(s, s->error);
    }
    e->capture = 0;
    e->recorded = true;
    if (e->timed && !s->error) {
        e->n_stamps++;
        standin_put(s, on, &(standin_item){ .work = STANDIN_STAMP, .stamp = e });
    }
    e->stream = on;
    e->seq = on->queued;
    return standin_unlock(s, s->error);
}

static int event_order(dg_cuda_runtime *r, dg_cuda_stream *on, dg_cuda_event *e)
{
    standin *s = standin_lock(r);

    if (s->graph && e->capture == s->n_captures) {
        on->captured = true;
        for (int i = 0; i < STANDIN_STREAMS; i++)
            if (on->seen[i] < e->seen[i])
                on->seen[i] = e->seen[i];
        return standin_unlock(s, s->error);
    }
    if (on->captured || e->capture) { /* across the border of a capture */
        s->invalid = s->invalid || on->captured;
        return standin_unlock(s, DG_CUDA_CAPTURE_FIRST + 5);
    }
    if (!e->recorded)
        return standin_unlock(s, s->error);
    return standin_unlock(s, standin_put(s, on,
                                         &(standin_item){ .work = STANDIN_ORDER,
                                                          .until = e->stream,
                                                          .seq = e->seq }));
}

static int event_wait(dg_cuda_runtime *r, dg_cuda_event *e)
{
    standin *s = standin_lock(r);

    if (e->capture)
        return standin_unlock(s, DG_CUDA_CAPTURE_LAST - 1);
    return standin_unlock(s, e->recorded ? standin_await(s, e->stream, e->seq) : s->error);
}

/* ---- work ------------------------------------------------------------------------------------ */

static int put(dg_cuda_runtime *r, dg_cuda_stream *on, const standin_item *it)
{
    standin *s = standin_lock(r);

    return standin_unlock(s, on->owner == r ? standin_put(s, on, it) : DG_CUDA_INVALID_VALUE);
}

static int copy(dg_cuda_runtime *r, dg_cuda_stream *on, void *to, const void *from, size_t bytes)
{
    return put(r, on,
               &(standin_item){ .work = STANDIN_COPY, .to = to, .from = from, .bytes = bytes });
}

static int clear(dg_cuda_runtime *r, dg_cuda_stream *on, void *p, size_t bytes)
{
    return put(r, on, &(standin_item){ .work = STANDIN_CLEAR, .to = p, .bytes = bytes });
}

static int launch(dg_cuda_runtime *r, dg_cuda_stream *on, dg_cuda_function f, dg_cuda_grid grid,
                  const void *params, size_t bytes, const int32_t *guard, dg_cuda_place here)
{
    if (grid.blocks < 1 || grid.threads < DG_CUDA_WARP || grid.threads > DG_CUDA_THREADS ||
        grid.threads % DG_CUDA_WARP || grid.shared > r->shared_limit || bytes > 32000)
        return DG_CUDA_INVALID_CONFIGURATION;
    return put(r, on,
               &(standin_item){ .work = STANDIN_LAUNCH,
                                .kernel = f,
                                .grid = grid,
                                .params = (void *)(uintptr_t)params,
                                .bytes = bytes,
                                .guard = guard,
                                .here = here });
}

static int call(dg_cuda_runtime *r, dg_cuda_stream *on, void (*fn)(void *ctx), void *ctx)
{
    return put(r, on, &(standin_item){ .work = STANDIN_CALL, .fn = fn, .ctx = ctx });
}

/* Other processes wait for it, so it is not left for later. */
static int put_peers(dg_cuda_stream *on, void (*fn)(void *ctx), void *ctx)
{
    standin *s = standin_lock(on->owner);
    int rc = on->captured ? standin_outside_capture(s) : 0;

    if (rc == 0)
        rc = standin_put(s, on, &(standin_item){ .work = STANDIN_PEERS, .fn = fn, .ctx = ctx });
    if (rc == 0)
        on->goal = on->queued;
    return standin_unlock(s, rc);
}

static int use(dg_cuda_runtime *r)
{
    return ((standin *)r)->error;
}

/* ---- products -------------------------------------------------------------------------------- */

static int plan_open(dg_cuda_runtime *r, dg_cuda_plan **plan, const dg_cuda_product *p)
{
    *plan = malloc(sizeof **plan);
    if (!*plan)
        return DG_CUDA_NO_MEMORY;
    (*plan)->product = *p;
    return ((standin *)r)->error;
}

static void plan_close(dg_cuda_runtime *r, dg_cuda_plan *plan)
{
    (void)r;
    free(plan);
}

static int plan_run(dg_cuda_runtime *r, dg_cuda_stream *on, dg_cuda_plan *plan,
                    const dg_cuda_multiplied *at, void *workspace)
{
    if (!workspace)
        return DG_CUDA_INVALID_VALUE;
    return put(r, on,
               &(standin_item){
                   .work = STANDIN_PRODUCT, .product = plan->product, .multiplied = *at });
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* No plan for 7x7, and none that adds a bias to an odd number of results: so what follows where
 * the library has none runs, too. */
static int conv_open(dg_cuda_runtime *r, dg_cuda_conv_plan **plan, const dg_cuda_convolution *p)
{
    *plan = NULL;
    if (p->kh == 7 || ((p->bias || p->residual || p->act) && p->o % 2))
        return ((standin *)r)->error;
    *plan = malloc(sizeof **plan);
    if (!*plan)
        return DG_CUDA_NO_MEMORY;
    (*plan)->what = *p;
    return ((standin *)r)->error;
}

static void conv_close(dg_cuda_runtime *r, dg_cuda_conv_plan *plan)
{
    (void)r;
    free(plan);
}

static int conv_run(dg_cuda_runtime *r, dg_cuda_stream *on, dg_cuda_conv_plan *plan,
                    const dg_cuda_convolved *at, void *workspace)
{
    if (!workspace)
        return DG_CUDA_INVALID_VALUE;
    return put(r, on,
               &(standin_item){
                   .work = STANDIN_CONVOLUTION, .convolution = plan->what, .at = *at });
}

/* ---- opening and closing --------------------------------------------------------------------- */

static const char *describe(dg_cuda_runtime *r, char *buf, size_t n)
{
    (void)r;
    snprintf(buf, n, "a stand-in of CUDA for tests, on the CPU");
    return buf;
}

static void write_counts(const standin *s)
{
    const char *path = getenv("STANDIN_COUNTS");
    FILE *f = path ? fopen(path, "a") : NULL;

    if (!f)
        return;
    fprintf(f,
            "kernels %lld products %lld convolutions %lld copies %lld waits %lld graphs %lld "
            "replays %lld "
            "direct %lld\n",
            (long long)s->n_launches, (long long)s->n_products, (long long)s->n_convolutions,
            (long long)s->n_copies, (long long)s->n_waits, (long long)s->n_graphs,
            (long long)s->n_replays, (long long)s->n_direct);
    fclose(f);
}

static void close_runtime(dg_cuda_runtime *r)
{
    standin *s = standin_lock(r);

    s->stopped = true;
    pthread_cond_signal(&s->work);
    standin_unlock(s, 0);
    pthread_join(s->thread, NULL);
    write_counts(s);
    while (s->n_blocks)
        standin_block_drop(s, &s->blocks[0]);
    free(s->blocks);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->passed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const dg_cuda_runtime table = {
    .shared_limit = 227 << 10,
    .workspace_bytes = 4096,
    .has_bf16 = true,
    .has_tf32 = true,
    .limits = { 1e12, 1e14, 1e15 },
    .close = close_runtime,
    .describe = describe,
    .use = use,
    .memory = memory,
    .alloc = alloc,
    .free = drop_block,
    .alloc_pinned = alloc_pinned,
    .free_pinned = drop_block,
    .pin = pin,
    .unpin = drop_block,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_wait = stream_wait,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .event_order = event_order,
    .event_wait = event_wait,
    .event_seconds = event_seconds,
    .copy = copy,
    .clear = clear,
    .launch = launch,
    .call = call,
    .capture_begin = standin_capture_begin,
    .capture_end = standin_capture_end,
    .graph_launch = standin_graph_launch,
    .graph_close = standin_graph_close,
    .plan_open = plan_open,
    .plan_close = plan_close,
    .plan_run = plan_run,
    .conv_open = conv_open,
    .conv_close = conv_close,
    .conv_run = conv_run,
};

/* Signals sent to the process are for the caller's threads; a crash is its own. */
static int start_thread(standin *s)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
    sigset_t blocked, before;
    int rc;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rc = pthread_create(&s->thread, NULL, standin_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static atomic_int n_opened;

static int open_runtime(dg_cuda_runtime **r, int device, const char *options)
{
    standin *s = calloc(1, sizeof *s);
    int rc = 0;

    *r = NULL;
    if (!s)
        return DG_CUDA_NO_MEMORY;
    if (!parse(&s->words, options))
        rc = DG_CUDA_BAD_OPTION;
    else if (device >= s->words.devices)
        rc = DG_CUDA_INVALID_DEVICE;
    s->table = table;
    if (s->words.plain) {
        s->table.conv_open = NULL;
        s->table.has_tf32 = false;
    }
    s->rng = (uint64_t)s->words.seed;
    s->put_peers = put_peers;
    if (!s->words.share)
        snprintf((char *)s->table.id, sizeof s->table.id, "%d.%d", (int)getpid(),
                 atomic_fetch_add(&n_opened, 1));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->passed, NULL);
    if (rc == 0 && start_thread(s))
        rc = DG_CUDA_NO_MEMORY;
    if (rc)
        free(s);
    else
        *r = &s->table;
    return rc;
}

#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
extern const dg_cuda_module dg_cuda_this_module;
const dg_cuda_module dg_cuda_this_module = {
    .version = DG_CUDA_VERSION,
    .name = "the stand-in of CUDA",
    .look = look,
    .open = open_runtime,
    .error = error_text,
    .find = dg_cuda_find,
    .sign = dg_cuda_sign,
    .skip = dg_cuda_skip,
    .add_up = dg_cuda_add_up,
};
