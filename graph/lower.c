/* lower.c: a scope -> a tensor program, node by node in document order; and what can only be
 * checked there: that nodes keep the types of their ports, and that every trainable parameter
 * reaches the loss.
 *
 * <use> lowers the model's nodes again with its own inputs; parameters are named after the
 * declaration, so all uses share them. */
#include "graph/lower.h"

#include <stdio.h>
#include <string.h>

#include "graph/fire.h"
#include "graph/keeps.h"
#include "graph/monitor.h"
#include "graph/structure.h"
#include "graph/vary.h"
#include "tensor/build.h"

typedef struct lowering {
    const dg_graph *g;
    const dg_scope *scope;
    dg_build       *b;
    dg_diag        *d;
    dg_size         size;
    int             batch;
    dg_lowered_fn  *watch;
    void           *ctx;
    int64_t        *bound; /* what a node's dimensions are; one entry per variable */
    const dg_absence *absent; /* by node number; NULL: everything is there */
    int             n_losses, rc;
    dg_arena       *arena;
    int            *turns; /* by node number: how often it was lowered before; with monitors */
} lowering;

/* A scope while its nodes are lowered: the outputs so far. */
typedef struct activation {
    const dg_scope *scope;
    const dg_node  *use;    /* that runs this model; NULL: the scope itself */
    const dg_val   *inputs; /* of the model */
    bool            recompute;
    dg_val        **out;   /* by node->index */
    dg_val         *fired; /* by node->index: the guard under which it fires; none: always */
} activation;

/* --- values on wires ------------------------------------------------------------------------- */

/* Does this node, or one of its outputs, stay away in the program that is made? */
static bool stays_away(const lowering *w, const dg_node *node, int output)
{
    return w->absent && (w->absent[node->number] >> output & 1);
}

/* Below a record; DG_NONE where an optional key is missing. */
static dg_val take_key(lowering *w, dg_val v, const char *path, bool optional)
{
    optional |= w->absent != NULL;
    while (*path && dg_has(v) && !dg_is_poison(v)) {
        const char *key = dg_strndup(w->arena, path, strcspn(path, "."));

        if (optional && dg_is_record(v) && !dg_record_has(w->b, v, key))
            return DG_NONE;
        v = dg_record_get(w->b, v, key);
        path += strcspn(path, ".");
        path += *path == '.';
    }
    return v;
}

static dg_val value_on(lowering *w, const activation *act, const dg_wire *wire, bool optional)
{
    dg_val v = wire->from ? act->out[wire->from->index][wire->port] : DG_NONE;

    return wire->key ? take_key(w, v, wire->key, optional) : v;
}

/* --- nodes ----------------------------------------------------------------------------------- */

static void lower_nodes(lowering *w, activation *act);

/* The batch node's tensors become inputs of the program; keys below a port become a record. */
static void lower_feeds(lowering *w, const dg_node *node, dg_val out[])
{
    enum { MOST = 64 };
    dg_feed feeds[MOST];
    int     n = node->class->feeds(node->conf, w->size, w->batch, feeds, MOST);

    for (int i = 0; i < n && i < MOST; i++) {
        const char *key = feeds[i].key, *rest = key + strcspn(key, ".");
        int         port = 0;
        dg_val      v = dg_input(w->b, dg_printf(w->arena, "%s.%s", node->id, key), feeds[i].dtype,
                                 feeds[i].shape);

        while (port < node->n_out &&
               (strlen(node->out_ports[port]->name) != (size_t)(rest - key) ||
                strncmp(node->out_ports[port]->name, key, (size_t)(rest - key)) != 0))
            port++;
        if (port == node->n_out) { /* all in one record */
            port = 0;
            rest = key;
        } else if (*rest == '.') {
            rest++;
        }
        if (!*rest) {
            out[port] = v;
            continue;
        }
        if (!dg_has(out[port]))
            out[port] = dg_record(w->b);
        dg_record_set(w->b, out[port], rest, v);
    }
}

static void lower_use(lowering *w, const activation *act, const dg_node *node, const dg_val in[],
                      dg_val out[])
{
    const dg_scope *m = node->model;
    activation      inside = {
             .scope = m, .use = node, .inputs = in, .recompute = node->recompute || act->recompute
    };

    lower_nodes(w, &inside);
    for (int i = 0; i < node->n_out; i++)
        out[i] = inside.out[m->output->index][i];
}

