/* cmd_serve.c: `detrgraph serve`: detects on images that come over HTTP. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/serve.h"
#include "cli/signals.h"
#include "cli/trained.h"

typedef struct opts {
    dg_words sets;
    const char *weights, *which, *port, *threshold, *precision, *device;
    int64_t threads, limit, pixels;
} opts;

static const dg_option options[] = {
    { "port", DG_OPTION_STR, offsetof(opts, port), "N", NULL,
      "listen at 127.0.0.1:N; 0 takes any free port (8080)" },
    { "weights", DG_OPTION_STR, offsetof(opts, weights), "FILE", NULL,
      "safetensors, a PyTorch checkpoint, a folder, or a name of `weights list`" },
    DG_OPTION_WHICH(opts),
    { "threshold", DG_OPTION_STR, offsetof(opts, threshold), "SCORE", NULL,
      "minimum score where a request has none (the one with the best F1 in the run's evaluation, "
      "else 0.4)" },
    { "limit", DG_OPTION_COUNT, offsetof(opts, limit), "MIB", NULL,
      "largest request, in MiB (32); eight times that for all requests at a time" },
    { "pixels", DG_OPTION_COUNT, offsetof(opts, pixels), "MILLION", NULL,
      "largest image, in million pixels (64), and largest sum of those in a batch" },
    DG_OPTION_SETS(opts),
    DG_OPTION_PRECISION(opts),
    DG_OPTION_DEVICE(opts),
    DG_OPTION_THREADS(opts),
    { 0 },
};

enum { PORT = 8080, LIMIT_MIB = 32, PIXELS = 64 /* million */, IMAGES = 64 /* of a request */ };

typedef struct server {
    dg_serve_queue *queue;
    dg_predict_names names;
    double threshold;
    const char *model;
    int batch;
} server;

/* ---- answers: called by the server's threads ------------------------------------------------- */

static void answer_error(dg_http_reply *r, int status, const char *id, const char *text)
{
    dg_str_free(&r->text);
    dg_serve_error(&r->text, NULL, id, text);
    dg_str_add(&r->text, "\n");
    r->status = status;
}

static void refuse(void *self, dg_http_reply *r)
{
    (void)self;
    r->type = "application/json";
    if (r->status == 413)
        answer_error(r, 413, "serve-large", "the request is larger than --limit");
    else
        answer_error(r, r->status, "serve-busy", "all requests together are larger than the limit");
}

static void answer_health(server *s, const dg_http_request *q, dg_http_reply *r)
{
    const dg_serve_counts c = dg_serve_count(s->queue);

    (void)q;
    dg_str_fmt(&r->text, "{\"state\":\"%s\",\"model\":", c.ending ? "ending" : "ready");
    dg_str_json(&r->text, s->model);
    dg_str_fmt(&r->text,
               ",\"threshold\":%g,\"batch\":%d,\"waiting\":%d,\"images\":%lld,\"batches\":%lld,"
               "\"failed\":%lld}\n",
               s->threshold, s->batch, c.waiting, (long long)c.images, (long long)c.batches,
               (long long)c.failed);
}

static void answer_classes(server *s, const dg_http_request *q, dg_http_reply *r)
{
    (void)q;
    dg_str_add(&r->text, "[");
    for (int i = 0; i < s->names.n; i++) {
        dg_str_fmt(&r->text, "%s{\"label\":%d,\"name\":", i ? "," : "", i);
        dg_str_json(&r->text, dg_predict_class(s->names, i));
        dg_str_add(&r->text, "}");
    }
    dg_str_add(&r->text, "]\n");
}

