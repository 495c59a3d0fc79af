/* cmd_top.c: `detrgraph top`: shows a running job, refreshed. Rewrites lines in place without
 * changing the terminal's mode, so nothing needs to be restored at the end; lines are fitted to its
 * width. */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/ending.h"
#include "cli/job.h"

typedef struct opts {
    const char *format;
    double every;
    bool once;
} opts;

static const dg_option options[] = {
    { "once", DG_OPTION_FLAG, offsetof(opts, once), NULL, NULL, "print the state once and exit" },
    { "every", DG_OPTION_NUM, offsetof(opts, every), "SECONDS", NULL, "refresh interval (1)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json",
      "output format (text); json: one object per line" },
    { 0 },
};

/* FOR_HOSTS, FOR_MEMORY: columns from which these are shown */
enum { BAR = 24, RANKS_SHOWN = 64, LOOKS = 4, FOR_HOSTS = 90, FOR_MEMORY = 60 };

typedef struct top {
    const opts *o;
    const char *folder;
    dg_job *job;
    const dg_now *now;
    bool terminal, colour;
    int columns, height, drawn; /* drawn: number of lines on the terminal */
} top;

static bool as_json(const top *t)
{
    return t->o->format && strcmp(t->o->format, "json") == 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Builds lines from parts that are not divided: a part that does not fit begins the next line. */
typedef struct lines {
    dg_str *s;
    int columns, at;
} lines;

static void DG_PRINTF(2, 3) add_part(lines *l, const char *fmt, ...)
{
    dg_str part = { 0 };
    va_list ap;

    va_start(ap, fmt);
    dg_str_vfmt(&part, fmt, ap);
    va_end(ap);
    if (l->at > 0 && l->at + 2 + (int)part.n >= l->columns) {
        dg_str_add(l->s, "\n");
        l->at = 0;
    }
    dg_str_fmt(l->s, "%s%s", l->at ? "  " : "", part.s);
    l->at += (l->at ? 2 : 0) + (int)part.n;
    dg_str_free(&part);
}

static void end_line(lines *l)
{
    dg_str_add(l->s, "\n");
    l->at = 0;
}

static const char *time_of(double seconds, char text[32])
{
    return seconds >= 0 ? dg_human_time(seconds, text, 32) : "?";
}

static void add_bar(lines *l, const dg_now *n)
{
    char bar[BAR + 1];
    int full = (int)(BAR * n->step / n->n_steps);

    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[BAR] = '\0';
    add_part(l, "step %lld/%lld [%s] %.0f %%", (long long)n->step, (long long)n->n_steps, bar,
             100.0 * (double)n->step / (double)n->n_steps);
}

static void add_progress(lines *l, const top *t)
{
    const dg_now *n = t->now;
    char left[32];

    add_part(l, "%s", t->folder);
    if (n->n_steps > 0)
        add_bar(l, n);
    else
        add_part(l, "step %lld", (long long)n->step);
    if (n->n_epochs)
        add_part(l, "epoch %lld/%lld", (long long)n->epoch + 1, (long long)n->n_epochs);
    else
        add_part(l, "epoch %lld", (long long)n->epoch + 1);
    add_part(l, "%s", dg_json_text(dg_job_status(t->job), "state"));
    if (n->left_s > 0)
        add_part(l, "%s left", time_of(n->left_s, left));
    end_line(l);
}

/* True if the terminal shows UTF-8, judging by the environment. */
static bool has_blocks(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *v = getenv(names[i]);

        if (v && *v) /* the first that is set counts */
            return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
    }
    return false;
}

/* The losses so far as a row of blocks, over the logarithm if none is 0 or less. */
static void add_trail(lines *l, const dg_now *n)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    const int first = n->n_trail > l->columns - 24 ? n->n_trail - l->columns + 24 : 0;
    double least = INFINITY, most = -INFINITY;
    bool logs = true;

    if (n->n_trail - first < 2 || !has_blocks())
        return;
    for (int i = first; i < n->n_trail; i++) {
        least = fmin(least, n->trail[i]);
        most = fmax(most, n->trail[i]);
        logs = logs && n->trail[i] > 0;
    }
    dg_str_fmt(l->s, "loss %.4g ", n->trail[first]);
    for (int i = first; i < n->n_trail; i++) {
        const double at = logs ? log(n->trail[i] / least) / log(most / least)
                               : (n->trail[i] - least) / (most - least);

        dg_str_add(l->s, blocks[most > least ? (int)fmin(8 * at, 7) : 0]);
    }
    dg_str_fmt(l->s, " %.4g\n", n->trail[n->n_trail - 1]);
}

