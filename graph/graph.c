/* graph.c: queries on a loaded graph: sources, data chains, axes. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "graph/attr.h"

void dg_graph_close(dg_graph **g)
{
    if (!*g)
        return;
    dg_arena *a = (*g)->arena;

    dg_arena_close(&a);
    *g = NULL;
}

int dg_graph_n_scopes(const dg_graph *g)
{
    return g->n_models + g->n_evaluates + (g->train != NULL);
}

const dg_scope *dg_graph_scope(const dg_graph *g, int i)
{
    return i < g->n_models                    ? g->models[i]
           : i < g->n_models + g->n_evaluates ? g->evaluates[i - g->n_models]
                                              : g->train;
}

const char *dg_graph_source(void *graph, const char *file, size_t *n)
{
    const dg_graph *g = graph;
    const dg_source *s = dg_map_get(g->sources, file);

    *n = s ? s->n : 0;
    return s ? s->text : NULL;
}

/* The producer of a node's first data input. */
static const dg_node *feeder(const dg_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        dg_type_kind kind = node->in_types[i]->kind;

        if (node->in[i].from && kind >= DG_TYPE_DATASET && kind <= DG_TYPE_BATCH)
            return node->in[i].from;
    }
    return NULL;
}

static int find_batch(dg_chain *chain, const dg_scope *scope, dg_diag *d)
{
    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *node = scope->nodes[i];

        if (!node->class->feeds)
            continue;
        if (chain->batch) {
            int rc = dg_fail(d, DG_EINPUT, node->where, "data-two-batches",
                             "a second batch in one scope: a step has one");

            dg_note(d, chain->batch->where, "the first stands here");
            return rc;
        }
        chain->batch = node;
    }
    return 0;
}

static int put_first(const dg_node **list, int *n, const dg_node *node, dg_diag *d)
{
    enum { MOST = sizeof((dg_chain *)0)->items / sizeof *((dg_chain *)0)->items };

    if (*n == MOST)
        return dg_fail(d, DG_EINPUT, node->where, "data-too-long",
                       "more than %d nodes of one kind between loader and batch", MOST);
    memmove(&list[1], &list[0], (size_t)*n * sizeof *list);
    list[0] = node;
    ++*n;
    return 0;
}

static bool takes_further(const dg_node *node)
{
    for (const dg_port *p = node->class->ports; p && p->name; p++)
        if (p->flags & DG_PORT_FURTHER)
            return true;
    return false;
}

static int check_further(const dg_chain *chain, dg_diag *d)
{
    const dg_node *first = NULL;
    int n = 0;

    for (int i = chain->n_items - 1; i >= 0; i--)
        if (takes_further(chain->items[i]) && ++n > DG_MOST_FURTHER)
            first = chain->items[i];
    return first ? dg_further_deep(first, d) : 0;
}

int dg_further_deep(const dg_node *node, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, node->where, "further-deep",
            "<%s> \"%s\" takes further images for those that %d nodes behind it take: each node "
            "multiplies how many are loaded for one sample",
            node->class->name, node->path, DG_MOST_FURTHER);
    dg_help(d,
            "leave %d nodes that take further images (mosaic, mixup, copypaste) before a <batch>: "
            "remove this one or one behind it",
            DG_MOST_FURTHER);
    return -DG_EINPUT;
}

int dg_graph_chain(dg_chain *chain, const dg_scope *scope, dg_diag *d)
{
    int rc, behind = 0;

    *chain = (dg_chain){ 0 };
    rc = find_batch(chain, scope, d);
    if (rc < 0 || !chain->batch)
        return rc;
    for (const dg_node *n = feeder(chain->batch); n; n = feeder(n)) {
        if (n->class->open) {
            chain->loader = n;
        } else if (n->class->schedule) {
            chain->sampler = n;
            behind = chain->n_choices;
        } else if (n->class->choose) {
            DG_TRY(put_first(chain->choices, &chain->n_choices, n, d));
        } else if (n->class->sizes) {
            chain->resize = chain->resize ? chain->resize : n;
        } else if (n->class->item && !chain->sampler) {
            DG_TRY(put_first(chain->items, &chain->n_items, n, d));
        }
    }
    chain->n_before = chain->n_choices - behind;
    if (!chain->sampler || !chain->loader)
        return dg_fail(
            d, DG_EINPUT, chain->batch->where, "data-chain",
            "nothing feeds \"%s\" from a %s: loader, sampler and batch follow one another",
            chain->batch->id, chain->sampler ? "loader" : "sampler");
    rc = check_further(chain, d);
out:
    return rc;
}

int dg_chain_sizes(const dg_chain *chain, const dg_size **sizes, int *batch)
{
    int n = chain->sampler->class->sizes(chain->sampler->conf, sizes, batch), unused;

    return chain->resize ? chain->resize->class->sizes(chain->resize->conf, sizes, &unused) : n;
}

int dg_scope_chain(dg_chain *chain, const dg_scope *scope, dg_diag *d)
{
    int rc = dg_graph_chain(chain, scope, d);

    if (rc < 0 || (chain->loader && chain->sampler && chain->batch))
        return rc;
    return dg_fail(d, DG_EINPUT, scope->where, "scope-without-data",
                   "<%s> needs a loader, a sampler and a batch node to run", scope->id);
}

static int compare_area(const void *a, const void *b)
{
    const dg_size *x = a, *y = b;
    int64_t n = x->w * x->h, m = y->w * y->h;

    return (n < m) - (n > m);
}

int dg_scope_sizes(const dg_scope *scope, dg_arena *a, dg_size **sizes, int *n, int *batch,
                   dg_diag *d)
{
    const dg_size *listed = NULL;
    dg_chain chain;
    int rc = dg_scope_chain(&chain, scope, d);

    if (rc < 0)
        return rc;
    *n = dg_chain_sizes(&chain, &listed, batch);
    *sizes = dg_memdup(a, listed, (size_t)*n * sizeof **sizes);
    qsort(*sizes, (size_t)*n, sizeof **sizes, compare_area);
    return 0;
}

/* True if name is one of "dp+tp". */
static bool names_axis(const char *axes, const char *name)
{
    size_t n = strlen(name);

    for (const char *a = axes; a; a = strchr(a, '+') ? strchr(a, '+') + 1 : NULL)
        if (strncmp(a, name, n) == 0 && (a[n] == '\0' || a[n] == '+'))
            return true;
    return false;
}

/* The conf member of the attribute with this flag; NULL: the class has none. */
static void *flagged_member(const dg_node *node, unsigned flag)
{
    const dg_attr *a = dg_attr_flagged(node->class->attrs, flag);

    return a ? (char *)node->conf + a->offset : NULL;
}

const char *dg_node_axes(const dg_node *node)
{
    const char *const *axes = flagged_member(node, DG_ATTR_AXES);

    return axes ? *axes : NULL;
}

const dg_item_attr *dg_node_axes_given(const dg_node *node)
{
    const dg_attr *a = dg_attr_flagged(node->class->attrs, DG_ATTR_AXES);

    return a ? dg_item_find(node->item, a->name) : NULL;
}

bool dg_node_is_dealt(const dg_graph *g, const dg_node *node)
{
    return g->axis && names_axis(dg_node_axes(node), g->axis);
}

int64_t *dg_node_batch_size(const dg_node *node)
{
    return flagged_member(node, DG_ATTR_BATCH);
}

bool dg_node_one_of(const dg_node *node, int port)
{
    for (int i = 0; node->needs_one && i < node->n_names; i++)
        if (node->names[i] == node->in_ports[port]->name)
            return true;
    return false;
}
