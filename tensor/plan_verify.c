/* plan_verify.c: proves that a plan's values do not overwrite each other, by simulation: each write
 * takes the bytes from their owners, and each read must find its value intact. Independent of how
 * the planner chose the layout. */
#include "tensor/ops.h"
#include "tensor/slab.h"
#include "tensor/plan.h"

typedef struct proof {
    const dg_plan *plan;
    const dg_program *p;
    bool *valid; /* per value: its bytes are intact */
    dg_diag *d;
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

/* Invalidates the values that overlap these bytes. */
static void overwrite(const proof *f, dg_space space, int64_t offset, int64_t bytes)
{
    for (int32_t v = 1; v < f->p->values.n; v++)
        if (f->valid[v] && f->p->values.items[v].space == space &&
            overlap(offset, bytes, f->p->values.items[v].offset, bytes_of(f, v)))
            f->valid[v] = false;
}

/* Whether the planner has given v its place: in the slab or in the report. */
static bool is_placed(const proof *f, int32_t v)
{
    dg_space space = v ? f->p->values.items[v].space : DG_IO;

    return space == DG_SLAB || space == DG_REPORT;
}

static bool share_bytes(const proof *f, int32_t x, int32_t y)
{
    const dg_value *a = &f->p->values.items[x], *b = &f->p->values.items[y];

    return is_placed(f, x) && is_placed(f, y) && a->space == b->space &&
           overlap(a->offset, bytes_of(f, x), b->offset, bytes_of(f, y));
}

/* Checks that outputs overlap no other operand but the input whose memory they take, and that the
 * workspace overlaps none. */
static int check_instr(const proof *f, int i)
{
    const dg_instr *in = &f->p->instrs.items[i];
    const dg_plan_instr *pi = &f->plan->instrs[i];
    const dg_value *values = f->p->values.items;
    dg_signature sig;
    int n = in->n_in + in->n_out;

    if (dg_signature_parse(&sig, in->op->signature) < 0)
        return broken(f, i, "no signature", 0);
    if (is_placed(f, in->guard) && !f->valid[in->guard])
        return broken(f, i, "its guard is overwritten", in->guard);
    for (int k = 0; k < n; k++) {
        int32_t v = in->v[k];

        if (!is_placed(f, v))
            continue;
        if (values[v].offset < 0 || values[v].offset % DG_ALIGN ||
            values[v].offset + bytes_of(f, v) >
                (values[v].space == DG_SLAB ? f->plan->slab_bytes : f->plan->report_bytes))
            return broken(f, i, "a value lies outside the slab, or not aligned", v);
        if (k < in->n_in && !f->valid[v])
            return broken(f, i, "a value is overwritten before its last reader", v);
        if (pi->workspace_bytes && values[v].space == DG_SLAB &&
            overlap(pi->workspace, (int64_t)pi->workspace_bytes, values[v].offset, bytes_of(f, v)))
            return broken(f, i, "the workspace lies on an operand", v);
        for (int o = 0; o < k && k >= in->n_in && !pi->alias; o++) {
            bool place = o < in->n_in && dg_signature_at(&sig, in->n_in, k)->alias == o &&
                         share_bytes(f, in->v[o], v) && values[in->v[o]].offset == values[v].offset;

            if (!place && share_bytes(f, in->v[o], v))
                return broken(f, i, "an output lies on another operand", v);
        }
    }
    return 0;
}

/* Checks that what runs at the same time writes nothing that another one of it reads or writes. */
static int check_joined(const proof *f, int i)
{
    const bool in_turn = f->plan->instrs[i].in_turn;
    int n = f->plan->instrs[i].joined;

    for (int a = i; in_turn && a < i + n; a++)
        if (f->p->instrs.items[a].guard)
            return broken(f, a, "a launch in turn has a guard", f->p->instrs.items[a].guard);
    for (int a = i; !in_turn && a < i + n; a++)
        for (int b = i; b < i + n; b++) {
            const dg_instr *x = &f->p->instrs.items[a], *y = &f->p->instrs.items[b];
            const dg_plan_instr *px = &f->plan->instrs[a], *py = &f->plan->instrs[b];

            for (int k = x->n_in; k < x->n_in + x->n_out && a != b; k++) {
                for (int o = 0; o < y->n_in + y->n_out; o++)
                    if (share_bytes(f, x->v[k], y->v[o]))
                        return broken(f, b, "another launch of the same time writes", y->v[o]);
                if (py->workspace_bytes && is_placed(f, x->v[k]) &&
                    f->p->values.items[x->v[k]].space == DG_SLAB &&
                    overlap(py->workspace, (int64_t)py->workspace_bytes,
                            f->p->values.items[x->v[k]].offset, bytes_of(f, x->v[k])))
                    return broken(f, b, "another launch writes into its workspace", x->v[k]);
            }
            if (a != b && px->workspace_bytes && py->workspace_bytes &&
                overlap(px->workspace, (int64_t)px->workspace_bytes, py->workspace,
                        (int64_t)py->workspace_bytes))
                return broken(f, b, "it has the workspace of another launch", 0);
        }
    return 0;
}

int dg_plan_verify(const dg_plan *plan, dg_diag *d)
{
    dg_arena *scratch = dg_arena_open();
    proof f = { plan, plan->program, DG_NEW_N(scratch, plan->program->values.n, bool), d };
    int rc = 0;

    for (int i = 0; i < f.p->instrs.n && rc == 0; i++) {
        const dg_instr *in = &f.p->instrs.items[i];
        const dg_plan_instr *pi = &plan->instrs[i];

        rc = check_instr(&f, i);
        rc = rc ? rc : check_joined(&f, i);
        if (pi->workspace_bytes)
            overwrite(&f, DG_SLAB, pi->workspace, (int64_t)pi->workspace_bytes);
        for (int k = in->n_in; k < in->n_in + in->n_out; k++)
            if (is_placed(&f, in->v[k]) && !pi->alias)
                overwrite(&f, f.p->values.items[in->v[k]].space, f.p->values.items[in->v[k]].offset,
                          bytes_of(&f, in->v[k]));
        for (int k = in->n_in; k < in->n_in + in->n_out; k++)
            f.valid[in->v[k]] = true;
    }
    for (int i = 0; i < f.p->results.n && rc == 0; i++) {
        int32_t v = f.p->results.items[i].value;

        if (is_placed(&f, v) && !f.valid[v])
            rc = broken(&f, f.p->values.items[v].producer, "a result is overwritten before the end",
                        v);
    }
    dg_arena_close(&scratch);
    return rc;
}
