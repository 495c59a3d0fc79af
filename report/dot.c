/* dot.c: a graph in Graphviz's language: scopes, and wires with shapes and what varies over ranks.
 * Shapes come from lowering each scope at its first image size, if possible. */
#include "report/dot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/lower.h"
#include "graph/structure.h"
#include "proof/proof.h"

#define OVER_DP "#ef6c00"
#define OVER_TP "#6a1b9a"
#define OVER_BOTH "#ad1457"
#define BLANK "\302\240" /* no-break space: SVG drops leading spaces */

enum { LINES = 7, LINE = 34 }; /* lines per label of a wire; bytes per line */

/* ---- shapes ---------------------------------------------------------------------------------- */

static void keep_shape(dg_painter *p, dg_build *b, const char *name, dg_val v)
{
    char text[96];

    switch (dg_kind_of(b, v)) {
    case DG_KIND_RECORD:
        for (int i = 0; i < dg_record_n(b, v); i++) {
            const char *key = dg_record_key(b, v, i);

            keep_shape(p, b, dg_printf(p->arena, "%s.%s", name, key), dg_record_get(b, v, key));
        }
        return;
    case DG_KIND_TENSOR:
        dg_map_set(p->shapes, name,
                   dg_strdup(p->arena, dg_shape_print(dg_shape_of(b, v), text, sizeof text)));
        return;
    default:
        return;
    }
}

static void watch(void *ctx, dg_build *b, const dg_node *node, const dg_val in[],
                  const dg_val out[])
{
    dg_painter *p = ctx;

    (void)in;
    for (int i = 0; i < node->n_out; i++)
        keep_shape(p, b, dg_printf(p->arena, "%d.%s", node->number, node->out_ports[i]->name),
                   out[i]);
}

static void find_shapes(dg_painter *p, const dg_scope *scope)
{
    dg_params *params = dg_params_open();
    dg_program *program = NULL;
    dg_diag *d = dg_diag_open();
    dg_size size;

    if (scope && dg_scope_size(&size, scope, d) == 0 &&
        dg_lower(&program, p->g, scope, size, 0, params, watch, p, d) == 0)
        dg_program_close(&program);
    dg_params_close(&params);
    dg_diag_close(&d);
}

/* ---- wires ----------------------------------------------------------------------------------- */

/* True if a record was lowered under this name, so that its keys have shapes. */
static bool has_keys(const dg_painter *p, const char *name)
{
    size_t len = strlen(name);

    for (int k = 0; k < dg_map_n(p->shapes); k++)
        if (strncmp(dg_map_key(p->shapes, k), name, len) == 0 &&
            dg_map_key(p->shapes, k)[len] == '.')
            return true;
    return false;
}

/* Adds a line to a label: key, type, and the shape if it was lowered. */
static void add_line(dg_painter *p, dg_str *label, int *n, const char *key, const char *name,
                     const dg_contract *c)
{
    const char *shape = dg_map_get(p->shapes, name);
    bool record = !shape && c->kind == DG_TYPE_ANY && has_keys(p, name);
    dg_str type = { 0 };

    if (*key && !shape && !record && c->kind == DG_TYPE_ANY && dg_map_n(p->shapes))
        return; /* this program lacks the key */
    if (++*n > LINES) {
        if (*n == LINES + 1)
            dg_str_add(label, " ...<BR ALIGN=\"LEFT\"/>");
        return;
    }
    dg_contract_print(&type, &p->g->dims, c);
    dg_str_add(label, BLANK); /* keeps a distance from the wire */
    dg_str_xml(label, key);
    dg_str_add(label, *key ? " " : "");
    if (record)
        dg_str_add(label, "{...}");
    else if (c->kind == DG_TYPE_TENSOR || !shape)
        dg_str_xml(label, type.n > LINE ? "..." : type.s);
    /* use two short lines for a single tensor: parallel wires need room */
    if (shape && strcmp(shape, "[]") != 0)
        dg_str_fmt(label, "%s<FONT COLOR=\"" DG_DOT_INK "\">%s</FONT>",
                   *key ? " " : "<BR ALIGN=\"LEFT\"/>" BLANK, shape);
    dg_str_add(label, " <BR ALIGN=\"LEFT\"/>");
    dg_str_free(&type);
}

