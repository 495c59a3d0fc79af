/* cmd_top.c: `detrgraph top`: a running job at a glance, again and again. It is asked what `ctl status` asks; the numbers of
 * its steps are read from metrics.jsonl. Lines are rewritten in place with no mode of the terminal changed, so there is
 * nothing to restore however it ends. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "media/json.h"
#include "runtime/entrance.h"
#include "runtime/follow.h"
#include "runtime/message.h"

typedef struct opts {
    const char *format;
    double      every;
    bool        once;
} opts;

static const dg_option options[] = {
    { "once", DG_OPTION_FLAG, offsetof(opts, once), NULL, NULL, "print the state and end" },
    { "every", DG_OPTION_NUM, offsetof(opts, every), "SECONDS", NULL, "how often it is looked at (1)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json", "json: an object a line (text)" },
    { 0 },
};

enum { BAR = 24, RANKS_SHOWN = 64, LOOKS = 4, JUDGED = 12 };
static const double most_s = 5, behind = 0.15;

typedef struct rank_row {
    double looks, waited; /* how often it was looked at, and waited for other ranks then; older looks count less */
} rank_row;

typedef struct top {
    const opts    *o;
    const char    *folder;
    dg_arena      *arena;
    dg_follow     *follow;
    const dg_now  *now;
    const dg_json *status;
    const char    *answer;   /* its text */
    rank_row       rows[DG_MAX_RANKS];
    bool           terminal, colour;
    int            columns, height, drawn; /* lines that stand on the terminal */
} top;

static bool as_json(const top *t)
{
    return t->o->format && strcmp(t->o->format, "json") == 0;
}

/* ---- asking ---------------------------------------------------------------------------------------------------------------- */

static int items(const top *t)
{
    const dg_json *ranks = dg_json_get(t->status, "rank");

    return ranks && ranks->kind == DG_JSON_ARRAY ? ranks->n < DG_MAX_RANKS ? ranks->n : DG_MAX_RANKS : 0;
}

static const dg_json *rank_at(const top *t, int i)
{
    return &dg_json_get(t->status, "rank")->items[i];
}

static bool waits(const dg_json *rank)
{
    const dg_json *v = dg_json_get(rank, "waits");

    return v && v->kind == DG_JSON_BOOL && v->truth;
}

/* One look at the job; an error where it does not answer. */
static int ask(top *t, dg_diag *d)
{
    dg_entrance e;
    dg_str      answer = { 0 };
    bool        done;
    int         rc;

    dg_arena_close(&t->arena);
    t->arena = dg_arena_open();
    t->status = NULL;
    DG_TRY(dg_entrance_read(t->folder, &e, t->arena, d));
    DG_TRY(dg_entrance_ask(&e, "status", "json", most_s, &done, &answer, d));
    t->answer = dg_strndup(t->arena, answer.s, answer.n);
    DG_TRY(dg_json_parse(&t->status, t->arena, answer.s, answer.n, "status", d));
    for (int i = 0; i < items(t); i++) {
        t->rows[i].looks = 0.95 * t->rows[i].looks + 1;
        t->rows[i].waited = 0.95 * t->rows[i].waited + waits(rank_at(t, i));
    }
out:
    dg_str_free(&answer);
    return rc;
}

/* The rank that waits clearly less than the others: they wait for it; -1: there is none. */
static int straggler(const top *t)
{
    double least = 1, other = 1;
    int    who = -1;

    for (int i = 0; i < items(t); i++) {
        double share = t->rows[i].waited / fmax(t->rows[i].looks, 1);

        if (t->rows[i].looks < JUDGED * 0.6 || strcmp(dg_json_text(rank_at(t, i), "state"), "here") != 0)
            return -1;
        other = share < least ? least : fmin(other, share);
        who = share < least ? i : who;
        least = fmin(least, share);
    }
    return items(t) > 1 && other - least > behind ? who : -1;
}

