/* cast.h: conversions for other files of the host backend. */
#ifndef DG_KERNELS_HOST_SIMD_CAST_H
#define DG_KERNELS_HOST_SIMD_CAST_H

#include <stdint.h>

typedef struct dg_host_convert {
    void (*widen)(void *to, const void *from, int64_t n, int threads);  /* bf16 -> f32 */
    void (*narrow)(void *to, const void *from, int64_t n, int threads); /* f32 -> bf16 */
} dg_host_convert;

#endif
