/* builder: a mistake is reported once, at its node, and what depends on it is silent; records,
 * constants, parameters, names. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <string.h>

#include "tensor/build_internal.h"
#include "tensor/params.h"

static dg_val input(rig *r, const char *name, dg_shape s)
{
    return dg_input(r->b, name, DG_REAL, s);
}

/* The one report since the last call has this id and stands at node 1's line; its text holds
 * `part`. */
static void reported(rig *r, const char *id, const char *part)
{
    assert_int_equal(dg_diag_n(r->d), 1);
    assert_string_equal(dg_diag_at(r->d, 0)->id, id);
    assert_int_equal(dg_diag_at(r->d, 0)->at.line, 4);
    assert_string_equal(dg_diag_at(r->d, 0)->at.node, "net/conv");
    if (!strstr(dg_diag_at(r->d, 0)->text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, dg_diag_at(r->d, 0)->text);
    assert_true(dg_build_failed(r->b));
    dg_diag_clear(r->d);
}

static rig opened(void)
{
    rig r = rig_open(true);

    rig_node(&r, 1, "net/conv", false);
    return r;
}

static void one_report_a_cause(void **state)
{
    rig r = opened();
    dg_val x = input(&r, "images", DG_SHAPE(1, 8, 8, 3)), w, y;

    (void)state;
    w = dg_param(r.b, "weight", DG_SHAPE(4, 5, 3, 3), dg_init_fan_in(45));
    y = dg_conv2d(r.b, x, w, DG_NONE, 1, 1);
    assert_true(dg_is_poison(y));
    y = dg_relu(r.b, dg_add(r.b, y, y));
    y = dg_matmul(r.b, y, w);
    y = dg_linear(r.b, dg_mean(r.b, dg_reshape(r.b, y, DG_SHAPE(-1)), 1, false), w, DG_NONE);
    assert_true(dg_is_poison(y));
    assert_true(dg_is_poison(dg_backward(r.b, y, 1)));
    assert_int_equal(dg_dim(r.b, y, 2), 1);
    assert_int_equal(dg_shape_of(r.b, y).rank, 0);
    reported(&r, "shape-mismatch",
             "conv2d: x has 3 channels, w expects 5; operands [1,8,8,3] [4,5,3,3] -");
    rig_close(&r);
}

static void mistakes_by_name(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_val x = input(&r, "x", DG_SHAPE(2, 3)),
           i = dg_const_i32(b, DG_SHAPE(2), (int32_t[]){ 1, 2 });
    dg_val rec = dg_record(b), out[DG_MAX_SIGNATURE];
    const dg_op broken = { DG_OP_ROW, .name = "broken", .signature = "x" };

    (void)state;
    dg_add(b, x, i);
    reported(&r, "type-mismatch", "operand y must be real, found i32");
    dg_add(b, x, DG_NONE);
    reported(&r, "operand-missing", "operand y is missing");
    dg_detach(b, DG_NONE);
    reported(&r, "operand-missing", "no value");
    dg_record_set(b, rec, "a", x);
    dg_record_set(b, rec, "b", x);
    dg_add(b, x, rec);
    assert_non_null(strstr(dg_diag_text(r.d), "take one of its fields: .a, .b"));
    reported(&r, "record-as-value", "a single value is expected");
    dg_record_set(b, x, "k", x);
    reported(&r, "value-as-record", "");
    dg_dim(b, x, 2);
    reported(&r, "axis-range", "axis 2 of a tensor of rank 2");
    dg_emit(b, DG_OP(add), NULL, 1, &x, out);
    reported(&r, "op-arity", "given 1 inputs");
    dg_emit(b, &broken, NULL, 1, &x, out);
    reported(&r, "op-signature", "\"x\"");
    assert_true(dg_is_poison(out[0]));
    input(&r, "x", DG_SCALAR);
    reported(&r, "input-twice", "named x");
    dg_const(b, DG_SHAPE(0), (double[]){ 1 });
    reported(&r, "constant-empty", "dimension of 0");
    dg_uniform(b, "u", DG_SHAPE(2));
    dg_uniform(b, "u", DG_SHAPE(2));
    reported(&r, "draw-twice", "named net/conv/u");
    dg_backward(b, x, 1);
    reported(&r, "loss-not-scalar", "real[2,3]");
    dg_backward(b, dg_sum(b, x, DG_ALL_AXES, false), 1);
    reported(&r, "loss-without-parameters", "");
    dg_backward(b, DG_NONE, 1);
    reported(&r, "operand-missing", "no loss");
    dg_gradient_norm(b, x);
    reported(&r, "not-gradients", "");
    dg_ema(b, x);
    reported(&r, "not-parameters", "");
    dg_build_axis(b, "dp", 2);
    dg_all_reduce(b, i, DG_MEAN, "dp");
    reported(&r, "mean-of-integers", "sum them");
    dg_broadcast(b, x, 2, "dp");
    reported(&r, "root-range", "rank 2 of axis \"dp\", which has ranks 0 to 1");
    dg_error(b, "my-own", "number %d", 7);
    reported(&r, "my-own", "number 7");
    rig_close(&r);
}

static void shapes_that_do_not_fit(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_val m = input(&r, "m", DG_SHAPE(2, 5, 4, 6)), x = input(&r, "x", DG_SHAPE(2, 3)),
           v = input(&r, "v", DG_SHAPE(3));
    dg_val i = dg_const_i32(b, DG_SHAPE(2, 3), (int32_t[6]){ 0 }), mean, var;
    dg_levels levels = { .n = 1, .h = { 5 }, .w = { 4 }, .points = { 2 } };

    (void)state;
#define REFUSED(call)                       \
    do {                                    \
        assert_true(dg_is_poison(call));    \
        reported(&r, "shape-mismatch", ""); \
    } while (0)
    REFUSED(dg_add(b, x, input(&r, "y", DG_SHAPE(2, 2))));
    REFUSED(dg_conv2d(b, m, dg_param(b, "w", DG_SHAPE(2, 6, 9, 9), dg_init_zero()), DG_NONE, 1, 1));
    REFUSED(dg_conv2d(b, m, dg_param(b, "w1", DG_SHAPE(2, 6, 1, 1), dg_init_zero()), v, 1, 0));
    REFUSED(
        dg_conv2d(b, m, dg_param(b, "w1", DG_SHAPE(2, 6, 1, 1), dg_init_zero()), DG_NONE, 0, 0));
    REFUSED(dg_matmul(b, x, x));
    REFUSED(dg_matmul(b, v, v));
    REFUSED(dg_linear(b, x, x, x));
    REFUSED(dg_batch_norm(b, m, v, v, 1e-5, &mean, &var));
    REFUSED(dg_layer_norm(b, m, v, v, 1e-5));
    REFUSED(dg_attention(b, m, m, m, 2, DG_NONE, 0));
    REFUSED(dg_reshape(b, m, DG_SHAPE(-1, 7)));
    REFUSED(dg_reshape(b, m, DG_SHAPE(-1, 0)));
    REFUSED(dg_permute(b, m, 4, (int[]){ 0, 1, 1, 2 }));
    REFUSED(dg_concat(b, 4, 2, (dg_val[]){ m, m }));
    REFUSED(dg_concat(b, 0, 2, (dg_val[]){ x, v }));
    REFUSED(dg_slice(b, x, 1, 2, 4));
    REFUSED(dg_pad(b, x, 2, 1, 0));
    REFUSED(dg_expand(b, x, DG_SHAPE(2, 6)));
    REFUSED(dg_sum(b, x, 4, false));
    REFUSED(dg_max_pool(b, x, 3, 2, 1));
    REFUSED(dg_max_pool(b, m, 9, 2, 1));
    REFUSED(dg_avg_pool(b, m, 0, 2));
    REFUSED(dg_gather(b, x, i));
    REFUSED(dg_topk(b, x, 4));
    REFUSED(dg_embedding(b, v, i, -1));
    REFUSED(dg_deform_attention(b, m, x, x, x, 2, &levels, false));
    REFUSED(dg_deform_attention(b, m, x, x, x, 2, &levels, true));
    REFUSED(dg_uniform(b, "u", DG_SCALAR));
    REFUSED(dg_zeros(b, DG_SHAPE(2, -3)));
    REFUSED(dg_detect(b, m, x, 3).labels);
    REFUSED(dg_match(b, m, i));
    REFUSED(dg_upsample(b, m, 1 << 30));
#undef REFUSED
    rig_close(&r);
}

static void parameters(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_val w = dg_param(b, "weight", DG_SHAPE(3, 2), dg_init_normal(1));
    double a[6], c[6];

    (void)state;
    assert_int_equal(dg_param(b, "weight", DG_SHAPE(3, 2), dg_init_zero()).id, w.id);
    assert_true(dg_is_poison(dg_param(b, "weight", DG_SHAPE(2, 3), dg_init_zero())));
    reported(&r, "param-shape", "net/conv.weight has shape [2,3] here and [3,2] elsewhere");
    dg_buffer(b, "weight", DG_SHAPE(3, 2), dg_init_zero());
    reported(&r, "param-kind", "is a buffer here and trainable elsewhere");
    dg_param(b, "empty", DG_SHAPE(3, 0), dg_init_zero());
    reported(&r, "param-size", "parameter net/conv.empty is [3,0]");
    dg_param(b, "vast", DG_SHAPE(1 << 30, 1 << 30, 1 << 30), dg_init_zero());
    reported(&r, "param-size", "2^40 elements are the limit");
    dg_param(b, "copy", DG_SHAPE(3, 2), dg_init_like(b, "nobody"));
    reported(&r, "param-like", "is not declared before it");
    dg_param(b, "data", DG_SHAPE(3), dg_init_data(b, (double[]){ 1, 2 }, 2));
    reported(&r, "param-values", "3 elements and 2 initial values");
    dg_build_enter(b, (dg_origin){ { "net.xml", 4, 5, "net/conv" }, 1, false, 0 }, "other",
                   "net/conv");
    dg_param(b, "weight", DG_SHAPE(3, 2), dg_init_zero());
    reported(&r, "param-name", "have one name in files");
    rig_node(&r, 1, "net/conv", false);

    dg_param(b, "copy", DG_SHAPE(3, 2), dg_init_like(b, "weight"));
    dg_param_frozen(b, "frozen", DG_SHAPE(17), dg_init_const(0.5));
    dg_param(b, "table", DG_SHAPE(3, 2), dg_init_zero_row(dg_init_uniform(2), 1));
    dg_buffer(b, "mean", DG_SHAPE(2), dg_init_data(b, (double[]){ 4, 5 }, 2));
    dg_export_counter(b, "count");
    dg_export_const(b, "anchors", DG_F32, DG_SHAPE(2), (double[]){ 8, 9 });
    dg_params_seal(r.params);
    dg_param(b, "late", DG_SHAPE(1), dg_init_zero());
    reported(&r, "param-sealed", "");
    assert_int_equal(dg_params_n(r.params), 7);
    assert_int_equal(dg_params_at(r.params, dg_params_find(r.params, "net/conv.table"))->offset,
                     32);
    assert_int_equal(dg_params_at(r.params, dg_params_find(r.params, "net/conv.frozen"))->offset,
                     48);
    assert_int_equal(dg_params_at(r.params, dg_params_find(r.params, "net/conv.mean"))->offset, 80);
    assert_int_equal(dg_params_trainable(r.params), 48);
    assert_int_equal(dg_params_elements(r.params), 96);

    dg_params_init(r.params, dg_params_find(r.params, "net/conv.weight"), 7, a);
    dg_params_init(r.params, dg_params_find(r.params, "net/conv.copy"), 7, c);
    assert_memory_equal(a, c, sizeof a);
    for (int from = 0; from < 6; from++) /* in parts: the same values */
        for (int n = 1; n <= 6 - from; n++) {
            const char *const names[] = { "net/conv.weight", "net/conv.table" };

            for (int k = 0; k < 2; k++) {
                double whole[6], part[6] = { 0 };
                int i = dg_params_find(r.params, names[k]);

                dg_params_init(r.params, i, 7, whole);
                dg_params_init_part(r.params, i, 7, from, n, part);
                assert_memory_equal(part, whole + from, (size_t)n * sizeof *part);
            }
        }
    dg_params_init(r.params, dg_params_find(r.params, "net/conv.weight"), 8, c);
    assert_true(memcmp(a, c, sizeof a) != 0);
    dg_params_init(r.params, dg_params_find(r.params, "net/conv.table"), 7, a);
    for (int i = 0; i < 6; i++)
        assert_true(i / 2 == 1 ? a[i] == 0
                               : a[i] != 0 && fabs(a[i]) < 2 && a[i] == (double)(float)a[i]);
    dg_params_init(r.params, dg_params_find(r.params, "net/conv.mean"), 7, a);
    assert_true(a[0] == 4 && a[1] == 5);
    dg_params_init(r.params, dg_params_find(r.params, "net/conv.anchors"), 7, a);
    assert_true(a[0] == 8 && a[1] == 9);
    rig_close(&r);
}

static void groups(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_group g[3] = { { "norm", NULL, 0 }, { "weight", "norm", 0.2 }, { NULL, NULL, 0.3 } };
    dg_adamw_attr attr = { 0.9, 0.999, 1e-8, 0.3, 0.1, 2, g };
    dg_val loss, grads, norm;
    const adamw_attr *a;

    (void)state;
    loss = dg_param(b, "a.weight", DG_SCALAR, dg_init_zero());
    loss = dg_mul(b, loss, dg_param(b, "norm.weight", DG_SCALAR, dg_init_zero()));
    loss = dg_mul(b, loss, dg_param(b, "a.bias", DG_SCALAR, dg_init_zero()));
    loss = dg_mul(b, loss, dg_param(b, "b.bias", DG_SCALAR, dg_init_zero()));
    dg_ema(b, dg_whole_space(b, DG_WEIGHTS));
    reported(&r, "ema-without-update", "");
    grads = dg_backward(b, loss, 0);
    dg_backward(b, loss, 0);
    reported(&r, "backward-twice", "");
    norm = dg_gradient_norm(b, grads);
    g[1].unless = NULL;
    dg_adamw(b, grads, norm, &attr);
    reported(&r, "group-overlap",
             "net/conv.norm.weight is claimed by two groups, \"norm\" and \"weight\"");
    g[1].unless = "norm|a.w";
    dg_adamw(b, grads, norm, &attr);
    reported(&r, "group-empty", "\"weight\" unless \"norm|a.w\"");
    g[1].unless = "(";
    dg_adamw(b, grads, norm, &attr);
    reported(&r, "group-pattern", "\"(\" is not a regular expression");
    attr.n_groups = 99;
    dg_adamw(b, grads, norm, &attr);
    reported(&r, "group-count", "99 groups");
    attr.n_groups = 2;
    g[1].unless = "norm";
    assert_false(dg_is_poison(dg_adamw(b, grads, norm, &attr)));
    dg_adamw(b, grads, norm, &attr);
    reported(&r, "optimizer-twice", "");
    dg_ema(b, dg_whole_space(b, DG_WEIGHTS));
    dg_ema(b, dg_whole_space(b, DG_WEIGHTS));
    reported(&r, "ema-twice", "");
    a = rig_find(&r, DG_OP(adamw))->attr;
    assert_int_equal(a->n_ranges, 3);
    assert_true(a->ranges[0].begin == 0 && a->ranges[0].end == 16 && a->ranges[0].group == 1 &&
                a->ranges[0].weight_decay == 0.2);
    assert_true(a->ranges[1].begin == 16 && a->ranges[1].end == 32 && a->ranges[1].group == 0 &&
                a->ranges[1].weight_decay == 0);
    assert_true(a->ranges[2].begin == 32 && a->ranges[2].end == 64 && a->ranges[2].group == 2 &&
                a->ranges[2].weight_decay == 0.3);
    rig_close(&r);
}

static void records(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_val x = input(&r, "x", DG_SHAPE(2)), rec = dg_record(b), inner = dg_record(b);

    (void)state;
    dg_record_set(b, rec, "boxes", x);
    dg_record_set(b, inner, "a", x);
    dg_record_set(b, rec, "aux", inner);
    dg_record_set(b, rec, "boxes", dg_relu(b, x));
    assert_int_equal(dg_record_n(b, rec), 2);
    assert_string_equal(dg_record_key(b, rec, 1), "aux");
    assert_null(dg_record_key(b, rec, 2));
    assert_true(dg_record_has(b, rec, "boxes") && !dg_record_has(b, rec, "box"));
    assert_int_equal(dg_record_get(b, dg_record_get(b, rec, "aux"), "a").id, x.id);
    assert_true(dg_is_poison(dg_record_get(b, rec, "boxs")));
    assert_true(strstr(dg_diag_at(r.d, 0)->remarks[0].text, "boxes") != NULL);
    reported(&r, "record-key", "no field \"boxs\"");
    dg_result(b, "out", rec);
    assert_int_equal(dg_program_result(r.p, "out.aux.a"), x.id);
    assert_int_equal(r.p->results.n, 2);
    rig_close(&r);
}

static void nothing_is_emitted_for_nothing(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_val x = input(&r, "x", DG_SHAPE(2, 1, 3));

    (void)state;
    assert_int_equal(dg_number(b, 2).id, dg_number(b, 2).id);
    assert_true(dg_number(b, 2).id != dg_number(b, 3).id);
    assert_true(dg_number(b, 2).id != dg_const(b, DG_SHAPE(1), (double[]){ 2 }).id);
    assert_int_equal(dg_reshape(b, x, DG_SHAPE(2, 1, 3)).id, x.id);
    assert_int_equal(dg_slice(b, x, 2, 0, 3).id, x.id);
    assert_int_equal(dg_scale(b, x, 1, 0).id, x.id);
    assert_int_equal(dg_expand(b, x, DG_SHAPE(2, 1, 3)).id, x.id);
    assert_int_equal(dg_pad(b, x, 1, 0, 0).id, x.id);
    assert_int_equal(dg_concat(b, 0, 1, &x).id, x.id);
    assert_int_equal(dg_detach(b, x).id, x.id);
    assert_int_equal(dg_all_reduce(b, x, DG_SUM, "dp").id, x.id);
    assert_int_equal(r.p->instrs.n, 0);
    dg_permute(b, x, 3, (int[]){ 1, 0, 2 });
    assert_ptr_equal(r.p->instrs.items[0].op, DG_OP(reshape));
    dg_permute(b, x, 3, (int[]){ 2, 1, 0 });
    assert_ptr_equal(r.p->instrs.items[1].op, DG_OP(permute));
    dg_build_axis(b, "dp", 2);
    assert_int_equal(dg_axis_size(b, "dp"), 2);
    assert_true(dg_all_reduce(b, x, DG_SUM, "dp").id != x.id);
    assert_true(dg_training(b));
    assert_string_equal(dg_space_name(DG_EMA), "ema");
    rig_close(&r);
}

/* What ranks exchange; with one of them nothing is. */
static void collectives(void **state)
{
    rig r = opened();
    dg_build *b = r.b;
    dg_val x = input(&r, "x", DG_SHAPE(2, 3)), n = dg_const_i32(b, DG_SCALAR, (int32_t[]){ 1 });
    dg_val counts;

    (void)state;
    assert_int_equal(dg_broadcast(b, x, 0, "dp").id, x.id);
    assert_int_equal(dg_reduce_to(b, x, DG_MAX, 0, "dp").id, x.id);
    assert_int_equal(dg_all_gather(b, x, "dp").id, x.id);
    assert_int_equal(r.p->instrs.n, 0);
    assert_int_equal(dg_dim(b, dg_all_gatherv(b, x, n, "dp", &counts), 0), 2);
    assert_int_equal(dg_dim(b, counts, 0), 1);
    dg_build_axis(b, "tp", 3);
    assert_int_equal(dg_dim(b, dg_all_gather(b, x, "tp"), 0), 6);
    assert_int_equal(dg_dim(b, dg_all_gather(b, n, "tp"), 0), 3);
    assert_int_equal(dg_dim(b, dg_all_gatherv(b, x, n, "tp", &counts), 0), 6);
    assert_int_equal(dg_dim(b, counts, 0), 3);
    assert_true(
        dg_shape_equal(dg_shape_of(b, dg_reduce_to(b, x, DG_MEAN, 2, "tp")), DG_SHAPE(2, 3)));
    assert_true(dg_shape_equal(dg_shape_of(b, dg_broadcast(b, n, 2, "tp")), DG_SCALAR));
    assert_int_equal(rig_count(&r, DG_OP(all_gather)), 2);
    assert_int_equal(rig_count(&r, DG_OP(all_gather_i32)), 2);
    assert_int_equal(rig_count(&r, DG_OP(reduce_to)), 1);
    assert_int_equal(rig_count(&r, DG_OP(broadcast_i32)), 1);
    rig_close(&r);
}

static void signatures(void **state)
{
    dg_signature s;

    (void)state;
    assert_int_equal(dg_signature_parse(&s, "a:u b?:f c* -> d(=b) e:i f?:b"), 0);
    assert_true(s.n_in == 3 && s.n_out == 3 && s.variadic);
    assert_true(s.operand[0].state && s.operand[1].optional && s.operand[1].wide &&
                s.operand[2].variadic);
    assert_true(s.operand[3].alias == 1 && s.operand[4].dtype == DG_I32 &&
                s.operand[5].dtype == DG_U8);
    assert_true(dg_signature_takes(&s, 3) && dg_signature_takes(&s, 9) &&
                !dg_signature_takes(&s, 2));
    assert_ptr_equal(dg_signature_at(&s, 9, 7), &s.operand[2]);
    assert_ptr_equal(dg_signature_at(&s, 9, 10), &s.operand[4]);
    assert_int_equal(dg_signature_parse(&s, ""), -DG_EINPUT);
    assert_int_equal(dg_signature_parse(&s, "x"), -DG_EINPUT);
    assert_int_equal(dg_signature_parse(&s, "x:q -> y"), -DG_EINPUT);
    assert_int_equal(dg_signature_parse(&s, "x -> y(=z)"), -DG_EINPUT);
    assert_int_equal(dg_signature_parse(&s, "x* w -> y"), -DG_EINPUT);
    assert_int_equal(dg_signature_parse(&s, "x -> y -> z"), -DG_EINPUT);
    for (int i = 0; i < DG_N_OPS; i++)
        assert_int_equal(dg_signature_parse(&s, dg_ops[i].signature), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_report_a_cause),
        cmocka_unit_test(mistakes_by_name),
        cmocka_unit_test(shapes_that_do_not_fit),
        cmocka_unit_test(parameters),
        cmocka_unit_test(groups),
        cmocka_unit_test(records),
        cmocka_unit_test(nothing_is_emitted_for_nothing),
        cmocka_unit_test(collectives),
        cmocka_unit_test(signatures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
