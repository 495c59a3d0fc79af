/* chart.c: curves as SVG.
 *
 * Each pixel column draws only the least and the greatest of its points. The running mean is
 *     m_i = b m_{i-1} + (1 - b) y_i,   divided by 1 - b^i,   b = 1 - 1 / max(2, n / 40)
 * the division corrects the start at 0. The y axis spans the means and the central 98 % of the
 * points, so that a spike leaves the picture instead of flattening the rest. Ticks are 1, 2 or 5
 * times a power of ten. */
#include "media/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum {
    LEFT = 56,
    RIGHT = 10,
    TOP = 8,
    BOTTOM = 24,
    MARKED = 24,
    BANDS = 60,
    COLORS = 8,
    SMOOTHED = 24
};

typedef struct drawing {
    dg_str *out;
    const dg_chart *c;
    dg_arena *arena;
    double x0, x1, y0, y1; /* the range of the axes */
    double w, h;           /* the plotting area, in px */
    dg_point **smooth;     /* one running mean per line; NULL: not smoothed */
} drawing;

/* Larger values are not measurements, and the axes could not resolve them. */
static bool shown(double v)
{
    return isfinite(v) && fabs(v) < 1e30;
}

void dg_chart_number(dg_str *out, double v, int digits)
{
    char text[40];
    double size = fabs(v);

    if (!isfinite(v)) {
        dg_str_add(out, "–");
    } else if (size >= 1e4 && size < 1e15) {
        dg_str_add(out, dg_human_count((int64_t)llround(v), text, sizeof text));
    } else {
        dg_str_fmt(out, "%.*g", digits, size < 1e-12 ? 0 : v);
    }
}

/* ---- the range of the axes ------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void widen(double *low, double *high, double v)
{
    *low = fmin(*low, v);
    *high = fmax(*high, v);
}

static dg_point *smoothed(dg_arena *a, const dg_line *l)
{
    dg_point *m = DG_NEW_N(a, l->n + 1, dg_point);
    double b = 1 - 1 / fmax(2, l->n / 40.0), mean = 0, weight = 0;

    for (int i = 0; i < l->n; i++) {
        if (shown(l->p[i].y)) {
            mean = b * mean + (1 - b) * l->p[i].y;
            weight = b * weight + (1 - b);
        }
        m[i] = (dg_point){ l->p[i].x, weight > 0 ? mean / weight : NAN };
    }
    return m;
}

static void range_of_line(drawing *d, int k)
{
    const dg_line *l = &d->c->lines[k];
    double *y = DG_NEW_N(d->arena, l->n + 1, double);
    int n = 0;

    for (int i = 0; i < l->n; i++)
        if (shown(l->p[i].y) && shown(l->p[i].x)) {
            widen(&d->x0, &d->x1, l->p[i].x);
            y[n++] = l->p[i].y;
            if (d->smooth[k] && i > l->n / 50)
                widen(&d->y0, &d->y1, d->smooth[k][i].y);
        }
    if (!n)
        return;
    qsort(y, (size_t)n, sizeof *y, by_value);
    widen(&d->y0, &d->y1, y[d->smooth[k] ? n / 100 : 0]);
    widen(&d->y0, &d->y1, y[d->smooth[k] ? n - 1 - n / 50 : n - 1]);
}

static double step_of(double range, int most)
{
    double raw = range / most, ten = pow(10, floor(log10(raw))), times = raw / ten;

    return ten * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
}

static void find_range(drawing *d)
{
    d->x0 = d->y0 = INFINITY;
    d->x1 = d->y1 = -INFINITY;
    for (int k = 0; k < d->c->n; k++)
        range_of_line(d, k);
    if (!(d->x0 <= d->x1)) {
        d->x0 = d->y0 = 0;
        d->x1 = d->y1 = 1;
    }
    if (d->c->x_end > 0)
        d->x1 = d->c->x_end;
    /* the run began near 0: show its start; a resumed run begins where it resumed */
    if (d->x0 > 0 && d->x0 < 0.3 * d->x1)
        d->x0 = 0;
    if (d->x0 == d->x1 || d->c->x_end > 0)
        d->x0 = fmin(d->x0, 0);
    if (d->c->from_zero)
        d->y0 = fmin(d->y0, 0);
    if (d->c->y_end > 0)
        d->y1 = d->c->y_end;
    d->x1 = fmax(d->x1, d->x0 + (d->x1 > d->x0 ? 1e-6 * fabs(d->x0) : fmax(1, 0.1 * fabs(d->x0))));
    if (d->y1 <= d->y0)
        d->y1 = d->y0 + (fabs(d->y0) > 1e-12 ? 0.1 * fabs(d->y0) : 1);
    /* ticks must be further apart than adjacent doubles */
    d->y1 = fmax(d->y1, d->y0 + 1e-6 * fabs(d->y0));
    if (d->c->y_end <= 0) { /* round to whole ticks */
        double step = step_of(d->y1 - d->y0, 5);

        d->y0 = floor(d->y0 / step + 1e-9) * step;
        d->y1 = ceil(d->y1 / step - 1e-9) * step;
    }
}

