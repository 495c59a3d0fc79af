/* coco: the index of a COCO annotation file.
 *
 * One pass of events over the mapped file; polygons and all else that is not asked for leave no
 * trace. Lists may come in any order, so annotations keep the ids they were written with and
 * their place in the file until the end, when images and categories are sorted and annotations
 * are dealt to their images (counting sort). */
#include "media/coco.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "media/records.h"

struct dg_coco {
    dg_arena           *arena;
    char               *path;
    dg_coco_class      *classes;
    dg_coco_image      *images;
    dg_coco_annotation *annotations; /* heap */
    int                 n_classes, n_images;
    int64_t             n_annotations;
    dg_data_report      report;
    int64_t            *per_class;
};

/* ---- what the file holds ------------------------------------------------------------------- */

typedef struct raw_image {
    int64_t     id, w, h;
    const char *file_name;
    size_t      offset;
} raw_image;

typedef struct raw_class {
    int64_t     id;
    const char *name;
    size_t      offset;
} raw_class;

typedef struct raw_annotation {
    int64_t id, image, category;
    double  box[4], area;
    bool    crowd;
    size_t  offset;
} raw_annotation;

static const dg_field image_fields[] = {
    { "id", DG_FIELD_INT, true, offsetof(raw_image, id) },
    { "file_name", DG_FIELD_TEXT, true, offsetof(raw_image, file_name) },
    { "width", DG_FIELD_INT, true, offsetof(raw_image, w) },
    { "height", DG_FIELD_INT, true, offsetof(raw_image, h) },
    { 0 },
};

static const dg_field truth_image_fields[] = {
    { "id", DG_FIELD_INT, true, offsetof(raw_image, id) },
    { "file_name", DG_FIELD_TEXT, false, offsetof(raw_image, file_name) },
    { 0 },
};

static const dg_field class_fields[] = {
    { "id", DG_FIELD_INT, true, offsetof(raw_class, id) },
    { "name", DG_FIELD_TEXT, true, offsetof(raw_class, name) },
    { 0 },
};

enum { ANNOTATION_ID = 0, ANNOTATION_AREA = 4 }; /* places below that are asked for by number */
static const dg_field annotation_fields[] = {
    { "id", DG_FIELD_INT, false, offsetof(raw_annotation, id) },
    { "image_id", DG_FIELD_INT, true, offsetof(raw_annotation, image) },
    { "category_id", DG_FIELD_INT, true, offsetof(raw_annotation, category) },
    { "bbox", DG_FIELD_BOX, true, offsetof(raw_annotation, box) },
    { "area", DG_FIELD_REAL, false, offsetof(raw_annotation, area) },
    { "iscrowd", DG_FIELD_FLAG, false, offsetof(raw_annotation, crowd) },
    { 0 },
};

/* A growing array on the heap that counts towards a limit. */
typedef struct list {
    uint8_t *items;
    int64_t  n, cap;
} list;

typedef struct building {
    list        images, classes, annotations;
    dg_coco    *c;
    const char *text, *name;
    size_t      n, bytes, max_bytes;
    bool        for_training;
    dg_diag    *d;
} building;

static int no_memory(const building *b)
{
    return dg_fail(b->d, DG_EMEMORY, (dg_where){ b->name, 0, 0, NULL }, "coco-memory",
                   "no memory for its index of %lld images and %lld annotations so far",
                   (long long)b->images.n, (long long)b->annotations.n);
}

static int add(building *b, list *l, const void *item, size_t bytes)
{
    if (l->n == l->cap) {
        const int64_t cap = l->cap ? 2 * l->cap : 256;
        uint8_t      *grown = NULL;

        b->bytes += (size_t)(cap - l->cap) * bytes;
        if (b->max_bytes == 0 || b->bytes <= b->max_bytes)
            grown = dg_try_alloc((size_t)cap * bytes);
        if (!grown)
            return no_memory(b);
        if (l->n)
            memcpy(grown, l->items, (size_t)l->n * bytes);
        dg_free(l->items);
        l->items = grown;
        l->cap = cap;
    }
    memcpy(l->items + (size_t)l->n++ * bytes, item, bytes);
    return 0;
}

static int take_image(void *ctx, dg_json_reader *r, const void *record, uint32_t has, size_t offset)
{
    building *b = ctx;
    raw_image x = *(const raw_image *)record;

    (void)has;
    x.offset = offset;
    if (b->for_training &&
        (x.w < 1 || x.h < 1 || x.w > DG_IMAGE_MAX_SIDE || x.h > DG_IMAGE_MAX_SIDE))
        return dg_json_fail_at(
            r, offset, "record-value",
            "image %lld is %lld x %lld by this file, sides from 1 to %d are accepted",
            (long long)x.id, (long long)x.w, (long long)x.h, DG_IMAGE_MAX_SIDE);
    if (b->images.n == INT32_MAX)
        return no_memory(b);
    return add(b, &b->images, &x, sizeof x);
}

