/* convolutions.c: convolutions by cuDNN's graph API, the only file that knows it. No GPU has run
 * it; tests/cuda/plans makes its plans without one, from the properties of a device.
 *
 * A plan is the first of heuristics A that repeats its bits, multiplies in the precision that was
 * asked for and does with DG_NVIDIA_CONV_WORKSPACE. On an H100, the first of A was never more than
 * 6 % slower than the best of some 130, and what A appends for want of better was up to a hundred
 * times slower: the kernels that it marks as strict about NaN are left to products of columns. */
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attrs.h"
#include "kernels/cuda/nvidia/nvidia.h"

typedef cudnnBackendDescriptor_t descriptor;

struct dg_nvidia_convolutions {
    cudnnHandle_t handle; /* NULL: there is no device, only its properties */
    descriptor device;
};

enum { MOST_PARTS = 32, MOST_CHOICES = 64 };

struct dg_cuda_conv_plan {
    dg_cuda_convolution what;
    descriptor parts[MOST_PARTS]; /* all that the plan was made of */
    int n_parts;
    descriptor plan; /* one of them */
    dg_nvidia_choice choice;
};

/* Numbers of tensors, which variant packs know them by. */
enum { X = 1, KERNEL, Y, BIAS, RESIDUAL, BETWEEN };

static int failed(cudnnStatus_t s)
{
    return s == CUDNN_STATUS_SUCCESS ? 0 : DG_NVIDIA_CUDNN + (int)s;
}

const char *dg_nvidia_convolutions_error(int code)
{
    return cudnnGetErrorString((cudnnStatus_t)(code - DG_NVIDIA_CUDNN));
}

