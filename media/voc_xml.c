/* voc_xml.c: parses one VOC annotation.
 *
 *   <annotation> <filename> <size> <width> <height> </size>
 *                <object> <name> <difficult> <truncated> <bndbox> <xmin> <ymin> <xmax> <ymax>
 *
 * Depth and parent decide what a name means, so that a <part> inside an object, which also has a
 * name and a box, is not mistaken for it. */
#include "media/voc.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "media/xml.h"

typedef enum scope { FILE_SCOPE, SIZE_SCOPE, OBJECT_SCOPE, BOX_SCOPE } scope;

typedef enum kind { TEXT, NUMBER, FLAG } kind; /* FLAG: a number, or a word for 0 or 1 */

typedef struct field {
    scope scope;
    const char *name;
    kind kind;
    size_t offset; /* in dg_marked_image or dg_marked_object, bytes */
    uint32_t bit;
} field;

static const field fields[] = {
    { FILE_SCOPE, "filename", TEXT, offsetof(dg_marked_image, file_name), 0 },
    { SIZE_SCOPE, "width", NUMBER, offsetof(dg_marked_image, w), 0 },
    { SIZE_SCOPE, "height", NUMBER, offsetof(dg_marked_image, h), 0 },
    { OBJECT_SCOPE, "name", TEXT, offsetof(dg_marked_object, name), 0 },
    { OBJECT_SCOPE, "difficult", FLAG, offsetof(dg_marked_object, difficult), 0 },
    { OBJECT_SCOPE, "truncated", FLAG, offsetof(dg_marked_object, truncated), 0 },
    { BOX_SCOPE, "xmin", NUMBER, offsetof(dg_marked_object, x1), 1 },
    { BOX_SCOPE, "ymin", NUMBER, offsetof(dg_marked_object, y1), 2 },
    { BOX_SCOPE, "xmax", NUMBER, offsetof(dg_marked_object, x2), 4 },
    { BOX_SCOPE, "ymax", NUMBER, offsetof(dg_marked_object, y2), 8 },
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

typedef struct reader {
    dg_marked_image *out;
    dg_arena *arena;
    const char *name;
    dg_marked_object *object; /* the open <object>, or NULL */
    const field *field;       /* the field whose element is open, or NULL */
    bool in_size, in_box;
    int rc;
    const dg_xml_reader *xml;
    dg_diag *d;
} reader;

static int line_of(const reader *r)
{
    return dg_xml_line(r->xml);
}

static int refuse_object(reader *r, int line, const char *id, const char *fmt, ...) DG_PRINTF(4, 5);
static int refuse_object(reader *r, int line, const char *id, const char *fmt, ...)
{
    va_list ap;

    if (r->rc == 0) {
        va_start(ap, fmt);
        r->rc = dg_fail(r->d, DG_EINPUT, (dg_where){ r->name, line, 0, NULL }, id, "%s",
                        dg_vprintf(r->arena, fmt, ap));
        va_end(ap);
    }
    return r->rc;
}

static int close_object(reader *r)
{
    const dg_marked_object *x = r->object;

    r->object = NULL;
    r->in_box = false;
    if (!x)
        return 0;
    if (!x->name)
        return refuse_object(r, x->line, "voc-object", "this <object> has no <name>");
    if (x->has != 15)
        return refuse_object(
            r, x->line, "voc-object",
            "this <object> (%s) has no <bndbox> with <xmin>, <ymin>, <xmax> and <ymax>", x->name);
    return 0;
}

static int begin(void *ctx, const dg_xml_reader *xml, const char *name, int depth)
{
    reader *r = ctx;

    r->xml = xml;
    if (depth == 0 && strcmp(name, "annotation") != 0)
        return refuse_object(r, line_of(r), "voc-syntax",
                             "this is a <%s>, expected an <annotation>", name);
    if (depth == 1) {
        if (close_object(r))
            return r->rc;
        r->in_size = strcmp(name, "size") == 0;
        if (strcmp(name, "object") == 0) {
            DG_PUSH(r->arena, r->out->objects, ((dg_marked_object){ .line = line_of(r) }));
            r->object = &r->out->objects.items[r->out->objects.n - 1];
        }
    }
    if (depth == 2)
        r->in_box = r->object && strcmp(name, "bndbox") == 0;

    const scope here = depth == 1                 ? FILE_SCOPE
                       : depth == 2 && r->in_size ? SIZE_SCOPE
                       : depth == 2               ? OBJECT_SCOPE
                                                  : BOX_SCOPE;

    r->field = NULL;
    if ((depth == 3 && !r->in_box) || depth > 3 || depth == 0 ||
        (here == OBJECT_SCOPE && !r->object))
        return 0;
    for (int i = 0; i < N_FIELDS && !r->field; i++)
        if (fields[i].scope == here && strcmp(fields[i].name, name) == 0)
            r->field = &fields[i];
    return 0;
}

/* Words that tools write for 0 and 1. */
static bool is_word(const char *value, double *number)
{
    static const char *const words[] = { "true", "yes", "false", "no", "unspecified", "" };

    for (int i = 0; i < 6; i++)
        if (strcasecmp(value, words[i]) == 0) {
            *number = i < 2;
            return true;
        }
    return false;
}

static int take_text(reader *r, const char *text)
{
    const field *f = r->field;
    const size_t before = strspn(text, " \t\r\n");
    size_t n = strlen(text);

    while (n > before && strchr(" \t\r\n", text[n - 1]))
        n--;

    char *value = dg_strndup(r->arena, text + before, n - before);
    char *into = (char *)(f->scope <= SIZE_SCOPE ? (void *)r->out : (void *)r->object) + f->offset;

    if (f->kind == TEXT) {
        *(const char **)(void *)into = value;
        return 0;
    }

    double *number = (double *)(void *)into;

    if (r->object && r->object->has & f->bit)
        return refuse_object(r, line_of(r), "voc-object", "<%s> stands twice in this <object>",
                             f->name);
    if (f->kind == FLAG && is_word(value, number))
        return 0;
    if (!dg_parse_f64(value, number) || !isfinite(*number))
        return refuse_object(r, line_of(r), "voc-value", "<%s> is \"%s\", expected a number",
                             f->name, value);
    if (f->scope == SIZE_SCOPE &&
        (*number < 0 || *number > DG_IMAGE_MAX_SIDE || *number != floor(*number)))
        return refuse_object(r, line_of(r), "voc-value",
                             "<%s> is \"%s\", expected whole pixels, at most %d", f->name, value,
                             DG_IMAGE_MAX_SIDE);
    if (r->object)
        r->object->has |= f->bit;
    return 0;
}

static int text(void *ctx, const dg_xml_reader *xml, const char *text)
{
    reader *r = ctx;
    int rc = 0;

    r->xml = xml;
    if (r->field)
        rc = take_text(r, text);
    r->field = NULL;
    return rc;
}

static int end(void *ctx, const dg_xml_reader *xml, int depth)
{
    reader *r = ctx;

    r->xml = xml;
    r->field = NULL;
    return depth == 0 ? close_object(r) : 0;
}

void dg_voc_prepare(void)
{
    dg_xml_prepare();
}

int dg_voc_parse(dg_marked_image *out, dg_arena *a, const char *bytes, size_t n, const char *name,
                 dg_diag *d)
{
    static const dg_xml_events events = { "voc-syntax", begin, text, end };
    reader r = { .out = out, .arena = a, .name = name, .d = d };

    *out = (dg_marked_image){ 0 };
    return dg_xml_read(bytes, n, name, &events, &r, d);
}
