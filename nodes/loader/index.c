/* index.c: wraps an index in memory as a data set: item info, samples, digest. */
#include "nodes/loader/index.h"

#include <stdlib.h>
#include <string.h>

const dg_port dg_loader_ports[] = {
    DG_OUT("out", "dataset", "the images and their objects"),
    { 0 },
};

const dg_rule dg_loader_rules[] = {
    { DG_RULE_VALUE, .to = "out", .when = "files=rank",
      .why = "reads files that only this rank sees" },
    { DG_RULE_RATE, .to = "out", .when = "files=rank",
      .why = "reads files that only this rank sees" },
    { 0 },
};

typedef struct set {
    dg_dataset ds;
    dg_coco *coco;
    char *folder;
    dg_coco_class *classes;
} set;

static void info(void *self, int item, dg_item_info *out)
{
    const set *s = self;
    const dg_coco_image *im = dg_coco_image_at(s->coco, item);
    const dg_coco_annotation *a = dg_coco_annotations(s->coco) + im->first;

    *out = (dg_item_info){ .id = im->id, .name = im->file_name, .w = im->w, .h = im->h };
    for (int i = 0; i < im->n; i++)
        out->n_objects += !a[i].crowd && a[i].w > 0 && a[i].h > 0 && a[i].x < im->w &&
                          a[i].y < im->h && a[i].x + a[i].w > 0 && a[i].y + a[i].h > 0;
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

static int mask(void *self, int64_t truth, dg_rle *out, dg_diag *d)
{
    const set *s = self;

    return dg_coco_mask(out, s->coco, truth, d);
}

static void close_set(void *self)
{
    set *s = self;

    dg_coco_close(&s->coco);
    free(s->classes);
    free(s->folder);
    free(s);
}

/* Digest of what a run's plan depends on: ids, sizes, boxes. */
static uint64_t digest(const dg_coco *c)
{
    uint64_t h = DG_DIGEST;
    int64_t n = dg_coco_n_annotations(c);

    for (int i = 0; i < dg_coco_n_images(c); i++) {
        const dg_coco_image *im = dg_coco_image_at(c, i);
        const int64_t v[] = { im->id, im->w, im->h, im->n };

        h = dg_digest(h, v, sizeof v);
        h = dg_digest(h, im->file_name, strlen(im->file_name));
    }
    for (int64_t i = 0; i < n; i++) {
        const dg_coco_annotation *a = dg_coco_annotation_at(c, i);
        const double v[] = { a->x, a->y, a->w, a->h, a->label, a->crowd };

        h = dg_digest(h, v, sizeof v);
    }
    return h;
}

void dg_loader_check(dg_check *k, const dg_loader_how *how)
{
    if (how->held && how->hold_out <= 0) {
        dg_check_fail(k, "part", "loader-part",
                      "needs hold_out, the share of the images that is set aside");
        dg_check_help(k, "hold_out=\"0.1\", the same in <train> and in <evaluate>");
    }
}

int dg_loader_open(dg_dataset **data, dg_coco *c, const char *folder, const dg_loader_how *how,
                   dg_diag *d)
{
    const int n = dg_coco_n_classes(c);
    set *s;

    if (how->hold_out > 0 && dg_coco_hold_out_in(c, folder, how->hold_out, how->held, d) < 0) {
        dg_coco_close(&c);
        return -DG_EINPUT;
    }
    s = calloc(1, sizeof *s);
    if (s) {
        s->coco = c;
        s->folder = strdup(folder);
        s->classes = calloc((size_t)(n ? n : 1), sizeof *s->classes);
    }
    if (!s || !s->folder || !s->classes) {
        int rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to open %s",
                         dg_coco_path(c));

        if (s)
            close_set(s);
        else
            dg_coco_close(&c);
        return rc;
    }
    for (int i = 0; i < n; i++)
        s->classes[i] = *dg_coco_class_at(c, i);
    s->ds = (dg_dataset){
        .size = sizeof s->ds,
        .n_items = dg_coco_n_images(c),
        .n_classes = n,
        .classes = s->classes,
        .truths = dg_coco_annotations(c),
        .n_truths = dg_coco_n_annotations(c),
        .report = dg_coco_report(c),
        .digest = digest(c),
        .name = dg_coco_path(c),
        .self = s,
        .info = info,
        .sample = sample,
        .probe = probe,
        .replace = how->replace,
        .close = close_set,
        .mask = dg_coco_has_masks(c) ? mask : NULL,
    };
    *data = &s->ds;
    return 0;
}
