/* passes: fused programs give the numbers of unfused ones, recomputed gradients every bit, casts
 * stand where they must and nowhere else, dead code goes, one rank needs no collectives; a broken
 * program is seen. */
#include "tests/tensor/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/params.h"

static void fused_training_equals_unfused(void **state)
{
    rig a = rig_open(true), b = rig_open(true);

    (void)state;
    net_train(&a, net_blocks(&a, false, false));
    net_train(&b, net_blocks(&b, true, false));
    net_run(&a);
    net_run(&b);
    assert_int_equal(rig_count(&a, DG_OP(relu)) + rig_count(&a, DG_OP(silu)), 0);
    assert_int_equal(rig_count(&b, DG_OP(relu)) + rig_count(&b, DG_OP(silu)), 4);
    assert_int_equal(rig_count(&a, DG_OP(batch_norm)), 5);
    assert_true(a.plan->slab_bytes + a.plan->report_bytes <
                b.plan->slab_bytes + b.plan->report_bytes);
    assert_true(fabs(rig_result(&a, "loss") - rig_result(&b, "loss")) < 1e-6);
    net_same(&a, &b, 1e-4);
    rig_close(&a);
    rig_close(&b);
}

static void fused_evaluation_equals_unfused(void **state)
{
    rig a = rig_open(false), b = rig_open(false);

    (void)state;
    net_blocks(&a, false, false);
    net_blocks(&b, true, false);
    net_run(&a);
    net_run(&b);
    assert_int_equal(a.p->instrs.n, 6 + 5 + 2); /* convolutions, norms, the mean's sum and scale */
    assert_true(fabs(rig_result(&a, "loss") - rig_result(&b, "loss")) < 1e-6);
    rig_close(&a);
    rig_close(&b);
}

static void recomputed_gradients_keep_every_bit(void **state)
{
    rig a = rig_open(true), b = rig_open(true);
    int clones = 0;
    int32_t x0;

    (void)state;
    net_train(&a, net_blocks(&a, false, false));
    net_train(&b, net_blocks(&b, false, true));
    net_run(&a);
    net_run(&b);
    for (int i = 0; i < b.p->instrs.n; i++)
        clones += b.p->instrs.items[i].phase == DG_RECOMPUTE;
    /* of each block two convolutions, and the norm between, which the weight's gradient reads */
    assert_int_equal(clones, 6);
    x0 = dg_program_named(b.p, "x0");
    assert_true(x0 > 0 && dg_program_named(b.p, "nobody") == 0);
    assert_true(b.plan->live_peak_bytes < a.plan->live_peak_bytes);
    assert_true(b.plan->slab_bytes < a.plan->slab_bytes);
    net_same(&a, &b, 0);
    rig_close(&a);
    rig_close(&b);
}

static dg_dtype type_of(const rig *r, const dg_instr *in, int k)
{
    return r->p->values.items[in->v[k]].dtype;
}

/* A clone is stored as what it clones, whoever reads it: else bf16 gradients would lose bits. */
static void recomputed_values_are_stored_alike(void **state)
{
    rig r = rig_open(true);
    dg_val x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(6, 4)), w[2];
    int clones = 0;

    (void)state;
    w[0] = dg_param(r.b, "w", DG_SHAPE(4, 4), dg_init_uniform(1));
    w[1] = dg_param(r.b, "v", DG_SHAPE(4, 4), dg_init_uniform(1));
    rig_node(&r, 1, "again", true);
    x = dg_exp(r.b,
               dg_softmax(r.b, dg_linear(r.b, x, w[0],
                                         DG_NONE))); /* exp wants f32, softmax's gradient not */
    x = dg_linear(r.b, x, w[1], DG_NONE);
    rig_node(&r, 2, "loss", false);
    dg_backward(r.b, dg_sum(r.b, x, DG_ALL_AXES, false), 1);
    assert_int_equal(dg_passes(r.p, DG_F32, DG_BF16, NULL, 1, r.d), 0);
    for (int i = 0; i < r.p->instrs.n; i++)
        for (int k = 0; k < i && r.p->instrs.items[i].phase == DG_RECOMPUTE; k++) {
            const dg_instr *again = &r.p->instrs.items[i], *first = &r.p->instrs.items[k];

            if (first->attr != again->attr)
                continue;
            clones++;
            for (int o = 0; o < again->n_in + again->n_out; o++)
                assert_int_equal(type_of(&r, again, o), type_of(&r, first, o));
        }
    assert_true(clones > 0);
    rig_close(&r);
}

