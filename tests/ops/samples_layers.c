/* samples_layers.c: convolution, matrix products, normalisation, attention. */
#include "tests/ops/samples.h"

static void conv(samples *s, const char *what, dg_shape x, dg_shape w, bool bias, int stride,
                 int pad)
{
    ADD(s, conv2d, what, conv_attr, .stride = stride, .pad = pad);
    sample_real(s, -1, 1, x);
    sample_real(s, -1, 1, w);
    if (bias)
        sample_real(s, -1, 1, DG_SHAPE(w.d[0]));
    else
        sample_none(s);
}

static void exact_convolution(samples *s)
{
    ADD(s, conv2d, "exact, in four parts", conv_attr, .stride = 1, .pad = 1, .exact = 1);
    sample_real(s, -1, 1, DG_SHAPE(1, 3, 2, 64));
    sample_real(s, -1, 1, DG_SHAPE(3, 64, 3, 3));
    sample_real(s, -1, 1, DG_SHAPE(3));
}

static void convolutions(samples *s)
{
    conv(s, "3x3", DG_SHAPE(2, 5, 7, 3), DG_SHAPE(4, 3, 3, 3), true, 1, 1);
    conv(s, "3x3, stride 2, even", DG_SHAPE(2, 6, 4, 4), DG_SHAPE(5, 4, 3, 3), false, 2, 1);
    conv(s, "3x3, stride 2, odd", DG_SHAPE(3, 7, 5, 3), DG_SHAPE(16, 3, 3, 3), false, 2, 1);
    conv(s, "1x1", DG_SHAPE(3, 4, 3, 9), DG_SHAPE(17, 9, 1, 1), true, 1, 0);
    conv(s, "1x1, stride 2", DG_SHAPE(2, 5, 6, 8), DG_SHAPE(24, 8, 1, 1), false, 2, 0);
    conv(s, "2x2, no padding", DG_SHAPE(1, 5, 4, 2), DG_SHAPE(3, 2, 2, 2), false, 2, 0);
    conv(s, "7x7 over a small map", DG_SHAPE(1, 3, 2, 4), DG_SHAPE(8, 4, 7, 7), false, 1, 3);
    conv(s, "one pixel", DG_SHAPE(2, 1, 1, 5), DG_SHAPE(3, 5, 3, 3), false, 1, 1);
    conv(s, "33 channels to 18", DG_SHAPE(2, 4, 9, 33), DG_SHAPE(18, 33, 3, 3), false, 1, 1);
    exact_convolution(s);
}

/* What devices run (tensor/pack.c): made behind differentiation. */
static void packed(samples *s, const char *what, dg_shape x, dg_shape k, int stride, dg_act act,
                   bool bias, bool residual)
{
    const int64_t pad = k.d[1] / 2, h = (x.d[1] + 2 * pad - k.d[1]) / stride + 1,
                  w = (x.d[2] + 2 * pad - k.d[2]) / stride + 1;
    const dg_shape y = DG_SHAPE(x.d[0], h, w, k.d[0]),
                   plain = DG_SHAPE(k.d[0], k.d[3], k.d[1], k.d[2]);

    ADD(s, conv_packed, what, conv_act_attr, .conv.stride = stride, .conv.pad = pad, .act = act)
        ->loss = 0;
    sample_real(s, -1, 1, x);
    sample_real(s, -1, 1, k);
    if (bias)
        sample_real(s, -1, 1, DG_SHAPE(k.d[0]));
    else
        sample_none(s);
    if (residual)
        sample_real(s, -1, 1, y);
    else
        sample_none(s);
    ADD(s, conv_packed_dx, what, conv_attr, stride, pad, x.d[1], x.d[2], 0)->loss = 0;
    sample_real(s, -1, 1, y);
    sample_real(s, -1, 1, k);
    ADD(s, conv_packed_dw, what, conv_attr, stride, pad, k.d[1], k.d[2], 0)->loss = 0;
    sample_real(s, -1, 1, x);
    sample_real(s, -1, 1, y);
    ADD(s, pack_kernel, what, no_attr, 0)->loss = 0;
    sample_real(s, -1, 1, plain);
    ADD(s, unpack_kernel, what, no_attr, 0)->loss = 0;
    sample_real(s, -1, 1, k);
    ADD(s, fold_norm, what, norm_attr, .eps = 1e-5, .fixed = 1)->loss = 0;
    sample_real(s, -1, 1, plain);
    sample_real(s, 0.5, 1.5, DG_SHAPE(k.d[0]));
    sample_real(s, -0.5, 0.5, DG_SHAPE(k.d[0]));
    sample_fixed(s, -0.5, 0.5, DG_SHAPE(k.d[0]));
    sample_fixed(s, 0.5, 1.5, DG_SHAPE(k.d[0]));
}

