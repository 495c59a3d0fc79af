/* gradients: of compositions, through builder, autodiff, passes, plan and executor, in f64 against
 * central differences (L(x + h) - L(x - h)) / 2h. Single ops are tests/ops' business. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <string.h>

static const double STEP = 1e-5;

/* Every eighth element of every trainable parameter. */
static void check_gradients(rig *r, double tolerance)
{
    rig_batch(r);
    for (int i = 0; i < dg_params_n(r->params); i++) {
        const dg_param_info *info = dg_params_at(r->params, i);
        double w[4096], g[4096], most = 0;
        int64_t n = dg_shape_elements(info->shape);

        if (info->kind != DG_TRAINABLE)
            continue;
        assert_true(n <= 4096);
        rig_batch(r);
        rig_get(r, DG_WEIGHTS, info->path, w);
        rig_get(r, DG_GRADIENTS, info->path, g);
        for (int64_t k = 0; k < n; k++)
            most = fmax(most, fabs(g[k]));
        assert_true(most > 0);
        for (int64_t k = 0; k < n; k += n > 16 ? n / 8 : 1) {
            double x = w[k], up, down;

            w[k] = x + STEP;
            rig_set(r, DG_WEIGHTS, info->path, w);
            rig_batch(r);
            up = rig_result(r, "loss");
            w[k] = x - STEP;
            rig_set(r, DG_WEIGHTS, info->path, w);
            rig_batch(r);
            down = rig_result(r, "loss");
            w[k] = x;
            rig_set(r, DG_WEIGHTS, info->path, w);
            if (!(fabs((up - down) / (2 * STEP) - g[k]) <= tolerance * fmax(most, 1e-3)))
                fail_msg("%s[%d]: %.12g by differences, %.12g by autodiff", info->path, (int)k,
                         (up - down) / (2 * STEP), g[k]);
        }
    }
}

static void fill(double *x, int n, double a)
{
    for (int i = 0; i < n; i++)
        x[i] = sin(a * (i + 1) + 0.3 * a);
}

/* A scalar that every element of v reaches with a weight of its own. */
static dg_val weighted(rig *r, dg_val v)
{
    dg_shape s = dg_shape_of(r->b, v);
    double w[4096];

    fill(w, (int)dg_shape_elements(s), 0.7);
    return dg_sum(r->b, dg_mul(r->b, v, dg_const(r->b, s, w)), DG_ALL_AXES, false);
}

static void finish(rig *r, dg_val loss)
{
    dg_result(r->b, "loss", loss);
    dg_backward(r->b, loss, 1);
    rig_compile(r, DG_F64);
}

static dg_val norm(rig *r, const char *name, dg_val x)
{
    dg_arena *a = r->p->arena;
    int64_t c = dg_dim(r->b, x, -1);
    dg_val mean, var, y;

    y = dg_batch_norm(r->b, x,
                      dg_param(r->b, dg_printf(a, "%s.weight", name), DG_SHAPE(c),
                               dg_init_const(0.9)),
                      dg_param(r->b, dg_printf(a, "%s.bias", name), DG_SHAPE(c),
                               dg_init_const(0.1)),
                      1e-5, &mean, &var);
    dg_stat_update(r->b,
                   dg_buffer(r->b, dg_printf(a, "%s.running_mean", name), DG_SHAPE(c),
                             dg_init_zero()),
                   dg_buffer(r->b, dg_printf(a, "%s.running_var", name), DG_SHAPE(c),
                             dg_init_const(1)),
                   mean, var, dg_shape_elements(dg_shape_of(r->b, x)) / c, 0.1);
    return y;
}

static dg_val conv(rig *r, const char *name, dg_val x, int64_t out, int size, int stride)
{
    int64_t in = dg_dim(r->b, x, 3);
    dg_val w =
        dg_param(r->b, name, DG_SHAPE(out, in, size, size), dg_init_fan_in(in * size * size));

    return dg_conv2d(r->b, x, w, DG_NONE, stride, size / 2);
}

