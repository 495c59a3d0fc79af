/* node.c: makes a node from an element inside a scope: class, id, attributes, wires, contracts, and
 * the class's own checks. An element of an unknown class becomes a broken node, so that wires to it
 * are not reported as well. */
#include <string.h>

#include "graph/attr.h"
#include "graph/edit.h"
#include "graph/load.h"

static const dg_attr common_attrs[] = {
    DG_BOOL(dg_node, recompute, false,
            "recompute activations in the backward pass instead of keeping them"),
    DG_ENUM(dg_node, connect, 0, "none|zero",
            "the output when `when` or an empty input prevents a result: nothing, or zeros with "
            "zero gradients"),
    DG_INT(dg_node, on, -1, -1, 65535, "the only rank that it runs on; -1: all ranks"),
    DG_WHEN(dg_node, budget, NULL, "longest time that other ranks wait for it"),
    DG_ENUM(dg_node, on_fail, 0, "abort|vote",
            "if it fails on one rank: all stop, or all vote on skipping the batch"),
    DG_BOOL(dg_node, exact, true, "produce the same bits in every run"),
    DG_BOOL(dg_node, frozen, false, "do not train its parameters"),
    { 0 },
};
static const dg_attr pretrained_attr = DG_PATH(dg_node, pretrained, NULL, "weights of this node");
/* Names of common_attrs; a class may have an attribute of the same name. */
static const char common_names[] = "when recompute connect on budget on_fail exact frozen";
static const dg_port broken_port = DG_OUT("out", "any", "");
static const dg_port *const broken_out[] = { &broken_port };
static const dg_node_class broken_class = { DG_NODE_CLASS, .name = "?" };

const char *dg_node_called(dg_arena *a, const dg_node *node)
{
    return dg_item_find(node->item, "id") ? dg_printf(a, "<%s id=\"%s\">", node->element, node->id)
                                          : dg_printf(a, "<%s>", node->element);
}

/* ---- class and id ---------------------------------------------------------------------------- */

static void unknown_class(dg_loader *l, const dg_item *item)
{
    const dg_registry *r = l->g->registry;
    int n = dg_registry_n(r), k = 0;
    const dg_structure *s = dg_structure_find(item->name);

    if (s) {
        dg_load_error(&l->report, item->frame, item->at, "element-misplaced",
                      "<%s> does not stand inside <%s>", item->name,
                      l->scope->kind == DG_SCOPE_MODEL   ? "model"
                      : l->scope->kind == DG_SCOPE_TRAIN ? "train"
                                                         : "evaluate");
        if (*s->inside)
            dg_load_error_help(&l->report, "it stands inside: %s", s->inside);
        return;
    }
    if (dg_load_left_out_element(l, item))
        return;
    dg_load_error_unless_holes(&l->report, item->frame, item->at, "element-unknown",
                               "there is no node class <%s>", item->name);
    if (l->report.muted)
        return;
    const char **names = DG_NEW_N(l->arena, n + 6, const char *);

    for (int i = 0; i < n; i++)
        names[k++] = dg_registry_at(r, i)->name;
    names[k++] = "use";
    names[k++] = "include";
    names[k++] = "stack";
    names[k++] = "let";
    if (l->scope->kind == DG_SCOPE_MODEL)
        names[k++] = "input";
    const char *near = dg_nearest(item->name, names, k);

    if (near)
        dg_load_error_help(&l->report, "did you mean <%s>?", near);
    else
        dg_load_error_help(
            &l->report,
            "`detrgraph nodes` lists the classes; a <plugin> stands before its first use");
}

static const dg_node_class *find_class(dg_loader *l, const dg_item *item)
{
    const dg_node_class *c = dg_registry_find(l->g->registry, item->name);

    if (strcmp(item->name, "input") != 0 && dg_structure_class(item->name))
        return dg_structure_class(item->name);
    if (strcmp(item->name, "input") == 0 && l->scope->kind == DG_SCOPE_MODEL)
        return &dg_class_input;
    if (!c && strcmp(item->name, "input") == 0) {
        dg_load_error(&l->report, item->frame, item->at, "element-misplaced",
                      "<input> stands inside <model>");
        return NULL;
    }
    if (!c)
        unknown_class(l, item);
    return c;
}

const char *dg_load_id(dg_loader *l, const dg_frame *frame, const char *id)
{
    return frame && frame != l->top
               ? dg_printf(l->arena, "%s%s", frame->prefix + (l->top ? strlen(l->top->prefix) : 0),
                           id)
               : id;
}

