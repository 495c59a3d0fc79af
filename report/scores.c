/* scores.c: evaluations of a report: scores over steps, precision over recall, classes. */
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CURVES = 7, SCORES = 12 };
static const char *const score_names[SCORES] = { "AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                                 "AR1", "AR10", "AR100", "ARs", "ARm", "ARl" };

/* The end of an axis for scores up to `most`: a score near 0 is not to look like a curve. */
static double axis_end(double most)
{
    return most > 0.5 ? 1 : most > 0.2 ? 0.5 : 0.2;
}

static void score_figure(dg_page *p, const char *scope, const char *title, const char *const *names,
                         int n)
{
    dg_figure f = { .title = title, .from_zero = true };
    double most = 0;

    for (int r = 0; r < p->n; r++)
        for (int e = 0; e < p->runs[r]->evaluations.n; e++)
            for (int i = 0; strcmp(p->runs[r]->evaluations.items[e].scope, scope) == 0 && i < n;
                 i++) {
                dg_series *s =
                    (dg_series *)(uintptr_t)dg_track_find(&p->runs[r]->evaluations.items[e],
                                                          names[i]);
                bool defined = false;

                for (int k = 0; s && k < s->points.n; k++) {
                    defined |= s->points.items[k].y >= 0;
                    most = fmax(most, s->points.items[k].y);
                }
                f.y_end = axis_end(most);
                if (defined)
                    dg_figure_add(p, &f,
                                  p->n > 1                               ? p->runs[r]->name
                                  : strcmp(names[i], "constant_AP") == 0 ? "boxes that never move"
                                                                         : names[i],
                                  s, p->n > 1 ? r : i);
            }
    dg_figure_draw(p, &f);
}

static void score_table(dg_page *p, const dg_track *t)
{
    const dg_series *ap = dg_track_find(t, "AP");
    int best = 0;

    if (!ap || p->n > 1)
        return;
    for (int k = 1; k < ap->points.n; k++)
        best = ap->points.items[k].y > ap->points.items[best].y ? k : best;
    dg_str_add(p->out, "<div class=\"scroll\"><table><tr><th></th>");
    for (int i = 0; i < SCORES; i++)
        dg_str_fmt(p->out, "<th class=\"n\">%s</th>", score_names[i]);
    dg_str_add(p->out, "</tr>\n");
    for (int row = 0; row < (best == ap->points.n - 1 ? 1 : 2); row++) {
        int k = row ? ap->points.n - 1 : best;

        dg_str_fmt(p->out, "<tr><td>%s, step %.0f</td>",
                   row                        ? "last"
                   : best == ap->points.n - 1 ? "best and last"
                                              : "best",
                   ap->points.items[k].x);
        for (int i = 0; i < SCORES; i++) {
            const dg_series *s = dg_track_find(t, score_names[i]);

            dg_page_cell(p,
                         s && k < s->points.n && s->points.items[k].y >= 0 ? s->points.items[k].y
                                                                           : NAN,
                         3);
        }
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

/* Precision over recall as a series of the page. */
static dg_series curve_of(dg_page *p, const dg_json *precision)
{
    dg_series s = { 0 };

    for (int i = 0; precision && precision->kind == DG_JSON_ARRAY && i < precision->n; i++) {
        const dg_json *v = &precision->items[i];

        DG_PUSH(p->arena, s.points,
                ((dg_point){ i / fmax(1, precision->n - 1),
                             v->kind == DG_JSON_NUMBER && v->number >= 0 ? v->number : NAN }));
    }
    return s;
}

static dg_series mean_curve(dg_page *p, const dg_json *curves, const char *iou)
{
    const dg_json *classes = dg_json_get(curves, "classes");
    dg_series mean = { 0 };
    int n = 0;

    for (int i = 0; classes && classes->kind == DG_JSON_ARRAY && i < classes->n; i++) {
        dg_series s = curve_of(p, dg_json_get(dg_json_get(&classes->items[i], "precision"), iou));

        if (!s.points.n || !isfinite(s.points.items[0].y))
            continue;
        for (int k = 0; k < s.points.n; k++)
            if (n == 0)
                DG_PUSH(p->arena, mean.points, s.points.items[k]);
            else if (k < mean.points.n)
                mean.points.items[k].y += s.points.items[k].y;
        n++;
    }
    for (int k = 0; k < mean.points.n; k++)
        mean.points.items[k].y /= n;
    return mean;
}

typedef struct class_score {
    const char *name;
    double ap, ap50, objects;
    const dg_json *precision;
} class_score;

static int by_ap(const void *a, const void *b)
{
    const class_score *x = a, *y = b;

    return (x->ap < y->ap) - (x->ap > y->ap);
}

/* Number of a class's objects in an evaluation's data. */
static double objects_of(const dg_history *h, const char *scope, const char *class)
{
    const dg_json *data = dg_json_get(h->run, "data");

    for (int i = 0; data && i < data->n; i++) {
        const dg_json *of = dg_json_get(&data->items[i], "scope"),
                      *classes = dg_json_get(&data->items[i], "classes");

        for (int k = 0; of && of->kind == DG_JSON_STRING && strcmp(of->text, scope) == 0 &&
                        classes && k < classes->n;
             k++) {
            const dg_json *name = dg_json_get(&classes->items[k], "name");

            if (name && name->kind == DG_JSON_STRING && strcmp(name->text, class) == 0)
                return dg_json_number(&classes->items[k], "objects");
        }
    }
    return NAN;
}

/* The classes of an evaluation, best first. */
static class_score *classes_of(dg_page *p, const dg_history *h, const dg_track *t, int *n)
{
    const dg_json *classes = dg_json_get(t->curves, "classes");
    class_score *out;

    *n = classes && classes->kind == DG_JSON_ARRAY ? classes->n : 0;
    out = DG_NEW_N(p->arena, *n + 1, class_score);
    for (int i = 0; i < *n; i++) {
        const dg_json *c = &classes->items[i], *name = dg_json_get(c, "name");

        out[i].name = name && name->kind == DG_JSON_STRING ? name->text : "?";
        out[i].ap = dg_json_number(c, "AP");
        out[i].ap50 = dg_json_number(c, "AP50");
        out[i].precision = dg_json_get(c, "precision");
        out[i].objects = objects_of(h, t->scope, out[i].name);
        out[i].ap = out[i].ap >= 0 ? out[i].ap : NAN;
        out[i].ap50 = out[i].ap50 >= 0 ? out[i].ap50 : NAN;
    }
    if (*n)
        qsort(out, (size_t)*n, sizeof *out, by_ap);
    return out;
}

static void precision_figures(dg_page *p, const dg_history *h, const dg_track *t)
{
    static const char *const ious[] = { "0.50", "0.75", "0.90" };
    dg_figure each = { .title = "Precision over recall, IoU 0.50",
                       .x_name = "recall",
                       .x_end = 1,
                       .y_end = 1,
                       .from_zero = true };
    dg_figure mean = { .title = "Precision over recall, mean of classes",
                       .x_name = "recall",
                       .x_end = 1,
                       .y_end = 1,
                       .from_zero = true };
    int n;
    class_score *c = classes_of(p, h, t, &n);

    each.note = n > CURVES ? "the best and the worst classes" : NULL;
    for (int i = 0; i < n; i++)
        if (n <= CURVES || i < CURVES / 2 + 1 || i >= n - CURVES / 2) {
            dg_series s = curve_of(p, dg_json_get(c[i].precision, "0.50"));

            dg_figure_add(p, &each, c[i].name, &s, each.lines.n);
        }
    for (int i = 0; i < 3; i++) {
        dg_series s = mean_curve(p, t->curves, ious[i]);

        dg_figure_add(p, &mean, dg_printf(p->arena, "IoU %s", ious[i]), &s, i);
    }
    dg_figure_draw(p, &each);
    dg_figure_draw(p, &mean);
}

static void compare_precision(dg_page *p, const char *scope, const char *iou)
{
    dg_figure f = { .title = dg_printf(p->arena, "Precision over recall, IoU %s", iou),
                    .note = "mean of classes",
                    .x_name = "recall",
                    .x_end = 1,
                    .y_end = 1,
                    .from_zero = true };

    for (int r = 0; r < p->n; r++)
        for (int e = 0; e < p->runs[r]->evaluations.n; e++) {
            const dg_track *t = &p->runs[r]->evaluations.items[e];
            dg_series s = mean_curve(p, t->curves, iou);

            if (strcmp(t->scope, scope) == 0)
                dg_figure_add(p, &f, p->runs[r]->name, &s, r);
        }
    dg_figure_draw(p, &f);
}

static void class_table(dg_page *p, const dg_history *h, const dg_track *t)
{
    int n;
    class_score *c = classes_of(p, h, t, &n);

    if (!n)
        return;
    dg_str_add(p->out, "<h3>Classes, step ");
    dg_page_number(p, dg_json_number(t->curves, "step"), 6);
    dg_str_add(p->out, "</h3><div class=\"scroll\"><table><tr><th>class</th><th "
                       "class=\"n\">objects</th><th class=\"n\">AP</th><th></th>"
                       "<th class=\"n\">AP50</th></tr>\n");
    for (int i = 0; i < n; i++) {
        dg_str_add(p->out, "<tr><td>");
        dg_page_text(p, "%s", c[i].name);
        dg_str_add(p->out, "</td>");
        dg_page_cell(p, c[i].objects, 0);
        dg_page_cell(p, c[i].ap, 3);
        dg_page_bar(p, c[i].ap, 0);
        dg_page_cell(p, c[i].ap50, 3);
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

/* A class's AP in another run. */
static double ap_in(dg_page *p, int run, const char *scope, const char *class)
{
    for (int e = 0; e < p->runs[run]->evaluations.n; e++) {
        const dg_track *t = &p->runs[run]->evaluations.items[e];
        int n;
        class_score *c = strcmp(t->scope, scope) == 0 ? classes_of(p, p->runs[run], t, &n) : NULL;

        for (int i = 0; c && i < n; i++)
            if (strcmp(c[i].name, class) == 0)
                return c[i].ap;
    }
    return NAN;
}

static void compare_classes(dg_page *p, const dg_history *h, const dg_track *t)
{
    int n;
    class_score *c = classes_of(p, h, t, &n);

    if (!n)
        return;
    dg_page_runs_table(p, "AP of classes, last evaluation", "class");
    for (int i = 0; i < n; i++) {
        dg_str_add(p->out, "<tr><td>");
        dg_page_text(p, "%s", c[i].name);
        dg_str_add(p->out, "</td>");
        for (int r = 0; r < p->n; r++)
            dg_page_cell(p, ap_in(p, r, t->scope, c[i].name), 3);
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

static void scope_section(dg_page *p, const dg_history *h, const dg_track *t, int number)
{
    static const char *const main_names[] = { "AP", "AP50", "AP75", "constant_AP" },
                             *const sizes[] = { "APs", "APm", "APl" };
    static const char *const recalls[] = { "AR1", "AR10", "AR100" };
    static const char *const of_sizes[] = { "AP of small objects", "AP of medium objects",
                                            "AP of large objects" };

    dg_page_section(p, number ? dg_printf(p->arena, "scores-%d", number) : "scores",
                    strcmp(t->scope, "evaluate") == 0
                        ? "Scores"
                        : dg_printf(p->arena, "Scores of %s", t->scope));
    score_table(p, t);
    dg_page_figures(p);
    for (int i = 0; p->n > 1 && i < 3; i++)
        score_figure(p, t->scope, main_names[i], &main_names[i], 1);
    for (int i = 0; p->n > 1 && i < 3; i++)
        score_figure(p, t->scope, of_sizes[i], &sizes[i], 1);
    if (p->n > 1) {
        compare_precision(p, t->scope, "0.50");
        compare_precision(p, t->scope, "0.75");
    } else {
        score_figure(p, t->scope, "Average precision", main_names, 4);
        score_figure(p, t->scope, "By size of the object", sizes, 3);
        score_figure(p, t->scope, "Average recall", recalls, 3);
        precision_figures(p, h, t);
    }
    dg_page_end_figures(p);
    if (p->n > 1)
        compare_classes(p, h, t);
    else
        class_table(p, h, t);
    if (p->n == 1)
        dg_report_review(p, t);
    dg_page_end_section(p);
}

/* True if an earlier run has an evaluation of that name. */
static bool was_shown(const dg_page *p, int run, const char *scope)
{
    for (int r = 0; r < run; r++)
        for (int e = 0; e < p->runs[r]->evaluations.n; e++)
            if (strcmp(p->runs[r]->evaluations.items[e].scope, scope) == 0)
                return true;
    return false;
}

void dg_report_scores(dg_page *p)
{
    int n = 0;

    for (int r = 0; r < p->n; r++)
        for (int e = 0; e < p->runs[r]->evaluations.n; e++)
            if (!was_shown(p, r, p->runs[r]->evaluations.items[e].scope))
                scope_section(p, p->runs[r], &p->runs[r]->evaluations.items[e], n++);
}
