/* edit.c: see edit.h. */
#include "graph/edit.h"

#include <string.h>

static const char *place(const dg_graph *g, dg_where at)
{
    if (at.file && g->file && strcmp(at.file, g->file) != 0)
        return dg_printf(g->arena, "(%s:%d)", at.file, at.line);
    return dg_printf(g->arena, "(line %d)", at.line);
}

const char *dg_edit_placed(const dg_graph *g, const dg_node *node)
{
    return dg_printf(g->arena, "%s %s", dg_node_called(g->arena, node), place(g, node->where));
}

/* An element that is no node: <mesh>, <train>, <evaluate>. */
static const char *part(const dg_graph *g, const dg_item *item)
{
    return dg_printf(g->arena, "<%s> %s", item->name, place(g, item->at));
}

const char *dg_edit_and(const dg_graph *g, const char *a, const char *b)
{
    return a && b ? dg_printf(g->arena, "%s, and %s", a, b) : a ? a : b;
}

const char *dg_edit_write(const dg_graph *g, const dg_node *node, const char *name,
                          const char *value)
{
    return dg_printf(g->arena, "write %s=\"%s\" in %s", name, value, dg_edit_placed(g, node));
}

const char *dg_edit_instead(const dg_graph *g, const dg_item_attr *old, const char *value)
{
    const dg_where at = old->value_at;
    const bool here = !at.file || !g->file || strcmp(at.file, g->file) == 0;

    return dg_printf(g->arena, "write %s=\"%s\" in place of %s=\"%s\" at %s%d", old->name, value,
                     old->name, old->value, here ? "line " : dg_printf(g->arena, "%s:", at.file),
                     at.line);
}

static const char *take(const dg_graph *g, const dg_item *item, const char *name, const char *from)
{
    const dg_item_attr *a = item ? dg_item_find(item, name) : NULL;

    return a ? dg_printf(g->arena, "take %s=\"%s\" out of %s", name, a->value, from) : NULL;
}

const char *dg_edit_drop(const dg_graph *g, const dg_node *node, const char *name)
{
    return take(g, node->item, name, dg_edit_placed(g, node));
}

const char *dg_edit_drop_part(const dg_graph *g, const dg_item *item, const char *name)
{
    return item ? take(g, item, name, part(g, item)) : NULL;
}

const char *dg_edit_write_part(const dg_graph *g, const dg_item *item, const char *name,
                               const char *value)
{
    return dg_printf(g->arena, "write %s=\"%s\" in %s", name, value, part(g, item));
}

/* What the attribute says, "@b.targets"; a wire that is not written comes from the node before. */
static const char *wired(const dg_graph *g, const dg_node *node, const char *name, const dg_wire *w)
{
    const dg_item_attr *a = dg_item_find(node->item, name);

    if (a)
        return a->value;
    return w->from ? dg_printf(g->arena, "@%s%s%s", w->from->id, w->key ? "." : "",
                               w->key ? w->key : "")
                   : NULL;
}

static const char *unused_id(const dg_graph *g, const dg_node *node, const char *word)
{
    const char *id = word;

    for (int i = 2; dg_map_get(node->scope->ids, id); i++)
        id = dg_printf(g->arena, "%s%d", word, i);
    return id;
}

/* What the node reads comes through a new node: <agree op="any">, <allreduce>. */
const char *dg_edit_insert(const dg_graph *g, const dg_node *node, const char *name,
                           const dg_wire *w, const char *what, const char *id, const char *axes)
{
    const char *from = wired(g, node, name, w), *fresh = unused_id(g, node, id);
    const char *class = dg_strndup(g->arena, what, strcspn(what, " "));

    if (!from)
        return NULL;
    return dg_edit_and(g,
                       axes ? dg_printf(g->arena,
                                        "put <%s id=\"%s\" in=\"%s\"%s axis=\"%s\"/> before %s",
                                        class, fresh, from, what + strlen(class), axes,
                                        dg_edit_placed(g, node))
                            : dg_printf(g->arena, "put <%s id=\"%s\"%s/> before %s", class, fresh,
                                        what + strlen(class), dg_edit_placed(g, node)),
                       dg_edit_write(g, node, name, dg_printf(g->arena, "@%s", fresh)));
}

