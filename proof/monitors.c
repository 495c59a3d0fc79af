/* monitors.c: makes the list of monitors. Which nodes compute what only their class knows is found
 * in the program: they have ops of their own, or draws that follow this rank's samples. What the
 * proof trusts of them comes from the proof. */
#include "graph/lower.h"
#include "proof/vary.h"
#include "tensor/build.h"
#include "tensor/ops.h"

typedef struct watcher {
    bool *opaque;
    int n; /* instructions seen so far */
} watcher;

static bool is_built_in(const dg_op *op)
{
    const uintptr_t at = (uintptr_t)op, first = (uintptr_t)dg_ops;

    return at >= first && at < first + sizeof dg_ops && op != DG_OP(uniform);
}

static void note_opaque(void *ctx, dg_build *b, const dg_node *node, const dg_val in[],
                        const dg_val out[])
{
    watcher *w = ctx;
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
    watcher w = { .opaque = opaque };
    dg_program *p;
    dg_size size;
    int rc = dg_scope_size(&size, scope, d);

    if (rc == 0)
        rc = dg_lower(&p, g, scope, size, 0, params, note_opaque, &w, d);
    if (rc == 0)
        dg_program_close(&p);
    return rc;
}

int dg_monitors_make(dg_monitors **out, const dg_graph *g, dg_arena *a, dg_diag *d)
{
    dg_params *params = dg_params_open();
    bool *opaque = DG_NEW_N(a, g->n_nodes + 1, bool);
    bool joint = g->axis && (g->ranks > 1 || g->mesh.tp > 1);
    int rc = 0;

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
