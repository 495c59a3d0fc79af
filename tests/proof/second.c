/* second: the second look at programs built by hand: what makes a value the same on all ranks, and
 * what must be. */
#include "tests/check.h"

#include <string.h>

#include "proof/second.h"
#include "tensor/build.h"
#include "tensor/ops.h"
#include "tensor/passes.h"

/* ---- programs built by hand ------------------------------------------------------------------ */

enum { DATA = 0, STEP = 1, OTHER = 2, NODES = 3 }; /* fed: over dp; the same; over tp */

typedef struct hand {
    dg_params *params;
    dg_program *p;
    dg_build *b;
    dg_diag *d;
    dg_second_node nodes[NODES];
    dg_second_host h;
} hand;

static dg_val fed(hand *x, int node)
{
    static const char *const names[] = { "data.x", "step.x", "other.x" };
    const int32_t known = dg_program_input(x->p, names[node]);

    if (known)
        return (dg_val){ known };
    return dg_input_as(x->b, &(dg_binding){ .name = names[node], .index = node }, DG_REAL,
                       DG_SCALAR);
}

static dg_val flag_of(hand *x, dg_val v)
{
    return dg_truth(x->b, v, false);
}

static dg_val all(hand *x, dg_val v, const char *axis)
{
    return dg_all_reduce(x->b, v, DG_SUM, axis);
}

/* A collective of a constant under the flag. */
static void meet_if(hand *x, dg_val flag, const char *axis)
{
    dg_guard_begin(x->b, flag);
    (void)all(x, dg_number(x->b, 3), axis);
    dg_guard_end(x->b, 0, NULL);
}

static dg_val param(hand *x)
{
    return dg_param(x->b, "w", DG_SHAPE(1), dg_init_zero());
}

static dg_val gradient(hand *x, dg_val with)
{
    dg_val w = dg_reshape(x->b, param(x), DG_SCALAR);

    return dg_backward(x->b, dg_mul(x->b, w, with), 1);
}

static const dg_adamw_attr adamw = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };

