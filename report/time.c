/* time.c: where the time went: speed, memory, nodes, ranks, and the graph coloured by time. */
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { ROWS = 14 };

static int items_of(const dg_json *list)
{
    return list && list->kind == DG_JSON_ARRAY ? list->n : 0;
}

/* ---- over the steps -------------------------------------------------------------------------- */

static void over_runs(dg_page *p, dg_figure f, const char *name)
{
    f.from_zero = true;
    for (int r = 0; r < p->n; r++)
        dg_figure_add(p, &f, p->runs[r]->name, dg_track_find(&p->runs[r]->train, name),
                      p->n > 1 ? r : 0);
    dg_figure_draw(p, &f);
}

static void speed_figures(dg_page *p)
{
    const dg_track *t = &p->runs[0]->train;
    dg_figure f = { .title = "Seconds of a step", .unit = "s", .smooth = true, .from_zero = true };

    dg_page_figures(p);
    over_runs(p, (dg_figure){ .title = "Images a second", .unit = "images/s", .smooth = true },
              "images_per_s");
    if (p->n > 1) {
        over_runs(p, f, "seconds");
    } else {
        dg_figure_add(p, &f, "whole step", dg_track_find(t, "seconds"), 0);
        dg_figure_add(p, &f, "waiting for data", dg_track_find(t, "data_seconds"), 1);
        dg_figure_add(p, &f, "waiting for other ranks", dg_track_find(t, "wait_seconds"), 2);
        dg_figure_add(p, &f, "its device works", dg_track_find(t, "device_seconds"), 3);
        dg_figure_draw(p, &f);
    }
    over_runs(p,
              (dg_figure){ .title = "Memory of rank 0",
                           .unit = "MiB",
                           .note = "MiB",
                           .scale = 1.0 / (1 << 20) },
              "memory_bytes");
    over_runs(p,
              (dg_figure){ .title = "Memory of its device, in use",
                           .unit = "MiB",
                           .note = "MiB",
                           .scale = 1.0 / (1 << 20) },
              "device_memory_bytes");
    dg_page_end_figures(p);
}

/* ---- nodes and ops --------------------------------------------------------------------------- */

static double sum_of(const dg_json *shares)
{
    double sum = 0;

    for (int i = 0; i < items_of(shares); i++)
        sum += fmax(dg_json_number(&shares->items[i], "seconds"), 0);
    return sum;
}

static void share_table(dg_page *p, const char *head, const dg_json *shares)
{
    double all = sum_of(shares), rest = 0;
    int n = items_of(shares);

    dg_str_fmt(p->out,
               "<table><tr><th>%s</th><th class=\"n\">ms</th><th class=\"n\">%%</th><th></th><th "
               "class=\"n\">GFLOP/s</th></tr>\n",
               head);
    for (int i = 0; i < n; i++) {
        const dg_json *o = &shares->items[i];
        double s = dg_json_number(o, "seconds"), rate = dg_json_number(o, "gflops") / s;

        if (i >= ROWS) {
            rest += s;
            continue;
        }
        dg_str_add(p->out, "<tr><td>");
        dg_page_text(p, "%s", dg_json_text(o, "name"));
        dg_str_add(p->out, "</td>");
        dg_page_cell(p, 1e3 * s, 1e3 * s < 9.95 ? 2 : 1);
        dg_page_cell(p, 100 * s / all, 1);
        dg_page_bar(p, s / fmax(dg_json_number(&shares->items[0], "seconds"), 1e-12), 4);
        dg_page_cell(p, rate >= 0.5 ? rate : NAN, 0);
        dg_str_add(p->out, "</tr>\n");
    }
    if (n > ROWS)
        dg_str_fmt(p->out,
                   "<tr><td>%d more</td><td class=\"n\">%.2f</td><td "
                   "class=\"n\">%.1f</td><td></td><td></td></tr>\n",
                   n - ROWS, 1e3 * rest, 100 * rest / all);
    dg_str_add(p->out, "</table>\n");
}

