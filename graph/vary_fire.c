/* vary_fire.c: where a node fires: what its inputs are, what its activation hangs on, and which guards
 * make it be there. */
#include <string.h>

#include "graph/structure.h"
#include "graph/vary_self.h"

static bool is_inside(const dg_node *node, const dg_node *loop)
{
    while (node && node != loop)
        node = node->loop;
    return node != NULL;
}

/* The value under a path of keys, "terms.loss"; where keys are not told apart, it has what all have. */
static dg_seen read_keys(dg_seen in, const char *path)
{
    for (; path; path = strchr(path, '.') ? strchr(path, '.') + 1 : NULL) {
        size_t n = strcspn(path, ".");
        int    k = 0;

        while (k < in.n_keys && !(strlen(in.keys[k].name) == n && strncmp(in.keys[k].name, path, n) == 0))
            k++;
        if (k == in.n_keys) {
            in.n_keys = in.flag = 0;
            return in;
        }
        dg_seen key = in.keys[k].seen;

        key.present = dg_vary_join(key.present, in.present);
        key.may |= in.may;
        key.needs |= in.needs;
        key.enough |= in.enough;
        key.collective = key.collective > in.collective ? key.collective : in.collective;
        in = key;
    }
    return in;
}

/* What a loop leaves behind hangs on how often it ran: maybe never. */
static dg_seen read_wire(const dg_walked *f, const dg_wire *w, const dg_node *reader)
{
    dg_seen in = { .only = -1 };

    if (!w->from)
        return in;
    in = read_keys(f->out[w->from->index][w->port], w->key);
    for (const dg_node *l = w->from->loop; l && !is_inside(reader, l); l = l->loop) {
        in.present = dg_vary_join(in.present, f->loops[l->index]->rate);
        in.value = dg_vary_join(in.value, f->loops[l->index]->rate);
        in.only = f->loops[l->index]->rate.axes ? -1 : in.only;
        in.may = true;
        in.flag = in.n_keys = 0;
        in.needs = 0;
        in.enough = DG_VARY_NEVER;
    }
    return in;
}

/* What is missing where a root is: the key that this wire takes. */
static void read_key(dg_proof *p, const dg_node *node, int port, dg_seen *in)
{
    if (!node->in[port].key || !p->lowered || !in->there)
        return;
    for (int i = p->first_fact[node->number]; i >= 0; i = p->facts.items[i].next) {
        const dg_fact *f = &p->facts.items[i];

        if (f->port == port && f->lost >= 0 && !*f->key)
            in->present = dg_vary_join(in->present, p->roots.items[f->lost].present);
    }
}

/* Wherever this one of a group is there, is another one, on all ranks alike? */
static bool is_followed(const dg_node *node, const dg_seen in[], int port)
{
    for (int i = 0; i < node->n_in; i++)
        if (i != port && dg_node_one_of(node, i) && in[i].there && !in[i].present.axes && !(in[i].enough & ~in[port].needs))
            return true;
    return false;
}

/* One of a group must be there: it is missing where all are. */
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

/* The number of a guard's value in p->flags; -1: it cannot be told from others. */
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

/* Hangs on the guard. */
static void need_guard(dg_visit *v)
{
    bool known = v->flag >= 0 && v->flag < DG_VARY_FLAGS;

    v->needs |= known ? UINT64_C(1) << v->flag : 0;
    v->enough |= known ? UINT64_C(1) << v->flag : DG_VARY_NEVER;
}

/* May it not fire where it could? Of a group, all may be missing. */
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

/* The operand of a broadcast or a vote may be missing. */
static bool may_lack(const dg_proof *p, const dg_node *node, int port)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if ((r->kind == DG_RULE_BROADCAST || r->kind == DG_RULE_AGREE) &&
            dg_rule_input(node, r) == port && dg_rule_holds(p, node, r) &&
            dg_rule_axes(p, node, r) & p->live)
            return true;
    return false;
}

