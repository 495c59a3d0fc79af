/* metrics_tail.c: see metrics_tail.h. A file that has become shorter, is another one, or begins
 * with other bytes (a file system may give a deleted file's number to the next one) belongs to a
 * restarted or resumed run, and is read from the start. */
#include "report/metrics_tail.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"
#include "media/json.h"
#include "report/history.h"

enum { HEAD = 1024 };           /* bytes: a few lines, with times that no two runs share */
static const double KEEP = 0.9; /* weight of the old running mean per step */

struct dg_metrics_tail {
    dg_arena *arena, *look; /* look: owns the latest result's texts */
    const char *metrics, *run, *folder, *control;
    long at;
    ino_t file;    /* whose bytes before `at` were read */
    size_t n_head; /* of those, the first up to HEAD, and their hash */
    uint64_t head;
    dg_now now;
    double sum; /* of the losses of the trail's last, unfinished part */
    int n_sum;
    int64_t part;           /* steps of each part */
    double evaluate_s;      /* duration of the latest evaluation */
    int64_t evaluated, gap; /* the step after it, and steps since the previous one */
};

static const dg_now nothing = { .loss = NAN,
                                .mean_loss = NAN,
                                .lr = NAN,
                                .images_per_s = NAN,
                                .step_s = NAN,
                                .data_share = NAN,
                                .wait_share = NAN,
                                .device_share = NAN,
                                .memory_bytes = NAN,
                                .device_memory_bytes = NAN,
                                .left_s = -1,
                                .best_step = -1,
                                .ap = NAN,
                                .constant_ap = NAN,
                                .state = "",
                                .why = "",
                                .fault = "" };

dg_metrics_tail *dg_metrics_tail_open(const char *folder)
{
    dg_arena *a = dg_arena_open();
    dg_metrics_tail *f = DG_NEW(a, dg_metrics_tail);

    f->arena = a;
    f->metrics = dg_path_join(a, folder, "metrics.jsonl");
    f->run = dg_path_join(a, folder, "run.json");
    f->folder = dg_strdup(a, folder);
    f->control = dg_path_join(a, folder, "control");
    f->now = nothing;
    return f;
}

void dg_metrics_tail_close(dg_metrics_tail **f)
{
    dg_arena *a = *f ? (*f)->arena : NULL;

    if (*f)
        dg_arena_close(&(*f)->look);
    dg_arena_close(&a);
    *f = NULL;
}

static void mean_in(double *mean, double v)
{
    if (isfinite(v))
        *mean = isfinite(*mean) ? KEEP * *mean + (1 - KEEP) * v : v;
}

static void take_evaluation(dg_metrics_tail *f, const dg_json *o)
{
    int64_t step = (int64_t)dg_json_number(o, "step");
    double ap = dg_json_number(o, "AP");

    f->evaluate_s = fmax(dg_json_number(o, "seconds"), 0);
    f->gap = step > f->evaluated ? step - f->evaluated : f->gap;
    f->evaluated = step;
    f->now.ap = ap >= 0 ? ap : NAN;
    f->now.constant_ap =
        dg_json_number(o, "constant_AP") >= 0 ? dg_json_number(o, "constant_AP") : NAN;
    if (isfinite(ap) && (f->now.best_step < 0 || ap > f->now.best)) {
        f->now.best = ap;
        f->now.best_step = step;
    }
}

/* Adds a loss to the trail; when that is full, two parts each become one. */
static void follow_loss(dg_metrics_tail *f, double loss)
{
    dg_now *n = &f->now;

    if (!isfinite(loss))
        return;
    f->part = f->part > 0 ? f->part : 1;
    f->sum += loss;
    if (++f->n_sum < f->part)
        return;
    if (n->n_trail == DG_TRAIL) {
        for (int i = 0; i < DG_TRAIL / 2; i++)
            n->trail[i] = (n->trail[2 * i] + n->trail[2 * i + 1]) / 2;
        n->n_trail = DG_TRAIL / 2;
        f->part *= 2;
        return; /* what is summed up is the first half of a part now */
    }
    n->trail[n->n_trail++] = f->sum / f->n_sum;
    f->sum = f->n_sum = 0;
}

