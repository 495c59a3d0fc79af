/* expand.h: the document after expanding <let>, <include> and <stack>: plain elements with plain
 * attributes in document order, each with the include or repetition that it comes from. */
#ifndef DG_GRAPH_EXPAND_H
#define DG_GRAPH_EXPAND_H

#include "base/map.h"
#include "graph/xml.h"

typedef struct dg_load_errors dg_load_errors;

typedef struct dg_item_attr {
    const char *name, *value; /* with $names replaced */
    dg_where at, value_at;
    const char *folder; /* for relative paths; NULL: the current folder */
    bool bad;           /* a $name was invalid and reported: ignore the value */
} dg_item_attr;

/* One include, or one repetition of a stack. */
typedef struct dg_frame {
    struct dg_frame *up;
    const char *prefix; /* of ids inside: "head.", "layers.2."; "": none */
    const char *id;     /* NULL: an include without id */
    dg_where at;        /* position of <include> or <stack> */
    bool stack;
    struct dg_frame *before; /* the previous repetition */
    const dg_item_attr *in;  /* <stack in="@...">, read by the first repetition */
    void *last;              /* set by the loader: the last node inside */
} dg_frame;

typedef struct dg_item {
    const char *name; /* NULL: marks the end of `frame` */
    dg_where at;
    int n_attrs;
    dg_item_attr *attrs;
    dg_frame *frame; /* NULL: the pipeline's own file */
    struct dg_item *first, *last, *next;
} dg_item;

typedef struct dg_source {
    const char *text;
    size_t n;
} dg_source;

/* <let batch="auto"/>: the batch is 1 here, and a run chooses it before it reads the graph again.
 */
typedef struct dg_open_batch {
    dg_where at; /* the value */
    int most;    /* images; 0: the batch is a number */
} dg_open_batch;

typedef struct dg_set dg_set;
/* Parses text and everything it includes. sources receives a dg_source per file. *root may be set
 * in spite of errors, so that later stages can report theirs. */
int dg_items_read(dg_item **root, dg_load_errors *r, const char *text, size_t n, const char *file,
                  const dg_set *sets, int n_sets, dg_map *sources, dg_open_batch *batch)
    DG_MUST_USE;

const dg_item_attr *dg_item_find(const dg_item *item, const char *name);
/* False: a $name in one of its attributes was invalid. */
bool dg_item_whole(const dg_item *item);
/* True if the value of id="..." may be an id; false: that was reported. */
bool dg_item_id_ok(dg_load_errors *r, const dg_frame *frame, const dg_item_attr *id);
/* True for valid ids and names of lets and parameters: letters, digits, _ and -, starting with a
 * letter. */
bool dg_is_name(const char *s);

#endif
