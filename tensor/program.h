/* program.h: a program is a list of instructions over values, for one mode and one image size.
 *
 * The builder makes it (build.c), autodiff and passes change it, the planner freezes it. Values are
 * in single-assignment form, except operands marked `u` in ops.def: parameters, buffers and whole
 * spaces, which are updated in place, in program order. */
#ifndef DG_TENSOR_PROGRAM_H
#define DG_TENSOR_PROGRAM_H

#include "base/arena.h"
#include "base/diag.h"
#include <detrgraph/kernel.h>

/* The memory a value lives in. Spaces are bound to memory once per run; evaluation with averaged
 * weights binds DG_WEIGHTS to the averages. */
typedef enum dg_space {
    DG_SLAB,      /* temporaries of one plan */
    DG_WEIGHTS,   /* trainable parameters, then frozen ones, then buffers; offsets from dg_params */
    DG_GRADIENTS, /* trainable parameters only; offsets as in weights */
    DG_MOMENT1,
    DG_MOMENT2,   /* offsets as in gradients, like moment 1 */
    DG_EMA,       /* offsets as in weights */
    DG_IO,        /* the batch; the host writes it before each run */
    DG_CONSTANTS, /* written once */
    DG_REPORT,    /* results: side by side, for one copy to the host after a run */
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
    const char *path; /* unique; model id, node id and relative path joined by '.' */
    const char *name; /* name in the PyTorch reference: class prefix + relative path */
    dg_param_kind kind;
    dg_shape shape;  /* the checkpoint's layout */
    dg_dtype stored; /* exports: their type; DG_REAL otherwise */
    dg_init init;
    const char *like; /* path of the parameter whose initial values it copies, or NULL */
    int64_t zero_row; /* -1: none */
    /* elements, equal in all parameter spaces, set by dg_params_seal; -1: exports */
    int64_t offset;
    const double *values; /* of DG_EXPORT_CONST */
    dg_where where;       /* the node that first declared it */
} dg_param_info;

typedef struct dg_params dg_params;
dg_params *dg_params_open(void);
void dg_params_close(dg_params **p);
int dg_params_n(const dg_params *p);
const dg_param_info *dg_params_at(const dg_params *p, int i); /* in order of declaration */
int dg_params_find(const dg_params *p, const char *name);     /* by reference name; -1 if unknown */
/* Assigns offsets: trainable parameters in document order, then frozen ones, then buffers, each
 * aligned to 16 elements. Called once, after all programs are lowered. Padding between parameters
 * is and stays zero. */
void dg_params_seal(dg_params *p);
int64_t dg_params_elements(const dg_params *p);  /* size of the weights space */
int64_t dg_params_trainable(const dg_params *p); /* size of the gradient space */
/* Writes one parameter's initial values: a pure function of seed, path and shape. */
void dg_params_init(const dg_params *p, int i, uint64_t seed, double *out);
/* The same for its elements from..from+n-1. */
void dg_params_init_part(const dg_params *p, int i, uint64_t seed, int64_t from, int64_t n,
                         double *out);

/* ---- values and instructions ----------------------------------------------------------------- */

/* As dg_const_of_maps says. */
typedef struct dg_maps {
    dg_of_maps rule;
    dg_levels levels;
} dg_maps;

typedef struct dg_value {
    dg_dtype dtype; /* DG_REAL until the precision pass */
    dg_shape shape;
    dg_space space;
    int64_t offset; /* bytes; set by the planner */
    /* index of the instruction; -1: a parameter, constant, input or space; -2: removed by a pass */
    int producer;
    int param;            /* index into dg_params; -1: none */
    const char *name;     /* given by dg_name, or NULL */
    const void *constant; /* DG_CONSTANTS: initial content, double[] or int32_t[] by dtype */
    const dg_maps *maps;  /* DG_CONSTANTS: the rule that makes it of the sizes of maps, or NULL */
    bool needs_gradient;  /* depends on a trainable parameter through differentiable ops */
    /* would need one if a collective on the way passed gradients on: 1 + the index of its node */
    int severed;
    /* DG_CONSTANTS: another number in the programs of other ranks; own_axis: of this axis (as in
     * reduce_attr), 0: of any */
    bool own;
    int64_t own_axis;
} dg_value;

typedef enum dg_segment { DG_SEG_BATCH, DG_SEG_UPDATE, DG_N_SEGMENTS } dg_segment;
typedef enum dg_phase { DG_FORWARD, DG_GRADIENT, DG_RECOMPUTE, DG_OPTIMIZE } dg_phase;

/* Where an instruction comes from: the node that emitted it, or whose gradient it is. */
typedef struct dg_origin {
    dg_where where; /* where.node is the node's path */
    int node;       /* index of the node in document order; -1: none */
    bool recompute; /* the node asked for its activations to be recomputed */
    int part;       /* of the node, recomputed apart from its other parts */
} dg_origin;