static void answer_tasks(const dg_serve_task *tasks, int n, dg_http_reply *r)
{
    r->status = tasks[0].status;
    for (int i = 1; i < n; i++) /* of several images, one that worked makes it a success */
        if (tasks[i].status < r->status)
            r->status = tasks[i].status;
    dg_str_add(&r->text, n > 1 ? "[" : "");
    for (int i = 0; i < n; i++) {
        size_t end = tasks[i].json.n;

        while (end && tasks[i].json.s[end - 1] == '\n')
            end--;
        dg_str_add(&r->text, i ? ",\n" : "");
        dg_str_add_n(&r->text, tasks[i].json.s ? tasks[i].json.s : "", end);
    }
    dg_str_add(&r->text, n > 1 ? "]\n" : "\n");
}

static void answer_detect(server *s, const dg_http_request *q, dg_http_reply *r)
{
    const char *asked = dg_http_argument(q, "threshold");
    double threshold = s->threshold;
    dg_serve_task tasks[IMAGES] = { 0 };
    char text[80];

    if (asked && (!dg_parse_f64(asked, &threshold) || !(threshold >= 0 && threshold <= 1))) {
        answer_error(r, 400, "serve-threshold", "threshold: a score from 0 to 1 is expected");
    } else if (q->n_parts == 0) {
        answer_error(r, 400, "serve-empty",
                     "there is no image in the request: POST its bytes, or a form with files");
    } else if (q->n_parts > IMAGES) {
        snprintf(text, sizeof text, "%d images in one request; at most %d are accepted", q->n_parts,
                 IMAGES);
        answer_error(r, 413, "serve-many", text);
    } else {
        for (int i = 0; i < q->n_parts; i++)
            tasks[i] = (dg_serve_task){ .part = &q->parts[i], .threshold = threshold };
        dg_serve_wait(s->queue, tasks, q->n_parts);
        answer_tasks(tasks, q->n_parts, r);
        for (int i = 0; i < q->n_parts; i++)
            dg_str_free(&tasks[i].json);
    }
}

static void answer_page(server *s, const dg_http_request *q, dg_http_reply *r)
{
    (void)s, (void)q;
    r->type = "text/html; charset=utf-8";
    for (int i = 0; dg_serve_page[i]; i++)
        dg_str_add(&r->text, dg_serve_page[i]);
}

static const struct {
    const char *path;
    bool post;
    void (*answer)(server *s, const dg_http_request *q, dg_http_reply *r);
} places[] = {
    { "/", false, answer_page },
    { "/health", false, answer_health },
    { "/classes", false, answer_classes },
    { "/detect", true, answer_detect },
};
enum { PLACES = sizeof places / sizeof *places };

static void answer(void *self, const dg_http_request *q, dg_http_reply *r)
{
    const bool post = strcmp(q->method, "POST") == 0,
               get = strcmp(q->method, "GET") == 0 || strcmp(q->method, "HEAD") == 0;
    int i = 0;

    r->type = "application/json";
    while (i < PLACES && strcmp(q->path, places[i].path) != 0)
        i++;
    if (i == PLACES) {
        answer_error(r, 404, "serve-path",
                     "there are /, /health and /classes, and POST /detect takes images");
    } else if (places[i].post ? !post : !get) {
        r->allow = places[i].post ? "POST" : "GET, HEAD";
        answer_error(r, 405, "serve-method", places[i].post ? "POST images here" : "GET this");
    } else {
        places[i].answer(self, q, r);
    }
}

/* ---- the verb -------------------------------------------------------------------------------- */

static void end_queue(void *queue)
{
    dg_serve_end(queue);
}

static int listen_and_compute(server *s, dg_detector *p, const opts *o, int port, dg_diag *d)
{
    const size_t most = (size_t)(o->limit ? o->limit : LIMIT_MIB) << 20;
    const dg_http_conf conf = { .port = port,
                                .option = "--port",
                                .id = "serve-port",
                                .connections = DG_HTTP_CONNECTIONS,
                                .waits = true,
                                .most_bytes = most,
                                .most_bytes_in_all = 8 * most,
                                .answer = answer,
                                .refuse = refuse,
                                .ctx = s };
    dg_http *http = NULL;
    int rc;

    s->names.v = dg_detector_classes(p, &s->names.n);
    s->batch = dg_detector_room(p);
    DG_TRY(dg_http_open(&http, &conf, d));
    dg_say("http://127.0.0.1:%d\n", dg_http_port(http));
    fflush(stdout);
    dg_serve_compute(s->queue, p, s->names);
out:
    dg_http_close(&http);
    return rc;
}

