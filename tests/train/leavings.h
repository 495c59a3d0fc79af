/* leavings.h: what a run of the toy has left in its folder, for tests that look into it. A name is
 * below the toy's folder. */
#ifndef TESTS_TRAIN_LEAVINGS_H
#define TESTS_TRAIN_LEAVINGS_H

#include "tests/train/toy.h"

#include "media/json.h"

int train(toy *t, const char *out, toy_text text, dg_run_train_options o);
void check_ok(toy *t, int rc);

const dg_json *json_of(toy *t, const char *name);
const char *text_of(toy *t, const char *name);
const dg_json *at(const dg_json *o, const char *key); /* which must be there */
void has(const char *page, const char *words);

#endif
