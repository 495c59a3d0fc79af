/* cast.h: conversions for other files of the host backend. */
#ifndef DG_KERNELS_HOST_SIMD_CAST_H
#define DG_KERNELS_HOST_SIMD_CAST_H

#include <stdint.h>

typedef struct dg_host_convert {
    void (*widen)(void *to, const void *from, int64_t n, int threads);  /* bf16 -> f32 */
    void (*narrow)(void *to, const void *from, int64_t n, int threads); /* f32 -> bf16 */
    /* to [n,width] = bias + sum over parts of from [n,parts,width]; bias may be NULL */
    void (*add_parts)(float *to, const float *from, const float *bias, int64_t n, int64_t width,
                      int64_t parts, int threads);
} dg_host_convert;

#endif