static void take_line(dg_metrics_tail *f, const dg_json *o)
{
    dg_now *n = &f->now;
    double seconds = dg_json_number(o, "seconds");

    if (!(fabs(dg_json_number(o, "step")) < 1e15))
        return;
    if (dg_json_get(o, "evaluate")) {
        take_evaluation(f, o);
        return;
    }
    n->step = (int64_t)dg_json_number(o, "step");
    n->epoch = fabs(dg_json_number(o, "epoch")) < 1e15 ? (int64_t)dg_json_number(o, "epoch") : 0;
    n->loss = dg_json_number(o, "loss");
    n->lr = dg_json_number(o, "lr");
    n->memory_bytes = dg_json_number(o, "memory_bytes");
    n->device_memory_bytes = dg_json_number(o, "device_memory_bytes");
    mean_in(&n->mean_loss, n->loss);
    follow_loss(f, n->loss);
    mean_in(&n->images_per_s, dg_json_number(o, "images_per_s"));
    mean_in(&n->step_s, seconds);
    mean_in(&n->data_share, dg_json_number(o, "data_seconds") / seconds);
    mean_in(&n->wait_share, dg_json_number(o, "wait_seconds") / seconds);
    mean_in(&n->device_share, dg_json_number(o, "device_seconds") / seconds);
}

static uint64_t hash_head(int fd, size_t n)
{
    char bytes[HEAD];
    const ssize_t got = n ? pread(fd, bytes, n, 0) : 0;

    return dg_hash64(0, bytes, got > 0 ? (size_t)got : 0);
}

static bool is_another(const dg_metrics_tail *f, int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_ino != f->file || st.st_size < f->at ||
                                   (f->n_head && hash_head(fd, f->n_head) != f->head));
}

/* Reads complete lines; the last one may still be being written. */
static void read_more(dg_metrics_tail *f)
{
    dg_diag *d = dg_diag_open();
    int fd = -1;
    FILE *file = dg_file_open(&fd, f->metrics, O_RDONLY, d) == 0 ? fdopen(fd, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    struct stat st;

    f->now.fault = !file && dg_exists(f->metrics) && dg_diag_n(d)
                       ? dg_printf(f->look, "%s: %s", f->metrics, dg_diag_at(d, 0)->text)
                       : "";
    if (!file) {
        dg_diag_close(&d);
        return;
    }
    if (is_another(f, fd)) {
        f->now = nothing;
        f->at = 0;
        f->n_head = 0;
        f->file = fstat(fd, &st) == 0 ? st.st_ino : 0;
        f->evaluated = f->gap = f->part = 0;
        f->sum = f->n_sum = 0;
    }
    (void)!fseek(file, f->at, SEEK_SET);
    while ((n = getline(&line, &room, file)) > 0 && line[n - 1] == '\n') {
        dg_arena *a = dg_arena_open();
        const dg_json *o;

        if (dg_json_parse(&o, a, line, (size_t)n, f->metrics, d) == 0)
            take_line(f, o);
        dg_arena_close(&a);
        f->at += n;
    }
    if (f->n_head < HEAD) {
        f->n_head = f->at < HEAD ? (size_t)f->at : HEAD;
        f->head = hash_head(fd, f->n_head);
    }
    free(line);
    fclose(file);
    dg_diag_close(&d);
}

static int64_t epochs_of(const dg_json *run, int64_t steps)
{
    const double n = ceil((double)steps * dg_json_number(run, "accumulate") /
                          dg_json_number(run, "batches_per_epoch"));

    return n > 0 && n < 1e15 ? (int64_t)n : 0;
}

static void read_run(dg_metrics_tail *f)
{
    dg_diag *ignored = dg_diag_open();
    const dg_json *o = NULL, *end, *verdict;

    f->now.state = f->now.why = "";
    if (dg_exists(f->run) && dg_json_read(&o, f->look, f->run, ignored) == 0) {
        end = dg_json_get(o, "end");
        f->now.n_steps = dg_json_number(o, "steps") > 0 && dg_json_number(o, "steps") < 1e15
                             ? (int64_t)dg_json_number(o, "steps")
                             : 0;
        f->now.n_epochs = epochs_of(o, f->now.n_steps);
        f->now.state = dg_json_text(end, "state");
        f->now.why = dg_json_text(end, "why");
    }
    if ((strcmp(f->now.state, "failed") == 0 || strcmp(f->now.state, "running") == 0) &&
        !dg_exists(f->control) && (verdict = dg_verdict_of(f->look, f->folder))) {
        f->now.state = "failed";
        f->now.why = dg_json_text(verdict, "message");
    }
    dg_diag_close(&ignored);
}

const dg_now *dg_metrics_tail_look(dg_metrics_tail *f)
{
    dg_now *n = &f->now;

    dg_arena_close(&f->look);
    f->look = dg_arena_open();
    read_more(f);
    read_run(f);
    n->left_s = -1;
    if (n->n_steps > 0 && isfinite(n->step_s)) {
        n->left_s = (double)(n->n_steps - n->step) * n->step_s;
        n->left_s +=
            f->gap > 0 ? (double)(n->n_steps - n->step) / (double)f->gap * f->evaluate_s : 0;
    }
    return n;
}