/* Resident bytes of a process of this machine; NaN elsewhere. */
static double memory_of(const dg_json *rank)
{
    char      path[48], host[256] = "";
    long long pages = 0;
    FILE     *f;
    int       n = 0;

    (void)gethostname(host, sizeof host - 1);
    if (strcmp(host, dg_json_text(rank, "host")) != 0)
        return NAN;
    snprintf(path, sizeof path, "/proc/%.0f/statm", dg_json_number(rank, "process"));
    f = fopen(path, "re");
    if (f) {
        n = fscanf(f, "%*d %lld", &pages);
        fclose(f);
    }
    return n == 1 ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

/* ---- text ------------------------------------------------------------------------------------------------------------------ */

static void add_time(dg_str *s, double seconds)
{
    char text[32];

    dg_str_add(s, seconds >= 0 ? dg_human_time(seconds, text, sizeof text) : "?");
}

static void add_progress(dg_str *s, const top *t)
{
    const dg_now *n = t->now;
    int           full = n->n_steps > 0 ? (int)(BAR * n->step / n->n_steps) : 0;

    dg_str_fmt(s, "%s  step %lld", t->folder, (long long)n->step);
    if (n->n_steps > 0) {
        dg_str_fmt(s, "/%lld [", (long long)n->n_steps);
        for (int i = 0; i < BAR; i++)
            dg_str_add(s, i < full ? "=" : i == full ? ">" : " ");
        dg_str_fmt(s, "] %.0f %%", 100.0 * (double)n->step / (double)n->n_steps);
    }
    dg_str_fmt(s, "  epoch %lld  %s", (long long)n->epoch + 1, dg_json_text(t->status, "state"));
    if (n->left_s >= 0) {
        dg_str_add(s, "  ");
        add_time(s, n->left_s);
        dg_str_add(s, " left");
    }
    dg_str_add(s, "\n");
}

static void add_numbers(dg_str *s, const top *t)
{
    const dg_now *n = t->now;
    char          bytes[32];

    if (!isfinite(n->loss)) {
        dg_str_add(s, "no step is done yet\n");
        return;
    }
    dg_str_fmt(s, "loss %.4g (mean %.4g)  lr %.3g  %.1f images/s  ", n->loss, n->mean_loss, n->lr, n->images_per_s);
    add_time(s, n->step_s);
    dg_str_add(s, " a step");
    if (isfinite(n->data_share))
        dg_str_fmt(s, ", of it %.0f %% waiting for data", 100 * n->data_share);
    if (isfinite(n->wait_share))
        dg_str_fmt(s, ", %.0f %% for ranks", 100 * n->wait_share);
    if (isfinite(n->memory_bytes))
        dg_str_fmt(s, "  %s", dg_human_bytes(n->memory_bytes, bytes, sizeof bytes));
    dg_str_add(s, "\n");
    if (n->best_step >= 0)
        dg_str_fmt(s, "best AP %.3f at step %lld  ", n->best, (long long)n->best_step);
    if (dg_json_number(t->status, "saved") >= 0)
        dg_str_fmt(s, "last step on disk %.0f", dg_json_number(t->status, "saved"));
    dg_str_add(s, "\n");
}

static void add_rank(dg_str *s, const top *t, int i, bool late)
{
    const dg_json *r = rank_at(t, i);
    char           bytes[32], where[96], host[32], share[16];
    double         memory = memory_of(r);
    bool           here = strcmp(dg_json_text(r, "state"), "here") == 0;

    snprintf(host, sizeof host, "%.24s", dg_json_text(r, "host"));
    if (here && *dg_json_text(r, "node"))
        snprintf(where, sizeof where, "%s", dg_json_text(r, "node"));
    else
        snprintf(where, sizeof where, "%s", here ? "between nodes" : strcmp(dg_json_text(r, "state"), "left") == 0 ? "has left" : "has not come yet");
    snprintf(share, sizeof share, t->rows[i].looks > 1.5 ? "%.0f %%" : "-", 100 * t->rows[i].waited / fmax(t->rows[i].looks, 1));
    dg_str_fmt(s, "%s%4d  %-16s %8.0f %7.0f  %6s  %9s  %s%s", late && t->colour ? "\033[33m" : "", i, host, dg_json_number(r, "process"),
               fmax(dg_json_number(r, "step"), 0), share, isfinite(memory) ? dg_human_bytes(memory, bytes, sizeof bytes) : "-", where,
               here && waits(r) ? " (waits)" : "");
    if (here && dg_json_number(r, "since_seconds") >= 1) {
        dg_str_add(s, " since ");
        add_time(s, dg_json_number(r, "since_seconds"));
    }
    dg_str_add(s, late ? "  <- the others wait for it" : "");
    dg_str_add(s, late && t->colour ? "\033[0m\n" : "\n");
}

static void add_all(dg_str *s, const top *t)
{
    int late = straggler(t), room = t->terminal && t->height > 8 ? t->height - 6 : RANKS_SHOWN;

    add_progress(s, t);
    add_numbers(s, t);
    dg_str_fmt(s, "%srank  %-16s %8s %7s  %6s  %9s  %s%s\n", t->colour ? "\033[1m" : "", "host", "process", "step", "waits", "memory", "node",
               t->colour ? "\033[0m" : "");
    for (int i = 0; i < items(t) && i < room; i++)
        add_rank(s, t, i, i == late);
    if (items(t) > room)
        dg_str_fmt(s, "  and %d ranks more\n", items(t) - room);
}

/* ---- showing --------------------------------------------------------------------------------------------------------------- */

/* Bytes of a line that fill at most `columns` places; escapes and the later bytes of a character fill none. */
static size_t fits(const char *line, size_t n, int columns)
{
    bool escape = false;

    for (size_t i = 0; i < n; i++) {
        escape |= line[i] == '\033';
        if (!escape && ((unsigned char)line[i] & 0xC0) != 0x80 && columns-- == 0)
            return i;
        escape = escape && line[i] != 'm';
    }
    return n;
}

/* Over what stood there before. */
static void redraw(top *t, const char *text)
{
    if (t->drawn)
        printf("\033[%dA", t->drawn);
    t->drawn = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, t->drawn++)
        printf("\r%.*s\033[0m\033[K\n", (int)fits(line, strcspn(line, "\n"), t->columns - 1), line);
    printf("\033[J");
    fflush(stdout);
}

