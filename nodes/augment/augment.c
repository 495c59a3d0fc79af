/* augment.c: <augment>: random changes of image and boxes, in the order of its child elements.
 *
 * RT-DETR's recipe (photometric distortion and zoom-out as in SSD, Liu et al. 2016, section 2.2;
 * IoU crop from the same paper) is
 *     <augment><photometric p="0.5" until="epoch 71"/><zoom_out p="0.5" .../>
 *              <iou_crop p="0.8" .../><flip p="0.5"/></augment>
 * and RF-DETR's, with square batches behind it,
 *     <augment><flip p="0.5"/><resize_crop p="0.5"/></augment>
 * Objects narrower or lower than a pixel are dropped at <iou_crop>, cropped or not. Draws are keyed
 * by the run's seed, the node and the sample's number, so they do not depend on threads, ranks or
 * restarts. */
#include "nodes/augment/family.h"

#include <math.h>

typedef struct conf {
    int64_t seed;
    dg_children steps;
} conf;

enum { PHOTOMETRIC, ZOOM_OUT, IOU_CROP, RESIZE_CROP, FLIP };

typedef struct photometric {
    double p, brightness, contrast, saturation, hue;
    dg_when until;
} photometric;
typedef struct zoom_out {
    double p, most;
    int64_t fill;
    dg_when until;
} zoom_out;
typedef struct iou_crop {
    double p, least, aspect;
    int64_t trials;
    dg_when until;
} iou_crop;
typedef struct resize_crop {
    double p;
    int64_t least, most;
    dg_ints sides;
    dg_when until;
} resize_crop;
typedef struct flip {
    double p;
    dg_when until;
} flip;

static const dg_attr photometric_attrs[] = {
    DG_NUM(photometric, p, 0.5, 0, 1, "probability of each of the five changes"),
    DG_NUM(photometric, brightness, 0.125, 0, 1, "factor drawn from 1 - x to 1 + x"),
    DG_NUM(photometric, contrast, 0.5, 0, 1, "factor drawn from 1 - x to 1 + x"),
    DG_NUM(photometric, saturation, 0.5, 0, 1, "factor drawn from 1 - x to 1 + x"),
    DG_NUM(photometric, hue, 0.05, 0, 0.5, "shift drawn from -x to x of the colour circle"),
    DG_WHEN(photometric, until, NULL, "skipped from this moment on"),
    { 0 },
};
static const dg_attr zoom_out_attrs[] = {
    DG_NUM(zoom_out, p, 0.5, 0, 1, "probability"),
    DG_NUM(zoom_out, most, 4, 1, 16, "largest ratio of the canvas's sides to the image's"),
    DG_INT(zoom_out, fill, 0, 0, 255, "gray of the canvas"),
    DG_WHEN(zoom_out, until, NULL, "skipped from this moment on"),
    { 0 },
};
static const dg_attr iou_crop_attrs[] = {
    DG_NUM(iou_crop, p, 0.8, 0, 1, "probability of trying to crop"),
    DG_NUM(iou_crop, least, 0.3, 0.01, 1,
           "smallest side of the crop, as a fraction of the image's"),
    DG_NUM(iou_crop, aspect, 2, 1, 100, "largest aspect ratio of the crop"),
    DG_INT(iou_crop, trials, 40, 1, 10000, "attempts for each drawn overlap"),
    DG_WHEN(iou_crop, until, NULL, "skipped from this moment on"),
    { 0 },
};
static const dg_attr resize_crop_attrs[] = {
    DG_NUM(resize_crop, p, 0.5, 0, 1, "probability"),
    DG_INTS(resize_crop, sides, "400,500,600", "the shorter side becomes one of these, in pixels"),
    DG_INT(resize_crop, least, 384, 1, DG_IMAGE_MAX_SIDE, "smallest side of the crop, in pixels"),
    DG_INT(resize_crop, most, 600, 1, DG_IMAGE_MAX_SIDE,
           "largest side of the crop, in pixels; the image's, if that is smaller"),
    DG_WHEN(resize_crop, until, NULL, "skipped from this moment on"),
    { 0 },
};
static const dg_attr flip_attrs[] = {
    DG_NUM(flip, p, 0.5, 0, 1, "probability"),
    DG_WHEN(flip, until, NULL, "skipped from this moment on"),
    { 0 },
};

