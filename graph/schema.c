/* schema.c: generates a RELAX NG schema from the tables, for completion and checks in editors.
 *
 * Optional attributes are grouped by value type, each group as a repetition over a choice of names,
 * because libxml2's validator takes exponential time in the number of optional attributes that are
 * present, but none for a repetition. Any value may also be text with a $name. Includes the classes
 * of loaded plugins. */
#include "graph/schema.h"

#include <string.h>

#include "graph/attr.h"
#include "graph/structure.h"

static const struct {
    const char *name, *pattern;
} texts[] = {
    { "wire", "@[^@].*|.*[$].*" },
    { "id", "[A-Za-z][A-Za-z0-9_\\-]*|.*[$].*" },
    { "when",
      "(step|epoch) [0-9]+|[0-9]+ (step|steps|epoch|epochs)|[0-9.]+ (min|minutes)|[0-9.]+ ?%|never|"
      ".*[$].*" },
    { "span", "[0-9.]+|(step|epoch) [0-9]+|[0-9]+ (step|steps|epoch|epochs)|[0-9.]+ ?%|.*[$].*" },
    { "integers", "[0-9,: +\\-]+|.*[$].*" },
    { "sizes", "[0-9,:x ]+|.*[$].*" },
    { "bool", "true|false|.*[$].*" },
    { "dollar", ".*[$].*" },
};

static const char *const value_of[] = {
    /* NULL: written out at each use */
    [DG_ATTR_NUM] = "number", [DG_ATTR_INT] = "integer",   [DG_ATTR_BOOL] = "bool",
    [DG_ATTR_STR] = "text",   [DG_ATTR_PATH] = "text",     [DG_ATTR_ENUM] = NULL,
    [DG_ATTR_WHEN] = "when",  [DG_ATTR_INTS] = "integers", [DG_ATTR_SIZES] = "sizes",
};

static const char *value_name(const dg_attr *a)
{
    return a->kind == DG_ATTR_WHEN && a->def > 0 ? "span" : value_of[a->kind];
}

/* Common attributes of nodes: pairs of value type and name. */
#define COMMON "wire when text connect integer on when budget text on_fail bool exact bool frozen"

static void print_doc(dg_str *out, const char *doc)
{
    if (!doc)
        return;
    dg_str_add(out, "<a:documentation>");
    dg_str_xml(out, doc);
    dg_str_add(out, "</a:documentation>");
}

static void print_words(dg_str *out, const dg_attr *a)
{
    dg_str_add(out, "<choice><ref name=\"v.dollar\"/>");
    for (const char *p = a->text; *p;) {
        size_t n = strcspn(p, "|");

        dg_str_fmt(out, "<value>%.*s</value>", (int)n, p);
        p += n + (p[n] == '|');
    }
    dg_str_add(out, "</choice>");
}

static void print_value(dg_str *out, const dg_attr *a)
{
    if (value_name(a))
        dg_str_fmt(out, "<ref name=\"v.%s\"/>", value_name(a));
    else
        print_words(out, a);
}

static void print_required(dg_str *out, const char *name, const char *doc, const char *value,
                           const dg_attr *a)
{
    dg_str_fmt(out, "    <attribute name=\"%s\">", name);
    print_doc(out, doc);
    if (a)
        print_value(out, a);
    else
        dg_str_fmt(out, "<ref name=\"v.%s\"/>", value);
    dg_str_add(out, "</attribute>\n");
}

/* A group of optional attributes of one type: begin, names, end. */
static void begin_group(dg_str *out)
{
    dg_str_add(out, "    <zeroOrMore><attribute><choice>");
}

static void end_group(dg_str *out, const char *value, const dg_attr *words)
{
    dg_str_add(out, "</choice>");
    if (words)
        print_words(out, words);
    else
        dg_str_fmt(out, "<ref name=\"v.%s\"/>", value);
    dg_str_add(out, "</attribute></zeroOrMore>\n");
}

/* True if `more` has names for this value type. more: pairs "bool recompute text pretrained", or
 * NULL. */
