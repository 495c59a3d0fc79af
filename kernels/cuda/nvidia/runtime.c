/* runtime.c: kernels/cuda/runtime.h by CUDA's runtime. No GPU has run it: it is compiled and linked
 * against CUDA, and on a machine without a driver it says so. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/nvidia/nvidia.h"

typedef struct nvidia {
    dg_cuda_runtime table; /* first: what the backend has */
    int device;
    dg_nvidia_products *lt;
#ifdef DG_CUDNN
    dg_nvidia_convolutions *dnn;
#endif
    struct cudaDeviceProp prop;
} nvidia;

/* The device is current for a thread, and the backend's callers are several. */
static nvidia *use(dg_cuda_runtime *r)
{
    nvidia *v = (nvidia *)r;

    (void)cudaSetDevice(v->device);
    return v;
}

static cudaStream_t stream_of(dg_cuda_stream *s)
{
    return (cudaStream_t)(void *)s;
}

static cudaEvent_t event_of(dg_cuda_event *e)
{
    return (cudaEvent_t)(void *)e;
}

/* An error that was returned is not found again by the next call; one of work stays all the same.
 */
static int told(cudaError_t e)
{
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return (int)e;
}

static int use_device(dg_cuda_runtime *r)
{
    return told(cudaSetDevice(((nvidia *)r)->device));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int memory(dg_cuda_runtime *r, size_t *free_bytes, size_t *total_bytes)
{
    use(r);
    return told(cudaMemGetInfo(free_bytes, total_bytes));
}

static int alloc(dg_cuda_runtime *r, void **p, size_t bytes)
{
    use(r);
    return told(cudaMalloc(p, bytes));
}

static int free_device(dg_cuda_runtime *r, void *p)
{
    use(r);
    return told(cudaFree(p));
}

static int alloc_pinned(dg_cuda_runtime *r, void **p, size_t bytes)
{
    use(r);
    return told(cudaHostAlloc(p, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
}

static int free_pinned(dg_cuda_runtime *r, void *p)
{
    use(r);
    return told(cudaFreeHost(p));
}

static int pin(dg_cuda_runtime *r, void *p, size_t bytes, void **device)
{
    cudaError_t e;

    use(r);
    e = cudaHostRegister(p, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (e == cudaSuccess) {
        e = cudaHostGetDevicePointer(device, p, 0);
        if (e != cudaSuccess)
            (void)cudaHostUnregister(p);
    }
    return told(e);
}

static int unpin(dg_cuda_runtime *r, void *p)
{
    use(r);
    return told(cudaHostUnregister(p));
}

/* ---- streams and events ---------------------------------------------------------------------- */

static int stream_open(dg_cuda_runtime *r, dg_cuda_stream **s)
{
    cudaStream_t made = NULL;
    cudaError_t e;

    use(r);
    e = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    *s = (dg_cuda_stream *)(void *)made;
    return told(e);
}

static void stream_close(dg_cuda_runtime *r, dg_cuda_stream *s)
{
    use(r);
    (void)cudaStreamDestroy(stream_of(s));
}

static int stream_wait(dg_cuda_runtime *r, dg_cuda_stream *s)
{
    use(r);
    return told(cudaStreamSynchronize(stream_of(s)));
}

static int event_open(dg_cuda_runtime *r, dg_cuda_event **e, bool timed)
{
    cudaEvent_t made = NULL;
    cudaError_t rc;

    use(r);
    rc = cudaEventCreateWithFlags(&made, timed ? cudaEventDefault : cudaEventDisableTiming);
    *e = (dg_cuda_event *)(void *)made;
    return told(rc);
}

static void event_close(dg_cuda_runtime *r, dg_cuda_event *e)
{
    use(r);
    (void)cudaEventDestroy(event_of(e));
}

static int event_record(dg_cuda_runtime *r, dg_cuda_event *e, dg_cuda_stream *s)
{
    use(r);
    return told(cudaEventRecord(event_of(e), stream_of(s)));
}

static int event_order(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_event *e)
{
    use(r);
    return told(cudaStreamWaitEvent(stream_of(s), event_of(e), 0));
}

static int event_wait(dg_cuda_runtime *r, dg_cuda_event *e)
{
    use(r);
    return told(cudaEventSynchronize(event_of(e)));
}

static int event_seconds(dg_cuda_runtime *r, dg_cuda_event *from, dg_cuda_event *to,
                         double *seconds)
{
    float ms = 0;
    cudaError_t e;

    use(r);
    e = cudaEventElapsedTime(&ms, event_of(from), event_of(to));
    *seconds = 1e-3 * (double)ms;
    return told(e);
}

/* ---- work ------------------------------------------------------------------------------------ */

static int copy(dg_cuda_runtime *r, dg_cuda_stream *s, void *to, const void *from, size_t bytes)
{
    use(r);
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(s)));
}

static int clear(dg_cuda_runtime *r, dg_cuda_stream *s, void *p, size_t bytes)
{
    use(r);
    return told(cudaMemsetAsync(p, 0, bytes, stream_of(s)));
}

static int launch(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_function f, dg_cuda_grid grid,
                  const void *params, size_t bytes, const int32_t *guard, dg_cuda_place here)
{
    void *args[] = { (void *)(uintptr_t)params, &guard, &here };
    dim3 blocks = { (unsigned)grid.blocks, 1, 1 }, threads = { (unsigned)grid.threads, 1, 1 };
    cudaError_t e = cudaSuccess;

    (void)bytes; /* the kernel knows */
    use(r);
    if (grid.blocks < 1 || grid.blocks > INT32_MAX)
        return DG_CUDA_INVALID_CONFIGURATION;
    if (grid.shared > 48u << 10) /* more has to be allowed, kernel by kernel */
        e = cudaFuncSetAttribute((const void *)(uintptr_t)f,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)grid.shared);
    if (e == cudaSuccess)
        e = cudaLaunchKernel((const void *)(uintptr_t)f, blocks, threads, args, grid.shared,
                             stream_of(s));
    return told(e);
}

static int call(dg_cuda_runtime *r, dg_cuda_stream *s, void (*fn)(void *ctx), void *ctx)
{
    use(r);
    return told(cudaLaunchHostFunc(stream_of(s), fn, ctx));
}

/* ---- captures -------------------------------------------------------------------------------- */

static int capture_begin(dg_cuda_runtime *r, dg_cuda_stream *s)
{
    use(r);
    return told(cudaStreamBeginCapture(stream_of(s), cudaStreamCaptureModeThreadLocal));
}

static int capture_end(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_graph **g)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t e;

    use(r);
    e = cudaStreamEndCapture(stream_of(s), &graph);
    if (e == cudaSuccess)
        e = cudaGraphInstantiateWithFlags(&exec, graph, 0);
    if (graph)
        (void)cudaGraphDestroy(graph);
    if (e == cudaSuccess)
        e = cudaGraphUpload(exec, stream_of(s));
    *g = (dg_cuda_graph *)(void *)exec;
    return told(e);
}

