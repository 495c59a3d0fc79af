/* items.h: lists of items, as samplers and choices produce them: an item of the data set, or ~item
 * for padding. */
#ifndef DG_NODES_ITEMS_H
#define DG_NODES_ITEMS_H

#include <detrgraph/node.h>

int32_t dg_item_of(int32_t item);      /* the item's number, padding or not */
int32_t dg_item_padding(int32_t item); /* the same item as padding */
void dg_items_shuffle(int32_t *items, int64_t n, dg_draw *draw);

#endif
