/* keeps.c: see keeps.h. */
#include "graph/keeps.h"

#include <stdio.h>
#include <string.h>

#include "graph/edit.h"
#include "graph/rule.h"
#include "kernels/attrs.h"
#include "tensor/build.h"
#include "tensor/ops.h"

/* ---- types ----------------------------------------------------------------------------------- */

static int differs(const dg_lowered *l, const dg_node *node, const dg_port *port, const char *key,
                   const dg_contract *c, dg_val v)
{
    char shape[96];
    dg_str type = { 0 };
    const char *found = dg_is_record(v)                                              ? "a record"
                        : dg_build_program(l->b)->values.items[v.id].dtype == DG_I32 ? "i"
                                                                                     : "f";

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
    /* a model's output was compared at its own node */
    for (int i = 0; i < node->n_out && !node->model; i++) {
        own = compare(l, node, node->out_ports[i], "", node->out_contracts[i], out[i]);
        rc = rc ? rc : own;
    }
    for (int i = 0; i < node->n_in; i++)
        dg_contract_unbind(&l->g->dims, node->in_types[i], l->bound);
    for (int i = 0; i < node->n_out; i++)
        dg_contract_unbind(&l->g->dims, node->out_contracts[i], l->bound);
    return rc;
}

/* ---- values of the whole model --------------------------------------------------------------- */

static bool is_whole(const dg_lowered *l, dg_val v)
{
    dg_kind kind = dg_kind_of(l->b, v);

    return kind == DG_KIND_GRADIENTS || kind == DG_KIND_PARAMETERS;
}

/* True for ports of that type, for collectives, which join gradients or refuse them in their own
 * words (a vote is one about numbers), and for a model, whose nodes are asked in turn. */
static bool takes_whole(const dg_node *node, int port)
{
    const dg_type_kind kind = node->in_types[port]->kind;

    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (dg_rule_is_collective(r) && r->kind != DG_RULE_AGREE && dg_rule_input(node, r) == port)
            return true;
    return kind == DG_TYPE_GRADIENTS || kind == DG_TYPE_PARAMETERS || node->model;
}

static dg_val refuse_whole(const dg_lowered *l, const dg_node *node, const char *name,
                           const dg_wire *w, dg_val v)
{
    const dg_item_attr *a = dg_item_find(node->item, name);
    const bool gradients = dg_kind_of(l->b, v) == DG_KIND_GRADIENTS;
    const dg_val poison =
        dg_error(l->b, "contract-mismatch",
                 "%s=\"%s\": it is the %s of the whole model, and a tensor is expected", name,
                 a ? a->value : "", gradients ? "gradient" : "parameters");

    if (gradients && a)
        dg_help(l->d, "%s",
                dg_edit_insert(l->g, node, name, w,
                               dg_printf(l->g->arena, "gradient.norm in=\"%s\"", a->value), "norm",
                               NULL));
    else
        dg_help(l->d, "%s", dg_edit_without(l->g, node));
    return poison;
}

dg_val dg_lowered_takes(const dg_lowered *l, const dg_node *node, dg_val when, const dg_val in[])
{
    if (is_whole(l, when))
        return refuse_whole(l, node, "when", &node->when, when);
    for (int i = 0; i < node->n_in; i++)
        if (is_whole(l, in[i]) && !takes_whole(node, i))
            return refuse_whole(l, node, node->in_ports[i]->name, &node->in[i], in[i]);
    return DG_NONE;
}

/* ---- keys ------------------------------------------------------------------------------------ */

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

/* Checks that a record has only declared keys: reductions go key by key. */
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

/* ---- what the proof knows from rules --------------------------------------------------------- */

enum { DP = 1, TP = 2 }; /* axes of a mesh, as bits */

static int contract(const dg_lowered *l, const dg_node *node, const char *help, const char *fmt,
                    ...) DG_PRINTF(4, 5);
static int contract(const dg_lowered *l, const dg_node *node, const char *help, const char *fmt,
                    ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *what = dg_vprintf(dg_build_program(l->b)->arena, fmt, ap);
    va_end(ap);
    dg_fail(l->d, DG_EINPUT, node->where, "contract-undeclared", "<%s> %s", node->element, what);
    dg_help(l->d, "%s", help);
    return -DG_EINPUT;
}

static bool has_row(const dg_node *node, bool train, dg_rule_kind kind)
{
    for (const dg_rule *r = node->class->rules; r && r->kind; r++)
        if (r->kind == kind && dg_rule_holds(node, train, r))
            return true;
    return false;
}

static unsigned one_axis(const dg_graph *g, const char *name, size_t n)
{
    if (strlen(g->axis) == n && strncmp(g->axis, name, n) == 0)
        return g->ranks > 1 ? DP : 0;
    return n == 2 && strncmp(name, "tp", 2) == 0 && g->mesh.tp > 1 ? TP : 0;
}

/* The axes with several ranks that a text names; NULL: all. */
static unsigned axes_of(const dg_graph *g, const char *text)
{
    unsigned axes = text ? 0 : one_axis(g, g->axis, strlen(g->axis)) | one_axis(g, "tp", 2);

    for (const char *s = text; s && *s; s += strcspn(s, "+"), s += *s == '+') {
        unsigned next = one_axis(g, s, strcspn(s, "+"));

        if (next & axes)
            return 0; /* an error of its own */
        axes |= next;
    }
    return axes;
}