static void add_json(dg_str *s, const top *t)
{
    const dg_now *n = t->now;
    const struct {
        const char *key;
        double      v;
    } numbers[] = { { "step", (double)n->step }, { "steps", (double)n->n_steps }, { "epoch", (double)n->epoch }, { "loss", n->loss },
                    { "mean_loss", n->mean_loss }, { "lr", n->lr }, { "images_per_s", n->images_per_s }, { "step_seconds", n->step_s },
                    { "data_share", n->data_share }, { "wait_share", n->wait_share }, { "memory_bytes", n->memory_bytes },
                    { "left_seconds", n->left_s }, { "best_AP", n->best_step >= 0 ? n->best : NAN }, { "best_step", (double)n->best_step } };
    int late = straggler(t);

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        dg_str_fmt(s, "%s\"%s\":", i ? "," : "{", numbers[i].key);
        dg_str_json_real(s, numbers[i].v);
    }
    dg_str_fmt(s, ",\"straggler\":%d,\"status\":", late);
    for (const char *c = t->answer; *c; c++)
        if (*c != '\n')
            dg_str_add_n(s, c, 1);
    dg_str_add(s, "}\n");
}

static void show(top *t)
{
    dg_str s = { 0 };

    if (as_json(t))
        add_json(&s, t);
    else
        add_all(&s, t);
    if (t->terminal)
        redraw(t, s.s);
    else
        fputs(s.s, stdout);
    fflush(stdout);
    dg_str_free(&s);
}

static void measure_terminal(top *t)
{
    struct winsize w = { 0 };

    t->terminal = !t->o->once && !as_json(t) && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0;
    t->columns = w.ws_col > 20 ? w.ws_col : 120;
    t->height = w.ws_row;
    t->colour = dg_colour(STDOUT_FILENO);
}

/* The job does not answer: how it ended, if it has said so; else it may well go on, and d says what is known. */
static int say_end(top *t, const dg_diag *d)
{
    const dg_now *n = dg_follow_look(t->follow);

    if (strcmp(n->state, "running") == 0 || !*n->state) {
        dg_print_diag(d, NULL);
        fprintf(stderr, "the job has not said that it ended: detrgraph doctor %s may know more\n", t->folder);
        return DG_EXIT_FAILED;
    }
    fprintf(as_json(t) ? stderr : stdout, "the job has ended at step %lld: %s%s%.*s\n", (long long)n->step, n->state, *n->why ? ", " : "",
            (int)strcspn(n->why, "\n"), n->why);
    return strcmp(n->state, "failed") == 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

/* Sleeps; false: a signal came that means the end. */
static bool rest(const sigset_t *ends, double seconds)
{
    const struct timespec time = { (time_t)seconds, (long)(1e9 * (seconds - floor(seconds))) };

    return sigtimedwait(ends, NULL, &time) < 0;
}

static int watch(top *t, const sigset_t *ends, dg_diag *d)
{
    double every = t->o->every > 0 ? t->o->every : 1;
    int    rc = ask(t, d);

    while (rc == 0) {
        measure_terminal(t);
        t->now = dg_follow_look(t->follow);
        show(t);
        if (t->o->once)
            return DG_EXIT_OK;
        for (int i = 0; i < LOOKS && rc == 0; i++) { /* who waits changes quickly */
            if (!rest(ends, every / LOOKS))
                return DG_EXIT_INTERRUPTED;
            rc = ask(t, d);
        }
    }
    return t->now ? say_end(t, d) : DG_EXIT_FAILED;
}

static const dg_example examples[] = {
    { "top runs/first", "until the run ends, or Ctrl-C" },
    { "top runs/first --once --format json", "for scripts" },
    { 0 },
};

static int run(const void *given, const dg_words *words, dg_arena *a)
{
    dg_diag *d = dg_diag_open();
    top     *t = DG_NEW(a, top);
    sigset_t ends;
    int      code;

    *t = (top){ .o = given, .folder = words->v[0], .follow = dg_follow_open(words->v[0]) };
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    code = watch(t, &ends, d);
    if (!t->now)
        dg_print_diag(d, NULL);
    dg_follow_close(&t->follow);
    dg_arena_close(&t->arena);
    dg_diag_close(&d);
    return code;
}

const dg_verb dg_verb_top = {
    .name = "top",
    .args = "RUN [--once] [--every SECONDS] [--format json]",
    .brief = "Shows a running job: steps, speed, and where its ranks are.",
    .doc = "RUN is the run's folder. The screen is rewritten in place; where standard output is no terminal, lines follow one\n"
           "another. It ends with the job. \"waits\" is how often a rank waited for the others when it was looked at: the one\n"
           "that waits clearly less holds them up, and is marked.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = run,
};
