/* cmd_bench.c: `detrgraph bench`: how fast a pipeline trains, and where the time goes. The batch is
 * in memory: random pixels and about seven objects per image; every step is complete, with
 * matching, clipping, AdamW and EMA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "config.h"
#include "report/memory_info.h"
#include "report/profile.h"
#include "runtime/fit_batch.h"
#include "runtime/programs.h"
#include "runtime/step.h"

typedef struct opts {
    dg_words sets;
    dg_size size;
    const char *format, *precision, *device;
    int64_t batch, steps, threads;
} opts;

static const dg_option options[] = {
    { "size", DG_OPTION_SIZE, offsetof(opts, size), "S|WxH", NULL,
      "image size (default: the pipeline's largest)" },
    { "batch", DG_OPTION_INT, offsetof(opts, batch), "B", NULL,
      "images per batch; the same as --set batch=B" },
    { "steps", DG_OPTION_COUNT, offsetof(opts, steps), "N", NULL,
      "steps to measure (10), after five warm-up steps" },
    DG_OPTION_SETS(opts),
    DG_OPTION_PRECISION(opts),
    DG_OPTION_DEVICE(opts),
    DG_OPTION_THREADS(opts),
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json", "output format (text)" },
    { 0 },
};

enum { WARM = 5, PROFILED = 3 };

typedef struct bench {
    dg_run *run;
    dg_programs *programs;
    dg_arena *arena;
    int64_t batch;
    double first_s; /* from process start to the end of the first step */
    int n;
    double *step_s;
    double waits, launches, replays, host_s; /* per step; host_s: without waiting */
    dg_profile *profile;                     /* of PROFILED steps */
    int64_t slab_bytes, planned_bytes, peak_bytes;
    int64_t device_bytes; /* in use of the device's memory; 0: that of the host */
} bench;

/* ---- the process ----------------------------------------------------------------------------- */

/* Seconds since a process started, to a hundredth: field 22 of /proc/PID/stat, in clock ticks since
 * boot. */
