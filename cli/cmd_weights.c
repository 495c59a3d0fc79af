/* cmd_weights.c: `detrgraph weights`: looks into files of weights, compares them, and takes them to and from other
 * programs. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/progress.h"
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
    { "pipeline", DG_OPTION_STR, offsetof(opts, pipeline), "PIPELINE", NULL, "whose model it is; a run's folder has its own" },
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

typedef struct action {
    const char *name;
    int         words;
    const char *needs; /* options that must be given, " one two " */
    const char *takes; /* further ones that mean something to it */
    int       (*run)(call *c); /* an exit code, or negative */
} action;

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
    const dg_run_options how = {
        .size = sizeof how,
        .file = c->o->pipeline ? c->o->pipeline : dg_path_join(c->arena, c->words[0], "pipeline.xml"),
        .n_sets = c->o->sets.n,
        .sets = c->o->sets.v,
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

static const action actions[] = {
    { "inspect", 1, "", " which statistics format ", inspect },
    { "diff", 2, "", " which tolerance format ", diff },
    { "import", 1, " out ", " pipeline set which partial ", import },
    { "export", 1, " to out ", " pipeline set which ", export },
};

static bool given(const opts *o, const dg_option *row)
{
    const void *at = (const char *)o + row->offset;

    switch (row->kind) {
    case DG_OPTION_FLAG: return *(const bool *)at;
    case DG_OPTION_LIST: return ((const dg_words *)at)->n > 0;
    default: return *(const char *const *)at != NULL;
    }
}

static bool listed(const char *names, const char *name)
{
    char word[32];

    snprintf(word, sizeof word, " %s ", name);
    return strstr(names, word) != NULL;
}

static bool understood(const action *a, const opts *o, const dg_words *words)
{
    if (words->n != a->words + 1) {
        fprintf(stderr, "detrgraph weights %s: %s expected after it\n", a->name, a->words == 1 ? "one file is" : "two files are");
        return false;
    }
    for (const dg_option *row = options; row->name; row++) {
        bool needs = listed(a->needs, row->name), has = given(o, row);

        if (needs && !has) {
            fprintf(stderr, "detrgraph weights %s: --%s %s is needed\n", a->name, row->name,
                    row->words ? row->words : row->value);
            return false;
        }
        if (has && !needs && !listed(a->takes, row->name)) {
            fprintf(stderr, "detrgraph weights %s: --%s means nothing to it\n", a->name, row->name);
            return false;
        }
    }
    if (listed(a->takes, "pipeline") && !o->pipeline && !dg_is_folder(words->v[1])) {
        fprintf(stderr, "detrgraph weights %s: --pipeline PIPELINE is needed; only a run's folder has one of its own\n", a->name);
        return false;
    }
    return true;
}

static const action *find_action(const char *name)
{
    enum { N = sizeof actions / sizeof *actions };
    const char *names[N], *near;

    for (int i = 0; i < N; i++) {
        names[i] = actions[i].name;
        if (strcmp(name, names[i]) == 0)
            return &actions[i];
    }
    near = dg_nearest(name, names, N);
    fprintf(stderr, "detrgraph weights: inspect, diff, import or export is expected, not \"%s\"", name);
    fprintf(stderr, near ? "; did you mean \"%s\"?\n" : "\n", near);
    return NULL;
}

static int run(const void *self, const dg_words *words, dg_arena *a)
{
    const opts   *o = self;
    const action *act = find_action(words->v[0]);
    call          c = { .o = o, .words = words->v + 1, .arena = a, .json = o->format && strcmp(o->format, "json") == 0 };
    int           rc;

    if (!act || !understood(act, o, words))
        return DG_EXIT_USAGE;
    if (o->tolerance && (!dg_parse_f64(o->tolerance, &c.tolerance) || !(c.tolerance >= 0))) {
        fprintf(stderr, "detrgraph weights diff: --tolerance %s: a number from 0 is expected\n", o->tolerance);
        return DG_EXIT_USAGE;
    }
    for (int i = 0; i < act->words; i++)
        c.files[i] = dg_weights_file(a, c.words[i], o->which && strcmp(o->which, "model") == 0);
    c.d = dg_diag_open();
    rc = act->run(&c);
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
           "\nPATH is safetensors, a PyTorch checkpoint (nothing in it is run), or a folder: a run's, a checkpoint's, or one "
           "of transformers.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = 3,
    .run = run,
};
