/* yolo.c: indexes a YOLO data set.
 *
 * Reads labels and image headers on several threads; what depends on order happens afterwards, on
 * one. A .yaml file tells where the images are:
 *
 *   path: ../coco          relative to the file; if no folder, the file's own is taken
 *   train: images/train    a folder, a .txt list, or several; "../x" that does not exist: "x"
 *   names: [a, b]          or {0: a, 1: b}; or nc: 2
 *   kpt_shape: [17, 3]     keypoints after each box, skipped
 *
 * Without one, the folders do. The labels of .../images/a.jpg are in .../labels/a.txt (the last
 * "images" of the path counts), or beside it. */
#include "media/yolo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "media/image.h"
#include "media/yaml.h"

enum { MAX_BYTES = 64 << 20, MAX_CLASSES = 32767, MAX_POINTS = 10000 };

typedef struct entry {
    const char *name;          /* relative to the index's folder, or absolute */
    const char *path, *labels; /* paths of the image and label files */
    int w, h;                  /* 0: unreadable */
    dg_yolo_labels found;
} entry;

typedef struct reading {
    const dg_data_source *from;
    dg_faults *faults;
    dg_diag *d;
    dg_arena *arena;
    dg_coco *c;
    const char *file; /* the .yaml file, or NULL */
    const dg_json *doc;
    const char *folder, *base; /* of the data set; what the .yaml file's paths are relative to */
    int n_points;              /* numbers after each box that describe keypoints */
    DG_VEC(entry) entries;
    DG_VEC(dg_mask_source) masks; /* of annotations, in their order */
} reading;

/* ---- the .yaml file -------------------------------------------------------------------------- */

static bool is_yaml(const char *name)
{
    return dg_path_ends(name, ".yaml") || dg_path_ends(name, ".yml");
}

static bool has_names(dg_arena *a, const char *path)
{
    dg_diag *quiet = dg_diag_open();
    const dg_json *doc;
    bool has = dg_yaml_read(&doc, a, path, quiet) == 0 &&
               (dg_json_get(doc, "names") || dg_json_get(doc, "nc"));

    dg_diag_close(&quiet);
    return has;
}

const char *dg_yolo_file(dg_arena *a, const char *root)
{
    dg_listing files = { 0 };
    const char *first = NULL;
    dg_diag *quiet = dg_diag_open();

    if (!dg_is_folder(root))
        first = is_yaml(root) && dg_exists(root) ? root : NULL;
    else
        (void)!dg_dir_list(&files, NULL, a, root, quiet);
    for (int i = 0; i < files.n; i++) {
        const char *path = dg_path_join(a, root, files.v[i]);

        if (strcmp(files.v[i], "data.yaml") == 0 || (is_yaml(path) && !first && has_names(a, path)))
            first = path;
    }
    dg_diag_close(&quiet);
    return first;
}

static const dg_json *source_of(const dg_json *doc, const char *split)
{
    static const char *const val[] = { "val", "valid", "validation" };
    const dg_json *v = dg_json_get(doc, split);

    for (int i = 0; i < 3 && !v && strcmp(split, "val") == 0; i++)
        v = dg_json_get(doc, val[i]);
    return v && v->kind != DG_JSON_NULL ? v : NULL;
}

static void yaml_splits(dg_listing *out, dg_arena *a, const dg_json *doc)
{
    static const char *const names[] = { "train", "val", "test" };

    *out = (dg_listing){ DG_NEW_N(a, 3, const char *), 0 };
    for (int i = 0; i < 3; i++)
        if (source_of(doc, names[i]))
            out->v[out->n++] = names[i];
}

static const char *base_of(dg_arena *a, const char *folder, const dg_json *doc)
{
    const dg_json *path = dg_json_get(doc, "path");
    const char *base =
        path && path->text && *path->text ? dg_path_join(a, folder, path->text) : folder;

    return dg_is_folder(base) ? base : folder;
}

static bool is_count(const dg_json *x)
{
    return x->kind == DG_JSON_NUMBER && x->number >= 1 && x->number <= MAX_CLASSES &&
           x->number == (int)x->number;
}

