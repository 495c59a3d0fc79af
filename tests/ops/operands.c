/* operands.c: see operands.h. */
#include "tests/ops/operands.h"

#include <math.h>

#include "tests/check.h"

double distance(const dg_tensor *a, const dg_tensor *b, double least)
{
    double worst = 0, most = least;

    for (int64_t i = 0; i < dg_shape_elements(a->shape); i++) {
        double x = dg_tensor_get(a, i), y = dg_tensor_get(b, i);

        if (isfinite(x) && isfinite(y)) {
            worst = fmax(worst, fabs(x - y));
            most = fmax(most, fabs(y));
        } else if (!(isnan(x) && isnan(y)) && x != y) {
            return INFINITY;
        }
    }
    return worst == 0 ? 0 : worst / most;
}

dg_operand operand_of(const dg_instr *instr, int i)
{
    dg_signature s;

    assert_int_equal(dg_signature_parse(&s, instr->op->signature), 0);
    return *dg_signature_at(&s, instr->n_in, i);
}

void copy_operands(dg_arena *a, const dg_interpreter *m, const dg_instr *instr, dg_dtype type,
                   dg_tensor *to)
{
    dg_tensor from[DG_MAX_OPERANDS];
    int n = dg_interpreter_operands(m, instr, from);

    for (int i = 0; i < n; i++) {
        int64_t size = dg_shape_elements(from[i].shape);

        to[i] = from[i];
        if (!from[i].data)
            continue;
        if (m->p->values.items[instr->v[i]].dtype == DG_REAL &&
            !(type == DG_BF16 && operand_of(instr, i).wide))
            to[i].dtype = type;
        to[i].data = dg_alloc_n(a, (size_t)size, dg_dtype_size(to[i].dtype));
        if (i >= instr->n_in)
            memset(to[i].data, 0xFF, (size_t)size * dg_dtype_size(to[i].dtype));
        for (int64_t k = 0; i < instr->n_in && k < size; k++)
            dg_tensor_set(&to[i], k, dg_tensor_get(&from[i], k));
    }
}

void share_places(const dg_instr *instr, dg_tensor *t)
{
    for (int i = instr->n_in; i < instr->n_in + instr->n_out; i++) {
        int x = operand_of(instr, i).alias;

        if (x >= 0 && t[i].data && t[x].dtype == t[i].dtype &&
            dg_shape_equal(t[x].shape, t[i].shape))
            t[i].data = t[x].data;
    }
}

void widen_inputs(const dg_instr *instr, const dg_tensor *low, dg_tensor *wide)
{
    for (int i = 0; i < instr->n_in; i++)
        for (int64_t k = 0;
             low[i].data && low[i].dtype == DG_BF16 && k < dg_shape_elements(low[i].shape); k++)
            dg_tensor_set(&wide[i], k, dg_tensor_get(&low[i], k));
}