static void packed_convolutions(samples *s)
{
    packed(s, "no more", DG_SHAPE(2, 5, 7, 3), DG_SHAPE(4, 3, 3, 3), 1, DG_ACT_NONE, false, false);
    packed(s, "bias", DG_SHAPE(2, 5, 7, 3), DG_SHAPE(4, 3, 3, 3), 1, DG_ACT_NONE, true, false);
    packed(s, "stride 2, ReLU", DG_SHAPE(2, 6, 4, 4), DG_SHAPE(5, 3, 3, 4), 2, DG_ACT_RELU, true,
           false);
    packed(s, "stride 2, odd", DG_SHAPE(3, 7, 5, 3), DG_SHAPE(16, 3, 3, 3), 2, DG_ACT_NONE, false,
           false);
    packed(s, "1x1, SiLU", DG_SHAPE(3, 4, 3, 9), DG_SHAPE(18, 1, 1, 9), 1, DG_ACT_SILU, true,
           false);
    packed(s, "1x1, stride 2", DG_SHAPE(2, 5, 6, 8), DG_SHAPE(24, 1, 1, 8), 2, DG_ACT_NONE, true,
           false);
    packed(s, "residual, ReLU", DG_SHAPE(2, 4, 5, 6), DG_SHAPE(6, 3, 3, 6), 1, DG_ACT_RELU, true,
           true);
    packed(s, "residual alone", DG_SHAPE(2, 4, 5, 6), DG_SHAPE(6, 3, 3, 6), 1, DG_ACT_NONE, false,
           true);
    packed(s, "7x7 over a small map, residual", DG_SHAPE(1, 3, 2, 4), DG_SHAPE(8, 7, 7, 4), 1,
           DG_ACT_NONE, true, true);
    packed(s, "one pixel", DG_SHAPE(2, 1, 1, 5), DG_SHAPE(3, 3, 3, 5), 1, DG_ACT_NONE, false,
           false);
    packed(s, "33 channels to 18", DG_SHAPE(2, 4, 9, 33), DG_SHAPE(18, 3, 3, 33), 1, DG_ACT_NONE,
           true, false);
}

static void depthwise(samples *s, const char *what, dg_shape x, int64_t size, bool bias, int flip)
{
    ADD(s, depthwise_conv, what, depthwise_attr, flip, size)->loss = flip ? 0 : 1;
    sample_real(s, -1, 1, x);
    sample_real(s, -1, 1, DG_SHAPE(x.d[3], 1, size, size));
    if (bias)
        sample_real(s, -1, 1, DG_SHAPE(x.d[3]));
    else
        sample_none(s);
}

static void depthwise_convolutions(samples *s)
{
    depthwise(s, "3x3", DG_SHAPE(2, 5, 4, 7), 3, true, 0);
    depthwise(s, "turned", DG_SHAPE(1, 3, 4, 17), 3, false, 1);
    depthwise(s, "5x5 over a small map", DG_SHAPE(3, 2, 3, 19), 5, false, 0);
    depthwise(s, "many rows", DG_SHAPE(3, 21, 2, 2), 3, true, 0);
    depthwise(s, "one pixel", DG_SHAPE(2, 1, 1, 3), 1, true, 0);
}

static void product(samples *s, const char *what, dg_shape a, dg_shape b, int64_t bias,
                    bool trans_a, bool trans_b)
{
    ADD(s, matmul, what, matmul_attr, trans_a, trans_b);
    sample_real(s, -1, 1, a);
    sample_real(s, -1, 1, b);
    if (bias)
        sample_real(s, -1, 1, DG_SHAPE(bias));
    else
        sample_none(s);
}

/* bias: 0 for none; res: of rank 0 for none. */
static void product_act(samples *s, const char *what, dg_shape a, dg_shape b, int bias,
                        dg_shape res, dg_act act)
{
    ADD(s, matmul_act, what, matmul_act_attr, .of.trans_b = 1, .act = act)->loss =
        0; /* it is made behind differentiation */
    sample_real(s, -1, 1, a);
    sample_real(s, -1, 1, b);
    if (bias)
        sample_real(s, -1, 1, DG_SHAPE(bias));
    else
        sample_none(s);
    if (res.rank)
        sample_real(s, -1, 1, res);
    else
        sample_none(s);
}

