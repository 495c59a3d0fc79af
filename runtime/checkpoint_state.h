/* checkpoint_state.h: state.json of a checkpoint: how far the run had come, what run it is, and the
 * checksums of the checkpoint's other files and of itself. */
#ifndef DG_RUNTIME_CHECKPOINT_STATE_H
#define DG_RUNTIME_CHECKPOINT_STATE_H

#include "base/str.h"
#include "media/json.h"
#include "runtime/checkpoint.h"

enum { DG_PART_MODEL, DG_PART_EMA, DG_PART_OPTIMIZER, DG_N_PARTS };

typedef struct dg_checkpoint_state {
    dg_progress progress;
    bool has_sums; /* false: an older version wrote it, without checksums */
    bool has_ema;
    uint64_t sum[DG_N_PARTS];
    const dg_json *json;
} dg_checkpoint_state;

void dg_checkpoint_state_text(dg_str *s, const dg_progress *p, const dg_identity *i,
                              const uint64_t sum[DG_N_PARTS], bool ema);
/* Numbers that contradict each other, or are not as they were written, are an error. */
int dg_checkpoint_state_read(dg_checkpoint_state *s, dg_arena *a, const char *file, dg_diag *d)
    DG_MUST_USE;
/* A difference that changes the results is a warning, or an error if nothing sensible could
 * follow. */
int dg_checkpoint_state_compare(const dg_checkpoint_state *s, const dg_identity *now,
                                bool *same_pipeline, dg_diag *d) DG_MUST_USE;

#endif
