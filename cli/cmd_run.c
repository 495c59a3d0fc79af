/* cmd_run.c: `detrgraph run`: trains what a pipeline says. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "config.h"

typedef struct opts {
    dg_words    sets;
    const char *out, *max_time, *resume, *precision, *seed;
    int64_t     steps, threads, ranks;
    bool        force;
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
    { "threads", DG_OPTION_INT, offsetof(opts, threads), "N", NULL, "threads of the kernels (all cores)" },
    { "seed", DG_OPTION_STR, offsetof(opts, seed), "N", NULL, "instead of the pipeline's" },
    { "ranks", DG_OPTION_INT, offsetof(opts, ranks), "N", NULL, "processes that train together; this version has 1" },
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
    dg_bar      bar;
    dg_signals *signals;
} watcher;

static int watched_stop(void *ctx)
{
    return dg_signals_count(((watcher *)ctx)->signals);
}

static void watched_report(void *ctx, const dg_run_report *r)
{
    dg_bar_report(&((watcher *)ctx)->bar, r);
}

static dg_run_train_options train_options(const opts *o, double max_minutes, watcher *w)
{
    bool automatic = o->resume && strcmp(o->resume, "auto") == 0, newest = o->resume && !*o->resume;

    return (dg_run_train_options){
        .size = sizeof(dg_run_train_options),
        .out = o->out,
        .force = o->force,
        .resume = !o->resume ? DG_RUN_FRESH : automatic ? DG_RUN_RESUME_AUTO : DG_RUN_RESUME,
        .resume_from = o->resume && !automatic && !newest ? o->resume : NULL,
        .steps = o->steps,
        .max_minutes = max_minutes,
        .stop = watched_stop,
        .report = watched_report,
        .ctx = w,
    };
}

/* Asked to stop is no error: its text is said plainly. */
static void say(const dg_diag *d, int rc)
{
    for (int i = 0; rc == -DG_ESTOP && i < dg_diag_n(d); i++)
        fprintf(stderr, "%s\n", dg_diag_at(d, i)->text);
    if (rc != -DG_ESTOP)
        dg_print_diag_files(d);
}

static int train(const opts *o, const char *file, uint64_t seed, double max_minutes)
{
    watcher                    w = { dg_bar_begin(), dg_signals_open() };
    const dg_run_train_options how = train_options(o, max_minutes, &w);
    dg_diag                   *d = dg_diag_open();
    dg_run                    *run = NULL;
    int                        rc;

    DG_TRY(dg_run_open(&run, &(dg_run_options){
        .size = sizeof(dg_run_options),
        .file = file,
        .n_sets = o->sets.n,
        .sets = o->sets.v,
        .precision = o->precision,
        .program = "detrgraph " PACKAGE_VERSION,
        .threads = (int)o->threads,
        .has_seed = o->seed != NULL,
        .seed = seed,
        .log = dg_bar_log,
        .log_ctx = &w.bar }, d));
    DG_TRY(dg_run_train(run, &how, d));
out:
    dg_bar_clear(&w.bar);
    say(d, rc);
    dg_run_close(&run);
    dg_diag_close(&d);
    dg_signals_close(&w.signals);
    return rc == -DG_ESTOP ? DG_EXIT_INTERRUPTED : rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int run(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    double      max_minutes = 0;
    int64_t     seed = 0;
    int         code;

    (void)a;
    if (o->ranks > 1) {
        fprintf(stderr, "detrgraph run: --ranks %lld: more than one rank is not there yet; leave it out, or say --ranks 1\n",
                (long long)o->ranks);
        return DG_EXIT_USAGE;
    }
    if (o->max_time && !read_minutes(o->max_time, &max_minutes)) {
        fprintf(stderr, "detrgraph run: --max-time %s: a time such as \"90 s\", \"10 min\" or \"8 h\" is expected\n", o->max_time);
        return DG_EXIT_USAGE;
    }
    if (o->seed && (!dg_parse_i64(o->seed, &seed) || seed < 0)) {
        fprintf(stderr, "detrgraph run: --seed %s: a whole number from 0 on is expected\n", o->seed);
        return DG_EXIT_USAGE;
    }
    return dg_launch((int)o->threads, &code) ? code : train(o, words->v[0], (uint64_t)seed, max_minutes);
}

const dg_verb dg_verb_run = {
    .name = "run",
    .args = "FILE [--out DIR] [--set NAME=VALUE]... [OPTIONS]",
    .brief = "Trains what a pipeline says.",
    .doc = "Ctrl-C (and SIGTERM, SIGUSR1) finishes the step, saves and exits with 130; a second one stops at once.\n"
           "The run's folder holds the pipeline, metrics.jsonl, run.log, checkpoints, weights and pictures.",
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = run,
};