static void add_type(dg_painter *p, dg_str *label, int *n, const char *key, const char *name,
                     const dg_contract *c)
{
    if (c->kind != DG_TYPE_RECORD) {
        add_line(p, label, n, key, name, c);
        return;
    }
    for (int i = 0; i < c->n_fields; i++) {
        const dg_field_type *f = &c->fields[i];

        if (f->wildcard && has_keys(p, name)) { /* add the keys that were lowered */
            size_t len = strlen(name);

            for (int k = 0; k < dg_map_n(p->shapes); k++) {
                const char *full = dg_map_key(p->shapes, k);

                if (strncmp(full, name, len) == 0 && full[len] == '.')
                    add_line(p, label, n, full + len + 1, full, f->type);
            }
            continue;
        }
        const char *inner =
            dg_printf(p->arena, "%s%s%s%s", key, *key ? "." : "", f->key, f->wildcard ? "*" : "");

        add_type(p, label, n, inner, dg_printf(p->arena, "%s.%s", name, f->key), f->type);
    }
}

static bool wire_is_faulty(const dg_painter *p, const dg_wire *w)
{
    for (int i = 0; i < dg_diag_n(p->faults); i++) {
        const dg_err *e = dg_diag_at(p->faults, i);

        if (e->severity == DG_ERROR && e->at.file && w->where.file &&
            strcmp(e->at.file, w->where.file) == 0 && e->at.line == w->where.line &&
            e->at.column == w->where.column)
            return true;
    }
    return false;
}

/* The colour of a wire whose value differs over an axis; NULL if it is equal everywhere. */
static const char *colour_of(const dg_painter *p, const dg_wire *w)
{
    const char *axes = p->marks.varies ? p->marks.varies[w->from->number][w->port] : NULL;

    if (!axes)
        return NULL;
    return strcmp(axes, "dp") == 0 ? OVER_DP : strcmp(axes, "tp") == 0 ? OVER_TP : OVER_BOTH;
}

/* True if a wire is on the way from a rank's own data to a rejection. */
static bool is_on_path(const dg_painter *p, const dg_wire *w, const dg_node *to)
{
    return p->marks.varies && p->marks.path[w->from->number] &&
           (p->marks.path[to->number] || dg_dot_is_faulty(p, to));
}

/* Draws a guard's wire, dashed, from the flag to the node's title. */
static void add_guard(dg_painter *p, const dg_node *node)
{
    const dg_wire *w = &node->when;
    const char *colour = is_on_path(p, w, node) ? DG_DOT_RED : colour_of(p, w);

    dg_str_fmt(p->out, "    n%d:o%d:s -> n%d [style=dashed, color=\"%s\", label=<when>];\n",
               w->from->number, w->port, node->number, colour ? colour : DG_DOT_FAINT);
}

static void add_wire(dg_painter *p, const dg_node *node, int port)
{
    const dg_wire *w = &node->in[port];
    const dg_port *from = w->from->out_ports[w->port], *to = node->in_ports[port];
    const dg_contract *c = w->from->out_contracts[w->port], *record;
    bool faulty = wire_is_faulty(p, w) || is_on_path(p, w, node),
         optional = (to->flags & DG_PORT_OPTIONAL) != 0;
    dg_str label = { 0 };
    int n = 0;

    if (w->key && !(c = dg_contract_key(c, w->key, &record, &optional)))
        c = &dg_contract_any;
    const char *name = dg_printf(p->arena, "%d.%s%s%s", w->from->number, from->name,
                                 w->key ? "." : "", w->key ? w->key : "");

    add_type(p, &label, &n, w->key ? w->key : "", name, c);
    dg_str_fmt(
        p->out,
        "    n%d:o%d:s -> n%d:i%d:n [color=\"%s\"%s, label=<<FONT COLOR=\"%s\">%s</FONT>>];\n",
        w->from->number, w->port, node->number, port,
        faulty            ? DG_DOT_RED
        : colour_of(p, w) ? colour_of(p, w)
                          : DG_DOT_FAINT,
        faulty ? ", penwidth=2" : "", faulty ? DG_DOT_RED : "#78909c", label.s ? label.s : " ");
    dg_str_free(&label);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static void add_when(dg_str *out, const char *before, dg_when w)
{
    static const char *const units[] = {
        [DG_STEPS] = "step", [DG_EPOCHS] = "epoch", [DG_MINUTES] = "min"
    };

    if (w.unit == DG_SHARE)
        dg_str_fmt(out, "%s%g %%", before, w.n);
    else if (w.unit != DG_NEVER)
        dg_str_fmt(out, "%s%g %s%s", before, w.n, units[w.unit],
                   w.n != 1 && w.unit != DG_MINUTES ? "s" : "");
}

static void add_title(dg_painter *p, const dg_scope *s)
{
    static const char *const precisions[] = { "f32", "bf16", "f64", "tf32" };
    dg_str t = { 0 };

    if (s->kind == DG_SCOPE_TRAIN) {
        if (s->steps || s->epochs)
            dg_str_fmt(&t, "%lld %s, ", (long long)(s->steps ? s->steps : s->epochs),
                       s->steps ? "steps" : "epochs");
        dg_str_add(&t, precisions[s->precision]);
        if (s->accumulate > 1)
            dg_str_fmt(&t, ", %lld batches per update", (long long)s->accumulate);
        add_when(&t, ", patience ", s->patience);
    } else if (s->kind == DG_SCOPE_EVALUATE) {
        add_when(&t, "every ", s->every);
        if (s->weights)
            dg_str_fmt(&t, "%sweights of %s", t.n ? ", " : "", s->weights->id);
    }
    dg_str_add(p->out, "    label=<<B>");
    dg_str_xml(p->out, s->kind == DG_SCOPE_MODEL ? dg_printf(p->arena, "model %s", s->id) : s->id);
    dg_str_add(p->out, "</B>");
    if (t.s) {
        dg_str_add(p->out, "   <FONT POINT-SIZE=\"10\" COLOR=\"" DG_DOT_FAINT "\">");
        dg_str_xml(p->out, t.s);
        dg_str_add(p->out, "</FONT>");
    }
    dg_str_add(p->out, ">;\n");
    dg_str_free(&t);
}

static void add_scope(dg_painter *p, const dg_scope *s, int number)
{
    static const char *const fills[] = {
        [DG_SCOPE_MODEL] = "#f3faf4", [DG_SCOPE_TRAIN] = "#f6f8fc", [DG_SCOPE_EVALUATE] = "#f2fbfc"
    };

    dg_str_fmt(p->out,
               "  subgraph cluster_%d {\n    style=\"rounded,filled\"; color=\"#cfd8dc\"; "
               "fillcolor=\"%s\"; labeljust=l; margin=16;\n",
               number, fills[s->kind]);
    add_title(p, s);
    for (int i = 0; i < s->n_nodes; i++)
        dg_dot_node(p, s->nodes[i]);
    dg_str_add(p->out, "  }\n");
    for (int i = 0; i < s->n_nodes; i++)
        for (int k = 0; k < s->nodes[i]->n_in; k++)
            if (s->nodes[i]->in[k].from)
                add_wire(p, s->nodes[i], k);
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i]->when.from)
            add_guard(p, s->nodes[i]);
}

