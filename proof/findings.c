/* findings.c: reports faults with the path of their causes. Faults with one root (the first step
 * where a rank's own value became more than a value) are one error; the others are folded. */
#include <string.h>

#include "proof/vary.h"

enum { STEPS = 12, MOST_FOLDED = 256 }; /* printed steps of a path; folded errors in JSON */

static int32_t first_of(const dg_vary v)
{
    for (int i = 0; i < DG_VARY_AXES; i++)
        if (v.axes >> i & 1)
            return v.cause[i];
    return 0;
}

dg_vary_finding *dg_vary_fault(dg_proof *p, const char *code, dg_where at, dg_vary v,
                               const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *text = dg_vprintf(p->arena, fmt, ap);
    va_end(ap);
    DG_PUSH(p->arena, p->faults,
            ((dg_vary_finding){
                .code = code, .at = at, .axes = v.axes, .cause = first_of(v), .text = text }));
    return &p->faults.items[p->faults.n - 1];
}

void dg_vary_warn(dg_proof *p, const char *code, dg_where at, dg_vary v, const char *help,
                  const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *text = dg_vprintf(p->arena, fmt, ap);
    va_end(ap);
    dg_vary_finding *f = dg_vary_fault(p, code, at, v, "%s", text);

    f->warning = true;
    f->help = help;
}

static bool same_place(dg_where a, dg_where b)
{
    return a.line == b.line && a.column == b.column && a.file && b.file &&
           strcmp(a.file, b.file) == 0;
}

/* True if two faults have one root. Faults of values alone are grouped by code and source. */
static bool belong(const dg_proof *p, const dg_vary_finding *a, const dg_vary_finding *b)
{
    const dg_cause *x = &p->causes.items[a->cause], *y = &p->causes.items[b->cause];

    if (same_place(a->at, b->at) && strcmp(a->code, b->code) == 0)
        return true;
    if (!a->cause || !b->cause)
        return false;
    return x->root || y->root ? x->root == y->root
                              : x->source == y->source && strcmp(a->code, b->code) == 0;
}

static void note_path(const dg_proof *p, int32_t cause, dg_diag *d)
{
    for (int n = 0; cause && n < STEPS; cause = p->causes.items[cause].from, n++)
        dg_note(d, p->causes.items[cause].where, "%s", p->causes.items[cause].text);
}

static bool is_said(const dg_proof *p, const int *group, int i)
{
    for (int k = 0; k < i; k++)
        if (group[k] == group[i] && same_place(p->faults.items[k].at, p->faults.items[i].at) &&
            strcmp(p->faults.items[k].code, p->faults.items[i].code) == 0)
            return true;
    return false;
}

/* Notes the folded faults: "DG-PRES at line 12, DG-STATE at line 14". */
static void note_folded(const dg_proof *p, const dg_vary_finding *first, const int *group,
                        int number, dg_diag *d)
{
    enum { MOST = 6 };
    dg_str out = { 0 };
    int n = 0;

    for (int i = 0; i < p->faults.n; i++) {
        const dg_vary_finding *f = &p->faults.items[i];

        if (group[i] != number || f == first || f->warning || is_said(p, group, i))
            continue;
        if (++n > MOST)
            continue;
        dg_str_fmt(&out, "%s%s at ", n > 1 ? ", " : "", f->code);
        if (f->at.file)
            dg_str_fmt(&out, "%s:", f->at.file);
        dg_str_fmt(&out, "%d", f->at.line);
    }
    if (n > MOST)
        dg_str_fmt(&out, " and %d more", n - MOST);
    if (n)
        dg_note(d, DG_NOWHERE, "the same cause makes %s", out.s);
    dg_str_free(&out);
}

/* ---- the path, for pictures ------------------------------------------------------------------ */

/* The node that represents another in a scope: itself, or the <use> of its model. */
static const dg_node *stand_in(const dg_scope *scope, const dg_node *node)
{
    if (node->scope == scope)
        return node;
    for (int i = 0; i < scope->n_nodes; i++)
        if (scope->nodes[i]->model == node->scope)
            return scope->nodes[i];
    return NULL;
}

static const dg_wire *wire_at(const dg_node *node, int i)
{
    return i < node->n_in ? &node->in[i] : &node->when;
}

