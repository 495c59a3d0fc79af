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

void dg_rng_uniforms(dg_rng_key key, uint64_t from, double *out, int64_t n)
{
    const uint64_t k = (uint64_t)key.k[1] << 32 | key.k[0];

    for (int64_t i = 0; i < n;) { /* a block of four words is two values */
        uint64_t at = from + (uint64_t)i;
        uint32_t w[4];

        dg_philox_words(k, (const uint32_t[4]){ (uint32_t)(at / 2) }, w);
        if (at % 2 == 0)
            out[i++] = unit((uint64_t)w[0] << 32 | w[1]);
        if (i < n)
            out[i++] = unit((uint64_t)w[2] << 32 | w[3]);
    }
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
