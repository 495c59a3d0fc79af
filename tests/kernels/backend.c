/* The host as a device: memory, the choice of kernels by operand types, and what it says about
 * itself. Then what holds for every device, also for the one that DETRGRAPH_DEVICE names. */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/element.h"
#include "kernels/backend.h"
#include "tensor/ops.h"

static dg_backend *host, *ref;

static void memory_is_aligned_and_zero(void **state)
{
    static const size_t sizes[] = { 0, 1, 64, 4097, (2 << 20) - 64, 2 << 20, (5 << 20) + 3 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p = host->alloc(host, sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            if (p[k])
                fail_msg("byte %zu of %zu is not 0", k, sizes[i]);
        memset(p, 0xFF, sizes[i]);
        host->free(host, p);
    }
    host->free(host, NULL);
    assert_null(host->alloc(host, SIZE_MAX));
    assert_null(host->alloc(host, SIZE_MAX - 4096));
}

static void copies_arrive(void **state)
{
    float x[3] = { 1, 2, 3 }, y[3] = { 0 };
    float *p = host->alloc(host, sizeof x);

    (void)state;
    assert_int_equal(host->upload(host, DG_LANE_COMPUTE, p, x, sizeof x), 0);
    assert_int_equal(host->finish(host), 0);
    assert_int_equal(host->download(host, DG_LANE_COMPUTE, y, p, sizeof y), 0);
    assert_memory_equal(x, y, sizeof x);
    host->free(host, p);
}

/* The kernel of an op whose operands all have this type. */
static const dg_kernel *kernel_for(dg_backend *b, const dg_op *op, dg_dtype type, bool *is_ref)
{
    dg_tensor t[3];

    for (int i = 0; i < 3; i++)
        t[i] = (dg_tensor){ type, DG_SHAPE(4), NULL };
    return b->select(b, op, t, 3, is_ref);
}

static void kernels_are_chosen_by_type(void **state)
{
    const dg_op *add = DG_OP(add), *exact = DG_OP(topk);
    bool is_ref;

    (void)state;
    assert_ptr_equal(kernel_for(host, add, DG_F64, &is_ref), add->ref64);
    assert_true(is_ref);
#ifndef DG_REF_ONLY
    assert_ptr_equal(kernel_for(host, add, DG_F32, &is_ref), add->host);
    assert_false(is_ref);
    assert_ptr_equal(kernel_for(host, add, DG_BF16, &is_ref), add->host);
#endif
    assert_ptr_equal(kernel_for(host, exact, DG_F32, &is_ref), exact->ref32);
    assert_true(is_ref);
    assert_null(kernel_for(host, exact, DG_BF16, &is_ref));
    assert_ptr_equal(kernel_for(ref, add, DG_F32, &is_ref), add->ref32);
    assert_null(kernel_for(ref, add, DG_BF16, &is_ref));
}

static void the_cpu_is_named(void **state)
{
    const char *reason = NULL;
    char text[64], cut[4];
    dg_dtype low = host->low_precision(host, &reason);

    (void)state;
    assert_true(low == DG_BF16 || low == DG_F32);
    assert_memory_equal(reason, dg_dtype_name(low), strlen(dg_dtype_name(low)));
    assert_true(strlen(dg_cpu_features(text, sizeof text)) > 0);
    assert_int_equal(strlen(dg_cpu_features(cut, sizeof cut)), 3);
    assert_int_equal(ref->low_precision(ref, &reason), DG_F32);
}

/* bf16 on a CPU without it, odd sizes, one and several threads: the same product. */
static void products_agree_whatever_the_storage(void **state)
{
    enum { M = 13, K = 7, N = 5 };
    static const matmul_attr at = { 0, 1 };
    float a[M * K], b[N * K], c[N], y[M * N];
    uint16_t low_a[M * K], low_y[M * N];

    (void)state;
    for (int i = 0; i < M * K; i++) {
        a[i] = (float)(i % 9 - 4); /* small whole numbers: exact in bf16, and so are their sums */
        low_a[i] = dg_bf16_of_f32(a[i]);
    }
    for (int i = 0; i < N * K; i++)
        b[i] = (float)(i % 5 - 2);
    for (int i = 0; i < N; i++)
        c[i] = (float)i;
    for (int threads = 1; threads <= 3; threads++)
        for (int low = 0; low < 2; low++) {
            dg_tensor t[] = { { low ? DG_BF16 : DG_F32, DG_SHAPE(M, K), NULL },
                              { DG_F32, DG_SHAPE(N, K), NULL },
                              { DG_F32, DG_SHAPE(N), NULL },
                              { low ? DG_BF16 : DG_F32, DG_SHAPE(M, N), NULL } };
            dg_prepare p = { .t = t, .n = 4, .attr = &at, .threads = threads };
            const dg_kernel *k = DG_OP(matmul)->host;

            assert_int_equal(k->prepare(&p), 0);
            void *workspace = host->alloc(host, p.workspace_bytes);

            t[0].data = low ? (void *)low_a : a;
            t[1].data = b;
            t[2].data = c;
            t[3].data = low ? (void *)low_y : y;
            dg_args args = { .t = t,
                             .n = 4,
                             .attr = &at,
                             .workspace = workspace,
                             .handle = p.handle,
                             .threads = threads };
            assert_int_equal(k->run(&args), 0);
            if (k->release)
                k->release(p.handle);
            host->free(host, workspace);
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++) {
                    float want = c[n];

                    for (int i = 0; i < K; i++)
                        want += a[m * K + i] * b[n * K + i];
                    assert_true((low ? dg_f32_of_bf16(low_y[m * N + n]) : y[m * N + n]) == want);
                }
        }
}

