/* Rounding in f32 that the numbers of a reference depend on: long sums in parts, and boxes that are
 * rounded where PyTorch's are. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/attrs.h"
#include "kernels/backend.h"
#include "tensor/ops.h"

static dg_backend *host;

static float drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static float *draw(int64_t n, uint32_t seed)
{
    float *v = aligned_alloc(64, ((size_t)n * sizeof *v + 63) & ~(size_t)63);

    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = drawn(&seed);
    return v;
}

/* Runs the host's kernel of an op; false if that is the reference's. */
static bool run(const dg_op *op, dg_tensor *t, int n, const void *attr)
{
    bool is_ref;
    const dg_kernel *k = host->select(host, op, t, n, &is_ref);
    dg_prepare p = { .t = t, .n = n, .attr = attr, .threads = 2 };
    dg_args a = { .t = t, .n = n, .attr = attr, .threads = 2 };

    if (k->prepare)
        assert_int_equal(k->prepare(&p), 0);
    a.handle = p.handle;
    a.workspace = aligned_alloc(64, (p.workspace_bytes + 127) & ~(size_t)63);
    assert_non_null(a.workspace);
    assert_int_equal(k->run(&a), 0);
    free(a.workspace);
    if (k->release)
        k->release(p.handle);
    return !is_ref;
}

enum { PIXELS = 40, IN = 512, OUT = 32, SIZE = 3, TERMS = IN * SIZE * SIZE };

/* The error's root mean square over the result's. */
static double error_of(const float *x, const float *w, const float *bias, int64_t exact)
{
    const conv_attr attr = { .stride = SIZE, .pad = 0, .exact = exact };
    float *y = draw(PIXELS * OUT, 3);
    dg_tensor t[] = {
        { DG_F32, DG_SHAPE(1, SIZE, PIXELS * SIZE, IN), (void *)x },
        { DG_F32, DG_SHAPE(OUT, IN, SIZE, SIZE), (void *)w },
        { DG_F32, DG_SHAPE(OUT), (void *)bias },
        { DG_F32, DG_SHAPE(1, 1, PIXELS, OUT), y },
    };
    double error = 0, size = 0;

    run(DG_OP(conv2d), t, 4, &attr);
    for (int p = 0; p < PIXELS; p++)
        for (int o = 0; o < OUT; o++) {
            double sum = (double)bias[o];

            for (int i = 0; i < TERMS; i++) {
                int c = i / (SIZE * SIZE), row = i / SIZE % SIZE, column = i % SIZE;

                sum += (double)w[o * TERMS + i] *
                       (double)x[(row * PIXELS * SIZE + p * SIZE + column) * IN + c];
            }
            error += (y[p * OUT + o] - sum) * (y[p * OUT + o] - sum);
            size += sum * sum;
        }
    free(y);
    return sqrt(error / size);
}

/* One sum of 4608 terms is off by 8.4e-7 of its size, eight of 576 by 4.2e-7. */
static void exact_convolutions_add_in_parts(void **state)
{
    float *x = draw(PIXELS * SIZE * SIZE * IN, 1), *w = draw(OUT * TERMS, 2), *bias = draw(OUT, 4);
    double plain = error_of(x, w, bias, 0), exact = error_of(x, w, bias, 1);

    (void)state;
    if (exact > 6e-7)
        fail_msg("exact: %.2e; otherwise %.2e", exact, plain);
    free(x);
    free(w);
    free(bias);
}

/* A box's middle is the rounded product, then the rounded sum. */
static void boxes_are_rounded_twice(void **state)
{
    enum { BOXES = 37 };
    float *d = draw(4 * BOXES, 5), *box = draw(4 * BOXES, 6), *y = draw(4 * BOXES, 7);
    dg_tensor t[] = {
        { DG_F32, DG_SHAPE(1, BOXES, 4), d },
        { DG_F32, DG_SHAPE(1, BOXES, 4), box },
        { DG_F32, DG_SHAPE(1, BOXES, 4), y },
    };

    bool own = run(DG_OP(box_decode), t, 3, NULL); /* the reference computes in double */

    (void)state;
    for (int i = 0; own && i < BOXES; i++)
        for (int k = 0; k < 2; k++) {
            volatile float product = d[4 * i + k] * box[4 * i + k + 2];
            volatile float sum = product + box[4 * i + k];

            assert_true(y[4 * i + k] == sum);
        }
    free(d);
    free(box);
    free(y);
}

static int open_host(void **state)
{
    dg_diag *d = dg_diag_open();
    int rc = dg_backend_open(&host, "cpu", d);

    (void)state;
    dg_diag_close(&d);
    return rc;
}

static int close_host(void **state)
{
    (void)state;
    host->close(&host);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_convolutions_add_in_parts),
        cmocka_unit_test(boxes_are_rounded_twice),
    };

    return cmocka_run_group_tests(tests, open_host, close_host);
}
