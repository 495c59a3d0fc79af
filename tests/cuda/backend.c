/* backend: a CUDA device by the contract of kernels/backend.h, on the stand-in: work is late,
 * memory is not the host's, recordings, guards, faults with the mark of their launch; and what is
 * said where there is no device. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attrs.h"
#include "kernels/backend.h"
#include "kernels/cuda/host/host.h"
#include "tensor/ops.h"

enum { N = 5, BYTES = N * sizeof(float) };

typedef struct device {
    dg_backend *b;
    float *x, *y, *z; /* N numbers each */
    float *pinned;
    int32_t *guard;
} device;

/* "cuda:module=PATH,words" */
static const char *name_of(char *buf, size_t n, const char *words)
{
    const char *top = getenv("builddir");

    snprintf(buf, n, "cuda:%smodule=%s/tests/cuda/.libs/standin.so%s%s", *words == '1' ? "1," : "",
             top ? top : ".", *words ? "," : "", *words == '1' ? words + 2 : words);
    return buf;
}

/* Only the stand-in has faults to order; seeds are no matter to a GPU. */
static const char *on_gpu(const char *words)
{
    return *words == '\0' || strncmp(words, "seed=", 5) == 0 ? getenv("CUDA_DEVICE") : NULL;
}

static void device_open(device *v, const char *words)
{
    dg_diag *d = dg_diag_open();
    const int32_t off = 0;
    char name[4096];

    *v = (device){ 0 };
    if (dg_backend_open(&v->b, on_gpu(words) ? on_gpu(words) : name_of(name, sizeof name, words),
                        d) < 0)
        fail_msg("%s", dg_diag_text(d));
    dg_diag_close(&d);
    v->x = v->b->alloc(v->b, BYTES);
    v->y = v->b->alloc(v->b, BYTES);
    v->z = v->b->alloc(v->b, BYTES);
    v->guard = v->b->alloc(v->b, sizeof off);
    v->pinned = v->b->alloc_pinned(v->b, BYTES);
    assert_true(v->x && v->y && v->z && v->guard && v->pinned);
}

static void device_close(device *v)
{
    v->b->free(v->b, v->x);
    v->b->free(v->b, v->y);
    v->b->free(v->b, v->z);
    v->b->free(v->b, v->guard);
    v->b->free_pinned(v->b, v->pinned);
    dg_backend_close(&v->b);
    assert_null(v->b);
}

static void fill(float *x, float v)
{
    for (int i = 0; i < N; i++)
        x[i] = v + (float)i;
}

/* The first element; the others follow as fill wrote them. */
static float first_of(device *v, const float *x)
{
    float got[N];

    assert_int_equal(v->b->download(v->b, DG_LANE_COMPUTE, got, x, BYTES), 0);
    return got[0];
}

static void write_numbers(device *v, float *x, float first)
{
    float from[N];

    fill(from, first);
    assert_int_equal(v->b->upload(v->b, DG_LANE_COMPUTE, x, from, BYTES), 0);
}

/* out = 2 in + add, with the mark 100 + add. */
typedef struct job {
    affine_attr attr;
    dg_tensor t[2];
    dg_args args;
    dg_launch launch;
} job;

static void job_set(job *j, device *v, float *out, float *in, int add)
{
    bool is_ref;

    *j = (job){ .attr = { 2, add } };
    j->t[0] = (dg_tensor){ DG_F32, DG_SHAPE(N), in };
    j->t[1] = (dg_tensor){ DG_F32, DG_SHAPE(N), out };
    j->args = (dg_args){ .t = j->t, .n = 2, .attr = &j->attr, .threads = 1 };
    j->launch = (dg_launch){ .kernel = v->b->select(v->b, DG_OP(scale), j->t, 2, &is_ref),
                             .args = &j->args,
                             .otherwise = -1,
                             .n_in = 1,
                             .mark = 100 + add };
    assert_non_null(j->launch.kernel);
    assert_false(is_ref);
}

/* ---- work ------------------------------------------------------------------------------------ */

