/* advice.c: the way out of a fault, by what makes ranks differ first: a guard, `on`, an empty
 * batch, the number or size of batches. */
#include <stdlib.h>
#include <string.h>

#include "graph/structure.h"
#include "proof/vary.h"

/* The names of axes, "dp+tp". */
static const char *names(const dg_proof *p, uint32_t axes)
{
    const char *text = NULL;

    for (int i = 0; i < p->n_axes; i++)
        if (axes >> i & 1)
            text = text ? dg_printf(p->arena, "%s+%s", text, p->axes[i].name) : p->axes[i].name;
    return text ? text : "dp";
}

const char *dg_vary_through(const dg_proof *p, const dg_node *node, int port, const char *what,
                            uint32_t axes)
{
    return dg_edit_insert(p->g, node, node->in_ports[port]->name, &node->in[port], what,
                          strncmp(what, "allreduce", 9) == 0 ? "mean" : "same", names(p, axes));
}

/* True if the class has an ENUM attribute with this word. */
static bool knows(const dg_node *node, const char *name, const char *word)
{
    size_t n = strlen(word);

    for (const dg_attr *a = node->class->attrs; a && a->name; a++) {
        if (strcmp(a->name, name) != 0 || a->kind != DG_ATTR_ENUM)
            continue;
        for (const char *s = a->text; s && *s; s += strcspn(s, "|"), s += *s == '|')
            if (strcspn(s, "|") == n && strncmp(s, word, n) == 0)
                return true;
    }
    return false;
}

/* The class's attribute that names axes, or NULL. */
const char *dg_vary_axes_attr(const dg_node *node)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->axis && *r->axis != '=')
            return r->axis;
    return NULL;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* One plan for all ranks: nothing is shared out before the sampler, which deals its batches. */
static const char *plan_once(const dg_proof *p, const dg_chain *c, uint32_t axes)
{
    const dg_node *sampler = c->sampler;
    const char *text = NULL;

    if (!sampler || dg_node_axes_given(sampler) || !dg_vary_axes_attr(sampler) ||
        dg_node_has_row(c->loader, DG_RULE_VALUE))
        return NULL;
    for (int i = 0; i < c->n_before; i++) {
        const dg_node *node = c->choices[i];

        if (dg_node_has_row(node, DG_RULE_VALUE) && node->n_in)
            text = dg_edit_and(p->g, text, dg_edit_without(p->g, node));
    }
    text = dg_edit_and(p->g, text,
                       dg_edit_write(p->g, sampler, dg_vary_axes_attr(sampler), names(p, axes)));
    if (dg_item_find(sampler->item, "seed"))
        text = dg_edit_and(p->g, text, dg_edit_write(p->g, sampler, "seed", "shared"));
    if (dg_node_has_row(sampler, DG_RULE_LEADING))
        text = dg_edit_and(p->g, text, dg_edit_write(p->g, sampler, "tail", "drop"));
    return dg_printf(p->arena, "one plan for all ranks: %s", text);
}

/* As many items on every rank, of whatever the reader of the stream is given. */
static const char *equalize(const dg_proof *p, const dg_chain *c, uint32_t axes)
{
    const dg_node *before = c->sampler, *reader = NULL;

    for (int i = c->n_before; i < c->n_choices; i++)
        before = c->choices[i];
    for (int i = before ? before->index + 1 : 0; before && i < before->scope->n_nodes; i++)
        if (before->scope->nodes[i]->n_in && before->scope->nodes[i]->in[0].from == before) {
            reader = before->scope->nodes[i];
            break;
        }
    if (!reader || dg_node_has_row(before, DG_RULE_EQUAL))
        return NULL;
    return dg_edit_insert(p->g, reader, reader->in_ports[0]->name, &reader->in[0], "equalize",
                          "even", names(p, axes));
}

/* ---- by what differs first ------------------------------------------------------------------- */

const dg_cause *dg_vary_first(const dg_proof *p, dg_vary v)
{
    const dg_cause *all = p->causes.items;
    int32_t c = 0;

    for (int i = 0; i < DG_VARY_AXES && !c; i++)
        c = v.axes >> i & 1 ? v.cause[i] : 0;
    /* not all[c].root: that may be another node with the same guard */
    while (c && all[c].from && (!all[c].root || all[all[c].from].root))
        c = all[c].from;
    return c ? &all[c] : NULL;
}

