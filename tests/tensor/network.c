/* network.c: see network.h. */
#include "tests/tensor/network.h"

#include <math.h>

#include "tensor/params.h"

dg_val net_conv(rig *r, const char *name, dg_val x, int64_t out, int size)
{
    int64_t in = dg_dim(r->b, x, 3);

    return dg_conv2d(r->b, x,
                     dg_param(r->b, name, DG_SHAPE(out, in, size, size),
                              dg_init_fan_in(in * size * size)),
                     DG_NONE, 1, size / 2);
}

dg_val net_norm(rig *r, const char *name, dg_val x)
{
    int64_t c = dg_dim(r->b, x, -1);
    dg_val mean, var, v[4];

    for (int i = 0; i < 4; i++) {
        const char *path = dg_printf(r->p->arena, "%s.%d", name, i);

        v[i] = i < 2 ? dg_param(r->b, path, DG_SHAPE(c), dg_init_uniform(1))
                     : dg_buffer(r->b, path, DG_SHAPE(c), dg_init_const(i - 2));
    }
    if (!dg_training(r->b))
        return dg_batch_norm_fixed(r->b, x, v[0], v[1], v[2], v[3], 1e-5);
    x = dg_batch_norm(r->b, x, v[0], v[1], 1e-5, &mean, &var);
    dg_stat_update(r->b, v[2], v[3], mean, var, 32, 0.1);
    return x;
}

dg_val net_blocks(rig *r, bool unfused, bool recompute)
{
    dg_val x = dg_input(r->b, "images", DG_REAL, DG_SHAPE(2, 4, 4, 3)), y;

    x = dg_relu(r->b, net_norm(r, "n0", net_conv(r, "stem", x, 4, 3)));
    for (int i = 0; i < 2; i++) {
        dg_arena *a = r->p->arena;

        rig_node(r, 1 + i, dg_printf(a, "block%d", i), recompute);
        y = net_norm(r, "n1", net_conv(r, "c1", x, 4, 3));
        if (unfused)
            dg_result(r->b, dg_printf(a, "y1.%d", i), y);
        y = net_norm(r, "n2", net_conv(r, "c2", dg_silu(r->b, y), 4, 3));
        if (unfused)
            dg_result(r->b, dg_printf(a, "y2.%d", i), y);
        x = dg_name(r->b, dg_relu(r->b, dg_add(r->b, x, y)), "x%d", i);
    }
    rig_node(r, 3, "head", false);
    x = dg_mean(r->b, net_conv(r, "out", x, 1, 1), DG_ALL_AXES, false);
    dg_result(r->b, "loss", x);
    return x;
}

const dg_adamw_attr net_adamw = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 0.5
};

void net_train(rig *r, dg_val loss)
{
    dg_val g = dg_backward(r->b, loss, 0);

    dg_ema(r->b, dg_adamw(r->b, g, dg_gradient_norm(r->b, g), &net_adamw));
}

void net_run(rig *r)
{
    double images[96];

    for (int i = 0; i < 96; i++)
        images[i] = sin(1.1 * i);
    rig_compile(r, DG_F32);
    rig_input(r, "images", images);
    rig_batch(r);
    if (r->p->training)
        rig_update(r);
}

void net_same(rig *a, rig *b, double tolerance)
{
    for (int s = DG_WEIGHTS; s <= DG_EMA; s++) {
        double most = 0;
        bool short_space = s == DG_GRADIENTS || s == DG_MOMENT1 || s == DG_MOMENT2;
        int64_t n = short_space ? dg_params_trainable(a->params) : dg_params_elements(a->params);
        float *x = rig_copy(a, (dg_space)s, (size_t)n * sizeof *x);
        float *y = rig_copy(b, (dg_space)s, (size_t)n * sizeof *y);

        for (int64_t i = 0; i < n; i++)
            most = fmax(most, fabs((double)x[i]));
        assert_true(most > 0);
        for (int64_t i = 0; i < n; i++)
            if (!(fabs((double)x[i] - (double)y[i]) <= tolerance * most))
                fail_msg("space %s, element %d: %.9g and %.9g", dg_space_name((dg_space)s), (int)i,
                         (double)x[i], (double)y[i]);
        dg_free(x);
        dg_free(y);
    }
}
