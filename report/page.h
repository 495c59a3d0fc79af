/* page.h: shared by the parts of a report: the page being written, and its elements. */
#ifndef DG_REPORT_PAGE_H
#define DG_REPORT_PAGE_H

#include "report/history.h"
#include "report/report.h"

typedef struct dg_page {
    dg_str *out;
    dg_arena *arena;
    int n; /* number of runs; colours are terms for one run, runs for several */
    dg_history **runs;
    bool live;                    /* for a server, with what its script needs */
    DG_VEC(dg_report_part) parts; /* the sections so far */
} dg_page;

extern const char *const dg_report_style[]; /* the style sheet, in pieces; NULL-terminated */

/* ---- page.c --------------------------------------------------------------------------- */

void dg_page_text(dg_page *p, const char *fmt, ...) DG_PRINTF(2, 3); /* escaped */
/* title NULL: it has no heading */
void dg_page_section(dg_page *p, const char *id, const char *title);
void dg_page_end_section(dg_page *p);
void dg_page_number(dg_page *p, double v, int digits); /* a dash if not finite */
/* A number in a table cell, with `decimals` decimals. */
void dg_page_cell(dg_page *p, double v, int decimals);
/* Begins a table with a column for every run, under a heading. */
void dg_page_runs_table(dg_page *p, const char *heading, const char *first);
void dg_page_bytes(dg_page *p, double v);
void dg_page_bar(dg_page *p, double share, int color); /* a bar in a cell */
/* Embeds a file of kind "jpeg" or the like as a picture, whose contents cannot run. False: no such
 * file. */
bool dg_page_image(dg_page *p, const char *path, const char *kind, const char *words);

/* Charts are in rows of figures. Lines come from series; smooth figures draw running means. */
void dg_page_figures(dg_page *p);
void dg_page_end_figures(dg_page *p);
typedef struct dg_figure {
    const char *title, *note, *unit;
    bool smooth, from_zero;
    double x_end, y_end, scale; /* scale: factor on y; 0: 1 */
    const char *x_name;         /* NULL: "step" */
    DG_VEC(dg_line) lines;
} dg_figure;
/* s NULL: adds nothing */
void dg_figure_add(dg_page *p, dg_figure *f, const char *name, const dg_series *s, int color);
void dg_figure_draw(dg_page *p, dg_figure *f); /* draws nothing without lines */

/* ---- parts in order; headline.c, scores.c, parts.c, time.c, setup.c -------------------------- */

void dg_report_headline(dg_page *p);
void dg_report_scores(dg_page *p);
/* review.c: part of the scores of one run */
void dg_report_review(dg_page *p, const dg_track *t);
void dg_report_pictures(dg_page *p);
void dg_report_losses(dg_page *p);
void dg_report_time(dg_page *p);
void dg_report_setup(dg_page *p);

/* ---- diff.c ---------------------------------------------------------------------------------- */

/* Shows the lines that only one text has, with common lines around them. False: the texts are
 * equal; adds nothing. */
bool dg_report_diff(dg_page *p, const char *a, const char *b);

#endif
