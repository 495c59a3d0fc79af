/* cmd_run.c: `detrgraph run`: trains a pipeline. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cluster.h"
#include "cli/gpus.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "config.h"
#include "control/rank_processes.h"
#include "runtime/run.h"

typedef struct opts {
    dg_words sets;
    const char *nodes, *coordinator, *key;
    const char *out, *max_time, *resume, *precision, *device, *seed;
    const char *trace, *debug, *ranks;
    int64_t steps, threads, max_restarts, node_rank, metrics_port;
    const char *lost_after;
    bool force, elastic, quiet, verbose;
} opts;

static const dg_option options[] = {
    { "out", DG_OPTION_STR, offsetof(opts, out), "DIR", NULL,
      "the run's folder (default: <checkpoint to=...>, else none)" },
    DG_OPTION_SETS(opts),
    { "steps", DG_OPTION_COUNT, offsetof(opts, steps), "N", NULL,
      "save and stop after step N; schedules are unchanged" },
    { "max-time", DG_OPTION_STR, offsetof(opts, max_time), "TIME", NULL,
      "save and stop after this time: \"90 s\", \"10 min\", \"8 h\"" },
    { "resume", DG_OPTION_MAYBE, offsetof(opts, resume), "[=auto|DIR]", NULL,
      "continue from the newest checkpoint in --out, or from DIR; auto: start fresh if there is "
      "none" },
    { "force", DG_OPTION_FLAG, offsetof(opts, force), NULL, NULL,
      "start over in a folder that holds a run" },
    { "quiet", DG_OPTION_FLAG, offsetof(opts, quiet), NULL, NULL,
      "(or -q) print warnings and errors only" },
    { "verbose", DG_OPTION_FLAG, offsetof(opts, verbose), NULL, NULL,
      "(or -v) print every step, and what is of use in looking for a fault" },
    DG_OPTION_PRECISION(opts),
    DG_OPTION_DEVICE(opts),
    { "threads", DG_OPTION_INT, offsetof(opts, threads), "N", NULL,
      "kernel threads per rank (its share of the cores)" },
    { "seed", DG_OPTION_STR, offsetof(opts, seed), "N", NULL, "override the pipeline's value" },
    { "ranks", DG_OPTION_STR, offsetof(opts, ranks), "N", NULL,
      "number of processes (1); auto: one for each GPU, with --device cuda" },
    { "max-restarts", DG_OPTION_INT, offsetof(opts, max_restarts), "K", NULL,
      "restart from the last checkpoint when a rank is lost, at most K times (0)" },
    { "elastic", DG_OPTION_FLAG, offsetof(opts, elastic), NULL, NULL,
      "restart without the lost rank or machine, keeping the batch over all ranks" },
    { "nodes", DG_OPTION_STR, offsetof(opts, nodes), "N", NULL,
      "number of machines, each with --ranks; slurm, pytorchjob, torchrun: ask the scheduler. "
      "Gradients travel between them unencrypted: use a private network" },
    { "node-rank", DG_OPTION_INT, offsetof(opts, node_rank), "I", NULL,
      "number of this machine, from 0" },
    { "coordinator", DG_OPTION_STR, offsetof(opts, coordinator), "HOST:PORT", NULL,
      "address of machine 0; PORT+1 is used too" },
    { "key", DG_OPTION_STR, offsetof(opts, key), "FILE", NULL,
      "key from `detrgraph key`, the same on every machine" },
    { "trace", DG_OPTION_MAYBE, offsetof(opts, trace), "[=STEPS]", NULL,
      "record this many steps (5) in trace.json, for Perfetto" },
    { "debug", DG_OPTION_STR, offsetof(opts, debug), "LIST", NULL,
      "look at each instruction; some of sync (wait behind it), nan (check its numbers), poison "
      "(fill dead memory with NaN), names (print it): slow" },
    { "metrics-port", DG_OPTION_INT, offsetof(opts, metrics_port), "PORT", NULL,
      "serve metrics to Prometheus at 127.0.0.1:PORT/metrics" },
    { "lost-after", DG_OPTION_STR, offsetof(opts, lost_after), "SECONDS", NULL,
      "a rank silent for this long is lost (30)" },
    { 0 },
};

/* Parses "90 s", "10 min", "8 h", "10m"; a plain number is minutes. */
static bool read_minutes(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double minutes;
    } units[] = { { "s", 1.0 / 60 }, { "min", 1 }, { "m", 1 }, { "h", 60 }, { "", 1 } };
    size_t n = strspn(text, "0123456789."), gap = strspn(text + n, " ");
    char number[32];

    if (n == 0 || n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + n + gap, units[i].unit) == 0 && dg_parse_f64(number, out) && *out > 0) {
            *out *= units[i].minutes;
            return true;
        }
    return false;
}

