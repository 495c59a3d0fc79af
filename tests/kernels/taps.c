/* A convolution and its gradients by one product per tap, on any CPU: against the reference
 * kernels, over strides, paddings, kernels, types and the bands they work in. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/attrs.h"
#include "kernels/host/host.h"
#include "kernels/host/taps.h"

extern const dg_kernel dg_ref_conv2d_f32, dg_ref_conv2d_dx_f32, dg_ref_conv2d_dw_f32;

typedef struct sample {
    int64_t images, height, width, in, out, kh, kw, stride, pad;
} sample;

static void *draw(int64_t n, dg_dtype type, uint32_t seed)
{
    size_t bytes = (size_t)n * dg_dtype_size(type);
    void *v = aligned_alloc(64, (bytes + 127) & ~(size_t)63);

    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (type == DG_BF16)
            ((uint16_t *)v)[i] = (uint16_t)(0x3f00 | (seed >> 25) | (seed >> 31 << 15));
        else
            ((float *)v)[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return v;
}

static void *widened(const void *from, int64_t n)
{
    uint32_t *v = malloc((size_t)n * sizeof *v);

    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (uint32_t)((const uint16_t *)from)[i] << 16;
    return v;
}

static void run(const dg_kernel *k, dg_tensor *t, int n, const conv_attr *attr, int threads)
{
    dg_prepare p = { .t = t, .n = n, .attr = attr, .threads = threads };
    dg_args a = { .t = t, .n = n, .attr = attr, .threads = threads };

    if (k->prepare)
        assert_int_equal(k->prepare(&p), 0);
    a.handle = p.handle;
    a.workspace = draw((int64_t)p.workspace_bytes / 4, DG_F32, 9); /* it comes with any contents */
    assert_int_equal(k->run(&a), 0);
    free(a.workspace);
    if (k->release)
        k->release(p.handle);
}

/* The last of n operands is the result, a sum of so many terms. */
static void compare(const char *op, const sample *s, const dg_kernel *taps, const dg_kernel *ref,
                    dg_tensor *t, int n, conv_attr attr, int64_t terms, int threads)
{
    int64_t size = dg_shape_elements(t[n - 1].shape);
    float *got, *want;

    for (int i = 0; i < n; i++)
        if (t[i].dtype != DG_REAL)
            t[i].data = draw(dg_shape_elements(t[i].shape), t[i].dtype, (uint32_t)i + 1);
    got = t[n - 1].data;
    run(taps, t, n, &attr, threads);
    t[n - 1].data = want = draw(size, DG_F32, 7);
    for (int i = 0; i < n - 1; i++) {
        void *narrow = t[i].data;

        if (t[i].dtype != DG_BF16)
            continue;
        t[i].data = widened(narrow, dg_shape_elements(t[i].shape));
        t[i].dtype = DG_F32;
        free(narrow);
    }
    run(ref, t, n, &attr, 1);
    for (int64_t i = 0; i < size; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * sqrtf((float)terms)))
            fail_msg("%s, %lldx%lld kernel, stride %lld, pad %lld, on %lldx%lld: element %lld is "
                     "%g, the reference says %g",
                     op, (long long)s->kh, (long long)s->kw, (long long)s->stride,
                     (long long)s->pad, (long long)s->height, (long long)s->width, (long long)i,
                     got[i], want[i]);
    for (int i = 0; i < n - 1; i++)
        free(t[i].data);
    free(got);
    free(want);
}

