/* layout.c: tells the form of a data set from the contents of its folder.
 *
 *   a .yaml file with names            YOLO
 *   annotations/X.json, X/_annotations.coco.json, X.json      COCO
 *   .xml files in Annotations/, in the folder, or in folders  VOC
 *   images/ with labels/               YOLO
 *   .json files with shapes                                  LabelMe
 *   annotations.xml, train.xml         CVAT
 *   .csv files                         CSV
 *   images                             plain: no labels
 *
 * COCO files whose names end in train, val or test and have a common prefix (instances_train2017,
 * instances_val2017) form one data set; files with another prefix (captions_train2017) are separate
 * label sets. */
#include "media/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"
#include "media/image.h"
#include "media/marks.h"
#include "media/yolo.h"

const char *dg_form_name(dg_form form)
{
    static const char *const names[] = {
        [DG_FORM_COCO] = "coco",       [DG_FORM_VOC] = "voc",   [DG_FORM_YOLO] = "yolo",
        [DG_FORM_LABELME] = "labelme", [DG_FORM_CVAT] = "cvat", [DG_FORM_CSV] = "csv",
        [DG_FORM_PLAIN] = "plain",
    };

    return names[form];
}

const char *dg_form_title(dg_form form)
{
    static const char *const titles[] = {
        [DG_FORM_COCO] = "COCO",
        [DG_FORM_VOC] = "VOC",
        [DG_FORM_YOLO] = "YOLO",
        [DG_FORM_LABELME] = "LabelMe",
        [DG_FORM_CVAT] = "CVAT",
        [DG_FORM_CSV] = "CSV",
        [DG_FORM_PLAIN] = "images without labels",
    };

    return titles[form];
}

/* ---- splits by name -------------------------------------------------------------------------- */

