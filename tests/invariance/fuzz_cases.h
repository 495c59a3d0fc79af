/* fuzz_cases.h: pipelines that people wrote, for the simulator. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_CASES_H
#define DG_TESTS_INVARIANCE_FUZZ_CASES_H

#include "tests/invariance/fuzz_model.h"

/* Reads a pipeline with its includes and lets. False with a reason if it cannot be read, or has
 * something that a model cannot say. */
bool fz_read_file(fz_model *m, const char *file, char *why, size_t n);

enum { FZ_ALIKE = -2 };
/* What the first lines of a case expect: 1 reject, 0 accept, -1 nothing, FZ_ALIKE: reject, though
 * ranks stay alike. codes: room for n. */
int fz_expected(const char *file, char *codes, size_t n);

#endif
