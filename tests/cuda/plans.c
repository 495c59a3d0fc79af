/* plans: makes cuDNN's plan of every convolution of pipelines, for a GPU that need not be there.
 *
 *     plans ARCHITECTURE TYPE BATCH SIZE FILE...     80, 90 or 100; f32, tf32 or bf16
 *
 * A pipeline is lowered, for training and for its first evaluation, and its convolutions are put on
 * a queue that does nothing: kernels/cuda/conv.c asks that queue for the same convolutions as a
 * device's. BATCH 0 leaves the pipeline's, and SIZE 0 is its largest.
 *
 * Prints a row for every program, and lists the convolutions without a plan, which will be products
 * of columns. The status is 1 if one of them is in bf16 and of at least 8 channels: fewer are made
 * 8, in a workspace that grows with the images. A fusion with what follows a convolution is
 * compiled when its plan is made, and that needs the driver: such plans are counted, not made, and
 * the plan of the bare convolution is looked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/cuda/nvidia/nvidia.h"
#include "nodes/builtin.h"
#include "tensor/ops.h"
#include "tensor/passes.h"

/* What the properties of a device are: of A100, H100 and B200, in cuDNN's words. */
static const struct {
    int architecture, processors, shared;
} devices[] = { { 80, 108, 166912 }, { 90, 132, 232448 }, { 100, 148, 232448 } };
static const char properties[] =
    "{\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"deviceName\":\"GPU\","
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800}";

typedef enum outcome { PLANNED, NEEDS_DRIVER, NONE } outcome;

typedef struct known {
    dg_cuda_convolution what;
    outcome outcome;
    int64_t workspace;
    int program; /* that had it last */
} known;

typedef struct planner {
    dg_cuda_queue queue; /* first */
    dg_nvidia_convolutions *dnn;
    bool tf32;
    int size; /* of images; 0: the largest */
    known *all;
    int n, cap;
    /* of the program */
    int program, convolutions, by_product, distinct, planned, fused, none;
    int64_t workspace;
    bool is_product; /* the call did a product */
    int missing;     /* of all programs: see above */
} planner;

static const char *const wanted_names[] = { "y", "dx", "dkernel" };

static void print_convolution(const dg_cuda_convolution *p)
{
    printf("#   %s %s: %lld images, x %lldx%lldx%lld, y %lldx%lldx%lld, kernel %lldx%lld, stride "
           "%lld, pad %lld%s%s%s\n",
           wanted_names[p->wanted],
           p->type == DG_BF16 ? "bf16"
           : p->tf32          ? "tf32"
                              : "f32",
           (long long)p->images, (long long)p->h, (long long)p->w, (long long)p->i,
           (long long)p->out_h, (long long)p->out_w, (long long)p->o, (long long)p->kh,
           (long long)p->kw, (long long)p->stride, (long long)p->pad, p->bias ? ", bias" : "",
           p->residual ? ", residual" : "", p->act ? ", activation" : "");
}

static void die(const char *what)
{
    fprintf(stderr, "plans: %s\n", what);
    exit(2);
}

static bool is_fusion(const dg_cuda_convolution *p)
{
    return p->bias || p->residual || p->act;
}

static void make_plan(planner *p, known *k)
{
    dg_cuda_conv_plan *plan = NULL;
    dg_nvidia_choice choice;
    int rc = dg_nvidia_conv_open(p->dnn, &plan, &k->what, &choice);

    if (rc)
        die(dg_nvidia_convolutions_error(rc));
    k->outcome = plan ? PLANNED : is_fusion(&k->what) ? NEEDS_DRIVER : NONE;
    k->workspace = plan ? choice.workspace : 0;
    if (plan)
        dg_nvidia_conv_close(plan);
    if (k->outcome == NONE) {
        print_convolution(&k->what);
        printf("#     no plan: %d configurations, %d want more than %d MiB, last refusal: %s\n",
               choice.n_tried, choice.n_large, DG_NVIDIA_CONV_WORKSPACE >> 20,
               choice.refused ? dg_nvidia_convolutions_error(choice.refused) : "none");
    }
}

