/* review.c: what the scores of an evaluation are worth: counts, boxes that never move, the
 * threshold, confusion of classes, the worst images. */
#include "report/page.h"

#include <math.h>
#include <string.h>

enum { MOST_CLASSES = 20 };

static int items_of(const dg_json *list)
{
    return list && list->kind == DG_JSON_ARRAY ? list->n : 0;
}

static dg_series over_thresholds(dg_page *p, const dg_json *list)
{
    dg_series s = { 0 };

    for (int i = 0; i < items_of(list); i++)
        DG_PUSH(p->arena, s.points,
                ((dg_point){ i / fmax(1, list->n - 1), list->items[i].number }));
    return s;
}

static void threshold_figure(dg_page *p, const dg_json *r)
{
    static const char *const keys[] = { "precision", "recall", "F1_over_threshold" },
                             *const names[] = { "precision", "recall", "F1" };
    dg_figure f = { .title = "Over the threshold, IoU 0.50",
                    .x_name = "score",
                    .x_end = 1,
                    .y_end = 1,
                    .from_zero = true };

    for (int i = 0; i < 3; i++) {
        const dg_series s = over_thresholds(p, dg_json_get(r, keys[i]));

        dg_figure_add(p, &f, names[i], &s, i);
    }
    dg_page_figures(p);
    dg_figure_draw(p, &f);
    dg_page_end_figures(p);
}

static void class_table(dg_page *p, const dg_json *r)
{
    static const struct {
        const char *key, *title;
        int decimals;
    } columns[] = { { "objects", "objects", 0 }, { "found", "found", 0 },
                    { "right", "right", 0 },     { "precision", "precision", 3 },
                    { "recall", "recall", 3 },   { "F1", "F1", 3 },
                    { "best_F1", "best F1", 3 }, { "best_threshold", "at", 2 } };
    const dg_json *classes = dg_json_get(r, "classes");
    const int n = sizeof columns / sizeof *columns;

    dg_str_add(p->out, "<h3>Classes at this threshold</h3><div class=\"scroll\"><table><tr>"
                       "<th>class</th>");
    for (int c = 0; c < n; c++)
        dg_str_fmt(p->out, "<th class=\"n\">%s</th>", columns[c].title);
    dg_str_add(p->out, "</tr>\n");
    for (int k = 0; k < items_of(classes); k++) {
        dg_str_add(p->out, "<tr><td>");
        dg_page_text(p, "%s", dg_json_text(&classes->items[k], "name"));
        dg_str_add(p->out, "</td>");
        for (int c = 0; c < n; c++)
            dg_page_cell(p, dg_json_number(&classes->items[k], columns[c].key),
                         columns[c].decimals);
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

static void name_cell(dg_page *p, const dg_json *classes, int k, const char *none,
                      const char *element)
{
    dg_str_fmt(p->out, "<%s>", element);
    dg_page_text(p, "%s", k < items_of(classes) ? dg_json_text(&classes->items[k], "name") : none);
    dg_str_fmt(p->out, "</%.2s>", element);
}

static void confusion_table(dg_page *p, const dg_json *r)
{
    const dg_json *matrix = dg_json_get(r, "confusion"), *classes = dg_json_get(r, "classes");
    const int n = items_of(matrix);

    if (n < 2 || n > MOST_CLASSES + 1)
        return;
    dg_str_add(p->out, "<h3>What was taken for what</h3><p class=\"note\">rows: what is there; "
                       "columns: what was found</p><div class=\"scroll\"><table><tr><th></th>");
    for (int k = 0; k < n; k++)
        name_cell(p, classes, k, "not found", "th class=\"n\"");
    dg_str_add(p->out, "</tr>\n");
    for (int i = 0; i < n; i++) {
        dg_str_add(p->out, "<tr>");
        name_cell(p, classes, i, "nothing", "td");
        for (int k = 0; k < items_of(&matrix->items[i]); k++)
            dg_page_cell(p, matrix->items[i].items[k].number, 0);
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

static void worst_table(dg_page *p, const dg_json *r)
{
    static const char *const columns[] = { "objects", "missed", "confused", "wrong" };
    const dg_json *worst = dg_json_get(r, "worst");

    if (!items_of(worst))
        return;
    dg_str_add(p->out, "<h3>Images with the most misses</h3><div class=\"scroll\"><table><tr>"
                       "<th>image</th>");
    for (int c = 0; c < 4; c++)
        dg_str_fmt(p->out, "<th class=\"n\">%s</th>", columns[c]);
    dg_str_add(p->out, "</tr>\n");
    for (int i = 0; i < worst->n; i++) {
        dg_str_add(p->out, "<tr><td>");
        dg_page_text(p, "%s", dg_json_text(&worst->items[i], "image"));
        dg_str_add(p->out, "</td>");
        for (int c = 0; c < 4; c++)
            dg_page_cell(p, dg_json_number(&worst->items[i], columns[c]), 0);
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n<p class=\"note\">missed: objects without a detection; "
                       "confused: of another class; wrong: detections of nothing</p>\n");
}

static double best_of(const dg_series *s)
{
    double best = -1;

    for (int i = 0; s && i < s->points.n; i++)
        best = fmax(best, s->points.items[i].y);
    return best;
}

void dg_report_review(dg_page *p, const dg_track *t)
{
    const dg_json *r = t->review;
    const double constant = dg_json_number(r, "constant_AP"), ap = best_of(dg_track_find(t, "AP"));

    if (!r || !(dg_json_number(r, "objects") > 0))
        return;
    dg_str_fmt(p->out, "<p%s>", constant >= 0 && ap < 1.5 * constant ? " class=\"warning\"" : "");
    dg_page_text(p, "On %.0f images with %.0f objects: %.0f small, %.0f medium, %.0f large.",
                 dg_json_number(r, "images"), dg_json_number(r, "objects"),
                 dg_json_number(r, "small"), dg_json_number(r, "medium"),
                 dg_json_number(r, "large"));
    if (constant >= 0)
        dg_page_text(p,
                     " Boxes that never move, of each class the median one in every image, reach "
                     "AP %.3f, AP50 %.3f.%s",
                     constant, dg_json_number(r, "constant_AP50"),
                     ap < 1.5 * constant ? " This run does not clearly pass them: it has learned "
                                           "where objects usually are, and little else."
                                         : "");
    dg_str_add(p->out, "</p>\n<p>");
    dg_page_text(p,
                 "The last evaluation's best F1 is %.3f, at a threshold of %.2f, with precision "
                 "%.3f and recall %.3f.",
                 dg_json_number(r, "F1"), dg_json_number(r, "threshold"),
                 dg_json_number(r, "precision_there"), dg_json_number(r, "recall_there"));
    dg_str_add(p->out, "</p>\n");
    threshold_figure(p, r);
    class_table(p, r);
    confusion_table(p, r);
    worst_table(p, r);
}
