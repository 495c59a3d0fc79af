/* sample.c: geometry of images, and of an image with its objects. */
#include "media/image.h"
#include "media/mask.h"

#include <math.h>
#include <string.h>

#include <detrgraph/node.h>

int dg_image_crop(dg_image *out, dg_scratch *s, const dg_image *in, int x, int y, int w, int h,
                  dg_diag *d)
{
    dg_image done;
    int rc;

    if (x < 0 || y < 0 || w < 1 || h < 1 || w > in->w - x || h > in->h - y)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "image-crop",
                       "a crop of %d x %d at %d, %d does not lie in an image "
                       "of %d x %d",
                       w, h, x, y, in->w, in->h);
    DG_TRY(dg_image_alloc(&done, s, w, h, d));
    for (int row = 0; row < h; row++)
        memcpy(done.rgb + (size_t)row * (size_t)w * 3,
               in->rgb + ((size_t)(y + row) * (size_t)in->w + (size_t)x) * 3, (size_t)w * 3);
    *out = done;
out:
    return rc;
}

int dg_image_paste(dg_image *out, dg_scratch *s, const dg_image *in, int w, int h, int x, int y,
                   const uint8_t fill[3], dg_diag *d)
{
    dg_image done;
    int rc;

    if (x < 0 || y < 0 || in->w > w - x || in->h > h - y)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "image-paste",
                       "an image of %d x %d at %d, %d does not fit on a canvas "
                       "of %d x %d",
                       in->w, in->h, x, y, w, h);
    DG_TRY(dg_image_alloc(&done, s, w, h, d));
    for (size_t i = 0, n = (size_t)w * (size_t)h; i < n; i++)
        memcpy(done.rgb + 3 * i, fill, 3);
    for (int row = 0; row < in->h; row++)
        memcpy(done.rgb + ((size_t)(y + row) * (size_t)w + (size_t)x) * 3,
               in->rgb + (size_t)row * (size_t)in->w * 3, (size_t)in->w * 3);
    *out = done;
out:
    return rc;
}

/* Mirrors the first w columns. */
static void flip_columns(dg_image *im, int w)
{
    for (int y = 0; y < im->h; y++) {
        uint8_t *a = im->rgb + (size_t)y * (size_t)im->w * 3, *b = a + (size_t)(w - 1) * 3, t[3];

        for (; a < b; a += 3, b -= 3) {
            memcpy(t, a, 3);
            memcpy(a, b, 3);
            memcpy(b, t, 3);
        }
    }
}

