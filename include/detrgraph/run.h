/* run.h: runs a pipeline from a program: open it, inspect its parameters, feed, step and read it,
 * or train as `detrgraph run` does. For embedding programs, tests and tools; the command line uses
 * it too.
 *
 * A run lives in one process and is used by one thread. Numbers cross this interface as double
 * (reals) or int32_t, whatever the precision inside; tensors are dense and row-major. Parameters
 * have the names and layouts of the PyTorch reference. */
#ifndef DETRGRAPH_RUN_H
#define DETRGRAPH_RUN_H

#include <detrgraph/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- diagnostics ----------------------------------------------------------------------------- */

DG_PUBLIC dg_diag *dg_diag_open(void);
DG_PUBLIC void dg_diag_close(dg_diag **d);
/* all diagnostics as text; valid until d changes or closes */
DG_PUBLIC const char *dg_diag_text(dg_diag *d);
/* All diagnostics as a JSON array of objects with severity, id, message, file, line, column, node,
 * notes and help. Writes at most n bytes with the final NUL to out; returns the length of the whole
 * text, which needs a byte more. */
DG_PUBLIC size_t dg_diag_write_json(const dg_diag *d, char *out, size_t n);

/* ---- open and close -------------------------------------------------------------------------- */

typedef struct dg_run dg_run;

typedef struct dg_run_options {
    size_t size;      /* sizeof(dg_run_options) */
    const char *file; /* path of the pipeline */
    const char *text; /* the pipeline's text, `file` being its name; NULL: read file */
    int n_sets;
    const char *const *sets; /* "name=value", like --set */
    const char *precision;   /* "f32", "tf32", "bf16", "f64"; NULL: the pipeline's */
    const char *program;     /* "detrgraph 0.1.0", for logs and checkpoints */
    int threads;             /* 0: as many as this process may use */
    bool has_seed;           /* use `seed` instead of the pipeline's */
    uint64_t seed;
    bool reference;     /* use reference kernels only (slow; f64 always does) */
    bool feed_draws;    /* make random draws inputs, fed like the batch under "node path/name" */
    bool no_pretrained; /* do not open files of pretrained=: the caller sets the weights */
    bool keep_named;    /* keep values named by dg_name readable after a step; costs memory */
    /* further node classes, NULL-terminated; or NULL */
    const struct dg_node_class *const *classes;
    /* level: 0 debug, 1 info, 2 warning; may be NULL */
    void (*log)(void *ctx, int level, const char *line);
    void *log_ctx;
    /* may change the control struct (learning rates, decays) before each step */
    void (*control)(void *ctx, dg_control *c);
    void *control_ctx;
    const char *device; /* "cpu", "ref", "far", "cuda", "cuda:N"; NULL: "cpu", or "ref" if
                           `reference` is set */
    const char *debug;  /* "sync,nan,poison,names" or some of them, like --debug; NULL: none */
    /* where <let batch="auto"/> stands: the run or checkpoint folder whose batch is taken again,
     * because it will be resumed; "": that of <checkpoint>; NULL: choose one by the memory */
    const char *resumes;
    bool evaluates_only; /* there will be no training: such a batch is one image */
} dg_run_options;

/* Reads and checks the pipeline, initialises the parameters and loads `pretrained=` files. Opens no
 * data set and compiles no program yet. */
DG_PUBLIC int dg_run_open(dg_run **run, const dg_run_options *o, dg_diag *d) DG_MUST_USE;
DG_PUBLIC void dg_run_close(dg_run **run);
/* The folder of the pipeline's <checkpoint to="...">; NULL: it names none. Valid while the run is
 * open. */
DG_PUBLIC const char *dg_run_folder(const dg_run *run);

/* ---- parameters ------------------------------------------------------------------------------ */

typedef enum dg_run_space {
    DG_RUN_WEIGHTS,
    DG_RUN_GRADIENTS,
    DG_RUN_MOMENT1,
    DG_RUN_MOMENT2,
    DG_RUN_EMA
} dg_run_space;

typedef struct dg_run_param {
    const char *name; /* "decoder.dec_score_head.0.bias" */
    dg_shape shape;
    bool trainable; /* has gradient and moments */
    bool buffer;    /* running statistics; neither trainable nor buffer: frozen */
} dg_run_param;

