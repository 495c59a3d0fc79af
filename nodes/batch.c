/* batch.c: <batch>: collects samples into tensors.
 *
 *  images          f[B,H,W,3]   RGB / 255
 *  targets.labels  i[B,M]       0 .. classes-1; 0 in void slots
 *  targets.boxes   f[B,M,4]     cx, cy, w, h as fractions of the image's sides; 0 in void slots
 *  targets.count   i[B]         live slots per image
 *  sizes           i[B,2]       height and width of each image, or, with fit="pad", of the part of
 *                               it that is not filling (dg_sample.part_w, as augment.lsj sets it)
 *  targets.masks   i[B,L,H,W]   with masks="true": bit m mod 32 of plane m div 32 is a pixel of
 *                               object m; L = M / 32, rounded up
 *
 * Images are stretched to the batch's size, or, with fit="pad", made as large as fits it in their
 * own proportions and put into its upper left corner; the rest is black, and no object's mask.
 *
 * M is max_objects. An image with more objects is an error: targets are never cut. */
#include <detrgraph/node.h>

#include <string.h>

typedef struct conf {
    int64_t max_objects, fit, second;
    bool masks;
    dg_sizes base;
} conf;

enum { NEAREST, BILINEAR }; /* second */
enum { IMAGES, LABELS, BOXES, COUNT, SIZES, MASKS, N_FEEDS };
enum { FIT_STRETCH, FIT_PAD };
enum { PLANE = 32 /* objects of a plane of masks */ };

static const dg_port ports[] = {
    DG_IN("in", "samples", "samples in plan order"),
    DG_OUT_MAIN("images", "f[B,H,W,3]", "RGB from 0 to 1"),
    DG_OUT("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B],masks?:i[B,L,H,W]}",
           "objects, padded to max_objects; with masks, a bit of a plane for each"),
    DG_OUT("sizes", "i[B,2]", "height and width of each image in its canvas, in pixels"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, max_objects, 100, 1, 5000, "most objects per image; more are an error"),
    DG_ENUM(conf, fit, FIT_STRETCH, "stretch|pad",
            "stretch images to the batch's size, or keep their proportions and pad at the right "
            "and at the bottom"),
    DG_BOOL(conf, masks, false, "give the objects' masks, too; the loader must read them"),
    DG_SIZES(
        conf, base, NULL,
        "resize to this size first (bilinear, antialiased), then to the batch's size as `second` "
        "says, as the references do in multi-scale training; if omitted, resize once"),
    DG_ENUM(conf, second, NEAREST, "nearest|bilinear",
            "the second resize: nearest pixels as RT-DETR's reference does, or bilinear without "
            "antialiasing as RF-DETR's"),
    { 0 },
};

static void check_batch(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->base.n > 1)
        dg_check_fail(k, "base", "batch-base", "must be one size, found %d", c->base.n);
    if (c->base.n && c->fit == FIT_PAD)
        dg_check_fail(k, "base", "batch-base", "is a size to stretch to, and fit=\"pad\" does not");
    if (c->second == BILINEAR && !c->base.n)
        dg_check_fail(k, "second", "batch-second", "there is no second resize without base");
}

static void type_batch(dg_typing *t, const void *self)
{
    dg_type(t, "targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]%s}",
            ((const conf *)self)->masks ? ",masks:i[B,L,H,W]" : "");
}

static int64_t planes(const conf *c)
{
    return (c->max_objects + PLANE - 1) / PLANE;
}

static int feeds(const void *self, dg_size size, int batch, dg_feed out[], int n)
{
    const conf *c = self;
    const dg_feed all[N_FEEDS] = {
        [IMAGES] = { "images", DG_REAL, DG_SHAPE(batch, size.h, size.w, 3) },
        [LABELS] = { "targets.labels", DG_I32, DG_SHAPE(batch, c->max_objects) },
        [BOXES] = { "targets.boxes", DG_REAL, DG_SHAPE(batch, c->max_objects, 4) },
        [COUNT] = { "targets.count", DG_I32, DG_SHAPE(batch) },
        [SIZES] = { "sizes", DG_I32, DG_SHAPE(batch, 2) },
        [MASKS] = { "targets.masks", DG_I32, DG_SHAPE(batch, planes(c), size.h, size.w) },
    };
    int given = c->masks ? N_FEEDS : MASKS;

    for (int i = 0; i < given && i < n; i++)
        out[i] = all[i];
    return given;
}

