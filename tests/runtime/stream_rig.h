/* stream_rig.h: the data nodes of a pipeline, opened for a stream. */
#ifndef TESTS_RUNTIME_STREAM_RIG_H
#define TESTS_RUNTIME_STREAM_RIG_H

#include "tests/check.h"

#include "graph/graph.h"
#include "runtime/stream.h"

typedef struct fixture {
    dg_diag     *d;
    dg_registry *registry;
    dg_graph    *graph;
    dg_chain     chain;
    dg_dataset  *data;
} fixture;

/* nodes: what stands in <train>; more (may be NULL): classes besides those that come with the engine, NULL at the end. */
void open_data(fixture *f, const char *nodes);
void open_data_with(fixture *f, const char *nodes, const dg_node_class *const *more);
void close_data(fixture *f);

dg_stream_conf conf_of(fixture *f, int threads); /* two epochs on one rank, all tensors */

#define SCENES "<loader.synthetic id=\"data\" images=\"30\" width=\"96\" height=\"64\"/>"
#define CHANGES                                                                                            \
    "<augment id=\"aug\" in=\"@pick\"><photometric/><zoom_out/><iou_crop/><flip/></augment><batch id=\"b\" in=\"@aug\"/>"

#endif
