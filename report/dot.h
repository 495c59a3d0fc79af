/* dot.h: shared by the halves of a picture: dot.c draws scopes and wires, dot_node.c nodes. */
#ifndef DG_REPORT_DOT_H
#define DG_REPORT_DOT_H

#include "base/map.h"
#include "report/render.h"
#include "proof/proof.h"

#define DG_DOT_FONT "DejaVu Sans"
#define DG_DOT_RED "#c62828"
#define DG_DOT_INK "#263238"
#define DG_DOT_FAINT "#607d8b"

typedef struct dg_painter {
    dg_str *out;
    const dg_graph *g;
    const dg_diag *faults;
    dg_arena *arena;
    dg_map *shapes;      /* "number.port[.key]" -> "[4,300,256]" */
    dg_vary_marks marks; /* varies is NULL if nothing was proved */
    const dg_heat *heat; /* NULL: colour nodes by role */
    double hottest, all; /* seconds: of the slowest node, and of all */
} dg_painter;

/* Appends text to a label in lines of at most `width` bytes; drops what exceeds `most` lines. */
void dg_dot_lines(dg_str *out, const char *text, int width, int most);
bool dg_dot_is_fault_of(const dg_err *e, const dg_node *node);
bool dg_dot_is_faulty(const dg_painter *p, const dg_node *node);
void dg_dot_node(dg_painter *p, const dg_node *node);

#endif
