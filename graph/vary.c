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

/* A scope, or a model in use, while it is walked. */
typedef struct frame {
    const dg_scope *scope;
    const dg_seen  *inputs; /* of the model */
    dg_vary         fires;
    dg_clocked     *clock;
    dg_clocked    **loops; /* by node->index */
    dg_seen       **out;   /* by node->index */
} frame;

/* A node while it is visited. */
typedef struct visit {
    frame         *f;
    const dg_node *node;
    dg_clocked    *clock;
    dg_seen       *in, *out;
    dg_vary        fires, guard, bypass;
    dg_vary        own; /* of fires: not that of the scope and the loops around it */
    bool           never; /* a required input is wired to nothing */
} visit;

static void walk_frame(dg_proof *p, frame *f);

/* --- inputs and activation ------------------------------------------------------------------- */

static dg_seen read_wire(const frame *f, const dg_wire *w)
{
    return w->from ? f->out[w->from->index][w->port] : (dg_seen){ .only = -1 };
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

static const dg_port *star_of(const dg_node *node)
{
    for (const dg_port *p = node->class->ports; node->n_names && p && p->name; p++)
        if (strcmp(p->name, "*") == 0)
            return p;
    return NULL;
}

static bool is_star(const dg_node *node, int port)
{
    for (int i = 0; i < node->n_names; i++)
        if (node->names[i] == node->in_ports[port]->name)
            return true;
    return false;
}

/* One of a group must be there: it is missing where all are. */
static dg_vary group_present(const dg_node *node, const dg_seen in[])
{
    const dg_port *star = star_of(node);
    dg_vary        v = { 0 };

    for (int i = 0; star && !(star->flags & DG_PORT_OPTIONAL) && i < node->n_in; i++) {
        if (!is_star(node, i) || !in[i].there)
            continue;
        if (!in[i].present.axes)
            return (dg_vary){ 0 };
        v = dg_vary_join(v, in[i].present);
    }
    return v;
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

static dg_vary guard_of(dg_proof *p, const frame *f, const dg_node *node)
{
    const dg_wire *w = &node->when;
    dg_seen        g = read_wire(f, w);
    const char    *key, *from;

    if (!g.there)
        return (dg_vary){ 0 };
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
                          dg_printf(p->arena, "on %d", node->number),
                          "%s fires on rank %lld only", dg_vary_called(p, node),
                          (long long)node->on);
}

static void add_root(dg_proof *p, const dg_node *node, dg_absence absent, dg_vary present)
{
    if (present.axes && !p->lowered)
        DG_PUSH(p->arena, p->roots, ((dg_root){ node, absent, present }));
}

/* The one rank that everything that keeps this node from firing has in common; -1. */
static int only_rank(const visit *v, dg_vary around, dg_vary on)
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

static int activate(dg_proof *p, visit *v)
{
    const dg_node *node = v->node;
    dg_vary        around = v->f->fires, on = place_of(p, node);

    for (const dg_clocked *c = v->clock; c; c = c->up)
        around = dg_vary_join(around, dg_vary_join(c->fires, c->skip));
    v->guard = guard_of(p, v->f, node);
    v->own = dg_vary_join(v->guard, on);
    for (int i = 0; i < node->n_in; i++) {
        v->in[i] = read_wire(v->f, &node->in[i]);
        read_key(p, node, i, &v->in[i]);
        if (node->in_ports[i]->flags & DG_PORT_OPTIONAL)
            continue;
        v->never |= !v->in[i].there;
        if (!may_lack(p, node, i))
            v->own = dg_vary_join(v->own, v->in[i].present);
    }
    v->own = dg_vary_join(v->own, group_present(node, v->in));
    v->fires = dg_vary_join(around, v->own);
    if (node->connect)
        v->guard.axes = 0;
    add_root(p, node, DG_ABSENT_NODE, dg_vary_join(v->guard, on));
    return only_rank(v, around, on);
}

/* --- outputs before the rows ----------------------------------------------------------------- */

/* Where connect keeps outputs present, the guard does not count. */
static dg_vary output_present(dg_proof *p, const visit *v)
{
    dg_vary without = v->f->fires;

    if (!v->node->connect)
        return v->fires;
    for (const dg_clocked *c = v->clock; c; c = c->up)
        without = dg_vary_join(without, dg_vary_join(c->fires, c->skip));
    without = dg_vary_join(without, place_of(p, v->node));
    for (int i = 0; i < v->node->n_in; i++)
        if (!(v->node->in_ports[i]->flags & DG_PORT_OPTIONAL))
            without = dg_vary_join(without, v->in[i].present);
    return without;
}

static void union_of_inputs(const visit *v, dg_seen *out)
{
    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        if (!in->there)
            continue;
        out->value = dg_vary_join(out->value, in->value);
        out->inexact = dg_vary_join(out->inexact, in->inexact);
        out->size = dg_vary_join(out->size, in->size);
        out->lead = dg_vary_join(out->lead, in->lead);
        out->collective = in->collective > out->collective ? in->collective : out->collective;
        if (in->stream) {
            out->changes |= in->changes;
            out->leads |= in->leads;
            out->endless |= in->endless;
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

static void begin_outputs(dg_proof *p, visit *v, int only)
{
    const dg_node *node = v->node;
    dg_vary        present = output_present(p, v);

    for (int i = 0; i < node->n_out; i++) {
        dg_seen *out = &v->out[i];

        *out = (dg_seen){ .there = true,
                          .stream = dg_contract_is_stream(node->out_contracts[i]),
                          .only = only };
        union_of_inputs(v, out);
        plan_sizes(node, out);
        if (node->class->open)
            out->changes = true;
        if (out->stream)
            out->rate = dg_vary_join(out->rate, v->own);
        else
            out->present = present;
        if (!node->exact)
            out->inexact = dg_vary_source(p, p->live, node, node->where, false,
                                          dg_printf(p->arena, "exact %d", node->number),
                                          "%s may differ in the last bit from run to run "
                                          "(exact=\"false\")",
                                          dg_vary_called(p, node));
    }
}

/* --- rows ------------------------------------------------------------------------------------ */

static dg_vary from_source(dg_proof *p, const visit *v, const dg_rule *r, bool value)
{
    uint32_t axes = dg_rule_axes(p, v->node, r);

    return dg_vary_source(p, axes, v->node, v->node->where, value,
                          dg_printf(p->arena, "row %d.%d", v->node->number, (int)r->kind),
                          "%s %s: it differs over %s", dg_vary_called(p, v->node), r->why,
                          dg_vary_name(p, axes & p->live));
}

static dg_vary from_input(dg_proof *p, const visit *v, const dg_rule *r)
{
    int port = dg_rule_input(v->node, r);

    if (port < 0 || !v->in[port].there)
        return (dg_vary){ 0 };
    dg_vary value = v->in[port].stream ? v->in[port].value
                                       : dg_vary_join(v->in[port].present, v->in[port].value);

    return dg_vary_step(p, value, v->node, v->node->where,
                        dg_printf(p->arena, "row %d.%d", v->node->number, (int)r->kind), "%s %s",
                        dg_vary_called(p, v->node), r->why);
}

/* Rows about one output, or each of them. */
static void shape_output(dg_proof *p, visit *v, const dg_rule *r, dg_seen *out, int number)
{
    int     port = dg_rule_input(v->node, r);
    bool    scalar = port >= 0 && v->in[port].there && !v->in[port].stream;
    dg_vary from;

    switch (r->kind) {
    case DG_RULE_VALUE:
        out->value = dg_vary_join(out->value, from_source(p, v, r, true));
        break;
    case DG_RULE_PRESENCE:
        if (v->node->connect)
            break;
        from = from_input(p, v, r);
        out->present = dg_vary_join(out->present, from);
        out->only = from.axes ? -1 : out->only;
        add_root(p, v->node, (dg_absence)1 << number, from);
        break;
    case DG_RULE_DIMS:
        out->changes |= scalar;
        if (out->changes)
            out->size = dg_vary_join(out->size,
                                     r->from ? from_input(p, v, r) : from_source(p, v, r, false));
        break;
    case DG_RULE_LEADING:
        out->leads = true;
        break;
    case DG_RULE_RATE:
        out->rate =
            dg_vary_join(out->rate, r->from ? from_input(p, v, r) : from_source(p, v, r, false));
        break;
    case DG_RULE_EQUAL:
        out->rate = dg_vary_minus(out->rate, dg_rule_axes(p, v->node, r));
        break;
    case DG_RULE_ENDLESS:
        out->endless = true;
        break;
    case DG_RULE_INEXACT:
        out->inexact = dg_vary_join(out->inexact, from_source(p, v, r, false));
        break;
    case DG_RULE_PARTIAL:
        if (port >= 0)
            out->partial = dg_vary_join(out->partial, v->in[port].value);
        break;
    default:
        break;
    }
}

static void check_normaliser(dg_proof *p, const visit *v, const dg_rule *r)
{
    int     port = dg_rule_input(v->node, r);
    dg_vary left;

    if (port < 0 || !v->in[port].there)
        return;
    left = dg_vary_minus(v->in[port].value, r->axis ? dg_rule_axes(p, v->node, r) : 0);
    if (left.axes)
        dg_vary_fault(p, "DG-VALUE", v->node->where, left,
                      "%s %s of each rank of %s alone: the mean over ranks is then a mean of ratios, "
                      "and objects weigh differently on each rank",
                      dg_vary_called(p, v->node), r->why, dg_vary_name(p, left.axes))
            ->help = "axis=\"dp\" counts over all ranks, or bring the number from an <allreduce>";
}

static void check_nonlinear(dg_proof *p, const visit *v, int port)
{
    dg_vary part = v->in[port].partial;

    dg_vary_fault(p, "DG-VALUE", v->node->where, part,
                  "%s uses \"%s\" in a way that is not linear, and it is only this rank's summand "
                  "over %s: the norm of a partial sum is no partial norm",
                  dg_vary_called(p, v->node), v->node->in[port].from->id, dg_vary_name(p, part.axes))
        ->help = "put it after the <allreduce>";
    for (int i = 0; i < v->node->n_out; i++)
        v->out[i].value = dg_vary_minus(v->out[i].value, part.axes);
}

/* Is a pending sum allowed at this input: reduced here, passed on, or reported as state? */
static bool takes_partial(const dg_proof *p, const dg_node *node, int port)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if ((r->kind == DG_RULE_LINEAR ||
             ((r->kind == DG_RULE_STATE || dg_rule_is_collective(r)) &&
              dg_rule_input(node, r) == port)) &&
            dg_rule_holds(p, node, r))
            return true;
    return false;
}

static void check_partial(dg_proof *p, visit *v)
{
    for (int i = 0; i < v->node->n_in && v->node->n_out; i++) {
        if (!v->in[i].there || !v->in[i].partial.axes)
            continue;
        if (!takes_partial(p, v->node, i))
            check_nonlinear(p, v, i);
        else if (v->node->class->rules->kind == DG_RULE_LINEAR)
            v->out[0].partial = dg_vary_join(v->out[0].partial, v->in[i].partial);
    }
}

static void open_loop(dg_proof *p, visit *v, const dg_rule *r)
{
    dg_clocked *c = DG_NEW(p->arena, dg_clocked);
    int         port = dg_rule_input(v->node, r);

    c->up = v->clock;
    c->fires = v->fires;
    if (port >= 0 && v->in[port].there)
        c->rate = dg_vary_step(
            p,
            dg_vary_join(dg_vary_join(v->in[port].present, v->in[port].value), v->in[port].inexact),
            v->node, v->node->where, dg_printf(p->arena, "loop %d", v->node->number), "%s %s",
            dg_vary_called(p, v->node), r->why);
    v->f->loops[v->node->index] = c;
}

static void metric(dg_proof *p, visit *v, const dg_rule *r, dg_seen *out)
{
    uint32_t axes = dg_rule_axes(p, v->node, r) & p->live;

    dg_vary_collective(p, v->node, r, v->in, v->fires, v->clock, out);
    out->value = dg_vary_minus(out->value, axes);
    if (v->node == p->g->checkpoint.best)
        p->metric = dg_vary_join(dg_vary_join(out->value, out->present), out->inexact);
}

static void apply_row(dg_proof *p, visit *v, const dg_rule *r)
{
    const dg_node *node = v->node;
    dg_seen       *out = NULL, other = { .only = -1 };
    int            port = dg_rule_input(node, r);

    for (int i = 0; i < node->n_out; i++) {
        if (r->to && strcmp(r->to, node->out_ports[i]->name) == 0)
            out = &v->out[i];
        if (!r->to || out == &v->out[i])
            shape_output(p, v, r, &v->out[i], i);
    }
    out = out ? out : &other;
    if (dg_rule_is_collective(r))
        dg_vary_collective(p, node, r, v->in, dg_vary_join(v->fires, v->bypass), v->clock, out);
    switch (r->kind) {
    case DG_RULE_SEED:
        dg_vary_fault(p, "DG-SEED", node->where, from_source(p, v, r, false),
                      "%s %s: samples would be seen twice or never", dg_vary_called(p, node), r->why)
            ->help = "seed=\"shared\": one order, drawn alike on every rank";
        break;
    case DG_RULE_CORRELATED:
        if (port >= 0 && v->in[port].value.axes)
            dg_vary_warn(p, "DG-W-CORR", node->where, v->in[port].value,
                         "seed=\"sample\" or \"rank\" makes draws of different samples independent",
                         "%s %s: what each of them changes is changed alike", dg_vary_called(p, node),
                         r->why);
        break;
    case DG_RULE_NORMALISER:
        check_normaliser(p, v, r);
        break;
    case DG_RULE_STATE:
        dg_vary_state(p, node, r, v->in, v->fires);
        break;
    case DG_RULE_GRADIENTS:
        if (v->fires.axes)
            dg_vary_fault(p, "DG-GRAD", node->where, v->fires,
                          "%s may not take place on some ranks of %s: parameters would get a gradient "
                          "on some ranks only",
                          dg_vary_called(p, node), dg_vary_name(p, v->fires.axes))
                ->help = "decide together: <agree in=\"...\" op=\"any\" axis=\"...\"/> gives one "
                         "answer to all ranks";
        break;
    case DG_RULE_BYPASS:
        v->bypass = dg_vary_join(v->bypass, from_input(p, v, r));
        break;
    case DG_RULE_METRIC:
        metric(p, v, r, out);
        break;
    case DG_RULE_SKIP:
        v->clock->skip = dg_vary_join(v->clock->skip, v->fires);
        break;
    case DG_RULE_STOP:
        v->clock->rate = dg_vary_join(v->clock->rate, v->fires);
        break;
    case DG_RULE_LOOP:
        open_loop(p, v, r);
        break;
    default:
        break;
    }
}

/* Rows that say what a node leaves out come before those that hang on it. */
static void apply_rows(dg_proof *p, visit *v)
{
    for (int round = 0; round < 2; round++)
        for (const dg_rule *r = v->node->class->rules; r && r->kind; r++)
            if ((r->kind == DG_RULE_BYPASS) == (round == 0) && dg_rule_holds(p, v->node, r))
                apply_row(p, v, r);
    for (const dg_collective *c = v->node->class->collectives; c && c->kind; c++) {
        dg_rule r = { DG_RULE_ALLREDUCE, .from = c->operand, .axis = c->axis, .why = c->kind };

        if (c->axis)
            dg_vary_collective(p, v->node, &r, v->in, v->fires, v->clock, NULL);
    }
}

static void apply_flags(dg_proof *p, visit *v)
{
    for (int i = 0; i < v->node->n_out; i++) {
        uint32_t flags = v->node->out_ports[i]->flags;
        dg_rule  r = { .why = flags & DG_PORT_VARIES  ? "has values of this rank's own"
                              : flags & DG_PORT_DROPS ? "may drop items"
                                                      : "gives nothing where its input holds nothing" };
        dg_seen *out = &v->out[i];

        if (flags & DG_PORT_VARIES)
            out->value = dg_vary_join(out->value, from_source(p, v, &r, true));
        if (flags & DG_PORT_INVARIANT)
            out->value.axes = out->inexact.axes = out->partial.axes = 0;
        if (flags & (DG_PORT_DROPS | DG_PORT_EMPTY_ABSENT)) {
            dg_vary step = dg_vary_step(p, out->value, v->node, v->node->where,
                                        dg_printf(p->arena, "flag %d", v->node->number), "%s %s",
                                        dg_vary_called(p, v->node), r.why);

            if (flags & DG_PORT_DROPS)
                out->rate = dg_vary_join(out->rate, step);
            else if (!v->node->connect) {
                out->present = dg_vary_join(out->present, step);
                add_root(p, v->node, (dg_absence)1 << i, step);
            }
        }
        if (out->leads && out->stream)
            out->lead = dg_vary_join(out->lead, out->rate);
        if (v->node->out_contracts[i]->kind == DG_TYPE_PARAMETERS)
            out->value.axes = out->partial.axes = 0; /* state: said where it is updated */
        if (out->collective < p->meetings.n && p->meetings.n &&
            p->meetings.items[p->meetings.n - 1].node == v->node)
            out->collective = p->meetings.n;
    }
}

/* --- nodes ----------------------------------------------------------------------------------- */

/* A stream ends here: it drives the loop. */
static void drive(dg_proof *p, visit *v)
{
    if (!v->node->class->feeds)
        return;
    for (int i = 0; i < v->node->n_in; i++) {
        if (!v->in[i].there || !v->in[i].stream)
            continue;
        if (!(v->in[i].endless && v->clock->timed))
            v->clock->rate = dg_vary_join(v->clock->rate, v->in[i].rate);
        if (v->in[i].size.axes) {
            p->skewed = v->node;
            p->skew = v->in[i].size;
        }
    }
}

static void walk_use(dg_proof *p, visit *v)
{
    const dg_scope *m = v->node->model;
    frame           inside = {
                  .scope = m, .inputs = v->in, .fires = v->fires, .clock = v->clock
    };

    walk_frame(p, &inside);
    for (int i = 0; i < v->node->n_out; i++)
        v->out[i] = inside.out[m->output->index][i];
}

static void mark(const dg_proof *p, const visit *v)
{
    for (int i = 0; p->marks && i < v->node->n_out; i++) {
        dg_vary seen = dg_vary_join(v->out[i].value, dg_vary_join(v->out[i].present, v->out[i].rate));
        dg_str  text = { 0 };

        for (int k = 0; k < p->n_axes; k++)
            if (seen.axes >> k & 1)
                dg_str_fmt(&text, "%s%s", text.n ? "+" : "", p->axes[k].name);
        p->marks->varies[v->node->number][i] = text.s ? dg_strdup(p->arena, text.s) : NULL;
        dg_str_free(&text);
    }
}

static void visit_node(dg_proof *p, frame *f, const dg_node *node)
{
    visit v = { .f = f,
                .node = node,
                .clock = node->loop ? f->loops[node->loop->index] : f->clock,
                .in = DG_NEW_N(p->arena, node->n_in, dg_seen),
                .out = DG_NEW_N(p->arena, node->n_out, dg_seen) };
    int   only;

    f->out[node->index] = v.out;
    if (node->class == &dg_class_input) {
        for (int i = 0; f->inputs && i < f->scope->n_inputs; i++)
            if (f->scope->inputs[i] == node)
                v.out[0] = f->inputs[i];
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
    check_partial(p, &v);
    if (node->model)
        walk_use(p, &v);
    apply_rows(p, &v);
    apply_flags(p, &v);
    dg_vary_device(p, node, v.in, v.out);
    drive(p, &v);
    mark(p, &v);
}

static void walk_frame(dg_proof *p, frame *f)
{
    f->out = DG_NEW_N(p->arena, f->scope->n_nodes, dg_seen *);
    f->loops = DG_NEW_N(p->arena, f->scope->n_nodes, dg_clocked *);
    for (int i = 0; i < f->scope->n_nodes; i++)
        visit_node(p, f, f->scope->nodes[i]);
}

void dg_vary_walk(dg_proof *p, dg_vary fires)
{
    frame f = { .scope = p->scope, .fires = fires, .clock = p->clock };

    walk_frame(p, &f);
}
