/* init_refuse.c: data that `init` writes no pipeline for, because a run would stop at them or learn
 * nonsense. */
#include "cli/init_refuse.h"

#include <string.h>

#include "base/diag.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/map.h"
#include "media/image.h"

/* Refuses names that attributes cannot contain: not UTF-8, or with control characters that XML
 * excludes. */
int dg_init_name(const char *name, dg_diag *d)
{
    bool bad = name && !dg_is_utf8(name);

    for (const char *p = name; p && *p && !bad; p++)
        bad = (unsigned char)*p < ' ' && !strchr("\t\n\r", *p);
    return bad ? dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "init-name",
                         "a pipeline cannot hold this name, for it has control characters or is "
                         "not UTF-8: rename it")
               : 0;
}

int dg_init_split(dg_survey *s, const dg_split *split, dg_diag *d)
{
    const char *const names[] = { split->split, split->annotations, split->images };
    dg_coco *c = NULL;
    int rc = 0;

    for (int i = 0; i < 3 && rc == 0; i++)
        rc = dg_init_name(names[i], d);
    if (rc < 0)
        return rc;
    rc = dg_layout_open(&c, &s->layout, (int)(split - s->layout.splits.items), NULL, d);
    if (rc < 0)
        dg_help(d, "detrgraph data check names all that is wrong with the data set");
    dg_coco_close(&c);
    return rc;
}

/* Refuses splits with different classes: a run scores one by what it learned from the other. */
int dg_init_classes(const dg_coco *a, const dg_coco *b, dg_diag *d)
{
    for (int k = 0; k < a->n_classes || k < b->n_classes; k++) {
        const char *x = k < a->n_classes ? a->classes[k].name : "none",
                   *y = k < b->n_classes ? b->classes[k].name : "none";

        if (strcmp(x, y) == 0)
            continue;
        dg_fail(d, DG_EINPUT, (dg_where){ .file = b->path }, "init-classes",
                "class %d is %s, but %s in %s", k, y, x, a->path);
        dg_help(d, "list the same classes in both, or choose other splits with --split");
        return -DG_EINPUT;
    }
    return 0;
}

/* Refuses data without any image; usually they are elsewhere than the annotations say. */
int dg_init_images(const dg_survey *s, dg_diag *d)
{
    const dg_faults *f = &s->faults;
    const int kind =
        f->of[DG_FAULT_IMAGE_MISSING].n ? DG_FAULT_IMAGE_MISSING : DG_FAULT_IMAGE_UNREADABLE;

    if (s->n_images == 0 ||
        f->of[DG_FAULT_IMAGE_MISSING].n + f->of[DG_FAULT_IMAGE_UNREADABLE].n < s->n_images)
        return 0;
    dg_fail(d, DG_EINPUT, (dg_where){ .file = f->of[kind].kept.items[0].at.file }, "init-images",
            "%s; nor can any other of the %lld images be read", f->of[kind].kept.items[0].text,
            (long long)s->n_images);
    if (s->layout.form == DG_FORM_COCO)
        dg_help(d, "the annotations name their files below a folder: images/, one of the split's "
                   "name, or any other beside "
                   "annotations/; put or link it there");
    return -DG_EINPUT;
}

/* Refuses what a run would learn nothing, or nonsense, from. */
int dg_init_boxes(const dg_survey *s, dg_diag *d)
{
    static const dg_fault_kind kinds[] = { DG_FAULT_NO_OBJECTS, DG_FAULT_BOX_NORMALIZED,
                                           DG_FAULT_BOX_FORM };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const dg_fault_row *row = dg_fault_row_of(kinds[i]);
        const dg_fault *fault;

        if (s->faults.of[kinds[i]].n == 0)
            continue;
        fault = &s->faults.of[kinds[i]].kept.items[0];
        dg_fail(d, DG_EINPUT, fault->at, row->id, "%s", fault->text);
        dg_help(d, "%s", row->help);
        return -DG_EINPUT;
    }
    return 0;
}