/* What a program computes, and what is said of it; NULL: nothing. */
static void reduced(hand *x)
{
    meet_if(x, flag_of(x, all(x, fed(x, DATA), "dp")), "dp");
}
static void not_reduced(hand *x)
{
    meet_if(x, flag_of(x, fed(x, DATA)), "dp");
}
static void same_everywhere(hand *x)
{
    meet_if(x, flag_of(x, fed(x, STEP)), "dp");
}
static void of_another_axis(hand *x)
{
    meet_if(x, flag_of(x, all(x, fed(x, DATA), "tp")), "dp");
}
static void differs_over_another_axis(hand *x)
{
    meet_if(x, flag_of(x, fed(x, OTHER)), "dp");
}
static void both_axes(hand *x)
{
    meet_if(x, flag_of(x, all(x, dg_add(x->b, fed(x, DATA), fed(x, OTHER)), "dp+tp")), "dp+tp");
}
static void one_of_both_axes(hand *x)
{
    meet_if(x, flag_of(x, all(x, dg_add(x->b, fed(x, DATA), fed(x, OTHER)), "dp")), "dp+tp");
}
static void told(hand *x)
{
    meet_if(x, flag_of(x, dg_broadcast(x->b, fed(x, DATA), 1, "dp")), "dp");
}
static void gathered(hand *x)
{
    dg_val each = dg_all_gather(x->b, fed(x, DATA), "dp");

    meet_if(x, flag_of(x, dg_sum(x->b, each, DG_ALL_AXES, false)), "dp");
}
static void root_only(hand *x)
{
    meet_if(x, flag_of(x, dg_reduce_to(x->b, fed(x, DATA), DG_SUM, 0, "dp")), "dp");
}
static void root_only_of_the_same(hand *x)
{
    meet_if(x, flag_of(x, dg_reduce_to(x->b, fed(x, STEP), DG_SUM, 0, "dp")), "dp");
}
static void own_flag(hand *x)
{
    meet_if(x, dg_own_flag(x->b, 0, true), "dp");
}
static void drawn(hand *x)
{
    meet_if(x, flag_of(x, dg_sum(x->b, dg_uniform(x->b, "u", DG_SHAPE(2)), DG_ALL_AXES, false)),
            "dp");
}
/* `a or (a and b)` is `a`; b is this rank's own. */
static void absorbed(hand *x)
{
    dg_val a = flag_of(x, fed(x, STEP)), b = flag_of(x, fed(x, DATA)), both;

    dg_guard_begin(x->b, a);
    dg_guard_begin(x->b, b);
    both = dg_guard_now(x->b);
    dg_guard_end(x->b, 0, NULL);
    dg_guard_end(x->b, 0, NULL);
    meet_if(x, dg_guard_either(x->b, 2, (dg_val[]){ a, both }), "dp");
}
static void not_absorbed(hand *x)
{
    dg_val a = flag_of(x, fed(x, STEP)), b = flag_of(x, fed(x, DATA));

    meet_if(x, dg_guard_either(x->b, 2, (dg_val[]){ a, b }), "dp");
}
static void one_or_the_other(hand *x)
{
    dg_val v = fed(x, DATA);

    meet_if(x,
            dg_guard_either(x->b, 2,
                            (dg_val[]){ dg_truth(x->b, v, false), dg_truth(x->b, v, true) }),
            "dp");
}
static void zeros_of_a_guard(hand *x)
{
    dg_val y;

    dg_guard_begin(x->b, flag_of(x, fed(x, DATA)));
    y = dg_scale(x->b, fed(x, STEP), 2, 1);
    dg_guard_end(x->b, 1, &y);
    meet_if(x, flag_of(x, y), "dp");
}
static void stop(hand *x, dg_val v)
{
    (void)all(x, fed(x, DATA), "dp");
    dg_result_as(x->b, &(dg_binding){ .name = "stop/s", .kind = DG_RESULT_STOP }, flag_of(x, v));
}
static void stop_alike(hand *x)
{
    stop(x, fed(x, STEP));
}
static void stop_alone(hand *x)
{
    stop(x, fed(x, DATA));
}
static void stop_without_others(hand *x)
{
    dg_result_as(x->b, &(dg_binding){ .name = "stop/s", .kind = DG_RESULT_STOP },
                 flag_of(x, fed(x, DATA)));
}
static void updated(hand *x)
{
    dg_val g = dg_all_reduce_gradients(x->b, gradient(x, fed(x, DATA)), "dp");

    dg_ema(x->b, dg_adamw(x->b, g, DG_NONE, &adamw));
}
static void updated_alone(hand *x)
{
    (void)dg_adamw(x->b, gradient(x, fed(x, DATA)), DG_NONE, &adamw);
}
static void updated_alike(hand *x)
{
    (void)dg_adamw(x->b, gradient(x, fed(x, STEP)), DG_NONE, &adamw);
}
static void norm_of_one_rank(hand *x)
{
    dg_val g = gradient(x, fed(x, DATA)), norm = dg_gradient_norm(x->b, g);

    (void)dg_adamw(x->b, dg_all_reduce_gradients(x->b, g, "dp"), norm, &adamw);
}
static void update_under_a_flag(hand *x)
{
    dg_val g = dg_all_reduce_gradients(x->b, gradient(x, fed(x, DATA)), "dp");

    dg_guard_begin(x->b, flag_of(x, fed(x, DATA)));
    (void)dg_adamw(x->b, g, DG_NONE, &adamw);
    dg_guard_end(x->b, 0, NULL);
}
static void accumulated(hand *x)
{
    dg_val w = dg_reshape(x->b, param(x), DG_SCALAR), g;

    g = dg_backward(x->b, dg_mul(x->b, w, fed(x, DATA)), 3);
    (void)dg_adamw(x->b, dg_all_reduce_gradients(x->b, g, "dp"), DG_NONE, &adamw);
}
static void statistics(hand *x, dg_val v)
{
    v = dg_reshape(x->b, v, DG_SHAPE(1));
    dg_stat_update(x->b, dg_buffer(x->b, "m", DG_SHAPE(1), dg_init_zero()),
                   dg_buffer(x->b, "v", DG_SHAPE(1), dg_init_zero()), v, v, 8, 0.1);
    updated(x);
}
static void statistics_alike(hand *x)
{
    statistics(x, all(x, fed(x, DATA), "dp"));
}
static void statistics_alone(hand *x)
{
    statistics(x, fed(x, DATA));
}

static const struct {
    const char *name;
    void (*build)(hand *x);
    const char *said; /* NULL: nothing */
} programs[] = {
    { "a reduced value decides", reduced, NULL },
    { "this rank's value decides", not_reduced, "%1 is the input data.x, which differs over dp" },
    { "a number that all ranks have decides", same_everywhere, NULL },
    { "reduced over another axis", of_another_axis, "takes place where" },
    { "what differs over another axis decides", differs_over_another_axis, NULL },
    { "reduced over both axes", both_axes, NULL },
    { "reduced over one of both axes", one_of_both_axes, "differs over tp (2 ranks)" },
    { "the root's value decides", told, NULL },
    { "all values decide", gathered, NULL },
    { "what only the root has decides", root_only, "takes place where" },
    { "the root's sum of the same decides", root_only_of_the_same, "takes place where" },
    { "this rank's number decides", own_flag, "is a number of this rank alone" },
    { "a draw decides", drawn, "draws follow the numbers of the samples" },
    { "a flag that decides nothing", absorbed, NULL },
    { "a flag that decides something", not_absorbed, "takes place where" },
    { "one or the other", one_or_the_other, NULL },
    { "zeros of a guard", zeros_of_a_guard, "takes place where" },
    { "all ranks stop", stop_alike, NULL },
    { "a rank stops alone", stop_alone, "is executed as often as the loop runs" },
    { "a rank stops, and meets no other", stop_without_others, NULL },
    { "an update from reduced gradients", updated, NULL },
    { "an update from this rank's gradients", updated_alone, "updates what all ranks hold alike" },
    { "an update from the same gradients", updated_alike, NULL },
    { "clipped by this rank's norm", norm_of_one_rank, "updates what all ranks hold alike" },
    { "an update where this rank says so", update_under_a_flag, "updates what all ranks" },
    { "gradients of three batches", accumulated, NULL },
    { "statistics of all ranks", statistics_alike, NULL },
    { "statistics of this rank", statistics_alone, "updates what all ranks hold alike" },
};