typedef struct callbacks { /* context of report and stop */
    dg_bar bar;
    dg_rank *rank;
} callbacks;

static int asked_to_stop(void *ctx)
{
    return dg_link_stop(((callbacks *)ctx)->rank->world.link);
}

static void report_progress(void *ctx, const dg_run_report *r)
{
    dg_bar_report(&((callbacks *)ctx)->bar, r);
}

static bool has_checkpoint(const char *out)
{
    dg_arena *a = dg_arena_open();
    bool has = dg_exists(dg_path_join(a, out, "checkpoints/last"));

    dg_arena_close(&a);
    return has;
}

enum { TRACED = 5, TRACED_MOST = 10000 };

/* Number of steps to trace; 0: none; -1: invalid. */
static int64_t trace_steps(const opts *o)
{
    int64_t n = TRACED;

    if (!o->trace)
        return 0;
    return !*o->trace || (dg_parse_i64(o->trace, &n) && n >= 1 && n <= TRACED_MOST) ? n : -1;
}

/* For dg_run_options.resumes. */
static const char *resumed(const opts *o, const dg_run_train_options *how)
{
    return how->resume == DG_RUN_FRESH ? NULL
           : how->resume_from          ? how->resume_from
           : o->out                    ? o->out
                                       : "";
}

static dg_run_train_options train_options(const opts *o, double max_minutes, callbacks *w)
{
    /* after losing a rank: continue where the run was */
    bool again = w->rank->attempt > 0 && *w->rank->out;
    bool automatic = (o->resume && strcmp(o->resume, "auto") == 0) ||
                     (again && (!o->resume || has_checkpoint(w->rank->out)));
    bool newest = o->resume && !*o->resume;

    return (dg_run_train_options){
        .size = sizeof(dg_run_train_options),
        .out = o->out,
        .force = o->force,
        .resume = automatic    ? DG_RUN_RESUME_AUTO
                  : !o->resume ? DG_RUN_FRESH
                               : DG_RUN_RESUME,
        .resume_from = o->resume && !automatic && !newest ? o->resume : NULL,
        .steps = o->steps,
        .max_minutes = max_minutes,
        .trace = trace_steps(o),
        .metrics_port = o->metrics_port,
        .stop = asked_to_stop,
        .report = w->rank->world.rank == 0 ? report_progress : NULL, /* only rank 0 reports */
        .ctx = w,
    };
}

static void say_next(const opts *o, const dg_run *run)
{
    const char *folder = o->out ? o->out : dg_run_folder(run);
    dg_str word = { 0 };

    if (!folder)
        return;
    dg_str_shell(&word, folder);
    dg_next("predict %s IMAGE...   (%s/report.html tells about the run)", word.s, folder);
    dg_str_free(&word);
}

/* Of ranks other than 0, which logs for all: only what --debug has each tell. */
static void log_debug(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == (int)DG_DEBUG)
        dg_say_error("%s\n", line);
}

