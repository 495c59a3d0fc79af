/* layout.h: finds out the form of a data set on disk and its splits. */
#ifndef DG_MEDIA_LAYOUT_H
#define DG_MEDIA_LAYOUT_H

#include "media/index.h"

typedef enum dg_form {
    DG_FORM_COCO,
    DG_FORM_VOC,
    DG_FORM_YOLO,
    DG_FORM_LABELME,
    DG_FORM_CVAT,
    DG_FORM_CSV,
    DG_FORM_PLAIN
} dg_form;
/* Those with labels, and where dg_layout_find looks for them, for messages. */
#define DG_FORM_TITLES "COCO, VOC, YOLO, LabelMe, CVAT or CSV"
#define DG_FORM_PLACES                                                                         \
    "annotations/*.json (COCO), Annotations/*.xml or .xml files beside images (VOC), a .yaml " \
    "file with `names`, images/ with labels/, or .txt files beside images and classes.txt "    \
    "(YOLO), .json files with `shapes` (LabelMe), annotations.xml (CVAT), .csv"

const char *dg_form_name(dg_form form);  /* lower case: "coco" */
const char *dg_form_title(dg_form form); /* for people: "COCO" */

typedef struct dg_split {
    const char *name;        /* "train"; "all" if the data set has no splits */
    const char *split;       /* the loader's `split` value; NULL: none */
    const char *annotations; /* COCO: annotation file, relative to root */
    const char *images; /* COCO: image folder, relative to root ("." for root); set on opening */
} dg_split;

typedef struct dg_layout {
    dg_form form;
    const char *root;        /* a folder; YOLO: or the .yaml file that was named */
    DG_VEC(dg_split) splits; /* training first, then validation, then test */
    /* annotation files of other label sets, relative to root, that were skipped */
    DG_VEC(const char *) others;
    bool replace; /* open splits as loaders do with on_error="replace" */
    dg_arena *arena;
} dg_layout;

/* Finds the layout of path: a folder, a COCO annotation file, or a .yaml file. wanted:
 * comma-separated splits; NULL: those that belong together. Fails with "data-missing", "data-form",
 * "data-split". */
int dg_layout_find(dg_layout *out, dg_arena *a, const char *path, const char *wanted, dg_diag *d)
    DG_MUST_USE;

/* Opens split i and sets its folder (dg_coco_folder). With faults, errors that would stop a loader
 * are noted instead. */
int dg_layout_open(dg_coco **out, dg_layout *l, int i, dg_faults *faults, dg_diag *d) DG_MUST_USE;

/* Opens split i, which was opened before, as a loader does with masks="true": "layout-masks" if the
 * form has none, "mask-missing" if an object has none. */
int dg_layout_open_masks(dg_coco **out, const dg_layout *l, int i, dg_diag *d) DG_MUST_USE;

/* True if the split's name begins with `word`, its purpose. */
bool dg_split_is(const dg_split *s, const char *word);

#endif