static const char *made_id(dg_loader *l, const dg_item *item)
{
    int *n = dg_map_get(l->counts, item->name);

    if (!n) {
        n = DG_NEW(l->arena, int);
        dg_map_set(l->counts, item->name, n);
    }
    return dg_printf(l->arena, "%s#%d", item->name, ++*n);
}

static void take_id(dg_loader *l, dg_node *node)
{
    const dg_item *item = node->item;
    const dg_item_attr *a = dg_item_find(item, "id");
    dg_node *other;

    if (a && !dg_item_id_ok(&l->report, item->frame, a)) {
        a = NULL;
    } else if (!a && node->class == &dg_class_input) {
        dg_load_error(&l->report, item->frame, item->at, "attr-missing",
                      "<input> needs id=\"...\"");
    } else if (a && node->class == &dg_class_input &&
               dg_is_among("id model recompute pretrained", a->value)) {
        dg_load_error(&l->report, item->frame, a->value_at, "id-taken",
                      "id=\"%s\": <use> has an attribute of this name already", a->value);
    }
    node->id = dg_load_id(l, item->frame, a ? a->value : made_id(l, item));
    other = a ? dg_map_get(l->scope->ids, node->id) : NULL;
    if (other) {
        dg_load_error(&l->report, item->frame, a->value_at, "id-twice",
                      "there is a node \"%s\" in this scope already", node->id);
        dg_load_error_note(&l->report, other->where, "it stands here");
    } else if (a) {
        dg_map_set(l->scope->ids, node->id, node);
    }
    node->path = dg_printf(l->arena, "%s/%s", l->scope->id, node->id);
    node->where = item->at;
    node->where.node = node->path;
    for (int i = 0; i < item->n_attrs; i++)
        item->attrs[i].at.node = item->attrs[i].value_at.node = node->path;
}

/* ---- ports ----------------------------------------------------------------------------------- */

static bool is_wire(const dg_item_attr *a)
{
    return a->value[0] == '@' && a->value[1] != '@';
}

/* True if this attribute is an input of the port "*". */
static bool is_free(const dg_node *node, const dg_item_attr *a)
{
    if ((!is_wire(a) && !a->bad) || dg_attr_find(node->class->attrs, a->name) ||
        dg_is_among(common_names, a->name) || strcmp(a->name, "id") == 0)
        return false;
    for (const dg_port *p = node->class->ports; p && p->name; p++)
        if (!(p->flags & DG_PORT_OUT) && strcmp(p->name, a->name) == 0)
            return false;
    return true;
}

/* Collects the inputs of the port "*", and their names for the class. */
static void take_free_ports(dg_loader *l, dg_node *node, const dg_port *star, const dg_port **in)
{
    const char **names = DG_NEW_N(l->arena, node->item->n_attrs, const char *);
    int n = 0;

    for (int i = 0; i < node->item->n_attrs; i++) {
        const dg_item_attr *a = &node->item->attrs[i];
        dg_port *p = DG_NEW(l->arena, dg_port);

        if (!is_free(node, a))
            continue;
        *p = (dg_port){ a->name, star->type, star->flags | DG_PORT_OPTIONAL, star->doc };
        names[n++] = a->name;
        in[node->n_in++] = p;
    }
    node->names = names;
    node->n_names = n;
    node->needs_one = !(star->flags & DG_PORT_OPTIONAL);
}

static void take_ports(dg_loader *l, dg_node *node)
{
    const dg_port *table = node->class->ports;
    int n = 0;

    while (table && table[n].name)
        n++;
    const dg_port **in = DG_NEW_N(l->arena, n + node->item->n_attrs, const dg_port *),
                  **out = DG_NEW_N(l->arena, n, const dg_port *);

    for (int i = 0; i < n; i++)
        if (table[i].flags & DG_PORT_OUT)
            out[node->n_out++] = &table[i];
        else if (strcmp(table[i].name, "*") == 0)
            take_free_ports(l, node, &table[i], in);
        else
            in[node->n_in++] = &table[i];
    node->in_ports = in;
    node->out_ports = out;
}

