/* backend.h: a device, as the planner and the executor see it. The host backend is kernels/host/backend.c;
 * the CUDA backend will be a module that fills the same table. */
#ifndef DG_KERNELS_BACKEND_H
#define DG_KERNELS_BACKEND_H

#include <detrgraph/kernel.h>

typedef struct dg_backend dg_backend;
typedef enum dg_device_kind { DG_HOST, DG_CUDA } dg_device_kind;

struct dg_backend {
    const char    *name; /* "host" */
    dg_device_kind kind;
    /* Memory on the device, aligned to 64, zeroed. */
    void *(*alloc)(const dg_backend *self, size_t bytes);
    void  (*free)(const dg_backend *self, void *p);
    /* Copies between host and device memory; on the host a memcpy. Ordered with runs. */
    int   (*upload)(const dg_backend *self, void *device, const void *host, size_t bytes);
    int   (*download)(const dg_backend *self, void *host, const void *device, size_t bytes);
    /* On the device: zeros, and a copy between places that do not overlap. */
    int   (*clear)(const dg_backend *self, void *p, size_t bytes);
    int   (*copy)(const dg_backend *self, void *to, const void *from, size_t bytes);
    int   (*finish)(const dg_backend *self); /* waits until all that was started is done */
    /* The kernel of an op for operands of these types; NULL: this backend cannot run it. *is_ref: a reference kernel. */
    const dg_kernel *(*select)(const dg_backend *self, const dg_op *op, const dg_tensor *t, int n, bool *is_ref);
    /* The fastest storage for DG_LOW ops when bf16 was asked for: DG_BF16, or DG_F32 where bf16 would be slower;
     * reason is one line for the log. */
    dg_dtype (*low_precision)(const dg_backend *self, const char **reason);
};

/* f32 and bf16 by host kernels, f64 by ref kernels. ref_only: ref kernels for f32 too. */
extern const dg_backend dg_backend_host;
extern const dg_backend dg_backend_ref;

/* What the CPU can do, for logs and reports: "AVX-512 BF16 AMX". */
const char *dg_cpu_features(char *buf, size_t n);
/* Libraries whose version changes results: "oneDNN 2.6.3". */
const char *dg_library_versions(char *buf, size_t n);

#endif
