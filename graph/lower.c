/* lower.c: lowers a scope to a tensor program, node by node in document order, and checks that
 * nodes keep the types of their ports.
 *
 * <use> lowers the model's nodes again with its own inputs; parameters are named after the
 * declaration, so all uses share them. */
#include "graph/lower.h"

#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "graph/edit.h"
#include "graph/fire.h"
#include "graph/keeps.h"
#include "graph/monitor.h"
#include "graph/rule.h"
#include "graph/structure.h"
#include "tensor/build.h"

typedef struct lowering {
    const dg_graph *g;
    const dg_scope *scope;
    dg_build *b;
    dg_diag *d;
    dg_size size;
    int batch;
    dg_lowered_fn *watch;
    void *ctx;
    int64_t *bound;           /* size of each dimension variable; 0: unbound */
    const dg_absence *absent; /* by node number; NULL: nothing is absent */
    dg_zeros_fn *zeros;
    int n_losses, rc;
    dg_val inner_total; /* total of the latest loss node inside a model */
    dg_arena *arena;
    int *turns; /* by node number: number of earlier lowerings; for monitors */
} lowering;

/* A scope, or a model in use, being lowered: the outputs so far. */
typedef struct activation {
    const dg_scope *scope;
    const dg_node *use;   /* the <use> that runs this model; NULL: the scope itself */
    const dg_val *inputs; /* of the model */
    bool recompute;
    dg_val **out;  /* by node->index */
    dg_val *fired; /* by node->index: the guard under which it fires; DG_NONE: always */
} activation;

/* ---- values on wires ------------------------------------------------------------------------- */

/* True if this node, or one of its outputs, is absent in the program being made. */
static bool stays_away(const lowering *w, const dg_node *node, int output)
{
    return w->absent && (w->absent[node->number] >> output & 1);
}

/* The value of a key path; DG_NONE if an optional key is missing. */
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

/* ---- nodes ----------------------------------------------------------------------------------- */

static void lower_nodes(lowering *w, activation *act);

/* An input of the program, "ID.KEY", that the node feeds. */
static dg_val feed_input(lowering *w, const dg_node *node, const char *key, dg_dtype dtype,
                         dg_shape shape)
{
    const char *name = dg_printf(w->arena, "%s.%s", node->id, key);

    return dg_input_as(w->b,
                       &(dg_binding){ .name = name,
                                      .index = node->number,
                                      .key = name + strlen(node->id) + 1 },
                       dtype, shape);
}

/* Makes the batch node's tensors inputs of the program; keys below a port form a record. */
static void lower_feeds(lowering *w, const dg_node *node, dg_val out[])
{
    enum { MOST = 64 };
    dg_feed feeds[MOST];
    int n = node->class->feeds(node->conf, w->size, w->batch, feeds, MOST);

    for (int i = 0; i < n && i < MOST; i++) {
        const char *key = feeds[i].key, *rest = key + strcspn(key, ".");
        int port = 0;
        dg_val v = feed_input(w, node, key, feeds[i].dtype, feeds[i].shape);

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
    activation inside = {
        .scope = m, .use = node, .inputs = in, .recompute = node->recompute || act->recompute
    };

    lower_nodes(w, &inside);
    if (w->rc < 0) /* the last node may not have been reached */
        return;
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

/* Zeros for what a connected node does not have. */
static void stand_in(lowering *w, const dg_node *node, dg_val in[])
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].from && !dg_has(in[i]) && dg_contract_flows(node->in_types[i]))
            in[i] = w->zeros(w->ctx, w->b, node, i);
}

/* Publishes the flags of keys that may be missing where the node fires. */
static void publish_there(lowering *w, const dg_node *node, const char *key, dg_val v, dg_val fired)
{
    const char *name;
    dg_val there = dg_is_record(v) ? DG_NONE : dg_present(w->b, v);

    for (int i = 0; dg_is_record(v) && i < dg_record_n(w->b, v); i++) {
        const char *inner = dg_record_key(w->b, v, i);

        publish_there(w, node, dg_printf(w->arena, "%s.%s", key, inner),
                      dg_record_get(w->b, v, inner), fired);
    }
    if (!dg_has(there) || there.id == fired.id)
        return;
    name = dg_printf(w->arena, "there/%s.%s", node->id, key);
    dg_result_as(w->b,
                 &(dg_binding){ .name = name,
                                .kind = DG_RESULT_TAKEN_THERE,
                                .index = node->number,
                                .key = name + strlen(name) - strlen(key) },
                 there);
}