/* Finds the model of <use> as wires are found: in the enclosing includes, then outside. */
static const dg_scope *find_model(dg_loader *l, const dg_node *node, const dg_item_attr *a)
{
    const dg_graph *g = l->g;

    for (const dg_frame *f = node->item->frame;; f = f->up) {
        const char *id = dg_printf(l->arena, "%s%s", f ? f->prefix : "", a->value);

        for (int i = 0; i < g->n_models; i++)
            if (strcmp(g->models[i]->id, id) == 0)
                return g->models[i];
        if (!f)
            break;
    }
    if (l->scope->kind == DG_SCOPE_MODEL && strcmp(l->scope->id, a->value) == 0)
        dg_load_error(&l->report, node->item->frame, a->value_at, "model-unknown",
                      "model=\"%s\": a model cannot use itself", a->value);
    else
        dg_load_error_unless_holes(&l->report, node->item->frame, a->value_at, "model-unknown",
                                   "there is no <model id=\"%s\"> before this place", a->value);
    if (l->report.muted)
        return NULL;
    const char **names = DG_NEW_N(l->arena, g->n_models, const char *);

    for (int i = 0; i < g->n_models; i++)
        names[i] = g->models[i]->id;
    dg_load_error_nearest(&l->report, a->value, names, g->n_models, "models");
    return NULL;
}

/* Gives <use> the model's inputs and the outputs of its last node. */
static void take_model_ports(dg_loader *l, dg_node *node)
{
    const dg_item_attr *a = dg_item_find(node->item, "model");
    const dg_scope *m = a && !a->bad ? find_model(l, node, a) : NULL;

    node->model = m;
    if (!m || !m->output) {
        node->broken = true;
        node->out_ports = broken_out;
        node->n_out = 1;
        return;
    }
    const dg_port **in = DG_NEW_N(l->arena, m->n_inputs, const dg_port *);

    for (int i = 0; i < m->n_inputs; i++) {
        dg_port *p = DG_NEW(l->arena, dg_port);
        bool optional = ((const dg_input_conf *)m->inputs[i]->conf)->optional ||
                        !dg_item_whole(m->inputs[i]->item);

        *p = (dg_port){ m->inputs[i]->id, "any", optional ? DG_PORT_OPTIONAL : 0,
                        "input of the model" };
        in[i] = p;
    }
    node->in_ports = in;
    node->n_in = m->n_inputs;
    node->out_ports = m->output->out_ports;
    node->n_out = m->output->n_out;
    node->broken = m->output->broken;
}

/* Makes ports for an unknown class: every wire of the element is an input. */
static void take_broken_ports(dg_loader *l, dg_node *node)
{
    const dg_port **in = DG_NEW_N(l->arena, node->item->n_attrs, const dg_port *);

    for (int i = 0; i < node->item->n_attrs; i++) {
        const dg_item_attr *a = &node->item->attrs[i];
        dg_port *p = DG_NEW(l->arena, dg_port);

        *p = (dg_port)DG_IN_OPTIONAL(a->name, "any", "");
        if (is_wire(a))
            in[node->n_in++] = p;
    }
    node->in_ports = in;
    node->out_ports = broken_out;
    node->n_out = 1;
    node->broken = true;
}

static int find_port(const dg_node *node, const char *name)
{
    for (int i = 0; i < node->n_in; i++)
        if (strcmp(node->in_ports[i]->name, name) == 0)
            return i;
    return -1;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void unknown_attr(dg_loader *l, const dg_node *node, const dg_item_attr *a)
{
    if (node->model && l->report.holes)
        return; /* one of the model's inputs has no name */
    int n = 0;
    const char **names =
        DG_NEW_N(l->arena, dg_attr_n(node->class->attrs) + node->n_in + 16, const char *);

    for (int i = 0; i < node->n_in; i++)
        names[n++] = node->in_ports[i]->name;
    for (const dg_attr *row = node->class->attrs; row && row->name; row++)
        names[n++] = row->name;
    names[n++] = "id";
    names[n++] = "recompute";
    if (node->class->reference)
        names[n++] = "pretrained";
    if (strcmp(a->name, "pretrained") == 0) {
        dg_load_error(&l->report, node->item->frame, a->at, "attr-pretrained",
                      "%s has no parameters that a file could bring",
                      dg_node_called(l->arena, node));
        return;
    }
    const char *common[] = { "when", "connect", "on", "budget", "on_fail", "exact", "frozen" };

    for (size_t i = 0; !dg_nearest(a->name, names, n) && i < sizeof common / sizeof *common; i++)
        if (dg_nearest(a->name, &common[i], 1)) /* suggested only if similar */
            names[n++] = common[i];
    dg_load_unknown(l, node->item, a, dg_node_called(l->arena, node), names, n);
}

static void take_port(dg_loader *l, dg_node *node, int port, const dg_item_attr *a)
{
    node->in[port].where = a->value_at;
    if (a->bad)
        return;
    if (is_wire(a)) {
        if (!dg_load_wire(l, node, &node->in[port], a))
            node->in[port].from = NULL;
        return;
    }
    dg_load_error(&l->report, node->item->frame, a->value_at, "wire-expected",
                  "%s=\"%s\": an input takes a wire, like \"@node\" or \"@node.port\"", a->name,
                  a->value);
}

static void take_guard(dg_loader *l, dg_node *node, const dg_item_attr *a)
{
    node->when.where = a->value_at;
    if (a->bad)
        return;
    if (!is_wire(a))
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-expected",
                      "%s=\"%s\": a guard is a wire, like \"@node\"", a->name, a->value);
    else if (!dg_load_wire(l, node, &node->when, a))
        node->when.from = NULL;
    else
        dg_load_guard(l, node, a);
}

