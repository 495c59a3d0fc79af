/* index.h: shared by loaders of indexed data sets: the data set they open, and their common
 * attributes. */
#ifndef DG_NODES_LOADER_INDEX_H
#define DG_NODES_LOADER_INDEX_H

#include <detrgraph/node.h>

extern const dg_port dg_loader_ports[];
extern const dg_rule dg_loader_rules[];

/* Members, attributes and options for a conf struct. */
#define DG_LOADER_FIELDS           \
    int64_t on_error, files, part; \
    double hold_out
#define DG_LOADER_ATTRS(conf)                                                                      \
    DG_ENUM(conf, on_error, 0, "stop|replace",                                                     \
            "for an unreadable image: end the run with an error, or use another image and count "  \
            "the replacement"),                                                                    \
        DG_ENUM(conf, files, 0, "same|rank",                                                       \
                "all ranks have the same data set (verified at the start), or each its own"),      \
        DG_NUM(conf, hold_out, 0, 0, 0.9,                                                          \
               "fraction of the images held out for evaluation, by class and file name; 0: none"), \
        DG_ENUM(conf, part, 0, "rest|held",                                                        \
                "with hold_out: the images for training, or those held out")
#define DG_LOADER_HOW(c) \
    (&(dg_loader_how){   \
        .replace = (c)->on_error == 1, .hold_out = (c)->hold_out, .held = (c)->part == 1 })

typedef struct dg_loader_how {
    bool replace, held, masks; /* masks: samples have them */
    double hold_out;
} dg_loader_how;

/* Reports part without hold_out. */
void dg_loader_check(dg_check *k, const dg_loader_how *how);

/* Opens a data set over index c, whose ownership passes even on failure; images are in folder. */
int dg_loader_open(dg_dataset **data, dg_coco *c, const char *folder, const dg_loader_how *how,
                   dg_diag *d) DG_MUST_USE;

#endif
