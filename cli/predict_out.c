/* predict_out.c: see predict_out.h. */
#include "cli/predict_out.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dir.h"
#include "base/file.h"
#include "media/draw.h"
#include "media/image.h"
#include "media/rle.h"
#include "media/video.h"

enum { NAME = 16 }; /* columns */

const char *dg_predict_class(dg_predict_names names, int label)
{
    return label < names.n ? names.v[label].name : NULL;
}

/* ---- text and JSON --------------------------------------------------------------------------- */

static void add_class(dg_str *out, dg_predict_names names, int label)
{
    if (label >= names.n)
        return;
    dg_str_fmt(out, ",\"category_id\":%lld,\"name\":", (long long)names.v[label].id);
    dg_str_json(out, names.v[label].name);
}

/* Box, score and mask of detection i, and the end of its object. */
static void add_box(dg_str *out, const dg_detected *p, int i)
{
    const dg_hit *m = &p->items[i];
    char *counts;

    dg_str_fmt(out, ",\"bbox\":[%.2f,%.2f,%.2f,%.2f],\"score\":%.4f", m->box.x1, m->box.y1,
               m->box.x2 - m->box.x1, m->box.y2 - m->box.y1, m->score);
    if (p->masks) {
        counts = dg_rle_text(&p->masks[i]);
        dg_str_fmt(out, ",\"segmentation\":{\"size\":[%d,%d],\"counts\":", p->masks[i].h,
                   p->masks[i].w);
        dg_str_json(out, counts);
        dg_str_add(out, "}");
        dg_free(counts);
    }
    dg_str_add(out, "}");
}

static void print_object(dg_str *out, const dg_detected *p, dg_predict_names names,
                         const dg_predict_frame *frame)
{
    dg_str_add(out, "{\"image\":");
    dg_str_json(out, p->name);
    if (frame)
        dg_str_fmt(out, ",\"frame\":%lld,\"seconds\":%.3f", (long long)frame->number,
                   frame->seconds);
    dg_str_fmt(out, ",\"width\":%d,\"height\":%d,\"detections\":[", p->image->w, p->image->h);
    for (int i = 0; i < p->n; i++) {
        dg_str_fmt(out, "%s{\"label\":%d", i ? "," : "", p->items[i].label);
        add_class(out, names, p->items[i].label);
        add_box(out, p, i);
    }
    dg_str_add(out, "]}");
}

/* COCO's files are named by their ids: 000000397133.jpg; others count from 1. */
static int64_t image_id(const char *path, int number)
{
    const char *name = dg_path_name(path);
    const size_t digits = strspn(name, "0123456789");

    return digits > 0 && digits < 16 && name[digits] == '.' ? strtoll(name, NULL, 10) : number + 1;
}

static void print_coco(dg_str *out, const dg_detected *p, dg_predict_names names, int number,
                       const dg_predict_frame *frame, int64_t *n)
{
    for (int i = 0; i < p->n; i++) {
        const int label = p->items[i].label;

        dg_str_fmt(out,
                   "%s{\"image_id\":%lld,\"category_id\":%lld,\"file_name\":", (*n)++ ? ",\n" : "",
                   (long long)(frame ? number + 1 : image_id(p->name, number)),
                   label < names.n ? (long long)names.v[label].id : label);
        dg_str_json(out, dg_path_name(p->name));
        if (frame)
            dg_str_fmt(out, ",\"frame\":%lld,\"seconds\":%.3f", (long long)frame->number,
                       frame->seconds);
        add_box(out, p, i);
    }
}

static void print_text(dg_str *out, const dg_detected *p, dg_predict_names names,
                       const dg_predict_frame *frame, double threshold)
{
    dg_str_add(out, p->name);
    if (frame)
        dg_str_fmt(out, ", frame %lld at %.3f s", (long long)frame->number, frame->seconds);
    dg_str_fmt(out, ": %d x %d, %d found", p->image->w, p->image->h, p->n);
    if (p->n == 0 && threshold > 0)
        dg_str_fmt(out, " with a score of %g or more", threshold);
    dg_str_add(out, "\n");
    for (int i = 0; i < p->n; i++) {
        const dg_hit *m = &p->items[i];
        const char *name = dg_predict_class(names, m->label);
        char number[24];

        snprintf(number, sizeof number, "class %d", m->label);
        name = name ? name : number;
        dg_str_fmt(out, "  %.3f  %s%*s %7.1f %7.1f %7.1f %7.1f\n", m->score, name,
                   dg_str_padding(name, NAME), "", m->box.x1, m->box.y1, m->box.x2, m->box.y2);
    }
}

