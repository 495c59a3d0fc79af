/* cmd_key.c: `detrgraph key`: creates the secret of a run on several machines. */
#include <stdio.h>

#include "cli/cli.h"
#include "control/keyfile.h"

typedef struct opts {
    bool none;
} opts;

static const dg_option options[] = { { 0 } };

static int verb_key(const void *given, const dg_words *words, dg_arena *a)
{
    dg_diag *d = dg_diag_open();
    int rc = dg_key_file_make(words->v[0], d);

    (void)given, (void)a;
    if (rc < 0)
        dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

const dg_verb dg_verb_key = {
    .name = "key",
    .args = "FILE",
    .brief = "Create the key for a run on several machines.",
    .doc = "FILE is readable by its owner only. Copy it to every machine and pass it with `run "
           "--key`. Anyone\n"
           "who has it can join the run.",
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 1,
    .run = verb_key,
};
