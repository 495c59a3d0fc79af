/* serve.c: see serve.h. */
#include "cli/serve.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "media/image.h"

enum { WAITING = 1024 }; /* images; more are refused, because they would wait for minutes */

struct dg_serve_queue {
    pthread_mutex_t lock; /* protects what follows, and the tasks that wait */
    pthread_cond_t put, done;
    dg_serve_task *first, **last;
    dg_serve_counts counts;
    int64_t most_pixels; /* never changes */
};

void dg_serve_error(dg_str *out, const char *name, const char *id, const char *text)
{
    dg_str_add(out, "{");
    if (name) {
        dg_str_add(out, "\"image\":");
        dg_str_json(out, name);
        dg_str_add(out, ",");
    }
    dg_str_add(out, "\"error\":{\"id\":");
    dg_str_json(out, id);
    dg_str_add(out, ",\"message\":");
    dg_str_json(out, text);
    dg_str_add(out, "}}");
}

dg_serve_queue *dg_serve_queue_open(int64_t most_pixels)
{
    dg_serve_queue *q = calloc(1, sizeof *q);

    if (!q)
        return NULL;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->put, NULL);
    pthread_cond_init(&q->done, NULL);
    q->last = &q->first;
    q->most_pixels = most_pixels;
    return q;
}

void dg_serve_queue_close(dg_serve_queue **q)
{
    if (!*q)
        return;
    pthread_cond_destroy(&(*q)->put);
    pthread_cond_destroy(&(*q)->done);
    pthread_mutex_destroy(&(*q)->lock);
    free(*q);
    *q = NULL;
}

dg_serve_counts dg_serve_count(dg_serve_queue *q)
{
    dg_serve_counts counts;

    pthread_mutex_lock(&q->lock);
    counts = q->counts;
    pthread_mutex_unlock(&q->lock);
    return counts;
}

static const char *name_of(const dg_serve_task *t)
{
    return *t->part->name ? t->part->name : "image";
}

static void fail(dg_serve_task *t, int status, const char *id, const char *text)
{
    dg_str_free(&t->json);
    dg_serve_error(&t->json, name_of(t), id, text);
    t->status = status;
}

static const char *first_id(const dg_diag *d)
{
    return dg_diag_n(d) ? dg_diag_at(d, 0)->id : "internal";
}

static const char *first_text(const dg_diag *d)
{
    return dg_diag_n(d) ? dg_diag_at(d, 0)->text : "unknown";
}

/* Refuses an image whose pixels would take too much memory, by its header: a small file may hold a
 * large one. What cannot be read fails later. */
static void measure(const dg_serve_queue *q, dg_serve_task *t)
{
    dg_diag *d = dg_diag_open();
    dg_image_header h;
    char text[120];

    if (dg_image_header_decode(&h, t->part->bytes, t->part->n, name_of(t), d) == 0) {
        t->pixels = (int64_t)h.w * h.h;
        snprintf(text, sizeof text,
                 "an image of %d x %d pixels; at most %g million are accepted (--pixels)", h.w, h.h,
                 (double)q->most_pixels / 1e6);
        t->done = t->pixels > q->most_pixels;
        if (t->done)
            fail(t, 413, "serve-pixels", text);
    } else if (strcmp(first_id(d), "image-size") == 0) {
        fail(t, 413, first_id(d), first_text(d));
        t->done = true;
    }
    dg_diag_close(&d);
}

