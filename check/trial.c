/* trial.c: one draw of a node: attributes as text, an element in a small pipeline, and sizes for
 * the letters of its ports. The pipeline is parsed like any other, so that draws pass the same
 * checks as a user's text. */
#include "check/check_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "graph/attr.h"
#include "graph/rule.h"

static bool flips(dg_rng *r, double p)
{
    return dg_rng_uniform(r) < p;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const char *fixed_value(const dg_trial *t, const char *name)
{
    if (t->given && strcmp(t->given->name, name) == 0)
        return t->given->value;
    for (int i = 0; i < t->how->n_sets; i++)
        if (strcmp(t->how->sets[i].name, name) == 0)
            return t->how->sets[i].value;
    return NULL;
}

/* A number in lo..hi; in a wide range near its lower end or the default. */
static double draw_between(dg_rng *r, double lo, double hi, double def)
{
    const double wide = 16;

    if (!(hi - lo > wide))
        return dg_rng_range(r, lo, hi);
    double from = def - wide / 2 > lo ? def - wide / 2 : lo;

    return dg_rng_range(r, isfinite(from) ? from : 0, fmin(hi, (isfinite(from) ? from : 0) + wide));
}

/* An integer in range; in a wide range mostly a power of two, because widths and heads must
 * divide. */
static int64_t draw_whole(dg_rng *r, const dg_attr *a)
{
    double n = exp2((double)dg_rng_below(r, 9));

    if (a->hi - a->lo > 64 && n >= a->lo && n <= a->hi && flips(r, 0.7))
        return (int64_t)n;
    return (int64_t)floor(draw_between(r, a->lo, a->hi + (a->hi < 1e15), a->def));
}

/* The drawn value of an attribute; NULL: leave it out. */
static const char *draw_value(dg_trial *t, dg_rng *r, const dg_attr *a)
{
    const char *const *words;
    int n_words;
    dg_str text = { 0 };
    const char *value;

    if (!a->required && (t->kind != DG_TRIAL_DRAWN || flips(r, 0.4)))
        return NULL;
    switch (a->kind) {
    case DG_ATTR_NUM:
        dg_str_fmt(&text, "%.6g", draw_between(r, a->lo, a->hi, a->def));
        break;
    case DG_ATTR_INT:
        dg_str_fmt(&text, "%lld", (long long)draw_whole(r, a));
        break;
    case DG_ATTR_BOOL:
        return flips(r, 0.5) ? "true" : "false";
    case DG_ATTR_ENUM:
        n_words = dg_attr_words(&words, a, t->arena);
        return words[dg_rng_below(r, (uint64_t)n_words)];
    case DG_ATTR_WHEN:
        return flips(r, 0.5) ? "step 3" : "epoch 1";
    default: /* texts, paths and lists: only the author knows useful values */
        return NULL;
    }
    value = dg_strdup(t->arena, text.s);
    dg_str_free(&text);
    return value;
}

static const dg_attr *attr_of_axes(const dg_trial *t)
{
    return dg_attr_flagged(t->class->attrs, DG_ATTR_AXES);
}

/* The value of the node's attribute: given, or drawn. */
static const char *draw_attr(dg_trial *t, dg_rng *r, const dg_attr *a)
{
    const char *value = fixed_value(t, a->name);

    if (value)
        return value;
    if (t->ranks && a == attr_of_axes(t) && (a->required || !t->unasked))
        return "dp";
    return draw_value(t, r, a);
}

static void add_attr(dg_str *element, const char *name, const char *value)
{
    dg_str_fmt(element, " %s=\"", name);
    dg_str_xml(element, value);
    dg_str_add(element, "\"");
}

/* ---- the pipeline ---------------------------------------------------------------------------- */

/* Writes <input>s for the node's inputs, two for "*", and the wires to them. The element shown in
 * findings has no wires. */
static void write_inputs(dg_trial *t, dg_rng *r, dg_str *before, dg_str *wires)
{
    for (const dg_port *p = t->class->ports; p && p->name; p++) {
        bool many = strcmp(p->name, "*") == 0;

        if (p->flags & DG_PORT_OUT ||
            (p->flags & DG_PORT_OPTIONAL && t->kind == DG_TRIAL_DRAWN && flips(r, 0.5)))
            continue;
        for (int i = 0; i < 1 + many; i++) {
            const char *name = many ? (i ? "second" : "first") : p->name;

            dg_str_fmt(before, "    <input id=\"%s\"/>\n", name);
            dg_str_fmt(wires, " %s=\"@%s\"", name, name);
        }
    }
}

static void write_model(dg_trial *t, dg_rng *r, dg_str *out, const char *inside)
{
    dg_str before = { 0 }, wires = { 0 };

    write_inputs(t, r, &before, &wires);
    dg_str_fmt(
        out, "  <model id=\"m\">\n%s    <%s id=\"node\"%s%s\n  </model>\n  <train steps=\"1\"/>\n",
        before.s ? before.s : "", t->class->name, wires.s ? wires.s : "", inside);
    dg_str_free(&before);
    dg_str_free(&wires);
}

/* Where a data port is wired to: a loader, or a sampler after it; other inputs to a number. */
static const char *source_of(const dg_port *p)
{
    if (strcmp(p->type, "dataset") == 0 || strcmp(p->type, "stream") == 0)
        return "data";
    return strcmp(p->type, "picks") == 0 || strcmp(p->type, "samples") == 0 ? "pick" : "number";
}

static void write_train(const dg_trial *t, dg_str *out, const char *inside)
{
    dg_str wires = { 0 };

    for (const dg_port *p = t->class->ports; p && p->name; p++)
        if (!(p->flags & DG_PORT_OUT))
            dg_str_fmt(&wires, " %s=\"@%s\"", p->name, source_of(p));
    dg_str_fmt(out,
               "  <train steps=\"1\">\n"
               "    <loader.synthetic id=\"data\" images=\"4\" width=\"64\" height=\"64\"/>\n"
               "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"64\"/>\n"
               "    <source.number id=\"number\"/>\n"
               "    <%s id=\"node\"%s%s\n"
               "  </train>\n",
               t->class->name, wires.s ? wires.s : "", inside);
    dg_str_free(&wires);
}

/* Draws child elements: by default one of each that has no required attribute. */
static void write_children(dg_trial *t, dg_rng *r, dg_str *out)
{
    for (const dg_child_class *c = t->class->children; c && c->name; c++) {
        bool drawn = t->kind == DG_TRIAL_DRAWN, wanted = !drawn || flips(r, 0.6);

        for (const dg_attr *a = c->attrs; a && a->name; a++)
            wanted = wanted && !a->required;
        if (!wanted)
            continue;
        dg_str_fmt(out, "<%s", c->name);
        for (const dg_attr *a = c->attrs; a && a->name; a++) {
            const char *value = draw_value(t, r, a);

            if (value)
                add_attr(out, a->name, value);
        }
        dg_str_add(out, "/>");
    }
}

static int parse(dg_trial *t, const dg_str *text)
{
    int rc = dg_graph_parse(&t->g, text->s, text->n, DG_TRIAL_FILE, NULL, 0, t->registry, t->d);

    for (int i = 0; rc == 0 && !t->node && i < t->g->n_models; i++)
        t->node = t->g->models[i]->output;
    for (int i = 0; rc == 0 && !t->node && t->g->train && i < t->g->train->n_nodes; i++)
        if (t->g->train->nodes[i]->class == t->class)
            t->node = t->g->train->nodes[i];
    assert(rc < 0 || t->node);
    return rc;
}

/* ---- letters --------------------------------------------------------------------------------- */

static int root_of(const dg_dims *dims, int var)
{
    while (dims->vars.items[var].parent >= 0)
        var = dims->vars.items[var].parent;
    return var;
}

static int64_t draw_size(const dg_trial *t, const char *letter)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8 };
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, letter), 0, 0);

    for (int i = 0; i < t->how->n_dims; i++)
        if (strcmp(t->how->dims[i].name, letter) == 0)
            return (int64_t)t->how->dims[i].lo;
    return t->kind == DG_TRIAL_SMALLEST ? 1
                                        : sizes[dg_rng_below(&r, sizeof sizes / sizeof sizes[0])];
}

