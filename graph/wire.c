/* wire.c: resolves "@node.port.key" to a producer, and checks that both ends agree.
 *
 * Ids are looked up in the innermost include or repetition, then outwards, always within one scope.
 * The longest matching id wins; then come the port and the key path. */
#include <assert.h>
#include <string.h>

#include "graph/edit.h"
#include "graph/load.h"

enum { MAX_PATH = 500 }; /* bytes of "node.port.key" */

/* The result of looking up an id. */
typedef struct target {
    dg_node *node;
    const char *rest; /* ".port.key", or "" */
} target;

static const char *prefix_of(const dg_loader *l, const dg_frame *f)
{
    return f && f != l->top ? f->prefix + (l->top ? strlen(l->top->prefix) : 0) : "";
}

/* True for components of letters, digits, _ - and #, separated by dots. */
static bool is_path(const char *s)
{
    bool begin = true;

    if (strnlen(s, MAX_PATH + 1) > MAX_PATH)
        return false;

    for (; *s; s++) {
        bool letter =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-#", *s) != NULL;

        if (!letter && (*s != '.' || begin))
            return false;
        begin = *s == '.';
    }
    return !begin;
}

/* The longest prefix of path that, after `prefix`, is a key of map; returns its length, 0 if
 * none. */
static size_t longest(dg_arena *a, const dg_map *map, const char *prefix, const char *path,
                      void **value)
{
    *value = NULL;
    for (size_t len = strnlen(path, MAX_PATH + 1) > MAX_PATH ? 0 : strlen(path); len > 0;) {
        const char *id = dg_printf(a, "%s%.*s", prefix, (int)len, path);

        if ((*value = dg_map_get(map, id)))
            return len;
        do
            len--;
        while (len > 0 && path[len] != '.');
    }
    return 0;
}

static bool find_target(dg_loader *l, const dg_frame *f, const char *path, target *t)
{
    for (;; f = f->up) {
        bool top = !f || f == l->top, chained = !top && f->stack && strncmp(path, "in", 2) == 0 &&
                                                (!path[2] || path[2] == '.');
        void *value;

        if (chained && f->before && f->before->last) {
            *t = (target){ f->before->last, path + 2 };
            return true;
        }
        if (chained && !f->before && f->in && f->in->value[0] == '@')
            return find_target(l, f->up, dg_printf(l->arena, "%s%s", f->in->value + 1, path + 2),
                               t);
        size_t len = longest(l->arena, l->scope->ids, prefix_of(l, f), path, &value);

        if (len) {
            *t = (target){ value, path + len };
            return true;
        }
        if (top)
            return false;
    }
}

/* ---- unknown ids ----------------------------------------------------------------------------- */

static const dg_node *find_elsewhere(const dg_loader *l, const char *path)
{
    const dg_graph *g = l->g;
    const size_t len = strcspn(path, ".");
    const char *id = dg_strndup(l->arena, path, len);
    const dg_node *n = NULL;

    for (int i = 0; i < g->n_models && !n; i++)
        n = dg_map_get(g->models[i]->ids, id);
    for (int i = 0; i < g->n_evaluates && !n; i++)
        n = dg_map_get(g->evaluates[i]->ids, id);
    return n || !g->train ? n : dg_map_get(g->train->ids, id);
}

static void unknown_id(dg_loader *l, const dg_node *node, const dg_item_attr *a, const char *path)
{
    const dg_frame *f = node->item->frame;
    const dg_node *other = find_elsewhere(l, path);
    void *later = NULL;
    size_t len = 0;

    for (; !later; f = f->up) {
        len = longest(l->arena, l->later, prefix_of(l, f), path, &later);
        if (!f || f == l->top)
            break;
    }
    if (later) {
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-later",
                      "%s=\"%s\": a name stands before its use, and \"%.*s\" comes later", a->name,
                      a->value, (int)len, path);
        dg_load_error_note(&l->report, *(const dg_where *)later, "it stands here");
        return;
    }
    if (other && !l->report.holes) {
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-scope",
                      "%s=\"%s\": a wire stays inside its own model, train or evaluate", a->name,
                      a->value);
        dg_load_error_note(&l->report, other->where, "\"%s\" stands here", other->id);
        if (other->scope->kind == DG_SCOPE_MODEL)
            dg_load_error_help(
                &l->report,
                "<use model=\"%s\"> runs the model; its output is that of its last node",
                other->scope->id);
        return;
    }
    dg_load_error_unless_holes(&l->report, node->item->frame, a->value_at, "wire-unknown",
                               "%s=\"%s\": there is no node \"%.*s\" before this place", a->name,
                               a->value, (int)strcspn(path, "."), path);
    if (l->report.muted)
        return;
    int n = dg_map_n(l->scope->ids), k = 0;
    const char **names = DG_NEW_N(l->arena, n, const char *);

    for (int i = 0; i < n; i++)
        if (dg_map_value(l->scope->ids, i) != node)
            names[k++] = dg_map_key(l->scope->ids, i);
    dg_load_error_nearest(&l->report, dg_strndup(l->arena, path, strcspn(path, ".")), names, k,
                          "nodes");
}