/* Divides a step into the nodes' time as measured, waiting as summed by the ranks, and the rest. */
static void budget(dg_page *p, const dg_history *h)
{
    const dg_json *profile = dg_json_get(h->run, "profile"),
                  *ranks = dg_json_get(h->run, "per_rank");
    const dg_json *own = items_of(ranks) ? &ranks->items[0] : NULL;
    double steps = dg_json_number(own, "steps"), step = dg_json_number(own, "seconds") / steps,
           nodes = sum_of(dg_json_get(profile, "nodes"));
    double data = dg_json_number(own, "data_seconds") / steps,
           wait = dg_json_number(own, "wait_seconds") / steps;
    /* profiled steps may differ from the mean */
    double computing = fmin(fmax(nodes - wait, 0), step - data - wait);
    const struct {
        const char *name;
        double s;
        int color;
    } parts[] = { { "computing", computing, 0 },
                  { "waiting for data", data, 1 },
                  { "waiting for other ranks", wait, 2 },
                  { "all else", step - computing - data - wait, 7 } };

    if (!(steps >= 1) || !(step > 0))
        return;
    dg_str_fmt(p->out,
               "<p>A step of rank 0 took %.1f ms in the mean of %.0f.</p><div class=\"stack\">",
               1e3 * step, steps);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].s > 1e-4 * step)
            dg_str_fmt(p->out, "<i class=\"c%d\" style=\"width:%.2f%%\"></i>", parts[i].color,
                       100 * fmin(parts[i].s / step, 1));
    dg_str_add(p->out, "</div><p class=\"legend key\">");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].s > 1e-4 * step)
            dg_str_fmt(p->out, "<span><i class=\"c%d\"></i>%s %.1f ms</span>", parts[i].color,
                       parts[i].name, 1e3 * parts[i].s);
    dg_str_add(p->out, "</p>\n");
}

static void profile_of(dg_page *p, const dg_history *h)
{
    const dg_json *profile = dg_json_get(h->run, "profile"), *nodes = dg_json_get(profile, "nodes");

    if (!items_of(nodes))
        return;
    dg_str_add(p->out, "<p class=\"note\">Nodes and ops: mean of the ");
    dg_page_number(p, dg_json_number(profile, "steps"), 6);
    dg_str_add(p->out, " steps that were timed instruction by instruction.</p>\n");
    dg_str_add(p->out, "<div class=\"row wide\"><div class=\"scroll\">");
    share_table(p, "node", nodes);
    dg_str_add(p->out, "</div><div class=\"scroll\">");
    share_table(p, "op", dg_json_get(profile, "ops"));
    dg_str_add(p->out, "</div></div>\n");
}

static double seconds_of(const dg_history *h, const char *node)
{
    const dg_json *nodes = dg_json_get(dg_json_get(h->run, "profile"), "nodes");

    for (int i = 0; i < items_of(nodes); i++)
        if (strcmp(dg_json_text(&nodes->items[i], "name"), node) == 0)
            return dg_json_number(&nodes->items[i], "seconds");
    return NAN;
}

