/* second_say.c: messages of the second look: the instruction, and the way back from it to what a
 * rank has for itself. */
#include "base/str.h"
#include "proof/second_internal.h"
#include "tensor/ops.h"

const char *dg_second_axes_text(const dg_look *l, uint32_t axes)
{
    dg_str s = { 0 };
    const char *text;

    for (int i = 0; i < l->h->n_axes; i++)
        if (axes >> i & 1)
            dg_str_fmt(&s, "%s%s (%lld ranks)", s.n ? " and " : "", l->h->axis[i],
                       (long long)l->h->ranks[i]);
    text = dg_strdup(l->a, s.s ? s.s : "no axis");
    dg_str_free(&s);
    return text;
}

void dg_second_say_cause(const dg_look *l, const dg_second_cause *c, dg_where at, const char *what)
{
    if (c->node)
        dg_note(l->d, c->node->where, "%s: %s %s", what, dg_node_called(l->a, c->node), c->why);
    else
        dg_note(l->d, at, "%s", what);
}

int32_t dg_second_culprit(const dg_look *l, const dg_instr *in, uint32_t axes)
{
    if (in->guard && dg_second_read(l, in->guard) & axes)
        return in->guard;
    for (int k = 0; k < in->n_in; k++)
        if (dg_second_read(l, in->v[k]) & axes)
            return in->v[k];
    return 0;
}

static void say_given(const dg_look *l, int32_t v, uint32_t axes)
{
    const dg_value *x = &l->p->values.items[v];
    const dg_binding *input = dg_second_input(l, v);
    const char *over = dg_second_axes_text(l, axes);

    if (input)
        dg_second_say_cause(l, &dg_second_node_at(l, input->index)->fed, DG_NOWHERE,
                            dg_printf(l->a, "%%%d is the input %s, which differs over %s", (int)v,
                                      input->name, over));
    else if (x->own)
        dg_note(l->d, DG_NOWHERE, "%%%d is a number of this rank alone (on)", (int)v);
}

/* The instruction's operands do not differ, and its result does. */
static void say_own(const dg_look *l, const dg_instr *in)
{
    const dg_second_node *n = dg_second_node_at(l, in->origin.node);

    dg_second_say_cause(l, n->own.axes ? &n->own : &n->inexact, in->origin.where,
                        "it differs by itself");
}

/* Notes the way from v back to what a rank has for itself: one note per node. */
void dg_second_say_path(const dg_look *l, int32_t v, uint32_t axes)
{
    enum { MOST = 5 };
    int last = -1, said = 0;

    for (int steps = 0; v && said < MOST && steps < 10000; steps++) {
        const dg_value *x = &l->p->values.items[v];
        int i = x->space == DG_GRADIENTS && x->param >= 0 && x->producer < 0 ? l->writer[x->param]
                                                                             : x->producer;
        const dg_instr *in = i >= 0 ? &l->p->instrs.items[i] : NULL;

        if (x->space == DG_GRADIENTS && x->param < 0) { /* the whole space */
            for (int k = 0; k < dg_params_n(l->p->params) && !in; k++)
                if (l->gradient[k] & axes)
                    in = &l->p->instrs.items[i = l->writer[k]];
        }
        if (!in) {
            say_given(l, v, axes);
            return;
        }
        if (in->origin.node != last && ++said)
            dg_note(l->d, in->origin.where, "%%%d differs over %s: instruction %d, %s", (int)v,
                    dg_second_axes_text(l, axes), i, in->op->name);
        last = in->origin.node;
        v = dg_second_culprit(l, in, axes);
        if (!v && in->op == DG_OP(uniform))
            dg_second_say_cause(l, &l->h->sample, in->origin.where,
                                "draws follow the numbers of the samples");
        else if (!v)
            say_own(l, in);
    }
}

bool dg_second_disagree(dg_look *l, const dg_instr *in, const char *fmt, ...)
{
    const char *node = in->origin.where.node;
    char *text;
    va_list ap;

    if (l->rc < 0)
        return false;
    va_start(ap, fmt);
    text = dg_vprintf(l->a, fmt, ap);
    va_end(ap);
    l->rc = dg_fail(l->d, DG_EINTERNAL, in->origin.where, "proof-disagrees",
                    "the graph was proved, but not its program: instruction %d of it, %s of "
                    "\"%s\", %s",
                    (int)(in - l->p->instrs.items), in->op->name, node ? node : "?", text);
    return true;
}

void dg_second_help(const dg_look *l, uint32_t axes)
{
    const char *axis = "dp";

    for (int i = DG_SECOND_AXES - 1; i >= 0; i--)
        if (i < l->h->n_axes && axes & UINT32_C(1) << i)
            axis = l->h->axis[i];
    dg_help(l->d,
            "let all ranks decide alike: <agree op=\"any\" axis=\"%s\"/> or <broadcast "
            "axis=\"%s\"/> of what differs; and report this pipeline: either the proof is wrong or "
            "a plugin's rows are",
            axis, axis);
}

void dg_second_disagree_about(dg_look *l, const dg_instr *in, int32_t v, uint32_t axes,
                              const char *what)
{
    if (!dg_second_disagree(l, in, "%s over %s", what, dg_second_axes_text(l, axes)))
        return;
    dg_second_say_path(l, v, axes);
    dg_second_help(l, axes);
}
