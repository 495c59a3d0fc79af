/* walk.c: walks a scope once in document order: for each node its activation, the properties of its
 * outputs, and its rules' requirements. Information flow after Denning 1976, with the mesh's axes
 * as the lattice.
 *
 *  activation = presence of required inputs + guard (value, presence; all axes if it is not exact)
 *             + skips before it + `on` + scope and enclosing loops
 *  output     = presence: activation; value: union of the inputs; then the class's rules
 *
 * What depends on lowering (keys, gradients, shapes) takes a second walk, if anything may be
 * missing at all. */
#include <string.h>

#include "graph/structure.h"
#include "proof/vary.h"

static void walk_frame(dg_proof *p, dg_walked *f);

/* ---- outputs before the rows ----------------------------------------------------------------- */

static void union_of_inputs(const dg_visit *v, dg_seen *out)
{
    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (!in->there)
            continue;
        out->value = dg_vary_join(out->value, in->value);
        out->made = dg_vary_join(out->made, in->made);
        out->learned |= in->learned;
        out->reduced = out->reduced ? out->reduced : in->reduced;
        out->inexact = dg_vary_join(out->inexact, in->inexact);
        out->size = dg_vary_join(out->size, in->size);
        out->lead = dg_vary_join(out->lead, in->lead);
        if (in->stream) {
            out->changes |= in->changes;
            out->leads |= in->leads;
            out->endless |= in->endless;
            out->after = dg_vary_join(out->after, in->after);
            out->rate = dg_vary_join(out->rate, in->rate);
        }
        if (v->node->in_ports[i]->flags & DG_PORT_OPTIONAL) /* it may be absent on some ranks */
            out->value = dg_vary_join(out->value, in->present);
    }
}

/* A sampler chooses the sizes anew. */
static void plan_sizes(const dg_node *node, dg_seen *out)
{
    const dg_size *sizes;
    int batch, n;

    if (!node->class->schedule)
        return;
    n = node->class->sizes(node->conf, &sizes, &batch);
    out->changes = false;
    out->size.axes = 0;
    for (int i = 1; i < n; i++)
        out->changes |= sizes[i].w != sizes[0].w || sizes[i].h != sizes[0].h;
}

dg_vary dg_vary_own_kernels(dg_proof *p, const dg_node *node)
{
    if (node->exact)
        return (dg_vary){ 0 };
    return dg_vary_source(p, p->live, node, node->where, false,
                          dg_printf(p->arena, "exact %d", node->number),
                          "%s may differ in the last bit from run to run (exact=\"false\")",
                          dg_vary_called(p, node));
}

/* Items are left out where the node does not fire; others take their place. */
static void leave_out(dg_seen *out, dg_vary own)
{
    dg_vary_count(out, own);
    out->value = dg_vary_join(out->value, own);
    if (out->changes)
        out->size = dg_vary_join(out->size, own);
}

static void begin_outputs(dg_proof *p, dg_visit *v)
{
    const dg_node *node = v->node;
    dg_vary present = dg_vary_present(v);

    for (int i = 0; i < node->n_out; i++) {
        dg_seen *out = &v->out[i];

        *out = (dg_seen){ .there = true,
                          .stream = dg_contract_is_stream(node->out_contracts[i]),
                          .at = v->filled ? v->f->at : v->at,
                          .flag = ++p->n_values,
                          .may = !v->filled && (node->when.from || dg_vary_may_lack(node, v->in)),
                          .needs = v->filled ? v->f->needs : v->needs,
                          .enough = v->filled ? v->f->enough : v->enough };
        union_of_inputs(v, out);
        out->learned |= p->trained[node->number];
        out->value = dg_vary_join(out->value, v->zeros);
        out->endless &= !v->own.axes;
        plan_sizes(node, out);
        if (node->class->open)
            out->changes = true;
        if (out->stream)
            leave_out(out, v->own);
        else
            out->present = present;
        if (!node->exact)
            out->inexact = dg_vary_own_kernels(p, node);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The end of a stream: it drives the loop. */
static void drive(dg_proof *p, dg_visit *v)
{
    if (!v->node->class->feeds)
        return;
    for (int i = 0; i < v->node->n_in; i++) {
        p->clock->rounds = dg_vary_join(p->clock->rounds, v->in[i].rate);
        p->clock->endless |= v->in[i].endless && p->train;
        p->clock->rate = dg_vary_join(p->clock->rate, v->in[i].endless && p->train ? v->in[i].after
                                                                                   : v->in[i].rate);
        if (v->in[i].size.axes) {
            p->skewed = v->node;
            p->skew = v->in[i].size;
        }
    }
}

static void walk_use(dg_proof *p, dg_visit *v)
{
    const dg_scope *m = v->node->model;
    dg_walked inside = { .scope = m,
                         .inputs = v->in,
                         .fires = v->fires,
                         .needs = v->needs,
                         .enough = v->enough,
                         .at = v->at };

    walk_frame(p, &inside);
    for (int i = 0; i < v->node->n_out; i++) {
        dg_seen *out = &v->out[i], before = *out;

        *out = inside.out[m->output->index][i];
        out->may |= before.may;
        dg_vary_settle(p, v, out);
        if (v->filled)
            out->flag = before.flag;
    }
}

static void mark(const dg_proof *p, const dg_visit *v)
{
    for (int i = 0; p->marks && i < v->node->n_out; i++) {
        dg_vary seen =
            dg_vary_join(v->out[i].value, dg_vary_join(v->out[i].present, v->out[i].rate));
        dg_str text = { 0 };

        for (int k = 0; k < p->n_axes; k++)
            if (seen.axes >> k & 1)
                dg_str_fmt(&text, "%s%s", text.n ? "+" : "", p->axes[k].name);
        p->marks->varies[v->node->number][i] = text.s ? dg_strdup(p->arena, text.s) : NULL;
        dg_str_free(&text);
    }
}

static void visit_node(dg_proof *p, dg_walked *f, const dg_node *node)
{
    dg_visit v = { .f = f,
                   .node = node,
                   .in = DG_NEW_N(p->arena, node->n_in, dg_seen),
                   .out = DG_NEW_N(p->arena, node->n_out, dg_seen) };

    f->out[node->index] = v.out;
    v.turn = p->monitors ? p->turns[node->number]++ : 0;
    if (node->class == &dg_class_input) {
        for (int i = 0; f->inputs && i < f->scope->n_inputs; i++)
            if (f->scope->inputs[i] == node)
                v.out[0] = f->inputs[i];
        mark(p, &v);
        return;
    }
    dg_vary_activate(p, &v);
    if (dg_vary_has_none(node, v.in)) /* it fires nowhere, as in the program */
        return;
    begin_outputs(p, &v);
    dg_vary_partial(p, &v);
    if (node->model)
        walk_use(p, &v);
    dg_vary_rows(p, &v);
    dg_vary_sink(p, &v);
    dg_vary_accumulated(p, &v);
    drive(p, &v);
    mark(p, &v);
    dg_vary_trust(p, &v);
}

static void walk_frame(dg_proof *p, dg_walked *f)
{
    f->out = DG_NEW_N(p->arena, f->scope->n_nodes, dg_seen *);
    for (int i = 0; i < f->scope->n_nodes; i++)
        visit_node(p, f, f->scope->nodes[i]);
}

void dg_vary_walk(dg_proof *p, dg_vary fires)
{
    dg_walked f = { .scope = p->scope, .fires = fires, .at = (int)p->scope->on + 1 };

    walk_frame(p, &f);
}