static bool has_more(const char *more, const char *value)
{
    for (const char *p = more; p && *p;) {
        size_t n = strcspn(p, " ");

        if (strlen(value) == n && memcmp(p, value, n) == 0)
            return true;
        p += n + 1;
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    return false;
}

static void print_more(dg_str *out, const char *more, const char *value)
{
    for (const char *p = more; p && *p;) {
        size_t n = strcspn(p, " ");
        const char *name = p + n + 1;
        size_t len = strcspn(name, " ");

        if (strlen(value) == n && memcmp(p, value, n) == 0)
            dg_str_fmt(out, "<name>%.*s</name>", (int)len, name);
        p = name + len + (name[len] == ' ');
    }
}

static void print_attrs(dg_str *out, const dg_attr *table, const char *more)
{
    static const char *const values[] = { "number",   "integer", "bool", "text", "when",
                                          "integers", "sizes",   "span", "id",   "wire" };

    for (const dg_attr *a = table; a && a->name; a++)
        if (a->required)
            print_required(out, a->name, a->doc, NULL, a);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        bool any = has_more(more, values[i]);

        for (const dg_attr *a = table; a && a->name && !any; a++)
            any = !a->required && value_name(a) && strcmp(value_name(a), values[i]) == 0;
        if (!any)
            continue;
        begin_group(out);
        for (const dg_attr *a = table; a && a->name; a++)
            if (!a->required && value_name(a) && strcmp(value_name(a), values[i]) == 0)
                dg_str_fmt(out, "<name>%s</name>", a->name);
        print_more(out, more, values[i]);
        end_group(out, values[i], NULL);
    }
    for (const dg_attr *a = table; a && a->name; a++)
        if (!a->required && a->kind == DG_ATTR_ENUM) {
            begin_group(out);
            dg_str_fmt(out, "<name>%s</name>", a->name);
            end_group(out, NULL, a);
        }
}

static void begin_element(dg_str *out, const char *prefix, const char *name, const char *doc)
{
    dg_str_fmt(out, "  <define name=\"%s.%s\"><element name=\"%s\">\n", prefix, name, name);
    dg_str_add(out, doc ? "    " : "");
    print_doc(out, doc);
    dg_str_add(out, doc ? "\n" : "");
}

static void end_element(dg_str *out)
{
    dg_str_add(out, "  </element></define>\n");
}

static void print_class(dg_str *out, const dg_node_class *c)
{
    dg_str more = { 0 };

    for (const dg_child_class *k = c->children; k && k->name; k++) {
        dg_str prefix = { 0 };

        dg_str_fmt(&prefix, "child.%s", c->name);
        begin_element(out, prefix.s, k->name, k->doc);
        print_attrs(out, k->attrs, NULL);
        if (!k->attrs || !k->attrs->name)
            dg_str_add(out, "    <empty/>\n");
        end_element(out);
        dg_str_free(&prefix);
    }
    begin_element(out, "node", c->name, c->brief);
    for (const dg_port *p = c->ports; p && p->name; p++)
        if (!(p->flags & DG_PORT_OUT) && !(p->flags & DG_PORT_OPTIONAL) && *p->name != '*')
            print_required(out, p->name, p->doc, "wire", NULL);
    dg_str_add(&more, "bool recompute id id " COMMON);
    if (c->reference)
        dg_str_add(&more, " text pretrained");
    for (const dg_port *p = c->ports; p && p->name; p++)
        if (!(p->flags & DG_PORT_OUT) && p->flags & DG_PORT_OPTIONAL && *p->name != '*')
            dg_str_fmt(&more, " wire %s", p->name);
    if (c->names_offset)
        dg_str_add(out, "    <zeroOrMore><attribute><anyName/><text/></attribute></zeroOrMore>\n");
    else
        print_attrs(out, c->attrs, more.s);
    dg_str_free(&more);
    if (c->children && c->children->name) {
        dg_str_add(out, "    <zeroOrMore><choice>");
        for (const dg_child_class *k = c->children; k->name; k++)
            dg_str_fmt(out, "<ref name=\"child.%s.%s\"/>", c->name, k->name);
        dg_str_add(out, "<ref name=\"let\"/></choice></zeroOrMore>\n");
    }
    end_element(out);
}

