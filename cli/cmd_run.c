/* cmd_run.c: `detrgraph run`: trains what a pipeline says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "config.h"
#include "runtime/session.h"

typedef struct opts {
    dg_words    sets;
    const char *nodes, *coordinator, *key;
    const char *out, *max_time, *resume, *precision, *seed;
    const char *trace;
    int64_t     steps, threads, ranks, max_restarts, node_rank, metrics_port;
    double      lost_after;
    bool        force, elastic;
} opts;

static const dg_option options[] = {
    { "out", DG_OPTION_STR, offsetof(opts, out), "DIR", NULL, "the run's folder (that of <checkpoint to=...>, or none)" },
    { "set", DG_OPTION_LIST, offsetof(opts, sets), "NAME=VALUE", NULL, "another value for a <let> of the pipeline" },
    { "steps", DG_OPTION_INT, offsetof(opts, steps), "N", NULL, "stop after step N and save; schedules stay as they are" },
    { "max-time", DG_OPTION_STR, offsetof(opts, max_time), "TIME", NULL, "stop after so long and save: \"90 s\", \"10 min\", \"8 h\"" },
    { "resume", DG_OPTION_MAYBE, offsetof(opts, resume), "[=auto|DIR]", NULL,
      "continue from the newest checkpoint in --out, or from the one in DIR; auto: or begin where there is none" },
    { "force", DG_OPTION_FLAG, offsetof(opts, force), NULL, NULL, "begin anew in a folder that holds a run" },
    { "precision", DG_OPTION_WORD, offsetof(opts, precision), NULL, "f32|bf16|f64", "instead of the pipeline's" },
    { "threads", DG_OPTION_INT, offsetof(opts, threads), "N", NULL, "threads of a rank's kernels (its share of the cores)" },
    { "seed", DG_OPTION_STR, offsetof(opts, seed), "N", NULL, "instead of the pipeline's" },
    { "ranks", DG_OPTION_INT, offsetof(opts, ranks), "N", NULL, "processes that train together (1)" },
    { "max-restarts", DG_OPTION_INT, offsetof(opts, max_restarts), "K", NULL,
      "when a rank is lost, start again from the last checkpoint, at most K times (0)" },
    { "elastic", DG_OPTION_FLAG, offsetof(opts, elastic), NULL, NULL, "start again without the rank or machine that was lost, and the same batch over all ranks" },
    { "nodes", DG_OPTION_STR, offsetof(opts, nodes), "N", NULL, "machines that train together, each with --ranks; slurm: as srun says" },
    { "node-rank", DG_OPTION_INT, offsetof(opts, node_rank), "I", NULL, "which of them this is, from 0" },
    { "coordinator", DG_OPTION_STR, offsetof(opts, coordinator), "HOST:PORT", NULL,
      "where machine 0 listens; the port after it is used too" },
    { "key", DG_OPTION_STR, offsetof(opts, key), "FILE", NULL, "of `detrgraph key`, the same on every machine" },
    { "trace", DG_OPTION_MAYBE, offsetof(opts, trace), "[=STEPS]", NULL, "the time line of so many steps (5) goes into trace.json, for Perfetto" },
    { "metrics-port", DG_OPTION_INT, offsetof(opts, metrics_port), "PORT", NULL, "Prometheus finds the numbers at 127.0.0.1:PORT/metrics" },
    { "lost-after", DG_OPTION_NUM, offsetof(opts, lost_after), "SECONDS", NULL, "so long a silence of a rank counts as its loss (30)" },
    { 0 },
};

/* "90 s", "10 min", "8 h"; a number alone is minutes. */
static bool read_minutes(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double      minutes;
    } units[] = { { "s", 1.0 / 60 }, { "min", 1 }, { "h", 60 }, { "", 1 } };
    size_t n = strspn(text, "0123456789."), gap = strspn(text + n, " ");
    char   number[32];

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

typedef struct watcher { /* what report and stop are handed */
    dg_bar   bar;
    dg_rank *rank;
} watcher;

static int watched_stop(void *ctx)
{
    return dg_link_stop(((watcher *)ctx)->rank->world.link);
}

static void watched_report(void *ctx, const dg_run_report *r)
{
    dg_bar_report(&((watcher *)ctx)->bar, r);
}

static bool has_checkpoint(const char *out)
{
    dg_arena *a = dg_arena_open();
    bool      has = dg_exists(dg_path_join(a, out, "checkpoints/last"));

    dg_arena_close(&a);
    return has;
}

enum { TRACED = 5, TRACED_MOST = 10000 };

/* 0: none; -1: that is no number of steps. */
static int64_t trace_steps(const opts *o)
{
    int64_t n = TRACED;

    if (!o->trace)
        return 0;
    return !*o->trace || (dg_parse_i64(o->trace, &n) && n >= 1 && n <= TRACED_MOST) ? n : -1;
}

