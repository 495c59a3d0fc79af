/* fuzz_machine.h: a rank that executes printed programs (fuzz_text.h) in the place of the graph.
 *
 * Operations are functions of which nothing is known but that equal operands give equal results:
 * a value is a digest of what it was made from, and a number that follows from the digest. Known
 * are flags, the arithmetic of single numbers, zeros, guards, collectives and updates. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_MACHINE_H
#define DG_TESTS_INVARIANCE_FUZZ_MACHINE_H

#include "tests/invariance/fuzz_run.h"
#include "tests/invariance/fuzz_text.h"

enum { FZ_REGIONS = 512, FZ_SLOTS = 1024 };

/* A parameter in a space that keeps something, by its place. */
typedef struct fz_region {
    long offset;
    uint64_t digest;
    int busy; /* 1 + the bucket that is under way; 0: none */
} fz_region;

typedef struct fz_machine {
    const fz_text *text;
    bool begun;
    int n_values;
    uint64_t *digest; /* of each value; 0: zeros */
    double *number;   /* of a single number its value, else the sum of all */
    int n_regions[FZ_P_SPACES];
    short slot[FZ_P_SPACES][FZ_SLOTS]; /* 1 + the number of a region, by a hash of its place */
    fz_region region[FZ_P_SPACES][FZ_REGIONS];
} fz_machine;

/* Runs the program of this iteration until it ends; false: waits. */
bool fz_execute(fz_rank *k);
/* What a collective of instructions gives to its members, all blocked in it. */
void fz_answer_instr(fz_rank *const v[], int n);
/* Weights, moments and averages of two ranks. */
void fz_compare_spaces(fz_sim *s, const fz_rank *a, const fz_rank *b);
fz_machine *fz_machine_open(void);
void fz_machine_free(fz_machine **x);

#endif
