/* gpus.h: which ranks have which GPUs. `--device cuda` is a GPU for each rank of a machine, by its
 * number there; `--device cuda:N` is one GPU for all. */
#ifndef DG_CLI_GPUS_H
#define DG_CLI_GPUS_H

#include "base/arena.h"

/* The ranks of this machine that --ranks asks for: a number; auto: one for each GPU of the device;
 * NULL: 1. False after saying why on standard error. device: --device or DETRGRAPH_DEVICE; NULL:
 * cpu. */
bool dg_gpus_ranks(const char *ranks, const char *device, int64_t *n);

/* False, after saying why, if each rank takes a GPU of the device and there are fewer. */
bool dg_gpus_fit(int64_t ranks, const char *device);

/* The device of a rank: that GPU of its machine, unless the device names one. */
const char *dg_gpus_device(const char *device, int local_rank, dg_arena *a);

#endif