static void meet_term(dg_trial *t, const dg_dim_term *term)
{
    const dg_dims *dims = &t->g->dims;
    int root;

    if (term->n)
        return;
    root = root_of(dims, term->var);
    if (t->sizes[root])
        return;
    const char *letter = dims->vars.items[term->var].name;

    t->sizes[root] =
        dims->vars.items[root].n ? dims->vars.items[root].n : draw_size(t, letter ? letter : "?");
    t->least = t->sizes[root] < t->least ? t->sizes[root] : t->least;
    dg_str_fmt(&t->dims, "%s%s=%lld", t->dims.n ? " " : "", letter ? letter : "?",
               (long long)t->sizes[root]);
}

static void meet_letters(dg_trial *t, const dg_contract *c)
{
    for (int i = 0; i < c->n_dims; i++)
        meet_term(t, &c->dims[i].size);
    for (int i = 0; i < c->n_fields; i++)
        meet_letters(t, c->fields[i].type);
}

/* ---- opening a draw -------------------------------------------------------------------------- */

int dg_trial_open(dg_trial *t)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "attributes"), 0, 0);
    dg_str inside = { 0 }, children = { 0 }, text = { 0 };
    int rc;

    t->arena = dg_arena_open();
    t->d = dg_diag_open();
    t->least = INT64_MAX;
    if (attr_of_axes(t) && attr_of_axes(t)->required && !t->ranks)
        t->ranks = 1; /* an axis with one rank, as on a laptop */
    for (const dg_attr *a = t->class->attrs; a && a->name; a++) {
        const char *value = draw_attr(t, &r, a);

        if (value)
            add_attr(&inside, a->name, value);
    }
    write_children(t, &r, &children);
    if (children.n)
        dg_str_fmt(&inside, ">%s</%s>", children.s, t->class->name);
    else
        dg_str_add(&inside, "/>");
    t->element = dg_printf(t->arena, "<%s%s", t->class->name, inside.s);
    dg_str_fmt(&text, "<pipeline version=\"1\">\n");
    if (t->ranks)
        dg_str_fmt(&text, "  <mesh dp=\"%lld\"/>\n", (long long)t->ranks);
    if (t->class->lower || t->class->begin)
        write_model(t, &r, &text, inside.s);
    else
        write_train(t, &text, inside.s);
    dg_str_add(&text, "</pipeline>\n");
    rc = parse(t, &text);
    if (rc == 0) {
        t->sizes = DG_NEW_N(t->arena, t->g->dims.vars.n + 1, int64_t);
        for (int i = 0; i < t->node->n_in; i++)
            if (t->node->in[i].from)
                meet_letters(t, t->node->in_types[i]);
    }
    dg_str_free(&inside);
    dg_str_free(&children);
    dg_str_free(&text);
    return rc < 0 ? 1 : 0;
}

void dg_trial_close(dg_trial *t)
{
    dg_graph_close(&t->g);
    dg_str_free(&t->dims);
    dg_diag_close(&t->d);
    dg_arena_close(&t->arena);
}

/* ---- what is declared ------------------------------------------------------------------------ */

bool dg_trial_shares(const dg_trial *t)
{
    const char *axes = dg_node_axes(t->node);

    return axes && strcmp(axes, "dp") == 0;
}

bool dg_trial_declares(const dg_trial *t, dg_rule_kind kind, bool from)
{
    for (const dg_rule *r = dg_node_row(t->node, kind, NULL); r; r = dg_node_row(t->node, kind, r))
        if ((r->from != NULL) == from)
            return true;
    return false;
}
