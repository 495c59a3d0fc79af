/* programs.h: the computing part of a run: the backend, the memory of the parameters, and compiled
 * programs per scope and image size. */
#ifndef DG_RUNTIME_PROGRAMS_H
#define DG_RUNTIME_PROGRAMS_H

#include "comm/world.h"
#include "exec/compiled.h"
#include "exec/store.h"
#include "runtime/run.h"

struct dg_programs {
    dg_arena *arena;
    dg_compiled_conf conf;         /* graph, parameters, backend, storage types, threads, ranks */
    const char *precision;         /* "bf16": as executed, which may differ from the request */
    const char *why;               /* the reason for that precision, or NULL */
    char no_peers[DG_BACKEND_WHY]; /* why the ranks' devices do not exchange among themselves; "" */
    dg_store *store;               /* weights, gradients, moments, averages */
    int64_t n_loaded;              /* parameters loaded from a file; -1: none was */
    dg_memory memory;              /* slab and batch, shared by all programs */
    /* at least lowered; the first of a scope has its largest size */
    DG_VEC(dg_compiled *)
    compiled;
    dg_compiled *current;       /* NULL: none used yet */
    bool feed_draws;            /* random draws are inputs */
    DG_VEC(dg_binding) visible; /* results and named values of the current program */
    dg_arena *visible_arena;
};

/* Lowers every scope of conf.graph at its largest size, so that all parameters are known, then
 * seals them. */
int dg_programs_lower(dg_programs *g, dg_diag *d) DG_MUST_USE;
/* Opens the backend of o->device and chooses the storage types by o->precision, else by the
 * pipeline. */
int dg_programs_open_backend(dg_programs *g, const dg_run_options *o, dg_diag *d) DG_MUST_USE;
/* Allocates and initialises the parameters. */
int dg_programs_open_store(dg_programs *g, uint64_t seed, dg_diag *d) DG_MUST_USE;
void dg_programs_close(dg_programs *g);

/* Selects the program of a scope at this size, compiling it at first use; ema: with averaged
 * weights. */
int dg_programs_use(dg_programs *g, const dg_scope *scope, dg_size size, bool ema, dg_diag *d)
    DG_MUST_USE;
/* A scope's program at its largest size; NULL: the pipeline has no such scope. */
dg_compiled *dg_programs_of(const dg_programs *g, const dg_scope *scope);
/* A scope's program at that size if it can run already, or NULL. */
const dg_compiled *dg_programs_made(const dg_programs *g, const dg_scope *scope, dg_size size);
/* Plans the largest program of each scope that this run will use. */
int dg_programs_plan(dg_programs *g, bool train, bool evaluate, dg_diag *d) DG_MUST_USE;
/* Plans the program of one scope at one size. */
int dg_programs_plan_at(dg_programs *g, const dg_scope *scope, dg_size size, dg_diag *d)
    DG_MUST_USE;
/* Like dg_programs_plan, and refuses a run that does not fit into memory beside this machine's
 * other ranks. */
int dg_programs_prepare(dg_programs *g, bool train, bool evaluate, const dg_world *w, dg_diag *d)
    DG_MUST_USE;

/* The same for one program of an evaluation, which is about to be used by itself. */
int dg_programs_fit(dg_programs *g, const dg_scope *scope, dg_size size, const dg_world *w,
                    dg_diag *d) DG_MUST_USE;

/* Bytes that are free now for each rank of this machine, on the device or else the host. False: it
 * is not known. */
bool dg_programs_free(const dg_programs *g, const dg_world *w, int64_t *bytes);
/* Bytes of parameters, slab and batch, as planned so far. */
int64_t dg_programs_bytes(const dg_programs *g, bool train);
/* For how long the device has worked for them all: the sum of dg_exec_counts.device_s. */
double dg_programs_device_s(const dg_programs *g);
/* Elements of all parameters of one kind, without padding. */
int64_t dg_programs_elements(const dg_programs *g, dg_param_kind kind);

#endif
