/* store.h: the memory of all parameters of a run: weights, gradients, moments and averages, bound once to every
 * plan. Offsets come from dg_params; elements are f32, or f64 in that mode. */
#ifndef DG_RUNTIME_STORE_H
#define DG_RUNTIME_STORE_H

#include "kernels/backend.h"
#include "kernels/comm.h"
#include "tensor/program.h"

typedef struct dg_store {
    const dg_backend *backend;
    const dg_params  *params;
    dg_dtype          base;              /* DG_F32 or DG_F64 */
    void             *space[DG_N_SPACES]; /* the parameter spaces; NULL: not allocated, and elsewhere */
    bool              shared;            /* the gradients are the communicator's memory */
    int64_t           counter;           /* what DG_EXPORT_COUNTER entries hold: training batches so far */
} dg_store;

/* Allocates the weights; for training also gradients and moments, with ema the averages. Zeroed. comm (or NULL): where
 * it has memory in which gradients need no copy, that is taken; every rank opens at once then. */
int  dg_store_open(dg_store **s, const dg_backend *backend, const dg_params *params, dg_dtype base, bool training,
                   bool ema, dg_comm *comm, dg_diag *d) DG_MUST_USE;
void dg_store_close(dg_store **s);
int64_t dg_store_bytes(const dg_params *params, dg_dtype base, bool training, bool ema);

/* Initial values of every parameter and buffer, from seed and path; the averages become a copy. */
int dg_store_init(dg_store *s, uint64_t seed, dg_diag *d) DG_MUST_USE;
int dg_store_copy(dg_store *s, dg_space to, dg_space from, dg_diag *d) DG_MUST_USE; /* among weights and ema */

bool dg_store_has(const dg_store *s, dg_space space, int param); /* is there memory for it? */
int  dg_store_get(const dg_store *s, dg_space space, int param, double *out, dg_diag *d) DG_MUST_USE;
int  dg_store_set(dg_store *s, dg_space space, int param, const double *in, dg_diag *d) DG_MUST_USE;

#endif