/* ---- drawing --------------------------------------------------------------------------------- */

static double at_x(const drawing *d, double x)
{
    return LEFT + d->w * (x - d->x0) / (d->x1 - d->x0);
}

static double at_y(const drawing *d, double y)
{
    double v = TOP + d->h * (1 - (y - d->y0) / (d->y1 - d->y0));

    return fmin(fmax(v, -1e4), 1e4); /* off the canvas, but finite */
}

/* Ticks are multiples of step: from this one to that one. */
static int64_t first_tick(double from, double step)
{
    return (int64_t)ceil(from / step - 1e-9);
}

static int64_t last_tick(double to, double step)
{
    return (int64_t)floor(to / step + 1e-9);
}

static void draw_axes(drawing *d)
{
    double step = step_of(d->y1 - d->y0, 5);

    for (int64_t k = first_tick(d->y0, step); k <= last_tick(d->y1, step); k++) {
        double y = (double)k * step;

        dg_str_fmt(
            d->out,
            "<path class=\"grid\" d=\"M%d %.1fH%.1f\"/><text class=\"tick y\" x=\"%d\" y=\"%.1f\">",
            LEFT, at_y(d, y), LEFT + d->w, LEFT - 6, at_y(d, y) + 3.5);
        dg_chart_number(d->out, y, 4);
        dg_str_add(d->out, "</text>");
    }
    step = step_of(d->x1 - d->x0, d->w > 300 ? 6 : 4);
    for (int64_t k = first_tick(d->x0, step); k <= last_tick(d->x1, step); k++) {
        double x = (double)k * step;
        /* keep the labels at both ends clear of the axis names */
        bool last = at_x(d, x) > LEFT + d->w - 14, first = at_x(d, x) < LEFT + 10;

        dg_str_fmt(d->out, "<text class=\"tick%s\" x=\"%.1f\" y=\"%.1f\">",
                   last    ? " end"
                   : first ? " start"
                           : "",
                   last    ? LEFT + d->w + 2
                   : first ? LEFT - 3
                           : at_x(d, x),
                   TOP + d->h + 15);
        dg_chart_number(d->out, x, 6);
        dg_str_add(d->out, "</text>");
    }
    dg_str_fmt(d->out, "<text class=\"tick y\" x=\"%d\" y=\"%.1f\">", LEFT - 8, TOP + d->h + 15);
    dg_str_xml(d->out, d->c->x_name);
    dg_str_add(d->out, "</text>");
    dg_str_fmt(d->out, "<path class=\"axis\" d=\"M%d %.1fH%.1f\"/>", LEFT, TOP + d->h, LEFT + d->w);
}

static void add_point(drawing *d, dg_point p, bool *open)
{
    dg_str_fmt(d->out, "%s%.1f %.1f", *open ? "L" : "M", at_x(d, p.x), at_y(d, p.y));
    *open = true;
}

/* Draws the line by pixel columns: only the extremes of each column. */
static void draw_path(drawing *d, const dg_point *p, int n)
{
    bool open = false;

    for (int i = 0; i < n;) {
        double column = floor(at_x(d, p[i].x));
        int low = -1, high = -1, end = i;

        for (; end < n && floor(at_x(d, p[end].x)) <= column; end++) {
            if (!shown(p[end].y))
                continue;
            low = low < 0 || p[end].y < p[low].y ? end : low;
            high = high < 0 || p[end].y > p[high].y ? end : high;
        }
        if (low >= 0)
            add_point(d, p[low < high ? low : high], &open);
        if (low >= 0 && low != high)
            add_point(d, p[low < high ? high : low], &open);
        i = end;
    }
}

