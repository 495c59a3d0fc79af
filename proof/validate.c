/* validate.c: all checks of a loaded graph: classes and digest, each scope lowered at each of its
 * sizes, gradient coverage, rank invariance; and a second look at the programs. */
#include "graph/edit.h"
#include "proof/proof.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "graph/attr.h"
#include "graph/digest.h"
#include "graph/lower.h"
#include "graph/structure.h"
#include "proof/second.h"
#include "tensor/build.h"
#include "tensor/passes.h"

/* A scope, and its program at the first of its sizes; NULL: it could not be made, or is wrong. */
typedef struct checked_scope {
    const dg_scope *scope;
    const dg_size *sizes;
    int n_sizes, batch;
    dg_program *first;
} checked_scope;

/* A graph being checked. */
typedef struct checked {
    const dg_graph *g;
    dg_params *params;
    dg_arena *a;
    checked_scope *scopes;
    int n_scopes;
    bool lowered;    /* false: some scope could not be, at some size */
    bool trained;    /* there are gradients */
    dg_diag *second; /* what the second look found: told if nothing else is wrong */
    int second_rc;
} checked;

/* ---- coverage -------------------------------------------------------------------------------- */

static bool reported_before(const dg_program *p, const int *missing, int k)
{
    const char *node = dg_params_at(p->params, missing[k])->where.node;

    for (int i = 0; i < k; i++) {
        const char *other = dg_params_at(p->params, missing[i])->where.node;

        if (node && other && strcmp(node, other) == 0)
            return true;
    }
    return false;
}

/* A node whose parameters are not trained says so. */
static void help_freeze(const dg_graph *g, const char *path, dg_diag *d)
{
    const dg_node *node = dg_edit_node(g, path);

    if (node)
        dg_help(d, "wire the node to the loss, or freeze it: %s",
                dg_edit_write(g, node, "frozen", "true"));
}

static int check_coverage(const dg_graph *g, const dg_program *p, const dg_scope *scope, dg_diag *d)
{
    const int *missing;
    int n = dg_uncovered(p, &missing), rc = 0;

    if (p->severed) /* the proof says where */
        return 0;
    if (n && !p->grads)
        return dg_fail(d, DG_EINPUT, scope->where, "gradient-none",
                       "<train> has parameters and no <backward>: nothing would be trained");
    for (int k = 0; k < n; k++) {
        const dg_param_info *info = dg_params_at(p->params, missing[k]);
        int more = 0;

        if (reported_before(p, missing, k))
            continue;
        for (int i = k + 1; i < n; i++) {
            const char *node = dg_params_at(p->params, missing[i])->where.node;

            more += node && info->where.node && strcmp(node, info->where.node) == 0;
        }
        rc = dg_fail(
            d, DG_EINPUT, info->where, "DG-GRAD",
            "parameter %s of \"%s\" never reaches the loss: there is no differentiable path "
            "from it to <backward>",
            info->name, info->where.node ? info->where.node : "?");
        if (more)
            dg_note(d, DG_NOWHERE, "%d of this node's parameters do not", more + 1);
        help_freeze(g, info->where.node, d);
    }
    return rc;
}

static bool has_params(const dg_params *params, int n, const char *node)
{
    for (int i = 0; i < n; i++) {
        const char *other = dg_params_at(params, i)->where.node;

        if (other && strcmp(other, node) == 0)
            return true;
    }
    return false;
}

/* Warns about parameters that only evaluations use: they keep their initial values. before: number
 * of parameters of training. */
static int check_evaluated(const dg_graph *g, const dg_params *params, int before, dg_diag *d)
{
    int rc = 0;

    for (int i = before; i < dg_params_n(params); i++) {
        const dg_param_info *info = dg_params_at(params, i);

        if (info->kind != DG_TRAINABLE || !info->where.node ||
            has_params(params, i, info->where.node))
            continue;
        rc = dg_fail(
            d, DG_EINPUT, info->where, "DG-GRAD",
            "parameter %s of \"%s\" is evaluated and never trained: <train> does not use it",
            info->name, info->where.node);
        help_freeze(g, info->where.node, d);
    }
    return rc;
}

static bool size_is_seen(const dg_size *sizes, int i)
{
    for (int k = 0; k < i; k++)
        if (sizes[k].w == sizes[i].w && sizes[k].h == sizes[i].h)
            return true;
    return false;
}

/* Lowers a scope at one of its sizes. */
static int lower_at(dg_program **p, const dg_graph *g, const checked_scope *s, int i,
                    dg_params *params, dg_diag *d)
{
    const dg_size size = s->n_sizes ? s->sizes[i] : (dg_size){ 0, 0 };

    return dg_lower(p, g, s->scope, size, s->batch, params, NULL, NULL, d);
}

