/* c2f.c: see c2f.h. */
#include "nodes/projector/c2f.h"

dg_val dg_c2f_norm(const dg_param_path_of *at, dg_val x)
{
    return dg_layer_layer_norm_eps(at, x, 1e-6);
}

dg_val dg_c2f_conv(const dg_param_path_of *outer, const char *name, dg_val x, int64_t out, int size,
                   int stride)
{
    dg_param_path_of at = dg_param_path_in(outer, "%s", name), bn = dg_param_path_in(&at, "bn");
    int64_t in = dg_dim(at.b, x, -1);
    dg_val w = dg_param_at(&at, "conv.weight", DG_SHAPE(out, in, size, size),
                           dg_init_fan_in(in * size * size));

    return dg_c2f_norm(&bn, dg_conv2d_exact(at.b, x, w, DG_NONE, stride, size / 2));
}

static dg_val conv_silu(const dg_param_path_of *outer, const char *name, dg_val x, int64_t out,
                        int size)
{
    dg_val y = dg_silu(outer->b, dg_c2f_conv(outer, name, x, out, size, 1));

    return dg_name(outer->b, y, "backbone.0.projector.%s.%s", outer->path, name);
}

dg_val dg_c2f(const dg_param_path_of *at, dg_val x, int64_t width, int blocks)
{
    dg_build *b = at->b;
    int64_t half = width / 2;
    dg_val list[2 + DG_C2F_MOST], y = conv_silu(at, "cv1", x, width, 1);

    list[0] = dg_slice(b, y, 3, 0, half);
    list[1] = dg_slice(b, y, 3, half, width);
    for (int i = 0; i < blocks; i++) {
        dg_param_path_of m = dg_param_path_in(at, "m.%d", i);

        y = conv_silu(&m, "cv1", list[1 + i], half, 3);
        list[2 + i] = conv_silu(&m, "cv2", y, half, 3);
    }
    return conv_silu(at, "cv2", dg_concat(b, 3, 2 + blocks, list), width, 1);
}
