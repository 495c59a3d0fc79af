/* feeder_rig.h: opens the data nodes of a pipeline for a feeder. */
#ifndef TESTS_FEED_FEEDER_RIG_H
#define TESTS_FEED_FEEDER_RIG_H

#include "tests/check.h"

#include "graph/graph.h"
#include "feed/feeder.h"

typedef struct fixture {
    dg_diag *d;
    dg_registry *registry;
    dg_graph *graph;
    dg_chain chain;
    dg_dataset *data;
} fixture;

/* nodes: the contents of <train>; more: classes beyond the engine's, NULL-terminated, or NULL. */
void open_data(fixture *f, const char *nodes);
void open_data_with(fixture *f, const char *nodes, const dg_node_class *const *more);
void close_data(fixture *f);

dg_feeder_conf conf_of(fixture *f, int threads); /* two epochs on one rank, all tensors */

#define SCENES "<loader.synthetic id=\"data\" images=\"30\" width=\"96\" height=\"64\"/>"
#define CHANGES                                                                          \
    "<augment id=\"aug\" "                                                               \
    "in=\"@pick\"><photometric/><zoom_out/><iou_crop/><flip/></augment><batch id=\"b\" " \
    "in=\"@aug\"/>"

#endif
