/* my.node: reads images and boxes in a format of its own.
 *     images.raw   the pixels of all images in order: RGB, rows top down,
 *                  as NumPy's tofile writes an array [n,height,width,3]
 *     boxes.csv    one line "image,label,x1,y1,x2,y2" per object, sorted by image;
 *                  image and label count from 0 */
#include <detrgraph/plugin.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The attributes of the element; the engine fills it from the table below. */
typedef struct conf {
    const char *images, *boxes;
    int64_t width, height;
} conf;

static const dg_port ports[] = {
    DG_OUT("out", "dataset", "the images and their objects"),
    { 0 },
};

/* member, default, minimum, maximum, description */
static const dg_attr attrs[] = {
    DG_PATH(conf, images, "images.raw", "pixels"),
    DG_PATH(conf, boxes, "boxes.csv", "objects"),
    DG_INT(conf, width, 64, 1, 8192, "pixels of a row"),
    DG_INT(conf, height, 64, 1, 8192, "rows of an image"),
    { 0 },
};

static const dg_coco_class classes[] = { { 1, "nut" }, { 2, "bolt" } }; /* labels 0 and 1 */
enum { N_CLASSES = 2 };

/* An open data set, immutable because threads share it. */
typedef struct set {
    dg_dataset ds;
    const conf *c;
    size_t bytes; /* per image */
    dg_coco_annotation *truths;
    int64_t *first; /* item i has truths first[i] .. first[i+1]-1 */
} set;

/* Size and objects of an item, read without its pixels. */
static void info(void *self, int item, dg_item_info *out)
{
    const set *s = self;

    *out = (dg_item_info){ .id = item + 1,
                           .name = s->c->images,
                           .w = (int)s->c->width,
                           .h = (int)s->c->height,
                           .n_objects = (int)(s->first[item + 1] - s->first[item]) };
}

/* Returns one item as a function of its number only; called on many threads. For files of images,
 * use dg_image_read. */
static int sample(void *self, int item, dg_sample *out, dg_scratch *scratch, dg_diag *d)
{
    const set *s = self;
    const dg_coco_annotation *a = s->truths + s->first[item];
    int w = (int)s->c->width, h = (int)s->c->height, n = (int)(s->first[item + 1] - s->first[item]);
    FILE *f = fopen(s->c->images, "rb");
    bool read;

    *out =
        (dg_sample){ .size = sizeof *out,
                     .item = item,
                     .image_id = item + 1,
                     .path = s->c->images,
                     .orig_w = w,
                     .orig_h = h,
                     .n_objects = n,
                     .objects = dg_scratch_alloc(scratch, (size_t)(n + 1) * sizeof *out->objects),
                     .scratch = scratch };
    read = f && out->objects && dg_image_new(&out->image, scratch, w, h, d) == 0 &&
           fseek(f, (long)(s->bytes * (size_t)item), SEEK_SET) == 0 &&
           fread(out->image.rgb, s->bytes, 1, f) == 1;
    if (f)
        fclose(f);
    for (int i = 0; i < n && read; i++)
        out->objects[i] = (dg_object){
            { a[i].x, a[i].y, a[i].x + a[i].w, a[i].y + a[i].h }, a[i].label, false, a[i].area
        };
    return read ? 0
                : dg_fail(d, DG_EIO, (dg_where){ .file = s->c->images }, "my-image",
                          "image %d cannot be read", item);
}

static void close_set(void *self)
{
    set *s = self;

    free(s->truths);
    free(s->first);
    free(s);
}

static int no_memory_for_set(dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the data set");
}

static int read_images(set *s, dg_diag *d)
{
    const dg_where at = { .file = s->c->images };
    FILE *f = fopen(at.file, "rb");
    long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;

    if (f)
        fclose(f);
    if (bytes < 0)
        return dg_fail(d, DG_EIO, at, "my-images", "cannot be read: %s", strerror(errno));
    s->ds.n_items = (int)((size_t)bytes / s->bytes);
    if (s->ds.n_items < 1 || (size_t)bytes % s->bytes)
        return dg_fail(d, DG_EINPUT, at, "my-images",
                       "%ld bytes are no whole number of images of %lldx%lld", bytes,
                       (long long)s->c->width, (long long)s->c->height);
    s->first = calloc((size_t)s->ds.n_items + 1, sizeof *s->first);
    return s->first ? 0 : no_memory_for_set(d);
}