static const dg_child_class children[] = {
    { "photometric", photometric_attrs, sizeof(photometric), 0,
      "Brightness, contrast, saturation, hue and the order of channels, each with probability p." },
    { "zoom_out", zoom_out_attrs, sizeof(zoom_out), 0, "Places the image on a larger canvas." },
    { "iou_crop", iou_crop_attrs, sizeof(iou_crop), 0,
      "Crops so that the overlap with some object reaches a drawn minimum; drops objects whose "
      "centre is outside." },
    { "resize_crop", resize_crop_attrs, sizeof(resize_crop), 0,
      "Resizes to a drawn shorter side, then crops a rectangle of drawn sides." },
    { "flip", flip_attrs, sizeof(flip), 0, "Mirrors left and right." },
    { 0 },
};

static const dg_attr attrs[] = {
    DG_AUGMENT_SEED(conf),
    { 0 },
};

static const dg_when *until_of(const dg_child *step)
{
    const void *s = step->conf;

    switch (step->kind) {
    case PHOTOMETRIC:
        return &((const photometric *)s)->until;
    case ZOOM_OUT:
        return &((const zoom_out *)s)->until;
    case IOU_CROP:
        return &((const iou_crop *)s)->until;
    case RESIZE_CROP:
        return &((const resize_crop *)s)->until;
    default:
        return &((const flip *)s)->until;
    }
}

static void check_resize_crop(dg_check *k, const resize_crop *c)
{
    if (c->least > c->most)
        dg_check_fail(k, NULL, "augment-crop",
                      "least=\"%lld\" of <resize_crop> is more than most=\"%lld\"",
                      (long long)c->least, (long long)c->most);
    if (c->sides.n < 1)
        dg_check_fail(k, NULL, "augment-crop", "sides of <resize_crop> must name a side");
    for (int i = 0; i < c->sides.n; i++)
        if (c->sides.v[i] < c->least || c->sides.v[i] > DG_IMAGE_MAX_SIDE) {
            dg_check_fail(k, NULL, "augment-crop",
                          "sides of <resize_crop> must be from least (%lld) to %d, found %lld",
                          (long long)c->least, DG_IMAGE_MAX_SIDE, (long long)c->sides.v[i]);
            return;
        }
}

static void check_augment(dg_check *k, const void *self)
{
    const conf *c = self;

    for (int i = 0; i < c->steps.n; i++) {
        dg_augment_check(k, until_of(&c->steps.v[i]), children[c->steps.v[i].kind].name);
        if (c->steps.v[i].kind == RESIZE_CROP)
            check_resize_crop(k, c->steps.v[i].conf);
    }
}

static bool chance(dg_draw *r, double p)
{
    return dg_draw_uniform(r) < p;
}

static double factor(dg_draw *r, double x)
{
    return dg_draw_range(r, 1 - x, 1 + x);
}

static void distort(const photometric *c, dg_sample *sm, dg_draw *r)
{
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    bool contrast_first = chance(r, 0.5);

    if (chance(r, c->p))
        dg_image_brightness(&sm->image, factor(r, c->brightness));
    if (contrast_first && chance(r, c->p))
        dg_image_contrast(&sm->image, factor(r, c->contrast));
    if (chance(r, c->p))
        dg_image_saturation(&sm->image, factor(r, c->saturation));
    if (chance(r, c->p))
        dg_image_hue(&sm->image, dg_draw_range(r, -c->hue, c->hue));
    if (!contrast_first && chance(r, c->p))
        dg_image_contrast(&sm->image, factor(r, c->contrast));
    if (chance(r, c->p))
        dg_image_channels(&sm->image, orders[dg_draw_below(r, 6)]);
}

/* Largest zoom-out factor that keeps the canvas within the limits of an image; below 4 for
 * photographs of 20 megapixels. */
static double largest_zoom(const dg_image *im)
{
    double side = DG_IMAGE_MAX_SIDE / fmax(im->w, im->h),
           area = DG_IMAGE_MAX_PIXELS / ((double)im->w * im->h);

    return fmax(1, fmin(side, sqrt(area)));
}

static int zoom(const zoom_out *c, dg_sample *sm, dg_draw *r, dg_diag *d)
{
    double f = fmin(dg_draw_range(r, 1, c->most), largest_zoom(&sm->image));
    int w = (int)(sm->image.w * f), h = (int)(sm->image.h * f);
    int x = (int)((w - sm->image.w) * dg_draw_uniform(r));
    int y = (int)((h - sm->image.h) * dg_draw_uniform(r));
    const uint8_t gray = (uint8_t)c->fill, fill[3] = { gray, gray, gray };

    return dg_sample_paste(sm, w, h, x, y, fill, d);
}

