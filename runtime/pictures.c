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

/* Two tiles of one image: truth, and what was found: until settle, with whatever score. */
typedef struct pair {
    dg_scratch *scratch; /* owns their pixels and the logits */
    int item;
    double doubt;
    int64_t missed, order;
    const char *name;
    dg_tile truth, found;
    dg_image *seen;   /* of found */
    dg_tensor logits; /* of the marks' masks; no data: there are none */
} pair;

struct dg_pictures {
    dg_arena *arena;
    dg_scratch *scratch; /* owns the pixels of tiles that are no pairs */
    int most, n;
    dg_tile *tiles;
    dg_labels names;
    pair *pairs; /* of the images with the most doubt so far */
    int n_pairs;
    int64_t n_seen;
    const dg_dataset *set;
    int32_t *first,
        *next; /* 1 + a truth, by item; the item's next one, by truth; NULL until needed */
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
                        .pairs = DG_NEW_N(a, most, pair),
                        .set = set,
                        .names = { names, set->n_classes } };
    return p;
}

void dg_pictures_close(dg_pictures **p)
{
    if (!*p)
        return;
    dg_arena *a = (*p)->arena;

    for (int i = 0; i < (*p)->n_pairs; i++)
        dg_scratch_close(&(*p)->pairs[i].scratch);
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

/* What an evaluation found in a batch, k in each image. */
typedef struct found {
    double *labels, *scores, *boxes;
    dg_tensor logits; /* of masks */
    int64_t k;
} found;

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

/* The detections of one slot as marks in an image of w x h pixels, best last. */
static dg_mark *marks_of(dg_arena *a, const found *f, int slot, int w, int h, int *n)
{
    dg_mark *marks = DG_NEW_N(a, MARKS, dg_mark);

    *n = 0;
    for (int64_t j = (f->k < MARKS ? f->k : MARKS) - 1; j >= 0; j--) {
        const int64_t at = slot * f->k + j;
        const double *c = f->boxes + 4 * at;

        if (f->labels[at] < 0) /* there is no detection */
            continue;
        marks[(*n)++] = (dg_mark){ { (c[0] - c[2] / 2) * w, (c[1] - c[3] / 2) * h,
                                     (c[0] + c[2] / 2) * w, (c[1] + c[3] / 2) * h },
                                   (int)f->labels[at],
                                   f->scores[at] };
    }
    return marks;
}

/* Logits of masks, if the program gives any. */
static dg_tensor read_masks(dg_arena *a, const dg_compiled *c, dg_diag *d)
{
    dg_tensor t = { .dtype = DG_F64 };

    t.data = read_result(a, c, "masks", &t.shape, d);
    return t;
}

/* Keeps the logits of a slot's marks, in their order. */
static int keep_masks(pair *to, const found *f, int slot, dg_diag *d)
{
    const dg_shape s = f->logits.shape;
    const int64_t area = s.d[2] * s.d[3];
    double *x = dg_scratch_alloc(to->scratch, (size_t)(MARKS * area) * sizeof *x);
    int n = 0;

    if (!x)
        return no_memory_for_pictures(d);
    for (int64_t j = (f->k < MARKS ? f->k : MARKS) - 1; j >= 0; j--)
        if (f->labels[slot * f->k + j] >= 0)
            memcpy(x + n++ * area, (const double *)f->logits.data + (slot * f->k + j) * area,
                   (size_t)area * sizeof *x);
    to->logits = (dg_tensor){ DG_F64, { .rank = 4, .d = { 1, n, s.d[2], s.d[3] } }, x };
    return 0;
}

/* Draws the masks of what was found, from the mark `first` on. */
static int draw_masks(pair *p, int first, dg_diag *d)
{
    dg_image *im = p->seen;
    dg_mask m = { im->w, im->h, dg_scratch_alloc(p->scratch, (size_t)im->w * (size_t)im->h) };
    int rc = m.on ? 0 : no_memory_for_pictures(d);

    for (int i = first; rc == 0 && i < p->found.n_marks; i++) {
        dg_rle runs = { 0 };

        rc = dg_detected_mask(&runs, &p->logits, i, im->w, im->h, d);
        if (rc == 0) {
            dg_rle_draw(&m, &runs);
            dg_draw_mask(im, &m, p->found.marks[i].label);
        }
        dg_rle_free(&runs);
    }
    return rc;
}

/* Objects of an image, in its pixels, that no detection of their class covers by half. Detections
 * choose in the order of their scores; marks has the best last. doubt: the same, where an object
 * counts less by the score of what covers it; no threshold has a part in it. */
static int64_t misses(const dg_pictures *p, int item, const dg_mark *marks, int n, double *doubt)
{
    const dg_coco_annotation *truths = p->set->truths;
    dg_arena *a = dg_arena_open();
    bool *taken = DG_NEW_N(a, p->set->n_truths + 1, bool);
    int64_t missed = 0;

    for (int32_t t = p->first[item]; t; t = p->next[t - 1])
        missed += !truths[t - 1].crowd;
    *doubt = (double)missed;
    for (int i = n - 1; i >= 0; i--) {
        double best = 0.5;
        int32_t of = 0;

        for (int32_t t = p->first[item]; t; t = p->next[t - 1]) {
            const dg_coco_annotation *x = &truths[t - 1];
            const double over =
                dg_box_iou(marks[i].box, (dg_box){ x->x, x->y, x->x + x->w, x->y + x->h });

            if (!x->crowd && x->label == marks[i].label && !taken[t - 1] && over >= best) {
                best = over;
                of = t;
            }
        }
        if (!of)
            continue;
        taken[of - 1] = true;
        missed--;
        *doubt -= marks[i].score;
    }
    dg_arena_close(&a);
    return missed;
}

static void index_truths(dg_pictures *p)
{
    p->first = DG_NEW_N(p->arena, p->set->n_items + 1, int32_t);
    p->next = DG_NEW_N(p->arena, p->set->n_truths + 1, int32_t);
    for (int64_t t = p->set->n_truths - 1; t >= 0; t--) {
        int32_t *first = &p->first[p->set->truths[t].image];

        p->next[t] = *first;
        *first = (int32_t)t + 1;
    }
}

/* The pair that an image with so much doubt takes: a free one, or the place of the one with the
 * least; NULL: none. */
static pair *place_for(dg_pictures *p, double doubt)
{
    pair *least = p->pairs;

    if (2 * (p->n_pairs + 1) <= p->most)
        return &p->pairs[p->n_pairs++];
    for (int i = 1; i < p->n_pairs; i++) /* of equals the latest is the least */
        if (p->pairs[i].doubt < least->doubt ||
            (!(p->pairs[i].doubt > least->doubt) && p->pairs[i].order > least->order))
            least = &p->pairs[i];
    return p->n_pairs && doubt > least->doubt ? least : NULL;
}

/* Reads the image again, and draws the masks of its objects, if there are any. */
static int fill_pair(dg_pictures *p, pair *to, const dg_sample *from, const found *f, int slot,
                     dg_diag *d)
{
    dg_image *truth = DG_NEW(p->arena, dg_image), *seen = truth;
    dg_sample sm = { .size = sizeof sm };
    dg_mark *marks;
    int rc;

    dg_scratch_close(&to->scratch);
    to->scratch = dg_scratch_open(0);
    if (!to->scratch)
        return no_memory_for_pictures(d);
    DG_TRY(p->set->sample(p->set->self, from->item, &sm, to->scratch, d));
    *truth = sm.image;
    if (f->logits.data) {
        seen = DG_NEW(p->arena, dg_image);
        DG_TRY(dg_image_copy(seen, to->scratch, truth, d));
        DG_TRY(keep_masks(to, f, slot, d));
        for (int i = 0; sm.masks && i < sm.n_objects; i++)
            dg_draw_mask(truth, &sm.masks[i], sm.objects[i].label);
    }
    marks = DG_NEW_N(p->arena, sm.n_objects + 1, dg_mark);
    for (int i = 0; i < sm.n_objects; i++)
        marks[i] = (dg_mark){ sm.objects[i].box, sm.objects[i].label, -1 };
    to->name = dg_strdup(p->arena, dg_path_name(sm.path ? sm.path : ""));
    to->truth = (dg_tile){ truth, marks, sm.n_objects, NULL };
    to->seen = seen;
    to->found = (dg_tile){ .image = seen };
    to->found.marks = marks_of(p->arena, f, slot, sm.image.w, sm.image.h, &to->found.n_marks);
out:
    return rc;
}

int dg_pictures_add_found(dg_pictures *p, const dg_compiled *c, const dg_feeder_batch *b,
                          dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_shape shape = DG_SCALAR, s = DG_SCALAR, sides = DG_SCALAR;
    found f = { .labels = read_result(a, c, "labels", &shape, d),
                .scores = read_result(a, c, "scores", &s, d),
                .boxes = read_result(a, c, "boxes", &sides, d) };
    const bool fit = f.labels && f.scores && f.boxes && shape.rank == 2 &&
                     dg_shape_equal(shape, s) && sides.rank == 3 && sides.d[1] == shape.d[1] &&
                     sides.d[2] == 4;
    int rc = 0;

    if (!p->first)
        index_truths(p);
    f.k = fit ? shape.d[1] : 0;
    for (int slot = 0; rc == 0 && fit && slot < b->n; slot++) {
        const dg_sample *from = &b->samples[slot];
        const dg_mark *marks;
        double doubt;
        pair *to;
        int n;

        if (b->padding[slot])
            continue;
        marks = marks_of(a, &f, slot, from->orig_w, from->orig_h, &n);
        (void)misses(p, from->item, marks, n, &doubt);
        to = place_for(p, doubt);
        if (!to)
            continue;
        if (!f.logits.data)
            f.logits = read_masks(a, c, d);
        to->item = from->item;
        to->doubt = doubt;
        to->order = p->n_seen++;
        rc = fill_pair(p, to, from, &f, slot, d);
    }
    dg_arena_close(&a);
    return rc;
}

static int by_misses(const void *x, const void *y)
{
    const pair *a = x, *b = y;

    if (a->missed != b->missed)
        return a->missed > b->missed ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

int dg_pictures_settle(dg_pictures *p, double threshold, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < p->n_pairs; i++) {
        pair *x = &p->pairs[i];
        double doubt;
        int first = 0;

        while (first < x->found.n_marks && x->found.marks[first].score < threshold)
            first++;
        if (x->logits.data)
            rc = draw_masks(x, first, d);
        x->found.marks += first;
        x->found.n_marks -= first;
        x->found.caption = dg_printf(p->arena, "found, from %.2g on", threshold);
        x->missed = misses(p, x->item, x->found.marks, x->found.n_marks, &doubt);
        x->truth.caption =
            dg_printf(p->arena, "%s: truth, %lld missed", x->name, (long long)x->missed);
    }
    if (p->n_pairs)
        qsort(p->pairs, (size_t)p->n_pairs, sizeof *p->pairs, by_misses);
    for (int i = 0; i < p->n_pairs; i++) {
        p->tiles[p->n++] = p->pairs[i].truth;
        p->tiles[p->n++] = p->pairs[i].found;
    }
    return rc;
}

/* ---- files ----------------------------------------------------------------------------------- */

int dg_pictures_write(dg_pictures *p, const char *path, dg_diag *d)
{
    dg_image out;
    int columns, rc;

    if (!p->n)
        return 0;
    columns = p->n_pairs ? (p->n > 2 ? 4 : 2) : p->n > 4 ? 3 : p->n > 1 ? 2 : 1;
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
