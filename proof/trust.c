/* trust.c: what the proof trusts at a node. A class declares in its tables what its outputs are, or
 * passes its inputs' properties on by declaring nothing. If the code behind it is its own (a
 * loader, a sampler, a number from the host, an op of a plugin, draws), the tables may be wrong,
 * and a monitor checks them at run time. What built-in instructions do with their inputs is
 * proved. */
#include "proof/vary.h"

static void add(dg_proof *p, const dg_visit *v, dg_monitor_kind kind, int output, uint32_t axes)
{
    const dg_monitor m = { kind,   p->scope, v->node,
                           output, v->turn,  axes ? dg_vary_name(p, axes) : NULL,
                           axes };

    DG_PUSH(p->arena, p->monitors->list, m);
}

static void add_joint(dg_proof *p, const dg_visit *v, dg_monitor_kind kind, int output,
                      const dg_vary *varies)
{
    bool alone = p->scope->kind == DG_SCOPE_EVALUATE && p->scope->on >= 0;
    uint32_t alike = p->live & ~varies->axes;

    if (alike && !alone)
        add(p, v, kind, output, alike);
}

/* True if the output would differ, were it not declared invariant. */
static bool is_made_alike(const dg_proof *p, const dg_visit *v)
{
    uint32_t axes = 0;

    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        axes |= in->there ? in->value.axes | in->partial.axes : 0;
        if (in->there && v->node->in_ports[i]->flags & DG_PORT_OPTIONAL)
            axes |= in->present.axes;
    }
    for (const dg_rule *r = v->node->class->rules; r && r->kind; r++)
        if (r->kind == DG_RULE_VALUE && dg_rule_holds(v->node, p->train, r))
            axes |= dg_vary_row_axes(p, v->node, r);
    return (axes & p->live) != 0;
}

static bool is_numbers(const dg_contract *c)
{
    return c->kind == DG_TYPE_TENSOR || c->kind == DG_TYPE_RECORD || c->kind == DG_TYPE_ANY;
}

static void trust_stream(dg_proof *p, const dg_visit *v, int i)
{
    const dg_node_class *c = v->node->class;
    const dg_seen *out = &v->out[i];

    if (c->open)
        add_joint(p, v, DG_MONITOR_DATA, i, &out->value);
    if (c->choose || c->schedule)
        add_joint(p, v, DG_MONITOR_COUNT, i, &out->rate);
    if (c->schedule && out->changes)
        add_joint(p, v, DG_MONITOR_SIZE, i, &out->size);
    if (c->schedule)
        add(p, v, DG_MONITOR_LISTED, i, 0);
    if (c->item && !(v->node->out_ports[i]->flags & DG_PORT_DROPS))
        add(p, v, DG_MONITOR_DROPS, i, 0);
}

static void trust_numbers(dg_proof *p, const dg_visit *v, int i)
{
    const dg_node_class *c = v->node->class;
    bool alike = v->node->out_ports[i]->flags & DG_PORT_INVARIANT && is_made_alike(p, v);

    if (c->feeds) {
        add(p, v, DG_MONITOR_PRESENT, i, 0);
        add(p, v, DG_MONITOR_SHAPE, i, 0);
    }
    if (alike || c->feeds || (c->supply && !c->lower) || (c->lower && p->opaque[v->node->number])) {
        const dg_vary bits = dg_vary_join(v->out[i].value, v->out[i].inexact);

        add_joint(p, v, DG_MONITOR_VALUE, i, &bits);
    }
}

/* What ranks compute in a batch is compared batch by batch. Where their epochs may differ in
 * length, a batch of that number may belong to another epoch; an evaluation is one epoch. */
void dg_vary_trusted(dg_proof *p)
{
    const uint32_t apart = p->train ? p->clock->rate.axes : 0;
    int n = 0;

    for (int i = 0; p->monitors && i < p->monitors->list.n; i++) {
        dg_monitor m = p->monitors->list.items[i];

        if (m.scope == p->scope && m.over & apart &&
            (m.kind == DG_MONITOR_VALUE || m.kind == DG_MONITOR_FIRING)) {
            m.over &= ~apart;
            m.axes = dg_vary_name(p, m.over);
            if (!m.over)
                continue;
        }
        p->monitors->list.items[n++] = m;
    }
    if (p->monitors)
        p->monitors->list.n = n;
}

void dg_vary_trust(dg_proof *p, const dg_visit *v)
{
    if (!p->monitors || v->node->model)
        return;
    if (v->node->when.from)
        add_joint(p, v, DG_MONITOR_FIRING, -1, &v->fires);
    for (int i = 0; i < v->node->n_out; i++)
        if (v->out[i].stream)
            trust_stream(p, v, i);
        else if (is_numbers(v->node->out_contracts[i]))
            trust_numbers(p, v, i);
}
