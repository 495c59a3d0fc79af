/* report.c: see report.h. */
#include "report/report.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "media/survey.h"
#include "report/page.h"

static void head(dg_page *p)
{
    const dg_history *h = p->runs[0];
    const char *pipeline = dg_history_text(h, "pipeline"), *began = dg_history_text(h, "began"),
               *continued = dg_history_text(h, "continued");
    bool scored = false;

    for (int r = 0; r < p->n; r++)
        scored |= p->runs[r]->evaluations.n > 0;

    dg_str_add(p->out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                       "<meta name=\"color-scheme\" content=\"light dark\">");
    if (p->live) /* names in the run's files are escaped; if one were not, it could do nothing */
        dg_str_add(p->out, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                           "'none'; img-src data:; style-src 'unsafe-inline'; script-src 'self'; "
                           "connect-src 'self'; base-uri 'none'; form-action 'none'\">"
                           "<script src=\"live.js\" defer></script>");
    dg_str_add(p->out, "<title>");
    dg_page_text(p, p->n > 1 ? "%s and %d more: detrgraph" : "%s: detrgraph", h->name, p->n - 1);
    dg_str_add(p->out, "</title><style>\n");
    for (int i = 0; dg_report_style[i]; i++)
        dg_str_add(p->out, dg_report_style[i]);
    dg_str_add(p->out, dg_survey_style);
    dg_str_add(p->out, "</style></head><body>\n<header><h1>");
    if (p->n > 1) {
        dg_page_text(p, "%d runs compared", p->n);
    } else {
        dg_page_text(p, "%s", h->name);
        dg_str_fmt(p->out, "<span class=\"state %s\">%s</span>", dg_history_state(h),
                   dg_history_state(h));
    }
    dg_str_add(p->out, "</h1><p class=\"sub\">");
    if (p->n == 1)
        dg_page_text(p, "%s%s%s%s%s%s%s", pipeline ? "pipeline " : "", pipeline ? pipeline : "",
                     began ? ", began " : "", began ? began : "", continued ? ", continued " : "",
                     continued ? continued : "",
                     dg_history_text(h, "host")
                         ? dg_printf(p->arena, " on %s", dg_history_text(h, "host"))
                         : "");
    dg_str_fmt(p->out,
               "</p>\n<nav>%s<a href=\"#pictures\">Pictures</a><a href=\"#losses\">Losses</a><a "
               "href=\"#time\">Time</a>"
               "<a href=\"#graph\">Graph</a><a href=\"#data\">Data</a><a "
               "href=\"#setup\">Setup</a></nav></header>\n%s<main>\n",
               scored ? "<a href=\"#scores\">Scores</a>" : "",
               p->live ? "<div id=\"live\"></div>\n" : "");
}

void dg_report_sums(dg_str *out, const dg_report_part *parts, int n)
{
    dg_str_add(out, "{");
    for (int i = 0; i < n; i++)
        dg_str_fmt(out, "%s\"%s\":\"%016llx\"", i ? "," : "", parts[i].id,
                   (unsigned long long)parts[i].sum);
    dg_str_add(out, "}");
}

static void add_sums(dg_page *p)
{
    dg_str sums = { 0 };

    dg_report_sums(&sums, p->parts.items, p->parts.n);
    dg_str_add(p->out, "<div id=\"sums\" data-sums=\"");
    dg_str_xml(p->out, sums.s);
    dg_str_add(p->out, "\"></div>\n");
    dg_str_free(&sums);
}

static void write_page(dg_page *p)
{
    head(p);
    dg_page_section(p, "headline", NULL);
    dg_report_headline(p);
    dg_page_end_section(p);
    dg_report_scores(p);
    dg_report_pictures(p);
    dg_report_losses(p);
    dg_report_time(p);
    dg_report_setup(p);
    dg_str_add(p->out, "</main><footer>Written by detrgraph from ");
    for (int i = 0; i < p->n; i++)
        dg_page_text(p, "%s%s", i ? ", " : "", p->runs[i]->folder);
    dg_str_add(p->out, ".</footer>\n");
    if (p->live)
        add_sums(p);
    dg_str_add(p->out, "</body></html>\n");
}

static int open_runs(dg_page *p, const char *const *folders, int n, dg_diag *d)
{
    int rc = 0;

    p->arena = dg_arena_open();
    p->runs = DG_NEW_N(p->arena, n + 1, dg_history *);
    for (; rc == 0 && p->n < n; p->n += rc == 0)
        rc = dg_history_open(&p->runs[p->n], folders[p->n], d);
    return rc;
}

/* Names the runs; those of equal names by their folders. */
static void name_runs(dg_page *p)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(p->runs[i]->name, p->runs[k]->name) == 0) {
                p->runs[i]->name = p->runs[i]->folder;
                p->runs[k]->name = p->runs[k]->folder;
            }
}

