/* vary.c: one walk over a scope in document order: for each node its activation, what its outputs
 * have, and what its rows need. Information flow after Denning 1976, with the axes of the mesh as
 * the lattice.
 *
 *   activation = presence of required inputs + guard (value, presence; all axes if it is not exact)
 *              + skips before it + `on` + scope and loops around it
 *   output     = presence: activation; value: union of the inputs; then the rows of the class
 * What hangs on lowering (keys, gradients, shapes) needs a second walk, where something may be
 * missing at all. */
#include <string.h>

#include "graph/structure.h"
#include "graph/vary_self.h"

static void walk_frame(dg_proof *p, dg_walked *f);

/* --- inputs and activation ------------------------------------------------------------------- */

static bool is_inside(const dg_node *node, const dg_node *loop)
{
    while (node && node != loop)
        node = node->loop;
    return node != NULL;
}

/* What a loop leaves behind hangs on how often it ran: maybe never. */
static dg_seen read_wire(const dg_walked *f, const dg_wire *w, const dg_node *reader)
{
    dg_seen in = { .only = -1 };

    if (!w->from)
        return in;
    in = f->out[w->from->index][w->port];
    for (const dg_node *l = w->from->loop; l && !is_inside(reader, l); l = l->loop) {
        in.present = dg_vary_join(in.present, f->loops[l->index]->rate);
        in.value = dg_vary_join(in.value, f->loops[l->index]->rate);
        in.only = f->loops[l->index]->rate.axes ? -1 : in.only;
        in.may = true;
        in.flag = 0;
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
static int flag_of(dg_proof *p, const dg_seen *g, const dg_wire *w)
{
    if (w->key || !g->flag)
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
static bool may_lack_input(const dg_node *node, const dg_seen in[])
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
    v->flag = flag_of(p, &g, w);
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

static int activate(dg_proof *p, dg_visit *v)
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

/* --- outputs before the rows ----------------------------------------------------------------- */

/* Where connect keeps outputs present, the guard does not count. */
static dg_vary output_present(dg_proof *p, const dg_visit *v)
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

static void union_of_inputs(const dg_visit *v, dg_seen *out)
{
    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (!in->there)
            continue;
        out->value = dg_vary_join(out->value, in->value);
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
        if (v->node->in_ports[i]->flags & DG_PORT_OPTIONAL) /* it may be left out on some ranks */
            out->value = dg_vary_join(out->value, in->present);
    }
}

/* A sampler decides on the sizes anew. */
static void plan_sizes(const dg_node *node, dg_seen *out)
{
    const dg_size *sizes;
    int            batch, n;

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

/* Items are left out where the node does not fire: others stand in their place. */
static void leave_out(dg_seen *out, dg_vary own)
{
    dg_vary_count(out, own);
    out->value = dg_vary_join(out->value, own);
    if (out->changes)
        out->size = dg_vary_join(out->size, own);
}

static void begin_outputs(dg_proof *p, dg_visit *v, int only)
{
    const dg_node *node = v->node;
    dg_vary        present = output_present(p, v);

    for (int i = 0; i < node->n_out; i++) {
        dg_seen *out = &v->out[i];

        *out =
            (dg_seen){ .there = true,
                       .stream = dg_contract_is_stream(node->out_contracts[i]),
                       .only = only,
                       .collective = v->after,
                       .flag = ++p->n_values,
                       .may = (node->when.from && !node->connect) || may_lack_input(node, v->in) };
        out->needs = node->connect ? 0 : v->needs;
        out->enough = !node->connect ? v->enough : out->may ? DG_VARY_NEVER : 0;
        union_of_inputs(v, out);
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

/* --- nodes ----------------------------------------------------------------------------------- */

/* A stream ends here: it drives the loop. */
static void drive(dg_proof *p, dg_visit *v)
{
    if (!v->node->class->feeds)
        return;
    for (int i = 0; i < v->node->n_in; i++) {
        if (!v->in[i].there || !v->in[i].stream)
            continue;
        v->clock->rounds = dg_vary_join(v->clock->rounds, v->in[i].rate);
        v->clock->endless |= v->in[i].endless && p->train;
        v->clock->rate = dg_vary_join(v->clock->rate, v->in[i].endless && p->train ? v->in[i].after : v->in[i].rate);
        if (v->in[i].size.axes) {
            p->skewed = v->node;
            p->skew = v->in[i].size;
        }
    }
}

static void walk_use(dg_proof *p, dg_visit *v)
{
    const dg_scope *m = v->node->model;
    dg_walked inside = { .scope = m, .inputs = v->in, .fires = v->fires, .clock = v->clock, .after = v->waits,
                         .needs = v->needs, .enough = v->enough };

    walk_frame(p, &inside);
    for (int i = 0; i < v->node->n_out; i++) {
        dg_seen *out = &v->out[i], before = *out;

        *out = inside.out[m->output->index][i];
        out->may |= before.may;
        if (v->node->connect) { /* zeros, wherever nothing came of it */
            out->may = before.may;
            out->needs = before.needs;
            out->enough = before.enough;
            out->value = dg_vary_join(out->value, dg_vary_join(out->present, v->zeros));
            out->present = before.present;
            out->only = before.only;
        }
        if (!v->node->exact)
            out->inexact = dg_vary_join(out->inexact, before.inexact);
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
                   .clock = node->loop ? f->loops[node->loop->index] : f->clock,
                   .in = DG_NEW_N(p->arena, node->n_in, dg_seen),
                   .out = DG_NEW_N(p->arena, node->n_out, dg_seen) };
    int      only;

    f->out[node->index] = v.out;
    v.turn = p->monitors ? p->turns[node->number]++ : 0;
    if (node->class == &dg_class_input) {
        for (int i = 0; f->inputs && i < f->scope->n_inputs; i++)
            if (f->scope->inputs[i] == node)
                v.out[0] = f->inputs[i];
        mark(p, &v);
        return;
    }
    v.clock = v.clock ? v.clock : f->clock;
    only = activate(p, &v);
    if (v.never) {
        if (node->class == &dg_class_loop)
            f->loops[node->index] = v.clock;
        return;
    }
    begin_outputs(p, &v, only);
    dg_vary_partial(p, &v);
    if (node->model)
        walk_use(p, &v);
    dg_vary_rows(p, &v);
    dg_vary_device(p, node, v.in, v.out);
    drive(p, &v);
    mark(p, &v);
    dg_vary_trust(p, &v);
}

static void walk_frame(dg_proof *p, dg_walked *f)
{
    f->out = DG_NEW_N(p->arena, f->scope->n_nodes, dg_seen *);
    f->loops = DG_NEW_N(p->arena, f->scope->n_nodes, dg_clocked *);
    for (int i = 0; i < f->scope->n_nodes; i++)
        visit_node(p, f, f->scope->nodes[i]);
}

void dg_vary_walk(dg_proof *p, dg_vary fires)
{
    dg_walked f = { .scope = p->scope, .fires = fires, .clock = p->clock };

    walk_frame(p, &f);
}
