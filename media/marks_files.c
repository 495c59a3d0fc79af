/* marks_files.c: indexes a folder with a file of marks for each image.
 *
 * Reads all such files on several threads, including those of other splits if no file lists the
 * classes: class numbers must not depend on the split. What depends on order happens afterwards, on
 * one thread. */
#include "media/marks.h"

#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "media/image.h"
#include "media/voc.h"

enum { MAX_BYTES = 64 << 20 };

/* The folders of one part of the data set, relative to root; "" is root. */
typedef struct place {
    const char *marks, *images;
} place;

typedef struct reading {
    dg_marks m;
    const dg_marks_form *form;
    dg_map *by_stem;  /* "PLACE\nSTEM" -> entry */
    const char *list; /* the file that lists the wanted ones; NULL: all of the place */
} reading;

static const char *below(reading *r, const char *folder, const char *name)
{
    return *folder ? dg_path_join(r->m.arena, folder, name) : name;
}

bool dg_marks_begins(const char *path, const char *word)
{
    enum { HEAD = 1 << 16 };
    dg_mapping m = { 0 };
    dg_diag *quiet = dg_diag_open();
    bool has = dg_file_map(&m, path, quiet) == 0 &&
               memmem(m.p, m.n < HEAD ? m.n : HEAD, word, strlen(word));

    dg_file_unmap(&m);
    dg_diag_close(&quiet);
    return has;
}

static bool has_marks(const dg_marks_form *form, dg_arena *a, const char *folder, bool deep)
{
    dg_diag *quiet = dg_diag_open();
    dg_listing files = { 0 };
    bool found = false;

    if (dg_is_folder(folder))
        (void)!(deep ? dg_dir_list_deep(&files, a, folder, quiet)
                     : dg_dir_list(&files, NULL, a, folder, quiet));
    for (int i = 0; i < files.n && !found; i++)
        found =
            dg_path_ends(files.v[i], form->end) && form->is(dg_path_join(a, folder, files.v[i]));
    dg_diag_close(&quiet);
    return found;
}

