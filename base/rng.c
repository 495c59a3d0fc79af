/* rng.c: Philox4x32-10; Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3"
 * (SC 2011). One round, with (hi, lo) the halves of a 64-bit product:
 *     (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))
 * The key grows by (W0, W1) between rounds. */
#include "base/rng.h"

#include <math.h>

#include "base/str.h"

enum { ROUNDS = 10 };
/* Multipliers and key increments of the paper; the increments are the golden ratio and sqrt(3) -
 * 1. */
static const uint32_t M0 = 0xD2511F53u, M1 = 0xCD9E8D57u;
static const uint32_t W0 = 0x9E3779B9u, W1 = 0xBB67AE85u;

/* Mixes the seed with SplitMix64's finaliser, so that seeds 1, 2, 3 give unrelated keys. */
dg_rng_key dg_rng_hashed(uint64_t seed, uint64_t hash)
{
    uint64_t x = seed + 0x9E3779B97F4A7C15u;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    x ^= hash;
    return (dg_rng_key){ { (uint32_t)x, (uint32_t)(x >> 32) } };
}

dg_rng_key dg_rng_named(uint64_t seed, const char *name)
{
    return dg_rng_hashed(seed, dg_fnv1a_text(name));
}

void dg_philox(dg_rng_key key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key.k[0], k1 = key.k[1];

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)M0 * c0, p1 = (uint64_t)M1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += W0;
        k1 += W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

dg_rng dg_rng_begin(dg_rng_key key, uint64_t a, uint32_t b)
{
    return (dg_rng){ .key = key, .a = a, .b = b };
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

double dg_rng_uniform(dg_rng *r)
{
    return (double)(u64(r) >> 11) * 0x1p-53;
}

double dg_rng_range(dg_rng *r, double lo, double hi)
{
    double v = lo + (hi - lo) * dg_rng_uniform(r);

    return v < hi ? v : lo; /* rounding may reach hi, which is excluded */
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
