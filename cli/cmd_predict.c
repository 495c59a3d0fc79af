/* cmd_predict.c: `detrgraph predict`: detections on images, as JSON and as pictures. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/map.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/predict_out.h"
#include "cli/predict_video.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/trained.h"
#include "media/draw.h"
#include "media/image.h"
#include "media/video.h"
#include "runtime/trained.h"

typedef struct opts {
    dg_words sets;
    const char *weights, *out, *format, *precision, *device, *threshold, *which;
    int64_t threads, stride, frames;
    bool crops, txt;
} opts;

static const dg_option options[] = {
    { "weights", DG_OPTION_STR, offsetof(opts, weights), "FILE", NULL,
      "safetensors, a PyTorch checkpoint, a folder, or a name of `weights list`" },
    DG_OPTION_WHICH(opts),
    { "out", DG_OPTION_STR, offsetof(opts, out), "DIR", NULL,
      "write the images here with boxes, and masks, drawn; of a video an .mp4, and its lines" },
    { "threshold", DG_OPTION_STR, offsetof(opts, threshold), "SCORE", NULL,
      "minimum score, 0 to 1 (the one with the best F1 in the run's evaluation, else 0.4)" },
    DG_OPTION_SETS(opts),
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json|jsonl|coco",
      "output format: a line per detection, a list with an object per image, the same objects one "
      "a "
      "line, or COCO's results (text)" },
    { "crops", DG_OPTION_FLAG, offsetof(opts, crops), NULL, NULL,
      "with --out: write what is in each box to DIR/crops/CLASS" },
    { "txt", DG_OPTION_FLAG, offsetof(opts, txt), NULL, NULL,
      "with --out: write DIR/labels/NAME.txt, lines of class, cx, cy, w, h and score" },
    { "stride", DG_OPTION_COUNT, offsetof(opts, stride), "N", NULL,
      "of a video, look at every Nth frame (1)" },
    { "frames", DG_OPTION_COUNT, offsetof(opts, frames), "N", NULL,
      "of a video or camera, end after N frames that were looked at (all)" },
    DG_OPTION_PRECISION(opts),
    DG_OPTION_DEVICE(opts),
    DG_OPTION_THREADS(opts),
    { 0 },
};

enum { MIN_SIDE = 480 };

typedef struct printer {
    const opts *o;
    dg_arena *arena;
    dg_predict_format format;
    dg_predict_names names;
    double threshold;
    int n;             /* images printed so far */
    int64_t printed;   /* items of a list */
    atomic_bool ended; /* by a signal */
    dg_map *kept;      /* files that must not be overwritten: the images, and earlier pictures */
} printer;

/* A key that identifies a file whatever its path; NULL if it does not exist. */
static const char *identity(dg_arena *a, const char *path)
{
    struct stat st;

    return stat(path, &st) ? NULL
                           : dg_printf(a, "%llu:%llu", (unsigned long long)st.st_dev,
                                       (unsigned long long)st.st_ino);
}

static void keep_file(printer *s, const char *path)
{
    const char *id = identity(s->arena, path);

    if (id)
        dg_map_set(s->kept, id, s);
}

/* OUT/NAME.END, or NAME-2.END and so on if that is one of the images or was written before. */
static const char *output_path(printer *s, const char *path, const char *end)
{
    char *stem = dg_strdup(s->arena, dg_path_name(path));
    const char *id, *to;

    if (strrchr(stem, '.'))
        *strrchr(stem, '.') = '\0';
    to = dg_printf(s->arena, "%s/%s%s", s->o->out, stem, end);
    for (int i = 2; (id = identity(s->arena, to)) && dg_map_has(s->kept, id); i++)
        to = dg_printf(s->arena, "%s/%s-%d%s", s->o->out, stem, i, end);
    return to;
}

static int draw_picture(printer *s, const dg_detected *p, dg_diag *d)
{
    dg_scratch *scratch = dg_scratch_open(0);
    const char *to = output_path(s, p->name, ".png");
    dg_image out;
    int rc;

    DG_TRY(dg_predict_draw(&out, scratch, p, s->names, MIN_SIDE, d));
    DG_TRY(dg_image_write(to, &out, d));
    keep_file(s, to);
    to = dg_path_name(dg_path_stem(s->arena, to));
    if (s->o->txt)
        DG_TRY(dg_predict_labels(p, s->o->out, to, d));
    if (s->o->crops)
        DG_TRY(dg_predict_crops(p, s->names, s->o->out, to, d));
out:
    dg_scratch_close(&scratch);
    return rc;
}

