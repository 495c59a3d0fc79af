/* predict_video.c: see predict_video.h. */
#include "cli/predict_video.h"

#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "media/video.h"

enum { BATCH = 256 }; /* no pipeline's batch is larger; a larger one is filled in part */
static const double said_every_s = 10, drawn_every_s = 0.2;

typedef struct clip {
    dg_predict_clip *c;
    dg_detector *detector;
    dg_video *video;
    dg_film *film;
    dg_outfile *lines;
    dg_scratch *frame, *drawing;
    dg_predict_frame waiting[BATCH]; /* in the detector */
    int n_waiting;
    int64_t added, done, found; /* frames, frames, objects */
    double began, said;         /* said: when progress was */
    bool bar;                   /* progress is on the line of standard error */
    bool has_film, has_lines;   /* written, and in their places */
} clip;

/* ---- progress -------------------------------------------------------------------------------- */

static void clear_bar(clip *k)
{
    if (k->bar)
        dg_line_clear(STDERR_FILENO);
    k->bar = false;
}

static int64_t expected(const clip *k)
{
    const int64_t all = dg_video_frames(k->video), most = k->c->most;

    return most && (!all || most < all) ? most : all;
}

/* How far it is, on standard error: a line that is rewritten on a terminal that standard output
 * does not use, elsewhere one every ten seconds. */
static void say_progress(clip *k)
{
    const bool terminal = dg_rewrites(STDERR_FILENO);
    const double now = dg_monotonic_s(), speed = (double)k->done / (now - k->began);
    const int64_t all = expected(k);
    char left[32];
    dg_str s = { 0 };

    if (now - k->said < (terminal ? drawn_every_s : said_every_s) ||
        (terminal && k->c->prints && isatty(STDOUT_FILENO)))
        return;
    k->said = now;
    clear_bar(k);
    dg_str_fmt(&s, "%s: %lld", dg_path_name(k->c->name), (long long)k->done);
    if (all)
        dg_str_fmt(&s, " of %s%lld", k->c->most == all ? "" : "about ", (long long)all);
    dg_str_fmt(&s, " frame%s, %.1f a second", dg_plural(all ? all : k->done, "s"), speed);
    if (all > k->done)
        dg_str_fmt(&s, ", %s left",
                   dg_human_time((double)(all - k->done) / speed, left, sizeof left));
    dg_say_error("%s%s", s.s, terminal ? "" : "\n");
    dg_str_free(&s);
    k->bar = terminal;
}

/* ---- what is found --------------------------------------------------------------------------- */

static int write_line(clip *k, const dg_detected *p, const dg_predict_frame *frame, dg_diag *d)
{
    dg_str line = { 0 };
    int64_t n = 0;
    int rc;

    dg_predict_print(&line, DG_PREDICT_LINES, p, k->c->names, 0, frame, &n, k->c->threshold);
    rc = dg_outfile_write(k->lines, line.s, line.n, d);
    dg_str_free(&line);
    return rc;
}

static int write_picture(clip *k, const dg_detected *p, const dg_predict_frame *frame, dg_diag *d)
{
    dg_image im;
    int rc;

    dg_scratch_reset(k->drawing);
    DG_TRY(dg_predict_draw(&im, k->drawing, p, k->c->names, 0, d));
    if (!k->film)
        DG_TRY(dg_film_open(&k->film, k->c->film, im.w, im.h, dg_video_fps(k->video), d));
    DG_TRY(dg_film_add(k->film, &im, frame->seconds, d));
out:
    return rc;
}

static int show(clip *k, const dg_detected *p, const dg_predict_frame *frame, dg_diag *d)
{
    dg_str out = { 0 };
    int rc = 0;

    if (k->c->prints) {
        dg_predict_print(&out, k->c->format, p, k->c->names, *k->c->number, frame, k->c->printed,
                         k->c->threshold);
        clear_bar(k);
        dg_say("%s", out.s ? out.s : "");
        fflush(stdout);
        dg_str_free(&out);
    }
    ++*k->c->number;
    k->done++;
    k->found += p->n;
    if (k->lines)
        DG_TRY(write_line(k, p, frame, d));
    if (k->c->film)
        DG_TRY(write_picture(k, p, frame, d));
out:
    return rc;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int run_batch(clip *k, dg_diag *d)
{
    const dg_detected *found;
    int rc = 0, n;

    if (!k->n_waiting)
        return 0;
    DG_TRY(dg_detector_run(k->detector, k->c->threshold, &found, &n, d));
    for (int i = 0; i < n; i++)
        DG_TRY(show(k, &found[i], &k->waiting[i], d));
    say_progress(k);
out:
    k->n_waiting = 0;
    return rc;
}

static int add_frame(clip *k, const dg_video_frame *f, dg_diag *d)
{
    const dg_pixels pixels = { .w = f->image.w, .h = f->image.h, .data = f->image.rgb };
    int rc = dg_detector_add_pixels(k->detector, k->c->name, &pixels, d);

    if (rc == 0) {
        k->waiting[k->n_waiting++] = (dg_predict_frame){ f->number, f->seconds };
        k->added++;
    }
    return rc;
}

/* Stops at the first fault; what was read before it is looked at in any case. */
static int look_at_all(clip *k, dg_diag *d)
{
    dg_video_frame f;
    int rc = 1, last;

    while (rc > 0 && !atomic_load(k->c->ended) && (!k->c->most || k->added < k->c->most)) {
        dg_scratch_reset(k->frame);
        rc = dg_video_next(k->video, &f, k->frame, d);
        if (rc > 0) {
            last = add_frame(k, &f, d);
            rc = last < 0 ? last : 1;
        }
        if (rc > 0 && (!dg_detector_room(k->detector) || k->n_waiting == BATCH)) {
            last = run_batch(k, d);
            rc = last < 0 ? last : 1;
        }
    }
    last = run_batch(k, d);
    return rc < 0 ? rc : last;
}

static void say_written(const clip *k)
{
    dg_say("%s: %lld frame%s, %lld found", k->c->name, (long long)k->done, dg_plural(k->done, "s"),
           (long long)k->found);
    if (k->has_film)
        dg_say("; %s", k->c->film);
    if (k->has_lines)
        dg_say("%s%s", k->has_film ? ", " : "; ", k->c->lines);
    dg_say("\n");
}

int dg_predict_video(dg_predict_clip *c, dg_detector *detector, dg_diag *d)
{
    clip k = { .c = c,
               .detector = detector,
               .frame = dg_scratch_open(0),
               .drawing = dg_scratch_open(0),
               .began = dg_monotonic_s(),
               .said = dg_monotonic_s() };
    int rc, end;

    DG_TRY(dg_video_open(&k.video, c->name, c->stride, d));
    if (c->lines)
        DG_TRY(dg_outfile_open(&k.lines, c->lines, d));
    rc = look_at_all(&k, d);
    if (k.film) {
        end = dg_film_close(&k.film, d);
        k.has_film = end == 0;
        rc = rc < 0 ? rc : end;
    }
    if (k.lines && k.done) {
        end = dg_outfile_commit(k.lines, d);
        k.has_lines = end == 0;
        rc = rc < 0 ? rc : end;
    }
    clear_bar(&k);
    if (c->lines && !c->prints)
        say_written(&k);
out:
    dg_outfile_close(&k.lines);
    dg_video_close(&k.video);
    dg_scratch_close(&k.drawing);
    dg_scratch_close(&k.frame);
    return rc;
}
