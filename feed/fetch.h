/* fetch.h: from an item of the data set to a sample for the batch: loader, replacements for what
 * cannot be read, and the nodes that change samples. */
#ifndef DG_FEED_FETCH_H
#define DG_FEED_FETCH_H

#include "feed/feeder.h"

/* Of one thread. The caller sets conf, scratch and d once, clock and at before each batch. */
typedef struct dg_fetching {
    const dg_feeder_conf *conf;
    dg_scratch *scratch; /* of one sample, with the further images it takes */
    dg_diag *d;          /* replaced samples; why one failed */
    dg_clock clock;
    const dg_node *at; /* the node being executed */
    int n_replaced;
    /* of the sample: its number in the run, its index among this rank's, the node at work */
    uint64_t number, own;
    int node;
    int depth; /* of the image that is made: 0: the sample; 1: a further image of it; ... */
    dg_further further;
} dg_fetching;

/* Makes sample `number`, the rank's own-th, of an item. If the nodes drop it, another item is
 * drawn. */
int dg_fetch_sample(dg_fetching *f, int item, uint64_t number, uint64_t own, dg_sample *out)
    DG_MUST_USE;

#endif