static void numbers_come_and_go(void **state)
{
    device v;
    job j;

    (void)state;
    device_open(&v, "");
    assert_string_equal(v.b->name, "cuda");
    assert_false(v.b->immediate);
    assert_true(first_of(&v, v.x) == 0);
    write_numbers(&v, v.x, 3);
    job_set(&j, &v, v.y, v.x, 1);
    assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j.launch), 0);
    assert_int_equal(v.b->copy(v.b, DG_LANE_COMPUTE, v.z, v.y, BYTES), 0);
    assert_int_equal(v.b->clear(v.b, DG_LANE_COMPUTE, v.y, BYTES), 0);
    assert_true(first_of(&v, v.z) == 7);
    assert_true(first_of(&v, v.y) == 0);
    assert_null(v.b->alloc(v.b, SIZE_MAX / 2));
    assert_int_equal(v.b->finish(v.b), 0);
    device_close(&v);
}

static void lanes_wait_for_events(void **state)
{
    (void)state;
    for (int seed = 0; seed < 6; seed++) {
        device v;
        dg_event *copied;
        job j;
        char words[32];

        snprintf(words, sizeof words, "seed=%d", seed);
        device_open(&v, words);
        copied = v.b->event_open(v.b);
        fill(v.pinned, 10);
        job_set(&j, &v, v.y, v.x, 1);
        assert_int_equal(v.b->event_wait(v.b, copied), 0); /* never recorded: in the past */
        assert_int_equal(v.b->upload(v.b, DG_LANE_COPY, v.x, v.pinned, BYTES), 0);
        assert_int_equal(v.b->event_record(v.b, copied, DG_LANE_COPY), 0);
        assert_int_equal(v.b->lane_wait(v.b, DG_LANE_COMPUTE, copied), 0);
        assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j.launch), 0);
        assert_true(first_of(&v, v.y) == 21);
        v.b->event_close(v.b, &copied);
        assert_null(copied);
        device_close(&v);
    }
}

/* on: what the guard holds. */
static float guarded(device *v, int32_t on, int otherwise, uint32_t zeros)
{
    job j;

    write_numbers(v, v->x, 3);
    write_numbers(v, v->y, 40);
    assert_int_equal(v->b->upload(v->b, DG_LANE_COMPUTE, v->guard, &on, sizeof on), 0);
    job_set(&j, v, v->y, v->x, 1);
    j.launch.guard = v->guard;
    j.launch.otherwise = otherwise;
    j.launch.zero_outputs = zeros;
    assert_int_equal(v->b->launch(v->b, DG_LANE_COMPUTE, &j.launch), 0);
    return first_of(v, v->y);
}

static void guards_are_read_on_the_device(void **state)
{
    device v;

    (void)state;
    device_open(&v, "");
    assert_true(guarded(&v, 1, -1, 1) == 7);
    assert_true(guarded(&v, 0, -1, 0) == 40); /* nobody reads it */
    assert_true(guarded(&v, 0, -1, 1) == 0);
    assert_true(guarded(&v, 0, 0, 0) == 3);
    assert_true(guarded(&v, 1, 0, 0) == 7);
    device_close(&v);
}

static int note_call(void *ctx)
{
    ++*(int *)ctx;
    return *(int *)ctx > 1 ? -DG_ENUMERIC : 0;
}

static void the_host_is_called_and_signed_to(void **state)
{
    static uint32_t word;
    device v;
    int calls = 0;

    (void)state;
    device_open(&v, "");
    word = 0;
    assert_int_equal(v.b->sign(v.b, DG_LANE_COMPUTE, &word, 7), 0);
    assert_int_equal(v.b->call(v.b, DG_LANE_COMPUTE, note_call, &calls, 5), 0);
    assert_true(on_gpu("") || word == 0); /* late */
    assert_int_equal(v.b->finish(v.b), 0);
    assert_int_equal(word, 7);
    assert_int_equal(calls, 1);
    assert_int_equal(v.b->fault(v.b), DG_NO_MARK);
    assert_int_equal(v.b->call(v.b, DG_LANE_COMPUTE, note_call, &calls, 6), 0);
    assert_int_equal(v.b->finish(v.b), -DG_ENUMERIC);
    assert_int_equal(v.b->fault(v.b), 6);
    assert_int_equal(v.b->finish(v.b), -DG_ENUMERIC);
    device_close(&v);
}

