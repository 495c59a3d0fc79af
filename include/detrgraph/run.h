/* run.h: a pipeline from the outside: open it, look at its parameters, feed it, step it, read it, or let it
 * train as `detrgraph run` does. What embedding programs, tests and tools use; the command line is written
 * with it too.
 *
 * A run lives in one process and is used by one thread. Numbers cross this border as double (reals) or
 * int32_t, whatever the precision inside; tensors are dense and row-major. Parameters go by the names and
 * layouts of the PyTorch reference. */
#ifndef DETRGRAPH_RUN_H
#define DETRGRAPH_RUN_H

#include <detrgraph/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- diagnostics ------------------------------------------------------------------------------------------ */

DG_PUBLIC dg_diag    *dg_diag_open(void);
DG_PUBLIC void        dg_diag_close(dg_diag **d);
DG_PUBLIC const char *dg_diag_text(dg_diag *d); /* all of it, for people; belongs to d */

/* ---- open and close ---------------------------------------------------------------------------------------- */

typedef struct dg_run dg_run;

typedef struct dg_run_options {
    size_t             size;      /* sizeof(dg_run_options) */
    const char        *file;      /* the pipeline */
    const char        *text;      /* its text; file then only names it. NULL: file is read */
    int                n_sets;
    const char *const *sets;      /* "name=value": as --set */
    const char        *precision; /* "f32", "bf16", "f64"; NULL: as the pipeline says */
    const char        *program;   /* "detrgraph 0.1.0": for logs and checkpoints */
    int                threads;   /* 0: the cores this process may use */
    bool               has_seed;  /* seed instead of the pipeline's */
    uint64_t           seed;
    bool               reference; /* reference kernels only (slow; f64 always has them) */
    bool               feed_draws; /* random draws are inputs, fed like the batch under "node path/name" */
    bool               no_pretrained; /* the caller brings the weights: files of pretrained= are not opened */
    bool               keep_named; /* values named by dg_name stay readable after a step; costs memory */
    const struct dg_node_class *const *classes; /* node classes of the caller's, NULL at the end; or NULL */
    void             (*log)(void *ctx, int level, const char *line); /* 0 debug, 1 info, 2 warning; may be NULL */
    void              *log_ctx;
    /* May change the control struct (learning rates, decays) after it was computed and before it is used. */
    void             (*control)(void *ctx, dg_control *c);
    void              *control_ctx;
    const struct dg_world *world; /* the ranks of this run (runtime/world.h); NULL: one rank */
} dg_run_options;

/* Reads and checks the pipeline, gives parameters their initial values, loads what `pretrained=` asks for.
 * Opens no data set and compiles no program yet. */
DG_PUBLIC int  dg_run_open(dg_run **run, const dg_run_options *o, dg_diag *d) DG_MUST_USE;
DG_PUBLIC void dg_run_close(dg_run **run);

/* ---- parameters ---------------------------------------------------------------------------------------------- */

typedef enum dg_run_space { DG_RUN_WEIGHTS, DG_RUN_GRADIENTS, DG_RUN_MOMENT1, DG_RUN_MOMENT2, DG_RUN_EMA } dg_run_space;

typedef struct dg_run_param {
    const char *name;      /* "decoder.dec_score_head.0.bias" */
    dg_shape    shape;
    bool        trainable; /* has gradient and moments */
    bool        buffer;    /* running statistics; neither: frozen */
} dg_run_param;