/* The axes of a collective; 0: no collective over axes of the mesh. */
static unsigned axes_met(const dg_graph *g, const dg_instr *i)
{
    static const char *const names[] = { "tp", "dp+tp", "tp+dp" };
    const reduce_attr *a = i->attr;

    if (i->op->effect != DG_COLLECTIVE || i->op->attr_bytes != sizeof *a)
        return 0;
    if ((uint64_t)a->axis == dg_fnv1a_text(g->axis))
        return DP;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if ((uint64_t)a->axis == dg_fnv1a_text(names[k]))
            return axes_of(g, names[k]);
    return 0;
}

static const char *print_axes(unsigned axes)
{
    return axes == (DP | TP) ? "dp+tp" : axes == TP ? "tp" : "dp";
}

static int tensors_in(const dg_lowered *l, dg_val v)
{
    int n = dg_has(v) && !dg_is_record(v);

    for (int i = 0; dg_is_record(v) && i < dg_record_n(l->b, v); i++)
        n += tensors_in(l, dg_record_get(l->b, v, dg_record_key(l->b, v, i)));
    return n;
}

/* Collectives of a node over some axes. */
typedef struct exchanges {
    int most, least, n; /* by the rows, at most and at least; emitted */
    bool open;          /* a row of one inside the node, which may stand for many */
    const dg_rule *row;
} exchanges;

static void count_declared(const dg_lowered *l, const dg_node *node, const dg_val in[],
                           exchanges by_axes[])
{
    bool train = dg_build_program(l->b)->training;

    for (const dg_rule *r = node->class->rules; r && r->kind; r++) {
        int port = dg_rule_input(node, r);
        unsigned axes = axes_of(l->g, dg_rule_axes(node, r));
        exchanges *e = &by_axes[axes];

        if (!axes || !dg_rule_is_collective(r) || !dg_rule_holds(node, train, r))
            continue;
        e->row = r;
        e->open |= !r->to;
        e->most += r->kind == DG_RULE_AGREE || port < 0 ? 1 : tensors_in(l, in[port]);
        e->most += r->kind == DG_RULE_ALLGATHERV; /* the counts */
        e->least |= r->kind == DG_RULE_AGREE || port < 0 || tensors_in(l, in[port]) > 0;
    }
    for (const dg_collective *c = node->class->collectives; c && c->kind; c++) {
        dg_rule r = { .axis = c->axis };
        exchanges *e = &by_axes[c->axis ? axes_of(l->g, dg_rule_axes(node, &r)) : 0];

        e->open = true;
    }
}

/* True for the question whether all losses are finite, which gradients and state ask all ranks. */
static bool asks_finite(const dg_lowered *l, const dg_node *node, const dg_instr *i)
{
    const dg_program *p = dg_build_program(l->b);
    int producer = i->n_in ? p->values.items[i->v[0]].producer : -1;

    return producer >= 0 &&
           (p->instrs.items[producer].op == DG_OP(finite) ||
            p->instrs.items[producer].op->effect == DG_COLLECTIVE) &&
           (has_row(node, true, DG_RULE_STATE) || has_row(node, true, DG_RULE_GRADIENTS));
}

/* Compares the node's collectives with its rows, by the axes. */
static int check_exchanges(const dg_lowered *l, const dg_node *node, const dg_val in[])
{
    const dg_program *p = dg_build_program(l->b);
    exchanges by_axes[4] = { 0 };

    count_declared(l, node, in, by_axes);
    for (int i = l->first; i < p->instrs.n; i++) {
        const dg_instr *x = &p->instrs.items[i];
        unsigned axes = axes_met(l->g, x);
        exchanges *e = &by_axes[axes];

        if (!axes || x->origin.node != node->number || x->phase == DG_GRADIENT ||
            asks_finite(l, node, x))
            continue;
        if (!e->most && !e->open)
            return contract(l, node,
                            "a row DG_RULE_ALLREDUCE, DG_RULE_BROADCAST, ... with operand and axis "
                            "in the rules of the class",
                            "exchanges values with other ranks (%s) over %s, and no row of its "
                            "class says so here: the proof would not know of it",
                            x->op->name, print_axes(axes));
        if (++e->n > e->most && !e->open)
            return contract(l, node,
                            "a row for each collective, or one without `to` for those of fixed "
                            "size inside the node",
                            "exchanges values with other ranks %d times over %s, and its rows "
                            "speak of %d: the proof would not know of it",
                            e->n, print_axes(axes), e->most);
    }
    for (unsigned axes = DP; axes <= (DP | TP); axes++)
        if (by_axes[axes].least && !by_axes[axes].n)
            return contract(
                l, node, "call the collective with the axis of the attribute, or take the row out",
                "declares that it %s over %s, and exchanges nothing over it: the proof "
                "would take what differs among ranks to be the same",
                by_axes[axes].row->why, print_axes(axes));
    return 0;
}

static int check_rows(const dg_lowered *l, const dg_node *node, const dg_val in[])
{
    bool train = dg_build_program(l->b)->training;

    if (node->model || !l->g->axis) /* without a mesh nothing is proved */
        return 0;
    if (train && dg_build_pending(l->b) > l->pending && !has_row(node, true, DG_RULE_STATE))
        return contract(l, node, "a row DG_RULE_STATE with what they are made from in its rules",
                        "keeps running statistics, and no row of its class says so here: the proof "
                        "would not know of it");
    return l->without || dg_build_failed(l->b) ? 0 : check_exchanges(l, node, in);
}

int dg_lowered_keeps(const dg_lowered *l, const dg_node *node, const dg_val in[],
                     const dg_val out[])
{
    int rc = compare_ports(l, node, in, out);

    for (int i = 0; i < node->n_out && rc == 0 && !node->model; i++)
        rc = check_keys(l, node, i, out[i]);
    return rc ? rc : check_rows(l, node, in);
}
