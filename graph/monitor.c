/* monitor.c: the list of monitors. Which nodes compute what only their class knows is asked of the
 * program: it has their ops, which are not built in, or their draws, which follow this rank's
 * samples. What is trusted of them is asked of the proof. */
#include "graph/monitor.h"

#include <string.h>

#include "graph/lower.h"
#include "graph/vary.h"
#include "tensor/build.h"
#include "tensor/ops.h"

static const struct {
    const char *attribute, *declares, *how;
    bool        joint;
} kinds[DG_N_MONITORS] = {
    [DG_MONITOR_DATA] = { "data", "declared the same on all ranks", "digests, at the start", false },
    [DG_MONITOR_COUNT] = { "count", "declared equal on all ranks", "digests, with each batch", true },
    [DG_MONITOR_SIZE] = { "size", "declared one for all ranks at a step",
                          "digests, with each batch", true },
    [DG_MONITOR_VALUE] = { "value", "declared the same on all ranks", "digests, within the batch", true },
    [DG_MONITOR_FIRING] = { "firing", "proved to be on all ranks or on none", "digests, within the batch", true },
    [DG_MONITOR_LISTED] = { "sizes", "declared those that it lists", "each rank, each epoch", false },
    [DG_MONITOR_DROPS] = { "drops", "declared drops=\"no\"", "each rank, each sample", false },
    [DG_MONITOR_PRESENT] = { "presence", "declared always there", "each rank, each batch", false },
    [DG_MONITOR_SHAPE] = { "shape", "declared ", "each rank, each batch", false },
};

/* --- what only a class knows ------------------------------------------------------------------ */

typedef struct watcher {
    bool *opaque;
    int   n; /* instructions seen */
} watcher;

static bool is_built_in(const dg_op *op)
{
    const uintptr_t at = (uintptr_t)op, first = (uintptr_t)dg_ops;

    return at >= first && at < first + sizeof dg_ops && op != DG_OP(uniform);
}

static void watch(void *ctx, dg_build *b, const dg_node *node, const dg_val in[],
                  const dg_val out[])
{
    watcher          *w = ctx;
    const dg_program *p = dg_build_program(b);

    (void)in, (void)out;
    for (; w->n < p->instrs.n; w->n++) {
        const dg_instr *i = &p->instrs.items[w->n];

        if (i->origin.node == node->number && i->phase != DG_GRADIENT)
            w->opaque[node->number] |= !is_built_in(i->op);
    }
}

static int find_opaque(bool *opaque, const dg_graph *g, const dg_scope *scope, dg_params *params,
                       dg_diag *d)
{
    watcher     w = { .opaque = opaque };
    dg_program *p;
    dg_size     size;
    int         rc = dg_scope_size(&size, scope, d);

    if (rc == 0)
        rc = dg_lower(&p, g, scope, size, 0, params, watch, &w, d);
    if (rc == 0)
        dg_program_close(&p);
    return rc;
}

int dg_monitors_make(dg_monitors **out, const dg_graph *g, dg_arena *a, dg_diag *d)
{
    dg_params *params = dg_params_open();
    bool      *opaque = DG_NEW_N(a, g->n_nodes + 1, bool);
    bool       joint = g->axis && (g->ranks > 1 || g->mesh.tp > 1);
    int        rc = 0;

    *out = DG_NEW(a, dg_monitors);
    if (joint && g->train)
        rc = find_opaque(opaque, g, g->train, params, d);
    for (int i = 0; i < g->n_evaluates && joint && rc == 0; i++)
        rc = find_opaque(opaque, g, g->evaluates[i], params, d);
    if (rc == 0)
        dg_vary_monitors(*out, opaque, g, params, a);
    dg_params_close(&params);
    return rc;
}

/* --- one monitor ------------------------------------------------------------------------------- */

int dg_monitors_find(const dg_monitors *m, dg_monitor_kind kind, const dg_scope *scope,
                     const dg_node *node)
{
    for (int i = 0; i < m->list.n; i++)
        if (m->list.items[i].kind == kind && m->list.items[i].scope == scope &&
            m->list.items[i].node == node)
            return i;
    return -1;
}

bool dg_monitor_is_joint(const dg_monitor *m)
{
    return kinds[m->kind].joint;
}

const char *dg_monitor_attribute(const dg_monitor *m)
{
    return kinds[m->kind].attribute;
}

const char *dg_monitor_how(const dg_monitor *m)
{
    return kinds[m->kind].how;
}

const char *dg_monitor_port(const dg_monitor *m)
{
    return m->output < 0 ? "" : m->node->out_ports[m->output]->name;
}

void dg_monitor_declares(dg_str *out, const dg_monitor *m)
{
    dg_str_add(out, kinds[m->kind].declares);
    if (m->kind == DG_MONITOR_SHAPE)
        dg_str_add(out, m->node->out_types[m->output]);
    if (m->axes)
        dg_str_fmt(out, " of %s", m->axes);
}

/* --- the list ----------------------------------------------------------------------------------- */

static void print_one(dg_str *out, const dg_monitor *m)
{
    const dg_where *at = &m->node->where;
    const char     *port = dg_monitor_port(m);

    dg_str_fmt(out, "%s:%d:%d: %s%s%s: %s: ", at->file, at->line, at->column, m->node->path,
               *port ? "." : "", port, dg_monitor_attribute(m));
    dg_monitor_declares(out, m);
    dg_str_fmt(out, " (%s)\n", dg_monitor_how(m));
}

void dg_monitors_print(dg_str *out, const dg_monitors *m)
{
    for (int i = 0; i < m->list.n; i++)
        print_one(out, &m->list.items[i]);
}

static void json_text(dg_str *out, const char *key, const char *value)
{
    dg_str_fmt(out, "\"%s\":", key);
    dg_str_json(out, value);
    dg_str_add(out, ",");
}

void dg_monitors_json(dg_str *out, const dg_monitors *m)
{
    dg_str_add(out, "[");
    for (int i = 0; i < m->list.n; i++) {
        const dg_monitor *x = &m->list.items[i];
        dg_str            declares = { 0 };

        dg_monitor_declares(&declares, x);
        dg_str_fmt(out, "%s\n  {\"monitor\":%d,", i ? "," : "", i);
        json_text(out, "scope", x->scope->id);
        json_text(out, "node", x->node->path);
        json_text(out, "class", x->node->class->name);
        json_text(out, "port", dg_monitor_port(x));
        json_text(out, "attribute", dg_monitor_attribute(x));
        json_text(out, "contract", declares.s);
        json_text(out, "watched", dg_monitor_how(x));
        json_text(out, "file", x->node->where.file);
        dg_str_fmt(out, "\"line\":%d,\"column\":%d}", x->node->where.line, x->node->where.column);
        dg_str_free(&declares);
    }
    dg_str_fmt(out, "%s]\n", m->list.n ? "\n" : "");
}