typedef struct dg_instr {
    const dg_op *op;
    void *attr;
    int n_in, n_out; /* n_in counts every entry, including absent optional ones */
    int32_t *v;      /* n_in inputs, then n_out outputs: value numbers; 0: none */
    dg_segment segment;
    dg_phase phase;
    dg_origin origin;
    /* An i32 scalar, or 0: always run. Where it is 0 the instruction is skipped: states and other
     * ranks are left alone, and outputs are zeros. */
    int32_t guard;
    int otherwise; /* 1 + the input whose value the only output takes when skipped; 0: zeros */
} dg_instr;

/* What a result is for. The host selects results by kind and index; names are for people. */
typedef enum dg_result_kind {
    DG_RESULT_NAMED,          /* nothing else is known; index 0 */
    DG_RESULT_TAKEN,          /* what node `index` takes on the host; key: "port" or "port.key" */
    DG_RESULT_TAKEN_THERE,    /* a flag: where it is 0, node `index` does not have that key */
    DG_RESULT_LOSS_TERM,      /* an output of loss node `index`, counted within its scope */
    DG_RESULT_LOSS_TOTAL,     /* the output that it is minimised by */
    DG_RESULT_DIFFERENTIATED, /* the loss of <backward>, if it is not the total of loss node 0 */
    DG_RESULT_GRAD_NORM,      /* of the update; index 0 */
    DG_RESULT_MONITOR_VALUE,  /* of monitor `index`: compared between ranks bit by bit */
    DG_RESULT_MONITOR_FIRING, /* of monitor `index`: whether it is 0 is compared */
    DG_RESULT_MONITOR_THERE,  /* a flag: where it is 0, that monitor has no value to compare */
    DG_RESULT_SKIP,           /* flags, not 0 where node `index` fired; key: the node's id */
    DG_RESULT_STOP,
    DG_RESULT_FIRED,
} dg_result_kind;

/* A value that the host reads after a run (a result), writes before one (an input), or may replace
 * (a draw). */
typedef struct dg_binding {
    const char *name; /* "loss.total", "images" */
    int32_t value;
    dg_result_kind kind; /* of results */
    int index;           /* of results as in dg_result_kind; of inputs the node that feeds it, -1 */
    const char *key;     /* tells apart bindings of one kind and index: part of name; or NULL */
} dg_binding;

typedef struct dg_program {
    dg_arena *arena;
    dg_params *params;
    bool training;
    int accumulate;          /* batches per update */
    DG_VEC(dg_value) values; /* values.items[0] is unused: 0 means "none" */
    DG_VEC(dg_instr) instrs;
    DG_VEC(dg_binding) inputs;  /* the host writes them before a run */
    DG_VEC(dg_binding) results; /* the host reads them after a run */
    /* outputs of `uniform` by "node path/name", and the boxes of `denoise`; tests replace them */
    DG_VEC(dg_binding) draws;
    int32_t grads, weights, moment1, moment2, ema; /* whole-space values; 0 until first used */
    int32_t ok;       /* i32 scalar: loss finite on all ranks; in an update: loss and norm */
    int32_t ok_batch; /* i32 scalar, for the batch alone: its loss is finite on all ranks */
    int32_t norm;     /* the gradient norm that the update checks; 0: no update */
    int severed; /* of the loss: 1 + the index of a node whose collective ends gradients; 0: none */
    bool keep_names; /* keep named values, and gradients as grad.NAME, readable */
} dg_program;

dg_program *dg_program_open(dg_params *params, bool training);
void dg_program_close(dg_program **p);

/* Prints one instruction per line with values, shapes and attributes; stable, because tests store
 * it. */
void dg_program_print(dg_str *out, const dg_program *p);

/* The value of the first result of this kind and index; 0 if there is none. */
int32_t dg_program_result_of(const dg_program *p, dg_result_kind kind, int index);
/* The first that a node takes under this key ("labels"), at whatever port. */
int32_t dg_program_taken(const dg_program *p, const char *key);
bool dg_result_is_monitored(const dg_binding *r);
/* The input that node `index` feeds under this key; 0 if there is none. */
int32_t dg_program_input_of(const dg_program *p, int index, const char *key);
/* The value of a binding by name; 0 if unknown. */
int32_t dg_program_result(const dg_program *p, const char *name);
int32_t dg_program_input(const dg_program *p, const char *name);
/* The last value of that dg_name, or "grad.NAME" for gradients; 0 if unknown. */
int32_t dg_program_named(const dg_program *p, const char *name);

/* The guard of v: where it is 0, v is zeros. 0: v is always computed. */
int32_t dg_program_guard(const dg_program *p, int32_t v);
/* True if instruction i only reshapes its input, in the same memory. */
bool dg_program_is_alias(const dg_program *p, int i);

/* For passes: keeps the instructions with keep[i], in order, and updates the values' producers. */
void dg_program_compact(dg_program *p, const bool *keep);
/* updates the values' producers after instructions were inserted */
void dg_program_renumber(dg_program *p);
/* Appends a value; returns its number. */
int32_t dg_program_value(dg_program *p, dg_value v);

#endif
