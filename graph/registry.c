/* registry.c: the node classes by name. Checks a class when it is added, so that its author finds
 * mistakes in its tables when loading it, before any pipeline uses it. */
#include "graph/registry.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/attr.h"
#include "graph/contract.h"
#include "graph/plugin.h"
#include "graph/structure.h"

enum {
    MOST_CONF = 1 << 20, /* bytes of a conf struct */
    PORT_FLAGS = DG_PORT_OUT | DG_PORT_OPTIONAL | DG_PORT_MAIN | DG_PORT_DROPS |
                 DG_PORT_EMPTY_ABSENT | DG_PORT_VARIES | DG_PORT_INVARIANT | DG_PORT_FURTHER,
};

struct dg_registry {
    dg_arena *arena;
    DG_VEC(const dg_node_class *) classes; /* ordered by name */
    DG_VEC(struct loaded {
        const char *path;
        void *handle;
    }) plugins;
};

dg_registry *dg_registry_open(void)
{
    dg_arena *a = dg_arena_open();
    dg_registry *r = DG_NEW(a, dg_registry);

    r->arena = a;
    return r;
}

void dg_registry_close(dg_registry **r)
{
    if (!*r)
        return;
    dg_arena *a = (*r)->arena;

    for (int i = 0; i < (*r)->plugins.n; i++)
        dg_library_close(&(*r)->plugins.items[i].handle);
    dg_arena_close(&a);
    *r = NULL;
}

bool dg_registry_is_extended(const dg_registry *r)
{
    return r->plugins.n > 0;
}

int dg_registry_n(const dg_registry *r)
{
    return r->classes.n;
}

const dg_node_class *dg_registry_at(const dg_registry *r, int i)
{
    return r->classes.items[i];
}

