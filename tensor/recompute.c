/* recompute.c: for nodes or parts of them marked recompute, activations are not kept for the
 * gradient: clones of the instructions that made them run before the node's first gradient that
 * reads one (Chen et al. 2016). A clone runs the same kernel on the same operands, so gradients are
 * bit-identical.
 *
 * Values that are read late from outside the node's gradient are kept and not recomputed; neither
 * are random draws. */
#include <string.h>

#include "tensor/ops.h"
#include "tensor/passes.h"

typedef struct recompute {
    dg_program *p;
    int node, part;
    int first;      /* the node's first gradient instruction that reads an activation */
    bool *kept;     /* per value: alive anyway */
    bool *wanted;   /* per value: to be recomputed */
    int32_t *clone; /* per value: its clone */
} recompute;

static const dg_instr *at(const recompute *r, int i)
{
    return &r->p->instrs.items[i];
}

static bool is_own(const recompute *r, const dg_instr *in)
{
    return in->origin.node == r->node && in->origin.part == r->part;
}

/* The node's forward instruction that makes v, if it may be cloned; else -1. */
static int cloneable_maker(const recompute *r, int32_t v)
{
    int i = v ? r->p->values.items[v].producer : -1;

    if (i < 0 || at(r, i)->phase != DG_FORWARD || !is_own(r, at(r, i)) ||
        at(r, i)->op->effect != DG_PURE || at(r, i)->op == DG_OP(uniform))
        return -1;
    return i;
}

static bool own_gradient(const recompute *r, const dg_instr *in)
{
    return in->phase == DG_GRADIENT && is_own(r, in);
}

static void find_wanted(recompute *r)
{
    const dg_program *p = r->p;

    for (int i = 0; i < p->results.n; i++)
        r->kept[p->results.items[i].value] = true;
    for (int32_t v = 1; v < p->values.n; v++)
        r->kept[v] |= (p->keep_names && p->values.items[v].name) || cloneable_maker(r, v) < 0;
    for (int i = 0; i < p->instrs.n; i++)
        for (int k = 0; k < at(r, i)->n_in; k++)
            r->kept[at(r, i)->v[k]] |= at(r, i)->phase != DG_FORWARD && !own_gradient(r, at(r, i));
    r->first = -1;
    for (int i = 0; i < p->instrs.n; i++)
        for (int k = 0; k < at(r, i)->n_in; k++) {
            int32_t v = at(r, i)->v[k];

            if (r->kept[v] || !own_gradient(r, at(r, i)))
                continue;
            r->wanted[v] = true;
            r->first = r->first < 0 ? i : r->first;
        }
    for (int i = r->first; i >= 0; i--) { /* add what the wanted ones are made from */
        bool again = false;

        for (int k = 0; k < at(r, i)->n_out; k++)
            again |= r->wanted[at(r, i)->v[at(r, i)->n_in + k]];
        for (int k = 0; again && k < at(r, i)->n_in; k++)
            r->wanted[at(r, i)->v[k]] |= !r->kept[at(r, i)->v[k]];
    }
}

static dg_instr clone_of(recompute *r, const dg_instr *in)
{
    dg_instr c = *in;

    c.phase = DG_RECOMPUTE;
    c.v = dg_memdup(r->p->arena, in->v, (size_t)(in->n_in + in->n_out) * sizeof *in->v);
    for (int k = 0; k < in->n_in; k++)
        c.v[k] = r->clone[in->v[k]] ? r->clone[in->v[k]] : in->v[k];
    for (int k = in->n_in; k < in->n_in + in->n_out; k++)
        if (in->v[k]) {
            dg_value copy = r->p->values.items[in->v[k]];

            copy.name = NULL;
            c.v[k] = dg_program_value(r->p, copy);
            if (r->wanted[in->v[k]])
                r->clone[in->v[k]] = c.v[k];
        }
    return c;
}

static void insert_clones(recompute *r)
{
    dg_program *p = r->p;
    DG_VEC(dg_instr) all = { 0 };

    for (int i = 0; i < p->instrs.n; i++) {
        for (int j = 0; i == r->first && j < i; j++) {
            bool again = false;

            for (int k = 0; k < at(r, j)->n_out; k++)
                again |= r->wanted[at(r, j)->v[at(r, j)->n_in + k]];
            if (again)
                DG_PUSH(p->arena, all, clone_of(r, at(r, j)));
        }
        dg_instr in = *at(r, i);

        for (int k = 0; k < in.n_in && own_gradient(r, &in); k++)
            in.v[k] = r->clone[in.v[k]] ? r->clone[in.v[k]] : in.v[k];
        DG_PUSH(p->arena, all, in);
    }
    p->instrs.items = all.items;
    p->instrs.n = all.n;
    p->instrs.cap = all.cap;
    dg_program_renumber(p);
}

static void recompute_part(dg_program *p, int node, int part)
{
    dg_arena *scratch = dg_arena_open();
    recompute r = {
        .p = p,
        .node = node,
        .part = part,
        .kept = DG_NEW_N(scratch, p->values.n, bool),
        .wanted = DG_NEW_N(scratch, p->values.n, bool),
        .clone = DG_NEW_N(scratch, p->values.n, int32_t),
    };

    find_wanted(&r);
    if (r.first >= 0)
        insert_clones(&r);
    dg_arena_close(&scratch);
}

void dg_pass_recompute(dg_program *p)
{
    DG_VEC(dg_origin) parts = { 0 };

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];
        bool known = !in->origin.recompute || in->phase != DG_FORWARD;

        for (int k = 0; k < parts.n; k++)
            known |=
                parts.items[k].node == in->origin.node && parts.items[k].part == in->origin.part;
        if (!known)
            DG_PUSH(p->arena, parts, in->origin);
    }
    for (int k = parts.n - 1; k >= 0; k--)
        recompute_part(p, parts.items[k].node, parts.items[k].part);
}
