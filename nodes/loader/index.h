/* index.h: what loaders of indexed data sets have in common: the data set that they open, and the attributes that say
 * how it is treated. */
#ifndef DG_NODES_LOADER_INDEX_H
#define DG_NODES_LOADER_INDEX_H

#include <detrgraph/node.h>

extern const dg_port dg_loader_ports[];
extern const dg_rule dg_loader_rules[];

/* Of a conf struct with int64_t on_error and files. */
#define DG_LOADER_ATTRS(conf)                                                                                          \
    DG_ENUM(conf, on_error, 0, "stop|replace",                                                                         \
            "an image that cannot be read: stop the run with its name, or take another sample and count"),             \
    DG_ENUM(conf, files, 0, "same|rank", "every rank sees the same data set, compared at the start, or its own")

/* The data set of index c, which it takes, on failure too; images stand in folder. */
int dg_loader_open(dg_dataset **data, dg_coco *c, const char *folder, bool replace, dg_diag *d) DG_MUST_USE;

#endif
