/* draw.c: draws boxes, names and scores on pictures, with cairo.
 *
 * Names are set by Pango, which finds a font for every script that the machine has one for.
 *
 * Colours step round the hue circle by the golden angle, so that neighbouring labels differ
 * clearly. Each name is on a chip in its class's colour, at the first free place around its box. */
#include "media/draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cairo.h>
#include <pango/pangocairo.h>

#include "base/str.h"
#include "media/image.h"

enum { GAP = 6, TEXT_MAX = 96, TAKEN_MAX = 400 };

typedef struct area {
    double x, y, w, h;
} area;

typedef struct canvas {
    cairo_surface_t *surface;
    cairo_t *c;
    int w, h;
    dg_labels names;
    area *taken; /* areas of the current picture that chips avoid: small boxes, then chips */
    int n_small, n_taken;
} canvas;

void dg_draw_color(uint8_t rgb[3], int label)
{
    const double hue = fmod(0.02 + label * 0.6180339887498949, 1.0) * 6.0;
    const double value = label / 6 % 2 ? 0.80 : 1.0, low = label / 6 % 2 ? 0.25 : 0.15;

    /* each channel is a trapezoid over the hue circle, a third apart */
    for (int c = 0; c < 3; c++) {
        double k = fmod(hue + 6.0 - 2.0 * c, 6.0), up = fmin(fabs(k - 3.0) - 1.0, 1.0);

        rgb[c] = (uint8_t)(255.0 * value * (low + (1.0 - low) * fmax(0.0, up)) + 0.5);
    }
}