static void products_and_more(samples *s)
{
    product_act(s, "ReLU", DG_SHAPE(5, 7), DG_SHAPE(9, 7), 0, DG_SCALAR, DG_ACT_RELU);
    product_act(s, "bias, ReLU", DG_SHAPE(6, 9), DG_SHAPE(11, 9), 11, DG_SCALAR, DG_ACT_RELU);
    product_act(s, "residual of another shape", DG_SHAPE(6, 9), DG_SHAPE(8, 9), 0,
                DG_SHAPE(2, 3, 8), DG_ACT_NONE);
    product_act(s, "all", DG_SHAPE(2, 3, 4), DG_SHAPE(2, 5, 4), 5, DG_SHAPE(2, 3, 5), DG_ACT_RELU);
    product_act(s, "neither", DG_SHAPE(3, 4), DG_SHAPE(5, 4), 5, DG_SCALAR, DG_ACT_NONE);
}

static void products(samples *s)
{
    product(s, "plain", DG_SHAPE(5, 7), DG_SHAPE(7, 9), 0, false, false);
    product(s, "linear", DG_SHAPE(6, 9), DG_SHAPE(11, 9), 11, false, true);
    product(s, "linear of one row", DG_SHAPE(1, 17), DG_SHAPE(8, 17), 8, false, true);
    product(s, "linear to one", DG_SHAPE(10, 6), DG_SHAPE(1, 6), 1, false, true);
    product(s, "batches", DG_SHAPE(3, 4, 5), DG_SHAPE(3, 5, 2), 0, false, false);
    product(s, "batches, right exchanged", DG_SHAPE(3, 4, 5), DG_SHAPE(3, 6, 5), 0, false, true);
    product(s, "left exchanged", DG_SHAPE(7, 5), DG_SHAPE(7, 9), 0, true, false);
    products_and_more(s);
    product(s, "one column", DG_SHAPE(6, 1), DG_SHAPE(1, 10), 0, false, false);
}

/* ---- normalisation --------------------------------------------------------------------------- */

static void batch_norm(samples *s, const char *what, dg_shape x, dg_act act, bool res)
{
    dg_shape c = DG_SHAPE(x.d[x.rank - 1]);

    ADD(s, batch_norm, what, norm_attr, .eps = 1e-5, .act = act);
    sample_real(s, -2, 3, x);
    sample_real(s, 0.5, 1.5, c);
    sample_real(s, -0.5, 0.5, c);
    if (res)
        sample_real(s, -1, 1, x);
    else
        sample_none(s);
}

static void batch_norm_fixed(samples *s, const char *what, dg_shape x, dg_act act, bool res)
{
    dg_shape c = DG_SHAPE(x.d[x.rank - 1]);

    ADD(s, batch_norm_fixed, what, norm_attr, .eps = 1e-5, .act = act, .fixed = 1);
    sample_real(s, -2, 3, x);
    sample_real(s, 0.5, 1.5, c);
    sample_real(s, -0.5, 0.5, c);
    sample_fixed(s, -0.5, 0.5, c);
    sample_fixed(s, 0.5, 1.5, c);
    if (res)
        sample_real(s, -1, 1, x);
    else
        sample_none(s);
}

/* ReLU is given y, SiLU the residual. */
static void batch_norm_sum_grad(samples *s, const char *what, dg_shape x, dg_act act, int fixed)
{
    dg_shape c = DG_SHAPE(x.d[x.rank - 1]);

    ADD(s, batch_norm_sum_grad, what, norm_attr, .eps = 1e-5, .act = act, .fixed = fixed)->loss =
        0; /* it is made behind differentiation */
    sample_real(s, -1, 1, x);
    sample_real(s, -2, 3, x);
    if (act == DG_ACT_RELU)
        sample_real(s, -1, 1, x);
    else
        sample_none(s);
    sample_real(s, 0.5, 1.5, c);
    sample_real(s, -0.5, 0.5, c);
    sample_fixed(s, 0, 1, c);
    sample_fixed(s, 0.5, 1.5, c);
    if (act == DG_ACT_SILU)
        sample_real(s, -1, 1, x);
    else
        sample_none(s);
    sample_real(s, -1, 1, x);
}

static void norms_of_sums(samples *s)
{
    batch_norm_sum_grad(s, "no activation", DG_SHAPE(2, 3, 5, 7), DG_ACT_NONE, 0);
    batch_norm_sum_grad(s, "ReLU", DG_SHAPE(3, 2, 2, 16), DG_ACT_RELU, 0);
    batch_norm_sum_grad(s, "SiLU", DG_SHAPE(3, 2, 3, 9), DG_ACT_SILU, 0);
    batch_norm_sum_grad(s, "frozen, ReLU", DG_SHAPE(2, 2, 2, 8), DG_ACT_RELU, 1);
}

