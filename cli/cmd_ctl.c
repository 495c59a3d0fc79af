/* cmd_ctl.c: `detrgraph ctl`: sends requests to a running job through the file "control" in its
 * folder. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/job.h"
#include "control/control_file.h"

typedef struct opts {
    const char *format;
} opts;

static const dg_option options[] = {
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json",
      "output format of status (text)" },
    { 0 },
};
static const double most_s = 20; /* a busy machine is slow */

static bool understood(const opts *o, const dg_words *w)
{
    const char *verb = w->v[1];
    bool set = strcmp(verb, "set") == 0;

    if (o->format && strcmp(verb, "status") != 0) {
        dg_say_error(
            "detrgraph ctl: --format says how status is printed; %s prints nothing for programs\n",
            verb);
        return false;
    }
    if ((set && w->n == 3) ||
        (w->n == 2 &&
         (strcmp(verb, "status") == 0 || strcmp(verb, "save") == 0 || strcmp(verb, "stop") == 0)))
        return true;
    dg_say_error("detrgraph ctl: status, save, stop, set lr=NUMBER or set lr=schedule is "
                 "expected after the run's folder\n");
    return false;
}

/* Prints as JSON what `top` shows. */
static int print_json(const char *folder, dg_diag *d)
{
    dg_job *job = dg_job_open(folder);
    dg_str text = { 0 };
    int rc = dg_job_ask(job, d);

    if (rc == 0) {
        dg_job_json(&text, job, dg_job_look(job));
        dg_say("%s", text.s);
    }
    dg_str_free(&text);
    dg_job_close(&job);
    return rc;
}

static int verb_ctl(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    bool json = o->format && strcmp(o->format, "json") == 0;
    dg_diag *d;
    dg_str answer = { 0 };
    dg_control_file e;
    bool done = json;
    int rc;

    if (!understood(o, words))
        return DG_EXIT_USAGE;
    d = dg_diag_open();
    if (json) {
        rc = print_json(words->v[0], d);
        goto out;
    }
    DG_TRY(dg_control_file_read(words->v[0], &e, a, d));
    DG_TRY(dg_control_file_ask(&e, words->v[1], words->n > 2 ? words->v[2] : "", most_s, &done,
                               &answer, d));
    if (answer.n)
        (done ? dg_say : dg_say_error)("%s%s", answer.s,
                                       answer.s[answer.n - 1] == '\n' ? "" : "\n");
out:
    if (rc < 0)
        dg_print_diag(d, NULL);
    dg_str_free(&answer);
    dg_diag_close(&d);
    return rc == 0 && done ? DG_EXIT_OK : DG_EXIT_FAILED;
}

static const dg_example examples[] = {
    { "ctl runs/bccd save", "Save a checkpoint now; training continues." },
    { 0 },
};

const dg_verb dg_verb_ctl = {
    .name = "ctl",
    .args = "RUN status|save|stop|set [lr=NUMBER|lr=schedule]",
    .brief = "Query or control a running job.",
    .doc = "RUN is the run's folder. Its file `control`, readable by the owner only, holds the "
           "job's address.\n\n"
           "  status          print what every rank is doing\n"
           "  save            write a checkpoint after the current step\n"
           "  stop            save and stop after the current step, as Ctrl-C does\n"
           "  set lr=NUMBER   use this learning rate from the next step on: for the group that the "
           "log shows,\n"
           "                  for other groups in proportion. It is saved with the run.\n"
           "  set lr=schedule return to the schedule",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 2,
    .most = 3,
    .run = verb_ctl,
};
