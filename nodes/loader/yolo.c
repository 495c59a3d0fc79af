/* yolo.c: <loader.yolo>: a data set in YOLO's form.
 *
 *  ROOT/data.yaml with path, train, val, names; labels: .../images/a.jpg, .../labels/a.txt
 *  ROOT/images/SPLIT and ROOT/labels/SPLIT, or ROOT/SPLIT/images and ROOT/SPLIT/labels */
#include "nodes/loader/index.h"

typedef struct conf {
    const char *root, *split, *classes;
    bool masks;
    DG_LOADER_FIELDS;
} conf;

static const dg_attr attrs[] = {
    DG_PATH_REQUIRED(conf, root,
                     "folder of the data set, or its .yaml file; with files=\"rank\", {rank} is "
                     "replaced by the rank's number here and in split"),
    DG_STR(conf, split, NULL,
           "\"train\", \"val\" or \"test\", as in the .yaml file, or a folder; if omitted, all of "
           "images/"),
    DG_STR(conf, classes, NULL,
           "comma-separated class names in the order of their numbers; if omitted, from the .yaml "
           "file, or classes.txt"),
    DG_BOOL(conf, masks, false, "keep polygons as masks; an object with a box alone is an error"),
    DG_LOADER_ATTRS(conf),
    { 0 },
};

static int open_set(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    const conf *c = self;
    const dg_data_source from = { .size = sizeof from,
                                  .root = c->root,
                                  .split = c->split,
                                  .classes = c->classes,
                                  .replace = c->on_error == 1,
                                  .masks = c->masks };
    dg_coco *index = NULL;
    int rc = dg_yolo_open(&index, &from, d);

    (void)seed;
    return rc < 0 ? rc : dg_loader_open(data, index, dg_coco_folder(index), DG_LOADER_HOW(c), d);
}

static void check_yolo(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_loader_check(k, DG_LOADER_HOW(c));
}

const dg_node_class dg_node_loader_yolo = {
    DG_NODE_CLASS,
    .name = "loader.yolo",
    .role = DG_ROLE_LOADER,
    .brief = "A data set in the form of YOLO: a .txt file of labels for each image.",
    .doc = "A line is a class number and a box (centre and sides as fractions of the image's), or "
           "a polygon, whose bounding box is used, and with masks its inside. An image without a "
           "label file, or with an empty "
           "one, has no objects. Image sizes are read from their headers.",
    .ports = dg_loader_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = dg_loader_rules,
    .check = check_yolo,
    .open = open_set,
};
