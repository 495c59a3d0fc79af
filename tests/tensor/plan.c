/* plan: small programs and plans as stored text; no two living values share a byte, in hundreds of
 * random programs; the slab of a network is close to the lower bound; what the executor refuses. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/slab.h"
#include "tests/tensor/wild.h"

/* ---- stored text ----------------------------------------------------------------------------- */

static dg_val block(rig *r, dg_val x, const char *name, int64_t out, int stride, bool shortcut)
{
    dg_build *b = r->b;
    dg_arena *a = r->p->arena;
    int64_t in = dg_dim(b, x, 3);
    dg_val y = x, res = x;

    for (int i = 0; i < (shortcut ? 3 : 2); i++) {
        int64_t from = i == 1 ? out : in, size = i == 2 ? 1 : 3;
        dg_val w, s, k, mean, var, rm, rv, z;

        w = dg_param(b, dg_printf(a, "%s.%d.weight", name, i), DG_SHAPE(out, from, size, size),
                     dg_init_fan_in(from * 9));
        s = dg_param(b, dg_printf(a, "%s.%d.scale", name, i), DG_SHAPE(out), dg_init_const(1));
        k = dg_param(b, dg_printf(a, "%s.%d.shift", name, i), DG_SHAPE(out), dg_init_zero());
        rm = dg_buffer(b, dg_printf(a, "%s.%d.mean", name, i), DG_SHAPE(out), dg_init_zero());
        rv = dg_buffer(b, dg_printf(a, "%s.%d.var", name, i), DG_SHAPE(out), dg_init_const(1));
        z = dg_conv2d(b,
                      i == 1                  ? y
                      : i == 2 && stride == 2 ? dg_avg_pool(b, x, 2, 2)
                                              : x,
                      w, DG_NONE, i == 0 ? stride : 1, (int)size / 2);
        if (dg_training(b)) {
            z = dg_batch_norm(b, z, s, k, 1e-5, &mean, &var);
            dg_stat_update(b, rm, rv, mean, var,
                           dg_dim(b, z, 0) * dg_dim(b, z, 1) * dg_dim(b, z, 2), 0.1);
        } else {
            z = dg_batch_norm_fixed(b, z, s, k, rm, rv, 1e-5);
        }
        if (i == 2)
            res = z;
        else
            y = i == 0 ? dg_relu(b, z) : z;
    }
    return dg_relu(b, dg_add(b, y, res));
}

static void small(rig *r)
{
    dg_build *b = r->b;
    dg_val x = dg_input(b, "images", DG_REAL, DG_SHAPE(2, 6, 6, 3)), w, y;

    y = dg_name(b, block(r, x, "b", 4, 2, true), "features");
    rig_node(r, 1, "net/head", false);
    w = dg_param(b, "weight", DG_SHAPE(2, 36), dg_init_fan_in(36));
    y = dg_linear(b, dg_reshape(b, y, DG_SHAPE(2, -1)), w, DG_NONE);
    y = dg_mean(b, dg_sigmoid(b, y), DG_ALL_AXES, false);
    dg_result(b, "loss", y);
    if (dg_training(b)) {
        dg_adamw_attr adamw = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 0.1 };
        dg_val g;

        rig_node(r, 2, "opt", false);
        g = dg_backward(b, y, 1);
        dg_ema(b, dg_adamw(b, g, dg_gradient_norm(b, g), &adamw));
    }
}

static void listings(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        rig r = rig_open(training);
        dg_str text = { 0 };

        small(&r);
        dg_program_print(&text, r.p);
        rig_stored(training ? "train.program.txt" : "eval.program.txt", text.s);
        dg_str_free(&text);
        rig_compile(&r, DG_F32);
        dg_plan_print(&text, r.plan, true);
        rig_stored(training ? "train.plan.txt" : "eval.plan.txt", text.s);
        dg_str_free(&text);
        rig_close(&r);
    }
    rig r = rig_open(true);
    dg_str text = { 0 };

    small(&r);
    assert_int_equal(dg_passes(r.p, DG_F32, DG_BF16, NULL, 1, r.d), 0);
    dg_program_print(&text, r.p);
    rig_stored("train.bf16.txt", text.s);
    dg_str_free(&text);
    rig_close(&r);
}

/* ---- placement ------------------------------------------------------------------------------- */

