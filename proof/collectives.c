/* collectives.c: checks collectives and replicated state. A collective over axes A is legal if A is
 * disjoint from its activation, from the presence of its operand or of each of its keys, from each
 * dimension of it, and from the clock of its scope, and if one thread launches all of them. */
#include <string.h>

#include "graph/structure.h"
#include "proof/vary.h"

/* ---- operands -------------------------------------------------------------------------------- */

/* Reports keys that are missing with one root as one fault: the first key, and the number of
 * others. If the whole record may be missing, keys do not matter. */
static void lost_keys(dg_proof *p, const dg_node *node, int port, dg_vary present, uint32_t axes,
                      int root)
{
    const dg_node *from = node->in[port].from;
    const char *key = NULL;
    dg_vary missing = dg_vary_only(p->roots.items[root].present, axes);
    int n = 0, all = 0;

    for (int i = p->first_fact[node->number]; i >= 0; i = p->facts.items[i].next)
        if (p->facts.items[i].port == port && *p->facts.items[i].key) {
            all++;
            if (p->facts.items[i].lost != root)
                continue;
            key = p->facts.items[i].key; /* the list begins with the last one */
            n++;
        }
    if (!key || !missing.axes || (n == all && !(missing.axes & ~present.axes)))
        return;
    missing = dg_vary_step(p, missing, from, from->where, "key",
                           "%s.%s comes from %s, which gives it only where \"%s\" is there",
                           from->id, key, dg_vary_called(p, from), p->roots.items[root].node->id);
    dg_vary_finding *f =
        dg_vary_fault(p, "DG-KEYS", node->where, missing,
                      "%s over %s needs key \"%s\"%s on every rank, but it may be missing on some",
                      dg_vary_called(p, node), dg_vary_name(p, missing.axes), key,
                      n > 1 ? dg_printf(p->arena, " (and %d more)", n - 1) : "");
    f->help = dg_vary_connect(p, missing, &f->way);
}

static void operand_keys(dg_proof *p, const dg_node *node, int port, dg_vary present, uint32_t axes)
{
    for (int root = 0; p->lowered && root < p->roots.n; root++)
        lost_keys(p, node, port, present, axes, root);
}

/* How the operand's shape varies. */
static dg_vary operand_shape(const dg_proof *p, const dg_node *node, int port, bool ragged,
                             const dg_seen *operand)
{
    dg_vary v = { 0 };
    bool by_size = !p->lowered, by_lead = !p->lowered && !ragged;

    for (int i = p->lowered ? p->first_fact[node->number] : -1; i >= 0;
         i = p->facts.items[i].next) {
        const dg_vary_fact *f = &p->facts.items[i];

        if (f->port != port && (f->port != DG_VARY_INNER || ragged))
            continue;
        by_size |= ragged ? f->inner_by_size : f->by_size;
        by_lead |= ragged ? f->inner_by_lead : f->by_lead;
    }
    if (by_size)
        v = dg_vary_join(v, operand->size);
    if (by_lead)
        v = dg_vary_join(v, operand->lead);
    return v;
}

/* Reports summing what is equal on all ranks. key: of the operand, "" for itself. */
static void check_sum(dg_proof *p, const dg_node *node, const dg_seen *in, const char *key,
                      uint32_t axes)
{
    uint32_t same = axes & ~dg_vary_join(in->value, in->partial).axes;

    for (int i = 0; i < in->n_keys; i++)
        check_sum(p, node, &in->keys[i].seen,
                  dg_printf(p->arena, "%s%s%s", key, *key ? "." : "", in->keys[i].name), axes);
    if (in->n_keys || !same)
        return;
    dg_vary none =
        dg_vary_source(p, same, node, node->where, true, "sum",
                       "what it sums is the same on all ranks of %s", dg_vary_name(p, same));

    dg_vary_fault(p, "DG-VALUE", node->where, none,
                  "%s sums over %s a value%s that is the same on all its ranks: it is multiplied "
                  "by their number",
                  dg_vary_called(p, node), dg_vary_name(p, same),
                  *key ? dg_printf(p->arena, ", its key \"%s\",", key) : "")
        ->help = dg_edit_write(p->g, node, "op", "mean");
}

