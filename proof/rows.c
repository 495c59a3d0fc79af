/* rows.c: applies a class's rules to a node: properties of its outputs beyond those from its
 * inputs, and its requirements. */
#include <string.h>

#include "proof/vary.h"

/* Over the axes that the rule names; over all if the attribute could name them but does not. */
static dg_vary from_source(dg_proof *p, const dg_visit *v, const dg_rule *r, bool value)
{
    uint32_t axes = dg_vary_row_axes(p, v->node, r);

    if (!axes && r->axis && r->kind != DG_RULE_SEED)
        axes = p->live;
    return dg_vary_source(p, axes, v->node, v->node->where, value,
                          dg_printf(p->arena, "row %d.%d", v->node->number, (int)r->kind),
                          "%s %s: it differs over %s", dg_vary_called(p, v->node), r->why,
                          dg_vary_name(p, axes & p->live));
}

static dg_vary from_input(dg_proof *p, const dg_visit *v, const dg_rule *r)
{
    int port = dg_rule_input(v->node, r);

    if (port < 0 || !v->in[port].there)
        return (dg_vary){ 0 };
    dg_vary value = v->in[port].value;

    if (!v->in[port].stream)
        value = dg_vary_join(dg_vary_join(v->in[port].present, value), v->in[port].inexact);

    return dg_vary_step(p, value, v->node, v->node->where,
                        dg_printf(p->arena, "row %d.%d", v->node->number, (int)r->kind), "%s %s",
                        dg_vary_called(p, v->node), r->why);
}

/* Where an input is absent on all ranks of the row's axes. */
static dg_vary absent_on_all(dg_proof *p, const dg_visit *v, const dg_rule *r)
{
    const dg_seen *in = &v->in[dg_rule_input(v->node, r)];
    dg_vary apart = dg_vary_minus(in->present, dg_vary_row_axes(p, v->node, r));

    return dg_vary_step(p, apart, v->node, v->node->where,
                        dg_printf(p->arena, "row %d.%d", v->node->number, (int)r->kind), "%s %s",
                        dg_vary_called(p, v->node), r->why);
}

void dg_vary_count(dg_seen *out, dg_vary rate)
{
    out->rate = dg_vary_join(out->rate, rate);
    if (out->endless)
        out->after = dg_vary_join(out->after, rate);
}

/* Each input remains a separate value under its name. */
static void give_keys(dg_proof *p, const dg_visit *v, dg_seen *out)
{
    dg_keyed *keys = DG_NEW_N(p->arena, v->node->n_in, dg_keyed);

    out->keys = keys;
    for (int i = 0; i < v->node->n_in; i++)
        if (v->in[i].there)
            keys[out->n_keys++] = (dg_keyed){ v->node->in_ports[i]->name, v->in[i] };
    dg_vary_settle(p, v, out);
}

