/* prove.c: proves a whole graph: evaluations, then the training loop, whose length may depend on
 * their results; for the actual number of ranks, and for two. */
#include <string.h>

#include "proof/vary.h"

static dg_where where_of(const dg_item *item, const char *attr, dg_where otherwise)
{
    const dg_item_attr *a = item ? dg_item_find(item, attr) : NULL;

    return a ? a->value_at : otherwise;
}

/* What keeps a whole evaluation from running on every rank alike. */
static dg_vary scope_fires(dg_proof *p, const dg_scope *s)
{
    dg_vary v = { 0 };

    if (s->kind != DG_SCOPE_EVALUATE)
        return v;
    if (s->on >= 0)
        v = dg_vary_source(p, p->live, NULL, where_of(s->item, "on", s->where), false,
                           dg_printf(p->arena, "scope %s", s->id),
                           "<evaluate> takes place on rank %lld only", (long long)s->on);
    return v;
}

/* Reports differing image sizes: the slowest rank sets the pace. */
static void check_skew(dg_proof *p)
{
    uint32_t axes = 0;

    for (int i = 0; i < p->meetings.n; i++)
        axes |= p->meetings.items[i].axes;
    dg_vary v = dg_vary_only(p->skew, axes);

    if (!p->skewed || !v.axes)
        return;
    dg_vary_warn(p, "DG-W-SKEW", p->skewed->where, v, dg_vary_advice(p, v, NULL),
                 "%s has other image sizes on other ranks of %s at the same step: all wait for the "
                 "slowest",
                 dg_vary_called(p, p->skewed), dg_vary_name(p, v.axes));
}

/* Reports nodes that compute on one rank while others wait at the next collective. */
static void check_alone(dg_proof *p)
{
    for (int i = 0; i < p->scope->n_nodes && p->clock->shared && p->live; i++) {
        const dg_node *node = p->scope->nodes[i];

        if (node->on >= 0 && node->class->role != DG_ROLE_CONTROL &&
            (node->class->lower || node->model))
            dg_vary_warn(p, "DG-W-SKEW", where_of(node->item, "on", node->where),
                         (dg_vary){ .axes = p->live }, dg_edit_drop(p->g, node, "on"),
                         "%s runs on rank %lld alone, and the others wait for it at their next "
                         "collective",
                         dg_vary_called(p, node), (long long)node->on);
    }
}

static void begin_scope(dg_proof *p, const dg_scope *s)
{
    p->scope = s;
    p->train = s->kind == DG_SCOPE_TRAIN;
    p->clock = DG_NEW(p->arena, dg_clocked);
    p->clock->timed = s->steps > 0;
    p->meetings.n = p->agreements.n = p->flags.n = p->n_values = 0;
    p->skewed = p->keeper = NULL;
    p->skew.axes = 0;
    p->filled = DG_NEW_N(p->arena, p->g->n_nodes + 1, char);
    if (p->monitors)
        p->turns = DG_NEW_N(p->arena, p->g->n_nodes + 1, int);
}

/* Adds the end of <train> by `patience`. If one rank evaluates, all follow its scores; time is rank
 * 0's. */
static void add_patience(dg_proof *p)
{
    const dg_scope *s = p->scope;
    dg_where at = where_of(s->item, "patience", s->where);
    dg_vary v = { 0 };

    if (s->kind != DG_SCOPE_TRAIN || s->patience.unit == DG_NEVER || !p->g->checkpoint.best ||
        p->g->checkpoint.best->scope->on >= 0)
        return;
    v = dg_vary_step(p, p->metric, NULL, at, "patience",
                     "patience=\"...\" ends the loop by a number that each rank has for itself");
    p->clock->rate = dg_vary_join(p->clock->rate, v);
    p->clock->ends = dg_vary_join(p->clock->ends, v);
}

/* A number about all items depends on the number of rounds. */
static void score(dg_proof *p)
{
    if (p->scored)
        p->metric = dg_vary_join(p->metric, dg_vary_minus(p->scored->rate, p->joined));
    p->scored = NULL;
}

/* Records an evaluation with collectives: it must run for as long as training does. */
static void remember_meeting(dg_proof *p)
{
    dg_visited v = { .scope = p->scope };

    for (int i = 0; i < p->meetings.n + p->agreements.n; i++) {
        const dg_vary_meeting *m =
            i < p->meetings.n ? &p->meetings.items[i] : &p->agreements.items[i - p->meetings.n];

        v.node = v.node ? v.node : m->node;
        v.axes |= m->axes;
    }
    if (v.node)
        DG_PUSH(p->arena, p->visited, v);
}

static void check_visited(dg_proof *p)
{
    uint32_t said = 0;

    for (int i = 0; i < p->meetings.n; i++)
        said |= p->meetings.items[i].axes;
    for (int i = 0; i < p->visited.n; i++) {
        const dg_visited *v = &p->visited.items[i];
        dg_unit unit = v->scope->every.unit;
        bool counted = p->clock->timed || p->clock->stops || unit == DG_STEPS || unit == DG_MINUTES;

        dg_vary_rate(p, v->node,
                     counted ? dg_vary_join(p->clock->rate, p->clock->rounds) : p->clock->ends,
                     v->axes & ~said);
    }
}

