/* page.c: the elements of a report: sections, figures, table cells. */
#include "report/page.h"

#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"

enum { WIDTH = 420, HEIGHT = 220, COLORS = 8 };

void dg_page_text(dg_page *p, const char *fmt, ...)
{
    dg_str s = { 0 };
    va_list ap;

    va_start(ap, fmt);
    dg_str_vfmt(&s, fmt, ap);
    va_end(ap);
    dg_str_xml(p->out, s.s ? s.s : "");
    dg_str_free(&s);
}

void dg_page_section(dg_page *p, const char *id, const char *title)
{
    DG_PUSH(p->arena, p->parts,
            ((dg_report_part){ .id = dg_strdup(p->arena, id), .begin = p->out->n }));
    dg_str_fmt(p->out, "<section id=\"%s\">", id);
    if (title) {
        dg_str_add(p->out, "<h2>");
        dg_page_text(p, "%s", title);
        dg_str_add(p->out, "</h2>\n");
    }
}

void dg_page_end_section(dg_page *p)
{
    dg_report_part *last = &p->parts.items[p->parts.n - 1];

    dg_str_add(p->out, "</section>\n");
    last->end = p->out->n;
    last->sum = dg_fnv1a(p->out->s + last->begin, last->end - last->begin);
}

void dg_page_number(dg_page *p, double v, int digits)
{
    dg_chart_number(p->out, v, digits);
}

void dg_page_runs_table(dg_page *p, const char *heading, const char *first)
{
    dg_str_fmt(p->out, "<h3>%s</h3><div class=\"scroll\"><table><tr><th>%s</th>", heading, first);
    for (int r = 0; r < p->n; r++) {
        dg_str_add(p->out, "<th class=\"n\">");
        dg_page_text(p, "%s", p->runs[r]->name);
        dg_str_add(p->out, "</th>");
    }
    dg_str_add(p->out, "</tr>\n");
}

void dg_page_cell(dg_page *p, double v, int decimals)
{
    if (isfinite(v))
        dg_str_fmt(p->out, "<td class=\"n\">%.*f</td>", decimals, v);
    else
        dg_str_add(p->out, "<td class=\"n\">–</td>");
}

void dg_page_bytes(dg_page *p, double v)
{
    char text[32];

    dg_str_fmt(p->out, "<td class=\"n\">%s</td>",
               isfinite(v) ? dg_human_bytes(v, text, sizeof text) : "–");
}

void dg_page_bar(dg_page *p, double share, int color)
{
    dg_str_fmt(p->out,
               "<td class=\"bar\"><span class=\"fill c%d\" style=\"width:%.1f%%\"></span></td>",
               color, isfinite(share) ? 100 * fmin(fmax(share, 0), 1) : 0);
}

bool dg_page_image(dg_page *p, const char *path, const char *kind, const char *words)
{
    enum { MOST = 64 << 20 };
    dg_diag *ignored = dg_diag_open();
    char *bytes = NULL;
    size_t n = 0;
    bool there = dg_exists(path) && dg_file_read(&bytes, &n, path, MOST, ignored) == 0;

    if (there) {
        dg_str_add(p->out, "<img alt=\"");
        dg_page_text(p, "%s", words);
        dg_str_fmt(p->out, "\" src=\"data:image/%s;base64,", kind);
        dg_str_base64(p->out, bytes, n);
        dg_str_add(p->out, "\">\n");
    }
    dg_free(bytes);
    dg_diag_close(&ignored);
    return there;
}

/* ---- figures --------------------------------------------------------------------------------- */

void dg_page_figures(dg_page *p)
{
    dg_str_add(p->out, "<div class=\"row\">\n");
}

void dg_page_end_figures(dg_page *p)
{
    dg_str_add(p->out, "</div>\n");
}

void dg_figure_add(dg_page *p, dg_figure *f, const char *name, const dg_series *s, int color)
{
    dg_point *points;

    if (!s || !s->points.n)
        return;
    points = dg_memdup(p->arena, s->points.items, (size_t)s->points.n * sizeof *points);
    for (int i = 0; i < s->points.n; i++) /* a negative AP means undefined, as in the evaluator */
        points[i].y =
            f->y_end > 0 && points[i].y < 0 ? NAN : points[i].y * (f->scale > 0 ? f->scale : 1);
    DG_PUSH(p->arena, f->lines,
            ((dg_line){ .name = dg_strdup(p->arena, name),
                        .p = points,
                        .n = s->points.n,
                        .color = color }));
}

static void add_legend(dg_page *p, const dg_figure *f)
{
    dg_str_add(p->out, "<div class=\"legend\">");
    for (int i = 0; i < f->lines.n && (f->lines.n > 1 || p->n > 1); i++) {
        int color = f->lines.items[i].color;

        dg_str_fmt(p->out, "<span><i class=\"c%d%s\"></i>", color % COLORS,
                   color / COLORS % 2 ? " dash" : "");
        dg_page_text(p, "%s", f->lines.items[i].name);
        dg_str_add(p->out, "</span>");
    }
    dg_str_add(p->out, "</div>");
}

void dg_figure_draw(dg_page *p, dg_figure *f)
{
    const dg_chart chart = { .x_name = f->x_name ? f->x_name : "step",
                             .unit = f->unit ? f->unit : "",
                             .lines = f->lines.items,
                             .n = f->lines.n,
                             .from_zero = f->from_zero,
                             .smooth = f->smooth,
                             .x_end = f->x_end,
                             .y_end = f->y_end,
                             .width = WIDTH,
                             .height = HEIGHT };

    if (!f->lines.n)
        return;
    dg_str_add(p->out, "<figure><figcaption>");
    dg_page_text(p, "%s", f->title);
    if (f->note) {
        dg_str_add(p->out, "<span>");
        dg_page_text(p, "%s", f->note);
        dg_str_add(p->out, "</span>");
    }
    dg_str_add(p->out, "</figcaption>");
    add_legend(p, f);
    dg_chart_svg(p->out, &chart);
    dg_str_add(p->out, "</figure>\n");
}
