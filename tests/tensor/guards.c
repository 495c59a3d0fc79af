/* guards: with its flag set a guarded part computes what it would without a guard, and without it
 * the program is the one that lacks the part: losses, gradients, statistics and weights, every bit;
 * beside others and within them, recomputed, accumulated, and for all that follows a skip. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/params.h"
#include "tests/tensor/wild.h"

static const dg_adamw_attr adamw = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1
};

/* Each of two branches: not there, there, or under its flag. */
enum { ABSENT, PRESENT, GUARDED };

typedef struct net {
    int branch[2];
    bool nested; /* the second stands in the first */
    bool recompute;
    int accumulate;
    bool skip; /* by flag 0, before backward */
} net;

static dg_val layer(rig *r, const char *name, dg_val x)
{
    dg_arena *a = r->p->arena;
    int64_t c = dg_dim(r->b, x, -1);
    dg_val w, s, k, m, v, mean, var;

    w = dg_param(r->b, dg_printf(a, "%s.w", name), DG_SHAPE(4, c, 3, 3), dg_init_fan_in(9 * c));
    s = dg_param(r->b, dg_printf(a, "%s.s", name), DG_SHAPE(4), dg_init_uniform(1));
    k = dg_param(r->b, dg_printf(a, "%s.k", name), DG_SHAPE(4), dg_init_uniform(1));
    m = dg_buffer(r->b, dg_printf(a, "%s.mean", name), DG_SHAPE(4), dg_init_zero());
    v = dg_buffer(r->b, dg_printf(a, "%s.var", name), DG_SHAPE(4), dg_init_const(1));
    x = dg_batch_norm(r->b, dg_conv2d(r->b, x, w, DG_NONE, 1, 1), s, k, 1e-5, &mean, &var);
    dg_stat_update(r->b, m, v, mean, var, 32, 0.1);
    return dg_silu(r->b, x);
}

static dg_val flag(rig *r, int i)
{
    int32_t known = dg_program_input(r->p, i ? "flag1" : "flag0");

    if (known)
        return (dg_val){ known };
    return i ? dg_input(r->b, "flag1", DG_I32, DG_SHAPE(1))
             : dg_input(r->b, "flag0", DG_REAL, DG_SCALAR);
}

/* x, or its sum with branch i of x. */
static dg_val with_branch(rig *r, const net *n, int i, dg_val x)
{
    dg_val u;

    if (n->branch[i] == ABSENT)
        return x;
    rig_node(r, 1 + i, "net", n->recompute);
    if (n->branch[i] == GUARDED)
        dg_guard_begin(r->b, flag(r, i));
    u = layer(r, i ? "b1" : "b0", x);
    if (i == 0 && n->nested) {
        u = with_branch(r, n, 1, u);
        rig_node(r, 1, "net", n->recompute);
    }
    if (n->branch[i] == GUARDED)
        dg_guard_end(r->b, 1, &u);
    rig_node(r, 3 + i, "net", false);
    return dg_add(r->b, x, u);
}

static void build(rig *r, const net *n)
{
    dg_val x = dg_input(r->b, "images", DG_REAL, DG_SHAPE(2, 4, 4, 3)), w, loss, g;

    x = with_branch(r, n, 0, layer(r, "stem", x));
    if (!n->nested)
        x = with_branch(r, n, 1, x);
    rig_node(r, 9, "net", false);
    w = dg_param(r->b, "out", DG_SHAPE(1, 4, 1, 1), dg_init_uniform(1));
    loss = dg_mean(r->b, dg_conv2d(r->b, x, w, DG_NONE, 1, 0), DG_ALL_AXES, false);
    dg_result(r->b, "loss", loss);
    if (n->skip)
        dg_guard_rest(r->b, flag(r, 0));
    r->p->accumulate = n->accumulate ? n->accumulate : 1;
    g = dg_backward(r->b, loss, 0);
    dg_ema(r->b, dg_adamw(r->b, g, dg_gradient_norm(r->b, g), &adamw));
    rig_compile(r, DG_F32);
}