static bool is_key(const dg_cause *c, const char *word)
{
    return c->key && strncmp(c->key, word, strlen(word)) == 0;
}

static dg_rule_kind kind_of(const dg_cause *c)
{
    const char *dot = is_key(c, "row ") ? strchr(c->key, '.') : NULL;

    return dot ? (dg_rule_kind)strtol(dot + 1, NULL, 10) : DG_RULE_END;
}

static bool handles_data(const dg_node *node)
{
    return node->n_out && dg_contract_is_stream(node->out_contracts[0]);
}

static bool has_empty(const dg_node *node, dg_rule_kind k)
{
    return (k == DG_RULE_PRESENCE || k == DG_RULE_BYPASS) &&
           (knows(node, "empty", "pad") || knows(node, "empty", "zero"));
}

/* Where items are replaced by others, all of one size make the same batches. */
static const char *one_size(const dg_proof *p)
{
    dg_chain c = { 0 };
    dg_diag *d = dg_diag_open();
    const dg_item_attr *sizes;
    int rc = dg_graph_chain(&c, p->scope, d);

    dg_diag_close(&d);
    sizes = rc == 0 && c.sampler ? dg_item_find(c.sampler->item, "sizes") : NULL;
    return sizes ? dg_edit_write(p->g, c.sampler, "sizes",
                                 dg_strndup(p->arena, sizes->value, strcspn(sizes->value, ",")))
                 : NULL;
}

static bool keeps_tail(const dg_node *sampler)
{
    const dg_item_attr *tail = dg_item_find(sampler->item, "tail");

    return !tail || strcmp(tail->value, "keep") == 0;
}

/* The way out of what a row of the data chain does. */
static const char *of_data(const dg_proof *p, const dg_scope *scope, const dg_node *node,
                           dg_rule_kind k, bool shape, uint32_t axes, const char **other)
{
    dg_chain c = { 0 };
    dg_diag *d = dg_diag_open();
    int rc = dg_graph_chain(&c, scope, d);
    const char *even, *once;

    dg_diag_close(&d);
    if (rc < 0 || !c.loader)
        return NULL;
    if (node->class->sizes && !node->class->schedule && node->n_in > 1)
        return dg_vary_through(p, node, 1, "broadcast", axes);
    even = shape || k == DG_RULE_DIMS ? NULL : equalize(p, &c, axes);
    once = plan_once(p, &c, axes);
    if (k == DG_RULE_RATE && knows(node, "equal", "drop") && !dg_item_find(node->item, "equal"))
        once = dg_edit_write(p->g, node, "equal", "drop");
    if (node == c.sampler && dg_node_axes_given(node) && knows(node, "tail", "drop") &&
        keeps_tail(node) && k != DG_RULE_DIMS)
        once = dg_edit_write(p->g, node, "tail", "drop");
    if (c.sampler && (shape || k == DG_RULE_LEADING) && k != DG_RULE_DIMS &&
        dg_node_has_row(c.sampler, DG_RULE_LEADING))
        once = dg_edit_write(p->g, c.sampler, "tail", "drop");
    if (node == c.sampler && dg_item_find(node->item, "seed") && k == DG_RULE_DIMS && !once)
        once = dg_edit_write(p->g, node, "seed", "shared");
    if (other)
        *other = once ? even : NULL;
    return once ? once : even;
}

static const char *advice(const dg_proof *p, dg_vary v, bool shape, const char **other)
{
    const dg_cause *c = dg_vary_first(p, v);
    const dg_node *node = c ? c->node : NULL;
    dg_rule_kind k = c ? kind_of(c) : DG_RULE_END;

    if (other)
        *other = NULL;
    if (!c)
        return NULL;
    if (is_key(c, "scope "))
        return dg_edit_drop_part(p->g, p->scope->item, "on");
    if (is_key(c, "patience"))
        return dg_vary_join_scores(p);
    if (!node)
        return NULL;
    if (is_key(c, "when ") && handles_data(node))
        return dg_edit_drop(p->g, node, "when");
    if (is_key(c, "when "))
        return dg_edit_insert(p->g, node, "when", &node->when, "agree op=\"any\"", "same",
                              names(p, v.axes));
    if (is_key(c, "on "))
        return dg_edit_drop(p->g, node, "on");
    if (is_key(c, "exact "))
        return dg_edit_drop(p->g, node, "exact");
    if (has_empty(node, k))
        return dg_edit_write(p->g, node, "empty", knows(node, "empty", "pad") ? "pad" : "zero");
    if (is_key(c, "flag ") && !handles_data(node))
        return dg_edit_write(p->g, node, "connect", "zero");
    if (k == DG_RULE_PRESENCE)
        return dg_edit_write(p->g, node, "connect", "zero");
    if (is_key(c, "flag "))
        return one_size(p);
    if (handles_data(node))
        return of_data(p, p->scope, node, k, shape, v.axes, other);
    return NULL;
}