/* Marks one way along wires from `from` to `to`; guard: through the guard of `to`, if possible. */
static void mark_way(const dg_proof *p, const dg_node *from, const dg_node *to, bool guard)
{
    const dg_scope *s = from->scope;
    bool *reached = DG_NEW_N(p->arena, s->n_nodes, bool);

    to = stand_in(s, to);
    if (!to || to->index <= from->index)
        return;
    reached[from->index] = true;
    for (int i = from->index + 1; i <= to->index; i++)
        for (int k = 0; k <= s->nodes[i]->n_in; k++) {
            const dg_node *before = wire_at(s->nodes[i], k)->from;

            reached[i] |= before && reached[before->index];
        }
    for (const dg_node *n = to; reached[to->index] && n != from;) {
        const dg_node *when = guard && n == to ? n->when.from : NULL;

        p->marks->path[n->number] = true;
        if (when && reached[when->index]) {
            n = when;
            continue;
        }
        for (int k = 0; k <= n->n_in; k++)
            if (wire_at(n, k)->from && reached[wire_at(n, k)->from->index]) {
                n = wire_at(n, k)->from;
                break;
            }
    }
}

static void mark_path(const dg_proof *p, const dg_vary_finding *f)
{
    const dg_node *to;
    bool guard = false;

    if (!p->marks || f->warning)
        return;
    to = dg_edit_node(p->g, f->to ? f->to : f->at.node);
    for (int32_t c = f->cause; c; c = p->causes.items[c].from) {
        const dg_node *node = p->causes.items[c].node;

        if (!node)
            continue;
        p->marks->path[node->number] = true;
        if (to)
            mark_way(p, node, to, guard);
        to = node;
        guard = node->when.from && same_place(node->when.where, p->causes.items[c].where);
    }
}

/* ---- reports --------------------------------------------------------------------------------- */

static void report_one(const dg_vary_finding *f, bool two, dg_diag *d)
{
    if (two && !f->warning)
        dg_warn(d, f->at, "two-ranks", "would be rejected with two ranks over dp, %s: %s", f->code,
                f->text);
    else if (f->warning)
        dg_warn(d, f->at, f->code, "%s", f->text);
    else
        (void)dg_fail(d, DG_EINPUT, f->at, f->code, "%s", f->text);
}

/* True if an error for the actual number of ranks has reported it. */
static bool is_error(const dg_vary_finding *f, const dg_diag *d)
{
    for (int i = 0; i < dg_diag_n(d); i++) {
        const dg_err *e = dg_diag_at(d, i);

        if (strcmp(e->id, f->code) == 0 && same_place(e->at, f->at))
            return true;
    }
    return false;
}

int dg_vary_report(dg_proof *p, bool two, dg_diag *d)
{
    int *group = DG_NEW_N(p->arena, p->faults.n + 1, int), n_groups = 0, n_errors = 0;
    int *first = DG_NEW_N(p->arena, p->faults.n + 1, int), n_folded = 0;

    for (int i = 0; i < p->faults.n; i++) {
        int k = 0;

        n_errors += !p->faults.items[i].warning;
        while (k < n_groups && !(p->faults.items[first[k]].warning == p->faults.items[i].warning &&
                                 belong(p, &p->faults.items[first[k]], &p->faults.items[i])))
            k++;
        if (k == n_groups)
            first[n_groups++] = i;
        group[i] = k;
    }
    for (int i = 0; i < p->faults.n; i++) {
        const dg_vary_finding *f = &p->faults.items[i];
        bool folded = first[group[i]] != i;

        mark_path(p, f);
        if ((f->warning && (n_errors || two || folded)) || (two && folded) ||
            (folded && (is_said(p, group, i) || ++n_folded > MOST_FOLDED)) ||
            (two && !f->warning && (!f->axes || is_error(f, d))))
            continue;
        report_one(f, two, d);
        note_path(p, f->cause, d);
        if (!folded && !f->warning)
            note_folded(p, f, group, group[i], d);
        if (f->help)
            dg_help(d, "%s", f->help);
        if (f->way)
            dg_help(d, "%s", f->way);
        if (folded)
            dg_fold(d);
    }
    return n_errors && !two ? -DG_EINPUT : 0;
}