static bool missing_input(lowering *w, const dg_node *node, const dg_val in[])
{
    for (int i = 0; i < node->n_in; i++)
        if (!(node->in_ports[i]->flags & DG_PORT_OPTIONAL) && !dg_has(in[i]) &&
            dg_contract_flows(node->in_types[i])) {
            if (w->absent)
                return true;
            w->rc = dg_fail(w->d, DG_EINPUT, node->in[i].where, "lower-missing",
                            "\"%s\" gives nothing here, and <%s> always needs \"%s\"",
                            node->in[i].from ? node->in[i].from->id : "?", node->element,
                            node->in_ports[i]->name);
            return true;
        }
    return false;
}

/* Results are published at once: later passes may fuse what nobody reads. */
static void publish(lowering *w, const activation *act, const dg_node *node, const dg_val in[],
                    const dg_val out[])
{
    const dg_node_class *c = node->class;

    if (act->use)
        return;
    if (c->take || c->role == DG_ROLE_SINK || c->role == DG_ROLE_EVALUATE)
        for (int i = 0; i < node->n_in; i++)
            if (dg_kind_of(w->b, in[i]) == DG_KIND_TENSOR ||
                dg_kind_of(w->b, in[i]) == DG_KIND_RECORD)
                dg_result(w->b, dg_printf(w->arena, "%s.%s", node->id, node->in_ports[i]->name),
                          in[i]);
    if (c->role != DG_ROLE_LOSS || w->scope->kind != DG_SCOPE_TRAIN)
        return;
    const char *name = w->n_losses++ ? node->id : "loss";

    for (int i = 0; i < node->n_out; i++)
        if (dg_kind_of(w->b, out[i]) == DG_KIND_RECORD)
            dg_result(w->b, name, out[i]);
        else if (dg_kind_of(w->b, out[i]) == DG_KIND_TENSOR)
            dg_result(w->b, dg_printf(w->arena, "%s.%s", name, node->out_ports[i]->name), out[i]);
}

/* What has a monitor stays readable: "watch/NUMBER[.key]" is compared, of "fires/NUMBER" whether it
 * is 0. */
static void keep_watched(lowering *w, const dg_node *node, dg_val fired, const dg_val out[])
{
    const dg_monitors *m = w->g->monitors;
    int                turn = m ? w->turns[node->number]++ : 0;

    for (int i = 0; m && i < m->list.n; i++) {
        const dg_monitor *x = &m->list.items[i];

        if (x->node != node || x->scope != w->scope || x->turn != turn)
            continue;
        if (x->kind == DG_MONITOR_FIRING && dg_has(fired))
            dg_result(w->b, dg_printf(w->arena, "fires/%d", i), fired);
        if (x->kind == DG_MONITOR_VALUE && (dg_kind_of(w->b, out[x->output]) == DG_KIND_TENSOR ||
                                            dg_kind_of(w->b, out[x->output]) == DG_KIND_RECORD))
            dg_result(w->b, dg_printf(w->arena, "watch/%d", i), out[x->output]);
    }
}

/* The first poison in a value, or none. */
static dg_val poison_in(dg_build *b, dg_val v)
{
    dg_val found = DG_NONE;

    if (dg_is_poison(v))
        return v;
    for (int i = 0; dg_is_record(v) && !dg_has(found) && i < dg_record_n(b, v); i++)
        found = poison_in(b, dg_record_get(b, v, dg_record_key(b, v, i)));
    return found;
}

/* A node that is fed from a failed one fails in silence: one error per root cause. */
static bool passes_poison_on(lowering *w, const dg_node *node, const dg_val in[], dg_val out[])
{
    dg_val poison = DG_NONE;

    for (int i = 0; i < node->n_in && !dg_has(poison); i++)
        poison = poison_in(w->b, in[i]);
    for (int i = 0; i < node->n_out && dg_has(poison); i++)
        out[i] = poison;
    return dg_has(poison);
}

/* A node that only the host can compute: its outputs are inputs of the program, or what it takes. */
static void lower_outside(lowering *w, const dg_node *node, const dg_val in[], dg_val out[])
{
    for (int i = 0; i < node->n_out; i++) {
        const dg_contract *c = node->out_contracts[i];

        if (c->kind == DG_TYPE_TENSOR && c->n_dims == 0 && c->ellipsis < 0)
            out[i] = dg_input(w->b, dg_printf(w->arena, "%s.%s", node->id, node->out_ports[i]->name),
                              c->dtype, DG_SCALAR);
        else if (c->kind == DG_TYPE_ANY && node->n_in > 0)
            out[i] = in[0];
    }
}