static int yaml_names(reading *r)
{
    const dg_json *names = dg_json_get(r->doc, "names"), *nc = dg_json_get(r->doc, "nc");
    int n = names ? names->n : nc && is_count(nc) ? (int)nc->number : 0;
    dg_coco *c = r->c;
    dg_where at = names ? names->at : nc ? nc->at : (dg_where){ .file = r->file };
    dg_map *known;

    if (n < 1 || n > MAX_CLASSES ||
        (names && names->kind != DG_JSON_ARRAY && names->kind != DG_JSON_OBJECT))
        return dg_fail(r->d, DG_EINPUT, at, "yolo-names",
                       "expected `names`, a list of the classes' names, or of number: name");
    if (nc && names && nc->number != n)
        return dg_fail(r->d, DG_EINPUT, nc->at, "yolo-names", "nc is %s, but `names` has %d",
                       nc->text ? nc->text : "no number", n);
    c->classes = DG_NEW_N(c->arena, n, dg_coco_class);
    known = dg_map_new(c->arena);
    for (int i = 0; i < n; i++) {
        const dg_json *x = names ? &names->items[i] : NULL;
        int64_t label = i;

        if (x && !x->text)
            return dg_fail(r->d, DG_EINPUT, x->at, "yolo-names",
                           "a class's name is one word or text");
        if (x && dg_index_nameless(x->text))
            return dg_fail(r->d, DG_EINPUT, x->at, "class-nameless", "class %s has an empty name",
                           x->key ? x->key : dg_printf(r->arena, "%d", i));
        if (x && x->key &&
            (!dg_parse_i64(x->key, &label) || label < 0 || label >= n || c->classes[label].name))
            return dg_fail(r->d, DG_EINPUT, x->at, "yolo-names",
                           "%s: %s: classes are numbered from 0 to %d, each once", x->key, x->text,
                           n - 1);
        const char *name = x ? x->text : dg_printf(r->arena, "class %d", i);

        if (dg_map_has(known, name)) {
            int rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_CLASS_TWICE, x ? x->at : at,
                                      "class-twice", "the class \"%s\" is listed twice", name);

            if (rc < 0)
                return rc;
        }
        dg_map_set(known, name, NULL);
        c->classes[label] = (dg_coco_class){ label + 1, dg_strdup(c->arena, name) };
    }
    c->n_classes = n;
    return 0;
}

/* Numbers after each box, from kpt_shape: [17, 3] (17 keypoints of 3 numbers). */
static int count_points(reading *r)
{
    const dg_json *shape = dg_json_get(r->doc, "kpt_shape");
    double n = 1;

    if (!shape)
        return 0;
    for (int i = 0; i < shape->n; i++)
        n *= shape->items[i].kind == DG_JSON_NUMBER ? shape->items[i].number : 0;
    if (shape->kind != DG_JSON_ARRAY || shape->n != 2 || n < 1 || n > MAX_POINTS || n != floor(n))
        return dg_fail(r->d, DG_EINPUT, shape->at, "yolo-keypoints",
                       "expected kpt_shape: [keypoints of an object, numbers of each]");
    r->n_points = (int)n;
    return 0;
}

static int read_classes(reading *r)
{
    const char *const lists[] = {
        "classes.txt", "labels/classes.txt", "obj.names",
        dg_printf(r->arena, "%s/classes.txt", r->from->split ? r->from->split : "."), /* labelImg */
    };

    if (r->from->classes)
        return dg_index_classes(r->c, r->from->classes, ',', (dg_where){ .file = r->from->root },
                                r->d);
    if (r->doc)
        return yaml_names(r);
    for (int i = 0; i < 4; i++) {
        const char *path = dg_path_join(r->arena, r->folder, lists[i]);

        if (dg_exists(path))
            return dg_index_classes_file(r->c, path, r->d);
    }
    dg_fail(r->d, DG_EINPUT, (dg_where){ .file = r->folder }, "yolo-names",
            "nothing names the classes");
    dg_help(r->d, "say classes=\"first,second\", or put a data.yaml with `names`, or a "
                  "classes.txt, into the folder");
    return -DG_EINPUT;
}

/* ---- which images ---------------------------------------------------------------------------- */

