/* activation.c: where a node fires: its inputs, what its activation depends on, and which guards
 * imply that it fires. */
#include <string.h>

#include "graph/structure.h"
#include "proof/vary.h"

/* The state of a wire. */
static dg_seen read_wire(const dg_walked *f, const dg_wire *w)
{
    dg_seen in = { 0 };

    return w->from ? dg_vary_read_keys(f->out[w->from->index][w->port], w->key) : in;
}

/* Adds that the key read by this wire may be missing where some root is, or on all ranks at
 * once. */
static void read_key(dg_proof *p, const dg_node *node, int port, dg_seen *in)
{
    if (!node->in[port].key || !p->lowered || !in->there)
        return;
    for (int i = p->first_fact[node->number]; i >= 0; i = p->facts.items[i].next) {
        const dg_vary_fact *f = &p->facts.items[i];

        if (f->port != port || *f->key)
            continue;
        if (f->lost >= 0)
            in->present = dg_vary_join(in->present, p->roots.items[f->lost].present);
        if (f->at_times) {
            in->may = true;
            in->enough = DG_VARY_NEVER;
        }
    }
}

/* True if, on all ranks alike, another input of the group is present wherever this one is. */
static bool is_followed(const dg_node *node, const dg_seen in[], int port)
{
    for (int i = 0; i < node->n_in; i++)
        if (i != port && dg_node_one_of(node, i) && in[i].there && !in[i].present.axes &&
            !(in[i].enough & ~in[port].needs))
            return true;
    return false;
}

/* Presence of a group of inputs, one of which must be present: missing where all are. */
static dg_vary group_present(const dg_node *node, const dg_seen in[])
{
    dg_vary v = { 0 };

    for (int i = 0; i < node->n_in; i++) {
        if (!dg_node_one_of(node, i) || !in[i].there)
            continue;
        if (!in[i].present.axes && !in[i].may)
            return (dg_vary){ 0 };
        if (!is_followed(node, in, i))
            v = dg_vary_join(v, in[i].present);
    }
    return v;
}

/* The index in p->flags of a guard's value; -1: it cannot be distinguished. */
static int flag_of(dg_proof *p, const dg_seen *g)
{
    if (!g->flag)
        return -1;
    for (int i = 0; i < p->flags.n; i++)
        if (p->flags.items[i] == g->flag)
            return i;
    DG_PUSH(p->arena, p->flags, g->flag);
    return p->flags.n - 1;
}

/* Adds the node's guard to what its firing needs. */
static void need_guard(dg_visit *v)
{
    bool known = v->flag >= 0 && v->flag < DG_VARY_FLAGS;

    v->needs |= known ? UINT64_C(1) << v->flag : 0;
    v->enough |= known ? UINT64_C(1) << v->flag : DG_VARY_NEVER;
}

/* True if it may not fire where it could; a group may lack all inputs. */
bool dg_vary_may_lack(const dg_node *node, const dg_seen in[])
{
    bool group = false, sure = false;

    for (int i = 0; i < node->n_in; i++) {
        if (!in[i].there)
            continue;
        if (dg_node_one_of(node, i)) {
            group = true;
            sure |= !in[i].may && !in[i].present.axes;
        } else if (in[i].may && !(node->in_ports[i]->flags & DG_PORT_OPTIONAL)) {
            return true;
        }
    }
    return group && !sure;
}

bool dg_vary_has_none(const dg_node *node, const dg_seen in[])
{
    bool group = false;

    for (int i = 0; i < node->n_in; i++) {
        group |= dg_node_one_of(node, i);
        if (dg_node_one_of(node, i) && in[i].there)
            return false;
    }
    return group;
}

/* True if the operand of a broadcast or vote may be missing. */
static bool may_lack(const dg_proof *p, const dg_node *node, int port)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if ((r->kind == DG_RULE_BROADCAST || r->kind == DG_RULE_AGREE) &&
            dg_rule_input(node, r) == port && dg_rule_holds(node, p->train, r) &&
            dg_vary_row_axes(p, node, r) & p->live)
            return true;
    return false;
}

/* Adds the guards that the node's firing depends on through its inputs: all required ones, one of a
 * group. */
static void need_inputs(const dg_proof *p, dg_visit *v)
{
    uint64_t some = ~DG_VARY_NEVER, sure = DG_VARY_NEVER;
    bool group = false;

    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (in->there && dg_node_one_of(v->node, i)) {
            group = true;
            some &= in->needs;
            sure = sure & DG_VARY_NEVER && !in->present.axes ? in->enough : sure;
        } else if (in->there && !(v->node->in_ports[i]->flags & DG_PORT_OPTIONAL) &&
                   !may_lack(p, v->node, i)) {
            v->needs |= in->needs;
            v->enough |= in->enough;
        }
    }
    if (group) {
        v->needs |= some;
        v->enough |= sure;
    }
}

