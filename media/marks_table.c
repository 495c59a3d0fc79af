/* marks_table.c: indexes files that hold the marks of many images each (CVAT, CSV).
 *
 *   ROOT/annotations.xml                one file: no splits
 *   ROOT/train.csv, ROOT/val.csv        several: a split each; also in ROOT/annotations
 *   ROOT/train/_annotations.csv         in folders: a split for each folder
 *
 * Images are looked for beside the file, in images/ beside it, and in images/ and images/SPLIT of
 * the root, under the name that the file gives or its last part. */
#include "media/marks.h"

#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "media/image.h"

enum { MAX_BYTES = 1 << 30, HEAD = 1 << 16 };

typedef struct table {
    const char *file, *split; /* relative to root; split NULL: there are none */
} table;

typedef struct tables {
    DG_VEC(table) v;
} tables;

static bool is_of_form(const dg_marks_table *form, const char *path)
{
    dg_mapping m = { 0 };
    dg_diag *quiet = dg_diag_open();
    bool is = dg_path_ends(path, form->end) && dg_file_map(&m, path, quiet) == 0 &&
              (!form->is || form->is((const char *)m.p, m.n < HEAD ? m.n : HEAD));

    dg_file_unmap(&m);
    dg_diag_close(&quiet);
    return is;
}

/* Adds the files of root/folder; most: of them. */
static void list_tables(tables *out, dg_arena *a, const dg_marks_table *form, const char *root,
                        const char *folder, const char *split)
{
    dg_diag *quiet = dg_diag_open();
    const char *path = *folder ? dg_path_join(a, root, folder) : root;
    dg_listing files = { 0 };

    if (dg_is_folder(path))
        (void)!dg_dir_list(&files, NULL, a, path, quiet);
    for (int i = 0; i < files.n; i++) {
        const char *name = *folder ? dg_path_join(a, folder, files.v[i]) : files.v[i];

        if (is_of_form(form, dg_path_join(a, root, name)))
            DG_PUSH(a, out->v,
                    ((table){ name, split ? split : dg_path_stem(a, dg_path_name(name)) }));
    }
    dg_diag_close(&quiet);
}

static void find_tables(tables *out, dg_arena *a, const dg_marks_table *form, const char *root)
{
    dg_diag *quiet = dg_diag_open();
    dg_listing folders = { 0 };

    *out = (tables){ 0 };
    list_tables(out, a, form, root, "", NULL);
    if (!out->v.n)
        list_tables(out, a, form, root, "annotations", NULL);
    if (out->v.n == 1)
        out->v.items[0].split = NULL;
    if (!out->v.n && dg_is_folder(root))
        (void)!dg_dir_list(NULL, &folders, a, root, quiet);
    for (int i = 0; i < folders.n; i++)
        list_tables(out, a, form, root, folders.v[i], folders.v[i]);
    dg_diag_close(&quiet);
}

/* A single file that has the ending and not the form: its own error says more than that there is
 * none. */
static void find_stranger(tables *out, dg_arena *a, const dg_marks_table *form, const char *root)
{
    const dg_marks_table any = { .end = form->end };

    find_tables(out, a, &any, root);
    if (out->v.n > 1)
        out->v.n = 0;
}

void dg_marks_table_others(dg_listing *out, dg_arena *a, const dg_marks_table *form,
                           const char *root)
{
    const dg_marks_table any = { .end = form->end };
    tables t;

    find_tables(&t, a, &any, root);
    *out = (dg_listing){ DG_NEW_N(a, t.v.n + 1, const char *), 0 };
    for (int i = 0; i < t.v.n; i++)
        if (!is_of_form(form, dg_path_join(a, root, t.v.items[i].file)))
            out->v[out->n++] = t.v.items[i].file;
}

/* The names of the splits, each once. */
static void name_splits(dg_listing *splits, dg_arena *a, const tables *t)
{
    *splits = (dg_listing){ DG_NEW_N(a, t->v.n + 1, const char *), 0 };
    for (int i = 0; i < t->v.n; i++) {
        const char *split = t->v.items[i].split;

        if (split && (!splits->n || strcmp(splits->v[splits->n - 1], split) != 0))
            splits->v[splits->n++] = split;
    }
}

bool dg_marks_table_splits(dg_listing *splits, dg_arena *a, const dg_marks_table *form,
                           const char *root)
{
    tables t;

    find_tables(&t, a, form, root);
    name_splits(splits, a, &t);
    return t.v.n > 0;
}

/* ---- images ---------------------------------------------------------------------------------- */

dg_marks_entry *dg_marks_add(dg_marks *r, const char *file, const char *image, bool *known)
{
    const char *key = dg_printf(r->arena, "%s\n%s", file, image);
    dg_marks_entry *e = dg_map_get(r->by_name, key);

    *known = e != NULL;
    if (e)
        return e;
    e = DG_NEW(r->arena, dg_marks_entry);
    *e = (dg_marks_entry){ .file = file, .read = true };
    e->marks.file_name = image;
    dg_map_set(r->by_name, key, e);
    DG_PUSH(r->arena, r->entries, e);
    return e;
}

