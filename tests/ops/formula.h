/* formula.h: numbers that follow from a name, in double but exact in f32: the value formula of
 * the stored numbers in data/ops.json (FNV-1a of the name, SplitMix64 over the index). */
#ifndef DG_TESTS_OPS_FORMULA_H
#define DG_TESTS_OPS_FORMULA_H

#include <stdint.h>

#include "base/str.h"

static inline double formula_u(const char *name, int64_t i)
{
    uint64_t z = dg_fnv1a_text(name) + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* a u + b, rounded to f32. */
static inline double formula(const char *name, int64_t i, double a, double b)
{
    return (double)(float)(a * formula_u(name, i) + b);
}

#endif
