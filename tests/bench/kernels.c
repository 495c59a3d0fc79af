/* kernels.c: measures host kernels against this machine's limits of arithmetic and memory.
 *
 *     tests/bench/kernels [WORD] [THREADS]      only cases whose name contains WORD
 *
 * A line gives the median of several runs, GFLOP/s (a multiply-add counts 2), GB/s (each operand
 * counted once) and the fraction of the roofline: the larger of arithmetic time and memory time
 * over the time taken. With one thread, CPU time is measured, which a busy machine disturbs less.
 * Not part of `make check`: speed is not a test. */
#include "base/diag.h"
#include "kernels/attrs.h"
#include "kernels/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_T = 13,
    RUNS = 9,
    STAGGER = 4096 + 320, /* as in a plan's slab: operands begin at different offsets in a page */
};

#define HOST(name) extern const dg_kernel dg_host_##name
HOST(conv2d);
HOST(conv2d_dx);
HOST(conv2d_dw);
HOST(matmul);
HOST(batch_norm);
HOST(batch_norm_grad);
HOST(batch_stats);
HOST(batch_norm_sync);
HOST(batch_norm_sums);
HOST(batch_norm_dx);
HOST(layer_norm);
HOST(layer_norm_grad);
HOST(attention);
HOST(attention_grad);
HOST(deform_attention);
HOST(deform_attention_grad);
HOST(add);
HOST(silu_grad);
HOST(concat);
HOST(sum);
HOST(max_pool);
HOST(max_pool_grad);
HOST(upsample_grad);
HOST(avg_pool);
HOST(class_loss_grad);
HOST(match_cost);
HOST(grad_norm);
HOST(adamw);
HOST(scale);

typedef struct bench {
    const char *word;
    int threads;
    dg_backend *host;
    double gflops[2], gbytes; /* measured peaks, in 1e9 per second; gflops: f32, bf16 */
} bench;

typedef struct bench_case {
    const char *name;
    const dg_kernel *kernel;
    const void *attr;
    int n;
    dg_tensor t[MAX_T];
    double flops;
} bench_case;

#define F(...) { DG_F32, DG_SHAPE(__VA_ARGS__), NULL }
#define L(...) { low ? DG_BF16 : DG_F32, DG_SHAPE(__VA_ARGS__), NULL }
#define I(...) { DG_I32, DG_SHAPE(__VA_ARGS__), NULL }
#define B(...) { DG_U8, DG_SHAPE(__VA_ARGS__), NULL }
#define NONE { DG_REAL, { -1, { 0 } }, NULL }
#define SCALAR { DG_F32, { 0, { 0 } }, NULL }

