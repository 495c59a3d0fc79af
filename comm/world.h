/* world.h: a rank's place among the ranks of its run, and its two planes: collectives and control.
 * The launcher's child opens both and passes the world to the session (dg_run_open_rank); a run of
 * one rank has none. */
#ifndef DG_COMM_WORLD_H
#define DG_COMM_WORLD_H

#include "base/diag.h"
#include "kernels/comm.h"

typedef struct dg_link dg_link; /* control/link.h: a rank's side of the control plane */

typedef struct dg_world {
    int rank, ranks;             /* of the whole run, numbered machine by machine */
    int node, nodes;             /* this machine, and the number of machines */
    int local_rank, local_ranks; /* among the ranks of this machine */
    /* number of ranks at the start of the run: in total, and per machine */
    int first_ranks, machine_ranks;
    int may_lose;    /* how many losses of a rank or machine the run survives with fewer ranks */
    const char *of;  /* the node or scope that calls are for, "evaluate/coco"; NULL: the run */
    dg_comm *comm;   /* data plane: collectives between all ranks, for values of the host */
    dg_comm *device; /* for values of programs: comm itself, or its duplicate (see below) */
    dg_link *link;   /* control plane; NULL: only the data plane */
} dg_world;

/* Sets w->device. late: the device works on its own thread, so its collectives must not wait for
 * the host's, nor the host's for them. Every rank calls it. */
int dg_world_open_device(dg_world *w, bool late, dg_diag *d) DG_MUST_USE;
void dg_world_close_device(dg_world *w);
/* What all collectives of this rank have cost, while the device has nothing to do; zeros: one rank
 */
dg_comm_cost dg_world_cost(const dg_world *w);

/* The same world, for the collectives of one node or scope. The run ends if ranks meet that call
 * different functions below, or call one for different nodes or with a different `what`, even if
 * their byte counts agree. */
dg_world dg_world_of(const dg_world *w, const char *of);

/* Collectives on the host: every rank calls them in the same order. With one rank they succeed
 * without doing anything. Errors of the communicator are reported with `what`, which completes
 * "while the ranks ...". */
/* from rank 0 */
int dg_world_broadcast(const dg_world *w, void *p, size_t bytes, const char *what, dg_diag *d)
    DG_MUST_USE;
int dg_world_broadcast_from(const dg_world *w, int root, void *p, size_t bytes, const char *what,
                            dg_diag *d) DG_MUST_USE;
int dg_world_gather(const dg_world *w, const void *mine, size_t bytes, void *all, const char *what,
                    dg_diag *d) DG_MUST_USE;
/* Gathers bytes of any size from every rank: *all (dg_free) has them in rank order, sizes[r] each;
 * sizes has room for w->ranks. */
int dg_world_collect(const dg_world *w, const void *mine, size_t bytes, void **all, size_t *sizes,
                     const char *what, dg_diag *d) DG_MUST_USE;
int dg_world_any(const dg_world *w, bool mine, bool *any, const char *what, dg_diag *d) DG_MUST_USE;
/* in place: the minimum over all ranks; the sum */
int dg_world_least(const dg_world *w, double *x, const char *what, dg_diag *d) DG_MUST_USE;
int dg_world_sum(const dg_world *w, double *x, const char *what, dg_diag *d) DG_MUST_USE;
/* Each rank passes the status of its own work. If any failed, all fail: that rank with its own
 * status, the others with -DG_ESTOP and an error that names it. */
int dg_world_agree(const dg_world *w, int rc, const char *what, dg_diag *d) DG_MUST_USE;

#endif