static void feed(rig *r, int batch, bool f0, bool f1)
{
    double images[2 * 4 * 4 * 3];

    for (int i = 0; i < 96; i++)
        images[i] = sin(0.7 * i + batch) + 0.1 * batch;
    rig_input(r, "images", images);
    if (dg_program_input(r->p, "flag0"))
        rig_input(r, "flag0", &(double){ f0 ? -0.5 : 0 });
    if (dg_program_input(r->p, "flag1"))
        rig_input(r, "flag1", &(double){ f1 ? 3 : 0 });
}

/* Everything that both programs have agrees in every bit; gradients of what only a has are zeros.
 */
static void check_same(rig *a, rig *b)
{
    assert_true(rig_result(a, "loss") == rig_result(b, "loss"));
    for (int i = 0; i < dg_params_n(a->params); i++) {
        const dg_param_info *p = dg_params_at(a->params, i);
        double x[256], y[256], zero[256] = { 0 };
        size_t bytes = (size_t)dg_shape_elements(p->shape) * sizeof *x;
        bool both = dg_params_find_path(b->params, p->path) >= 0;

        for (dg_space s = DG_WEIGHTS; s <= DG_EMA; s++) {
            if (p->kind != DG_TRAINABLE && s != DG_WEIGHTS && s != DG_EMA)
                continue;
            if (!both && s != DG_GRADIENTS)
                continue;
            rig_get(a, s, p->path, x);
            if (both)
                rig_get(b, s, p->path, y);
            if (memcmp(x, both ? y : zero, bytes) != 0)
                fail_msg("%s in %s differs: %g, %g", p->path, dg_space_name(s), x[0],
                         both ? y[0] : 0);
        }
    }
}

static void step(rig *r, int batch, bool f0, bool f1)
{
    feed(r, batch, f0, f1);
    rig_batch(r);
    rig_update(r);
}

static void compare(bool nested, bool recompute)
{
    for (int set = 0; set < 4; set++) {
        bool f0 = set & 1, f1 = set & 2;
        net guarded = { .branch = { GUARDED, GUARDED }, .nested = nested, .recompute = recompute };
        net plain = { .branch = { f0, f1 && (f0 || !nested) }, .nested = nested };
        rig a = rig_open(true), b = rig_open(true);

        build(&a, &guarded);
        build(&b, &plain);
        for (int batch = 0; batch < 3; batch++) {
            step(&a, batch, f0, f1);
            step(&b, batch, f0, f1);
            check_same(&a, &b);
        }
        rig_close(&a);
        rig_close(&b);
    }
}

static void side_by_side(void **state)
{
    (void)state;
    compare(false, false);
}

static void one_in_the_other(void **state)
{
    (void)state;
    compare(true, false);
}

static void recomputed(void **state)
{
    (void)state;
    compare(false, true);
    compare(true, true);
}

/* Flags change from batch to batch; the sums are those of programs that have or lack the parts. */
static void accumulated(void **state)
{
    static const bool flags[4][2] = { { 0, 1 }, { 1, 0 }, { 0, 0 }, { 1, 1 } };
    double sum[10][256] = { { 0 } }, x[256];
    rig a = rig_open(true);

    (void)state;
    build(&a, &(net){ .branch = { GUARDED, GUARDED }, .accumulate = 4 });
    for (int batch = 0; batch < 4; batch++) {
        rig b = rig_open(true);

        build(&b, &(net){ .branch = { flags[batch][0], flags[batch][1] } });
        feed(&b, batch, 0, 0);
        rig_batch(&b);
        feed(&a, batch, flags[batch][0], flags[batch][1]);
        a.control.accumulated = batch;
        rig_batch(&a);
        for (int i = 0, k = 0; i < dg_params_n(a.params) && k < 10; i++) {
            const dg_param_info *p = dg_params_at(a.params, i);

            if (p->kind != DG_TRAINABLE)
                continue;
            if (dg_params_find_path(b.params, p->path) >= 0) {
                rig_get(&b, DG_GRADIENTS, p->path, x);
                for (int64_t e = 0; e < dg_shape_elements(p->shape); e++)
                    sum[k][e] = (double)((float)sum[k][e] + (float)x[e]);
            }
            rig_get(&a, DG_GRADIENTS, p->path, x);
            for (int64_t e = 0; e < dg_shape_elements(p->shape); e++)
                if (x[e] != sum[k][e])
                    fail_msg("batch %d: %s[%d] is %g, not %g", batch, p->path, (int)e, x[e],
                             sum[k][e]);
            k++;
        }
        rig_close(&b);
    }
    rig_close(&a);
}

