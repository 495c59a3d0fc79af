/* cmd_predict.c: `detrgraph predict`: detections on images, as JSON and as pictures. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/map.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/predict_out.h"
#include "cli/progress.h"
#include "cli/trained.h"
#include "media/draw.h"
#include "media/image.h"
#include "media/rle.h"
#include "runtime/trained.h"

typedef struct opts {
    dg_words sets;
    const char *weights, *out, *format, *precision, *device, *threshold, *which;
    int64_t threads;
    bool crops, txt;
} opts;

static const dg_option options[] = {
    { "weights", DG_OPTION_STR, offsetof(opts, weights), "FILE", NULL,
      "safetensors, a PyTorch checkpoint, a folder, or a name of `weights list`" },
    { "which", DG_OPTION_WORD, offsetof(opts, which), NULL, "best|last",
      "which weights of a run: those with the best score, or the last (best)" },
    { "out", DG_OPTION_STR, offsetof(opts, out), "DIR", NULL,
      "write the images here with boxes, and masks, drawn" },
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
    int n;           /* images printed so far */
    int64_t printed; /* items of a list */
    dg_map *kept;    /* files that must not be overwritten: the images, and earlier pictures */
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

/* OUT/NAME.png, or NAME-2.png and so on if that is one of the images or an earlier picture. */
static const char *picture_path(printer *s, const char *path)
{
    char *stem = dg_strdup(s->arena, dg_path_name(path));
    const char *id, *to;

    if (strrchr(stem, '.'))
        *strrchr(stem, '.') = '\0';
    to = dg_printf(s->arena, "%s/%s.png", s->o->out, stem);
    for (int i = 2; (id = identity(s->arena, to)) && dg_map_has(s->kept, id); i++)
        to = dg_printf(s->arena, "%s/%s-%d.png", s->o->out, stem, i);
    return to;
}

/* A copy of the image with its masks, the best ones last, on top. */
static int tint(dg_image *out, const dg_detected *p, dg_scratch *scratch, dg_diag *d)
{
    dg_mask m = { p->image->w, p->image->h, NULL };
    int rc;

    DG_TRY(dg_image_copy(out, scratch, p->image, d));
    m.on = dg_scratch_alloc(scratch, (size_t)m.w * (size_t)m.h);
    if (!m.on)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory", "no memory to draw masks");
    for (int i = p->n - 1; i >= 0; i--) {
        dg_rle_draw(&m, &p->masks[i]);
        dg_draw_mask(out, &m, p->items[i].label);
    }
out:
    return rc;
}

/* Draws the best marks last, on top. */
static int draw_picture(printer *s, const dg_detected *p, dg_diag *d)
{
    dg_scratch *scratch = dg_scratch_open(0);
    dg_mark *marks = DG_NEW_N(s->arena, p->n + 1, dg_mark);
    const char **names = DG_NEW_N(s->arena, s->names.n + 1, const char *);
    dg_tile tile = { p->image, marks, p->n, NULL };
    dg_image out, tinted;
    const char *to = picture_path(s, p->name);
    int rc;

    if (p->masks) {
        DG_TRY(tint(&tinted, p, scratch, d));
        tile.image = &tinted;
    }
    for (int i = 0; i < p->n; i++)
        marks[i] = (dg_mark){ p->items[p->n - 1 - i].box, p->items[p->n - 1 - i].label,
                              p->items[p->n - 1 - i].score };
    for (int i = 0; i < s->names.n; i++)
        names[i] = dg_predict_class(s->names, i);
    DG_TRY(dg_draw_picture(&out, scratch, &tile, (dg_labels){ names, s->names.n }, MIN_SIDE, d));
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

    dg_predict_print(&out, s->format, p, s->names, s->n, &s->printed, s->threshold);
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

/* Detects on the files in their order. What cannot be read is left out, and fails in the end. */
static int predict_files(printer *s, dg_detector *detector, const dg_words *files, dg_diag *d)
{
    const int batch = dg_detector_room(detector);
    const dg_detected *found;
    int n, rc = 0, failed = 0;

    for (int at = 0; at < files->n;) {
        while (at < files->n && dg_detector_room(detector)) {
            rc = dg_detector_add_file(detector, files->v[at++], d);
            if (rc < 0 && rc != -DG_EINPUT && rc != -DG_EIO)
                goto out;
            failed = failed ? failed : rc;
        }
        if (dg_detector_room(detector) == batch)
            continue;
        DG_TRY(dg_detector_run(detector, s->threshold, &found, &n, d));
        for (int i = 0; i < n; i++)
            DG_TRY(show(s, &found[i], d));
    }
    rc = failed;
out:
    return rc;
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
    dg_words images;
    int rc;

    if (list)
        dg_say("[\n");

    DG_TRY(find_images(&images, words, a, d));
    DG_TRY(dg_trained_detector(&detector, w, &s.threshold, d));
    s.names.v = dg_detector_classes(detector, &s.names.n);
    if (o->out)
        DG_TRY(dg_mkdirs(o->out, d));
    for (int i = 0; o->out && i < images.n; i++)
        keep_file(&s, images.v[i]);
    DG_TRY(predict_files(&s, detector, &images, d));
out:
    if (list)
        dg_say("%s]\n", s.printed ? "\n" : "");
    fflush(stdout);
    dg_print_diag_files(d);
    dg_detector_close(&detector);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
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
    } else if (words->n < 2) {
        dg_say_error(
            "detrgraph predict: more is expected after \"%s\"\nusage: detrgraph predict %s\n",
            words->v[0], dg_verb_predict.args);
        return DG_EXIT_USAGE;
    } else if (!dg_trained_given("predict", w.place, w.weights)) {
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
    { "predict bccd_r18vd.xml --weights bccd.safetensors a.jpg", "Use other weights." },
    { 0 },
};

const dg_verb dg_verb_predict = {
    .name = "predict",
    .args = "PATH [--weights FILE] IMAGE... [--out DIR] [--threshold SCORE] [--format json]",
    .brief = "Detect objects in images.",
    .doc =
        "PATH is a run's folder, a checkpoint in one, or the pipeline that the weights were "
        "trained with. Images are prepared as\n"
        "in the pipeline's evaluation. A run's best checkpoint is used, and of that the averaged "
        "weights if\n"
        "it has them. A folder stands for the images in it, a quoted pattern for its "
        "files, a .txt file\n"
        "for the paths in its lines. With the name of published weights no PATH is needed. A file "
        "that cannot be read is "
        "reported, and the others are done.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = -1,
    .run = verb_predict,
};