static void run_class(lowering *w, const activation *act, const dg_node *node, const dg_val in[],
                      dg_val out[])
{
    if (node->model)
        lower_use(w, act, node, in, out);
    else if (node->class->feeds)
        lower_feeds(w, node, out);
    else if (node->class->lower)
        node->class->lower(w->b, node->conf, in, out);
    else
        lower_outside(w, node, in, out);
}

/* Emits the node where it fires. */
static void fire(lowering *w, activation *act, const dg_node *node, const dg_val in[],
                 const dg_val fired[], dg_val out[])
{
    dg_val when = value_on(w, act, &node->when, false), now;
    int    guards = dg_fire_begin(w->b, w->g, node, when, in, fired);

    now = dg_guard_now(w->b);
    dg_build_freeze(w->b, node->frozen);
    run_class(w, act, node, in, out);
    dg_build_freeze(w->b, false);
    dg_fire_end(w->b, node, guards, out);
    act->fired[node->index] = node->connect ? dg_guard_now(w->b) : now;
    keep_watched(w, node, now, out);
    dg_fire_course(w->b, node, now);
}

static void lower_node(lowering *w, activation *act, const dg_node *node)
{
    dg_val *in = DG_NEW_N(w->arena, node->n_in, dg_val),
           *fired = DG_NEW_N(w->arena, node->n_in, dg_val),
           *out = DG_NEW_N(w->arena, node->n_out, dg_val);
    dg_origin origin = { node->where, node->number, node->recompute || act->recompute };
    int       first = dg_build_program(w->b)->instrs.n, pending = dg_build_pending(w->b);

    act->out[node->index] = out;
    if (w->absent && w->absent[node->number] == DG_ABSENT_NODE)
        return;
    if (node->class == &dg_class_input) {
        for (int i = 0; act->use && i < act->scope->n_inputs; i++)
            if (act->scope->inputs[i] == node)
                out[0] = act->inputs[i];
        if (w->watch)
            w->watch(w->ctx, w->b, node, in, out);
        return;
    }
    for (int i = 0; i < node->n_in; i++) {
        const dg_node *from = node->in[i].from;

        in[i] = value_on(w, act, &node->in[i], node->in_ports[i]->flags & DG_PORT_OPTIONAL);
        fired[i] = from ? act->fired[from->index] : DG_NONE;
    }
    if (w->absent && w->watch)
        w->watch(w->ctx, w->b, node, in, NULL);
    if (missing_input(w, node, in) || passes_poison_on(w, node, in, out))
        return;
    dg_build_enter(w->b, origin, dg_printf(w->arena, "%s.%s", act->scope->id, node->id),
                   node->reference);
    fire(w, act, node, in, fired, out);
    if (w->rc < 0)
        return;
    dg_build_enter(w->b, origin, "", "");
    w->rc = dg_lowered_keeps(&(dg_lowered){ w->g, w->b, w->d, w->bound, first, pending, w->absent != NULL }, node,
                             in, out);
    for (int i = 0; i < node->n_out; i++)
        if (stays_away(w, node, i))
            out[i] = DG_NONE;
    publish(w, act, node, in, out);
    if (w->watch)
        w->watch(w->ctx, w->b, node, in, out);
}

static void lower_nodes(lowering *w, activation *act)
{
    act->out = DG_NEW_N(w->arena, act->scope->n_nodes, dg_val *);
    act->fired = DG_NEW_N(w->arena, act->scope->n_nodes, dg_val);
    for (int i = 0; i < act->scope->n_nodes && w->rc == 0; i++)
        lower_node(w, act, act->scope->nodes[i]);
}

/* --- programs -------------------------------------------------------------------------------- */

static int sampler_sizes(const dg_size **sizes, int *n, int *batch, const dg_scope *scope,
                         dg_diag *d)
{
    dg_chain chain;
    int      rc = dg_graph_chain(&chain, scope, d);

    *n = *batch = 0;
    if (rc < 0 || !chain.sampler)
        return rc;
    *n = dg_chain_sizes(&chain, sizes, batch);
    if (*n < 1 || *batch < 1)
        return dg_fail(d, DG_EINPUT, chain.sampler->where, "sampler-sizes",
                       "\"%s\" lists no image size", chain.sampler->id);
    return 0;
}