/* Finds the folders of the part at root/base; false if there are none. */
static bool find_place(place *p, dg_arena *a, const dg_marks_form *form, const char *root,
                       const char *base)
{
    static const char *const images[] = { "JPEGImages", "images", "Images" };
    const char *top = *base ? dg_path_join(a, root, base) : root;
    const char *prefix = *base ? dg_printf(a, "%s/", base) : "";

    *p = (place){ 0 };
    for (int i = 0; form->folder[i] && !p->marks; i++)
        if (has_marks(form, a, dg_path_join(a, top, form->folder[i]), true))
            p->marks = dg_printf(a, "%s%s", prefix, form->folder[i]);
    if (!p->marks && has_marks(form, a, top, false))
        p->marks = base;
    for (int i = 0; i < 3 && p->marks && !p->images; i++)
        if (dg_is_folder(dg_path_join(a, top, images[i])))
            p->images = dg_printf(a, "%s%s", prefix, images[i]);
    if (!p->images)
        p->images = p->marks;
    return p->marks != NULL;
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

static void list_folders(dg_listing *out, dg_arena *a, const dg_marks_form *form, const char *root)
{
    dg_diag *quiet = dg_diag_open();
    place p;
    int n = 0;

    *out = (dg_listing){ 0 };
    (void)!dg_dir_list(NULL, out, a, root, quiet);
    for (int i = 0; i < out->n; i++)
        if (find_place(&p, a, form, root, out->v[i]))
            out->v[n++] = out->v[i];
    out->n = n;
    dg_diag_close(&quiet);
}

bool dg_marks_files_splits(dg_listing *splits, dg_arena *a, const dg_marks_form *form,
                           const char *root)
{
    place p;

    if (find_place(&p, a, form, root, "")) {
        list_sets(splits, a, root);
        return true;
    }
    list_folders(splits, a, form, root);
    return splits->n > 0;
}

static int add_place(reading *r, place p)
{
    dg_listing files;
    dg_map *images = dg_map_new(r->m.arena);
    const bool apart = strcmp(p.marks, p.images) != 0;
    int rc;

    rc = apart ? dg_dir_list_deep(&files, r->m.arena, dg_marks_path(&r->m, p.images), r->m.d)
               : dg_dir_list(&files, NULL, r->m.arena, dg_marks_path(&r->m, p.images), r->m.d);
    for (int i = 0; rc == 0 && i < files.n; i++)
        if (dg_image_named(files.v[i]))
            dg_map_set(images, dg_path_stem(r->m.arena, files.v[i]),
                       (void *)(uintptr_t)below(r, p.images, files.v[i]));
    if (rc == 0 && apart)
        rc = dg_dir_list_deep(&files, r->m.arena, dg_marks_path(&r->m, p.marks), r->m.d);
    for (int i = 0; rc == 0 && i < files.n; i++) {
        dg_marks_entry *e;
        const char *stem;

        if (!dg_path_ends(files.v[i], r->form->end))
            continue;
        stem = dg_path_stem(r->m.arena, files.v[i]);
        e = DG_NEW(r->m.arena, dg_marks_entry);
        e->file = below(r, p.marks, files.v[i]);
        e->image = dg_map_get(images, stem);
        e->images = p.images;
        DG_PUSH(r->m.arena, r->m.entries, e);
        dg_map_set(r->by_stem, dg_printf(r->m.arena, "%s\n%s", p.marks, stem), e);
    }
    return rc;
}

/* ---- choosing files -------------------------------------------------------------------------- */

/* Handles a line of a list: a name, which may contain blanks, or a name and a mark: "000012 -1". */
static int want_line(reading *r, place p, const char *line, int number)
{
    const char *word = "", *stem = "";
    dg_marks_entry *e = NULL;
    dg_where at = { r->list, number, 0, NULL };
    size_t n = strlen(line);
    int rc = 0;

    for (int pass = 0; pass < 2 && !e; pass++) {
        if (pass == 1)
            n = strcspn(line, " \t\r");
        while (n && strchr(" \t\r", line[n - 1]))
            n--;
        word = dg_strndup(r->m.arena, line, n);
        stem = dg_image_named(word) ? dg_path_stem(r->m.arena, word) : word;
        e = dg_map_get(r->by_stem, dg_printf(r->m.arena, "%s\n%s", p.marks, stem));
    }
    if (!*word)
        return 0;
    if (!e)
        rc = dg_fault_or_fail(r->m.faults, r->m.d, DG_FAULT_ANNOTATION, at, "voc-missing",
                              "there is no %s/%s%s", p.marks, stem, r->form->end);
    else if (e->wanted)
        rc = dg_fault_or_fail(r->m.faults, r->m.d, DG_FAULT_IMAGE_TWICE, at, "voc-twice",
                              "%s is listed twice", stem);
    if (rc || !e)
        return rc < 0 ? rc : 0;
    e->wanted = true;
    DG_PUSH(r->m.arena, r->m.wanted, e);
    return 0;
}

static int want_listed(reading *r, place p)
{
    char *text;
    size_t n;
    int rc = dg_index_text(&text, &n, r->list, 0, r->m.d), number = 1;

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
    const size_t n = strlen(p.marks);

    for (int i = 0; i < r->m.entries.n; i++) {
        dg_marks_entry *e = r->m.entries.items[i];

        if (strncmp(e->file, p.marks, n) == 0 && (n == 0 || e->file[n] == '/')) {
            e->wanted = true;
            DG_PUSH(r->m.arena, r->m.wanted, e);
        }
    }
}

/* Lists all files with marks, and marks those of the split as wanted. */
static int find_entries(reading *r)
{
    const char *root = r->m.from->root, *split = r->m.from->split;
    const char *list =
        split ? dg_printf(r->m.arena, "%s/ImageSets/Main/%s.txt", root, split) : NULL;
    dg_listing has;
    place p, one;
    int rc = 0;

    if (!dg_is_folder(root))
        return dg_fail(r->m.d, DG_EIO, (dg_where){ .file = root }, "data-missing",
                       "there is no such folder");
    if (find_place(&p, r->m.arena, r->form, root, "")) {
        list_sets(&has, r->m.arena, root);
        DG_TRY(add_place(r, p));
        if (!split)
            want_place(r, p);
        else if (!dg_exists(list))
            return dg_index_no_split(root, &has, r->m.d,
                                     dg_printf(r->m.arena, "there is no ImageSets/Main/%s.txt",
                                               split));
        r->list = list;
        return split ? want_listed(r, p) : 0;
    }
    list_folders(&has, r->m.arena, r->form, root);
    if (!has.n)
        return dg_index_no_split(root, &has, r->m.d,
                                 dg_printf(r->m.arena,
                                           "there is no %s file in %s/, nor in the folder itself",
                                           r->form->end, r->form->folder[0]));
    if (!split)
        return dg_index_no_split(root, &has, r->m.d,
                                 dg_printf(r->m.arena,
                                           "its %s files stand in a folder for each split",
                                           r->form->end));
    if (!find_place(&one, r->m.arena, r->form, root, split))
        return dg_index_no_split(
            root, &has, r->m.d,
            dg_printf(r->m.arena,
                      "there is no ImageSets/Main/%s.txt, nor a folder %s/ with %s files", split,
                      split, r->form->end));
    for (int i = 0; rc == 0 && i < has.n; i++)
        rc = find_place(&p, r->m.arena, r->form, root, has.v[i]) ? add_place(r, p) : 0;
    want_place(r, one);
out:
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Completes what the file leaves out: the image's name and size. */
static void complete_entry(const reading *r, dg_marks_entry *e, dg_arena *a)
{
    if (!e->image) {
        const char *name = e->marks.file_name && *e->marks.file_name
                               ? dg_path_name(e->marks.file_name)
                               : dg_printf(a, "%s.jpg", dg_path_name(dg_path_stem(a, e->file)));

        e->image = *e->images ? dg_path_join(a, e->images, name) : name;
    }
    if (e->marks.w < 1 || e->marks.h < 1) {
        dg_diag *quiet = dg_diag_open();
        int w, h;

        e->marks.w = e->marks.h = 0;
        if (dg_image_size(&w, &h, dg_path_join(a, r->m.from->root, e->image), quiet) == 0) {
            e->marks.w = w;
            e->marks.h = h;
        }
        dg_diag_close(&quiet);
    }
}

/* Reads one file. Of unwanted files only the classes count; errors in them concern only their own
 * split. */
static int read_entry(void *ctx, int64_t i, dg_arena *a, dg_diag *d)
{
    reading *r = ctx;
    dg_marks_entry *e = r->m.entries.items[i];
    const char *path = dg_path_join(a, r->m.from->root, e->file);
    char *text;
    size_t n;
    int rc;

    if (!e->wanted && r->m.c->n_classes)
        return 0;
    rc = dg_file_read(&text, &n, path, MAX_BYTES, d);
    if (rc == 0)
        rc = r->form->parse(&e->marks, a, text, n, path, d);
    dg_free(text);
    e->read = rc == 0;
    if (e->read && e->wanted)
        complete_entry(r, e, a);
    return e->wanted ? rc : 0;
}

static void drop_objects(void *ctx, int64_t i)
{
    reading *r = ctx;
    dg_marks_entry *e = r->m.entries.items[i];

    e->marks = (dg_marked_image){ 0 };
    complete_entry(r, e, r->m.arena);
}

int dg_marks_files_read(dg_coco **out, const dg_marks_form *form, const dg_data_source *from,
                        dg_faults *faults, dg_diag *d)
{
    reading r = { .form = form };
    dg_index_files files = { .read = read_entry, .drop = drop_objects, .ctx = &r };
    int rc;

    dg_marks_open(&r.m, from, faults, d);
    r.by_stem = dg_map_new(r.m.arena);
    DG_TRY(find_entries(&r));
    DG_TRY(dg_marks_classes(&r.m));
    if (form->prepare)
        form->prepare();
    DG_TRY(dg_index_files_read(&files, r.m.entries.n, faults, d));
    DG_TRY(dg_marks_index(&r.m));
out:
    dg_index_files_close(&files);
    return dg_marks_close(&r.m, rc, out);
}

/* ---- VOC ------------------------------------------------------------------------------------- */

/* Our own pipelines are often written into the folder of the data. */
static bool is_voc(const char *path)
{
    return !dg_marks_begins(path, "<pipeline");
}

const dg_marks_form dg_voc_form = {
    .end = ".xml",
    .folder = { "Annotations", "annotations" },
    .prepare = dg_voc_prepare,
    .parse = dg_voc_parse,
    .is = is_voc,
};

int dg_voc_open(dg_coco **out, const dg_data_source *from, dg_diag *d)
{
    return dg_marks_files_read(out, &dg_voc_form, from, NULL, d);
}

int dg_labelme_open(dg_coco **out, const dg_data_source *from, dg_diag *d)
{
    return dg_marks_files_read(out, &dg_labelme_form, from, NULL, d);
}