static bool says_purpose(const char *word)
{
    static const char *const words[] = { "train", "val", "test", "dev" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(word, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* Start of the name's last word if it tells the split's purpose: "instances_train2017" ->
 * "train2017"; else the whole name. */
static const char *purpose(const char *name)
{
    for (const char *p = name + strlen(name); p-- > name;)
        if ((p == name || strchr("_-.", p[-1])) && says_purpose(p))
            return p;
    return name;
}

bool dg_split_is(const dg_split *s, const char *word)
{
    return strncmp(purpose(s->name), word, strlen(word)) == 0;
}

static int rank_of(const dg_split *s)
{
    return dg_split_is(s, "trainval") ? 1
           : dg_split_is(s, "train")  ? 0
           : dg_split_is(s, "val")    ? 2
           : dg_split_is(s, "test")   ? 3
                                      : 4;
}

static int by_rank(const void *p, const void *q)
{
    const dg_split *a = p, *b = q;
    int order = rank_of(a) - rank_of(b);

    if (order == 0) /* "train" before "my_train", which other tools leave beside it */
        order = (purpose(a->name) != a->name) - (purpose(b->name) != b->name);
    return order ? order : strcmp(a->name, b->name);
}

static void add_names(dg_layout *l, const dg_listing *names)
{
    for (int i = 0; i < names->n; i++)
        DG_PUSH(l->arena, l->splits, ((dg_split){ .name = names->v[i], .split = names->v[i] }));
    if (names->n == 0)
        DG_PUSH(l->arena, l->splits, ((dg_split){ .name = "all" }));
}

/* ---- COCO ------------------------------------------------------------------------------------ */

static void add_file(dg_layout *l, const char *folder, const char *name)
{
    const char *stem = dg_path_stem(l->arena, name);
    dg_split s = { .name = stem,
                   .annotations = *folder ? dg_path_join(l->arena, folder, name) : name };

    if (strcmp(folder, "annotations") == 0)
        s.split = stem;
    if (strcmp(stem, "_annotations.coco") == 0)
        s.name = *folder ? folder : "all";
    DG_PUSH(l->arena, l->splits, s);
}

static void add_json(dg_layout *l, const char *folder)
{
    dg_diag *quiet = dg_diag_open();
    dg_listing files = { 0 };
    const char *path = *folder ? dg_path_join(l->arena, l->root, folder) : l->root;

    if (dg_is_folder(path))
        (void)!dg_dir_list(&files, NULL, l->arena, path, quiet);
    for (int i = 0; i < files.n; i++)
        if (dg_path_ends(files.v[i], ".json"))
            add_file(l, folder, files.v[i]);
    dg_diag_close(&quiet);
}

static bool find_coco(dg_layout *l)
{
    dg_diag *quiet = dg_diag_open();
    dg_listing folders = { 0 };

    add_json(l, "annotations");
    (void)!dg_dir_list(NULL, &folders, l->arena, l->root, quiet);
    for (int i = 0, before = l->splits.n; before == 0 && i < folders.n; i++)
        if (dg_exists(dg_printf(l->arena, "%s/%s/_annotations.coco.json", l->root, folders.v[i])))
            add_file(l, folders.v[i], "_annotations.coco.json");
    if (l->splits.n == 0)
        add_json(l, "");
    dg_diag_close(&quiet);
    return l->splits.n > 0;
}

static size_t prefix_of(const dg_split *s)
{
    const char *p = purpose(s->name);

    return says_purpose(p) ? (size_t)(p - s->name) : strlen(p);
}

/* Keeps one label set of several: the one without a prefix, else "instances", else the first. */
static void choose_family(dg_layout *l)
{
    const dg_split *first = NULL;
    size_t n = 0;
    int kept = 0;

    for (int pass = 0; pass < 3 && !first; pass++)
        for (int i = 0; i < l->splits.n && !first; i++) {
            n = prefix_of(&l->splits.items[i]);
            if (pass == 2 || (pass == 0 && n == 0) ||
                (pass == 1 && strncmp(l->splits.items[i].name, "instances", 9) == 0))
                first = &l->splits.items[i];
        }
    const char *prefix = first ? dg_strndup(l->arena, first->name, n) : "";

    for (int i = 0; i < l->splits.n; i++) {
        const dg_split s = l->splits.items[i];

        if (prefix_of(&s) == n && strncmp(s.name, prefix, n) == 0)
            l->splits.items[kept++] = s;
        else
            DG_PUSH(l->arena, l->others, s.annotations);
    }
    l->splits.n = kept;
    for (int i = 0; i < kept; i++)
        if (strcmp(prefix, "instances_") == 0)
            l->splits.items[i].name += n;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool is_wanted(const char *wanted, const char *name)
{
    const size_t n = strlen(name);

    for (const char *p = wanted; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
        if (strcspn(p, ",") == n && strncmp(p, name, n) == 0)
            return true;
    return false;
}

static int count_wanted(const dg_layout *l, const char *wanted)
{
    int n = 0;

    for (int i = 0; i < l->splits.n; i++)
        n += is_wanted(wanted, l->splits.items[i].name);
    return n;
}

/* Keeps the wanted splits, looking in the chosen family first, then in all; every word must
 * match. */
static int choose_wanted(dg_layout *l, const char *wanted, dg_diag *d)
{
    dg_layout all = *l;
    dg_listing has;
    int kept = 0, words = 1;

    for (const char *p = wanted; *p; p++)
        words += *p == ',';
    all.splits.items =
        dg_memdup(l->arena, l->splits.items, (size_t)l->splits.n * sizeof *l->splits.items);
    if (l->form == DG_FORM_COCO)
        choose_family(l);
    if (count_wanted(l, wanted) != words)
        *l = all;
    has = (dg_listing){ DG_NEW_N(l->arena, l->splits.n + 1, const char *), 0 };
    for (int i = 0; i < l->splits.n; i++)
        has.v[has.n++] = l->splits.items[i].name;
    for (int i = 0; i < l->splits.n; i++)
        if (is_wanted(wanted, l->splits.items[i].name))
            l->splits.items[kept++] = l->splits.items[i];
    if (kept != words)
        return dg_index_no_split(l->root, &has, d,
                                 dg_printf(l->arena, "there are no such splits: %s", wanted));
    l->splits.n = kept;
    return 0;
}

/* Drops trainval where train or val exists: it would leak one into the other. */
static void drop_unions(dg_layout *l)
{
    bool train = false, val = false;
    int kept = 0;

    for (int i = 0; i < l->splits.n; i++) {
        train |= strcmp(l->splits.items[i].name, "train") == 0;
        val |= strcmp(l->splits.items[i].name, "val") == 0;
    }
    for (int i = 0; i < l->splits.n; i++)
        if (!(train && val && strcmp(l->splits.items[i].name, "trainval") == 0))
            l->splits.items[kept++] = l->splits.items[i];
    l->splits.n = kept;
}

static bool has_images(dg_layout *l, dg_diag *d)
{
    dg_listing files = { 0 };

    (void)!dg_dir_list_deep(&files, l->arena, l->root, d);
    for (int i = 0; i < files.n; i++)
        if (dg_image_named(files.v[i]))
            return true;
    return false;
}

static int no_form(const dg_layout *l, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, (dg_where){ .file = l->root }, "data-form",
            "no data set is found in this folder");
    dg_help(d, "looked for: " DG_FORM_PLACES ", images");
    return -DG_EINPUT;
}

/* Forms are tried in this order: a .yaml file is sure, and any .json or .xml file looks like COCO's
 * or VOC's. */
static int find_in_folder(dg_layout *l, dg_diag *d)
{
    dg_listing names = { 0 };
    const char *yaml = dg_yolo_file(l->arena, l->root);

    if (yaml && dg_yolo_splits(&names, l->arena, l->root))
        l->form = DG_FORM_YOLO; /* NOLINT(bugprone-branch-clone): the order matters */
    else if (dg_marks_files_splits(&names, l->arena, &dg_labelme_form, l->root))
        l->form = DG_FORM_LABELME;
    else if (find_coco(l))
        l->form = DG_FORM_COCO;
    else if (dg_marks_table_splits(&names, l->arena, &dg_cvat_form, l->root))
        l->form = DG_FORM_CVAT;
    else if (dg_marks_files_splits(&names, l->arena, &dg_voc_form, l->root))
        l->form = DG_FORM_VOC;
    else if (dg_yolo_splits(&names, l->arena, l->root))
        l->form = DG_FORM_YOLO;
    else if (dg_marks_table_splits(&names, l->arena, &dg_csv_form, l->root))
        l->form = DG_FORM_CSV;
    else if (has_images(l, d))
        l->form = DG_FORM_PLAIN;
    else
        return no_form(l, d);
    if (l->form != DG_FORM_COCO)
        add_names(l, &names);
    return 0;
}

static bool is_packed(const char *path)
{
    static const char *const ends[] = { ".zip", ".tar", ".gz", ".tgz", ".xz",
                                        ".bz2", ".zst", ".7z", ".rar" };
    bool is = false;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        is |= dg_path_ends(path, ends[i]);
    return is;
}

int dg_layout_find(dg_layout *out, dg_arena *a, const char *path, const char *wanted, dg_diag *d)
{
    dg_layout l = { .arena = a, .root = path };
    size_t n = strlen(path);
    int rc = 0;

    while (n > 1 && path[n - 1] == '/')
        n--;
    l.root = path = dg_strndup(a, path, n);
    if (!dg_exists(path))
        return dg_fail(d, DG_EIO, (dg_where){ .file = path }, "data-missing",
                       "there is no such folder or file");
    if (dg_is_folder(path)) {
        rc = find_in_folder(&l, d);
    } else if (dg_path_ends(path, ".json")) {
        const char *folder = dg_path_folder(a, path);
        const bool beside = strcmp(dg_path_name(folder), "annotations") == 0;

        l.form = DG_FORM_COCO;
        l.root = beside ? dg_path_folder(a, folder) : folder;
        add_file(&l, beside ? "annotations" : "", dg_path_name(path));
    } else if (dg_yolo_file(a, path)) {
        dg_listing names = { 0 };

        l.form = DG_FORM_YOLO;
        (void)dg_yolo_splits(&names, a, path);
        add_names(&l, &names);
    } else {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "data-form",
                     "expected a folder, an annotation file (.json) or a .yaml file");
        dg_help(d, is_packed(path) ? "unpack it, and name the folder"
                                   : "name the folder in which images and labels are");
    }
    if (rc == 0 && wanted)
        rc = choose_wanted(&l, wanted, d);
    else if (rc == 0 && l.form == DG_FORM_COCO)
        choose_family(&l);
    if (rc == 0 && !wanted)
        drop_unions(&l);
    if (rc == 0 && l.splits.n)
        qsort(l.splits.items, (size_t)l.splits.n, sizeof *l.splits.items, by_rank);
    *out = l;
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* How many of the first, middle and last image exist in a folder below root. */
static int count_images(const dg_layout *l, const char *folder, const dg_coco *c)
{
    int found = 0;

    for (int k = 0; k < 3; k++) {
        const char *name = c->images[(int64_t)(c->n_images - 1) * k / 2].file_name;

        found += *name && dg_exists(dg_printf(l->arena, "%s/%s/%s", l->root, folder, name));
    }
    return found;
}

/* The folder below root that holds the images of a COCO file: guessed from its name, else any
 * folder that has them. */
static const char *images_of(dg_layout *l, const dg_split *s, const dg_coco *c)
{
    const char *const last = purpose(s->name), *beside = dg_path_folder(l->arena, s->annotations);
    const char *const tries[] = {
        "images",
        last,
        s->name,
        dg_printf(l->arena, "images/%s", last),
        dg_printf(l->arena, "images/%s", s->name),
        ".",
        beside,
    };
    const int n = sizeof tries / sizeof *tries;
    dg_listing folders = { 0 };
    dg_diag *quiet = dg_diag_open();
    const char *best = "images";
    int most = 0;

    (void)!dg_dir_list(NULL, &folders, l->arena, l->root, quiet);
    dg_diag_close(&quiet);
    for (int i = 0; i < n + (most ? 0 : folders.n); i++) {
        const char *folder = i < n ? tries[i] : folders.v[i - n];
        const int found = count_images(l, folder, c);

        if (found > most) {
            most = found;
            best = folder;
        }
    }
    return best;
}

/* Opens images without labels. */
static int open_plain(dg_coco **out, const dg_layout *l, dg_diag *d)
{
    dg_coco *c = dg_index_open(l->root);
    dg_diag *quiet = dg_diag_open();
    dg_listing files;
    int rc = dg_dir_list_deep(&files, l->arena, l->root, d);

    c->folder = c->path;
    c->images = DG_NEW_N(c->arena, files.n, dg_coco_image);
    for (int i = 0; rc == 0 && i < files.n; i++) {
        dg_coco_image *im = &c->images[c->n_images];

        if (!dg_image_named(files.v[i]))
            continue;
        *im = (dg_coco_image){
            .id = ++c->n_images, .file_name = dg_strdup(c->arena, files.v[i]), .w = 1, .h = 1
        };
        (void)!dg_image_size(&im->w, &im->h, dg_path_join(l->arena, l->root, files.v[i]), quiet);
        dg_diag_clear(quiet);
    }
    dg_diag_close(&quiet);
    if (rc == 0)
        rc = dg_index_join(c, NULL, DG_NEW_N(c->arena, c->n_images, int), d);
    if (rc < 0)
        dg_coco_close(&c);
    *out = c;
    return rc;
}

int dg_layout_open(dg_coco **out, dg_layout *l, int i, dg_faults *faults, dg_diag *d)
{
    dg_split *s = &l->splits.items[i];
    const dg_data_source from = {
        .size = sizeof from, .root = l->root, .split = s->split, .replace = l->replace
    };
    const char *file;
    int rc;

    switch (l->form) {
    case DG_FORM_VOC:
        return dg_marks_files_read(out, &dg_voc_form, &from, faults, d);
    case DG_FORM_LABELME:
        return dg_marks_files_read(out, &dg_labelme_form, &from, faults, d);
    case DG_FORM_CVAT:
        return dg_marks_table_read(out, &dg_cvat_form, &from, faults, d);
    case DG_FORM_CSV:
        return dg_marks_table_read(out, &dg_csv_form, &from, faults, d);
    case DG_FORM_YOLO:
        return dg_yolo_read(out, &from, faults, d);
    case DG_FORM_PLAIN:
        return open_plain(out, l, d);
    case DG_FORM_COCO:
        break;
    }
    file = dg_path_join(l->arena, l->root, s->annotations);
    rc = faults ? dg_coco_survey(out, file, faults, d) : dg_coco_open_unsized(out, file, d);
    if (rc < 0)
        return rc;
    s->images = images_of(l, s, *out);
    (*out)->folder = strcmp(s->images, ".") == 0 ? dg_strdup((*out)->arena, l->root)
                                                 : dg_path_join((*out)->arena, l->root, s->images);
    rc = dg_coco_take_sizes(*out, (*out)->folder, l->replace, faults, d);
    if (rc < 0)
        dg_coco_close(out);
    return rc;
}

int dg_layout_open_masks(dg_coco **out, const dg_layout *l, int i, dg_diag *d)
{
    const dg_split *s = &l->splits.items[i];
    const dg_data_source from = { .size = sizeof from,
                                  .root = l->root,
                                  .split = s->split,
                                  .replace = l->replace,
                                  .masks = true };
    const char *folder;

    if (l->form == DG_FORM_YOLO)
        return dg_yolo_read(out, &from, NULL, d);
    if (l->form != DG_FORM_COCO)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = l->root }, "layout-masks",
                       "data sets of this form have boxes and no masks");
    folder = strcmp(s->images, ".") == 0 ? l->root : dg_path_join(l->arena, l->root, s->images);
    return dg_coco_open_in(out, dg_path_join(l->arena, l->root, s->annotations), folder, l->replace,
                           true, d);
}
