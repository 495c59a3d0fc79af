/* report_serve.c: see report_serve.h. One thread looks at the runs and makes the page; threads of
 * the server give it away, and tell viewers what has changed as server-sent events: "now" with the
 * numbers of `top` every second, "page" with the sums of the page's sections. A viewer gets the
 * newest state only, however slowly it reads. The runs are not asked for anything that `top` does
 * not ask for, and not at all without a viewer. */
#include "cli/report_serve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/job.h"
#include "cli/signals.h"
#include "report/history.h"
#include "report/http.h"
#include "report/report.h"

enum { LOOK_S = 1, COURTESY = 10 /* of `nice`: the runs come first */ };

/* The page is made anew when files have changed, but at most this often, and for at most this share
 * of the time. */
static const double page_every_s = 5, page_share = 0.05;

typedef struct live {
    const char *const *folders;
    int n;
    dg_arena *arena;
    dg_job **jobs;
    uint64_t files;      /* what the page was made from */
    double made, cost_s; /* when, and in which time */

    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t news;
    dg_report_page page;
    dg_str now;             /* JSON */
    uint64_t n_page, n_now; /* count up as they change */
    int viewers;
    bool ending;
} live;

/* ---- answers: called by the server's threads ------------------------------------------------- */

static struct timespec in_seconds(double s)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)s;
    return t;
}

/* The events that a viewer has not seen yet. */
static bool more_events(void *self, uint64_t seen[2], dg_str *text)
{
    const struct timespec most = in_seconds(DG_HTTP_STREAM_S);
    live *l = self;
    bool goes_on;

    pthread_mutex_lock(&l->lock);
    l->viewers++;
    for (int rc = 0; rc == 0 && !l->ending && seen[0] == l->n_now && seen[1] == l->n_page;)
        rc = pthread_cond_timedwait(&l->news, &l->lock, &most);
    if (seen[1] != l->n_page) {
        dg_str_add(text, "event: page\ndata: ");
        dg_report_sums(text, l->page.parts, l->page.n);
        dg_str_add(text, "\n\n");
    }
    if (seen[0] != l->n_now)
        dg_str_fmt(text, "event: now\ndata: %s\n\n", l->now.s);
    if (!text->n)
        dg_str_add(text, ":\n\n"); /* a comment */
    seen[0] = l->n_now;
    seen[1] = l->n_page;
    l->viewers--;
    goes_on = !l->ending;
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

static void answer_events(live *l, const char *rest, dg_http_reply *r)
{
    (void)l, (void)rest;
    r->type = "text/event-stream";
    r->more = more_events;
    dg_str_add(&r->text, "retry: 2000\n\n");
}

static void answer_page(live *l, const char *rest, dg_http_reply *r)
{
    (void)rest;
    r->type = "text/html; charset=utf-8";
    pthread_mutex_lock(&l->lock);
    dg_str_add_n(&r->text, l->page.html.s, l->page.html.n);
    pthread_mutex_unlock(&l->lock);
}

static void answer_script(live *l, const char *rest, dg_http_reply *r)
{
    (void)l, (void)rest;
    r->type = "text/javascript; charset=utf-8";
    for (int i = 0; dg_report_script[i]; i++)
        dg_str_add(&r->text, dg_report_script[i]);
}

/* /part/ID: a section of the page. */
static void answer_part(live *l, const char *id, dg_http_reply *r)
{
    r->status = 404;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->page.n; i++) {
        const dg_report_part *p = &l->page.parts[i];

        if (strcmp(p->id, id) == 0) {
            r->status = 200;
            r->type = "text/html; charset=utf-8";
            dg_str_add_n(&r->text, l->page.html.s + p->begin, p->end - p->begin);
        }
    }
    pthread_mutex_unlock(&l->lock);
    if (r->status == 404)
        dg_str_add(&r->text, "the page has no such section\n");
}

