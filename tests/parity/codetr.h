/* codetr.h: what Co-DETR's fixtures have that others have not: images of different size in one
 * canvas, random choices by keys, and a trainer of three kinds of heads. */
#ifndef TESTS_PARITY_CODETR_H
#define TESTS_PARITY_CODETR_H

#include "tests/parity/fixture.h"

/* One batch: a step of a trace or the whole file. suffix: of the names of draws. */
typedef struct codetr_batch {
    const char *images, *suffix;
    const dg_json *sizes, *targets, *denoising;
    int64_t h, w; /* of the canvas */
} codetr_batch;

/* The input of a name, or the draw whose name ends in it; false: there is none. */
bool codetr_input(const fixture *f, const char *name, dg_run_tensor *out);
/* Keys of random choices of the other heads; with --parts there may be none. */
int codetr_feed_keys(fixture *f, const codetr_batch *batch) DG_MUST_USE;
/* Compares what the other heads chose. Returns whether regions have the fixture's order. */
bool codetr_check_choices(fixture *f, const dg_json *step);
/* A value [B,n,...] of regions without its void rows: [N,...]. */
double *codetr_regions(fixture *f, const char *name, dg_shape *shape);

/* Selects the scope's program for the batch's canvas and feeds all inputs. */
int codetr_feed(fixture *f, const char *scope, const codetr_batch *batch) DG_MUST_USE;
/* Compares the denoising queries with those listed. */
int codetr_check_denoising(fixture *f, const codetr_batch *batch) DG_MUST_USE;
/* Selected tokens and assignments. */
int codetr_check_queries(fixture *f, const dg_json *step) DG_MUST_USE;
int codetr_check_losses(fixture *f, const dg_json *step, double total, double term) DG_MUST_USE;

int codetr_train_step(fixture *f) DG_MUST_USE;
int codetr_eval(fixture *f) DG_MUST_USE;
int codetr_trace(fixture *f) DG_MUST_USE;

#endif
