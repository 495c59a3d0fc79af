/* cmd_evaluate.c: `detrgraph evaluate`: runs a pipeline's <evaluate> with given weights. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/trained.h"
#include "config.h"
#include "runtime/trained.h"

enum { NAME = 24 }; /* columns */

typedef struct opts {
    dg_words sets;
    const char *weights, *which, *out, *format, *precision, *device;
    int64_t threads;
} opts;

static const dg_option options[] = {
    { "weights", DG_OPTION_STR, offsetof(opts, weights), "FILE", NULL,
      "safetensors, a PyTorch checkpoint, a folder, or a name of `weights list`" },
    DG_OPTION_WHICH(opts),
    { "out", DG_OPTION_STR, offsetof(opts, out), "DIR", NULL,
      "write detections.json and pictures here" },
    DG_OPTION_SETS(opts),
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json", "output format (text)" },
    DG_OPTION_PRECISION(opts),
    DG_OPTION_DEVICE(opts),
    DG_OPTION_THREADS(opts),
    { 0 },
};

static void print_text(void *ctx, const dg_run_report *r)
{
    (void)ctx;
    dg_say("%s (%.1f img/s)\n", r->scope, r->images_per_s);
    for (int i = 0; i < r->n; i++) {
        dg_say("  %s%*s", r->names[i], dg_str_padding(r->names[i], NAME), "");
        if (r->values[i] == -1) /* undefined, because there is no object */
            dg_say("       -\n");
        else
            dg_say(" %7.4f\n", r->values[i]);
    }
    for (int i = 0; i < r->n_notes; i++)
        dg_say("  %s\n", r->notes[i]);
}

static void print_json(void *ctx, const dg_run_report *r)
{
    dg_str s = { 0 };

    (void)ctx;
    dg_str_add(&s, "{\"evaluate\":");
    dg_str_json(&s, r->scope);
    for (int i = 0; i < r->n; i++) {
        dg_str_add(&s, ",");
        dg_str_json(&s, r->names[i]);
        dg_str_add(&s, ":");
        dg_str_json_real(&s, r->values[i]);
    }
    dg_str_add(&s, ",\"notes\":[");
    for (int i = 0; i < r->n_notes; i++) {
        dg_str_add(&s, i ? "," : "");
        dg_str_json(&s, r->notes[i]);
    }
    dg_str_add(&s, "]}");
    dg_say("%s\n", s.s);
    dg_str_free(&s);
}

static int evaluate_scopes(const opts *o, const char *place, dg_arena *a)
{
    bool json = o->format && strcmp(o->format, "json") == 0;
    bool last = o->which && strcmp(o->which, "last") == 0;
    dg_bar bar = dg_bar_begin();
    dg_diag *d = dg_diag_open();
    dg_run *run = NULL;
    int rc;
    const dg_run_options how = { .precision = o->precision,
                                 .device = dg_device_asked(o->device),
                                 .program = "detrgraph " PACKAGE_VERSION,
                                 .threads = (int)o->threads,
                                 .log = json ? dg_log_warning : dg_bar_log,
                                 .log_ctx = &bar };
    dg_trained t;

    DG_TRY(dg_trained_find(&t, place, o->weights, last, o->sets.n, o->sets.v, a, d));
    DG_TRY(dg_trained_open(&run, &t, how, d));
    DG_TRY(dg_run_evaluate(run, o->out, false, json ? print_json : print_text, NULL, d));
out:
    fflush(stdout);
    dg_print_diag_files(d);
    dg_run_close(&run);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_evaluate(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    const char *place = words->n ? words->v[0] : "";
    int code;

    if (!dg_trained_alone("evaluate", place, o->weights, dg_verb_evaluate.args))
        return DG_EXIT_USAGE;
    return dg_launch_alone((int)o->threads, &code) ? code : evaluate_scopes(o, place, a);
}

static const dg_example examples[] = {
    { "evaluate runs/bccd", "Score a run." },
    { "evaluate bccd_r18vd.xml --set data=/data/bccd --weights bccd.safetensors --format json",
      "Print the scores for a script." },
    { "evaluate --weights rtdetrv2_r18vd_coco --set data=/data/coco",
      "Score a published detector, which `weights fetch` fetches." },
    { 0 },
};

const dg_verb dg_verb_evaluate = {
    .name = "evaluate",
    .args = "[PATH] [--weights FILE] [--out DIR] [--set NAME=VALUE]... [--format json]",
    .brief = "Run a pipeline's evaluations on given weights.",
    .doc =
        "PATH is a pipeline, or a run's folder, which holds both pipeline and weights: those with "
        "the best\n"
        "score, averaged ones if it has them. A published detector needs no PATH, but its data.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .most = 1,
    .run = verb_evaluate,
};
