/* relower.c: finds what only lowering shows. Lowers the scope with everything present; at another
 * image size and batch, if these vary and a collective's operand may follow them; and without each
 * thing that may be missing on some ranks: keys and gradients that disappear then exist on some
 * ranks only. */
#include <string.h>

#include "proof/vary.h"
#include "tensor/build.h"

enum { MOST_ROOTS = 8, MOST_GROUPS = 4, MOST_BATCHES = 8, NONE = -1 };

typedef struct watcher {
    dg_proof *p;
    dg_vary_facts *facts;
    int *first;             /* by node number */
    int n;                  /* instructions seen */
    bool without, backward; /* backward: it has a loss */
    bool learn;             /* what connected nodes take */
} watcher;

/* ---- facts ----------------------------------------------------------------------------------- */

static void add_fact(watcher *w, const dg_node *node, int port, const char *key, dg_shape shape)
{
    DG_PUSH(w->p->arena, *w->facts,
            ((dg_vary_fact){ .node = node->number,
                             .port = port,
                             .next = w->first[node->number],
                             .key = key,
                             .shape = shape,
                             .lost = NONE }));
    w->first[node->number] = w->facts->n - 1;
}

/* Operands of the node's collectives as they were emitted, with port DG_VARY_INNER. */
static void add_exchanges(watcher *w, dg_build *b, const dg_node *node)
{
    const dg_program *p = dg_build_program(b);

    for (; w->n < p->instrs.n; w->n++) {
        const dg_instr *i = &p->instrs.items[w->n];

        if (i->op->effect == DG_COLLECTIVE && i->n_in && i->origin.node == node->number &&
            i->phase != DG_GRADIENT && p->values.items[i->v[0]].space != DG_GRADIENTS)
            add_fact(w, node, DG_VARY_INNER,
                     dg_printf(w->p->arena, "%d", w->first[node->number] + 1),
                     p->values.items[i->v[0]].shape);
    }
}

static void add_keys(watcher *w, dg_build *b, const dg_node *node, int port, const char *prefix,
                     dg_val v)
{
    if (dg_kind_of(b, v) == DG_KIND_TENSOR)
        add_fact(w, node, port, prefix, dg_shape_of(b, v));
    for (int i = 0; dg_kind_of(b, v) == DG_KIND_RECORD && i < dg_record_n(b, v); i++) {
        const char *key = dg_record_key(b, v, i);

        add_keys(w, b, node, port,
                 dg_printf(w->p->arena, "%s%s%s", prefix, *prefix ? "." : "", key),
                 dg_record_get(b, v, key));
    }
}

static dg_val zeros_for(void *ctx, dg_build *b, const dg_node *node, int port)
{
    watcher *w = ctx;

    return dg_vary_zeros(w->p, b, node, port);
}

static bool is_operand(const dg_node *node, int port)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (dg_rule_is_collective(r) && r->to && dg_rule_input(node, r) == port)
            return true;
    return false;
}

static bool has_loss(const dg_node *node, const dg_val in[])
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->kind == DG_RULE_GRADIENTS && dg_rule_input(node, r) >= 0 &&
            dg_has(in[dg_rule_input(node, r)]))
            return true;
    return false;
}

static void watch(void *ctx, dg_build *b, const dg_node *node, const dg_val in[],
                  const dg_val out[])
{
    watcher *w = ctx;

    if (w->without && out)
        return; /* recorded before it was lowered */
    w->backward |= has_loss(node, in);
    for (int i = 0; i < node->n_in; i++) {
        if (!dg_has(in[i]) || dg_is_poison(in[i]))
            continue;
        if (w->learn && node->connect)
            dg_vary_take(w->p, b, node, i, "", in[i]);
        if (is_operand(node, i))
            add_keys(w, b, node, i, "", in[i]);
        else if (node->in[i].key)
            add_fact(w, node, i, "", DG_SCALAR);
    }
    if (!w->without)
        add_exchanges(w, b, node);
}

static int *no_facts(dg_proof *p)
{
    int *first = DG_NEW_N(p->arena, p->g->n_nodes + 1, int);

    for (int i = 0; i <= p->g->n_nodes; i++)
        first[i] = NONE;
    return first;
}

/* True if, without what may be missing, no parameter reaches the loss: all lack a gradient. */
static bool is_bare(dg_proof *p, const dg_absence *absent, const dg_diag *d, bool *missing)
{
    if (!absent || dg_diag_n(d) != 1 ||
        strcmp(dg_diag_at(d, 0)->id, "loss-without-parameters") != 0)
        return false;
    *missing = true;
    for (int i = 0; i < dg_params_n(p->params); i++)
        missing[1 + i] = dg_params_at(p->params, i)->kind == DG_TRAINABLE;
    return true;
}