/* Reports a training whose ranks take unequally many steps, if nothing from `before` on is an
 * error: a run's ranks end each step together, even if nothing in it meets and it keeps no state.
 */
static void check_steps(dg_proof *p, int before)
{
    dg_vary v = dg_vary_only(p->clock->rate, p->live);

    for (int i = before; i < p->faults.n; i++)
        if (!p->faults.items[i].warning)
            return;
    if (v.axes)
        dg_vary_fault(p, "DG-RATE", p->scope->where, v,
                      "<train> may take more steps on some ranks of %s than on others, and a run's "
                      "ranks take each step together",
                      dg_vary_name(p, v.axes))
            ->help = dg_vary_advice(p, v, NULL);
}

static void prove_scope(dg_proof *p, const dg_scope *s)
{
    int before = p->faults.n, listed = p->monitors ? p->monitors->list.n : 0;
    dg_vary fires;

    begin_scope(p, s);
    p->lowered = p->wants_sizes = false;
    p->roots.n = p->together.n = p->facts.n = p->lost.n = 0;
    fires = scope_fires(p, s);
    dg_vary_walk(p, fires);
    if (p->roots.n || p->wants_sizes) {
        dg_vary_lower(p);
        if (p->lowered) {
            p->faults.n = before;
            if (p->monitors)
                p->monitors->list.n = listed;
            begin_scope(p, s);
            dg_vary_walk(p, fires);
            dg_vary_gradients(p);
        }
    }
    add_patience(p);
    dg_vary_clocks(p);
    dg_vary_trusted(p);
    check_skew(p);
    check_alone(p);
    if (s->kind != DG_SCOPE_TRAIN) {
        score(p);
        remember_meeting(p);
        return;
    }
    check_visited(p);
    dg_vary_severed(p);
    check_steps(p, before);
    p->shared = p->clock->shared;
}

static void check_waiting(dg_proof *p)
{
    for (int i = 0; i < p->g->n_evaluates && p->shared && p->live; i++) {
        const dg_scope *s = p->g->evaluates[i];

        if (s->on >= 0)
            dg_vary_warn(p, "DG-W-SKEW", where_of(s->item, "on", s->where),
                         (dg_vary){ .axes = p->live }, dg_edit_drop_part(p->g, s->item, "on"),
                         "<evaluate> takes place on rank %lld alone, and the others wait for it at "
                         "their next step",
                         (long long)s->on);
    }
}

/* Nodes with trainable parameters, by the paths that their parameters name. */
static void find_trained(dg_proof *p)
{
    dg_map *by_path = dg_map_new(p->arena);

    p->trained = DG_NEW_N(p->arena, p->g->n_nodes + 1, bool);
    for (int i = 0; i < p->g->n_models + 1; i++) {
        const dg_scope *s = i < p->g->n_models ? p->g->models[i] : p->g->train;

        for (int k = 0; s && k < s->n_nodes; k++)
            dg_map_set(by_path, s->nodes[k]->path, s->nodes[k]);
    }
    for (int i = 0; i < dg_params_n(p->params); i++) {
        const dg_param_info *info = dg_params_at(p->params, i);
        const dg_node *node = info->where.node ? dg_map_get(by_path, info->where.node) : NULL;

        if (node && info->kind == DG_TRAINABLE)
            p->trained[node->number] = true;
    }
}

static dg_proof begin_proof(const dg_graph *g, dg_params *params, dg_arena *arena, int64_t dp)
{
    dg_graph *of_dp = DG_NEW(arena, dg_graph); /* the graph as so many ranks have it */
    dg_proof p = {
        .g = of_dp, .arena = arena, .params = params, .roots_by_key = dg_map_new(arena)
    };

    *of_dp = *g;
    of_dp->ranks = dp;

    if (g->axis) {
        p.axes[p.n_axes++] = (dg_vary_axis){ g->axis, dp };
        if (g->mesh.tp > 1)
            p.axes[p.n_axes++] = (dg_vary_axis){ "tp", g->mesh.tp };
    }
    for (int i = 0; i < p.n_axes; i++)
        p.live |= p.axes[i].size > 1 ? 1u << i : 0;
    DG_PUSH(arena, p.causes, ((dg_cause){ .text = "" }));
    find_trained(&p);
    return p;
}

static void prove_scopes(dg_proof *p)
{
    for (int i = 0; i < p->g->n_evaluates; i++)
        prove_scope(p, p->g->evaluates[i]);
    dg_vary_best(p);
    if (p->g->train)
        prove_scope(p, p->g->train);
    check_waiting(p);
}