/* Draws dashed lines between scopes: the weights of an evaluation, and the number that chooses the
 * best checkpoint. */
static void add_upward(dg_painter *p)
{
    const dg_checkpoint_conf *c = &p->g->checkpoint;

    for (int i = 0; i < p->g->n_evaluates; i++) {
        const dg_scope *s = p->g->evaluates[i];

        for (int k = 0; s->weights && k < s->n_nodes; k++)
            if (s->nodes[k]->model)
                dg_str_fmt(p->out,
                           "  n%d -> n%d [style=dashed, color=\"#fbc02d\", constraint=false, "
                           "label=\"weights\"];\n",
                           s->weights->number, s->nodes[k]->number);
    }
    if (!c->present)
        return;
    dg_str_add(p->out, "  checkpoint [shape=note, style=filled, fillcolor=\"#fffde7\", "
                       "color=\"#fbc02d\", label=<<B>checkpoint</B>");
    if (c->to) {
        dg_str_add(p->out, "<BR/><FONT POINT-SIZE=\"9\">");
        dg_str_xml(p->out, c->to);
        dg_str_add(p->out, "</FONT>");
    }
    dg_str when = { 0 };

    add_when(&when, "every ", c->every);
    if (when.s)
        dg_str_fmt(p->out, "<BR/><FONT POINT-SIZE=\"9\">%s</FONT>", when.s);
    dg_str_free(&when);
    dg_str_add(p->out, ">];\n");
    if (c->best) {
        dg_str_fmt(p->out,
                   "  n%d -> checkpoint [style=dashed, color=\"" DG_DOT_FAINT "\", label=<" BLANK
                   "best ",
                   c->best->number);
        dg_str_xml(p->out, c->best_key);
        dg_str_add(p->out, ">];\n");
    }
}

static bool belongs_to_node(const dg_painter *p, const dg_err *e)
{
    const dg_graph *g = p->g;

    for (int i = 0; i < dg_graph_n_scopes(g); i++) {
        const dg_scope *s = dg_graph_scope(g, i);

        for (int k = 0; k < s->n_nodes; k++)
            if (dg_dot_is_fault_of(e, s->nodes[k]))
                return true;
    }
    return false;
}

/* Lists errors that no node shows. */
static void add_other_faults(dg_painter *p)
{
    dg_str text = { 0 };

    for (int i = 0; i < dg_diag_n(p->faults); i++) {
        const dg_err *e = dg_diag_at(p->faults, i);

        if (e->severity == DG_ERROR && !belongs_to_node(p, e))
            dg_dot_lines(&text, dg_printf(p->arena, "line %d: %s", e->at.line, e->text), 60, 4);
    }
    if (text.s)
        dg_str_fmt(p->out,
                   "  faults [shape=box, style=\"rounded,filled\", color=\"" DG_DOT_RED
                   "\", fillcolor=\"#ffebee\", fontcolor=\"" DG_DOT_RED "\", label=<%s>];\n",
                   text.s);
    dg_str_free(&text);
}

