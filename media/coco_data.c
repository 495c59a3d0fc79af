/* coco_data.c: a COCO index as training data: which boxes are trained on, the report, and samples.
 *
 * Boxes follow the reference's rule: no crowds; [x, y, w, h] to corners; corners cut to the image;
 * kept where x2 > x1 and y2 > y1. */
#include "media/coco.h"

#include <string.h>

#include "base/file.h"
#include "media/image.h"

static double within(double v, double hi)
{
    return v < 0.0 ? 0.0 : v > hi ? hi : v;
}

bool dg_coco_box(dg_box *out, int *fault, const dg_coco_annotation *x, const dg_coco_image *im)
{
    const double x2 = x->x + x->w, y2 = x->y + x->h;

    *fault = -1;
    *out =
        (dg_box){ within(x->x, im->w), within(x->y, im->h), within(x2, im->w), within(y2, im->h) };
    if (out->x2 > out->x1 && out->y2 > out->y1) {
        if (x->x < -1.0 || x->y < -1.0 || x2 > im->w + 1.0 || y2 > im->h + 1.0)
            *fault = DG_BOX_CUT;
        return true;
    }
    *fault = x2 > x->x && y2 > x->y ? DG_BOX_OUTSIDE : DG_BOX_EMPTY;
    return false;
}

int dg_coco_objects(dg_object *out, const dg_coco *c, int i)
{
    const dg_coco_image *im = dg_coco_image_at(c, i);
    int n = 0, fault;

    for (int k = 0; k < im->n; k++) {
        const dg_coco_annotation *x = dg_coco_annotation_at(c, im->first + k);
        dg_box box;

        if (!x->crowd && dg_coco_box(&box, &fault, x, im))
            out[n++] = (dg_object){ .box = box, .label = x->label, .area = x->area };
    }
    return n;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Returns 1 if the annotation is trained on. */
static int count_box(dg_data_report *r, int64_t *per_class, const dg_coco *c, int64_t k)
{
    const dg_coco_annotation *x = dg_coco_annotation_at(c, k);
    dg_box box;
    int fault, kept = 0;

    if (x->crowd) {
        r->n_crowd++;
        return 0;
    }
    if (dg_coco_box(&box, &fault, x, dg_coco_image_at(c, x->image))) {
        per_class[x->label]++;
        r->n_objects++;
        kept = 1;
    }
    r->n_degenerate += fault == DG_BOX_EMPTY;
    r->n_outside += fault == DG_BOX_OUTSIDE;
    r->n_cut += fault == DG_BOX_CUT;
    if (fault >= 0 && r->n_named < DG_REPORT_NAMED)
        r->named[r->n_named++] = (dg_bad_box){ (dg_box_fault)fault, k };
    return kept;
}

void dg_coco_count(dg_data_report *r, int64_t *per_class, const dg_coco *c)
{
    *r = (dg_data_report){ .size = sizeof *r,
                           .n_images = dg_coco_n_images(c),
                           .n_classes = dg_coco_n_classes(c),
                           .per_class = per_class };
    for (int i = 0; i < r->n_images; i++) {
        const dg_coco_image *im = dg_coco_image_at(c, i);
        int kept = 0;

        for (int k = 0; k < im->n; k++)
            kept += count_box(r, per_class, c, im->first + k);
        r->n_empty += kept == 0;
        if (kept > r->most_objects) {
            r->most_objects = kept;
            r->most_objects_image = i;
        }
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

int dg_coco_turn(int *orientation, const dg_image_header *h, const dg_coco_image *im,
                 const char *path, dg_diag *d)
{
    const bool swap = h->orientation >= 5;

    *orientation = h->orientation;
    if ((swap ? h->h : h->w) == im->w && (swap ? h->w : h->h) == im->h)
        return 0;
    *orientation = 1;
    if (h->w == im->w && h->h == im->h)
        return 0;
    return dg_fail(d, DG_EINPUT, (dg_where){ path, 0, 0, NULL }, "image-differs",
                   "the file is %d x %d pixels, the annotations say %d x %d (image id %lld)",
                   swap ? h->h : h->w, swap ? h->w : h->h, im->w, im->h, (long long)im->id);
}

static char *join(dg_scratch *s, const char *folder, const char *name)
{
    const bool alone = name[0] == '/' || !folder || !*folder;
    const size_t k = alone ? 0 : strlen(folder), n = strlen(name);
    char *path = dg_scratch_alloc(s, k + n + 2);

    if (!path)
        return NULL;
    if (!alone) {
        memcpy(path, folder, k);
        path[k] = '/';
    }
    memcpy(path + k + !alone, name, n + 1);
    return path;
}

static int no_memory_for_sample(const dg_coco_image *im, dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, (dg_where){ im->file_name, 0, 0, NULL }, "image-memory",
                   "no memory for its sample");
}

int dg_coco_sample(dg_sample *out, dg_scratch *s, const dg_coco *c, int i, const char *folder,
                   dg_diag *d)
{
    const dg_coco_image *im = dg_coco_image_at(c, i);
    char *path = join(s, folder, im->file_name), *bytes = NULL;
    dg_object *objects = dg_scratch_alloc(s, sizeof(dg_object) * (size_t)im->n);
    dg_image_header header;
    dg_image image;
    size_t n = 0;
    int rc, orientation;

    if (!path || !objects)
        return no_memory_for_sample(im, d);
    DG_TRY(dg_file_read(&bytes, &n, path, DG_IMAGE_MAX_PIXELS, d));
    DG_TRY(dg_image_header_decode(&header, bytes, n, path, d));
    DG_TRY(dg_coco_turn(&orientation, &header, im, path, d));
    DG_TRY(dg_image_decode_as(&image, s, bytes, n, path, (dg_decode){ .stored = true }, d));
    DG_TRY(dg_image_turn(&image, s, orientation, d));
    *out = (dg_sample){
        .size = sizeof *out,
        .item = i,
        .image_id = im->id,
        .path = path,
        .orig_w = im->w,
        .orig_h = im->h,
        .image = image,
        .objects = objects,
        .n_objects = dg_coco_objects(objects, c, i),
        .scratch = s,
    };
    DG_TRY(dg_coco_sample_masks(out, c, i, d));
out:
    dg_free(bytes);
    return rc;
}

int dg_coco_probe(const dg_coco *c, int i, const char *folder, dg_diag *d)
{
    const dg_coco_image *im = dg_coco_image_at(c, i);
    dg_arena *a = dg_arena_open();
    const char *path = folder && *folder ? dg_path_join(a, folder, im->file_name) : im->file_name;
    dg_image_header header;
    int rc, orientation;

    DG_TRY(dg_image_header_read(&header, path, d));
    DG_TRY(dg_coco_turn(&orientation, &header, im, path, d));
out:
    dg_arena_close(&a);
    return rc;
}