int dg_scope_size(dg_size *size, const dg_scope *scope, dg_diag *d)
{
    const dg_size *sizes;
    int            n, batch, rc = sampler_sizes(&sizes, &n, &batch, scope, d);

    *size = rc == 0 && n ? sizes[0] : (dg_size){ 0, 0 };
    return rc;
}

int dg_lower(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size, int batch,
             dg_params *params, dg_lowered_fn *watch, void *ctx, dg_diag *d)
{
    return dg_lower_without(p, g, scope, size, batch, NULL, params, watch, ctx, d);
}

static void name_axes(dg_build *b, const dg_graph *g)
{
    if (g->axis)
        dg_build_axis(b, g->axis, g->ranks);
    if (!g->axis || g->mesh.tp < 2)
        return;
    dg_build_axis(b, "tp", g->mesh.tp);
    dg_build_axis(b, "dp+tp", g->ranks * g->mesh.tp);
    dg_build_axis(b, "tp+dp", g->ranks * g->mesh.tp);
}

int dg_lower_without(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                     int batch, const dg_absence *absent, dg_params *params, dg_lowered_fn *watch,
                     void *ctx, dg_diag *d)
{
    lowering w = { .g = g,
                   .scope = scope,
                   .d = d,
                   .size = size,
                   .batch = batch,
                   .watch = watch,
                   .ctx = ctx,
                   .absent = absent };
    activation     act = { .scope = scope };
    const dg_size *sizes;
    int            n;

    *p = NULL;
    if (!batch)
        w.rc = sampler_sizes(&sizes, &n, &w.batch, scope, d);
    if (w.rc < 0)
        return w.rc;
    *p = dg_program_open(params, scope->kind == DG_SCOPE_TRAIN);
    (*p)->accumulate = scope->accumulate > 0 ? (int)scope->accumulate : 1;
    (*p)->keep_names = g->keep_names;
    w.arena = dg_arena_open();
    w.bound = DG_NEW_N(w.arena, g->dims.vars.n, int64_t);
    w.turns = DG_NEW_N(w.arena, g->n_nodes + 1, int);
    w.b = dg_build_open(*p, d);
    name_axes(w.b, g);
    lower_nodes(&w, &act);
    if (dg_build_failed(w.b) && w.rc == 0)
        w.rc = -DG_EINPUT;
    dg_build_close(&w.b);
    dg_arena_close(&w.arena);
    if (w.rc < 0)
        dg_program_close(p);
    return w.rc;
}

int dg_graph_lower(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                   dg_params *params, dg_diag *d)
{
    return dg_lower(p, g, scope, size, 0, params, NULL, NULL, d);
}

/* --- coverage -------------------------------------------------------------------------------- */

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