/* Publishes an input of a host node as "ID.PORT". */
static void publish_taken(lowering *w, const dg_node *node, const char *port, dg_val in,
                          dg_val fired)
{
    const char *name = dg_printf(w->arena, "%s.%s", node->id, port);

    publish_there(w, node, port, in, fired);
    if (dg_kind_of(w->b, in) == DG_KIND_TENSOR || dg_kind_of(w->b, in) == DG_KIND_RECORD)
        dg_result_as(w->b,
                     &(dg_binding){ .name = name,
                                    .kind = DG_RESULT_TAKEN,
                                    .index = node->number,
                                    .key = name + strlen(node->id) + 1 },
                     in);
}

static bool is_total(lowering *w, const dg_node *node, int i, dg_val out)
{
    return dg_kind_of(w->b, out) == DG_KIND_TENSOR &&
           strcmp(node->out_ports[i]->name, "total") == 0;
}

/* Publishes terms and total of a loss node: "loss.PORT", keys of a record as "loss.KEY". */
static void publish_loss(lowering *w, const dg_node *node, const dg_val out[])
{
    int index = w->n_losses++;
    const char *prefix = index ? node->id : "loss";

    for (int i = 0; i < node->n_out; i++) {
        dg_binding as = { .name = prefix, .kind = DG_RESULT_LOSS_TERM, .index = index };

        if (is_total(w, node, i, out[i]))
            as.kind = DG_RESULT_LOSS_TOTAL;
        if (dg_kind_of(w->b, out[i]) == DG_KIND_TENSOR)
            as.name = dg_printf(w->arena, "%s.%s", prefix, node->out_ports[i]->name);
        if (dg_kind_of(w->b, out[i]) == DG_KIND_TENSOR ||
            dg_kind_of(w->b, out[i]) == DG_KIND_RECORD)
            dg_result_as(w->b, &as, out[i]);
    }
}

/* Keeps the total of a loss inside a model, in case the scope has no other. */
static void remember_inner_total(lowering *w, const dg_node *node, const dg_val out[])
{
    for (int i = 0; i < node->n_out; i++)
        if (is_total(w, node, i, out[i]))
            w->inner_total = out[i];
}

static void publish_inner_total(lowering *w)
{
    dg_program *p = dg_build_program(w->b);
    dg_val v = w->inner_total;

    if (dg_has(v) && p->values.items[v.id].producer > -2 &&
        !dg_program_result_of(p, DG_RESULT_LOSS_TOTAL, 0))
        dg_result_as(w->b, &(dg_binding){ .name = "loss.total", .kind = DG_RESULT_LOSS_TOTAL }, v);
}

/* Publishes a node's results immediately, because later passes may fuse unread values. */
static void publish(lowering *w, const activation *act, const dg_node *node, const dg_val in[],
                    const dg_val out[])
{
    const dg_node_class *c = node->class;

    bool loss = c->role == DG_ROLE_LOSS && w->scope->kind == DG_SCOPE_TRAIN;

    if (act->use && loss)
        remember_inner_total(w, node, out);
    if (act->use)
        return;
    if (c->take || c->role == DG_ROLE_SINK || c->role == DG_ROLE_EVALUATE)
        for (int i = 0; i < node->n_in; i++)
            publish_taken(w, node, node->in_ports[i]->name, in[i], act->fired[node->index]);
    if (loss)
        publish_loss(w, node, out);
}