DG_PUBLIC int dg_run_n_params(const dg_run *run);
DG_PUBLIC dg_run_param dg_run_param_at(const dg_run *run, int i);
DG_PUBLIC int dg_run_get(dg_run *run, dg_run_space space, const char *name, double *out, int64_t n,
                         dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_run_set(dg_run *run, dg_run_space space, const char *name, const double *in,
                         int64_t n, dg_diag *d) DG_MUST_USE;
/* Copies all weights and statistics to the averages (EMA), as at the start of training. */
DG_PUBLIC int dg_run_reset_ema(dg_run *run, dg_diag *d) DG_MUST_USE;
/* Loads weights and averages from safetensors or the reference's .pth. Every entry must match. */
DG_PUBLIC int dg_run_load(dg_run *run, const char *file, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_run_save(dg_run *run, dg_run_space space, const char *file, dg_diag *d)
    DG_MUST_USE;

/* ---- one step by hand ------------------------------------------------------------------------ */

typedef struct dg_run_tensor {
    const char *name;
    dg_dtype dtype; /* DG_F64 or DG_I32: the type for feed and read */
    dg_shape shape;
} dg_run_tensor;

/* Selects the program of a scope ("train", "evaluate" or its id) at one image size; compiles it at
 * first use. The batch size is the pipeline's. Any size that the model accepts is allowed. */
DG_PUBLIC int dg_run_select(dg_run *run, const char *scope, int64_t w, int64_t h, dg_diag *d)
    DG_MUST_USE;

/* Inputs, results and named values of the selected program. */
DG_PUBLIC int dg_run_n_inputs(const dg_run *run);
DG_PUBLIC dg_run_tensor dg_run_input_at(const dg_run *run, int i);
DG_PUBLIC int dg_run_n_values(const dg_run *run);
DG_PUBLIC dg_run_tensor dg_run_value_at(const dg_run *run, int i);

/* Writes an input: n elements, double or int32_t by its dtype. Inputs that are not fed keep their
 * contents. */
DG_PUBLIC int dg_run_feed(dg_run *run, const char *name, const void *data, int64_t n, dg_diag *d)
    DG_MUST_USE;
/* Trains on the fed batch: forward, backward, and after every `accumulate` batches the update. A
 * loss that is not finite returns -DG_ENUMERIC and changes nothing. */
DG_PUBLIC int dg_run_step(dg_run *run, dg_diag *d) DG_MUST_USE;
/* Runs the selected program without an update; ema: with averaged weights. */
DG_PUBLIC int dg_run_forward(dg_run *run, bool ema, dg_diag *d) DG_MUST_USE;
/* Reads a result or named value after step or forward; out has room for n elements of its type. */
DG_PUBLIC int dg_run_read(dg_run *run, const char *name, void *out, int64_t n, dg_diag *d)
    DG_MUST_USE;

/* Finished optimizer steps. */
DG_PUBLIC int64_t dg_run_step_number(const dg_run *run);

/* ---- whole training -------------------------------------------------------------------------- */

typedef struct dg_run_report {
    /* step: the one just finished, from 1; n_steps 0: no end */
    int64_t step, n_steps, epoch;
    double loss, images_per_s, left_s; /* left_s < 0: unknown */
    const char *scope; /* NULL: a training step; else the evaluation that has ended */
    int n;             /* number of loss terms, or of metrics */
    const char *const *names;
    const double *values;
    int n_notes; /* an evaluation's lines for people */
    const char *const *notes;
    int64_t n_epochs; /* 0: the run's length is in steps */
} dg_run_report;

typedef enum dg_run_resume { DG_RUN_FRESH, DG_RUN_RESUME_AUTO, DG_RUN_RESUME } dg_run_resume;

typedef struct dg_run_train_options {
    size_t size;     /* sizeof(dg_run_train_options) */
    const char *out; /* the run's folder; NULL: that of <checkpoint>, or none */
    bool force;      /* delete a previous run's files from an existing folder */
    /* AUTO: from the newest checkpoint in out, if any */
    dg_run_resume resume;
    const char *resume_from; /* with DG_RUN_RESUME: a checkpoint folder */
    int64_t steps;           /* stop after this many steps; 0: no limit */
    double max_minutes;      /* stop after this time; 0: no limit */
    /* Polled between steps: 1 finishes the step, saves and returns -DG_ESTOP; 2 returns at once. */
    int (*stop)(void *ctx);
    void (*report)(void *ctx, const dg_run_report *r);
    void *ctx;
    int64_t trace;        /* number of steps after the first to record in OUT/trace.json; 0: none */
    int64_t metrics_port; /* port on 127.0.0.1 that serves Prometheus; 0: none */
} dg_run_train_options;

DG_PUBLIC int dg_run_train(dg_run *run, const dg_run_train_options *o, dg_diag *d) DG_MUST_USE;
/* Runs every evaluation scope over its data; folder (or NULL) receives detections and pictures.
 * Calls report once per scope. */
DG_PUBLIC int dg_run_evaluate(dg_run *run, const char *folder, bool ema,
                              void (*report)(void *ctx, const dg_run_report *r), void *ctx,
                              dg_diag *d) DG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