static void close_runs(dg_page *p)
{
    for (int i = 0; i < p->n; i++)
        dg_history_close(&p->runs[i]);
    dg_arena_close(&p->arena);
}

static int page_of(dg_page *p, const char *const *folders, int n, dg_diag *d)
{
    int rc = open_runs(p, folders, n, d);

    if (rc == 0) {
        name_runs(p);
        write_page(p);
    }
    return rc;
}

int dg_report_write(const char *path, const char *const *folders, int n, dg_diag *d)
{
    dg_str out = { 0 };
    dg_page p = { .out = &out };
    int rc;

    DG_TRY(page_of(&p, folders, n, d));
    DG_TRY(dg_file_write(path, out.s, out.n, d));
out:
    dg_str_free(&out);
    close_runs(&p);
    return rc;
}

int dg_report_live(dg_report_page *out, const char *const *folders, int n, dg_diag *d)
{
    dg_page p = { .out = &out->html, .live = true };
    int rc;

    *out = (dg_report_page){ 0 };
    rc = page_of(&p, folders, n, d);
    for (int i = 0; i < p.n; i++)
        dg_history_close(&p.runs[i]);
    out->arena = p.arena;
    out->n = p.parts.n;
    out->parts = p.parts.items;
    if (rc < 0)
        dg_report_page_free(out);
    return rc;
}

void dg_report_page_free(dg_report_page *p)
{
    dg_str_free(&p->html);
    dg_arena_close(&p->arena);
    *p = (dg_report_page){ 0 };
}

/* ---- summary --------------------------------------------------------------------------------- */

static void summary_json(dg_str *out, const dg_history *h)
{
    dg_str_add(out, "{\"run\":");
    dg_str_json(out, h->folder);
    dg_str_fmt(out, ",\"state\":\"%s\",\"steps\":", dg_history_state(h));
    dg_str_json_real(out, dg_history_step(h));
    dg_str_add(out, ",\"best_step\":");
    dg_str_json_real(out, h->best_step >= 0 ? (double)h->best_step : NAN);
    dg_str_add(out, ",\"best_AP\":");
    dg_str_json_real(out, h->best_step >= 0 ? h->best : NAN);
    dg_str_add(out, ",\"last\":{");
    for (int i = 0, said = 0; i < h->train.series.n; i++) {
        dg_str_add(out, said++ ? "," : "");
        dg_str_json(out, h->train.series.items[i].name);
        dg_str_add(out, ":");
        dg_str_json_real(out, dg_series_last(&h->train.series.items[i]));
    }
    dg_str_add(out, "},\"evaluations\":{");
    for (int e = 0; e < h->evaluations.n; e++) {
        dg_str_add(out, e ? "," : "");
        dg_str_json(out, h->evaluations.items[e].scope);
        dg_str_add(out, ":{");
        for (int i = 0; i < h->evaluations.items[e].series.n; i++) {
            dg_str_add(out, i ? "," : "");
            dg_str_json(out, h->evaluations.items[e].series.items[i].name);
            dg_str_add(out, ":");
            dg_str_json_real(out, dg_series_last(&h->evaluations.items[e].series.items[i]));
        }
        dg_str_add(out, "}");
    }
    dg_str_add(out, "}}");
}

static void summary_text(dg_str *out, const dg_history *h, int width)
{
    double loss = dg_series_last(dg_track_find(&h->train, "loss")),
           speed = dg_series_last(dg_track_find(&h->train, "images_per_s"));

    dg_str_fmt(out, "%-*s  %-8s %7.0f  ", width, h->folder, dg_history_state(h),
               dg_history_step(h));
    if (h->best_step >= 0)
        dg_str_fmt(out, "%7.3f %7lld  ", h->best, (long long)h->best_step);
    else
        dg_str_fmt(out, "%7s %7s  ", "-", "-");
    dg_str_fmt(out, "%8.4g  %8.1f\n", loss, speed);
}

int dg_report_summary(dg_str *out, const char *const *folders, int n, bool json, dg_diag *d)
{
    dg_page p = { 0 };
    int rc, width = 3;

    DG_TRY(open_runs(&p, folders, n, d));
    for (int i = 0; i < p.n; i++)
        width = (int)strlen(p.runs[i]->folder) > width ? (int)strlen(p.runs[i]->folder) : width;
    if (json)
        dg_str_add(out, "[");
    else
        dg_str_fmt(out, "%-*s  %-8s %7s  %7s %7s  %8s  %8s\n", width, "run", "state", "steps",
                   "best AP", "at step", "loss", "images/s");
    for (int i = 0; i < p.n; i++) {
        if (!json) {
            summary_text(out, p.runs[i], width);
            continue;
        }
        dg_str_add(out, i ? ",\n" : "");
        summary_json(out, p.runs[i]);
    }
    dg_str_add(out, json ? "]\n" : "");
out:
    close_runs(&p);
    return rc;
}