static void add_image(reading *r, const char *path)
{
    const size_t n = strlen(r->folder);
    const char *name = path;

    if (strncmp(path, r->folder, n) == 0 && path[n] == '/') {
        name = path + n + 1;
    } else if (path[0] != '/') {
        char *real = realpath(path, NULL);

        if (real)
            name = dg_strdup(r->arena, real);
        free(real);
    }
    DG_PUSH(r->arena, r->entries,
            ((entry){ .name = name, .path = path, .labels = dg_yolo_labels_of(r->arena, path) }));
}

static int add_folder(reading *r, const char *path)
{
    dg_listing files;
    int rc = dg_dir_list_deep(&files, r->arena, path, r->d);

    for (int i = 0; rc == 0 && i < files.n; i++)
        if (dg_image_named(files.v[i]))
            add_image(r, dg_path_join(r->arena, path, files.v[i]));
    return rc;
}

/* Resolves a path of a list: relative to the list's folder, or to the data set's. */
static const char *listed_path(reading *r, const char *list, const char *line)
{
    const char *near = dg_path_join(r->arena, dg_path_folder(r->arena, list), line);

    return dg_exists(near) || *line == '/' ? near : dg_path_join(r->arena, r->base, line);
}

static int add_list(reading *r, const char *path)
{
    char *text;
    size_t n;
    int rc = dg_index_text(&text, &n, path, MAX_BYTES, r->d);

    for (char *line = rc == 0 ? text + dg_mark_bytes(text) : NULL, *end; rc == 0 && line;
         line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        while (strncmp(line, "./", 2) == 0)
            line += 2;
        if (*line)
            add_image(r, listed_path(r, path, dg_strdup(r->arena, line)));
    }
    dg_free(text);
    return rc;
}

static int add_source(reading *r, const dg_json *source)
{
    const char *const text = source->text;
    const char *path, *inside;
    int rc = 0;

    for (int i = 0; source->kind == DG_JSON_ARRAY && rc == 0 && i < source->n; i++)
        rc = add_source(r, &source->items[i]); /* recursion is as deep as the file's nesting */
    if (source->kind == DG_JSON_ARRAY)
        return rc;
    if (!text || !*text)
        return dg_fail(r->d, DG_EINPUT, source->at, "yolo-source",
                       "expected a folder of images, a .txt list of them, or several");
    inside = strncmp(text, "../", 3) == 0 ? dg_path_join(r->arena, r->base, text + 3) : NULL;
    path = dg_path_join(r->arena, r->base, text);
    if (!dg_exists(path) && inside)
        path = inside;
    if (!dg_exists(path))
        path = dg_path_join(r->arena, r->folder, text);
    if (dg_is_folder(path))
        return add_folder(r, path);
    if (dg_exists(path))
        return add_list(r, path);
    return dg_fail(r->d, DG_EINPUT, source->at, "yolo-source", "there is no %s%s%s, folder or list",
                   dg_path_join(r->arena, r->base, text), inside ? ", nor " : "",
                   inside ? inside : "");
}

bool dg_yolo_splits(dg_listing *splits, dg_arena *a, const char *root)
{
    const char *file = dg_yolo_file(a, root);
    const dg_json *doc;
    dg_diag *quiet = dg_diag_open();
    bool is = false;

    *splits = (dg_listing){ 0 };
    if (file && dg_yaml_read(&doc, a, file, quiet) == 0) {
        yaml_splits(splits, a, doc);
        is = splits->n > 0;
    } else if (dg_is_folder(root)) {
        dg_yolo_folders(splits, a, root);
        is = splits->n > 0 || dg_yolo_both(a, root, "images", "labels") || dg_yolo_beside(a, root);
    }
    dg_diag_close(&quiet);
    return is;
}

static int find_in_folders(reading *r)
{
    const char *split = r->from->split;
    dg_listing has;

    dg_yolo_folders(&has, r->arena, r->folder);
    if (!split && dg_yolo_beside(r->arena, r->folder))
        return add_folder(r, r->folder);
    if (!split && has.n == 0 && dg_yolo_both(r->arena, r->folder, "images", "labels"))
        return add_folder(r, dg_path_join(r->arena, r->folder, "images"));
    if (!split)
        return dg_index_no_split(
            r->folder, &has, r->d,
            has.n ? "which split?"
                  : "there is no .yaml file with `names`, and no images/ with labels/");
    for (int i = 0; i < has.n; i++)
        if (strcmp(has.v[i], split) == 0 &&
            dg_yolo_beside(r->arena, dg_path_join(r->arena, r->folder, split)))
            return add_folder(r, dg_path_join(r->arena, r->folder, split));
    for (int i = 0; i < has.n; i++)
        if (strcmp(has.v[i], split) == 0)
            return add_folder(r, dg_printf(r->arena,
                                           dg_yolo_both(r->arena, r->folder, "images", "labels")
                                               ? "%s/images/%s"
                                               : "%s/%s/images",
                                           r->folder, split));
    return dg_index_no_split(r->folder, &has, r->d,
                             dg_printf(r->arena, "there is no images/%s with labels/%s", split,
                                       split));
}