static known *find(planner *p, const dg_cuda_convolution *what)
{
    for (int i = 0; i < p->n; i++)
        if (memcmp(&p->all[i].what, what, sizeof *what) == 0)
            return &p->all[i];
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 256;
        p->all = realloc(p->all, (size_t)p->cap * sizeof *p->all);
        if (!p->all)
            die("no memory");
    }
    p->all[p->n] = (known){ .what = *what, .program = -1 };
    make_plan(p, &p->all[p->n]);
    return &p->all[p->n++];
}

/* ---- a queue that does nothing --------------------------------------------------------------- */

static int launch(dg_cuda_queue *q, dg_cuda_function f, dg_cuda_grid grid, const void *params,
                  size_t bytes, const int32_t *guard)
{
    (void)q, (void)f, (void)grid, (void)params, (void)bytes, (void)guard;
    return 0;
}

static int product(dg_cuda_queue *q, const dg_cuda_product *what, const dg_cuda_multiplied *at)
{
    (void)what, (void)at;
    ((planner *)q)->is_product = true;
    return 0;
}

static int convolve(dg_cuda_queue *q, const dg_cuda_convolution *what, const dg_cuda_convolved *at)
{
    planner *p = (planner *)q;
    dg_cuda_convolution full = *what;
    known *k;

    (void)at;
    full.tf32 = p->tf32 && what->type == DG_F32;
    k = find(p, &full);
    if (k->program != p->program) {
        k->program = p->program;
        p->distinct++;
        p->planned += k->outcome == PLANNED;
        p->fused += k->outcome == NEEDS_DRIVER;
        p->none += k->outcome == NONE;
        p->missing += k->outcome == NONE && full.type == DG_BF16 && full.i >= 8 && full.o >= 8;
        p->workspace = k->workspace > p->workspace ? k->workspace : p->workspace;
    }
    return k->outcome == PLANNED ? 0 : DG_CUDA_NO_PLAN;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void put_instr(planner *p, const dg_program *program, const dg_instr *in)
{
    dg_tensor t[DG_MAX_OPERANDS];
    int n = in->n_in + in->n_out;
    dg_args a = { .t = t, .n = n, .attr = in->attr, .workspace = (void *)(uintptr_t)4096 };
    const dg_cuda_call call = { &a, NULL, &p->queue };
    const dg_cuda_kernel *k;

    for (int i = 0; i < n; i++) {
        const dg_value *v = &program->values.items[in->v[i]];

        t[i] = in->v[i] ? (dg_tensor){ v->dtype, v->shape, (void *)(uintptr_t)4096 }
                        : (dg_tensor){ .shape = { .rank = -1 } };
    }
    k = dg_cuda_find(in->op->name, t, n);
    p->is_product = false;
    if (!k || k->enqueue(&call))
        die(in->op->name);
    p->convolutions++;
    p->by_product += p->is_product;
}

static void plan_scope(planner *p, const dg_graph *g, const dg_scope *scope, dg_dtype low,
                       dg_backend *b, const char *name, dg_diag *d)
{
    dg_params *params = dg_params_open();
    dg_program *program = NULL;
    dg_size *sizes = NULL;
    dg_arena *a = dg_arena_open();
    int n = 0, batch = 0;

    if (dg_scope_sizes(scope, a, &sizes, &n, &batch, d) < 0 || n < 1)
        die(dg_diag_text(d));
    if (p->size)
        sizes[0] = (dg_size){ p->size, p->size };
    if (dg_graph_lower(&program, g, scope, sizes[0], params, d) < 0)
        die(dg_diag_text(d));
    dg_params_seal(params);
    if (dg_passes(program, DG_F32, low, b, 1, d) < 0)
        die(dg_diag_text(d));
    p->program++;
    p->convolutions = p->by_product = p->distinct = p->planned = p->fused = p->none = 0;
    p->workspace = 0;
    for (int i = 0; i < program->instrs.n; i++) {
        const dg_op *op = program->instrs.items[i].op;

        if (op == DG_OP(conv_packed) || op == DG_OP(conv_packed_dx) || op == DG_OP(conv_packed_dw))
            put_instr(p, program, &program->instrs.items[i]);
    }
    printf("# %-24s %-8s %4lldx%-4lld %3d %4s %6d %8d %7d %6d %5d %9d %8.1f\n", name, scope->id,
           (long long)sizes[0].w, (long long)sizes[0].h, batch,
           low == DG_BF16 ? "bf16"
           : p->tf32      ? "tf32"
                          : "f32",
           p->convolutions, p->distinct, p->planned, p->fused, p->none, p->by_product,
           (double)p->workspace / (1 << 20));
    dg_program_close(&program);
    dg_params_close(&params);
    dg_arena_close(&a);
}

static void plan_file(planner *p, const char *file, const char *batch, dg_dtype low, dg_backend *b)
{
    dg_diag *d = dg_diag_open();
    dg_registry *r = dg_registry_open();
    dg_graph *g = NULL;
    const dg_set set = { "batch", batch };
    const char *slash = strrchr(file, '/');
    char name[64];

    for (int i = 0; dg_builtin_nodes[i]; i++)
        if (dg_registry_add(r, dg_builtin_nodes[i], d) < 0)
            die(dg_diag_text(d));
    if (dg_graph_load(&g, file, &set, strcmp(batch, "0") != 0, r, d) < 0)
        die(dg_diag_text(d));
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : file);
    name[strcspn(name, ".")] = '\0';
    if (g->train)
        plan_scope(p, g, g->train, low, b, name, d);
    if (g->n_evaluates)
        plan_scope(p, g, g->evaluates[0], low, b, name, d);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_diag_close(&d);
}