static int take_class(void *ctx, dg_json_reader *r, const void *record, uint32_t has, size_t offset)
{
    building *b = ctx;
    raw_class x = *(const raw_class *)record;

    (void)r;
    (void)has;
    x.offset = offset;
    if (b->classes.n == INT32_MAX)
        return no_memory(b);
    return add(b, &b->classes, &x, sizeof x);
}

static int take_annotation(void *ctx, dg_json_reader *r, const void *record, uint32_t has,
                           size_t offset)
{
    building      *b = ctx;
    raw_annotation x = *(const raw_annotation *)record;

    (void)r;
    x.offset = offset;
    if (!(has & 1u << ANNOTATION_ID))
        x.id = b->annotations.n + 1;
    if (!(has & 1u << ANNOTATION_AREA))
        x.area = x.box[2] * x.box[3];
    return add(b, &b->annotations, &x, sizeof x);
}

/* ---- sorting and joining ------------------------------------------------------------------- */

static int by_id(const void *p, const void *q)
{
    int64_t a, b; /* the first member of every raw struct */

    memcpy(&a, p, sizeof a);
    memcpy(&b, q, sizeof b);
    return (a > b) - (a < b);
}

static int unknown(const building *b, const raw_annotation *x, const char *noun, int64_t id)
{
    return dg_fail(b->d, DG_EINPUT, dg_json_where(b->text, b->n, b->name, x->offset),
                   "coco-unknown", "this annotation has %s_id %lld, but no %s has that id", noun,
                   (long long)id, noun);
}

static int duplicate(const building *b, const char *noun, int64_t id, size_t one, size_t other)
{
    int rc =
        dg_fail(b->d, DG_EINPUT, dg_json_where(b->text, b->n, b->name, one > other ? one : other),
                "coco-duplicate", "a second %s with id %lld", noun, (long long)id);

    dg_note(b->d, dg_json_where(b->text, b->n, b->name, one > other ? other : one),
            "the first stands here");
    return rc;
}

static int finish_images(building *b)
{
    const raw_image *raw = (const raw_image *)(void *)b->images.items;
    dg_coco         *c = b->c;

    if (b->images.n == 0)
        return dg_fail(b->d, DG_EINPUT, (dg_where){ b->name, 0, 0, NULL }, "coco-empty",
                       "the list \"images\" is empty");
    qsort(b->images.items, (size_t)b->images.n, sizeof *raw, by_id);
    c->n_images = (int)b->images.n;
    c->images = DG_NEW_N(c->arena, c->n_images, dg_coco_image);
    for (int i = 0; i < c->n_images; i++) {
        if (i && raw[i].id == raw[i - 1].id)
            return duplicate(b, "image", raw[i].id, raw[i].offset, raw[i - 1].offset);
        c->images[i] = (dg_coco_image){ .id = raw[i].id,
                                        .file_name = raw[i].file_name ? raw[i].file_name : "",
                                        .w = (int)raw[i].w,
                                        .h = (int)raw[i].h };
    }
    return 0;
}

static int finish_classes(building *b)
{
    const raw_class *raw = (const raw_class *)(void *)b->classes.items;
    dg_coco         *c = b->c;

    if (b->classes.n == 0)
        return dg_fail(b->d, DG_EINPUT, (dg_where){ b->name, 0, 0, NULL }, "coco-empty",
                       "the list \"categories\" is empty");
    qsort(b->classes.items, (size_t)b->classes.n, sizeof *raw, by_id);
    c->n_classes = (int)b->classes.n;
    c->classes = DG_NEW_N(c->arena, c->n_classes, dg_coco_class);
    for (int i = 0; i < c->n_classes; i++) {
        if (i && raw[i].id == raw[i - 1].id)
            return duplicate(b, "category", raw[i].id, raw[i].offset, raw[i - 1].offset);
        c->classes[i] = (dg_coco_class){ raw[i].id, raw[i].name };
    }
    return 0;
}