/* A batch that is skipped leaves weights, moments, averages and statistics as they were. */
static void the_rest_is_skipped(void **state)
{
    rig a = rig_open(true), b = rig_open(true);
    double before[DG_N_SPACES][256], now[256];

    (void)state;
    build(&a, &(net){ .branch = { ABSENT, GUARDED }, .skip = true });
    build(&b, &(net){ .branch = { ABSENT, PRESENT } });
    step(&a, 0, false, true);
    step(&b, 0, false, true);
    check_same(&a, &b);
    for (int i = 0; i < dg_params_n(a.params); i++) {
        const dg_param_info *p = dg_params_at(a.params, i);
        size_t bytes = (size_t)dg_shape_elements(p->shape) * sizeof *now;
        double zero[256] = { 0 };

        step(&a, 0, false, true);
        for (dg_space s = DG_WEIGHTS; s <= DG_EMA; s++)
            if (p->kind == DG_TRAINABLE || s == DG_WEIGHTS || s == DG_EMA)
                rig_get(&a, s, p->path, before[s]);
        step(&a, 1, true, true);
        for (dg_space s = DG_WEIGHTS; s <= DG_EMA; s++) {
            if (p->kind != DG_TRAINABLE && s != DG_WEIGHTS && s != DG_EMA)
                continue;
            rig_get(&a, s, p->path, now);
            if (memcmp(now, s == DG_GRADIENTS ? zero : before[s], bytes) != 0)
                fail_msg("%s in %s has changed", p->path, dg_space_name(s));
        }
    }
    rig_close(&a);
    rig_close(&b);
}

/* What a guarded part only hands on is zeros too, and takes no gradient. */
static void what_passes_through(void **state)
{
    rig r = rig_open(true);
    dg_val w = dg_param(r.b, "w", DG_SHAPE(3), dg_init_const(2)), rec = dg_record(r.b), out[2], n;
    double x[3];

    (void)state;
    n = dg_const_i32(r.b, DG_SHAPE(2), (int32_t[]){ 4, 5 });
    dg_record_set(r.b, rec, "n", n);
    dg_guard_begin(r.b, flag(&r, 1));
    assert_int_equal(dg_guard_now(r.b).id, dg_present(r.b, dg_exp(r.b, w)).id);
    out[0] = w;
    out[1] = rec;
    dg_guard_end(r.b, 2, out);
    dg_result(r.b, "n", out[1]);
    dg_result(r.b, "w", out[0]);
    dg_result(r.b, "loss", dg_sum(r.b, out[0], DG_ALL_AXES, false));
    dg_backward(r.b, dg_sum(r.b, out[0], DG_ALL_AXES, false), 1);
    rig_compile(&r, DG_F32);
    for (int on = 1; on >= 0; on--) {
        rig_input(&r, "flag1", &(double){ on });
        rig_batch(&r);
        assert_true(rig_result(&r, "loss") == 6 * on);
        assert_int_equal(dg_exec_read(r.x, "n.n", x, r.d), 0);
        assert_true(x[0] == 4 * on && x[1] == 5 * on);
        rig_get(&r, DG_GRADIENTS, "net.w", x);
        assert_true(x[0] == on && x[2] == on);
        rig_get(&r, DG_WEIGHTS, "net.w", x);
        assert_true(x[0] == 2);
    }
    rig_close(&r);
}