static dg_run_train_options train_options(const opts *o, double max_minutes, watcher *w)
{
    bool again = w->rank->attempt > 0 && *w->rank->out; /* a rank was lost: from where the run has come to */
    bool automatic = (o->resume && strcmp(o->resume, "auto") == 0) || (again && (!o->resume || has_checkpoint(w->rank->out)));
    bool newest = o->resume && !*o->resume;

    return (dg_run_train_options){
        .size = sizeof(dg_run_train_options),
        .out = o->out,
        .force = o->force,
        .resume = automatic ? DG_RUN_RESUME_AUTO : !o->resume ? DG_RUN_FRESH : DG_RUN_RESUME,
        .resume_from = o->resume && !automatic && !newest ? o->resume : NULL,
        .steps = o->steps,
        .max_minutes = max_minutes,
        .trace = trace_steps(o),
        .metrics_port = o->metrics_port,
        .stop = watched_stop,
        .report = w->rank->world.rank == 0 ? watched_report : NULL, /* one rank speaks for all */
        .ctx = w,
    };
}

static void say_next(const opts *o, const dg_run *run)
{
    const dg_checkpoint_conf *c = &run->graph->checkpoint;
    const char               *folder = o->out ? o->out : c->present ? c->to : NULL;

    if (folder)
        dg_next("predict %s IMAGE...   (%s/report.html tells about the run)", folder, folder);
}

