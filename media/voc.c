/* voc.c: indexes a folder of VOC annotations.
 *
 * Reads all .xml files on several threads, including those of other splits if no file lists the
 * classes: class numbers must not depend on the split. What depends on order happens afterwards, on
 * one thread. */
#include "media/voc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "media/image.h"

enum { MAX_BYTES = 16 << 20 };

/* The folders of one part of the data set, relative to root; "" is root. */
typedef struct place {
    const char *xml, *images;
} place;

typedef struct entry {
    const char *xml, *image; /* relative to root; image NULL: not known yet */
    const char *images;      /* the folder of its image */
    dg_voc_file file;
    bool read, wanted;
} entry;

typedef struct reading {
    const dg_data_source *from;
    dg_faults *faults;
    dg_diag *d;
    dg_arena *arena;
    dg_coco *c;
    DG_VEC(entry *) entries;
    dg_map *by_stem; /* "PLACE\nSTEM" -> entry */
    DG_VEC(entry *) wanted;
    const char *list; /* the file that lists the wanted ones; NULL: all of the place */
} reading;

static const char *below(reading *r, const char *folder, const char *name)
{
    return *folder ? dg_path_join(r->arena, folder, name) : name;
}

static const char *path_of(reading *r, const char *relative)
{
    return *relative ? dg_path_join(r->arena, r->from->root, relative) : r->from->root;
}

static bool has_xml(dg_arena *a, const char *folder, bool deep)
{
    dg_diag *quiet = dg_diag_open();
    dg_listing files = { 0 };
    bool found = false;

    if (dg_is_folder(folder))
        (void)!(deep ? dg_dir_list_deep(&files, a, folder, quiet)
                     : dg_dir_list(&files, NULL, a, folder, quiet));
    for (int i = 0; i < files.n && !found; i++)
        found = dg_path_ends(files.v[i], ".xml");
    dg_diag_close(&quiet);
    return found;
}

/* Finds the folders of the part at root/base; false if there are none. */
static bool find_place(place *p, dg_arena *a, const char *root, const char *base)
{
    static const char *const xml[] = { "Annotations", "annotations" }, *const images[] = {
        "JPEGImages", "images", "Images"
    };
    const char *top = *base ? dg_path_join(a, root, base) : root;
    const char *prefix = *base ? dg_printf(a, "%s/", base) : "";

    *p = (place){ 0 };
    for (int i = 0; i < 2 && !p->xml; i++)
        if (has_xml(a, dg_path_join(a, top, xml[i]), true))
            p->xml = dg_printf(a, "%s%s", prefix, xml[i]);
    if (!p->xml && has_xml(a, top, false))
        p->xml = base;
    for (int i = 0; i < 3 && p->xml && !p->images; i++)
        if (dg_is_folder(dg_path_join(a, top, images[i])))
            p->images = dg_printf(a, "%s%s", prefix, images[i]);
    if (!p->images)
        p->images = p->xml;
    return p->xml != NULL;
}

/* ---- listing files --------------------------------------------------------------------------- */

/* True if this list is for one class ("dog_train" beside "train"): its lines have a mark after the
 * name: "000012 -1". */
static bool is_of_one_class(const dg_listing *files, dg_arena *a, const char *folder,
                            const char *name)
{
    const char *split = NULL;
    dg_diag *quiet = dg_diag_open();
    char *text = NULL;
    size_t n;
    bool marked = false;

    for (const char *p = name; (p = strchr(p, '_')) && !split; p++)
        for (int i = 0; i < files->n && !split; i++)
            split = strcmp(files->v[i], p + 1) == 0 ? p + 1 : NULL;
    if (split && dg_file_read(&text, &n, dg_path_join(a, folder, name), 0, quiet) == 0) {
        const size_t word = strcspn(text, " \t\r\n"), blanks = strspn(text + word, " \t");

        marked = text[word + blanks] == '-' ||
                 (text[word + blanks] >= '0' && text[word + blanks] <= '9');
    }
    dg_free(text);
    dg_diag_close(&quiet);
    return marked;
}

/* Names of the splits in ImageSets/Main. */
static void list_sets(dg_listing *out, dg_arena *a, const char *root)
{
    dg_diag *quiet = dg_diag_open();
    const char *folder = dg_path_join(a, root, "ImageSets/Main");
    dg_listing files = { 0 };

    if (dg_is_folder(folder))
        (void)!dg_dir_list(&files, NULL, a, folder, quiet);
    *out = (dg_listing){ DG_NEW_N(a, files.n, const char *), 0 };
    for (int i = 0; i < files.n; i++)
        if (dg_path_ends(files.v[i], ".txt") && !is_of_one_class(&files, a, folder, files.v[i]))
            out->v[out->n++] = dg_path_stem(a, files.v[i]);
    dg_diag_close(&quiet);
}