static void a_residual_block(void **state)
{
    rig r = rig_open(true);
    double images[2 * 6 * 5 * 3];
    dg_val x = dg_input(r.b, "images", DG_REAL, DG_SHAPE(2, 6, 5, 3)), y;

    (void)state;
    x = dg_relu(r.b, norm(&r, "n0", conv(&r, "c0", x, 4, 3, 1)));
    y = dg_relu(r.b, norm(&r, "n1", conv(&r, "c1", x, 4, 3, 2)));
    y = norm(&r, "n2", conv(&r, "c2", y, 4, 3, 1));
    y = dg_relu(r.b,
                dg_add(r.b, y, norm(&r, "n3", conv(&r, "c3", dg_avg_pool(r.b, x, 2, 2), 4, 1, 1))));
    y = dg_silu(r.b, dg_add(r.b, norm(&r, "n4", conv(&r, "c4", y, 4, 3, 1)),
                            norm(&r, "n5", conv(&r, "c5", y, 4, 1, 1))));
    y = dg_concat(r.b, 3, 2,
                  (dg_val[]){ dg_upsample(r.b, y, 2),
                              dg_upsample(r.b, dg_max_pool(r.b, x, 3, 2, 1), 2) });
    finish(&r, weighted(&r, y));
    assert_int_equal(rig_count(&r, DG_OP(relu)), 0); /* all fused */
    assert_int_equal(rig_count(&r, DG_OP(silu)), 0);
    assert_int_equal(rig_count(&r, DG_OP(accumulate)), 0); /* all in place */
    fill(images, 180, 1.3);
    rig_input(&r, "images", images);
    check_gradients(&r, 2e-6);
    rig_close(&r);
}

static dg_val linear(rig *r, const char *name, dg_val x, int64_t n)
{
    dg_arena *a = r->p->arena;
    int64_t k = dg_dim(r->b, x, -1);

    return dg_linear(r->b, x,
                     dg_param(r->b, dg_printf(a, "%s.weight", name), DG_SHAPE(n, k),
                              dg_init_xavier(k, n)),
                     dg_param(r->b, dg_printf(a, "%s.bias", name), DG_SHAPE(n),
                              dg_init_uniform(0.2)));
}

static dg_val layer_norm(rig *r, const char *name, dg_val x)
{
    dg_arena *a = r->p->arena;
    int64_t d = dg_dim(r->b, x, -1);

    return dg_layer_norm(r->b, x,
                         dg_param(r->b, dg_printf(a, "%s.weight", name), DG_SHAPE(d),
                                  dg_init_const(1.1)),
                         dg_param(r->b, dg_printf(a, "%s.bias", name), DG_SHAPE(d),
                                  dg_init_const(-0.1)),
                         1e-5);
}

/* One packed projection whose slices are the three operands, and a head that is used twice. */
static void a_transformer_layer(void **state)
{
    rig r = rig_open(true);
    double tokens[2 * 5 * 8];
    dg_val x = dg_input(r.b, "tokens", DG_REAL, DG_SHAPE(2, 5, 8)), q[3], y, w, k, boxes;

    (void)state;
    x = linear(&r, "embed", x, 8);
    w = dg_param(r.b, "in_proj_weight", DG_SHAPE(24, 8), dg_init_xavier(8, 24));
    k = dg_param(r.b, "in_proj_bias", DG_SHAPE(24), dg_init_uniform(0.1));
    for (int i = 0; i < 3; i++)
        q[i] = dg_linear(r.b, x, dg_slice(r.b, w, 0, 8 * i, 8 * i + 8),
                         dg_slice(r.b, k, 0, 8 * i, 8 * i + 8));
    y = dg_attention(r.b, q[0], q[1], q[2], 2, DG_NONE, 0);
    y = layer_norm(&r, "norm1", dg_add(r.b, x, linear(&r, "out_proj", y, 8)));
    y = layer_norm(&r, "norm2",
                   dg_add(r.b, y, linear(&r, "l2", dg_gelu(r.b, linear(&r, "l1", y, 12)), 8)));
    boxes = dg_sigmoid(r.b, dg_add(r.b, linear(&r, "head", y, 4), dg_number(r.b, 0.1)));
    boxes = dg_sigmoid(r.b, dg_add(r.b, linear(&r, "head", dg_scale(r.b, y, 0.5, 0), 4),
                                   dg_inverse_sigmoid(r.b, boxes, 1e-5)));
    finish(&r, weighted(&r, boxes));
    fill(tokens, 80, 0.9);
    rig_input(&r, "tokens", tokens);
    check_gradients(&r, 2e-6);
    rig_close(&r);
}

/* d/dw of w * detach(exp(w)) is exp(w) alone; a frozen factor and an unused parameter get
 * nothing. */
