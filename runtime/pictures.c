/* pictures.c: draws batches as the network sees them, and detections. */
#include "runtime/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "media/draw.h"
#include "media/image.h"
#include "nodes/evaluate/masks.h"

enum { TILE = 320, EACH = 480, MARKS = 100 };

struct dg_pictures {
    dg_arena *arena;
    dg_scratch *scratch; /* owns the pixels of all tiles */
    int most, n;
    dg_tile *tiles;
    dg_labels names;
    bool pairs; /* tiles are pairs of truth and detections */
};

dg_pictures *dg_pictures_open(int most, const dg_dataset *set)
{
    dg_arena *a = dg_arena_open();
    dg_pictures *p = DG_NEW(a, dg_pictures);
    const char **names = DG_NEW_N(a, set->n_classes + 1, const char *);

    for (int i = 0; i < set->n_classes; i++)
        names[i] = set->classes[i].name;
    *p = (dg_pictures){ .arena = a,
                        .scratch = dg_scratch_open(0),
                        .most = most,
                        .tiles = DG_NEW_N(a, most, dg_tile),
                        .names = { names, set->n_classes } };
    return p;
}

void dg_pictures_close(dg_pictures **p)
{
    if (!*p)
        return;
    dg_arena *a = (*p)->arena;

    dg_scratch_close(&(*p)->scratch);
    dg_arena_close(&a);
    *p = NULL;
}

bool dg_pictures_full(const dg_pictures *p)
{
    return p->n == p->most;
}

static int no_memory_for_pictures(dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for pictures");
}

/* ---- what the network sees ------------------------------------------------------------------- */

static uint8_t to_byte(float v)
{
    return (uint8_t)(fminf(fmaxf(v, 0), 1) * 255 + 0.5f);
}

static int add_slot(dg_pictures *p, const dg_feeder_batch *b, int slot, const float *pixels,
                    dg_shape shape, dg_diag *d)
{
    dg_image *im = DG_NEW(p->arena, dg_image);
    dg_mark *marks;
    dg_shape s = { 0 };
    const float *boxes = dg_feeder_batch_data(b, DG_FEED_BOXES, &s);
    const int32_t *labels = dg_feeder_batch_data(b, DG_FEED_LABELS, NULL),
                  *count = dg_feeder_batch_data(b, DG_FEED_COUNT, NULL);
    int h = (int)shape.d[1], w = (int)shape.d[2], n = boxes && labels && count ? count[slot] : 0;
    int64_t m = s.d[1], area = (int64_t)h * w * 3;
    int rc = dg_image_new(im, p->scratch, w, h, d);

    if (rc < 0)
        return rc;
    for (int64_t i = 0; i < area; i++)
        im->rgb[i] = to_byte(pixels[slot * area + i]);
    marks = DG_NEW_N(p->arena, n + 1, dg_mark);
    for (int i = 0; i < n; i++) {
        const float *c = boxes + 4 * (slot * m + i);

        marks[i].box = (dg_box){ (double)(c[0] - c[2] / 2) * w, (double)(c[1] - c[3] / 2) * h,
                                 (double)(c[0] + c[2] / 2) * w, (double)(c[1] + c[3] / 2) * h };
        marks[i].label = labels[slot * m + i];
        marks[i].score = -1;
    }
    p->tiles[p->n++] =
        (dg_tile){ im, marks, n,
                   dg_strdup(p->arena,
                             dg_path_name(b->samples[slot].path ? b->samples[slot].path : "")) };
    return 0;
}

int dg_pictures_add_batch(dg_pictures *p, const dg_feeder_batch *b, dg_diag *d)
{
    dg_shape shape = DG_SCALAR;
    const float *pixels = dg_feeder_batch_data(b, DG_FEED_IMAGES, &shape);
    int rc = 0;

    if (!p->scratch)
        return no_memory_for_pictures(d);
    if (!pixels || shape.rank != 4 || shape.d[3] != 3)
        return 0; /* cannot be shown as pictures */
    for (int slot = 0; rc == 0 && slot < b->n && p->n < p->most; slot++)
        rc = add_slot(p, b, slot, pixels, shape, d);
    return rc;
}

/* ---- what was found -------------------------------------------------------------------------- */