static void list_folders(dg_listing *out, dg_arena *a, const char *root)
{
    dg_diag *quiet = dg_diag_open();
    place p;
    int n = 0;

    *out = (dg_listing){ 0 };
    (void)!dg_dir_list(NULL, out, a, root, quiet);
    for (int i = 0; i < out->n; i++)
        if (find_place(&p, a, root, out->v[i]))
            out->v[n++] = out->v[i];
    out->n = n;
    dg_diag_close(&quiet);
}

bool dg_voc_splits(dg_listing *splits, dg_arena *a, const char *root)
{
    place p;

    if (find_place(&p, a, root, "")) {
        list_sets(splits, a, root);
        return true;
    }
    list_folders(splits, a, root);
    return splits->n > 0;
}

static int add_place(reading *r, place p)
{
    dg_listing files;
    dg_map *images = dg_map_new(r->arena);
    const bool apart = strcmp(p.xml, p.images) != 0;
    int rc;

    rc = apart ? dg_dir_list_deep(&files, r->arena, path_of(r, p.images), r->d)
               : dg_dir_list(&files, NULL, r->arena, path_of(r, p.images), r->d);
    for (int i = 0; rc == 0 && i < files.n; i++)
        if (dg_image_named(files.v[i]))
            dg_map_set(images, dg_path_stem(r->arena, files.v[i]),
                       (void *)(uintptr_t)below(r, p.images, files.v[i]));
    if (rc == 0 && apart)
        rc = dg_dir_list_deep(&files, r->arena, path_of(r, p.xml), r->d);
    for (int i = 0; rc == 0 && i < files.n; i++) {
        entry *e;
        const char *stem;

        if (!dg_path_ends(files.v[i], ".xml"))
            continue;
        stem = dg_path_stem(r->arena, files.v[i]);
        e = DG_NEW(r->arena, entry);
        e->xml = below(r, p.xml, files.v[i]);
        e->image = dg_map_get(images, stem);
        e->images = p.images;
        DG_PUSH(r->arena, r->entries, e);
        dg_map_set(r->by_stem, dg_printf(r->arena, "%s\n%s", p.xml, stem), e);
    }
    return rc;
}

/* ---- choosing files -------------------------------------------------------------------------- */

/* Handles a line of a list: a name, which may contain blanks, or a name and a mark: "000012 -1". */
static int want_line(reading *r, place p, const char *line, int number)
{
    const char *word = "", *stem = "";
    entry *e = NULL;
    dg_where at = { r->list, number, 0, NULL };
    size_t n = strlen(line);
    int rc = 0;

    for (int pass = 0; pass < 2 && !e; pass++) {
        if (pass == 1)
            n = strcspn(line, " \t\r");
        while (n && strchr(" \t\r", line[n - 1]))
            n--;
        word = dg_strndup(r->arena, line, n);
        stem = dg_image_named(word) ? dg_path_stem(r->arena, word) : word;
        e = dg_map_get(r->by_stem, dg_printf(r->arena, "%s\n%s", p.xml, stem));
    }
    if (!*word)
        return 0;
    if (!e)
        rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_ANNOTATION, at, "voc-missing",
                              "there is no %s/%s.xml", p.xml, stem);
    else if (e->wanted)
        rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_IMAGE_TWICE, at, "voc-twice",
                              "%s is listed twice", stem);
    if (rc || !e)
        return rc < 0 ? rc : 0;
    e->wanted = true;
    DG_PUSH(r->arena, r->wanted, e);
    return 0;
}

static int want_listed(reading *r, place p)
{
    char *text;
    size_t n;
    int rc = dg_index_text(&text, &n, r->list, 0, r->d), number = 1;

    for (char *line = rc == 0 ? text + dg_mark_bytes(text) : NULL, *end; rc == 0 && line;
         line = end, number++) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        rc = want_line(r, p, line, number);
    }
    dg_free(text);
    return rc;
}

static void want_place(reading *r, place p)
{
    const size_t n = strlen(p.xml);

    for (int i = 0; i < r->entries.n; i++) {
        entry *e = r->entries.items[i];

        if (strncmp(e->xml, p.xml, n) == 0 && (n == 0 || e->xml[n] == '/')) {
            e->wanted = true;
            DG_PUSH(r->arena, r->wanted, e);
        }
    }
}