/* The index of name, or where it would be inserted. */
static int place_of(const dg_registry *r, const char *name)
{
    int lo = 0, hi = r->classes.n;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (strcmp(r->classes.items[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const dg_node_class *dg_registry_find(const dg_registry *r, const char *name)
{
    int i = place_of(r, name);

    return i < r->classes.n && strcmp(r->classes.items[i]->name, name) == 0 ? r->classes.items[i]
                                                                            : NULL;
}

/* ---- a class's own tables -------------------------------------------------------------------- */

typedef struct checker {
    dg_registry *r;
    const dg_node_class *c;
    dg_where at;
    dg_diag *d;
    int rc;
} checker;

static void bad_class(checker *k, const char *id, const char *fmt, ...) DG_PRINTF(3, 4);
static void bad_class(checker *k, const char *id, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    k->rc = dg_fail(k->d, DG_EINPUT, k->at, id, "class \"%s\": %s", k->c->name ? k->c->name : "?",
                    dg_vprintf(k->r->arena, fmt, ap));
    va_end(ap);
}

/* True for role.kind in lower-case letters, digits and _. */
static bool is_class_name(const char *s)
{
    bool begin = true;

    for (; *s; s++) {
        if (begin ? !islower((unsigned char)*s)
                  : !(islower((unsigned char)*s) || isdigit((unsigned char)*s) || *s == '_' ||
                      *s == '.'))
            return false;
        begin = *s == '.';
    }
    return !begin;
}

static bool is_member_name(const char *s)
{
    return islower((unsigned char)*s) && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")] &&
           !dg_is_among("id recompute pretrained", s);
}

static bool is_port(const dg_node_class *c, const char *name)
{
    for (const dg_port *p = c->ports; p && p->name; p++)
        if (!(p->flags & DG_PORT_OUT) && strcmp(p->name, name) == 0)
            return true;
    return false;
}

static void check_ports(checker *k)
{
    dg_dims dims = { .arena = k->r->arena };
    dg_letters letters = { .dims = &dims };
    int n_main = 0;

    if (!k->c->ports)
        bad_class(k, "class-table", "it has no port table");
    for (const dg_port *p = k->c->ports; p && p->name; p++) {
        const char *why;
        int at;

        if (!is_member_name(p->name) &&
            (strcmp(p->name, "*") != 0 || p->flags & DG_PORT_OUT || !k->c->names_offset))
            bad_class(k, "class-name", "\"%s\" cannot be a port's name", p->name);
        for (const dg_port *q = k->c->ports; q != p; q++)
            if (strcmp(q->name, p->name) == 0 &&
                (q->flags & DG_PORT_OUT) == (p->flags & DG_PORT_OUT))
                bad_class(k, "class-twice", "port \"%s\" stands twice", p->name);
        if (!p->type || !dg_contract_parse(&letters, p->type, p->flags, &at, &why))
            bad_class(k, "class-type", "port \"%s\": \"%s\" is no type: %s at character %d",
                      p->name, p->type ? p->type : "", p->type ? why : "missing",
                      p->type ? at + 1 : 0);
        if (p->flags & ~(uint32_t)PORT_FLAGS)
            bad_class(k, "class-flags", "port \"%s\": its flags %#x are not known here", p->name,
                      p->flags);
        n_main += (p->flags & DG_PORT_MAIN) != 0;
        if ((p->flags & DG_PORT_MAIN && !(p->flags & DG_PORT_OUT)) ||
            (p->flags & DG_PORT_OPTIONAL && p->flags & DG_PORT_OUT))
            bad_class(k, "class-flags", "port \"%s\": inputs may be optional, outputs may be main",
                      p->name);
    }
    if (n_main > 1)
        bad_class(k, "class-flags", "more than one output is main");
}

/* True if no word is empty or stands twice. */
static bool are_words(const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (!*words[i])
            return false;
        for (int j = 0; j < i; j++)
            if (strcmp(words[i], words[j]) == 0)
                return false;
    }
    return true;
}

static void check_default(checker *k, const dg_attr *a, const char *what)
{
    dg_arena *tmp = dg_arena_open();
    void *room = dg_alloc(tmp, a->offset + dg_attr_bytes(a->kind));

    if (a->kind == DG_ATTR_ENUM) {
        const char *const *words;
        int n = a->text ? dg_attr_words(&words, a, tmp) : 0;

        if (n < 1 || !(a->def >= 0 && a->def < n))
            bad_class(k, "class-default", "%s \"%s\": the default is none of its words", what,
                      a->name);
        else if (!are_words(words, n))
            bad_class(k, "class-twice",
                      "%s \"%s\": of its words \"%s\" one is empty or stands twice", what, a->name,
                      a->text);
    } else if (a->kind == DG_ATTR_NUM || a->kind == DG_ATTR_INT || a->kind == DG_ATTR_BOOL) {
        if (!(a->lo <= a->hi) || (!a->required && !(a->def >= a->lo && a->def <= a->hi)))
            bad_class(k, "class-default", "%s \"%s\": the default %g lies outside %g to %g", what,
                      a->name, a->def, a->lo, a->hi);
        else if (a->kind != DG_ATTR_NUM && !a->required &&
                 !(fabs(a->def) < 0x1p63 && a->def == floor(a->def)))
            bad_class(k, "class-default", "%s \"%s\": the default %g is no integer", what, a->name,
                      a->def);
    } else if (a->text && !dg_attr_read(a, room, a->text, NULL, tmp)) {
        bad_class(k, "class-default", "%s \"%s\": the default \"%s\" cannot be read", what, a->name,
                  a->text);
    }
    dg_arena_close(&tmp);
}

static bool is_in_conf(size_t offset, size_t bytes, size_t conf_size)
{
    return offset <= conf_size && conf_size - offset >= bytes &&
           (bytes == sizeof(bool) || offset % sizeof(void *) == 0);
}

/* True if another attribute before it has some of its bytes. */
static bool is_shared(const dg_attr *table, const dg_attr *a)
{
    for (const dg_attr *b = table; b != a; b++)
        if (strcmp(a->name, b->name) != 0 && b->offset < a->offset + dg_attr_bytes(a->kind) &&
            a->offset < b->offset + dg_attr_bytes(b->kind))
            return true;
    return false;
}

static void check_attrs(checker *k, const dg_attr *table, size_t conf_size, const char *what)
{
    for (const dg_attr *a = table; a && a->name; a++) {
        size_t bytes = dg_attr_bytes(a->kind);

        if (!is_member_name(a->name))
            bad_class(k, "class-name", "\"%s\" cannot be the name of an %s", a->name, what);
        if (dg_attr_find(table, a->name) != a || (table == k->c->attrs && is_port(k->c, a->name)))
            bad_class(k, "class-twice", "%s \"%s\" stands twice", what, a->name);
        if (bytes == 0)
            bad_class(k, "class-conf", "%s \"%s\": there is no kind %d", what, a->name,
                      (int)a->kind);
        else if (!is_in_conf(a->offset, bytes, conf_size))
            bad_class(k, "class-conf", "%s \"%s\" lies outside the conf struct, or across members",
                      what, a->name);
        else if (is_shared(table, a))
            bad_class(k, "class-conf", "%s \"%s\" has the place of another one in the conf struct",
                      what, a->name);
        else
            check_default(k, a, what);
        if (!dg_attr_flags_fit(a))
            bad_class(k, "class-flags", "%s \"%s\": its flags %u are not for its kind", what,
                      a->name, a->flags);
        if (!a->doc)
            bad_class(k, "class-doc", "%s \"%s\" is not documented", what, a->name);
    }
}

/* ---- rules of rank invariance ---------------------------------------------------------------- */

static bool is_called(const char *name, const char *word, size_t n)
{
    return strlen(name) == n && memcmp(name, word, n) == 0;
}

static const dg_port *find_port(const dg_node_class *c, const char *word, size_t n, bool output)
{
    for (const dg_port *p = c->ports; p && p->name; p++)
        if (((p->flags & DG_PORT_OUT) != 0) == output && is_called(p->name, word, n))
            return p;
    return NULL;
}

static bool is_attr(const dg_node_class *c, const char *word, size_t n)
{
    for (const dg_attr *a = c->attrs; a && a->name; a++)
        if (is_called(a->name, word, n))
            return true;
    return false;
}

/* Checks that the names in a rule's condition are attributes or inputs. */
static void check_condition(checker *k, const dg_rule *r)
{
    for (const char *p = r->when; p && *p; p += strcspn(p, ","), p += *p == ',') {
        const char *name = p + (*p == '!');
        size_t n = strcspn(name, "=!,");

        if (!is_attr(k->c, name, n) && !find_port(k->c, name, n, false))
            bad_class(k, "class-rule", "a row's condition \"%s\" names no attribute and no input",
                      r->when);
    }
}

static void check_rules(checker *k)
{
    for (const dg_rule *r = k->c->rules; r && r->kind != DG_RULE_END; r++) {
        if (r->kind > DG_RULE_KEYS)
            bad_class(k, "class-rule", "there is no row of kind %d", (int)r->kind);
        if (r->to && !find_port(k->c, r->to, strlen(r->to), true))
            bad_class(k, "class-rule", "a row names the output \"%s\", which there is not", r->to);
        if (r->from && !find_port(k->c, r->from, strcspn(r->from, "."), false))
            bad_class(k, "class-rule", "a row names the input \"%s\", which there is not", r->from);
        if (r->axis && *r->axis != '=' && !is_attr(k->c, r->axis, strlen(r->axis)))
            bad_class(k, "class-rule", "a row names the attribute \"%s\", which there is not",
                      r->axis);
        check_condition(k, r);
    }
}

static void check_functions(checker *k)
{
    const dg_node_class *c = k->c;

    if ((c->feeds != NULL) != (c->fill != NULL))
        bad_class(k, "class-functions", "feeds and fill come together");
    if (c->schedule && !c->sizes)
        bad_class(k, "class-functions", "schedule comes with sizes");
    if ((c->begin != NULL) != (c->take != NULL) || (c->take != NULL) != (c->finish != NULL))
        bad_class(k, "class-functions", "begin, take and finish come together");
    if (c->children && !is_in_conf(c->children_offset, sizeof(dg_children), c->conf_size))
        bad_class(k, "class-conf", "the children lie outside the conf struct");
    if (c->names_offset && !is_in_conf(c->names_offset, sizeof(dg_names), c->conf_size))
        bad_class(k, "class-conf", "the names lie outside the conf struct");
}

static void check_children(checker *k)
{
    for (const dg_child_class *child = k->c->children; child && child->name; child++) {
        if (!is_member_name(child->name))
            bad_class(k, "class-name", "\"%s\" cannot be the name of an element", child->name);
        for (const dg_child_class *other = k->c->children; other != child; other++)
            if (strcmp(other->name, child->name) == 0)
                bad_class(k, "class-twice", "element <%s> stands twice", child->name);
        if (!child->doc)
            bad_class(k, "class-doc", "element <%s> is not documented", child->name);
        if (child->conf_size > MOST_CONF || child->most < 0)
            bad_class(k, "class-conf", "element <%s>: %zu bytes and at most %d of them cannot be",
                      child->name, child->conf_size, child->most);
        else
            check_attrs(k, child->attrs, child->conf_size,
                        dg_printf(k->r->arena, "attribute of <%s>", child->name));
    }
}

static void check_class(checker *k)
{
    const dg_node_class *c = k->c;

    if (!c->name || !is_class_name(c->name))
        bad_class(k, "class-name",
                  "a class's name has small letters, digits and _, in parts separated by dots");
    else if (dg_structure_find(c->name) || dg_structure_class(c->name) ||
             strcmp(c->name, "group") == 0)
        bad_class(k, "class-name", "this name belongs to the language");
    else if (dg_registry_find(k->r, c->name))
        bad_class(k, "class-twice", "there is such a class already");
    if (!c->brief)
        bad_class(k, "class-doc", "it is not documented");
    if ((unsigned)c->role > DG_ROLE_SINK)
        bad_class(k, "class-role", "there is no role %d", (int)c->role);
    check_ports(k);
    if (c->conf_size > MOST_CONF)
        bad_class(k, "class-conf", "its conf struct has %zu bytes, at most %d are known here",
                  c->conf_size, (int)MOST_CONF);
    else
        check_attrs(k, c->attrs, c->conf_size, "attribute");
    check_children(k);
    check_functions(k);
    check_rules(k);
}

/* Checks struct sizes. The class struct may be older and shorter; a longer one comes from a newer
 * program and is refused. Entries of port, attribute and rule tables cannot grow. */
static int check_sizes(const dg_node_class *c, dg_where at, dg_diag *d)
{
    bool rules = c->size > offsetof(dg_node_class, rule_size) && c->rules;
    bool metrics = c->size > offsetof(dg_node_class, metric_size) && c->metrics;
    int rc = 0;

    if (c->size > sizeof *c) {
        rc = dg_fail(
            d, DG_EINPUT, at, "class-size",
            "a class was compiled with newer headers: its row has %u bytes, this program knows %zu",
            c->size, sizeof *c);
        dg_help(d, "use a detrgraph as new as the plugin's headers, or compile the plugin with the "
                   "headers of this one");
    } else if (c->size < offsetof(dg_node_class, check) || c->port_size != sizeof(dg_port) ||
               c->attr_size != sizeof(dg_attr) || (rules && c->rule_size != sizeof(dg_rule)) ||
               (metrics && c->metric_size != sizeof(dg_metric_row))) {
        rc = dg_fail(d, DG_EINPUT, at, "class-size",
                     "a class was compiled with other headers: its class, ports, attributes, "
                     "rules and metrics have %u, %u, %u, %u and %u bytes, "
                     "this program has %zu, %zu, %zu, %zu and %zu",
                     c->size, c->port_size, c->attr_size, rules ? c->rule_size : 0,
                     metrics ? c->metric_size : 0, sizeof *c, sizeof(dg_port), sizeof(dg_attr),
                     rules ? sizeof(dg_rule) : 0, metrics ? sizeof(dg_metric_row) : 0);
        dg_help(d, "compile the plugin again with this version's headers");
    }
    return rc;
}

static int add(dg_registry *r, const dg_node_class *c, dg_where at, dg_diag *d)
{
    checker k = { r, c, at, d, 0 };
    int rc = check_sizes(c, at, d);

    if (rc < 0)
        return rc;
    if (c->size < sizeof *c) { /* an older, shorter struct: missing members are zero */
        dg_node_class *whole = DG_NEW(r->arena, dg_node_class);

        memcpy(whole, c, c->size);
        k.c = c = whole;
    }
    check_class(&k);
    if (k.rc < 0)
        return k.rc;
    int i = place_of(r, c->name);

    DG_PUSH(r->arena, r->classes, c);
    memmove(&r->classes.items[i + 1], &r->classes.items[i],
            (size_t)(r->classes.n - 1 - i) * sizeof *r->classes.items);
    r->classes.items[i] = c;
    return 0;
}

int dg_registry_add(dg_registry *r, const dg_node_class *c, dg_diag *d)
{
    return add(r, c, DG_NOWHERE, d);
}

int dg_registry_load(dg_registry *r, const char *path, dg_where at, dg_diag *d)
{
    const dg_plugin *p;
    void *handle;
    int rc;

    for (int i = 0; i < r->plugins.n; i++)
        if (strcmp(r->plugins.items[i].path, path) == 0)
            return 0; /* the pipeline was read before */
    rc = dg_library_open(&handle, &p, path, at, d);
    if (rc < 0)
        return rc;
    for (int i = 0; i < r->plugins.n; i++)
        if (r->plugins.items[i].handle == handle) { /* the same file by another path */
            dg_library_close(&handle);
            return 0;
        }
    DG_PUSH(r->arena, r->plugins, ((struct loaded){ dg_strdup(r->arena, path), handle }));
    for (int i = 0; p->classes[i]; i++) {
        int own = add(r, p->classes[i], at, d);

        rc = own < 0 ? own : rc;
    }
    return rc;
}
