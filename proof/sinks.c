/* sinks.c: numbers that rank 0 reports, or the rank that evaluates alone: that rank must have them,
 * and a checkpoint is chosen by what all ranks found. */
#include <string.h>

#include "proof/vary.h"

static bool measures(const dg_node *node)
{
    for (int i = 0; i < node->n_out; i++)
        if (node->out_contracts[i]->kind == DG_TYPE_METRICS)
            return true;
    return false;
}

/* The axes over which runs join what the ranks found: the class must be able to, and a row say so.
 */
static uint32_t joined(const dg_proof *p, const dg_node *node)
{
    uint32_t axes = 0;

    if (!node->class->pack || !node->class->merge || !dg_node_is_dealt(p->g, node))
        return 0;
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->kind == DG_RULE_METRIC && dg_rule_holds(node, p->train, r))
            axes |= dg_vary_row_axes(p, node, r);
    return axes & p->live;
}

/* Reports a sink that works on ranks that report nothing. */
static void check_place(dg_proof *p, const dg_visit *v)
{
    const dg_node *node = v->node;
    int rank = p->scope->on >= 0 ? (int)p->scope->on : 0;
    const char *where = v->at > 0 ? dg_printf(p->arena, "on rank %d alone", v->at - 1)
                                  : "on no rank, as `on` names several";
    const char *help = node->on >= 0 && node->on != rank ? dg_edit_drop(p->g, node, "on")
                                                         : dg_vary_advice(p, v->fires, NULL);

    if (!p->live || !v->at || v->at == rank + 1)
        return;
    if (measures(node))
        dg_vary_fault(p, "DG-VALUE", node->where, v->fires,
                      "%s takes what is found %s, and rank %d reports: its scores would be those "
                      "of no image",
                      dg_vary_called(p, node), where, rank)
            ->help = help;
    else
        dg_vary_warn(p, "DG-W-LOST", node->where, v->fires, help,
                     "%s takes its numbers %s, and rank %d reports: they appear nowhere",
                     dg_vary_called(p, node), where, rank);
}

/* Warns of a score of rank 0's images, where other ranks have others. */
static void check_share(dg_proof *p, const dg_visit *v, uint32_t axes)
{
    const dg_node *node = v->node;
    dg_vary own = { 0 };

    for (int i = 0; i < node->n_in; i++)
        own = dg_vary_join(own, v->in[i].value);
    own = dg_vary_minus(own, axes);
    if (!measures(node) || v->at || p->scope->on >= 0 || node == p->g->checkpoint.best || !own.axes)
        return;
    dg_vary_warn(p, "DG-W-SHARE", node->where, own, dg_vary_joined_score(p, node),
                 "%s scores the images of rank 0 alone, and other ranks of %s have others",
                 dg_vary_called(p, node), dg_vary_name(p, own.axes));
}

/* Warns of images that every rank of a joined score has: each does all the work. */
static void check_alike(dg_proof *p, const dg_visit *v, uint32_t axes)
{
    const dg_node *sampler = dg_vary_sampler(p->scope);

    for (int i = 0; i < v->node->n_in; i++)
        axes &= ~v->in[i].value.axes;
    if (!axes || v->at || p->scope->on >= 0 || !sampler || dg_node_axes_given(sampler) ||
        !dg_vary_axes_attr(sampler))
        return;
    dg_vary_warn(
        p, "DG-W-SAME", sampler->where, (dg_vary){ .axes = axes },
        dg_edit_write(p->g, sampler, dg_vary_axes_attr(sampler), p->axes[0].name),
        "%s has the same batches on all ranks of %s, and %s joins what they find in them: each "
        "rank evaluates all images",
        dg_vary_called(p, sampler), dg_vary_name(p, axes), dg_edit_placed(p->g, v->node));
}

/* Warns of a score without batches that each rank leaves out for itself. */
static void check_left_out(dg_proof *p, const dg_visit *v, uint32_t axes)
{
    dg_vary left = dg_vary_only(dg_vary_minus(v->fires, v->f->fires.axes), axes);

    if (!measures(v->node) || v->at || !left.axes)
        return;
    dg_vary_warn(p, "DG-W-SHARE", v->node->where, left, dg_vary_advice(p, left, NULL),
                 "%s scores without the batches that each rank of %s leaves out for itself: the "
                 "score depends on how images are shared out",
                 dg_vary_called(p, v->node), dg_vary_name(p, left.axes));
}