/* A norm and its activation become one, but not where a guard begins between them. */
static void not_fused_across(void **state)
{
    rig r = rig_open(true);
    dg_val x = dg_input(r.b, "images", DG_REAL, DG_SHAPE(2, 4, 4, 3)), s, k, mean, var, y;

    (void)state;
    s = dg_param(r.b, "s", DG_SHAPE(3), dg_init_const(1));
    k = dg_param(r.b, "k", DG_SHAPE(3), dg_init_const(1));
    y = dg_batch_norm(r.b, x, s, k, 1e-5, &mean, &var);
    dg_guard_begin(r.b, flag(&r, 1));
    y = dg_relu(r.b, y);
    dg_guard_end(r.b, 1, &y);
    y = dg_sum(r.b, y, DG_ALL_AXES, false);
    dg_result(r.b, "loss", y);
    dg_backward(r.b, y, 1);
    rig_compile(&r, DG_F32);
    feed(&r, 0, false, false);
    rig_batch(&r);
    assert_true(rig_result(&r, "loss") == 0);
    feed(&r, 0, false, true);
    rig_batch(&r);
    assert_true(rig_result(&r, "loss") > 1);
    rig_close(&r);
}

/* Casts stand under the guard of what they cast, so that other readers find them. */
static void in_mixed_precision(void **state)
{
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        rig r = rig_open(true);
        dg_str text = { 0 };
        dg_val x, u[2], w;

        x = layer(&r, "stem", dg_input(r.b, "images", DG_REAL, DG_SHAPE(2, 4, 4, 3)));
        dg_guard_begin(r.b, flag(&r, 0));
        if (nested)
            dg_guard_begin(r.b, flag(&r, 1));
        u[0] = layer(&r, "b0", x);
        u[1] = dg_sum(r.b, dg_exp(r.b, u[0]), 1u << 1, true);
        if (nested)
            dg_guard_end(r.b, 2, u);
        dg_guard_end(r.b, 2, u);
        w = dg_param(r.b, "out", DG_SHAPE(1, 4, 1, 1), dg_init_uniform(1));
        x = dg_conv2d(r.b, dg_add(r.b, dg_add(r.b, x, u[0]), u[1]), w, DG_NONE, 1, 0);
        dg_backward(r.b, dg_mean(r.b, x, DG_ALL_AXES, false), 1);
        dg_backend_close(&r.backend); /* ref kernels have no bf16 */
        assert_int_equal(dg_backend_open(&r.backend, "cpu", r.d), 0);
        assert_int_equal(dg_passes(r.p, DG_F32, DG_BF16, r.backend, 1, r.d), 0);
        assert_int_equal(dg_plan_open(&r.plan, r.p, r.backend, 1, r.d), 0);
        assert_int_equal(dg_plan_verify(r.plan, r.d), 0);
        for (int i = 0; i < r.p->instrs.n; i++) {
            const dg_instr *in = &r.p->instrs.items[i];

            if (in->op == DG_OP(cast))
                assert_int_equal(in->guard, dg_program_guard(r.p, in->v[0]));
        }
        dg_plan_print(&text, r.plan, true);
        assert_non_null(strstr(text.s, " if %"));
        assert_non_null(strstr(text.s, " else %"));
        dg_str_free(&text);
        rig_close(&r);
    }
}

/* ---- programs that nobody would write -------------------------------------------------------- */

static rig wild(const uint8_t *bytes, size_t n, wild_guards guards, double flag)
{
    rig r = rig_open(true);
    double images[2 * 7 * 6 * 3], tokens[2 * 5 * 8];

    wild_program(r.b, bytes, n, true, guards);
    if (dg_diag_errors(r.d)) /* no parameter reaches the loss: the same in both */
        return r;
    rig_compile(&r, DG_F64);
    for (int i = 0; i < 252; i++)
        images[i] = sin(0.3 * i);
    for (int i = 0; i < 80; i++)
        tokens[i] = cos(0.7 * i);
    rig_input(&r, "images", images);
    rig_input(&r, "tokens", tokens);
    if (dg_program_input(r.p, "flag"))
        rig_input(&r, "flag", &flag);
    for (int i = 0; i < r.p->accumulate; i++) {
        r.control.accumulated = i;
        rig_batch(&r);
    }
    rig_update(&r);
    return r;
}

