/* let.h: names during expansion: shared by let.c (<let> and $name) and expand.c (the elements). */
#ifndef DG_GRAPH_LET_H
#define DG_GRAPH_LET_H

#include "graph/expand.h"
#include "graph/graph.h"
#include "graph/load_error.h"

enum { DG_EXPAND_MAX_ATTRS = 400000 }; /* in the whole document, lets included */

/* A name and its value. The names visible at a place form a chain, innermost first. */
typedef struct dg_var {
    const char *name, *value, *folder;
    dg_xml_attr *attr; /* where it was written; NULL: from --set, or a stack's index */
    const struct dg_var *next;
    int depth; /* length of the chain */
    bool *used;
    bool bad; /* a $name in it was invalid and reported: so is what is written with it */
    const dg_item_attr *given; /* a parameter of an include, where it was written; else NULL */
} dg_var;

typedef struct dg_expander {
    dg_load_errors *report;
    dg_arena *arena;
    dg_map *files; /* canonical path -> dg_xml */
    dg_map *sources;
    const char *home; /* the folder of the pipeline's file */
    const dg_set *sets;
    int n_sets;
    bool *set_used;
    DG_VEC(const char *) top_lets; /* names that --set may use */
    int n_items, n_attrs;
    size_t n_bytes;
    dg_open_batch *batch;
    bool full; /* a bound was reached: stop expanding */
} dg_expander;

/* The file being expanded, and how it was included. */
typedef struct dg_expansion {
    const char *folder, *path;
    dg_frame *frame;
    const struct dg_expansion *up;
} dg_expansion;

/* Parameters of an include: the first n names of the chain. They override the part's own lets. */
typedef struct dg_parameters {
    const dg_var *first;
    int n;
} dg_parameters;

/* text with $names replaced. *folder: of the file that the beginning of the result comes from.
 * *bad: a name was invalid, which was reported. */
const char *dg_let_replace(dg_expander *x, const dg_expansion *p, const dg_var *env,
                           const char *text, dg_where at, const char **folder, bool *bad);
const dg_var *dg_let_push(dg_expander *x, const dg_var *env, dg_var v);
/* The chain after a <let>; outer: the names visible before the enclosing element. */
const dg_var *dg_let_read(dg_expander *x, const dg_expansion *p, const dg_xml *e, const dg_var *env,
                          const dg_var *outer, const dg_parameters *given);
void dg_no_children(dg_expander *x, const dg_expansion *p, const dg_xml *e);

#endif
