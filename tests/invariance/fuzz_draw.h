/* fuzz_draw.h: random pipelines: legal idioms, wired at random, with some faults. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_DRAW_H
#define DG_TESTS_INVARIANCE_FUZZ_DRAW_H

#include "tests/invariance/fuzz_model.h"

/* The model of a seed. */
void fz_draw(fz_model *m, uint64_t seed);

/* Takes a node out, and all that cannot do without it. */
void fz_remove(fz_model *m, int node);
/* Takes a node out of the wire that goes through it. */
void fz_bypass(fz_model *m, int node);
/* What the last rank has read: a file without a node that others have, or the same graph. */
void fz_peer(fz_model *peer, const fz_model *m);

#endif
