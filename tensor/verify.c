/* verify.c: checks every invariant that program.h states. The builder and the passes keep them; a
 * report is a bug of ours (or of a plugin's rule). */
#include "tensor/build_internal.h"
#include "tensor/passes.h"

typedef struct check {
    const dg_program *p;
    dg_diag *d;
    int at; /* index of the instruction */
    bool *made;
} check;

static int invalid(const check *c, const char *fmt, ...) DG_PRINTF(2, 3);
static int invalid(const check *c, const char *fmt, ...)
{
    const dg_instr *in = &c->p->instrs.items[c->at];
    char *text;
    va_list ap;

    va_start(ap, fmt);
    text = dg_vprintf(c->p->arena, fmt, ap);
    va_end(ap);
    return dg_fail(c->d, DG_EINTERNAL, in->origin.where, "program-invalid",
                   "instruction %d, %s: %s", c->at, in->op->name, text);
}

/* LOW ops take parameters in either type; what they give is as the signature says. */
static bool suits(const dg_operand *o, const dg_op *op, bool output, dg_dtype t)
{
    bool wide = o->wide && (output || op->precision != DG_LOW);

    return o->dtype == DG_REAL ? dg_dtype_is_real(t) && !(wide && t == DG_BF16) : t == o->dtype;
}

static int check_operand(check *c, const dg_signature *sig, int k)
{
    const dg_instr *in = &c->p->instrs.items[c->at];
    const dg_operand *o = dg_signature_at(sig, in->n_in, k);
    bool output = k >= in->n_in;
    int32_t v = in->v[k];

    if (v < 0 || v >= c->p->values.n)
        return invalid(c, "operand %.*s is value %d of %d", o->len, o->name, (int)v,
                       c->p->values.n);
    if (v == 0)
        return o->optional ? 0 : invalid(c, "operand %.*s is missing", o->len, o->name);
    const dg_value *x = &c->p->values.items[v];

    if (!output && x->producer != -1 && !c->made[v])
        return invalid(c, "operand %.*s, value %d, is read before it is made", o->len, o->name,
                       (int)v);
    if (output && (c->made[v] || x->producer != c->at))
        return invalid(c, "output %.*s, value %d, is made twice", o->len, o->name, (int)v);
    if (!suits(o, in->op, output, x->dtype))
        return invalid(c, "operand %.*s has type %s", o->len, o->name, dg_dtype_name(x->dtype));
    if (o->state && (x->space == DG_SLAB || x->space == DG_IO || x->space == DG_CONSTANTS))
        return invalid(c, "operand %.*s is updated, but lives in %s", o->len, o->name,
                       dg_space_name(x->space));
    if (output)
        c->made[v] = true;
    return 0;
}

static int check_shapes(check *c, const dg_signature *sig)
{
    const dg_instr *in = &c->p->instrs.items[c->at];
    dg_shape in_shape[DG_MAX_OPERANDS], out_shape[DG_MAX_SIGNATURE];
    dg_dtype in_type[DG_MAX_OPERANDS], out_type[DG_MAX_SIGNATURE];
    dg_infer s = {
        .n_in = in->n_in,
        .in = in_shape,
        .in_type = in_type,
        .attr = in->attr,
        .out = out_shape,
        .out_type = out_type,
    };
    int rc;

    for (int k = 0; k < in->n_in; k++) {
        in_shape[k] = in->v[k] ? c->p->values.items[in->v[k]].shape : (dg_shape){ .rank = -1 };
        in_type[k] = in->v[k] ? c->p->values.items[in->v[k]].dtype : DG_REAL;
    }
    rc = dg_infer_run(in->op, sig, &s, in->origin.where, c->d);
    for (int k = 0; k < in->n_out && rc == 0; k++) {
        int32_t v = in->v[in->n_in + k];

        if (v && !dg_shape_equal(c->p->values.items[v].shape, out_shape[k]))
            rc = invalid(c, "output %d does not have the shape that its rule gives", k);
    }
    return rc;
}

static int check_guard(check *c)
{
    const dg_instr *in = &c->p->instrs.items[c->at];
    const dg_value *g = &c->p->values.items[in->guard], *values = c->p->values.items;

    if (in->guard && ((g->producer != -1 && !c->made[in->guard]) || g->dtype != DG_I32 ||
                      dg_shape_elements(g->shape) != 1))
        return invalid(c, "its guard, value %d, is no whole number made before", (int)in->guard);
    if (in->otherwise &&
        (!in->guard || in->otherwise > in->n_in || in->n_out != 1 ||
         !dg_shape_equal(values[in->v[in->otherwise - 1]].shape, values[in->v[in->n_in]].shape) ||
         values[in->v[in->otherwise - 1]].dtype != values[in->v[in->n_in]].dtype))
        return invalid(c, "input %d cannot stand for its output", in->otherwise - 1);
    return 0;
}

int dg_program_verify(const dg_program *p, dg_diag *d)
{
    dg_arena *scratch = dg_arena_open();
    check c = { .p = p, .d = d, .made = DG_NEW_N(scratch, p->values.n, bool) };
    dg_signatures sigs = { .arena = scratch };
    int rc = 0;

    for (c.at = 0; c.at < p->instrs.n; c.at++) {
        const dg_instr *in = &p->instrs.items[c.at];
        const dg_signature *sig = dg_signatures_get(&sigs, in->op);

        if (!sig || !dg_signature_takes(sig, in->n_in) || in->n_out != sig->n_out)
            DG_TRY(invalid(&c, "%d inputs and %d outputs for \"%s\"", in->n_in, in->n_out,
                           in->op->signature));
        DG_TRY(check_guard(&c));
        for (int k = 0; k < in->n_in + in->n_out; k++)
            DG_TRY(check_operand(&c, sig, k));
        DG_TRY(check_shapes(&c, sig));
        if (c.at && in->segment < in[-1].segment)
            DG_TRY(invalid(&c, "a batch instruction after one of the update"));
    }
    for (int i = 0; i < p->results.n; i++)
        if (p->values.items[p->results.items[i].value].producer == -2)
            DG_TRY(dg_fail(d, DG_EINTERNAL, DG_NOWHERE, "program-invalid", "result %s was dropped",
                           p->results.items[i].name));
out:
    dg_arena_close(&scratch);
    return rc;
}
