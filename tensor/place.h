/* place.h: gives blocks that live over intervals their offsets in one slab. */
#ifndef DG_TENSOR_PLACE_H
#define DG_TENSOR_PLACE_H

#include "base/arena.h"

enum { DG_ALIGN = 64 };
static inline int64_t dg_align(int64_t bytes)
{
    return (bytes + DG_ALIGN - 1) / DG_ALIGN * DG_ALIGN;
}

typedef struct dg_block {
    int64_t bytes;       /* a multiple of DG_ALIGN */
    int     first, last; /* instructions, both included */
    int64_t offset;      /* out */
} dg_block;

int64_t dg_place(dg_block *blocks, int n);                     /* bytes of the slab */
int64_t dg_live_peak(const dg_block *blocks, int n, int n_at); /* no slab can be smaller */

#endif
