/* xml.h: reads XML as events; no other file of media uses libxml2. */
#ifndef DG_MEDIA_XML_H
#define DG_MEDIA_XML_H

#include "base/arena.h"

typedef struct dg_xml_reader dg_xml_reader;

/* Called in the order of the text; a negative result stops reading and is returned. */
typedef struct dg_xml_events {
    const char *id; /* of errors in the syntax: "voc-syntax" */
    int (*begin)(void *ctx, const dg_xml_reader *x, const char *name, int depth); /* root: 0 */
    int (*text)(void *ctx, const dg_xml_reader *x, const char *text);             /* or NULL */
    int (*end)(void *ctx, const dg_xml_reader *x, int depth);                     /* or NULL */
} dg_xml_events;

enum { DG_XML_MAX_DEPTH = 64 };

/* Document types and entities are refused. Thread-safe after dg_xml_prepare. */
int dg_xml_read(const char *text, size_t n, const char *name, const dg_xml_events *events,
                void *ctx, dg_diag *d) DG_MUST_USE;
void dg_xml_prepare(void);
int dg_xml_line(const dg_xml_reader *x);
/* An attribute of the element that begins; NULL: it has none. */
const char *dg_xml_attribute(const dg_xml_reader *x, dg_arena *a, const char *name);

#endif
