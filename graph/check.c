/* check.c: a class's own checks of its node: contracts of its ports, `type` and `check`, and the
 * functions of node.h for those. */
#include <string.h>

#include "graph/load.h"
#include "graph/rule.h"

struct dg_check {
    dg_loader *l;
    dg_node *node;
};

struct dg_typing {
    dg_loader *l;
    dg_node *node;
    const char **text; /* one per output */
};

/* ---- contracts ------------------------------------------------------------------------------- */

static const dg_contract *parse(dg_loader *l, dg_node *node, dg_letters *letters,
                                const dg_port *port, const char *text)
{
    const char *why;
    int at;
    const dg_contract *c = dg_contract_parse(letters, text, port->flags, &at, &why);

    if (c)
        return c;
    dg_load_error(&l->report, node->item->frame, node->where, "class-type",
                  "%s, port \"%s\": \"%s\" is no type: %s at character %d",
                  dg_node_called(l->arena, node), port->name, text, why, at + 1);
    return &dg_contract_any;
}

/* For <use>: copies the model's types, with separate dimensions for each use. */
static void copy_model(dg_loader *l, dg_node *node)
{
    dg_renaming map = { 0 };

    for (int i = 0; i < node->n_in; i++)
        node->in_types[i] =
            dg_contract_copy(&l->g->dims, node->model->inputs[i]->out_contracts[0], &map);
    for (int i = 0; i < node->n_out; i++)
        node->out_contracts[i] =
            dg_contract_copy(&l->g->dims, node->model->output->out_contracts[i], &map);
}

static const char **print_types(dg_loader *l, const dg_node *node)
{
    const char **text = DG_NEW_N(l->arena, node->n_out, const char *);

    for (int i = 0; i < node->n_out; i++) {
        dg_str out = { 0 };

        dg_contract_print(&out, &l->g->dims, node->out_contracts[i]);
        text[i] = dg_strdup(l->arena, out.s);
        dg_str_free(&out);
    }
    return text;
}

/* True for a stream's port, and for a collective's of any type: the proof says why data on their
 * way cannot go through one. */
static bool takes_stream(const dg_node *node, int port)
{
    if (node->in_types[port]->kind != DG_TYPE_ANY)
        return node->in_types[port]->kind == DG_TYPE_STREAM;
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (dg_rule_is_collective(r) && dg_rule_input(node, r) == port)
            return true;
    return false;
}

/* Outputs of stream or any type get the type of the input. */
static void follow_streams(dg_node *node)
{
    const dg_contract *stream = NULL;

    for (int i = 0; i < node->n_in; i++) {
        const dg_wire *w = &node->in[i];

        if (!w->from || w->from->broken || w->key || !takes_stream(node, i) ||
            !dg_contract_is_stream(w->from->out_contracts[w->port]))
            continue;
        node->in_types[i] = w->from->out_contracts[w->port];
        stream = stream ? stream : node->in_types[i];
    }
    for (int i = 0; i < node->n_out && stream; i++)
        if (node->out_contracts[i]->kind == DG_TYPE_STREAM ||
            node->out_contracts[i]->kind == DG_TYPE_ANY)
            node->out_contracts[i] = stream;
}

void dg_load_contracts(dg_loader *l, dg_node *node, bool conf_ok)
{
    dg_letters letters = { .dims = &l->g->dims };
    dg_typing typing = { l, node, DG_NEW_N(l->arena, node->n_out, const char *) };

    node->in_types = DG_NEW_N(l->arena, node->n_in, const dg_contract *);
    node->out_contracts = DG_NEW_N(l->arena, node->n_out, const dg_contract *);
    if (node->model && !node->broken) {
        copy_model(l, node);
    } else {
        if (node->class->type && conf_ok)
            node->class->type(&typing, node->conf);
        for (int i = 0; i < node->n_in; i++)
            node->in_types[i] =
                parse(l, node, &letters, node->in_ports[i], node->in_ports[i]->type);
        for (int i = 0; i < node->n_out; i++)
            node->out_contracts[i] =
                parse(l, node, &letters, node->out_ports[i],
                      typing.text[i] ? typing.text[i] : node->out_ports[i]->type);
    }
    if (!node->model)
        follow_streams(node);
    node->out_types = print_types(l, node);
}

void dg_type(dg_typing *t, const char *port, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *text = dg_vprintf(t->l->arena, fmt, ap);
    va_end(ap);
    for (int i = 0; i < t->node->n_out; i++)
        if (strcmp(t->node->out_ports[i]->name, port) == 0) {
            t->text[i] = text;
            return;
        }
    dg_load_error(&t->l->report, t->node->item->frame, t->node->where, "class-type",
                  "the class gives a type to \"%s\", which is no output of %s", port,
                  dg_node_called(t->l->arena, t->node));
}

/* ---- check ----------------------------------------------------------------------------------- */

void dg_load_check(dg_loader *l, dg_node *node)
{
    dg_check c = { l, node };

    if (node->class->check)
        node->class->check(&c, node->conf);
}

void dg_check_fail(dg_check *c, const char *attr, const char *id, const char *fmt, ...)
{
    const dg_item *item = c->node->item;
    const dg_item_attr *a = attr ? dg_item_find(item, attr) : NULL;
    const char *called = dg_node_called(c->l->arena, c->node);
    va_list ap;

    va_start(ap, fmt);
    const char *text = dg_vprintf(c->l->arena, fmt, ap);
    va_end(ap);
    if (a)
        dg_load_error(&c->l->report, item->frame, a->value_at, id, "%s=\"%s\": %s", a->name,
                      a->value, text);
    else if (attr)
        dg_load_error(&c->l->report, item->frame, c->node->where, id, "%s: %s: %s", called, attr,
                      text);
    else
        dg_load_error(&c->l->report, item->frame, c->node->where, id, "%s: %s", called, text);
}

void dg_check_help(dg_check *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    dg_load_error_help(&c->l->report, "%s", dg_vprintf(c->l->arena, fmt, ap));
    va_end(ap);
}

bool dg_check_wired(const dg_check *c, const char *port)
{
    for (int i = 0; i < c->node->n_in; i++)
        if (strcmp(c->node->in_ports[i]->name, port) == 0)
            return c->node->in[i].where.line > 0;
    return false;
}

bool dg_check_has_pretrained(const dg_check *c)
{
    return c->node->pretrained != NULL;
}