/* ---- numbers that each rank has for itself --------------------------------------------------- */

static bool is_real_scalar(const dg_contract *c)
{
    bool real = c->kind == DG_TYPE_RECORD && c->n_fields > 0;

    if (c->kind == DG_TYPE_TENSOR)
        return c->dtype == DG_REAL && c->n_dims == 0 && c->ellipsis < 0;
    for (int i = 0; i < c->n_fields; i++)
        real &= is_real_scalar(c->fields[i].type);
    return real;
}

/* The type of a field: "terms.loss" of a record; NULL: unknown. */
static const dg_contract *field(const dg_contract *c, const char *path)
{
    while (path && c && c->kind == DG_TYPE_RECORD) {
        size_t n = strcspn(path, ".");
        const dg_contract *found = NULL;

        for (int i = 0; i < c->n_fields && !found; i++) {
            const char *key = c->fields[i].key;
            size_t length = c->fields[i].wildcard ? strlen(key) : n;

            if (strncmp(key, path, length) == 0 && (c->fields[i].wildcard || !key[n]))
                found = c->fields[i].type;
        }
        c = found;
        path = path[n] ? path + n + 1 : NULL;
    }
    return path ? NULL : c;
}

/* True if it is known that the wire brings real scalars only, whose mean can be taken. */
static bool brings_reals(const dg_node *from, int port, const char *key)
{
    const dg_contract *type = field(from->out_contracts[port], key);
    size_t n = key ? strcspn(key, ".") : 0;
    bool some = false;

    if (type && type->kind != DG_TYPE_ANY)
        return is_real_scalar(type);
    if (from->model)
        return brings_reals(from->model->output, port, key);
    if (!dg_node_has_row(from, DG_RULE_KEYS))
        return false;
    for (int i = 0; i < from->n_in; i++) {
        const dg_wire *w = &from->in[i];
        const char *name = from->in_ports[i]->name;

        if (!w->from || (key && (strncmp(name, key, n) != 0 || name[n])))
            continue;
        if (!brings_reals(w->from, w->port, key && key[n] ? key + n + 1 : w->key) ||
            (key && key[n] && w->key))
            return false;
        some = true;
    }
    return some;
}

/* True if a collective in front of the node would be accepted. */
static bool can_meet(const dg_proof *p, const dg_visit *v)
{
    bool can = p->train && !v->fires.axes && !p->clock->rate.axes;

    for (int i = 0; i < v->node->n_in; i++) {
        const dg_seen *in = &v->in[i];

        can &= !in->present.axes && !in->partial.axes && !in->inexact.axes;
        for (int k = 0; k < in->n_keys; k++)
            can &= !in->keys[k].seen.present.axes;
    }
    return can;
}

/* Warns of showing, from another rank than the root of a <reduce>, what that rank had before it. */
static bool shown_elsewhere(dg_proof *p, const dg_visit *v)
{
    const int64_t rank = v->at > 0 ? v->at - 1 : 0;

    for (int i = 0; i < v->node->n_in; i++) {
        const dg_node *by = v->in[i].reduced;

        if (!by || dg_vary_reduced_over(p, by) != p->live || dg_rule_root(by) == rank)
            continue;
        dg_vary_warn(
            p, "DG-W-SHARE", v->node->where, v->in[i].value,
            dg_edit_write(p->g, by, "root", dg_printf(p->arena, "%lld", (long long)rank)),
            "%s shows what rank %lld had before %s, which leaves its result on rank %lld alone",
            dg_vary_called(p, v->node), (long long)rank, dg_edit_placed(p->g, by),
            (long long)dg_rule_root(by));
        return true;
    }
    return false;
}

