/* index.h: what loaders of indexed data sets have in common: the data set that they open, and the attributes that say
 * how it is treated. */
#ifndef DG_NODES_LOADER_INDEX_H
#define DG_NODES_LOADER_INDEX_H

#include <detrgraph/node.h>

extern const dg_port dg_loader_ports[];
extern const dg_rule dg_loader_rules[];

/* Of a conf struct with DG_LOADER_FIELDS. */
#define DG_LOADER_FIELDS                  \
    int64_t on_error, files, part;        \
    double  hold_out
#define DG_LOADER_ATTRS(conf)                                                                                          \
    DG_ENUM(conf, on_error, 0, "stop|replace",                                                                         \
            "an image that cannot be read: stop the run with its name, or take another sample and count"),             \
    DG_ENUM(conf, files, 0, "same|rank", "every rank sees the same data set, compared at the start, or its own"),      \
    DG_NUM(conf, hold_out, 0, 0, 0.9,                                                                                  \
           "share of the images that is set aside for evaluation, chosen by their names; 0: none"),                    \
    DG_ENUM(conf, part, 0, "rest|held", "with hold_out: the images that stay for training, or those set aside")
#define DG_LOADER_HOW(c) \
    (&(dg_loader_how){ .replace = (c)->on_error == 1, .hold_out = (c)->hold_out, .held = (c)->part == 1 })

typedef struct dg_loader_how {
    bool   replace, held;
    double hold_out;
} dg_loader_how;

/* part without hold_out */
void dg_loader_check(dg_check *k, const dg_loader_how *how);

/* The data set of index c, which it takes, on failure too; images stand in folder. */
int dg_loader_open(dg_dataset **data, dg_coco *c, const char *folder, const dg_loader_how *how, dg_diag *d) DG_MUST_USE;

#endif
