/* setup.c: what was run: data, pipeline, versions, machine; for several runs, the differences. */
#include "report/page.h"

#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "media/survey.h"

enum { LOG_LINES = 30 };

/* ---- data ------------------------------------------------------------------------------------ */

static void data_of(dg_page *p, const dg_history *h)
{
    dg_diag *d = dg_diag_open();
    dg_survey *s = NULL;
    const char *path = dg_path_join(p->arena, h->folder, "data.json");

    if (!dg_exists(path)) {
        dg_str_add(p->out, "<p class=\"note\">The folder has no data.json, which a run writes "
                           "before its first step.</p>\n");
    } else if (dg_survey_read(&s, path, d) < 0) {
        dg_str_add(p->out, "<p class=\"note\">");
        dg_page_text(p, "data.json cannot be read: %s", dg_diag_at(d, 0)->text);
        dg_str_add(p->out, "</p>\n");
    } else {
        dg_survey_html_part(p->out, s);
    }
    dg_survey_close(&s);
    dg_diag_close(&d);
}

static bool have_same_data(const dg_history *a, const dg_history *b)
{
    const dg_json *x = dg_json_get(a->run, "data"), *y = dg_json_get(b->run, "data");
    bool same = x && y && x->kind == DG_JSON_ARRAY && y->kind == DG_JSON_ARRAY && x->n == y->n;

    for (int i = 0; same && i < x->n; i++)
        same =
            *dg_json_text(&x->items[i], "digest") &&
            strcmp(dg_json_text(&x->items[i], "digest"), dg_json_text(&y->items[i], "digest")) == 0;
    return same;
}

/* The first run with the same data. */
static int first_with_data_of(const dg_page *p, int r)
{
    int first = 0;

    while (first < r && !have_same_data(p->runs[first], p->runs[r]))
        first++;
    return first;
}

static void data(dg_page *p)
{
    dg_page_section(p, "data", "Data");
    for (int r = 0; r < p->n; r++) {
        int first = first_with_data_of(p, r);

        if (p->n > 1) {
            dg_str_fmt(p->out, "<details%s><summary>", r == 0 ? " open" : "");
            dg_page_text(p, first < r ? "%s: as %s" : "%s", p->runs[r]->name, p->runs[first]->name);
            dg_str_add(p->out, "</summary>\n");
        }
        if (first == r)
            data_of(p, p->runs[r]);
        dg_str_add(p->out, p->n > 1 ? "</details>\n" : "");
    }
    dg_page_end_section(p);
}

/* ---- settings -------------------------------------------------------------------------------- */

typedef struct setting {
    const char *key, *name;
    enum { TEXT, COUNT, BYTES, LIST, MOMENT } kind;
} setting;

