/* reference.c: prints the node reference from the tables. */
#include <string.h>

#include "graph/attr.h"
#include "graph/schema.h"
#include "graph/structure.h"

enum { WIDTH = 100, NAMES = 20 }; /* columns per line, and of the names at the left */

static const char *const roles[] = {
    [DG_ROLE_OTHER] = "other",         [DG_ROLE_LOADER] = "loader",
    [DG_ROLE_SAMPLER] = "sampler",     [DG_ROLE_AUGMENT] = "augment",
    [DG_ROLE_BATCH] = "batch",         [DG_ROLE_BACKBONE] = "backbone",
    [DG_ROLE_ENCODER] = "encoder",     [DG_ROLE_DENOISING] = "denoising",
    [DG_ROLE_DECODER] = "decoder",     [DG_ROLE_LOSS] = "loss",
    [DG_ROLE_GRADIENT] = "gradient",   [DG_ROLE_OPTIMIZER] = "optimizer",
    [DG_ROLE_EVALUATE] = "evaluation", [DG_ROLE_CONTROL] = "control",
    [DG_ROLE_SINK] = "output",
};
enum { N_ROLES = sizeof roles / sizeof *roles };

const char *dg_role_name(dg_role role)
{
    return (int)role < (int)N_ROLES ? roles[role] : "";
}

/* Wraps text to lines of WIDTH columns that begin at column `indent`; the first line continues at
 * column `at`. */