/* Lowers the scope; fills facts and, unless NULL, missing: the parameters without gradient. */
static bool lower(dg_proof *p, dg_size size, int batch, const dg_absence *absent,
                  dg_vary_facts *facts, int **first, bool *missing)
{
    watcher w = { .p = p,
                  .facts = facts,
                  .first = *first = no_facts(p),
                  .without = absent,
                  .learn = facts == &p->facts };
    dg_without without = { absent, zeros_for };
    dg_program *program;
    dg_diag *d = dg_diag_open(); /* its errors are reported by other lowerings */
    const int *list;
    bool ok = dg_lower_without(&program, p->g, p->scope, size, batch, absent ? &without : NULL,
                               p->params, watch, &w, d) == 0;

    if (ok && missing) {
        int n = dg_uncovered(program, &list);

        *missing = w.backward;
        for (int i = 0; i < n; i++)
            missing[1 + list[i]] = true;
    }
    if (ok)
        dg_program_close(&program);
    else if (missing)
        ok = is_bare(p, absent, d, missing);
    dg_diag_close(&d);
    return ok;
}

/* ---- other sizes ----------------------------------------------------------------------------- */

static const dg_vary_fact *same_fact(const dg_vary_facts *facts, const int *first,
                                     const dg_vary_fact *f)
{
    for (int i = first[f->node]; i >= 0; i = facts->items[i].next)
        if (facts->items[i].port == f->port && strcmp(facts->items[i].key, f->key) == 0)
            return &facts->items[i];
    return NULL;
}

/* Finds dimensions of operands that change with this size or batch. */
static void compare_shapes(dg_proof *p, dg_size size, int batch, bool by_size)
{
    dg_vary_facts facts = { 0 };
    int *first;
    bool ok = lower(p, size, batch, NULL, &facts, &first, NULL);

    for (int i = 0; i < p->facts.n; i++) {
        dg_vary_fact *f = &p->facts.items[i];
        const dg_vary_fact *g = ok ? same_fact(&facts, first, f) : NULL;
        bool other = !g || g->shape.rank != f->shape.rank, inner = other;

        for (int k = 0; !other && k < f->shape.rank; k++)
            inner |= k > 0 && g->shape.d[k] != f->shape.d[k];
        other |= inner || (g && !dg_shape_equal(g->shape, f->shape));
        *(by_size ? &f->by_size : &f->by_lead) |= other;
        *(by_size ? &f->inner_by_size : &f->inner_by_lead) |= inner;
    }
}

/* At every size that is listed, because a node may round it, and at batches with fewer images. */
static void compare_all_shapes(dg_proof *p)
{
    dg_diag *d = dg_diag_open();
    const dg_size *sizes;
    int n, batch, rc = dg_scope_listed(&sizes, &n, &batch, p->scope, d);

    dg_diag_close(&d);
    if (rc < 0)
        return;
    for (int i = 1; i < n; i++)
        if (sizes[i].w != sizes[i - 1].w || sizes[i].h != sizes[i - 1].h)
            compare_shapes(p, sizes[i], 0, true);
    if (n == 1)
        compare_shapes(p, (dg_size){ sizes[0].w + 32, sizes[0].h + 32 }, 0, true);
    for (int k = 1; k <= MOST_BATCHES && k < batch; k++)
        compare_shapes(p, sizes[0], k, false);
    compare_shapes(p, sizes[0], batch + 1, false);
}

/* ---- what may be missing --------------------------------------------------------------------- */

static int count(const dg_vary_facts *facts, const int *first, const dg_vary_fact *f)
{
    int n = 0;

    for (int i = first[f->node]; i >= 0; i = facts->items[i].next)
        n += facts->items[i].port == f->port && strcmp(facts->items[i].key, f->key) == 0;
    return n;
}

/* The result of a lowering: facts (keys), and parameters without gradient. */
typedef struct view {
    dg_vary_facts facts;
    int *first;
    bool *missing; /* [0]: there is a loss to differentiate; then by parameter */
} view;

static view look(dg_proof *p, dg_size size, const dg_absence *absent)
{
    int n = dg_params_n(p->params);
    view v = { .missing = DG_NEW_N(p->arena, n + 1, bool) };

    if (!lower(p, size, 0, absent, &v.facts, &v.first, v.missing))
        memset(v.missing, 1, (size_t)n + 1); /* nothing is known: assume everything missing */
    return v;
}

static bool is_lost(const dg_proof *p, int param)
{
    for (int k = 0; k < p->lost.n; k++)
        if (p->lost.items[k].param == param)
            return true;
    return false;
}

