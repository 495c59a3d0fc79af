/* coco_files.h: what an evaluation leaves in its folder for other programs. */
#ifndef DG_NODES_EVALUATE_COCO_FILES_H
#define DG_NODES_EVALUATE_COCO_FILES_H

#include <detrgraph/node.h>

/* A file's path in that folder; free() it. Fails with "out-of-memory". */
int dg_evaluation_path(char **path, const char *folder, const char *name, dg_diag *d) DG_MUST_USE;

/* detections.json: the n detections in COCO's result form, with the data set's ids. masks: of v, or
 * NULL. */
int dg_coco_write_results(const char *folder, const dg_dataset *data, const dg_detection *v,
                          const dg_rle *masks, int64_t n, dg_diag *d) DG_MUST_USE;
/* images.txt: the names of the images that were scored (seen[item] is not 0), one a line; those of
 * a held-out part stand nowhere else. */
int dg_coco_write_names(const char *folder, const dg_dataset *data, const int64_t *seen, dg_diag *d)
    DG_MUST_USE;

#endif