static void add_numbers(lines *l, const top *t)
{
    const dg_now *n = t->now;
    double saved = dg_json_number(dg_job_status(t->job), "saved");
    char text[32];

    if (*n->fault) {
        add_part(l, "%s", n->fault);
    } else if (isfinite(n->loss)) {
        add_part(l, "loss %.4g (mean %.4g)", n->loss, n->mean_loss);
        add_part(l, "lr %.3g", n->lr);
        add_part(l, "%.1f images/s", n->images_per_s);
        add_part(l, "%s a step", time_of(n->step_s, text));
        if (isfinite(n->wait_share))
            add_part(l, "waiting: %.0f %% for data, %.0f %% for ranks", 100 * n->data_share,
                     100 * n->wait_share);
        else if (isfinite(n->data_share))
            add_part(l, "waiting: %.0f %% for data", 100 * n->data_share);
        if (isfinite(n->memory_bytes))
            add_part(l, "%s", dg_human_bytes(n->memory_bytes, text, sizeof text));
        if (isfinite(n->device_memory_bytes))
            add_part(l, "%s of the device",
                     dg_human_bytes(n->device_memory_bytes, text, sizeof text));
        if (isfinite(n->device_share))
            add_part(l, "device %.0f %% busy", 100 * n->device_share);
    } else {
        add_part(l, "no step is done yet");
    }
    end_line(l);
    add_trail(l, n);
    if (n->best_step >= 0)
        add_part(l, "best AP %.3f at step %lld", n->best, (long long)n->best_step);
    if (isfinite(n->constant_ap))
        add_part(l, "boxes that never move: %.3f", n->constant_ap);
    if (saved >= 0)
        add_part(l, "last step on disk %.0f", saved);
    else
        add_part(l, "nothing is saved yet");
    end_line(l);
}

/* Which columns there is room for. */
static bool has_hosts(const top *t)
{
    return t->columns >= FOR_HOSTS;
}

static bool has_memory(const top *t)
{
    return t->columns >= FOR_MEMORY;
}

static void add_head(dg_str *s, const top *t)
{
    dg_str_fmt(s, "%srank  ", t->colour ? "\033[1m" : "");
    if (has_hosts(t))
        dg_str_fmt(s, "%-16s %8s ", "host", "process");
    dg_str_fmt(s, "%7s  %6s  ", "step", "waits");
    if (has_memory(t))
        dg_str_fmt(s, "%9s  ", "memory");
    dg_str_fmt(s, "node%s\n", t->colour ? "\033[0m" : "");
}

static void add_place(dg_str *s, const top *t, int i)
{
    const dg_json *r = dg_job_rank(t->job, i);
    const char *state = dg_json_text(r, "state"), *node = dg_json_text(r, "node");
    char text[32];

    if (strcmp(state, "here") != 0) {
        dg_str_add(s, strcmp(state, "left") == 0 ? "has left" : "has not come yet");
        return;
    }
    dg_str_plain(s, *node ? node : "between nodes");
    dg_str_add(s, dg_job_waits(t->job, i) ? " (waits)" : "");
    if (dg_json_number(r, "since_seconds") >= 1)
        dg_str_fmt(s, " since %s", time_of(dg_json_number(r, "since_seconds"), text));
}

static void add_rank(dg_str *s, const top *t, int i, bool late)
{
    const dg_json *r = dg_job_rank(t->job, i);
    double memory = dg_job_memory(t->job, i), share = dg_job_waited(t->job, i);
    char text[32];

    dg_str_fmt(s, "%s%4d  ", late && t->colour ? "\033[33m" : "", i);
    if (has_hosts(t))
        dg_str_fmt(s, "%-16.16s %8.0f ", dg_json_text(r, "host"), dg_json_number(r, "process"));
    snprintf(text, sizeof text, isfinite(share) ? "%.0f %%" : "-", 100 * share);
    dg_str_fmt(s, "%7.0f  %6s  ", fmax(dg_json_number(r, "step"), 0), text);
    if (has_memory(t))
        dg_str_fmt(s, "%9s  ", isfinite(memory) ? dg_human_bytes(memory, text, sizeof text) : "-");
    add_place(s, t, i);
    dg_str_add(s, !late ? "" : has_hosts(t) ? "  <- the others wait for it" : "  <-");
    dg_str_add(s, late && t->colour ? "\033[0m\n" : "\n");
}

static void add_all(dg_str *s, const top *t)
{
    int late = dg_job_straggler(t->job), n = dg_job_ranks(t->job), room = RANKS_SHOWN;
    lines l = { s, t->columns, 0 };

    add_progress(&l, t);
    add_numbers(&l, t);
    /* lines left below these, for the head and perhaps "and 3 ranks more" */
    if (t->terminal && t->height) {
        room = t->height - 3;
        for (const char *c = s->s; *c; c++)
            room -= *c == '\n';
        room = room < 1 ? 1 : room;
    }
    add_head(s, t);
    for (int i = 0; i < n && i < room; i++)
        add_rank(s, t, i, i == late);
    if (n > room)
        dg_str_fmt(s, "  and %d rank%s more\n", n - room, n - room > 1 ? "s" : "");
}