static void print_fixed(dg_str *out)
{
    dg_str_add(
        out, "  <define name=\"let\"><element name=\"let\">\n"
             "    <oneOrMore><attribute><anyName/><text/></attribute></oneOrMore>\n  "
             "</element></define>\n"
             "  <define name=\"include\"><element name=\"include\">\n"
             "    <attribute name=\"file\"/>\n"
             "    "
             "<zeroOrMore><attribute><anyName><except><name>file</name></except></anyName><text/></"
             "attribute></zeroOrMore>\n"
             "  </element></define>\n"
             "  <define name=\"stack\"><element name=\"stack\">\n"
             "    <attribute name=\"id\"><ref name=\"v.id\"/></attribute>\n"
             "    <attribute name=\"count\"><ref name=\"v.integer\"/></attribute>\n"
             "    <optional><attribute name=\"in\"><ref name=\"v.wire\"/></attribute></optional>\n"
             "    <ref name=\"nodes\"/>\n  </element></define>\n"
             "  <define name=\"use\"><element name=\"use\">\n"
             "    <attribute name=\"model\"/>\n"
             "    "
             "<zeroOrMore><attribute><anyName><except><name>model</name></except></anyName><text/"
             "></attribute></zeroOrMore>\n"
             "  </element></define>\n"
             "  <define name=\"input\"><element name=\"input\">\n"
             "    <attribute name=\"id\"><ref name=\"v.id\"/></attribute>\n"
             "    <optional><attribute name=\"optional\"><ref "
             "name=\"v.bool\"/></attribute></optional>\n  </element></define>\n"
             "  <define name=\"part\"><element name=\"part\">\n"
             "    <zeroOrMore><choice><ref name=\"one\"/><ref name=\"input\"/><ref "
             "name=\"top\"/></choice></zeroOrMore>\n"
             "  </element></define>\n"
             "  <define name=\"nodes\"><zeroOrMore><ref name=\"one\"/></zeroOrMore></define>\n");
}

static void print_structures(dg_str *out)
{
    static const struct {
        const char *name, *more, *content;
    } rows[] = {
        { "plugin", NULL, NULL },
        { "mesh", NULL, NULL },
        { "checkpoint", "wire best", NULL },
        { "evaluate", "wire weights id id", "<ref name=\"nodes\"/>" },
        { "train", NULL, "<ref name=\"nodes\"/>" },
        { "model", NULL,
          "<zeroOrMore><choice><ref name=\"one\"/><ref name=\"input\"/></choice></zeroOrMore>" },
        { "pipeline", NULL,
          "<zeroOrMore><choice><ref name=\"top\"/><ref name=\"let\"/><ref "
          "name=\"include\"/></choice></zeroOrMore>" },
    };
    enum { N = sizeof rows / sizeof *rows };

    for (int i = 0; i < N; i++) {
        const dg_structure *s = dg_structure_find(rows[i].name);

        begin_element(out, "language", s->name, s->brief);
        if (strcmp(s->name, "model") == 0)
            print_required(out, "id", NULL, "id", NULL);
        print_attrs(out, s->attrs, rows[i].more);
        if (rows[i].content)
            dg_str_fmt(out, "    %s\n", rows[i].content);
        end_element(out);
    }
    dg_str_add(out, "  <define name=\"top\"><choice>");
    for (int i = 0; i < N - 1; i++)
        dg_str_fmt(out, "<ref name=\"language.%s\"/>", rows[i].name);
    dg_str_add(out, "</choice></define>\n");
}

void dg_schema_print(dg_str *out, const dg_registry *r)
{
    dg_str_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    "<grammar xmlns=\"http://relaxng.org/ns/structure/1.0\"\n"
                    "         xmlns:a=\"http://relaxng.org/ns/compatibility/annotations/1.0\"\n"
                    "         datatypeLibrary=\"http://www.w3.org/2001/XMLSchema-datatypes\">\n"
                    "  <start><choice><ref name=\"language.pipeline\"/><ref "
                    "name=\"part\"/></choice></start>\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        dg_str_fmt(out,
                   "  <define name=\"v.%s\"><data type=\"string\"><param "
                   "name=\"pattern\">%s</param></data></define>\n",
                   texts[i].name, texts[i].pattern);
    dg_str_add(out, "  <define name=\"v.text\"><text/></define>\n"
                    "  <define name=\"v.number\"><choice><data type=\"double\"/><ref "
                    "name=\"v.dollar\"/></choice></define>\n"
                    "  <define name=\"v.integer\"><choice><data type=\"integer\"/><ref "
                    "name=\"v.dollar\"/></choice></define>\n");
    print_structures(out);
    print_fixed(out);
    dg_str_add(out, "  <define name=\"one\"><choice><ref name=\"let\"/><ref name=\"include\"/><ref "
                    "name=\"stack\"/><ref name=\"use\"/>\n");
    for (int i = 0; i < dg_registry_n(r); i++)
        dg_str_fmt(out, "    <ref name=\"node.%s\"/>\n", dg_registry_at(r, i)->name);
    dg_str_add(out, "  </choice></define>\n");
    for (int i = 0; i < dg_registry_n(r); i++)
        print_class(out, dg_registry_at(r, i));
    dg_str_add(out, "</grammar>\n");
}
