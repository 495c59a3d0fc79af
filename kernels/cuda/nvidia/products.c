/* products.c: matrix products by cuBLASLt, the only file that knows it. No GPU has run it.
 *
 * cuBLASLt counts columns first: a matrix in rows is its transposed one there, so y = a b is asked
 * for as y' = b' a'. A plan is the first algorithm of the heuristics that needs no sum of parts in
 * an order of chance: with a reduction scheme of none, or in the order of its workspace. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/nvidia/nvidia.h"

struct dg_nvidia_products {
    cublasLtHandle_t handle;
};

struct dg_cuda_plan {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, y; /* a: the left one of cuBLASLt, our b */
    cublasLtMatmulAlgo_t how;
    int64_t type;
    bool bias, add;
};

static int failed(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? 0 : DG_NVIDIA_CUBLAS + (int)s;
}

#define CALL(call)           \
    do {                     \
        rc = failed((call)); \
        if (rc)              \
            return rc;       \
    } while (0)

int dg_nvidia_products_open(dg_nvidia_products **lt)
{
    dg_nvidia_products *p = calloc(1, sizeof *p);
    int rc = p ? failed(cublasLtCreate(&p->handle)) : DG_CUDA_NO_MEMORY;

    if (rc) {
        free(p);
        p = NULL;
    }
    *lt = p;
    return rc;
}

void dg_nvidia_products_close(dg_nvidia_products *lt)
{
    (void)cublasLtDestroy(lt->handle);
    free(lt);
}

const char *dg_nvidia_products_error(int code)
{
    return cublasLtGetStatusString((cublasStatus_t)(code - DG_NVIDIA_CUBLAS));
}

const char *dg_nvidia_products_version(char *buf, size_t n)
{
    size_t v = cublasLtGetVersion();

    snprintf(buf, n, "cuBLASLt %zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
    return buf;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static cudaDataType_t type_of(int64_t t)
{
    return t == DG_BF16 ? CUDA_R_16BF : t == DG_F64 ? CUDA_R_64F : CUDA_R_32F;
}

/* A matrix of `rows` rows of `columns` numbers, batch times. */
static int make_layout(cublasLtMatrixLayout_t *l, int64_t type, int64_t rows, int64_t columns,
                       int64_t batch, int64_t step)
{
    int32_t count = (int32_t)batch;
    int rc;

    CALL(cublasLtMatrixLayoutCreate(l, type_of(type), (uint64_t)columns, (uint64_t)rows, columns));
    CALL(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                          sizeof count));
    CALL(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                          sizeof step));
    return 0;
}

static int describe_product(dg_cuda_plan *plan, const dg_cuda_product *p)
{
    const cublasComputeType_t compute = p->type == DG_F64 ? CUBLAS_COMPUTE_64F_PEDANTIC
                                        : p->tf32         ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                          : CUBLAS_COMPUTE_32F;
    const cublasOperation_t turned = CUBLAS_OP_T, upright = CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        p->bias ? p->act ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                : CUBLASLT_EPILOGUE_RELU;
    int rc;

    CALL(cublasLtMatmulDescCreate(&plan->what, compute,
                                  p->type == DG_F64 ? CUDA_R_64F : CUDA_R_32F));
    CALL(cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_TRANSA,
                                        p->trans_b ? &turned : &upright, sizeof turned));
    CALL(cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_TRANSB,
                                        p->trans_a ? &turned : &upright, sizeof turned));
    if (p->bias || p->act)
        CALL(cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                            sizeof epilogue));
    rc = make_layout(&plan->a, p->type, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n,
                     p->batch, p->b_step);
    rc = rc ? rc
            : make_layout(&plan->b, p->type, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k,
                          p->batch, p->a_step);
    return rc ? rc : make_layout(&plan->y, p->out, p->m, p->n, p->batch, p->m * p->n);
}

/* Parts of a sum that are added in place come in any order. */
static bool has_an_order(const cublasLtMatmulAlgo_t *how)
{
    uint32_t scheme = 0;
    size_t written;

    if (cublasLtMatmulAlgoConfigGetAttribute(how, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                             sizeof scheme, &written) != CUBLAS_STATUS_SUCCESS)
        return false;
    return !(scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE);
}

static int set_wishes(cublasLtMatmulPreference_t wish, int64_t alignment)
{
    static const cublasLtMatmulPreferenceAttributes_t addresses[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };
    const uint64_t workspace = DG_NVIDIA_WORKSPACE;
    const uint32_t bytes = (uint32_t)alignment;
    int rc;

    CALL(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace));
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        CALL(cublasLtMatmulPreferenceSetAttribute(wish, addresses[i], &bytes, sizeof bytes));
    return 0;
}

static int choose(dg_nvidia_products *lt, dg_cuda_plan *plan, int64_t alignment)
{
    enum { MOST = 16 };
    cublasLtMatmulHeuristicResult_t found[MOST];
    cublasLtMatmulPreference_t wish = NULL;
    int n = 0, rc = failed(cublasLtMatmulPreferenceCreate(&wish));

    if (rc)
        return rc;
    rc = set_wishes(wish, alignment);
    if (rc == 0)
        rc = failed(cublasLtMatmulAlgoGetHeuristic(lt->handle, plan->what, plan->a, plan->b,
                                                   plan->y, plan->y, wish, MOST, found, &n));
    (void)cublasLtMatmulPreferenceDestroy(wish);
    for (int i = 0; i < n && rc == 0; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && has_an_order(&found[i].algo)) {
            plan->how = found[i].algo;
            return 0;
        }
    return rc ? rc : DG_NVIDIA_CUBLAS + CUBLAS_STATUS_NOT_SUPPORTED;
}

int dg_nvidia_plan_open(dg_nvidia_products *lt, dg_cuda_plan **out, const dg_cuda_product *p)
{
    dg_cuda_plan *plan = calloc(1, sizeof *plan);
    int rc;

    *out = NULL;
    if (!plan)
        return DG_CUDA_NO_MEMORY;
    plan->type = p->type;
    plan->bias = p->bias != 0;
    plan->add = p->add != 0;
    rc = describe_product(plan, p);
    if (rc == 0)
        rc = choose(lt, plan, p->alignment);
    if (rc)
        dg_nvidia_plan_close(plan);
    else
        *out = plan;
    return rc;
}

void dg_nvidia_plan_close(dg_cuda_plan *plan)
{
    if (plan->a)
        (void)cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b)
        (void)cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->y)
        (void)cublasLtMatrixLayoutDestroy(plan->y);
    if (plan->what)
        (void)cublasLtMatmulDescDestroy(plan->what);
    free(plan);
}

int dg_nvidia_plan_run(dg_nvidia_products *lt, dg_cuda_plan *plan, const dg_cuda_multiplied *at,
                       void *workspace, void *stream)
{
    const float one = 1, beta = plan->add ? 1 : 0;
    const double one64 = 1, beta64 = plan->add ? 1 : 0;
    const bool wide = plan->type == DG_F64;
    int rc;

    if (plan->bias)
        CALL(cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                            &at->bias, sizeof(void *)));
    CALL(cublasLtMatmul(lt->handle, plan->what, wide ? (const void *)&one64 : &one, at->b, plan->a,
                        at->a, plan->b, wide ? (const void *)&beta64 : &beta,
                        plan->add ? at->res : at->y, plan->y, at->y, plan->y, &plan->how, workspace,
                        DG_NVIDIA_WORKSPACE, (cudaStream_t)stream));
    return 0;
}