/* ---- ports ----------------------------------------------------------------------------------- */

static void list_ports(dg_loader *l, const dg_node *from)
{
    dg_str list = { 0 };

    for (int i = 0; i < from->n_out; i++)
        dg_str_fmt(&list, "%s@%s.%s", i ? ", " : "", from->id, from->out_ports[i]->name);
    if (list.s)
        dg_load_error_help(&l->report, "its outputs: %s", list.s);
    dg_str_free(&list);
}

/* The only output, or the one declared main; -1: none. */
static int main_port(const dg_node *from)
{
    if (from->n_out == 1)
        return 0;
    for (int i = 0; i < from->n_out; i++)
        if (from->out_ports[i]->flags & DG_PORT_MAIN)
            return i;
    return -1;
}

/* rest: ".port.key" after the id, or "". */
static bool choose_port(dg_loader *l, const dg_node *node, const dg_item_attr *a, dg_wire *w,
                        const char *rest)
{
    const dg_node *from = w->from;
    size_t len = strcspn(rest, ".");

    for (w->port = 0; w->port < from->n_out; w->port++)
        if (len && strlen(from->out_ports[w->port]->name) == len &&
            memcmp(from->out_ports[w->port]->name, rest, len) == 0) {
            w->key = rest[len] ? rest + len + 1 : NULL;
            return true;
        }
    w->port = main_port(from);
    w->key = *rest ? rest : NULL;
    if (w->port >= 0) {
        dg_type_kind kind = from->out_contracts[w->port]->kind;

        if (!*rest || kind == DG_TYPE_RECORD || kind == DG_TYPE_ANY)
            return true;
    }
    if (from->n_out == 0)
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-no-output",
                      "%s=\"%s\": %s has no output", a->name, a->value,
                      dg_node_called(l->arena, from));
    else if (!*rest)
        dg_load_error_unless_holes(&l->report, node->item->frame, a->value_at, "wire-ambiguous",
                                   "%s=\"%s\": %s has several outputs, and none is the main one",
                                   a->name, a->value, dg_node_called(l->arena, from));
    else
        dg_load_error(&l->report, node->item->frame, a->value_at, "port-unknown",
                      "%s=\"%s\": %s has no output \"%.*s\"", a->name, a->value,
                      dg_node_called(l->arena, from), (int)len, rest);
    const char **names = DG_NEW_N(l->arena, from->n_out, const char *), *near;

    for (int i = 0; i < from->n_out; i++)
        names[i] = from->out_ports[i]->name;
    near = *rest ? dg_nearest(dg_strndup(l->arena, rest, len), names, from->n_out) : NULL;
    if (near)
        dg_load_error_help(&l->report, "did you mean \"@%s.%s\"?", from->id, near);
    else
        list_ports(l, from);
    return false;
}

bool dg_load_wire(dg_loader *l, dg_node *node, dg_wire *w, const dg_item_attr *a)
{
    const char *path = a->value + 1;
    target t;

    if (!is_path(path)) {
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-syntax",
                      "%s=\"%s\": expected \"@node\", \"@node.port\" or \"@node.port.key\"",
                      a->name, a->value);
        return false;
    }
    if (!find_target(l, node->item->frame, path, &t)) {
        unknown_id(l, node, a, path);
        return false;
    }
    if (t.node == node) {
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-self",
                      "%s=\"%s\": a node cannot feed itself", a->name, a->value);
        return false;
    }
    w->from = t.node;
    return t.node->broken || choose_port(l, node, a, w, t.rest + (*t.rest == '.'));
}

const dg_node *dg_load_upward(dg_loader *l, const dg_item *item, const dg_item_attr *a,
                              dg_scope *const scopes[], int n, const char *what, const char **rest)
{
    const char *path = a->value + 1;
    const dg_node *found = NULL;
    const char *names[64];
    int k = 0;

    *rest = "";
    if (a->bad)
        return NULL;
    if (a->value[0] != '@' || !*path) {
        dg_load_error(&l->report, item->frame, a->value_at, "wire-expected",
                      "%s=\"%s\": expected a wire, like \"@node\"", a->name, a->value);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        void *value;
        size_t len =
            longest(l->arena, scopes[i]->ids, item->frame ? item->frame->prefix : "", path, &value);

        if (!len)
            len = longest(l->arena, scopes[i]->ids, "", path, &value);
        if (len && found) {
            dg_load_error(&l->report, item->frame, a->value_at, "wire-ambiguous",
                          "%s=\"%s\": there are several nodes of this id", a->name, a->value);
            dg_load_error_note(&l->report, found->where, "one stands here");
            dg_load_error_note(&l->report, ((const dg_node *)value)->where, "another here");
            return NULL;
        }
        if (len) {
            found = value;
            *rest = path + len + (path[len] == '.');
        }
        for (int j = 0; j < dg_map_n(scopes[i]->ids) && k < 64; j++)
            names[k++] = dg_map_key(scopes[i]->ids, j);
    }
    if (!found) {
        dg_load_error_unless_holes(&l->report, item->frame, a->value_at, "wire-unknown",
                                   "%s=\"%s\": there is no such node in %s before this place",
                                   a->name, a->value, what);
        dg_load_error_nearest(&l->report, dg_strndup(l->arena, path, strcspn(path, ".")), names, k,
                              "its nodes");
    }
    return found;
}

