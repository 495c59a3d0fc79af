/* rule.c: see rule.h. */
#include "graph/rule.h"

#include <string.h>

#include "graph/attr.h"

static int port_called(const dg_node *node, const char *name, size_t n)
{
    for (int i = 0; i < node->n_in; i++)
        if (strlen(node->in_ports[i]->name) == n && memcmp(node->in_ports[i]->name, name, n) == 0)
            return i;
    return -1;
}

static const dg_attr *attr_called(const dg_node *node, const char *name, size_t n)
{
    for (const dg_attr *a = node->class->attrs; a && a->name; a++)
        if (strlen(a->name) == n && memcmp(a->name, name, n) == 0)
            return a;
    return NULL;
}

static const void *value_of(const dg_node *node, const dg_attr *a)
{
    return (const char *)node->conf + a->offset;
}

/* The word of an ENUM attribute, *len bytes. */
static const char *word_of(const dg_node *node, const dg_attr *a, size_t *len)
{
    const char *text = a->text;
    int64_t n = *(const int64_t *)value_of(node, a);

    for (; n > 0 && *text; n--) {
        text += strcspn(text, "|");
        text += *text == '|';
    }
    *len = strcspn(text, "|");
    return text;
}

static bool is_given(const dg_node *node, const dg_attr *a)
{
    const void *v = value_of(node, a);

    switch (a->kind) {
    case DG_ATTR_BOOL:
        return *(const bool *)v;
    case DG_ATTR_STR:
    case DG_ATTR_PATH:
        return *(const char *const *)v && **(const char *const *)v;
    case DG_ATTR_WHEN:
        return ((const dg_when *)v)->unit != DG_NEVER;
    case DG_ATTR_INTS:
        return ((const dg_ints *)v)->n > 0;
    case DG_ATTR_SIZES:
        return ((const dg_sizes *)v)->n > 0;
    case DG_ATTR_NUM:
        return *(const double *)v < 0 || *(const double *)v > 0;
    default:
        return *(const int64_t *)v != 0;
    }
}

/* True if the word (len bytes) is one of "a|b|c" (n bytes). */
static bool is_one_of(const char *word, size_t len, const char *list, size_t n)
{
    for (const char *p = list, *end = list + n; p < end;) {
        size_t k = strcspn(p, "|,");

        if (k == len && memcmp(p, word, len) == 0)
            return true;
        p += k + 1;
    }
    return false;
}

static bool are_alike(const dg_sizes *s)
{
    for (int i = 1; i < s->n; i++)
        if (s->v[i].w * s->v[0].h != s->v[0].w * s->v[i].h)
            return false;
    return true;
}

/* Evaluates one condition: "name", "!name", "name=a|b" or "name!=a|b". */
static bool holds_one(const dg_node *node, const char *text, size_t n)
{
    bool no = *text == '!';
    const char *name = text + no, *list = memchr(name, '=', n - no);
    size_t len = list ? (size_t)(list - name) : n - no;
    bool unlike = list && len > 0 && name[len - 1] == '!';
    size_t word_len = 0;
    const dg_attr *a;

    len -= unlike;
    a = attr_called(node, name, len);
    if (!a) {
        int port = port_called(node, name, len);

        return (port >= 0 && node->in[port].where.line > 0) != no;
    }
    if (!list)
        return is_given(node, a) != no;
    if (a->kind == DG_ATTR_SIZES) /* its one word: "alike" */
        return are_alike(value_of(node, a)) != unlike;
    if (a->kind != DG_ATTR_ENUM)
        return unlike;
    const char *word = word_of(node, a, &word_len);

    return is_one_of(word, word_len, list + 1, n - (size_t)(list + 1 - text)) != unlike;
}

bool dg_rule_holds(const dg_node *node, bool train, const dg_rule *r)
{
    if (r->flags & DG_RULE_TRAIN && !train)
        return false;
    for (const char *s = r->when; s && *s;) {
        size_t n = strcspn(s, ",");

        if (!holds_one(node, s, n))
            return false;
        s += n;
        s += *s == ',';
    }
    return true;
}

const dg_rule *dg_node_row(const dg_node *node, dg_rule_kind kind, const dg_rule *after)
{
    bool train = node->scope->kind == DG_SCOPE_TRAIN;

    for (const dg_rule *r = after ? after + 1 : node->class->rules; r && r->kind; r++)
        if (r->kind == kind && dg_rule_holds(node, train, r))
            return r;
    return NULL;
}

bool dg_node_has_row(const dg_node *node, dg_rule_kind kind)
{
    return dg_node_row(node, kind, NULL) != NULL;
}

const char *dg_rule_axes(const dg_node *node, const dg_rule *r)
{
    const dg_attr *a;
    const char *text = NULL;

    if (!r->axis)
        return NULL;
    if (*r->axis == '=')
        return r->axis + 1;
    a = attr_called(node, r->axis, strlen(r->axis));
    if (a && a->kind == DG_ATTR_STR)
        text = *(const char *const *)value_of(node, a);
    return text ? text : "";
}

const char *dg_rule_reduction(dg_arena *arena, const dg_node *node)
{
    const dg_attr *a = dg_attr_flagged(node->class->attrs, DG_ATTR_REDUCTION);
    size_t len;

    if (!a)
        return NULL;
    const char *word = word_of(node, a, &len);

    return dg_strndup(arena, word, len);
}

int64_t dg_rule_root(const dg_node *node)
{
    const dg_attr *a = dg_attr_flagged(node->class->attrs, DG_ATTR_ROOT);

    return a ? *(const int64_t *)value_of(node, a) : 0;
}

bool dg_rule_is_collective(const dg_rule *r)
{
    return r->kind >= DG_RULE_ALLREDUCE && r->kind <= DG_RULE_ALLGATHERV;
}

int dg_rule_input(const dg_node *node, const dg_rule *r)
{
    return r->from ? port_called(node, r->from, strcspn(r->from, ".")) : -1;
}

/* "AP/?" stands for "AP/" and any text. */
static bool fits_name(const char *name, const char *word, size_t n)
{
    if (n > 1 && word[n - 1] == '?')
        return strncmp(name, word, n - 1) == 0 && name[n - 1] != '\0';
    return strlen(name) == n && memcmp(name, word, n) == 0;
}

bool dg_metric_listed(const dg_metric_row *row, const char *name)
{
    for (const char *s = row->names; *s;) {
        size_t n = strcspn(s, " ");

        if (fits_name(name, s, n))
            return true;
        s += n;
        s += strspn(s, " ");
    }
    return false;
}
