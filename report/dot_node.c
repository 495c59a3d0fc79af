/* dot_node.c: draws a node as a small table: a row of inputs; its id and class on the colour of its
 * role or time; its attributes as written; faults in red; a row of outputs. */
#include "report/dot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/structure.h"

enum { LINE = 34 }; /* bytes per line of text */

static const struct {
    const char *fill, *line;
} looks[] = {
    [DG_ROLE_OTHER] = { "#eceff1", "#90a4ae" },    [DG_ROLE_LOADER] = { "#bbdefb", "#64b5f6" },
    [DG_ROLE_SAMPLER] = { "#c5cae9", "#7986cb" },  [DG_ROLE_AUGMENT] = { "#b3e5fc", "#4fc3f7" },
    [DG_ROLE_BATCH] = { "#90caf9", "#42a5f5" },    [DG_ROLE_BACKBONE] = { "#c8e6c9", "#66bb6a" },
    [DG_ROLE_ENCODER] = { "#b2dfdb", "#4db6ac" },  [DG_ROLE_DENOISING] = { "#f8bbd0", "#f06292" },
    [DG_ROLE_DECODER] = { "#d1c4e9", "#9575cd" },  [DG_ROLE_LOSS] = { "#ffe0b2", "#ffb74d" },
    [DG_ROLE_GRADIENT] = { "#d7ccc8", "#a1887f" }, [DG_ROLE_OPTIMIZER] = { "#fff9c4", "#fbc02d" },
    [DG_ROLE_EVALUATE] = { "#b2ebf2", "#26c6da" }, [DG_ROLE_CONTROL] = { "#f0f4c3", "#c0ca33" },
    [DG_ROLE_SINK] = { "#cfd8dc", "#78909c" },
};

/* True if a line may end after n bytes of text. */
static bool may_break(const char *text, int n)
{
    return text[n] == ' ' || text[n - 1] == ',' || text[n - 1] == '/' || text[n - 1] == '_';
}

void dg_dot_lines(dg_str *out, const char *text, int width, int most)
{
    char line[128];

    for (int k = 0; *text && k < most; k++) {
        int n = (int)strlen(text);

        if (n > width) {
            n = width;
            while (n > width / 2 && !may_break(text, n))
                n--;
            if (!may_break(text, n))
                n = width;
            /* not inside a UTF-8 character */
            while (n > 1 && ((unsigned char)text[n] & 0xC0) == 0x80)
                n--;
        }
        memcpy(line, text, (size_t)n);
        line[n] = '\0';
        dg_str_add(out, k ? "<BR ALIGN=\"LEFT\"/>" : "");
        dg_str_xml(out, line);
        text += n;
        text += *text == ' ';
    }
    if (*text)
        dg_str_add(out, "...");
    dg_str_add(out, "<BR ALIGN=\"LEFT\"/>");
}

bool dg_dot_is_fault_of(const dg_err *e, const dg_node *node)
{
    if (e->severity != DG_ERROR)
        return false;
    if (e->at.node)
        return strcmp(e->at.node, node->path) == 0;
    return e->at.file && e->at.line == node->where.line && e->at.column == node->where.column &&
           strcmp(e->at.file, node->where.file) == 0;
}

bool dg_dot_is_faulty(const dg_painter *p, const dg_node *node)
{
    for (int i = 0; i < dg_diag_n(p->faults); i++)
        if (dg_dot_is_fault_of(dg_diag_at(p->faults, i), node))
            return true;
    return false;
}

static void add_ports(dg_painter *p, const dg_port *const *ports, int n, bool outputs)
{
    if (n == 0)
        return;
    dg_str_add(p->out, "<TR><TD BORDER=\"0\" CELLPADDING=\"0\"><TABLE BORDER=\"0\" "
                       "CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"3\"><TR>");
    for (int i = 0; i < n; i++) {
        dg_str_fmt(p->out, "<TD PORT=\"%c%d\"><FONT POINT-SIZE=\"8\" COLOR=\"" DG_DOT_FAINT "\">",
                   outputs ? 'o' : 'i', i);
        dg_str_xml(p->out, ports[i]->name);
        dg_str_add(p->out, "</FONT></TD>");
    }
    dg_str_add(p->out, "</TR></TABLE></TD></TR>");
}

