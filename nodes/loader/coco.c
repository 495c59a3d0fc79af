/* coco.c: <loader.coco>: a data set in COCO form.
 *
 *  ROOT/images/..., ROOT/annotations/SPLIT.json      split="train"
 *  ROOT/train2017/..., ROOT/annotations/instances_train2017.json
 *                  images="train2017" annotations="annotations/instances_train2017.json" */
#include "nodes/loader/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conf {
    const char *root, *split, *images, *annotations;
    bool masks;
    DG_LOADER_FIELDS;
} conf;

static const dg_attr attrs[] = {
    DG_PATH_REQUIRED(conf, root,
                     "folder of the data set; with files=\"rank\", {rank} is replaced by the "
                     "rank's number here and in split, annotations and images"),
    DG_STR(conf, split, NULL, "reads ROOT/annotations/SPLIT.json"),
    DG_STR(conf, annotations, NULL, "annotation file relative to root, instead of split"),
    DG_STR(conf, images, "images", "folder of the images, relative to root"),
    DG_BOOL(conf, masks, false,
            "read the objects' masks, polygons and run lengths; an object without one is an error"),
    DG_LOADER_ATTRS(conf),
    { 0 },
};

static char *join(const char *a, const char *b, const char *c, const char *tail)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + strlen(tail) + 3;
    char *s = malloc(n);

    if (s)
        snprintf(s, n, "%s/%s%s%s%s", a, b, *c ? "/" : "", c, tail);
    return s;
}

static int open_set(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    const conf *c = self;
    char *file = c->annotations ? join(c->root, c->annotations, "", "")
                                : join(c->root, "annotations", c->split, ".json");
    char *folder = join(c->root, c->images, "", "");
    dg_coco *coco = NULL;
    int rc;

    (void)seed;
    if (file && folder)
        rc = dg_coco_open_in(&coco, file, folder, c->on_error == 1, c->masks, d);
    else
        rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to open %s", c->root);
    if (rc == 0)
        rc = dg_loader_open(data, coco, folder, DG_LOADER_HOW(c), d);
    free(file);
    free(folder);
    return rc;
}

static void check_coco(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_loader_check(k, DG_LOADER_HOW(c));
    if (!c->split && !c->annotations) {
        dg_check_fail(k, NULL, "loader-split", "needs split=\"...\" or annotations=\"...\"");
        dg_check_help(k, "split=\"train\" reads annotations/train.json below root");
    } else if (c->split && c->annotations) {
        dg_check_fail(k, "split", "loader-split",
                      "split and annotations name the same thing: give one of them");
    }
}

const dg_node_class dg_node_loader_coco = {
    DG_NODE_CLASS,
    .name = "loader.coco",
    .role = DG_ROLE_LOADER,
    .brief = "A data set in COCO form: an annotation file and a folder of images.",
    .doc = "Category ids may be any numbers: they become 0, 1, ... in ascending order, and results "
           "use the original ids. Crowd regions are not trained on, and evaluated by COCO's rules. "
           "Images without objects are kept.",
    .ports = dg_loader_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = dg_loader_rules,
    .check = check_coco,
    .open = open_set,
};
