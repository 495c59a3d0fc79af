/* let.h: names while a document is expanded: shared by let.c, which knows <let> and $name, and expand.c, which
 * knows the elements. */
#ifndef DG_GRAPH_LET_H
#define DG_GRAPH_LET_H

#include "graph/expand.h"
#include "graph/graph.h"
#include "graph/report.h"

enum { DG_EXPAND_MAX_ATTRS = 400000 }; /* attributes and lets of the whole document */

/* A name and what it stands for; the names known at a place are a chain, the innermost first. */
typedef struct dg_var {
    const char          *name, *value, *folder;
    dg_xml_attr         *attr; /* where it was written; NULL: --set, or a stack's index */
    const struct dg_var *next;
    int                  depth; /* names from here on */
    bool                *used;
} dg_var;

typedef struct dg_expander {
    dg_reporter         *report;
    dg_arena            *arena;
    dg_map              *files; /* real path -> dg_xml */
    dg_map              *sources;
    const dg_set        *sets;
    int                  n_sets;
    bool                *set_used;
    DG_VEC(const char *) top_lets; /* what --set can name */
    int                  n_items, n_attrs;
    size_t               n_bytes;
    bool                 full; /* a bound was reached: expand no more */
} dg_expander;

/* The file that is being expanded, and how it came in. */
typedef struct dg_place {
    const char            *folder, *path;
    dg_frame              *frame;
    const struct dg_place *up;
} dg_place;

/* Parameters of an include: the first n names of the chain. They reach the lets of the part itself. */
typedef struct dg_parameters {
    const dg_var *first;
    int           n;
} dg_parameters;

/* text with names replaced. *folder: of the file in which the result's first letters stand. */
const char   *dg_let_replace(dg_expander *x, const dg_place *p, const dg_var *env, const char *text,
                             dg_where at, const char **folder);
const dg_var *dg_let_push(dg_expander *x, const dg_var *env, dg_var v);
/* The names after a <let>; outer: the names known before the element that holds it. */
const dg_var *dg_let_read(dg_expander *x, const dg_place *p, const dg_xml *e, const dg_var *env,
                          const dg_var *outer, const dg_parameters *given);
void          dg_no_children(dg_expander *x, const dg_place *p, const dg_xml *e);

#endif
