/* coco.c: builds the index of a COCO annotation file.
 *
 * One pass of JSON events over the mapped file; only wanted fields are stored, polygons are
 * skipped; with masks, the places where they stand are kept, and so is the mapping. The lists may
 * come in any order, so annotations keep their original ids and file offsets until the end; then
 * images and categories are sorted, and a counting sort groups the annotations by image. */
#include "media/coco.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "media/index.h"
#include "media/records.h"
#include "media/rle.h"

/* ---- what the file holds --------------------------------------------------------------------- */

typedef struct raw_image {
    int64_t id, w, h;
    const char *file_name;
    size_t offset;
} raw_image;

typedef struct raw_class {
    int64_t id;
    const char *name;
    size_t offset;
} raw_class;

typedef struct raw_annotation {
    int64_t id, image, category;
    double box[4], area;
    bool crowd;
    size_t offset, mask;
} raw_annotation;

static const dg_json_field image_fields[] = {
    { "id", DG_JSON_ID, true, offsetof(raw_image, id) },
    { "file_name", DG_JSON_TEXT, true, offsetof(raw_image, file_name) },
    { "width", DG_JSON_INT, true, offsetof(raw_image, w) },
    { "height", DG_JSON_INT, true, offsetof(raw_image, h) },
    { 0 },
};

enum { IMAGE_SIZE = 1u << 2 | 1u << 3 }; /* width and height in image_fields */
static const dg_json_field unsized_image_fields[] = {
    { "id", DG_JSON_ID, true, offsetof(raw_image, id) },
    { "file_name", DG_JSON_TEXT, true, offsetof(raw_image, file_name) },
    { "width", DG_JSON_INT, false, offsetof(raw_image, w) },
    { "height", DG_JSON_INT, false, offsetof(raw_image, h) },
    { 0 },
};

static const dg_json_field truth_image_fields[] = {
    { "id", DG_JSON_ID, true, offsetof(raw_image, id) },
    { "file_name", DG_JSON_TEXT, false, offsetof(raw_image, file_name) },
    { 0 },
};

static const dg_json_field class_fields[] = {
    { "id", DG_JSON_ID, true, offsetof(raw_class, id) },
    { "name", DG_JSON_TEXT, true, offsetof(raw_class, name) },
    { 0 },
};

enum { ANNOTATION_ID = 0, ANNOTATION_AREA = 4 }; /* indices into annotation_fields */
static const dg_json_field annotation_fields[] = {
    { "id", DG_JSON_ID, false, offsetof(raw_annotation, id) },
    { "image_id", DG_JSON_ID, true, offsetof(raw_annotation, image) },
    { "category_id", DG_JSON_ID, true, offsetof(raw_annotation, category) },
    { "bbox", DG_JSON_BOX, true, offsetof(raw_annotation, box) },
    { "area", DG_JSON_REAL, false, offsetof(raw_annotation, area) },
    { "iscrowd", DG_JSON_FLAG, false, offsetof(raw_annotation, crowd) },
    { "segmentation", DG_JSON_PLACE, false, offsetof(raw_annotation, mask) },
    { 0 },
};

/* A growing heap array whose size counts towards a limit. */
typedef struct list {
    uint8_t *items;
    int64_t n, cap;
} list;

typedef struct building {
    list images, classes, annotations;
    dg_coco *c;
    const char *text, *name;
    size_t n, bytes, max_bytes;
    bool for_training, masks, unsized; /* unsized: images may lack width and height */
    const dg_mapping *file;            /* the mapped file that holds the text, or NULL */
    dg_faults *faults;                 /* NULL: stop at the first fault */
    dg_diag *d;
} building;

/* For the first PLACED faults of a kind, find the line: that reads the file up to it. */
enum { PLACED = 20 };

static dg_where place_of(const building *b, dg_fault_kind kind, size_t offset)
{
    if (b->faults && b->faults->of[kind].n >= PLACED)
        return (dg_where){ .file = b->name };
    return dg_json_where(b->text, b->n, b->name, offset);
}

