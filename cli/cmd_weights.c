/* cmd_weights.c: `detrgraph weights`: looks into files of weights, compares them, and takes them to and from other
 * programs. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/trained.h"
#include "config.h"
#include "runtime/hf.h"
#include "runtime/inventory.h"
#include "runtime/onnx.h"
#include "runtime/weights.h"

typedef struct opts {
    dg_words    sets;
    const char *pipeline, *to, *out, *which, *tolerance, *format;
    bool        statistics, partial;
} opts;

static const dg_option options[] = {
    { "pipeline", DG_OPTION_STR, offsetof(opts, pipeline), "PIPELINE", NULL, "whose model it is; a run's folder has its own, and what was set" },
    { "to", DG_OPTION_WORD, offsetof(opts, to), NULL, "reference|reference-v1|hf|onnx", "export: whose names and form" },
    { "out", DG_OPTION_STR, offsetof(opts, out), "PATH", NULL, "where it goes; for hf a new folder (also -o)" },
    { "set", DG_OPTION_LIST, offsetof(opts, sets), "NAME=VALUE", NULL, "another value for a <let> of the pipeline" },
    { "which", DG_OPTION_WORD, offsetof(opts, which), NULL, "ema|model", "of a folder: averaged or as trained (ema)" },
    { "partial", DG_OPTION_FLAG, offsetof(opts, partial), NULL, NULL, "import: what the file lacks keeps its initial values" },
    { "statistics", DG_OPTION_FLAG, offsetof(opts, statistics), NULL, NULL, "inspect: min, max, mean and rms of every tensor" },
    { "tolerance", DG_OPTION_STR, offsetof(opts, tolerance), "X", NULL, "diff: differences up to it do not count (0)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json", "how inspect and diff print (text)" },
    { 0 },
};

/* What an action is given. */
typedef struct call {
    const opts     *o;
    const char    **words;    /* behind its name */
    const char     *files[2]; /* the same, with folders made files */
    double          tolerance;
    bool            json;
    dg_arena       *arena;
    dg_diag        *d;
} call;

/* ---- inspect, diff --------------------------------------------------------------------------------------- */

static int print(dg_str *out, int rc)
{
    if (rc >= 0 && out->s)
        fputs(out->s, stdout);
    dg_str_free(out);
    return rc;
}

static int inspect(call *c)
{
    dg_str out = { 0 };

    return print(&out, dg_weights_inspect(&out, c->files[0], c->o->statistics, c->json, c->d));
}

static int diff(call *c)
{
    dg_str out = { 0 };
    bool   same = false;
    int    rc = print(&out, dg_weights_diff(&out, c->files[0], c->files[1], c->tolerance, c->json, &same, c->d));

    return rc < 0 ? rc : same ? DG_EXIT_OK : DG_EXIT_FAILED;
}

/* ---- import, export -------------------------------------------------------------------------------------- */

static int open_model(call *c, dg_run **run)
{
    const dg_words       sets = c->o->pipeline ? c->o->sets : dg_trained_sets(c->words[0], &c->o->sets, c->arena);
    const dg_run_options how = {
        .size = sizeof how,
        .file = c->o->pipeline ? c->o->pipeline : dg_path_join(c->arena, c->words[0], "pipeline.xml"),
        .n_sets = sets.n,
        .sets = sets.v,
        .precision = "f32",
        .program = "detrgraph " PACKAGE_VERSION,
        .threads = 1,
        .no_pretrained = true,
        .log = dg_log_warning,
    };
    int rc = dg_run_open(run, &how, c->d);

    return rc < 0 ? rc : dg_run_load_part(*run, c->files[0], c->o->partial, c->d);
}

static int import(call *c)
{
    dg_run *run = NULL;
    int     rc;

    DG_TRY(open_model(c, &run));
    DG_TRY(dg_hf_check(run, dg_path_folder(c->arena, c->files[0]), c->d));
    dg_run_log_warnings(run, c->d);
    DG_TRY(dg_run_save(run, DG_RUN_WEIGHTS, c->o->out, c->d));
    printf("%s: %lld tensors from %s\n", c->o->out, (long long)run->n_loaded, c->files[0]);
out:
    dg_run_close(&run);
    return rc;
}

static int export_names(call *c, dg_run *run)
{
    dg_export how = { .to = dg_dialect_find(c->o->to), .n_layers = -1 };
    int       rc = dg_weights_export(run->store, DG_WEIGHTS, c->o->out, &how, c->d);

    if (rc == 0)
        printf("%s: %d tensors, %s; %d left out\n", c->o->out, dg_params_n(run->params) - how.n_left,
               dg_dialect_brief(how.to), how.n_left);
    return rc;
}

static int export_hf(call *c, dg_run *run)
{
    int rc = dg_hf_write(run, DG_WEIGHTS, c->o->out, c->d);

    if (rc == 0)
        printf("%s: model.safetensors, config.json, preprocessor_config.json\n", c->o->out);
    return rc;
}

