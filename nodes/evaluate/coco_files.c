/* coco_files.c: see coco_files.h. */
#include "nodes/evaluate/coco_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dg_evaluation_path(char **path, const char *folder, const char *name, dg_diag *d)
{
    size_t n = strlen(folder) + strlen(name) + 2;

    *path = malloc(n);
    if (!*path)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to write %s", name);
    snprintf(*path, n, "%s/%s", folder, name);
    return 0;
}

int dg_coco_write_results(const char *folder, const dg_dataset *data, const dg_detection *v,
                          const dg_rle *masks, int64_t n, dg_diag *d)
{
    int64_t *ids = malloc(((size_t)data->n_items + 1) * sizeof *ids);
    char *path = NULL;
    int rc;

    DG_TRY(dg_evaluation_path(&path, folder, "detections.json", d));
    if (!ids)
        DG_TRY(
            dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to write detections"));
    for (int i = 0; i < data->n_items; i++) {
        dg_item_info info;

        data->info(data->self, i, &info);
        ids[i] = info.id;
    }
    DG_TRY(dg_results_write_masks(path, v, masks, n, ids, data->classes, d));
out:
    free(ids);
    free(path);
    return rc;
}

int dg_coco_write_names(const char *folder, const dg_dataset *data, const int64_t *seen, dg_diag *d)
{
    char *path = NULL;
    int rc = dg_evaluation_path(&path, folder, "images.txt", d);

    if (rc == 0)
        rc = dg_dataset_write_names(path, data, seen, d);
    free(path);
    return rc;
}
