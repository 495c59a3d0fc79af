/* train.h: shared by the parts of a training: its state, folder and due times. */
#ifndef DG_RUNTIME_TRAIN_H
#define DG_RUNTIME_TRAIN_H

#include <sys/types.h>

#include "report/metrics_jsonl.h"
#include "report/prometheus.h"
#include "report/tensorboard.h"
#include "report/trace.h"
#include "runtime/data.h"
#include "runtime/pictures.h"
#include "runtime/programs.h"
#include "runtime/saver.h"
#include "runtime/sinks.h"
#include "runtime/step.h"

typedef struct dg_run_json dg_run_json; /* runtime/run_json.h */

typedef struct dg_train {
    dg_run *run; /* the run, and its parts: */
    const dg_graph *graph;
    const dg_world *world;
    const dg_env *env;
    dg_programs *programs;
    dg_progress *progress;
    dg_horizon *horizon;
    dg_step_state *step;
    const dg_run_train_options *o;
    const dg_scope *scope;
    const dg_checkpoint_conf *conf;
    dg_arena *arena;
    const char *out; /* the run's folder, or NULL; only rank 0 writes into it */
    dg_identity identity;
    dg_metrics_jsonl *jsonl;     /* NULL without a folder */
    dg_tensorboard *tensorboard; /* both also NULL if they failed or were not asked for */
    dg_prometheus *prometheus;
    /* Prometheus text: of the latest step, and of the latest run of each evaluation */
    dg_str numbers, *scores;
    dg_trace *trace; /* while steps are being traced */
    dg_feeder *feeder;
    const dg_data *data;
    dg_pictures *first_pictures; /* of the first batches, until written */
    dg_sinks *sinks;
    double started, minutes_before; /* clock at the start; minutes of earlier parts of the run */
    double step_s, evaluate_s;      /* smoothed durations */
    double saved_minutes, *evaluated_minutes; /* when last saved; when last run, per evaluation */
    int64_t saved_step, first_step, n_empty;  /* n_empty: this rank's batches without objects */
    int64_t kept_step; /* of the newest checkpoint in the folder; -1: none, or not rank 0 */
    dev_t device;      /* the folder that the run began in */
    ino_t inode;
    dg_saver *saver;         /* rank 0's; NULL: not used yet */
    bool saves_beside;       /* the latest save went on beside the run, and no rank knows its end */
    bool unsaved;            /* it failed; known to rank 0 */
    bool homeless;           /* that is gone, and could not be made again */
    bool numbers_gone;       /* metrics.jsonl is, and could not be made again */
    bool no_data;            /* the latest batch could not be made */
    bool lines_wait;         /* lines of metrics.jsonl wait in memory */
    int64_t costs_from;      /* step after which the costs below are counted */
    dg_comm_cost cost;       /* totals at that step */
    double monitors_s;       /* time that monitors had taken at that step */
    double control_s;        /* time that the compute thread has spent on the control plane since */
    double data_s;           /* time that it has waited for batches since */
    dg_run_json *run_json;   /* NULL before the first step */
    const char *state, *why; /* how it ended, for run.json: "done"; NULL: running, or failed */
    bool crossed;            /* the latest step ended an epoch */
    bool replaces;           /* the folder has a run to be replaced */
    int n_left_out;          /* consecutive batches skipped by vote */
    int64_t epoch;           /* of the latest batch */
    int batch;               /* over all ranks */
} dg_train;

/* train_start.c: everything before the first step: folder, data, checkpoint, and the ranks'
 * agreement. */
int dg_train_start(dg_train *t, dg_diag *d) DG_MUST_USE;

/* run_folder.c: creates the run's folder, or takes over an existing one if allowed, and opens
 * run.log in it; *resume: the checkpoint to resume from, or NULL. */
int dg_folder_open(dg_train *t, const char **resume, dg_diag *d) DG_MUST_USE;
/* Opens metrics.jsonl and writes pipeline.xml, once it is known where the run begins. */
int dg_folder_begin(dg_train *t, dg_diag *d) DG_MUST_USE;
/* True if the folder is the one that the run began in, with its log; again makes it, with the log
 * so far, if nothing else is in its place. */
bool dg_folder_is_home(const dg_train *t);
int dg_folder_again(dg_train *t, dg_diag *d) DG_MUST_USE;
/* Digest of the pipeline as run: its files and --set. */
uint64_t dg_folder_digest(const dg_pipeline *p);

/* due.c: takes rank 0's time on all ranks. */
int dg_train_tick(dg_train *t, dg_diag *d) DG_MUST_USE;
/* Estimated seconds until the end of the run; negative: unknown. */
double dg_train_left_s(const dg_train *t);
/* Steps from one run of an evaluation to the next; 0: not by steps. */
double dg_train_steps_between(const dg_train *t, const dg_scope *evaluate);
/* Runs the evaluations that are due after this step, or all. */
int dg_train_evaluate(dg_train *t, bool all, dg_diag *d) DG_MUST_USE;
/* Also saves after a new best value. */
int dg_train_save_due(dg_train *t, dg_diag *d) DG_MUST_USE;
bool dg_train_out_of_patience(const dg_train *t);

/* keep.c: saves, unless this step is saved already: _save beside the run, where the device lets it.
 * If it cannot be written, the run goes on with a warning, but the last save is an error. */
int dg_keep_save(dg_train *t, dg_diag *d) DG_MUST_USE;
int dg_keep_save_now(dg_train *t, dg_diag *d) DG_MUST_USE;
int dg_keep_save_last(dg_train *t, dg_diag *d) DG_MUST_USE;
/* Warns if there is no room for a checkpoint. */
void dg_keep_room(const dg_train *t);
/* When a step fails: saves what was trained if its first batch could not be made, because data went
 * or changed; batch: how many there were before the step. Returns rc. */
int dg_keep_trained(dg_train *t, int64_t batch, int rc, dg_diag *d) DG_MUST_USE;
/* Write first-batches.jpg and data.json; failure is a warning. */
void dg_keep_pictures(dg_train *t);
void dg_keep_data(const dg_train *t);
/* After a step: says what has become of a save beside the run, and makes the run's folder again if
 * it is gone. */
void dg_keep_folder(dg_train *t);
void dg_keep_close(dg_train *t); /* waits for that save */

#endif
