/* world.h: what one rank knows of the others of its run: who it is, and the two planes that join it
 * to them. Whoever started the ranks opens both planes and hands the world to the session
 * (dg_run_options.world); a run of one rank has none (NULL). */
#ifndef DG_RUNTIME_WORLD_H
#define DG_RUNTIME_WORLD_H

#include "kernels/comm.h"

typedef struct dg_link dg_link; /* runtime/link.h: the control plane, as a rank sees it */

typedef struct dg_world {
    int      rank, ranks;             /* of the whole run, machine by machine */
    int      node, nodes;             /* which machine this is, of how many */
    int      local_rank, local_ranks; /* among the ranks of this machine */
    dg_comm *comm;                    /* data plane: collectives between all ranks */
    dg_link *link;                    /* control plane; NULL where only the data plane is wanted */
} dg_world;

#endif