static int train(const opts *o, const char *file, uint64_t seed, double max_minutes)
{
    watcher                    w = { .bar = dg_bar_begin() };
    dg_diag                   *d = dg_diag_open();
    dg_run                    *run = NULL;
    dg_run_train_options       how;
    int                        rc = dg_rank_open(&w.rank, d);

    if (rc < 0) {
        dg_diag_close(&d);
        return DG_EXIT_FAILED;
    }
    how = train_options(o, max_minutes, &w);
    DG_TRY(dg_run_open(&run, &(dg_run_options){
        .size = sizeof(dg_run_options),
        .file = file,
        .n_sets = o->sets.n,
        .sets = o->sets.v,
        .precision = o->precision,
        .program = "detrgraph " PACKAGE_VERSION,
        .threads = w.rank->threads,
        .has_seed = o->seed != NULL,
        .seed = seed,
        .log = w.rank->world.rank == 0 ? dg_bar_log : NULL,
        .log_ctx = &w.bar,
        .world = &w.rank->world }, d));
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

/* A number of an option that must lie in a range; 0 where the option is left out. */
static bool in_range(const char *option, int64_t v, int64_t most)
{
    if (v >= 0 && v <= most)
        return true;
    fprintf(stderr, "detrgraph run: --%s %lld: a whole number up to %lld is expected\n", option, (long long)v, (long long)most);
    return false;
}

/* "a[03-05,9],b" -> "a03" */
static const char *first_host(const char *list, dg_arena *a)
{
    size_t      stem = strcspn(list, "[,");
    const char *from = list + stem + (list[stem] == '[');

    return dg_printf(a, "%.*s%.*s", (int)stem, list, list[stem] == '[' ? (int)strcspn(from, ",-]") : 0, from);
}

static bool slurm_number(const char *variable, int64_t *out)
{
    const char *text = getenv(variable);

    return text && dg_parse_i64(text, out) && *out >= 0;
}

/* What srun has told this process, one on each machine. The port follows from the job's number. */
static bool read_slurm(dg_launch_options *l, dg_arena *a)
{
    const char *list = getenv("SLURM_STEP_NODELIST");
    int64_t     job = 0;

    if (list && slurm_number("SLURM_STEP_NUM_NODES", &l->nodes) && slurm_number("SLURM_NODEID", &l->node) && slurm_number("SLURM_JOB_ID", &job)) {
        if (!l->coordinator)
            l->coordinator = dg_printf(a, "%s:%d", first_host(list, a), 20000 + (int)(job % 20000) * 2);
        return true;
    }
    fprintf(stderr, "detrgraph run: --nodes slurm: srun has to start this command, once on each machine (--ntasks-per-node=1)\n");
    return false;
}

static bool read_machines(const opts *o, dg_launch_options *l, dg_arena *a)
{
    l->coordinator = o->coordinator;
    l->key = o->key;
    l->node = o->node_rank;
    if (o->nodes && strcmp(o->nodes, "slurm") == 0 ? !read_slurm(l, a) : o->nodes && (!dg_parse_i64(o->nodes, &l->nodes) || l->nodes < 1)) {
        if (strcmp(o->nodes, "slurm") != 0)
            fprintf(stderr, "detrgraph run: --nodes %s: a number of machines, or slurm, is expected\n", o->nodes);
        return false;
    }
    if (l->nodes == 1 && (o->coordinator || o->key || o->node_rank)) {
        fprintf(stderr, "detrgraph run: --coordinator, --key and --node-rank belong to a run on several machines: --nodes\n");
        return false;
    }
    if (l->nodes > 1 && (!l->coordinator || !l->key)) {
        fprintf(stderr, "detrgraph run: --nodes %lld: --coordinator HOST:PORT and --key FILE are needed, the same on every machine\n",
                (long long)l->nodes);
        return false;
    }
    if (l->node < 0 || l->node >= l->nodes || l->nodes * l->ranks > DG_MAX_RANKS) {
        fprintf(stderr, "detrgraph run: machine %lld of %lld with %lld ranks each: machines count from 0, ranks are at most %d\n",
                (long long)l->node, (long long)l->nodes, (long long)l->ranks, DG_MAX_RANKS);
        return false;
    }
    return true;
}

static bool read_launch(const opts *o, dg_launch_options *l, dg_arena *a)
{
    *l = (dg_launch_options){ .ranks = o->ranks ? o->ranks : 1, .threads = o->threads, .max_restarts = o->max_restarts, .nodes = 1,
                              .lost_after_s = o->lost_after > 0 ? o->lost_after : 30, .elastic = o->elastic };
    if (!in_range("ranks", o->ranks, DG_MAX_RANKS) || !in_range("max-restarts", o->max_restarts, 1000000))
        return false;
    if (o->lost_after != 0 && !(o->lost_after >= 1 && o->lost_after <= 86400)) {
        fprintf(stderr, "detrgraph run: --lost-after %g: seconds from 1 to 86400 are expected\n", o->lost_after);
        return false;
    }
    if (!read_machines(o, l, a))
        return false;
    if (o->elastic && (l->ranks * l->nodes < 2 || l->max_restarts < 1)) {
        fprintf(stderr, "detrgraph run: --elastic says how a run of several ranks starts again: it needs --ranks and --max-restarts\n");
        return false;
    }
    return true;
}

static int run(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    double      max_minutes = 0;
    int64_t     seed = 0;
    int         code;

    dg_launch_options launch;

    if (o->max_time && !read_minutes(o->max_time, &max_minutes)) {
        fprintf(stderr, "detrgraph run: --max-time %s: a time such as \"90 s\", \"10 min\" or \"8 h\" is expected\n", o->max_time);
        return DG_EXIT_USAGE;
    }
    if (o->seed && (!dg_parse_i64(o->seed, &seed) || seed < 0)) {
        fprintf(stderr, "detrgraph run: --seed %s: a whole number from 0 on is expected\n", o->seed);
        return DG_EXIT_USAGE;
    }
    if (trace_steps(o) < 0) {
        fprintf(stderr, "detrgraph run: --trace=%s: a number of steps from 1 to %d is expected\n", o->trace, TRACED_MOST);
        return DG_EXIT_USAGE;
    }
    if (!in_range("metrics-port", o->metrics_port, 65535) || !read_launch(o, &launch, a))
        return DG_EXIT_USAGE;
    return dg_launch_ranks(&launch, &code) ? code : train(o, words->v[0], (uint64_t)seed, max_minutes);
}

static const dg_example examples[] = {
    { "run quickstart.xml", "trains on generated scenes; the pipeline names the folder" },
    { "run bccd_r18vd.xml --set data=/data/bccd --out runs/bccd", "data and folder from the command line" },
    { "run bccd_r18vd.xml --set data=/data/bccd --out runs/bccd --resume=auto --max-time \"8 h\"", "what a batch job repeats until the run is done" },
    { "run bccd_r18vd.xml --ranks 4 --max-restarts 3", "four processes, which may be lost three times" },
    { 0 },
};

const dg_verb dg_verb_run = {
    .name = "run",
    .args = "FILE [--out DIR] [--set NAME=VALUE]... [OPTIONS]",
    .brief = "Trains what a pipeline says.",
    .doc = "Ctrl-C (and SIGTERM, SIGUSR1, SIGHUP) finishes the step, saves and exits with 130; a second one stops at once.\n"
           "The run's folder holds the pipeline, report.html, metrics.jsonl, run.log, checkpoints, weights, pictures, and what\n"
           "TensorBoard reads.",
    .manual = "A folder that holds a run is refused unless `--resume` or `--force` is given.\n\n"
              "With `--ranks` the processes share the cores, and `--threads` are those of each. The pipeline says how they share the\n"
              "work: `<mesh dp=\"ranks\"/>`. When a rank dies or goes silent all stop; with `--max-restarts` they start again from the\n"
              "last checkpoint, and the result is that of a run without the failure, bit for bit. `--elastic` is refused at the start\n"
              "where the ranks that remain would not divide the batch.\n\n"
              "On several machines the same command is given on each, with another `--node-rank`. The coordinator is machine 0; the key\n"
              "was made by `detrgraph key` and copied to each. `--nodes slurm` takes number, rank and coordinator from srun, which\n"
              "starts one such command on each machine.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = run,
};