/* A loader of an older version makes samples without the field. */
static const dg_mask *masks_of(const dg_sample *sm)
{
    return sm->size > offsetof(dg_sample, masks) ? sm->masks : NULL;
}

/* The largest size of the image's proportions that fits, as the reference rounds it. */
static dg_size fitted(const conf *c, dg_size size, const dg_sample *sm)
{
    double x = (double)size.w / sm->image.w, y = (double)size.h / sm->image.h, s = x < y ? x : y;
    int64_t w = (int64_t)(sm->image.w * s + 0.5), h = (int64_t)(sm->image.h * s + 0.5);

    if (c->fit == FIT_STRETCH)
        return size;
    return (dg_size){ w < 1 ? 1 : w > size.w ? size.w : w, h < 1 ? 1 : h > size.h ? size.h : h };
}

/* Objects of an image of one size, in an image of another. */
static int scale_objects(const conf *c, dg_sample *sm, dg_size from, dg_size to, dg_diag *d)
{
    double x = (double)to.w / (double)from.w, y = (double)to.h / (double)from.h;
    int rc = 0;

    for (int i = 0; !rc && i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;

        *b = (dg_box){ b->x1 * x, b->y1 * y, b->x2 * x, b->y2 * y };
        if (c->masks && masks_of(sm))
            rc = dg_mask_resize(&sm->masks[i], sm->scratch, &sm->masks[i], (int)to.w, (int)to.h, d);
    }
    return rc;
}

/* Brings the sample to its final size; its pixels go to out, unless that is NULL. */
static int resize(const conf *c, dg_size size, dg_sample *sm, float *out, dg_diag *d)
{
    dg_size first = c->base.n ? c->base.v[0] : size;
    bool again = first.w != size.w || first.h != size.h;
    float *pixels;
    int rc;

    DG_TRY(dg_sample_resize(sm, (int)first.w, (int)first.h, d));
    dg_sample_sanitize(sm, 1);
    if (again)
        DG_TRY(scale_objects(c, sm, first, size, d));
    if (!out)
        return 0;
    if (again && c->second == BILINEAR) {
        pixels = dg_scratch_alloc(sm->scratch, (size_t)(first.w * first.h * 3) * sizeof *pixels);
        if (!pixels)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                           "no memory to resize an image");
        dg_image_to_f32(pixels, &sm->image);
        dg_resize_f32(out, (int)size.w, (int)size.h, pixels, (int)first.w, (int)first.h, 3);
        return 0;
    }
    if (again) {
        dg_image small;

        DG_TRY(
            dg_image_resize_nearest(&small, sm->scratch, &sm->image, (int)size.w, (int)size.h, d));
        sm->image = small;
    }
    dg_image_to_f32(out, &sm->image);
out:
    return rc;
}

/* What of an image of size `own` counts: boxes and sizes are those of this part. */
static dg_size counted(const conf *c, dg_size own, const dg_sample *sm)
{
    int w, h;

    if (c->fit == FIT_STRETCH)
        return own;
    dg_sample_part(sm, &w, &h);
    return (dg_size){ w, h };
}

static void fill_targets(const conf *c, dg_size size, int slot, const dg_sample *sm,
                         void *const data[])
{
    int32_t *label = (int32_t *)data[LABELS] + slot * c->max_objects;
    float *box = (float *)data[BOXES] + slot * c->max_objects * 4;
    double w = (double)size.w, h = (double)size.h;

    memset(label, 0, (size_t)c->max_objects * sizeof *label);
    memset(box, 0, (size_t)c->max_objects * 4 * sizeof *box);
    for (int i = 0; i < sm->n_objects; i++, box += 4) {
        dg_box b = sm->objects[i].box;

        label[i] = sm->objects[i].label;
        box[0] = (float)((b.x1 + b.x2) / 2 / w);
        box[1] = (float)((b.y1 + b.y2) / 2 / h);
        box[2] = (float)((b.x2 - b.x1) / w);
        box[3] = (float)((b.y2 - b.y1) / h);
    }
    ((int32_t *)data[COUNT])[slot] = sm->n_objects;
}

