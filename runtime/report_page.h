/* report_page.h: what the parts of a report share: the page that grows, and its few shapes. For runtime/report*.c. */
#ifndef DG_RUNTIME_REPORT_PAGE_H
#define DG_RUNTIME_REPORT_PAGE_H

#include "runtime/history.h"

typedef struct dg_page {
    dg_str         *out;
    dg_arena       *arena;
    int             n;      /* runs; with one of them colours are terms, with several they are runs */
    dg_history    **runs;
    int             figures; /* in the row that is open */
} dg_page;

extern const char *const dg_report_style[]; /* the style sheet, in pieces; NULL ends it */

/* ---- report_page.c ----------------------------------------------------------------------------------------------------- */

void dg_page_text(dg_page *p, const char *fmt, ...) DG_PRINTF(2, 3); /* escaped */
void dg_page_section(dg_page *p, const char *id, const char *title); /* closes the one before */
void dg_page_end_section(dg_page *p);
void dg_page_number(dg_page *p, double v, int digits); /* a dash where it is not finite */
/* A number in a cell of a table, with `decimals`. */
void dg_page_cell(dg_page *p, double v, int decimals);
void dg_page_bytes(dg_page *p, double v);
void dg_page_bar(dg_page *p, double share, int color); /* a bar in a cell */
/* A file of that kind ("jpeg") as a picture, in which nothing of it runs. False: there is none. */
bool dg_page_image(dg_page *p, const char *path, const char *kind, const char *words);

/* Charts stand in rows of figures. A line is taken from a series; smooth figures draw running means. */
void dg_page_figures(dg_page *p);
void dg_page_end_figures(dg_page *p);
typedef struct dg_figure {
    const char *title, *note, *unit;
    bool        smooth, from_zero;
    double      x_end, y_end, scale; /* scale: of y; 0: 1 */
    const char *x_name;              /* NULL: "step" */
    DG_VEC(dg_line) lines;
} dg_figure;
void dg_figure_add(dg_page *p, dg_figure *f, const char *name, const dg_series *s, int color); /* s NULL: nothing */
void dg_figure_draw(dg_page *p, dg_figure *f); /* nothing without a line */

/* ---- the parts, in their order; report_headline.c, _scores.c, _parts.c, _time.c, _setup.c ----------------------------------- */

void dg_report_headline(dg_page *p);
void dg_report_scores(dg_page *p);
void dg_report_pictures(dg_page *p);
void dg_report_losses(dg_page *p);
void dg_report_time(dg_page *p);
void dg_report_setup(dg_page *p);

/* ---- report_diff.c -------------------------------------------------------------------------------------------------------- */

/* The lines of two texts: those of the first alone, of the second alone, and around them those of both. False: they are
 * equal, and nothing was added. */
bool dg_report_diff(dg_page *p, const char *a, const char *b);

#endif