static int graph_launch(dg_cuda_runtime *r, dg_cuda_graph *g, dg_cuda_stream *s)
{
    use(r);
    return told(cudaGraphLaunch((cudaGraphExec_t)(void *)g, stream_of(s)));
}

static void graph_close(dg_cuda_runtime *r, dg_cuda_graph *g)
{
    use(r);
    (void)cudaGraphExecDestroy((cudaGraphExec_t)(void *)g);
}

/* ---- products -------------------------------------------------------------------------------- */

static int plan_open(dg_cuda_runtime *r, dg_cuda_plan **plan, const dg_cuda_product *p)
{
    return dg_nvidia_plan_open(use(r)->lt, plan, p);
}

static void plan_close(dg_cuda_runtime *r, dg_cuda_plan *plan)
{
    (void)use(r);
    dg_nvidia_plan_close(plan);
}

static int plan_run(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_plan *plan,
                    const dg_cuda_multiplied *at, void *workspace)
{
    return dg_nvidia_plan_run(use(r)->lt, plan, at, workspace, s);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

#ifdef DG_CUDNN
static int conv_open(dg_cuda_runtime *r, dg_cuda_conv_plan **plan, const dg_cuda_convolution *p)
{
    return dg_nvidia_conv_open(use(r)->dnn, plan, p, NULL);
}

static void conv_close(dg_cuda_runtime *r, dg_cuda_conv_plan *plan)
{
    (void)use(r);
    dg_nvidia_conv_close(plan);
}

static int conv_run(dg_cuda_runtime *r, dg_cuda_stream *s, dg_cuda_conv_plan *plan,
                    const dg_cuda_convolved *at, void *workspace)
{
    return dg_nvidia_conv_run(use(r)->dnn, plan, at, workspace, s);
}
#endif

/* ---- opening and closing --------------------------------------------------------------------- */

enum { LONG_PARAMETERS = 12010 }; /* the first driver that takes dg_cuda_calls */

static const char *versions(char *buf, size_t n)
{
    int driver = 0, runtime = 0;
    char products[48], convolutions[48] = "no cuDNN";

    (void)cudaDriverGetVersion(&driver); /* 0: there is none */
    (void)cudaRuntimeGetVersion(&runtime);
    dg_nvidia_products_version(products, sizeof products);
#ifdef DG_CUDNN
    dg_nvidia_convolutions_version(convolutions, sizeof convolutions);
#endif
    if (driver)
        snprintf(buf, n, "driver for CUDA %d.%d, CUDA %d.%d, %s, %s", driver / 1000,
                 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, products, convolutions);
    else
        snprintf(buf, n, "no driver, CUDA %d.%d, %s, %s", runtime / 1000, runtime % 1000 / 10,
                 products, convolutions);
    return buf;
}

static const char *describe(dg_cuda_runtime *r, char *buf, size_t n)
{
    const nvidia *v = use(r);
    char libraries[160];

    snprintf(buf, n, "%s, sm_%d%d, %s", v->prop.name, v->prop.major, v->prop.minor,
             versions(libraries, sizeof libraries));
    return buf;
}

static void close_runtime(dg_cuda_runtime *r)
{
    nvidia *v = use(r);

#ifdef DG_CUDNN
    if (v->dnn)
        dg_nvidia_convolutions_close(v->dnn);
#endif
    if (v->lt)
        dg_nvidia_products_close(v->lt);
    free(v);
}

static const dg_cuda_runtime table = {
    .close = close_runtime,
    .describe = describe,
    .use = use_device,
    .memory = memory,
    .alloc = alloc,
    .free = free_device,
    .alloc_pinned = alloc_pinned,
    .free_pinned = free_pinned,
    .pin = pin,
    .unpin = unpin,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_wait = stream_wait,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .event_order = event_order,
    .event_wait = event_wait,
    .event_seconds = event_seconds,
    .copy = copy,
    .clear = clear,
    .launch = launch,
    .call = call,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_close = graph_close,
    .plan_open = plan_open,
    .plan_close = plan_close,
    .plan_run = plan_run,
#ifdef DG_CUDNN
    .conv_open = conv_open,
    .conv_close = conv_close,
    .conv_run = conv_run,
    .workspace_bytes = DG_NVIDIA_CONV_WORKSPACE, /* the larger one */
#else
    .workspace_bytes = DG_NVIDIA_WORKSPACE,
#endif
};

/* By the data sheets: operations of a multiprocessor in a clock, dense. 0: not known. */
static dg_limits limits_of(const nvidia *v)
{
    static const struct {
        int major, minor;
        double f32, bf16;
    } known[] = { { 8, 0, 128, 2048 }, { 8, 6, 256, 512 },   { 8, 9, 256, 512 },
                  { 9, 0, 256, 4096 }, { 10, 0, 256, 8192 }, { 10, 3, 256, 8192 },
                  { 12, 0, 256, 512 } };
    int clock = 0, memory_clock = 0, bits = 0;
    dg_limits l = { 0 };

    if (cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, v->device) == cudaSuccess)
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (known[i].major == v->prop.major && known[i].minor == v->prop.minor) {
                l.flops_f32 = known[i].f32 * 1e3 * clock * v->prop.multiProcessorCount;
                l.flops_bf16 = known[i].bf16 * 1e3 * clock * v->prop.multiProcessorCount;
            }
    if (cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, v->device) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, v->device) == cudaSuccess)
        l.bytes = 2e3 * memory_clock * (bits / 8); /* two transfers a clock */
    (void)cudaGetLastError();
    return l;
}