static void nothing_flows_past_a_detached_or_frozen_value(void **state)
{
    rig r = rig_open(true);
    dg_val w = dg_param(r.b, "w", DG_SCALAR, dg_init_const(0.25)), f;
    double g, unused;
    const int *missing;

    (void)state;
    dg_param(r.b, "unused", DG_SCALAR, dg_init_zero());
    f = dg_param_frozen(r.b, "f", DG_SCALAR, dg_init_const(2));
    finish(&r, dg_mul(r.b, f, dg_mul(r.b, w, dg_detach(r.b, dg_exp(r.b, w)))));
    rig_batch(&r);
    rig_get(&r, DG_GRADIENTS, "net.w", &g);
    rig_get(&r, DG_GRADIENTS, "net.unused", &unused);
    assert_true(fabs(g - 2 * exp(0.25)) < 1e-12);
    assert_true(unused == 0);
    assert_int_equal(dg_uncovered(r.p, &missing), 1);
    assert_string_equal(dg_params_at(r.params, missing[0])->path, "net.unused");
    rig_close(&r);
}

/* Broadcasting, reductions, choices, and the same parameter on both sides of a product. */
static void arithmetic(void **state)
{
    rig r = rig_open(true);
    double v[3 * 4 * 5];
    dg_val x = dg_input(r.b, "v", DG_REAL, DG_SHAPE(3, 4, 5)), a, s, y;

    (void)state;
    a = dg_param(r.b, "a", DG_SHAPE(4, 1), dg_init_uniform(1));
    s = dg_param(r.b, "s", DG_SCALAR, dg_init_const(0.7));
    y = dg_mul(r.b, dg_add(r.b, x, a), dg_mul(r.b, s, s));
    y = dg_div(r.b, y, dg_scale(r.b, dg_abs(r.b, dg_sub(r.b, a, x)), 1, 0.5));
    y = dg_max2(r.b, y, dg_min2(r.b, dg_scale(r.b, y, -0.5, 0.1), a));
    y = dg_add(r.b, y, dg_mean(r.b, y, 5, true));
    y = dg_select(r.b, dg_const_i32(r.b, DG_SHAPE(4, 1), (int32_t[]){ 1, 0, 1, 0 }), y,
                  dg_mul(r.b, y, s));
    y = dg_matmul(r.b, dg_permute(r.b, y, 3, (int[]){ 0, 2, 1 }), y);
    y = dg_softmax(r.b, dg_clamp(r.b, y, -0.4, 0.6));
    y = dg_log(r.b, dg_sqrt(r.b, dg_scale(r.b, y, 1, 0.01)));
    y = dg_pad(r.b, dg_expand(r.b, dg_reshape(r.b, y, DG_SHAPE(3, 1, -1)), DG_SHAPE(3, 2, 25)), 1,
               1, 2);
    y = dg_slice(r.b, y, 2, 3, 21);
    finish(&r, weighted(&r, y));
    fill(v, 60, 1.7);
    rig_input(&r, "v", v);
    check_gradients(&r, 2e-6);
    rig_close(&r);
}

/* k batches accumulate what k single ones give. */
static void accumulation(void **state)
{
    double sum[6] = { 0 }, g[6], v[8];

    (void)state;
    for (int k = 1; k <= 2; k++) {
        rig r = rig_open(true);
        dg_val w = dg_param(r.b, "w", DG_SHAPE(2, 3), dg_init_uniform(1)), loss, g_all;
        dg_str text = { 0 };

        loss = weighted(&r, dg_matmul(r.b, dg_input(r.b, "v", DG_REAL, DG_SHAPE(4, 2)), w));
        g_all = dg_backward(r.b, loss, k);
        dg_result(r.b, "norm", dg_gradient_norm(r.b, g_all));
        rig_compile(&r, DG_F64);
        assert_int_equal(rig_count(&r, DG_OP(accumulate)), k == 2);
        dg_plan_print(&text, r.plan, true);
        assert_int_equal(strstr(text.s, "\nonce for 2 batches:\n") != NULL, k == 2);
        dg_str_free(&text);
        for (int batch = 0; batch < 2; batch++) {
            fill(v, 8, 0.5 + batch);
            rig_input(&r, "v", v);
            r.control.accumulated = k == 2 ? batch : 0;
            rig_batch(&r);
            rig_get(&r, DG_GRADIENTS, "net.w", g);
            for (int i = 0; i < 6 && k == 1; i++)
                sum[i] += g[i];
        }
        for (int i = 0; i < 6 && k == 2; i++)
            assert_true(fabs(g[i] - sum[i]) < 1e-12);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_residual_block),
        cmocka_unit_test(a_transformer_layer),
        cmocka_unit_test(nothing_flows_past_a_detached_or_frozen_value),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(accumulation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