static void answer(void *self, const dg_http_request *q, dg_http_reply *r)
{
    static const struct {
        const char *path;
        bool begins; /* more follows the path */
        void (*answer)(live *l, const char *rest, dg_http_reply *r);
    } places[] = { { "/", false, answer_page },
                   { "/live.js", false, answer_script },
                   { "/events", false, answer_events },
                   { "/part/", true, answer_part } };

    if (strcmp(q->method, "GET") != 0) {
        r->status = 405;
        r->allow = "GET";
        return;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const size_t n = strlen(places[i].path);

        if (strncmp(q->path, places[i].path, n) == 0 && (places[i].begins || !q->path[n])) {
            places[i].answer(self, q->path + n, r);
            return;
        }
    }
    r->status = 404;
    dg_str_add(&r->text, "there is / only, the report\n");
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_run(dg_arena *a, const char *folder)
{
    return dg_exists(dg_path_join(a, folder, "metrics.jsonl")) ||
           dg_exists(dg_path_join(a, folder, "run.json"));
}

/* What files of the run look like now; a change is a reason for another page. */
static uint64_t files_of(const live *l)
{
    static const char *const names[] = { "metrics.jsonl", "run.json", "graph.svg",
                                         "flight/verdict.json", "control" };
    dg_arena *a = dg_arena_open();
    uint64_t sum = 0;
    struct stat st;

    for (int i = 0; i < l->n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (stat(dg_path_join(a, l->folders[i], names[k]), &st) == 0) {
                const int64_t numbers[] = { (int64_t)k, (int64_t)st.st_ino, (int64_t)st.st_size,
                                            (int64_t)st.st_mtim.tv_sec,
                                            (int64_t)st.st_mtim.tv_nsec };

                sum = dg_hash64(sum, numbers, sizeof numbers);
            }
    dg_arena_close(&a);
    return sum;
}

static void add_run(live *l, int i, dg_str *out)
{
    dg_arena *a = dg_arena_open();
    dg_diag *quiet = dg_diag_open();
    const bool there = is_run(a, l->folders[i]);
    const bool answers = there && dg_exists(dg_path_join(a, l->folders[i], "control")) &&
                         dg_job_ask(l->jobs[i], quiet) == 0;
    const dg_now *now = dg_job_look(l->jobs[i]);

    dg_str_fmt(out, "%s{\"folder\":", i ? "," : "");
    dg_str_json(out, l->folders[i]);
    dg_str_fmt(out, ",\"there\":%s,\"answers\":%s,\"ended\":", there ? "true" : "false",
               answers ? "true" : "false");
    dg_str_json(out, now->state);
    dg_str_add(out, ",\"why\":");
    dg_str_json(out, now->why);
    dg_str_add(out, ",\"now\":");
    dg_job_json(out, l->jobs[i], now);
    out->n -= out->s[out->n - 1] == '\n';
    dg_str_add(out, "}");
    dg_diag_close(&quiet);
    dg_arena_close(&a);
}

static void look_at_runs(live *l)
{
    dg_str now = { 0 };

    dg_str_add(&now, "{\"runs\":[");
    for (int i = 0; i < l->n; i++)
        add_run(l, i, &now);
    dg_str_add(&now, "]}");
    pthread_mutex_lock(&l->lock);
    if (!l->now.s || strcmp(l->now.s, now.s) != 0) {
        const dg_str old = l->now;

        l->now = now;
        now = old;
        l->n_now++;
        pthread_cond_broadcast(&l->news);
    }
    pthread_mutex_unlock(&l->lock);
    dg_str_free(&now);
}

/* A run whose folder is gone, or is being made, keeps the page that was. */
static int make_page(live *l, dg_diag *d)
{
    const uint64_t files = files_of(l);
    const double began = dg_monotonic_s();
    dg_report_page page, old;
    int rc = dg_report_live(&page, l->folders, l->n, d);

    l->files = files;
    l->made = dg_monotonic_s();
    l->cost_s = l->made - began;
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&l->lock);
    old = l->page;
    l->page = page;
    l->n_page++;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    dg_report_page_free(&old);
    return 0;
}

static bool is_page_due(const live *l)
{
    const double rest = l->cost_s / page_share;

    return dg_monotonic_s() - l->made >= (rest > page_every_s ? rest : page_every_s) &&
           files_of(l) != l->files;
}

/* Waits for the time of the next look; false: the end has come. */
static bool rest(live *l, bool *watched)
{
    const struct timespec until = in_seconds(LOOK_S);
    bool goes_on;

    pthread_mutex_lock(&l->lock);
    for (int rc = 0; rc == 0 && !l->ending;)
        rc = pthread_cond_timedwait(&l->news, &l->lock, &until);
    *watched = l->viewers > 0;
    goes_on = !l->ending;
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

static void follow(live *l)
{
    bool watched;

    while (rest(l, &watched)) {
        dg_diag *quiet = dg_diag_open();

        if (watched)
            look_at_runs(l);
        if (watched && is_page_due(l))
            (void)!make_page(l, quiet);
        dg_diag_close(&quiet);
    }
}

/* ---- from begin to end ----------------------------------------------------------------------- */

static void come_to_an_end(void *self)
{
    live *l = self;

    pthread_mutex_lock(&l->lock);
    if (l->ending)
        _exit(DG_EXIT_INTERRUPTED); /* asked twice: a run may take its time to answer */
    l->ending = true;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
}

static live *live_open(const char *const *folders, int n)
{
    dg_arena *a = dg_arena_open();
    live *l = DG_NEW(a, live);
    pthread_condattr_t by_clock;

    *l = (live){ .folders = folders, .n = n, .arena = a, .jobs = DG_NEW_N(a, n, dg_job *) };
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->news, &by_clock);
    pthread_condattr_destroy(&by_clock);
    for (int i = 0; i < n; i++)
        l->jobs[i] = dg_job_open(folders[i]);
    return l;
}

static void live_close(live *l)
{
    dg_arena *a = l->arena;

    for (int i = 0; i < l->n; i++)
        dg_job_close(&l->jobs[i]);
    dg_report_page_free(&l->page);
    dg_str_free(&l->now);
    pthread_cond_destroy(&l->news);
    pthread_mutex_destroy(&l->lock);
    dg_arena_close(&a);
}

int dg_report_serve(const char *const *folders, int n, const char *address, int port, dg_diag *d)
{
    live *l = live_open(folders, n);
    const dg_http_conf conf = { .port = port,
                                .address = address,
                                .option = "--port",
                                .id = "report-port",
                                .connections = DG_HTTP_CONNECTIONS,
                                .waits = true,
                                .most_bytes = 1 << 12,
                                .most_bytes_in_all = 1 << 20,
                                .answer = answer,
                                .ctx = l };
    dg_signals *signals = dg_signals_open(come_to_an_end, l);
    dg_http *http = NULL;
    int rc;

    (void)!nice(COURTESY);
    DG_TRY(make_page(l, d));
    look_at_runs(l);
    DG_TRY(dg_http_open(&http, &conf, d));
    dg_say("http://%s:%d\n", address ? address : "127.0.0.1", dg_http_port(http));
    fflush(stdout);
    follow(l);
out:
    dg_http_close(&http);
    dg_signals_close(&signals);
    live_close(l);
    return rc;
}