static void add_attributes(dg_painter *p, const dg_node *node)
{
    dg_str text = { 0 };

    for (int i = 0; i < node->item->n_attrs; i++) {
        const dg_item_attr *a = &node->item->attrs[i];

        if (strcmp(a->name, "id") == 0 || (a->value[0] == '@' && a->value[1] != '@'))
            continue;
        dg_str_fmt(&text, "%s%s=%s", text.n ? " " : "", a->name, a->value);
    }
    for (const dg_item *k = node->item->first; k; k = k->next)
        if (k->name)
            dg_str_fmt(&text, "%s<%s>", text.n ? " " : "", k->name);
    if (text.s) {
        dg_str_add(
            p->out,
            "<TR><TD BALIGN=\"LEFT\" CELLPADDING=\"4\"><FONT POINT-SIZE=\"8\" COLOR=\"" DG_DOT_FAINT
            "\">");
        dg_dot_lines(p->out, text.s, LINE, 6);
        dg_str_add(p->out, "</FONT></TD></TR>");
    }
    dg_str_free(&text);
}

static void add_faults(dg_painter *p, const dg_node *node)
{
    for (int i = 0; i < dg_diag_n(p->faults); i++) {
        const dg_err *e = dg_diag_at(p->faults, i);

        if (!dg_dot_is_fault_of(e, node))
            continue;
        dg_str_add(
            p->out,
            "<TR><TD BGCOLOR=\"#ffebee\" BALIGN=\"LEFT\"><FONT POINT-SIZE=\"9\" COLOR=\"" DG_DOT_RED
            "\">");
        dg_dot_lines(p->out, dg_printf(p->arena, "line %d: %s", e->at.line, e->text), LINE + 6, 8);
        dg_str_add(p->out, "</FONT></TD></TR>");
    }
}

/* Seconds per step of the node; negative: unknown. */
static double heat_of(const dg_painter *p, const dg_node *node)
{
    for (int i = 0; i < p->heat->n; i++)
        if (strcmp(p->heat->rows[i].path, node->path) == 0)
            return p->heat->rows[i].seconds;
    return -1;
}

/* White to orange by the square root of the share, so that small shares stay distinguishable; all
 * fills suit dark text. */
static const char *heat_fill(const dg_painter *p, double seconds)
{
    static const int from[] = { 0xff, 0xfa, 0xf0 }, to[] = { 0xf5, 0x8a, 0x2c };
    double t = seconds > 0 && p->hottest > 0 ? sqrt(seconds / p->hottest) : 0;

    return dg_printf(p->arena, "#%02x%02x%02x", (unsigned)(from[0] + t * (to[0] - from[0])),
                     (unsigned)(from[1] + t * (to[1] - from[1])),
                     (unsigned)(from[2] + t * (to[2] - from[2])));
}

static void add_heat(dg_painter *p, double seconds)
{
    char text[32];

    if (seconds < 0)
        return;
    if (seconds < 0.01)
        snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
    else
        dg_human_time(seconds, text, sizeof text);
    dg_str_fmt(p->out, "<BR/><FONT POINT-SIZE=\"10\"><B>%s</B>  %.1f %%</FONT>", text,
               p->all > 0 ? 100 * seconds / p->all : 0);
}

void dg_dot_node(dg_painter *p, const dg_node *node)
{
    bool faulty = dg_dot_is_faulty(p, node),
         structural = node->class == &dg_class_input || node->class == &dg_class_use;
    const char *line = faulty ? DG_DOT_RED : structural ? "#90a4ae" : looks[node->class->role].line;
    const char *fill = node->broken && !node->model ? "#ffcdd2"
                       : structural                 ? "#fafafa"
                                                    : looks[node->class->role].fill;
    bool named = dg_item_find(node->item, "id") != NULL;
    double heat = p->heat ? heat_of(p, node) : -1;

    if (p->heat) {
        fill = heat < 0 ? "#f5f5f5" : heat_fill(p, heat);
        line = "#90a4ae";
    }

    dg_str_fmt(p->out,
               "    n%d [label=<<TABLE BORDER=\"%d\" COLOR=\"%s\" CELLBORDER=\"0\" "
               "CELLSPACING=\"0\" CELLPADDING=\"3\" BGCOLOR=\"white\" STYLE=\"ROUNDED\">",
               node->number, faulty ? 2 : 1, line);
    add_ports(p, node->in_ports, node->n_in, false);
    dg_str_fmt(p->out, "<TR><TD BGCOLOR=\"%s\" CELLPADDING=\"6\">", fill);
    if (named) {
        dg_str_add(p->out, "<B>");
        dg_str_xml(p->out, node->id);
        dg_str_add(p->out, "</B><BR/>");
    }
    dg_str_fmt(p->out, "<FONT POINT-SIZE=\"%d\">", named ? 9 : 11);
    dg_str_xml(p->out, node->element);
    dg_str_add(p->out, "</FONT>");
    add_heat(p, heat);
    dg_str_add(p->out, "</TD></TR>");
    add_attributes(p, node);
    add_faults(p, node);
    add_ports(p, node->out_ports, node->n_out, true);
    dg_str_add(p->out, "</TABLE>>];\n");
}