/* Declares a scope's parameters: no pass may run before all scopes have done so. */
static int check_first(checked *c, const dg_scope *scope, dg_diag *d)
{
    checked_scope *s = &c->scopes[c->n_scopes++];
    int rc;

    s->scope = scope;
    DG_TRY(dg_scope_listed(&s->sizes, &s->n_sizes, &s->batch, scope, d));
    rc = lower_at(&s->first, c->g, s, 0, c->params, d);
    c->lowered &= rc == 0;
    DG_TRY(rc);
    c->trained |= s->first->grads;
    if (scope->kind == DG_SCOPE_TRAIN)
        DG_TRY(check_coverage(c->g, s->first, scope, d));
out:
    if (rc < 0)
        dg_program_close(&s->first);
    return rc;
}

static int n_ranks(const dg_graph *g)
{
    return g->axis ? (int)(g->ranks * g->mesh.tp) : 1;
}

/* Looks at a program as it is run, and beside the scope's first, which ranks may run at the same
 * step. h: NULL for one rank. */
static int look_again(const checked *c, const checked_scope *s, const dg_second_host *h,
                      dg_program *p, dg_diag *d)
{
    int rc = 0;

    if (!h)
        return 0;
    DG_TRY(dg_passes(p, DG_F32, DG_F32, NULL, n_ranks(c->g), d));
    DG_TRY(dg_second_look(p, h, d));
    if (p != s->first && h->size.axes & h->live)
        DG_TRY(dg_second_meet(s->first, p, h->size.axes & h->live, h, d));
out:
    return rc;
}

/* What a scope shows at one of its sizes. */
typedef struct sized {
    int size, rc, second_rc;
    dg_diag *d, *second;
} sized;

typedef struct sizes_job {
    const checked *c;
    const checked_scope *s;
    const dg_second_host *h;
    bool compares; /* a program like the scope's first, as it was lowered, needs no look */
    int n;
    sized *at;       /* the sizes but the first */
    atomic_int next; /* the one that no thread has taken yet */
    atomic_bool wrong;
} sizes_job;

/* The programs of other sizes are many and large: one is closed before the next is made. A thread
 * takes the next size when it is done with one, for cores are not equally fast. Those before a
 * wrong one have all been taken. */
static void check_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    sizes_job *j = ctx;
    dg_graph own = *j->c->g; /* the texts of messages go to its arena: one for each thread */

    (void)begin;
    (void)end;
    (void)thread;
    own.arena = dg_arena_open();
    for (int k; !j->wrong && (k = atomic_fetch_add(&j->next, 1)) < j->n;) {
        sized *at = &j->at[k];
        dg_program *p;

        at->d = dg_diag_open();
        at->second = dg_diag_open();
        at->rc = lower_at(&p, &own, j->s, at->size, j->c->params, at->d);
        if (at->rc == 0 && !(j->compares && dg_second_alike(j->s->first, p)))
            at->second_rc = look_again(j->c, j->s, j->h, p, at->second);
        dg_program_close(&p);
        if (at->rc < 0)
            j->wrong = true;
    }
    dg_arena_close(&own.arena);
}

static void second_said(checked *c, int rc, const dg_diag *said)
{
    if (c->second_rc < 0)
        return;
    c->second_rc = rc;
    dg_diag_merge(c->second, said);
}

static void look_at_first(checked *c, const checked_scope *s, const dg_second_host *h)
{
    dg_diag *second = dg_diag_open();

    second_said(c, look_again(c, s, h, s->first, second), second);
    dg_diag_close(&second);
}

/* Tells what the first wrong size shows. */
static int tell_others(checked *c, sizes_job *j, dg_diag *d)
{
    int rc = 0;

    for (int k = 0; k < j->n && rc == 0; k++) {
        rc = j->at[k].rc;
        dg_diag_merge(d, j->at[k].d);
        second_said(c, j->at[k].second_rc, j->at[k].second);
    }
    for (int k = 0; k < j->n; k++) {
        dg_diag_close(&j->at[k].d);
        dg_diag_close(&j->at[k].second);
    }
    return rc;
}

/* Checks the sizes on all cores. Plugins need not be written for that: they are called from one
 * thread, and each of their programs is looked at. */
