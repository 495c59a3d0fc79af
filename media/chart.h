/* chart.h: curves as SVG inside a page. Colours are classes of the page's style sheet ("c0" to
 * "c7"), so that one chart works for light, dark and print; titles show the numbers under the
 * pointer. */
#ifndef DG_MEDIA_CHART_H
#define DG_MEDIA_CHART_H

#include "base/str.h"

typedef struct dg_point {
    double x, y;
} dg_point;

typedef struct dg_line {
    const char *name;
    const dg_point *p; /* ascending in x; points that are not finite are skipped */
    int n;
    int color; /* 0..7; larger ones repeat the colours, dashed */
} dg_line;

typedef struct dg_chart {
    const char *x_name, *unit; /* of x, e.g. "step"; of y, e.g. "images/s", or "" */
    const dg_line *lines;
    int n;
    bool from_zero, smooth; /* smooth: draw the running mean, with the points faintly behind it */
    double x_end, y_end;    /* ends of the axes; 0: fit the points */
    int width, height;      /* in px of the SVG's coordinates */
} dg_chart;

/* Appends one <svg> element. */
void dg_chart_svg(dg_str *out, const dg_chart *c);
/* A number with about `digits` digits and spaces between thousands: "12 400", "0.0004". */
void dg_chart_number(dg_str *out, double v, int digits);

#endif
