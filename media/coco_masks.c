/* coco_masks.c: the masks of annotations: polygons, and run lengths as numbers or as text. They
 * stay in the annotation file's text, or in the index as polygons, and are made when they are
 * wanted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "media/coco.h"
#include "media/index.h"
#include "media/json.h"
#include "media/mask.h"
#include "media/rle.h"

enum { FARTHEST = 1 << 20 /* pixels, of a polygon's points */ };

typedef dg_mask_text reading;

static int refuse(const reading *r, const char *what)
{
    dg_where where = { .file = r->name };

    if (r->at)
        where = dg_json_where(r->text, r->n, r->name, r->at);
    return dg_fail(r->d, DG_EINPUT, where, "mask-form", "the mask of %s %lld %s", r->noun,
                   (long long)r->id, what);
}

static int no_memory(const reading *r)
{
    return dg_fail(r->d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                   "no memory for a mask of %d x %d pixels", r->w, r->h);
}

/* ---- forms ----------------------------------------------------------------------------------- */

static int add_polygon(const reading *r, dg_columns *c, const dg_json *list, dg_arena *a)
{
    double *xy;

    if (list->kind != DG_JSON_ARRAY || list->n < 6 || list->n % 2)
        return refuse(r, "has a polygon that is not a list of 3 or more points x, y");
    xy = DG_NEW_N(a, list->n, double);
    for (int i = 0; i < list->n; i++) {
        xy[i] = list->items[i].kind == DG_JSON_NUMBER ? list->items[i].number : NAN;
        if (!(fabs(xy[i]) < FARTHEST))
            return refuse(r, "has a polygon with a point that is not two numbers of pixels");
    }
    dg_columns_polygon(c, xy, list->n / 2);
    return 0;
}

static int read_polygons(dg_rle *out, const reading *r, const dg_json *lists, dg_arena *a)
{
    dg_columns c;
    int rc = 0;

    if (!dg_columns_open(&c, r->w, r->h))
        return no_memory(r);
    for (int i = 0; i < lists->n && rc == 0; i++)
        rc = add_polygon(r, &c, &lists->items[i], a);
    if (rc == 0)
        rc = dg_columns_encode(out, &c, r->d);
    dg_columns_close(&c);
    return rc;
}

static int read_numbers(dg_rle *out, const reading *r, const dg_json *counts)
{
    double sum = 0;

    *out = (dg_rle){ r->w, r->h, counts->n, malloc((size_t)(counts->n + 1) * sizeof(uint32_t)) };
    if (!out->runs)
        return no_memory(r);
    for (int i = 0; i < counts->n; i++) {
        double v = counts->items[i].kind == DG_JSON_NUMBER ? counts->items[i].number : -1;

        sum += v;
        if (!(v >= 0) || v != floor(v) || !(sum <= (double)r->w * r->h))
            break;
        out->runs[i] = (uint32_t)v;
    }
    if (sum == (double)r->w * r->h)
        return 0;
    dg_rle_free(out);
    return refuse(r, "has run lengths that do not cover the image");
}

static int read_runs(dg_rle *out, const reading *r, const dg_json *o)
{
    const dg_json *size = dg_json_get(o, "size"), *counts = dg_json_get(o, "counts");
    bool lacks_memory;

    if (!size || size->kind != DG_JSON_ARRAY || size->n != 2 || !counts ||
        (counts->kind != DG_JSON_ARRAY && counts->kind != DG_JSON_STRING))
        return refuse(r, "lacks \"size\", height and width, or \"counts\"");
    if (size->items[0].number != r->h || size->items[1].number != r->w)
        return refuse(r, "is not of its image's size");
    if (counts->kind == DG_JSON_ARRAY)
        return read_numbers(out, r, counts);
    if (dg_rle_parse(out, counts->text, r->w, r->h, &lacks_memory))
        return 0;
    return lacks_memory ? no_memory(r)
                        : refuse(r, "has a text of run lengths that does not cover the image");
}

