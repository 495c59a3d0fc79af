/* keeps.c: see keeps.h. */
#include "graph/keeps.h"

#include <stdio.h>
#include <string.h>

#include "graph/vary_self.h"
#include "tensor/build.h"

/* --- types ----------------------------------------------------------------------------------- */

static int differs(const dg_lowered *l, const dg_node *node, const dg_port *port, const char *key,
                   const dg_contract *c, dg_val v)
{
    char        shape[96];
    dg_str      type = { 0 };
    const char *found = dg_is_record(v) ? "a record" : dg_build_program(l->b)->values.items[v.id].dtype == DG_I32 ? "i" : "f";

    dg_contract_print(&type, &l->g->dims, c);
    dg_fail(l->d, DG_EINPUT, node->where, "contract-shape",
            "<%s> declares \"%s%s%s\" as %s, but here it is %s%s", node->element, port->name,
            *key ? "." : "", key, type.s, found,
            dg_is_record(v) ? "" : dg_shape_print(dg_shape_of(l->b, v), shape, sizeof shape));
    for (int i = 0; i < node->n_in; i++)
        if (node->in_ports[i] == port && node->in[i].from)
            dg_note(l->d, node->in[i].from->where, "it comes from \"%s\"", node->in[i].from->id);
    dg_str_free(&type);
    return -DG_EINPUT;
}

static int compare(const dg_lowered *l, const dg_node *node, const dg_port *port, const char *key,
                   const dg_contract *c, dg_val v)
{
    int rc = 0, own;

    if (!dg_has(v) || dg_is_poison(v) || c->kind == DG_TYPE_ANY || !dg_contract_flows(c))
        return 0;
    if (c->kind == DG_TYPE_RECORD && dg_is_record(v)) {
        for (int i = 0; i < c->n_fields; i++) {
            const dg_field_type *f = &c->fields[i];

            if (f->wildcard || !dg_record_has(l->b, v, f->key))
                continue;
            own = compare(l, node, port, f->key, f->type, dg_record_get(l->b, v, f->key));
            rc = rc ? rc : own;
        }
        return rc;
    }
    if (c->kind == DG_TYPE_TENSOR && dg_kind_of(l->b, v) == DG_KIND_TENSOR &&
        dg_contract_holds(&l->g->dims, c, dg_build_program(l->b)->values.items[v.id].dtype,
                          dg_shape_of(l->b, v), l->bound))
        return 0;
    if ((c->kind == DG_TYPE_GRADIENTS && dg_kind_of(l->b, v) == DG_KIND_GRADIENTS) ||
        (c->kind == DG_TYPE_PARAMETERS && dg_kind_of(l->b, v) == DG_KIND_PARAMETERS))
        return 0;
    return differs(l, node, port, key, c, v);
}

static int compare_ports(const dg_lowered *l, const dg_node *node, const dg_val in[],
                         const dg_val out[])
{
    int rc = 0, own;

    for (int i = 0; i < node->n_in; i++) {
        own = compare(l, node, node->in_ports[i], "", node->in_types[i], in[i]);
        rc = rc ? rc : own;
    }
    for (int i = 0; i < node->n_out && !node->model; i++) { /* a model's output was compared at its
                                                               own node */
        own = compare(l, node, node->out_ports[i], "", node->out_contracts[i], out[i]);
        rc = rc ? rc : own;
    }
    for (int i = 0; i < node->n_in; i++)
        dg_contract_unbind(&l->g->dims, node->in_types[i], l->bound);
    for (int i = 0; i < node->n_out; i++)
        dg_contract_unbind(&l->g->dims, node->out_contracts[i], l->bound);
    return rc;
}

/* --- keys -------------------------------------------------------------------------------------- */

static bool is_declared(const dg_contract *c, const char *key)
{
    for (int i = 0; i < c->n_fields; i++) {
        const dg_field_type *f = &c->fields[i];

        if (f->wildcard ? strncmp(f->key, key, strlen(f->key)) == 0 : strcmp(f->key, key) == 0)
            return true;
    }
    return false;
}

