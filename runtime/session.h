/* session.h: what stands behind dg_run: one open pipeline, its memory, and its compiled programs. For files of
 * runtime/ and cli/; the outside sees <detrgraph/run.h>. */
#ifndef DG_RUNTIME_SESSION_H
#define DG_RUNTIME_SESSION_H

#include <detrgraph/run.h>

#include "base/log.h"
#include "base/metrics.h"
#include "graph/graph.h"
#include "media/faults.h"
#include "runtime/bucket.h"
#include "runtime/checkpoint.h"
#include "runtime/store.h"
#include "runtime/stream.h"
#include "runtime/world.h"

typedef struct dg_data {
    const dg_scope *scope;
    dg_chain        chain;
    dg_dataset     *set;
    bool            own_files; /* files="rank": what the other ranks have is another data set */
    dg_faults       faults;    /* of its files, as far as this rank has looked at them */
} dg_data;

struct dg_run {
    dg_arena         *arena;
    dg_run_options    o;
    dg_env            env;        /* its log goes to the caller and to run.log */
    dg_world          world;      /* of one rank where none was given */
    void             *log_file;   /* a FILE, or NULL */
    bool              started;    /* steps have begun: what is said from here on is of this rank alone */
    dg_registry      *registry;
    dg_graph         *graph;
    dg_params        *params;
    dg_store         *store;
    const dg_backend *backend;
    dg_dtype          base, low;  /* storage of reals, and of ops that may be low */
    const char       *precision;  /* "bf16": what is done, not what was asked for */
    const char       *why;        /* of the precision, or NULL */
    const char       *versions;   /* of this program and its libraries */
    uint64_t          seed;
    DG_VEC(dg_bucket *) buckets;
    dg_bucket        *current;
    dg_memory         memory;     /* slab and batch, shared by all buckets */
    dg_progress       progress;
    int32_t           accumulated; /* batches in the gradients now */
    int64_t           n_steps, n_epochs, per_epoch; /* of the whole run, batches of an epoch; 0: unknown */
    int64_t           n_loaded;   /* parameters that came from a file; -1: trained here */
    double            loss;       /* of the last update, over all ranks */
    dg_monitors      *monitors;   /* what the proof takes on trust */
    struct dg_witness *witness;   /* NULL: there is nobody to compare with */
    const char       *stopped_by; /* id of a <stop> that fired in the last step, or NULL */
    double            fresh;      /* share of the averages that is still their first value */
    dg_control        control;    /* of the last step */
    DG_VEC(dg_data) data;         /* of the scopes that were asked for, open */
    DG_VEC(dg_binding) visible;   /* results and named values of the current program */
    dg_arena         *visible_arena;
};

/* dg_run_load; partial: what the file lacks keeps its initial values, with a warning. */
int dg_run_load_part(dg_run *run, const char *file, bool partial, dg_diag *d) DG_MUST_USE;
/* A scope's loader, sampler and batch node; an error where it lacks one. */
int dg_run_chain(const dg_scope *scope, dg_chain *chain, dg_diag *d) DG_MUST_USE;
/* A scope's sampler: the sizes that it may pick, largest area first, and the slots of a batch. */
int dg_run_sizes(const dg_run *run, const dg_scope *scope, dg_arena *a, dg_size **sizes, int *n, int *batch,
                 dg_diag *d) DG_MUST_USE;
/* Makes the bucket of a scope and size the current one; ema: on the averaged weights. */
int dg_run_use(dg_run *run, const dg_scope *scope, dg_size size, bool ema, dg_diag *d) DG_MUST_USE;
/* Plans the largest bucket of the scopes that this run will use, and refuses what does not fit into memory. */
int dg_run_prepare(dg_run *run, bool train, bool evaluate, dg_diag *d) DG_MUST_USE;
/* Does the node join or deal over the ranks, however many there are: does its attribute axis name theirs? */
bool dg_run_shares(const dg_run *run, const dg_node *node);
int64_t dg_run_bytes(const dg_run *run, bool train); /* parameters, slab and batch, as planned so far */
int64_t dg_run_count(const dg_run *run, dg_param_kind kind); /* elements of the parameters of one kind */
dg_bucket_conf dg_run_bucket_conf(const dg_run *run);

/* A scope's data set, opened at first use and kept; logs what stands in it. */
int dg_run_data(dg_run *run, const dg_scope *scope, const dg_data **data, dg_diag *d) DG_MUST_USE;
/* Batches of this rank in an epoch; a collective where ranks agree on it. Of a sampler that never ends: those of its first
 * round on the rank with the fewest. */
int dg_run_length(dg_run *run, const dg_data *data, int64_t epoch, int64_t *n, int64_t *dropped, dg_diag *d) DG_MUST_USE;
bool dg_run_endless(const dg_run *run, const dg_data *data);
bool dg_run_deals(dg_run *run, const dg_data *data); /* has every rank images of its own? */
/* With another number of ranks an epoch has another plan: not one that is dealt, but one that each rank makes. */
bool dg_run_plans_by_ranks(const dg_run *run, const dg_chain *c);
/* Batches for a scope from where p stands (NULL: its beginning), for `epochs` epochs (0: without end); or for one plan, where
 * ranks agree on each: then open the next. */
