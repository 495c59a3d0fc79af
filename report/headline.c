/* headline.c: the top of a report: how the run ended, and its main numbers. */
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* Mean of the last tenth of the points, at least one: a loss fluctuates from step to step. */
static double mean_of_end(const dg_series *s)
{
    int n = s ? s->points.n : 0, from = n - n / 10 - 1;
    double sum = 0;

    for (int i = from; n && i < n; i++)
        sum += s->points.items[i].y;
    return n ? sum / (n - from) : NAN;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(dg_arena *a, const dg_series *s)
{
    double *v;
    int n = s ? s->points.n : 0;

    if (!n)
        return NAN;
    v = DG_NEW_N(a, n, double);
    for (int i = 0; i < n; i++)
        v[i] = s->points.items[i].y;
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* A score at a step, in the evaluation with the best AP. */
static double score_at(const dg_history *h, const char *name, int64_t step)
{
    for (int i = 0; h->best_scope && i < h->evaluations.n; i++) {
        const dg_series *s = dg_track_find(&h->evaluations.items[i], name);

        for (int k = 0;
             s && strcmp(h->evaluations.items[i].scope, h->best_scope) == 0 && k < s->points.n; k++)
            if ((int64_t)s->points.items[k].x == step)
                return s->points.items[k].y;
    }
    return NAN;
}

static double sum_of(const dg_series *s)
{
    double sum = 0;

    for (int i = 0; s && i < s->points.n; i++)
        sum += fmax(s->points.items[i].y, 0);
    return sum;
}

/* While a run is in progress, run.json is as old as the last evaluation: the steps tell more. */
static double minutes_of(const dg_history *h)
{
    double m = dg_history_number(h, "end.minutes"),
           all = sum_of(dg_track_find(&h->train, "seconds"));

    for (int i = 0; i < h->evaluations.n; i++)
        all += sum_of(dg_track_find(&h->evaluations.items[i], "seconds"));
    m = all > 0 ? fmax(m, all / 60) : m;

    for (int i = 0; i < h->evaluations.n; i++)
        m = fmax(m, dg_series_last(dg_track_find(&h->evaluations.items[i], "minutes")));
    return m;
}

static double peak_of(const dg_history *h)
{
    const dg_series *s = dg_track_find(&h->train, "memory_bytes");
    double peak = dg_history_number(h, "end.peak_bytes");

    for (int i = 0; s && i < s->points.n; i++)
        peak = fmax(peak, s->points.items[i].y);
    return peak;
}

static void card(dg_page *p, const char *value, const char *fmt, ...) DG_PRINTF(3, 4);
static void card(dg_page *p, const char *value, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    dg_str_add(p->out, "<div class=\"card\"><b>");
    dg_page_text(p, "%s", value);
    dg_str_add(p->out, "</b><span>");
    dg_page_text(p, "%s", dg_vprintf(p->arena, fmt, ap));
    dg_str_add(p->out, "</span></div>\n");
    va_end(ap);
}

static const char *human_bytes(dg_page *p, double bytes)
{
    char text[32];

    return isfinite(bytes) && bytes > 0
               ? dg_strdup(p->arena, dg_human_bytes(bytes, text, sizeof text))
               : "–";
}

static const char *human_time(dg_page *p, double seconds)
{
    char text[32];

    return isfinite(seconds) ? dg_strdup(p->arena, dg_human_time(seconds, text, sizeof text)) : "–";
}

static void cards(dg_page *p, const dg_history *h)
{
    double steps = dg_history_number(h, "steps"),
           speed = median(p->arena, dg_track_find(&h->train, "images_per_s"));
    double loss = mean_of_end(dg_track_find(&h->train, "loss")), step = dg_history_step(h),
           ap50 = score_at(h, "AP50", h->best_step);

    dg_str_add(p->out, "<div class=\"cards\">\n");
    if (h->best_step >= 0)
        card(p, dg_printf(p->arena, "%.3f", h->best), "AP, best (step %lld)",
             (long long)h->best_step);
    if (isfinite(ap50))
        card(p, dg_printf(p->arena, "%.3f", ap50), "AP50 there");
    if (isfinite(loss))
        card(p, dg_printf(p->arena, "%.4g", loss), "loss, mean of the last tenth");
    if (isfinite(step))
        card(p, dg_printf(p->arena, "%.0f", step), steps > 0 ? "steps of %.0f" : "steps", steps);
    if (isfinite(speed))
        card(p, dg_printf(p->arena, speed < 99.95 ? "%.1f" : "%.0f", speed), "images/s, median");
    if (isfinite(minutes_of(h)))
        card(p, human_time(p, 60 * minutes_of(h)), "of training and evaluation");
    if (isfinite(peak_of(h)))
        card(p, human_bytes(p, peak_of(h)), "memory, peak of rank 0");
    dg_str_add(p->out, "</div>\n");
}

/* Why the run ended, if it failed. */
static void add_failure(dg_page *p, const dg_history *h)
{
    const char *state = dg_history_state(h), *why = dg_history_text(h, "end.why");
    const dg_json *help = dg_json_get(h->verdict, "help");

    if (strcmp(state, "failed") != 0)
        return;
    dg_str_add(p->out, "<div class=\"trouble\"><b>");
    dg_page_text(p, p->n > 1 ? "%s failed" : "The run failed%s", p->n > 1 ? h->name : "");
    dg_str_add(p->out, "</b><p>");
    if (h->verdict)
        dg_page_text(p, "%s.", dg_json_text(h->verdict, "message"));
    else if (why && *why)
        dg_page_text(p, "%s", why);
    else
        dg_page_text(p, "It ended without a word, as after kill -9 or a power cut. %s",
                     dg_exists(dg_path_join(p->arena, h->folder, "checkpoints/last"))
                         ? "--resume continues from its last checkpoint."
                         : "Nothing of it was saved: --force begins anew.");
    dg_str_add(p->out, "</p>");
    for (int i = 0; help && help->kind == DG_JSON_ARRAY && i < help->n; i++)
        if (help->items[i].kind == DG_JSON_STRING) {
            dg_str_add(p->out, "<p class=\"note\">");
            dg_page_text(p, "What to do: %s", help->items[i].text);
            dg_str_add(p->out, "</p>");
        }
    if (h->verdict)
        dg_str_add(p->out,
                   "<p class=\"note\"><code>detrgraph doctor</code> says where each rank was.</p>");
    dg_str_add(p->out, "</div>\n");
}

static void run_cell(dg_page *p, int i)
{
    dg_str_fmt(p->out, "<td class=\"key\"><i class=\"c%d\"></i>", i % 8);
    dg_page_text(p, "%s", p->runs[i]->name);
    dg_str_add(p->out, "</td>");
}

static void compare(dg_page *p)
{
    int best = 0;

    for (int i = 0; i < p->n; i++)
        if (p->runs[i]->best_step >= 0 &&
            (p->runs[best]->best_step < 0 || p->runs[i]->best > p->runs[best]->best))
            best = i;
    dg_str_add(p->out,
               "<div class=\"scroll\"><table style=\"margin-top:20px\"><tr>"
               "<th>run</th><th>state</th><th class=\"n\">steps</th><th class=\"n\">best AP</th>"
               "<th class=\"n\">at step</th><th class=\"n\">AP50 there</th><th "
               "class=\"n\">loss</th><th class=\"n\">images/s</th>"
               "<th class=\"n\">time</th><th class=\"n\">memory</th></tr>\n");
    for (int i = 0; i < p->n; i++) {
        const dg_history *h = p->runs[i];
        bool scored = h->best_step >= 0;

        dg_str_add(p->out, "<tr>");
        run_cell(p, i);
        dg_str_fmt(p->out, "<td>%s</td>", dg_history_state(h));
        dg_page_cell(p, dg_history_step(h), 0);
        dg_str_fmt(p->out, "<td class=\"n%s\">%s</td>", i == best && scored ? " best" : "",
                   scored ? dg_printf(p->arena, "%.3f", h->best) : "–");
        dg_page_cell(p, scored ? (double)h->best_step : NAN, 0);
        dg_page_cell(p, score_at(h, "AP50", h->best_step), 3);
        dg_page_cell(p, mean_of_end(dg_track_find(&h->train, "loss")), 3);
        dg_page_cell(p, median(p->arena, dg_track_find(&h->train, "images_per_s")), 1);
        dg_str_fmt(p->out, "<td class=\"n\">%s</td>", human_time(p, 60 * minutes_of(h)));
        dg_page_bytes(p, peak_of(h));
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n<p class=\"note\">loss: mean of the last tenth of the "
                       "steps; images/s: median; memory: peak of rank 0</p>\n");
}

void dg_report_headline(dg_page *p)
{
    for (int i = 0; i < p->n; i++)
        add_failure(p, p->runs[i]);
    if (p->n > 1)
        compare(p);
    else
        cards(p, p->runs[0]);
}
