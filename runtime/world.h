/* world.h: what one rank knows of the others of its run: who it is, and the two planes that join it
 * to them. Whoever started the ranks opens both planes and hands the world to the session
 * (dg_run_options.world); a run of one rank has none (NULL). */
#ifndef DG_RUNTIME_WORLD_H
#define DG_RUNTIME_WORLD_H

#include "base/diag.h"
#include "kernels/comm.h"

typedef struct dg_link dg_link; /* runtime/link.h: the control plane, as a rank sees it */

typedef struct dg_world {
    int      rank, ranks;             /* of the whole run, machine by machine */
    int      node, nodes;             /* which machine this is, of how many */
    int      local_rank, local_ranks; /* among the ranks of this machine */
    int      first_ranks, machine_ranks; /* as many the run began with, all and on each machine */
    int      may_lose;                /* so often it may lose a rank or a machine for good, and go on */
    dg_comm *comm;                    /* data plane: collectives between all ranks */
    dg_link *link;                    /* control plane; NULL where only the data plane is wanted */
} dg_world;

/* Collectives on the host: every rank calls them in the same order. With one rank they do nothing, and succeed. A failure
 * of the communicator is told with `what`, which completes "while the ranks ...". */
int dg_world_broadcast(const dg_world *w, void *p, size_t bytes, const char *what, dg_diag *d) DG_MUST_USE; /* from rank 0 */
int dg_world_broadcast_from(const dg_world *w, int root, void *p, size_t bytes, const char *what, dg_diag *d) DG_MUST_USE;
int dg_world_gather(const dg_world *w, const void *mine, size_t bytes, void *all, const char *what, dg_diag *d) DG_MUST_USE;
/* Bytes of every rank: *all (dg_free) holds them in rank order, sizes[r] each; sizes has room for w->ranks. */
int dg_world_collect(const dg_world *w, const void *mine, size_t bytes, void **all, size_t *sizes, const char *what,
                     dg_diag *d) DG_MUST_USE;
int dg_world_any(const dg_world *w, bool mine, bool *any, const char *what, dg_diag *d) DG_MUST_USE;
int dg_world_sum(const dg_world *w, double *x, const char *what, dg_diag *d) DG_MUST_USE; /* in place */
/* Every rank brings the status of what it did on its own. Where one failed none goes on: it returns its own status, the
 * others -DG_ESTOP with an error that names it. */
int dg_world_agree(const dg_world *w, int rc, const char *what, dg_diag *d) DG_MUST_USE;

#endif
