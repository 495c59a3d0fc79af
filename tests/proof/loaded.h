/* loaded.h: a pipeline loaded and lowered for the tests of the second look, which must not depend
 * on the proof of the graph. */
#ifndef DG_TESTS_PROOF_LOADED_H
#define DG_TESTS_PROOF_LOADED_H

#include "tests/check.h"

#include "proof/second.h"

typedef struct loaded {
    dg_diag *d;
    dg_registry *r;
    dg_graph *g; /* NULL: it could not be read */
    dg_params *params;
    dg_arena *a;
} loaded;

/* With the program's classes and those of tests/invariance/declared.c; dp="ranks" are two. */
void load(loaded *x, const char *text, const char *file);
void unload(loaded *x);

/* The program of a scope at number `which` of its sizes, after all passes; NULL: there is none, or
 * it cannot be lowered. */
dg_program *lowered(loaded *x, const dg_scope *scope, int which);
dg_program *lowered_only(loaded *x, const dg_scope *scope, int which); /* before them */
/* The scopes that have a program, <train> first; NULL after the last. */
const dg_scope *scope_of(const loaded *x, int i);

/* The folder of tests/invariance's cases; they are read from it. */
int enter_cases(void);
char *read_file(const char *file); /* free with dg_free */

#endif
