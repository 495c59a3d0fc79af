/* rig.h: a run of the toy, and what it must say. */
#ifndef DG_TESTS_BAD_RIG_H
#define DG_TESTS_BAD_RIG_H

#include "tests/train/toy.h"

/* Asserts that the only diagnostic has this id and this text; OUT stands for the test's folder. */
void says(toy *t, const char *id, const char *text);

const char *plain(toy *t); /* a pipeline that evaluates late */
/* Trains so many steps (0: all) into "out" of the test's folder, unless o names another. */
int train(toy *t, const char *text, int64_t steps, dg_run_train_options o);
void write_file(toy *t, const char *name, const char *text); /* in the test's folder */

#endif