enum { CELLS = 1000, CELL_BYTES = CELLS * sizeof(float) };

/* Memory is aligned and zero, and lanes that wait for each other's events pass it on. */
static void check_memory(dg_backend *b)
{
    char *x = b->alloc(b, CELL_BYTES), *y = b->alloc(b, CELL_BYTES);
    float *pinned = b->alloc_pinned(b, CELL_BYTES), got[CELLS];
    dg_event *uploaded = b->event_open(b), *copied = b->event_open(b);

    assert_true(x && y && pinned && uploaded && copied);
    assert_int_equal(((uintptr_t)x | (uintptr_t)y) % b->alignment, 0);
    assert_int_equal(b->event_wait(b, copied), 0); /* never recorded: in the past */
    assert_int_equal(b->download(b, DG_LANE_COMPUTE, got, x, CELL_BYTES), 0);
    for (int i = 0; i < CELLS; i++) {
        assert_true(got[i] == 0);
        pinned[i] = (float)i;
    }
    assert_int_equal(b->upload(b, DG_LANE_COPY, x, pinned, CELL_BYTES), 0);
    assert_int_equal(b->event_record(b, uploaded, DG_LANE_COPY), 0);
    assert_int_equal(b->lane_wait(b, DG_LANE_COMPUTE, uploaded), 0);
    assert_int_equal(b->copy(b, DG_LANE_COMPUTE, y, x, CELL_BYTES), 0);
    assert_int_equal(b->clear(b, DG_LANE_COMPUTE, y, CELL_BYTES / 2), 0);
    assert_int_equal(b->event_record(b, copied, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->event_wait(b, copied), 0);
    assert_int_equal(b->download(b, DG_LANE_COMPUTE, got, y, CELL_BYTES), 0);
    for (int i = 0; i < CELLS; i++)
        assert_true(got[i] == (i < CELLS / 2 ? 0 : (float)i));
    assert_int_equal(b->finish(b), 0);
    assert_int_equal(b->fault(b), DG_NO_MARK);
    b->event_close(b, &uploaded);
    b->event_close(b, &copied);
    b->free(b, x);
    b->free(b, y);
    b->free_pinned(b, pinned);
}

static int add_one(void *n)
{
    ++*(int *)n;
    return 0;
}

/* y = relu(x), once with a guard that holds 0: then the kernel does not run, and y becomes zeros.
 */
static void check_launch(dg_backend *b)
{
    static const float from[3] = { -1, 2, 3 };
    static const int32_t guards[2] = { 0, 1 };
    dg_tensor t[] = { { DG_F32, DG_SHAPE(3), b->alloc(b, sizeof from) },
                      { DG_F32, DG_SHAPE(3), b->alloc(b, sizeof from) } };
    int32_t *guard = b->alloc(b, sizeof guards);
    bool is_ref;
    const dg_kernel *k = b->select(b, DG_OP(relu), t, 2, &is_ref);
    dg_prepare p = { .t = t, .n = 2, .threads = 1 };
    dg_args args = { .t = t, .n = 2, .threads = 1 };
    int called = 0;
    uint32_t word = 0;

    if (k && k->prepare) {
        assert_int_equal(k->prepare(&p), 0);
        args.handle = p.handle;
        args.workspace = p.workspace_bytes ? b->alloc(b, p.workspace_bytes) : NULL;
    }
    assert_int_equal(b->upload(b, DG_LANE_COMPUTE, t[0].data, from, sizeof from), 0);
    assert_int_equal(b->upload(b, DG_LANE_COMPUTE, guard, guards, sizeof guards), 0);
    for (int on = 1; on >= 0 && k; on--) {
        dg_launch l = { k, &args, guard + on, .otherwise = -1, .zero_outputs = 1, .n_in = 1 };
        float got[3];

        assert_int_equal(b->launch(b, DG_LANE_COMPUTE, &l), 0);
        assert_int_equal(b->download(b, DG_LANE_COMPUTE, got, t[1].data, sizeof got), 0);
        assert_true(got[0] == 0 && got[1] == (on ? 2 : 0) && got[2] == (on ? 3 : 0));
    }
    assert_int_equal(b->call(b, DG_LANE_COMPUTE, add_one, &called, 0), 0);
    assert_int_equal(b->sign(b, DG_LANE_COMPUTE, &word, 7), 0);
    assert_int_equal(b->finish(b), 0);
    assert_int_equal(called, 1);
    assert_int_equal(word, 7);
    if (k && k->release)
        k->release(p.handle);
    b->free(b, args.workspace);
    b->free(b, guard);
    b->free(b, t[0].data);
    b->free(b, t[1].data);
}

static void every_device_keeps_the_contract(void **state)
{
    const char *devices[] = { "cpu", "ref", "far", getenv("DETRGRAPH_DEVICE") };
    dg_diag *d = dg_diag_open();

    (void)state;
    for (int i = 0; i < 4 && devices[i]; i++) {
        dg_backend *b;
        char text[320];
        const char *reason = NULL;

        if (dg_backend_open(&b, devices[i], d) < 0)
            fail_msg("%s: %s", devices[i], dg_diag_text(d));
        assert_memory_equal(b->name, devices[i], strlen(b->name));
        assert_true(strlen(b->describe(b, text, sizeof text)) > 0);
        assert_true(b->low_precision(b, &reason) && reason);
        check_memory(b);
        check_launch(b);
        dg_backend_close(&b);
        assert_null(b);
    }
    dg_diag_close(&d);
}

static void devices_have_names(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_backend *b;

    (void)state;
    assert_int_equal(dg_backend_open(&b, "cpuu", d), -DG_EINPUT);
    assert_null(b);
    check_only(d, "device-unknown");
    assert_int_equal(dg_backend_open(&b, "ref:fast", d), -DG_EINPUT);
    check_only(d, "device-option");
    assert_string_equal(host->name, "cpu");
    dg_diag_close(&d);
}

static int open_devices(void **state)
{
    dg_diag *d = dg_diag_open();
    int rc = dg_backend_open(&host, "cpu", d);

    (void)state;
    if (rc == 0)
        rc = dg_backend_open(&ref, "ref", d);
    dg_diag_close(&d);
    return rc;
}

static int close_devices(void **state)
{
    (void)state;
    dg_backend_close(&host);
    dg_backend_close(&ref);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_zero),          cmocka_unit_test(copies_arrive),
        cmocka_unit_test(kernels_are_chosen_by_type),          cmocka_unit_test(the_cpu_is_named),
        cmocka_unit_test(products_agree_whatever_the_storage), cmocka_unit_test(devices_have_names),
        cmocka_unit_test(every_device_keeps_the_contract),
    };

    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
