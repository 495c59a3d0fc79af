/* gradients: walks the op table. For every op with a gradient rule, what autodiff computes in
 * f64 agrees with central differences, (L(x + h) - L(x - h)) / 2h, for every operand that a
 * sample lets move. */
#include "tests/check.h"

#include <math.h>

#include "check/interpreter.h"
#include "tests/ops/sample_program.h"

static const double STEP = 1e-5, TOLERANCE = 1e-7;
enum { ELEMENTS = 60 }; /* of an operand that are tried */

typedef struct tally {
    int checks;
    double worst;
} tally;

typedef struct walker {
    samples all;
    tally tally[DG_N_OPS];
    int failures;
} walker;

static double loss_at(dg_interpreter *m, const sample_program *sp, int operand_, int64_t i,
                      double x)
{
    dg_tensor t = dg_interpreter_tensor(m, (int32_t)sp->in[operand_].id);

    dg_tensor_set(&t, i, x);
    assert_int_equal(dg_interpreter_run(m, true), 0);
    return dg_interpreter_get(m, (int32_t)sp->loss.id, 0);
}

static void check_operand(walker *w, dg_interpreter *m, const sample_program *sp, int k)
{
    const sample *one = sp->one;
    int32_t v = (int32_t)sp->in[k].id,
            g = dg_interpreter_gradient(sp->p, sp->p->values.items[v].param);
    int64_t n = dg_shape_elements(one->in[k].shape), stride = (n + ELEMENTS - 1) / ELEMENTS;
    double worst = 0, most = 0;
    tally *t = &w->tally[one->op - dg_ops];

    if (!g)
        fail_msg("sample \"%s\" of %s: operand %d has no gradient", one->what, one->op->name, k);
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(dg_interpreter_get(m, g, i)));
    for (int64_t i = 0; i < n; i += stride) {
        double own = dg_interpreter_get(m, g, i), x = one->in[k].values[i],
               h = STEP * fmax(1, fabs(x));
        double slope = (loss_at(m, sp, k, i, x + h) - loss_at(m, sp, k, i, x - h)) / (2 * h);

        loss_at(m, sp, k, i, x);
        most = fmax(most, fabs(slope));
        worst = fmax(worst, isfinite(own) ? fabs(own - slope) : INFINITY);
        t->checks++;
    }
    worst = worst / fmax(most, 1e-3); /* a gradient that is zero by its nature has noise alone */
    t->worst = fmax(t->worst, worst);
    if (worst > TOLERANCE) {
        print_error("# sample \"%s\" of %s: the gradient of operand %d is off by %.3g of its "
                    "largest, at most %.3g was "
                    "allowed\n",
                    one->what, one->op->name, k, worst, TOLERANCE);
        w->failures++;
    }
}

static void check_sample(walker *w, const sample *one)
{
    dg_arena *a = dg_arena_open();
    sample_program sp;

    sample_program_open(&sp, a, one);

    dg_interpreter *m = dg_interpreter_open(a, sp.p, 64);

    sample_program_fill(&sp, m);
    m->control.accumulated = 0;
    assert_int_equal(dg_interpreter_run(m, false), 0);
    for (int k = 0; k < one->n_in; k++)
        if (one->in[k].kind == OPERAND_LIVE)
            check_operand(w, m, &sp, k);
    sample_program_close(&sp);
    dg_arena_close(&a);
}

static int open_walker(void **state)
{
    dg_arena *a = dg_arena_open();
    walker *w = DG_NEW(a, walker);

    w->all.arena = a;
    *state = w;
    samples_of_all(&w->all);
    return 0;
}

static int close_walker(void **state)
{
    walker *w = *state;
    dg_arena *a = w->all.arena;

    dg_arena_close(&a);
    return 0;
}

/* cast changes storage alone: every gradient passes it in the mixed-precision tests. The rule of
 * batch_norm_sync is that of the norm with its statistics, over all ranks: tests/tensor/ranks
 * checks it, and those of the collectives. */
static bool is_exempt(const dg_op *op)
{
    return op == DG_OP(cast) || op == DG_OP(batch_norm_sync) || op->effect == DG_COLLECTIVE;
}

static void gradients_are_central_differences(void **state)
{
    walker *w = *state;

    for (int i = 0; i < w->all.list.n; i++)
        if (w->all.list.items[i]->loss && !w->all.list.items[i]->edges &&
            !is_exempt(w->all.list.items[i]->op))
            check_sample(w, w->all.list.items[i]);
    assert_int_equal(w->failures, 0);
}

static void every_gradient_rule_is_checked(void **state)
{
    const walker *w = *state;
    int rules = 0, checks = 0, worst = 0;

    for (int i = 0; i < DG_N_OPS; i++) {
        if (!dg_ops[i].grad || is_exempt(&dg_ops[i]))
            continue;
        if (!w->tally[i].checks)
            fail_msg("no sample checks the gradient rule of %s: add one that is not of edges",
                     dg_ops[i].name);
        rules++;
        checks += w->tally[i].checks;
        worst = w->tally[i].worst > w->tally[worst].worst ? i : worst;
    }
    print_message(
        "# %d gradient rules, %d derivatives; worst error %.2g of an operand's largest (%s)\n",
        rules, checks, w->tally[worst].worst, dg_ops[worst].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_central_differences),
        cmocka_unit_test(every_gradient_rule_is_checked),
    };

    return cmocka_run_group_tests_name("gradients", tests, open_walker, close_walker);
}