static void random_programs(void **state)
{
    dg_rng rng = dg_rng_begin(dg_rng_named(11, "plan"), 0, 0);
    uint8_t bytes[400];
    double worst = 0;
    int updates = 0, recomputes = 0, guarded = 0, instead = 0;

    (void)state;
    for (int k = 0; k < 300; k++) {
        rig r = rig_open(k % 5 != 0);

        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)dg_rng_below(&rng, 256);
        r.p->keep_names = k % 7 == 0;
        wild_program(r.b, bytes, 40 + dg_rng_below(&rng, sizeof bytes - 40), true, WILD_SUMS);
        if (dg_diag_errors(r.d))
            fail_msg("program %d: %s", k, dg_diag_at(r.d, 0)->text);
        if (dg_passes(r.p, DG_F32, k % 3 ? DG_F32 : DG_BF16, NULL, 1, r.d) < 0 ||
            dg_plan_open(&r.plan, r.p, &wild_backend, 2, r.d) < 0 ||
            dg_plan_verify(r.plan, r.d) < 0)
            fail_msg("program %d: %s", k, dg_diag_at(r.d, 0)->text);
        assert_true(r.plan->slab_bytes >= r.plan->live_peak_bytes);
        worst = fmax(worst, (double)r.plan->slab_bytes / (double)r.plan->live_peak_bytes);
        updates += rig_find(&r, DG_OP(adamw)) != NULL;
        for (int i = 0; i < r.p->instrs.n; i++) {
            recomputes += r.p->instrs.items[i].phase == DG_RECOMPUTE;
            guarded += r.p->instrs.items[i].guard != 0;
            instead += r.p->instrs.items[i].otherwise != 0;
        }
        rig_close(&r);
    }
    print_message("# slab / live peak of 300 random programs: at most %.3f\n", worst);
    assert_true(updates > 200 && recomputes > 100 && guarded > 1000 && instead > 100);
}

static void a_network_wastes_little(void **state)
{
    rig r = rig_open(true);
    const int width[] = { 16, 32, 64, 128 };
    dg_val x = dg_input(r.b, "images", DG_REAL, DG_SHAPE(2, 64, 64, 16));

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            x = block(&r, x, dg_printf(r.p->arena, "s%d.%d", i, k), width[i], k || !i ? 1 : 2, !k);
    dg_backward(r.b, dg_sum(r.b, x, DG_ALL_AXES, false), 1);
    assert_int_equal(dg_passes(r.p, DG_F32, DG_F32, NULL, 1, r.d), 0);
    assert_int_equal(dg_plan_open(&r.plan, r.p, &wild_backend, 2, r.d), 0);
    assert_int_equal(dg_plan_verify(r.plan, r.d), 0);
    print_message("# slab / live peak of a residual network: %.3f\n",
                  (double)r.plan->slab_bytes / (double)r.plan->live_peak_bytes);
    assert_true((double)r.plan->slab_bytes <= 1.1 * (double)r.plan->live_peak_bytes);
    rig_close(&r);
}

/* The proof is not blind: two values moved onto each other are seen. */
static void an_overlap_is_seen(void **state)
{
    int seen = 0;

    (void)state;
    for (int k = 1; k < 40; k++) {
        rig r = rig_open(true);

        small(&r);
        rig_compile(&r, DG_F32);
        dg_value *v = k < r.p->values.n ? &r.p->values.items[k] : NULL;

        if (v && v->space == DG_SLAB && v->producer >= 0) {
            v->offset = v->offset >= 64 ? v->offset - 64 : v->offset + 64;
            if (dg_plan_verify(r.plan, r.d) < 0) {
                assert_string_equal(dg_diag_at(r.d, 0)->id, "plan-invalid");
                seen++;
            }
        }
        rig_close(&r);
    }
    assert_true(seen > 5);
}

static void blocks(void **state)
{
    dg_block b[] = { { 128, 0, 1, -1 }, { 64, 1, 2, -1 }, { 192, 2, 3, -1 }, { 64, 3, 3, -1 } };

    (void)state;
    assert_int_equal(dg_live_peak(b, 4), 256);
    assert_int_equal(dg_slab_pack(b, 4), 256);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_true(b[i].first > b[k].last || b[k].first > b[i].last ||
                        b[i].offset >= b[k].offset + b[k].bytes ||
                        b[k].offset >= b[i].offset + b[i].bytes);
    assert_int_equal(dg_align(1), 64);
}

/* ---- what cannot be planned or run ----------------------------------------------------------- */

static const dg_kernel *no_kernel(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                                  bool *is_ref)
{
    (void)self, (void)op, (void)t, (void)n, (void)is_ref;
    return NULL;
}

static int no_prepare(dg_prepare *p)
{
    (void)p;
    return -DG_EUNSUPPORTED;
}

static int no_run(const dg_args *a)
{
    (void)a;
    return -DG_ENUMERIC;
}

