/* debug: each of --debug's looks finds the defect that is planted for it, names the instruction,
 * and changes nothing where there is none. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const devices[] = { "ref", "far:ref", "far:ref,seed=1" };
enum { N_DEVICES = sizeof devices / sizeof devices[0], N = 4 };

/* ---- ops with defects ------------------------------------------------------------------------ */

/* Kernels of this process share it: the one that hides its input, and the one that reads it when it
 * may be dead. */
static const float *hidden;

static int keep_shape(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}

static int copy_half(const dg_args *a)
{
    memcpy(a->t[1].data, a->t[0].data, N / 2 * sizeof(float));
    return 0;
}

static int hide(const dg_args *a)
{
    hidden = a->t[0].data;
    memcpy(a->t[1].data, a->t[0].data, N * sizeof(float));
    return 0;
}

static int add_hidden(const dg_args *a)
{
    for (int i = 0; i < N; i++)
        ((float *)a->t[1].data)[i] = ((const float *)a->t[0].data)[i] + hidden[i];
    return 0;
}

static int add_workspace(const dg_args *a)
{
    for (int i = 0; i < N; i++)
        ((float *)a->t[1].data)[i] =
            ((const float *)a->t[0].data)[i] + ((const float *)a->workspace)[i];
    return 0;
}

static int want_workspace(dg_prepare *p)
{
    p->workspace_bytes = N * sizeof(float);
    return 0;
}

static const dg_kernel half_kernel = { NULL, copy_half, NULL }, hide_kernel = { NULL, hide, NULL },
                       hidden_kernel = { NULL, add_hidden, NULL },
                       workspace_kernel = { want_workspace, add_workspace, NULL };

#define ROW(text, kernel)                                             \
    { DG_OP_ROW,         .name = text,         .signature = "x -> y", \
      .effect = DG_PURE, .precision = DG_WIDE, .shape = keep_shape,   \
      .ref32 = &(kernel) }
static const dg_op half_op = ROW("half", half_kernel), hide_op = ROW("hide", hide_kernel),
                   hidden_op = ROW("add_hidden", hidden_kernel),
                   workspace_op = ROW("add_workspace", workspace_kernel);

static dg_val emit(rig *r, const dg_op *op, dg_val x)
{
    dg_val y;

    dg_emit(r->b, op, NULL, 1, &x, &y);
    return y;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct lines {
    int n;
    char text[32][200];
} lines;

static void tell(void *ctx, const char *line)
{
    lines *l = ctx;

    assert_true(l->n < 32);
    snprintf(l->text[l->n++], sizeof l->text[0], "%s", line);
}

/* A node a line, from line 3 on: log x, then what is planted, then exp. */
static rig open_rig(const char *device, unsigned what, const dg_op *planted, lines *l)
{
    rig r = rig_open_on(false, device);
    dg_val x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(N));

    rig_node(&r, 0, "first", false);
    x = dg_log(r.b, x);
    rig_node(&r, 1, "second", false);
    if (planted == &hidden_op) {
        dg_val y = emit(&r, &hide_op, dg_exp(r.b, x));

        x = emit(&r, planted, dg_sqrt(r.b, dg_scale(r.b, y, 2, 0)));
    } else if (planted) {
        x = emit(&r, planted, x);
    }
    rig_node(&r, 2, "third", false);
    dg_result(r.b, "y", dg_exp(r.b, x));
    rig_compile(&r, DG_F32);
    /* rig_compile fills the slab with NaN; what is dead holds numbers in a run that goes on */
    r.backend->clear(r.backend, DG_LANE_COMPUTE, r.spaces.at[DG_SLAB], (size_t)r.plan->slab_bytes);
    dg_exec_debug(r.x, &(dg_debug){ what, tell, l });
    return r;
}

/* The status of a run and its result. */
static int run(rig *r, double x)
{
    double y[N];
    int rc;

    rig_input(r, "x", (double[N]){ x, 2, 3, 4 });
    rc = dg_exec_run(r->x, DG_SEG_BATCH, &r->control, r->d);
    return rc < 0 ? rc : dg_exec_read(r->x, "y", y, r->d);
}

static void expect_found(rig *r, double x, int line, const char *text)
{
    assert_int_equal(run(r, x), -DG_ENUMERIC);
    assert_int_equal(dg_diag_at(r->d, 0)->at.line, line);
    if (!strstr(dg_diag_at(r->d, 0)->text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, dg_diag_at(r->d, 0)->text);
    check_only(r->d, "value-not-finite");
}

/* ---- nan ------------------------------------------------------------------------------------- */

static void the_first_nan_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEVICES; i++) {
        rig r = open_rig(devices[i], DG_DEBUG_NAN, NULL, NULL);

        assert_int_equal(run(&r, 1), 0);
        expect_found(&r, -1, 3,
                     "log (x f32[4] x -> y f32[4]) of first, net.xml:3: operand y is "
                     "NaN, and no input is, at element 1 of 4");
        expect_found(&r, 0, 3, "operand y is infinite, and no input is, at element 1 of 4");
        expect_found(&r, (double)NAN, 3, "operand x comes in as NaN at element 1 of 4");
        /* passed on: exp of infinity, and of 1000 */
        assert_int_equal(run(&r, INFINITY), 0);
        rig_close(&r);

        r = open_rig(devices[i], 0, NULL, NULL);
        assert_int_equal(run(&r, -1), 0);
        rig_close(&r);
    }
}