void dg_image_flip(dg_image *im)
{
    flip_columns(im, im->w);
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool has_part(const dg_sample *sm)
{
    return sm->size > offsetof(dg_sample, part_h) && sm->part_w > 0 && sm->part_h > 0;
}

void dg_sample_part(const dg_sample *sm, int *w, int *h)
{
    *w = has_part(sm) && sm->part_w < sm->image.w ? sm->part_w : sm->image.w;
    *h = has_part(sm) && sm->part_h < sm->image.h ? sm->part_h : sm->image.h;
}

/* Of n pixels that become m: the pixel in which the part ends belongs to it, as boxes do. */
static int scaled(int part, int n, int m)
{
    int to = (int)ceil((double)part * m / n);

    return to < 1 ? 1 : to > m ? m : to;
}

int dg_sample_resize(dg_sample *sm, int w, int h, dg_diag *d)
{
    const double from_w = sm->image.w, from_h = sm->image.h;
    int rc = dg_image_resize(&sm->image, sm->scratch, &sm->image, w, h, d);

    if (rc == 0 && has_part(sm)) {
        sm->part_w = scaled(sm->part_w, (int)from_w, w);
        sm->part_h = scaled(sm->part_h, (int)from_h, h);
    }
    for (int i = 0; rc == 0 && i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;

        /* Multiply first: a box on the edge stays on it and is not dropped as outside. */
        *b = (dg_box){ b->x1 * w / from_w, b->y1 * h / from_h, b->x2 * w / from_w,
                       b->y2 * h / from_h };
    }
    for (int i = 0; rc == 0 && dg_sample_masks(sm) && i < sm->n_objects; i++)
        rc = dg_mask_resize(&sm->masks[i], sm->scratch, &sm->masks[i], w, h, d);
    return rc;
}

int dg_sample_paste(dg_sample *sm, int w, int h, int x, int y, const uint8_t fill[3], dg_diag *d)
{
    int rc = dg_image_paste(&sm->image, sm->scratch, &sm->image, w, h, x, y, fill, d);

    if (has_part(sm)) /* not in the corner any more */
        sm->part_w = sm->part_h = 0;
    for (int i = 0; rc == 0 && i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;

        *b = (dg_box){ b->x1 + x, b->y1 + y, b->x2 + x, b->y2 + y };
    }
    for (int i = 0; rc == 0 && dg_sample_masks(sm) && i < sm->n_objects; i++)
        rc = dg_mask_paste(&sm->masks[i], sm->scratch, &sm->masks[i], w, h, x, y, d);
    return rc;
}

static double between(double v, double hi)
{
    return v < 0.0 ? 0.0 : v > hi ? hi : v;
}

int dg_sample_crop(dg_sample *sm, int x, int y, int w, int h, dg_diag *d)
{
    int rc = dg_image_crop(&sm->image, sm->scratch, &sm->image, x, y, w, h, d);

    if (rc == 0 && has_part(sm)) { /* nothing but filling is left: 0, the whole */
        sm->part_w = sm->part_w > x ? sm->part_w - x : 0;
        sm->part_h = sm->part_h > y ? sm->part_h - y : 0;
    }
    for (int i = 0; rc == 0 && i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;
        double cx = 0.5 * (b->x1 + b->x2) - x, cy = 0.5 * (b->y1 + b->y2) - y;

        if (cx > 0.0 && cx < w && cy > 0.0 && cy < h)
            *b = (dg_box){ between(b->x1 - x, w), between(b->y1 - y, h), between(b->x2 - x, w),
                           between(b->y2 - y, h) };
        else
            *b = (dg_box){ 0.0, 0.0, 0.0, 0.0 };
    }
    for (int i = 0; rc == 0 && dg_sample_masks(sm) && i < sm->n_objects; i++)
        rc = dg_mask_crop(&sm->masks[i], sm->scratch, &sm->masks[i], x, y, w, h, d);
    return rc;
}

void dg_sample_flip(dg_sample *sm)
{
    int w, h;

    dg_sample_part(sm, &w, &h);
    flip_columns(&sm->image, w);
    for (int i = 0; i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;

        *b = (dg_box){ w - b->x2, b->y1, w - b->x1, b->y2 };
        if (dg_sample_masks(sm))
            dg_mask_flip(&sm->masks[i], w);
    }
}

int dg_sample_sanitize(dg_sample *sm, double min_size)
{
    int kept = 0, before = sm->n_objects;

    for (int i = 0; i < before; i++) {
        const dg_box b = sm->objects[i].box;

        if (b.x2 - b.x1 >= min_size && b.y2 - b.y1 >= min_size && b.x1 >= 0.0 && b.y1 >= 0.0 &&
            b.x2 <= sm->image.w && b.y2 <= sm->image.h) {
            if (dg_sample_masks(sm))
                sm->masks[kept] = sm->masks[i];
            sm->objects[kept++] = sm->objects[i];
        }
    }
    sm->n_objects = kept;
    return before - kept;
}

double dg_box_iou(dg_box a, dg_box b)
{
    double w = (a.x2 < b.x2 ? a.x2 : b.x2) - (a.x1 > b.x1 ? a.x1 : b.x1);
    double h = (a.y2 < b.y2 ? a.y2 : b.y2) - (a.y1 > b.y1 ? a.y1 : b.y1);
    double both = w > 0.0 && h > 0.0 ? w * h : 0.0;
    double all = (a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - both;

    return all > 0.0 ? both / all : 0.0;
}

int(dg_sample_further)(dg_sample *out, const dg_sample *sm, dg_draw *draw, dg_diag *d)
{
    return dg_sample_further_sized(out, offsetof(dg_sample, part_w), sm, draw, d);
}

int dg_sample_further_sized(dg_sample *out, size_t size, const dg_sample *sm, dg_draw *draw,
                            dg_diag *d)
{
    const dg_further *f = sm->size > offsetof(dg_sample, further) ? sm->further : NULL;
    dg_sample made = { 0 };

    if (f) {
        int rc = f->take(f->self, &made, draw, d);

        made.size = size < sizeof made ? size : sizeof made;
        memcpy(out, &made, made.size);
        return rc;
    }
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "further-none",
            "no further images can be had for %s: it is not an image of a data set", sm->path);
    dg_help(d, "nodes that combine images (mosaic, mixup) belong in <train> alone");
    return -DG_EINPUT;
}
