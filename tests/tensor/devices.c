/* devices: passes for devices that have kernels of joined ops, here the stand-in of CUDA: what they
 * join gives the host's numbers, and what somebody else reads stays. */
#include "tests/tensor/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static rig open_device(bool training)
{
    const char *top = getenv("builddir");
    char device[4096];

    snprintf(device, sizeof device, "cuda:module=%s/tests/cuda/.libs/standin.so", top ? top : ".");
    return rig_open_on(training, device);
}

/* A convolution and the frozen norm behind it become one op on a device that has a kernel for it,
 * and stay two on the host. */
static void frozen_norms_join_convolutions_on_devices(void **state)
{
    rig a, b, c;

    (void)state;
    a = rig_open(false);
    b = open_device(false);
    c = open_device(false);
    net_blocks(&a, false, false);
    net_blocks(&b, false, false);
    net_blocks(&c, true, false);
    net_run(&a);
    net_run(&b);
    net_run(&c);
    assert_int_equal(rig_count(&a, DG_OP(conv_packed)), 0);
    assert_int_equal(rig_count(&a, DG_OP(conv2d)), 6);
    assert_int_equal(rig_count(&b, DG_OP(fold_norm)), 5);
    assert_int_equal(rig_count(&b, DG_OP(conv_packed)), 6);
    assert_int_equal(rig_count(&b, DG_OP(batch_norm_fixed)), 0);
    assert_int_equal(rig_count(&b, DG_OP(conv2d)), 0);
    assert_int_equal(rig_count(&c, DG_OP(fold_norm)), 5);
    assert_int_equal(rig_count(&c, DG_OP(silu)), 2); /* what is behind a result stays */
    assert_true(fabs(rig_result(&a, "loss") - rig_result(&b, "loss")) < 1e-6);
    assert_true(fabs(rig_result(&a, "loss") - rig_result(&c, "loss")) < 1e-6);
    rig_close(&a);
    rig_close(&b);
    rig_close(&c);
}

/* One whose result somebody else reads stays. */
static void convolutions_that_others_read_stay(void **state)
{
    rig r;
    dg_val x;

    (void)state;
    r = open_device(false);
    x = net_conv(&r, "stem", dg_input(r.b, "images", DG_REAL, DG_SHAPE(2, 4, 4, 3)), 4, 3);
    dg_result(r.b, "loss", dg_mean(r.b, dg_add(r.b, x, net_norm(&r, "n0", x)), DG_ALL_AXES, false));
    rig_compile(&r, DG_F32);
    assert_int_equal(rig_count(&r, DG_OP(fold_norm)), 0);
    assert_int_equal(rig_count(&r, DG_OP(batch_norm_fixed)), 1);
    rig_close(&r);
}

/* A feed-forward block with a residual, as it is in a transformer, and a second reader of its
 * input, so that gradients are sums of products; `plain`: a result between product and ReLU. */
static dg_val block(rig *r, bool plain)
{
    dg_build *b = r->b;
    dg_val x = dg_input(b, "images", DG_REAL, DG_SHAPE(2, 6, 8)), h, y;

    rig_node(r, 1, "block", false);
    x = dg_linear(b, x, dg_param(b, "in", DG_SHAPE(8, 8), dg_init_fan_in(8)), DG_NONE);
    h = dg_linear(b, x, dg_param(b, "up", DG_SHAPE(12, 8), dg_init_fan_in(8)),
                  dg_param(b, "up.bias", DG_SHAPE(12), dg_init_const(0.1)));
    if (plain)
        dg_result(b, "between", h);
    y = dg_linear(b, dg_relu(b, h), dg_param(b, "down", DG_SHAPE(8, 12), dg_init_fan_in(12)),
                  dg_param(b, "down.bias", DG_SHAPE(8), dg_init_const(0.2)));
    y = dg_add(b, x, y);
    y = dg_mean(b, dg_mul(b, y, dg_relu(b, y)), DG_ALL_AXES, false);
    dg_result(b, "loss", y);
    return y;
}

static void products_take_what_follows_on_devices(void **state)
{
    rig a, b, c;

    (void)state;
    a = rig_open(true);
    b = open_device(true);
    c = open_device(true);
    net_train(&a, block(&a, false));
    net_train(&b, block(&b, false));
    net_train(&c, block(&c, true));
    net_run(&a);
    net_run(&b);
    net_run(&c);
    assert_int_equal(rig_count(&a, DG_OP(matmul_act)), 0);
    assert_int_equal(rig_count(&a, DG_OP(matmul)), 8);
    assert_int_equal(rig_count(&b, DG_OP(matmul_act)), 3); /* ReLU, residual, sum of gradients */
    assert_int_equal(rig_count(&b, DG_OP(matmul)), 5);
    assert_int_equal(rig_count(&b, DG_OP(relu)), 1);
    assert_int_equal(rig_count(&a, DG_OP(add)) - rig_count(&b, DG_OP(add)), 2);
    assert_int_equal(rig_count(&c, DG_OP(matmul_act)), 2); /* what is behind a result stays */
    assert_true(fabs(rig_result(&a, "loss") - rig_result(&b, "loss")) < 1e-6);
    net_same(&a, &b, 1e-4);
    net_same(&b, &c, 1e-4);
    rig_close(&a);
    rig_close(&b);
    rig_close(&c);
}

/* Two norms with a residual between, of one node. */
static dg_val short_network(rig *r)
{
    dg_val x = dg_input(r->b, "images", DG_REAL, DG_SHAPE(2, 4, 4, 3)), y;

    rig_node(r, 1, "all", false);
    x = dg_relu(r->b, net_norm(r, "n0", net_conv(r, "stem", x, 4, 3)));
    for (int i = 0; i < 2; i++) {
        const char *name = dg_printf(r->p->arena, "c%d", i);

        y = net_norm(r, dg_printf(r->p->arena, "n%d", 1 + i), net_conv(r, name, x, 4, 3));
        x = dg_relu(r->b, dg_add(r->b, x, y));
    }
    x = dg_mean(r->b, dg_mul(r->b, x, x), DG_ALL_AXES, false);
    dg_result(r->b, "loss", x);
    return x;
}

static void norms_add_up_their_gradients_on_devices(void **state)
{
    rig a, b;

    (void)state;
    a = rig_open(true);
    b = open_device(true);
    net_train(&a, short_network(&a));
    net_train(&b, short_network(&b));
    net_run(&a);
    net_run(&b);
    assert_int_equal(rig_count(&a, DG_OP(batch_norm_sum_grad)), 0);
    assert_int_equal(rig_count(&a, DG_OP(batch_norm_grad)), 3);
    assert_int_equal(rig_count(&b, DG_OP(batch_norm_sum_grad)), 3); /* two residuals, a square */
    assert_int_equal(rig_count(&a, DG_OP(add)) - rig_count(&b, DG_OP(add)), 3);
    net_same(&a, &b, 1e-4);
    rig_close(&a);
    rig_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_norms_join_convolutions_on_devices),
        cmocka_unit_test(convolutions_that_others_read_stay),
        cmocka_unit_test(products_take_what_follows_on_devices),
        cmocka_unit_test(norms_add_up_their_gradients_on_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
