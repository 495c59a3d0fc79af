/* second_host.c: what the host does before a program runs: reads data, deals it, chooses sizes,
 * computes numbers. No instruction shows that, so it is read from what the classes of these nodes
 * declare, once per scope, in document order. */
#include "graph/rule.h"
#include "proof/second.h"

#include <string.h>

static const char not_exact[] = "may differ from run to run (exact=\"false\")";

typedef struct flow { /* of a node's output */
    dg_second_cause value, rate, size;
    bool changes, endless; /* changes: the size of its items or batches is not always the same */
} flow;

typedef struct host {
    dg_second_host *h;
    const dg_scope *scope;
    dg_arena *a;
    flow *out; /* by node number */
} host;

static void add(dg_second_cause *to, uint32_t axes, const dg_node *node, const char *why)
{
    if (axes & ~to->axes && !to->node)
        *to = (dg_second_cause){ to->axes, node, why };
    to->axes |= axes;
}

static void join(dg_second_cause *to, const dg_second_cause *from)
{
    add(to, from->axes, from->node, from->why);
}

/* "dp+tp"; NULL or empty: all axes */
static uint32_t axes_of(const dg_second_host *h, const char *text)
{
    uint32_t axes = 0;

    for (const char *s = text; s && *s; s += strcspn(s, "+"), s += *s == '+')
        for (int i = 0; i < h->n_axes; i++)
            if (strcspn(s, "+") == strlen(h->axis[i]) &&
                strncmp(s, h->axis[i], strlen(h->axis[i])) == 0)
                axes |= 1u << i;
    return (text && *text ? axes : h->live) & h->live;
}

static const flow *input(const host *m, const dg_node *node, int port)
{
    static const flow nothing = { 0 };
    const dg_node *from = port >= 0 ? node->in[port].from : NULL;

    return from ? &m->out[from->number] : &nothing;
}

/* ---- one node -------------------------------------------------------------------------------- */

static void join_inputs(const host *m, const dg_node *node, flow *out)
{
    const flow *guard = node->when.from ? &m->out[node->when.from->number] : NULL;

    for (int i = 0; i < node->n_in; i++) {
        const flow *in = input(m, node, i);

        join(&out->value, &in->value);
        if (!dg_contract_is_stream(node->in_types[i]))
            continue;
        join(&out->rate, &in->rate);
        join(&out->size, &in->size);
        out->changes |= in->changes;
        out->endless |= in->endless;
    }
    if (guard)
        join(&out->value, &guard->value);
    if (guard && node->n_out && dg_contract_is_stream(node->out_contracts[0]))
        join(&out->rate, &guard->value);
    if (node->on >= 0)
        add(&out->value, m->h->live, node, "runs on one rank only");
}

/* A sampler chooses sizes anew, a loader has images of any size. */
static void begin_sizes(const dg_node *node, flow *out)
{
    const dg_size *sizes;
    int batch, n;

    out->changes |= node->class->open != NULL;
    if (!node->class->schedule || !node->class->sizes)
        return;
    n = node->class->sizes(node->conf, &sizes, &batch);
    out->size = (dg_second_cause){ 0 };
    out->changes = false;
    for (int i = 1; i < n; i++)
        out->changes |= sizes[i].w != sizes[0].w || sizes[i].h != sizes[0].h;
}

static void apply(const host *m, const dg_node *node, const dg_rule *r, flow *out)
{
    const dg_second_host *h = m->h;
    const int port = dg_rule_input(node, r);
    const flow *in = input(m, node, port);
    const uint32_t axes = r->from ? in->value.axes : axes_of(h, dg_rule_axes(node, r));

    switch (r->kind) {
    case DG_RULE_VALUE:
        add(&out->value, axes, node, r->why);
        break;
    case DG_RULE_RATE:
        /* batches of one size are as many as the items make, whatever is in them */
        if (!r->from || !node->class->schedule || out->changes)
            add(&out->rate, axes, node, r->why);
        break;
    case DG_RULE_EQUAL:
        out->rate.axes &= ~axes;
        break;
    case DG_RULE_DIMS:
        out->changes |= port >= 0 && !dg_contract_is_stream(node->in_types[port]);
        if (out->changes)
            add(&out->size, axes, node, r->why);
        break;
    case DG_RULE_ENDLESS: /* an epoch is agreed on */
        out->endless = true;
        if (m->scope->kind == DG_SCOPE_TRAIN)
            out->rate = (dg_second_cause){ 0 };
        break;
    case DG_RULE_ALLREDUCE:
    case DG_RULE_BROADCAST:
    case DG_RULE_AGREE:
    case DG_RULE_ALLGATHER:
    case DG_RULE_ALLGATHERV:
        if (r->to)
            out->value.axes &= ~axes_of(h, dg_rule_axes(node, r));
        break;
    case DG_RULE_INEXACT:
        add(&out->value, h->live, node, r->why);
        break;
    default:
        break;
    }
}

