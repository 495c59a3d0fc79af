/* xml.c: reads XML with libxml2's SAX2 interface over the whole file in memory; the only file of
 * this room that uses libxml2.
 *
 * Positions: when a start tag is reported, consumed + (cur - base) is just before its '>', and '<'
 * cannot occur in attribute values, so walking back to '<' finds the tag; walking the tag finds its
 * attributes. Before parsing, a scan refuses what would cost time or memory: long tags, many
 * attributes (the parser compares all pairs), and what pipelines may not contain: text, DOCTYPE,
 * encodings other than UTF-8. */
#include "graph/xml.h"

#include <string.h>
#include <strings.h>

#include <libxml/parser.h>
#include <libxml/parserInternals.h>

typedef struct reader {
    dg_arena *arena;
    dg_diag *diag;
    const char *text, *file;
    size_t n;
    /* a cursor that moves forward: byte, and first byte of its line */
    size_t at, line_start;
    int line, depth, n_elements, rc;
    dg_xml *root, *open;
    xmlParserCtxtPtr parser;
} reader;

static dg_where where(reader *r, size_t byte)
{
    if (byte > r->n)
        byte = r->n;
    if (byte < r->at) { /* an error may be before the last tag */
        r->at = r->line_start = 0;
        r->line = 1;
    }
    for (; r->at < byte; r->at++)
        if (r->text[r->at] == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        }
    return (dg_where){ r->file, r->line, (int)(byte - r->line_start) + 1, NULL };
}

static int refuse(reader *r, size_t byte, const char *id, const char *fmt, ...) DG_PRINTF(4, 5);
static int refuse(reader *r, size_t byte, const char *id, const char *fmt, ...)
{
    va_list ap;

    if (r->rc == 0) {
        va_start(ap, fmt);
        r->rc =
            dg_fail(r->diag, DG_EINPUT, where(r, byte), id, "%s", dg_vprintf(r->arena, fmt, ap));
        va_end(ap);
    }
    if (r->parser)
        xmlStopParser(r->parser);
    return r->rc;
}

/* ---- scan before parsing --------------------------------------------------------------------- */

/* The first byte that is not valid UTF-8 (Unicode 15, table 3-7) or not allowed in XML; n if there
 * is none. */
static size_t first_bad_byte(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;

    for (size_t i = 0; i < n;) {
        unsigned char c = s[i], lo = 0x80, hi = 0xBF;
        size_t more = c < 0x80 ? 0 : c < 0xC2 ? 9 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 9;

        if (c == 0xE0)
            lo = 0xA0;
        else if (c == 0xED)
            hi = 0x9F;
        else if (c == 0xF0)
            lo = 0x90;
        else if (c == 0xF4)
            hi = 0x8F;
        if (more == 9 || more >= n - i || c == 0)
            return i;
        for (size_t k = 1; k <= more; k++, lo = 0x80, hi = 0xBF)
            if (s[i + k] < lo || s[i + k] > hi)
                return i;
        i += more + 1;
    }
    return n;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool begins(const reader *r, size_t i, const char *what)
{
    size_t len = strlen(what);

    return len <= r->n - i && memcmp(r->text + i, what, len) == 0;
}

static size_t skip_past(const reader *r, size_t i, const char *end)
{
    const char *p = memmem(r->text + i, r->n - i, end, strlen(end));

    return p ? (size_t)(p - r->text) + strlen(end) : r->n;
}

/* Checks that the declared encoding is UTF-8, ignoring case. */
static int scan_declaration(reader *r, size_t begin)
{
    char text[256]; /* the declaration; a longer one is invalid anyway */
    size_t n = skip_past(r, begin, "?>") - begin;

    if (n >= sizeof text)
        n = sizeof text - 1;
    memcpy(text, r->text + begin, n);
    text[n] = '\0';
    char *p = strstr(text, "encoding");

    if (!p)
        return 0;
    p += strcspn(p, "\"'");
    p += *p != '\0';
    size_t len = strcspn(p, "\"'>");

    if (len != 5 || strncasecmp(p, "utf-8", 5) != 0)
        return refuse(r, begin + (size_t)(p - text), "xml-encoding",
                      "the encoding is %.*s, but pipelines are UTF-8", (int)len, p);
    return 0;
}

static int scan_tag(reader *r, size_t *i)
{
    size_t begin = *i, k = begin + 1;
    int n_attrs = 0;
    char quote = 0;

    for (; k < r->n; k++) {
        char c = r->text[k];

        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '=')
            n_attrs++;
        else if (c == '>')
            break;
        if (c == '<') /* not well-formed: the parser reports it and stops */
            break;
        if (k - begin >= DG_XML_MAX_TAG)
            return refuse(r, begin, "xml-tag-too-long", "this tag is longer than %d KiB",
                          DG_XML_MAX_TAG >> 10);
        if (n_attrs > DG_XML_MAX_ATTRS)
            return refuse(r, begin, "xml-too-many-attributes",
                          "this element has more than %d attributes", DG_XML_MAX_ATTRS);
    }
    *i = k < r->n && r->text[k] == '>' ? k + 1 : k;
    return 0;
}