static int check_sizes(checked *c, checked_scope *s, dg_diag *d)
{
    const bool extended = dg_registry_is_extended(c->g->registry);
    const int threads = extended ? 1 : dg_threads_available();
    sizes_job j = { .c = c, .s = s, .at = DG_NEW_N(c->a, s->n_sizes, sized) };
    int rc;

    if (!s->first)
        return 0;
    if (n_ranks(c->g) > 1)
        j.h = dg_second_host_make(c->g, s->scope, c->a);
    j.compares = j.h && !extended && !(j.h->size.axes & j.h->live);
    for (int i = 1; i < s->n_sizes; i++)
        if (!size_is_seen(s->sizes, i))
            j.at[j.n++].size = i;
    if (j.h)
        dg_params_seal(c->params); /* as passes do, and threads must not */
    if (!j.compares)
        look_at_first(c, s, j.h);
    dg_parallel_for(threads, j.n < threads ? j.n : threads, check_range, &j);
    if (j.compares)
        look_at_first(c, s, j.h);
    rc = tell_others(c, &j, d);
    c->lowered &= rc == 0;
    dg_program_close(&s->first);
    return rc;
}

static int64_t classes_of(const dg_node *node)
{
    return node->class->classes ? node->class->classes(node->conf) : 0;
}

/* Checks that nodes that distinguish classes have the same number: labels of one index tables of
 * another. What most of them have is taken to be right, or what the first has. */
static int check_classes(const dg_graph *g, dg_arena *a, dg_diag *d)
{
    DG_VEC(const dg_node *) all = { 0 };
    const dg_node *right = NULL;
    int rc = 0, most = 0;

    for (int s = 0; s < 2; s++) {
        const dg_scope *scope = s ? g->train : g->models[0];

        for (int i = 0; scope && i < scope->n_nodes; i++)
            if (classes_of(scope->nodes[i]))
                DG_PUSH(a, all, scope->nodes[i]);
    }
    for (int i = 0; i < all.n; i++) {
        int same = 0;

        for (int k = 0; k < all.n; k++)
            same += classes_of(all.items[k]) == classes_of(all.items[i]);
        if (same > most) {
            most = same;
            right = all.items[i];
        }
    }
    for (int i = 0; right && i < all.n; i++) {
        const dg_node *node = all.items[i];
        const long long n = classes_of(node), wanted = classes_of(right);

        if (n == wanted)
            continue;
        rc = dg_fail(d, DG_EINPUT, node->where, "classes-differ",
                     "<%s id=\"%s\"> has classes=\"%lld\", <%s id=\"%s\"> has %lld", node->element,
                     node->id, n, right->element, right->id, wanted);
        dg_note(d, right->where, "the other stands here");
        dg_help(d, "%s", dg_edit_write(g, node, "classes", dg_printf(g->arena, "%lld", wanted)));
    }
    return rc;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static bool has_masks(const dg_node *node)
{
    const dg_item_attr *a = dg_item_find(node->item, "masks");

    return a && strcmp(a->value, "true") == 0;
}

/* Checks that a batch that gives masks has a loader that reads them, if it can. */
static int check_masks(const dg_graph *g, const dg_scope *scope, dg_diag *d)
{
    const dg_node *loader = NULL;

    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *node = scope->nodes[i];

        if (node->class->role == DG_ROLE_LOADER && dg_attr_find(node->class->attrs, "masks"))
            loader = node;
        if (node->class->role != DG_ROLE_BATCH || !loader || !has_masks(node) || has_masks(loader))
            continue;
        dg_fail(d, DG_EINPUT, node->where, "batch-masks",
                "<%s id=\"%s\"> gives masks, and <%s id=\"%s\"> does not read them", node->element,
                node->id, loader->element, loader->id);
        dg_help(d, "if the data has masks: %s", dg_edit_write(g, loader, "masks", "true"));
        return -DG_EINPUT;
    }
    return 0;
}

/* ---- unread results -------------------------------------------------------------------------- */

static bool is_read(const dg_scope *scope, const dg_node *node);

/* True if input k of the node is read: of <use>, inside the model. */
static bool takes(const dg_node *node, int k)
{
    const dg_scope *m = node->model;

    for (int i = 0; m && i < m->n_inputs; i++)
        if (strcmp(m->inputs[i]->id, node->in_ports[k]->name) == 0)
            return m->inputs[i] == m->output || is_read(m, m->inputs[i]);
    return true;
}

static bool is_read(const dg_scope *scope, const dg_node *node)
{
    for (int i = node->index + 1; i < scope->n_nodes; i++) {
        const dg_node *other = scope->nodes[i];

        if (other->when.from == node)
            return true;
        for (int k = 0; k < other->n_in; k++)
            if (other->in[k].from == node && takes(other, k))
                return true;
    }
    return false;
}

static const dg_node *wired_to(const dg_scope *scope, const dg_node *node)
{
    for (int i = node->index + 1; i < scope->n_nodes; i++)
        for (int k = 0; k < scope->nodes[i]->n_in; k++)
            if (scope->nodes[i]->in[k].from == node)
                return scope->nodes[i];
    return NULL;
}

/* Warns of nodes whose results are not read, such as denoising queries that the decoder does not
 * take. Unread parameters are DG-GRAD. */