/* The averages of trained elements move inside adamw, those of buffers by themselves. */
static void averages_follow(void **state)
{
    rig r = rig_open(true);
    double before[4], after[4], e[4];
    const dg_instr *ema;

    (void)state;
    net_train(&r, net_blocks(&r, false, false));
    net_run(&r);
    assert_int_equal(rig_count(&r, DG_OP(adamw)), 1);
    ema = rig_find(&r, DG_OP(ema));
    assert_int_equal(((const ema_attr *)ema->attr)->begin, dg_params_trainable(r.params));
    for (int k = 0; k < 2; k++) {
        const char *path = k ? "net.n0.2" : "net.n0.0"; /* a running mean, a scale */

        dg_params_init(r.params, dg_params_find_path(r.params, path), 7, before);
        rig_get(&r, DG_WEIGHTS, path, after);
        rig_get(&r, DG_EMA, path, e);
        for (int i = 0; i < 4; i++) {
            assert_true(before[i] != after[i]);
            assert_true(fabs(e[i] - 0.5 * (before[i] + after[i])) < 1e-6);
        }
    }
    rig_close(&r);
}

static void a_loss_that_is_not_finite_changes_nothing(void **state)
{
    rig r = rig_open(true);
    double images[96], before[108], after[108];

    (void)state;
    net_train(&r, net_blocks(&r, false, false));
    rig_compile(&r, DG_F32);
    for (int i = 0; i < 96; i++)
        images[i] = sin(1.1 * i);
    rig_input(&r, "images", images);
    rig_set(&r, DG_WEIGHTS, "head.out", (double[]){ 1, NAN, 1, 1 });
    rig_get(&r, DG_WEIGHTS, "net.stem", before);
    rig_batch(&r);
    rig_update(&r);
    rig_get(&r, DG_WEIGHTS, "net.stem", after);
    assert_memory_equal(before, after, sizeof before);
    rig_get(&r, DG_WEIGHTS, "net.n0.2", after);
    assert_true(after[0] == 0);
    assert_int_equal(dg_exec_get(r.x, r.p->ok, after, r.d), 0);
    assert_true(after[0] == 0);
    rig_close(&r);
}

static void storage_in_mixed_precision(void **state)
{
    rig r = rig_open(true);
    int casts = 0, of_value[4096] = { 0 };

    (void)state;
    net_train(&r, net_blocks(&r, false, false));
    dg_backend_close(&r.backend);
    assert_int_equal(dg_backend_open(&r.backend, "cpu", r.d), 0);
    assert_int_equal(dg_passes(r.p, DG_F32, DG_BF16, r.backend, 1, r.d), 0);
    for (int i = 0; i < r.p->instrs.n; i++) {
        const dg_instr *in = &r.p->instrs.items[i];
        bool stem = r.p->values.items[in->v[0]].shape.rank == 4 &&
                    r.p->values.items[in->v[0]].shape.d[3] == 3;

        if (in->op == DG_OP(conv2d)) {
            assert_int_equal(type_of(&r, in, 0), stem ? DG_F32 : DG_BF16);
            assert_int_equal(type_of(&r, in, 1), DG_F32);
            assert_int_equal(type_of(&r, in, 3), stem ? DG_F32 : DG_BF16);
        } else if (in->op == DG_OP(conv2d_dw)) {
            assert_int_equal(type_of(&r, in, 1), stem ? DG_F32 : DG_BF16);
            assert_int_equal(type_of(&r, in, 2), DG_F32);
        } else if (in->op == DG_OP(batch_norm)) {
            assert_int_equal(type_of(&r, in, 0), DG_BF16);
            assert_int_equal(type_of(&r, in, 4), DG_BF16);
            assert_int_equal(type_of(&r, in, 5), DG_F32);
        } else if (in->op == DG_OP(cast)) {
            casts++;
            assert_int_equal(of_value[in->v[0]]++, 0);
        }
    }
    /* the stem's output, and its gradient for the weight; nothing else changes type but the head's
     * gradient */
    assert_in_range(casts, 2, 3);
    assert_int_equal(r.p->values.items[dg_program_result(r.p, "loss")].dtype, DG_F32);
    for (int32_t v = 1; v < r.p->values.n; v++)
        if (r.p->values.items[v].producer > -2)
            assert_true(r.p->values.items[v].dtype != DG_REAL);
    rig_close(&r);
}

