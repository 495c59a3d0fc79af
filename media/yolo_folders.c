/* yolo_folders.c: YOLO data sets without a .yaml file: where images and labels are. */
#include "media/yolo.h"

#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "media/image.h"

const char *dg_yolo_labels_of(dg_arena *a, const char *path)
{
    const char *stem = dg_path_stem(a, path), *at = NULL;

    for (const char *p = stem; (p = strstr(p, "/images/")); p++)
        at = p;
    return at ? dg_printf(a, "%.*s/labels/%s.txt", (int)(at - stem), stem, at + strlen("/images/"))
              : dg_printf(a, "%s.txt", stem);
}

bool dg_yolo_both(dg_arena *a, const char *folder, const char *images, const char *labels)
{
    return dg_is_folder(dg_path_join(a, folder, images)) &&
           dg_is_folder(dg_path_join(a, folder, labels));
}

bool dg_yolo_beside(dg_arena *a, const char *folder)
{
    dg_diag *quiet = dg_diag_open();
    dg_listing files = { 0 };
    bool is = false;

    if (dg_exists(dg_path_join(a, folder, "classes.txt")))
        (void)!dg_dir_list(&files, NULL, a, folder, quiet);
    for (int i = 0; i < files.n && !is; i++)
        is = dg_image_named(files.v[i]) &&
             dg_exists(dg_yolo_labels_of(a, dg_path_join(a, folder, files.v[i])));
    dg_diag_close(&quiet);
    return is;
}

void dg_yolo_folders(dg_listing *out, dg_arena *a, const char *root)
{
    dg_diag *quiet = dg_diag_open();
    bool outside = dg_yolo_both(a, root, "images", "labels");
    int n = 0;

    *out = (dg_listing){ 0 };
    if (dg_yolo_beside(a, root))
        goto out;
    (void)!dg_dir_list(NULL, out, a, outside ? dg_path_join(a, root, "labels") : root, quiet);
    for (int i = 0; i < out->n; i++)
        if (outside ? dg_is_folder(dg_printf(a, "%s/images/%s", root, out->v[i]))
                    : dg_yolo_both(a, dg_path_join(a, root, out->v[i]), "images", "labels") ||
                          dg_yolo_beside(a, dg_path_join(a, root, out->v[i])))
            out->v[n++] = out->v[i];
    out->n = n;
out:
    dg_diag_close(&quiet);
}