static int show(printer *s, const dg_detected *p, dg_diag *d)
{
    dg_str out = { 0 };

    dg_predict_print(&out, s->format, p, s->names, s->n, NULL, &s->printed, s->threshold);
    dg_say("%s", out.s ? out.s : "");
    dg_str_free(&out);
    fflush(stdout);
    s->n++;
    return s->o->out ? draw_picture(s, p, d) : 0;
}

static int find_images(dg_words *out, const dg_words *words, dg_arena *a, dg_diag *d)
{
    DG_VEC(const char *) found = { 0 };
    int rc = 0;

    for (int i = 0; i < words->n && rc == 0; i++) {
        const char *const *paths;
        int n;

        rc = dg_predict_find(a, words->v[i], &n, &paths, d);
        for (int k = 0; rc == 0 && k < n; k++)
            DG_PUSH(a, found, paths[k]);
    }
    *out = (dg_words){ found.n, found.items };
    return rc;
}

static dg_predict_format format_of(const opts *o)
{
    static const char *const names[] = { "text", "json", "jsonl", "coco" };

    for (int i = 0; o->format && i < 4; i++)
        if (strcmp(o->format, names[i]) == 0)
            return (dg_predict_format)i;
    return DG_PREDICT_TEXT;
}

static int predict_video(printer *s, dg_detector *detector, const char *name, dg_diag *d)
{
    const bool writes = s->o->out != NULL;
    /* a camera's name is no name for a file */
    const char *of = dg_camera_named(name) ? "camera" : name;
    dg_predict_clip clip = { .name = name,
                             .stride = s->o->stride,
                             .most = s->o->frames,
                             .threshold = s->threshold,
                             .names = s->names,
                             .format = s->format,
                             .prints = !writes || s->o->format,
                             .number = &s->n,
                             .printed = &s->printed,
                             .ended = &s->ended };
    int rc;

    if (writes) {
        clip.film = output_path(s, of, ".mp4");
        clip.lines = output_path(s, of, ".jsonl");
    }
    rc = dg_predict_video(&clip, detector, d);
    if (writes) {
        keep_file(s, clip.film);
        keep_file(s, clip.lines);
    }
    return rc;
}

static bool is_video(const char *name)
{
    return dg_video_named(name) || dg_camera_named(name);
}

/* A file that cannot be read does not end the others. */
static bool is_of_a_file(int rc)
{
    return rc == -DG_EINPUT || rc == -DG_EIO;
}

/* Detects on the files in their order. What cannot be read is left out, and fails in the end. */
static int predict_files(printer *s, dg_detector *detector, const dg_words *files, dg_diag *d)
{
    const int batch = dg_detector_room(detector);
    const dg_detected *found;
    int n, rc = 0, failed = 0;

    for (int at = 0; at < files->n && !atomic_load(&s->ended);) {
        while (at < files->n && !is_video(files->v[at]) && dg_detector_room(detector)) {
            rc = dg_detector_add_file(detector, files->v[at++], d);
            if (rc < 0 && !is_of_a_file(rc))
                goto out;
            failed = failed ? failed : rc;
        }
        if (dg_detector_room(detector) < batch) {
            DG_TRY(dg_detector_run(detector, s->threshold, &found, &n, d));
            for (int i = 0; i < n; i++)
                DG_TRY(show(s, &found[i], d));
        } else if (at < files->n && is_video(files->v[at])) {
            rc = predict_video(s, detector, files->v[at++], d);
            /* unsupported: FFmpeg is missing, which images do not need */
            if (rc < 0 && !is_of_a_file(rc) && rc != -DG_EUNSUPPORTED)
                goto out;
            failed = failed ? failed : rc;
        }
    }
    rc = failed;
out:
    return rc;
}

/* A video ends after its frame, so that its files are whole; a second signal ends the process. */
static void come_to_an_end(void *self)
{
    if (atomic_exchange(&((printer *)self)->ended, true))
        _exit(DG_EXIT_INTERRUPTED);
}

static bool has_videos(const dg_words *files)
{
    for (int i = 0; i < files->n; i++)
        if (is_video(files->v[i]))
            return true;
    return false;
}