/* Lists all .xml files, and marks those of the split as wanted. */
static int find_entries(reading *r)
{
    const char *root = r->from->root, *split = r->from->split;
    const char *list = split ? dg_printf(r->arena, "%s/ImageSets/Main/%s.txt", root, split) : NULL;
    dg_listing has;
    place p, one;
    int rc = 0;

    if (!dg_is_folder(root))
        return dg_fail(r->d, DG_EIO, (dg_where){ .file = root }, "data-missing",
                       "there is no such folder");
    if (find_place(&p, r->arena, root, "")) {
        list_sets(&has, r->arena, root);
        DG_TRY(add_place(r, p));
        if (!split)
            want_place(r, p);
        else if (!dg_exists(list))
            return dg_index_no_split(root, &has, r->d,
                                     dg_printf(r->arena, "there is no ImageSets/Main/%s.txt",
                                               split));
        r->list = list;
        return split ? want_listed(r, p) : 0;
    }
    list_folders(&has, r->arena, root);
    if (!has.n)
        return dg_index_no_split(root, &has, r->d,
                                 "there is no .xml file in Annotations/, nor in the folder itself");
    if (!split)
        return dg_index_no_split(root, &has, r->d,
                                 "its .xml files stand in a folder for each split");
    if (!find_place(&one, r->arena, root, split))
        return dg_index_no_split(
            root, &has, r->d,
            dg_printf(r->arena,
                      "there is no ImageSets/Main/%s.txt, nor a folder %s/ with .xml files", split,
                      split));
    for (int i = 0; rc == 0 && i < has.n; i++)
        rc = find_place(&p, r->arena, root, has.v[i]) ? add_place(r, p) : 0;
    want_place(r, one);
out:
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Completes what the file leaves out: the image's name and size. */
static void complete_entry(const reading *r, entry *e, dg_arena *a)
{
    if (!e->image) {
        const char *name = e->file.file_name && *e->file.file_name
                               ? dg_path_name(e->file.file_name)
                               : dg_printf(a, "%s.jpg", dg_path_name(dg_path_stem(a, e->xml)));

        e->image = *e->images ? dg_path_join(a, e->images, name) : name;
    }
    if (e->file.w < 1 || e->file.h < 1) {
        dg_diag *quiet = dg_diag_open();
        int w, h;

        e->file.w = e->file.h = 0;
        if (dg_image_size(&w, &h, dg_path_join(a, r->from->root, e->image), quiet) == 0) {
            e->file.w = w;
            e->file.h = h;
        }
        dg_diag_close(&quiet);
    }
}

/* Reads one file. Of unwanted files only the classes count; errors in them concern only their own
 * split. */
static int read_entry(void *ctx, int64_t i, dg_arena *a, dg_diag *d)
{
    reading *r = ctx;
    entry *e = r->entries.items[i];
    const char *path = dg_path_join(a, r->from->root, e->xml);
    char *text;
    size_t n;
    int rc;

    if (!e->wanted && r->c->n_classes)
        return 0;
    rc = dg_file_read(&text, &n, path, MAX_BYTES, d);
    if (rc == 0)
        rc = dg_voc_parse(&e->file, a, text, n, path, d);
    dg_free(text);
    e->read = rc == 0;
    if (e->read && e->wanted)
        complete_entry(r, e, a);
    return e->wanted ? rc : 0;
}

static void drop_objects(void *ctx, int64_t i)
{
    reading *r = ctx;
    entry *e = r->entries.items[i];

    e->file = (dg_voc_file){ 0 };
    complete_entry(r, e, r->arena);
}

/* ---- the index ------------------------------------------------------------------------------- */

static int listed_classes(reading *r)
{
    const char *file = path_of(r, "classes.txt");

    if (r->from->classes)
        return dg_index_classes(r->c, r->from->classes, ',', (dg_where){ .file = r->from->root },
                                r->d);
    return dg_exists(file) ? dg_index_classes_file(r->c, file, r->d) : 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const dg_coco_class *)a)->name, ((const dg_coco_class *)b)->name);
}

static void found_classes(reading *r)
{
    dg_map *names = dg_map_new(r->arena);
    int n;

    for (int i = 0; i < r->entries.n; i++)
        for (int k = 0; r->entries.items[i]->read && k < r->entries.items[i]->file.objects.n; k++)
            dg_map_set(names, r->entries.items[i]->file.objects.items[k].name, NULL);
    n = dg_map_n(names);
    r->c->classes = DG_NEW_N(r->c->arena, n, dg_coco_class);
    for (int i = 0; i < n; i++)
        r->c->classes[i].name = dg_strdup(r->c->arena, dg_map_key(names, i));
    qsort(r->c->classes, (size_t)n, sizeof *r->c->classes, by_bytes);
    for (int i = 0; i < n; i++)
        r->c->classes[i].id = i + 1;
    r->c->n_classes = n;
}