static void compare_nodes(dg_page *p)
{
    const dg_json *nodes = dg_json_get(dg_json_get(p->runs[0]->run, "profile"), "nodes");

    if (!items_of(nodes))
        return;
    dg_page_runs_table(p, "Time of nodes, ms a step", "node");
    for (int i = 0; i < items_of(nodes) && i < ROWS; i++) {
        dg_str_add(p->out, "<tr><td>");
        dg_page_text(p, "%s", dg_json_text(&nodes->items[i], "name"));
        dg_str_add(p->out, "</td>");
        for (int r = 0; r < p->n; r++)
            dg_page_cell(p, 1e3 * seconds_of(p->runs[r], dg_json_text(&nodes->items[i], "name")),
                         2);
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div>\n");
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void graph_of(dg_page *p, const dg_history *h)
{
    bool coloured = items_of(dg_json_get(dg_json_get(h->run, "profile"), "nodes")) > 0;

    dg_str_add(p->out, "<details><summary>The pipeline, node by node</summary>");
    dg_str_add(p->out, coloured
                           ? "<p class=\"note\">Stronger colours took more of a step. Grey: the "
                             "loader's threads, and what computes nothing "
                             "of its own.</p>\n"
                           : "");
    dg_str_add(p->out, "<div class=\"graph\">");
    if (!dg_page_image(p, dg_path_join(p->arena, h->folder, "graph.svg"), "svg+xml",
                       "the pipeline as a graph"))
        dg_str_add(p->out, "<p>The folder has no graph.svg; <code>detrgraph render</code> draws "
                           "its pipeline.xml.</p>");
    dg_str_add(p->out, "</div></details>\n");
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void ranks_of(dg_page *p, const dg_history *h)
{
    const dg_json *ranks = dg_json_get(h->run, "per_rank");

    if (items_of(ranks) < 2)
        return;
    dg_str_add(p->out, "<h3>");
    dg_page_text(p, p->n > 1 ? "Ranks of %s, ms a step" : "Ranks, ms a step", h->name);
    dg_str_add(
        p->out,
        "</h3><div class=\"scroll\"><table><tr><th>rank</th><th>host</th><th class=\"n\">step</th>"
        "<th class=\"n\">waiting for data</th>"
        "<th class=\"n\">waiting for ranks</th><th></th><th class=\"n\">adding, copying</th><th "
        "class=\"n\">control plane</th>"
        "<th class=\"n\">collectives</th><th class=\"n\">bytes</th><th "
        "class=\"n\">memory</th></tr>\n");
    for (int i = 0; i < ranks->n; i++) {
        const dg_json *o = &ranks->items[i];
        double n = dg_json_number(o, "steps"), wait = dg_json_number(o, "wait_seconds"),
               all = dg_json_number(o, "seconds");

        dg_str_fmt(p->out, "<tr><td class=\"n\">%d</td><td>", i);
        dg_page_text(p, "%s", dg_json_text(o, "host"));
        dg_str_add(p->out, "</td>");
        dg_page_cell(p, 1e3 * all / n, 1);
        dg_page_cell(p, 1e3 * dg_json_number(o, "data_seconds") / n, 2);
        dg_page_cell(p, 1e3 * wait / n, 2);
        dg_page_bar(p, wait / all, 2);
        dg_page_cell(p, 1e3 * dg_json_number(o, "work_seconds") / n, 2);
        dg_page_cell(p, 1e3 * dg_json_number(o, "control_seconds") / n, 3);
        dg_page_cell(p, dg_json_number(o, "collectives") / n, 0);
        dg_page_bytes(p, dg_json_number(o, "bytes") / n);
        dg_page_bytes(p, dg_json_number(o, "peak_bytes"));
        dg_str_add(p->out, "</tr>\n");
    }
    dg_str_add(p->out, "</table></div><p class=\"note\">The rank that waits least is the one that "
                       "the others wait for.</p>\n");
}

void dg_report_time(dg_page *p)
{
    dg_page_section(p, "time", "Time and memory");
    if (p->n == 1)
        budget(p, p->runs[0]);
    speed_figures(p);
    if (p->n > 1)
        compare_nodes(p);
    else
        profile_of(p, p->runs[0]);
    for (int r = 0; r < p->n; r++)
        ranks_of(p, p->runs[r]);
    dg_page_end_section(p);
    dg_page_section(p, "graph", p->n > 1 ? "Graphs" : "Graph");
    for (int r = 0; r < p->n; r++) {
        if (p->n > 1) {
            dg_str_add(p->out, "<details><summary>");
            dg_page_text(p, "%s", p->runs[r]->name);
            dg_str_add(p->out, "</summary>\n");
        }
        graph_of(p, p->runs[r]);
        dg_str_add(p->out, p->n > 1 ? "</details>\n" : "");
    }
    dg_page_end_section(p);
}