static int predict_images(const opts *o, const dg_trained_words *w, const dg_words *words,
                          double threshold, dg_arena *a)
{
    printer s = {
        .o = o, .arena = a, .format = format_of(o), .threshold = threshold, .kept = dg_map_new(a)
    };
    const bool list = s.format == DG_PREDICT_JSON || s.format == DG_PREDICT_COCO;
    dg_diag *d = dg_diag_open();
    dg_detector *detector = NULL;
    dg_signals *signals = NULL;
    dg_words images;
    int rc;

    if (list)
        dg_say("[\n");

    DG_TRY(find_images(&images, words, a, d));
    if (has_videos(&images)) /* before the threads that compute */
        signals = dg_signals_open(come_to_an_end, &s);
    DG_TRY(dg_trained_detector(&detector, w, &s.threshold, d));
    s.names.v = dg_detector_classes(detector, &s.names.n);
    if (o->out) {
        dg_draw_check_names(s.names.v, s.names.n, d);
        DG_TRY(dg_mkdirs(o->out, d));
    }
    for (int i = 0; o->out && i < images.n; i++)
        keep_file(&s, images.v[i]);
    DG_TRY(predict_files(&s, detector, &images, d));
out:
    if (list)
        dg_say("%s]\n", s.printed ? "\n" : "");
    fflush(stdout);
    dg_print_diag_files(d);
    dg_detector_close(&detector);
    dg_signals_close(&signals);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : atomic_load(&s.ended) ? DG_EXIT_INTERRUPTED : DG_EXIT_OK;
}

static int verb_predict(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    const dg_trained_words w = { .place = words->v[0],
                                 .weights = o->weights,
                                 .sets = &o->sets,
                                 .which = o->which,
                                 .precision = o->precision,
                                 .device = o->device,
                                 .threads = o->threads };
    dg_words images = { words->n - 1, words->v + 1 };
    double threshold;
    int code;

    if ((o->crops || o->txt) && !o->out) {
        dg_say_error("detrgraph predict: --crops and --txt need --out DIR\n");
        return DG_EXIT_USAGE;
    }
    if (w.weights && dg_trained_published(w.place, w.weights)) {
        images = *words; /* no word is a model */
    } else if (!dg_trained_given("predict", w.place, w.weights)) {
        return DG_EXIT_USAGE;
    } else if (words->n < 2) {
        dg_say_error("detrgraph predict: images, folders of them or videos are expected after "
                     "\"%s\"\nusage: detrgraph predict %s\n",
                     words->v[0], dg_verb_predict.args);
        return DG_EXIT_USAGE;
    }
    if (!dg_trained_least(&threshold, "predict", o->threshold))
        return DG_EXIT_USAGE;
    return dg_launch_alone((int)o->threads, &code) ? code
                                                   : predict_images(o, &w, &images, threshold, a);
}

static const dg_example examples[] = {
    { "predict runs/bccd a.jpg b.jpg --out found", "Print the detections and draw them." },
    { "predict runs/bccd photos --format json", "Detect on all images of a folder." },
    { "predict runs/bccd 'photos/*.jpg' more.txt --out found --crops --txt",
      "Of a pattern and a list, write crops and labels too." },
    { "predict --weights rtdetrv2_r18vd_coco a.jpg",
      "Use a published detector, which `weights fetch` fetches." },
    { "predict runs/bccd clip.mp4 --stride 5 --out found",
      "Of every fifth frame of a video, write found/clip.jsonl and found/clip.mp4." },
    { "predict runs/bccd /dev/video0 --format jsonl",
      "Print a line per frame of a camera, until Ctrl-C." },
    { "predict bccd_r18vd.xml --weights bccd.safetensors a.jpg", "Use other weights." },
    { 0 },
};

const dg_verb dg_verb_predict = {
    .name = "predict",
    .args = "PATH [--weights FILE] IMAGE|VIDEO... [--out DIR] [--threshold SCORE] [--format json]",
    .brief = "Detect objects in images, videos and what cameras see.",
    .doc =
        "PATH is a run's folder, a checkpoint in one, or the pipeline that the weights were "
        "trained with. Images are prepared as\n"
        "in the pipeline's evaluation. A run's best checkpoint is used, and of that the averaged "
        "weights if\n"
        "it has them. A folder stands for the images in it, a quoted pattern for its "
        "files, a .txt file\n"
        "for the paths in its lines. With the name of published weights no PATH is needed. A file "
        "that cannot be read is "
        "reported, and the others are done.\n\n"
        "Of a video, each frame is an image with its number and time. With --out DIR they become "
        "DIR/NAME.jsonl, a line per frame, and DIR/NAME.mp4 with boxes drawn. A camera is "
        "/dev/video0, or KIND:NAME of FFmpeg's devices (v4l2:/dev/video0). Ctrl-C ends a video or "
        "camera after the frame at hand; what was written is whole.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = -1,
    .run = verb_predict,
};
