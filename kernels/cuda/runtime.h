/* runtime.h: what the backend for CUDA devices wants of CUDA: the functions of its runtime that it
 * calls, and the libraries of products and convolutions behind a few functions. kernels/cuda/nvidia
 * answers them with CUDA; tests/cuda/standin.c with the CPU. Both are modules: shared objects that
 * the program loads when a CUDA device is asked for, with the kernels of this folder in them.
 *
 * A function returns CUDA's error number, 0 for none: its own, or that of work that failed since.
 * Only what is stated here may be relied on:
 *   - work on a stream is done later, in the stream's order; streams do not wait for each other
 *   - copy reads and writes host memory later, pinned or not
 *   - after an error of work, every call returns that error */
#ifndef DG_KERNELS_CUDA_RUNTIME_H
#define DG_KERNELS_CUDA_RUNTIME_H

#include "kernels/cuda/cuda.h"

enum { DG_CUDA_VERSION = 6 }; /* of this file; a module of another one is refused */

typedef struct dg_cuda_stream dg_cuda_stream;
typedef struct dg_cuda_event dg_cuda_event;
typedef struct dg_cuda_graph dg_cuda_graph;         /* captured, ready to be launched */
typedef struct dg_cuda_plan dg_cuda_plan;           /* how a product of one description is done */
typedef struct dg_cuda_conv_plan dg_cuda_conv_plan; /* the same of a convolution */
typedef struct dg_cuda_runtime dg_cuda_runtime;     /* one device */

/* Numbers of cudaError_t that the backend acts on. */
enum {
    DG_CUDA_INVALID_VALUE = 1,
    DG_CUDA_NO_MEMORY = 2,
    DG_CUDA_INVALID_CONFIGURATION = 9,
    DG_CUDA_OLD_DRIVER = 35, /* or no driver */
    DG_CUDA_INVALID_FUNCTION = 98,
    DG_CUDA_NO_DEVICE = 100,
    DG_CUDA_INVALID_DEVICE = 101,
    DG_CUDA_NO_IMAGE = 209,
    DG_CUDA_ILLEGAL_ADDRESS = 700,
    DG_CUDA_NO_RESOURCES = 701,
    DG_CUDA_ALREADY_REGISTERED = 712,
    DG_CUDA_NOT_SUPPORTED = 801,
    DG_CUDA_CAPTURE_FIRST = 900, /* refused because of a capture: 900 to 908 */
    DG_CUDA_CAPTURE_INVALID = 901,
    DG_CUDA_CAPTURE_UNJOINED = 904,
    DG_CUDA_CAPTURE_LAST = 908,
    DG_CUDA_BAD_OPTION = -1, /* no error of CUDA's */
};

struct dg_cuda_runtime {
    size_t shared_limit; /* of a block */
    /* That products and convolutions want, one for all: they run one after another. */
    size_t workspace_bytes;
    bool has_bf16, has_tf32; /* fast products of these */
    uint8_t id[16];          /* of the GPU: another one has another */
    dg_limits limits;
    void (*close)(dg_cuda_runtime *r);
    /* "NVIDIA H100, sm_90, driver 13.0, CUDA 13.0" */
    const char *(*describe)(dg_cuda_runtime *r, char *buf, size_t n);

    int (*use)(dg_cuda_runtime *r); /* the device becomes the calling thread's */
    int (*memory)(dg_cuda_runtime *r, size_t *free_bytes, size_t *total_bytes);
    int (*alloc)(dg_cuda_runtime *r, void **p, size_t bytes);
    int (*free)(dg_cuda_runtime *r, void *p); /* waits for the device */
    int (*alloc_pinned)(dg_cuda_runtime *r, void **p, size_t bytes);
    int (*free_pinned)(dg_cuda_runtime *r, void *p);
    /* Whole pages of any host memory become pinned; *device: where kernels see p. */
    int (*pin)(dg_cuda_runtime *r, void *p, size_t bytes, void **device);
    int (*unpin)(dg_cuda_runtime *r, void *p);