static int scan(reader *r)
{
    size_t bad = first_bad_byte(r->text, r->n);

    if (bad < r->n)
        return refuse(r, bad, "xml-encoding", "byte 0x%02X is not UTF-8 text; pipelines are UTF-8",
                      (unsigned char)r->text[bad]);
    for (size_t i = begins(r, 0, "\xEF\xBB\xBF") ? 3 : 0; i < r->n;) {
        if (is_space(r->text[i])) {
            i++;
            continue;
        }
        if (r->text[i] != '<')
            return refuse(r, i, "xml-text",
                          "text where an element is expected: a pipeline consists of elements and "
                          "attributes");
        if (begins(r, i, "<?xml") && i + 5 < r->n && is_space(r->text[i + 5]) &&
            scan_declaration(r, i))
            return r->rc;
        if (begins(r, i, "<!--")) {
            i = skip_past(r, i + 4, "-->");
        } else if (begins(r, i, "<?")) {
            i = skip_past(r, i + 2, "?>");
        } else if (begins(r, i, "<![CDATA[")) {
            return refuse(r, i, "xml-text",
                          "a CDATA section: a pipeline consists of elements and attributes");
        } else if (begins(r, i, "<!")) {
            return refuse(r, i, "xml-doctype", "document types and entities are not read");
        } else if (scan_tag(r, &i)) {
            return r->rc;
        }
    }
    return 0;
}

/* ---- parser callbacks ------------------------------------------------------------------------ */

static size_t byte_of(const reader *r)
{
    long n = xmlByteConsumed(r->parser);

    return n < 0 ? 0 : (size_t)n;
}

/* Walks the start tag at byte `tag` and sets the positions of its attributes, which are in document
 * order. */
static void place_attributes(reader *r, dg_xml *e, size_t tag)
{
    size_t i = tag + 1 + strlen(e->name);

    for (int k = 0; k < e->n_attrs; k++) {
        while (i < r->n && is_space(r->text[i]))
            i++;
        e->attrs[k].at = where(r, i);
        while (i < r->n && r->text[i] != '"' && r->text[i] != '\'')
            i++;
        if (i >= r->n)
            return;
        char quote = r->text[i++];

        e->attrs[k].value_at = where(r, i);
        while (i < r->n && r->text[i] != quote)
            i++;
        i++;
    }
}