/* A product that a weight's gradient or a wide reader takes is written as f32; constants and
 * parameters follow; a bf16 result is handed out as f32. */
static void storage_of_products(void **state)
{
    rig r = rig_open(true);
    dg_build *b = r.b;
    dg_val x = dg_input(b, "x", DG_REAL, DG_SHAPE(6, 4)), y, z;
    const dg_instr *in;

    (void)state;
    y = dg_linear(b, x, dg_param(b, "w", DG_SHAPE(4, 4), dg_init_uniform(1)), DG_NONE);
    dg_result(b, "y", y);
    z = dg_linear(b, dg_add(b, y, dg_param(b, "q", DG_SHAPE(6, 4), dg_init_uniform(1))),
                  dg_param(b, "v", DG_SHAPE(2, 4), dg_init_uniform(1)),
                  dg_param(b, "k", DG_SHAPE(2), dg_init_zero()));
    z = dg_sum(b, dg_sigmoid(b, z), DG_ALL_AXES, false);
    dg_backward(b, z, 1);
    assert_int_equal(dg_passes(r.p, DG_F32, DG_BF16, NULL, 1, r.d), 0);
    in = rig_find(&r, DG_OP(matmul));
    assert_int_equal(type_of(&r, in, 0), DG_BF16);
    assert_int_equal(type_of(&r, in, 1), DG_F32);
    assert_int_equal(type_of(&r, in, 3), DG_BF16);
    in = rig_find(&r, DG_OP(add));
    assert_int_equal(type_of(&r, in, 1), DG_BF16);
    in = rig_find(&r, DG_OP(sigmoid));
    assert_ptr_equal(r.p->instrs.items[r.p->values.items[in->v[0]].producer].op, DG_OP(matmul));
    assert_int_equal(r.p->values.items[dg_program_result(r.p, "y")].dtype, DG_F32);
    for (int i = 0; i < r.p->instrs.n; i++)
        for (int k = r.p->instrs.items[i].n_in;
             k < r.p->instrs.items[i].n_in + r.p->instrs.items[i].n_out; k++)
            if (r.p->values.items[r.p->instrs.items[i].v[k]].space == DG_GRADIENTS)
                assert_int_equal(type_of(&r, &r.p->instrs.items[i], k), DG_F32);
    rig_close(&r);
}

static void dead_code_goes(void **state)
{
    rig r = rig_open(false);
    dg_build *b = r.b;
    dg_val x = dg_input(b, "x", DG_REAL, DG_SHAPE(2, 3)),
           g = dg_param(b, "g", DG_SHAPE(3), dg_init_const(1));

    (void)state;
    dg_add(b, x, dg_uniform(b, "u", DG_SHAPE(2, 3)));
    dg_result(b, "y", dg_layer_norm(b, dg_uniform(b, "v", DG_SHAPE(2, 3)), g, g, 1e-5));
    assert_int_equal(r.p->instrs.n, 4);
    dg_pass_dead(r.p);
    assert_int_equal(r.p->instrs.n, 2);
    assert_int_equal(r.p->draws.n, 1);
    assert_string_equal(r.p->draws.items[0].name, "net/v");
    rig_close(&r);
}

