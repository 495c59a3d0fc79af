/* cvat.c: "CVAT for images 1.1", one XML file for many images:
 *
 *   <annotations> <image name="a.jpg" width="640" height="480">
 *                     <box label="nut" xtl="1" ytl="2" xbr="30" ybr="40" rotation="15"/>
 *                     <polygon label="nut" points="1,2;30,2;30,40"/> </image>
 *
 * Boxes (turned clockwise by `rotation` degrees), polygons, ellipses and masks give the box around
 * them; <points>, <polyline>, <skeleton>, <tag> and others have none and are left out. */
#include "media/marks.h"

#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/str.h"
#include "media/xml.h"

typedef struct reader {
    dg_marks *marks;
    const char *file, *path;
    dg_marks_entry *image; /* the open <image>; NULL: none, or one that was refused */
    const dg_xml_reader *xml;
    int rc;
} reader;

static int refuse(reader *r, int line, const char *fmt, ...) DG_PRINTF(3, 4);
static int refuse(reader *r, int line, const char *fmt, ...)
{
    va_list ap;

    if (r->rc == 0) {
        va_start(ap, fmt);
        r->rc = dg_fail(r->marks->d, DG_EINPUT, (dg_where){ r->path, line, 0, NULL }, "cvat-syntax",
                        "%s", dg_vprintf(r->marks->arena, fmt, ap));
        va_end(ap);
    }
    return r->rc;
}

static int line_of(const reader *r)
{
    return dg_xml_line(r->xml);
}

static const char *text_of(const reader *r, const char *name)
{
    return dg_xml_attribute(r->xml, r->marks->arena, name);
}

/* A number; `absent` if there is no such attribute. NaN: refused. */
static double number_of(reader *r, const char *name, double absent)
{
    const char *text = text_of(r, name);
    double v;

    if (!text && !isnan(absent))
        return absent;
    if (text && dg_parse_f64(text, &v) && isfinite(v))
        return v;
    refuse(r, line_of(r), "%s=\"%s\": expected a number", name, text ? text : "");
    return NAN;
}

/* The box around a rectangle, or around the ellipse in it, that was turned about its centre. */
static void turn(dg_marked_object *x, double degrees, bool ellipse)
{
    const double pi = 3.14159265358979323846;
    const double c = cos(degrees * pi / 180), s = sin(degrees * pi / 180);
    const double cx = (x->x1 + x->x2) / 2, cy = (x->y1 + x->y2) / 2;
    const double w = (x->x2 - x->x1) / 2, h = (x->y2 - x->y1) / 2;
    const double rx = ellipse ? hypot(c * w, s * h) : fabs(c * w) + fabs(s * h);
    const double ry = ellipse ? hypot(s * w, c * h) : fabs(s * w) + fabs(c * h);

    if (fabs(degrees) <= 0)
        return;
    x->x1 = dg_index_round(cx - rx);
    x->y1 = dg_index_round(cy - ry);
    x->x2 = dg_index_round(cx + rx);
    x->y2 = dg_index_round(cy + ry);
}

/* points="x,y;x,y" */
static int take_points(reader *r, dg_marked_object *x)
{
    const char *text = text_of(r, "points");
    int n = 0;

    for (char *p = (char *)(uintptr_t)text, *end; p && *p; p = end, n++) {
        char *comma = strchr(p, ',');
        double v[2];

        end = p + strcspn(p, ";");
        if (*end)
            *end++ = '\0';
        if (!comma || comma >= end)
            return refuse(r, line_of(r), "points: expected x,y;x,y;... at \"%.40s\"", p);
        *comma = '\0';
        if (!dg_parse_f64(p, &v[0]) || !dg_parse_f64(comma + 1, &v[1]) || !isfinite(v[0]) ||
            !isfinite(v[1]))
            return refuse(r, line_of(r), "points: \"%.40s,%.40s\" are not two numbers", p,
                          comma + 1);
        x->x1 = fmin(n ? x->x1 : INFINITY, v[0]);
        x->y1 = fmin(n ? x->y1 : INFINITY, v[1]);
        x->x2 = fmax(n ? x->x2 : -INFINITY, v[0]);
        x->y2 = fmax(n ? x->y2 : -INFINITY, v[1]);
    }
    return n < 2 ? refuse(r, line_of(r), "a polygon of %d point%s has no box", n, dg_plural(n, "s"))
                 : 0;
}

static void take_numbers(reader *r, double v[4], const char *const names[4])
{
    for (int i = 0; i < 4; i++)
        v[i] = number_of(r, names[i], NAN);
}

