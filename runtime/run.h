/* run.h: a run's interface for the files of runtime/ and cli/. struct dg_run is private to
 * session.c: code that needs a part of a run asks for that part. */
#ifndef DG_RUNTIME_RUN_H
#define DG_RUNTIME_RUN_H

#include <detrgraph/run.h>

#include "base/log.h"
#include "comm/world.h"
#include "graph/graph.h"
#include "runtime/checkpoint.h"

/* What the run is; constant once it is open. */
typedef struct dg_pipeline {
    dg_graph *graph;
    const dg_monitors *monitors; /* properties that the proof trusts */
    uint64_t seed;
    int n_sets;
    const char *const *sets; /* "name=value", from --set; then the chosen batch */
    const char *batch_why;   /* why it was chosen; NULL: the pipeline says the batch */
    const char *versions;    /* of this program and its libraries */
} dg_pipeline;

/* Length of the whole run; 0: unknown. */
typedef struct dg_horizon {
    int64_t n_steps, n_epochs;
    int64_t per_epoch; /* batches of an epoch */
} dg_horizon;

typedef struct dg_programs dg_programs;     /* runtime/programs.h: what computes */
typedef struct dg_step_state dg_step_state; /* runtime/step.h: what the last step left */
typedef struct dg_data_sets dg_data_sets;   /* runtime/data.h: the data sets that are open */
typedef struct dg_run_log dg_run_log;       /* runtime/run_log.h */
struct dg_monitor_digests;                  /* control/monitor_digests.h */

/* dg_run_open for one rank of several; world NULL: a single rank. */
int dg_run_open_rank(dg_run **run, const dg_run_options *o, const dg_world *world, dg_diag *d)
    DG_MUST_USE;
/* Only reads, proves and lowers the pipeline: it has no parameters, and can be planned and
 * closed. */
int dg_run_open_unmade(dg_run **run, const dg_run_options *o, const dg_world *world, dg_diag *d)
    DG_MUST_USE;
/* dg_run_load; partial: parameters missing in the file keep their initial values, with a
 * warning. */
int dg_run_load_part(dg_run *run, const char *file, bool partial, dg_diag *d) DG_MUST_USE;

/* The parts of a run. They are the same for the run's lifetime; their contents may change. */
const dg_pipeline *dg_run_pipeline(const dg_run *run);
dg_programs *dg_run_programs(const dg_run *run);
const dg_world *dg_run_world(const dg_run *run);
struct dg_monitor_digests *dg_run_digests(const dg_run *run); /* NULL: nothing to compare with */
dg_progress *dg_run_progress(const dg_run *run);              /* what a checkpoint stores */
dg_horizon *dg_run_horizon(const dg_run *run);
dg_step_state *dg_run_step_state(const dg_run *run);
dg_data_sets *dg_run_data_sets(const dg_run *run);
dg_run_log *dg_run_log_of(const dg_run *run);
const dg_env *dg_run_env(const dg_run *run); /* logs to the caller and to run.log */

#endif