static int finish_annotations(building *b)
{
    raw_annotation *raw = (raw_annotation *)(void *)b->annotations.items;
    dg_coco        *c = b->c;
    const int64_t   n = b->annotations.n;
    int64_t         first = 0;

    c->n_annotations = n;
    c->annotations = dg_try_alloc((size_t)(n ? n : 1) * sizeof *c->annotations);
    if (!c->annotations)
        return no_memory(b);
    for (int64_t i = 0; i < n; i++) {
        int image = dg_coco_find_image(c, raw[i].image),
            label = dg_coco_find_class(c, raw[i].category);

        if (image < 0)
            return unknown(b, &raw[i], "image", raw[i].image);
        if (label < 0)
            return unknown(b, &raw[i], "category", raw[i].category);
        raw[i].image = image;
        raw[i].category = label;
        c->images[image].n++;
    }
    for (int i = 0; i < c->n_images; first += c->images[i].n, c->images[i++].n = 0)
        c->images[i].first = first;
    for (int64_t i = 0; i < n; i++) {
        const raw_annotation *x = &raw[i];
        dg_coco_image        *im = &c->images[x->image];

        c->annotations[im->first + im->n++] = (dg_coco_annotation){
            .id = x->id,
            .image = (int)x->image,
            .label = (int)x->category,
            .x = x->box[0],
            .y = x->box[1],
            .w = x->box[2],
            .h = x->box[3],
            .area = x->area,
            .crowd = x->crowd,
        };
    }
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

int dg_coco_parse(dg_coco **out, const char *text, size_t n, const char *name, bool for_training,
                  size_t max_bytes, dg_diag *d)
{
    const dg_section sections[] = {
        { "images", "image", for_training ? image_fields : truth_image_fields, take_image },
        { "annotations", "annotation", annotation_fields, take_annotation },
        { "categories", "category", class_fields, take_class },
    };
    building  b = { .text = text,
                    .name = name,
                    .n = n,
                    .max_bytes = max_bytes,
                    .for_training = for_training,
                    .d = d };
    dg_arena *a = dg_arena_open();
    int       rc;

    b.c = DG_NEW(a, dg_coco);
    b.c->arena = a;
    b.c->path = dg_strdup(a, name);
    DG_TRY(dg_records_read(text, n, name, sections, 3, a, &b, d));
    DG_TRY(finish_images(&b));
    DG_TRY(finish_classes(&b));
    DG_TRY(finish_annotations(&b));
    b.c->per_class = DG_NEW_N(a, b.c->n_classes, int64_t);
    if (for_training)
        dg_coco_count(&b.c->report, b.c->per_class, b.c);
    *out = b.c;
out:
    dg_free(b.images.items);
    dg_free(b.classes.items);
    dg_free(b.annotations.items);
    if (rc < 0)
        dg_coco_close(&b.c);
    return rc;
}

int dg_coco_open_as(dg_coco **out, const char *path, bool for_training, size_t max_bytes,
                    dg_diag *d)
{
    dg_mapping m = { 0 };
    int        rc;

    DG_TRY(dg_file_map(&m, path, d));
    DG_TRY(dg_coco_parse(out, (const char *)m.p, m.n, path, for_training, max_bytes, d));
out:
    dg_file_unmap(&m);
    return rc;
}

int dg_coco_open(dg_coco **out, const char *path, dg_diag *d)
{
    return dg_coco_open_as(out, path, true, 0, d);
}

void dg_coco_close(dg_coco **c)
{
    if (!*c)
        return;
    dg_arena *a = (*c)->arena;

    dg_free((*c)->annotations);
    *c = NULL;
    dg_arena_close(&a);
}

/* ---- looking ------------------------------------------------------------------------------- */

const char *dg_coco_path(const dg_coco *c)
{
    return c->path;
}

int dg_coco_n_images(const dg_coco *c)
{
    return c->n_images;
}

int dg_coco_n_classes(const dg_coco *c)
{
    return c->n_classes;
}

int64_t dg_coco_n_annotations(const dg_coco *c)
{
    return c->n_annotations;
}

const dg_coco_image *dg_coco_image_at(const dg_coco *c, int i)
{
    return &c->images[i];
}

const dg_coco_class *dg_coco_class_at(const dg_coco *c, int label)
{
    return &c->classes[label];
}

const dg_coco_annotation *dg_coco_annotation_at(const dg_coco *c, int64_t i)
{
    return &c->annotations[i];
}

const dg_coco_annotation *dg_coco_annotations(const dg_coco *c)
{
    return c->annotations;
}

const dg_data_report *dg_coco_report(const dg_coco *c)
{
    return &c->report;
}

/* Place of id among n items of `bytes` each that begin with their ids, ascending. */
static int find(const void *items, int n, size_t bytes, int64_t id)
{
    const uint8_t *found = bsearch(&id, items, (size_t)n, bytes, by_id);

    return found ? (int)((size_t)(found - (const uint8_t *)items) / bytes) : -1;
}

int dg_coco_find_image(const dg_coco *c, int64_t id)
{
    return find(c->images, c->n_images, sizeof *c->images, id);
}

int dg_coco_find_class(const dg_coco *c, int64_t id)
{
    return find(c->classes, c->n_classes, sizeof *c->classes, id);
}