static int check_coverage(const dg_program *p, const dg_scope *scope, dg_diag *d)
{
    const int *missing;
    int        n = dg_uncovered(p, &missing), rc = 0;

    if (n && !p->grads)
        return dg_fail(d, DG_EINPUT, scope->where, "gradient-none",
                       "<train> has parameters and no <backward>: nothing would be trained");
    for (int k = 0; k < n; k++) {
        const dg_param_info *info = dg_params_at(p->params, missing[k]);
        int                  more = 0;

        if (reported_before(p, missing, k))
            continue;
        for (int i = k + 1; i < n; i++) {
            const char *node = dg_params_at(p->params, missing[i])->where.node;

            more += node && info->where.node && strcmp(node, info->where.node) == 0;
        }
        rc = dg_fail(d, DG_EINPUT, info->where, "DG-GRAD",
                     "parameter %s of \"%s\" never reaches the loss: there is no differentiable path "
                     "from it to <backward>",
                     info->name, info->where.node ? info->where.node : "?");
        if (more)
            dg_note(d, DG_NOWHERE, "%d of this node's parameters do not", more + 1);
        dg_help(d, "wire the node to the loss, freeze it (frozen=\"true\"), or take it out");
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

/* Nodes that evaluations alone use stay as they were at the start. before: parameters of training. */
static int check_evaluated(const dg_params *params, int before, dg_diag *d)
{
    int rc = 0;

    for (int i = before; i < dg_params_n(params); i++) {
        const dg_param_info *info = dg_params_at(params, i);

        if (info->kind != DG_TRAINABLE || !info->where.node || has_params(params, i, info->where.node))
            continue;
        rc = dg_fail(d, DG_EINPUT, info->where, "DG-GRAD",
                     "parameter %s of \"%s\" is evaluated and never trained: <train> does not use it", info->name,
                     info->where.node);
        dg_help(d, "evaluate the model that is trained, or freeze this one (frozen=\"true\")");
    }
    return rc;
}

static bool seen(const dg_size *sizes, int i)
{
    for (int k = 0; k < i; k++)
        if (sizes[k].w == sizes[i].w && sizes[k].h == sizes[i].h)
            return true;
    return false;
}

/* lowered: cleared where that fails; trained: set where there are gradients. */
static int check_scope(const dg_graph *g, const dg_scope *scope, dg_params *params, bool *lowered,
                       bool *trained, dg_diag *d)
{
    static const dg_size none[1];
    const dg_size       *sizes = none;
    dg_program          *p;
    int                  n, batch, rc = sampler_sizes(&sizes, &n, &batch, scope, d);

    for (int i = 0; i < (n ? n : 1) && rc == 0; i++) {
        if (seen(sizes, i))
            continue;
        rc = dg_lower(&p, g, scope, sizes[i], batch, params, NULL, NULL, d);
        *lowered &= rc == 0;
        *trained |= rc == 0 && p->grads;
        if (rc == 0 && i == 0 && scope->kind == DG_SCOPE_TRAIN)
            rc = check_coverage(p, scope, d);
        dg_program_close(&p);
    }
    return rc;
}

/* Nodes that tell classes apart tell the same ones apart: labels of one index tables of another. */
static int check_classes(const dg_scope *scope, const dg_node **first, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *node = scope->nodes[i], *other = *first;
        int64_t        n = node->class->classes ? node->class->classes(node->conf) : 0;

        if (!n)
            continue;
        *first = other ? other : node;
        if (!other || other->class->classes(other->conf) == n)
            continue;
        rc = dg_fail(d, DG_EINPUT, node->where, "classes-differ",
                     "<%s id=\"%s\"> has classes=\"%lld\", <%s id=\"%s\"> has %lld",
                     node->element, node->id, (long long)n, other->element, other->id,
                     (long long)other->class->classes(other->conf));
        dg_note(d, other->where, "the other stands here");
        dg_help(d, "one <let classes=\"...\"/> serves both");
    }
    return rc;
}

static int check_digest(const dg_graph *g, dg_diag *d)
{
    char text[24];
    int  rc;

    snprintf(text, sizeof text, "%016llx", (unsigned long long)dg_graph_digest(g));
    if (!g->digest || strcmp(g->digest, text) == 0)
        return 0;
    rc = dg_fail(d, DG_EINPUT, dg_item_find(g->root, "digest")->value_at, "DG-DIGEST",
                 "the pipeline is pinned to the graph %s, and this graph is %s: ranks that read the "
                 "one would refuse the other at the start",
                 g->digest, text);
    dg_help(d, "take back the change, or pin the new graph: digest=\"%s\"", text);
    return rc;
}

static int check_ranks(const dg_graph *g, dg_params *params, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int       rc = dg_vary_check(g, params, NULL, a, d);

    dg_arena_close(&a);
    return rc;
}

int dg_graph_check(const dg_graph *g, dg_diag *d)
{
    dg_params     *params = dg_params_open();
    const dg_node *first = NULL;
    bool           lowered = true, trained = false;
    int            rc = check_digest(g, d), own, n;

    if (g->n_models == 1) {
        own = check_classes(g->models[0], &first, d);
        rc = rc ? rc : own;
    }
    if (g->n_models == 1 && g->train) {
        own = check_classes(g->train, &first, d);
        rc = rc ? rc : own;
    }
    if (g->train) {
        own = check_scope(g, g->train, params, &lowered, &trained, d);
        rc = rc ? rc : own;
    }
    n = dg_params_n(params);
    for (int i = 0; i < g->n_evaluates; i++) {
        own = check_scope(g, g->evaluates[i], params, &lowered, &trained, d);
        rc = rc ? rc : own;
    }
    own = lowered && trained ? check_evaluated(params, n, d) : 0;
    rc = rc ? rc : own;
    own = lowered ? check_ranks(g, params, d) : 0;
    rc = rc ? rc : own;
    dg_params_close(&params);
    dg_diag_sort(d);
    return rc;
}