static void start(void *ctx, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri,
                  int n_namespaces, const xmlChar **namespaces, int n_attrs, int n_defaulted,
                  const xmlChar **attrs)
{
    reader *r = ctx;
    size_t tag = byte_of(r);

    (void)uri, (void)namespaces, (void)n_defaulted;
    if (r->rc)
        return;
    if (tag >= r->n)
        tag = r->n - 1;
    while (tag > 0 && r->text[tag] != '<')
        tag--;
    if (r->depth >= DG_XML_MAX_DEPTH) {
        refuse(r, tag, "xml-too-deep", "elements are nested more than %d deep", DG_XML_MAX_DEPTH);
        return;
    }
    if (++r->n_elements > DG_XML_MAX_ELEMENTS) {
        refuse(r, tag, "xml-too-many-elements", "more than %d elements", DG_XML_MAX_ELEMENTS);
        return;
    }
    dg_xml *e = DG_NEW(r->arena, dg_xml);

    e->name = dg_strdup(r->arena, (const char *)name);
    e->at = where(r, tag);
    e->attrs = DG_NEW_N(r->arena, n_attrs, dg_xml_attr);
    for (int k = 0; k < n_attrs; k++, attrs += 5) {
        if (attrs[1])
            prefix = attrs[1];
        e->attrs[k].name = dg_strdup(r->arena, (const char *)attrs[0]);
        e->attrs[k].value =
            dg_strndup(r->arena, (const char *)attrs[3], (size_t)(attrs[4] - attrs[3]));
    }
    e->n_attrs = n_attrs;
    if (prefix || n_namespaces > 0) {
        refuse(r, tag, "xml-namespace", "<%s> uses a namespace; a pipeline has none", e->name);
        return;
    }
    place_attributes(r, e, tag);
    e->parent = r->open;
    if (!e->parent)
        r->root = e;
    else if (e->parent->last)
        e->parent->last = e->parent->last->next = e;
    else
        e->parent->first = e->parent->last = e;
    r->open = e;
    r->depth++;
}

static void end(void *ctx, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri)
{
    reader *r = ctx;

    (void)name, (void)prefix, (void)uri;
    if (r->rc)
        return;
    r->open = r->open->parent;
    r->depth--;
}

static void instruction(void *ctx, const xmlChar *target, const xmlChar *data)
{
    reader *r = ctx;
    size_t i = byte_of(r);

    (void)data;
    while (i > 0 && !begins(r, i, "<?"))
        i--;
    refuse(r, i, "xml-instruction", "processing instruction <?%s ...?>: none are read",
           (const char *)target);
}

static void fault(void *ctx, xmlErrorPtr error)
{
    reader *r = ctx;
    const char *message = error->message ? error->message : "not well-formed";

    if (error->level < XML_ERR_ERROR)
        return;
    refuse(r, byte_of(r), "xml-syntax", "%.*s", (int)strcspn(message, "\n"), message);
}

int dg_xml_parse(dg_xml **root, dg_arena *a, const char *text, size_t n, const char *file,
                 dg_diag *d)
{
    reader r = { .arena = a, .diag = d, .text = text, .n = n, .file = file, .line = 1 };
    xmlSAXHandler sax = { .initialized = XML_SAX2_MAGIC,
                          .startElementNs = start,
                          .endElementNs = end,
                          .processingInstruction = instruction,
                          .serror = fault };

    *root = NULL;
    if (n > DG_XML_MAX_BYTES)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = file }, "file-too-large",
                       "%zu bytes, but a pipeline has at most %d MiB", n, DG_XML_MAX_BYTES >> 20);
    if (scan(&r))
        return r.rc;
    r.parser = xmlCreateMemoryParserCtxt(text, (int)n);
    if (!r.parser) /* libxml2 makes no parser for empty text */
        return refuse(&r, 0, "xml-syntax", "the file is empty");
    xmlSAXHandler *own = r.parser->sax;

    r.parser->sax = &sax;
    r.parser->userData = &r;
    xmlCtxtUseOptions(r.parser, XML_PARSE_NONET | XML_PARSE_NOENT);
    if (xmlParseDocument(r.parser) != 0 && r.rc == 0)
        refuse(&r, n, "xml-syntax", "the document is not well-formed");
    r.parser->sax = own;
    xmlFreeParserCtxt(r.parser);
    if (r.rc == 0)
        *root = r.root;
    return r.rc;
}
