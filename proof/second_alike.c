/* second_alike.c: are two programs the same but for the image size? Passes and the second look
 * decide by what is compared here: of shapes, by whether two operands have the same and whether a
 * value is one number. */
#include "proof/second.h"

#include <string.h>

static bool is_one_number(const dg_value *x)
{
    for (int i = 0; i < x->shape.rank; i++)
        if (x->shape.d[i] != 1)
            return false;
    return true;
}

static bool same_value(const dg_value *x, const dg_value *y)
{
    return x->dtype == y->dtype && x->space == y->space && x->producer == y->producer &&
           x->param == y->param && x->own == y->own && x->own_axis == y->own_axis &&
           x->shape.rank == y->shape.rank && is_one_number(x) == is_one_number(y);
}

static const dg_value *operand(const dg_program *p, const dg_instr *in, int k)
{
    return &p->values.items[in->v[k]];
}

static bool are_equal(const dg_program *p, const dg_instr *in)
{
    return in->n_in == 2 && dg_shape_equal(operand(p, in, 0)->shape, operand(p, in, 1)->shape);
}

/* What a flag is made by, and what ranks exchange, its number of elements too. */
static bool same_deed(const dg_program *p, const dg_instr *x, const dg_program *q,
                      const dg_instr *y)
{
    if (memcmp(x->attr, y->attr, x->op->attr_bytes) != 0)
        return false;
    for (int k = 0; k < x->n_in + x->n_out; k++)
        if (dg_shape_elements(operand(p, x, k)->shape) !=
            dg_shape_elements(operand(q, y, k)->shape))
            return false;
    return true;
}

static bool makes_flag(const dg_program *p, const dg_instr *in)
{
    const dg_value *y = in->n_out == 1 ? operand(p, in, in->n_in) : NULL;

    return y && y->dtype == DG_I32 && is_one_number(y);
}

static bool same_instr(const dg_program *p, const dg_instr *x, const dg_program *q,
                       const dg_instr *y)
{
    return x->op == y->op && x->n_in == y->n_in && x->n_out == y->n_out &&
           x->segment == y->segment && x->phase == y->phase && x->guard == y->guard &&
           x->otherwise == y->otherwise && x->origin.node == y->origin.node &&
           x->origin.recompute == y->origin.recompute && x->origin.part == y->origin.part &&
           memcmp(x->v, y->v, (size_t)(x->n_in + x->n_out) * sizeof *x->v) == 0 &&
           are_equal(p, x) == are_equal(q, y) &&
           ((x->op->effect != DG_COLLECTIVE && !makes_flag(p, x)) || same_deed(p, x, q, y));
}

static bool same_bindings(const dg_binding *x, const dg_binding *y, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i].value != y[i].value || x[i].kind != y[i].kind || x[i].index != y[i].index)
            return false;
    return true;
}

bool dg_second_alike(const dg_program *p, const dg_program *q)
{
    if (p->params != q->params || p->training != q->training || p->accumulate != q->accumulate ||
        p->ok != q->ok || p->values.n != q->values.n || p->instrs.n != q->instrs.n ||
        p->inputs.n != q->inputs.n || p->results.n != q->results.n ||
        !same_bindings(p->inputs.items, q->inputs.items, p->inputs.n) ||
        !same_bindings(p->results.items, q->results.items, p->results.n))
        return false;
    for (int32_t v = 1; v < p->values.n; v++)
        if (!same_value(&p->values.items[v], &q->values.items[v]))
            return false;
    for (int i = 0; i < p->instrs.n; i++)
        if (!same_instr(p, &p->instrs.items[i], q, &q->instrs.items[i]))
            return false;
    return true;
}