int dg_run_stream(dg_run *run, const dg_scope *scope, const dg_progress *p, int64_t epochs, dg_stream **s, dg_diag *d) DG_MUST_USE;

/* Are the weights (and, of a training, averages and moments) of all ranks the same, bit for bit? */
int dg_run_compare(dg_run *run, const char *when, dg_diag *d) DG_MUST_USE;
/* Rank 0's progress and parameter spaces reach every rank. */
int dg_run_share(dg_run *run, dg_diag *d) DG_MUST_USE;

/* Versions, CPU, threads, sizes, precision: the first lines of a log. */
void dg_run_log_start(dg_run *run);
/* Logs the warnings in d, and forgets them. */
void dg_run_log_warnings(dg_run *run, dg_diag *d);

/* ---- step.c ---------------------------------------------------------------------------------------------- */

/* Learning rates, decays and counters of the step that the progress names, into run->control. */
void dg_run_compute_control(dg_run *run);
/* Forward and backward of the batch that the current bucket holds and, where it is due, the update: then *updated.
 * A loss or gradient that is not finite is -DG_ENUMERIC, told by term, node and image (batch may be NULL), and
 * has changed nothing. */
int dg_run_train_batch(dg_run *run, const dg_stream_batch *batch, bool *updated, dg_diag *d) DG_MUST_USE;
int dg_run_feed_batch(dg_run *run, const dg_stream_batch *batch, dg_diag *d) DG_MUST_USE;
/* What a source that is foreseen says on this rank of batch `number`; from any thread. */
double dg_run_foresee(const dg_run *run, const dg_node *node, int rank, int64_t number, const dg_clock *clock);

/* ---- sinks.c --------------------------------------------------------------------------------------------- */

/* The sinks of a scope at work: what begin made for each. */
typedef struct dg_sinks dg_sinks;
int  dg_sinks_open(dg_sinks **s, const dg_scope *scope, const dg_sink_args *args, dg_diag *d) DG_MUST_USE;
int  dg_sinks_take(dg_sinks *s, dg_run *run, const dg_stream_batch *batch, dg_diag *d) DG_MUST_USE;
int  dg_sinks_finish(dg_sinks **s, dg_metrics *m, dg_diag *d); /* m NULL: abandon */
/* What the ranks have taken becomes rank 0's: of every sink that joins over an axis. */
int  dg_sinks_join(dg_sinks *s, dg_run *run, dg_diag *d) DG_MUST_USE;
/* The numbers and notes of rank root reach every rank. */
int  dg_metrics_share(const dg_world *w, int root, dg_metrics *m, dg_diag *d) DG_MUST_USE;

/* ---- pictures.c ------------------------------------------------------------------------------------------ */

/* Some pictures with boxes, drawn as one when there are enough; kept small. */
typedef struct dg_pictures dg_pictures;
dg_pictures *dg_pictures_open(int most, const dg_dataset *names);
void         dg_pictures_close(dg_pictures **p);
bool         dg_pictures_full(const dg_pictures *p);
/* The batch as the network sees it: feeds "images" and "targets...". */
int dg_pictures_add_batch(dg_pictures *p, const dg_stream_batch *batch, dg_diag *d) DG_MUST_USE;
/* Two pictures of each image of the data set: its objects, and beside them the detections among the current program's
 * results, those of at least this score. */
int dg_pictures_add_found(dg_pictures *p, dg_run *run, const dg_data *data, const dg_stream_batch *batch, double threshold,
                          dg_diag *d) DG_MUST_USE;
int dg_pictures_write(dg_pictures *p, const char *path, dg_diag *d) DG_MUST_USE; /* nothing if there is none */

/* ---- evaluate.c ------------------------------------------------------------------------------------------ */

typedef struct dg_evaluation {
    const dg_scope *scope;
    const char     *folder;    /* NULL: nothing is written; of rank 0 alone */
    bool            ema;
    int           (*stop)(void *ctx);
    void           *ctx;
    dg_metrics     *metrics;   /* out */
    int64_t         n_images;  /* out */
} dg_evaluation;
int dg_run_evaluate_scope(dg_run *run, dg_evaluation *e, dg_diag *d) DG_MUST_USE;
bool dg_run_evaluates(const dg_run *run, const dg_scope *scope); /* does this rank take part, or wait for the one of on="0"? */

/* ---- predict.c ------------------------------------------------------------------------------------------- */

typedef struct dg_prediction {
    const char      *path;
    const dg_image  *image; /* as read, upright */
    int              n;
    const struct dg_mark *marks; /* best first, in pixels of the image */
    const dg_dataset *names; /* of the evaluation, for classes; NULL where its data cannot be opened */
} dg_prediction;
typedef int dg_prediction_fn(void *ctx, const dg_prediction *p, dg_diag *d);

/* Detections on image files, prepared as the first evaluation prepares its own; take is called once for each. */
int dg_run_predict(dg_run *run, const char *const *paths, int n, double threshold, bool ema, dg_prediction_fn *take,
                   void *ctx, dg_diag *d) DG_MUST_USE;

#endif