static int serve(const opts *o, const dg_trained_words *w, double threshold, int port)
{
    const int64_t millions = o->pixels == 0 ? PIXELS : o->pixels < 1000000 ? o->pixels : 1000000;
    server s = { .queue = dg_serve_queue_open(millions * 1000000),
                 .model = *w->place ? w->place : w->weights };
    /* before the threads that compute */
    dg_signals *signals = s.queue ? dg_signals_open(end_queue, s.queue) : NULL;
    dg_diag *d = dg_diag_open();
    dg_detector *p = NULL;
    int rc = -DG_EMEMORY;

    if (!signals) {
        dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the server");
        goto out;
    }
    DG_TRY(dg_trained_detector(&p, w, &threshold, d));
    s.threshold = threshold;
    DG_TRY(listen_and_compute(&s, p, o, port, d));
out:
    dg_print_diag_files(d);
    dg_detector_close(&p);
    dg_signals_close(&signals);
    dg_serve_queue_close(&s.queue);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_serve(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    const char *place = words->n ? words->v[0] : "";
    const dg_trained_words w = { .place = place,
                                 .weights = o->weights,
                                 .sets = &o->sets,
                                 .which = o->which,
                                 .precision = o->precision,
                                 .device = o->device,
                                 .threads = o->threads };
    double threshold;
    int64_t port = PORT;
    int code;

    (void)a;
    if (o->port && (!dg_parse_i64(o->port, &port) || port < 0 || port > 65535)) {
        dg_say_error("detrgraph serve: --port %s: a number from 0 to 65535 is expected\n", o->port);
        return DG_EXIT_USAGE;
    }
    if (!dg_trained_alone("serve", place, o->weights, dg_verb_serve.args))
        return DG_EXIT_USAGE;
    if (!dg_trained_least(&threshold, "serve", o->threshold))
        return DG_EXIT_USAGE;
    return dg_launch_alone((int)o->threads, &code) ? code : serve(o, &w, threshold, (int)port);
}

static const dg_example examples[] = {
    { "serve runs/bccd", "Detect at http://127.0.0.1:8080, where there is a page for pictures." },
    { "serve --weights rtdetrv2_r18vd_coco --port 9000",
      "Serve a published detector, which `weights fetch` fetches." },
    { "serve runs/bccd --set batch=1", "Answer single requests as fast as possible." },
    { 0 },
};

const dg_verb dg_verb_serve = {
    .name = "serve",
    .args = "[PATH] [--weights FILE] [--port N] [--threshold SCORE]",
    .brief = "Detect objects in images that come over HTTP.",
    .doc = "PATH and the weights are those of `predict`. The server is reached from this machine "
           "only. POST /detect takes an image, or a form with several files, and answers with "
           "JSON; GET / is a page to drop a picture on. Ctrl-C ends it.",
    .manual =
        "`POST /detect` takes JPEG, PNG, BMP, WebP or TIFF bytes, and answers with an object as of "
        "`predict "
        "--format jsonl`; for a form (multipart/form-data) with several files with a list of "
        "them. `?threshold=0.3` sets the least score.\n\n"
        "`GET /health` tells state, images, batches and how many images wait; `GET /classes` lists "
        "labels and names.\n\n"
        "Images that wait are computed together, as many as the pipeline's evaluation has in a "
        "batch. Errors are {\"error\":{\"id\":...,\"message\":...}} with the status 400 (no "
        "image), "
        "404, 405, 413 (too large: the request, or the pixels of an image), 500 or 503 (too many "
        "wait). A signal ends the server after the "
        "current batch; images that still wait get 503.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 0,
    .most = 1,
    .run = verb_serve,
};