static void check_shape(dg_proof *p, const dg_node *node, int port, bool ragged, const dg_seen *in,
                        uint32_t axes)
{
    dg_vary_finding *f;
    dg_vary shape;

    if (!(in->size.axes & axes || in->lead.axes & axes))
        return;
    p->wants_sizes = true;
    shape = dg_vary_only(operand_shape(p, node, port, ragged, in), axes);
    if (!shape.axes)
        return;
    f = dg_vary_fault(p, "DG-SHAPE", node->where, shape,
                      "%s over %s needs one shape on all ranks, but a dimension of its operand "
                      "may differ among them",
                      dg_vary_called(p, node), dg_vary_name(p, shape.axes));
    f->help = dg_vary_shape_way(p, shape, &f->way);
}

/* A collective inside the node is to be of fixed size; lowering shows whether it is. */
static void check_inner(dg_proof *p, const dg_node *node, const dg_seen in[], uint32_t axes)
{
    dg_seen all = { 0 };

    for (int i = 0; i < node->n_in; i++) {
        all.size = dg_vary_join(all.size, in[i].size);
        all.lead = dg_vary_join(all.lead, in[i].lead);
    }
    if (p->lowered) /* nothing is wrong until lowering has shown it */
        check_shape(p, node, DG_VARY_INNER, false, &all, axes);
    else
        p->wants_sizes |= (all.size.axes | all.lead.axes) & axes;
}

static void check_operand(dg_proof *p, const dg_node *node, const dg_rule *r, int port,
                          const dg_seen *in, uint32_t axes)
{
    const char *op = dg_rule_reduction(p->arena, node);
    bool ragged = r->kind == DG_RULE_ALLGATHERV;

    operand_keys(p, node, port, in->present, axes);
    check_shape(p, node, port, ragged, in, axes);
    if ((r->kind == DG_RULE_ALLREDUCE || r->kind == DG_RULE_REDUCE) && op && strcmp(op, "sum") == 0)
        check_sum(p, node, in, "", axes);
}

static bool takes_gradients(const dg_node *node, int port)
{
    const dg_wire *w = &node->in[port];

    return node->in_types[port]->kind == DG_TYPE_GRADIENTS ||
           (w->from && w->from->out_contracts[w->port]->kind == DG_TYPE_GRADIENTS);
}

/* Warns of gradients that every rank has alike: all train on the same batches. */
static void check_alike(dg_proof *p, const dg_node *node, const dg_seen *in, uint32_t axes)
{
    uint32_t same = axes & ~dg_vary_join(in->value, in->partial).axes;
    const dg_node *sampler = same ? dg_vary_sampler(p->scope) : NULL;

    if (!sampler || dg_node_axes_given(sampler))
        return;
    dg_vary_warn(p, "DG-W-SAME", sampler->where, (dg_vary){ .axes = same },
                 dg_edit_write(p->g, sampler, "axis", p->axes[0].name),
                 "%s has the same batches on all ranks of %s, and %s averages gradients that are "
                 "the same",
                 dg_vary_called(p, sampler), dg_vary_name(p, same), dg_edit_placed(p->g, node));
}

