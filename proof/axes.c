/* axes.c: sets of axes, with the cause that brought each axis in. Causes form trees: each is one
 * step from its predecessor. */
#include <string.h>

#include "proof/vary.h"

const char *dg_vary_called(const dg_proof *p, const dg_node *node)
{
    return dg_node_called(p->arena, node);
}

uint32_t dg_vary_axes_of(const dg_proof *p, const char *text)
{
    uint32_t axes = 0;

    for (const char *s = text; s && *s;) {
        size_t n = strcspn(s, "+");

        for (int i = 0; i < p->n_axes; i++)
            if (strlen(p->axes[i].name) == n && strncmp(p->axes[i].name, s, n) == 0)
                axes |= 1u << i;
        s += n;
        s += *s != '\0';
    }
    return axes;
}

uint32_t dg_vary_row_axes(const dg_proof *p, const dg_node *node, const dg_rule *r)
{
    const char *text = dg_rule_axes(node, r);

    return text ? dg_vary_axes_of(p, text) : p->live;
}

const char *dg_vary_name(const dg_proof *p, uint32_t axes)
{
    dg_str out = { 0 };
    const char *text;

    for (int i = 0; i < p->n_axes; i++)
        if (axes >> i & 1)
            dg_str_fmt(&out, "%s%s (%lld ranks)", out.n ? " and " : "", p->axes[i].name,
                       (long long)p->axes[i].size);
    text = dg_strdup(p->arena, out.s ? out.s : "no axis");
    dg_str_free(&out);
    return text;
}

dg_vary dg_vary_join(dg_vary a, dg_vary b)
{
    for (int i = 0; i < DG_VARY_AXES; i++)
        if (b.axes >> i & 1 && !(a.axes >> i & 1))
            a.cause[i] = b.cause[i];
    a.axes |= b.axes;
    return a;
}

dg_vary dg_vary_minus(dg_vary a, uint32_t axes)
{
    a.axes &= ~axes;
    return a;
}

dg_vary dg_vary_only(dg_vary a, uint32_t axes)
{
    a.axes &= axes;
    return a;
}

/* ---- causes ---------------------------------------------------------------------------------- */

/* The number of the first cause with this key: roots of one decision are identified. */
static int32_t root_of(dg_proof *p, const char *key, int32_t number)
{
    int32_t *known = dg_map_get(p->roots_by_key, key);

    if (known)
        return *known;
    known = DG_NEW(p->arena, int32_t);
    *known = number;
    dg_map_set(p->roots_by_key, key, known);
    return number;
}

static int32_t add_cause(dg_proof *p, int32_t from, const dg_node *node, dg_where at, bool value,
                         const char *key, const char *text)
{
    int32_t number = p->causes.n ? p->causes.n : 1;
    dg_cause c = {
        .node = node, .where = at, .text = text, .key = key, .from = from, .source = number
    };

    if (!p->causes.n)
        DG_PUSH(p->arena, p->causes, ((dg_cause){ .text = "" }));
    if (from) {
        c.source = p->causes.items[from].source;
        c.root = p->causes.items[from].root;
    }
    if (!c.root && !value)
        c.root = root_of(p, key, number);
    DG_PUSH(p->arena, p->causes, c);
    return number;
}

static dg_vary spread(uint32_t axes, int32_t cause)
{
    dg_vary v = { .axes = axes };

    for (int i = 0; i < DG_VARY_AXES; i++)
        v.cause[i] = cause;
    return v;
}

dg_vary dg_vary_source(dg_proof *p, uint32_t axes, const dg_node *node, dg_where at, bool value,
                       const char *key, const char *fmt, ...)
{
    va_list ap;

    if (!(axes & p->live))
        return (dg_vary){ 0 };
    va_start(ap, fmt);
    const char *text = dg_vprintf(p->arena, fmt, ap);
    va_end(ap);
    return spread(axes & p->live, add_cause(p, 0, node, at, value, key, text));
}

dg_vary dg_vary_step(dg_proof *p, dg_vary from, const dg_node *node, dg_where at, const char *key,
                     const char *fmt, ...)
{
    va_list ap;
    dg_vary v = from;

    if (!from.axes)
        return v;
    va_start(ap, fmt);
    const char *text = dg_vprintf(p->arena, fmt, ap);
    va_end(ap);
    for (int i = 0; i < DG_VARY_AXES; i++) {
        if (!(from.axes >> i & 1))
            continue;
        for (int k = 0; k < i; k++) /* keep axes with a common cause together */
            if (from.axes >> k & 1 && from.cause[k] == from.cause[i])
                v.cause[i] = v.cause[k];
        if (v.cause[i] == from.cause[i])
            v.cause[i] = add_cause(p, from.cause[i], node, at, false, key, text);
    }
    return v;
}