/* ---- showing --------------------------------------------------------------------------------- */

static void draw_screen(top *t)
{
    dg_str s = { 0 };

    if (as_json(t))
        dg_job_json(&s, t->job, t->now);
    else
        add_all(&s, t);
    if (t->terminal)
        t->drawn = dg_screen_redraw(s.s, t->drawn, t->columns - 1);
    else
        dg_say_painted(STDOUT_FILENO, s.s);
    fflush(stdout);
    dg_str_free(&s);
}

/* Measures the terminal. If its width changed, the old lines may have been reflowed: do not write
 * over them. */
static void measure_terminal(top *t)
{
    struct winsize w = { 0 };
    int before = t->columns;

    t->terminal = !t->o->once && !as_json(t) && dg_rewrites(STDOUT_FILENO) &&
                  ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0;
    t->columns = !t->terminal ? INT_MAX : w.ws_col >= 20 ? w.ws_col : 80;
    t->height = w.ws_row;
    t->colour = dg_colour(STDOUT_FILENO);
    if (t->drawn && t->columns != before) {
        dg_screen_clear();
        t->drawn = 0;
    }
}

/* The job does not answer: prints how it ended, if known; otherwise it may still be running, and d
 * has what is known. */
static int say_end(top *t, const dg_diag *d)
{
    const dg_now *n = dg_job_look(t->job);
    bool failed = strcmp(n->state, "failed") == 0;
    dg_str ending = { 0 };

    if (strcmp(n->state, "running") == 0 || !*n->state) {
        if (dg_ending_tell(&ending, t->folder, true))
            dg_say_error("%s", ending.s);
        else
            dg_print_diag(d, NULL);
        dg_str_free(&ending);
        return DG_EXIT_FAILED;
    }
    if (*n->fault)
        dg_say_error("%s\n", n->fault);
    else
        dg_str_fmt(&ending, " at step %lld", (long long)n->step);
    (as_json(t) ? dg_say_error : dg_say)("the job has ended%s: %s%s%.*s\n",
                                         ending.s ? ending.s : "", n->state, *n->why ? ", " : "",
                                         (int)strcspn(n->why, "\n"), n->why);
    dg_str_free(&ending);
    if (failed && !as_json(t)) {
        dg_str_shell(&ending, t->folder);
        dg_say("detrgraph doctor %s says where each rank was\n", ending.s);
    }
    dg_str_free(&ending);
    return failed || *n->fault ? DG_EXIT_FAILED : DG_EXIT_OK;
}

/* Sleeps; false if a signal asked to end. A time that the system does not know would let neither
 * happen. */
static bool rest(const sigset_t *ends, double seconds)
{
    const double s = fmin(seconds, INT32_MAX);
    const struct timespec time = { (time_t)s, (long)(1e9 * (s - floor(s))) };

    return sigtimedwait(ends, NULL, &time) < 0;
}

static int watch(top *t, const sigset_t *ends, dg_diag *d)
{
    double every = t->o->every > 0 ? t->o->every : 1;
    int rc = dg_job_ask(t->job, d);

    while (rc == 0) {
        measure_terminal(t);
        t->now = dg_job_look(t->job);
        draw_screen(t);
        if (t->o->once)
            return DG_EXIT_OK;
        /* looks often, because waiting changes quickly */
        for (int i = 0; i < LOOKS && rc == 0; i++) {
            if (!rest(ends, every / LOOKS))
                return DG_EXIT_INTERRUPTED;
            rc = dg_job_ask(t->job, d);
        }
    }
    return say_end(t, d);
}

static const dg_example examples[] = {
    { "top runs/first", "Follow the run until it ends, or until Ctrl-C." },
    { "top runs/first --once --format json", "Print the state for a script." },
    { 0 },
};

static int verb_top(const void *given, const dg_words *words, dg_arena *a)
{
    dg_diag *d = dg_diag_open();
    top *t = DG_NEW(a, top);
    sigset_t ends;
    int code;

    *t = (top){ .o = given, .folder = words->v[0], .job = dg_job_open(words->v[0]) };
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    code = watch(t, &ends, d);
    dg_job_close(&t->job);
    dg_diag_close(&d);
    return code;
}

const dg_verb dg_verb_top = {
    .name = "top",
    .args = "RUN [--once] [--every SECONDS] [--format json]",
    .brief = "Watch a running job: steps, speed, and what its ranks are doing.",
    .doc = "RUN is the run's folder. On a terminal the screen is redrawn in place; otherwise lines "
           "are appended.\n"
           "top ends with the job. \"waits\" is the share of looks at which a rank was waiting for "
           "the others: a\n"
           "rank that waits clearly less holds the others up, and is marked.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = verb_top,
};