/* Applies a rule to one output, or to each. */
static void shape_output(dg_proof *p, dg_visit *v, const dg_rule *r, dg_seen *out, int number)
{
    int port = dg_rule_input(v->node, r);
    bool scalar = port >= 0 && v->in[port].there && !v->in[port].stream;
    dg_vary from;

    switch (r->kind) {
    case DG_RULE_VALUE:
        out->value = dg_vary_join(out->value, from_source(p, v, r, true));
        break;
    case DG_RULE_PRESENCE:
        if (r->axis && v->in[port].there && !v->in[port].may && !v->in[port].present.axes)
            break;
        from = r->axis ? absent_on_all(p, v, r) : from_input(p, v, r);
        if (v->node->connect) {
            out->value = dg_vary_join(out->value, from);
            break;
        }
        out->may = true;
        out->enough = DG_VARY_NEVER;
        out->present = dg_vary_join(out->present, from);
        dg_vary_root(p, v->node, (dg_absence)1 << number, from, -1);
        break;
    case DG_RULE_DIMS:
        out->changes |= scalar;
        if (out->changes)
            out->size = dg_vary_join(out->size,
                                     r->from ? from_input(p, v, r) : from_source(p, v, r, false));
        /* the smaller batch may be anywhere in the plan */
        if (out->leads && !r->from && !r->axis)
            out->lead = dg_vary_join(out->lead, from_source(p, v, r, false));
        break;
    case DG_RULE_LEADING:
        if (!r->axis)
            out->leads = true;
        else if (out->leads)
            out->lead = dg_vary_join(out->lead, from_source(p, v, r, false));
        break;
    case DG_RULE_RATE:
        dg_vary_count(out, r->from ? from_input(p, v, r) : from_source(p, v, r, false));
        break;
    case DG_RULE_EQUAL:
        out->rate = dg_vary_minus(out->rate, dg_vary_row_axes(p, v->node, r));
        out->after = dg_vary_minus(out->after, dg_vary_row_axes(p, v->node, r));
        break;
    case DG_RULE_ENDLESS:
        out->endless = true;
        break;
    case DG_RULE_INEXACT:
        out->inexact = dg_vary_join(out->inexact, from_source(p, v, r, false));
        break;
    case DG_RULE_KEYS:
        give_keys(p, v, out);
        break;
    case DG_RULE_PARTIAL:
        if (port < 0)
            break;
        from = dg_vary_join(v->in[port].value, v->in[port].made);
        out->partial = dg_vary_join(out->partial, from);
        out->value = dg_vary_join(out->value, from);
        break;
    default:
        break;
    }
}

static void check_normaliser(dg_proof *p, const dg_visit *v, const dg_rule *r)
{
    int port = dg_rule_input(v->node, r);
    dg_vary left;

    if (port < 0 || !v->in[port].there)
        return;
    left = dg_vary_join(dg_vary_join(v->in[port].value, v->in[port].present), v->in[port].inexact);
    left = dg_vary_minus(left, r->axis ? dg_vary_row_axes(p, v->node, r) : 0);
    if (left.axes)
        dg_vary_fault(
            p, "DG-VALUE", v->node->where, left,
            "%s %s of each rank of %s alone: the mean over ranks is then a mean of ratios, "
            "and objects weigh differently on each rank",
            dg_vary_called(p, v->node), r->why, dg_vary_name(p, left.axes))
            ->help = dg_vary_counted(p, v->node, r, port, left);
}

/* True if sinks alone read the node: what they show is this rank's own. */
static bool only_shown(const dg_node *node)
{
    const dg_scope *s = node->scope;
    int n = 0;

    for (int i = node->index + 1; i < s->n_nodes; i++) {
        const dg_node *by = s->nodes[i];
        bool reads = false;

        if (by->when.from == node)
            return false;
        for (int k = 0; k < by->n_in; k++)
            reads |= by->in[k].from == node;
        if (reads && !by->class->take && !(dg_node_has_row(by, DG_RULE_KEYS) && only_shown(by)))
            return false;
        n += reads;
    }
    return n > 0;
}

static void check_nonlinear(dg_proof *p, const dg_visit *v, int port)
{
    dg_vary part = v->in[port].partial;

    if (v->node->in_types[port]->kind == DG_TYPE_GRADIENTS && only_shown(v->node))
        return; /* a number of this rank's own, as the gradient is */
    dg_vary_fault(p, "DG-VALUE", v->node->where, part,
                  "%s uses \"%s\" in a way that is not linear, and it is only this rank's summand "
                  "over %s: the norm of a partial sum is no partial norm",
                  dg_vary_called(p, v->node), v->node->in[port].from->id,
                  dg_vary_name(p, part.axes))
        ->help = dg_vary_through(p, v->node, port, "allreduce op=\"mean\"", part.axes);
    for (int i = 0; i < v->node->n_out; i++)
        v->out[i].value = dg_vary_minus(v->out[i].value, part.axes);
}

