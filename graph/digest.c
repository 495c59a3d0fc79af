/* digest.c: see digest.h. */
#include "graph/digest.h"

#include <string.h>

/* ---- canonical text -------------------------------------------------------------------------- */

/* Writes attributes in order of their names, without positions and file names. */
static void add_item(dg_str *out, const dg_item *item, int depth)
{
    const dg_item_attr *last = NULL;

    dg_str_fmt(out, "%*s%s", depth, "", item->name);
    for (int n = 0; n < item->n_attrs; n++) {
        const dg_item_attr *next = NULL;

        for (int i = 0; i < item->n_attrs; i++) {
            const dg_item_attr *a = &item->attrs[i];

            if ((!last || strcmp(a->name, last->name) > 0) &&
                (!next || strcmp(a->name, next->name) < 0))
                next = a;
        }
        last = next;
        if (!next || (depth == 0 && strcmp(next->name, "digest") == 0))
            continue;
        dg_str_fmt(out, " %s=\"", next->name);
        dg_str_xml(out, next->value);
        dg_str_add(out, "\"");
    }
    dg_str_add(out, "\n");
    for (const dg_item *k = item->first; k; k = k->next)
        if (k->name)
            add_item(out, k, depth + 1);
}

uint64_t dg_graph_digest(const dg_graph *g)
{
    dg_str text = { 0 };
    uint64_t digest;

    add_item(&text, g->root, 0);
    digest = dg_fnv1a(text.s, text.n);
    dg_str_free(&text);
    return digest;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const dg_item *skip_ends(const dg_item *k)
{
    while (k && !k->name)
        k = k->next;
    return k;
}

static const dg_item_attr *other_attr(const dg_item *a, const dg_item *b, int depth)
{
    for (int i = 0; i < a->n_attrs; i++) {
        const dg_item_attr *x = &a->attrs[i], *y = dg_item_find(b, x->name);

        if (depth == 0 && strcmp(x->name, "digest") == 0)
            continue;
        if (!y || strcmp(x->value, y->value) != 0)
            return x;
    }
    return NULL;
}

static int differs(const dg_item *at, const dg_item *other, const char *text, dg_diag *d)
{
    int rc = dg_fail(d, DG_EINPUT, at->at, "DG-DIGEST", "the graphs of two ranks differ: %s", text);

    if (other)
        dg_note(d, other->at, "the other rank's");
    dg_help(d, "every rank reads the same pipeline with the same --set");
    return rc;
}

static int compare(const dg_item *a, const dg_item *b, int depth, dg_arena *arena, dg_diag *d)
{
    const dg_item_attr *x;
    int rc = 0;

    if (strcmp(a->name, b->name) != 0)
        return differs(a, b, dg_printf(arena, "here is <%s>, there is <%s>", a->name, b->name), d);
    if ((x = other_attr(a, b, depth))) {
        const dg_item_attr *y = dg_item_find(b, x->name);

        return differs(a, b,
                       y ? dg_printf(arena, "<%s %s=\"%s\"> here, %s=\"%s\" there", a->name,
                                     x->name, x->value, x->name, y->value)
                         : dg_printf(arena, "<%s> has %s=\"%s\" here and not there", a->name,
                                     x->name, x->value),
                       d);
    }
    if ((x = other_attr(b, a, depth)))
        return differs(a, b,
                       dg_printf(arena, "<%s> has %s=\"%s\" there and not here", a->name, x->name,
                                 x->value),
                       d);
    const dg_item *k = skip_ends(a->first), *m = skip_ends(b->first);

    for (; k && m && rc == 0; k = skip_ends(k->next), m = skip_ends(m->next))
        rc = compare(k, m, depth + 1, arena, d);
    if (rc == 0 && (k || m))
        rc = differs(k ? k : a, k ? b : m,
                     dg_printf(arena, "<%s> stands in one of them only", (k ? k : m)->name), d);
    return rc;
}

int dg_graph_compare(const dg_graph *g, const dg_graph *other, dg_diag *d)
{
    return compare(g->root, other->root, 0, g->arena, d);
}