static double age_of(long pid)
{
    char path[48], text[1024];
    unsigned long long ticks = 0;
    struct timespec now;
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    f = fopen(path, "re");
    n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* the name before it may contain anything */

    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %llu", &ticks) != 1)
        return 0;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
           (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* ---- a batch in memory ----------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Objects that an image of the batch has room for. */
static int64_t room_for_objects(bench *b)
{
    for (int i = 0; i < dg_run_n_inputs(b->run); i++)
        if (ends_in(dg_run_input_at(b->run, i).name, "labels"))
            return dg_run_input_at(b->run, i).shape.d[1];
    return 0;
}

/* A whole number of the input: 5 to 9 objects an image, images as large as the canvas, labels 0. */
static int32_t whole_number(dg_run_tensor t, int64_t k, dg_size canvas, int64_t room, dg_rng *rng)
{
    int64_t count;

    if (ends_in(t.name, "sizes"))
        return (int32_t)(k % 2 ? canvas.w : canvas.h);
    if (!ends_in(t.name, "count"))
        return 0;
    count = 5 + (int64_t)dg_rng_below(rng, 5);
    return (int32_t)(count < room ? count : room);
}

static int feed_random(bench *b, dg_size canvas, dg_diag *d)
{
    dg_rng rng = dg_rng_begin(dg_rng_named(1, "bench"), 0, 0);
    const int64_t room = room_for_objects(b);
    int rc = 0;

    for (int i = 0; rc == 0 && i < dg_run_n_inputs(b->run); i++) {
        dg_run_tensor t = dg_run_input_at(b->run, i);
        int64_t n = dg_shape_elements(t.shape);
        double *real = dg_try_alloc((size_t)n * sizeof *real);
        int32_t *whole = (int32_t *)real;

        if (!real)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for the batch");
        if (t.dtype == DG_I32)
            for (int64_t k = 0; k < n; k++)
                whole[k] = whole_number(t, k, canvas, room, &rng);
        else
            dg_rng_uniforms(dg_rng_named(1, t.name), 0, real, n);
        if (ends_in(t.name, "boxes"))
            for (int64_t k = 0; k < n; k++)
                real[k] = k % 4 < 2 ? dg_rng_scaled(real[k], 0.3, 0.7)
                                    : dg_rng_scaled(real[k], 0.05, 0.5);
        rc = dg_run_feed(b->run, t.name, real, n, d);
        dg_free(real);
        if (i == 0)
            b->batch = t.shape.d[0];
    }
    return rc;
}

/* ---- where the time goes --------------------------------------------------------------------- */

static void measure(void *ctx, int instr, const dg_ran *how)
{
    bench *b = ctx;

    dg_profile_add(b->profile, b->programs->current->plan, instr, how->end_s - how->begin_s,
                   how->pieces);
}

static int by_value(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int one_step(bench *b, double *seconds, dg_diag *d)
{
    double begin = dg_monotonic_s();
    bool updated = false;
    int rc = 0;

    while (rc == 0 && !updated)
        rc = dg_run_train_batch(b->run, NULL, &updated, d);
    *seconds = dg_monotonic_s() - begin;
    return rc;
}

static void count_work(bench *b, dg_exec_counts before)
{
    dg_exec_counts now = dg_exec_count(b->programs->current->exec);

    b->waits = (double)(now.waits - before.waits) / b->n;
    b->launches = (double)(now.launches - before.launches) / b->n;
    b->replays = (double)(now.replays - before.replays) / b->n;
    b->host_s = -(now.waited_s - before.waited_s) / b->n;
    for (int i = 0; i < b->n; i++)
        b->host_s += b->step_s[i] / b->n;
}

static dg_backend *device_of(const bench *b)
{
    return b->programs->conf.backend;
}

static int measure_all(bench *b, const opts *o, dg_diag *d)
{
    const dg_exec_observer profile = { .ctx = b, .ran = measure };
    const dg_graph *g = dg_run_pipeline(b->run)->graph;
    double ignored;
    dg_size size = o->size, *sizes;
    dg_exec_counts before;
    int64_t left, total;
    int n, batch, rc;

    if (!g->train)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "pipeline-without-train",
                       "the pipeline has no <train>: there is nothing to measure");
    DG_TRY(dg_scope_sizes(g->train, b->arena, &sizes, &n, &batch, d));
    if (!size.w)
        size = sizes[0];
    dg_run_horizon(b->run)->n_steps = g->train->steps;
    DG_TRY(dg_programs_use(b->programs, g->train, size, false, d));
    DG_TRY(feed_random(b, size, d));
    DG_TRY(one_step(b, &ignored, d));
    b->first_s = age_of(getppid());
    for (int i = 1; i < WARM; i++)
        DG_TRY(one_step(b, &ignored, d));
    b->n = o->steps > 0 ? (int)o->steps : 10;
    b->step_s = DG_NEW_N(b->arena, b->n, double);
    before = dg_exec_count(b->programs->current->exec);
    for (int i = 0; i < b->n; i++)
        DG_TRY(one_step(b, &b->step_s[i], d));
    count_work(b, before);
    qsort(b->step_s, (size_t)b->n, sizeof *b->step_s, by_value);
    dg_exec_observe(b->programs->current->exec, &profile);
    for (int i = 0; i < PROFILED; i++)
        DG_TRY(one_step(b, &ignored, d));
    dg_exec_unobserve(b->programs->current->exec, &profile);
    dg_profile_sort(b->profile);
    b->slab_bytes = b->programs->current->plan->slab_bytes;
    b->planned_bytes = dg_programs_bytes(b->programs, true);
    b->peak_bytes = dg_memory_peak();
    if (!device_of(b)->immediate && device_of(b)->memory(device_of(b), &left, &total) == 0)
        b->device_bytes = (int64_t)(total - left);
out:
    return rc;
}

/* ---- printing -------------------------------------------------------------------------------- */

static double images_per_s(const bench *b, double seconds)
{
    int accumulate = b->programs->current->program->accumulate;

    return (double)b->batch * (accumulate > 0 ? accumulate : 1) / seconds;
}

/* Steps are sorted, fastest first. */
static double quantile(const bench *b, double q)
{
    return b->step_s[(int)(q * (b->n - 1) + 0.5)];
}

/* A rate as a share of a limit; nothing where that is not known. */
static const char *share_of(char *buf, size_t n, double rate, double limit)
{
    snprintf(buf, n, "%6.1f", limit > 0 ? 100 * rate / limit : 0);
    return limit > 0 ? buf : "     -";
}

static double most_flops(const bench *b)
{
    const dg_limits *l = &device_of(b)->limits;

    return strcmp(b->programs->precision, "bf16") == 0  ? l->flops_bf16
           : strcmp(b->programs->precision, "f32") == 0 ? l->flops_f32
                                                        : 0;
}

/* On a device that works later: pieces of work, and rates as shares of what it can do. */
static void print_device_share(const bench *b, const dg_share *s)
{
    char of_flops[16], of_bytes[16];

    dg_say(" %7.1f %s %s", s->pieces / PROFILED,
           share_of(of_flops, sizeof of_flops, s->flops / s->seconds, most_flops(b)),
           share_of(of_bytes, sizeof of_bytes, s->bytes / s->seconds, device_of(b)->limits.bytes));
}

static void print_shares(const bench *b, const char *title, const dg_shares *list)
{
    bool late = !device_of(b)->immediate;

    dg_say("\n%-28s %9s %6s %9s %7s %6s%s\n", title, "ms", "%", "GFLOP/s", "GB/s", "ref %",
           late ? "  pieces FLOP/s% GB/s%" : "");
    for (int i = 0; i < list->n && list->items[i].seconds > 0.001 * b->profile->all.seconds; i++) {
        const dg_share *s = &list->items[i];

        dg_say("%-28s %9.2f %6.1f %9.1f %7.1f %6.1f", s->name, 1e3 * s->seconds / PROFILED,
               100 * s->seconds / b->profile->all.seconds, 1e-9 * s->flops / s->seconds,
               1e-9 * s->bytes / s->seconds, 100 * s->ref_s / s->seconds);
        if (late)
            print_device_share(b, s);
        dg_say("\n");
    }
}

static void print_device(const bench *b, double median)
{
    const dg_share *all = &b->profile->all;
    const dg_limits *l = &device_of(b)->limits;
    double works = all->seconds / PROFILED;
    char text[320];

    dg_say("device: %s\n",
           b->programs->conf.backend->describe(b->programs->conf.backend, text, sizeof text));
    dg_say("a step: %.0f pieces of work of the device, %.2f ms, %.0f %% of the step; "
           "%.2f ms of the host's own\n",
           all->pieces / PROFILED, 1e3 * works, 100 * works / median, 1e3 * b->host_s);
    if (most_flops(b) > 0 && l->bytes > 0)
        dg_say(
            "the device can do %.1f TFLOP/s in %s and %.0f GB/s at most: a step does %.1f %% and "
            "%.1f %% of it\n",
            1e-12 * most_flops(b), b->programs->precision, 1e-9 * l->bytes,
            100 * all->flops / PROFILED / median / most_flops(b),
            100 * all->bytes / PROFILED / median / l->bytes);
}

static void print_staged(const bench *b)
{
    dg_str ops = { 0 };

    dg_plan_staged(&ops, b->programs->current->plan);
    if (ops.n)
        dg_say("on the host, for want of kernels of the device: %s\n", ops.s);
    dg_str_free(&ops);
}

static void print_text(const bench *b)
{
    const dg_share *all = &b->profile->all;
    const dg_graph *g = b->programs->conf.graph;
    double median = quantile(b, 0.5);
    char slab[32], planned[32], peak[32], features[128];

    dg_say("%s, %lldx%lld, batch %lld, %s, %d thread%s, CPU %s\n", g->name ? g->name : g->file,
           (long long)b->programs->current->size.w, (long long)b->programs->current->size.h,
           (long long)b->batch, b->programs->precision, b->programs->conf.threads,
           dg_plural(b->programs->conf.threads, "s"), dg_cpu_features(features, sizeof features));
    dg_say("median %.3f images/s, %.4f s a step (10 %% to 90 %%: %.4f to %.4f s, of %d step%s)\n",
           images_per_s(b, median), median, quantile(b, 0.1), quantile(b, 0.9), b->n,
           dg_plural(b->n, "s"));
    dg_say("%.1f GFLOP/s, %.1f GB/s of operands; %.2f GFLOP a step\n",
           1e-9 * all->flops / PROFILED / median, 1e-9 * all->bytes / PROFILED / median,
           1e-9 * all->flops / PROFILED);
    dg_say("reference kernels: %.2f %% of a step's time\n", 100 * all->ref_s / all->seconds);
    if (b->waits > 0)
        dg_say("a step: %.1f waits of the host for the device, %.1f launches, %.1f replays\n",
               b->waits, b->launches, b->replays);
    if (!device_of(b)->immediate)
        print_device(b, median);
    print_staged(b);
    dg_say("memory: peak %s; planned %s, of which %s intermediate values\n",
           dg_human_bytes((double)b->peak_bytes, peak, sizeof peak),
           dg_human_bytes((double)b->planned_bytes, planned, sizeof planned),
           dg_human_bytes((double)b->slab_bytes, slab, sizeof slab));
    if (b->device_bytes)
        dg_say("%s of the device are in use\n",
               dg_human_bytes((double)b->device_bytes, peak, sizeof peak));
    dg_say("first step ended %.2f s after the process began\n", b->first_s);
    print_shares(b, "node", &b->profile->nodes);
    print_shares(b, "op", &b->profile->ops);
}

static void print_json(const bench *b)
{
    const dg_share *all = &b->profile->all;
    double median = quantile(b, 0.5);
    char features[128];
    dg_str s = { 0 }, staged = { 0 };

    dg_plan_staged(&staged, b->programs->current->plan);
    dg_str_fmt(&s,
               "{\"width\":%lld,\"height\":%lld,\"batch\":%lld,\"precision\":\"%s\",\"threads\":%d,"
               "\"cpu\":",
               (long long)b->programs->current->size.w, (long long)b->programs->current->size.h,
               (long long)b->batch, b->programs->precision, b->programs->conf.threads);
    dg_str_json(&s, dg_cpu_features(features, sizeof features));
    dg_str_fmt(
        &s,
        ",\"images_per_s\":%.4f,\"step_s\":%.6f,\"step_s_10\":%.6f,\"step_s_90\":%.6f,\"steps\":%d",
        images_per_s(b, median), median, quantile(b, 0.1), quantile(b, 0.9), b->n);
    dg_str_fmt(&s,
               ",\"gflops_per_s\":%.3f,\"gb_per_s\":%.3f,\"gflops_a_step\":%.3f,\"ref_share\":%.6f,"
               "\"host_waits\":%.2f,\"launches\":%.2f,"
               "\"replays\":%.2f,\"device_pieces\":%.1f,\"device_s\":%.6f,\"host_s\":%.6f,"
               "\"limit_gflops\":%.1f,\"limit_gb\":%.1f",
               1e-9 * all->flops / PROFILED / median, 1e-9 * all->bytes / PROFILED / median,
               1e-9 * all->flops / PROFILED, all->ref_s / all->seconds, b->waits, b->launches,
               b->replays, all->pieces / PROFILED,
               device_of(b)->immediate ? 0 : all->seconds / PROFILED,
               device_of(b)->immediate ? median : b->host_s, 1e-9 * most_flops(b),
               1e-9 * device_of(b)->limits.bytes);
    dg_str_fmt(&s,
               ",\"peak_bytes\":%lld,\"device_memory_bytes\":%lld,\"planned_bytes\":%lld,"
               "\"slab_bytes\":%lld,\"first_step_s\":%.3f",
               (long long)b->peak_bytes, (long long)b->device_bytes, (long long)b->planned_bytes,
               (long long)b->slab_bytes, b->first_s);
    dg_str_add(&s, ",\"staged\":");
    dg_str_json(&s, staged.s ? staged.s : "");
    dg_str_free(&staged);
    dg_str_add(&s, ",");
    dg_profile_json(&s, "nodes", &b->profile->nodes, PROFILED);
    dg_str_add(&s, ",");
    dg_profile_json(&s, "ops", &b->profile->ops, PROFILED);
    dg_str_add(&s, "}");
    dg_say("%s\n", s.s);
    dg_str_free(&s);
}

/* Sets the batch that the pipeline leaves open, as a run would, or one of this size only; sets has
 * room for one more. */
static void choose_batch(dg_run_options *how, dg_size size, const char **sets, dg_arena *a)
{
    const dg_world alone = { .ranks = 1, .nodes = 1, .local_ranks = 1 };
    dg_diag *ignored = dg_diag_open(); /* the run is opened once more, and says it then */
    dg_run_options look = *how;
    dg_run *run;
    dg_fit fit;
    int most = 0;

    look.evaluates_only = true; /* so that the batch stays open */
    if (dg_run_open_unmade(&run, &look, &alone, ignored) == 0 && dg_run_pipeline(run)->graph->train)
        most = dg_run_pipeline(run)->graph->open_batch.most;
    dg_run_close(&run);
    dg_diag_close(&ignored);
    if (most) {
        dg_fit_batch(&fit, how, &alone, most, size.w ? &size : NULL);
        sets[how->n_sets++] = dg_printf(a, "batch=%d", fit.batch);
    }
}

static int run_bench(const opts *o, const char *file, dg_arena *a)
{
    bench b = { .arena = a, .profile = dg_profile_open() };
    dg_diag *d = dg_diag_open();
    const char **sets = DG_NEW_N(a, o->sets.n + 2, const char *);
    int rc, n = o->sets.n;

    if (n)
        memcpy(sets, o->sets.v, (size_t)n * sizeof *sets);
    if (o->batch > 0)
        sets[n++] = dg_printf(a, "batch=%lld", (long long)o->batch);

    dg_run_options how = {
        .size = sizeof how,
        .file = file,
        .n_sets = n,
        .sets = sets,
        .precision = o->precision,
        .device = dg_device_asked(o->device),
        .program = "detrgraph " PACKAGE_VERSION,
        .threads = (int)o->threads,
        .no_pretrained = true,
    };

    choose_batch(&how, o->size, sets, a);
    how.log = dg_log_warning; /* of the run itself */
    DG_TRY(dg_run_open(&b.run, &how, d));
    b.programs = dg_run_programs(b.run);
    DG_TRY(measure_all(&b, o, d));
    if (o->format && strcmp(o->format, "json") == 0)
        print_json(&b);
    else
        print_text(&b);
out:
    fflush(stdout);
    dg_print_diag_files(d);
    dg_profile_close(&b.profile);
    dg_run_close(&b.run);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_bench(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    int code;

    return dg_launch_alone((int)o->threads, &code) ? code : run_bench(o, words->v[0], a);
}

static const dg_example examples[] = {
    { "bench quickstart.xml --precision bf16", "Show where the time of a step goes." },
    { 0 },
};

const dg_verb dg_verb_bench = {
    .name = "bench",
    .args = "FILE [--size S] [--batch B] [--precision f32|bf16] [--steps N] [--format json]",
    .brief = "Benchmark training steps: images/s, time per node and op, memory.",
    .doc = "Runs whole training steps on one batch of random images with about seven objects each; "
           "reads no data. A batch=\"auto\" is the largest that fits into memory, as in a run.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = verb_bench,
};
