/* layout.h: what form a data set on disk has, and which splits it has. */
#ifndef DG_MEDIA_LAYOUT_H
#define DG_MEDIA_LAYOUT_H

#include "media/index.h"

typedef enum dg_form { DG_FORM_COCO, DG_FORM_VOC, DG_FORM_YOLO, DG_FORM_PLAIN } dg_form;
const char *dg_form_name(dg_form form); /* "coco" */

typedef struct dg_split {
    const char *name;        /* "train"; "all" where the set is one */
    const char *split;       /* as loaders take it; NULL: none */
    const char *annotations; /* COCO: the file, below root */
    const char *images;      /* COCO: the folder, below root, "." for root; known once it was opened */
} dg_split;

typedef struct dg_layout {
    dg_form     form;
    const char *root; /* a folder; YOLO: or the .yaml file that was named */
    DG_VEC(dg_split) splits; /* training first, then validation, then test */
    DG_VEC(const char *) others; /* annotation files of other sets of labels, below root, that were passed over */
    bool      replace; /* splits open as loaders do with on_error="replace" */
    dg_arena *arena;
} dg_layout;

/* path: a folder, an annotation file in COCO form, or a .yaml file. wanted: splits parted by commas; NULL: those that
 * belong together. Fails with "data-missing", "data-form", "data-split". */
int dg_layout_find(dg_layout *out, dg_arena *a, const char *path, const char *wanted, dg_diag *d) DG_MUST_USE;

/* Opens split i; with faults it goes on where a loader would end. dg_coco_folder is known then. */
int dg_layout_open(dg_coco **out, dg_layout *l, int i, dg_faults *faults, dg_diag *d) DG_MUST_USE;

/* Is this what the split is for? By the beginning of its name. */
bool dg_split_is(const dg_split *s, const char *word);

#endif
