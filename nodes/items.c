/* items.c: see items.h. */
#include "nodes/items.h"

int32_t dg_item_of(int32_t item)
{
    return item < 0 ? ~item : item;
}

int32_t dg_item_padding(int32_t item)
{
    return item < 0 ? item : ~item;
}

void dg_items_shuffle(int32_t *items, int64_t n, dg_draw *draw)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = dg_draw_below(draw, i + 1);
        int32_t t = items[i];

        items[i] = items[j];
        items[j] = t;
    }
}
