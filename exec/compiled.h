/* compiled.h: a program compiled for a scope at one image size, and the memory that all programs of
 * a run share. */
#ifndef DG_EXEC_COMPILED_H
#define DG_EXEC_COMPILED_H

#include "graph/graph.h"
#include "exec/exec.h"
#include "exec/store.h"
#include "tensor/passes.h"

/* Slab and batch, as large as the largest compiled program needs. */
typedef struct dg_memory {
    dg_backend *backend;
    void *slab, *io;
    int64_t slab_bytes, io_bytes;
    dg_landing landing; /* as large as io; none where the device is the host */
    /* What later programs will need: memory that grows once moves once. */
    int64_t least_slab_bytes, least_io_bytes;
    int64_t
        generation; /* counts the moves: what is bound to an earlier one has to be bound again */
} dg_memory;

typedef struct dg_compiled {
    const dg_scope *scope;
    dg_size size;
    dg_program *program;
    dg_plan *plan; /* NULL before dg_compiled_plan */
    void *constants;
    dg_exec *exec; /* NULL before dg_compiled_compile */
    int64_t bound; /* generation of the memory that it is bound to; -1: none */
    bool bound_ema;
    uint64_t exchange; /* dg_plan_digest, set with the plan */
} dg_compiled;

typedef struct dg_compiled_conf {
    const dg_graph *graph;
    dg_params *params;
    dg_backend *backend;
    dg_dtype base, low;
    int threads;
    int ranks;
    dg_comm *comm;                     /* NULL: one rank */
    const dg_exec_observer *observers; /* of every compiled program */
    int n_observers;
    dg_debug debug;
} dg_compiled_conf;

/* Lowers the scope and declares its parameters. They may be sealed once every scope has been
 * lowered. */
int dg_compiled_lower(dg_compiled **out, const dg_compiled_conf *c, const dg_scope *scope,
                      dg_size size, dg_diag *d) DG_MUST_USE;
/* Runs passes and planner; allocates no memory yet. */
int dg_compiled_plan(dg_compiled *b, const dg_compiled_conf *c, dg_diag *d) DG_MUST_USE;
/* Makes constants and executor; the shared memory grows if this program needs more than earlier
 * ones. */
int dg_compiled_compile(dg_compiled *b, const dg_compiled_conf *c, dg_memory *m, const dg_store *s,
                        dg_diag *d) DG_MUST_USE;
void dg_compiled_close(dg_compiled **b, dg_backend *backend);
void dg_memory_close(dg_memory *m);

/* Binds the program to this memory unless it is bound to it; ema: with the averaged weights in
 * place of the weights. */
int dg_compiled_bind(dg_compiled *b, dg_memory *m, const dg_store *s, bool ema, dg_diag *d)
    DG_MUST_USE;

#endif