/* Reports adding what all ranks have to a pending sum: it would count once per rank. */
static void check_added(dg_proof *p, const dg_visit *v, int port)
{
    for (int i = 0; i < v->node->n_in; i++) {
        dg_vary twice =
            dg_vary_minus(v->in[port].partial, v->in[i].value.axes | v->in[i].partial.axes);

        if (!v->in[i].there || !twice.axes)
            continue;
        dg_vary_fault(
            p, "DG-VALUE", v->node->where, twice,
            "%s adds \"%s\", which all ranks have, to a summand of each rank of %s: in the "
            "sum over them it counts once for each rank",
            dg_vary_called(p, v->node), v->node->in[i].from->id, dg_vary_name(p, twice.axes))
            ->help = dg_printf(p->arena, "add it behind the <allreduce>: %s",
                               dg_edit_drop(p->g, v->node, v->node->in_ports[i]->name));
        return;
    }
}

static bool has_row(const dg_proof *p, const dg_node *node, dg_rule_kind kind)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->kind == kind && dg_rule_holds(node, p->train, r))
            return true;
    return false;
}

/* True if a pending sum is reduced at this input, or reported as state. */
static bool takes_partial(const dg_proof *p, const dg_node *node, int port)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if ((r->kind == DG_RULE_STATE || dg_rule_is_collective(r)) &&
            dg_rule_input(node, r) == port && dg_rule_holds(node, p->train, r))
            return true;
    return false;
}

void dg_vary_partial(dg_proof *p, dg_visit *v)
{
    bool linear = has_row(p, v->node, DG_RULE_LINEAR), apart = has_row(p, v->node, DG_RULE_KEYS);

    for (int i = 0; i < v->node->n_in && v->node->n_out; i++) {
        if (!v->in[i].there || !v->in[i].partial.axes)
            continue;
        if (linear && !apart)
            check_added(p, v, i);
        if (!linear && !takes_partial(p, v->node, i))
            check_nonlinear(p, v, i);
        for (int o = 0; o < v->node->n_out && linear; o++)
            v->out[o].partial = dg_vary_join(v->out[o].partial, v->in[i].partial);
    }
}

/* Checks that ranks which divide a stream have the same one. */
static void check_seed(dg_proof *p, const dg_visit *v, const dg_rule *r)
{
    uint32_t axes = dg_vary_row_axes(p, v->node, r);
    dg_vary order = r->from ? dg_vary_only(from_input(p, v, r), axes) : from_source(p, v, r, false);

    if (order.axes)
        dg_vary_fault(p, "DG-SEED", v->node->where, order,
                      "%s %s: samples would be seen twice or never", dg_vary_called(p, v->node),
                      r->why)
            ->help = !r->from ? dg_edit_write(p->g, v->node, "seed", "shared")
                     : v->node->class->schedule
                         ? dg_edit_drop(p->g, v->node, dg_vary_axes_attr(v->node))
                         : dg_edit_without(p->g, v->node);
}

/* A draw that is the same for samples that differ between ranks. */
static void check_correlated(dg_proof *p, const dg_visit *v, const dg_rule *r)
{
    int port = dg_rule_input(v->node, r);

    if (port >= 0 && v->in[port].value.axes)
        dg_vary_warn(p, "DG-W-CORR", v->node->where, v->in[port].value,
                     dg_edit_write(p->g, v->node, "seed", "sample"),
                     "%s %s: what each of them changes is changed alike",
                     dg_vary_called(p, v->node), r->why);
}

/* A backward pass that some ranks leave out. */
static void check_gradients(dg_proof *p, const dg_visit *v)
{
    if (v->fires.axes)
        dg_vary_fault(p, "DG-GRAD", v->node->where, v->fires,
                      "%s may not take place on some ranks of %s: parameters would get a gradient "
                      "on some ranks only",
                      dg_vary_called(p, v->node), dg_vary_name(p, v->fires.axes))
            ->help = dg_vary_advice(p, v->fires, NULL);
}

