/* cmd_doctor.c: `detrgraph doctor`: what happened to a run that failed. */
#include <stdio.h>

#include "cli/cli.h"
#include "runtime/doctor.h"

typedef struct opts {
    bool none;
} opts;

static const dg_option options[] = { { 0 } };

static int run(const void *given, const dg_words *words, dg_arena *a)
{
    dg_diag *d = dg_diag_open();
    dg_str   text = { 0 };
    int      rc = dg_doctor_examine(&text, words->v[0], d);

    (void)given, (void)a;
    if (rc == 0)
        fputs(text.s, stdout);
    else
        dg_print_diag(d, NULL);
    dg_str_free(&text);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

const dg_verb dg_verb_doctor = {
    .name = "doctor",
    .args = "RUN",
    .brief = "Says what happened to a run that failed.",
    .doc = "RUN is the run's folder. Its folder flight holds the last steps and collectives of every rank: doctor names the\n"
           "rank, the node and its line, and where the ranks parted.",
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = run,
};