static int train_pipeline(const opts *o, const char *file, uint64_t seed, double max_minutes)
{
    callbacks w = { .bar = dg_bar_begin() };
    dg_diag *d = dg_diag_open();
    dg_run *run = NULL;
    dg_run_train_options how;
    int rc = dg_rank_open(&w.rank, d);

    if (rc < 0) {
        dg_diag_close(&d);
        return DG_EXIT_FAILED;
    }
    w.bar.quiet = o->quiet;
    w.bar.verbose = o->verbose && !o->quiet;
    how = train_options(o, max_minutes, &w);
    DG_TRY(dg_run_open_rank(&run,
                            &(dg_run_options){
                                .size = sizeof(dg_run_options),
                                .file = file,
                                .n_sets = o->sets.n,
                                .sets = o->sets.v,
                                .device = dg_gpus_device(dg_device_asked(o->device),
                                                         w.rank->world.local_rank, w.rank->arena),
                                .precision = o->precision,
                                .debug = o->debug,
                                .program = "detrgraph " PACKAGE_VERSION,
                                .threads = w.rank->threads,
                                .has_seed = o->seed != NULL,
                                .seed = seed,
                                .log = w.rank->world.rank == 0 ? dg_bar_log : log_debug,
                                .log_ctx = &w.bar,
                                .resumes = resumed(o, &how) },
                            &w.rank->world, d));
    DG_TRY(dg_run_train(run, &how, d));
out:
    dg_bar_clear(&w.bar);
    if (rc == 0 && w.rank->world.rank == 0)
        say_next(o, run);
    dg_rank_tell(w.rank, d, rc);
    dg_run_close(&run);
    dg_rank_close(&w.rank);
    dg_diag_close(&d);
    return rc == -DG_ESTOP ? DG_EXIT_INTERRUPTED : rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

/* Checks an option's number; 0 if it is not given. */
static bool in_range(const char *option, int64_t v, int64_t most)
{
    if (v >= 0 && v <= most)
        return true;
    dg_say_error("detrgraph run: --%s %lld: a whole number up to %lld is expected\n", option,
                 (long long)v, (long long)most);
    return false;
}

static bool read_machines(const opts *o, dg_launch_options *l, dg_arena *a)
{
    bool scheduled = o->nodes && dg_cluster_known(o->nodes);

    l->coordinator = o->coordinator;
    l->key = o->key;
    l->node = o->node_rank;
    if (scheduled) {
        if (!dg_cluster_read(o->nodes, l, a))
            return false;
    } else if (o->nodes && (!dg_parse_i64(o->nodes, &l->nodes) || l->nodes < 1)) {
        dg_say_error(
            "detrgraph run: --nodes %s: a number of machines, slurm, pytorchjob or torchrun "
            "is expected\n",
            o->nodes);
        return false;
    }
    /* a job may get one machine */
    if (l->nodes == 1 && !scheduled && (o->coordinator || o->key || o->node_rank)) {
        dg_say_error("detrgraph run: --coordinator, --key and --node-rank belong to a run on "
                     "several machines: --nodes\n");
        return false;
    }
    if (l->nodes > 1 && (!l->coordinator || !l->key)) {
        dg_say_error(
            "detrgraph run: --nodes %lld: --coordinator HOST:PORT and --key FILE are needed, "
            "the same on every machine\n",
            (long long)l->nodes);
        return false;
    }
    if (l->node < 0 || l->node >= l->nodes || l->nodes * l->ranks > DG_MAX_RANKS) {
        dg_say_error(
            "detrgraph run: machine %lld of %lld with %lld rank%s each: machines count from 0, "
            "ranks are at most %d\n",
            (long long)l->node, (long long)l->nodes, (long long)l->ranks, dg_plural(l->ranks, "s"),
            DG_MAX_RANKS);
        return false;
    }
    return true;
}

static bool read_launch(const opts *o, dg_launch_options *l, dg_arena *a)
{
    *l = (dg_launch_options){ .ranks_given = o->ranks != NULL,
                              .threads = o->threads,
                              .max_restarts = o->max_restarts,
                              .nodes = 1,
                              .lost_after_s = 30,
                              .elastic = o->elastic };
    if (!dg_gpus_ranks(o->ranks, dg_device_asked(o->device), &l->ranks) ||
        !in_range("max-restarts", o->max_restarts, 1000000))
        return false;
    if (o->lost_after && (!dg_parse_f64(o->lost_after, &l->lost_after_s) ||
                          !(l->lost_after_s >= 1 && l->lost_after_s <= 86400))) {
        dg_say_error("detrgraph run: --lost-after %s: seconds from 1 to 86400 are expected\n",
                     o->lost_after);
        return false;
    }
    if (!read_machines(o, l, a) || !dg_gpus_fit(l->ranks, dg_device_asked(o->device)))
        return false;
    if (o->elastic && (l->ranks * l->nodes < 2 || l->max_restarts < 1)) {
        dg_say_error("detrgraph run: --elastic says how a run of several ranks starts again: it "
                     "needs --ranks and --max-restarts\n");
        return false;
    }
    return true;
}

/* Says what to type for a folder in the place of the pipeline. */
static int refuse_folder(const char *folder, dg_arena *a)
{
    const bool run = dg_exists(dg_path_join(a, folder, "pipeline.xml"));

    dg_say_error("detrgraph run: %s is a folder, a pipeline is expected\n", folder);
    if (run)
        dg_say_error("to continue the run in it: detrgraph run %s --out %s --resume\n",
                     dg_shell(a, dg_path_join(a, folder, "pipeline.xml")), dg_shell(a, folder));
    else
        dg_say_error("if it holds data: detrgraph init --data %s writes a pipeline for them\n",
                     dg_shell(a, folder));
    return DG_EXIT_USAGE;
}

/* In the process that a person or a scheduler started: true, and the exit code. A rank has all of
 * this from its launcher. */
static bool launch_ranks(const opts *o, int *code, dg_arena *a)
{
    dg_launch_options l;
    int fd;

    if (getenv(dg_rank_processes_variable))
        return false;
    *code = DG_EXIT_USAGE;
    if (!read_launch(o, &l, a))
        return true;
    if (!l.standby.name)
        return dg_launch_ranks(&l, code);
    *code = DG_EXIT_FAILED;
    if (!l.standby.first) {
        *code = dg_standby_wait(&l.standby);
        return true;
    }
    fd = dg_standby_open(&l.standby);
    if (fd < 0)
        return true;
    (void)dg_launch_ranks(&l, code);
    dg_standby_tell(&l.standby, fd, *code);
    return true;
}

static int verb_run(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    double max_minutes = 0;
    int64_t seed = 0;
    int code;

    if (o->max_time && !read_minutes(o->max_time, &max_minutes)) {
        dg_say_error(
            "detrgraph run: --max-time %s: a time such as \"90 s\", \"10 min\" or \"8 h\" is "
            "expected\n",
            o->max_time);
        return DG_EXIT_USAGE;
    }
    if (dg_is_folder(words->v[0]))
        return refuse_folder(words->v[0], a);
    if (o->seed && (!dg_parse_i64(o->seed, &seed) || seed < 0)) {
        dg_say_error("detrgraph run: --seed %s: a whole number from 0 on is expected\n", o->seed);
        return DG_EXIT_USAGE;
    }
    if (trace_steps(o) < 0) {
        dg_say_error("detrgraph run: --trace=%s: a number of steps from 1 to %d is expected\n",
                     o->trace, TRACED_MOST);
        return DG_EXIT_USAGE;
    }
    if (!in_range("metrics-port", o->metrics_port, 65535))
        return DG_EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN); /* the launcher sees the reader end, and lets the run save */
    return launch_ranks(o, &code, a) ? code
                                     : train_pipeline(o, words->v[0], (uint64_t)seed, max_minutes);
}

