/* followed.h: every help line of a pipeline's errors and warnings is followed word by word, and
 * what comes of it is validated: it must be accepted, or what is wrong next must be something else.
 */
#ifndef DG_TESTS_PROOF_FOLLOWED_H
#define DG_TESTS_PROOF_FOLLOWED_H

#include "tests/proof/edits.h"
#include "tests/proof/loaded.h"

typedef struct counts {
    int cases, errors, excused, lines, accepted, next;
} counts;

/* What is said of a pipeline, also when it is to be run: in x->d. */
void prove(loaded *x, const char *text, const char *file);
/* The first of the files, which are written to the current folder. A pipeline that no edit can mend
 * says why: <!-- no-advice: ID reason -->. False: a line does not help; it was printed. */
bool follow_all(const files *all, counts *sum);

#endif
