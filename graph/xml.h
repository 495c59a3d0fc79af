/* xml.h: parses a pipeline's text to a tree of elements with exact positions.
 *
 * Only elements and attributes: text between elements, DOCTYPE, custom entities, processing
 * instructions and namespaces are errors; comments are skipped. */
#ifndef DG_GRAPH_XML_H
#define DG_GRAPH_XML_H

#include "base/arena.h"
#include <detrgraph/core.h>

/* Limits; larger files are refused. */
enum {
    DG_XML_MAX_BYTES = 4 << 20,
    DG_XML_MAX_DEPTH = 256,
    DG_XML_MAX_TAG = 64 << 10, /* bytes per start tag */
    DG_XML_MAX_ATTRS = 256,    /* per element */
    DG_XML_MAX_ELEMENTS = 100000,
};

typedef struct dg_xml_attr {
    const char *name, *value; /* value: with entities replaced */
    dg_where at;              /* of the name */
    dg_where value_at;        /* of the first byte inside the quotes */
    bool used;                /* for <let>: the name was used */
} dg_xml_attr;

typedef struct dg_xml {
    const char *name;
    dg_where at; /* of '<' */
    int n_attrs;
    dg_xml_attr *attrs; /* in document order */
    struct dg_xml *parent, *first, *last, *next;
} dg_xml;

/* Columns count bytes from 1. The tree lives in the arena; text is not kept. Only the first syntax
 * error is reported. */
int dg_xml_parse(dg_xml **root, dg_arena *a, const char *text, size_t n, const char *file,
                 dg_diag *d) DG_MUST_USE;

#endif
