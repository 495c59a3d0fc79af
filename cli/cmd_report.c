/* cmd_report.c: `detrgraph report`: a run, or several, as a page for people. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "runtime/report.h"

typedef struct opts {
    const char *out, *format;
} opts;

static const dg_option options[] = {
    { "out", DG_OPTION_STR, offsetof(opts, out), "FILE", NULL, "(or -o) where it goes (RUN/report.html; of several runs report.html; summaries: standard output)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "html|text|json", "a page, or a summary (html)" },
    { 0 },
};

static const dg_example examples[] = {
    { "report runs/first", "writes runs/first/report.html anew" },
    { "report runs/first runs/second -o both.html", "compares two runs" },
    { "report runs/* --format text", "a line a run" },
    { 0 },
};

static int run(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    dg_diag    *d = dg_diag_open();
    dg_str      text = { 0 };
    const char *path = o->out ? o->out : words->n > 1 ? "report.html" : dg_path_join(a, words->v[0], "report.html");
    bool        page = !o->format || strcmp(o->format, "html") == 0;
    int         rc = page ? dg_report_write(path, words->v, words->n, d)
                          : dg_report_summary(&text, words->v, words->n, strcmp(o->format, "json") == 0, d);

    if (rc == 0 && !page && o->out)
        rc = dg_file_write(o->out, text.s, text.n, d);
    if (rc == 0 && (page || o->out)) {
        printf("%s\n", path);
        if (page && words->n == 1)
            dg_next("predict %s IMAGE...   (%s opens in any browser)", words->v[0], path);
    } else if (rc == 0)
        fputs(text.s, stdout);
    dg_print_diag(d, NULL);
    dg_str_free(&text);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

const dg_verb dg_verb_report = {
    .name = "report",
    .args = "RUN... [-o FILE]",
    .brief = "Writes a page about a run, or about several beside each other.",
    .doc = "RUN is a run's folder: of a run that is done, goes on, or failed. The page is one file that opens without a network.",
    .manual = "The page has scores, precision over recall, detections beside truths, losses, speed, memory, the graph coloured by the time\n"
              "of its nodes, data, pipeline, machine and versions. Of several runs the curves stand in one picture, and what differs in\n"
              "settings and pipelines is listed against the first.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = -1,
    .run = run,
};