/* Warns of numbers of rank 0's own, shown as if they were the run's. */
static void check_shown(dg_proof *p, const dg_visit *v)
{
    const dg_node *node = v->node;
    const char *alone = dg_edit_write(p->g, node, "on", "0"), *mean = NULL;
    dg_vary own = { 0 };

    for (int i = 0; i < node->n_in; i++)
        own = dg_vary_join(own, v->in[i].value);
    if (measures(node) || node->n_out || !own.axes || shown_elsewhere(p, v) || v->at)
        return;
    if (node->n_in == 1 && node->in[0].from && can_meet(p, v) &&
        brings_reals(node->in[0].from, node->in[0].port, node->in[0].key))
        mean = dg_vary_through(p, node, 0, "allreduce op=\"mean\"", own.axes);
    dg_vary_warn(p, "DG-W-SHARE", node->where, own, mean ? mean : alone,
                 "%s shows the numbers of rank 0 alone, and other ranks of %s have others",
                 dg_vary_called(p, node), dg_vary_name(p, own.axes));
    if (mean)
        p->faults.items[p->faults.n - 1].way = alone;
}

/* ---- numbers to choose by -------------------------------------------------------------------- */

/* Takes out the guards of the node and of what its inputs hang on. */
static const char *without_guards(const dg_proof *p, const dg_visit *v)
{
    const char *edit = v->guarded ? dg_edit_drop(p->g, v->node, "when") : NULL;

    for (int i = 0; i < v->node->n_in; i++)
        for (const dg_node *n = v->in[i].may ? v->node->in[i].from : NULL; n;
             n = n->n_in ? n->in[0].from : NULL)
            if (n->when.from && !n->connect)
                edit = dg_edit_and(p->g, edit, dg_edit_drop(p->g, n, "when"));
    return edit;
}

/* Warns of a number to choose by that may not be there. */
static void check_idle(dg_proof *p, const dg_visit *v)
{
    const dg_node *node = v->node;

    if (!p->live || !(v->guarded || dg_vary_may_lack(node, v->in)))
        return;
    dg_vary_warn(p, "DG-W-IDLE", node->where, (dg_vary){ .axes = p->live }, without_guards(p, v),
                 "%s may not fire in an evaluation, and <checkpoint> chooses by it: the score is "
                 "then that of no image",
                 dg_vary_called(p, node));
}

void dg_vary_sink(dg_proof *p, const dg_visit *v)
{
    uint32_t axes = joined(p, v->node);
    dg_vary found = v->fires;

    if (!v->node->class->take)
        return;
    check_place(p, v);
    check_share(p, v, axes);
    check_alike(p, v, axes);
    check_left_out(p, v, axes);
    check_shown(p, v);
    if (v->node != p->g->checkpoint.best)
        return;
    check_idle(p, v);
    for (int i = 0; i < v->node->n_in; i++) {
        found = dg_vary_join(found, dg_vary_join(v->in[i].value, v->in[i].present));
        found = dg_vary_join(found, v->in[i].inexact);
    }
    for (int i = 0; i < v->node->n_out; i++)
        found = dg_vary_join(found, v->out[i].inexact);
    p->metric = dg_vary_minus(found, axes);
    p->metric_at = v->at;
    p->scored = p->clock;
    p->joined = axes;
}

/* A number of one rank is for that rank to save. */
void dg_vary_best(dg_proof *p)
{
    const dg_checkpoint_conf *c = &p->g->checkpoint;
    const dg_node_class *class = c->best ? c->best->class : NULL;
    dg_vary_finding *f;

    if (!class || !p->metric.axes || p->metric_at)
        return;
    f = dg_vary_fault(p, "DG-VALUE", c->where, p->metric,
                      "<checkpoint> chooses by \"%s\" of \"%s\", which each rank of %s has for "
                      "itself",
                      c->best_key, c->best->id, dg_vary_name(p, p->metric.axes));
    f->help = dg_vary_join_scores(p);
    if (!class->pack || !class->merge)
        f->help = dg_printf(p->arena,
                            "<%s> cannot join what ranks found, as its class has no pack and "
                            "merge: %s",
                            c->best->element, f->help);
    else if (!dg_node_has_row(c->best, DG_RULE_METRIC))
        f->help = dg_printf(p->arena,
                            "no row DG_RULE_METRIC of <%s> says that its metrics are "
                            "joined: %s",
                            c->best->element, f->help);
}