static flow flow_of(const host *m, const dg_node *node)
{
    const bool train = m->scope->kind == DG_SCOPE_TRAIN;
    flow out = { 0 };

    join_inputs(m, node, &out);
    begin_sizes(node, &out);
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (dg_rule_holds(node, train, r))
            apply(m, node, r, &out);
    for (int i = 0; i < node->n_out; i++) {
        uint32_t flags = node->out_ports[i]->flags;

        if (flags & DG_PORT_VARIES)
            add(&out.value, m->h->live, node, "has values of this rank's own");
        if (flags & DG_PORT_INVARIANT)
            out.value = (dg_second_cause){ 0 };
    }
    if (!node->exact)
        add(&out.value, m->h->live, node, not_exact);
    return out;
}

/* ---- a node of the program ------------------------------------------------------------------- */

/* What an instruction of the node may do that its operands do not show. */
static void note_own(const host *m, const dg_node *node, dg_second_node *out)
{
    const bool train = m->scope->kind == DG_SCOPE_TRAIN;

    if (!node->exact)
        add(&out->inexact, m->h->live, node, not_exact);
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if ((r->kind == DG_RULE_VALUE || r->kind == DG_RULE_INEXACT) &&
            dg_rule_holds(node, train, r))
            add(r->kind == DG_RULE_VALUE ? &out->own : &out->inexact,
                axes_of(m->h, dg_rule_axes(node, r)), node, r->why);
    out->alike = node->n_out > 0;
    for (int i = 0; i < node->n_out; i++) {
        if (node->out_ports[i]->flags & DG_PORT_VARIES)
            add(&out->own, m->h->live, node, "has values of this rank's own");
        out->alike &= (node->out_ports[i]->flags & DG_PORT_INVARIANT) != 0;
    }
}

static void note_scope(host *m, const dg_scope *s)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const dg_node *node = s->nodes[i];
        dg_second_node *out = &m->h->nodes[node->number];

        if (node->model)
            note_scope(m, node->model);
        m->out[node->number] = flow_of(m, node);
        out->fed = m->out[node->number].value;
        out->own = out->inexact = (dg_second_cause){ 0 };
        if (node->class->lower)
            note_own(m, node, out);
        if (!node->class->feeds)
            continue;
        join(&m->h->rate, &m->out[node->number].rate);
        join(&m->h->size, &m->out[node->number].size);
        join(&m->h->sample, &m->out[node->number].value);
    }
}

dg_second_host *dg_second_host_make(const dg_graph *g, const dg_scope *scope, dg_arena *a)
{
    dg_second_host *h = DG_NEW(a, dg_second_host);
    host m = { .h = h, .scope = scope, .a = a };

    if (g->axis) {
        h->axis[h->n_axes] = g->axis;
        h->ranks[h->n_axes++] = g->ranks;
    }
    if (g->axis && g->mesh.tp > 1) {
        h->axis[h->n_axes] = "tp";
        h->ranks[h->n_axes++] = g->mesh.tp;
    }
    for (int i = 0; i < h->n_axes; i++)
        h->live |= h->ranks[i] > 1 ? 1u << i : 0;
    h->alone = scope->on >= 0 && scope->kind == DG_SCOPE_EVALUATE ? h->live : 0;
    h->n_nodes = g->n_nodes + 1;
    h->nodes = DG_NEW_N(a, h->n_nodes, dg_second_node);
    m.out = DG_NEW_N(a, h->n_nodes, flow);
    note_scope(&m, scope);
    return h;
}