/* What exists before but not after is lost with the root. Returns how much that is. */
static int compare(dg_proof *p, const view *before, const view *after, int root)
{
    int n_lost = 0;

    for (int i = 0; i < p->facts.n; i++) {
        dg_vary_fact *f = &p->facts.items[i];

        if (f->lost < 0 &&
            count(&after->facts, after->first, f) < count(&before->facts, before->first, f)) {
            f->lost = root;
            n_lost++;
        }
    }
    /* the walk reports a <backward> without loss */
    for (int i = 0; after->missing[0] && i < dg_params_n(p->params); i++)
        if (after->missing[1 + i] && !before->missing[1 + i] && !is_lost(p, i) &&
            dg_params_at(p->params, i)->kind == DG_TRAINABLE) {
            DG_PUSH(p->arena, p->lost, ((dg_lost){ i, root }));
            n_lost++;
        }
    return n_lost;
}

static void merge(dg_absence *absent, const dg_root *r)
{
    absent[r->node->number] |= r->absent;
}

static bool lacks(const dg_proof *p, const view *before, const view *after)
{
    for (int i = 0; i < p->facts.n; i++)
        if (count(&after->facts, after->first, &p->facts.items[i]) <
            count(&before->facts, before->first, &p->facts.items[i]))
            return true;
    for (int i = 0; i < dg_params_n(p->params); i++)
        if (after->missing[1 + i] && !before->missing[1 + i])
            return true;
    return false;
}

/* True if a loss or a collective depends on this node. */
static bool matters(const dg_proof *p, const dg_node *node)
{
    const dg_scope *s = p->scope;
    bool *hangs = DG_NEW_N(p->arena, s->n_nodes, bool);

    if (node->scope != s)
        return true; /* in a model */
    hangs[node->index] = true;
    for (int i = node->index + 1; i < s->n_nodes; i++)
        for (int k = 0; k <= s->nodes[i]->n_in; k++) {
            const dg_node *from =
                k < s->nodes[i]->n_in ? s->nodes[i]->in[k].from : s->nodes[i]->when.from;

            if (!from || !hangs[from->index])
                continue;
            hangs[i] = true;
            for (const dg_rule *r = s->nodes[i]->class->rules; r && r->kind; r++)
                if (dg_rule_input(s->nodes[i], r) == k &&
                    (r->kind == DG_RULE_GRADIENTS || (dg_rule_is_collective(r) && r->to)))
                    return true;
        }
    return false;
}

/* Groups what all ranks lack together: by guard one group each, other reasons one each. Returns the
 * number of groups; more than MOST_GROUPS if one node depends on several. */
static int group_together(const dg_proof *p, dg_absence *absent[])
{
    int flags[MOST_GROUPS] = { 0 }, n = 0;

    for (int i = 0; i < p->together.n; i++) {
        const dg_root *r = &p->together.items[i];
        int k = 0;

        for (int j = 0; j < i; j++)
            if (p->together.items[j].node == r->node && p->together.items[j].flag != r->flag)
                return MOST_GROUPS + 1; /* of a model that is used twice */
        if (!matters(p, r->node))
            continue;
        while (k < n && (r->flag < 0 || flags[k] != r->flag))
            k++;
        if (k == MOST_GROUPS)
            return MOST_GROUPS + 1;
        if (k == n) {
            flags[n] = r->flag;
            absent[n++] = DG_NEW_N(p->arena, p->g->n_nodes, dg_absence);
        }
        merge(absent[k], r);
    }
    return n;
}

static void unite(dg_absence *to, const dg_absence *with, int n)
{
    for (int i = 0; with && i < n; i++)
        to[i] |= with[i];
}

/* What all ranks may lack together can leave only ways that some ranks lack: is there a choice of
 * groups without which a remaining way disappears without the roots? bare: the result without the
 * roots. With too many choices, a way that exists only with all groups or with roots counts as
 * uncertain. */
static void compare_together(dg_proof *p, dg_size size, const dg_absence *roots, const view *bare,
                             int root)
{
    dg_absence *group[MOST_GROUPS], *all = DG_NEW_N(p->arena, p->g->n_nodes, dg_absence);
    int n = group_together(p, group);
    bool any = false;

    for (int i = 0; i < p->roots.n; i++)
        any |= matters(p, p->roots.items[i].node);
    for (int i = 0; i < p->together.n; i++)
        merge(all, &p->together.items[i]);
    unite(all, roots, p->g->n_nodes);
    view last = look(p, size, all);

    if (!any || n == 0 || !lacks(p, bare, &last))
        return;
    if (n > MOST_GROUPS)
        (void)compare(p, bare, &last, root);
    for (unsigned choice = 1; n <= MOST_GROUPS && choice < 1u << n; choice++) {
        dg_absence *absent = DG_NEW_N(p->arena, p->g->n_nodes, dg_absence);
        dg_absence *both = DG_NEW_N(p->arena, p->g->n_nodes, dg_absence);

        for (int i = 0; i < n; i++)
            unite(absent, choice >> i & 1 ? group[i] : NULL, p->g->n_nodes);
        unite(both, absent, p->g->n_nodes);
        unite(both, roots, p->g->n_nodes);
        view after = look(p, size, both);

        if (!lacks(p, bare, &after))
            continue;
        view before = look(p, size, absent);

        (void)compare(p, &before, &after, root);
    }
}