/* Warns of a guard that speaks of one batch of several. */
void dg_vary_accumulated(dg_proof *p, const dg_visit *v)
{
    const dg_node *node = v->node;
    bool gradients = false;

    for (int i = 0; i < node->n_in; i++)
        gradients |= takes_gradients(node, i);
    if (!p->train || !p->live || p->scope->accumulate < 2 || !v->guarded || !gradients)
        return;
    dg_vary_warn(p, "DG-W-LAST", node->where, (dg_vary){ .axes = p->live },
                 dg_edit_drop(p->g, node, "when"),
                 "%s fires once for %lld batches, and its guard is that of the last of them",
                 dg_vary_called(p, node), (long long)p->scope->accumulate);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void check_thread(dg_proof *p, const dg_node *node, uint32_t axes)
{
    dg_vary race = dg_vary_source(p, axes, node, node->where, false, "thread",
                                  "its operand is data on its way, which loader threads handle");

    dg_vary_fault(p, "DG-ORDER", node->where, race,
                  "%s over %s is launched by a loader thread, beside the collectives of the step: "
                  "two threads race, and the order may differ among ranks",
                  dg_vary_called(p, node), dg_vary_name(p, axes))
        ->help = dg_edit_without(p->g, node);
}

static void check_firing(dg_proof *p, const dg_node *node, dg_vary fires, uint32_t axes)
{
    dg_vary v = dg_vary_only(fires, axes);

    if (!v.axes)
        return;
    dg_vary_fault(p, "DG-PRES", node->where, v,
                  "%s over %s may not take part on some ranks, and the others would wait for them",
                  dg_vary_called(p, node), dg_vary_name(p, v.axes))
        ->help = dg_vary_advice(p, v, NULL);
}

/* A root that lacks its operand sends zeros; one that never has it sends nothing else. */
static void never_sent(dg_proof *p, const dg_node *node, dg_vary present, int at, uint32_t axes)
{
    const char *root = at > 0 && axes == p->live
                           ? dg_edit_write(p->g, node, "root", dg_printf(p->arena, "%d", at - 1))
                           : dg_vary_advice(p, present, NULL);

    dg_vary_fault(p, "DG-PRES", node->where, present,
                  "%s over %s sends zeros in every step: its root, rank %lld, never has the "
                  "operand%s",
                  dg_vary_called(p, node), dg_vary_name(p, axes), (long long)dg_rule_root(node),
                  at > 0 ? dg_printf(p->arena, ", which is on rank %d alone", at - 1)
                         : ": no rank can have it")
        ->help = root;
}

uint32_t dg_vary_reduced_over(const dg_proof *p, const dg_node *node)
{
    uint32_t axes = 0;

    for (const dg_rule *r = node ? node->class->rules : NULL; r && r->kind; r++)
        if (r->kind == DG_RULE_REDUCE && dg_rule_holds(node, p->train, r))
            axes |= dg_vary_row_axes(p, node, r);
    return axes & p->live;
}

/* Reports taking, from ranks that are not the root of a reduction, what they had before it. */
static void check_reduced(dg_proof *p, const dg_node *node, const dg_rule *r, int port,
                          const dg_seen *operand, uint32_t axes)
{
    const dg_node *by = operand->reduced;
    const uint32_t over = dg_vary_reduced_over(p, by);
    const char *root = dg_printf(p->arena, "%lld", (long long)dg_rule_root(by));
    const bool sends = r->kind == DG_RULE_BROADCAST && axes == over;

    if (!(over & axes) || (sends && dg_rule_root(node) == dg_rule_root(by)))
        return;
    dg_vary_fault(p, "DG-VALUE", node->where, dg_vary_only(operand->value, over & axes),
                  "%s over %s takes from ranks other than %s what they had before %s, which leaves "
                  "its result on rank %s alone",
                  dg_vary_called(p, node), dg_vary_name(p, axes), root, dg_edit_placed(p->g, by),
                  root)
        ->help = sends ? dg_edit_write(p->g, node, "root", root)
                       : dg_vary_through(p, node, port,
                                         dg_printf(p->arena, "broadcast root=\"%s\"", root), over);
}

static void add_meeting(dg_proof *p, const dg_node *node, uint32_t axes, bool at_end)
{
    DG_PUSH(p->arena, p->meetings, ((dg_vary_meeting){ node, axes, at_end }));
    p->clock->shared = true;
}

void dg_vary_agreement(dg_proof *p, const dg_node *node, uint32_t axes, dg_vary fires)
{
    axes &= p->live;
    if (!axes)
        return;
    check_firing(p, node, fires, axes);
    DG_PUSH(p->arena, p->agreements, ((dg_vary_meeting){ .node = node, .axes = axes }));
    p->clock->shared = true;
}

static void set_result(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen *in,
                       dg_vary fires, uint32_t axes, dg_seen *out)
{
    dg_vary value = in->value;

    if (r->kind == DG_RULE_REDUCE) {
        out->reduced = node;
        out->value = dg_vary_join(dg_vary_source(p, axes, node, node->where, true, "root",
                                                 "%s leaves the result on the root alone",
                                                 dg_vary_called(p, node)),
                                  value);
        return;
    }
    if (r->kind == DG_RULE_AGREE)
        value = dg_vary_join(value, dg_vary_step(p, in->present, node, node->where, "vote",
                                                 "%s hears only those who have an operand",
                                                 dg_vary_called(p, node)));
    if (r->kind == DG_RULE_BROADCAST) /* of roots along another axis, some may have none */
        value = dg_vary_join(value, dg_vary_step(p, in->present, node, node->where, "zeros",
                                                 "%s sends zeros where its root has no operand",
                                                 dg_vary_called(p, node)));
    out->value = dg_vary_minus(value, axes);
    if (dg_vary_reduced_over(p, out->reduced) & axes)
        out->reduced = NULL;
    out->made = in->made;
    if (in->learned)
        out->made = dg_vary_join(in->made, dg_vary_join(in->present, in->value));
    if (in->learned && r->kind != DG_RULE_ALLREDUCE) /* the root's, or this rank's rows of it */
        out->made = dg_vary_join(out->made, dg_vary_source(p, axes, node, node->where, true, "own",
                                                           "%s has a gradient for each rank",
                                                           dg_vary_called(p, node)));
    out->partial = dg_vary_minus(in->partial, axes);
    out->inexact = dg_vary_join(dg_vary_minus(in->inexact, axes), dg_vary_own_kernels(p, node));
    if (r->kind == DG_RULE_ALLGATHERV) /* every rank gets all rows */
        out->lead = dg_vary_minus(out->lead, axes);
    out->present = fires; /* of a broadcast, too: a root that lacks its operand sends zeros */
}

/* What a root or voters may lack is there for all: whatever the operand needed, the result needs
 * only that the node fires. */
static void set_there(dg_seen *key, const dg_seen *record)
{
    key->may = record->may;
    key->at = record->at;
    key->needs = record->needs;
    key->enough = record->enough;
}

/* Sets the results; for a record, per key. */
static void set_results(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen *in,
                        dg_vary fires, uint32_t axes, dg_seen *out)
{
    dg_keyed *keys = DG_NEW_N(p->arena, in->n_keys, dg_keyed);

    set_result(p, node, r, in, fires, axes, out);
    out->keys = keys;
    out->n_keys = in->n_keys;
    for (int i = 0; i < in->n_keys; i++) {
        dg_seen key = in->keys[i].seen;

        key.present = dg_vary_join(key.present, in->present); /* a key is missing with its record */
        keys[i] = in->keys[i];
        keys[i].seen.flag = ++p->n_values;
        if (r->kind == DG_RULE_BROADCAST || r->kind == DG_RULE_AGREE)
            set_there(&keys[i].seen, out);
        set_results(p, node, r, &key, fires, axes, &keys[i].seen);
    }
}

void dg_vary_collective(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen in[],
                        dg_vary fires, dg_seen *out)
{
    static const dg_seen nothing = { 0 };
    uint32_t axes = dg_vary_row_axes(p, node, r) & p->live;
    int port = dg_rule_input(node, r);
    const dg_seen *operand = port >= 0 && in[port].there ? &in[port] : &nothing;

    if (!axes)
        return;
    if (operand->stream)
        check_thread(p, node, axes);
    check_firing(p, node, fires, axes);
    if (p->train && r->kind == DG_RULE_ALLREDUCE && operand->there && takes_gradients(node, port))
        check_alike(p, node, operand, axes);
    if (r->kind == DG_RULE_BROADCAST && operand->at &&
        (axes != p->live || operand->at != dg_rule_root(node) + 1))
        never_sent(p, node, operand->present, operand->at, axes);
    if (operand->reduced && !takes_gradients(node, port))
        check_reduced(p, node, r, port, operand, axes);
    if (r->to && r->kind != DG_RULE_AGREE && !operand->stream)
        check_operand(p, node, r, port, operand, axes);
    else if (!r->to)
        check_inner(p, node, in, axes);
    add_meeting(p, node, axes, r->kind == DG_RULE_METRIC);
    if (!r->to)
        return;
    set_results(p, node, r, operand, fires, axes, out);
    for (int i = 0; r->kind == DG_RULE_ALLGATHERV && i < node->n_in; i++)
        if (i != port && in[i].there) /* which rows are gathered */
            out->value = dg_vary_join(out->value, dg_vary_minus(in[i].value, axes));
}

/* What ends a loop earlier, or makes it longer, on some ranks: the place to look at. */
void dg_vary_rate(dg_proof *p, const dg_node *node, dg_vary rate, uint32_t axes)
{
    dg_vary v = dg_vary_only(rate, axes);
    const dg_cause *c = dg_vary_first(p, v);
    const char *ranks = dg_vary_name(p, v.axes), *does = NULL;
    dg_vary_finding *f;

    if (!v.axes)
        return;
    if (c && c->node)
        does = dg_node_has_row(c->node, DG_RULE_STOP) ? "may end the loop earlier"
               : c->node->n_out && dg_contract_is_stream(c->node->out_contracts[0])
                   ? "may leave more batches"
                   : NULL;
    if (does)
        f = dg_vary_fault(p, "DG-RATE", c->where, v,
                          "%s %s on some ranks of %s: %s stands in a loop that may run more often "
                          "on some ranks than on others",
                          dg_vary_called(p, c->node), does, ranks, dg_edit_placed(p->g, node));
    else
        f = dg_vary_fault(p, "DG-RATE", node->where, v,
                          "%s over %s stands in a loop that may run more often on some ranks than "
                          "on others",
                          dg_vary_called(p, node), ranks);
    f->to = node->where.node;
    f->help = dg_vary_advice(p, v, &f->way);
}

/* Agreements are made once per epoch; where steps are counted, the number of epochs follows the
 * rate. */
static void check_agreements(dg_proof *p)
{
    for (int i = 0; i < p->agreements.n; i++) {
        const dg_vary_meeting *m = &p->agreements.items[i];
        const dg_clocked *c = p->clock;

        if (p->train)
            dg_vary_rate(p, m->node,
                         c->timed || c->stops || c->endless ? dg_vary_join(c->rate, c->rounds)
                                                            : c->ends,
                         m->axes);
    }
}

/* Reports state updated in a loop of varying length, unless a collective over `said` has been
 * reported. */
static void check_keeper(dg_proof *p, uint32_t said)
{
    dg_vary v = dg_vary_minus(p->clock->rate, said);

    if (p->keeper && v.axes)
        dg_vary_fault(p, "DG-STATE", p->keeper->where, v,
                      "%s stands in a loop that may run more often on some ranks of %s than on "
                      "others: state that they hold alike would drift apart",
                      dg_vary_called(p, p->keeper), dg_vary_name(p, v.axes))
            ->help = dg_vary_advice(p, v, NULL);
}

void dg_vary_clocks(dg_proof *p)
{
    uint32_t said = 0;

    check_agreements(p);
    for (int i = 0; i < p->meetings.n; i++) {
        const dg_vary_meeting *m = &p->meetings.items[i];
        const dg_vary *rate = m->at_end ? &p->clock->ends : &p->clock->rate;

        if (rate->axes & m->axes) {
            dg_vary_rate(p, m->node, *rate, m->axes);
            said |= m->axes;
        }
    }
    check_keeper(p, said);
}

/* ---- state ----------------------------------------------------------------------------------- */

void dg_vary_state(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen in[],
                   dg_vary fires)
{
    int port = dg_rule_input(node, r);
    dg_vary value = { 0 };

    p->keeper = p->keeper ? p->keeper : node;
    if (port >= 0 && in[port].there)
        value = dg_vary_join(dg_vary_join(in[port].value, in[port].present),
                             dg_vary_join(in[port].partial, in[port].inexact));
    if (r->axis) { /* reduced over it; the collective's check covers participation */
        value = dg_vary_minus(value, dg_vary_row_axes(p, node, r));
        fires = dg_vary_minus(fires, dg_vary_row_axes(p, node, r));
    }
    value = dg_vary_join(value, dg_vary_own_kernels(p, node));
    if (fires.axes)
        dg_vary_fault(p, "DG-STATE", node->where, fires,
                      "%s %s on some ranks only: state that all ranks of %s hold alike would drift "
                      "apart",
                      dg_vary_called(p, node), r->why, dg_vary_name(p, fires.axes))
            ->help = dg_vary_advice(p, fires, NULL);
    else if (value.axes)
        dg_vary_fault(p, "DG-STATE", node->where, value,
                      "%s %s from what differs among the ranks of %s: state that they hold alike "
                      "would drift apart",
                      dg_vary_called(p, node), r->why, dg_vary_name(p, value.axes))
            ->help = dg_vary_state_way(p, node, port, value);
}
