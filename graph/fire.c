/* fire.c: a node fires if its `when` flag holds, on its rank, and if all required inputs are
 * present. In a program that is a guard around its instructions; unconditional nodes have none. */
#include "graph/fire.h"

#include <string.h>

#include "graph/rule.h"

static bool has_rule(dg_build *b, const dg_node *node, dg_rule_kind kind, const char *from)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->kind == kind && (!from || (r->from && strcmp(r->from, from) == 0)) &&
            dg_rule_holds(node, dg_training(b), r))
            return true;
    return false;
}

/* False for inputs of broadcasts and votes: ranks without a value still take part. */
static bool needs(dg_build *b, const dg_node *node, int port)
{
    const dg_port *p = node->in_ports[port];

    return !(p->flags & DG_PORT_OPTIONAL) && !has_rule(b, node, DG_RULE_BROADCAST, p->name) &&
           !has_rule(b, node, DG_RULE_AGREE, p->name);
}

/* The guard under which an input is present; DG_NONE: always. */
static dg_val presence(dg_build *b, dg_val in, dg_val fired)
{
    dg_val own = dg_kind_of(b, in) == DG_KIND_TENSOR ? dg_present(b, in) : DG_NONE;

    return dg_has(own) ? own : fired;
}

static int begin_where(dg_build *b, dg_val flag)
{
    if (!dg_has(flag) || dg_is_poison(flag))
        return 0;
    dg_guard_begin(b, flag);
    return 1;
}

static int begin_with_any(dg_build *b, const dg_node *node, const dg_val in[], const dg_val fired[])
{
    dg_val *flags = DG_NEW_N(dg_build_program(b)->arena, node->n_in, dg_val);
    int n = 0;

    for (int i = 0; i < node->n_in; i++) {
        if (!dg_node_one_of(node, i) || !dg_has(in[i]))
            continue;
        flags[n] = presence(b, in[i], fired[i]);
        if (!dg_has(flags[n++]))
            return 0; /* one of them is always present */
    }
    return n ? begin_where(b, dg_guard_either(b, n, flags)) : 0;
}

int dg_fire_begin(dg_build *b, const dg_graph *g, const dg_node *node, dg_val when,
                  const dg_val in[], const dg_val fired[])
{
    int n = begin_where(b, when);

    if (node->on >= 0)
        n += begin_where(b, dg_own_flag(b, 0, g->rank == node->on));
    for (int i = 0; i < node->n_in; i++)
        if (needs(b, node, i) && dg_has(in[i])) {
            n += begin_where(b, fired[i]);
            n += begin_where(b, presence(b, in[i], DG_NONE));
        }
    return n + begin_with_any(b, node, in, fired);
}

void dg_fire_end(dg_build *b, const dg_node *node, int guards, dg_val out[])
{
    for (int i = 0; i < guards; i++)
        dg_guard_end(b, i ? 0 : node->n_out, out);
    if (node->connect && (guards || has_rule(b, node, DG_RULE_PRESENCE, NULL)))
        dg_guard_connect(b, node->n_out, out);
}

void dg_fire_course(dg_build *b, const dg_node *node, dg_val fired)
{
    bool skip = has_rule(b, node, DG_RULE_SKIP, NULL), stop = has_rule(b, node, DG_RULE_STOP, NULL);
    bool sink = node->class->take != NULL && dg_has(fired);
    const char *what = skip ? "skip" : stop ? "stop" : "fired", *name;

    if (!skip && !stop && !sink)
        return;
    if (!dg_has(fired))
        fired = dg_const_i32(b, DG_SCALAR, (int32_t[]){ 1 });
    name = dg_printf(dg_build_program(b)->arena, "%s/%s", what, node->id);
    dg_result_as(b,
                 &(dg_binding){ .name = name,
                                .kind = skip   ? DG_RESULT_SKIP
                                        : stop ? DG_RESULT_STOP
                                               : DG_RESULT_FIRED,
                                .index = node->number,
                                .key = name + strlen(what) + 1 },
                 fired);
    if (skip)
        dg_guard_rest(b, fired);
}
