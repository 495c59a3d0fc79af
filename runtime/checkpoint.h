/* checkpoint.h: writes and reads the state that a run continues from:
 * OUT/checkpoints/step-000123/{model,ema,optimizer}.safetensors and state.json, written beside and
 * renamed as one folder; the links checkpoints/last and checkpoints/best; and OUT/model.safetensors
 * and OUT/ema.safetensors of the last one. */
#ifndef DG_RUNTIME_CHECKPOINT_H
#define DG_RUNTIME_CHECKPOINT_H

#include "base/log.h"
#include "exec/store.h"

/* How far a run has come. */
typedef struct dg_progress {
    int64_t step, batch;  /* finished updates and batches */
    int64_t epoch, index; /* of the next batch: epoch, and index in that epoch's plan */
    int64_t sample;       /* its first global sample */
    double minutes;       /* training time over all parts of the run */
    double lr;            /* set by a person; 0: the schedule's */
    int64_t evaluated;    /* step after which all evaluations were last run; -1: none yet */
    bool has_best;
    double best;                   /* best value of the metric */
    int64_t best_step, best_epoch; /* when it was reached */
    double best_minutes;
} dg_progress;

/* What must agree for a continuation to be the same run. */
typedef struct dg_identity {
    /* seed; digests of the pipeline's text and of the data set */
    uint64_t seed, pipeline, data;
    int64_t batch, accumulate, per_epoch; /* batch: over all ranks */
    const char *precision;                /* "bf16" */
    int threads, ranks;
    bool by_ranks;              /* the plan of an epoch depends on the number of ranks */
    const char *cpu, *versions; /* "AVX-512 BF16 AMX"; "detrgraph 0.1.0, oneDNN 2.6.3" */
} dg_identity;

typedef struct dg_checkpoint_args {
    const char *out;
    const dg_store *store;
    const dg_progress *progress;
    const dg_identity *identity;
    int64_t keep; /* number of latest checkpoints to keep, besides the best and the last */
} dg_checkpoint_args;

int dg_checkpoint_write(const dg_checkpoint_args *a, dg_diag *d) DG_MUST_USE;
/* Bytes of a checkpoint's tensors. */
int64_t dg_checkpoint_bytes(const dg_checkpoint_args *a);

/* Counts a run's checkpoints after this step, intact or not; drop removes them (step -1: all). */
int dg_checkpoint_later(const char *out, int64_t step);
void dg_checkpoint_drop(const char *out, int64_t step);

/* Removes what a killed run left unfinished, in its folder and the folders in it. */
void dg_checkpoint_sweep(const char *out);

/* The newest complete checkpoint below out/checkpoints, or NULL; incomplete ones are skipped with a
 * log line. */
const char *dg_checkpoint_newest(dg_arena *a, const char *out, const dg_env *env);

/* True of a folder that has a checkpoint's name or a state.json, whole or not. */
bool dg_checkpoint_is_one(const char *folder);

/* Fills the store and *progress from a checkpoint, if its files are as they were written; the error
 * about a damaged one names the newest whole one before it. A difference from identity that changes
 * the results is a warning, or an error if nothing sensible could follow. */
int dg_checkpoint_read(const char *folder, dg_store *s, dg_progress *progress,
                       const dg_identity *identity, bool *same_pipeline, dg_diag *d) DG_MUST_USE;

#endif