DG_PUBLIC int  dg_run_n_params(const dg_run *run);
DG_PUBLIC dg_run_param dg_run_param_at(const dg_run *run, int i);
DG_PUBLIC int  dg_run_get(dg_run *run, dg_run_space space, const char *name, double *out, int64_t n, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int  dg_run_set(dg_run *run, dg_run_space space, const char *name, const double *in, int64_t n, dg_diag *d) DG_MUST_USE;
/* Copies every weight and statistic into the EMA, as at the start of training. */
DG_PUBLIC int  dg_run_reset_ema(dg_run *run, dg_diag *d) DG_MUST_USE;
/* safetensors or the reference's .pth; weights and EMA are replaced. Every entry must fit, or it is an error. */
DG_PUBLIC int  dg_run_load(dg_run *run, const char *file, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int  dg_run_save(dg_run *run, dg_run_space space, const char *file, dg_diag *d) DG_MUST_USE;

/* ---- one step by hand ------------------------------------------------------------------------------------------ */

typedef struct dg_run_tensor {
    const char *name;
    dg_dtype    dtype; /* DG_F64 or DG_I32: what feed takes and read gives */
    dg_shape    shape;
} dg_run_tensor;

/* Makes the program of a scope ("train", "evaluate" or its id) at one image size the current one; compiled at
 * first use. The batch size is the pipeline's. Any size that the model can take is fine. */
DG_PUBLIC int dg_run_select(dg_run *run, const char *scope, int64_t w, int64_t h, dg_diag *d) DG_MUST_USE;

/* Inputs, results and named values of the current program. */
DG_PUBLIC int           dg_run_n_inputs(const dg_run *run);
DG_PUBLIC dg_run_tensor dg_run_input_at(const dg_run *run, int i);
DG_PUBLIC int           dg_run_n_values(const dg_run *run);
DG_PUBLIC dg_run_tensor dg_run_value_at(const dg_run *run, int i);

/* data has the input's n elements, double or int32_t by its dtype. What is not fed keeps its last content. */
DG_PUBLIC int dg_run_feed(dg_run *run, const char *name, const void *data, int64_t n, dg_diag *d) DG_MUST_USE;
/* Trains on the batch that was fed: forward, backward, and after `accumulate` batches the update. A loss that is
 * not finite is -DG_ENUMERIC and changes nothing. */
DG_PUBLIC int dg_run_step(dg_run *run, dg_diag *d) DG_MUST_USE;
/* Runs the current program without any update; ema: on the averaged weights. */
DG_PUBLIC int dg_run_forward(dg_run *run, bool ema, dg_diag *d) DG_MUST_USE;
/* A result or named value after step or forward; out has room for n elements of the tensor's dtype. */
DG_PUBLIC int dg_run_read(dg_run *run, const char *name, void *out, int64_t n, dg_diag *d) DG_MUST_USE;

/* Optimizer steps and epochs finished. Setting step also sets the number that EMA warm-up and bias correction see. */
DG_PUBLIC int64_t dg_run_step_number(const dg_run *run);
DG_PUBLIC void    dg_run_set_step(dg_run *run, int64_t step, int64_t epoch);

/* ---- whole training ---------------------------------------------------------------------------------------------- */

typedef struct dg_run_report {
    int64_t       step, n_steps, epoch; /* step: number of the one just finished, from 1; n_steps 0: open end */
    double        loss, images_per_s, left_s; /* left_s < 0: unknown */
    const char   *scope;  /* NULL: a training step; else an evaluation has ended */
    int           n;      /* loss terms of the step, or metrics of the evaluation */
    const char *const *names;
    const double *values;
    int           n_notes; /* lines for people, of an evaluation */
    const char *const *notes;
} dg_run_report;

typedef enum dg_run_resume { DG_RUN_FRESH, DG_RUN_RESUME_AUTO, DG_RUN_RESUME } dg_run_resume;

typedef struct dg_run_train_options {
    size_t        size;        /* sizeof(dg_run_train_options) */
    const char   *out;         /* the run's folder; NULL: that of <checkpoint>, or none */
    bool          force;       /* an existing folder is emptied of what runs leave there */
    dg_run_resume resume;      /* AUTO: from the newest checkpoint in out, or fresh where there is none */
    const char   *resume_from; /* a checkpoint folder, for DG_RUN_RESUME */
    int64_t       steps;       /* stop when so many steps are done; 0: no limit of its own */
    double        max_minutes; /* stop then; 0: never */
    /* Polled between steps: 1 finishes the step, saves and returns -DG_ESTOP, 2 returns at once. */
    int         (*stop)(void *ctx);
    void        (*report)(void *ctx, const dg_run_report *r);
    void         *ctx;
    int64_t       trace;        /* so many steps after the first go into OUT/trace.json in full; 0: none */
    int64_t       metrics_port; /* of 127.0.0.1, where Prometheus finds the numbers; 0: nowhere */
} dg_run_train_options;

DG_PUBLIC int dg_run_train(dg_run *run, const dg_run_train_options *o, dg_diag *d) DG_MUST_USE;
/* Runs every evaluation scope over its data; folder (or NULL) receives detections and pictures. report is
 * called once for each scope. */
DG_PUBLIC int dg_run_evaluate(dg_run *run, const char *folder, bool ema,
                              void (*report)(void *ctx, const dg_run_report *r), void *ctx, dg_diag *d) DG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
