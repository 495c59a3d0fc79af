/* A convolution's weight gradient by one product per tap, for any instruction set: against the
 * reference kernel, over strides, paddings, kernels, types and the bands it works in. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/attrs.h"
#include "kernels/host/taps.h"

extern const dg_kernel dg_ref_conv2d_dw_f32;

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

static void run(const dg_kernel *k, dg_tensor *t, const conv_attr *attr, int threads)
{
    dg_prepare p = { .t = t, .n = 3, .attr = attr, .threads = threads };
    dg_args a = { .t = t, .n = 3, .attr = attr, .threads = threads };

    if (k->prepare)
        assert_int_equal(k->prepare(&p), 0);
    a.handle = p.handle;
    a.workspace = draw((int64_t)p.workspace_bytes / 4, DG_F32, 9); /* it comes with any contents */
    assert_int_equal(k->run(&a), 0);
    free(a.workspace);
    if (k->release)
        k->release(p.handle);
}

static void compare(const sample *s, dg_dtype type, int threads)
{
    int64_t oh = (s->height + 2 * s->pad - s->kh) / s->stride + 1;
    int64_t ow = (s->width + 2 * s->pad - s->kw) / s->stride + 1;
    dg_tensor t[] = { { type, DG_SHAPE(s->images, s->height, s->width, s->in), NULL },
                      { type, DG_SHAPE(s->images, oh, ow, s->out), NULL },
                      { DG_F32, DG_SHAPE(s->out, s->in, s->kh, s->kw), NULL } };
    conv_attr attr = { .stride = s->stride, .pad = s->pad, .h = s->kh, .w = s->kw };
    int64_t n[3], most = oh * ow * s->images;
    float *got, *want;

    for (int i = 0; i < 3; i++) {
        n[i] = dg_shape_elements(t[i].shape);
        t[i].data = draw(n[i], i < 2 ? type : DG_F32, (uint32_t)i + 1);
    }
    got = t[2].data;
    run(&dg_host_taps_conv2d_dw, t, &attr, threads);
    t[2].data = want = draw(n[2], DG_F32, 7);
    for (int i = 0; i < 2 && type == DG_BF16; i++) {
        void *wide = widened(t[i].data, n[i]);

        free(t[i].data);
        t[i].data = wide;
        t[i].dtype = DG_F32;
    }
    run(&dg_ref_conv2d_dw_f32, t, &attr, 1);
    for (int64_t i = 0; i < n[2]; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * sqrtf((float)most)))
            fail_msg("weight %lld of a %lldx%lld kernel, stride %lld, pad %lld, on %lldx%lld: "
                     "%g, the reference says %g",
                     (long long)i, (long long)s->kh, (long long)s->kw, (long long)s->stride,
                     (long long)s->pad, (long long)s->height, (long long)s->width, got[i], want[i]);
    for (int i = 0; i < 2; i++)
        free(t[i].data);
    free(got);
    free(want);
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

                    if (size + 2 * pad >= s.kh && 8 - size + 2 * pad >= s.kw)
                        compare(&s, DG_F32, 1 + (int)(size % 2));
                }
}

/* Rows that are more than one band; images that are, and the last band smaller. */
static void bands(void **state)
{
    (void)state;
    compare(&(sample){ 2, 61, 83, 40, 24, 3, 3, 1, 1 }, DG_F32, 2);
    compare(&(sample){ 2, 90, 83, 40, 24, 3, 3, 2, 1 }, DG_F32, 1);
    compare(&(sample){ 7, 20, 20, 96, 32, 3, 3, 1, 1 }, DG_F32, 1);
    compare(&(sample){ 3, 20, 20, 33, 17, 3, 3, 2, 1 }, DG_F32, 2);
}

static void bf16(void **state)
{
    (void)state;
    compare(&(sample){ 2, 9, 7, 16, 24, 3, 3, 1, 1 }, DG_BF16, 1);
    compare(&(sample){ 2, 10, 7, 17, 16, 3, 3, 2, 1 }, DG_BF16, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_maps), cmocka_unit_test(bands),
                                        cmocka_unit_test(bf16) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
