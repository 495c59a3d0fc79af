/* synthetic.c: <loader.synthetic>: generated scenes of coloured shapes on a noisy gradient, to run
 * pipelines without a download.
 *
 * Image i is a pure function of (seed, i): a background, then up to max_objects shapes whose boxes
 * overlap little, antialiased with 3x3 samples per pixel. The box is the exact extent of the
 * shape. */
#include <detrgraph/node.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct conf {
    int64_t images, width, height, classes, min_objects, max_objects, seed, files;
    double smallest, largest;
    bool masks;
} conf;

enum { OUT };
enum { SAME, OWN }; /* files */

static const dg_port ports[] = {
    DG_OUT("out", "dataset", "the scenes"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, images, 1000, 1, 10000000, "number of scenes"),
    DG_INT(conf, width, 160, 32, 4096, "pixels"),
    DG_INT(conf, height, 160, 32, 4096, "pixels"),
    DG_INT(conf, classes, 3, 1, 5,
           "number of classes, in the order disc, square, triangle, cross, ring"),
    DG_INT(conf, min_objects, 0, 0, 100,
           "fewest objects per scene; one that finds no free place is left out"),
    DG_INT(conf, max_objects, 5, 0, 100, "most objects per scene"),
    DG_NUM(conf, smallest, 0.15, 0.02, 1,
           "smallest object side, as a fraction of the image's shorter side"),
    DG_NUM(conf, largest, 0.4, 0.02, 1,
           "largest object side, as a fraction of the image's shorter side"),
    DG_INT(conf, seed, 0, 0, 1000000000,
           "seed of the scenes; use different ones for training and evaluation"),
    DG_BOOL(conf, masks, false, "give the objects' masks, too: the pixels that are seen"),
    DG_ENUM(conf, files, SAME, "same|rank",
            "all ranks have the same scenes (verified at the start), or each its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .when = "files=rank",
      .why = "has scenes that only this rank sees" },
    { DG_RULE_RATE, .to = "out", .when = "files=rank",
      .why = "has scenes that only this rank sees" },
    { 0 },
};

static const dg_coco_class names[] = {
    { 1, "disc" }, { 2, "square" }, { 3, "triangle" }, { 4, "cross" }, { 5, "ring" }
};

typedef struct shape {
    int label;
    double x, y, r; /* centre and half the side, px */
    double rgb[3];
} shape;

typedef struct set {
    dg_dataset ds;
    conf conf;
    dg_coco_annotation *truths;
    int64_t *first;     /* truths of item i: first[i] .. first[i+1]-1 */
    char (*scenes)[20]; /* their names */
    dg_data_report report;
    int64_t per_class[5];
} set;

enum { MOST = 100, TRIES = 20 };

static double overlap(const shape *a, const shape *b)
{
    double w = fmin(a->x + a->r, b->x + b->r) - fmax(a->x - a->r, b->x - b->r);
    double h = fmin(a->y + a->r, b->y + b->r) - fmax(a->y - a->r, b->y - b->r);

    return w > 0 && h > 0 ? w * h / (4 * fmin(a->r * a->r, b->r * b->r)) : 0;
}

/* Places the shapes of a scene; one that finds no free place after some tries is left out. */
static int arrange_shapes(shape out[MOST], const conf *c, dg_draw *r)
{
    int64_t want = c->min_objects + dg_draw_below(r, c->max_objects - c->min_objects + 1);
    double side = (double)(c->width < c->height ? c->width : c->height);
    int n = 0;

    for (int64_t k = 0; k < want; k++) {
        for (int t = 0; t < TRIES; t++) {
            shape s = { .label = (int)dg_draw_below(r, c->classes),
                        .r = dg_draw_range(r, c->smallest, c->largest) * side / 2 };
            bool free_place = true;

            s.x = dg_draw_range(r, s.r, (double)c->width - s.r);
            s.y = dg_draw_range(r, s.r, (double)c->height - s.r);
            for (int i = 0; i < 3; i++)
                s.rgb[i] = dg_draw_range(r, 0, 255);
            for (int i = 0; i < n; i++)
                free_place &= overlap(&s, &out[i]) < 0.25;
            if (free_place) {
                out[n++] = s;
                break;
            }
        }
    }
    return n;
}

/* True if the point (x, y), in -1..1 within the box, is inside the shape; y points down. */
static bool inside(int label, double x, double y)
{
    double rr = x * x + y * y;

    switch (label) {
    case 0:
        return rr <= 1;
    case 1:
        return true;
    case 2:
        return fabs(x) <= (y + 1) / 2;
    case 3:
        return fabs(x) <= 0.35 || fabs(y) <= 0.35;
    default:
        return rr <= 1 && rr >= 0.36;
    }
}