/* What a guard skips is not looked at. */
static void skipped_values_are_left_alone(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEVICES; i++) {
        rig r = rig_open_on(false, devices[i]);
        dg_val x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(N)), u;

        dg_guard_begin(r.b, dg_input(r.b, "flag", DG_REAL, DG_SCALAR));
        u = dg_exp(r.b, dg_log(r.b, x));
        dg_guard_end(r.b, 1, &u);
        dg_result(r.b, "y", dg_add(r.b, x, u));
        rig_compile(&r, DG_F32);
        dg_exec_debug(r.x, &(dg_debug){ DG_DEBUG_NAN | DG_DEBUG_POISON, tell, NULL });
        rig_input(&r, "flag", (double[]){ 0 });
        assert_int_equal(run(&r, -1), 0);
        rig_input(&r, "flag", (double[]){ 1 });
        expect_found(&r, -1, 3, "log (");
        rig_close(&r);
    }
}

/* ---- poison ---------------------------------------------------------------------------------- */

static void reads_of_dead_memory_show(void **state)
{
    static const struct {
        const dg_op *op;
        const char *text;
    } defects[] = {
        { &half_op, "half (x f32[4] -> y f32[4]) of second, net.xml:4: operand y is NaN, and no "
                    "input is, at element 3 of 4" },
        { &hidden_op, "add_hidden (x f32[4] -> y f32[4]) of second, net.xml:4: operand y is NaN" },
        { &workspace_op, "add_workspace (x f32[4] -> y f32[4]) of second, net.xml:4: operand y" },
    };

    (void)state;
    for (int i = 0; i < N_DEVICES; i++)
        for (size_t k = 0; k < sizeof defects / sizeof defects[0]; k++) {
            rig r = open_rig(devices[i], DG_DEBUG_NAN, defects[k].op, NULL);

            assert_int_equal(run(&r, 1), 0); /* numbers, if wrong ones */
            rig_close(&r);
            r = open_rig(devices[i], DG_DEBUG_NAN | DG_DEBUG_POISON, defects[k].op, NULL);
            expect_found(&r, 1, 4, defects[k].text);
            rig_close(&r);
        }
}

/* ---- names and sync -------------------------------------------------------------------------- */

static void each_instruction_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEVICES; i++) {
        lines l = { 0 };
        rig r = open_rig(devices[i], DG_DEBUG_NAMES, NULL, &l);

        for (int n = 1; n <= 3; n++) {
            assert_int_equal(run(&r, 1), 0);
            assert_int_equal(l.n, 2 * n);
        }
        assert_string_equal(l.text[0],
                            "instruction 0, log (x f32[4] x -> y f32[4]) of first, net.xml:3");
        assert_string_equal(l.text[1],
                            "instruction 1, exp (x f32[4] -> y f32[4]) of third, net.xml:5");
        assert_int_equal(dg_exec_count(r.x).recordings, 0);
        rig_close(&r);
    }
}

static void a_fault_is_awaited(void **state)
{
    lines l = { 0 };
    rig r = open_rig("far:ref,fault=1", DG_DEBUG_SYNC | DG_DEBUG_NAMES, NULL, &l);

    (void)state;
    rig_input(&r, "x", (double[N]){ 1, 2, 3, 4 });
    assert_int_equal(dg_exec_run(r.x, DG_SEG_BATCH, &r.control, r.d), -DG_EIO);
    assert_int_equal(l.n, 1); /* the second instruction did not start */
    assert_int_equal(dg_diag_at(r.d, 0)->at.line, 3);
    assert_non_null(strstr(dg_diag_text(r.d), "waited behind instruction 0, log (x f32[4]"));
    check_only(r.d, "kernel-failed");
    rig_close(&r);

    l.n = 0; /* without, the run goes on */
    r = open_rig("far:ref,fault=1", DG_DEBUG_NAMES, NULL, &l);
    rig_input(&r, "x", (double[N]){ 1, 2, 3, 4 });
    assert_int_equal(dg_exec_run(r.x, DG_SEG_BATCH, &r.control, r.d), 0);
    assert_int_equal(l.n, 2);
    rig_close(&r);
}

/* ---- the list -------------------------------------------------------------------------------- */

static void lists(void **state)
{
    static const struct {
        const char *list;
        unsigned what;
    } good[] = { { "sync", DG_DEBUG_SYNC },
                 { "names,nan", DG_DEBUG_NAN | DG_DEBUG_NAMES },
                 { "sync,nan,poison,names", 15 } };
    static const char *const bad[] = { "", "syn", "sync,", ",nan", "nan poison", "sync;nan" };
    dg_diag *d = dg_diag_open();
    unsigned what;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(dg_debug_parse(&what, good[i].list, d), 0);
        assert_int_equal(what, good[i].what);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(dg_debug_parse(&what, bad[i], d), -DG_EINPUT);
        check_only(d, "debug-unknown");
    }
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_nan_is_named),
        cmocka_unit_test(skipped_values_are_left_alone),
        cmocka_unit_test(reads_of_dead_memory_show),
        cmocka_unit_test(each_instruction_is_told),
        cmocka_unit_test(a_fault_is_awaited),
        cmocka_unit_test(lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