static void wrap(dg_str *out, const char *text, int indent, int at)
{
    while (*text) {
        int len = (int)strcspn(text, " \n");

        if (at > indent && at + 1 + len > WIDTH) {
            dg_str_fmt(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            dg_str_add(out, " ");
            at++;
        }
        dg_str_add_n(out, text, (size_t)len);
        at += len;
        text += len;
        if (*text == '\n') {
            dg_str_fmt(out, "\n%*s", indent, "");
            at = indent;
        }
        text += *text != '\0';
    }
    dg_str_add(out, "\n");
}

/* Prints "  name            text", wrapping the text below itself. */
static void row(dg_str *out, int indent, const char *name, const char *text)
{
    int at = indent + (int)strlen(name), column = indent + NAMES;

    dg_str_fmt(out, "%*s%s", indent, "", name);
    if (at >= column) {
        dg_str_fmt(out, "\n%*s", column, "");
        at = column;
    } else {
        dg_str_fmt(out, "%*s", column - at, "");
        at = column;
    }
    wrap(out, text, column, at);
}

static void print_ports(dg_str *out, const dg_port *ports, bool outputs)
{
    const char *title = outputs ? "outputs\n" : "inputs\n";

    for (const dg_port *p = ports; p && p->name; p++) {
        dg_str text = { 0 };

        if (((p->flags & DG_PORT_OUT) != 0) != outputs)
            continue;
        dg_str_add(out, title);
        title = "";
        dg_str_fmt(&text, "%s%s%s%s%s%s", p->doc, p->flags & DG_PORT_OPTIONAL ? " (optional)" : "",
                   p->flags & DG_PORT_MAIN ? " (main)" : "",
                   p->flags & DG_PORT_DROPS ? " (may drop items)" : "",
                   p->flags & DG_PORT_FURTHER ? " (takes further images)" : "",
                   p->flags & DG_PORT_EMPTY_ABSENT ? " (absent where there is nothing)" : "");
        row(out, 2, p->name, text.s);
        dg_str_fmt(out, "%*s%s\n", 2 + NAMES, "", p->type);
        dg_str_free(&text);
    }
}

static void print_attrs(dg_str *out, const dg_attr *attrs, int indent)
{
    for (const dg_attr *a = attrs; a && a->name; a++) {
        dg_str text = { 0 };

        dg_str_fmt(&text, "%s: ", a->doc);
        dg_attr_expected(&text, a);
        if (a->required) {
            dg_str_add(&text, "; needed");
        } else {
            size_t before = text.n;

            dg_str_add(&text, "; default ");
            if (!dg_attr_default_text(&text, a)) {
                text.n = before;
                text.s[before] = '\0';
            }
        }
        row(out, indent, a->name, text.s);
        dg_str_free(&text);
    }
}

static const char *const rules[] = {
    [DG_RULE_VALUE] = "value",
    [DG_RULE_PRESENCE] = "presence",
    [DG_RULE_DIMS] = "image size",
    [DG_RULE_LEADING] = "leading dimension",
    [DG_RULE_RATE] = "rate",
    [DG_RULE_EQUAL] = "equal counts",
    [DG_RULE_ENDLESS] = "endless",
    [DG_RULE_INEXACT] = "inexact",
    [DG_RULE_PARTIAL] = "pending sum",
    [DG_RULE_SEED] = "seed",
    [DG_RULE_CORRELATED] = "same draws",
    [DG_RULE_NORMALISER] = "normaliser",
    [DG_RULE_NONLINEAR] = "not linear",
    [DG_RULE_LINEAR] = "linear",
    [DG_RULE_STATE] = "state",
    [DG_RULE_GRADIENTS] = "gradients",
    [DG_RULE_METRIC] = "metric",
    [DG_RULE_ALLREDUCE] = "all-reduce",
    [DG_RULE_REDUCE] = "reduce",
    [DG_RULE_BROADCAST] = "broadcast",
    [DG_RULE_AGREE] = "agree",
    [DG_RULE_ALLGATHER] = "all-gather",
    [DG_RULE_ALLGATHERV] = "all-gather",
    [DG_RULE_BYPASS] = "bypass",
    [DG_RULE_SKIP] = "skip",
    [DG_RULE_STOP] = "stop",
    [DG_RULE_KEYS] = "keys",
};

/* Prints rules: "image size   of out, from in, over axis; where aligned is not given: deals items
 * ..." */
static void print_rules(dg_str *out, const dg_rule *r)
{
    const char *title = "rank invariance\n";

    for (; r && r->kind; r++) {
        dg_str text = { 0 };

        dg_str_add(out, title);
        title = "";
        if (r->to)
            dg_str_fmt(&text, "of %s ", r->to);
        if (r->from)
            dg_str_fmt(&text, "from %s ", r->from);
        if (r->axis)
            dg_str_fmt(&text, "over %s%s ", *r->axis == '=' ? "" : "the axis in ",
                       r->axis + (*r->axis == '='));
        if (r->when)
            dg_str_fmt(&text, "where %s", r->when);
        while (text.n && text.s[text.n - 1] == ' ')
            text.s[--text.n] = '\0';
        if (r->flags & DG_RULE_TRAIN)
            dg_str_add(&text, text.n ? ", in training" : "in training");
        if (r->why)
            dg_str_fmt(&text, "%s%s", text.n ? ": " : "", r->why);
        row(out, 2, rules[r->kind], text.s ? text.s : "");
        dg_str_free(&text);
    }
}

static void print_class(dg_str *out, const dg_node_class *c)
{
    dg_str_fmt(out, "<%s>  %s\n", c->name, dg_role_name(c->role));
    dg_str_add(out, "  ");
    wrap(out, c->brief, 2, 2);
    if (c->doc) {
        dg_str_add(out, "  ");
        wrap(out, c->doc, 2, 2);
    }
    print_ports(out, c->ports, false);
    print_ports(out, c->ports, true);
    if (c->attrs && c->attrs->name)
        dg_str_add(out, "attributes\n");
    print_attrs(out, c->attrs, 2);
    for (const dg_child_class *k = c->children; k && k->name; k++) {
        dg_str_fmt(out, "inside: <%s>%s\n  ", k->name,
                   k->most == 1 ? ", at most one"
                   : k->most    ? ""
                                : ", any number");
        wrap(out, k->doc ? k->doc : "", 2, 2);
        print_attrs(out, k->attrs, 2);
    }
    for (const dg_collective *k = c->collectives; k && k->kind; k++)
        dg_str_fmt(out, "collective: %s of %s over the axis in %s\n", k->kind, k->operand,
                   k->axis ? k->axis : "?");
    print_rules(out, c->rules);
    dg_str_fmt(out,
               "of every node: id, when, recompute, connect, on, budget, on_fail, exact, "
               "frozen%s\n",
               c->reference ? ", pretrained (weights of this node from a file)" : "");
}

static void print_structure(dg_str *out, const dg_structure *s)
{
    dg_str_fmt(out, "<%s>  language%s%s\n  ", s->name, *s->inside ? ", inside " : "", s->inside);
    wrap(out, s->brief, 2, 2);
    if (s->doc) {
        dg_str_add(out, "  ");
        wrap(out, s->doc, 2, 2);
    }
    if (s->attrs || s->wires || s->free)
        dg_str_add(out, "attributes\n");
    print_attrs(out, s->attrs, 2);
    for (const char *p = s->wires; p && *p; p += strcspn(p, " "), p += *p == ' ') {
        char name[32] = "";

        strncat(name, p, strcspn(p, " ") < sizeof name ? strcspn(p, " ") : sizeof name - 1);
        row(out, 2, name, "a wire (optional)");
    }
    if (s->free)
        row(out, 2, "any other", s->free);
}

void dg_reference_list(dg_str *out, const dg_registry *r)
{
    for (int role = 1; role <= N_ROLES; role++) { /* OTHER is last */
        const char *title = roles[role % N_ROLES];

        for (int i = 0; i < dg_registry_n(r); i++) {
            const dg_node_class *c = dg_registry_at(r, i);

            if ((int)c->role != role % N_ROLES)
                continue;
            if (title)
                dg_str_fmt(out, "%s\n", title);
            title = NULL;
            row(out, 2, c->name, c->brief);
        }
    }
    dg_str_add(out, "language\n");
    for (const dg_structure *s = dg_structures; s->name; s++)
        row(out, 2, s->name, s->brief);
    row(out, 2, dg_class_input.name, dg_class_input.brief);
    row(out, 2, dg_class_use.name, dg_class_use.brief);
}

bool dg_reference_print(dg_str *out, const dg_registry *r, const char *name)
{
    const dg_node_class *c = dg_registry_find(r, name);
    const dg_structure *s = dg_structure_find(name);

    if (dg_structure_class(name))
        c = dg_structure_class(name);
    if (c)
        print_class(out, c);
    else if (s)
        print_structure(out, s);
    return c || s;
}