static int take_shape(reader *r, const char *kind)
{
    static const char *const box[] = { "xtl", "ytl", "xbr", "ybr" };
    static const char *const ellipse[] = { "cx", "cy", "rx", "ry" };
    static const char *const mask[] = { "left", "top", "width", "height" };
    dg_marked_object x = { .line = line_of(r), .name = text_of(r, "label") };
    double v[4];

    if (strcmp(kind, "box") == 0) {
        take_numbers(r, v, box);
        x.x1 = v[0], x.y1 = v[1], x.x2 = v[2], x.y2 = v[3];
        turn(&x, number_of(r, "rotation", 0), false);
    } else if (strcmp(kind, "polygon") == 0) {
        take_points(r, &x);
    } else if (strcmp(kind, "ellipse") == 0) {
        take_numbers(r, v, ellipse);
        x.x1 = v[0] - v[2], x.y1 = v[1] - v[3], x.x2 = v[0] + v[2], x.y2 = v[1] + v[3];
        turn(&x, number_of(r, "rotation", 0), true);
    } else if (strcmp(kind, "mask") == 0) {
        take_numbers(r, v, mask);
        x.x1 = v[0], x.y1 = v[1], x.x2 = v[0] + v[2], x.y2 = v[1] + v[3];
    } else {
        return 0;
    }
    if (!x.name)
        refuse(r, x.line, "this <%s> has no label", kind);
    x.truncated = number_of(r, "occluded", 0);
    if (r->rc == 0)
        DG_PUSH(r->marks->arena, r->image->marks.objects, x);
    return r->rc;
}

static int begin_image(reader *r)
{
    const char *name = text_of(r, "name");
    const double w = number_of(r, "width", 0), h = number_of(r, "height", 0);
    dg_where at = { r->path, line_of(r), 0, NULL };
    bool known;

    r->image = NULL;
    if (!name || !*name)
        return refuse(r, at.line, "this <image> has no name");
    if (r->rc == 0 && (w < 0 || h < 0 || w > DG_IMAGE_MAX_SIDE || h > DG_IMAGE_MAX_SIDE ||
                       w != floor(w) || h != floor(h)))
        return refuse(r, at.line, "an image of %g x %g: expected whole pixels, at most %d", w, h,
                      DG_IMAGE_MAX_SIDE);
    if (r->rc)
        return r->rc;
    r->image = dg_marks_add(r->marks, r->file, name, &known);
    if (known) {
        r->image = NULL;
        r->rc = dg_fault_or_fail(r->marks->faults, r->marks->d, DG_FAULT_IMAGE_TWICE, at,
                                 "mark-twice", "%s is listed twice", name);
        r->rc = r->rc < 0 ? r->rc : 0;
        return r->rc;
    }
    r->image->marks.w = w;
    r->image->marks.h = h;
    return 0;
}

static int begin(void *ctx, const dg_xml_reader *xml, const char *name, int depth)
{
    reader *r = ctx;

    r->xml = xml;
    if (depth == 0 && strcmp(name, "annotations") != 0)
        return refuse(r, line_of(r), "this is a <%s>, expected <annotations>", name);
    if (depth == 1 && strcmp(name, "track") == 0) {
        refuse(r, line_of(r), "these are marks of a video, a <track> for each object");
        dg_help(r->marks->d, "export the task as \"CVAT for images 1.1\", with its images");
        return r->rc;
    }
    if (depth == 1)
        r->image = NULL;
    if (depth == 1 && strcmp(name, "image") == 0)
        begin_image(r);
    else if (depth == 2 && r->image)
        take_shape(r, name);
    if (r->rc < 0 && r->marks->faults) { /* leaves this image or shape out */
        dg_fault_take(r->marks->faults, DG_FAULT_ANNOTATION, -1, r->marks->d);
        r->rc = 0;
    }
    return r->rc;
}

static int parse(dg_marks *marks, const char *text, size_t n, const char *file, const char *path)
{
    static const dg_xml_events events = { "cvat-syntax", begin, NULL, NULL };
    reader r = { .marks = marks, .file = file, .path = path };

    return dg_xml_read(text, n, path, &events, &r, marks->d);
}

static bool is_cvat(const char *text, size_t n)
{
    return memmem(text, n, "<annotations>", 13) != NULL;
}

const dg_marks_table dg_cvat_form = { .end = ".xml", .parse = parse, .is = is_cvat };
