/* xml.h: a pipeline's text as a tree of elements, each with its exact position.
 *
 * What comes out is plain data: elements, attributes, nothing else. Text between elements,
 * DOCTYPE, entities of one's own, processing instructions and namespaces are errors; comments
 * are skipped. */
#ifndef DG_GRAPH_XML_H
#define DG_GRAPH_XML_H

#include "base/arena.h"
#include <detrgraph/core.h>

/* A file that is larger is not read: a pipeline is written by people. */
enum {
    DG_XML_MAX_BYTES = 4 << 20,
    DG_XML_MAX_DEPTH = 256,
    DG_XML_MAX_TAG = 64 << 10, /* bytes of one start tag */
    DG_XML_MAX_ATTRS = 256,    /* of one element */
    DG_XML_MAX_ELEMENTS = 100000,
};

typedef struct dg_xml_attr {
    const char *name, *value; /* value: entities replaced */
    dg_where    at;           /* of the name */
    dg_where    value_at;     /* of the first byte inside the quotes */
    bool        used;         /* of <let>: somebody asked for it */
} dg_xml_attr;

typedef struct dg_xml {
    const char    *name;
    dg_where       at; /* of '<' */
    int            n_attrs;
    dg_xml_attr   *attrs; /* in the order of writing */
    struct dg_xml *parent, *first, *last, *next;
} dg_xml;

/* Positions count bytes from 1. Everything lives in the arena, text is not kept. Only the first
 * fault of the syntax is reported: what follows it would be guesswork. */
int dg_xml_parse(dg_xml **root, dg_arena *a, const char *text, size_t n, const char *file,
                 dg_diag *d) DG_MUST_USE;

#endif
