/* chart.h: curves as SVG inside a page. Colours are classes of the page's style sheet ("c0" to "c7"), so that one chart
 * serves light, dark and print; numbers stand in titles that a browser shows under the pointer. */
#ifndef DG_MEDIA_CHART_H
#define DG_MEDIA_CHART_H

#include "base/str.h"

typedef struct dg_point {
    double x, y;
} dg_point;

typedef struct dg_line {
    const char     *name;
    const dg_point *p; /* by ascending x; points that are not finite are left out */
    int             n;
    int             color; /* 0 to 7; beyond, colours come again with dashes */
} dg_line;

typedef struct dg_chart {
    const char    *x_name, *unit; /* of x: "step"; of y: "images/s", or "" */
    const dg_line *lines;
    int            n;
    bool           from_zero, smooth; /* smooth: a running mean, and faintly the numbers themselves */
    double         x_end, y_end;      /* 0: as far as the points go */
    int            width, height;     /* in px, of the SVG's own coordinates */
} dg_chart;

/* One <svg>. */
void dg_chart_svg(dg_str *out, const dg_chart *c);
/* A number with about `digits` digits, thousands apart: "12 400", "0.0004". */
void dg_chart_number(dg_str *out, double v, int digits);

#endif
