/* data.h: the data sets of a run's scopes, and feeders of batches from them. */
#ifndef DG_RUNTIME_DATA_H
#define DG_RUNTIME_DATA_H

#include "feed/feeder.h"
#include "media/faults.h"
#include "runtime/run.h"

typedef struct dg_data {
    const dg_scope *scope;
    dg_chain chain;
    dg_dataset *set;
    bool own_files;   /* files="rank": other ranks have other data sets */
    dg_faults faults; /* of its files, as far as this rank has checked them */
} dg_data;

/* The data sets opened so far, in that order. */
struct dg_data_sets {
    dg_arena *arena;
    DG_VEC(dg_data *) open;
};

void dg_data_sets_close(dg_data_sets *s);

/* A scope's data set, opened at first use and kept; logs its contents. */
int dg_run_data(dg_run *run, const dg_scope *scope, const dg_data **data, dg_diag *d) DG_MUST_USE;
/* Number of this rank's batches in an epoch; a collective if ranks agree on it. For a sampler that
 * never ends: of its first pass, on the rank with the fewest. */
int dg_run_epoch_batches(dg_run *run, const dg_data *data, int64_t epoch, int64_t *n,
                         int64_t *dropped, dg_diag *d) DG_MUST_USE;
/* True if ranks have different images. */
bool dg_run_has_own_images(const dg_run *run, const dg_data *data);
/* True if the plan of an epoch depends on the number of ranks, because each rank makes its own. */
bool dg_chain_plans_by_ranks(const dg_graph *g, const dg_chain *c);
/* Opens a feeder for a scope from p on (NULL: its beginning), for `epochs` epochs (0: endless), or
 * for a single plan if ranks agree on each: then open the next one. */
int dg_run_open_feeder(dg_run *run, const dg_scope *scope, const dg_progress *p, int64_t epochs,
                       dg_feeder **f, dg_diag *d) DG_MUST_USE;

#endif
