/* bucket.h: one program, compiled for a scope at one image size, and the memory that all buckets of a run share. */
#ifndef DG_RUNTIME_BUCKET_H
#define DG_RUNTIME_BUCKET_H

#include "graph/graph.h"
#include "runtime/exec.h"
#include "runtime/store.h"
#include "tensor/passes.h"

/* Slab and batch, at the maximum over the buckets that were compiled. */
typedef struct dg_memory {
    const dg_backend *backend;
    void             *slab, *io;
    int64_t           slab_bytes, io_bytes;
} dg_memory;

typedef struct dg_bucket {
    const dg_scope *scope;
    dg_size         size;
    dg_program     *program;
    dg_plan        *plan;      /* NULL until dg_bucket_plan */
    void           *constants;
    dg_exec        *exec;      /* NULL until dg_bucket_compile */
    uint64_t        exchange;  /* dg_plan_digest, by then */
} dg_bucket;

typedef struct dg_bucket_conf {
    const dg_graph   *graph;
    dg_params        *params;
    const dg_backend *backend;
    dg_dtype          base, low;
    int               threads;
    int               ranks;
    dg_comm          *comm;    /* NULL: one rank */
    struct dg_recorder *recorder; /* is told whose instructions run, or NULL */
    struct dg_witness  *witness;  /* sees what monitors watch, or NULL */
} dg_bucket_conf;

/* Lowers; parameters are declared, and must not be sealed before every scope was lowered once. */
int  dg_bucket_lower(dg_bucket **out, const dg_bucket_conf *c, const dg_scope *scope, dg_size size, dg_diag *d) DG_MUST_USE;
/* Passes and plan; no memory yet. */
int  dg_bucket_plan(dg_bucket *b, const dg_bucket_conf *c, dg_diag *d) DG_MUST_USE;
/* Constants and executor; the shared memory grows where this bucket needs more than those before it. */
int  dg_bucket_compile(dg_bucket *b, const dg_bucket_conf *c, dg_memory *m, const dg_store *s, dg_diag *d) DG_MUST_USE;
void dg_bucket_close(dg_bucket **b, const dg_backend *backend);
void dg_memory_close(dg_memory *m);

/* From here on b runs on this memory; ema: on the averaged weights instead of the weights. */
int dg_bucket_bind(dg_bucket *b, const dg_memory *m, const dg_store *s, bool ema, dg_diag *d) DG_MUST_USE;

#endif