/* Files by their endings: how many, and one of them. NULL: there are images only. */
static const char *others_of(const dg_listing *files, dg_arena *a)
{
    enum { KINDS = 4 };
    const char *one[KINDS], *text = NULL;
    int n[KINDS], kinds = 0;

    for (int i = 0; i < files->n; i++) {
        const char *ending = strrchr(dg_path_name(files->v[i]), '.');
        int k = 0;

        if (!ending || dg_image_named(files->v[i]))
            continue;
        while (k < kinds && !dg_path_ends(one[k], ending))
            k++;
        if (k == KINDS)
            continue;
        if (k == kinds) {
            one[kinds++] = files->v[i];
            n[k] = 0;
        }
        n[k]++;
    }
    for (int k = 0; k < kinds; k++)
        text = dg_printf(a, "%s%s%d such as %s", text ? text : "", text ? ", " : "", n[k], one[k]);
    return text ? dg_printf(a, "besides images there are other files: %s", text) : NULL;
}

/* What in the folder may be meant for labels, and what to do about it; NULL: nothing is. */
static const char *seen_of(const char *root, dg_arena *a)
{
    dg_diag *ignored = dg_diag_open();
    dg_map *images = dg_map_new(a);
    dg_listing files = { 0 };
    int texts = 0;
    const char *csv = NULL;

    (void)!dg_dir_list_deep(&files, a, root, ignored);
    for (int i = 0; i < files.n; i++)
        if (dg_image_named(files.v[i]))
            dg_map_set(images, dg_path_stem(a, files.v[i]), images);
    for (int i = 0; i < files.n; i++) {
        texts +=
            dg_path_ends(files.v[i], ".txt") && dg_map_has(images, dg_path_stem(a, files.v[i]));
        csv = !csv && dg_path_ends(files.v[i], ".csv") ? files.v[i] : csv;
    }
    dg_diag_close(&ignored);
    if (texts)
        return dg_printf(a,
                         "beside images stand .txt files (%d), as labelImg writes YOLO: write the "
                         "names of the classes into classes.txt beside them, a line each",
                         texts);
    if (csv)
        return dg_printf(a,
                         "%s is no table of boxes that can be read: its first line names the "
                         "columns, as in filename,class,xmin,ymin,xmax,ymax",
                         csv);
    return others_of(&files, a);
}

static void help_plain(const char *seen, dg_diag *d)
{
    if (seen)
        dg_help(d, "%s", seen);
    dg_help(d, "name the folder that holds images and labels; where labels are looked "
               "for: " DG_FORM_PLACES);
}

int dg_init_plain(const dg_survey *s, dg_diag *d)
{
    dg_arena *a = dg_arena_open();

    dg_fail(d, DG_EINPUT, (dg_where){ .file = s->layout.root }, "init-plain",
            "these images have no labels: nothing can be learned from them");
    help_plain(seen_of(s->layout.root, a), d);
    dg_arena_close(&a);
    return -DG_EINPUT;
}

void dg_warn_plain(const dg_survey *s, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const char *seen = seen_of(s->layout.root, a);

    if (seen) {
        dg_warn(d, (dg_where){ .file = s->layout.root }, "no-labels",
                "no labels are found for these images");
        help_plain(seen, d);
    }
    dg_arena_close(&a);
}

bool dg_init_broken(const dg_survey *s)
{
    return s->faults.of[DG_FAULT_IMAGE_MISSING].n || s->faults.of[DG_FAULT_IMAGE_UNREADABLE].n ||
           s->faults.of[DG_FAULT_IMAGE_SIZE].n || s->faults.of[DG_FAULT_IMAGE_CUT].n;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static int open_masks(const dg_survey *s, const dg_split *split, dg_diag *d)
{
    dg_coco *c = NULL;
    int rc = dg_layout_open_masks(&c, &s->layout, (int)(split - s->layout.splits.items), d);

    dg_coco_close(&c);
    return rc;
}

int dg_init_masks(const dg_survey *s, const dg_split *split, dg_diag *d)
{
    int rc = open_masks(s, split, d);

    if (rc < 0)
        dg_help(d, "a model without masks, as --model rfdetr_nano, takes these data");
    return rc;
}

bool dg_init_has_masks(const dg_survey *s, const dg_split *split)
{
    dg_diag *quiet = dg_diag_open();
    bool has = open_masks(s, split, quiet) == 0;

    dg_diag_close(&quiet);
    return has;
}