static bool overlaps(const dg_sample *sm, dg_box crop, double least)
{
    bool any = false;
    double best = 0;

    for (int i = 0; i < sm->n_objects; i++) {
        dg_box b = sm->objects[i].box;
        double x = 0.5 * (b.x1 + b.x2), y = 0.5 * (b.y1 + b.y2);

        if (x > crop.x1 && x < crop.x2 && y > crop.y1 && y < crop.y2) {
            double iou = dg_box_iou(b, crop);

            any = true;
            best = iou > best ? iou : best;
        }
    }
    return any && best >= least;
}

static int crop(const iou_crop *c, dg_sample *sm, dg_draw *r, dg_diag *d)
{
    static const double overlap[] = { 0, 0.1, 0.3, 0.5, 0.7, 0.9, 1 };
    const int w0 = sm->image.w, h0 = sm->image.h;

    if (!sm->n_objects)
        return 0; /* a crop must contain an object's centre */
    for (;;) {
        double least = overlap[dg_draw_below(r, 7)];

        if (least >= 1)
            return 0;
        for (int64_t t = 0; t < c->trials; t++) {
            int w = (int)(w0 * dg_draw_range(r, c->least, 1)),
                h = (int)(h0 * dg_draw_range(r, c->least, 1));
            int x = (int)((w0 - w) * dg_draw_uniform(r)), y = (int)((h0 - h) * dg_draw_uniform(r));
            dg_box box = { x, y, x + w, y + h };

            if (w > 0 && h > 0 && w <= c->aspect * h && h <= c->aspect * w &&
                overlaps(sm, box, least))
                return dg_sample_crop(sm, x, y, w, h, d);
        }
    }
}

/* Draws a number from least to most, both included; least, if most is smaller. */
static int64_t side_of_crop(dg_draw *r, int64_t least, int64_t most)
{
    return most > least ? least + dg_draw_below(r, most - least + 1) : least;
}

static int resize_and_crop(const resize_crop *c, dg_sample *sm, dg_draw *r, dg_diag *d)
{
    int64_t side = c->sides.v[dg_draw_below(r, c->sides.n)], w = sm->image.w, h = sm->image.h;
    int64_t longer = side * (w > h ? w : h) / (w > h ? h : w), x;
    int rc;

    if (longer > DG_IMAGE_MAX_SIDE || (double)side * (double)longer > DG_IMAGE_MAX_PIXELS)
        return 0; /* a strip, which has no such crop */
    DG_TRY(dg_sample_resize(sm, (int)(w > h ? longer : side), (int)(w > h ? side : longer), d));
    w = side_of_crop(r, c->least, sm->image.w < c->most ? sm->image.w : c->most);
    h = side_of_crop(r, c->least, sm->image.h < c->most ? sm->image.h : c->most);
    x = dg_draw_below(r, sm->image.w - w + 1);
    DG_TRY(
        dg_augment_crop(sm, (int)x, (int)dg_draw_below(r, sm->image.h - h + 1), (int)w, (int)h, d));
out:
    return rc;
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    int rc = 0;

    for (int i = 0; i < c->steps.n && !rc; i++) {
        const void *s = c->steps.v[i].conf;
        bool on = !dg_reached(until_of(&c->steps.v[i]), clock);

        switch (c->steps.v[i].kind) {
        case PHOTOMETRIC:
            if (on)
                distort(s, sm, r);
            break;
        case ZOOM_OUT:
            if (on && chance(r, ((const zoom_out *)s)->p))
                rc = zoom(s, sm, r, d);
            break;
        case IOU_CROP:
            if (on && chance(r, ((const iou_crop *)s)->p))
                rc = crop(s, sm, r, d);
            dg_sample_sanitize(sm, 1); /* for every image, as in the reference */
            break;
        case RESIZE_CROP:
            if (on && chance(r, ((const resize_crop *)s)->p))
                rc = resize_and_crop(s, sm, r, d);
            break;
        default:
            if (on && chance(r, ((const flip *)s)->p))
                dg_sample_flip(sm);
        }
    }
    return rc;
}

const dg_node_class dg_node_augment = {
    DG_NODE_CLASS,
    .name = "augment",
    .role = DG_ROLE_AUGMENT,
    .brief = "Random changes of images and boxes, in the order of the child elements.",
    .ports = dg_augment_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = dg_augment_rules,
    .children = children,
    .children_offset = offsetof(conf, steps),
    .check = check_augment,
    .item = item,
};