static void one_rank_needs_no_collectives(void **state)
{
    rig r = rig_open(true);
    dg_build *b = r.b;
    dg_val w, loss, g, n;

    (void)state;
    dg_build_axis(b, "dp", 2);
    w = dg_param(b, "w", DG_SHAPE(3), dg_init_const(2));
    n = dg_all_reduce(b, dg_const_i32(b, DG_SCALAR, (int32_t[]){ 3 }), DG_SUM, "dp");
    loss = dg_mul(b, dg_sum(b, w, DG_ALL_AXES, false), dg_real(b, n));
    g = dg_all_reduce_gradients(b, dg_backward(b, loss, 1), "dp");
    dg_adamw(b, g, DG_NONE, &net_adamw);
    dg_result(b, "loss", dg_all_reduce(b, loss, DG_MEAN, "dp"));
    assert_int_equal(rig_count(&r, DG_OP(all_reduce)) + rig_count(&r, DG_OP(all_reduce_i32)),
                     4); /* two say whether all is finite */
    assert_int_equal(rig_count(&r, DG_OP(all_reduce_space)), 1);
    rig_compile(&r, DG_F32);
    assert_int_equal(rig_count(&r, DG_OP(all_reduce)) + rig_count(&r, DG_OP(all_reduce_i32)), 0);
    assert_int_equal(rig_count(&r, DG_OP(all_reduce_space)), 0);
    rig_batch(&r);
    rig_update(&r);
    assert_true(rig_result(&r, "loss") == 18);
    rig_close(&r);
}

/* What fusion swallowed cannot be asked for afterwards. */
/* The gradients are cut at parameters; each part begins behind the last instruction that touches
 * one of them, and the parts end in the order in which they began, before anybody reads them. */
static void gradients_are_reduced_in_buckets(void **state)
{
    rig r = rig_open(true);
    int begun[16], n = 0, ended = 0, last[16] = { 0 };
    bool read = false;

    (void)state;
    dg_build_axis(r.b, "dp", 2);
    dg_val loss = net_blocks(&r, false, true);
    dg_val g = dg_all_reduce_gradients(r.b, dg_backward(r.b, loss, 1), "dp");

    dg_adamw(r.b, g, DG_NONE, &net_adamw);
    dg_params_seal(r.params);
    dg_pass_precision(r.p, DG_F32, DG_F32, NULL);
    dg_pass_recompute(r.p);
    dg_pass_dead(r.p);
    dg_pass_buckets(r.p, 100);
    for (int i = 0; i < r.p->instrs.n; i++) {
        const dg_instr *in = &r.p->instrs.items[i];
        const bucket_attr *a = in->attr;

        read |= in->op == DG_OP(grad_norm);
        if (in->op == DG_OP(reduce_begin)) {
            assert_true(n < 16 && in->segment == DG_SEG_BATCH && a->end > a->begin);
            last[a->bucket] = i;
            begun[n++] = (int)a->bucket;
        } else if (in->op == DG_OP(reduce_end)) {
            assert_true(in->segment == DG_SEG_UPDATE && !read);
            assert_int_equal(a->bucket, begun[ended++]);
        }
    }
    assert_true(n > 2 && ended == n);
    assert_int_equal(rig_count(&r, DG_OP(all_reduce_space)), 0);
    assert_int_equal(dg_program_verify(r.p, r.d), 0);
    assert_int_equal(begun[0], n - 1); /* the head's is complete first */
    for (int i = 0; i < r.p->instrs.n; i++) {
        const dg_instr *in = &r.p->instrs.items[i];

        for (int k = 0; in->segment == DG_SEG_BATCH && k < in->n_in + in->n_out; k++) {
            const dg_value *x = &r.p->values.items[in->v[k]];
            int64_t at = x->param >= 0 ? dg_params_at(r.params, x->param)->offset : -1;

            for (int e = 0; x->space == DG_GRADIENTS && e < n; e++) {
                const bucket_attr *a = r.p->instrs.items[last[e]].attr;

                assert_true(at < a->begin || at >= a->end || i < last[e]);
            }
        }
    }
    rig_close(&r);
}