static const setting settings[] = {
    { "pipeline", "pipeline", TEXT },
    { "file", "file", TEXT },
    { "sets", "set on the command line", LIST },
    { "seed", "seed", TEXT },
    { "versions", "versions", TEXT },
    { "precision", "precision", TEXT },
    { "batch", "batch, all ranks", COUNT },
    { "accumulate", "batches an update", COUNT },
    { "batches_per_epoch", "batches an epoch", COUNT },
    { "steps", "steps", COUNT },
    { "from_step", "resumed from step", COUNT },
    { "parameters", "parameters trained", COUNT },
    { "frozen", "parameters frozen", COUNT },
    { "planned_bytes", "memory planned", BYTES },
    { "ranks", "ranks", COUNT },
    { "machines", "machines", COUNT },
    { "threads", "threads of a rank", COUNT },
    { "host", "host", TEXT },
    { "system", "system", TEXT },
    { "cpu", "processor", TEXT },
    { "features", "its features", TEXT },
    { "cores", "cores", COUNT },
    { "memory_bytes", "memory", BYTES },
    { "began", "began", MOMENT },
    { "continued", "continued", MOMENT },
    { "end.at", "last heard of", MOMENT },
    { "end.why", "ended because", TEXT },
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static const char *value_of(dg_page *p, const dg_history *h, const setting *s)
{
    const char *text = dg_history_text(h, s->key);
    const dg_json *list = s->kind == LIST ? dg_json_get(h->run, s->key) : NULL;
    double number = dg_history_number(h, s->key);
    char human[40];
    dg_str joined = { 0 };

    if (text)
        return text;
    if (fabs(number) < 1e15)
        return dg_strdup(p->arena, s->kind == BYTES
                                       ? dg_human_bytes(number, human, sizeof human)
                                       : dg_human_count((int64_t)number, human, sizeof human));
    for (int i = 0; list && list->kind == DG_JSON_ARRAY && i < list->n; i++)
        dg_str_fmt(&joined, "%s%s", i ? "  " : "",
                   list->items[i].kind == DG_JSON_STRING ? list->items[i].text : "");
    text = dg_strdup(p->arena, joined.s ? joined.s : "");
    dg_str_free(&joined);
    return text;
}

static bool differs(dg_page *p, const setting *s)
{
    for (int r = 1; r < p->n; r++)
        if (strcmp(value_of(p, p->runs[0], s), value_of(p, p->runs[r], s)) != 0)
            return true;
    return false;
}

/* For several runs, the settings that differ; for one, all that have a value. */
static void settings_table(dg_page *p)
{
    dg_str_add(p->out, "<div class=\"scroll\"><table>\n");
    if (p->n > 1) {
        dg_str_add(p->out, "<tr><th></th>");
        for (int r = 0; r < p->n; r++) {
            dg_str_add(p->out, "<th>");
            dg_page_text(p, "%s", p->runs[r]->name);
            dg_str_add(p->out, "</th>");
        }
        dg_str_add(p->out, "</tr>\n");
    }
    for (int i = 0; i < N_SETTINGS; i++) {
        const char *own = value_of(p, p->runs[0], &settings[i]);

        if (p->n > 1 ? settings[i].kind == MOMENT || !differs(p, &settings[i])
                     : !*own || (settings[i].kind == COUNT && strcmp(own, "0") == 0))
            continue;
        dg_str_fmt(p->out, "<tr><th>%s</th>", settings[i].name);
        for (int r = 0; r < p->n; r++) {
            dg_str_add(p->out, "<td>");
            dg_page_text(p, "%s", value_of(p, p->runs[r], &settings[i]));
            dg_str_add(p->out, "</td>");
        }
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

static void pipeline_text(dg_page *p, const dg_history *h, bool open)
{
    dg_str_fmt(p->out, "<details%s><summary>", open ? " open" : "");
    dg_page_text(p, "pipeline.xml of %s", h->name);
    dg_str_add(p->out, "</summary><pre>");
    dg_page_text(p, "%s", h->pipeline);
    dg_str_add(p->out, "</pre></details>\n");
}

static void differences(dg_page *p)
{
    for (int r = 1; r < p->n; r++) {
        if (!p->runs[0]->pipeline || !p->runs[r]->pipeline)
            continue;
        dg_str_add(p->out, "<h3>");
        dg_page_text(p, "Pipeline: %s against %s", p->runs[r]->name, p->runs[0]->name);
        dg_str_add(p->out, "</h3>");
        if (!dg_report_diff(p, p->runs[0]->pipeline, p->runs[r]->pipeline))
            dg_str_add(p->out, "<p>The files are equal.</p>\n");
    }
}

/* The end of run.log. */
static void log_of(dg_page *p, const dg_history *h)
{
    enum { MOST = 64 << 20 };
    dg_diag *ignored = dg_diag_open();
    char *text = NULL;
    size_t n = 0, at;

    if (dg_file_read(&text, &n, dg_path_join(p->arena, h->folder, "run.log"), MOST, ignored) == 0 &&
        n) {
        at = n - 1;
        for (int lines = 0; at > 0 && lines < LOG_LINES; at--)
            lines += text[at - 1] == '\n';
        dg_str_add(p->out, "<details><summary>");
        dg_page_text(p, "The end of run.log of %s", h->name);
        dg_str_add(p->out, "</summary><pre>");
        dg_page_text(p, "%s", text + at + (at > 0));
        dg_str_add(p->out, "</pre></details>\n");
    }
    dg_free(text);
    dg_diag_close(&ignored);
}

void dg_report_setup(dg_page *p)
{
    data(p);
    dg_page_section(p, "setup", p->n > 1 ? "What differs" : "Pipeline and machine");
    settings_table(p);
    if (p->n > 1)
        differences(p);
    for (int r = 0; r < p->n; r++) {
        if (p->runs[r]->pipeline)
            pipeline_text(p, p->runs[r], p->n == 1);
        log_of(p, p->runs[r]);
    }
    dg_page_end_section(p);
}