void dg_serve_wait(dg_serve_queue *q, dg_serve_task *tasks, int n)
{
    bool all;

    for (int i = 0; i < n; i++)
        measure(q, &tasks[i]);
    pthread_mutex_lock(&q->lock);
    all = q->counts.ending || q->counts.waiting + n > WAITING;
    for (int i = 0; i < n; i++) {
        if (tasks[i].done) {
            q->counts.failed++;
            continue;
        }
        if (all) {
            fail(&tasks[i], 503, q->counts.ending ? "serve-ending" : "serve-busy",
                 q->counts.ending ? "the server is ending" : "too many images wait already");
            tasks[i].done = true;
            continue;
        }
        *q->last = &tasks[i];
        q->last = &tasks[i].next;
        q->counts.waiting++;
    }
    pthread_cond_signal(&q->put);
    for (int i = 0; i < n; i++)
        while (!tasks[i].done)
            pthread_cond_wait(&q->done, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

void dg_serve_end(dg_serve_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->counts.ending = true;
    pthread_cond_signal(&q->put);
    pthread_mutex_unlock(&q->lock);
}

/* ---- computing ------------------------------------------------------------------------------- */

/* Call with the lock held; NULL: nothing waits, or the first has more pixels than there is room. */
static dg_serve_task *take_first(dg_serve_queue *q, int64_t room)
{
    dg_serve_task *t = q->first;

    if (!t || t->pixels > room)
        return NULL;
    q->first = t->next;
    q->last = q->first ? q->last : &q->first;
    t->next = NULL;
    q->counts.waiting--;
    return t;
}

static void answer(dg_serve_task *t, const dg_detected *found, dg_predict_names names)
{
    dg_detected shown = *found;
    int64_t printed = 0;

    while (shown.n && shown.items[shown.n - 1].score < t->threshold)
        shown.n--; /* the batch was computed for its lowest threshold */
    dg_predict_print(&t->json, DG_PREDICT_LINES, &shown, names, 0, NULL, &printed, t->threshold);
    t->status = 200;
}

/* Adds as many of the waiting tasks as fit. Returns how many there are in the batch. */
static int fill(dg_serve_queue *q, dg_detector *p, dg_serve_task **tasks, double *threshold)
{
    dg_serve_task *t;
    dg_diag *d;
    int64_t room = q->most_pixels;
    int n = 0, rc;

    while (dg_detector_room(p)) {
        pthread_mutex_lock(&q->lock);
        t = take_first(q, room);
        pthread_mutex_unlock(&q->lock);
        if (!t)
            break;
        d = dg_diag_open();
        rc = dg_detector_add_bytes(p, name_of(t), t->part->bytes, t->part->n, d);
        if (rc == 0) {
            *threshold = n == 0 || t->threshold < *threshold ? t->threshold : *threshold;
            tasks[n++] = t;
            room -= t->pixels;
        } else {
            fail(t, rc == -DG_EINPUT || rc == -DG_EIO ? 400 : 500, first_id(d), first_text(d));
            pthread_mutex_lock(&q->lock);
            t->done = true;
            q->counts.failed++;
            pthread_cond_broadcast(&q->done);
            pthread_mutex_unlock(&q->lock);
        }
        dg_diag_close(&d);
    }
    return n;
}

static void compute_batch(dg_serve_queue *q, dg_detector *p, dg_predict_names names,
                          dg_serve_task **tasks)
{
    const dg_detected *found = NULL;
    dg_diag *d = dg_diag_open();
    double threshold = 0;
    const int n = fill(q, p, tasks, &threshold);
    int n_found, rc = n ? dg_detector_run(p, threshold, &found, &n_found, d) : 0;

    for (int i = 0; i < n; i++)
        if (rc < 0)
            fail(tasks[i], 500, first_id(d), first_text(d));
        else
            answer(tasks[i], &found[i], names);
    pthread_mutex_lock(&q->lock);
    for (int i = 0; i < n; i++)
        tasks[i]->done = true;
    q->counts.images += rc < 0 ? 0 : n;
    q->counts.failed += rc < 0 ? n : 0;
    q->counts.batches += n > 0;
    pthread_cond_broadcast(&q->done);
    pthread_mutex_unlock(&q->lock);
    dg_diag_close(&d);
}

void dg_serve_compute(dg_serve_queue *q, dg_detector *p, dg_predict_names names)
{
    dg_arena *a = dg_arena_open();
    dg_serve_task **tasks = DG_NEW_N(a, dg_detector_room(p), dg_serve_task *), *t;

    pthread_mutex_lock(&q->lock);
    while (!q->counts.ending) {
        if (!q->first) {
            pthread_cond_wait(&q->put, &q->lock);
            continue;
        }
        pthread_mutex_unlock(&q->lock);
        compute_batch(q, p, names, tasks);
        pthread_mutex_lock(&q->lock);
    }
    while ((t = take_first(q, INT64_MAX))) {
        fail(t, 503, "serve-ending", "the server is ending");
        t->done = true;
    }
    pthread_cond_broadcast(&q->done);
    pthread_mutex_unlock(&q->lock);
    dg_arena_close(&a);
}