/* Where the image is, relative to root; the first guess, if it is nowhere. */
static const char *find_image(dg_marks *r, const dg_marks_entry *e, const char *split)
{
    const char *folder = dg_path_folder(r->arena, e->file), *name = e->marks.file_name;
    const char *last = dg_path_name(name), *first = NULL;
    const bool below = strcmp(folder, ".") != 0;
    const char *const folders[] = {
        below ? folder : "",
        below ? dg_printf(r->arena, "%s/images", folder) : "images",
        "images",
        split ? dg_printf(r->arena, "images/%s", split) : "images",
        split ? split : "",
        "",
    };

    last = strrchr(last, '\\') ? strrchr(last, '\\') + 1 : last; /* written on Windows */
    for (size_t i = 0; i < 2 * sizeof folders / sizeof *folders; i++) {
        const char *in = folders[i / 2], *path = i % 2 ? last : name;

        if (!*path || (path[0] == '/' && *in))
            continue;
        if (*in)
            path = dg_path_join(r->arena, in, path);
        first = first ? first : path;
        if (dg_exists(path[0] == '/' ? path : dg_marks_path(r, path)))
            return path;
    }
    return first ? first : name;
}

/* Fails, or notes a fault, if another entry has the image: two names can lead to one, by their
 * last part. */
static int take_image(dg_marks *r, dg_map *by_image, dg_marks_entry *e)
{
    const dg_marks_entry *first = dg_map_get(by_image, e->image);
    const dg_where at = { dg_marks_path(r, e->file),
                          e->marks.objects.n ? e->marks.objects.items[0].line : 0, 0, NULL };

    if (!first) {
        dg_map_set(by_image, e->image, e);
        return 0;
    }
    return dg_fault_or_fail(r->faults, r->d, DG_FAULT_IMAGE_TWICE, at, "mark-twice",
                            "%s (in %s) and %s are one image: %s", first->marks.file_name,
                            first->file, e->marks.file_name, e->image);
}

/* Takes the images of the split. */
static int want(dg_marks *r, const char *split)
{
    dg_diag *quiet = dg_diag_open();
    dg_map *by_image = dg_map_new(r->arena);
    int rc = 0;

    for (int i = 0; i < r->entries.n && rc >= 0; i++) {
        dg_marks_entry *e = r->entries.items[i];
        int w, h;

        if (!e->wanted)
            continue;
        e->image = find_image(r, e, split);
        rc = take_image(r, by_image, e);
        if (rc)
            continue;
        if (e->marks.w < 1 || e->marks.h < 1) {
            const char *path = e->image[0] == '/' ? e->image : dg_marks_path(r, e->image);

            e->marks.w = e->marks.h = 0;
            if (dg_image_size(&w, &h, path, quiet) == 0) {
                e->marks.w = w;
                e->marks.h = h;
            }
            dg_diag_clear(quiet);
        }
        DG_PUSH(r->arena, r->wanted, e);
    }
    dg_diag_close(&quiet);
    return rc < 0 ? rc : 0;
}

/* Reads one file. Of an unwanted one only the classes count; errors in it concern only its own
 * split. */
static int read_table(dg_marks *r, const dg_marks_table *form, const table *t, bool wanted)
{
    const char *path = dg_marks_path(r, t->file);
    const int before = r->entries.n;
    dg_faults passed = { .arena = r->arena }, *faults = r->faults;
    dg_diag *quiet = dg_diag_open(), *d = r->d;
    char *text;
    size_t n;
    int rc;

    if (!wanted) {
        r->d = quiet;
        r->faults = &passed;
    }
    rc = dg_file_read(&text, &n, path, MAX_BYTES, r->d);
    if (rc == 0)
        rc = form->parse(r, text, n, t->file, path);
    dg_free(text);
    for (int i = before; i < r->entries.n; i++)
        r->entries.items[i]->wanted = wanted;
    r->d = d;
    r->faults = faults;
    dg_diag_close(&quiet);
    return wanted ? rc : 0;
}

int dg_marks_table_read(dg_coco **out, const dg_marks_table *form, const dg_data_source *from,
                        dg_faults *faults, dg_diag *d)
{
    dg_listing has;
    dg_marks r;
    tables t;
    int rc = 0, n = 0;

    dg_marks_open(&r, from, faults, d);
    r.by_name = dg_map_new(r.arena);
    if (!dg_is_folder(from->root))
        DG_TRY(dg_fail(d, DG_EIO, (dg_where){ .file = from->root }, "data-missing",
                       "there is no such folder"));
    find_tables(&t, r.arena, form, from->root);
    name_splits(&has, r.arena, &t);
    if (!t.v.n)
        find_stranger(&t, r.arena, form, from->root);
    if (!t.v.n)
        DG_TRY(dg_index_no_split(from->root, &has, d,
                                 dg_printf(r.arena, "there is no %s file with marks in it",
                                           form->end)));
    DG_TRY(dg_marks_classes(&r));
    for (int i = 0; i < t.v.n; i++) {
        const char *split = t.v.items[i].split;
        const bool wanted = from->split ? split && strcmp(split, from->split) == 0 : !split;

        n += wanted;
        if (wanted || !r.c->n_classes)
            DG_TRY(read_table(&r, form, &t.v.items[i], wanted));
    }
    if (!n)
        DG_TRY(dg_index_no_split(from->root, &has, d,
                                 from->split
                                     ? dg_printf(r.arena, "there is no split \"%s\"", from->split)
                                     : "it has a file for each split"));
    DG_TRY(want(&r, from->split));
    DG_TRY(dg_marks_index(&r));
out:
    return dg_marks_close(&r, rc, out);
}

int dg_cvat_open(dg_coco **out, const dg_data_source *from, dg_diag *d)
{
    return dg_marks_table_read(out, &dg_cvat_form, from, NULL, d);
}

int dg_csv_open(dg_coco **out, const dg_data_source *from, dg_diag *d)
{
    return dg_marks_table_read(out, &dg_csv_form, from, NULL, d);
}
