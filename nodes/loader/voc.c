/* voc.c: <loader.voc>: a data set in Pascal VOC's form.
 *
 *  ROOT/JPEGImages/..., ROOT/Annotations/....xml, ROOT/ImageSets/Main/SPLIT.txt
 *  ROOT/SPLIT/....xml and images beside them, or ROOT/....xml without a split */
#include "nodes/loader/index.h"

typedef struct conf {
    const char *root, *split, *classes;
    int64_t difficult, first_pixel;
    DG_LOADER_FIELDS;
} conf;

static const dg_attr attrs[] = {
    DG_PATH_REQUIRED(conf, root,
                     "folder of the data set; with files=\"rank\", {rank} is replaced by the "
                     "rank's number here and in split"),
    DG_STR(conf, split, NULL,
           "reads ROOT/ImageSets/Main/SPLIT.txt, or the folder ROOT/SPLIT; if omitted, the whole "
           "data set"),
    DG_STR(conf, classes, NULL,
           "comma-separated class names in the order of their numbers; if omitted, from "
           "ROOT/classes.txt, else those of all .xml files in alphabetical order"),
    DG_ENUM(conf, difficult, 0, "ignore|keep",
            "difficult objects: ignore them in training and scores, or treat them like others"),
    DG_INT(
        conf, first_pixel, 0, 0, 1,
        "number of the leftmost pixel in the files: 0 for most tools, 1 in the original VOC data"),
    DG_LOADER_ATTRS(conf),
    { 0 },
};

static int open_set(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    const conf *c = self;
    const dg_data_source from = {
        .size = sizeof from,
        .root = c->root,
        .split = c->split,
        .classes = c->classes,
        .difficult = c->difficult == 1,
        .from_one = c->first_pixel == 1,
        .replace = c->on_error == 1,
    };
    dg_coco *index = NULL;
    int rc = dg_voc_open(&index, &from, d);

    (void)seed;
    return rc < 0 ? rc : dg_loader_open(data, index, dg_coco_folder(index), DG_LOADER_HOW(c), d);
}

static void check_voc(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_loader_check(k, DG_LOADER_HOW(c));
}

const dg_node_class dg_node_loader_voc = {
    DG_NODE_CLASS,
    .name = "loader.voc",
    .role = DG_ROLE_LOADER,
    .brief = "A data set in the form of Pascal VOC: an .xml file for each image.",
    .doc = "Objects name their classes. The numbering is the same in every split: by `classes`, by "
           "ROOT/classes.txt, or over all .xml files of the data set. Images are ordered by name; "
           "ids count from 1.",
    .ports = dg_loader_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = dg_loader_rules,
    .check = check_voc,
    .open = open_set,
};
