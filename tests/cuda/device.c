/* device: on every sample of tests/ops, and on what autodiff makes of it, a CUDA device agrees with
 * the reference, in three precisions: operands go to its memory, the op runs, results come back. It
 * runs twice and gives the same bits. The device is the one that CUDA_DEVICE in the environment
 * names, or the stand-in: tests/cuda/all runs it on a GPU. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/ops/operands.h"
#include "tests/ops/sample_program.h"

static const double F64_TOLERANCE = 1e-11;
static const double BF16_TOLERANCE = 0x1p-7; /* as in tests/ops/twins */

typedef struct walker {
    dg_backend *b;
    dg_arena *arena; /* of one sample */
    samples all;
    const sample *sample;
    int runs, failures;
    double worst[SAMPLE_TYPES];
} walker;

static void fail_sample(walker *w, const dg_instr *instr, int type, const char *what)
{
    print_error("# %s, sample \"%s\" of %s, in %s: %s\n", instr->op->name, w->sample->what,
                w->sample->op->name, sample_type_names[type], what);
    w->failures++;
}

static bool may_write(const dg_instr *instr, int i)
{
    return i >= instr->n_in || operand_of(instr, i).state;
}

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static void *to_device(walker *w, const void *host, size_t bytes)
{
    void *p = w->b->alloc(w->b, bytes);

    assert_non_null(p);
    assert_int_equal(w->b->upload(w->b, DG_LANE_COMPUTE, p, host, bytes), 0);
    return p;
}

/* Runs the op on the device; its results come to t. */
static int run(walker *w, const dg_instr *instr, const dg_kernel *k, dg_tensor *t,
               const dg_control *control)
{
    dg_tensor on[DG_MAX_OPERANDS];
    int n = instr->n_in + instr->n_out, rc;
    dg_prepare p = { .t = t, .n = n, .attr = instr->attr, .threads = 1 };
    dg_args a = { .t = on, .n = n, .attr = instr->attr };
    dg_launch l = {
        .kernel = k, .args = &a, .otherwise = -1, .n_in = instr->n_in, .mark = w->runs
    };
    void *at_control = to_device(w, control, sizeof *control);

    assert_int_equal(k->prepare ? k->prepare(&p) : 0, 0);
    a.control = at_control;
    a.workspace = w->b->alloc(w->b, p.workspace_bytes);
    for (int i = 0; i < n; i++) {
        on[i] = t[i];
        on[i].data = t[i].data ? to_device(w, t[i].data, bytes_of(&t[i])) : NULL;
    }
    rc = w->b->launch(w->b, DG_LANE_COMPUTE, &l);
    for (int i = 0; i < n && rc == 0; i++)
        if (t[i].data && may_write(instr, i))
            rc = w->b->download(w->b, DG_LANE_COMPUTE, t[i].data, on[i].data, bytes_of(&t[i]));
    for (int i = 0; i < n; i++)
        w->b->free(w->b, on[i].data);
    w->b->free(w->b, a.workspace);
    w->b->free(w->b, at_control);
    return rc;
}

static void compare(walker *w, const dg_instr *instr, int type, const dg_tensor *got,
                    const dg_tensor *again, const dg_tensor *ref)
{
    double allowed = sample_types[type] == DG_F64   ? F64_TOLERANCE
                     : sample_types[type] == DG_F32 ? instr->op->tolerance
                                                    : BF16_TOLERANCE;

    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        double d;

        if (!got[i].data || !may_write(instr, i))
            continue;
        if (memcmp(got[i].data, again[i].data, bytes_of(&got[i])) != 0)
            fail_sample(w, instr, type, "a second run gives other bits");
        d = distance(&got[i], &ref[i], w->sample->edges ? 1 : 0);
        w->worst[type] = fmax(w->worst[type], d);
        if (d > allowed)
            fail_sample(w, instr, type,
                        dg_printf(w->arena, "operand %d is off by %.3g, at most %.3g is allowed", i,
                                  d, allowed));
    }
}

static void check_in(void *ctx, dg_interpreter *m, const dg_instr *instr, int type)
{
    walker *w = ctx;
    dg_tensor ref[DG_MAX_OPERANDS], got[DG_MAX_OPERANDS], again[DG_MAX_OPERANDS];
    int n = instr->n_in + instr->n_out, rc;
    const dg_kernel *k;
    char why[320];
    bool is_ref;

    copy_operands(w->arena, m, instr, sample_types[type], got);
    copy_operands(w->arena, m, instr, sample_types[type], again);
    k = w->b->select(w->b, instr->op, got, n, &is_ref);
    if (!k)
        return;
    copy_operands(w->arena, m, instr, sample_types[type] == DG_F64 ? DG_F64 : DG_F32, ref);
    widen_inputs(instr, got, ref);
    assert_int_equal(dg_interpreter_kernel(sample_types[type] == DG_F64 ? instr->op->ref64
                                                                        : instr->op->ref32,
                                           ref, n, instr->attr, &m->control, 1),
                     0);
    rc = run(w, instr, k, got, &m->control);
    if (rc == 0)
        rc = run(w, instr, k, again, &m->control);
    if (rc < 0) {
        fail_sample(w, instr, type, w->b->describe(w->b, why, sizeof why));
        fail_msg("the device does not go on after a fault");
    }
    compare(w, instr, type, got, again, ref);
    w->runs++;
}

static void check_sample(walker *w, const sample *one)
{
    w->arena = dg_arena_open();
    w->sample = one;
    sample_program_walk(w->arena, one, check_in, w);
    dg_arena_close(&w->arena);
}

static void the_device_agrees_with_ref_on_every_sample(void **state)
{
    const char *asked = getenv("CUDA_DEVICE"), *top = getenv("builddir");
    dg_diag *d = dg_diag_open();
    dg_arena *a = dg_arena_open();
    walker w = { .all.arena = a };
    char name[4096], text[320];

    (void)state;
    snprintf(name, sizeof name, "cuda:module=%s/tests/cuda/.libs/standin.so", top ? top : ".");
    if (dg_backend_open(&w.b, asked ? asked : name, d) < 0)
        fail_msg("%s", dg_diag_text(d));
    print_message("# %s\n", w.b->describe(w.b, text, sizeof text));
    samples_of_all(&w.all);
    for (int i = 0; i < w.all.list.n; i++)
        check_sample(&w, w.all.list.items[i]);
    print_message("# %d runs; worst error over the largest magnitude:", w.runs);
    for (int type = 0; type < SAMPLE_TYPES; type++)
        print_message(" %s %.2g", sample_type_names[type], w.worst[type]);
    print_message("\n");
    assert_true(w.runs > 0);
    assert_int_equal(w.failures, 0);
    dg_backend_close(&w.b);
    dg_arena_close(&a);
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_agrees_with_ref_on_every_sample),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