/* True if all errors are the proof's: then the graph itself is complete. */
static bool only_of_ranks(const dg_diag *faults)
{
    for (int i = 0; i < dg_diag_n(faults); i++)
        if (dg_diag_at(faults, i)->severity == DG_ERROR &&
            strncmp(dg_diag_at(faults, i)->id, "DG-", 3) != 0)
            return false;
    return true;
}

static void find_marks(dg_painter *p)
{
    dg_params *params = dg_params_open();
    dg_diag *d = dg_diag_open(); /* errors were reported before */

    p->marks.path = DG_NEW_N(p->arena, p->g->n_nodes + 1, bool);
    p->marks.varies = DG_NEW_N(p->arena, p->g->n_nodes + 1, const char **);
    for (int i = 0; i < dg_graph_n_scopes(p->g); i++) {
        const dg_scope *s = dg_graph_scope(p->g, i);

        for (int k = 0; k < s->n_nodes; k++)
            p->marks.varies[s->nodes[k]->number] =
                DG_NEW_N(p->arena, s->nodes[k]->n_out + 1, const char *);
    }
    (void)!dg_vary_check(p->g, params, &p->marks, p->arena, d);
    dg_diag_close(&d);
    dg_params_close(&params);
}

static void render(dg_str *out, const dg_graph *g, const dg_diag *faults, const dg_heat *heat)
{
    dg_painter p = { .out = out, .g = g, .faults = faults, .arena = dg_arena_open(), .heat = heat };
    int n = 0;

    for (int i = 0; heat && i < heat->n; i++) {
        p.hottest = fmax(p.hottest, heat->rows[i].seconds);
        p.all += heat->rows[i].seconds;
    }

    p.shapes = dg_map_new(p.arena);
    if (only_of_ranks(faults)) {
        if (!heat) /* one meaning of colour per picture */
            find_marks(&p);
        for (int i = g->n_evaluates - 1; i >= 0; i--)
            find_shapes(&p, g->evaluates[i]);
        find_shapes(&p, g->train); /* last, so that a shared model shows the training shapes */
    }
    dg_str_add(
        out,
        "digraph pipeline {\n"
        "  graph [rankdir=TB, fontname=\"" DG_DOT_FONT "\", fontsize=13, fontcolor=\"" DG_DOT_INK
        "\", bgcolor=white, pad=0.3, nodesep=0.35, ranksep=0.45, labelloc=t, newrank=false];\n"
        "  node [shape=plain, fontname=\"" DG_DOT_FONT "\", fontsize=11, fontcolor=\"" DG_DOT_INK
        "\"];\n"
        "  edge [fontname=\"" DG_DOT_FONT "\", fontsize=8, fontcolor=\"" DG_DOT_FAINT
        "\", color=\"" DG_DOT_FAINT "\", arrowsize=0.6];\n"
        "  label=<<B>");
    dg_str_xml(out, g->name);
    dg_str_fmt(out, "</B>   <FONT POINT-SIZE=\"10\" COLOR=\"" DG_DOT_FAINT "\">seed %llu</FONT>",
               (unsigned long long)g->seed);
    if (p.marks.varies && g->mesh.item && (g->ranks > 1 || g->mesh.tp > 1))
        dg_str_fmt(out,
                   "<BR/><FONT POINT-SIZE=\"10\">what differs over" BLANK "<FONT COLOR=\"" OVER_DP
                   "\">dp</FONT>%s</FONT>",
                   g->mesh.tp > 1 ? ", <FONT COLOR=\"" OVER_TP
                                    "\">tp</FONT>, <FONT COLOR=\"" OVER_BOTH "\">both</FONT>"
                                  : "");
    dg_str_add(out, ">;\n");
    for (int i = 0; i < g->n_models; i++)
        add_scope(&p, g->models[i], n++);
    if (g->train)
        add_scope(&p, g->train, n++);
    for (int i = 0; i < g->n_evaluates; i++)
        add_scope(&p, g->evaluates[i], n++);
    add_upward(&p);
    add_other_faults(&p);
    dg_str_add(out, "}\n");
    dg_arena_close(&p.arena);
}

void dg_render_dot(dg_str *out, const dg_graph *g, const dg_diag *faults)
{
    render(out, g, faults, NULL);
}

void dg_render_heat(dg_str *out, const dg_graph *g, const dg_heat *heat)
{
    dg_diag *none = dg_diag_open();

    render(out, g, none, heat);
    dg_diag_close(&none);
}