/* "nut, bolt, ..." */
static const char *listed_names(const reading *r)
{
    enum { SHOWN = 8 };
    const char *text = "";

    for (int k = 0; k < r->c->n_classes && k < SHOWN; k++)
        text = dg_printf(r->arena, "%s%s%s", text, k ? ", " : "", r->c->classes[k].name);
    return r->c->n_classes > SHOWN ? dg_printf(r->arena, "%s, ...", text) : text;
}

/* Converts the objects of one file to annotations; returns their number. */
static int annotate(reading *r, const entry *e, dg_coco_annotation *out)
{
    const double first = r->from->from_one ? 1 : 0;
    int n = 0;

    for (int k = 0; k < e->file.objects.n; k++) {
        const dg_voc_object *x = &e->file.objects.items[k];
        int label = dg_index_label(r->c, x->name);

        if (label < 0) {
            dg_where at = { path_of(r, e->xml), x->line, 0, NULL };
            int rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_CLASS_UNKNOWN, at, "voc-class",
                                      "the class \"%s\" is not among the %d that %s: %s", x->name,
                                      r->c->n_classes,
                                      r->from->classes ? "classes=\"...\" lists"
                                                       : dg_printf(r->arena, "%s lists",
                                                                   path_of(r, "classes.txt")),
                                      listed_names(r));

            if (rc < 0)
                return rc;
            continue;
        }
        out[n] = (dg_coco_annotation){
            .label = label,
            .x = x->x1 - first,
            .y = x->y1 - first,
            .w = dg_index_round(x->x2 - x->x1 + first),
            .h = dg_index_round(x->y2 - x->y1 + first),
            .crowd = x->difficult != 0 && !r->from->difficult,
            .truncated = x->truncated != 0,
        };
        out[n].area = fabs(out[n].w * out[n].h);
        n++;
    }
    return n;
}

static int by_image(const void *a, const void *b)
{
    return strcmp((*(const entry *const *)a)->image, (*(const entry *const *)b)->image);
}

static int make_index(reading *r)
{
    const dg_coco_annotation **lists =
        DG_NEW_N(r->arena, r->wanted.n + 1, const dg_coco_annotation *);
    int *n = DG_NEW_N(r->arena, r->wanted.n + 1, int);
    dg_coco *c = r->c;
    const int all = r->wanted.n;

    if (all == 0)
        return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = c->path }, "voc-empty",
                       "no image stands in it");
    qsort(r->wanted.items, (size_t)all, sizeof *r->wanted.items, by_image);
    c->images = DG_NEW_N(c->arena, all, dg_coco_image);
    for (int i = 0; i < all; i++) {
        const entry *e = r->wanted.items[i];
        dg_coco_annotation *list = DG_NEW_N(r->arena, e->file.objects.n + 1, dg_coco_annotation);
        int w = (int)e->file.w, h = (int)e->file.h, rc = 0;

        if ((w < 1 || h < 1) && e->file.objects.n && !r->faults)
            rc = dg_index_size(c, &w, &h, path_of(r, e->image), e->file.objects.n, r->from->replace,
                               r->d);
        if (rc < 0)
            return rc;

        const bool sized = w >= 1 && h >= 1;

        c->images[i] = (dg_coco_image){ .id = i + 1,
                                        .file_name = dg_strdup(c->arena, e->image),
                                        .w = sized ? w : 1,
                                        .h = sized ? h : 1 };
        n[i] = sized ? annotate(r, e, list) : 0;
        if (n[i] < 0)
            return n[i];
        lists[i] = list;
    }
    if (c->n_classes == 0)
        return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = c->path }, "class-none",
                       "no object names a class, and none is listed");
    c->n_images = all;
    return dg_index_join(c, lists, n, r->d);
}

int dg_voc_read(dg_coco **out, const dg_data_source *from, dg_faults *faults, dg_diag *d)
{
    reading r = { .from = from, .faults = faults, .d = d, .arena = dg_arena_open() };
    dg_index_files files = { .read = read_entry, .drop = drop_objects, .ctx = &r };
    int rc;

    r.c = dg_index_open(from->split ? dg_printf(r.arena, "%s (%s)", from->root, from->split)
                                    : from->root);
    r.c->folder = dg_strdup(r.c->arena, from->root);
    r.by_stem = dg_map_new(r.arena);
    DG_TRY(find_entries(&r));
    DG_TRY(listed_classes(&r));
    dg_voc_prepare();
    DG_TRY(dg_index_files_read(&files, r.entries.n, faults, d));
    if (!r.c->n_classes)
        found_classes(&r);
    DG_TRY(make_index(&r));
    *out = r.c;
out:
    dg_index_files_close(&files);
    dg_arena_close(&r.arena);
    if (rc < 0)
        dg_coco_close(&r.c);
    return rc;
}

int dg_voc_open(dg_coco **out, const dg_data_source *from, dg_diag *d)
{
    return dg_voc_read(out, from, NULL, d);
}
