/* stored_layers.c: entries about attention, normalisation, activations and the blocks made of
 * them. */
#include "tests/ops/stored.h"

#include <math.h>

static dg_val linear(model *m, dg_val x, const char *layer, int64_t n, int64_t k)
{
    return dg_linear(m->b, x,
                     model_param(m, dg_printf(m->arena, "%s.weight", layer), DG_SHAPE(n, k)),
                     model_param(m, dg_printf(m->arena, "%s.bias", layer), DG_SHAPE(n)));
}

/* ---- attention ------------------------------------------------------------------------------- */

static dg_levels levels_of(const model *m)
{
    const dg_json *sizes = model_at(m, "spatial_shapes_hw"),
                  *points = model_at(m, "points_per_level");
    dg_levels l = { .n = sizes->n };

    for (int i = 0; i < l.n; i++) {
        l.h[i] = (int64_t)sizes->items[i].items[0].number;
        l.w[i] = (int64_t)sizes->items[i].items[1].number;
        l.points[i] = (int64_t)points->items[i].number;
    }
    return l;
}

/* The file gives locations: with a reference of (0, 0, 2, 2), offset = location * points. */
static void sample_locations(model *m, bool discrete)
{
    dg_levels l = levels_of(m);
    dg_shape value, loc, weight;
    double *values = model_numbers(m, "value", false, &value),
           *where = model_numbers(m, "loc", false, &loc);
    double *weights = model_numbers(m, "weight", false, &weight);
    int64_t b = loc.d[0], n = loc.d[1], heads = loc.d[2];
    double *ref = DG_NEW_N(m->arena, b * n * 4, double);

    for (int64_t i = 0; i < b * n * 4; i++)
        ref[i] = i % 4 < 2 ? 0 : 2;
    for (int64_t i = 0; i < dg_shape_elements(loc); i++)
        where[i] *= (double)l.points[0];

    dg_val v = model_live(m, "value", DG_SHAPE(b, value.d[1], heads * value.d[3]), values);
    dg_val off = model_live(m, "loc", DG_SHAPE(b, n, heads * loc.d[3] * 2), where);
    dg_val w = model_live(m, "weight", weight, weights);
    dg_val y = dg_deform_attention(m->b, v, model_fixed(m, DG_REAL, "ref", DG_SHAPE(b, n, 4), ref),
                                   off, w, (int)heads, &l, discrete);

    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, v, model_at(m, "grad/value"), false, 1, "grad value");
    model_check_gradient(m, w, model_at(m, "grad/weight"), false, 1, "grad weight");
    if (!discrete)
        model_check_gradient(m, off, model_at(m, "grad/loc"), false, (double)l.points[0],
                             "grad loc");
}

CASE(msda_core)
{
    sample_locations(m, false);
}

CASE(msda_core_discrete)
{
    sample_locations(m, true);
}

CASE(msda_module)
{
    enum { HEADS = 4, POINTS = 6, D = 16 };
    dg_levels l = levels_of(m);
    dg_shape s;
    double *ref = model_numbers(m, "ref_cxcywh", false, &s);
    dg_val query = model_input(m, "query", false), value = model_input(m, "value", false);
    dg_val off = linear(m, query, "sampling_offsets", HEADS * POINTS * 2, D);
    dg_val weight = linear(m, query, "attention_weights", HEADS * POINTS, D);
    dg_val boxes = model_fixed(m, DG_REAL, "ref", DG_SHAPE(s.d[0], s.d[1], 4), ref), y;

    weight = dg_softmax(m->b, dg_reshape(m->b, weight, DG_SHAPE(s.d[0], s.d[1], HEADS, POINTS)));
    y = dg_deform_attention(m->b, linear(m, value, "value_proj", D, D), boxes, off, weight, HEADS,
                            &l, false);
    y = linear(m, y, "output_proj", D, D);
    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, query, model_at(m, "grad/query"), false, 1, "grad query");
    model_check_gradient(m, value, model_at(m, "grad/value"), false, 1, "grad value");
    model_check_parameters(m);
}

/* [B,N,D] -> [B,heads,N,d] */
static dg_val split_heads(model *m, dg_val x, int64_t b, int64_t n, int64_t heads, int64_t d)
{
    return dg_permute(m->b, dg_reshape(m->b, x, DG_SHAPE(b, n, heads, d)), 4,
                      (int[]){ 0, 2, 1, 3 });
}