static const dg_kernel unprepared = { .prepare = no_prepare }, failing = { .run = no_run };

static const dg_kernel *choose_unprepared(dg_backend *self, const dg_op *op, const dg_tensor *t,
                                          int n, bool *is_ref)
{
    (void)self, (void)op, (void)t, (void)n, (void)is_ref;
    return &unprepared;
}

static const dg_kernel *choose_failing(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                                       bool *is_ref)
{
    (void)self, (void)op, (void)t, (void)n, (void)is_ref;
    return &failing;
}

static void refusals(void **state)
{
    rig r = rig_open(false);
    dg_backend none = *r.backend, half = none, broken = none;
    dg_plan *plan = NULL;
    dg_exec *x = NULL;
    dg_spaces nowhere = { .landing = NULL };
    double u[3] = { 5, 6, 7 };
    float three[3] = { 1, 2, 3 };
    dg_tensor wrong = { DG_F32, DG_SHAPE(3), three }, right = { DG_F32, DG_SHAPE(1, 3), three };
    dg_val in;
    int rc;

    (void)state;
    none.select = no_kernel;
    half.select = choose_unprepared;
    broken.select = choose_failing;
    in = dg_input(r.b, "x", DG_REAL, DG_SHAPE(1, 3));
    dg_result(r.b, "y", dg_add(r.b, in, dg_uniform(r.b, "u", DG_SHAPE(3))));
    dg_result(r.b, "i", dg_const_i32(r.b, DG_SCALAR, (int32_t[]){ 9 }));
    assert_int_equal(dg_passes(r.p, DG_F32, DG_F32, NULL, 1, r.d), 0);
    assert_int_equal(dg_plan_open(&plan, r.p, &none, 1, r.d), -DG_EUNSUPPORTED);
    check_only(r.d, "kernel-missing");
    assert_null(plan);
    assert_int_equal(dg_plan_open(&plan, r.p, &half, 1, r.d), -DG_EUNSUPPORTED);
    check_only(r.d, "kernel-prepare");
    rig_compile(&r, DG_F32);
    assert_int_equal(dg_exec_open(&x, r.plan, r.backend, &nowhere, NULL, r.d), -DG_EINTERNAL);
    check_only(r.d, "space-unbound");
    assert_int_equal(dg_exec_write(r.x, dg_program_input(r.p, "nothing"), &right, r.d), -DG_EINPUT);
    check_only(r.d, "input-unknown");
    assert_int_equal(dg_exec_write(r.x, dg_program_input(r.p, "x"), &wrong, r.d), -DG_EINPUT);
    check_only(r.d, "input-shape");
    assert_int_equal(dg_exec_read(r.x, "nothing", u, r.d), -DG_EINPUT);
    check_only(r.d, "result-unknown");
    assert_int_equal(dg_exec_draw(r.x, "nothing", u, r.d), -DG_EINPUT);
    check_only(r.d, "draw-unknown");

    assert_int_equal(dg_exec_write(r.x, dg_program_input(r.p, "x"), &right, r.d), 0);
    assert_int_equal(dg_exec_draw(r.x, "net/u", u, r.d), 0);
    rig_batch(&r);
    assert_int_equal(dg_exec_read(r.x, "y", u, r.d), 0);
    assert_true(u[0] == 6 && u[1] == 8 && u[2] == 10);
    assert_true(rig_result(&r, "i") == 9);
    assert_int_equal(dg_exec_draw(r.x, "net/u", NULL, r.d), 0);
    rig_batch(&r);
    assert_int_equal(dg_exec_read(r.x, "y", u, r.d), 0);
    assert_true(u[0] >= 1 && u[0] < 2 && u[2] >= 3 && u[2] < 4);

    assert_int_equal(dg_plan_open(&plan, r.p, &broken, 1, r.d), 0);
    assert_int_equal(dg_exec_open(&x, plan, r.backend, &r.spaces, NULL, r.d), 0);
    rc = dg_exec_run(x, DG_SEG_BATCH, &r.control, r.d);
    assert_int_equal(rc < 0 ? rc : dg_exec_read(x, "y", u, r.d), -DG_ENUMERIC);
    assert_string_equal(dg_diag_at(r.d, 0)->at.node, "net");
    check_only(r.d, "kernel-failed");
    dg_exec_close(&x);
    dg_plan_close(&plan);
    rig_close(&r);
}