/* A root that represents all of them. */
static int any_root(dg_proof *p)
{
    dg_root any = p->roots.items[0];

    for (int i = 1; i < p->roots.n; i++)
        any.present = dg_vary_join(any.present, p->roots.items[i].present);
    DG_PUSH(p->arena, p->roots, any);
    return p->roots.n - 1;
}

/* Keys that are missing without everything that may be: if not on some ranks, then on all. */
static void find_at_times(dg_proof *p, const view *bare)
{
    for (int i = 0; i < p->facts.n; i++) {
        dg_vary_fact *f = &p->facts.items[i];

        f->at_times = count(&bare->facts, bare->first, f) < count(&p->facts, p->first_fact, f);
    }
}

static void look_for_losses(dg_proof *p, dg_size size)
{
    dg_absence *absent = DG_NEW_N(p->arena, p->g->n_nodes, dg_absence);
    dg_absence *all = DG_NEW_N(p->arena, p->g->n_nodes, dg_absence);
    int n = p->roots.n < MOST_ROOTS ? p->roots.n : MOST_ROOTS, any;
    view whole = look(p, size, NULL), bare;

    for (int i = 0; i < p->roots.n; i++)
        merge(all, &p->roots.items[i]);
    memcpy(absent, all, (size_t)p->g->n_nodes * sizeof *absent);
    for (int i = 0; i < p->together.n; i++)
        merge(absent, &p->together.items[i]);
    any = any_root(p);
    bare = look(p, size, absent);
    find_at_times(p, &bare);
    if (compare(p, &whole, &bare, any) == 0 && (bare.missing[0] || !whole.missing[0]))
        return; /* nothing is lost, even without everything that may be missing */
    memset(absent, 0, (size_t)p->g->n_nodes * sizeof *absent);
    for (int i = 0; i < p->facts.n; i++)
        p->facts.items[i].lost = NONE;
    p->lost.n = 0;
    for (int i = 0; i < n; i++) {
        absent[p->roots.items[i].node->number] = p->roots.items[i].absent;
        view without = look(p, size, absent);

        (void)compare(p, &whole, &without, i);
        absent[p->roots.items[i].node->number] = 0;
    }
    bare = look(p, size, all);
    (void)compare(p, &whole, &bare, any); /* things with several ways, all of which may fail */
    compare_together(p, size, all, &bare, any);
}

void dg_vary_lower(dg_proof *p)
{
    dg_diag *d = dg_diag_open();
    dg_chain chain;
    dg_size size;

    p->facts.n = p->lost.n = p->taken.n = 0;
    p->lowered = dg_scope_size(&size, p->scope, d) == 0 &&
                 dg_graph_chain(&chain, p->scope, d) == 0 &&
                 lower(p, size, 0, NULL, &p->facts, &p->first_fact, NULL);
    dg_diag_close(&d);
    if (!p->lowered)
        return;
    if (p->wants_sizes && chain.sampler)
        compare_all_shapes(p);
    if (p->roots.n)
        look_for_losses(p, size);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Reports one fault per root: the first parameter that it leaves without gradient, and the number
 * of others. */
void dg_vary_gradients(dg_proof *p)
{
    for (int root = 0; root < p->roots.n; root++) {
        const dg_root *r = &p->roots.items[root];
        const dg_param_info *info = NULL;
        int n = 0;

        for (int i = 0; i < p->lost.n; i++)
            if (p->lost.items[i].root == root) {
                info = info ? info : dg_params_at(p->params, p->lost.items[i].param);
                n++;
            }
        if (!info)
            continue;
        const char *more = n > 1 ? dg_printf(p->arena, " (and %d more)", n - 1) : "";

        dg_vary_finding *f = dg_vary_fault(
            p, "DG-GRAD", info->where, r->present,
            "parameter %s of \"%s\"%s gets a gradient on some ranks of %s only: its path to "
            "the loss may be missing",
            info->name, info->where.node ? info->where.node : "?", more,
            dg_vary_name(p, r->present.axes));
        f->help = dg_vary_connect(p, r->present, &f->way);
    }
}