static const dg_example examples[] = {
    { "run quickstart.xml", "Train on generated scenes; the pipeline names the run's folder." },
    { "run bccd_r18vd.xml --set data=/data/bccd --out runs/bccd",
      "Name the data and the run's folder." },
    { "run bccd_r18vd.xml --set data=/data/bccd --out runs/bccd --resume=auto --max-time \"8 h\"",
      "Repeat this in a batch job until the run is finished." },
    { "run bccd_r18vd.xml --ranks 4 --max-restarts 3",
      "Train with four processes; survive the loss of three." },
    { 0 },
};

const dg_verb dg_verb_run = {
    .name = "run",
    .args = "FILE [--out DIR] [--set NAME=VALUE]... [OPTIONS]",
    .brief = "Train a pipeline.",
    .doc = "Ctrl-C (or SIGTERM, SIGUSR1, SIGHUP) finishes the step, saves and exits with 130; a "
           "second one stops\n"
           "at once. The run's folder holds the pipeline, report.html, metrics.jsonl, run.log, "
           "checkpoints,\n"
           "weights, pictures, and an event file for TensorBoard.",
    .manual =
        "A folder that already holds a run is refused unless `--resume` or `--force` is given.\n\n"
        "With `--ranks`, the processes share the cores; `--threads` applies to each. The pipeline "
        "divides the\n"
        "work with `<mesh dp=\"ranks\"/>`. When a rank dies or goes silent, all stop; with "
        "`--max-restarts` they\n"
        "restart from the last checkpoint, and the result is bit for bit that of a run without the "
        "failure.\n"
        "`--elastic` is refused at the start if the remaining ranks could not divide the batch.\n\n"
        "On several machines, run the same command on each with its own `--node-rank`. Machine 0 "
        "is the\n"
        "coordinator. Copy the key from `detrgraph key` to each. `--nodes slurm` takes the number "
        "of machines,\n"
        "the rank and the coordinator from srun, which starts one command per machine; `--nodes "
        "pytorchjob`\n"
        "takes them from the variables of a Kubernetes PyTorchJob. torchrun starts a process for "
        "each rank: with\n"
        "`--nodes torchrun` the first one of a machine starts its ranks, and the others end when "
        "it does.\n\n"
        "`--device cuda` gives each rank of a machine the GPU of its number there, "
        "`--device cuda:N` gives all the\n"
        "same one; `--ranks auto` starts one for each GPU. CUDA_VISIBLE_DEVICES limits both.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = verb_run,
};
