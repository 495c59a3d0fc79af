/* philox.h: the words of Philox4x32-10 and the mixing of seeds, for base/rng.c and for kernels of
 * devices; rng.h has the source. One round, with (hi, lo) the halves of a 64-bit product:
 *     (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))
 * The key grows by (W0, W1) between rounds. */
#ifndef DG_BASE_PHILOX_H
#define DG_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define DG_PHILOX static __host__ __device__ inline
#else
#define DG_PHILOX static inline
#endif

/* SplitMix64's finaliser, so that seeds 1, 2, 3 give unrelated keys; a key is two words. */
DG_PHILOX uint64_t dg_philox_key(uint64_t seed, uint64_t hash)
{
    uint64_t x = seed + 0x9E3779B97F4A7C15u;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x ^ hash;
}

/* Multipliers and key increments of the paper; the increments are the golden ratio and sqrt(3) - 1.
 */
#define DG_PHILOX_M0 0xD2511F53u
#define DG_PHILOX_M1 0xCD9E8D57u
#define DG_PHILOX_W0 0x9E3779B9u
#define DG_PHILOX_W1 0xBB67AE85u
#define DG_PHILOX_ROUNDS 10

DG_PHILOX void dg_philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, uint32_t k0,
                               uint32_t k1)
{
    uint64_t p0 = (uint64_t)DG_PHILOX_M0 * *c0, p1 = (uint64_t)DG_PHILOX_M1 * *c2;

    *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
    *c1 = (uint32_t)p1;
    *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
    *c3 = (uint32_t)p0;
}

DG_PHILOX void dg_philox_words(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int i = 0; i < 4; i++)
        out[i] = counter[i];
    for (int round = 0; round < DG_PHILOX_ROUNDS; round++) {
        dg_philox_round(&out[0], &out[1], &out[2], &out[3], k0, k1);
        k0 += DG_PHILOX_W0;
        k1 += DG_PHILOX_W1;
    }
}

#endif
