/* autodiff.c: reverse-mode differentiation. Walks the forward instructions backwards; each one's
 * gradient rule appends ordinary instructions. Contributions to one value are added in the order of
 * the walk.
 *
 * The gradients of a guarded instruction run under its guard and are zeros if it is skipped.
 * Skipped contributions are not added, so that a skipped part changes no bit, not even the sign of
 * a zero.
 *
 * A parameter's gradient is complete once the walk has passed the first instruction that reads the
 * parameter. With one batch per update it is then moved into the gradient space; otherwise it is
 * accumulated there. */
#include <string.h>

#include "tensor/build_internal.h"

typedef struct walk {
    dg_build *b;
    dg_val *grad;   /* gradient so far of every forward value */
    int *first_use; /* first instruction that reads each value */
    bool *reached;
    int32_t n_values; /* number of forward values */
    int32_t guard;    /* guard of the whole backward pass */
} walk;

static dg_value *value(walk *w, int64_t v)
{
    return &w->b->p->values.items[v];
}

/* x + y under the weaker of their guards; where the other one is skipped, the sum is the one
 * present. */
static dg_val add_guarded(walk *w, dg_val x, dg_val y)
{
    dg_build *b = w->b;
    int32_t gx = dg_program_guard(b->p, (int32_t)x.id), gy = dg_program_guard(b->p, (int32_t)y.id),
            guard = b->guard;
    bool more_x = dg_guard_implies(b, gx, gy), more_y = dg_guard_implies(b, gy, gx);
    dg_val z;

    b->guard = more_y ? gy : more_x ? gx : 0;
    z = dg_add(b, x, y);
    b->guard = guard;
    if (!dg_is_poison(z) && gx != gy && (more_x || more_y))
        b->p->instrs.items[b->p->instrs.n - 1].otherwise = more_y ? 1 : 2;
    return z;
}

static bool add_to(walk *w, int32_t v, dg_val g, const dg_op *op)
{
    if (!dg_has(g))
        return true;
    if (dg_is_poison(g))
        return false;
    if (!dg_shape_equal(value(w, v)->shape, value(w, g.id)->shape)) {
        char a[64], b[64];

        dg_error(w->b, "gradient-shape",
                 "the gradient rule of %s gave shape %s for an operand of shape %s", op->name,
                 dg_shape_print(value(w, g.id)->shape, a, sizeof a),
                 dg_shape_print(value(w, v)->shape, b, sizeof b));
        return false;
    }
    w->grad[v] = dg_has(w->grad[v]) ? add_guarded(w, w->grad[v], g) : g;
    return !dg_is_poison(w->grad[v]);
}

/* The value at the end of a chain of reshapes, which owns the memory. */
static int32_t root_of(walk *w, int32_t v)
{
    const dg_program *p = w->b->p;

    while (p->values.items[v].producer >= 0 && dg_program_is_alias(p, p->values.items[v].producer))
        v = p->instrs.items[p->values.items[v].producer].v[0];
    return v;
}

/* Moves a gradient, and the reshapes it came through, to the parameter's place in the gradient
 * space. False if its memory belongs to the forward pass or to another parameter's gradient. */
static bool move_gradient(walk *w, int32_t g, int param)
{
    const dg_program *p = w->b->p;
    int32_t root = root_of(w, g);
    const dg_value *r = value(w, root);

    if (r->space != DG_SLAB || r->producer < 0 || p->instrs.items[r->producer].phase != DG_GRADIENT)
        return false;
    for (int32_t v = g;; v = p->instrs.items[p->values.items[v].producer].v[0]) {
        value(w, v)->space = DG_GRADIENTS;
        value(w, v)->param = param;
        if (v == root)
            return true;
    }
}

static void finish_parameter(walk *w, int32_t v)
{
    dg_build *b = w->b;
    int param = value(w, v)->param;
    dg_val g = w->grad[v];

    if (!dg_has(g))
        return;
    if (w->reached)
        w->reached[param] = true;
    if (b->p->accumulate == 1 && move_gradient(w, (int32_t)g.id, param))
        return;
    int32_t place = dg_program_value(b->p, (dg_value){
                                               .shape = value(w, v)->shape,
                                               .space = DG_GRADIENTS,
                                               .producer = -1,
                                               .param = param,
                                           });

    /* unguarded: even zeros must be written, because the first batch of an update overwrites the
     * old gradient */
    b->guard = 0;
    dg_emit(b, DG_OP(accumulate), NULL, 2, (dg_val[]){ { place }, g }, NULL);
}