static void begin(hand *x, dg_params *params)
{
    *x = (hand){ .params = params, .d = dg_diag_open() };
    x->nodes[DATA].fed.axes = 1;
    x->nodes[OTHER].fed.axes = 2;
    x->h = (dg_second_host){ .n_axes = 2,
                             .axis = { "dp", "tp" },
                             .ranks = { 2, 2 },
                             .live = 3,
                             .sample = { .axes = 1 },
                             .n_nodes = NODES,
                             .nodes = x->nodes };
    x->p = dg_program_open(x->params, true);
    x->b = dg_build_open(x->p, x->d);
    dg_build_axis(x->b, "dp", 2);
    dg_build_axis(x->b, "tp", 2);
    dg_build_axis(x->b, "dp+tp", 4);
    dg_build_enter(x->b, (dg_origin){ { "hand.xml", 1, 1, "train/it" }, -1, false, 0 }, "", "");
}

static void finish(hand *x)
{
    if (dg_diag_errors(x->d))
        fail_msg("%s", dg_diag_text(x->d));
    dg_build_close(&x->b);
    assert_int_equal(dg_passes(x->p, DG_F32, DG_F32, NULL, 4, x->d), 0);
}

static void end(hand *x)
{
    dg_program_close(&x->p);
    dg_diag_close(&x->d);
    dg_params_close(&x->params);
}

static void check_program(const char *name, const dg_program *p, const dg_second_host *h,
                          const char *said, dg_diag *d)
{
    int rc = dg_second_look(p, h, d);

    if ((rc < 0) != (said != NULL) || (said && !strstr(dg_diag_text(d), said)))
        fail_msg("%s: expected %s, found %s", name, said ? said : "nothing", dg_diag_text(d));
    if (said)
        assert_string_equal(dg_diag_at(d, 0)->id, "proof-disagrees");
}

static void by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        hand x;

        begin(&x, dg_params_open());
        programs[i].build(&x);
        finish(&x);
        check_program(programs[i].name, x.p, &x.h, programs[i].said, x.d);
        end(&x);
    }
}

/* Programs that are built alike are alike, and no others: each pair is looked at. */
static void alike(void **state)
{
    enum { N = sizeof programs / sizeof *programs };
    dg_params *params = dg_params_open();
    hand x[N], again;

    (void)state;
    for (int i = 0; i < N; i++) {
        begin(&x[i], params);
        programs[i].build(&x[i]);
        dg_build_close(&x[i].b);
    }
    for (int i = 0; i < N; i++) {
        begin(&again, params);
        programs[i].build(&again);
        dg_build_close(&again.b);
        for (int k = 0; k < N; k++)
            if (dg_second_alike(x[k].p, again.p) != (i == k))
                fail_msg("\"%s\" and \"%s\"", programs[k].name, programs[i].name);
        again.params = NULL;
        end(&again);
    }
    for (int i = 0; i < N; i++) {
        x[i].params = i + 1 < N ? NULL : params;
        end(&x[i]);
    }
}

/* What is not in the program: one rank runs it alone, the number of batches, kernels that are not
 * exact; and one rank, for whom nothing differs. */