/* ---- recordings ------------------------------------------------------------------------------ */

/* pinned -> x on COPY, y = 2 x + 1 behind it on COMPUTE. */
static dg_recording *record(device *v, job *j, dg_event *begun, dg_event *copied, dg_event *done)
{
    dg_backend *b = v->b;
    dg_recording *r = NULL;

    job_set(j, v, v->y, v->x, 1);
    assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->event_record(b, begun, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->upload(b, DG_LANE_COPY, v->x, v->pinned, BYTES), -DG_EUNSUPPORTED);
    assert_int_equal(b->lane_wait(b, DG_LANE_COPY, begun), 0);
    assert_int_equal(b->upload(b, DG_LANE_COPY, v->x, v->pinned, BYTES), 0);
    assert_int_equal(b->event_record(b, copied, DG_LANE_COPY), 0);
    assert_int_equal(b->lane_wait(b, DG_LANE_COMPUTE, copied), 0);
    assert_int_equal(b->launch(b, DG_LANE_COMPUTE, &j->launch), 0);
    assert_int_equal(b->event_record(b, done, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->finish(b), -DG_EUNSUPPORTED);
    assert_int_equal(b->record_end(b, &r), 0);
    return r;
}

static void replays_do_the_work_again(void **state)
{
    (void)state;
    for (int seed = 0; seed < 4; seed++) {
        device v;
        dg_event *e[3];
        dg_recording *r;
        job j;
        char words[32];

        snprintf(words, sizeof words, "seed=%d", seed);
        device_open(&v, words);
        for (int i = 0; i < 3; i++)
            e[i] = v.b->event_open(v.b);
        r = record(&v, &j, e[0], e[1], e[2]);
        assert_true(first_of(&v, v.y) == 0); /* none of it is done */
        for (int i = 0; i < 4; i++) {
            float z[N];

            fill(v.pinned, (float)(10 * i));
            assert_int_equal(v.b->clear(v.b, DG_LANE_COPY, v.x, BYTES), 0); /* before it */
            assert_int_equal(v.b->replay(v.b, DG_LANE_COMPUTE, r), 0);
            assert_int_equal(v.b->copy(v.b, DG_LANE_COPY, v.z, v.x, BYTES), 0); /* behind it */
            if (i % 2)
                assert_int_equal(v.b->event_wait(v.b, e[2]), 0);
            assert_int_equal(v.b->download(v.b, DG_LANE_COPY, z, v.z, BYTES), 0);
            assert_true(z[0] == (float)(10 * i));
            assert_true(first_of(&v, v.y) == (float)(20 * i + 1));
            assert_int_equal(v.b->finish(v.b), 0);
            assert_true(first_of(&v, v.x) == (float)(10 * i));
        }
        v.b->recording_close(v.b, &r);
        assert_null(r);
        for (int i = 0; i < 3; i++)
            v.b->event_close(v.b, &e[i]);
        device_close(&v);
    }
}

static void what_cannot_be_recorded_is_refused(void **state)
{
    device v;
    dg_event *begun;
    dg_recording *r = NULL;
    float any[N] = { 0 };
    job j;

    (void)state;
    device_open(&v, "");
    begun = v.b->event_open(v.b);
    job_set(&j, &v, v.y, v.x, 1);
    assert_int_equal(v.b->record_begin(v.b, DG_LANE_COMPUTE), 0);
    assert_int_equal(v.b->record_begin(v.b, DG_LANE_COMPUTE), -DG_EUNSUPPORTED);
    assert_int_equal(v.b->upload(v.b, DG_LANE_COMPUTE, v.x, any, BYTES), -DG_EUNSUPPORTED);
    assert_int_equal(v.b->event_wait(v.b, begun), -DG_EUNSUPPORTED);
    assert_int_equal(v.b->event_record(v.b, begun, DG_LANE_COMPUTE), 0);
    assert_int_equal(v.b->lane_wait(v.b, DG_LANE_COPY, begun), 0);
    assert_int_equal(v.b->copy(v.b, DG_LANE_COPY, v.z, v.x, BYTES), 0);
    assert_int_equal(v.b->record_end(v.b, &r), -DG_EUNSUPPORTED); /* nobody waits for COPY */
    assert_null(r);
    assert_int_equal(v.b->record_end(v.b, &r), -DG_EUNSUPPORTED);
    assert_int_equal(v.b->fault(v.b), DG_NO_MARK);
    assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j.launch), 0); /* and the device goes on */
    assert_true(first_of(&v, v.y) == 1);
    v.b->event_close(v.b, &begun);
    device_close(&v);
}