static void paint(dg_image *im, const shape *s)
{
    int x0 = (int)floor(s->x - s->r), x1 = (int)ceil(s->x + s->r), y0 = (int)floor(s->y - s->r),
        y1 = (int)ceil(s->y + s->r);

    for (int y = y0 < 0 ? 0 : y0; y < y1 && y < im->h; y++)
        for (int x = x0 < 0 ? 0 : x0; x < x1 && x < im->w; x++) {
            uint8_t *p = im->rgb + 3 * ((size_t)y * (size_t)im->w + (size_t)x);
            int hits = 0;

            for (int k = 0; k < 9; k++) {
                double u = (x + (k % 3 + 0.5) / 3 - s->x) / s->r,
                       v = (y + (k / 3 + 0.5) / 3 - s->y) / s->r;

                hits += fabs(u) <= 1 && fabs(v) <= 1 && inside(s->label, u, v);
            }
            for (int i = 0; i < 3; i++)
                p[i] = (uint8_t)lrint(p[i] + (s->rgb[i] - p[i]) * hits / 9);
        }
}

/* The pixels of shape k whose centres it covers, and no later shape: those that are seen. */
static void draw_mask(dg_mask *m, const shape *shapes, int n, int k)
{
    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++) {
            int top = -1;

            for (int i = k; i < n; i++) {
                double u = (x + 0.5 - shapes[i].x) / shapes[i].r,
                       v = (y + 0.5 - shapes[i].y) / shapes[i].r;

                if (fabs(u) <= 1 && fabs(v) <= 1 && inside(shapes[i].label, u, v))
                    top = i;
            }
            m->on[(size_t)y * (size_t)m->w + (size_t)x] = top == k;
        }
}

static int sample_masks(const conf *c, dg_sample *out, const shape *shapes, dg_diag *d)
{
    size_t area = (size_t)c->width * (size_t)c->height;

    out->masks = dg_scratch_alloc(out->scratch, (size_t)(out->n_objects + 1) * sizeof *out->masks);
    for (int k = 0; out->masks && k < out->n_objects; k++) {
        out->masks[k] =
            (dg_mask){ (int)c->width, (int)c->height, dg_scratch_alloc(out->scratch, area) };
        if (!out->masks[k].on)
            out->masks = NULL;
        else
            draw_mask(&out->masks[k], shapes, out->n_objects, k);
    }
    return out->masks ? 0
                      : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                                "no memory for the masks of scene %d", out->item + 1);
}

/* Draws a gradient between two colours in a random direction, with noise. */
static void background(dg_image *im, dg_draw *r)
{
    double a[3], b[3], t = dg_draw_range(r, 0, 6.283185307179586), dx = cos(t) / im->w,
                       dy = sin(t) / im->h;
    uint64_t noise = (uint64_t)dg_draw_below(r, INT64_MAX) | 1;

    for (int i = 0; i < 3; i++) {
        a[i] = dg_draw_range(r, 20, 235);
        b[i] = dg_draw_range(r, 20, 235);
    }
    for (int y = 0; y < im->h; y++)
        for (int x = 0; x < im->w; x++) {
            double f = 0.5 + (x - im->w / 2) * dx + (y - im->h / 2) * dy;

            for (int i = 0; i < 3; i++) {
                noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
                im->rgb[3 * ((size_t)y * (size_t)im->w + (size_t)x) + (size_t)i] =
                    (uint8_t)fmin(255,
                                  fmax(0, a[i] + (b[i] - a[i]) * f + (double)(noise % 31) - 15));
            }
        }
}

static dg_draw draws(const conf *c, int item)
{
    return dg_draw_begin((uint64_t)c->seed, "loader.synthetic", (uint64_t)item);
}

static void info(void *self, int item, dg_item_info *out)
{
    const set *s = self;

    *out = (dg_item_info){
        .id = item + 1,
        .name = s->scenes[item],
        .w = (int)s->conf.width,
        .h = (int)s->conf.height,
        .n_objects = (int)(s->first[item + 1] - s->first[item]),
    };
}

static int sample(void *self, int item, dg_sample *out, dg_scratch *scratch, dg_diag *d)
{
    const set *s = self;
    shape shapes[MOST];
    dg_draw r = draws(&s->conf, item);
    int n = arrange_shapes(shapes, &s->conf, &r);
    int64_t first = s->first[item];

    *out = (dg_sample){
        .size = sizeof *out,
        .item = item,
        .image_id = item + 1,
        .path = s->scenes[item],
        .orig_w = (int)s->conf.width,
        .orig_h = (int)s->conf.height,
        .scratch = scratch,
        .n_objects = n,
        .objects = dg_scratch_alloc(scratch, (size_t)(n ? n : 1) * sizeof *out->objects),
    };
    if (!out->objects)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for scene %d",
                       item + 1);
    for (int i = 0; i < n; i++) {
        const dg_coco_annotation *a = &s->truths[first + i];

        out->objects[i] =
            (dg_object){ { a->x, a->y, a->x + a->w, a->y + a->h }, a->label, false, a->area };
    }
    if (dg_image_new(&out->image, scratch, out->orig_w, out->orig_h, d) < 0)
        return -DG_EMEMORY;
    background(&out->image, &r);
    for (int i = 0; i < n; i++)
        paint(&out->image, &shapes[i]);
    return s->conf.masks ? sample_masks(&s->conf, out, shapes, d) : 0;
}