static int prove(const dg_graph *g, dg_params *params, dg_vary_marks *marks, dg_arena *arena,
                 int64_t dp, bool two, dg_diag *d)
{
    dg_proof p = begin_proof(g, params, arena, dp);

    p.marks = marks;
    prove_scopes(&p);
    return dg_vary_report(&p, two, d);
}

void dg_vary_monitors(dg_monitors *m, const bool *opaque, const dg_graph *g, dg_params *params,
                      dg_arena *arena)
{
    dg_proof p = begin_proof(g, params, arena, g->ranks);

    p.monitors = m;
    p.opaque = opaque;
    prove_scopes(&p);
}

/* The attribute of a node that names axes, or NULL. */
static const dg_item_attr *axes_attr(const dg_node *node)
{
    const char *name = NULL;

    for (const dg_rule *r = node->class->rules; r && r->kind && !name; r++)
        name = r->axis && *r->axis != '=' ? r->axis : NULL;
    for (const dg_collective *c = node->class->collectives; c && c->kind && !name; c++)
        name = c->axis;
    return name ? dg_item_find(node->item, name) : dg_node_axes_given(node);
}

/* Those of the text that there are, each once; else "dp". */
static const char *sound_axes(const dg_proof *p, dg_arena *arena, const char *text)
{
    bool tp = strstr(text, p->axes[1].name), dp = strstr(text, p->axes[0].name) || !tp;

    return dg_printf(arena, "%s%s%s", dp ? "dp" : "", dp && tp ? "+" : "", tp ? "tp" : "");
}

/* Checks that axes are "dp", "tp" or both joined by a plus. */
static int check_axes(const dg_graph *g, const dg_node *node, dg_arena *arena, dg_diag *d)
{
    dg_proof p = { .axes = { { "dp", 0 }, { "tp", 0 } }, .n_axes = 2 };
    const dg_item_attr *a = axes_attr(node);
    uint32_t seen = 0;

    for (const char *text = a ? a->value : NULL, *next; text; text = next) {
        const char *name = dg_strndup(arena, text, strcspn(text, "+"));
        uint32_t axis = dg_vary_axes_of(&p, name);

        next = strchr(text, '+');
        next = next ? next + 1 : NULL;
        if (axis && !(axis & seen)) {
            seen |= axis;
            continue;
        }
        if (axis)
            dg_fail(d, DG_EINPUT, a->value_at, "axis-twice", "%s=\"%s\" names \"%s\" twice",
                    a->name, a->value, name);
        else
            dg_fail(d, DG_EINPUT, a->value_at, "axis-unknown",
                    "%s=\"%s\": there is no axis \"%s\"%s", a->name, a->value, name,
                    strcmp(name, "pp") == 0 ? " yet: it is planned" : "");
        dg_help(d, "the axes of a mesh are dp and tp; \"dp+tp\" are both: %s",
                dg_edit_write(g, node, a->name, sound_axes(&p, arena, a->value)));
        return -DG_EINPUT;
    }
    return 0;
}

/* Reports `on` for a rank outside the mesh. A single rank may run what is meant for several, and
 * with dp="ranks" the number of ranks is the starter's choice. */
static int check_on(const dg_graph *g, const dg_node *node, const dg_item *item, int64_t on,
                    dg_diag *d)
{
    int64_t ranks = g->ranks * g->mesh.tp;
    int rc;

    if (!g->mesh.item || g->ranks_open || ranks == 1 || on < ranks)
        return 0;
    rc = dg_fail(d, DG_EINPUT, where_of(item, "on", DG_NOWHERE), "on-rank",
                 "on=\"%lld\": there is no such rank: the mesh has %lld, counted from 0",
                 (long long)on, (long long)ranks);
    dg_help(d, "%s",
            node ? dg_edit_write(g, node, "on", "0") : dg_edit_write_part(g, item, "on", "0"));
    return rc;
}

static int check_places(const dg_graph *g, const dg_scope *s, dg_arena *arena, dg_diag *d)
{
    int rc = check_on(g, NULL, s->item, s->on, d), own;

    for (int i = 0; i < s->n_nodes; i++) {
        own = check_axes(g, s->nodes[i], arena, d);
        rc = rc ? rc : own;
        own = check_on(g, s->nodes[i], s->nodes[i]->item, s->nodes[i]->on, d);
        rc = rc ? rc : own;
    }
    return rc;
}

int dg_vary_check(const dg_graph *g, dg_params *params, dg_vary_marks *marks, dg_arena *arena,
                  dg_diag *d)
{
    int rc = 0, own;

    for (int i = 0; i < dg_graph_n_scopes(g); i++) {
        own = check_places(g, dg_graph_scope(g, i), arena, d);
        rc = rc ? rc : own;
    }
    if (rc || !g->mesh.item)
        return rc;
    rc = prove(g, params, marks, arena, g->ranks, false, d);
    if (g->ranks == 1) {
        own = prove(g, params, marks, arena, 2, true, d);
        rc = rc ? rc : own;
    }
    return rc;
}