static dg_vary guard_of(dg_proof *p, dg_visit *v)
{
    const dg_node *node = v->node;
    const dg_wire *w = &node->when;
    dg_seen g = read_wire(v->f, w);
    const char *key, *from;

    v->flag = -1;
    v->guarded = g.there;
    v->guard_at = g.there ? g.at : 0;
    if (!g.there)
        return (dg_vary){ 0 };
    v->flag = flag_of(p, &g);
    need_guard(v);
    key = dg_printf(p->arena, "when %d.%d.%s", w->from->number, w->port, w->key ? w->key : "");
    from = dg_printf(p->arena, "%s%s%s", w->from->id, w->key ? "." : "", w->key ? w->key : "");
    return dg_vary_step(p, dg_vary_join(dg_vary_join(g.present, g.value), g.inexact), node,
                        w->where, key, "%s fires only where \"%s\" says so",
                        dg_vary_called(p, node), from);
}

static dg_vary place_of(dg_proof *p, const dg_node *node)
{
    const dg_item_attr *a = dg_item_find(node->item, "on");

    if (node->on < 0)
        return (dg_vary){ 0 };
    return dg_vary_source(p, p->live, node, a ? a->value_at : node->where, false,
                          dg_printf(p->arena, "on %d", node->number), "%s fires on rank %lld only",
                          dg_vary_called(p, node), (long long)node->on);
}

void dg_vary_root(dg_proof *p, const dg_node *node, dg_absence absent, dg_vary present, int flag)
{
    if (p->lowered)
        return;
    if (present.axes)
        DG_PUSH(p->arena, p->roots, ((dg_root){ node, absent, present, flag }));
    else
        DG_PUSH(p->arena, p->together, ((dg_root){ node, absent, present, flag }));
}

/* One rank that is all of those that both leave; as in dg_seen.at. */
static int meet(int a, int b)
{
    return !a ? b : !b || a == b ? a : -1;
}

/* The only rank on which it can fire: by `on`, by what it needs, by its scope. */
static int place(const dg_proof *p, const dg_visit *v)
{
    const dg_node *node = v->node;
    int at = meet(v->f->at, node->on >= 0 ? (int)node->on + 1 : 0), group = 0;
    bool grouped = false, open = false;

    at = meet(at, v->guard_at);
    for (int i = 0; i < node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (!in->there || may_lack(p, node, i))
            continue;
        if (dg_node_one_of(node, i)) {
            open |= !in->at || (grouped && in->at != group);
            group = in->at;
            grouped = true;
        } else if (!(node->in_ports[i]->flags & DG_PORT_OPTIONAL)) {
            at = meet(at, in->at);
        }
    }
    return grouped && !open ? meet(at, group) : at;
}

/* True if something keeps the node from firing where its scope does: its guard, its rank, what it
 * needs. Otherwise it always fires, and connect has nothing to replace: what is missing inside its
 * model, or among its keys, stays missing. */
static bool is_kept(const dg_proof *p, const dg_visit *v)
{
    const dg_node *node = v->node;
    bool group = false, sure = false;

    for (int i = 0; i < node->n_in; i++) {
        const dg_seen *in = &v->in[i];
        bool lacks = in->may || in->present.axes;

        if (!in->there || may_lack(p, node, i))
            continue;
        if (dg_node_one_of(node, i)) {
            group = true;
            sure |= !lacks;
        } else if (lacks && !(node->in_ports[i]->flags & DG_PORT_OPTIONAL)) {
            return true;
        }
    }
    return v->guarded || node->on >= 0 || (group && !sure);
}

void dg_vary_activate(dg_proof *p, dg_visit *v)
{
    const dg_node *node = v->node;
    dg_vary around = dg_vary_join(v->f->fires, p->clock->skip), on = place_of(p, node);

    v->needs = v->f->needs;
    v->enough = v->f->enough;
    v->guard = guard_of(p, v);
    v->own = dg_vary_join(v->guard, on);
    for (int i = 0; i < node->n_in; i++) {
        v->in[i] = read_wire(v->f, &node->in[i]);
        read_key(p, node, i, &v->in[i]);
        if (node->in_ports[i]->flags & DG_PORT_OPTIONAL)
            continue;
        if (!may_lack(p, node, i))
            v->own = dg_vary_join(v->own, v->in[i].present);
    }
    need_inputs(p, v);
    v->own = dg_vary_join(v->own, group_present(node, v->in));
    v->fires = dg_vary_join(around, v->own);
    v->at = place(p, v);
    v->around = around;
    v->filled = node->connect && is_kept(p, v);
    if (!v->filled || !p->filled[node->number])
        p->filled[node->number] = v->filled ? DG_FILLED : DG_NOT_FILLED;
    v->zeros = v->filled ? v->own : (dg_vary){ 0 };
    if (v->filled)
        return;
    if (v->guard.axes || on.axes)
        dg_vary_root(p, node, DG_ABSENT_NODE, dg_vary_join(v->guard, on), v->flag);
    else if (node->when.from)
        dg_vary_root(p, node, DG_ABSENT_NODE, (dg_vary){ 0 }, v->flag);
}

/* Presence of the outputs; where zeros replace them, what keeps the node from firing does not
 * count. */
dg_vary dg_vary_present(const dg_visit *v)
{
    return v->filled ? v->around : v->fires;
}