/* Reads a node's input FIELD as numbers; NULL if there is none. */
static double *read_result(dg_arena *a, const dg_compiled *c, const char *field, dg_shape *shape,
                           dg_diag *d)
{
    const dg_program *p = c->program;
    int32_t v = dg_program_taken(p, field);
    double *x;

    if (!v)
        return NULL;
    *shape = p->values.items[v].shape;
    x = DG_NEW_N(a, dg_shape_elements(*shape), double);
    return dg_exec_get(c->exec, v, x, d) < 0 ? NULL : x;
}

/* The marks of one slot, best last. */
static dg_mark *marks_of(dg_arena *a, const double *labels, const double *scores,
                         const double *boxes, int64_t k, int w, int h, double threshold, int *n)
{
    dg_mark *marks = DG_NEW_N(a, MARKS, dg_mark);

    *n = 0;
    for (int64_t j = k - 1; j >= 0; j--) {
        const double *c = boxes + 4 * j;

        if (scores[j] < threshold || j >= MARKS)
            continue;
        marks[(*n)++] = (dg_mark){ { (c[0] - c[2] / 2) * w, (c[1] - c[3] / 2) * h,
                                     (c[0] + c[2] / 2) * w, (c[1] + c[3] / 2) * h },
                                   (int)labels[j],
                                   scores[j] };
    }
    return marks;
}

/* A copy of the picture, to draw masks on. */
static dg_image *copy_of(dg_pictures *p, const dg_image *im, dg_diag *d)
{
    dg_image *copy = DG_NEW(p->arena, dg_image);

    return dg_image_copy(copy, p->scratch, im, d) < 0 ? NULL : copy;
}

/* Logits of masks, if the program gives any. */
static dg_tensor read_masks(dg_arena *a, const dg_compiled *c, dg_diag *d)
{
    dg_tensor t = { .dtype = DG_F64 };

    t.data = read_result(a, c, "masks", &t.shape, d);
    return t;
}

/* Draws the masks of detections first..first+k-1 that reach the threshold, best last. */
static int draw_masks(dg_image *im, const dg_tensor *logits, const double *labels,
                      const double *scores, int64_t first, int64_t k, double threshold,
                      dg_scratch *scratch, dg_diag *d)
{
    dg_mask m = { im->w, im->h, dg_scratch_alloc(scratch, (size_t)im->w * (size_t)im->h) };
    int rc = m.on ? 0 : no_memory_for_pictures(d);

    for (int64_t j = (k < MARKS ? k : MARKS) - 1; rc == 0 && j >= 0; j--) {
        dg_rle runs = { 0 };

        if (scores[first + j] < threshold)
            continue;
        rc = dg_detected_mask(&runs, logits, first + j, im->w, im->h, d);
        if (rc == 0) {
            dg_rle_draw(&m, &runs);
            dg_draw_mask(im, &m, (int)labels[first + j]);
        }
        dg_rle_free(&runs);
    }
    return rc;
}

/* Adds the picture with its true objects, left of the detections. */
static void add_truth(dg_pictures *p, const dg_image *im, const dg_sample *sm)
{
    dg_mark *marks = DG_NEW_N(p->arena, sm->n_objects + 1, dg_mark);

    for (int i = 0; i < sm->n_objects; i++)
        marks[i] = (dg_mark){ sm->objects[i].box, sm->objects[i].label, -1 };
    p->tiles[p->n++] =
        (dg_tile){ im, marks, sm->n_objects,
                   dg_printf(p->arena, "%s: truth", dg_path_name(sm->path ? sm->path : "")) };
    p->pairs = true;
}

