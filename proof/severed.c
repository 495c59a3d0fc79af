/* severed.c: gradients that end at a collective, a maximum say. One rank has none, and trains on
 * what N ranks do not. */
#include <string.h>

#include "graph/structure.h"
#include "proof/vary.h"
#include "tensor/program.h"

static const dg_node *node_numbered(const dg_graph *g, int number)
{
    for (int i = 0; i < g->n_models + 1; i++) {
        const dg_scope *s = i < g->n_models ? g->models[i] : g->train;

        for (int k = 0; k < s->n_nodes; k++)
            if (s->nodes[k]->number == number)
                return s->nodes[k];
    }
    return NULL;
}

static const dg_node *backward_of(const dg_scope *s)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (dg_node_has_row(s->nodes[i], DG_RULE_GRADIENTS))
            return s->nodes[i];
    return NULL;
}

/* The first node that the end of the scope hangs on and that reads `from`; port: where. */
static const dg_node *reader(dg_proof *p, const dg_node *from, int *port)
{
    const dg_scope *s = from->scope;
    const dg_node *end = s->kind == DG_SCOPE_MODEL ? s->output : backward_of(s), *found = NULL;
    bool *hangs = DG_NEW_N(p->arena, s->n_nodes, bool);

    if (end)
        hangs[end->index] = true;
    for (int i = s->n_nodes - 1; i > from->index; i--)
        for (int k = 0; hangs[i] && k < s->nodes[i]->n_in; k++) {
            const dg_node *before = s->nodes[i]->in[k].from;

            if (before)
                hangs[before->index] = true;
            if (before != from)
                continue;
            found = s->nodes[i];
            *port = k;
        }
    return found;
}

static const char *way_out(dg_proof *p, const dg_node *node)
{
    int port = 0;
    const dg_node *by = reader(p, node, &port);
    const dg_item_attr *old = by ? dg_item_find(by->item, by->in_ports[port]->name) : NULL, *now;

    now = node->n_in ? dg_item_find(node->item, node->in_ports[0]->name) : NULL;
    if (!old || !now)
        return NULL;
    return dg_printf(p->arena,
                     "differentiate the local loss, whose gradients <allreduce> averages: %s",
                     dg_edit_instead(p->g, old, now->value));
}

static bool may_end(const dg_scope *s)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const dg_node *node = s->nodes[i];

        for (const dg_rule *r = node->class->rules; r && r->kind; r++)
            if (dg_rule_is_collective(r) && dg_rule_holds(node, true, r))
                return true;
        if (node->model && may_end(node->model))
            return true;
    }
    return false;
}

void dg_vary_severed(dg_proof *p)
{
    dg_diag *d;
    dg_program *program;
    dg_size size;
    const dg_node *node, *end = backward_of(p->scope);
    int number = 0;

    if (!p->train || !p->live || !end || !may_end(p->scope))
        return;
    d = dg_diag_open(); /* its errors are reported by other lowerings */
    if (dg_scope_size(&size, p->scope, d) == 0 &&
        dg_lower(&program, p->g, p->scope, size, 0, p->params, NULL, NULL, d) == 0) {
        number = program->severed;
        dg_program_close(&program);
    }
    dg_diag_close(&d);
    node = number ? node_numbered(p->g, number - 1) : NULL;
    if (!node)
        return;
    dg_vary cut = dg_vary_source(p, p->live, node, node->where, false, "severed",
                                 "%s gives its operand no gradient", dg_vary_called(p, node));

    dg_vary_fault(p, "DG-GRAD", end->where, cut,
                  "no gradient flows through %s with %s: parameters before it train on less than "
                  "with one rank",
                  dg_edit_placed(p->g, node), dg_vary_name(p, p->live))
        ->help = way_out(p, node);
}