static int open_device(dg_cuda_runtime **r, int device, const char *options)
{
    nvidia *v = calloc(1, sizeof *v);
    int rc;

    *r = NULL;
    if (!v || *options) {
        free(v);
        return v ? DG_CUDA_BAD_OPTION : DG_CUDA_NO_MEMORY;
    }
    v->table = table;
    v->device = device;
    rc = told(cudaSetDevice(device));
    rc = rc ? rc : told(cudaGetDeviceProperties(&v->prop, device));
    rc = rc ? rc : dg_nvidia_products_open(&v->lt);
#ifdef DG_CUDNN
    rc = rc ? rc : dg_nvidia_convolutions_open(&v->dnn, NULL);
#endif
    if (rc) {
        close_runtime(&v->table);
        return rc;
    }
    v->table.shared_limit = v->prop.sharedMemPerBlockOptin;
    memcpy(v->table.id, v->prop.uuid.bytes, sizeof v->table.id);
    v->table.has_bf16 = v->table.has_tf32 = v->prop.major >= 8;
    v->table.limits = limits_of(v);
    *r = &v->table;
    return 0;
}

/* CUDA takes a driver of any minor version of its own, but long parameters are the driver's. */
static int look(const char *options, int *n, char *text, size_t size)
{
    int driver = 0;

    *n = 0;
    versions(text, size);
    if (*options)
        return DG_CUDA_BAD_OPTION;
    (void)cudaDriverGetVersion(&driver);
    return driver && driver < LONG_PARAMETERS ? DG_CUDA_OLD_DRIVER : told(cudaGetDeviceCount(n));
}

static const char *error_text(int code, char *buf, size_t n)
{
#ifdef DG_CUDNN
    if (code >= DG_NVIDIA_CUDNN) {
        snprintf(buf, n, "%s", dg_nvidia_convolutions_error(code));
        return buf;
    }
#endif
    if (code >= DG_NVIDIA_CUBLAS)
        snprintf(buf, n, "%s", dg_nvidia_products_error(code));
    else
        snprintf(buf, n, "%s: %s", cudaGetErrorName((cudaError_t)code),
                 cudaGetErrorString((cudaError_t)code));
    return buf;
}

extern DG_PUBLIC const dg_cuda_module dg_cuda_this_module;
const dg_cuda_module dg_cuda_this_module = {
    .version = DG_CUDA_VERSION,
    .name = "CUDA",
    .look = look,
    .open = open_device,
    .error = error_text,
    .find = dg_cuda_find,
    .sign = dg_cuda_sign,
    .skip = dg_cuda_skip,
    .add_up = dg_cuda_add_up,
    .has_nccl = true,
};
