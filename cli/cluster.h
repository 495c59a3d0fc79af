/* cluster.h: what a cluster's scheduler says about a run on several machines. */
#ifndef DG_CLI_CLUSTER_H
#define DG_CLI_CLUSTER_H

#include "base/arena.h"
#include "cli/launch.h"

/* Whether --nodes NAME names a scheduler: "slurm", "pytorchjob" or "torchrun". */
bool dg_cluster_known(const char *name);

/* Fills in the number of machines, this one's index and, unless it is given, the coordinator, from
 * the variables that the scheduler sets; for torchrun also the ranks of this machine, and who
 * stands by. False after saying on standard error what is missing. */
bool dg_cluster_read(const char *name, dg_launch_options *l, dg_arena *a);

#endif