static int no_memory_for_index(const building *b)
{
    return dg_fail(b->d, DG_EMEMORY, (dg_where){ b->name, 0, 0, NULL }, "coco-memory",
                   "no memory for its index of %lld images and %lld annotations so far",
                   (long long)b->images.n, (long long)b->annotations.n);
}

static int add(building *b, list *l, const void *item, size_t bytes)
{
    if (l->n == l->cap) {
        const int64_t cap = l->cap ? 2 * l->cap : 256;
        uint8_t *grown = NULL;

        b->bytes += (size_t)(cap - l->cap) * bytes;
        if (b->max_bytes == 0 || b->bytes <= b->max_bytes)
            grown = dg_try_alloc((size_t)cap * bytes);
        if (!grown)
            return no_memory_for_index(b);
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

    (void)r;
    x.offset = offset;
    if ((b->faults || b->unsized) && (has & IMAGE_SIZE) != IMAGE_SIZE) {
        x.w = x.h = 0; /* dg_coco_take_sizes finds them */
    } else if (b->for_training &&
               (x.w < 1 || x.h < 1 || x.w > DG_IMAGE_MAX_SIDE || x.h > DG_IMAGE_MAX_SIDE)) {
        int rc = dg_fault_or_fail(
            b->faults, b->d, DG_FAULT_IMAGE_SIZE, place_of(b, DG_FAULT_IMAGE_SIZE, offset),
            "record-value",
            "image %lld is %lld x %lld by this file, sides from 1 to %d are accepted",
            (long long)x.id, (long long)x.w, (long long)x.h, DG_IMAGE_MAX_SIDE);

        if (rc < 0)
            return rc;
        x.w = x.h = 0;
    }
    if (b->images.n == INT32_MAX)
        return no_memory_for_index(b);
    return add(b, &b->images, &x, sizeof x);
}

static int take_class(void *ctx, dg_json_reader *r, const void *record, uint32_t has, size_t offset)
{
    building *b = ctx;
    raw_class x = *(const raw_class *)record;

    (void)r;
    (void)has;
    x.offset = offset;
    if (dg_index_nameless(x.name)) {
        int rc = dg_fault_or_fail(b->faults, b->d, DG_FAULT_ANNOTATION,
                                  place_of(b, DG_FAULT_ANNOTATION, offset), "class-nameless",
                                  "the category with id %lld has an empty name", (long long)x.id);

        if (rc < 0)
            return rc;
    }
    if (b->classes.n == INT32_MAX)
        return no_memory_for_index(b);
    return add(b, &b->classes, &x, sizeof x);
}

static int mask_missing(const building *b, const raw_annotation *x)
{
    int rc =
        dg_fail(b->d, DG_EINPUT, dg_json_where(b->text, b->n, b->name, x->offset), "mask-missing",
                "annotation %lld has no mask, no \"segmentation\"", (long long)x->id);

    dg_help(b->d, "mark or remove the object; for a model without masks, masks=\"false\" on the "
                  "loader reads boxes alone");
    return rc;
}

static int take_annotation(void *ctx, dg_json_reader *r, const void *record, uint32_t has,
                           size_t offset)
{
    building *b = ctx;
    raw_annotation x = *(const raw_annotation *)record;

    (void)r;
    x.offset = offset;
    x.mask = b->masks ? dg_mask_place(b->text, b->n, x.mask) : 0;
    if (b->masks && !x.mask && !x.crowd)
        return mask_missing(b, &x);
    if (!(has & 1u << ANNOTATION_ID))
        x.id = b->annotations.n + 1;
    if (!(has & 1u << ANNOTATION_AREA))
        x.area = x.box[2] * x.box[3];
    if (x.area < 0 && has & 1u << ANNOTATION_AREA) {
        int rc =
            dg_fault_or_fail(b->faults, b->d, DG_FAULT_ANNOTATION,
                             place_of(b, DG_FAULT_ANNOTATION, offset), "record-value",
                             "the area of annotation %lld is %g: write pixels, or leave it out "
                             "for width times height",
                             (long long)x.id, x.area);

        if (rc < 0)
            return rc;
        x.area = x.box[2] * x.box[3];
    }
    return add(b, &b->annotations, &x, sizeof x);
}

/* ---- sorting and joining --------------------------------------------------------------------- */

static int by_id(const void *p, const void *q)
{
    int64_t a, b; /* id is the first member of every raw struct */

    memcpy(&a, p, sizeof a);
    memcpy(&b, q, sizeof b);
    return (a > b) - (a < b);
}

static int image_order(const void *p, const void *q)
{
    const raw_image *a = p, *b = q;
    int order = by_id(p, q);

    return order ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

static int class_order(const void *p, const void *q)
{
    const raw_class *a = p, *b = q;
    int order = by_id(p, q);

    return order ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

static int unknown(const building *b, dg_fault_kind kind, const raw_annotation *x, const char *noun,
                   int64_t id)
{
    return dg_fault_or_fail(b->faults, b->d, kind, place_of(b, kind, x->offset), "coco-unknown",
                            "this annotation has %s_id %lld, but no %s has that id", noun,
                            (long long)id, noun);
}

/* Reports the later of two records that share an id; the first one is kept. */
static int duplicate(const building *b, dg_fault_kind kind, const char *noun, int64_t id,
                     size_t first, size_t second)
{
    int rc = dg_fault_or_fail(b->faults, b->d, kind, place_of(b, kind, second), "coco-duplicate",
                              "a second %s with id %lld", noun, (long long)id);

    if (rc < 0)
        dg_note(b->d, dg_json_where(b->text, b->n, b->name, first), "the first stands here");
    return rc;
}

static int empty(const building *b, const char *what)
{
    return dg_fail(b->d, DG_EINPUT, (dg_where){ b->name, 0, 0, NULL }, "coco-empty",
                   "the list \"%s\" is empty", what);
}

static int finish_images(building *b)
{
    const raw_image *raw = (const raw_image *)(void *)b->images.items;
    dg_coco *c = b->c;

    if (b->images.n == 0)
        return empty(b, "images");
    qsort(b->images.items, (size_t)b->images.n, sizeof *raw, image_order);
    c->images = DG_NEW_N(c->arena, b->images.n, dg_coco_image);
    for (int64_t i = 0, last = 0; i < b->images.n; i++) {
        if (i && raw[i].id == raw[last].id) {
            int rc = duplicate(b, DG_FAULT_IMAGE_TWICE, "image", raw[i].id, raw[last].offset,
                               raw[i].offset);

            if (rc < 0)
                return rc;
            continue;
        }
        last = i;
        c->images[c->n_images++] =
            (dg_coco_image){ .id = raw[i].id,
                             .file_name = raw[i].file_name ? raw[i].file_name : "",
                             .w = (int)raw[i].w,
                             .h = (int)raw[i].h };
    }
    return 0;
}

static int finish_classes(building *b)
{
    const raw_class *raw = (const raw_class *)(void *)b->classes.items;
    dg_coco *c = b->c;
    dg_map *names;

    if (b->classes.n == 0)
        return empty(b, "categories");
    qsort(b->classes.items, (size_t)b->classes.n, sizeof *raw, class_order);
    c->classes = DG_NEW_N(c->arena, b->classes.n, dg_coco_class);
    names = dg_map_new(c->arena);
    for (int64_t i = 0, last = 0; i < b->classes.n; i++) {
        if (i && raw[i].id == raw[last].id) {
            int rc = duplicate(b, DG_FAULT_CLASS_TWICE, "category", raw[i].id, raw[last].offset,
                               raw[i].offset);

            if (rc < 0)
                return rc;
            continue;
        }
        last = i;
        if (b->faults && dg_map_has(names, raw[i].name))
            dg_fault_note(b->faults, DG_FAULT_CLASS_TWICE, -1,
                          place_of(b, DG_FAULT_CLASS_TWICE, raw[i].offset),
                          "a second category with the name \"%s\"", raw[i].name);
        if (b->faults)
            dg_map_set(names, raw[i].name, NULL);
        c->classes[c->n_classes++] = (dg_coco_class){ raw[i].id, raw[i].name };
    }
    return 0;
}

/* Notes repeated annotation ids. Surveys only: nothing else uses these ids. */
static void note_ids_twice(const building *b)
{
    const raw_annotation *raw = (const raw_annotation *)(const void *)b->annotations.items;
    const int64_t n = b->annotations.n;
    int64_t *ids = dg_try_alloc((size_t)(n + 1) * sizeof *ids);

    for (int64_t i = 0; ids && i < n; i++)
        ids[i] = raw[i].id;
    if (ids)
        qsort(ids, (size_t)n, sizeof *ids, by_id);
    for (int64_t i = 1; ids && i < n; i++)
        if (ids[i] == ids[i - 1])
            dg_fault_note(b->faults, DG_FAULT_ID_TWICE, -1, (dg_where){ .file = b->name },
                          "two annotations have the id %lld", (long long)ids[i]);
    dg_free(ids);
}

/* Replaces ids by indices and drops annotations without an image or class. Returns the number kept,
 * or an error. */
static int64_t resolve(building *b)
{
    raw_annotation *raw = (raw_annotation *)(void *)b->annotations.items;
    dg_coco *c = b->c;
    int64_t n = 0;

    for (int64_t i = 0; i < b->annotations.n; i++) {
        raw_annotation x = raw[i];
        int image = dg_coco_find_image(c, x.image), label = dg_coco_find_class(c, x.category),
            rc = 0;

        if (image < 0)
            rc = unknown(b, DG_FAULT_IMAGE_UNKNOWN, &x, "image", x.image);
        else if (label < 0)
            rc = unknown(b, DG_FAULT_CLASS_UNKNOWN, &x, "category", x.category);
        if (rc < 0)
            return rc;
        if (rc)
            continue;
        x.image = image;
        x.category = label;
        c->images[image].n++;
        raw[n++] = x;
    }
    return n;
}

static int finish_annotations(building *b)
{
    const raw_annotation *raw = (const raw_annotation *)(void *)b->annotations.items;
    dg_coco *c = b->c;
    int64_t n, first = 0;

    if (b->faults)
        note_ids_twice(b);
    n = resolve(b);
    if (n < 0)
        return (int)n;
    c->n_annotations = n;
    c->annotations = dg_try_alloc((size_t)(n ? n : 1) * sizeof *c->annotations);
    if (b->masks)
        c->masks = dg_try_alloc((size_t)(n ? n : 1) * sizeof *c->masks);
    if (!c->annotations || (b->masks && !c->masks))
        return no_memory_for_index(b);
    for (int i = 0; i < c->n_images; first += c->images[i].n, c->images[i++].n = 0)
        c->images[i].first = first;
    for (int64_t i = 0; i < n; i++) {
        const raw_annotation *x = &raw[i];
        dg_coco_image *im = &c->images[x->image];

        if (b->masks)
            c->masks[im->first + im->n] = (dg_mask_source){ .at = x->mask };
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

/* ---- opening --------------------------------------------------------------------------------- */

/* Releases the pages already read: half a gigabyte of polygons need not stay in memory. */
static void forget(void *ctx, size_t offset)
{
    const building *b = ctx;

    dg_file_forget(b->file, offset);
}

/* Builds the index of b's text; on failure the caller closes b->c. */
static int build(dg_coco **out, building *b)
{
    const dg_json_field *const images = b->faults || b->unsized ? unsized_image_fields
                                        : b->for_training       ? image_fields
                                                                : truth_image_fields;
    const dg_section sections[] = {
        { "images", "image", images, take_image, "segmentation", b->file ? forget : NULL },
        { "annotations", "annotation", annotation_fields, take_annotation, NULL, NULL },
        { "categories", "category", class_fields, take_class, NULL, NULL },
    };
    int rc;

    b->c = dg_index_open(b->name);
    DG_TRY(dg_records_read(b->text, b->n, b->name, sections, 3, b->c->arena, b, b->d));
    DG_TRY(finish_images(b));
    DG_TRY(finish_classes(b));
    DG_TRY(finish_annotations(b));
    if (b->for_training)
        dg_index_count(b->c);
    *out = b->c;
out:
    dg_free(b->images.items);
    dg_free(b->classes.items);
    dg_free(b->annotations.items);
    if (rc < 0)
        dg_coco_close(&b->c);
    return rc;
}

int dg_coco_parse(dg_coco **out, const char *text, size_t n, const char *name, bool for_training,
                  size_t max_bytes, dg_diag *d)
{
    building b = { .text = text,
                   .name = name,
                   .n = n,
                   .max_bytes = max_bytes,
                   .for_training = for_training,
                   .d = d };

    return build(out, &b);
}

static int open_file(dg_coco **out, const char *path, building b)
{
    dg_mapping m = { 0 };
    int rc;

    DG_TRY(dg_file_map(&m, path, b.d));
    b.text = (const char *)m.p;
    b.n = m.n;
    b.file = &m;
    b.name = path;
    DG_TRY(build(out, &b));
    if (b.masks) {
        (*out)->file = m;
        m = (dg_mapping){ 0 };
    }
out:
    dg_file_unmap(&m);
    return rc;
}

int dg_coco_open_as(dg_coco **out, const char *path, bool for_training, size_t max_bytes,
                    dg_diag *d)
{
    return open_file(out, path,
                     (building){ .for_training = for_training, .max_bytes = max_bytes, .d = d });
}

int dg_coco_open(dg_coco **out, const char *path, dg_diag *d)
{
    return open_file(out, path, (building){ .for_training = true, .d = d });
}

int dg_coco_open_masks(dg_coco **out, const char *path, dg_diag *d)
{
    return open_file(out, path, (building){ .for_training = true, .masks = true, .d = d });
}

int dg_coco_open_unsized(dg_coco **out, const char *path, dg_diag *d)
{
    return open_file(out, path, (building){ .for_training = true, .unsized = true, .d = d });
}

int dg_coco_take_sizes(dg_coco *c, const char *folder, bool replace, const dg_faults *faults,
                       dg_diag *d)
{
    dg_diag *quiet = dg_diag_open();
    bool any = false;
    int rc = 0;

    for (int i = 0; i < c->n_images && rc == 0; i++) {
        dg_coco_image *im = &c->images[i];
        const char *path;

        if (im->w > 0)
            continue;
        any = true;
        path = dg_path_join(c->arena, folder, im->file_name);
        if (im->n && !faults)
            rc = dg_index_size(c, &im->w, &im->h, path, im->n, replace, d);
        else if (dg_image_size(&im->w, &im->h, path, quiet) < 0)
            im->w = im->h = 0;
        dg_diag_clear(quiet);
        if (im->w < 1 && !faults) /* reading the image reports the fault */
            im->w = im->h = 1;
    }
    if (any && rc == 0)
        dg_index_count(c);
    dg_diag_close(&quiet);
    return rc;
}

int dg_coco_open_in(dg_coco **out, const char *path, const char *folder, bool replace, bool masks,
                    dg_diag *d)
{
    int rc;

    *out = NULL;
    DG_TRY(open_file(out, path,
                     (building){ .for_training = true, .unsized = true, .masks = masks, .d = d }));
    DG_TRY(dg_coco_take_sizes(*out, folder, replace, NULL, d));
out:
    if (rc < 0)
        dg_coco_close(out);
    return rc;
}

int dg_coco_survey(dg_coco **out, const char *path, dg_faults *faults, dg_diag *d)
{
    return open_file(out, path, (building){ .for_training = true, .faults = faults, .d = d });
}
