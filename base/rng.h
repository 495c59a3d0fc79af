/* rng.h: counter-based random numbers, Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A draw is a pure function of (key, counter), so threads, ranks and restarts cannot change it. The
 * key comes from the run's seed and a name; the counter (step, sample, index) tells draws of one
 * name apart. */
#ifndef DG_BASE_RNG_H
#define DG_BASE_RNG_H

#include <stdint.h>

typedef struct dg_rng_key {
    uint32_t k[2];
} dg_rng_key;

dg_rng_key dg_rng_named(uint64_t seed, const char *name); /* seed mixed with FNV-1a of name */
dg_rng_key dg_rng_hashed(uint64_t seed, uint64_t hash);   /* the same, from the name's hash */
void dg_philox(dg_rng_key key, const uint32_t counter[4], uint32_t out[4]);

/* A sequence of draws 0, 1, 2, ... for one (key, a, b). */
typedef struct dg_rng {
    dg_rng_key key;
    uint64_t a;
    uint32_t b, block;
    uint32_t out[4];
    int left;
} dg_rng;

dg_rng dg_rng_begin(dg_rng_key key, uint64_t a, uint32_t b);
/* A fresh sequence without its first n values of dg_rng_u32; costs the same for every n. */
void dg_rng_skip(dg_rng *r, uint64_t n);
uint32_t dg_rng_u32(dg_rng *r);
double dg_rng_uniform(dg_rng *r); /* [0,1), 53 bits from two u32 */
/* Values from..from+n-1 of dg_rng_uniform of the fresh sequence (key, 0, 0): many at a time. */
void dg_rng_uniforms(dg_rng_key key, uint64_t from, double *out, int64_t n);
double dg_rng_range(dg_rng *r, double lo, double hi); /* [lo,hi) */
/* dg_rng_range from a value of dg_rng_uniform. */
static inline double dg_rng_scaled(double uniform, double lo, double hi)
{
    double v = lo + (hi - lo) * uniform;

    return v < hi ? v : lo; /* rounding may reach hi, which is excluded */
}
uint64_t dg_rng_below(dg_rng *r, uint64_t n); /* 0 <= result < n, unbiased */
/* N(0,1) by Box-Muller from two uniforms; the pair's second normal is dropped. */
double dg_rng_normal(dg_rng *r);

/* Uniform [0,1) with 24 bits from one u32, as kernels draw it; exact on every device. */
static inline float dg_u32_to_unit(uint32_t u)
{
    return (float)(u >> 8) * 0x1p-24f;
}

#endif
