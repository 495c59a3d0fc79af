/* plan_print.c: a plan as text: instructions with the places of their outputs, then memory and work
 * by node. */
#include <string.h>

#include "tensor/plan.h"
#include "tensor/print.h"

static void print_place(dg_str *out, const dg_value *x)
{
    dg_str_fmt(out, "@%s+%lld", dg_space_name(x->space), (long long)x->offset);
}

static void print_instr(dg_str *out, const dg_plan *plan, int i)
{
    const dg_program *p = plan->program;
    const dg_instr *in = &p->instrs.items[i];
    const dg_plan_instr *pi = &plan->instrs[i];
    const char *comma = "";

    dg_str_fmt(out, "%5d  ", i);
    for (int k = in->n_in; k < in->n_in + in->n_out; k++) {
        dg_str_add(out, comma);
        dg_print_value(out, p, in->v[k]);
        if (in->v[k])
            print_place(out, &p->values.items[in->v[k]]);
        comma = ", ";
    }
    dg_str_fmt(out, "%s%s", in->n_out ? " = " : "", in->op->name);
    for (int k = 0; k < in->n_in; k++) {
        const dg_value *x = &p->values.items[in->v[k]];

        dg_str_fmt(out, in->v[k] ? " %%%d" : " -", (int)in->v[k]);
        if (in->v[k] && x->producer < 0)
            print_place(out, x);
    }
    dg_print_attr(out, in->op, in->attr);
    dg_print_guard(out, in);
    if (pi->workspace_bytes)
        dg_str_fmt(out, " workspace %zu@slab+%lld", pi->workspace_bytes, (long long)pi->workspace);
    dg_str_add(out, pi->alias ? " alias" : pi->staged ? " staged" : pi->is_ref ? " ref" : "");
    dg_print_origin(out, in->origin.where);
    dg_str_add(out, "\n");
}

static void print_bytes(dg_str *out, const char *what, int64_t bytes)
{
    char text[32];

    dg_str_fmt(out, "%-12s %16lld  %s\n", what, (long long)bytes,
               dg_human_bytes((double)bytes, text, sizeof text));
}

static void print_memory(dg_str *out, const dg_plan *plan)
{
    const dg_program *p = plan->program;
    int64_t each = p->values.n > 1 && p->weights
                       ? (int64_t)dg_dtype_size(p->values.items[p->weights].dtype)
                       : 0;

    for (int32_t v = 1; v < p->values.n && !each; v++)
        if (p->values.items[v].space == DG_WEIGHTS)
            each = (int64_t)dg_dtype_size(p->values.items[v].dtype);
    print_bytes(out, "slab", plan->slab_bytes);
    print_bytes(out, "live peak", plan->live_peak_bytes);
    print_bytes(out, "workspace", plan->workspace_bytes);
    print_bytes(out, "weights", dg_params_elements(p->params) * each);
    if (p->grads)
        print_bytes(out, "gradients", dg_params_trainable(p->params) * each);
    print_bytes(out, "constants", plan->constant_bytes);
    print_bytes(out, "io", plan->io_bytes);
    print_bytes(out, "report", plan->report_bytes);
    if (plan->live_peak_bytes)
        dg_str_fmt(out, "slab / live peak %.3f\n",
                   (double)plan->slab_bytes / (double)plan->live_peak_bytes);
}

typedef struct work {
    const char *node;
    int instrs;
    double flops[2], bytes; /* flops: 0 forward, 1 everything else */
} work;

static void print_row(dg_str *out, const work *w)
{
    dg_str_fmt(out, "%-32s %6d %14.3f %14.3f %12.3f\n", w->node, w->instrs, w->flops[0] * 1e-6,
               w->flops[1] * 1e-6, w->bytes * 1e-6);
}

static void print_work(dg_str *out, const dg_plan *plan)
{
    const dg_program *p = plan->program;
    dg_arena *scratch = dg_arena_open();
    DG_VEC(work) all = { 0 };
    work total = { .node = "total" };

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];
        const dg_plan_instr *pi = &plan->instrs[i];
        const char *node = in->origin.where.node ? in->origin.where.node : "-";
        int k = 0;

        while (k < all.n && strcmp(all.items[k].node, node) != 0)
            k++;
        if (k == all.n)
            DG_PUSH(scratch, all, ((work){ .node = node }));
        for (work *w = &all.items[k];; w = &total) {
            w->instrs++;
            w->flops[in->phase != DG_FORWARD] += pi->flops;
            w->bytes += pi->bytes;
            if (w == &total)
                break;
        }
    }
    dg_str_fmt(out, "%-32s %6s %14s %14s %12s\n", "node", "instrs", "fwd MFLOP", "other MFLOP",
               "MB moved");
    for (int k = 0; k < all.n; k++)
        print_row(out, &all.items[k]);
    print_row(out, &total);
    dg_arena_close(&scratch);
}

/* Prints the exchange with other ranks; nothing if the rank is alone. */
static void print_exchange(dg_str *out, const dg_plan *plan)
{
    dg_str list = { 0 };

    dg_plan_exchange(&list, plan);
    if (list.n)
        dg_str_fmt(out, "exchanged with other ranks, digest %016llx\n%s",
                   (unsigned long long)dg_plan_digest(plan), list.s);
    dg_str_free(&list);
}

void dg_plan_staged(dg_str *out, const dg_plan *plan)
{
    const dg_program *p = plan->program;

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_op *op = p->instrs.items[i].op;
        int earlier = 0, n = 0;

        if (!plan->instrs[i].staged)
            continue;
        for (int k = 0; k < p->instrs.n; k++) {
            bool same = plan->instrs[k].staged && p->instrs.items[k].op == op;

            earlier += same && k < i;
            n += same;
        }
        if (!earlier)
            dg_str_fmt(out, "%s%s (%d)", out->n ? ", " : "", op->name, n);
    }
}

static void print_staged(dg_str *out, const dg_plan *plan)
{
    dg_str ops = { 0 };

    dg_plan_staged(&ops, plan);
    if (ops.n)
        dg_str_fmt(out, "on the host, for want of kernels of the device: %s\n", ops.s);
    dg_str_free(&ops);
}

static bool begins_update(const dg_program *p, int i)
{
    const dg_instr *in = &p->instrs.items[i];

    return in->segment == DG_SEG_UPDATE && (i == 0 || in[-1].segment == DG_SEG_BATCH);
}

void dg_plan_print(dg_str *out, const dg_plan *plan, bool instructions)
{
    dg_str_fmt(out, "plan %s, %d instruction%s, %d thread%s\n",
               plan->program->training ? "train" : "eval", plan->program->instrs.n,
               dg_plural(plan->program->instrs.n, "s"), plan->threads,
               dg_plural(plan->threads, "s"));
    for (int i = 0; instructions && i < plan->program->instrs.n; i++) {
        if (plan->program->accumulate > 1 && begins_update(plan->program, i))
            dg_str_fmt(out, "once for %d batches:\n", plan->program->accumulate);
        print_instr(out, plan, i);
    }
    print_exchange(out, plan);
    print_staged(out, plan);
    print_memory(out, plan);
    print_work(out, plan);
}