void dg_predict_print(dg_str *out, dg_predict_format format, const dg_detected *p,
                      dg_predict_names names, int number, const dg_predict_frame *frame, int64_t *n,
                      double threshold)
{
    switch (format) {
    case DG_PREDICT_TEXT:
        print_text(out, p, names, frame, threshold);
        break;
    case DG_PREDICT_JSON:
        dg_str_add(out, (*n)++ ? ",\n" : "");
        print_object(out, p, names, frame);
        break;
    case DG_PREDICT_LINES:
        print_object(out, p, names, frame);
        dg_str_add(out, "\n");
        break;
    case DG_PREDICT_COCO:
        print_coco(out, p, names, number, frame, n);
        break;
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static int put(dg_arena *a, const char *folder, const char *name, dg_str *text, dg_diag *d)
{
    int rc = dg_mkdirs(folder, d);

    if (rc == 0)
        rc = dg_file_write(dg_path_join(a, folder, name), text->s ? text->s : "", text->n, d);
    dg_str_free(text);
    return rc;
}

/* What a training reads has no box that leaves its image. */
static dg_box within(dg_box b, double w, double h)
{
    return (dg_box){ fmin(fmax(b.x1, 0), w), fmin(fmax(b.y1, 0), h), fmin(fmax(b.x2, 0), w),
                     fmin(fmax(b.y2, 0), h) };
}

int dg_predict_labels(const dg_detected *p, const char *folder, const char *stem, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_str s = { 0 };
    int rc;

    for (int i = 0; i < p->n; i++) {
        const double w = p->image->w, h = p->image->h;
        const dg_box b = within(p->items[i].box, w, h);

        dg_str_fmt(&s, "%d %.6f %.6f %.6f %.6f %.4f\n", p->items[i].label, (b.x1 + b.x2) / 2 / w,
                   (b.y1 + b.y2) / 2 / h, (b.x2 - b.x1) / w, (b.y2 - b.y1) / h, p->items[i].score);
    }
    rc = put(a, dg_path_join(a, folder, "labels"), dg_printf(a, "%s.txt", stem), &s, d);
    dg_arena_close(&a);
    return rc;
}

/* A folder's name for a class: without slashes and a dot in front. */
static const char *folder_of(dg_arena *a, const char *name, int label)
{
    char *folder = name && *name ? dg_strdup(a, name) : dg_printf(a, "class %d", label);

    for (char *c = folder; *c; c++)
        if (*c == '/' || (unsigned char)*c < ' ' || (c == folder && *c == '.'))
            *c = '_';
    return folder;
}

static int write_crop(dg_arena *a, const dg_image *im, dg_box b, const char *folder,
                      const char *name, dg_diag *d)
{
    const int x1 = (int)fmax(floor(b.x1), 0), y1 = (int)fmax(floor(b.y1), 0),
              x2 = (int)fmin(ceil(b.x2), im->w), y2 = (int)fmin(ceil(b.y2), im->h);
    dg_scratch *s;
    dg_image part;
    int rc;

    if (x2 <= x1 || y2 <= y1)
        return 0;
    s = dg_scratch_open(0);
    DG_TRY(dg_image_crop(&part, s, im, x1, y1, x2 - x1, y2 - y1, d));
    DG_TRY(dg_mkdirs(folder, d));
    DG_TRY(dg_image_write(dg_path_join(a, folder, name), &part, d));
out:
    dg_scratch_close(&s);
    return rc;
}

int dg_predict_crops(const dg_detected *p, dg_predict_names names, const char *folder,
                     const char *stem, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int rc = 0;

    for (int i = 0; i < p->n && rc == 0; i++) {
        const dg_hit *m = &p->items[i];
        const char *class = folder_of(a, dg_predict_class(names, m->label), m->label);

        rc = write_crop(a, p->image, m->box, dg_printf(a, "%s/crops/%s", folder, class),
                        dg_printf(a, "%s-%d.png", stem, i + 1), d);
    }
    dg_arena_close(&a);
    return rc;
}

/* ---- pictures -------------------------------------------------------------------------------- */

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

int dg_predict_draw(dg_image *out, dg_scratch *s, const dg_detected *p, dg_predict_names names,
                    int min_side, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_mark *marks = DG_NEW_N(a, p->n + 1, dg_mark);
    const char **words = DG_NEW_N(a, names.n + 1, const char *);
    dg_tile tile = { p->image, marks, p->n, NULL };
    dg_image tinted;
    int rc;

    if (p->masks) {
        DG_TRY(tint(&tinted, p, s, d));
        tile.image = &tinted;
    }
    for (int i = 0; i < p->n; i++)
        marks[i] = (dg_mark){ p->items[p->n - 1 - i].box, p->items[p->n - 1 - i].label,
                              p->items[p->n - 1 - i].score };
    for (int i = 0; i < names.n; i++)
        words[i] = dg_predict_class(names, i);
    DG_TRY(dg_draw_picture(out, s, &tile, (dg_labels){ words, names.n }, min_side, d));
out:
    dg_arena_close(&a);
    return rc;
}

/* ---- what to look at ------------------------------------------------------------------------- */

typedef DG_VEC(const char *) paths;

static bool is_looked_at(const char *path)
{
    return dg_image_named(path) || dg_video_named(path);
}

static int add_folder(dg_arena *a, paths *out, const char *folder, dg_diag *d)
{
    dg_listing files = { 0 };
    const int before = out->n;
    int rc;

    DG_TRY(dg_dir_list(&files, NULL, a, folder, d));
    for (int k = 0; k < files.n; k++)
        if (is_looked_at(files.v[k]))
            DG_PUSH(a, *out, dg_path_join(a, folder, files.v[k]));
    if (out->n == before)
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "predict-no-images",
                     "there is no image and no video in this folder");
out:
    return rc;
}

static int add_pattern(dg_arena *a, paths *out, const char *pattern, dg_diag *d)
{
    glob_t found = { 0 };
    const int before = out->n;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (is_looked_at(found.gl_pathv[i]))
                DG_PUSH(a, *out, dg_strdup(a, found.gl_pathv[i]));
    globfree(&found);
    return out->n > before ? 0
                           : dg_fail(d, DG_EINPUT, (dg_where){ .file = pattern },
                                     "predict-no-images", "no image and no video has such a name");
}

/* A line is a path, from the current folder or the list's. */
static int add_list(dg_arena *a, paths *out, const char *list, dg_diag *d)
{
    const int before = out->n;
    char *text = NULL;
    size_t n;
    int rc;

    DG_TRY(dg_file_read(&text, &n, list, 64 << 20, d));
    for (const char *p = text, *end = text + n; p < end;) {
        size_t k = strcspn(p, "\r\n");
        const char *line = dg_strndup(a, p, k);

        if (*line)
            DG_PUSH(a, *out,
                    dg_exists(line) ? line : dg_path_join(a, dg_path_folder(a, list), line));
        p += k + strspn(p + k, "\r\n") + (p[k] == '\0');
    }
    if (out->n == before)
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = list }, "predict-no-images",
                     "there is no path of an image in this list");
out:
    dg_free(text);
    return rc;
}

int dg_predict_find(dg_arena *a, const char *word, int *n, const char *const **out, dg_diag *d)
{
    paths found = { 0 };
    int rc = 0;

    if (dg_is_folder(word))
        rc = add_folder(a, &found, word, d);
    else if (!dg_exists(word) && strpbrk(word, "*?["))
        rc = add_pattern(a, &found, word, d);
    else if (dg_exists(word) && dg_path_ends(word, ".txt"))
        rc = add_list(a, &found, word, d);
    else
        DG_PUSH(a, found, word);
    *n = found.n;
    *out = found.items;
    return rc;
}