static double now(const bench *b)
{
    struct timespec t;

    clock_gettime(b->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t bytes_of(const dg_tensor *t)
{
    return t->shape.rank < 0 ? 0 : (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

/* Fills with values in (0.1, 0.9), valid for every op; integers with 0..6. */
static void fill(dg_tensor *t)
{
    uint64_t state = 1;

    for (int64_t i = 0; i < dg_shape_elements(t->shape); i++) {
        float x;
        uint32_t bits;

        state = state * 6364136223846793005u + 1442695040888963407u;
        x = 0.1f + 0.8f * (float)(state >> 40) / 16777216.0f;
        memcpy(&bits, &x, sizeof bits);
        if (t->dtype == DG_F32)
            ((float *)t->data)[i] = x;
        else if (t->dtype == DG_BF16)
            ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
        else if (t->dtype == DG_I32)
            ((int32_t *)t->data)[i] = (int32_t)(state >> 40) % 7;
        else
            ((uint8_t *)t->data)[i] = (uint8_t)(state >> 40) % 9;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Median seconds of a run; negative if the kernel fails. */
static double time_case(const bench *b, bench_case *c)
{
    static const dg_control control = {
        .bias1 = 0.1, .bias2 = 0.001, .ema_decay = 0.999, .lr = { 1e-4 }
    };
    dg_backend *host = b->host;
    dg_prepare p = { .t = c->t, .n = c->n, .attr = c->attr, .threads = b->threads };
    dg_args a = {
        .t = c->t, .n = c->n, .attr = c->attr, .control = &control, .threads = b->threads
    };
    void *base[MAX_T] = { NULL };
    double s[RUNS], median = -1;

    if (c->kernel->prepare && c->kernel->prepare(&p) < 0)
        return -1;
    a.handle = p.handle;
    a.workspace = host->alloc(host, p.workspace_bytes + 1);
    for (int i = 0; i < c->n; i++)
        if (c->t[i].shape.rank >= 0 && !c->t[i].data) {
            base[i] = host->alloc(host, bytes_of(&c->t[i]) + STAGGER * MAX_T);
            c->t[i].data = (char *)base[i] + STAGGER * i;
            fill(&c->t[i]);
        }
    c->kernel->run(&a);
    for (int i = 0; i < RUNS; i++) {
        double begin = now(b);

        if (c->kernel->run(&a) < 0)
            goto out;
        s[i] = now(b) - begin;
    }
    qsort(s, RUNS, sizeof s[0], by_value);
    median = s[RUNS / 2];
out:
    if (c->kernel->release)
        c->kernel->release(p.handle);
    host->free(host, a.workspace);
    for (int i = 0; i < c->n; i++)
        host->free(host, base[i]);
    return median;
}

static void run(const bench *b, bench_case c)
{
    char shape[64], name[64];
    bool low = c.t[0].dtype == DG_BF16;
    double bytes = 0, s, limit;

    snprintf(name, sizeof name, "%s %s", c.name, low ? "bf16" : "f32");
    if (b->word && !strstr(name, b->word))
        return;
    for (int i = 0; i < c.n; i++)
        bytes += (double)bytes_of(&c.t[i]);
    dg_shape_print(c.t[0].shape, shape, sizeof shape);
    s = time_case(b, &c);
    limit = bytes / b->gbytes * 1e-9;
    if (c.flops / b->gflops[low] * 1e-9 > limit)
        limit = c.flops / b->gflops[low] * 1e-9;
    printf("%-28s %-20s %8.3f ms %7.0f GFLOP/s %6.1f GB/s %5.0f %%\n", name, shape, s * 1e3,
           c.flops / s * 1e-9, bytes / s * 1e-9, 100 * limit / s);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void conv(const bench *b, bool low, int64_t n, int64_t i, int64_t h, int64_t o, int64_t k,
                 int64_t stride)
{
    int64_t pad = (k - 1) / 2, y = (h + 2 * pad - k) / stride + 1;
    double flops = 2.0 * (double)(n * y * y * i * o * k * k);
    conv_attr fwd = { stride, pad, 0, 0, 0 }, dx = { stride, pad, h, h, 0 },
              dw = { stride, pad, k, k, 0 };
    char name[3][32];

    snprintf(name[0], sizeof name[0], "conv %dx%d s%d >%d", (int)k, (int)k, (int)stride, (int)o);
    snprintf(name[1], sizeof name[1], "conv_dx %dx%d s%d <%d", (int)k, (int)k, (int)stride, (int)i);
    snprintf(name[2], sizeof name[2], "conv_dw %dx%d s%d >%d", (int)k, (int)k, (int)stride, (int)o);
    run(b, (bench_case){ name[0],
                         &dg_host_conv2d,
                         &fwd,
                         4,
                         { L(n, h, h, i), F(o, i, k, k), NONE, L(n, y, y, o) },
                         flops });
    if (i > 3)
        run(b, (bench_case){ name[1],
                             &dg_host_conv2d_dx,
                             &dx,
                             3,
                             { L(n, y, y, o), F(o, i, k, k), L(n, h, h, i) },
                             flops });
    run(b, (bench_case){ name[2],
                         &dg_host_conv2d_dw,
                         &dw,
                         3,
                         { L(n, h, h, i), L(n, y, y, o), F(o, i, k, k) },
                         flops });
}

static void linear(const bench *b, bool low, int64_t m, int64_t k, int64_t n)
{
    matmul_attr fwd = { 0, 1 }, dx = { 0, 0 }, dw = { 1, 0 };
    double flops = 2.0 * (double)(m * n * k);

    run(b, (bench_case){
               "linear", &dg_host_matmul, &fwd, 4, { L(m, k), F(n, k), F(n), L(m, n) }, flops });
    run(b, (bench_case){
               "linear_dx", &dg_host_matmul, &dx, 4, { L(m, n), F(n, k), NONE, L(m, k) }, flops });
    run(b, (bench_case){
               "linear_dw", &dg_host_matmul, &dw, 4, { L(m, n), L(m, k), NONE, F(n, k) }, flops });
}

static void norm(const bench *b, bool low, int64_t h, int64_t c, int64_t act, bool res)
{
    norm_attr f = { 1e-5, act, 0, !res };
    char name[2][32];
    dg_tensor map = L(4, h, h, c), none = NONE;

    snprintf(name[0], sizeof name[0], "batch_norm%s%s", act == DG_ACT_SILU ? "+silu" : "+relu",
             res ? "+res" : "");
    snprintf(name[1], sizeof name[1], "batch_norm_grad%s%s", act == DG_ACT_SILU ? "+silu" : "+relu",
             res ? "+res" : "");
    run(b, (bench_case){ name[0],
                         &dg_host_batch_norm,
                         &f,
                         7,
                         { map, F(c), F(c), res ? map : none, map, F(c), F(c) },
                         0 });
    run(b, (bench_case){ name[1],
                         &dg_host_batch_norm_grad,
                         &f,
                         12,
                         { map, map, res ? map : none, F(c), F(c), F(c), F(c), none, map, F(c),
                           F(c), res ? map : none },
                         0 });
}

/* The same norm split where ranks reduce the moments. */
static void sync_norm(const bench *b, bool low, int64_t h, int64_t c, int64_t act, bool res)
{
    sync_attr f = { .norm = { 1e-5, act, 0, !res } };
    norm_attr dx = { 1e-5, res ? DG_ACT_NONE : act, 0, !res };
    dg_tensor map = L(4, h, h, c), none = NONE, v = F(c);

    run(b, (bench_case){
               "batch_stats", &dg_host_batch_stats, NULL, 3, { map, none, F(1, 2 * c + 1) }, 0 });
    run(b, (bench_case){ "batch_norm_sync",
                         &dg_host_batch_norm_sync,
                         &f,
                         9,
                         { map, v, v, v, v, SCALAR, none, res ? map : none, map },
                         0 });
    run(b, (bench_case){ "batch_norm_sums",
                         &dg_host_batch_norm_sums,
                         &f,
                         13,
                         { map, map, res ? map : none, v, v, v, v, none, none, F(2, c), v, v,
                           res ? map : none },
                         0 });
    run(b, (bench_case){ "batch_norm_dx",
                         &dg_host_batch_norm_dx,
                         &dx,
                         12,
                         { map, map, none, v, v, v, v, SCALAR, F(2, c), none, none, map },
                         0 });
}

static void decoder(const bench *b, bool low, int64_t size, int64_t n)
{
    int64_t s = size / 8, all = s * s + s * s / 4 + s * s / 16, p = 12;
    attention_attr f = { 8, 200 };
    deform_attr d = { .heads = 8,
                      .n_levels = 3,
                      .h = { s, s / 2, s / 4 },
                      .w = { s, s / 2, s / 4 },
                      .points = { 4, 4, 4 } };
    norm_attr l = { 1e-5, 0, 0, 0 };
    double pairs = 4.0 * 8 * (double)(n * n) * 32 * 2,
           taps = 4.0 * (double)(n * 8 * p) * 4 * 32 * 2;
    dg_tensor q = L(4, n, 256), value = L(4, all, 256);

    run(b,
        (bench_case){
            "attention", &dg_host_attention, &f, 6, { q, q, q, NONE, q, F(4, 8, n) }, 2 * pairs });
    run(b, (bench_case){ "attention_grad",
                         &dg_host_attention_grad,
                         &f,
                         10,
                         { q, q, q, q, q, F(4, 8, n), NONE, q, q, q },
                         5 * pairs });
    run(b, (bench_case){ "deform_attention",
                         &dg_host_deform_attention,
                         &d,
                         5,
                         { value, F(4, n, 4), F(4, n, 8 * p * 2), F(4, n, 8, p), q },
                         taps });
    run(b, (bench_case){ "deform_attention_grad",
                         &dg_host_deform_attention_grad,
                         &d,
                         9,
                         { q, value, F(4, n, 4), F(4, n, 8 * p * 2), F(4, n, 8, p), F(4, all, 256),
                           F(4, n, 4), F(4, n, 8 * p * 2), F(4, n, 8, p) },
                         2 * taps });
    run(b, (bench_case){ "layer_norm",
                         &dg_host_layer_norm,
                         &l,
                         6,
                         { value, F(256), F(256), value, F(4, all), F(4, all) },
                         0 });
    run(b, (bench_case){ "layer_norm_grad",
                         &dg_host_layer_norm_grad,
                         &l,
                         8,
                         { value, value, F(256), F(4, all), F(4, all), value, F(256), F(256) },
                         0 });
}

static void rest(const bench *b, bool low, int64_t h)
{
    axes_attr bias = { 7, 0 };
    axis_attr last = { 3, 0, 0 };
    pool_attr pool = { 3, 2, 1, 2 * h, 2 * h }, up = { 2, 0, 0, h / 2, h / 2 };
    no_attr none = { 0 };
    dg_tensor map = L(4, h, h, 64), wide = L(4, 2 * h, 2 * h, 64), half = L(4, h / 2, h / 2, 64);

    run(b, (bench_case){ "add", &dg_host_add, &none, 3, { map, map, map }, 0 });
    run(b, (bench_case){ "silu_grad", &dg_host_silu_grad, &none, 3, { map, map, map }, 0 });
    run(b, (bench_case){ "concat", &dg_host_concat, &last, 3, { map, map, L(4, h, h, 128) }, 0 });
    run(b, (bench_case){ "sum", &dg_host_sum, &bias, 2, { map, F(64) }, 0 });
    run(b,
        (bench_case){ "max_pool", &dg_host_max_pool, &pool, 3, { wide, map, B(4, h, h, 64) }, 0 });
    run(b,
        (bench_case){
            "max_pool_grad", &dg_host_max_pool_grad, &pool, 3, { map, B(4, h, h, 64), wide }, 0 });
    run(b, (bench_case){ "upsample_grad", &dg_host_upsample_grad, &up, 2, { map, half }, 0 });
}

static void criterion(const bench *b, int64_t q, int64_t m)
{
    dg_class_loss_attr vfl = { 0, 0.75, 2 };
    match_attr f = { 2, 5, 2, 0.25, 2, 1e-8 };

    run(b,
        (bench_case){ "class_loss_grad",
                      &dg_host_class_loss_grad,
                      &vfl,
                      8,
                      { SCALAR, F(4, q, 80), I(4, m), I(4, m), NONE, F(4, m), NONE, F(4, q, 80) },
                      0 });
    run(b, (bench_case){ "match_cost",
                         &dg_host_match_cost,
                         &f,
                         6,
                         { F(4, q, 80), F(4, q, 4), I(4, m), F(4, m, 4), I(4), F(4, m, q) },
                         0 });
}

static void update(const bench *b, int64_t n)
{
    adamw_range all = { 0, n, 0, 1e-4 };
    adamw_attr f = { 0.9, 0.999, 1e-8, 0.1, 1, &all };
    dg_tensor ok = { DG_I32, { 0, { 0 } }, NULL };

    run(b, (bench_case){ "grad_norm", &dg_host_grad_norm, &f, 2, { F(n), SCALAR }, 0 });
    run(b, (bench_case){
               "adamw", &dg_host_adamw, &f, 7, { F(n), F(n), F(n), F(n), F(n), SCALAR, ok }, 0 });
}

/* GFLOP/s of a large square product. */
static double product_rate(const bench *b, bool low)
{
    matmul_attr f = { 0, 0 };
    int64_t n = 1536;
    bench_case product = { "", &dg_host_matmul, &f, 4, { L(n, n), L(n, n), NONE, L(n, n) }, 0 };

    return 2.0 * (double)(n * n * n) / time_case(b, &product) * 1e-9;
}

/* Measures the roofline: such products, and a scaled copy larger than any cache. */
static void measure_limits(bench *b)
{
    affine_attr g = { 1.5, 0.5 };
    int64_t m = 1 << 26;
    bench_case copy = { "", &dg_host_scale, &g, 2, { F(m), F(m) }, 0 };

    b->gflops[false] = product_rate(b, false);
    b->gflops[true] = product_rate(b, true);
    b->gbytes = 8.0 * (double)m / time_case(b, &copy) * 1e-9;
}

int main(int argc, char **argv)
{
    bench b = { .word = argc > 1 && argv[1][0] ? argv[1] : NULL,
                .threads = argc > 2 ? atoi(argv[2]) : 2 };
    char features[64];

    dg_diag *d = dg_diag_open();

    if (dg_backend_open(&b.host, "cpu", d) < 0)
        return 1;
    measure_limits(&b);
    printf("%s, %d threads; product %.0f GFLOP/s in f32, %.0f in bf16, scaled copy %.1f GB/s\n",
           dg_cpu_features(features, sizeof features), b.threads, b.gflops[0], b.gflops[1],
           b.gbytes);
    for (int low = 0; low < 2; low++) {
        static const int64_t convs[][5] = {
            /* I H O k stride */
            { 3, 320, 32, 3, 2 },   { 32, 160, 32, 3, 1 },  { 32, 160, 64, 3, 1 },
            { 64, 80, 64, 3, 1 },   { 64, 160, 64, 3, 1 },  { 64, 80, 128, 3, 2 },
            { 128, 40, 128, 3, 1 }, { 128, 80, 128, 3, 1 }, { 256, 20, 256, 3, 1 },
            { 256, 40, 256, 3, 1 }, { 512, 10, 512, 3, 1 }, { 64, 80, 64, 1, 1 },
            { 512, 40, 128, 1, 1 }, { 512, 20, 256, 1, 1 }, { 256, 40, 1024, 1, 1 },
        };

        for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++)
            conv(&b, low, 4, convs[i][0], convs[i][1], convs[i][2], convs[i][3], convs[i][4]);
        linear(&b, low, 2000, 256, 256);
        linear(&b, low, 2000, 256, 1024);
        linear(&b, low, 8400, 256, 256);
        norm(&b, low, 160, 64, DG_ACT_RELU, false);
        norm(&b, low, 80, 64, DG_ACT_RELU, false);
        norm(&b, low, 80, 64, DG_ACT_RELU, true);
        norm(&b, low, 40, 256, DG_ACT_SILU, false);
        norm(&b, low, 10, 512, DG_ACT_RELU, true);
        sync_norm(&b, low, 80, 64, DG_ACT_RELU, false);
        sync_norm(&b, low, 80, 64, DG_ACT_RELU, true);
        sync_norm(&b, low, 40, 256, DG_ACT_SILU, false);
        decoder(&b, low, 320, 500);
        decoder(&b, low, 640, 500);
        rest(&b, low, 80);
    }
    criterion(&b, 500, 100);
    update(&b, 20000000);
    return 0;
}