static void set_color(cairo_t *c, int label, double alpha)
{
    uint8_t rgb[3];

    dg_draw_color(rgb, label);
    cairo_set_source_rgba(c, rgb[0] / 255.0, rgb[1] / 255.0, rgb[2] / 255.0, alpha);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Copies text up to TEXT_MAX, with '?' for each malformed byte and control character. */
static void clean(char out[TEXT_MAX], const char *text)
{
    size_t k = 0;

    while (*text && k < TEXT_MAX - 4) {
        const size_t n = dg_utf8_bytes(text);

        if (n == 0 || (n == 1 && (unsigned char)*text < 0x20)) {
            out[k++] = '?';
            text++;
            continue;
        }
        memcpy(out + k, text, n);
        k += n;
        text += n;
    }
    out[k] = '\0';
}

/* A line of text in the first font that has its letters, at most `room` px wide: what is too long
 * ends in dots. *width: of what is left. */
static PangoLayout *new_line(cairo_t *c, const char *text, double size, bool bold, double room,
                             double *width)
{
    PangoFontDescription *font = pango_font_description_new();
    PangoLayout *line = pango_cairo_create_layout(c);
    PangoRectangle logical;

    pango_font_description_set_family_static(font, "sans-serif");
    pango_font_description_set_weight(font, bold ? PANGO_WEIGHT_BOLD : PANGO_WEIGHT_NORMAL);
    pango_font_description_set_absolute_size(font, size * PANGO_SCALE);
    pango_layout_set_font_description(line, font);
    pango_font_description_free(font);
    pango_layout_set_single_paragraph_mode(line, true);
    pango_layout_set_text(line, text, -1);
    pango_layout_get_extents(line, NULL, &logical);
    if (logical.width > room * PANGO_SCALE) {
        pango_layout_set_ellipsize(line, PANGO_ELLIPSIZE_END);
        pango_layout_set_width(line, (int)(fmax(room, 1) * PANGO_SCALE));
        pango_layout_get_extents(line, NULL, &logical);
    }
    *width = (double)logical.width / PANGO_SCALE;
    return line;
}

/* Draws the line from x on, standing on y. */
static void show_line(cairo_t *c, PangoLayout *line, double x, double y)
{
    cairo_move_to(c, x, y - (double)pango_layout_get_baseline(line) / PANGO_SCALE);
    pango_cairo_show_layout(c, line);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool overlap(area a, area b)
{
    return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/* True if `a` is inside `inside` and overlaps no taken area from number `first` on. */
static bool is_free(const canvas *v, area a, area inside, int first)
{
    if (a.x < inside.x || a.y < inside.y || a.x + a.w > inside.x + inside.w ||
        a.y + a.h > inside.y + inside.h)
        return false;
    for (int i = first; i < v->n_taken; i++)
        if (overlap(a, v->taken[i]))
            return false;
    return true;
}

static double clamp(double v, double lo, double hi)
{
    return v > hi ? (hi < lo ? lo : hi) : v < lo ? lo : v;
}

/* Finds a place for the w x h chip of box b: above, below, beside, then inside the box at top or
 * bottom; first without covering small objects, then over them. False: no place; the name is left
 * out, because overlapping names are unreadable. */
static bool place_chip(area *out, const canvas *v, area b, double w, double h, area inside)
{
    const double left = clamp(b.x, inside.x, inside.x + inside.w - w);
    const double right = clamp(b.x + b.w - w, inside.x, inside.x + inside.w - w);
    const area tries[] = {
        { left, b.y - h, w, h },  { left, b.y + b.h, w, h },
        { right, b.y - h, w, h }, { right, b.y + b.h, w, h },
        { b.x + b.w, b.y, w, h }, { b.x - w, b.y, w, h },
        { left, b.y, w, h },      { left, b.y + b.h - h, w, h },
        { right, b.y, w, h },     { right, b.y + b.h - h, w, h },
    };

    for (int first = 0;; first = v->n_small) {
        for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
            if (is_free(v, tries[i], inside, first)) {
                *out = tries[i];
                return true;
            }
        if (first == v->n_small)
            return false;
    }
}

static void draw_chip(canvas *v, const dg_mark *m, area b, area inside, double size)
{
    char name[TEXT_MAX], text[TEXT_MAX + 16];
    uint8_t rgb[3];
    double w, luma;
    PangoLayout *line;
    area chip;

    if (m->label >= 0 && m->label < v->names.n && v->names.name[m->label])
        clean(name, v->names.name[m->label]);
    else
        (void)snprintf(name, sizeof name, "class %d", m->label);
    if (m->score >= 0.0)
        (void)snprintf(text, sizeof text, "%s %.2f", name, m->score);
    else
        (void)snprintf(text, sizeof text, "%s", name);
    line = new_line(v->c, text, size, true, inside.w - size, &w);
    w += 0.6 * size;
    if (v->n_taken == TAKEN_MAX || !place_chip(&chip, v, b, w, 1.3 * size, inside)) {
        g_object_unref(line);
        return;
    }
    v->taken[v->n_taken++] = chip;
    dg_draw_color(rgb, m->label);
    luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    set_color(v->c, m->label, 0.85);
    cairo_rectangle(v->c, chip.x, chip.y, chip.w, chip.h);
    cairo_fill(v->c);
    cairo_set_source_rgb(v->c, luma > 110.0 ? 0.0 : 1.0, luma > 110.0 ? 0.0 : 1.0,
                         luma > 110.0 ? 0.0 : 1.0);
    show_line(v->c, line, chip.x + 0.3 * size, chip.y + size);
    g_object_unref(line);
}

static void draw_box(const canvas *v, const dg_mark *m, area b, double line)
{
    const double half = fmod(line, 2.0) / 2.0; /* align to whole pixels for sharp lines */
    const double x = floor(b.x) + half, y = floor(b.y) + half;

    cairo_rectangle(v->c, x, y, floor(b.x + b.w) + half - x, floor(b.y + b.h) + half - y);
    /* a dark edge keeps the colour visible on any background */
    cairo_set_source_rgba(v->c, 0.0, 0.0, 0.0, 0.35);
    cairo_set_line_width(v->c, line + 2.0);
    cairo_stroke_preserve(v->c);
    set_color(v->c, m->label, 1.0);
    cairo_set_line_width(v->c, line);
    cairo_stroke(v->c);
}

static bool finite_box(dg_box b)
{
    return isfinite(b.x1) && isfinite(b.y1) && isfinite(b.x2) && isfinite(b.y2);
}

static area scaled(dg_box b, area in, double sx, double sy)
{
    return (area){ in.x + b.x1 * sx, in.y + b.y1 * sy, (b.x2 - b.x1) * sx, (b.y2 - b.y1) * sy };
}

/* Draws the picture and its marks into the area `in`, which has the picture's proportions. */
static int draw_tile(canvas *v, dg_scratch *s, const dg_tile *t, area in, dg_diag *d)
{
    const double sx = in.w / t->image->w, sy = in.h / t->image->h, side = fmin(in.w, in.h);
    const double line = floor(clamp(side / 200.0, 2.0, 4.0)), size = clamp(side / 32.0, 9.0, 22.0);
    unsigned char *pixels;
    int stride, rc;
    dg_image fitted;

    rc = dg_image_resize(&fitted, s, t->image, (int)in.w, (int)in.h, d);
    if (rc < 0)
        return rc;
    cairo_surface_flush(v->surface);
    pixels = cairo_image_surface_get_data(v->surface);
    stride = cairo_image_surface_get_stride(v->surface);
    for (int y = 0; y < fitted.h; y++) {
        unsigned char *row = pixels + (ptrdiff_t)stride * ((int)in.y + y);

        for (int x = 0; x < fitted.w; x++) {
            const uint8_t *p = fitted.rgb + 3 * ((size_t)y * (size_t)fitted.w + (size_t)x);
            uint32_t q = 0xFF000000u | (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

            memcpy(row + 4 * ((int)in.x + x), &q, 4);
        }
    }
    cairo_surface_mark_dirty(v->surface);
    cairo_save(v->c);
    cairo_rectangle(v->c, in.x, in.y, in.w, in.h);
    cairo_clip(v->c);
    v->n_taken = 0;
    for (int i = 0; i < t->n_marks; i++) {
        const area b = scaled(t->marks[i].box, in, sx, sy);

        if (!finite_box(t->marks[i].box))
            continue;
        draw_box(v, &t->marks[i], b, line);
        if (fmin(b.w, b.h) < 3.0 * size && v->n_taken < TAKEN_MAX / 2)
            v->taken[v->n_taken++] = b; /* a name would hide it */
    }
    v->n_small = v->n_taken;
    /* Boxes first, so that no line crosses a name; then names, best mark (the last) first, so that
     * it gets the best place. */
    for (int i = t->n_marks; i-- > 0;)
        if (finite_box(t->marks[i].box))
            draw_chip(v, &t->marks[i], scaled(t->marks[i].box, in, sx, sy), in, size);
    cairo_restore(v->c);
    return 0;
}

/* ---- canvases -------------------------------------------------------------------------------- */

static int open_canvas(canvas *v, dg_scratch *s, int w, int h, dg_labels names, dg_diag *d)
{
    *v = (canvas){ .w = w, .h = h, .names = names };
    v->taken = dg_scratch_alloc(s, TAKEN_MAX * sizeof *v->taken);
    v->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, w, h);
    v->c = cairo_create(v->surface);
    if (v->taken && cairo_status(v->c) == CAIRO_STATUS_SUCCESS)
        return 0;
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "draw-canvas", "cannot draw a picture of %d x %d: %s",
                   w, h, cairo_status_to_string(cairo_status(v->c)));
}

static int read_back(dg_image *out, dg_scratch *s, canvas *v, dg_diag *d)
{
    const unsigned char *pixels;
    int stride, rc;

    rc = dg_image_alloc(out, s, v->w, v->h, d);
    if (rc < 0)
        return rc;
    cairo_surface_flush(v->surface);
    pixels = cairo_image_surface_get_data(v->surface);
    stride = cairo_image_surface_get_stride(v->surface);
    for (int y = 0; y < v->h; y++)
        for (int x = 0; x < v->w; x++) {
            uint8_t *p = out->rgb + 3 * ((size_t)y * (size_t)v->w + (size_t)x);
            uint32_t q;

            memcpy(&q, pixels + (ptrdiff_t)stride * y + 4 * x, 4);
            p[0] = (uint8_t)(q >> 16);
            p[1] = (uint8_t)(q >> 8);
            p[2] = (uint8_t)q;
        }
    return 0;
}

static void close_canvas(canvas *v)
{
    cairo_destroy(v->c);
    cairo_surface_destroy(v->surface);
}

int dg_draw_picture(dg_image *out, dg_scratch *s, const dg_tile *tile, dg_labels names,
                    int min_side, dg_diag *d)
{
    const int longer = tile->image->w > tile->image->h ? tile->image->w : tile->image->h;
    const int factor = min_side > longer ? (min_side + longer - 1) / longer : 1;
    const int w = tile->image->w * factor, h = tile->image->h * factor;
    canvas v;
    int rc;

    DG_TRY(open_canvas(&v, s, w, h, names, d));
    DG_TRY(draw_tile(&v, s, tile, (area){ 0, 0, w, h }, d));
    DG_TRY(read_back(out, s, &v, d));
out:
    close_canvas(&v);
    return rc;
}

static void draw_caption(canvas *v, const char *caption, area cell, double strip)
{
    char text[TEXT_MAX];
    PangoLayout *line;
    double width;

    clean(text, caption);
    line = new_line(v->c, text, strip * 0.5, false, cell.w, &width);
    cairo_set_source_rgb(v->c, 0.86, 0.87, 0.88);
    show_line(v->c, line, cell.x, cell.y + cell.h + 0.66 * strip);
    g_object_unref(line);
}

/* The largest size at which an image fits into w x h, keeping its proportions. */
static void fit_image(double *fit_w, double *fit_h, const dg_image *im, int w, int h)
{
    const double scale = fmin((double)w / im->w, (double)h / im->h);

    *fit_w = fmax(1.0, floor(im->w * scale + 1e-6));
    *fit_h = fmax(1.0, floor(im->h * scale + 1e-6));
}

int dg_draw_mosaic(dg_image *out, dg_scratch *s, const dg_tile *tiles, int n, int columns,
                   int tile_w, int tile_h, dg_labels names, dg_diag *d)
{
    const int strip = tile_h / 20 + 14; /* height of the caption, px */
    const int wide = n < columns ? n : columns, rows = (n + columns - 1) / columns;
    double w, h, highest = 1.0;
    canvas v;
    int rc;

    for (int i = 0; i < n; i++) { /* shrink the cells to the tallest fitted image */
        fit_image(&w, &h, tiles[i].image, tile_w, tile_h);
        highest = fmax(highest, h);
    }
    rc = dg_image_check_size((int64_t)wide * (tile_w + GAP) + GAP,
                             (int64_t)rows * ((int)highest + strip + GAP) + GAP, NULL, d);
    if (rc < 0)
        return rc;
    DG_TRY(open_canvas(&v, s, wide * (tile_w + GAP) + GAP,
                       rows * ((int)highest + strip + GAP) + GAP, names, d));
    cairo_set_source_rgb(v.c, 0.13, 0.13, 0.14);
    cairo_paint(v.c);
    for (int i = 0; i < n; i++) {
        const area cell = { GAP + i % columns * (tile_w + GAP),
                            GAP + i / columns * ((int)highest + strip + GAP), tile_w, highest };

        fit_image(&w, &h, tiles[i].image, tile_w, tile_h);
        DG_TRY(draw_tile(&v, s, &tiles[i],
                         (area){ cell.x + floor((cell.w - w) / 2), cell.y + cell.h - h, w, h }, d));
        if (tiles[i].caption)
            draw_caption(&v, tiles[i].caption, cell, strip);
    }
    DG_TRY(read_back(out, s, &v, d));
out:
    close_canvas(&v);
    return rc;
}

/* True if pictures show numbers in place of some of the letters. */
static bool lacks_letters(cairo_t *c, const char *name)
{
    char text[TEXT_MAX];
    PangoLayout *line;
    double width;
    bool lacks;

    clean(text, name);
    line = new_line(c, text, 12, false, 1e6, &width);
    lacks = pango_layout_get_unknown_glyphs_count(line) > 0;
    g_object_unref(line);
    return lacks;
}

void dg_draw_check_names(const dg_coco_class *classes, int n, dg_diag *d)
{
    cairo_surface_t *surface = NULL;
    cairo_t *c = NULL;
    const char *first = NULL;
    int more = 0;

    for (int i = 0; i < n; i++) {
        const char *name = classes[i].name ? classes[i].name : "";

        while (*name && (unsigned char)*name < 0x80)
            name++;
        if (!*name)
            continue; /* every font has ASCII: to look for fonts takes time */
        if (!c) {
            surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1);
            c = cairo_create(surface);
        }
        if (!lacks_letters(c, classes[i].name))
            continue;
        more += first != NULL;
        first = first ? first : classes[i].name;
    }
    if (first) {
        dg_warn(
            d, DG_NOWHERE, "font-missing",
            "no font of this machine has the letters of the class \"%s\"%s: pictures show boxes "
            "with numbers in their place",
            first, more ? " and of others" : "");
        dg_help(d, "install one: fonts-noto-cjk has Chinese, Japanese and Korean, fonts-noto-core "
                   "most other scripts");
    }
    if (c) {
        cairo_destroy(c);
        cairo_surface_destroy(surface);
    }
}

void dg_draw_mask(dg_image *im, const dg_mask *m, int label)
{
    uint8_t rgb[3];

    dg_draw_color(rgb, label);
    for (size_t i = 0, n = (size_t)im->w * (size_t)im->h; i < n; i++)
        for (size_t k = 0; m->on[i] && k < 3; k++)
            im->rgb[3 * i + k] = (uint8_t)((im->rgb[3 * i + k] + rgb[k]) / 2);
}