int dg_pictures_add_found(dg_pictures *p, const dg_compiled *c, const dg_dataset *set,
                          const dg_feeder_batch *b, double threshold, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_shape shape = DG_SCALAR, s = DG_SCALAR, sides = DG_SCALAR;
    double *labels = read_result(a, c, "labels", &shape, d),
           *scores = read_result(a, c, "scores", &s, d),
           *boxes = read_result(a, c, "boxes", &sides, d);
    dg_tensor logits = read_masks(a, c, d);
    bool fit = shape.rank == 2 && dg_shape_equal(shape, s) && sides.rank == 3 &&
               sides.d[1] == shape.d[1] && sides.d[2] == 4;
    int rc = p->scratch ? 0 : no_memory_for_pictures(d);

    for (int slot = 0;
         rc == 0 && labels && scores && boxes && fit && slot < b->n && p->n + 1 < p->most; slot++) {
        const dg_sample *from = &b->samples[slot];
        int64_t k = shape.d[1];
        dg_sample sm = { .size = sizeof sm };
        dg_image *im;
        dg_mark *marks;
        int n;

        if (b->padding[slot])
            continue;
        rc = set->sample(set->self, from->item, &sm, p->scratch, d);
        if (rc < 0)
            break;
        im = dg_memdup(p->arena, &sm.image, sizeof sm.image);
        if (logits.data) {
            dg_image *found = copy_of(p, im, d);

            if (!found)
                rc = -DG_EMEMORY;
            else
                rc = draw_masks(found, &logits, labels, scores, slot * k, k, threshold, p->scratch,
                                d);
            for (int i = 0; rc == 0 && sm.masks && i < sm.n_objects; i++)
                dg_draw_mask(im, &sm.masks[i], sm.objects[i].label);
            add_truth(p, im, &sm);
            im = found;
        } else {
            add_truth(p, im, &sm);
        }
        if (rc < 0)
            break;
        marks = marks_of(p->arena, labels + slot * k, scores + slot * k, boxes + 4 * slot * k, k,
                         sm.image.w, sm.image.h, threshold, &n);
        p->tiles[p->n++] =
            (dg_tile){ im, marks, n, dg_printf(p->arena, "found, from %g on", threshold) };
    }
    dg_arena_close(&a);
    return rc;
}

int dg_pictures_write(dg_pictures *p, const char *path, dg_diag *d)
{
    int columns = p->pairs ? (p->n > 2 ? 4 : 2) : p->n > 4 ? 3 : p->n > 1 ? 2 : 1, rc;
    dg_image out;

    if (!p->n)
        return 0;
    DG_TRY(dg_draw_mosaic(&out, p->scratch, p->tiles, p->n, columns, TILE, TILE, p->names, d));
    DG_TRY(dg_image_write(path, &out, d));
out:
    return rc;
}

/* A tile alone, fitted into EACH x EACH without borders. */
static int write_tile(const dg_pictures *p, const dg_tile *t, const char *path, dg_diag *d)
{
    const double longer = t->image->w > t->image->h ? t->image->w : t->image->h, f = EACH / longer;
    dg_scratch *s = dg_scratch_open(0);
    dg_mark *marks = DG_NEW_N(p->arena, t->n_marks + 1, dg_mark);
    dg_tile small = { .marks = marks, .n_marks = t->n_marks };
    dg_image im = *t->image, out;
    int rc = 0;

    for (int i = 0; i < t->n_marks; i++)
        marks[i] = t->marks[i];
    if (f < 1) {
        DG_TRY(
            dg_image_resize(&im, s, t->image, (int)fmax(1, im.w * f), (int)fmax(1, im.h * f), d));
        for (int i = 0; i < t->n_marks; i++) {
            dg_box *b = &marks[i].box;

            *b = (dg_box){ b->x1 * f, b->y1 * f, b->x2 * f, b->y2 * f };
        }
    }
    small.image = &im;
    DG_TRY(dg_draw_picture(&out, s, &small, p->names, EACH, d));
    DG_TRY(dg_image_write(path, &out, d));
out:
    dg_scratch_close(&s);
    return rc;
}

int dg_pictures_write_each(dg_pictures *p, const char *folder, int64_t step, dg_diag *d)
{
    const char *inside = dg_path_join(p->arena, folder, "pictures");
    dg_str list = { 0 };
    int rc = 0;

    if (!p->n)
        return 0;
    DG_TRY(dg_mkdir(inside, d));
    dg_str_fmt(&list, "{\"step\":%lld,\"pictures\":[", (long long)step);
    for (int i = 0; i < p->n; i++) {
        const char *file = dg_printf(p->arena, "%d.jpg", i + 1);

        DG_TRY(write_tile(p, &p->tiles[i], dg_path_join(p->arena, inside, file), d));
        dg_str_fmt(&list, "%s\n{\"file\":\"pictures/%s\",\"caption\":", i ? "," : "", file);
        dg_str_json(&list, p->tiles[i].caption ? p->tiles[i].caption : "");
        dg_str_add(&list, "}");
    }
    dg_str_add(&list, "]}\n");
    DG_TRY(dg_file_write(dg_path_join(p->arena, folder, "pictures.json"), list.s, list.n, d));
out:
    dg_str_free(&list);
    return rc;
}