/* More than any machine has: said, not crashed on. (Sanitizers would stop the process instead.) */
static void a_copy_that_does_not_fit(void **state)
{
    dg_shape huge = DG_SHAPE(1 << 20, 1 << 20, 1 << 10);
    dg_val x;
    double one = 0;
    rig r;

    (void)state;
    if (SANITIZED)
        skip();
    r = rig_open(false);
    x = dg_input(r.b, "x", DG_REAL, huge);
    dg_result(r.b, "x", x);
    assert_int_equal(dg_passes(r.p, DG_F32, DG_F32, NULL, 1, r.d), 0);
    assert_int_equal(dg_plan_open(&r.plan, r.p, r.backend, 1, r.d), 0);
    rig_spaces(&r, 64);
    assert_int_equal(dg_exec_open(&r.x, r.plan, r.backend, &r.spaces, NULL, r.d), 0);
    assert_int_equal(dg_exec_write(r.x, dg_program_input(r.p, "x"),
                                   &(dg_tensor){ DG_F64, huge, &one }, r.d),
                     -DG_EMEMORY);
    check_only(r.d, "exec-memory");
    rig_close(&r);
}

/* ---- collectives, hooks ---------------------------------------------------------------------- */

/* Two ranks that hold the same: a sum doubles, and a mean stays. */
typedef struct twin {
    dg_comm comm;
    int started, waited;
    bool lost;
} twin;

static int twin_start(dg_comm *self, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    if (((twin *)self)->lost) {
        snprintf(self->why, sizeof self->why, "rank 1 has ended");
        return -DG_EIO;
    }
    for (int64_t i = 0; i < dg_shape_elements(x.shape) && op == DG_SUM; i++)
        ((float *)x.data)[i] *= 2;
    *ticket = ++((twin *)self)->started;
    return 0;
}

static int twin_wait(dg_comm *self, int64_t ticket)
{
    assert_int_equal(ticket, ++((twin *)self)->waited);
    return 0;
}

static void count(void *ctx, int instr, const dg_ran *how)
{
    assert_true(instr >= 0 && how->end_s >= how->begin_s);
    ++*(int *)ctx;
}

static void collectives_go_to_the_communicator(void **state)
{
    rig r = rig_open(false);
    twin t = {
        .comm = { .name = "twin", .rank = 0, .ranks = 2, .start = twin_start, .wait = twin_wait }
    };
    dg_val x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(3));
    dg_exec *alone = NULL;
    double y[3] = { 1, 2, 3 };
    int ran = 0;

    (void)state;
    dg_build_axis(r.b, "dp", 2);
    dg_result(r.b, "y", dg_all_reduce(r.b, x, DG_SUM, "dp"));
    dg_result(r.b, "z", dg_all_reduce(r.b, dg_exp(r.b, x), DG_MEAN, "dp"));
    assert_int_equal(dg_passes(r.p, DG_F32, DG_F32, NULL, 2, r.d), 0);
    assert_int_equal(dg_plan_open(&r.plan, r.p, r.backend, 1, r.d), 0);
    rig_spaces(&r, 4096);
    assert_int_equal(dg_exec_open(&r.x, r.plan, r.backend, &r.spaces, &t.comm, r.d), 0);
    dg_exec_observe(r.x, &(dg_exec_observer){ .ctx = &ran, .ran = count });
    rig_input(&r, "x", y);
    rig_batch(&r);
    assert_int_equal(dg_exec_read(r.x, "y", y, r.d), 0);
    assert_true(y[0] == 2 && y[2] == 6);
    assert_int_equal(dg_exec_read(r.x, "z", y, r.d), 0);
    assert_true(fabs(y[1] - exp(2)) < 1e-5);
    assert_int_equal(t.waited, 2);
    assert_int_equal(ran, 3);
    assert_int_equal(dg_exec_open(&alone, r.plan, r.backend, &r.spaces, NULL, r.d), 0);
    assert_int_equal(dg_exec_run(alone, DG_SEG_BATCH, &r.control, r.d), -DG_EUNSUPPORTED);
    check_only(r.d, "no-communicator");
    t.lost = true;
    assert_int_equal(dg_exec_run(r.x, DG_SEG_BATCH, &r.control, r.d), -DG_EIO);
    assert_non_null(strstr(dg_diag_at(r.d, 0)->text, "all_reduce: rank 1 has ended"));
    check_only(r.d, "collective-failed");
    dg_exec_close(&alone);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listings),
        cmocka_unit_test(random_programs),
        cmocka_unit_test(a_network_wastes_little),
        cmocka_unit_test(an_overlap_is_seen),
        cmocka_unit_test(blocks),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_copy_that_does_not_fit),
        cmocka_unit_test(collectives_go_to_the_communicator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
