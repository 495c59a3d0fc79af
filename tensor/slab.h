/* slab.h: places blocks with lifetimes in one slab. */
#ifndef DG_TENSOR_SLAB_H
#define DG_TENSOR_SLAB_H

#include "base/arena.h"

enum { DG_ALIGN = 64 };
static inline int64_t dg_align(int64_t bytes)
{
    return (bytes + DG_ALIGN - 1) / DG_ALIGN * DG_ALIGN;
}

typedef struct dg_block {
    int64_t bytes;   /* a multiple of DG_ALIGN */
    int first, last; /* live from instruction first to last, inclusive */
    int64_t offset;  /* result */
} dg_block;

/* sets the offsets; returns the size of the slab in bytes */
int64_t dg_slab_pack(dg_block *blocks, int n);
int64_t dg_live_peak(const dg_block *blocks, int n); /* lower bound of any slab */

#endif