static int wrong_key(const dg_lowered *l, const dg_node *node, int port, const char *key,
                     const char *what)
{
    dg_fail(l->d, DG_EINPUT, node->where, "contract-keys",
            "<%s> declares \"%s\" as %s, and %s key \"%s\"", node->element,
            node->out_ports[port]->name, node->out_types[port], what, key);
    dg_help(l->d, "the keys of a record are closed: a key that may be missing is declared \"%s?\"",
            key);
    return -DG_EINPUT;
}

/* The set of a record's keys is closed: what is reduced key by key hangs on it. */
static int check_keys(const dg_lowered *l, const dg_node *node, int port, dg_val v)
{
    const dg_contract *c = node->out_contracts[port];

    if (c->kind != DG_TYPE_RECORD || !dg_is_record(v) || l->without)
        return 0;
    for (int i = 0; i < c->n_fields; i++)
        if (!c->fields[i].wildcard && !c->fields[i].optional &&
            !dg_record_has(l->b, v, c->fields[i].key))
            return wrong_key(l, node, port, c->fields[i].key, "gives no");
    for (int i = 0; i < dg_record_n(l->b, v); i++)
        if (!is_declared(c, dg_record_key(l->b, v, i)))
            return wrong_key(l, node, port, dg_record_key(l->b, v, i), "gives a");
    return 0;
}

/* --- what the proof knows by rows --------------------------------------------------------------- */

/* Gradients and state ask all ranks whether the loss is finite: those rows say, too, that all must
 * be there. */
static bool speaks_of_exchange(const dg_rule *r)
{
    return dg_rule_is_collective(r) || r->kind == DG_RULE_METRIC || r->kind == DG_RULE_GRADIENTS ||
           r->kind == DG_RULE_STATE;
}

static bool has_row(const dg_node *node, bool train, bool collective)
{
    const dg_proof p = { .train = train };

    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if ((collective ? speaks_of_exchange(r) : r->kind == DG_RULE_STATE) &&
            dg_rule_holds(&p, node, r))
            return true;
    for (const dg_collective *c = node->class->collectives; collective && c && c->kind; c++)
        if (c->axis)
            return true;
    return false;
}

static int undeclared(const dg_lowered *l, const dg_node *node, const char *what, const char *row)
{
    dg_fail(l->d, DG_EINPUT, node->where, "contract-undeclared",
            "<%s> %s, and no row of its class says so here: the proof would not know of it",
            node->element, what);
    dg_help(l->d, "a row %s in the rules of the class", row);
    return -DG_EINPUT;
}

static int check_rows(const dg_lowered *l, const dg_node *node)
{
    const dg_program *p = dg_build_program(l->b);
    char              what[96];

    if (node->model || !l->g->axis) /* without a mesh nothing is proved */
        return 0;
    if (p->training && dg_build_pending(l->b) > l->pending && !has_row(node, true, false))
        return undeclared(l, node, "keeps running statistics",
                          "DG_RULE_STATE with what they are made from");
    for (int i = l->first; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        if (in->op->effect != DG_COLLECTIVE || in->origin.node != node->number ||
            in->phase == DG_GRADIENT || has_row(node, p->training, true))
            continue;
        snprintf(what, sizeof what, "exchanges values with other ranks (%s)", in->op->name);
        return undeclared(l, node, what,
                          "DG_RULE_ALLREDUCE, DG_RULE_BROADCAST, ... with operand and axis");
    }
    return 0;
}

int dg_lowered_keeps(const dg_lowered *l, const dg_node *node, const dg_val in[],
                     const dg_val out[])
{
    int rc = compare_ports(l, node, in, out);

    for (int i = 0; i < node->n_out && rc == 0 && !node->model; i++)
        rc = check_keys(l, node, i, out[i]);
    return rc ? rc : check_rows(l, node);
}
