/* verbs.c: the table of verbs. To add a verb: a row here, a declaration in cli.h, its file in
 * cli/local.mk and its man page in docs/local.mk. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define VERBS(...) ((const dg_verb *const[]){ __VA_ARGS__, NULL })

const dg_verb_group dg_verb_groups[] = {
    { "Train, evaluate, detect", VERBS(&dg_verb_run, &dg_verb_evaluate, &dg_verb_predict,
                                       &dg_verb_serve, &dg_verb_score, &dg_verb_bench) },
    { "Prepare data", VERBS(&dg_verb_data, &dg_verb_init) },
    { "Watch and manage runs",
      VERBS(&dg_verb_report, &dg_verb_top, &dg_verb_ctl, &dg_verb_doctor, &dg_verb_key) },
    { "Exchange weights", VERBS(&dg_verb_weights) },
    { "Work on pipelines",
      VERBS(&dg_verb_validate, &dg_verb_render, &dg_verb_plan, &dg_verb_nodes) },
    { "Write nodes", VERBS(&dg_verb_new, &dg_verb_check_node) },
    { "Help", VERBS(&dg_verb_help) },
    { 0 },
};

const dg_verb *dg_verb_find(const char *name)
{
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++)
        for (const dg_verb *const *v = g->verbs; *v; v++)
            if (strcmp((*v)->name, name) == 0)
                return *v;
    return NULL;
}

/* Names that other programs use for our verbs. */
static const struct {
    const char *other, *ours;
} others[] = {
    { "train", "run" },
    { "fit", "run" },
    { "resume", "run --resume" },
    { "eval", "evaluate" },
    { "test", "evaluate" },
    { "val", "evaluate" },
    { "detect", "predict" },
    { "infer", "predict" },
    { "inference", "predict" },
    { "check", "validate" },
    { "lint", "validate" },
    { "draw", "render" },
    { "graph", "render" },
    { "show", "render" },
    { "view", "render" },
    { "visualize", "render" },
    { "plot", "report" },
    { "monitor", "top" },
    { "watch", "top" },
    { "download", "weights fetch" },
    { "convert", "data convert" },
    { "export", "weights export" },
    { "import", "weights import" },
    { "inspect", "weights inspect" },
    { "stop", "ctl RUN stop" },
    { "status", "ctl RUN status" },
    { "compare", "report" },
    { "benchmark", "bench" },
};
enum { N_OTHERS = sizeof others / sizeof *others };

int dg_verb_unknown(const char *name)
{
    const char *names[64 + N_OTHERS], *near;
    int n = 0;

    for (const dg_verb_group *g = dg_verb_groups; g->title; g++)
        for (const dg_verb *const *v = g->verbs; *v && n < 64; v++)
            names[n++] = (*v)->name;
    for (int i = 0; i < N_OTHERS; i++)
        names[n++] = others[i].other;
    near = dg_nearest(name, names, n);
    for (int i = 0; near && i < N_OTHERS; i++)
        if (near == others[i].other)
            near = others[i].ours;
    dg_say_error("detrgraph: there is no verb \"%s\"", name);
    dg_say_error(near ? "; did you mean \"%s\"?\n" : "\n", near);
    dg_say_error("detrgraph --help lists them\n");
    return DG_EXIT_USAGE;
}