/* Keeps values with a monitor readable. there: the flag under which the outputs are present. */
static void keep_watched(lowering *w, const dg_node *node, dg_val fired, dg_val there,
                         const dg_val out[])
{
    const dg_monitors *m = w->g->monitors;
    int turn = m ? w->turns[node->number]++ : 0;

    for (int i = 0; m && i < m->list.n; i++) {
        const dg_monitor *x = &m->list.items[i];

        if (x->node != node || x->scope != w->scope || x->turn != turn)
            continue;
        if (x->kind == DG_MONITOR_FIRING && dg_has(fired))
            dg_result_as(w->b,
                         &(dg_binding){ .name = dg_printf(w->arena, "fires/%d", i),
                                        .kind = DG_RESULT_MONITOR_FIRING,
                                        .index = i },
                         fired);
        if (x->kind == DG_MONITOR_VALUE && dg_has(there))
            dg_result_as(w->b,
                         &(dg_binding){ .name = dg_printf(w->arena, "there/%d", i),
                                        .kind = DG_RESULT_MONITOR_THERE,
                                        .index = i },
                         there);
        if (x->kind == DG_MONITOR_VALUE && (dg_kind_of(w->b, out[x->output]) == DG_KIND_TENSOR ||
                                            dg_kind_of(w->b, out[x->output]) == DG_KIND_RECORD))
            dg_result_as(w->b,
                         &(dg_binding){ .name = dg_printf(w->arena, "watch/%d", i),
                                        .kind = DG_RESULT_MONITOR_VALUE,
                                        .index = i },
                         out[x->output]);
    }
}

/* The first poison in a value; DG_NONE if there is none. */
static dg_val poison_in(dg_build *b, dg_val v)
{
    dg_val found = DG_NONE;

    if (dg_is_poison(v))
        return v;
    for (int i = 0; dg_is_record(v) && !dg_has(found) && i < dg_record_n(b, v); i++)
        found = poison_in(b, dg_record_get(b, v, dg_record_key(b, v, i)));
    return found;
}

/* True if an input is poison: then the outputs are, without another error. */
static bool passes_poison_on(lowering *w, const dg_node *node, const dg_val in[], dg_val out[])
{
    dg_val poison = DG_NONE;

    for (int i = 0; i < node->n_in && !dg_has(poison); i++)
        poison = poison_in(w->b, in[i]);
    for (int i = 0; i < node->n_out && dg_has(poison); i++)
        out[i] = poison;
    return dg_has(poison);
}

/* A node that only the host can compute: its outputs are inputs of the program, or its own
 * inputs. */
static void lower_outside(lowering *w, const dg_node *node, const dg_val in[], dg_val out[])
{
    for (int i = 0; i < node->n_out; i++) {
        const dg_contract *c = node->out_contracts[i];

        if (c->kind == DG_TYPE_TENSOR && c->n_dims == 0 && c->ellipsis < 0)
            out[i] = feed_input(w, node, node->out_ports[i]->name, c->dtype, DG_SCALAR);
        else if (c->kind == DG_TYPE_ANY && node->n_in > 0)
            out[i] = in[0];
    }
}

/* Keeps the loss that is differentiated readable: a sum of several has no name otherwise. */
static void publish_differentiated(lowering *w, const dg_node *node, const dg_val in[])
{
    const dg_rule *r = dg_node_row(node, DG_RULE_GRADIENTS, NULL);
    int port = r ? dg_rule_input(node, r) : -1;

    if (port >= 0 && dg_kind_of(w->b, in[port]) == DG_KIND_TENSOR &&
        in[port].id != dg_program_result_of(dg_build_program(w->b), DG_RESULT_LOSS_TOTAL, 0))
        dg_result_as(w->b,
                     &(dg_binding){ .name = "loss/differentiated",
                                    .kind = DG_RESULT_DIFFERENTIATED },
                     in[port]);
}

/* True if one from number `from` on is an error. */
static bool has_error(const dg_diag *d, int from)
{
    for (int i = from; i < dg_diag_n(d); i++)
        if (dg_diag_at(d, i)->severity == DG_ERROR)
            return true;
    return false;
}

/* An error that an edit of the node mends says so. */
static void lower_class(lowering *w, const dg_node *node, const dg_val in[], dg_val out[])
{
    const int before = dg_diag_n(w->d);
    const char *edit = NULL;

    node->class->lower(w->b, node->conf, in, out);
    if (dg_diag_n(w->d) > before)
        edit = dg_edit_of(w->g, node, dg_diag_at(w->d, before)->id);
    if (edit && dg_diag_n(w->d) == before + 1)
        dg_help(w->d, "%s", edit);
}

