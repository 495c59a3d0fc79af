/* reference_json.c: the node reference as JSON. */
#include <string.h>

#include "graph/attr.h"
#include "graph/schema.h"
#include "graph/structure.h"

static void add_text(dg_str *out, const char *key, const char *text)
{
    dg_str_fmt(out, "\"%s\":", key);
    dg_str_json(out, text);
}

static void add_flag(dg_str *out, const char *key, bool on)
{
    dg_str_fmt(out, ",\"%s\":%s", key, on ? "true" : "false");
}

static void add_ports(dg_str *out, const dg_port *ports, bool outputs)
{
    const char *comma = "";

    dg_str_fmt(out, ",\n  \"%s\":[", outputs ? "outputs" : "inputs");
    for (const dg_port *p = ports; p && p->name; p++) {
        if (((p->flags & DG_PORT_OUT) != 0) != outputs)
            continue;
        dg_str_fmt(out, "%s{", comma);
        comma = ",";
        add_text(out, "name", p->name);
        dg_str_add(out, ",");
        add_text(out, "type", p->type);
        if (outputs) {
            add_flag(out, "main", p->flags & DG_PORT_MAIN);
            add_flag(out, "drops", p->flags & DG_PORT_DROPS);
            add_flag(out, "further", p->flags & DG_PORT_FURTHER);
            add_flag(out, "absent", p->flags & DG_PORT_EMPTY_ABSENT);
        } else {
            add_flag(out, "optional", p->flags & DG_PORT_OPTIONAL);
        }
        dg_str_add(out, ",");
        add_text(out, "doc", p->doc);
        dg_str_add(out, "}");
    }
    dg_str_add(out, "]");
}

static void add_attrs(dg_str *out, const dg_attr *attrs)
{
    dg_str_add(out, ",\n  \"attributes\":[");
    for (const dg_attr *a = attrs; a && a->name; a++) {
        dg_str def = { 0 }, expected = { 0 };

        dg_str_add(out, a == attrs ? "{" : ",{");
        add_text(out, "name", a->name);
        dg_str_add(out, ",");
        add_text(out, "kind", dg_attr_kind_name(a->kind));
        dg_attr_expected(&expected, a);
        dg_str_add(out, ",");
        add_text(out, "expected", expected.s);
        add_flag(out, "required", a->required);
        dg_str_add(out, ",");
        add_text(out, "default", !a->required && dg_attr_default_text(&def, a) ? def.s : NULL);
        dg_str_add(out, ",");
        add_text(out, "doc", a->doc);
        dg_str_add(out, "}");
        dg_str_free(&def);
        dg_str_free(&expected);
    }
    dg_str_add(out, "]");
}

static void add_children(dg_str *out, const dg_child_class *children)
{
    dg_str_add(out, ",\n  \"inside\":[");
    for (const dg_child_class *k = children; k && k->name; k++) {
        dg_str_add(out, k == children ? "{" : ",{");
        add_text(out, "name", k->name);
        dg_str_fmt(out, ",\"most\":%d,", k->most);
        add_text(out, "doc", k->doc);
        add_attrs(out, k->attrs);
        dg_str_add(out, "}");
    }
    dg_str_add(out, "]");
}

static void add_class(dg_str *out, const dg_node_class *c)
{
    dg_str_add(out, "{");
    add_text(out, "name", c->name);
    dg_str_add(out, ",");
    add_text(out, "role", dg_role_name(c->role));
    dg_str_add(out, ",");
    add_text(out, "brief", c->brief);
    dg_str_add(out, ",");
    add_text(out, "doc", c->doc);
    add_ports(out, c->ports, false);
    add_ports(out, c->ports, true);
    add_attrs(out, c->attrs);
    add_children(out, c->children);
    dg_str_add(out, "}");
}

static void add_structure(dg_str *out, const dg_structure *s)
{
    dg_str_add(out, "{");
    add_text(out, "name", s->name);
    dg_str_add(out, ",\"role\":\"language\",");
    add_text(out, "brief", s->brief);
    dg_str_add(out, ",");
    add_text(out, "doc", s->doc);
    dg_str_add(out, ",");
    add_text(out, "within", s->inside);
    add_attrs(out, s->attrs);
    dg_str_add(out, "}");
}

bool dg_reference_json(dg_str *out, const dg_registry *r, const char *name)
{
    const dg_node_class *c =
        dg_structure_class(name) ? dg_structure_class(name) : dg_registry_find(r, name);
    const dg_structure *s = dg_structure_find(name);

    if (c)
        add_class(out, c);
    else if (s)
        add_structure(out, s);
    return c || s;
}
