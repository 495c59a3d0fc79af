/* store.h: the memory of a run's parameters: weights, gradients, moments and averages, bound to
 * every plan. Offsets come from dg_params; elements are f32, or f64 in that mode. */
#ifndef DG_EXEC_STORE_H
#define DG_EXEC_STORE_H

#include "kernels/backend.h"
#include "kernels/comm.h"
#include "tensor/program.h"

typedef struct dg_store {
    dg_backend *backend;
    const dg_params *params;
    dg_dtype base; /* DG_F32 or DG_F64 */
    /* the parameter spaces; NULL: not allocated, or not a parameter space */
    void *space[DG_N_SPACES];
    bool shared;        /* the gradients are in the communicator's memory */
    dg_backend *pinned; /* of a copy: whose pinned memory this is; NULL: it is the backend's */
    int64_t counter;    /* value of DG_EXPORT_COUNTER entries: training batches so far */
} dg_store;

/* Allocates the weights; for training also gradients and moments, with ema the averages. Zeroed.
 * comm (or NULL): its memory, if any, is used for the gradients, which then need no copy; all ranks
 * must open at the same time. */
int dg_store_open(dg_store **s, dg_backend *backend, const dg_params *params, dg_dtype base,
                  bool training, bool ema, dg_comm *comm, dg_diag *d) DG_MUST_USE;
void dg_store_close(dg_store **s);
int64_t dg_store_bytes(const dg_params *params, dg_dtype base, bool training, bool ema);

/* Memory of the host for copies of a store without its gradients; any thread may read it, as a
 * store of backend `host`. NULL: there is not enough. */
dg_store *dg_store_open_copy(const dg_store *s, dg_backend *host);
/* Copies s on the lane COPY, behind all work that COMPUTE has; later work of COMPUTE waits for the
 * copy, which is whole when `copied` has passed. `now`: another event of the backend. */
int dg_store_copy_out(const dg_store *s, dg_store *copy, dg_event *now, dg_event *copied,
                      dg_diag *d) DG_MUST_USE;

/* Initialises every parameter and buffer from seed and path, and the averages alike. The values do
 * not depend on threads. */
int dg_store_init(dg_store *s, uint64_t seed, int threads, dg_diag *d) DG_MUST_USE;
/* between weights and ema */
int dg_store_copy(dg_store *s, dg_space to, dg_space from, dg_diag *d) DG_MUST_USE;

/* true if that space has memory for it */
bool dg_store_has(const dg_store *s, dg_space space, int param);
int dg_store_get(const dg_store *s, dg_space space, int param, double *out, dg_diag *d) DG_MUST_USE;
int dg_store_set(dg_store *s, dg_space space, int param, const double *in, dg_diag *d) DG_MUST_USE;

#endif