static void run_class(lowering *w, const activation *act, const dg_node *node, const dg_val in[],
                      dg_val out[])
{
    if (node->model)
        lower_use(w, act, node, in, out);
    else if (node->class->feeds)
        lower_feeds(w, node, out);
    else if (node->class->lower)
        lower_class(w, node, in, out);
    else
        lower_outside(w, node, in, out);
}

/* Emits the node's instructions under its guards. */
static void fire(lowering *w, activation *act, const dg_node *node, const dg_val in[],
                 const dg_val fired[], dg_val out[])
{
    dg_val when = value_on(w, act, &node->when, false), now;
    const dg_val poison =
        dg_lowered_takes(&(dg_lowered){ .g = w->g, .b = w->b, .d = w->d }, node, when, in);

    for (int i = 0; i < node->n_out && dg_has(poison); i++)
        out[i] = poison;
    if (dg_has(poison))
        return;
    const int guards = dg_fire_begin(w->b, w->g, node, when, in, fired);

    now = dg_guard_now(w->b);
    publish_differentiated(w, node, in);
    dg_build_freeze(w->b, node->frozen);
    run_class(w, act, node, in, out);
    dg_build_freeze(w->b, false);
    dg_fire_end(w->b, node, guards, out);
    act->fired[node->index] = node->connect ? dg_guard_now(w->b) : now;
    keep_watched(w, node, now, act->fired[node->index], out);
    dg_fire_course(w->b, node, now);
}

static void lower_node(lowering *w, activation *act, const dg_node *node)
{
    dg_val *in = DG_NEW_N(w->arena, node->n_in, dg_val),
           *fired = DG_NEW_N(w->arena, node->n_in, dg_val),
           *out = DG_NEW_N(w->arena, node->n_out, dg_val);
    dg_origin origin = { node->where, node->number, node->recompute || act->recompute, 0 };
    int first = dg_build_program(w->b)->instrs.n, pending = dg_build_pending(w->b);

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
    if (w->absent && node->connect)
        stand_in(w, node, in);
    if (missing_input(w, node, in) || passes_poison_on(w, node, in, out))
        return;
    dg_build_enter(w->b, origin, dg_printf(w->arena, "%s.%s", act->scope->id, node->id),
                   node->reference);
    const int said = dg_diag_n(w->d);

    fire(w, act, node, in, fired, out);
    if (w->rc < 0)
        return;
    if (!node->model && has_error(w->d, said)) { /* it said what is wrong with its inputs */
        publish(w, act, node, in, out);
        return;
    }
    dg_build_enter(w->b, origin, "", "");
    w->rc = dg_lowered_keeps(&(dg_lowered){ w->g, w->b, w->d, w->bound, first, pending,
                                            w->absent != NULL },
                             node, in, out);
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

/* ---- programs -------------------------------------------------------------------------------- */

int dg_scope_listed(const dg_size **sizes, int *n, int *batch, const dg_scope *scope, dg_diag *d)
{
    dg_chain chain;
    int rc = dg_graph_chain(&chain, scope, d);

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
    int n, batch, rc = dg_scope_listed(&sizes, &n, &batch, scope, d);

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
    if (g->axis && g->mesh.tp > 1)
        dg_build_axis(b, "tp", g->mesh.tp);
    if (g->axis)
        dg_build_place(b, g->axis, g->rank / g->mesh.tp);
    if (g->axis && g->mesh.tp > 1)
        dg_build_place(b, "tp", g->rank % g->mesh.tp);
}

int dg_lower_without(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                     int batch, const dg_without *without, dg_params *params, dg_lowered_fn *watch,
                     void *ctx, dg_diag *d)
{
    lowering w = { .g = g,
                   .scope = scope,
                   .d = d,
                   .size = size,
                   .batch = batch,
                   .watch = watch,
                   .ctx = ctx,
                   .absent = without ? without->absent : NULL,
                   .zeros = without ? without->zeros : NULL };
    activation act = { .scope = scope };
    const dg_size *sizes;
    int n;

    *p = NULL;
    if (!batch)
        w.rc = dg_scope_listed(&sizes, &n, &w.batch, scope, d);
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
    publish_inner_total(&w);
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
