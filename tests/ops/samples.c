/* samples.c: how samples are put together. */
#include "tests/ops/samples.h"

#include <assert.h>

#include "tests/ops/formula.h"

sample *sample_add(samples *s, const dg_op *op, const char *what, const void *attr,
                   size_t attr_bytes)
{
    sample *one = DG_NEW(s->arena, sample);

    *one = (sample){
        .op = op,
        .what = what,
        .attr = dg_memdup(s->arena, attr, attr_bytes),
        .control = { .seed = 7,
                     .step = 3,
                     .sample = 11,
                     .accumulated = 1,
                     .n_groups = 2,
                     .bias1 = 0.271,
                     .bias2 = 0.002997001,
                     .ema_decay = 0.9,
                     .lr = { 1e-3, 1e-2 } },
        .loss = op->grad ? 1 : 0,
    };
    DG_PUSH(s->arena, s->list, one);
    return one;
}

static operand *next(samples *s, operand_kind kind, dg_shape shape)
{
    sample *one = s->list.items[s->list.n - 1];

    assert(one->n_in < SAMPLE_MOST);
    one->in[one->n_in] = (operand){ .kind = kind, .shape = shape };
    return &one->in[one->n_in++];
}

static void uniform(samples *s, operand_kind kind, double lo, double hi, dg_shape shape)
{
    const sample *one = s->list.items[s->list.n - 1];
    const char *name = dg_printf(s->arena, "%s.%s.%d", one->op->name, one->what, one->n_in);
    double *values = DG_NEW_N(s->arena, dg_shape_elements(shape), double);

    for (int64_t i = 0; i < dg_shape_elements(shape); i++)
        values[i] = formula(name, i, hi - lo, lo);
    next(s, kind, shape)->values = values;
}

void sample_real(samples *s, double lo, double hi, dg_shape shape)
{
    uniform(s, OPERAND_LIVE, lo, hi, shape);
}

void sample_fixed(samples *s, double lo, double hi, dg_shape shape)
{
    uniform(s, OPERAND_FIXED, lo, hi, shape);
}

void sample_real_list(samples *s, dg_shape shape, const double *values)
{
    next(s, OPERAND_LIVE, shape)->values =
        dg_memdup(s->arena, values, (size_t)dg_shape_elements(shape) * sizeof *values);
}

void sample_i32_list(samples *s, dg_shape shape, const int *values)
{
    double *copy = DG_NEW_N(s->arena, dg_shape_elements(shape), double);

    for (int64_t i = 0; i < dg_shape_elements(shape); i++)
        copy[i] = values[i];
    next(s, OPERAND_I32, shape)->values = copy;
}

void sample_none(samples *s)
{
    next(s, OPERAND_ABSENT, (dg_shape){ .rank = -1 });
}

void samples_of_all(samples *s)
{
    samples_of_layers(s);
    samples_of_elements(s);
    samples_of_detection(s);
    samples_of_heads(s);
    samples_of_ranks(s);
}
