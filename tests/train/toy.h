/* toy.h: a detector of a few hundred weights that trains in milliseconds, for tests of whole runs;
 * pipelines of it; and what those tests share. */
#ifndef DG_TESTS_TRAIN_TOY_H
#define DG_TESTS_TRAIN_TOY_H

#include "tests/check.h"

#include <detrgraph/node.h>
#include <detrgraph/run.h>

/* toy.net: a convolution, batch norm, and two linear heads: logits, boxes; `ballast` more elements
 * on request. With fixed="true" the norm has constant statistics. toy.loss: record {loss_class,
 * loss_box}; has a random draw in it; NaN once an image of the batch has more than `breaks`
 * objects; a gradient that is not finite with `cliff`. toy.data: `images` gray images with one box
 * each, of which those from item `broken` on cannot be read. */
extern const dg_node_class *const toy_classes[];

/* A pipeline with data of 40 generated scenes of 32x32 pixels, batch 4: 10 batches an epoch.
 * Strings go into the attributes of <train>, <toy.loss>, <evaluate>, <toy.net>, and (end) before
 * </pipeline>. */
typedef struct toy_text {
    const char *train, *loss, *evaluate, *end, *net;
} toy_text;
const char *toy_pipeline(dg_arena *a, toy_text t);

typedef struct toy {
    char folder[64]; /* of this test; removed at the end */
    dg_arena *arena;
    dg_diag *d;
    dg_str log;                            /* lines of the last runs */
    int threads;                           /* 1 unless set */
    int n_reports, n_evaluations, stop_at; /* stop is 1 from report stop_at on */
    void (*after_step)(struct toy *t);     /* NULL, or called at each report of a step */
} toy;
int toy_set_up(void **state);
int toy_tear_down(void **state);
char *toy_path(toy *t, const char *name);

/* Opens the pipeline; sets as n strings. NULL, and diagnostics in t->d, on failure. */
dg_run *toy_open(toy *t, const char *text, int n, const char *const *sets);
/* Opens, trains, closes. o.size, stop, report and ctx are filled in here. */
int toy_train(toy *t, const char *text, dg_run_train_options o);

#endif
