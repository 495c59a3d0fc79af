/* fuzz_cover.h: what was drawn: classes, words and codes, by verdict. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_COVER_H
#define DG_TESTS_INVARIANCE_FUZZ_COVER_H

#include "tests/invariance/fuzz_judge.h"
#include "tests/invariance/fuzz_model.h"

typedef struct fz_cover {
    int at, n; /* rows come in the same order for every model */
    struct {
        char name[48];
        int sides, seen[2]; /* in how many accepted, and rejected pipelines */
    } row[264];
} fz_cover;

void fz_cover_count(fz_cover *c, const fz_model *m, const fz_opinion *o);
/* Prints the table; false if something was never seen where it can be. */
bool fz_cover_print(const fz_cover *c);

#endif