/* Guards that the node's firing hangs on, by its inputs: all that it requires, one of a group. */
static void need_inputs(const dg_proof *p, dg_visit *v)
{
    uint64_t some = ~DG_VARY_NEVER, sure = DG_VARY_NEVER;
    bool     group = false;

    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (in->there && dg_node_one_of(v->node, i)) {
            group = true;
            some &= in->needs;
            sure = sure & DG_VARY_NEVER && !in->present.axes ? in->enough : sure;
        } else if (in->there && !(v->node->in_ports[i]->flags & DG_PORT_OPTIONAL) && !may_lack(p, v->node, i)) {
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
    dg_seen        g = read_wire(v->f, w, node);
    const char    *key, *from;

    v->after = g.collective;
    v->flag = -1;
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

/* Where a loop has no round, what stands in it is missing for those who read it from outside. */
static void leave_loop(dg_proof *p, const dg_walked *f, const dg_node *reader, const dg_wire *w)
{
    for (const dg_node *l = w->from ? w->from->loop : NULL; l && !is_inside(reader, l);
         l = l->loop) {
        const dg_clocked *c = f->loops[l->index];

        dg_vary_root(p, w->from, DG_ABSENT_NODE,
                     dg_vary_join(dg_vary_join(c->rate, c->skip), c->own), -1);
    }
}

/* The one rank that everything that keeps this node from firing has in common; -1. */
static int only_rank(const dg_visit *v, dg_vary around, dg_vary on)
{
    int only = -1;

    if (around.axes || v->guard.axes)
        return -1;
    if (on.axes)
        only = (int)v->node->on;
    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (!in->there || !in->present.axes || v->node->in_ports[i]->flags & DG_PORT_OPTIONAL)
            continue;
        if (in->only < 0 || (only >= 0 && in->only != only))
            return -1;
        only = in->only;
    }
    return only;
}

/* Do all who read this node take part without its outputs? Then nothing is lost where it is not. */
static bool only_lacked(const dg_proof *p, const dg_node *node)
{
    const dg_scope *s = node->scope;
    int             n = 0;

    for (int i = node->index + 1; i < s->n_nodes && node->on >= 0; i++)
        for (int k = 0; k < s->nodes[i]->n_in; k++) {
            if (s->nodes[i]->in[k].from != node)
                continue;
            n++;
            if (!may_lack(p, s->nodes[i], k))
                return false;
        }
    return n > 0;
}

/* Whatever it launches waits for its guard, and for who might leave out the rest of the iteration. */
static void wait(dg_visit *v)
{
    v->after = v->f->after > v->after ? v->f->after : v->after;
    for (const dg_clocked *c = v->clock; c; c = c->up)
        v->after = c->after > v->after ? c->after : v->after;
    v->waits = v->after;
}

int dg_vary_activate(dg_proof *p, dg_visit *v)
{
    const dg_node *node = v->node;
    dg_vary        around = v->f->fires, on = place_of(p, node);

    for (const dg_clocked *c = v->clock; c; c = c->up)
        around = dg_vary_join(around, dg_vary_join(c->fires, c->skip));
    v->needs = v->f->needs;
    v->enough = v->f->enough;
    v->guard = guard_of(p, v);
    wait(v);
    v->own = dg_vary_join(v->guard, on);
    for (int i = 0; i < node->n_in; i++) {
        v->in[i] = read_wire(v->f, &node->in[i], node);
        read_key(p, node, i, &v->in[i]);
        v->after = v->in[i].collective > v->after ? v->in[i].collective : v->after;
        if (node->in_ports[i]->flags & DG_PORT_OPTIONAL)
            continue;
        v->never |= !v->in[i].there;
        if (!may_lack(p, node, i))
            v->own = dg_vary_join(v->own, v->in[i].present);
    }
    need_inputs(p, v);
    for (int i = 0; i < node->n_in; i++)
        leave_loop(p, v->f, node, &node->in[i]);
    v->own = dg_vary_join(v->own, group_present(node, v->in));
    v->fires = dg_vary_join(around, v->own);
    v->zeros = node->connect ? v->guard : (dg_vary){ 0 };
    if (node->connect)
        v->guard.axes = 0;
    if (v->guard.axes || (on.axes && !only_lacked(p, node)))
        dg_vary_root(p, node, DG_ABSENT_NODE, dg_vary_join(v->guard, on), v->flag);
    else if (node->when.from && !node->connect)
        dg_vary_root(p, node, DG_ABSENT_NODE, (dg_vary){ 0 }, v->flag);
    return only_rank(v, around, on);
}

/* Where connect keeps outputs present, the guard does not count. */
dg_vary dg_vary_present(dg_proof *p, const dg_visit *v)
{
    dg_vary without = v->f->fires;

    if (!v->node->connect)
        return v->fires;
    for (const dg_clocked *c = v->clock; c; c = c->up)
        without = dg_vary_join(without, dg_vary_join(c->fires, c->skip));
    without = dg_vary_join(without, place_of(p, v->node));
    without = dg_vary_join(without, group_present(v->node, v->in));
    for (int i = 0; i < v->node->n_in; i++)
        if (!(v->node->in_ports[i]->flags & DG_PORT_OPTIONAL))
            without = dg_vary_join(without, v->in[i].present);
    return without;
}
