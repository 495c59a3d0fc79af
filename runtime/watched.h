/* watched.h: the results of a program that monitors watch, by the instruction that makes them: "watch/NUMBER[.key]" is
 * compared as it is, of "fires/NUMBER" whether it is 0. */
#ifndef DG_RUNTIME_WATCHED_H
#define DG_RUNTIME_WATCHED_H

#include "runtime/exec.h"
#include "runtime/witness.h"

typedef struct dg_watched dg_watched;

bool        dg_watched_is(const char *result); /* is it one of those? */
dg_watched *dg_watched_find(dg_arena *a, const dg_program *p);
/* Shows the witness what instruction i of x has made; off: it was skipped, and what it makes is not there. i is the number
 * of instructions: what the host has written. */
int dg_watched_see(const dg_watched *l, dg_witness *w, const dg_exec *x, const dg_backend *b, int i, bool off,
                   dg_diag *d) DG_MUST_USE;

#endif