/* ---- both ends ------------------------------------------------------------------------------- */

static void note_producer(dg_loader *l, const dg_wire *w)
{
    const dg_port *p = w->from->out_ports[w->port];

    dg_load_error_note(&l->report, w->from->where, "from %s, output \"%s\": %s",
                       dg_node_called(l->arena, w->from), p->name, p->doc);
}

static void unknown_key(dg_loader *l, const dg_node *node, const dg_item_attr *a, const dg_wire *w,
                        const dg_contract *record)
{
    const char *names[64], *last;
    int n = 0;
    dg_str type = { 0 };

    assert(w->key && record); /* only a key can be missing */
    last = strrchr(w->key, '.');
    dg_contract_print(&type, &l->g->dims, record);
    dg_load_error(&l->report, node->item->frame, a->value_at, "key-unknown",
                  "%s=\"%s\": there is no key \"%s\" in %s", a->name, a->value, w->key, type.s);
    note_producer(l, w);
    for (int i = 0; i < record->n_fields; i++)
        names[n++] = record->fields[i].key;
    dg_load_error_nearest(&l->report, last ? last + 1 : w->key, names, n, "its keys");
    dg_str_free(&type);
}

void dg_load_guard(dg_loader *l, dg_node *node, const dg_item_attr *a)
{
    const dg_wire *w = &node->when;
    const dg_contract *have, *record = NULL;
    const char *number = NULL;
    bool optional = false;
    dg_str type = { 0 };

    if (!w->from || w->from->broken)
        return;
    have = w->from->out_contracts[w->port];
    if (w->key)
        have = dg_contract_key(have, w->key, &record, &optional);
    if (!have)
        unknown_key(l, node, a, w, record);
    if (!have || have->kind == DG_TYPE_ANY ||
        (have->kind == DG_TYPE_TENSOR && have->n_dims == 0 && have->ellipsis < 0))
        return;
    dg_contract_print(&type, &l->g->dims, have);
    dg_load_error(&l->report, node->item->frame, a->value_at, "when-scalar",
                  "%s=\"%s\": a guard is one number, here it is %s", a->name, a->value, type.s);
    if (have->kind == DG_TYPE_TENSOR)
        number = dg_printf(l->arena, "test in=\"%s\" is=\"positive\"", a->value);
    if (have->kind == DG_TYPE_GRADIENTS)
        number = dg_printf(l->arena, "gradient.norm in=\"%s\"", a->value);
    if (number)
        dg_load_error_help(&l->report, "%s",
                           dg_edit_insert(l->g, node, a->name, w, number, "some", NULL));
    dg_str_free(&type);
}

void dg_load_agree(dg_loader *l, dg_node *node, int port, const dg_item_attr *a)
{
    dg_wire *w = &node->in[port];
    const dg_node *from = w->from;
    const dg_contract *to = node->in_types[port], *have, *record = NULL;
    bool optional = false;
    dg_str why = { 0 };

    if (from->broken)
        return;
    have = from->out_contracts[w->port];
    if (w->key)
        have = dg_contract_key(have, w->key, &record, &optional);
    if (!have) {
        unknown_key(l, node, a, w, record);
        return;
    }
    if (from->class == &dg_class_input) {
        optional |= ((const dg_input_conf *)from->conf)->optional;
        /* an input of type any gets its first reader's type */
        if (have->kind == DG_TYPE_ANY && !w->key)
            from->out_contracts[0] = to;
    }
    if (optional && !(node->in_ports[port]->flags & DG_PORT_OPTIONAL)) {
        dg_load_error(&l->report, node->item->frame, a->value_at, "wire-optional",
                      "%s=\"%s\": it may be missing, but %s always needs it", a->name, a->value,
                      dg_node_called(l->arena, node));
        note_producer(l, w);
        return;
    }
    if (have->kind == DG_TYPE_STREAM && l->report.n)
        return; /* what it streams is not known for an error before */
    if (to->kind == DG_TYPE_ANY && !dg_contract_flows(have)) {
        dg_str_add(&why, "it is ");
        dg_contract_print(&why, &l->g->dims, have);
        dg_str_add(&why, ", and a tensor is expected");
    } else if (dg_contract_unify(&l->g->dims, have, to, &why)) {
        return;
    }
    dg_load_error(&l->report, node->item->frame, a->value_at, "contract-mismatch", "%s=\"%s\": %s",
                  a->name, a->value, why.s);
    note_producer(l, w);
    dg_load_error_note(&l->report, node->where, "to %s, input \"%s\": %s",
                       dg_node_called(l->arena, node), node->in_ports[port]->name,
                       node->in_ports[port]->doc);
    dg_str_free(&why);
}
