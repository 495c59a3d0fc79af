/* train.h: what the parts of a whole training share: its folder, its clocks. For what is named below. */
#ifndef DG_RUNTIME_TRAIN_H
#define DG_RUNTIME_TRAIN_H

#include "runtime/events.h"
#include "runtime/journal.h"
#include "runtime/scrape.h"
#include "runtime/session.h"
#include "runtime/trace.h"

typedef struct dg_account dg_account; /* runtime/account.h */

typedef struct dg_train {
    dg_run                     *run;
    const dg_run_train_options *o;
    const dg_scope             *scope;
    const dg_checkpoint_conf   *conf;
    dg_arena                   *arena;
    const char                 *out;     /* the run's folder, or NULL; rank 0 alone writes into one */
    dg_identity                 identity;
    dg_journal                 *journal; /* NULL without a folder; */
    dg_events                  *events;  /* these two also where they failed or were not asked for */
    dg_scrape                  *scrape;
    dg_str                      numbers, *scores; /* what it says: of the last step, and of each evaluation's last time */
    dg_trace                   *trace;   /* while steps are traced */
    dg_stream                  *stream;
    const dg_data              *data;
    dg_pictures                *first;   /* of the first batches, until written */
    dg_sinks                   *sinks;
    double                      started, minutes_before; /* of the clock, of earlier parts of the run */
    double                      step_s, evaluate_s;      /* smoothed seconds */
    double                      saved_minutes, *evaluated_minutes; /* when; one per evaluation */
    int64_t                     saved_step, first_step, n_empty; /* n_empty: batches of this rank */
    int64_t                     costs_from; /* the step after which cost and steer_s are counted */
    dg_comm_cost                cost;       /* until then */
    double                      watched_s; /* that monitors had taken then */
    double                      steer_s;    /* that the compute thread spent on the control plane since then */
    double                      data_s;     /* and waited for batches */
    dg_account                 *account; /* NULL before the first step */
    const char                 *state, *why; /* how it ended, for the account: "done"; NULL: it has not, or failed */
    bool                        crossed; /* the last step ended an epoch */
    bool                        clear;   /* the folder holds a run that this one replaces */
    int                         n_left_out; /* batches, in a row */
    int64_t                     epoch;   /* of the last batch */
    int                         batch;   /* of all ranks together */
} dg_train;

/* start.c: all that comes before the first step: folder, data, checkpoint, and that the ranks agree. */
int dg_train_start(dg_train *t, dg_diag *d) DG_MUST_USE;

/* folder.c: makes the run's folder, or takes an existing one where that was asked for, and opens run.log in it; finds
 * what to resume from (NULL: begin). */
int dg_folder_open(dg_train *t, const char **resume, dg_diag *d) DG_MUST_USE;
/* Opens metrics.jsonl and writes pipeline.xml, once it is known where the run begins. */
int dg_folder_begin(dg_train *t, dg_diag *d) DG_MUST_USE;
/* Digest of the pipeline as it is run: its files and --set. */
uint64_t dg_folder_digest(const dg_run *run);

/* clocks.c: rank 0's time, for all. */
int dg_train_tick(dg_train *t, dg_diag *d) DG_MUST_USE;
/* Seconds that everything left of the run will take, or below 0. */
double dg_train_left_s(const dg_train *t);
/* The evaluations that are due after this step, or all. */
int  dg_train_evaluate(dg_train *t, bool all, dg_diag *d) DG_MUST_USE;
int  dg_train_save(dg_train *t, dg_diag *d) DG_MUST_USE; /* unless this step is saved already */
/* A new best is worth a checkpoint of its own. */
int  dg_train_save_due(dg_train *t, dg_diag *d) DG_MUST_USE;
bool dg_train_out_of_patience(const dg_train *t);

#endif
