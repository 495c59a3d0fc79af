/* expand.h: the document after <let>, <include> and <stack>: plain elements with plain
 * attributes, in document order, each knowing which include or repetition it stands in. */
#ifndef DG_GRAPH_EXPAND_H
#define DG_GRAPH_EXPAND_H

#include "base/map.h"
#include "graph/xml.h"

typedef struct dg_reporter dg_reporter;

typedef struct dg_item_attr {
    const char *name, *value; /* $names replaced */
    dg_where    at, value_at;
    const char *folder; /* what a relative path is relative to; NULL: the shell's */
    bool        bad;    /* a $name was wrong, and reported: the value means nothing */
} dg_item_attr;

/* One include, or one repetition of a stack's body. */
typedef struct dg_frame {
    struct dg_frame    *up;
    const char         *prefix; /* of ids inside: "head.", "layers.2."; "" where there is none */
    const char         *id;     /* NULL: an include without id */
    dg_where            at;     /* of <include> or <stack> */
    bool                stack;
    struct dg_frame    *before; /* the repetition before this one */
    const dg_item_attr *in;     /* <stack in="@...">, for the first repetition */
    void               *last;   /* for who reads items: the last node made inside */
} dg_frame;

typedef struct dg_item {
    const char     *name; /* NULL: frame ends here */
    dg_where        at;
    int             n_attrs;
    dg_item_attr   *attrs;
    dg_frame       *frame; /* NULL: the pipeline's file itself */
    struct dg_item *first, *last, *next;
} dg_item;

typedef struct dg_source {
    const char *text;
    size_t      n;
} dg_source;

typedef struct dg_set dg_set;
/* Parses text and all that it includes. sources receives a dg_source for every file. *root may
 * be set although errors were reported, so that what follows can report its own. */
int dg_items_read(dg_item **root, dg_reporter *r, const char *text, size_t n, const char *file,
                  const dg_set *sets, int n_sets, dg_map *sources) DG_MUST_USE;

const dg_item_attr *dg_item_find(const dg_item *item, const char *name);
/* ids, names of lets and parameters: letters, digits, _ and -, beginning with a letter. */
bool dg_is_name(const char *s);

#endif
