/* rng.h: counter-based random numbers, Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A draw is a pure function of (key, counter): threads, ranks and restarts never change it. A
 * key is made from the run's seed and a name; the counter is what tells draws of one name apart:
 * (step, sample, index). */
#ifndef DG_BASE_RNG_H
#define DG_BASE_RNG_H

#include <stdint.h>

typedef struct dg_rng_key { uint32_t k[2]; } dg_rng_key;

dg_rng_key dg_rng_named(uint64_t seed, const char *name); /* seed mixed with FNV-1a of name */
dg_rng_key dg_rng_hashed(uint64_t seed, uint64_t hash);   /* where only that hash is at hand */
void dg_philox(dg_rng_key key, const uint32_t counter[4], uint32_t out[4]);

/* A sequential stream over one (key, a, b): draws number 0, 1, 2, ... */
typedef struct dg_rng {
    dg_rng_key key;
    uint64_t   a;
    uint32_t   b, block;
    uint32_t   out[4];
    int        left;
} dg_rng;

dg_rng   dg_rng_begin(dg_rng_key key, uint64_t a, uint32_t b);
uint32_t dg_rng_u32(dg_rng *r);
double   dg_rng_uniform(dg_rng *r);                     /* [0,1), 53 bits, two u32 */
double   dg_rng_range(dg_rng *r, double lo, double hi); /* [lo,hi) */
uint64_t dg_rng_below(dg_rng *r, uint64_t n);           /* 0 <= result < n, unbiased */
/* N(0,1) by Box-Muller from one pair of draws, whose second normal is dropped. */
double dg_rng_normal(dg_rng *r);

/* f32 uniform [0,1) with 24 bits from one u32: what kernels draw, identical on every device. */
static inline float dg_u32_to_unit(uint32_t u) { return (float)(u >> 8) * 0x1p-24f; }

#endif
