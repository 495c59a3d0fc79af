/* labelme.c: LabelMe's files, one JSON object for an image:
 *
 *   {"imagePath": "a.jpg", "imageWidth": 640, "imageHeight": 480, "imageData": "..." or null,
 *    "shapes": [{"label": "nut", "shape_type": "rectangle", "points": [[x, y], ...]}, ...]}
 *
 * Rectangles, polygons, circles (centre and a point of the edge) and masks give the box around
 * them; points and lines have none and are left out. */
#include "media/marks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/str.h"
#include "media/json.h"

/* A list of two finite numbers. */
static bool is_point(const dg_json *p)
{
    return p->kind == DG_JSON_ARRAY && p->n == 2 && p->items[0].kind == DG_JSON_NUMBER &&
           p->items[1].kind == DG_JSON_NUMBER && isfinite(p->items[0].number) &&
           isfinite(p->items[1].number);
}

static bool has_no_box(const char *type)
{
    static const char *const types[] = { "point", "points", "line", "linestrip" };

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

/* The box around the points. */
static int take_points(dg_marked_object *x, const dg_json *points, dg_diag *d)
{
    for (int i = 0; i < points->n; i++) {
        const dg_json *p = &points->items[i];

        if (!is_point(p))
            return dg_fail(d, DG_EINPUT, p->at, "labelme-shape",
                           "expected a point, a list of two numbers");
        x->x1 = fmin(i ? x->x1 : INFINITY, p->items[0].number);
        x->y1 = fmin(i ? x->y1 : INFINITY, p->items[1].number);
        x->x2 = fmax(i ? x->x2 : -INFINITY, p->items[0].number);
        x->y2 = fmax(i ? x->y2 : -INFINITY, p->items[1].number);
    }
    return 0;
}

static void make_circle(dg_marked_object *x, const dg_json *points)
{
    const dg_json *centre = points->items[0].items, *edge = points->items[1].items;
    const double r = hypot(edge[0].number - centre[0].number, edge[1].number - centre[1].number);

    x->x1 = centre[0].number - r;
    x->y1 = centre[1].number - r;
    x->x2 = centre[0].number + r;
    x->y2 = centre[1].number + r;
}

static int take_shape(dg_marked_image *out, dg_arena *a, const dg_json *shape, dg_diag *d)
{
    dg_marked_object x = { .line = shape->at.line };
    const char *type = dg_json_text(shape, "shape_type");
    const dg_json *label, *points;
    int rc;

    DG_TRY(dg_json_need(&label, shape, "label", DG_JSON_STRING, d));
    DG_TRY(dg_json_need(&points, shape, "points", DG_JSON_ARRAY, d));
    if (has_no_box(type))
        return 0;
    if (points->n < 2)
        return dg_fail(d, DG_EINPUT, points->at, "labelme-shape",
                       "a shape of %d point%s has no box", points->n, dg_plural(points->n, "s"));
    DG_TRY(take_points(&x, points, d));
    if (strcmp(type, "circle") == 0 && points->n == 2)
        make_circle(&x, points);
    x.name = dg_strdup(a, label->text);
    DG_PUSH(a, out->objects, x);
out:
    return rc;
}

/* A side in pixels; 0 if it is absent or null. */
static int take_side(double *out, const dg_json *doc, const char *key, dg_diag *d)
{
    const dg_json *v = dg_json_get(doc, key);

    *out = 0;
    if (!v || v->kind != DG_JSON_NUMBER)
        return 0;
    if (v->number < 0 || v->number > DG_IMAGE_MAX_SIDE || v->number != floor(v->number))
        return dg_fail(d, DG_EINPUT, v->at, "labelme-shape",
                       "\"%s\" is %g, expected whole pixels, at most %d", key, v->number,
                       DG_IMAGE_MAX_SIDE);
    *out = v->number;
    return 0;
}

/* The tree, with the pixels that many files hold ("imageData"), is freed at once. */
static int parse(dg_marked_image *out, dg_arena *a, const char *text, size_t n, const char *name,
                 dg_diag *d)
{
    dg_arena *tree = dg_arena_open();
    const dg_json *doc, *shapes;
    const char *image;
    int rc;

    *out = (dg_marked_image){ 0 };
    DG_TRY(dg_json_parse(&doc, tree, text, n, name, d));
    DG_TRY(dg_json_need(&shapes, doc, "shapes", DG_JSON_ARRAY, d));
    DG_TRY(take_side(&out->w, doc, "imageWidth", d));
    DG_TRY(take_side(&out->h, doc, "imageHeight", d));
    image = dg_json_text(doc, "imagePath");
    image = strrchr(image, '\\') ? strrchr(image, '\\') + 1 : image; /* written on Windows */
    out->file_name = *image ? dg_strdup(a, image) : NULL;
    for (int i = 0; i < shapes->n; i++)
        DG_TRY(take_shape(out, a, &shapes->items[i], d));
out:
    dg_arena_close(&tree);
    return rc;
}

/* LabelMe writes "shapes" before "imageData". */
static bool is_labelme(const char *path)
{
    return dg_marks_begins(path, "\"shapes\"") && !dg_marks_begins(path, "\"annotations\"");
}

const dg_marks_form dg_labelme_form = {
    .end = ".json",
    .folder = { "annotations", "labels", "json" },
    .parse = parse,
    .is = is_labelme,
};
