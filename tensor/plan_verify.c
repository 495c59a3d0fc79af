/* plan_verify.c: the proof that a plan's values do not disturb each other, by running it on paper:
 * every write takes the bytes from whoever held them, and every read must find its value still
 * there. It knows nothing of how the planner chose. */
#include "tensor/ops.h"
#include "tensor/place.h"
#include "tensor/plan.h"

typedef struct proof {
    const dg_plan    *plan;
    const dg_program *p;
    bool             *valid; /* of every value: its bytes hold it */
    dg_diag          *d;
} proof;

static bool overlap(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static int64_t bytes_of(const proof *f, int32_t v)
{
    return (int64_t)dg_plan_value_bytes(f->p, v);
}

static int broken(const proof *f, int i, const char *what, int32_t v)
{
    const dg_instr *in = &f->p->instrs.items[i];

    return dg_fail(f->d, DG_EINTERNAL, in->origin.where, "plan-invalid",
                   "instruction %d, %s: %s (value %d)", i, in->op->name, what, (int)v);
}

/* Whatever held something in these bytes holds it no longer. */
static void overwrite(const proof *f, int64_t offset, int64_t bytes)
{
    for (int32_t v = 1; v < f->p->values.n; v++)
        if (f->valid[v] && f->p->values.items[v].space == DG_SLAB &&
            overlap(offset, bytes, f->p->values.items[v].offset, bytes_of(f, v)))
            f->valid[v] = false;
}

static bool in_slab(const proof *f, int32_t v)
{
    return v && f->p->values.items[v].space == DG_SLAB;
}

/* Outputs may lie on no other operand but the input whose place they take; the workspace on
 * none. */
static int check_instr(const proof *f, int i)
{
    const dg_instr      *in = &f->p->instrs.items[i];
    const dg_plan_instr *pi = &f->plan->instrs[i];
    const dg_value      *values = f->p->values.items;
    dg_signature         sig;
    int                  n = in->n_in + in->n_out;

    if (dg_signature_parse(&sig, in->op->signature) < 0)
        return broken(f, i, "no signature", 0);
    if (in_slab(f, in->guard) && !f->valid[in->guard])
        return broken(f, i, "its guard is overwritten", in->guard);
    for (int k = 0; k < n; k++) {
        int32_t v = in->v[k];

        if (!in_slab(f, v))
            continue;
        if (values[v].offset < 0 || values[v].offset % DG_ALIGN ||
            values[v].offset + bytes_of(f, v) > f->plan->slab_bytes)
            return broken(f, i, "a value lies outside the slab, or not aligned", v);
        if (k < in->n_in && !f->valid[v])
            return broken(f, i, "a value is overwritten before its last reader", v);
        if (pi->workspace_bytes &&
            overlap(pi->workspace, (int64_t)pi->workspace_bytes, values[v].offset, bytes_of(f, v)))
            return broken(f, i, "the workspace lies on an operand", v);
        for (int o = 0; o < k && k >= in->n_in && !pi->alias; o++) {
            bool place = o < in->n_in && dg_signature_at(&sig, in->n_in, k)->alias == o &&
                         in_slab(f, in->v[o]) && values[in->v[o]].offset == values[v].offset;

            if (in_slab(f, in->v[o]) && !place &&
                overlap(values[in->v[o]].offset, bytes_of(f, in->v[o]), values[v].offset,
                        bytes_of(f, v)))
                return broken(f, i, "an output lies on another operand", v);
        }
    }
    return 0;
}

int dg_plan_verify(const dg_plan *plan, dg_diag *d)
{
    dg_arena *scratch = dg_arena_open();
    proof     f = { plan, plan->program, DG_NEW_N(scratch, plan->program->values.n, bool), d };
    int       rc = 0;

    for (int i = 0; i < f.p->instrs.n && rc == 0; i++) {
        const dg_instr      *in = &f.p->instrs.items[i];
        const dg_plan_instr *pi = &plan->instrs[i];

        rc = check_instr(&f, i);
        if (pi->workspace_bytes)
            overwrite(&f, pi->workspace, (int64_t)pi->workspace_bytes);
        for (int k = in->n_in; k < in->n_in + in->n_out; k++)
            if (in_slab(&f, in->v[k]) && !pi->alias)
                overwrite(&f, f.p->values.items[in->v[k]].offset, bytes_of(&f, in->v[k]));
        for (int k = in->n_in; k < in->n_in + in->n_out; k++)
            f.valid[in->v[k]] = true;
    }
    for (int i = 0; i < f.p->results.n && rc == 0; i++) {
        int32_t v = f.p->results.items[i].value;

        if (in_slab(&f, v) && !f.valid[v])
            rc = broken(&f, f.p->values.items[v].producer, "a result is overwritten before the end",
                        v);
    }
    dg_arena_close(&scratch);
    return rc;
}
