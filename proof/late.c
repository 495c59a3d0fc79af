/* late.c: what a run never comes to: moments behind its end, and an average that takes in nothing
 * more. */
#include "proof/proof.h"

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "graph/attr.h"
#include "graph/edit.h"

/* How long the run is in the unit; 0: not said. */
static int64_t length(const dg_scope *scope, dg_unit unit)
{
    return unit == DG_EPOCHS ? scope->epochs : unit == DG_STEPS ? scope->steps : 0;
}

/* The first number of the attribute that the run does not come to; NAN: none. A moment at the run's
 * very end says that what it ends goes on; a list's number there does nothing.
 * *unit, which is epochs before, becomes a moment's. */
static double beyond(const dg_scope *scope, const dg_attr *a, const void *conf, dg_unit *unit)
{
    const void *at = (const char *)conf + a->offset;
    const dg_when *w = at;
    const dg_ints *list = at;

    if (a->kind == DG_ATTR_INTS && strcmp(a->name, "milestones") == 0)
        for (int i = 0; i < list->n; i++)
            if (scope->epochs > 0 && list->v[i] >= scope->epochs)
                return (double)list->v[i];
    if (a->kind != DG_ATTR_WHEN || strcmp(a->name, "warmup") == 0)
        return NAN;
    *unit = w->unit;
    return length(scope, w->unit) > 0 && w->n > (double)length(scope, w->unit) ? w->n : NAN;
}

/* Warns of the first such attribute of an element; true: there is one. */
static bool check_late(const dg_graph *g, const dg_item *item, const dg_attr *attrs,
                       const void *conf, dg_diag *d)
{
    const dg_scope *scope = g->train;

    for (const dg_attr *a = attrs; a && a->name; a++) {
        const dg_item_attr *given = dg_item_find(item, a->name);
        dg_unit unit = DG_EPOCHS;
        double n;
        int64_t most;

        if (!given)
            continue;
        n = beyond(scope, a, conf, &unit);
        if (isnan(n))
            continue;
        most = length(scope, unit);
        dg_warn(d, given->value_at, "late", "%s=\"%s\"%s is not reached: the run has %lld %s%s",
                a->name, given->value,
                a->kind == DG_ATTR_INTS ? dg_printf(g->arena, ": %g", n) : "", (long long)most,
                unit == DG_EPOCHS ? "epoch" : "step", dg_plural(most, "s"));
        dg_help(d, "%s",
                a->kind == DG_ATTR_WHEN
                    ? "a share moves with the run: \"90 %\" is a tenth of it before its end"
                    : "make the run longer, or the number smaller");
        return true;
    }
    return false;
}

/* The elements inside a node, in their order. */
static void check_children(const dg_graph *g, const dg_node *node, dg_diag *d)
{
    const dg_children *list =
        (const void *)((const char *)node->conf + node->class->children_offset);
    int i = 0;

    for (const dg_item *k = node->item->first; k; k = k->next) {
        const dg_child *c = k->name ? &list->v[i++] : NULL;

        if (c && check_late(g, k, node->class->children[c->kind].attrs, c->conf, d))
            return;
    }
}

/* Warns of a node that leaves the average as it is. Its decay is asked for a step far behind any
 * warm-up. */
static void check_average(const dg_graph *g, const dg_node *node, dg_diag *d)
{
    dg_control to = { 0 };

    if (!node->class->control)
        return;
    node->class->control(node->conf, &(dg_clock){ .step = 1000000000000 }, &to);
    if (to.ema_decay < 1)
        return;
    dg_warn(d, node->where, "average-still",
            "%s comes to take in nothing new: a decay of 1 keeps the old average",
            dg_node_called(g->arena, node));
    if (dg_attr_find(node->class->attrs, "decay"))
        dg_help(d, "%s", dg_edit_write(g, node, "decay", "0.9999"));
}

void dg_late_check(const dg_graph *g, dg_diag *d)
{
    for (int i = 0; g->train && i < g->train->n_nodes; i++) {
        const dg_node *node = g->train->nodes[i];

        if (!check_late(g, node->item, node->class->attrs, node->conf, d) && node->class->children)
            check_children(g, node, d);
        check_average(g, node, d);
    }
}