/* ---- products and convolutions --------------------------------------------------------------- */

/* z = x w of one number each, as a convolution of one pixel or as a product. */
typedef struct multiplication {
    conv_act_attr conv;
    matmul_attr matmul;
    dg_tensor t[5];
    dg_args args;
    dg_launch launch;
} multiplication;

static void multiplication_set(multiplication *j, device *v, bool conv)
{
    const dg_shape shape = conv ? DG_SHAPE(1, 1, 1, 1) : DG_SHAPE(1, 1);
    dg_prepare p;
    bool is_ref;

    const int n = conv ? 5 : 4; /* of operands: a convolution may have a residual */

    *j = (multiplication){ .conv.conv = { .stride = 1 } };
    for (int i = 2; i < n; i++)
        j->t[i] = (dg_tensor){ .shape = { .rank = -1 } };
    j->t[0] = (dg_tensor){ DG_F32, shape, v->x };
    j->t[1] = (dg_tensor){ DG_F32, shape, v->y };
    j->t[n - 1] = (dg_tensor){ DG_F32, shape, v->z };
    j->args = (dg_args){
        .t = j->t, .n = n, .attr = conv ? (void *)&j->conv : (void *)&j->matmul, .threads = 1
    };
    j->launch = (dg_launch){ .kernel = v->b->select(v->b, conv ? DG_OP(conv_packed) : DG_OP(matmul),
                                                    j->t, n, &is_ref),
                             .args = &j->args,
                             .otherwise = -1,
                             .n_in = n - 1,
                             .mark = 7 };
    assert_non_null(j->launch.kernel);
    p = (dg_prepare){ .t = j->t, .n = n, .attr = j->args.attr, .threads = 1 };
    assert_int_equal(j->launch.kernel->prepare(&p), 0);
    j->args.workspace = v->b->alloc(v->b, p.workspace_bytes);
}

static float multiply(device *v, multiplication *j, float x, float w)
{
    write_numbers(v, v->x, x);
    write_numbers(v, v->y, w);
    assert_int_equal(v->b->launch(v->b, DG_LANE_COMPUTE, &j->launch), 0);
    return first_of(v, v->z);
}

/* By the library of convolutions, and, with plain=1, as products of columns. */
static void f32_is_rounded_only_where_tf32_is_allowed(void **state)
{
    static const char *const words[] = { "plain=0", "plain=1" };
    const float x = 1 + 0x1p-12f;

    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        multiplication j[2];
        device v;

        device_open(&v, words[plain]);
        for (int conv = 0; conv < 2; conv++) {
            multiplication_set(&j[conv], &v, conv);
            assert_true(multiply(&v, &j[conv], x, 3) == 3 * x);
        }
        assert_int_equal(v.b->allow_tf32(v.b), !plain);
        for (int conv = 0; conv < 2; conv++) {
            assert_true(multiply(&v, &j[conv], x, 3) == (plain ? 3 * x : 3));
            v.b->free(v.b, j[conv].args.workspace);
        }
        device_close(&v);
    }
}

/* A plan may load code, which a capture forbids: it has to be made before. */
static void plans_are_made_outside_recordings(void **state)
{
    (void)state;
    for (int conv = 0; conv < 2; conv++) {
        dg_recording *r = NULL;
        multiplication j;
        device v;

        device_open(&v, "");
        multiplication_set(&j, &v, conv);
        assert_int_equal(v.b->record_begin(v.b, DG_LANE_COMPUTE), 0);
        assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j.launch), -DG_EUNSUPPORTED);
        assert_int_equal(v.b->record_end(v.b, &r), 0);
        v.b->recording_close(v.b, &r);
        assert_true(multiply(&v, &j, 2, 3) == 6);
        assert_int_equal(v.b->record_begin(v.b, DG_LANE_COMPUTE), 0);
        assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j.launch), 0);
        assert_int_equal(v.b->record_end(v.b, &r), 0);
        write_numbers(&v, v.x, 5);
        assert_int_equal(v.b->replay(v.b, DG_LANE_COMPUTE, r), 0);
        assert_true(first_of(&v, v.z) == 15);
        v.b->recording_close(v.b, &r);
        v.b->free(v.b, j.args.workspace);
        device_close(&v);
    }
}

