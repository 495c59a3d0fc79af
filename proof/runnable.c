/* runnable.c: refuses what no run executes, naming what to use instead. */
#include "proof/proof.h"

#include "graph/edit.h"
#include "graph/foreseen.h"
#include "graph/rule.h"
#include "graph/structure.h"

static int not_run(const dg_graph *g, const dg_node *node, dg_where at, const char *what,
                   const char *instead, dg_diag *d)
{
    const char *called = node ? dg_node_called(g->arena, node) : NULL;
    int rc = dg_fail(d, DG_EUNSUPPORTED, at, "not-run", "%s%s%s", called ? called : "",
                     called ? ": " : "", what);

    if (instead)
        dg_help(d, "%s", instead);
    return rc;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* True if the node may fire or not in a step: nodes of a program, its inputs, and those that take
 * its results. */
static bool is_in_step(const dg_node_class *c)
{
    bool course = false;

    for (const dg_rule *r = c->rules; r && r->kind; r++)
        course |= r->kind == DG_RULE_SKIP || r->kind == DG_RULE_STOP;
    return course || c->lower || c->supply || c->take || c == &dg_class_use;
}

static int words_run(const dg_graph *g, const dg_node *node, dg_diag *d)
{
    const dg_node_class *c = node->class;
    bool votes = node->on_fail == DG_FAIL_VOTE && (c->open || c->item || c->feeds) &&
                 node->scope->kind == DG_SCOPE_TRAIN;

    if ((node->when.from || node->on >= 0) && !is_in_step(c))
        return not_run(
            g, node, node->where,
            "a node that handles data works ahead of the step: none is left out (when, on)",
            dg_edit_drop(g, node, node->when.from ? "when" : "on"), d);
    if (node->on_fail != DG_FAIL_ABORT && !votes)
        return not_run(
            g, node, node->where,
            "a failure inside a step stops all ranks: a vote is taken on batches, at the "
            "nodes of <train> that make them (on_fail)",
            dg_edit_drop(g, node, "on_fail"), d);
    return 0;
}

/* True if a choice is after samples are read: choices are made from a plan. */
static bool is_late(const dg_node *node)
{
    return node->class->choose && node->n_in > 0 && node->in_types[0]->kind != DG_TYPE_DATASET &&
           node->in_types[0]->kind != DG_TYPE_PICKS;
}

static int too_late(const dg_node *node, dg_diag *d)
{
    int rc = dg_fail(d, DG_EINPUT, node->where, "data-choice",
                     "<%s> chooses by the manifest, before a sample is read: it stands behind the "
                     "loader or the sampler, before what changes samples",
                     node->element);

    dg_help(d, "put it before <%s>", node->in[0].from->element);
    return rc;
}

/* A number that is known then: drawn alike on all ranks, from those that the list has. */
static const char *drawn_ahead(const dg_graph *g, const dg_node *node)
{
    const dg_size *sizes;
    int batch, n = node->class->sizes(node->conf, &sizes, &batch);

    return dg_edit_insert(g, node, "size", dg_resize_wire(node),
                          dg_printf(g->arena, "source.random seed=\"shared\" low=\"0\" high=\"%d\"",
                                    n),
                          "draw", NULL);
}

/* Batches are made ahead of their step, so the number that chooses their size must be known
 * then. */
static int resize_runs(const dg_graph *g, const dg_node *node, dg_diag *d)
{
    int root;

    if (node->in_types[0]->kind == DG_TYPE_DATASET)
        return not_run(g, node, node->where, "items of a data set have no common size",
                       dg_edit_without(g, node), d);
    if (!dg_wire_foreseen(dg_resize_wire(node), &root))
        return not_run(g, node, node->where,
                       "batches are made ahead, before a step could compute their size",
                       drawn_ahead(g, node), d);
    return 0;
}

static int node_runs(const dg_graph *g, const dg_node *node, dg_diag *d)
{
    int rc = 0;

    if (node->class->supply && !node->class->lower && node->scope->kind == DG_SCOPE_MODEL)
        rc = not_run(g, node, node->where, "numbers from outside come into <train> and <evaluate>",
                     "put it there, and wire it to an <input> of the model", d);
    else if (is_late(node))
        rc = too_late(node, d);
    else if (node->class->sizes && !node->class->schedule)
        rc = resize_runs(g, node, d);
    return rc ? rc : words_run(g, node, d);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static bool deals(const dg_node *node)
{
    return (node->class->schedule || node->class->choose) && dg_node_axes_given(node);
}

/* Refuses what makes no sense in an evaluation at run time. */
static int evaluation_runs(const dg_graph *g, const dg_scope *s, dg_diag *d)
{
    const dg_node *own = NULL;

    for (int i = 0; i < s->n_nodes; i++) {
        const dg_node *node = s->nodes[i];

        if (node->class->open && dg_node_has_row(node, DG_RULE_VALUE))
            own = node;
        if (node->class->schedule && dg_node_has_row(node, DG_RULE_ENDLESS))
            return not_run(g, node, node->where, "an evaluation ends with its data",
                           dg_edit_drop(g, node, "repeat"), d);
        if (s->on >= 0 && deals(node))
            return not_run(g, node, node->where,
                           "it deals items to ranks that take no part in this evaluation (on)",
                           dg_edit_drop(g, node, dg_node_axes_given(node)->name), d);
        if (own && node->class->merge && dg_node_axes_given(node))
            return not_run(g, node, node->where,
                           "what ranks found is joined by the numbers of the images, which mean "
                           "other images on other ranks (files=\"rank\")",
                           dg_edit_write(g, own, "files", "same"), d);
    }
    return 0;
}

static int scope_runs(const dg_graph *g, const dg_scope *s, dg_diag *d)
{
    int rc = 0, own;

    for (int i = 0; i < s->n_nodes; i++) {
        own = node_runs(g, s->nodes[i], d);
        rc = rc ? rc : own;
    }
    own = s->kind == DG_SCOPE_EVALUATE ? evaluation_runs(g, s, d) : 0;
    rc = rc ? rc : own;
    return rc;
}

int dg_graph_planned(const dg_graph *g, dg_diag *d)
{
    const dg_mesh *m = &g->mesh;
    int rc;

    if (!m->item || m->tp < 2)
        return 0;
    rc = dg_fail(d, DG_EUNSUPPORTED, m->item->at, "planned",
                 "planned: a second axis (tp) is proved, and no run has one yet");
    dg_help(d, "%s", dg_edit_drop_part(g, m->item, "tp"));
    return rc;
}

int dg_graph_unshared(const dg_graph *g, int64_t ranks, dg_diag *d)
{
    int rc = dg_fail(d, DG_EINPUT, g->root->at, "ranks-mesh",
                     "%lld ranks, and the pipeline does not say how they share the work",
                     (long long)ranks);

    dg_help(d, "<mesh dp=\"ranks\"/> before the model, and axis=\"dp\" where nodes deal or join");
    return rc;
}

int dg_graph_runnable(const dg_graph *g, dg_diag *d)
{
    int rc = 0, own;

    for (int i = 0; i < g->n_models; i++) {
        own = scope_runs(g, g->models[i], d);
        rc = rc ? rc : own;
    }
    own = g->train ? scope_runs(g, g->train, d) : 0;
    rc = rc ? rc : own;
    for (int i = 0; i < g->n_evaluates; i++) {
        own = scope_runs(g, g->evaluates[i], d);
        rc = rc ? rc : own;
    }
    return rc;
}