/* With any mask: put together from products and softmax; the op's own mask is tried in dn_group. */
CASE(mha)
{
    enum { B = 2, N = 6, D = 8, HEADS = 2, d = D / HEADS };
    dg_build *b = m->b;
    dg_val x = model_input(m, "x", false), pos = model_input(m, "pos", false), y;
    dg_val w = model_param(m, "in_proj_weight", DG_SHAPE(3 * D, D)),
           bias = model_param(m, "in_proj_bias", DG_SHAPE(3 * D));
    dg_val in[3] = { dg_add(b, x, pos), dg_add(b, x, pos), x }, mask;
    int32_t seen[N * N];

    for (int i = 0; i < N * N; i++)
        seen[i] = model_at(m, "mask")->items[i / N].items[i % N].number == 0;
    mask = dg_const_i32(b, DG_SHAPE(N, N), seen);
    for (int i = 0; i < 3; i++) {
        in[i] = dg_linear(b, in[i], dg_slice(b, w, 0, i * D, (i + 1) * D),
                          dg_slice(b, bias, 0, i * D, (i + 1) * D));
        in[i] = split_heads(m, in[i], B, N, HEADS, d);
    }
    y = dg_scale(b, dg_matmul(b, in[0], dg_permute(b, in[1], 4, (int[]){ 0, 1, 3, 2 })),
                 1 / sqrt((double)d), 0);
    y = dg_matmul(b, dg_softmax(b, dg_select(b, mask, y, dg_number(b, -1e30))), in[2]);
    y = dg_reshape(b, dg_permute(b, y, 4, (int[]){ 0, 2, 1, 3 }), DG_SHAPE(B, N, D));
    y = linear(m, y, "out_proj", D, D);
    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), false, 1, "grad x");
    model_check_gradient(m, pos, model_at(m, "grad/pos"), false, 1, "grad pos");
    model_check_parameters(m);
}

/* ---- normalisation and activations ----------------------------------------------------------- */

typedef struct norm {
    dg_val scale, shift, mean, var, running_mean, running_var;
} norm;

static norm norm_of(model *m, const char *name, int64_t c)
{
    norm n = {
        .scale = model_param(m, dg_printf(m->arena, "%sweight", name), DG_SHAPE(c)),
        .shift = model_param(m, dg_printf(m->arena, "%sbias", name), DG_SHAPE(c)),
        .running_mean = model_param(m, dg_printf(m->arena, "%srunning_mean", name), DG_SHAPE(c)),
        .running_var = model_param(m, dg_printf(m->arena, "%srunning_var", name), DG_SHAPE(c)),
    };

    return n;
}

static dg_val norm_train(model *m, norm *n, dg_val x)
{
    dg_shape s = dg_shape_of(m->b, x);
    dg_val ok = dg_const_i32(m->b, DG_SCALAR, (int32_t[]){ 1 });
    dg_val y = dg_batch_norm(m->b, x, n->scale, n->shift, 1e-5, &n->mean, &n->var);

    dg_emit(m->b, DG_OP(stat_update), &(stat_attr){ 0.1, dg_shape_elements(s) / s.d[3] }, 6,
            (dg_val[]){ n->running_mean, n->running_var, n->mean, n->var, DG_NONE, ok }, NULL);
    return y;
}

static dg_val norm_eval(model *m, const norm *n, dg_val x)
{
    return dg_batch_norm_fixed(m->b, x, n->scale, n->shift, n->running_mean, n->running_var, 1e-5);
}

CASE(batchnorm_train)
{
    dg_val x = model_input(m, "x", true), y, eval;
    norm n = norm_of(m, "", 3);

    y = norm_train(m, &n, x);
    eval = norm_eval(m, &n, x);
    model_loss(m, y, true);
    model_run(m);
    model_check(m, y, model_at(m, "out"), true, "out");
    model_check(m, eval, model_at(m, "eval_out_with_updated_stats"), true, "eval_out");
    model_check(m, n.running_mean, model_at(m, "running_mean_after"), false, "running_mean");
    model_check(m, n.running_var, model_at(m, "running_var_after"), false, "running_var");
    model_check_gradient(m, x, model_at(m, "grad/x"), true, 1, "grad x");
    model_check_parameters(m);
}

/* Its inputs are those of batchnorm_train. */
void stored_batchnorm_frozen(void **state)
{
    fixture *f = *state;

    for (int bits = 32; bits <= 64; bits += 32) {
        model m;

        model_open(&m, f->file, "batchnorm_train", bits, f->worst);
        dg_val x = model_input(&m, "x", true), y;
        norm n = norm_of(&m, "", 3);

        y = norm_eval(&m, &n, x);
        model_loss(&m, y, true);
        m.entry = dg_json_get(f->file, m.name = "batchnorm_frozen");
        model_run(&m);
        model_check(&m, y, model_at(&m, "out"), true, "out");
        model_check_gradient(&m, x, model_at(&m, "grad/x"), true, 1, "grad x");
        model_close(&m);
    }
    f->entries++;
}

CASE(layernorm)
{
    dg_val x = model_input(m, "x", false);
    dg_val y = dg_layer_norm(m->b, x, model_param(m, "weight", DG_SHAPE(8)),
                             model_param(m, "bias", DG_SHAPE(8)), 1e-5);

    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), false, 1, "grad x");
    model_check_parameters(m);
}

static void activation(model *m, dg_val (*fn)(dg_build *b, dg_val x))
{
    dg_val x = model_input(m, "x", false), y = fn(m->b, x);

    model_scalar_loss(m, dg_sum(m->b, y, DG_ALL_AXES, false)); /* upstream 1 */
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), false, 1, "grad x");
}

