/* sample_program.c: see sample_program.h. Live operands are parameters, so that autodiff wants
 * their gradients; operands updated in place are buffers, the others inputs. The loss weighs
 * every element of the outputs with a number of its own. Gradients are accumulated, so that each
 * has an instruction that says whose it is. */
#include "tests/ops/sample_program.h"

#include "tests/check.h"
#include "tests/ops/formula.h"

static dg_val declare(dg_build *b, const operand *o, bool state, const char *name)
{
    switch (o->kind) {
    case OPERAND_ABSENT:
        return DG_NONE;
    case OPERAND_I32:
        return dg_input(b, name, DG_I32, o->shape);
    case OPERAND_LIVE:
        return dg_param(b, name, o->shape, dg_init_zero());
    default:
        return state ? dg_buffer(b, name, o->shape, dg_init_zero())
                     : dg_input(b, name, DG_REAL, o->shape);
    }
}

static dg_val weighted_sum(dg_build *b, dg_arena *a, dg_val y, const char *name)
{
    dg_shape shape = dg_shape_of(b, y);
    double *weights = DG_NEW_N(a, dg_shape_elements(shape), double);

    for (int64_t i = 0; i < dg_shape_elements(shape); i++)
        weights[i] = formula(name, i, 2, -1);
    return dg_sum(b, dg_mul(b, y, dg_const(b, shape, weights)), DG_ALL_AXES, false);
}

void sample_program_open(sample_program *sp, dg_arena *a, const sample *one)
{
    dg_signature sig;
    dg_val out[DG_MAX_SIGNATURE];

    *sp = (sample_program){ .one = one, .params = dg_params_open(), .d = dg_diag_open() };
    sp->p = dg_program_open(sp->params, true);
    sp->p->accumulate = 2;
    assert_int_equal(dg_signature_parse(&sig, one->op->signature), 0);

    dg_build *b = dg_build_open(sp->p, sp->d);

    for (int i = 0; i < one->n_in; i++)
        sp->in[i] = declare(b, &one->in[i], dg_signature_at(&sig, one->n_in, i)->state,
                            dg_printf(a, "in%d", i));
    dg_emit(b, one->op, one->attr, one->n_in, sp->in, out);
    for (int i = 0; i < sig.n_out; i++)
        if (one->loss >> i & 1) {
            dg_val term = weighted_sum(b, a, out[i], dg_printf(a, "weight.%d", i));

            sp->loss = dg_has(sp->loss) ? dg_add(b, sp->loss, term) : term;
        }
    if (dg_has(sp->loss) && !dg_is_poison(sp->loss))
        (void)dg_autodiff(b, (int32_t)sp->loss.id, NULL);
    if (dg_build_failed(b))
        fail_msg("sample \"%s\" of %s does not build: %s", one->what, one->op->name,
                 dg_diag_text(sp->d));
    dg_build_close(&b);
}

void sample_program_close(sample_program *sp)
{
    dg_program_close(&sp->p);
    dg_params_close(&sp->params);
    dg_diag_close(&sp->d);
}

void sample_program_fill(const sample_program *sp, dg_interpreter *m)
{
    m->control = sp->one->control;
    for (int i = 0; i < sp->one->n_in; i++)
        if (dg_has(sp->in[i]))
            dg_interpreter_set(m, (int32_t)sp->in[i].id, sp->one->in[i].values);
}

const dg_dtype sample_types[SAMPLE_TYPES] = { DG_F64, DG_F32, DG_BF16 };
const char *const sample_type_names[SAMPLE_TYPES] = { "f64", "f32", "bf16" };

void sample_program_walk(dg_arena *a, const sample *one, sample_check *check, void *ctx)
{
    sample_program sp;

    sample_program_open(&sp, a, one);

    dg_interpreter *m = dg_interpreter_open(a, sp.p, 32);

    sample_program_fill(&sp, m);
    for (int i = 0; i < sp.p->instrs.n; i++) {
        const dg_instr *instr = &sp.p->instrs.items[i];
        dg_tensor t[DG_MAX_OPERANDS];
        int n = dg_interpreter_operands(m, instr, t);

        for (int type = 0; type < SAMPLE_TYPES; type++)
            if (sample_types[type] != DG_BF16 ||
                (instr->op->effect == DG_PURE && instr->op->precision != DG_WIDE))
                check(ctx, m, instr, type);
        assert_int_equal(dg_interpreter_kernel(instr->op->ref32, t, n, instr->attr, &m->control, 1),
                         0);
    }
    sample_program_close(&sp);
}