static void apply_row(dg_proof *p, dg_visit *v, const dg_rule *r)
{
    const dg_node *node = v->node;
    dg_seen *out = NULL, other = { 0 };

    for (int i = 0; v->out && i < node->n_out; i++) {
        if (r->to && strcmp(r->to, node->out_ports[i]->name) == 0)
            out = &v->out[i];
        if (!r->to || out == &v->out[i])
            shape_output(p, v, r, &v->out[i], i);
    }
    out = out ? out : &other;
    if (dg_rule_is_collective(r))
        dg_vary_collective(p, node, r, v->in, dg_vary_join(v->fires, v->bypass), out);
    switch (r->kind) {
    case DG_RULE_SEED:
        check_seed(p, v, r);
        break;
    case DG_RULE_EQUAL:
        dg_vary_agreement(p, node, dg_vary_row_axes(p, node, r), dg_vary_join(v->own, v->f->fires));
        break;
    case DG_RULE_CORRELATED:
        check_correlated(p, v, r);
        break;
    case DG_RULE_NORMALISER:
        check_normaliser(p, v, r);
        break;
    case DG_RULE_STATE:
        dg_vary_state(p, node, r, v->in, v->fires);
        break;
    case DG_RULE_GRADIENTS:
        check_gradients(p, v);
        break;
    case DG_RULE_BYPASS:
        v->bypass = dg_vary_join(v->bypass, from_input(p, v, r));
        break;
    case DG_RULE_METRIC: /* all ranks join what they found, in whatever steps they took it */
        dg_vary_collective(p, node, r, v->in, v->at ? v->fires : v->f->fires, out);
        break;
    case DG_RULE_SKIP:
        p->clock->skip = dg_vary_join(p->clock->skip, v->fires);
        break;
    case DG_RULE_STOP:
        p->clock->rate = dg_vary_join(p->clock->rate, v->fires);
        p->clock->ends = dg_vary_join(p->clock->ends, v->fires);
        p->clock->stops = true;
        break;
    default:
        break;
    }
}

/* Rules about what a node leaves out come before those that depend on it. */
static void apply_rows(dg_proof *p, dg_visit *v)
{
    for (int round = 0; round < 2; round++)
        for (const dg_rule *r = v->node->class->rules; r && r->kind; r++)
            if ((r->kind == DG_RULE_BYPASS) == (round == 0) && dg_rule_holds(v->node, p->train, r))
                apply_row(p, v, r);
    for (const dg_collective *c = v->node->class->collectives; c && c->kind; c++) {
        dg_rule r = { DG_RULE_ALLREDUCE, .from = c->operand, .axis = c->axis, .why = c->kind };

        if (c->axis)
            dg_vary_collective(p, v->node, &r, v->in, v->fires, NULL);
    }
}

static void apply_flags(dg_proof *p, dg_visit *v)
{
    for (int i = 0; i < v->node->n_out; i++) {
        uint32_t flags = v->node->out_ports[i]->flags;
        dg_rule r = { .why = flags & DG_PORT_VARIES
                                 ? "has values of this rank's own"
                                 : "gives nothing where its input holds nothing" };
        dg_seen *out = &v->out[i];

        if (flags & DG_PORT_VARIES)
            out->value = dg_vary_join(out->value, from_source(p, v, &r, true));
        if (flags & DG_PORT_INVARIANT) {
            out->inexact.axes = v->node->exact ? 0 : out->inexact.axes;
            out->partial.axes = 0;
            out->value = v->zeros;
        }
        if (flags & DG_PORT_EMPTY_ABSENT && !v->node->connect) {
            dg_vary step = dg_vary_step(p, out->value, v->node, v->node->where,
                                        dg_printf(p->arena, "flag %d", v->node->number), "%s %s",
                                        dg_vary_called(p, v->node), r.why);

            out->may = true;
            out->enough = DG_VARY_NEVER;
            out->present = dg_vary_join(out->present, step);
            dg_vary_root(p, v->node, (dg_absence)1 << i, step, -1);
        }
        if (out->leads && out->stream)
            out->lead = dg_vary_join(out->lead, out->rate);
        if (v->node->out_contracts[i]->kind == DG_TYPE_PARAMETERS)
            out->value.axes = out->partial.axes = 0; /* state: reported where it is updated */
    }
}

void dg_vary_rows(dg_proof *p, dg_visit *v)
{
    apply_rows(p, v);
    apply_flags(p, v);
}
