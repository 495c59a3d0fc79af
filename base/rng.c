/* rng.c: Philox4x32-10 (philox.h); Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3" (SC 2011). */
#include "base/rng.h"

#include <math.h>

#include "base/philox.h"
#include "base/str.h"

dg_rng_key dg_rng_hashed(uint64_t seed, uint64_t hash)
{
    uint64_t x = dg_philox_key(seed, hash);

    return (dg_rng_key){ { (uint32_t)x, (uint32_t)(x >> 32) } };
}

dg_rng_key dg_rng_named(uint64_t seed, const char *name)
{
    return dg_rng_hashed(seed, dg_fnv1a_text(name));
}

void dg_philox(dg_rng_key key, const uint32_t counter[4], uint32_t out[4])
{
    dg_philox_words((uint64_t)key.k[1] << 32 | key.k[0], counter, out);
}

dg_rng dg_rng_begin(dg_rng_key key, uint64_t a, uint32_t b)
{
    return (dg_rng){ .key = key, .a = a, .b = b };
}

void dg_rng_skip(dg_rng *r, uint64_t n)
{
    r->block = (uint32_t)(n / 4);
    r->left = 0;
    for (uint64_t i = 0; i < n % 4; i++)
        (void)dg_rng_u32(r);
}

uint32_t dg_rng_u32(dg_rng *r)
{
    if (r->left == 0) {
        const uint32_t counter[4] = { r->block++, r->b, (uint32_t)r->a, (uint32_t)(r->a >> 32) };

        dg_philox(r->key, counter, r->out);
        r->left = 4;
    }
    return r->out[4 - r->left--];
}

static uint64_t u64(dg_rng *r)
{
    uint64_t high = dg_rng_u32(r);

    return high << 32 | dg_rng_u32(r);
}

static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double dg_rng_uniform(dg_rng *r)
{
    return unit(u64(r));
}

enum { LANES = 16 };

/* Values 2 at .. 2 (at + LANES) - 1: a block of four words is two of them. Blocks are computed side
 * by side, because each is one long chain of products. */
static void fill_lanes(dg_rng_key key, uint64_t at, double *out)
{
    uint32_t c[4][LANES] = { { 0 } }, k0 = key.k[0], k1 = key.k[1];

    for (uint32_t l = 0; l < LANES; l++)
        c[0][l] = (uint32_t)at + l;
    for (int round = 0; round < DG_PHILOX_ROUNDS; round++) {
        for (int l = 0; l < LANES; l++)
            dg_philox_round(&c[0][l], &c[1][l], &c[2][l], &c[3][l], k0, k1);
        k0 += DG_PHILOX_W0;
        k1 += DG_PHILOX_W1;
    }
    for (int l = 0; l < LANES; l++) {
        out[2 * l] = unit((uint64_t)c[0][l] << 32 | c[1][l]);
        out[2 * l + 1] = unit((uint64_t)c[2][l] << 32 | c[3][l]);
    }
}

void dg_rng_uniforms(dg_rng_key key, uint64_t from, double *out, int64_t n)
{
    int64_t i = 0;
    dg_rng r = dg_rng_begin(key, 0, 0);

    if (n > 0 && from % 2) {
        dg_rng_skip(&r, 2 * from);
        out[i++] = dg_rng_uniform(&r);
    }
    for (; n - i >= 2 * LANES; i += 2 * LANES)
        fill_lanes(key, (from + (uint64_t)i) / 2, out + i);
    dg_rng_skip(&r, 2 * (from + (uint64_t)i));
    for (; i < n; i++)
        out[i] = dg_rng_uniform(&r);
}

double dg_rng_range(dg_rng *r, double lo, double hi)
{
    return dg_rng_scaled(dg_rng_uniform(r), lo, hi);
}

uint64_t dg_rng_below(dg_rng *r, uint64_t n)
{
    /* 2^64 mod n: draws below it are rejected, else small results would be favoured */
    uint64_t uneven = n ? -n % n : 0;
    uint64_t v;

    do
        v = u64(r);
    while (v < uneven);
    return n ? v % n : 0;
}

double dg_rng_normal(dg_rng *r)
{
    double u = 1 - dg_rng_uniform(r), v = dg_rng_uniform(r); /* u > 0 */

    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}
