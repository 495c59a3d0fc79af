/* draw.c: the random draws of node.h: Philox keyed by (seed, name), with the draw's number as
 * counter. */
#include <detrgraph/node.h>

#include <string.h>

#include "base/rng.h"

_Static_assert(sizeof(dg_rng) <= sizeof(dg_draw), "dg_draw must hold a dg_rng");

dg_draw dg_draw_begin(uint64_t seed, const char *name, uint64_t number)
{
    dg_rng rng = dg_rng_begin(dg_rng_named(seed, name), number, 0);
    dg_draw draw = { { 0 } };

    memcpy(&draw, &rng, sizeof rng);
    return draw;
}

/* Unpacks the generator's state for one draw; the caller packs it again. */
static dg_rng unpack_rng(const dg_draw *r)
{
    dg_rng rng;

    memcpy(&rng, r, sizeof rng);
    return rng;
}

double dg_draw_uniform(dg_draw *r)
{
    dg_rng rng = unpack_rng(r);
    double v = dg_rng_uniform(&rng);

    memcpy(r, &rng, sizeof rng);
    return v;
}

double dg_draw_range(dg_draw *r, double lo, double hi)
{
    dg_rng rng = unpack_rng(r);
    double v = dg_rng_range(&rng, lo, hi);

    memcpy(r, &rng, sizeof rng);
    return v;
}

int64_t dg_draw_below(dg_draw *r, int64_t n)
{
    dg_rng rng = unpack_rng(r);
    int64_t v = (int64_t)dg_rng_below(&rng, (uint64_t)n);

    memcpy(r, &rng, sizeof rng);
    return v;
}