const char *dg_nvidia_convolutions_version(char *buf, size_t n)
{
    size_t v = cudnnGetVersion();

    snprintf(buf, n, "cuDNN %zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
    return buf;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Every call returns the first error of all; what follows one does nothing. */
typedef struct maker {
    dg_cuda_conv_plan *p;
    int rc;
} maker;

static descriptor make(maker *m, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;

    if (m->rc == 0 && m->p->n_parts == MOST_PARTS)
        m->rc = DG_CUDA_NO_MEMORY;
    if (m->rc == 0)
        m->rc = failed(cudnnBackendCreateDescriptor(type, &d));
    if (m->rc == 0)
        m->p->parts[m->p->n_parts++] = d;
    return d;
}

static void set(maker *m, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (m->rc == 0)
        m->rc = failed(cudnnBackendSetAttribute(d, name, type, n, values));
}

static void set_part(maker *m, descriptor d, cudnnBackendAttributeName_t name, descriptor part)
{
    set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void set_both(maker *m, descriptor d, cudnnBackendAttributeName_t name, int64_t value)
{
    const int64_t both[] = { value, value };

    set(m, d, name, CUDNN_TYPE_INT64, 2, both);
}

static descriptor finish(maker *m, descriptor d)
{
    if (m->rc == 0)
        m->rc = failed(cudnnBackendFinalize(d));
    return d;
}

static cudnnDataType_t type_of(int64_t t)
{
    return t == DG_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* The last axis in memory is the channel, c. */
static descriptor tensor(maker *m, int64_t id, cudnnDataType_t type, int64_t n, int64_t c,
                         int64_t h, int64_t w, bool is_virtual)
{
    const int64_t sizes[] = { n, c, h, w }, steps[] = { h * w * c, 1, w * c, c },
                  alignment = DG_CUDA_CONVOLVED;
    descriptor d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, steps);
    set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return finish(m, d);
}

static descriptor geometry(maker *m, const dg_cuda_convolution *p)
{
    const int64_t axes = 2;
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    descriptor d = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    set(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    set(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_both(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p->pad);
    set_both(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, p->pad);
    set_both(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
    set_both(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p->stride);
    return finish(m, d);
}

/* The three operations of a convolution have the same attributes under three names. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, kernel, y, geometry, alpha, beta;
} operations[] = {
    [DG_CUDA_Y] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [DG_CUDA_DX] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [DG_CUDA_DKERNEL] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

/* y = x + b, or a function of x where b is NULL. */
static descriptor pointwise(maker *m, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                            descriptor y)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN; /* or ReLU would hide it */
    descriptor how = make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), d;

    set(m, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(m, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (mode == CUDNN_POINTWISE_RELU_FWD)
        set(m, how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    finish(m, how);
    d = make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(m, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(m, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_part(m, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_part(m, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return finish(m, d);
}

/* What leaves operation k of n is y after the last, and else stays within the kernel, in f32. */
static descriptor result_of(maker *m, const dg_cuda_convolution *p, int k, int n, descriptor y)
{
    return k == n - 1 ? y
                      : tensor(m, BETWEEN + k, CUDNN_DATA_FLOAT, p->images, p->o, p->out_h,
                               p->out_w, true);
}

/* The convolution, and what follows it. */
static descriptor graph_of(maker *m, const dg_nvidia_convolutions *c, const dg_cuda_convolution *p)
{
    const cudnnDataType_t type = type_of(p->type);
    const float one = 1, zero = 0;
    const int n = 1 + (p->bias != 0) + (p->residual != 0) + (p->act != DG_ACT_NONE);
    descriptor x = tensor(m, X, type, p->images, p->i, p->h, p->w, false);
    descriptor kernel = tensor(m, KERNEL, type, p->o, p->i, p->kh, p->kw, false);
    descriptor y = tensor(m, Y, type, p->images, p->o, p->out_h, p->out_w, false);
    descriptor how = geometry(m, p), ops[4], d, last, next;
    int k = 0;

    last = result_of(m, p, k, n, y);
    ops[k] = make(m, operations[p->wanted].type);
    set_part(m, ops[k], operations[p->wanted].x, x);
    set_part(m, ops[k], operations[p->wanted].kernel, kernel);
    set_part(m, ops[k], operations[p->wanted].y, last);
    set_part(m, ops[k], operations[p->wanted].geometry, how);
    set(m, ops[k], operations[p->wanted].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(m, ops[k], operations[p->wanted].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finish(m, ops[k++]);
    if (p->bias) {
        next = result_of(m, p, k, n, y);
        ops[k++] = pointwise(m, CUDNN_POINTWISE_ADD, last,
                             tensor(m, BIAS, CUDNN_DATA_FLOAT, 1, p->o, 1, 1, false), next);
        last = next;
    }
    if (p->residual) {
        next = result_of(m, p, k, n, y);
        ops[k++] =
            pointwise(m, CUDNN_POINTWISE_ADD, last,
                      tensor(m, RESIDUAL, type, p->images, p->o, p->out_h, p->out_w, false), next);
        last = next;
    }
    if (p->act != DG_ACT_NONE)
        ops[k] =
            pointwise(m,
                      p->act == DG_ACT_RELU ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_SWISH_FWD,
                      last, NULL, y);
    d = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (c->handle)
        set(m, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle);
    set(m, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    return finish(m, d);
}

/* ---- the choice of a plan -------------------------------------------------------------------- */

/* Whether an engine does what was asked for, by its notes. */
static bool may_use(const dg_cuda_convolution *p, descriptor config, dg_nvidia_choice *choice)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t ways[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    const bool exact = p->type == DG_F32 && !p->tf32;
    descriptor engine = NULL;
    int64_t n = 0, n_ways = 0, one = 0;
    bool good = true;

    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
        return false;
    if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &one, &engine) ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
                                 notes) ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n_ways, ways) ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one,
                                 &choice->engine))
        good = false;
    for (int64_t i = 0; i < n && good; i++)
        switch (notes[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: /* see above */
            good = false;
            break;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: /* f32 becomes tf32 there */
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        case CUDNN_NUMERICAL_NOTE_FFT:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD:
            good = !exact;
            break;
        default:
            break;
        }
    choice->is_compiled = false;
    for (int64_t i = 0; i < n_ways; i++)
        choice->is_compiled |= ways[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    (void)cudnnBackendDestroyDescriptor(engine);
    return good;
}

/* Finalises a plan of the configuration, which is then one of the parts; false: it is refused, or
 * wants too much workspace. */
static bool try_config(dg_nvidia_convolutions *c, dg_cuda_conv_plan *p, descriptor config)
{
    maker m = { p, 0 };
    descriptor d = make(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t n = 0;

    if (c->handle)
        set(&m, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle);
    else
        set_part(&m, d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, c->device);
    set_part(&m, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finish(&m, d);
    if (m.rc == 0)
        m.rc = failed(cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                               CUDNN_TYPE_INT64, 1, &n, &p->choice.workspace));
    if (m.rc == 0 && p->choice.workspace <= DG_NVIDIA_CONV_WORKSPACE) {
        p->plan = d;
        return true;
    }
    if (m.rc)
        p->choice.refused = m.rc;
    else
        p->choice.n_large++;
    if (d) {
        (void)cudnnBackendDestroyDescriptor(d);
        p->n_parts--;
    }
    return false;
}

static void choose(dg_nvidia_convolutions *c, dg_cuda_conv_plan *p, descriptor heuristics, int *rc)
{
    descriptor configs[MOST_CHOICES];
    int64_t n = 0, made = 0;

    while (made < MOST_CHOICES && *rc == 0) {
        *rc = failed(
            cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made]));
        made += *rc == 0;
    }
    if (*rc == 0)
        *rc = failed(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CHOICES, &n,
                                              configs));
    n = n < MOST_CHOICES ? n : MOST_CHOICES;
    for (int64_t i = 0; i < n && *rc == 0 && !p->plan; i++) {
        p->choice.n_tried++;
        if (may_use(&p->what, configs[i], &p->choice))
            (void)try_config(c, p, configs[i]);
    }
    for (int64_t i = 0; i < made; i++)
        (void)cudnnBackendDestroyDescriptor(configs[i]);
}

int dg_nvidia_conv_open(dg_nvidia_convolutions *c, dg_cuda_conv_plan **out,
                        const dg_cuda_convolution *what, dg_nvidia_choice *choice)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    dg_cuda_conv_plan *p = calloc(1, sizeof *p);
    maker m = { p, 0 };
    descriptor graph, d;
    bool known;

    *out = NULL;
    if (!p)
        return DG_CUDA_NO_MEMORY;
    p->what = *what;
    graph = graph_of(&m, c, what);
    known = m.rc == 0;
    d = make(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(&m, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(&m, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!c->handle)
        set_part(&m, d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, c->device);
    finish(&m, d);
    if (m.rc == 0)
        choose(c, p, d, &m.rc);
    if (choice)
        *choice = p->choice;
    if (p->plan)
        *out = p;
    else
        dg_nvidia_conv_close(p);
    /* that cuDNN has nothing for a graph is no error of the device */
    return known && m.rc >= DG_NVIDIA_CUDNN + CUDNN_STATUS_NOT_SUPPORTED &&
                   m.rc < DG_NVIDIA_CUDNN + CUDNN_STATUS_INTERNAL_ERROR
               ? 0
               : m.rc;
}

void dg_nvidia_conv_close(dg_cuda_conv_plan *p)
{
    while (p->n_parts)
        (void)cudnnBackendDestroyDescriptor(p->parts[--p->n_parts]);
    free(p);
}

int dg_nvidia_conv_run(dg_nvidia_convolutions *c, dg_cuda_conv_plan *p, const dg_cuda_convolved *at,
                       void *workspace, void *stream)
{
    int64_t ids[5] = { X, KERNEL, Y }, n = 3;
    const void *places[5] = { at->x ? at->x : at->to, at->kernel ? at->kernel : at->to,
                              at->y ? at->y : at->to };
    descriptor pack = NULL;
    int rc = failed(cudnnSetStream(c->handle, (cudaStream_t)stream));

    rc = rc ? rc
            : failed(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    if (rc)
        return rc;
    if (at->bias) {
        ids[n] = BIAS;
        places[n++] = at->bias;
    }
    if (at->residual) {
        ids[n] = RESIDUAL;
        places[n++] = at->residual;
    }
    rc = failed(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                         n, ids));
    rc = rc ? rc
            : failed(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                              CUDNN_TYPE_VOID_PTR, n, places));
    rc = rc ? rc
            : failed(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                              CUDNN_TYPE_VOID_PTR, 1, &workspace));
    rc = rc ? rc : failed(cudnnBackendFinalize(pack));
    rc = rc ? rc : failed(cudnnBackendExecute(c->handle, p->plan, pack));
    (void)cudnnBackendDestroyDescriptor(pack);
    return rc;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int describe_device(descriptor *d, const char *properties)
{
    int rc = failed(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, d));

    rc = rc ? rc
            : failed(cudnnBackendSetAttribute(*d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, (int64_t)strlen(properties) + 1,
                                              properties));
    return rc ? rc : failed(cudnnBackendFinalize(*d));
}

int dg_nvidia_convolutions_open(dg_nvidia_convolutions **out, const char *properties)
{
    dg_nvidia_convolutions *c = calloc(1, sizeof *c);
    int rc = c ? 0 : DG_CUDA_NO_MEMORY;

    *out = NULL;
    if (rc == 0)
        rc = properties ? describe_device(&c->device, properties) : failed(cudnnCreate(&c->handle));
    if (rc && c)
        dg_nvidia_convolutions_close(c);
    else
        *out = c;
    return rc;
}

void dg_nvidia_convolutions_close(dg_nvidia_convolutions *c)
{
    if (c->handle)
        (void)cudnnDestroy(c->handle);
    if (c->device)
        (void)cudnnBackendDestroyDescriptor(c->device);
    free(c);
}
