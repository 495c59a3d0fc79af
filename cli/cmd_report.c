/* cmd_report.c: `detrgraph report`: writes one or several runs as a page. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/report_serve.h"
#include "report/report.h"

typedef struct opts {
    const char *out, *format, *port, *address;
    bool serve;
} opts;

static const dg_option options[] = {
    { "out", DG_OPTION_STR, offsetof(opts, out), "FILE", NULL,
      "(or -o) file to write (RUN/report.html; for several runs report.html; for text and json "
      "standard output)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "html|text|json",
      "a page (html), or a summary" },
    { "serve", DG_OPTION_FLAG, offsetof(opts, serve), NULL, NULL,
      "serve the page to browsers of this machine, and keep it up to date" },
    { "port", DG_OPTION_STR, offsetof(opts, port), "N", NULL,
      "with --serve: listen at port N; 0 takes any free one (8081)" },
    { "address", DG_OPTION_STR, offsetof(opts, address), "IP", NULL,
      "with --serve: listen at this address, so that other machines can look, too (127.0.0.1)" },
    { 0 },
};

static const dg_example examples[] = {
    { "report runs/first", "Write runs/first/report.html again." },
    { "report runs/first runs/second -o both.html", "Compare two runs." },
    { "report runs/first --serve", "Follow a run in a browser, at http://127.0.0.1:8081." },
    { "report runs/* --format text", "Print one line per run." },
    { 0 },
};

enum { PORT = 8081 };

static int serve(const opts *o, const dg_words *words)
{
    dg_diag *d = dg_diag_open();
    int64_t port = PORT;
    int rc;

    if (o->port && (!dg_parse_i64(o->port, &port) || port < 0 || port > 65535)) {
        dg_say_error("detrgraph report: --port %s: a number from 0 to 65535 is expected\n",
                     o->port);
        dg_diag_close(&d);
        return DG_EXIT_USAGE;
    }
    rc = dg_report_serve(words->v, words->n, o->address, (int)port, d);
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_report(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    dg_diag *d;
    dg_str text = { 0 };
    const char *path = o->out         ? o->out
                       : words->n > 1 ? "report.html"
                                      : dg_path_join(a, words->v[0], "report.html");
    bool page = !o->format || strcmp(o->format, "html") == 0;
    int rc;

    if (o->serve ? o->out || !page : o->port || o->address) {
        dg_say_error(o->serve ? "detrgraph report: --serve writes no file: it goes without --out "
                                "and --format\n"
                              : "detrgraph report: --port and --address need --serve\n");
        return DG_EXIT_USAGE;
    }
    if (o->serve)
        return serve(o, words);
    d = dg_diag_open();
    rc = page ? dg_report_write(path, words->v, words->n, d)
              : dg_report_summary(&text, words->v, words->n, strcmp(o->format, "json") == 0, d);

    if (rc == 0 && !page && o->out)
        rc = dg_file_write(o->out, text.s, text.n, d);
    if (rc == 0 && (page || o->out)) {
        dg_say("%s\n", path);
        if (page && words->n == 1)
            dg_next("predict %s IMAGE...   (%s opens in any browser)", dg_shell(a, words->v[0]),
                    path);
    } else if (rc == 0)
        dg_say("%s", text.s);
    dg_print_diag(d, NULL);
    dg_str_free(&text);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

const dg_verb dg_verb_report = {
    .name = "report",
    .args = "RUN... [-o FILE] [--serve]",
    .brief = "Write a page about one run, or compare several.",
    .doc = "RUN is the folder of a run that is finished, in progress or failed. The page is a "
           "single file that\n"
           "needs no network.",
    .manual = "The page shows scores, precision over recall, detections beside ground truth, "
              "losses, speed, memory,\n"
              "the graph coloured by time per node, data, pipeline, machine and versions. For "
              "several runs, curves\n"
              "share one plot, and settings and pipelines are compared with the first run's.\n\n"
              "With --serve the page follows the runs in a browser: state, loss, learning rate, AP "
              "beside what boxes that never move reach, time left and ranks every second; sections "
              "of the page as they change, at most every five seconds. It goes on when a run ends, "
              "begins again or is deleted, until Ctrl-C. Only this machine can look at it, unless "
              "--address says otherwise: then everybody who reaches that address can.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = -1,
    .run = verb_report,
};