static void take_attrs(dg_loader *l, dg_node *node)
{
    dg_attr_defaults(node->class->attrs, node->conf, l->arena);
    dg_attr_defaults(common_attrs, node, l->arena);
    for (int i = 0; i < node->item->n_attrs; i++) {
        const dg_item_attr *a = &node->item->attrs[i];
        const dg_attr *row = dg_attr_find(node->class->attrs, a->name);
        int port = find_port(node, a->name);

        if (port >= 0)
            take_port(l, node, port, a);
        else if (row)
            dg_load_attr(l, node->item, a, row, node->conf);
        else if (dg_attr_find(common_attrs, a->name))
            dg_load_attr(l, node->item, a, dg_attr_find(common_attrs, a->name), node);
        else if (strcmp(a->name, "when") == 0)
            take_guard(l, node, a);
        else if (strcmp(a->name, "pretrained") == 0 && node->class->reference) {
            dg_load_attr(l, node->item, a, &pretrained_attr, node);
            node->pretrained_where = a->value_at;
        } else if (strcmp(a->name, "id") != 0 && !node->broken)
            unknown_attr(l, node, a);
    }
}

/* True if an unknown attribute with a similar name is reported instead of the missing one. */
static bool misspelt(const dg_node *node, const char *name)
{
    for (int i = 0; i < node->item->n_attrs; i++) {
        const char *have = node->item->attrs[i].name;

        if (find_port(node, have) < 0 && !dg_attr_find(node->class->attrs, have) &&
            !dg_is_among("id pretrained", have) && !dg_is_among(common_names, have) &&
            dg_nearest(have, &name, 1))
            return true;
    }
    return false;
}

static void require(dg_loader *l, dg_node *node)
{
    const char *called = dg_node_called(l->arena, node);

    for (const dg_attr *row = node->class->attrs; row && row->name; row++)
        if (row->required && !dg_item_find(node->item, row->name) && !misspelt(node, row->name)) {
            dg_str expected = { 0 };

            dg_attr_expected(&expected, row);
            dg_load_error(&l->report, node->item->frame, node->where, "attr-missing",
                          "%s needs %s=\"...\": %s (%s)", called, row->name, expected.s, row->doc);
            if (row->flags & DG_ATTR_AXES && l->g->axis)
                dg_load_error_help(&l->report, "%s", dg_edit_write(l->g, node, row->name, "dp"));
            dg_str_free(&expected);
        }
    for (int i = 0; i < node->n_in; i++)
        if (!(node->in_ports[i]->flags & DG_PORT_OPTIONAL) && !node->in[i].where.line &&
            !misspelt(node, node->in_ports[i]->name))
            dg_load_error_unless_holes(&l->report, node->item->frame, node->where, "port-missing",
                                       "%s needs %s=\"@...\": %s", called, node->in_ports[i]->name,
                                       node->in_ports[i]->doc);
}

/* ---- child elements -------------------------------------------------------------------------- */

static void unknown_child(dg_loader *l, const dg_node *node, const dg_item *k)
{
    const char *names[64];
    int n = 0;

    for (const dg_child_class *c = node->class->children; c && c->name && n < 64; c++)
        names[n++] = c->name;
    dg_load_error(&l->report, k->frame, k->at, "element-misplaced",
                  n ? "<%s> has no element <%s>" : "<%s> has no elements inside, here is <%s>",
                  node->element, k->name);
    dg_load_error_nearest(&l->report, k->name, names, n, "its elements");
}

