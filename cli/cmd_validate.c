/* cmd_validate.c: `detrgraph validate`: checks a pipeline without data and kernels. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "control/message.h"
#include "graph/digest.h"
#include "proof/proof.h"

typedef struct options {
    dg_words sets;
    const char *format, *peer;
    int64_t ranks;
} options;

static const dg_option rows[] = {
    DG_OPTION_SETS(options),
    { "format", DG_OPTION_WORD, offsetof(options, format), NULL, "text|json",
      "output format of errors (text); json goes to standard output" },
    { "ranks", DG_OPTION_INT, offsetof(options, ranks), "N", NULL,
      "number of ranks to prove where the mesh says dp=\"ranks\" (2)" },
    { "peer", DG_OPTION_STR, offsetof(options, peer), "OTHER", NULL,
      "another rank's pipeline: compare the graphs as ranks do when they start" },
    { 0 },
};

/* Compares two pipelines, as the ranks of a run do at the start. */
static int compare_peer(const dg_graph *g, const options *o, const dg_set *sets, dg_diag *d)
{
    dg_diag *own = dg_diag_open();
    dg_registry *r = dg_builtin_registry(own);
    dg_graph *other = NULL;
    int rc = r ? dg_graph_load(&other, o->peer, sets, o->sets.n, r, own) : -DG_EINTERNAL;

    if (rc < 0)
        dg_diag_merge(d, own);
    else
        rc = dg_graph_compare(g, other, d);
    dg_graph_close(&other);
    dg_registry_close(&r);
    dg_diag_close(&own);
    return rc;
}

static int report(const options *o, const dg_diag *d, dg_graph *g, const char *file)
{
    int errors = dg_diag_errors(d), warnings = dg_diag_warnings(d);

    if (o->format && strcmp(o->format, "json") == 0) {
        dg_print_diag_json(d);
        return errors ? DG_EXIT_FAILED : DG_EXIT_OK;
    }
    dg_print_diag(d, g);
    if (errors)
        dg_say_error("%d error%s%s\n", errors, dg_plural(errors, "s"),
                     warnings ? ", and warnings" : "");
    else
        dg_say("%s: no errors\n", file);
    return errors ? DG_EXIT_FAILED : DG_EXIT_OK;
}

/* A program of some MB is made and closed for each size of images. Pages that go back to the system
 * in between are cleared by it again: a third of the time of a pipeline with 23 sizes. */
static void keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 16 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

static int verb_validate(const void *self, const dg_words *words, dg_arena *a)
{
    const options *o = self;
    dg_diag *d;
    dg_registry *r;
    dg_graph *g = NULL;
    const dg_set *sets = dg_sets(&o->sets, a);
    int rc = 0, said;

    if (o->ranks > DG_MAX_RANKS) {
        dg_say_error("detrgraph validate: --ranks %lld: a whole number up to %d is expected\n",
                     (long long)o->ranks, DG_MAX_RANKS);
        return DG_EXIT_USAGE;
    }
    keep_memory();
    d = dg_diag_open();
    r = dg_builtin_registry(d);

    if (r && dg_graph_load(&g, words->v[0], sets, o->sets.n, r, d) == 0) {
        if (g->ranks_open)
            g->ranks = o->ranks > 0 ? o->ranks : 2;
        else if (o->ranks > 0 && g->axis && o->ranks != g->ranks)
            rc = dg_fail(d, DG_EINPUT, g->mesh.item->at, "ranks-mesh",
                         "the mesh says dp=\"%lld\", --ranks %lld", (long long)g->ranks,
                         (long long)o->ranks);
        else if (o->ranks > 1 && !g->axis)
            rc = dg_graph_unshared(g, o->ranks, d);
        rc = rc < 0 ? rc : dg_graph_validate(g, d);
        if (o->peer && rc == 0)
            rc = compare_peer(g, o, sets, d);
    }
    said = report(o, d, g, words->v[0]);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : said;
}

static const dg_example examples[] = {
    { "validate bccd_r18vd.xml --set data=/data/bccd --ranks 8",
      "Prove the pipeline for eight ranks." },
    { "validate mine.xml --format json",
      "Print id, file, line, column and text of each error for an editor or script." },
    { 0 },
};

const dg_verb dg_verb_validate = {
    .name = "validate",
    .args = "FILE [OPTIONS]",
    .brief = "Check a pipeline and report all its errors.",
    .doc = "Exits with 0 if there are no errors (there may be warnings), else with 1. What "
           "it accepts,\n"
           "run runs.",
    .manual = "Reads, expands, checks and lowers the pipeline at every image size. Every trainable "
              "parameter must\n"
              "reach the loss, and no rank's own data, clock or failures may make ranks diverge. "
              "Opens no data set\n"
              "and computes nothing. Reports all errors at once, one per cause, with place, reason "
              "and fix.",
    .examples = examples,
    .options = rows,
    .size = sizeof(options),
    .least = 1,
    .most = 1,
    .run = verb_validate,
};