static int find_images(reading *r)
{
    const char *root = r->from->root;
    const dg_json *source;
    dg_listing has;
    int rc;

    if (!dg_exists(root))
        return dg_fail(r->d, DG_EIO, (dg_where){ .file = root }, "data-missing",
                       "there is no such folder or file");
    r->file = dg_yolo_file(r->arena, root);
    r->folder = r->file ? dg_path_folder(r->arena, r->file) : root;
    r->base = r->folder;
    if (!r->file)
        return find_in_folders(r);
    rc = dg_yaml_read(&r->doc, r->arena, r->file, r->d);
    if (rc < 0)
        return rc;
    yaml_splits(&has, r->arena, r->doc);
    r->base = base_of(r->arena, r->folder, r->doc);
    source = r->from->split ? source_of(r->doc, r->from->split) : NULL;
    if (!source)
        return dg_index_no_split(r->file, &has, r->d,
                                 r->from->split
                                     ? dg_printf(r->arena, "it has no \"%s\"", r->from->split)
                                     : "which split?");
    return add_source(r, source);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the labels of image i, and its header. */
static int read_entry(void *ctx, int64_t i, dg_arena *a, dg_diag *d)
{
    reading *r = ctx;
    entry *e = &r->entries.items[i];
    dg_diag *quiet = dg_diag_open();
    char *text;
    size_t n;
    int rc = 0;

    if (dg_image_size(&e->w, &e->h, e->path, quiet) < 0)
        e->w = e->h = 0;
    dg_diag_close(&quiet);
    if (!dg_exists(e->labels)) /* no label file: an image without objects */
        return 0;
    rc = dg_index_text(&text, &n, e->labels, MAX_BYTES, d);
    if (rc == 0)
        rc = dg_yolo_parse(&e->found, a, text, n, r->n_points, e->labels, d);
    dg_free(text);
    return rc;
}

static void drop_labels(void *ctx, int64_t i)
{
    reading *r = ctx;

    r->entries.items[i].found.of.n = 0;
}

/* ---- the index ------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Keeps the polygon of a label, in pixels, as the mask of the next annotation. */
static int keep_mask(reading *r, const entry *e, const dg_yolo_label *x)
{
    double *xy = DG_NEW_N(r->c->arena, 2 * x->n_points, double);
    int rc;

    if (!x->n_points) {
        rc = dg_fail(r->d, DG_EINPUT, (dg_where){ e->labels, x->line, 0, NULL }, "mask-missing",
                     "a box without a mask");
        dg_help(r->d,
                "mark the object with a polygon of 3 or more points; for a model without masks, "
                "masks=\"false\" on the loader reads boxes alone");
        return rc;
    }
    for (int i = 0; i < x->n_points; i++) {
        xy[2 * i] = x->xy[2 * i] * e->w;
        xy[2 * i + 1] = x->xy[2 * i + 1] * e->h;
    }
    DG_PUSH(r->arena, r->masks, ((dg_mask_source){ .xy = xy, .n = x->n_points }));
    return 0;
}

/* Converts the labels of one image to annotations; returns their number. */
static int annotate(reading *r, const entry *e, dg_coco_annotation *out)
{
    int n = 0;

    for (int k = 0; e->w && k < e->found.of.n; k++) {
        const dg_yolo_label *x = &e->found.of.items[k];

        if (x->label >= r->c->n_classes) {
            int rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_CLASS_UNKNOWN,
                                      (dg_where){ e->labels, x->line, 0, NULL }, "yolo-class",
                                      "class %d, but the last of %d class%s is %d", x->label,
                                      r->c->n_classes, dg_plural(r->c->n_classes, "es"),
                                      r->c->n_classes - 1);

            if (rc < 0)
                return rc;
            continue;
        }
        if (r->from->masks && keep_mask(r, e, x) < 0)
            return -DG_EINPUT;
        out[n] = (dg_coco_annotation){
            .label = x->label,
            .x = dg_index_round((x->cx - x->w / 2) * e->w),
            .y = dg_index_round((x->cy - x->h / 2) * e->h),
            .w = dg_index_round(x->w * e->w),
            .h = dg_index_round(x->h * e->h),
        };
        out[n].area = fabs(out[n].w * out[n].h);
        n++;
    }
    return n;
}