    int (*stream_open)(dg_cuda_runtime *r, dg_cuda_stream **s);
    void (*stream_close)(dg_cuda_runtime *r, dg_cuda_stream *s);
    int (*stream_wait)(dg_cuda_runtime *r, dg_cuda_stream *s); /* the caller waits */
    int (*event_open)(dg_cuda_runtime *r, dg_cuda_event **e, bool timed);
    void (*event_close)(dg_cuda_runtime *r, dg_cuda_event *e);
    int (*event_record)(dg_cuda_runtime *r, dg_cuda_event *e, dg_cuda_stream *s);
    /* What is put on s from now on waits for it. A capture goes this way from stream to stream. */
    int (*event_order)(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_event *e);
    int (*event_wait)(dg_cuda_runtime *r, dg_cuda_event *e); /* the caller waits */
    /* Between two timed ones that have passed. */
    int (*event_seconds)(dg_cuda_runtime *r, dg_cuda_event *from, dg_cuda_event *to,
                         double *seconds);

    /* Between any two places of host and device memory. */
    int (*copy)(dg_cuda_runtime *r, dg_cuda_stream *s, void *to, const void *from, size_t bytes);
    int (*clear)(dg_cuda_runtime *r, dg_cuda_stream *s, void *p, size_t bytes);
    int (*launch)(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_function f, dg_cuda_grid grid,
                  const void *params, size_t bytes, const int32_t *guard, dg_cuda_place here);
    /* A function of the host in the stream's order. It calls nothing of this table. */
    int (*call)(dg_cuda_runtime *r, dg_cuda_stream *s, void (*fn)(void *ctx), void *ctx);

    int (*capture_begin)(dg_cuda_runtime *r, dg_cuda_stream *s);
    int (*capture_end)(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_graph **g);
    int (*graph_launch)(dg_cuda_runtime *r, dg_cuda_graph *g, dg_cuda_stream *s);
    void (*graph_close)(dg_cuda_runtime *r, dg_cuda_graph *g); /* when it has run */

    /* Always the same plan for a description, whose sums have a fixed order. */
    int (*plan_open)(dg_cuda_runtime *r, dg_cuda_plan **plan, const dg_cuda_product *p);
    void (*plan_close)(dg_cuda_runtime *r, dg_cuda_plan *plan);
    int (*plan_run)(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_plan *plan,
                    const dg_cuda_multiplied *at, void *workspace);

    /* Convolutions; all NULL: there is no library of them. A plan's sums have a fixed order, it
     * multiplies in the precision that was asked for, and does with workspace_bytes. *plan is NULL,
     * without an error, if the library has no such plan. */
    int (*conv_open)(dg_cuda_runtime *r, dg_cuda_conv_plan **plan, const dg_cuda_convolution *p);
    void (*conv_close)(dg_cuda_runtime *r, dg_cuda_conv_plan *plan);
    int (*conv_run)(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_conv_plan *plan,
                    const dg_cuda_convolved *at, void *workspace);
};

/* A module has one of these, with the name dg_cuda_this_module. */
typedef struct dg_cuda_module {
    int version;      /* DG_CUDA_VERSION */
    const char *name; /* "CUDA", or what it is instead */
    /* *n devices; text: the versions of driver and libraries, as far as they are known, even where
     * there is an error. options: "" or, for a module of tests, words of its own. */
    int (*look)(const char *options, int *n, char *text, size_t size);
    int (*open)(dg_cuda_runtime **r, int device, const char *options);
    /* "cudaErrorNoDevice: no CUDA-capable device is detected" */
    const char *(*error)(int code, char *buf, size_t n);
    const dg_cuda_kernel *(*find)(const char *op, const dg_tensor *t, int n);
    int (*sign)(dg_cuda_queue *q, uint32_t *word, uint32_t value);
    int (*skip)(dg_cuda_queue *q, const int32_t *guard, void *to, const void *from, size_t bytes);
    int (*add_up)(dg_cuda_queue *q, const dg_cuda_addition *a);
    bool has_nccl; /* its streams are CUDA's, so NCCL can be looked for */
} dg_cuda_module;

#endif