static const char *properties_of(int architecture, char *buf, size_t n)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (devices[i].architecture == architecture) {
            snprintf(buf, n, properties, 10 * architecture, devices[i].processors,
                     devices[i].shared);
            return buf;
        }
    die("no such architecture");
    return NULL;
}

int main(int argc, char **argv)
{
    planner p = { .queue = { .launch = launch, .product = product, .convolve = convolve } };
    dg_diag *d = dg_diag_open();
    dg_backend *b = NULL;
    char device[1024], name[4096];
    const char *top = getenv("builddir");
    int rc;

    if (argc < 6)
        die("plans ARCHITECTURE TYPE BATCH SIZE FILE...");
    rc = dg_nvidia_convolutions_open(&p.dnn, properties_of(atoi(argv[1]), device, sizeof device));
    if (rc)
        die(dg_nvidia_convolutions_error(rc));
    /* the passes ask the device what it prefers; this one answers as CUDA's does */
    snprintf(name, sizeof name, "cuda:module=%s/tests/cuda/.libs/standin.so", top ? top : ".");
    if (dg_backend_open(&b, name, d) < 0)
        die(dg_diag_text(d));
    p.tf32 = strcmp(argv[2], "tf32") == 0;
    printf("# sm_%s, %s\n", argv[1], dg_nvidia_convolutions_version(device, sizeof device));
    printf("# %-24s %-8s %9s %3s %4s %6s %8s %7s %6s %5s %9s %8s\n", "pipeline", "scope", "size",
           "n", "type", "convs", "distinct", "planned", "fused", "none", "products", "MiB");
    p.size = atoi(argv[4]);
    for (int i = 5; i < argc; i++)
        plan_file(&p, argv[i], argv[3], strcmp(argv[2], "bf16") == 0 ? DG_BF16 : DG_F32, b);
    dg_backend_close(&b);
    dg_nvidia_convolutions_close(p.dnn);
    dg_diag_close(&d);
    free(p.all);
    return p.missing > 0;
}
