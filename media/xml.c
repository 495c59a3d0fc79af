/* xml.c: see xml.h. */
#include "media/xml.h"

#include <string.h>

#include <libxml/xmlreader.h>

#include "base/diag.h"

struct dg_xml_reader {
    xmlTextReaderPtr reader;
    const char *name, *id;
    int rc, line; /* line: where the latest text ended */
    dg_diag *d;
};

enum { MOST_LINES = 65535 }; /* libxml2 counts an element's lines in 16 bits */

/* Beyond them only texts have numbers; an element begins where the text before it ended. */
int dg_xml_line(const dg_xml_reader *x)
{
    xmlNodePtr node = xmlTextReaderCurrentNode(x->reader);
    const int line = node ? (int)xmlGetLineNo(node) : 0;

    return line >= MOST_LINES && node->type == XML_ELEMENT_NODE && x->line > 0 ? x->line : line;
}

const char *dg_xml_attribute(const dg_xml_reader *x, dg_arena *a, const char *name)
{
    xmlChar *v = xmlTextReaderGetAttribute(x->reader, (const xmlChar *)name);
    const char *text = v ? dg_strdup(a, (const char *)v) : NULL;

    xmlFree(v);
    return text;
}

void dg_xml_prepare(void)
{
    xmlInitParser();
}

static const char no_types[] = "document types and entities are not read";

static int refuse(dg_xml_reader *x, int line, const char *why)
{
    if (x->rc == 0)
        x->rc = dg_fail(x->d, DG_EINPUT, (dg_where){ x->name, line, 0, NULL }, x->id, "%.*s",
                        (int)strcspn(why, "\n"), why);
    return x->rc;
}

static void fault(void *ctx, xmlErrorPtr error)
{
    if (error->level >= XML_ERR_ERROR)
        refuse(ctx, error->line, error->message ? error->message : "not well-formed");
}

static int take_node(dg_xml_reader *x, const dg_xml_events *e, void *ctx)
{
    const int depth = xmlTextReaderDepth(x->reader);
    int rc = 0;

    switch (xmlTextReaderNodeType(x->reader)) {
    case XML_READER_TYPE_DOCUMENT_TYPE: /* of a text in another encoding than ASCII's */
        return refuse(x, 0, no_types);
    case XML_READER_TYPE_WHITESPACE:
    case XML_READER_TYPE_SIGNIFICANT_WHITESPACE:
        x->line = dg_xml_line(x);
        break;
    case XML_READER_TYPE_ELEMENT:
        if (depth >= DG_XML_MAX_DEPTH)
            return refuse(x, dg_xml_line(x), "elements are nested more than 64 deep");
        rc = e->begin(ctx, x, (const char *)xmlTextReaderConstName(x->reader), depth);
        if (rc == 0 && e->end && xmlTextReaderIsEmptyElement(x->reader))
            rc = e->end(ctx, x, depth);
        break;
    case XML_READER_TYPE_TEXT:
    case XML_READER_TYPE_CDATA:
        x->line = dg_xml_line(x);
        if (e->text)
            rc = e->text(ctx, x, (const char *)xmlTextReaderConstValue(x->reader));
        break;
    case XML_READER_TYPE_END_ELEMENT:
        if (e->end)
            rc = e->end(ctx, x, depth);
        break;
    default:
        break;
    }
    return rc;
}

int dg_xml_read(const char *text, size_t n, const char *name, const dg_xml_events *events,
                void *ctx, dg_diag *d)
{
    dg_xml_reader x = { .name = name, .id = events->id, .d = d };
    int more = 0;

    if (memmem(text, n, "<!DOCTYPE", 9))
        return refuse(&x, 0, no_types);
    if (n == 0 || n > INT32_MAX)
        return refuse(&x, 0, n ? "the file is larger than 2 GiB" : "the file is empty");
    x.reader = xmlReaderForMemory(text, (int)n, name, NULL, XML_PARSE_NONET | XML_PARSE_BIG_LINES);
    if (!x.reader)
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = name }, "out-of-memory",
                       "no memory to read it");
    xmlTextReaderSetStructuredErrorHandler(x.reader, fault, &x);
    while (x.rc == 0 && (more = xmlTextReaderRead(x.reader)) == 1) {
        int rc = take_node(&x, events, ctx);

        x.rc = x.rc ? x.rc : rc;
    }
    if (more < 0)
        refuse(&x, 0, "not well-formed");
    xmlFreeTextReader(x.reader);
    return x.rc;
}
