/* marks.c: <loader.labelme>, <loader.cvat>, <loader.csv>: data sets whose files list boxes with
 * names by image. They differ in the files' form alone. */
#include "nodes/loader/index.h"

typedef struct conf {
    const char *root, *split, *classes;
    DG_LOADER_FIELDS;
} conf;

static const dg_attr attrs[] = {
    DG_PATH_REQUIRED(conf, root,
                     "folder of the data set; with files=\"rank\", {rank} is replaced by the "
                     "rank's number here and in split"),
    DG_STR(conf, split, NULL,
           "one of several files, by its name without ending, or one of several folders; if "
           "omitted, the whole data set"),
    DG_STR(conf, classes, NULL,
           "comma-separated class names in the order of their numbers; if omitted, from "
           "ROOT/classes.txt, else those of all files in alphabetical order"),
    DG_LOADER_ATTRS(conf),
    { 0 },
};

typedef int open_form(dg_coco **out, const dg_data_source *from, dg_diag *d);

static int open_set(dg_dataset **data, const conf *c, open_form *open, dg_diag *d)
{
    const dg_data_source from = {
        .size = sizeof from,
        .root = c->root,
        .split = c->split,
        .classes = c->classes,
        .replace = c->on_error == 1,
    };
    dg_coco *index = NULL;
    int rc = open(&index, &from, d);

    return rc < 0 ? rc : dg_loader_open(data, index, dg_coco_folder(index), DG_LOADER_HOW(c), d);
}

static int open_labelme(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    (void)seed;
    return open_set(data, self, dg_labelme_open, d);
}

static int open_cvat(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    (void)seed;
    return open_set(data, self, dg_cvat_open, d);
}

static int open_csv(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d)
{
    (void)seed;
    return open_set(data, self, dg_csv_open, d);
}

static void check(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_loader_check(k, DG_LOADER_HOW(c));
}

#define LOADER(word, says)                                                                      \
    const dg_node_class dg_node_loader_##word = {                                               \
        DG_NODE_CLASS,                                                                          \
        .name = "loader." #word,                                                                \
        .role = DG_ROLE_LOADER,                                                                 \
        .brief = says,                                                                          \
        .ports = dg_loader_ports,                                                               \
        .attrs = attrs,                                                                         \
        .rules = dg_loader_rules,                                                               \
        .conf_size = sizeof(conf),                                                              \
        .check = check,                                                                         \
        .open = open_##word,                                                                    \
        .doc = "Objects name their classes. The numbering is the same in every split: by "      \
               "`classes`, by ROOT/classes.txt, or over all files of the data set. Images are " \
               "ordered by name; ids count from 1.",                                            \
    }

LOADER(labelme, "A data set of LabelMe: a .json file for each image.");
LOADER(cvat, "A data set of CVAT: an .xml file (\"CVAT for images 1.1\") for many images.");
LOADER(csv, "A data set in a table: a .csv file with a row for each box.");