static void a_fused_value_is_gone(void **state)
{
    rig r = rig_open(true);
    dg_val x = dg_input(r.b, "images", DG_REAL, DG_SHAPE(1, 4, 4, 3)), y;

    (void)state;
    y = net_norm(&r, "n", net_conv(&r, "c", x, 2, 3));
    dg_backward(r.b, dg_sum(r.b, dg_relu(r.b, y), DG_ALL_AXES, false), 1);
    assert_true(dg_is_poison(dg_relu(r.b, y)));
    check_only(r.d, "value-fused");
    dg_result(r.b, "y", y);
    check_only(r.d, "value-fused");
    rig_close(&r);
}

static int bad_shape(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}

static void bad_gradient(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_sum(b, g->dout[0], DG_ALL_AXES, false);
}

static void a_gradient_of_another_shape_is_refused(void **state)
{
    rig r = rig_open(true);
    const dg_op op = {
        DG_OP_ROW, .name = "bad", .signature = "x -> y", .shape = bad_shape, .grad = bad_gradient
    };
    dg_val w = dg_param(r.b, "w", DG_SHAPE(3), dg_init_zero()), y;

    (void)state;
    dg_emit(r.b, &op, NULL, 1, &w, &y);
    assert_true(dg_is_poison(dg_backward(r.b, dg_sum(r.b, y, DG_ALL_AXES, false), 1)));
    check_only(r.d, "gradient-shape");
    rig_close(&r);
}

/* Each break of a sound program is seen. */
static void broken_programs_are_seen(void **state)
{
    (void)state;
    for (int kind = 0; kind < 9; kind++) {
        rig r = rig_open(false);
        dg_val x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(2, 3)), y = dg_relu(r.b, dg_exp(r.b, x));
        dg_instr *in = r.p->instrs.items;

        dg_result(r.b, "y", y);
        assert_int_equal(dg_program_verify(r.p, r.d), 0);
        if (kind == 0)
            in[0].v[0] = 99;
        else if (kind == 1)
            in[0].v[0] = 0;
        else if (kind == 2)
            in[0].v[0] = (int32_t)y.id;
        else if (kind == 3)
            in[1].v[1] = in[0].v[1];
        else if (kind == 4)
            r.p->values.items[in[0].v[1]].dtype = DG_I32;
        else if (kind == 5)
            r.p->values.items[in[0].v[1]].shape = DG_SHAPE(3);
        else if (kind == 6)
            in[0].segment = DG_SEG_UPDATE;
        else if (kind == 7)
            r.p->values.items[y.id].producer = -2, r.p->instrs.n = 1;
        else
            in[0].n_in = 2;
        assert_int_equal(dg_program_verify(r.p, r.d), -DG_EINTERNAL);
        check_only(r.d, "program-invalid");
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_training_equals_unfused),
        cmocka_unit_test(fused_evaluation_equals_unfused),
        cmocka_unit_test(recomputed_gradients_keep_every_bit),
        cmocka_unit_test(recomputed_values_are_stored_alike),
        cmocka_unit_test(averages_follow),
        cmocka_unit_test(a_loss_that_is_not_finite_changes_nothing),
        cmocka_unit_test(storage_in_mixed_precision),
        cmocka_unit_test(storage_of_products),
        cmocka_unit_test(dead_code_goes),
        cmocka_unit_test(one_rank_needs_no_collectives),
        cmocka_unit_test(gradients_are_reduced_in_buckets),
        cmocka_unit_test(a_fused_value_is_gone),
        cmocka_unit_test(a_gradient_of_another_shape_is_refused),
        cmocka_unit_test(broken_programs_are_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
