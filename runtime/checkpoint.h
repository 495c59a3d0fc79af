/* checkpoint.h: what a run leaves to continue from: OUT/checkpoints/step-000123/{model,ema,optimizer}.safetensors
 * and state.json, written beside and renamed as one folder; links checkpoints/last and checkpoints/best; and
 * OUT/model.safetensors and OUT/ema.safetensors of the last. */
#ifndef DG_RUNTIME_CHECKPOINT_H
#define DG_RUNTIME_CHECKPOINT_H

#include "base/log.h"
#include "runtime/store.h"

/* How far a run has come. */
typedef struct dg_progress {
    int64_t step, batch;    /* updates and batches finished */
    int64_t epoch, index;   /* the next batch: number index of the plan of this epoch */
    int64_t sample;         /* its first global sample */
    double  minutes;        /* of training, all its parts together */
    double  lr;             /* that somebody has set; 0: the schedule's */
    int64_t evaluated;     /* the step after which all evaluations were last run; -1: none yet */
    bool    has_best;
    double  best;           /* the metric's best value, */
    int64_t best_step, best_epoch; /* when, */
    double  best_minutes;
} dg_progress;

/* What must agree for the continuation to be the same run. */
typedef struct dg_identity {
    uint64_t seed, pipeline, data; /* seed; digests of pipeline text and of the data set's manifest */
    int64_t  batch, accumulate, per_epoch; /* batch: of all ranks together */
    const char *precision;         /* "bf16" */
    int         threads, ranks;
    bool        by_ranks;          /* the plan of an epoch hangs on the number of ranks */
    const char *cpu, *versions;    /* "AVX-512 BF16 AMX"; "detrgraph 0.1.0, oneDNN 2.6.3" */
} dg_identity;

typedef struct dg_checkpoint_args {
    const char        *out;
    const dg_store    *store;
    const dg_progress *progress;
    const dg_identity *identity;
    int64_t            keep; /* latest ones; the best and the last are kept beside */
} dg_checkpoint_args;

int dg_checkpoint_write(const dg_checkpoint_args *a, dg_diag *d) DG_MUST_USE;

/* How many checkpoints of a run come after this step, sound or not; removes them (step -1: all). */
int  dg_checkpoint_later(const char *out, int64_t step);
void dg_checkpoint_drop(const char *out, int64_t step);

/* Removes what a run that was killed left unfinished, in its folder and among its checkpoints. */
void dg_checkpoint_sweep(const char *out);

/* The newest complete checkpoint below out/checkpoints, or NULL; half-written ones are passed over with a line. */
const char *dg_checkpoint_newest(dg_arena *a, const char *out, const dg_env *env);

/* Fills the store and *progress from a checkpoint's folder. What differs from identity and would change the
 * results is an error where nothing sensible could follow, else a warning. */
int dg_checkpoint_read(const char *folder, dg_store *s, dg_progress *progress, const dg_identity *identity, dg_diag *d) DG_MUST_USE;

#endif
