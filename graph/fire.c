/* fire.c: a node fires where its flag says so, on its rank, and where all that it needs is there. In
 * a program that is a guard around its instructions; what does not depend on anything has none. */
#include "graph/fire.h"

#include <string.h>

static bool has_rule(const dg_node *node, dg_rule_kind kind, const char *from)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->kind == kind && (!from || (r->from && strcmp(r->from, from) == 0)))
            return true;
    return false;
}

/* Ranks that have nothing to send take part in a broadcast and in a vote. */
static bool needs(const dg_node *node, int port)
{
    const dg_port *p = node->in_ports[port];

    return !(p->flags & DG_PORT_OPTIONAL) && !has_rule(node, DG_RULE_BROADCAST, p->name) &&
           !has_rule(node, DG_RULE_AGREE, p->name);
}

/* The guard under which an input is there; none: always. */
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
    int     n = 0;

    for (int i = 0; i < node->n_in; i++) {
        if (!dg_node_one_of(node, i) || !dg_has(in[i]))
            continue;
        flags[n] = presence(b, in[i], fired[i]);
        if (!dg_has(flags[n++]))
            return 0; /* one is there always */
    }
    return n ? begin_where(b, dg_guard_either(b, n, flags)) : 0;
}

int dg_fire_begin(dg_build *b, const dg_graph *g, const dg_node *node, dg_val when,
                  const dg_val in[], const dg_val fired[])
{
    int n = begin_where(b, when);

    if (node->on >= 0)
        n += begin_where(b, dg_const_i32(b, DG_SCALAR, (int32_t[]){ g->rank == node->on }));
    for (int i = 0; i < node->n_in; i++)
        if (needs(node, i) && dg_has(in[i])) {
            n += begin_where(b, fired[i]);
            n += begin_where(b, presence(b, in[i], DG_NONE));
        }
    return n + begin_with_any(b, node, in, fired);
}

void dg_fire_end(dg_build *b, const dg_node *node, int guards, dg_val out[])
{
    for (int i = 0; i < guards; i++)
        dg_guard_end(b, i ? 0 : node->n_out, out);
    if (guards && node->connect)
        dg_guard_connect(b, node->n_out, out);
}

void dg_fire_course(dg_build *b, const dg_node *node, dg_val fired)
{
    bool        skip = has_rule(node, DG_RULE_SKIP, NULL), stop = has_rule(node, DG_RULE_STOP, NULL);
    bool        sink = node->class->take != NULL && dg_has(fired);
    const char *what = skip ? "skip" : stop ? "stop" : "fired";

    if (!skip && !stop && !sink)
        return;
    if (!dg_has(fired))
        fired = dg_const_i32(b, DG_SCALAR, (int32_t[]){ 1 });
    dg_result(b, dg_printf(dg_build_program(b)->arena, "%s/%s", what, node->id), fired);
    if (skip)
        dg_guard_rest(b, fired);
}
