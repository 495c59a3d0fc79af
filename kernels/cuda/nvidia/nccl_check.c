/* nccl_check.c: compiles only if kernels/cuda/host/nccl.h says what NCCL's header says. */
#include <nccl.h>

#include "kernels/cuda/host/nccl.h"

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)

SAME(DG_NCCL_OK, ncclSuccess);
SAME(DG_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(DG_NCCL_IN_PROGRESS, ncclInProgress);
SAME(DG_NCCL_BYTES, ncclInt8);
SAME(DG_NCCL_NONE, NCCL_CONFIG_UNDEF_INT);
SAME(sizeof(dg_nccl_id), sizeof(ncclUniqueId));
SAME(offsetof(dg_nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(dg_nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(dg_nccl_config, blocking), offsetof(ncclConfig_t, blocking));
SAME(offsetof(dg_nccl_config, max_blocks), offsetof(ncclConfig_t, maxCTAs));
SAME(offsetof(dg_nccl_config, net_name), offsetof(ncclConfig_t, netName));