/* n below 0: not given. */
static void stat_update(samples *s, const char *what, int64_t count, double n, int ok)
{
    ADD(s, stat_update, what, stat_attr, .momentum = 0.1, .count = count);
    sample_fixed(s, -1, 1, DG_SHAPE(5));
    sample_fixed(s, 0, 1, DG_SHAPE(5));
    sample_fixed(s, -1, 1, DG_SHAPE(5));
    sample_fixed(s, 0, 1, DG_SHAPE(5));
    if (n < 0)
        sample_none(s);
    else
        sample_fixed(s, n, n, DG_SCALAR);
    sample_i32_list(s, DG_SCALAR, &ok);
}

/* live below 0: all rows. */
static void sync_norm(samples *s, const char *what, dg_shape x, dg_act act, bool res, int live)
{
    int64_t c = x.d[x.rank - 1], rows = dg_shape_elements(x) / c;
    double n = (double)(live < 0 ? rows : rows / x.d[0] * live);

    ADD(s, batch_stats, what, no_attr, 0);
    sample_fixed(s, -2, 3, x);
    if (live < 0)
        sample_none(s);
    else
        sample_i32_list(s, DG_SCALAR, &live);
    ADD(s, batch_norm_sync, what, sync_attr, .norm = { .eps = 1e-5, .act = act }, .ranks = 1);
    sample_real(s, -2, 3, x);
    sample_real(s, 0.5, 1.5, DG_SHAPE(c));
    sample_real(s, -0.5, 0.5, DG_SHAPE(c));
    sample_fixed(s, -0.5, 0.5, DG_SHAPE(c));
    sample_fixed(s, 0.5, 1.5, DG_SHAPE(c));
    sample_fixed(s, n + 5, n + 5, DG_SCALAR); /* another rank has five */
    if (live < 0)
        sample_none(s);
    else
        sample_i32_list(s, DG_SCALAR, &live);
    if (res)
        sample_real(s, -1, 1, x);
    else
        sample_none(s);
}

static void sync_norms(samples *s)
{
    const double some[] = { 0.5, -1, 3, 2, 4, 0, 0, 0, 0, 0, 2.5, 1, 8, 1, 6, -1, 0, 0, 0, 1 };

    sync_norm(s, "ReLU", DG_SHAPE(3, 2, 5, 7), DG_ACT_RELU, false, -1);
    sync_norm(s, "ReLU + residual", DG_SHAPE(2, 3, 4, 16), DG_ACT_RELU, true, -1);
    sync_norm(s, "SiLU", DG_SHAPE(2, 3, 5, 6), DG_ACT_SILU, false, -1);
    sync_norm(s, "SiLU + residual", DG_SHAPE(2, 3, 2, 17), DG_ACT_SILU, true, -1);
    sync_norm(s, "no activation", DG_SHAPE(9, 4), DG_ACT_NONE, false, -1);
    sync_norm(s, "two live of three", DG_SHAPE(3, 2, 5, 7), DG_ACT_SILU, true, 2);
    sync_norm(s, "one live of three", DG_SHAPE(3, 2, 2, 16), DG_ACT_RELU, false, 1);
    sync_norm(s, "none live", DG_SHAPE(2, 3, 2, 5), DG_ACT_RELU, true, 0);
    ADD(s, join_stats, "four ranks, the second empty", no_attr, 0);
    sample_fixed(s, 0, 0, DG_SHAPE(4, 5));
    s->list.items[s->list.n - 1]->in[0].values = dg_memdup(s->arena, some, sizeof some);
    ADD(s, join_stats, "nobody has a row", no_attr, 0);
    sample_fixed(s, 0, 0, DG_SHAPE(2, 3));
}

