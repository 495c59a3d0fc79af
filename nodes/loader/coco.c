/* coco.c: <loader.coco>, a data set in COCO form.
 *
 *   ROOT/images/..., ROOT/annotations/SPLIT.json      (split="train")
 *   ROOT/train2017/..., ROOT/annotations/instances_train2017.json
 *                                                     (images="train2017" annotations="annotations/...") */
#include <detrgraph/node.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conf {
    const char *root, *split, *images, *annotations;
    int64_t     on_error, files;
} conf;

enum { OUT };

static const dg_port ports[] = {
    DG_OUT("out", "dataset", "the images and their objects, by ascending image id"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_PATH_REQUIRED(conf, root, "folder of the data set; with files=\"rank\", {rank} stands for the rank's number here and "
                                 "in split, annotations and images"),
    DG_STR(conf, split, NULL, "reads ROOT/annotations/SPLIT.json"),
    DG_STR(conf, annotations, NULL, "annotation file below root, instead of split"),
    DG_STR(conf, images, "images", "folder of the images, below root"),
    DG_ENUM(conf, on_error, 0, "stop|replace",
            "an image that cannot be read: stop the run with its name, or take another sample and count"),
    DG_ENUM(conf, files, 0, "same|rank", "every rank sees the same data set, compared at the start, or its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .when = "files=rank", .why = "reads files that only this rank sees" },
    { DG_RULE_RATE, .to = "out", .when = "files=rank", .why = "reads files that only this rank sees" },
    { 0 },
};

typedef struct set {
    dg_dataset ds;
    dg_coco   *coco;
    char      *folder;
    dg_coco_class *classes;
} set;

static char *join(const char *a, const char *b, const char *c, const char *tail)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + strlen(tail) + 3;
    char  *s = malloc(n);

    if (s)
        snprintf(s, n, "%s/%s%s%s%s", a, b, *c ? "/" : "", c, tail);
    return s;
}

static void info(void *self, int item, dg_item_info *out)
{
    const set           *s = self;
    const dg_coco_image *im = dg_coco_image_at(s->coco, item);
    const dg_coco_annotation *a = dg_coco_annotations(s->coco) + im->first;

    *out = (dg_item_info){ .id = im->id, .name = im->file_name, .w = im->w, .h = im->h };
    for (int i = 0; i < im->n; i++)
        out->n_objects += !a[i].crowd && a[i].w > 0 && a[i].h > 0 && a[i].x < im->w && a[i].y < im->h &&
                          a[i].x + a[i].w > 0 && a[i].y + a[i].h > 0;
}

static int sample(void *self, int item, dg_sample *out, dg_scratch *scratch, dg_diag *d)
{
    const set *s = self;

    return dg_coco_sample(out, scratch, s->coco, item, s->folder, d);
}

static int probe(void *self, int item, dg_diag *d)
{
    const set *s = self;

    return dg_coco_probe(s->coco, item, s->folder, d);
}

static void close_set(void *self)
{
    set *s = self;

    dg_coco_close(&s->coco);
    free(s->classes);
    free(s->folder);
    free(s);
}

/* FNV-1a over what the plan of a run depends on: ids, sizes, boxes. */
static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    for (const uint8_t *b = p; n--; b++)
        h = (h ^ *b) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t digest(const dg_coco *c)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    int64_t  n = dg_coco_n_annotations(c);

    for (int i = 0; i < dg_coco_n_images(c); i++) {
        const dg_coco_image *im = dg_coco_image_at(c, i);
        const int64_t v[] = { im->id, im->w, im->h, im->n };

        h = mix(h, v, sizeof v);
        h = mix(h, im->file_name, strlen(im->file_name));
    }
    for (int64_t i = 0; i < n; i++) {
        const dg_coco_annotation *a = dg_coco_annotation_at(c, i);
        const double v[] = { a->x, a->y, a->w, a->h, a->label, a->crowd };

        h = mix(h, v, sizeof v);
    }
    return h;
}

static int open_set(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    const conf *c = self;
    set        *s = calloc(1, sizeof *s);
    char       *file = c->annotations ? join(c->root, c->annotations, "", "")
                                      : join(c->root, "annotations", c->split, ".json");
    int         rc = 0;

    (void)seed;
    if (!s || !file || !(s->folder = join(c->root, c->images, "", "")))
        rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to open %s", c->root);
    if (!rc)
        rc = dg_coco_open(&s->coco, file, d);
    if (!rc) {
        int n = dg_coco_n_classes(s->coco);

        s->classes = calloc((size_t)(n ? n : 1), sizeof *s->classes);
        if (!s->classes)
            rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %d classes", n);
        for (int i = 0; !rc && i < n; i++)
            s->classes[i] = *dg_coco_class_at(s->coco, i);
    }
    free(file);
    if (rc) {
        if (s)
            close_set(s);
        return rc;
    }
    s->ds = (dg_dataset){
        .size = sizeof s->ds,
        .n_items = dg_coco_n_images(s->coco),
        .n_classes = dg_coco_n_classes(s->coco),
        .classes = s->classes,
        .truths = dg_coco_annotations(s->coco),
        .n_truths = dg_coco_n_annotations(s->coco),
        .report = dg_coco_report(s->coco),
        .digest = digest(s->coco),
        .name = dg_coco_path(s->coco),
        .self = s,
        .info = info,
        .sample = sample,
        .probe = probe,
        .replace = c->on_error == 1,
        .close = close_set,
    };
    *data = &s->ds;
    return 0;
}

static void check(dg_check *k, const void *self)
{
    const conf *c = self;

    if (!c->split && !c->annotations) {
        dg_check_fail(k, NULL, "loader-split", "needs split=\"...\" or annotations=\"...\"");
        dg_check_help(k, "split=\"train\" reads annotations/train.json below root");
    } else if (c->split && c->annotations) {
        dg_check_fail(k, "split", "loader-split", "split and annotations name the same thing: give one of them");
    }
}

const dg_node_class dg_node_loader_coco = {
    DG_NODE_CLASS,
    .name = "loader.coco",
    .role = DG_ROLE_LOADER,
    .brief = "A data set in COCO form: an annotation file and a folder of JPEG or PNG images.",
    .doc = "Category ids may be any numbers; they are mapped to 0, 1, ... in ascending order and mapped back "
           "in results. Crowd regions are left out of training and handled by the rules of COCO in evaluation. "
           "Images without objects are ordinary.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .check = check,
    .open = open_set,
};