/* Offset behind the list or object that begins at byte i. */
static size_t end_of(const char *text, size_t n, size_t i)
{
    int depth = 0;

    for (; i < n; i++) {
        if (text[i] == '"') {
            for (i++; i < n && text[i] != '"'; i++)
                i += text[i] == '\\';
        } else if (text[i] == '[' || text[i] == '{') {
            depth++;
        } else if ((text[i] == ']' || text[i] == '}') && --depth == 0) {
            return i + 1;
        }
    }
    return n;
}

size_t dg_mask_place(const char *text, size_t n, size_t offset)
{
    const size_t mark = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    const size_t at = offset ? offset + mark : 0;
    size_t i = at + 1;

    if (!at || at >= n || (text[at] != '[' && text[at] != '{'))
        return 0;
    while (i < n && memchr(" \t\r\n", text[i], 4))
        i++;
    return i < n && text[i] != ']' && text[i] != '}' ? at : 0;
}

int dg_mask_read(dg_rle *out, const dg_mask_text *r)
{
    dg_arena *a = dg_arena_open();
    dg_diag *quiet = dg_diag_open();
    const dg_json *root;
    int rc = dg_json_parse(&root, a, r->text + r->at, end_of(r->text, r->n, r->at) - r->at, r->name,
                           quiet);

    *out = (dg_rle){ 0 };
    if (rc < 0)
        rc = refuse(r, "is no JSON value");
    else if (root->kind == DG_JSON_ARRAY)
        rc = read_polygons(out, r, root, a);
    else
        rc = read_runs(out, r, root);
    dg_diag_close(&quiet);
    dg_arena_close(&a);
    return rc;
}

/* ---- masks ----------------------------------------------------------------------------------- */

bool dg_coco_has_masks(const dg_coco *c)
{
    return c->masks != NULL;
}

int dg_coco_mask(dg_rle *out, const dg_coco *c, int64_t annotation, dg_diag *d)
{
    const dg_mask_source *from = &c->masks[annotation];
    const dg_coco_image *im = &c->images[c->annotations[annotation].image];
    const reading r = { .text = (const char *)c->file.p,
                        .n = c->file.n,
                        .at = from->at,
                        .name = c->path,
                        .noun = "annotation",
                        .id = c->annotations[annotation].id,
                        .w = im->w,
                        .h = im->h,
                        .d = d };
    dg_columns columns;
    int rc;

    *out = (dg_rle){ 0 };
    if (from->at)
        return dg_mask_read(out, &r);
    if (!dg_columns_open(&columns, im->w, im->h))
        return no_memory(&r);
    if (from->n)
        dg_columns_polygon(&columns, from->xy, from->n);
    rc = dg_columns_encode(out, &columns, d);
    dg_columns_close(&columns);
    return rc;
}

/* In the order of dg_coco_objects. */
int dg_coco_sample_masks(dg_sample *sm, const dg_coco *c, int i, dg_diag *d)
{
    const dg_coco_image *im = &c->images[i];
    int n = 0, fault, rc = 0;

    if (!c->masks)
        return 0;
    sm->masks = dg_scratch_alloc(sm->scratch, (size_t)(im->n + 1) * sizeof *sm->masks);
    if (!sm->masks)
        return dg_fail(d, DG_EMEMORY, (dg_where){ im->file_name, 0, 0, NULL }, "image-memory",
                       "no memory for its masks");
    for (int64_t k = im->first; k < im->first + im->n && rc == 0; k++) {
        dg_rle runs = { 0 };
        dg_box box;

        if (c->annotations[k].crowd || !dg_coco_box(&box, &fault, &c->annotations[k], im))
            continue;
        rc = dg_coco_mask(&runs, c, k, d);
        if (rc == 0)
            rc = dg_mask_alloc(&sm->masks[n], sm->scratch, im->w, im->h, d);
        if (rc == 0)
            dg_rle_draw(&sm->masks[n++], &runs);
        dg_rle_free(&runs);
    }
    return rc;
}