/* Fusion rounds elsewhere, so not every bit; what is not finite says nothing. */
static void check_close(rig *a, rig *b, dg_space s, const dg_param_info *p, int k)
{
    double x[4096], y[4096], most = 0;
    int64_t n = dg_shape_elements(p->shape);

    rig_get(a, s, p->path, x);
    rig_get(b, s, p->path, y);
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, isfinite(x[i]) ? fabs(x[i]) : INFINITY);
    for (int64_t i = 0; i < n && isfinite(most); i++)
        if (!(fabs(x[i] - y[i]) <= 1e-7 * most + 1e-12))
            fail_msg("program %d: %s[%d] in %s is %.17g, not %.17g", k, p->path, (int)i,
                     dg_space_name(s), y[i], x[i]);
}

/* With the flag set a program is the one without guards; else the one whose parts are zeros. */
static void random_programs(void **state)
{
    dg_rng rng = dg_rng_begin(dg_rng_named(3, "guards"), 0, 0);
    uint8_t bytes[300];
    int guarded = 0, compared[2] = { 0 };

    (void)state;
    for (int k = 0; k < 200; k++) {
        bool on = k % 2;
        size_t n = 40 + (size_t)dg_rng_below(&rng, sizeof bytes - 40);

        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)dg_rng_below(&rng, 256);
        rig a = wild(bytes, n, on ? WILD_PLAIN : WILD_ZEROS, 0), b = wild(bytes, n, WILD_FLAG, on);

        for (int i = 0; a.x && b.x && i < dg_params_n(a.params); i++) {
            const dg_param_info *p = dg_params_at(a.params, i);

            check_close(&a, &b, DG_WEIGHTS, p, k);
            if (p->kind == DG_TRAINABLE)
                check_close(&a, &b, DG_GRADIENTS, p, k);
        }
        compared[on] += a.x && b.x;
        for (int i = 0; i < b.p->instrs.n; i++)
            guarded += b.p->instrs.items[i].guard != 0;
        rig_close(&a);
        rig_close(&b);
    }
    print_message("# %d programs on, %d off, %d guarded instructions\n", compared[1], compared[0],
                  guarded);
    assert_true(compared[0] > 40 && compared[1] > 80 && guarded > 2000);
}

static void refusals(void **state)
{
    rig r = rig_open(true);

    (void)state;
    dg_guard_begin(r.b, dg_input(r.b, "x", DG_REAL, DG_SHAPE(2)));
    assert_string_equal(dg_diag_at(r.d, dg_diag_n(r.d) - 1)->id, "guard-not-scalar");
    dg_guard_end(r.b, 0, NULL);
    dg_guard_rest(r.b, DG_NONE);
    assert_string_equal(dg_diag_at(r.d, dg_diag_n(r.d) - 1)->id, "operand-missing");
    rig_close(&r);
    r = rig_open(false);
    dg_guard_begin(r.b, flag(&r, 1));
    dg_result(r.b, "y", dg_exp(r.b, dg_input(r.b, "x", DG_REAL, DG_SCALAR)));
    r.p->instrs.items[r.p->instrs.n - 1].guard = dg_program_input(r.p, "x");
    assert_int_equal(dg_program_verify(r.p, r.d), -DG_EINTERNAL);
    r.p->instrs.items[r.p->instrs.n - 1].guard = 0;
    r.p->instrs.items[r.p->instrs.n - 1].otherwise = 1;
    assert_int_equal(dg_program_verify(r.p, r.d), -DG_EINTERNAL);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_by_side),        cmocka_unit_test(one_in_the_other),
        cmocka_unit_test(recomputed),          cmocka_unit_test(accumulated),
        cmocka_unit_test(the_rest_is_skipped), cmocka_unit_test(what_passes_through),
        cmocka_unit_test(not_fused_across),    cmocka_unit_test(in_mixed_precision),
        cmocka_unit_test(random_programs),     cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