/* Parses "image,label,x1,y1,x2,y2". */
static bool read_object(dg_coco_annotation *a, const char *line, const set *s)
{
    double x2, y2;

    if (sscanf(line, "%d,%d,%lf,%lf,%lf,%lf", &a->image, &a->label, &a->x, &a->y, &x2, &y2) != 6)
        return false;
    a->w = x2 - a->x;
    a->h = y2 - a->y;
    a->area = a->w * a->h;
    return a->image >= 0 && a->image < s->ds.n_items && a->label >= 0 && a->label < N_CLASSES &&
           a->x >= 0 && a->y >= 0 && a->w > 0 && a->h > 0 && x2 <= (double)s->c->width &&
           y2 <= (double)s->c->height;
}

/* The digest covers sizes and objects. Ranks compare it with each other, and a resumed run with its
 * checkpoint. */
static int read_objects(set *s, FILE *f, dg_diag *d)
{
    char line[256];
    int n = 0, last = 0;

    while (fgets(line, sizeof line, f)) {
        dg_coco_annotation a = { .id = n + 1 },
                           *grown = realloc(s->truths, (size_t)(n + 1) * sizeof *grown);

        if (!grown)
            return no_memory_for_set(d);
        s->truths = grown;
        if (!read_object(&a, line, s) || a.image < last)
            return dg_fail(d, DG_EINPUT, (dg_where){ .file = s->c->boxes, .line = n + 1 },
                           "my-boxes",
                           "expected image,label,x1,y1,x2,y2 in the order of images, of %d images "
                           "and %d classes",
                           s->ds.n_items, N_CLASSES);
        last = a.image;
        grown[n++] = a;
        s->first[last + 1] = n;
        s->ds.digest = dg_digest(s->ds.digest, line, strlen(line));
    }
    for (int i = 0; i < s->ds.n_items; i++) /* images without objects */
        s->first[i + 1] = s->first[i + 1] ? s->first[i + 1] : s->first[i];
    s->ds.truths = s->truths;
    s->ds.n_truths = n;
    return 0;
}

/* seed is the run's, unused because it does not change this data. */
static int open_set(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    const conf *c = self;
    FILE *boxes = fopen(c->boxes, "r");
    set *s = calloc(1, sizeof *s);
    int rc;

    (void)seed;
    DG_TRY(s ? 0 : no_memory_for_set(d));
    s->c = c;
    s->bytes = 3 * (size_t)c->width * (size_t)c->height;
    s->ds = (dg_dataset){ .size = sizeof s->ds,
                          .n_classes = N_CLASSES,
                          .classes = classes,
                          .name = c->boxes,
                          .self = s,
                          .info = info,
                          .sample = sample,
                          .close = close_set };
    DG_TRY(boxes ? 0
                 : dg_fail(d, DG_EIO, (dg_where){ .file = c->boxes }, "my-boxes",
                           "cannot be read: %s", strerror(errno)));
    DG_TRY(read_images(s, d));
    s->ds.digest = dg_digest(DG_DIGEST, (int64_t[]){ c->width, c->height, s->ds.n_items },
                             3 * sizeof(int64_t));
    DG_TRY(read_objects(s, boxes, d));
    *data = &s->ds;
out:
    if (boxes)
        fclose(boxes);
    if (rc < 0 && s)
        close_set(s);
    return rc;
}

static const dg_node_class node_class = {
    DG_NODE_CLASS,
    .name = "my.node",
    .role = DG_ROLE_LOADER,
    .brief = "Images of one size in one file, boxes in another.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .open = open_set,
};

DG_PLUGIN("my_node", "1.0", &node_class);