/* Writes the image into a canvas of the batch's size. */
static int fill_canvas(dg_size size, dg_sample *sm, float *out, dg_diag *d)
{
    static const uint8_t black[3] = { 0 };
    dg_image canvas;
    int rc =
        dg_image_paste(&canvas, sm->scratch, &sm->image, (int)size.w, (int)size.h, 0, 0, black, d);

    if (!rc)
        dg_image_to_f32(out, &canvas);
    return rc;
}

/* own: the image's size in its canvas. A mask of another size was made by a node that changed only
 * one of them. */
static int fill_masks(const conf *c, dg_size size, dg_size own, int slot, const dg_sample *sm,
                      int32_t *masks, dg_diag *d)
{
    int64_t area = size.h * size.w;
    int rc;

    masks += slot * planes(c) * area;
    memset(masks, 0, (size_t)(planes(c) * area) * sizeof *masks);
    if (!masks_of(sm) && sm->n_objects) {
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "batch-masks",
                     "%s has objects without masks, and this batch gives masks", sm->path);
        dg_help(d, "masks=\"true\" on the loader, if the data has masks");
        return rc;
    }
    for (int i = 0; i < sm->n_objects; i++) {
        const dg_mask *m = &sm->masks[i];
        int32_t *to = masks + i / PLANE * area, bit = (int32_t)(1u << (i % PLANE));

        if (m->w != own.w || m->h != own.h)
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "batch-masks",
                           "%s: a mask of %d x %d pixels in an image of %lld x %lld", sm->path,
                           m->w, m->h, (long long)own.w, (long long)own.h);
        for (int64_t y = 0; y < own.h; y++)
            for (int64_t k = 0; k < own.w; k++)
                to[y * size.w + k] |= m->on[y * own.w + k] ? bit : 0;
    }
    return 0;
}

static int fill(const void *self, dg_size size, int batch, int slot, dg_sample *sm,
                void *const data[], dg_diag *d)
{
    const conf *c = self;
    dg_size own = fitted(c, size, sm), part;
    float *out = data[IMAGES];
    bool pad = own.w != size.w || own.h != size.h;
    int rc;

    (void)batch;
    if (out)
        out += slot * size.h * size.w * 3;
    rc = resize(c, own, sm, pad ? NULL : out, d);
    if (!rc && out && pad)
        rc = fill_canvas(size, sm, out, d);
    if (rc)
        return rc;
    part = counted(c, own, sm);
    if (data[SIZES]) {
        ((int32_t *)data[SIZES])[2 * slot] = (int32_t)part.h;
        ((int32_t *)data[SIZES])[2 * slot + 1] = (int32_t)part.w;
    }
    if (!data[LABELS])
        return 0;
    if (sm->n_objects > c->max_objects) {
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "batch-objects",
                     "%s has %d objects, max_objects is %lld", sm->path, sm->n_objects,
                     (long long)c->max_objects);
        dg_help(d, "max_objects=\"%d\" on <batch>", sm->n_objects);
        return rc;
    }
    fill_targets(c, part, slot, sm, data);
    return c->masks && data[MASKS] ? fill_masks(c, size, own, slot, sm, data[MASKS], d) : 0;
}

static int64_t capacity(const void *self)
{
    return ((const conf *)self)->max_objects;
}

const dg_node_class dg_node_batch = {
    DG_NODE_CLASS,
    .name = "batch",
    .role = DG_ROLE_BATCH,
    .brief = "Resizes samples and gathers them into tensors, targets padded to max_objects.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .type = type_batch,
    .check = check_batch,
    .feeds = feeds,
    .fill = fill,
    .capacity = capacity,
};