static int truth_mask(void *self, int64_t truth, dg_rle *out, dg_diag *d)
{
    const set *s = self;
    int item = s->truths[truth].image;
    shape shapes[MOST];
    dg_draw r = draws(&s->conf, item);
    int n = arrange_shapes(shapes, &s->conf, &r), rc;
    dg_mask m = { (int)s->conf.width, (int)s->conf.height, NULL };

    m.on = malloc((size_t)m.w * (size_t)m.h);
    if (!m.on)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory for a mask of scene %d", item + 1);
    draw_mask(&m, shapes, n, (int)(truth - s->first[item]));
    rc = dg_rle_make(out, &m, d);
    free(m.on);
    return rc;
}

static void close_set(void *self)
{
    set *s = self;

    free(s->truths);
    free(s->first);
    free(s->scenes);
    free(s);
}

/* Counts the objects of all scenes, and writes them if asked. */
static int64_t list_objects(set *s, bool write)
{
    int64_t n = 0;

    for (int i = 0; i < s->ds.n_items; i++) {
        shape shapes[MOST];
        dg_draw r = draws(&s->conf, i);
        int m = arrange_shapes(shapes, &s->conf, &r);

        for (int k = 0; write && k < m; k++) {
            const shape *p = &shapes[k];

            s->truths[n + k] =
                (dg_coco_annotation){ n + k + 1,   i,        p->label, p->x - p->r,
                                      p->y - p->r, 2 * p->r, 2 * p->r, 4 * p->r * p->r,
                                      false,       false };
            s->per_class[p->label]++;
        }
        if (write) {
            s->first[i] = n;
            snprintf(s->scenes[i], sizeof s->scenes[i], "scene %d", i + 1);
        }
        if (write && m > s->report.most_objects) {
            s->report.most_objects = m;
            s->report.most_objects_image = i;
        }
        s->report.n_empty += write && m == 0;
        n += m;
    }
    if (write)
        s->first[s->ds.n_items] = n;
    return n;
}

/* Digest of everything that determines the scenes. */
static uint64_t digest(const conf *c, int64_t n)
{
    const double v[] = { (double)c->images,
                         (double)c->width,
                         (double)c->height,
                         (double)c->classes,
                         (double)c->min_objects,
                         (double)c->max_objects,
                         c->smallest,
                         c->largest,
                         (double)c->seed,
                         (double)n };

    return dg_digest(DG_DIGEST, v, sizeof v);
}

static int open_set(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    const conf *c = self;
    set *s = calloc(1, sizeof *s);
    int64_t n;

    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %lld scenes",
                       (long long)c->images);
    /* scenes depend on the loader's own seed: the run's seed does not change the data */
    s->conf = *c;
    s->conf.seed += c->files == OWN ? 1000003 * (int64_t)seed : 0;
    s->ds = (dg_dataset){
        .size = sizeof s->ds,
        .n_items = (int)c->images,
        .n_classes = (int)c->classes,
        .classes = names,
        .name = "generated scenes",
        .self = s,
        .info = info,
        .sample = sample,
        .close = close_set,
        .mask = c->masks ? truth_mask : NULL,
    };
    n = list_objects(s, false);
    s->truths = calloc((size_t)n + 1, sizeof *s->truths);
    s->first = calloc((size_t)c->images + 1, sizeof *s->first);
    s->scenes = calloc((size_t)c->images, sizeof *s->scenes);
    if (!s->truths || !s->first || !s->scenes) {
        close_set(s);
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %lld scenes",
                       (long long)c->images);
    }
    list_objects(s, true);
    s->report.size = sizeof s->report;
    s->report.n_images = (int)c->images;
    s->report.n_classes = (int)c->classes;
    s->report.n_objects = n;
    s->report.per_class = s->per_class;
    s->ds.truths = s->truths;
    s->ds.n_truths = n;
    s->ds.report = &s->report;
    s->ds.digest = digest(&s->conf, n);
    *data = &s->ds;
    return 0;
}

static void check_synthetic(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->min_objects > c->max_objects)
        dg_check_fail(k, "min_objects", "synthetic-range", "%lld is more than max_objects=\"%lld\"",
                      (long long)c->min_objects, (long long)c->max_objects);
    if (c->smallest > c->largest)
        dg_check_fail(k, "smallest", "synthetic-range", "%g is more than largest=\"%g\"",
                      c->smallest, c->largest);
}

const dg_node_class dg_node_loader_synthetic = {
    DG_NODE_CLASS,
    .name = "loader.synthetic",
    .role = DG_ROLE_LOADER,
    .brief = "Generated scenes of coloured shapes, to run pipelines without a download.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .check = check_synthetic,
    .open = open_set,
};