static void name_gradient(walk *w, int32_t v)
{
    const char *name = value(w, v)->name;

    if (name && dg_has(w->grad[v]) && !value(w, w->grad[v].id)->name)
        value(w, w->grad[v].id)->name = dg_printf(w->b->arena, "grad.%s", name);
}

/* Runs the gradient rule of forward instruction i. */
static bool differentiate(walk *w, int i)
{
    dg_instr in = w->b->p->instrs.items[i];
    dg_val args[DG_MAX_OPERANDS], dout[DG_MAX_SIGNATURE], din[DG_MAX_OPERANDS];
    bool wanted[DG_MAX_OPERANDS], any = false, fed = false, ok = true;
    dg_grad_call call = {
        .n_in = in.n_in,
        .n_out = in.n_out,
        .in = args,
        .out = args + in.n_in,
        .dout = dout,
        .attr = in.attr,
        .wanted = wanted,
        .din = din,
    };

    for (int k = 0; k < in.n_in + in.n_out; k++)
        args[k] = (dg_val){ in.v[k] };
    for (int k = 0; k < in.n_in; k++) {
        din[k] = DG_NONE;
        wanted[k] = in.v[k] && value(w, in.v[k])->needs_gradient;
        any |= wanted[k];
    }
    for (int k = 0; k < in.n_out; k++) {
        int32_t v = in.v[in.n_in + k];

        dout[k] = v && value(w, v)->needs_gradient ? w->grad[v] : DG_NONE;
        fed |= dg_has(dout[k]);
        if (v)
            name_gradient(w, v);
    }
    if (!any || !fed || !in.op->grad)
        return true;
    w->b->origin = in.origin;
    w->b->guard = dg_guard_both(w->b, w->guard, in.guard);
    in.op->grad(w->b, &call);
    for (int k = 0; k < in.n_in && ok; k++)
        if (wanted[k]) /* a rule may pass on the gradient that it got */
            ok = add_to(w, in.v[k], dg_guard_copy(w->b, din[k]), in.op);
    return ok;
}

static void find_first_uses(walk *w, int n_instrs)
{
    for (int32_t v = 0; v < w->n_values; v++)
        w->first_use[v] = -1;
    for (int i = n_instrs - 1; i >= 0; i--) {
        const dg_instr *in = &w->b->p->instrs.items[i];

        for (int k = 0; k < in->n_in; k++)
            w->first_use[in->v[k]] = i;
    }
}

int dg_autodiff(dg_build *b, int32_t loss, bool *reached)
{
    int n = b->p->instrs.n;
    dg_origin origin = b->origin;
    dg_phase phase = b->phase;
    dg_arena *scratch = dg_arena_open();
    bool ok = true;
    walk w = {
        .b = b,
        .grad = DG_NEW_N(scratch, b->p->values.n, dg_val),
        .first_use = DG_NEW_N(scratch, b->p->values.n, int),
        .reached = reached,
        .n_values = b->p->values.n,
        .guard = b->guard,
    };

    find_first_uses(&w, n);
    b->phase = DG_GRADIENT;
    w.grad[loss] = dg_guard_copy(b, dg_number(b, 1));
    for (int i = n - 1; i >= 0 && ok; i--) {
        const dg_instr in = b->p->instrs.items[i];

        ok = differentiate(&w, i);
        for (int k = 0; k < in.n_in && ok; k++) {
            const dg_value *x = value(&w, in.v[k]);

            if (x->param < 0 || !x->needs_gradient || w.first_use[in.v[k]] != i)
                continue;
            w.first_use[in.v[k]] = -1; /* an instruction may read it twice; finish it once */
            b->origin = in.origin;
            name_gradient(&w, in.v[k]);
            finish_parameter(&w, in.v[k]);
        }
    }
    b->phase = phase;
    b->origin = origin;
    b->guard = w.guard;
    dg_arena_close(&scratch);
    return ok ? 0 : -DG_EINPUT;
}

int dg_uncovered(const dg_program *p, const int **params)
{
    int n = dg_params_n(p->params), missing = 0;
    bool *reached = DG_NEW_N(p->arena, n + 1, bool);
    int *list = DG_NEW_N(p->arena, n + 1, int);

    for (int32_t v = 1; v < p->values.n; v++)
        if (p->values.items[v].space == DG_GRADIENTS && p->values.items[v].param >= 0)
            reached[p->values.items[v].param] = true;
    for (int i = 0; i < n; i++)
        if (dg_params_at(p->params, i)->kind == DG_TRAINABLE && !reached[i])
            list[missing++] = i;
    *params = list;
    return missing;
}
