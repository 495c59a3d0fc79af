/* fuzz_find.h: what the engine and the simulator say of one model, and a finding made small. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_FIND_H
#define DG_TESTS_INVARIANCE_FUZZ_FIND_H

#include "tests/invariance/fuzz_judge.h"
#include "tests/invariance/fuzz_run.h"

/* Of 80 rejected pipelines that diverge by their programs all do within 16 runs, 75 within 3. */
enum { FZ_RUNS = 40, FZ_PROGRAM_RUNS = 16 };

/* The engine's opinion; text: NULL, or receives the pipeline and what was reported. */
fz_opinion fz_ask(fz_judge *j, const fz_model *m, char *text, size_t n);

/* Does the model diverge in one of its runs? thorough: evidence over all runs counts, too. */
bool fz_diverges(const fz_model *m, uint64_t seed, bool thorough, fz_fault *f);
/* The same by the printed programs of what the judge was asked last. */
bool fz_programs_diverge(fz_judge *j, const fz_model *m, uint64_t seed, fz_fault *f);

typedef struct fz_finding {
    fz_judge *judge;
    uint64_t seed;
    uint32_t codes; /* 0: accepted and diverges; else: rejected for them, and does not */
} fz_finding;

/* Leaves out what the finding does not need. */
void fz_shrink(const fz_finding *f, fz_model *m);

/* The pipeline, its verdict and its first divergence, as comments. */
void fz_show(fz_judge *j, const fz_model *m, uint64_t seed);
void fz_print_commented(const char *text);

#endif