static void norms(samples *s)
{
    static const char *const acts[] = { "no activation", "ReLU", "SiLU" };
    static const char *const with[] = { "no activation + residual", "ReLU + residual",
                                        "SiLU + residual" };

    for (dg_act act = DG_ACT_NONE; act <= DG_ACT_SILU; act++) {
        batch_norm(s, acts[act], DG_SHAPE(3, 2, 5, 7), act, false);
        batch_norm(s, with[act], DG_SHAPE(2, 3, 4, 16), act, true);
        batch_norm_fixed(s, acts[act], DG_SHAPE(2, 3, 5, 6), act, false);
        batch_norm_fixed(s, with[act], DG_SHAPE(2, 3, 2, 17), act, true);
        batch_norm_fixed(s, with[act], DG_SHAPE(2, 3, 1, 8), act, true);
    }
    batch_norm(s, "one element", DG_SHAPE(1, 1, 1, 3), DG_ACT_NONE, false);
    s->list.items[s->list.n - 1]->edges = true; /* its variance is 0 */
    batch_norm(s, "a list of tokens", DG_SHAPE(9, 4), DG_ACT_NONE, false);
    stat_update(s, "finite", 9, -1, 1);
    stat_update(s, "not finite", 9, -1, 0);
    stat_update(s, "a count of one", 1, -1, 1);
    stat_update(s, "counted", 0, 7, 1);
    stat_update(s, "counted, nothing there", 0, 0, 1);
    sync_norms(s);
    norms_of_sums(s);

    ADD(s, layer_norm, "tokens", norm_attr, .eps = 1e-5);
    sample_real(s, -2, 3, DG_SHAPE(3, 5, 8));
    sample_real(s, 0.5, 1.5, DG_SHAPE(8));
    sample_real(s, -0.5, 0.5, DG_SHAPE(8));
    ADD(s, layer_norm, "odd width", norm_attr, .eps = 1e-5);
    sample_real(s, -2, 3, DG_SHAPE(7, 33));
    sample_real(s, 0.5, 1.5, DG_SHAPE(33));
    sample_real(s, -0.5, 0.5, DG_SHAPE(33));
}

/* ---- attention ------------------------------------------------------------------------------- */

static void attention(samples *s, const char *what, int heads, int64_t n, int64_t columns,
                      int64_t width, int64_t capacity, const int *dn)
{
    ADD(s, attention, what, attention_attr, heads, capacity);
    sample_real(s, -2, 2, DG_SHAPE(2, n, width));
    sample_real(s, -2, 2, DG_SHAPE(2, columns, width));
    sample_real(s, -1, 1, DG_SHAPE(2, columns, width));
    if (dn)
        sample_i32_list(s, DG_SHAPE(4), dn);
    else
        sample_none(s);
}

static void deform(samples *s, const char *what, const deform_attr *f, int64_t width, double reach)
{
    int64_t cells = 0, points = 0;

    for (int64_t l = 0; l < f->n_levels; l++) {
        cells += f->h[l] * f->w[l];
        points += f->points[l];
    }
    sample_add(s, DG_OP(deform_attention), what, f, sizeof *f);
    sample_real(s, -1, 1, DG_SHAPE(2, cells, width));
    sample_real(s, 0.02, 0.98, DG_SHAPE(2, 5, 4));
    sample_real(s, -reach, reach, DG_SHAPE(2, 5, f->heads * points * 2));
    sample_real(s, 0, 1, DG_SHAPE(2, 5, f->heads, points));
}

void samples_of_layers(samples *s)
{
    convolutions(s);
    packed_convolutions(s);
    depthwise_convolutions(s);
    products(s);
    norms(s);

    ADD(s, softmax, "rows", no_attr, 0);
    sample_real(s, -3, 3, DG_SHAPE(2, 3, 7));
    ADD(s, softmax, "large numbers", no_attr, 0);
    sample_real(s, 80, 100, DG_SHAPE(3, 12));
    ADD(s, softmax, "one number", no_attr, 0);
    sample_real(s, -3, 3, DG_SHAPE(4, 1));

    attention(s, "no mask", 2, 5, 7, 8, 0, NULL);
    attention(s, "one odd head", 1, 9, 9, 5, 0, NULL);
    attention(s, "two groups and void rows", 2, 15, 15, 6, 10, INTS(2, 2, 8, 4));
    attention(s, "capacity full", 4, 14, 14, 16, 8, INTS(2, 2, 8, 4));
    attention(s, "no live row", 2, 11, 11, 8, 6, INTS(0, 0, 0, 0));
    attention(s, "32 channels a head", 2, 37, 37, 64, 20, INTS(3, 3, 18, 6));

    deform(s, "three levels", &(deform_attr){ 2, 0, 3, { 4, 2, 1 }, { 5, 3, 2 }, { 2, 1, 3 } }, 6,
           2);
    deform(s, "far outside", &(deform_attr){ 4, 0, 2, { 7, 3 }, { 3, 2 }, { 4, 4 } }, 64, 30);
    deform(s, "discrete", &(deform_attr){ 2, 1, 3, { 4, 2, 1 }, { 4, 2, 1 }, { 2, 2, 2 } }, 8, 3);
}
