/* host.h: what the files of the host backend share. */
#ifndef DG_KERNELS_HOST_HOST_H
#define DG_KERNELS_HOST_HOST_H

#include <detrgraph/kernel.h>

/* Whether an optional operand is there, as prepare sees it (no data yet). */
static inline bool dg_host_given(const dg_tensor *t)
{
    return t->dtype != DG_REAL && t->shape.rank >= 0;
}

/* bf16 <-> f32, rounding to nearest even. */
void dg_host_widen(void *to, const void *from, int64_t n, int threads);
void dg_host_narrow(void *to, const void *from, int64_t n, int threads);

#endif
