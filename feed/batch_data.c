/* batch_data.c: the tensors of a batch that the host itself reads, by the keys of node.h. */
#include <string.h>

#include "feed/feeder.h"

static const char *const keys[DG_N_FEED_KINDS] = {
    [DG_FEED_IMAGES] = "images",
    [DG_FEED_LABELS] = "targets.labels",
    [DG_FEED_BOXES] = "targets.boxes",
    [DG_FEED_COUNT] = "targets.count",
};

const void *dg_feeder_batch_data(const dg_feeder_batch *b, dg_feed_kind kind, dg_shape *shape)
{
    for (int i = 0; i < b->n_feeds; i++) {
        if (strcmp(b->feeds[i].key, keys[kind]) != 0 || !b->data[i])
            continue;
        if (shape)
            *shape = b->feeds[i].shape;
        return b->data[i];
    }
    return NULL;
}