static void compare_all(const sample *s, dg_dtype type, int threads)
{
    int64_t oh = (s->height + 2 * s->pad - s->kh) / s->stride + 1;
    int64_t ow = (s->width + 2 * s->pad - s->kw) / s->stride + 1;
    dg_tensor x = { type, DG_SHAPE(s->images, s->height, s->width, s->in), NULL };
    dg_tensor y = { type, DG_SHAPE(s->images, oh, ow, s->out), NULL };
    dg_tensor w = { DG_F32, DG_SHAPE(s->out, s->in, s->kh, s->kw), NULL };
    dg_tensor bias = { DG_F32, DG_SHAPE(s->out), NULL };
    dg_tensor none = { DG_REAL, { .rank = -1 }, NULL };
    int64_t area = s->kh * s->kw;

    compare("weights", s, &dg_host_taps_conv2d_dw, &dg_ref_conv2d_dw_f32, (dg_tensor[]){ x, y, w },
            3, (conv_attr){ .stride = s->stride, .pad = s->pad, .h = s->kh, .w = s->kw },
            s->images * oh * ow, threads);
    if (type == DG_BF16 && dg_host_conv_weights())
        compare("weights, pairs", s, dg_host_conv_weights(), &dg_ref_conv2d_dw_f32,
                (dg_tensor[]){ x, y, w }, 3,
                (conv_attr){ .stride = s->stride, .pad = s->pad, .h = s->kh, .w = s->kw },
                s->images * oh * ow, threads);
    if (type != DG_F32)
        return;
    compare("y", s, &dg_host_taps_conv2d, &dg_ref_conv2d_f32,
            (dg_tensor[]){ x, w, s->height % 2 ? bias : none, y }, 4,
            (conv_attr){ .stride = s->stride, .pad = s->pad }, area * s->in, threads);
    if (s->stride == 1)
        compare("x", s, &dg_host_taps_conv2d_dx, &dg_ref_conv2d_dx_f32, (dg_tensor[]){ y, w, x }, 3,
                (conv_attr){ .stride = 1, .pad = s->pad, .h = s->height, .w = s->width },
                area * s->out, threads);
}

static void small_maps(void **state)
{
    const int64_t kernels[][2] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 1, 4 }, { 5, 2 } };

    (void)state;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (int64_t stride = 1; stride <= 3; stride++)
            for (int64_t pad = 0; pad <= 3; pad++)
                for (int64_t size = 1; size <= 7; size++) {
                    sample s = { 1 + size % 3,  size,          8 - size, 3,  4,
                                 kernels[k][0], kernels[k][1], stride,   pad };

                    if (size + 2 * pad < s.kh || 8 - size + 2 * pad < s.kw)
                        continue;
                    compare_all(&s, DG_F32, 1 + (int)(size % 2));
                    compare_all(&s, DG_BF16, 1 + (int)(size % 4));
                }
}

/* Images of several bands, the last one smaller. */
static void bands(void **state)
{
    (void)state;
    compare_all(&(sample){ 2, 61, 83, 40, 24, 3, 3, 1, 1 }, DG_F32, 2);
    compare_all(&(sample){ 2, 90, 83, 40, 24, 3, 3, 2, 1 }, DG_F32, 1);
    compare_all(&(sample){ 7, 20, 20, 96, 32, 3, 3, 1, 1 }, DG_F32, 1);
    compare_all(&(sample){ 3, 20, 20, 33, 17, 3, 3, 2, 1 }, DG_F32, 2);
}

static void bf16(void **state)
{
    (void)state;
    compare_all(&(sample){ 2, 9, 7, 16, 24, 3, 3, 1, 1 }, DG_BF16, 1);
    compare_all(&(sample){ 2, 10, 7, 17, 16, 3, 3, 2, 1 }, DG_BF16, 2);
    compare_all(&(sample){ 2, 61, 83, 40, 24, 3, 3, 1, 1 }, DG_BF16, 2);
    compare_all(&(sample){ 2, 90, 83, 40, 72, 3, 3, 2, 1 }, DG_BF16, 3);
    compare_all(&(sample){ 7, 20, 20, 96, 32, 3, 3, 1, 1 }, DG_BF16, 1);
    compare_all(&(sample){ 5, 10, 10, 48, 200, 3, 3, 1, 1 }, DG_BF16, 2);
    compare_all(&(sample){ 3, 17, 19, 131, 150, 1, 1, 1, 0 }, DG_BF16, 4);
    compare_all(&(sample){ 3, 20, 20, 33, 17, 1, 1, 2, 0 }, DG_BF16, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_maps), cmocka_unit_test(bands),
                                        cmocka_unit_test(bf16) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
