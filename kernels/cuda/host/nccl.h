/* nccl.h: NCCL, as far as it is used. Types and numbers are those of its binary interface, which
 * has been the same since 2.14, so that detrgraph is built without its header and finds it when it
 * runs. tests/cuda/nccl.c has the same interface on the CPU. */
#ifndef DG_KERNELS_CUDA_HOST_NCCL_H
#define DG_KERNELS_CUDA_HOST_NCCL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    DG_NCCL_OK = 0,
    DG_NCCL_REMOTE_ERROR = 6,
    DG_NCCL_IN_PROGRESS = 7,
    DG_NCCL_BYTES = 0, /* the type int8 */
    DG_NCCL_LEAST = 21400,
    DG_NCCL_NONE = INT_MIN, /* a setting that is not given */
};
static const unsigned dg_nccl_magic = 0xcafebeef;

typedef struct dg_nccl_id {
    char bytes[128];
} dg_nccl_id;

/* As 2.14 has it; later versions take the settings behind it as not given. */
typedef struct dg_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
    int cga_cluster_size, min_blocks, max_blocks;
    const char *net_name;
} dg_nccl_config;

typedef struct dg_nccl_comm dg_nccl_comm;

/* The functions; `stream` is CUDA's. Those of a communicator that does not block may return
 * DG_NCCL_IN_PROGRESS: nothing else may be called until async_error says that it is over. */
typedef struct dg_nccl {
    void *handle;
    int version; /* 22809: 2.28.9 */
    int (*get_version)(int *version);
    int (*get_id)(dg_nccl_id *id);
    int (*open)(dg_nccl_comm **c, int ranks, dg_nccl_id id, int rank, dg_nccl_config *conf);
    int (*finalize)(dg_nccl_comm *c);
    int (*destroy)(dg_nccl_comm *c);
    int (*abort)(dg_nccl_comm *c);
    int (*async_error)(dg_nccl_comm *c, int *code);
    int (*group_begin)(void);
    int (*group_end)(void);
    int (*send)(const void *p, size_t n, int type, int to, dg_nccl_comm *c, void *stream);
    int (*take)(void *p, size_t n, int type, int from, dg_nccl_comm *c, void *stream);
    int (*gather)(const void *p, void *all, size_t n, int type, dg_nccl_comm *c, void *stream);
    int (*broadcast)(const void *p, void *to, size_t n, int type, int root, dg_nccl_comm *c,
                     void *stream);
    const char *(*error)(int code);
    const char *(*last_error)(dg_nccl_comm *c);
} dg_nccl;

/* path: of the library; NULL: it is looked for. Fails with the reason in why. */
bool dg_nccl_load(dg_nccl *n, const char *path, char *why, size_t size);
void dg_nccl_unload(dg_nccl *n);
/* "2.28.9" */
const char *dg_nccl_version(int version, char *buf, size_t size);

#endif
