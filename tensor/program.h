/* program.h: a program is a list of instructions over values, for one mode and one image size.
 *
 * It is made by the builder (build.c), changed by autodiff and the passes, and frozen by the
 * planner. Values are in single-assignment form except for operands that a row marks `u`: those are
 * parameters, buffers and whole spaces, updated in place, in program order. */
#ifndef DG_TENSOR_PROGRAM_H
#define DG_TENSOR_PROGRAM_H

#include "base/arena.h"
#include "base/diag.h"
#include <detrgraph/kernel.h>

/* Where a value lives. Bound to memory once per run; evaluation over EMA weights binds weights to
 * ema. */
typedef enum dg_space {
    DG_SLAB,      /* temporaries of one plan */
    DG_WEIGHTS,   /* trainable parameters, then frozen ones, then buffers; offsets from dg_params */
    DG_GRADIENTS, /* trainable parameters only, same offsets as in weights */
    DG_MOMENT1, DG_MOMENT2, /* same */
    DG_EMA,       /* same offsets as weights */
    DG_IO,        /* the batch: written by the host before each run */
    DG_CONSTANTS, /* written once */
    DG_N_SPACES
} dg_space;
const char *dg_space_name(dg_space s);

/* ---- parameters: shared by all programs of a run --------------------------------------------- */

typedef enum dg_param_kind {
    DG_TRAINABLE,
    DG_FROZEN,
    DG_BUFFER,
    DG_EXPORT_CONST,
    DG_EXPORT_COUNTER,
} dg_param_kind;

typedef struct dg_param_info {
    const char   *path;      /* "model id"/"node id"/relative path joined by '.', unique */
    const char   *name;      /* the reference's name: class prefix + relative path */
    dg_param_kind kind;
    dg_shape      shape;     /* the checkpoint's layout */
    dg_dtype      stored;    /* of exports; DG_REAL otherwise */
    dg_init       init;
    const char   *like;      /* path of the parameter whose initial values it shares, or NULL */
    int64_t       zero_row;  /* -1: none */
    int64_t       offset;    /* elements, in every parameter space, once sealed; -1: exports */
    const double *values;    /* of DG_EXPORT_CONST */
    dg_where      where;     /* the node that first declared it */
} dg_param_info;

typedef struct dg_params dg_params;
dg_params *dg_params_open(void);
void       dg_params_close(dg_params **p);
int        dg_params_n(const dg_params *p);
const dg_param_info *dg_params_at(const dg_params *p, int i);         /* in order of declaration */
int        dg_params_find(const dg_params *p, const char *name);      /* by reference name; -1 */
/* Assigns offsets: trainable first (document order), each aligned to 16 elements, then frozen, then
 * buffers. Called once, when every program has been lowered. Padding between parameters is zero and
 * stays zero. */
void       dg_params_seal(dg_params *p);
int64_t    dg_params_elements(const dg_params *p);                    /* of the weights space */
int64_t    dg_params_trainable(const dg_params *p);                   /* of the gradient space */
/* Fills one parameter with its initial values: a pure function of seed, path and shape. */
void       dg_params_init(const dg_params *p, int i, uint64_t seed, double *out);

/* ---- values and instructions ----------------------------------------------------------------- */

typedef struct dg_value {
    dg_dtype    dtype;    /* DG_REAL until the precision pass */
    dg_shape    shape;
    dg_space    space;
    int64_t     offset;   /* bytes; set by the planner */
    int         producer; /* instruction; -1: none, a parameter, constant, input or space;
                             -2: dropped by a pass */
    int         param;    /* index into dg_params, -1 */
    const char *name;     /* from dg_name, or NULL */
    const void *constant; /* DG_CONSTANTS: initial content, double[] or int32_t[] by dtype */
    bool        needs_gradient; /* depends on a trainable parameter through differentiable ops */
} dg_value;

typedef enum dg_segment { DG_SEG_BATCH, DG_SEG_UPDATE, DG_N_SEGMENTS } dg_segment;
typedef enum dg_phase { DG_FORWARD, DG_GRADIENT, DG_RECOMPUTE, DG_OPTIMIZE } dg_phase;

/* Where an instruction comes from: the node whose lower emitted it (or whose gradient it is). */
typedef struct dg_origin {
    dg_where where;     /* where.node is the node's path */
    int      node;      /* number of the node in document order, -1: none */
    bool     recompute; /* that node asked for its activations to be recomputed */
} dg_origin;

typedef struct dg_instr {
    const dg_op *op;
    void        *attr;
    int          n_in, n_out; /* n_in counts every entry, optional ones included */
    int32_t     *v;           /* n_in inputs then n_out outputs: value numbers, 0 is none */
    dg_segment   segment;
    dg_phase     phase;
    dg_origin    origin;
    /* An i32 scalar: where it is 0 the instruction is skipped: states and other ranks are not touched,
     * and its outputs are zeros. 0: always runs. */
    int32_t guard;
    int     otherwise; /* 1 + the input whose value its one output has where it is skipped; 0: zeros */
} dg_instr;

/* A value that the host reads after a run, by name ("loss.total"), or writes before one
 * ("images"). */
typedef struct dg_binding {
    const char *name;
    int32_t     value;
} dg_binding;

typedef struct dg_program {
    dg_arena  *arena;
    dg_params *params;
    bool       training;
    int        accumulate;       /* batches per update */
    DG_VEC(dg_value) values;     /* values.items[0] is unused: handle 0 is "none" */
    DG_VEC(dg_instr) instrs;
    DG_VEC(dg_binding) inputs;   /* written by the host before a run */
    DG_VEC(dg_binding) results;  /* read by the host after a run */
    DG_VEC(dg_binding) draws;    /* outputs of `uniform` by "node path/name", and `denoise`'s
                                    boxes: tests replace them */
    int32_t    grads, weights, moment1, moment2, ema; /* whole-space values; 0 until first used */
    int32_t    ok;               /* i32 scalar: loss finite; of the update: loss and norm; on all ranks */
    int32_t    ok_batch;         /* of the batch alone: its loss is finite on all ranks */
    bool       keep_names;       /* named values, and gradients as grad.NAME, stay readable */
} dg_program;

dg_program *dg_program_open(dg_params *params, bool training);
void        dg_program_close(dg_program **p);

/* Instructions with values, shapes and attributes, one a line, stable: what tests store and people
 * read. */
void dg_program_print(dg_str *out, const dg_program *p);

/* Looks a binding up by name; 0 if there is none. */
int32_t dg_program_result(const dg_program *p, const char *name);
int32_t dg_program_input(const dg_program *p, const char *name);
/* By dg_name, "grad.NAME" for gradients; the last of that name. */
int32_t dg_program_named(const dg_program *p, const char *name);

/* The guard under which v is there: where it is 0, v is zeros. 0: always. */
int32_t dg_program_guard(const dg_program *p, int32_t v);
/* Whether instruction i only gives its input another shape, in the same memory. */
bool dg_program_is_alias(const dg_program *p, int i);

/* For passes: keeps the instructions with keep[i], in order, and corrects every value's
 * producer. */
void dg_program_compact(dg_program *p, const bool *keep);
void dg_program_renumber(dg_program *p); /* after instructions were inserted: corrects producers */
/* Appends a value; returns its number. */
int32_t dg_program_value(dg_program *p, dg_value v);

#endif
