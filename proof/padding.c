/* padding.c: images of different size in one canvas: who does not read which part of it is image.
 */
#include "proof/proof.h"

#include <string.h>

#include "graph/attr.h"
#include "graph/edit.h"

static int port_named(const dg_port *const *ports, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(ports[i]->name, name) == 0)
            return i;
    return -1;
}

/* The wire by which a node reads what another tells from padding, while it does not read which part
 * that is; NULL: none. */
static const dg_wire *without_padding(const dg_node *node)
{
    int k = port_named(node->in_ports, node->n_in, "padding");

    if (k < 0 || node->in[k].from)
        return NULL;
    for (int i = 0; i < node->n_in; i++) {
        const dg_node *from = node->in[i].from;
        int sizes = from ? port_named(from->in_ports, from->n_in, "sizes") : -1;

        if (sizes >= 0 && from->in[sizes].from &&
            port_named(from->out_ports, from->n_out, "padding") >= 0)
            return &node->in[i];
    }
    return NULL;
}

/* "@encoder.out", or "@encoder", becomes "@encoder.padding". */
static const char *padding_beside(const dg_graph *g, const dg_node *node, const dg_wire *w)
{
    const char *name = node->in_ports[w - node->in]->name,
               *port = w->from->out_ports[w->port]->name;
    const dg_item_attr *text = dg_item_find(node->item, name);
    size_t n = text ? strlen(text->value) : 0, tail = strlen(port) + 1;

    if (!text)
        return NULL;
    if (n > tail && text->value[n - tail] == '.' && strcmp(text->value + n - tail + 1, port) == 0)
        n -= tail;
    return dg_edit_write(g, node, "padding",
                         dg_printf(g->arena, "%.*s.padding", (int)n, text->value));
}

/* Warns of a node that takes padding for image. */
static void check_padding(const dg_graph *g, const dg_scope *scope, dg_diag *d)
{
    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *node = scope->nodes[i];
        const dg_wire *w = without_padding(node);
        const char *way = w ? padding_beside(g, node, w) : NULL;

        if (!w)
            continue;
        dg_warn(
            d, node->where, "padding-unread",
            "<%s id=\"%s\"> does not know which tokens of <%s id=\"%s\"> are padding, and takes "
            "them for image",
            node->element, node->id, w->from->element, w->from->id);
        if (way)
            dg_help(d, "%s", way);
    }
}

static bool pads(const dg_node *node)
{
    const dg_item_attr *fit = dg_item_find(node->item, "fit");

    return node->class->role == DG_ROLE_BATCH && fit && strcmp(fit->value, "pad") == 0;
}

/* True if the port of the node is read. */
static bool is_port_read(const dg_scope *scope, const dg_node *node, const char *name)
{
    const int port = port_named(node->out_ports, node->n_out, name);

    for (int i = node->index + 1; i < scope->n_nodes; i++)
        for (int k = 0; k < scope->nodes[i]->n_in; k++)
            if (scope->nodes[i]->in[k].from == node && scope->nodes[i]->in[k].port == port)
                return true;
    return false;
}

/* Warns of padded images whose sizes nothing reads, and of an evaluation that stretches images
 * where training keeps their proportions. */
static void check_fit(const dg_graph *g, const dg_scope *scope, bool *padded, dg_diag *d)
{
    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *node = scope->nodes[i];

        if (pads(node) && !is_port_read(scope, node, "sizes")) {
            dg_warn(d, node->where, "padding-unread",
                    "nothing reads the sizes of <%s id=\"%s\">: padding is taken for image",
                    node->element, node->id);
            dg_help(d, "%s", dg_edit_drop(g, node, "fit"));
        } else if (node->class->role == DG_ROLE_BATCH && *padded && !pads(node)) {
            dg_warn(d, node->where, "fit-differs",
                    "<%s id=\"%s\"> stretches images, and training keeps their proportions",
                    node->element, node->id);
            dg_help(d, "%s", dg_edit_write(g, node, "fit", "pad"));
        }
        *padded |= pads(node) && scope->kind == DG_SCOPE_TRAIN;
    }
}

void dg_padding_check(const dg_graph *g, dg_diag *d)
{
    bool padded = false;

    for (int i = 0; i < g->n_models; i++)
        check_padding(g, g->models[i], d);
    if (g->train) {
        check_padding(g, g->train, d);
        check_fit(g, g->train, &padded, d);
    }
    for (int i = 0; i < g->n_evaluates; i++)
        check_fit(g, g->evaluates[i], &padded, d);
}