CASE(gelu)
{
    activation(m, dg_gelu);
}

CASE(silu)
{
    activation(m, dg_silu);
}

CASE(inverse_sigmoid)
{
    const dg_json *list = model_at(m, "x");
    double *values = DG_NEW_N(m->arena, list->n, double);
    dg_val x, y;

    for (int i = 0; i < list->n; i++)
        values[i] = list->items[i].number;
    x = model_live(m, "x", DG_SHAPE(list->n), values);
    y = dg_inverse_sigmoid(m->b, x, 1e-5);
    model_scalar_loss(m, dg_sum(m->b, y, DG_ALL_AXES, false));
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), false, 1, "grad x");
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Convolution without bias and its norm, "<name>.conv", "<name>.norm". */
static dg_val conv_norm(model *m, dg_val x, const char *name, int64_t o, int k, int stride,
                        norm *kept)
{
    dg_val w = model_param(m, dg_printf(m->arena, "%s.conv.weight", name),
                           DG_SHAPE(o, dg_dim(m->b, x, 3), k, k));
    norm n = norm_of(m, dg_printf(m->arena, "%s.norm.", name), o);
    dg_val y = norm_train(m, &n, dg_conv2d(m->b, x, w, DG_NONE, stride, (k - 1) / 2));

    if (kept)
        *kept = n;
    return y;
}

static dg_val rep_vgg(model *m, dg_val x, const char *name, norm *three, norm *one)
{
    int64_t c = dg_dim(m->b, x, 3);
    dg_val a = conv_norm(m, x, dg_printf(m->arena, "%sconv1", name), c, 3, 1, three);

    return dg_silu(m->b,
                   dg_add(m->b, a,
                          conv_norm(m, x, dg_printf(m->arena, "%sconv2", name), c, 1, 1, one)));
}

static void check_block(model *m, dg_val x, dg_val y)
{
    model_run(m);
    model_check(m, y, model_at(m, "out"), true, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), true, 1, "grad x");
    model_check_parameters(m);
}

CASE(repvgg)
{
    dg_val x = model_input(m, "x", true), y, eval, w[2];
    norm n[2];

    y = rep_vgg(m, x, "", &n[0], &n[1]);
    model_loss(m, y, true);
    for (int i = 0; i < 2; i++) { /* the same parameter by the same path */
        w[i] = dg_param(m->b, i ? "conv2.conv.weight" : "conv1.conv.weight",
                        DG_SHAPE(4, 4, i ? 1 : 3, i ? 1 : 3), dg_init_zero());
        w[i] = norm_eval(m, &n[i], dg_conv2d(m->b, x, w[i], DG_NONE, 1, i ? 0 : 1));
    }
    eval = dg_silu(m->b, dg_add(m->b, w[0], w[1]));
    check_block(m, x, y);
    model_check(m, eval, model_at(m, "eval_out"), true, "eval_out");
    model_check(m, n[0].running_mean, model_at(m, "stats_after/conv1.norm.running_mean"), false,
                "running_mean");
    model_check(m, n[0].running_var, model_at(m, "stats_after/conv1.norm.running_var"), false,
                "running_var");
    model_check(m, n[1].running_mean, model_at(m, "stats_after/conv2.norm.running_mean"), false,
                "running_mean");
    model_check(m, n[1].running_var, model_at(m, "stats_after/conv2.norm.running_var"), false,
                "running_var");
}

CASE(csp_rep)
{
    dg_val x = model_input(m, "x", true),
           y = dg_silu(m->b, conv_norm(m, x, "conv1", 4, 1, 1, NULL));
    dg_val side = dg_silu(m->b, conv_norm(m, x, "conv2", 4, 1, 1, NULL));

    y = rep_vgg(m, y, "bottlenecks.0.", NULL, NULL);
    y = rep_vgg(m, y, "bottlenecks.1.", NULL, NULL);
    y = dg_silu(m->b, conv_norm(m, dg_add(m->b, y, side), "conv3", 8, 1, 1, NULL));
    model_loss(m, y, true);
    check_block(m, x, y);
}

CASE(basic_block_d_stride2)
{
    dg_val x = model_input(m, "x", true), y, shortcut;

    y = dg_relu(m->b, conv_norm(m, x, "branch2a", 4, 3, 2, NULL));
    y = conv_norm(m, y, "branch2b", 4, 3, 1, NULL);
    shortcut = conv_norm(m, dg_avg_pool(m->b, x, 2, 2), "short.conv", 4, 1, 1, NULL);
    y = dg_relu(m->b, dg_add(m->b, y, shortcut));
    model_loss(m, y, true);
    check_block(m, x, y);
}

CASE(maxpool_3_2_1)
{
    dg_val x = model_input(m, "x", true), y = dg_max_pool(m->b, x, 3, 2, 1);

    model_loss(m, y, true);
    model_run(m);
    model_check(m, y, model_at(m, "out"), true, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), true, 1, "grad x");
}