static void host(void **state)
{
    hand x;

    (void)state;
    begin(&x, dg_params_open());
    reduced(&x);
    finish(&x);
    x.h.alone = 1;
    check_program("alone", x.p, &x.h, "only one rank runs this program", x.d);
    dg_diag_clear(x.d);
    x.h.alone = 0;
    x.h.rate.axes = 1;
    check_program("rate", x.p, &x.h, "is executed as often as the loop runs", x.d);
    dg_diag_clear(x.d);
    x.h.rate.axes = 2;
    check_program("rate of another axis", x.p, &x.h, NULL, x.d);
    end(&x);

    begin(&x, dg_params_open());
    dg_build_enter(x.b, (dg_origin){ { "hand.xml", 1, 1, "train/it" }, STEP, false, 0 }, "", "");
    meet_if(&x, flag_of(&x, dg_scale(x.b, fed(&x, STEP), 2, 0)), "dp");
    finish(&x);
    check_program("exact", x.p, &x.h, NULL, x.d);
    x.nodes[STEP].inexact.axes = 1;
    check_program("not exact", x.p, &x.h, "it differs by itself", x.d);
    end(&x);

    begin(&x, dg_params_open());
    not_reduced(&x);
    finish(&x);
    x.h.live = 0;
    check_program("one rank", x.p, &x.h, NULL, x.d);
    end(&x);
}

/* An op of a plugin passes on what it gets, unless a row of its class says what it gives. */
static int shape_op(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}
static int shape_none(dg_infer *s)
{
    (void)s;
    return 0;
}
static int run_op(const dg_args *a)
{
    memcpy(a->t[1].data, a->t[0].data, 4);
    return 0;
}
static const dg_kernel op_kernel = { .run = run_op };
static const dg_op own = { DG_OP_ROW,
                          .name = "own",
                          .signature = "x -> y",
                          .effect = DG_PURE,
                          .precision = DG_WIDE,
                          .shape = shape_op,
                          .ref32 = &op_kernel,
                          .ref64 = &op_kernel };
static const dg_op keeper = { DG_OP_ROW,
                             .name = "keeper",
                             .signature = "w:u x -> ",
                             .effect = DG_STATE,
                             .precision = DG_WIDE,
                             .shape = shape_none,
                             .ref32 = &op_kernel,
                             .ref64 = &op_kernel };
static const dg_op exchange = { DG_OP_ROW,
                               .name = "exchange",
                               .signature = "x -> y",
                               .effect = DG_COLLECTIVE,
                               .precision = DG_WIDE,
                               .shape = shape_op };

static void plugin_op(int from, int row, bool alike, const char *said)
{
    hand x;
    dg_val v, y;

    begin(&x, dg_params_open());
    v = fed(&x, from);
    dg_build_enter(x.b, (dg_origin){ { "hand.xml", 2, 1, "train/own" }, STEP, false, 0 }, "", "");
    dg_emit(x.b, &own, NULL, 1, &v, &y);
    meet_if(&x, flag_of(&x, y), "dp");
    finish(&x);
    x.nodes[STEP].own.axes = (uint32_t)row;
    x.nodes[STEP].alike = alike;
    check_program("a plugin's op", x.p, &x.h, said, x.d);
    end(&x);
}

static void plugins(void **state)
{
    hand x;
    dg_val v, w, y;

    (void)state;
    plugin_op(STEP, 0, false, NULL);
    plugin_op(DATA, 0, false, "takes place where");
    plugin_op(STEP, 1, false, "it differs by itself");
    plugin_op(DATA, 0, true, NULL);

    for (int from = DATA; from <= STEP; from++) {
        begin(&x, dg_params_open());
        v = fed(&x, from);
        w = param(&x);
        dg_emit(x.b, &keeper, NULL, 2, (dg_val[]){ w, v }, NULL);
        finish(&x);
        check_program("a plugin's state", x.p, &x.h,
                      from == DATA ? "updates what all ranks hold alike" : NULL, x.d);
        end(&x);
    }
    begin(&x, dg_params_open());
    v = fed(&x, DATA);
    dg_emit(x.b, &exchange, NULL, 1, &v, &y);
    dg_build_close(&x.b);
    check_program("a plugin's collective", x.p, &x.h, "effect on other ranks is unknown", x.d);
    end(&x);
}

/* The table has a row for every op that updates or exchanges anything. */
static void every_op(void **state)
{
    (void)state;
    for (int i = 0; i < DG_N_OPS; i++) {
        dg_instr in = { .op = &dg_ops[i], .n_in = 8, .n_out = 0, .origin = { .node = -1 } };
        hand x;

        if (in.op->effect == DG_PURE)
            continue;
        begin(&x, dg_params_open());
        in.v = DG_NEW_N(x.p->arena, 8, int32_t);
        in.attr = dg_alloc(x.p->arena, in.op->attr_bytes);
        DG_PUSH(x.p->arena, x.p->instrs, in);
        dg_build_close(&x.b);
        (void)!dg_second_look(x.p, &x.h, x.d);
        if (strstr(dg_diag_text(x.d), "unknown"))
            fail_msg("%s: %s", in.op->name, dg_diag_text(x.d));
        end(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand), cmocka_unit_test(alike),    cmocka_unit_test(host),
        cmocka_unit_test(plugins), cmocka_unit_test(every_op),
    };

    return cmocka_run_group_tests_name("second", tests, NULL, NULL);
}