const char *dg_vary_advice(const dg_proof *p, dg_vary v, const char **other)
{
    return advice(p, v, false, other);
}

const char *dg_vary_shape_way(const dg_proof *p, dg_vary v, const char **other)
{
    return advice(p, v, true, other);
}

/* connect="zero" where a guard, or `on`, leaves a node out; and the way out of the cause. */
const char *dg_vary_connect(const dg_proof *p, dg_vary v, const char **other)
{
    const dg_cause *c = dg_vary_first(p, v);
    const char *way = dg_vary_advice(p, v, NULL);

    *other = NULL;
    if (!c || !c->node || !(is_key(c, "when ") || is_key(c, "on ")) || handles_data(c->node) ||
        !c->node->n_out || c->node->connect)
        return way;
    *other = way;
    return dg_edit_write(p->g, c->node, "connect", "zero");
}

/* ---- by what is at fault --------------------------------------------------------------------- */

const dg_node *dg_vary_sampler(const dg_scope *scope)
{
    dg_diag *d = dg_diag_open();
    const dg_node *sampler = NULL;
    dg_chain chain;

    if (dg_graph_chain(&chain, scope, d) == 0)
        sampler = chain.sampler;
    dg_diag_close(&d);
    return sampler;
}

const char *dg_vary_joined_score(const dg_proof *p, const dg_node *sink)
{
    const dg_node *sampler = dg_vary_sampler(sink->scope);

    if (sink->class->pack && sink->class->merge && dg_node_has_row(sink, DG_RULE_METRIC) &&
        dg_vary_axes_attr(sink) && !dg_node_axes_given(sink))
        return dg_printf(p->arena, "one score of what all ranks found: %s",
                         dg_edit_write(p->g, sink, dg_vary_axes_attr(sink), names(p, p->live)));
    if (sampler && dg_node_axes_given(sampler))
        return dg_printf(p->arena, "every rank scores all images: %s",
                         dg_edit_drop(p->g, sampler, dg_node_axes_given(sampler)->name));
    return dg_edit_write_part(p->g, sink->scope->item, "on", "0");
}

const char *dg_vary_join_scores(const dg_proof *p)
{
    return dg_vary_joined_score(p, p->g->checkpoint.best);
}

const char *dg_vary_counted(const dg_proof *p, const dg_node *node, const dg_rule *r, int port,
                            dg_vary v)
{
    if (r->axis && *r->axis != '=')
        return dg_edit_write(p->g, node, r->axis, names(p, v.axes));
    return dg_vary_through(p, node, port, "allreduce op=\"sum\"", v.axes);
}

/* True if it has a collective already: what is left differs over other axes. */
static bool takes_part(const dg_proof *p, const dg_node *node)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (dg_rule_is_collective(r) && dg_rule_holds(node, p->train, r))
            return true;
    return false;
}

/* State that follows what differs: statistics, gradients, a number. */
const char *dg_vary_state_way(const dg_proof *p, const dg_node *node, int port, dg_vary v)
{
    const dg_cause *c = dg_vary_first(p, v);

    if (!node->exact)
        return dg_edit_drop(p->g, node, "exact");
    if (knows(node, "norm", "sync") && !takes_part(p, node))
        return dg_printf(p->arena, "statistics of all ranks: %s",
                         dg_edit_write(p->g, node, "norm", "sync"));
    if (c && c->root && (is_key(c, "when ") || is_key(c, "on ") || is_key(c, "exact ")))
        return dg_vary_advice(p, v, NULL);
    if (port >= 0 && node->in_ports[port]->flags & DG_PORT_OPTIONAL)
        return dg_edit_drop(p->g, node, node->in_ports[port]->name);
    if (port >= 0 && node->in[port].from)
        return dg_vary_through(p, node, port, "allreduce op=\"mean\"", v.axes);
    return NULL;
}