static void a_device_without_tf32_refuses_it(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_backend *cpu;

    (void)state;
    assert_int_equal(dg_backend_open(&cpu, "cpu", d), 0);
    assert_int_equal(dg_backend_tf32(cpu, DG_NOWHERE, d), -DG_EUNSUPPORTED);
    assert_non_null(strstr(dg_diag_text(d), "the device \"cpu\" cannot multiply so"));
    check_only(d, "precision-tf32");
    dg_backend_close(&cpu);
    dg_diag_close(&d);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* The third launch fails while it runs; two calls later somebody waits. */
static void a_late_fault_names_its_launch(void **state)
{
    device v;
    char text[320];
    job j[4];

    (void)state;
    device_open(&v, "fault=3");
    for (int i = 0; i < 4; i++) {
        job_set(&j[i], &v, v.y, v.x, i);
        assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j[i].launch), 0);
    }
    assert_int_equal(v.b->fault(v.b), DG_NO_MARK);
    assert_int_equal(v.b->finish(v.b), -DG_EIO);
    assert_int_equal(v.b->fault(v.b), 102);
    assert_int_equal(v.b->finish(v.b), -DG_EIO);
    assert_int_equal(v.b->launch(v.b, DG_LANE_COMPUTE, &j[0].launch), -DG_EIO);
    assert_non_null(strstr(v.b->describe(v.b, text, sizeof text), "cudaErrorIllegalAddress"));
    device_close(&v);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void check_refused(const char *name, const char *id, const char *text)
{
    dg_diag *d = dg_diag_open();
    dg_backend *b;

    assert_true(dg_backend_open(&b, name, d) < 0);
    assert_null(b);
    if (!strstr(dg_diag_text(d), text))
        fail_msg("\"%s\" does not say \"%s\"", dg_diag_text(d), text);
    check_only(d, id);
    dg_diag_close(&d);
}

static void what_is_missing_is_said(void **state)
{
    const char *help;
    char name[4096], text[1200];
    device v;

    (void)state;
    check_refused("cuda:", "device-option", "cuda or cuda:N");
    check_refused("cuda:-1", "device-option", "cuda or cuda:N");
    check_refused("cuda:module=/nowhere/x.so", "device-missing", "/nowhere/x.so");
    check_refused(name_of(name, sizeof name, "fast"), "device-option", "fast");
    check_refused(name_of(name, sizeof name, "error=35"), "device-missing", "driver");
    check_refused(name_of(name, sizeof name, "error=100"), "device-missing", "no GPU");
    check_refused(name_of(name, sizeof name, "devices=0"), "device-missing", "no GPU");
    check_refused(name_of(name, sizeof name, "1,devices=1"), "device-unknown", "no cuda:1");
    check_refused(name_of(name, sizeof name, "memory=100"), "device-open",
                  "cudaErrorMemoryAllocation");
    device_open(&v, "1,devices=2");
    device_close(&v);
    if (!dg_cuda_look(text, sizeof text, &help))
        assert_true(strlen(text) > 20 && strlen(help) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_and_go),
        cmocka_unit_test(lanes_wait_for_events),
        cmocka_unit_test(guards_are_read_on_the_device),
        cmocka_unit_test(the_host_is_called_and_signed_to),
        cmocka_unit_test(replays_do_the_work_again),
        cmocka_unit_test(what_cannot_be_recorded_is_refused),
        cmocka_unit_test(f32_is_rounded_only_where_tf32_is_allowed),
        cmocka_unit_test(plans_are_made_outside_recordings),
        cmocka_unit_test(a_device_without_tf32_refuses_it),
        cmocka_unit_test(a_late_fault_names_its_launch),
        cmocka_unit_test(what_is_missing_is_said),
    };

    return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