static void draw_line(drawing *d, int k)
{
    const dg_line *l = &d->c->lines[k];
    const char *dash = l->color / COLORS % 2 ? " dash" : "";

    if (d->smooth[k]) {
        dg_str_fmt(d->out, "<path class=\"line faint c%d\" d=\"", l->color % COLORS);
        draw_path(d, l->p, l->n);
        dg_str_add(d->out, "\"/>");
    }
    dg_str_fmt(d->out, "<path class=\"line c%d%s\" d=\"", l->color % COLORS, dash);
    draw_path(d, d->smooth[k] ? d->smooth[k] : l->p, l->n);
    dg_str_add(d->out, "\"/>");
    for (int i = 0; l->n <= MARKED && !d->smooth[k] && i < l->n; i++)
        if (shown(l->p[i].y))
            dg_str_fmt(d->out, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>",
                       l->color % COLORS, at_x(d, l->p[i].x), at_y(d, l->p[i].y));
}

/* The point of a line nearest to x, or NULL if none is within reach. */
static const dg_point *next_to(const dg_point *p, int n, double x, double reach)
{
    const dg_point *best = NULL;

    for (int i = 0; i < n; i++)
        if (shown(p[i].y) && fabs(p[i].x - x) <= reach &&
            (!best || fabs(p[i].x - x) < fabs(best->x - x)))
            best = &p[i];
    return best;
}

/* Invisible columns whose titles show the numbers under the pointer. */
static void draw_bands(drawing *d)
{
    double width = d->w / BANDS, reach = (d->x1 - d->x0) / BANDS;

    for (int b = 0; b < BANDS; b++) {
        double x = d->x0 + (b + 0.5) * reach;
        int said = 0;

        for (int k = 0; k < d->c->n; k++) {
            const dg_line *l = &d->c->lines[k];
            const dg_point *p = next_to(d->smooth[k] ? d->smooth[k] : l->p, l->n, x, reach / 2);

            if (!p)
                continue;
            if (!said++) {
                dg_str_fmt(d->out,
                           "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                           "height=\"%.1f\"><title>",
                           LEFT + b * width, TOP, width, d->h);
                dg_str_xml(d->out, d->c->x_name);
                dg_str_add(d->out, " ");
                dg_chart_number(d->out, p->x, 6);
            }
            dg_str_add(d->out, "\n");
            dg_str_xml(d->out, l->name);
            dg_str_add(d->out, " ");
            dg_chart_number(d->out, p->y, 4);
            dg_str_add(d->out, " ");
            dg_str_xml(d->out, d->c->unit);
        }
        if (said)
            dg_str_add(d->out, "</title></rect>");
    }
}

void dg_chart_svg(dg_str *out, const dg_chart *c)
{
    drawing d = { .out = out,
                  .c = c,
                  .arena = dg_arena_open(),
                  .w = c->width - LEFT - RIGHT,
                  .h = c->height - TOP - BOTTOM };

    d.smooth = DG_NEW_N(d.arena, c->n + 1, dg_point *);
    for (int k = 0; k < c->n; k++)
        if (c->smooth && c->lines[k].n >= SMOOTHED)
            d.smooth[k] = smoothed(d.arena, &c->lines[k]);
    find_range(&d);
    dg_str_fmt(out, "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\">", c->width,
               c->height);
    draw_axes(&d);
    /* a nested viewport clips what leaves the plotting area */
    dg_str_fmt(out,
               "<svg x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%d %d %.0f %.0f\">",
               LEFT - 3, TOP - 3, d.w + 6, d.h + 6, LEFT - 3, TOP - 3, d.w + 6, d.h + 6);
    for (int k = c->n; k-- > 0;) /* the first line is drawn last, on top */
        draw_line(&d, k);
    dg_str_add(out, "</svg>");
    draw_bands(&d);
    dg_str_add(out, "</svg>\n");
    dg_arena_close(&d.arena);
}
