/* pack.h: a matrix as the library's products read their second operand in bf16. */
#ifndef DG_KERNELS_HOST_SIMD_PACK_H
#define DG_KERNELS_HOST_SIMD_PACK_H

#include <stdbool.h>
#include <stdint.h>

/* [k,n] in f32, or in bf16 if low. Elements are k_step and n_step apart; one of both is 1. */
typedef struct dg_host_matrix {
    const void *data;
    int64_t k, n, k_step, n_step;
    bool low;
} dg_host_matrix;

enum { DG_HOST_PACKED_DEPTH = 32 };

typedef struct dg_host_packing {
    /* to: [n / width, k / DG_HOST_PACKED_DEPTH, DG_HOST_PACKED_DEPTH / 2, width, 2] in bf16, zero
     * where there is no element; width is a multiple of 16 */
    void (*pack)(void *to, const dg_host_matrix *from, int64_t width, int threads);
} dg_host_packing;

#endif