static const char *tag_of(const dg_graph *g, const dg_item *item)
{
    const dg_item_attr *id = dg_item_find(item, "id");

    return dg_printf(g->arena, "<%s%s%s%s>", item->name, id ? " id=\"" : "", id ? id->value : "",
                     id ? "\"" : "");
}

const char *dg_edit_unwrap(const dg_graph *g, const dg_item *item)
{
    return dg_printf(g->arena, "take the tags of %s out %s", tag_of(g, item), place(g, item->at));
}

const char *dg_edit_without_part(const dg_graph *g, const dg_item *item)
{
    return dg_printf(g->arena, "take %s out %s", tag_of(g, item), place(g, item->at));
}

/* The node goes, and what read it reads `from`; NULL: nothing can be read. */
static const char *without(const dg_graph *g, const dg_node *node, const char *from)
{
    const dg_scope *s = node->scope;
    const char *text;

    if (!from)
        return NULL;
    text = dg_printf(g->arena, "take %s out %s", dg_node_called(g->arena, node),
                     place(g, node->where));
    for (int i = node->index + 1; i < s->n_nodes; i++)
        for (int k = 0; k <= s->nodes[i]->n_in; k++) {
            const dg_wire *w = k < s->nodes[i]->n_in ? &s->nodes[i]->in[k] : &s->nodes[i]->when;
            const char *name = k < s->nodes[i]->n_in ? s->nodes[i]->in_ports[k]->name : "when";

            if (w->from == node)
                text = dg_edit_and(g, text,
                                   dg_edit_write(g, s->nodes[i], name,
                                                 w->key ? dg_printf(g->arena, "%s.%s", from, w->key)
                                                        : from));
        }
    return text;
}

const char *dg_edit_without(const dg_graph *g, const dg_node *node)
{
    return without(g, node,
                   node->n_in ? wired(g, node, node->in_ports[0]->name, &node->in[0]) : NULL);
}

static const char *of_same_class(const dg_graph *g, const dg_node *node)
{
    for (int i = 0; i < node->index; i++)
        if (node->scope->nodes[i]->class == node->class)
            return dg_printf(g->arena, "@%s", node->scope->nodes[i]->id);
    return NULL;
}

/* The node before it that updates parameters, from gradients; NULL: there is none. */
static const dg_node *of_updating_class(const dg_node *node)
{
    for (int i = 0; i < node->index; i++) {
        const dg_node *other = node->scope->nodes[i];

        if (other->n_in && other->n_out && strcmp(other->in_ports[0]->type, "gradients") == 0 &&
            strcmp(other->out_ports[0]->type, "parameters") == 0)
            return other;
    }
    return NULL;
}

const char *dg_edit_of(const dg_graph *g, const dg_node *node, const char *id)
{
    if (strcmp(id, "allreduce-gradients") == 0)
        return dg_edit_drop(g, node, "op");
    if (strcmp(id, "mean-of-integers") == 0)
        return dg_edit_write(g, node, "op", "sum");
    if (strcmp(id, "root-range") == 0)
        return dg_edit_write(g, node, "root", "0");
    if (strcmp(id, "backward-twice") == 0 || strcmp(id, "optimizer-twice") == 0 ||
        strcmp(id, "ema-twice") == 0)
        return without(g, node, of_same_class(g, node));
    if (strcmp(id, "not-parameters") == 0 && of_updating_class(node))
        return dg_edit_write(g, node, node->in_ports[0]->name,
                             dg_printf(g->arena, "@%s", of_updating_class(node)->id));
    if (strcmp(id, "loss-without-parameters") == 0)
        return "wire to the loss what a <use> of a model, or a layer, computes from parameters "
               "that "
               "are trained: not with frozen=\"true\"";
    if (strcmp(id, "skip-accumulate") == 0)
        return dg_edit_write_part(g, node->scope->item, "accumulate", "1");
    if (strcmp(id, "allreduce-parameters") == 0 || strcmp(id, "collective-operand") == 0)
        return dg_edit_without(g, node);
    return NULL;
}

const dg_node *dg_edit_node(const dg_graph *g, const char *path)
{
    for (int i = 0; path && i < dg_graph_n_scopes(g); i++) {
        const dg_scope *s = dg_graph_scope(g, i);

        for (int k = 0; k < s->n_nodes; k++)
            if (strcmp(s->nodes[k]->path, path) == 0)
                return s->nodes[k];
    }
    return NULL;
}
