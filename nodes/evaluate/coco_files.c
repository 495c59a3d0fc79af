/* coco_files.c: see coco_files.h. */
#include "nodes/evaluate/coco_files.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"

int dg_coco_write_results(const char *folder, const dg_dataset *data, const dg_detection *v,
                          const dg_rle *masks, int64_t n, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int64_t *ids = dg_try_alloc(((size_t)data->n_items + 1) * sizeof *ids);
    int rc = 0;

    if (!ids)
        rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to write detections");
    for (int i = 0; ids && i < data->n_items; i++) {
        dg_item_info info;

        data->info(data->self, i, &info);
        ids[i] = info.id;
    }
    if (rc == 0)
        rc = dg_results_write_masks(dg_path_join(a, folder, "detections.json"), v, masks, n, ids,
                                    data->classes, d);
    dg_free(ids);
    dg_arena_close(&a);
    return rc;
}

int dg_coco_write_names(const char *folder, const dg_dataset *data, const int64_t *seen, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_str text = { 0 };
    int rc;

    for (int i = 0; i < data->n_items; i++) {
        dg_item_info info;

        data->info(data->self, i, &info);
        if (seen[i])
            dg_str_fmt(&text, "%s\n", info.name ? info.name : "");
    }
    rc = dg_file_write(dg_path_join(a, folder, "images.txt"), text.s ? text.s : "", text.n, d);
    dg_str_free(&text);
    dg_arena_close(&a);
    return rc;
}