/* Sorts entries by name and drops duplicates. */
static int sort_entries(reading *r)
{
    int kept = 0;

    if (r->entries.n == 0)
        return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = r->c->path }, "yolo-empty",
                       "no image stands in it");
    qsort(r->entries.items, (size_t)r->entries.n, sizeof *r->entries.items, by_name);
    for (int i = 0; i < r->entries.n; i++) {
        const entry e = r->entries.items[i];

        if (i && strcmp(e.name, r->entries.items[kept - 1].name) == 0) {
            int rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_IMAGE_TWICE,
                                      (dg_where){ .file = r->c->path }, "yolo-twice",
                                      "%s is listed twice", e.name);

            if (rc < 0)
                return rc;
            continue;
        }
        r->entries.items[kept++] = e;
    }
    r->entries.n = kept;
    return 0;
}

static int make_index(reading *r)
{
    const int all = r->entries.n;
    const dg_coco_annotation **lists = DG_NEW_N(r->arena, all, const dg_coco_annotation *);
    int *n = DG_NEW_N(r->arena, all, int);
    dg_coco *c = r->c;

    c->images = DG_NEW_N(c->arena, all, dg_coco_image);
    c->n_images = all;
    for (int i = 0; i < all; i++) {
        entry *e = &r->entries.items[i];
        dg_coco_annotation *list = DG_NEW_N(r->arena, e->found.of.n + 1, dg_coco_annotation);
        int rc = 0;

        if (!e->w && e->found.of.n && !r->faults)
            rc = dg_index_size(c, &e->w, &e->h, e->path, e->found.of.n, r->from->replace, r->d);
        if (rc < 0)
            return rc;
        c->images[i] = (dg_coco_image){ .id = i + 1,
                                        .file_name = dg_strdup(c->arena, e->name),
                                        .w = e->w ? e->w : 1,
                                        .h = e->h ? e->h : 1 };
        n[i] = annotate(r, e, list);
        if (n[i] < 0)
            return n[i];
        lists[i] = list;
    }
    if (r->from->masks) {
        c->masks = dg_try_alloc((size_t)(r->masks.n + 1) * sizeof *c->masks);
        if (!c->masks)
            return dg_fail(r->d, DG_EMEMORY, (dg_where){ .file = c->path }, "coco-memory",
                           "no memory for its %d masks", r->masks.n);
        if (r->masks.n)
            memcpy(c->masks, r->masks.items, (size_t)r->masks.n * sizeof *c->masks);
    }
    return dg_index_join(c, lists, n, r->d);
}

int dg_yolo_read(dg_coco **out, const dg_data_source *from, dg_faults *faults, dg_diag *d)
{
    reading r = { .from = from, .faults = faults, .d = d, .arena = dg_arena_open() };
    dg_index_files files = { .read = read_entry, .drop = drop_labels, .ctx = &r };
    int rc;

    r.c = dg_index_open(from->split ? dg_printf(r.arena, "%s (%s)", from->root, from->split)
                                    : from->root);
    DG_TRY(find_images(&r));
    r.c->folder = dg_strdup(r.c->arena, r.folder);
    DG_TRY(read_classes(&r));
    DG_TRY(sort_entries(&r));
    DG_TRY(count_points(&r));
    DG_TRY(dg_index_files_read(&files, r.entries.n, faults, d));
    DG_TRY(make_index(&r));
    *out = r.c;
out:
    dg_index_files_close(&files);
    dg_arena_close(&r.arena);
    if (rc < 0)
        dg_coco_close(&r.c);
    return rc;
}

int dg_yolo_open(dg_coco **out, const dg_data_source *from, dg_diag *d)
{
    return dg_yolo_read(out, from, NULL, d);
}