/* False: one of them lacks something, which was reported. */
static bool take_children(dg_loader *l, dg_node *node)
{
    const dg_child_class *table = node->class->children;
    int n = 0, counts[64] = { 0 };
    bool whole = true;

    for (const dg_item *k = node->item->first; k; k = k->next)
        n += k->name != NULL;
    dg_child *list = DG_NEW_N(l->arena, n, dg_child);

    n = 0;
    for (const dg_item *k = node->item->first; k; k = k->next) {
        int kind = 0;

        if (!k->name)
            continue;
        while (table && table[kind].name && strcmp(table[kind].name, k->name) != 0)
            kind++;
        if (!table || !table[kind].name) {
            unknown_child(l, node, k);
            continue;
        }
        if (kind < 64 && ++counts[kind] > table[kind].most && table[kind].most)
            dg_load_error(&l->report, k->frame, k->at, "child-too-many",
                          "<%s> takes at most %d <%s>", node->element, table[kind].most, k->name);
        void *conf = dg_alloc(l->arena, table[kind].conf_size);

        whole &= dg_load_attrs(l, k, dg_printf(l->arena, "<%s>", k->name), table[kind].attrs, conf,
                               NULL);
        for (const dg_item *inner = k->first; inner; inner = inner->next)
            if (inner->name)
                dg_load_error(&l->report, inner->frame, inner->at, "element-misplaced",
                              "<%s> has no elements inside", k->name);
        list[n] = (dg_child){ kind, conf, k->at };
        list[n++].where.node = node->path;
    }
    if (table)
        *(dg_children *)(void *)((char *)node->conf + node->class->children_offset) =
            (dg_children){ n, list };
    return whole;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Sets the name in checkpoints: the class's for its first node, the node's own for others, so that
 * no two nodes share one. */
static void take_reference(dg_loader *l, dg_node *node)
{
    bool first = l->g->n_models == 0; /* if this scope is a model, it is the first */

    if (l->scope->kind != DG_SCOPE_MODEL || !first) {
        node->reference = dg_printf(l->arena, "%s.%s", l->scope->id, node->id);
        return;
    }
    node->reference = node->id;
    if (!node->class->reference)
        return;
    if (dg_map_has(l->references, node->class->reference))
        return;
    dg_map_set(l->references, node->class->reference, node);
    node->reference = node->class->reference;
}

/* Reports common attributes that make no sense on this node. */
static void check_words(dg_loader *l, const dg_node *node)
{
    const dg_item_attr *a = dg_item_find(node->item, "frozen");

    for (int i = 0; i < node->item->n_attrs && node->class == &dg_class_input; i++)
        if (dg_is_among("when connect on budget on_fail exact frozen", node->item->attrs[i].name))
            dg_load_unknown(l, node->item, &node->item->attrs[i], dg_node_called(l->arena, node),
                            (const char *const[]){ "id", "optional" }, 2);
    if (node->frozen && node->class == &dg_class_use) {
        dg_load_error(&l->report, node->item->frame, a->at, "frozen-use",
                      "a model's parameters belong to its nodes: frozen=\"true\" stands there");
        dg_load_error_help(&l->report, "%s", dg_edit_drop(l->g, node, "frozen"));
    }
    dg_load_minutes(l, node->item, "budget", node->budget);
}

void dg_load_node(dg_loader *l, const dg_item *item)
{
    const dg_node_class *class = find_class(l, item);
    dg_node *node = DG_NEW(l->arena, dg_node);
    int before = l->report.n;
    bool whole = dg_item_whole(item); /* what is missing is not the default */

    node->class = class ? class : &broken_class;
    node->item = item;
    node->element = item->name;
    node->scope = l->scope;
    node->number = l->g->n_nodes++;
    node->index = l->nodes.n;
    take_id(l, node);
    if (!class)
        take_broken_ports(l, node);
    else if (class == &dg_class_use)
        take_model_ports(l, node);
    else
        take_ports(l, node);
    node->in = DG_NEW_N(l->arena, node->n_in, dg_wire);
    node->conf = dg_alloc(l->arena, node->class->conf_size);
    if (node->class->names_offset)
        *(dg_names *)(void *)((char *)node->conf + node->class->names_offset) =
            (dg_names){ node->n_names, node->names };
    take_reference(l, node);
    take_attrs(l, node);
    if (class)
        require(l, node);
    if (class)
        whole &= take_children(l, node);
    if (class)
        check_words(l, node);
    whole &= !node->broken;
    dg_load_contracts(l, node, whole && l->report.n == before);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].from && !node->broken)
            dg_load_agree(l, node, i, dg_item_find(item, node->in_ports[i]->name));
    if (whole && l->report.n == before)
        dg_load_check(l, node);
    DG_PUSH(l->arena, l->nodes, node);
    for (dg_frame *f = item->frame; f && f != l->top; f = f->up)
        f->last = node;
}