static void check_read(const dg_graph *g, const dg_scope *scope, dg_diag *d)
{
    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *node = scope->nodes[i];
        const dg_role role = node->class->role;

        if ((role != DG_ROLE_DENOISING && role != DG_ROLE_DECODER &&
             node->class != &dg_class_use) ||
            is_read(scope, node))
            continue;
        dg_warn(d, node->where, "unread", "nothing reads %s", dg_node_called(g->arena, node));
        if (wired_to(scope, node))
            dg_note(d, wired_to(scope, node)->where,
                    "the model's input that it goes to is not read");
        else
            dg_help(d, "%s", dg_edit_without(g, node));
    }
}

/* Warns of models that nothing uses, in whatever scope. */
static void check_used(const dg_graph *g, dg_diag *d)
{
    for (int i = 0; i < g->n_models; i++) {
        bool used = false;

        for (int s = 0; s < dg_graph_n_scopes(g); s++)
            for (int k = 0; k < dg_graph_scope(g, s)->n_nodes; k++)
                used |= dg_graph_scope(g, s)->nodes[k]->model == g->models[i];
        if (used)
            continue;
        dg_warn(d, g->models[i]->where, "unread", "nothing uses <model id=\"%s\">",
                g->models[i]->id);
        dg_help(d, "%s", dg_edit_without_part(g, g->models[i]->item));
    }
}

static int check_digest(const dg_graph *g, dg_diag *d)
{
    char text[24];
    int rc;

    snprintf(text, sizeof text, "%016llx", (unsigned long long)dg_graph_digest(g));
    if (!g->digest || strcmp(g->digest, text) == 0)
        return 0;
    rc =
        dg_fail(d, DG_EINPUT, dg_item_find(g->root, "digest")->value_at, "DG-DIGEST",
                "the pipeline is pinned to the graph %s, and this graph is %s: ranks that read the "
                "one would refuse the other at the start",
                g->digest, text);
    dg_help(d, "take back the change, or pin the new graph: %s",
            dg_edit_write_part(g, g->root, "digest", text));
    return rc;
}

static int check_ranks(const dg_graph *g, dg_params *params, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int rc = dg_vary_check(g, params, NULL, a, d);

    dg_arena_close(&a);
    return rc;
}

/* The program of the evaluation that the checkpoint is chosen by; NULL: there is none. */
static const dg_program *evaluated(const checked *c)
{
    for (int i = 0; i < c->n_scopes && c->g->checkpoint.best; i++)
        if (c->scopes[i].scope == c->g->checkpoint.best->scope)
            return c->scopes[i].first;
    return NULL;
}

int dg_graph_check(const dg_graph *g, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    checked c = { .g = g,
                  .params = dg_params_open(),
                  .a = a,
                  .scopes = DG_NEW_N(a, 1 + g->n_evaluates, checked_scope),
                  .lowered = true,
                  .second = dg_diag_open() };
    int rc = check_digest(g, d), own, n;

    dg_padding_check(g, d);
    if (g->train) {
        check_read(g, g->train, d);
        check_used(g, d);
    }
    dg_late_check(g, d);
    if (g->n_models == 1) {
        own = check_classes(g, a, d);
        rc = rc ? rc : own;
    }
    for (int i = g->train ? -1 : 0; i < g->n_evaluates; i++) {
        own = check_masks(g, i < 0 ? g->train : g->evaluates[i], d);
        rc = rc ? rc : own;
    }
    if (g->train) {
        own = check_first(&c, g->train, d);
        rc = rc ? rc : own;
    }
    n = dg_params_n(c.params);
    for (int i = 0; i < g->n_evaluates; i++) {
        own = check_first(&c, g->evaluates[i], d);
        rc = rc ? rc : own;
    }
    own = c.lowered && c.trained ? check_evaluated(g, c.params, n, d) : 0;
    rc = rc ? rc : own;
    own = dg_best_check(g, evaluated(&c), d);
    rc = rc ? rc : own;
    for (int i = 0; i < c.n_scopes; i++) {
        own = check_sizes(&c, &c.scopes[i], d);
        rc = rc ? rc : own;
    }
    own = c.lowered ? check_ranks(g, c.params, d) : 0;
    rc = rc ? rc : own;
    if (rc == 0) {
        dg_diag_merge(d, c.second);
        rc = c.second_rc;
    }
    dg_diag_close(&c.second);
    dg_params_close(&c.params);
    dg_arena_close(&a);
    dg_diag_sort(d);
    return rc;
}

int dg_graph_validate(const dg_graph *g, dg_diag *d)
{
    int rc = dg_graph_check(g, d), own = dg_graph_runnable(g, d);

    rc = rc ? rc : own;
    own = dg_graph_planned(g, d);
    dg_diag_sort(d);
    return rc ? rc : own;
}
