/* toy_rank.h: the toy detector on several ranks: this test's own program, once more for each rank,
 * with what it is to do in its arguments. */
#ifndef DG_TESTS_RANKS_TOY_RANK_H
#define DG_TESTS_RANKS_TOY_RANK_H

#include "tests/train/toy.h"

enum { TOY_RANKS = 4 };

/* A start of all ranks. */
typedef struct start {
    int ranks;
    const char *out;       /* below the test's folder */
    const char *precision; /* NULL: f64 */
    const char *text;      /* NULL: toy_ranks_text */
    int64_t global;        /* images of a step over all ranks; 0: 8 */
    int64_t steps;         /* stop after so many; 0: the pipeline's end */
    bool resume;
    const char *batch; /* "batch=auto", say, instead of a part of `global` */
    const char *lr;    /* NULL: 1e-2 */
    int odd;           /* this rank does something of its own: */
    const char *trick; /*   "kill N", "stop N" after step N; "weights", "text", "width"; NULL */
} start;

typedef struct outcome {
    int status[TOY_RANKS]; /* 0, or the code of dg_run_train, negated; 128 + signal */
    char *said[TOY_RANKS]; /* diagnostics */
    int n;                 /* steps that were reported */
    double loss[TOY_RANKS][64];
    double seconds;
} outcome;

/* What is the same in every run: sampler, gradients, log and evaluation over dp. train: attributes
 * of <train>; loss: of the loss. */
const char *toy_ranks_text(dg_arena *a, const char *train, const char *loss, const char *end);
outcome toy_ranks_run(toy *t, start s);
outcome toy_ranks_well(toy *t, start s); /* that ends well, with the same losses on every rank */

/* Files below the test's folder; runs by their folders: their checkpoints; scores: of the last
 * evaluation, without times. */
void toy_same_file(toy *t, const char *a, const char *b);
void toy_same_run(toy *t, const char *a, const char *b);
char *toy_scores(toy *t, const char *out);
void toy_same_losses(const outcome *one, const outcome *many, int n, double tolerance);

/* In main: is this process a rank? Then its exit status. */
bool toy_rank_main(int argc, char **argv, int *status);

#endif