static int export_onnx(call *c, dg_run *run)
{
    int rc = dg_onnx_write(run, DG_WEIGHTS, c->o->out, c->d);

    if (rc == 0)
        printf("%s: ONNX, opset %d\n", c->o->out, DG_ONNX_OPSET);
    return rc;
}

static int export(call *c)
{
    const char *to = c->o->to;
    dg_run     *run = NULL;
    int         rc;

    DG_TRY(open_model(c, &run));
    DG_TRY(strcmp(to, "hf") == 0 ? export_hf(c, run) : strcmp(to, "onnx") == 0 ? export_onnx(c, run) : export_names(c, run));
    dg_run_log_warnings(run, c->d);
out:
    dg_run_close(&run);
    return rc;
}

/* ---- the verb -------------------------------------------------------------------------------------------- */

static const dg_action actions[] = {
    { "inspect", "PATH", "", "which statistics format" },
    { "diff", "PATH PATH", "", "which tolerance format" },
    { "import", "PATH", "out", "pipeline set which partial" },
    { "export", "PATH", "to out", "pipeline set which" },
    { 0 },
};

/* An exit code, or negative. */
static int (*const runs[])(call *c) = { inspect, diff, import, export };

static bool has_pipeline(const char *place, dg_arena *a)
{
    return dg_is_folder(place) && dg_exists(dg_path_join(a, place, "pipeline.xml"));
}

/* Says what is wrong with the words and options; true if anything is. */
static bool misused(call *c, const dg_words *words, bool makes)
{
    const opts *o = c->o;

    if (makes && !o->pipeline && !has_pipeline(words->v[1], c->arena))
        fprintf(stderr, "detrgraph weights: %s needs --pipeline PIPELINE; only a run's folder has one of its own\n", words->v[0]);
    else if (makes && (dg_path_ends(o->out, ".pth") || dg_path_ends(o->out, ".pt")))
        fprintf(stderr, "detrgraph weights: --out %s: no PyTorch checkpoint is written here, but safetensors or what --to says; "
                        "give it such a name\n", o->out);
    else if (o->tolerance && (!dg_parse_f64(o->tolerance, &c->tolerance) || !(c->tolerance >= 0)))
        fprintf(stderr, "detrgraph weights diff: --tolerance %s: a number from 0 is expected\n", o->tolerance);
    else if (o->which && !dg_is_folder(words->v[1]) && !(words->n > 2 && dg_is_folder(words->v[2])))
        fprintf(stderr, "detrgraph weights: --which chooses among the files of a folder, and %s is none\n", words->v[1]);
    else
        return false;
    return true;
}

static int run(const void *self, const dg_words *words, dg_arena *a)
{
    const opts *o = self;
    int         action = dg_action_find(actions, words->v[0]), rc;
    call        c = { .o = o, .words = words->v + 1, .arena = a, .json = o->format && strcmp(o->format, "json") == 0 };

    if (misused(&c, words, runs[action] == import || runs[action] == export))
        return DG_EXIT_USAGE;
    for (int i = 0; i + 1 < words->n; i++)
        c.files[i] = dg_archive_place(a, c.words[i], o->which && strcmp(o->which, "model") == 0);
    c.d = dg_diag_open();
    rc = runs[action](&c);
    fflush(stdout);
    dg_print_diag_files(c.d);
    dg_diag_close(&c.d);
    return rc < 0 ? DG_EXIT_FAILED : rc;
}

static const dg_example examples[] = {
    { "weights inspect runs/first --statistics", "what a run has learned, in numbers" },
    { "weights import rtdetrv2_r18vd.pth --pipeline p.xml -o w.safetensors", "a checkpoint of the PyTorch reference" },
    { "weights export runs/first --to hf -o first-hf", "a folder that from_pretrained of transformers reads" },
    { 0 },
};

const dg_verb dg_verb_weights = {
    .name = "weights",
    .args = "inspect|diff|import|export PATH... [OPTIONS]",
    .brief = "Looks into weights, and takes them to and from other programs.",
    .doc = "  inspect PATH                                names, types and shapes\n"
           "  diff PATH PATH                              what differs, tensor by tensor, under the reference's names; exit\n"
           "                                              status 1 where anything does\n"
           "  import PATH --pipeline P -o W.safetensors   for this pipeline's model, whatever names PATH has\n"
           "  export PATH --pipeline P --to hf -o DIR     for Hugging Face transformers: a new folder, whole or not at all;\n"
           "                                              to onnx, or to a file in the names of the reference, with -o FILE\n"
           "\nPATH is safetensors, a PyTorch checkpoint (nothing in it is run), the index of several files, or a folder: a run's,\n"
           "a checkpoint's, or one of transformers.",
    .examples = examples,
    .options = options,
    .actions = actions,
    .size = sizeof(opts),
    .least = 1,
    .most = 3,
    .run = run,
};
