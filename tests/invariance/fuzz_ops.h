/* fuzz_ops.h: values and operations of the simulated machine (fuzz_machine.h): all that an
 * instruction does on its own rank. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_OPS_H
#define DG_TESTS_INVARIANCE_FUZZ_OPS_H

#include "tests/invariance/fuzz_machine.h"
#include "tests/invariance/fuzz_val.h"

typedef struct fz_datum {
    uint64_t digest; /* 0: zeros */
    double number;   /* of a single number its value, else the sum of all */
} fz_datum;

/* A single number is what it is, however it was made. */
fz_datum fz_single(double x);
uint64_t fz_digest_of(double x);

/* Value v of the program, which may lie in a space that keeps something; 0: none. */
fz_datum fz_get(fz_rank *k, int v);
void fz_put(fz_rank *k, int v, fz_datum d);
/* The parameter at this offset, which is made if it is new. */
fz_region *fz_region_at(fz_rank *k, fz_space s, long offset);
/* A digest of the parameters from element begin to end (0: all). */
uint64_t fz_whole(const fz_rank *k, fz_space s, long begin, long end);

/* The model's node of a path like "train/sync", or FZ_NONE. */
int fz_node_of(const fz_rank *k, const char *path);
int fz_node_at(const fz_rank *k, const fz_t_instr *in);
/* The numbers of the samples of this batch, which draws follow. */
uint64_t fz_samples(const fz_rank *k);

/* x: the operands. */
void fz_compute(fz_rank *k, const fz_t_instr *in, const fz_datum *x);
void fz_update(fz_rank *k, const fz_t_instr *in, const fz_datum *x);

#endif
