/* cmd_weights.c: `detrgraph weights`: inspects and compares weight files, and exchanges them with
 * other programs. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/progress.h"
#include "config.h"
#include "runtime/programs.h"
#include "runtime/trained.h"
#include "weights/class_names.h"
#include "weights/hf.h"
#include "weights/onnx.h"
#include "weights/weights.h"
#include "weights/published.h"
#include "weights/weights_inspect.h"

typedef struct opts {
    dg_words sets;
    const char *pipeline, *to, *out, *which, *tolerance, *format;
    bool statistics, partial, force, half, free_size;
} opts;

static const dg_option options[] = {
    { "pipeline", DG_OPTION_STR, offsetof(opts, pipeline), "PIPELINE", NULL,
      "pipeline of the model; a run's folder has its own, with its --set values" },
    { "to", DG_OPTION_WORD, offsetof(opts, to), NULL, "reference|reference-v1|hf|onnx",
      "export: target format" },
    { "out", DG_OPTION_STR, offsetof(opts, out), "PATH", NULL,
      "(or -o) file to write; for hf a new folder" },
    DG_OPTION_SETS(opts),
    { "which", DG_OPTION_WORD, offsetof(opts, which), NULL, "ema|model",
      "weights to take from a folder: averaged, or as trained (ema)" },
    { "partial", DG_OPTION_FLAG, offsetof(opts, partial), NULL, NULL,
      "import: keep initial values for what the file lacks" },
    { "half", DG_OPTION_FLAG, offsetof(opts, half), NULL, NULL,
      "export --to onnx: store the weights as 16-bit floats, in half the space" },
    { "free-size", DG_OPTION_FLAG, offsetof(opts, free_size), NULL, NULL,
      "export --to onnx: take images of any size, in multiples of 32 pixels (RT-DETR)" },
    { "force", DG_OPTION_FLAG, offsetof(opts, force), NULL, NULL,
      "fetch: anew, also if it is there or another file than before" },
    { "statistics", DG_OPTION_FLAG, offsetof(opts, statistics), NULL, NULL,
      "inspect: add min, max, mean and rms of every tensor" },
    { "tolerance", DG_OPTION_STR, offsetof(opts, tolerance), "X", NULL,
      "diff: ignore differences up to X (0)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json",
      "output format of inspect and diff (text)" },
    { 0 },
};

/* Arguments of an action. */
typedef struct call {
    const opts *o;
    const char **words;   /* after the action's name */
    const char *files[2]; /* the same, with folders replaced by the files in them */
    double tolerance;
    bool json;
    dg_arena *arena;
    dg_diag *d;
} call;

/* ---- inspect, diff --------------------------------------------------------------------------- */

static int print_text(dg_str *out, int rc)
{
    if (rc >= 0 && out->s)
        dg_say("%s", out->s);
    dg_str_free(out);
    return rc;
}

static int inspect(call *c)
{
    dg_str out = { 0 };

    return print_text(&out, dg_weights_inspect(&out, c->files[0], c->o->statistics, c->json, c->d));
}

static int diff(call *c)
{
    dg_str out = { 0 };
    bool same = false;
    int rc = print_text(&out, dg_weights_diff(&out, c->files[0], c->files[1], c->tolerance, c->json,
                                              &same, c->d));

    return rc < 0 ? rc : same ? DG_EXIT_OK : DG_EXIT_FAILED;
}

/* ---- import, export -------------------------------------------------------------------------- */

static int open_model(call *c, dg_run **run)
{
    const char *const *sets = c->o->sets.v;
    const char *run_folder = c->o->pipeline ? NULL : dg_trained_run(c->words[0], c->arena);
    const int n_sets =
        run_folder ? dg_trained_sets(run_folder, c->o->sets.n, c->o->sets.v, c->arena, &sets)
                   : c->o->sets.n;
    const dg_run_options how = {
        .size = sizeof how,
        .file = run_folder ? dg_path_join(c->arena, run_folder, "pipeline.xml") : c->o->pipeline,
        .n_sets = n_sets,
        .sets = sets,
        .precision = "f32",
        .program = "detrgraph " PACKAGE_VERSION,
        .threads = 1,
        .no_pretrained = true,
        .evaluates_only = true,
        .log = dg_log_warning,
    };
    int rc = dg_run_open(run, &how, c->d);

    return rc < 0 ? rc : dg_run_load_part(*run, c->files[0], c->o->partial, c->d);
}

static int import(call *c)
{
    dg_run *run = NULL;
    int rc;

    DG_TRY(open_model(c, &run));
    DG_TRY(dg_hf_check(dg_run_pipeline(run)->graph, dg_path_folder(c->arena, c->files[0]), c->d));
    dg_log_warnings(dg_run_env(run), c->d);
    DG_TRY(dg_run_save(run, DG_RUN_WEIGHTS, c->o->out, c->d));
    dg_say("%s: %lld tensor%s from %s\n", c->o->out, (long long)dg_run_programs(run)->n_loaded,
           dg_plural(dg_run_programs(run)->n_loaded, "s"), c->files[0]);
out:
    dg_run_close(&run);
    return rc;
}

static int export_names(call *c, dg_run *run)
{
    dg_export how = { .to = dg_weight_names_find(c->o->to), .n_layers = -1 };
    const dg_store *store = dg_run_programs(run)->store;
    int rc = dg_weights_export(store, DG_WEIGHTS, c->o->out, &how, c->d),
        n = dg_params_n(store->params) - how.n_left;

    if (rc == 0)
        dg_say("%s: %d tensor%s, %s; %d left out\n", c->o->out, n, dg_plural(n, "s"),
               dg_weight_names_brief_of_params(how.to, store->params), how.n_left);
    return rc;
}

static int export_hf(call *c, dg_run *run)
{
    int rc = dg_hf_write(dg_run_pipeline(run)->graph, dg_run_programs(run)->store, DG_WEIGHTS,
                         c->o->out, c->d);

    if (rc == 0)
        dg_say("%s: model.safetensors, config.json, preprocessor_config.json\n", c->o->out);
    return rc;
}

static int export_onnx(call *c, dg_run *run)
{
    const dg_pipeline *p = dg_run_pipeline(run);
    const dg_programs *programs = dg_run_programs(run);
    const dg_graph *g = p->graph;
    dg_onnx_source from = {
        .graph = g,
        .params = programs->conf.params,
        .store = programs->store,
        .space = DG_WEIGHTS,
        .versions = p->versions,
        .threshold = -1,
        .half = c->o->half,
        .free_size = c->o->free_size,
    };
    dg_trained t;
    int rc;

    if (g->n_evaluates) {
        const dg_compiled *largest = dg_programs_of(programs, g->evaluates[0]);

        from.program = largest->program;
        from.size = largest->size;
        from.names = dg_class_names(&from.n_names, g, g->evaluates[0], c->arena);
        if (!c->o->pipeline &&
            dg_trained_find(&t, c->files[0], NULL, true, 0, NULL, c->arena, c->d) == 0)
            from.threshold = dg_trained_threshold(&t, g->evaluates[0], c->d);
    }
    rc = dg_onnx_write(&from, c->o->out, c->d);
    if (rc == 0)
        dg_say("%s: ONNX, opset %d\n", c->o->out, DG_ONNX_OPSET);
    return rc;
}

static int export(call *c)
{
    const char *to = c->o->to;
    dg_run *run = NULL;
    int rc;

    DG_TRY(open_model(c, &run));
    DG_TRY(strcmp(to, "hf") == 0     ? export_hf(c, run)
           : strcmp(to, "onnx") == 0 ? export_onnx(c, run)
                                     : export_names(c, run));
    dg_log_warnings(dg_run_env(run), c->d);
out:
    dg_run_close(&run);
    return rc;
}

/* ---- published weights ----------------------------------------------------------------------- */

static int list_published(call *c)
{
    const char *folder = dg_published_folder(c->arena);

    dg_say("%-22s %8s %6s  %-11s %-24s %s\n", "name", "MiB", "AP", "licence", "for", "fetched");
    for (const dg_published *p = dg_published_all; p->name; p++) {
        const char *place = dg_published_place(c->arena, p->name);
        struct stat st;
        const bool here = place && stat(place, &st) == 0;
        char size[16] = "-", ap[16] = "-";

        if (here || p->mib > 0)
            snprintf(size, sizeof size, "%.1f", here ? (double)st.st_size / (1 << 20) : p->mib);
        if (p->ap > 0)
            snprintf(ap, sizeof ap, "%.1f", p->ap);
        dg_say("%-22s %8s %6s  %-11s %-24s %s\n", p->name, size, ap, p->licence, p->preset,
               here ? "yes" : "-");
    }
    dg_say("AP: on COCO val2017, as its authors publish it. The files are kept in %s\n",
           folder ? folder : "no folder: HOME is not set");
    return 0;
}

/* A name for what comes from an address: its last part, after a number made of the whole. */
static const char *name_of_url(dg_arena *a, const char *url)
{
    char *name = dg_strdup(a, dg_path_name(dg_strndup(a, url, strcspn(url, "?#"))));

    for (char *p = name; *p; p++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
            *p = '_';
    return dg_printf(a, "%08x-%s", (unsigned)dg_fnv1a_text(url), *name ? name : "weights");
}

static int fetch(call *c)
{
    const dg_published *p = dg_published_find(c->words[0]);
    const char *folder = dg_published_folder(c->arena), *url = p ? p->url : c->words[0], *to, *near;
    char size[32];
    dg_fetched x;
    int rc;

    if (!p && !strstr(url, "://")) {
        near = dg_published_near(url);
        dg_fail(c->d, DG_EINPUT, (dg_where){ .file = url }, "fetch-name",
                "no published weights have this name, and it is no address");
        dg_help(c->d, near ? "did you mean %s?" : "detrgraph weights list names them%s",
                near ? near : "");
        return -DG_EINPUT;
    }
    if (!folder)
        return dg_fail(c->d, DG_EINPUT, DG_NOWHERE, "fetch-home",
                       "there is no folder to keep it in: set HOME or XDG_CACHE_HOME");
    if (strncmp(url, "http:", 5) != 0 && strncmp(url, "https:", 6) != 0)
        return dg_fail(c->d, DG_EINPUT, (dg_where){ .file = dg_fetch_named(c->arena, url) },
                       "fetch-url", "files are fetched over https and http");
    if (strncmp(url, "http:", 5) == 0)
        dg_warn(c->d, (dg_where){ .file = dg_fetch_named(c->arena, url) }, "fetch-plain",
                "without TLS anybody on the way can change what comes");
    to = dg_path_join(c->arena, folder, p ? p->file : name_of_url(c->arena, url));
    DG_TRY(dg_fetch(&x, url, to, c->o->force, dg_rewrites(STDERR_FILENO), c->d));
    dg_say("%s: %s%s\n  SHA-256 %s\n", to, dg_human_bytes((double)x.bytes, size, sizeof size),
           x.was_there ? ", is there already"
           : x.resumed ? ", continued"
                       : "",
           x.sha256);
    if (p && p->ap > 0)
        dg_next("predict --weights %s IMAGE...   or: init --data DIR --pretrained %s", p->name,
                p->name);
    else
        dg_next("init --data DIR --pretrained %s", p ? p->name : dg_shell(c->arena, to));
out:
    return rc;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static const dg_action actions[] = {
    { "inspect", "PATH", "", "which statistics format" },
    { "diff", "PATH PATH", "", "which tolerance format" },
    { "import", "PATH", "out", "pipeline set which partial" },
    { "export", "PATH", "to out", "pipeline set which half free-size" },
    { "fetch", "NAME|URL", "", "force" },
    { "list", "", "", "" },
    { 0 },
};

/* By action; returns an exit code, or a negative status. */
static int (*const runs[])(call *c) = { inspect, diff, import, export, fetch, list_published };

/* Reports wrong words and options; true if there are any. */
static bool misused(call *c, const dg_words *words, bool makes)
{
    const opts *o = c->o;

    if (makes && !o->pipeline && !dg_trained_run(words->v[1], c->arena))
        dg_say_error("detrgraph weights: %s needs --pipeline PIPELINE; only a run and its "
                     "checkpoints have one of their own\n",
                     words->v[0]);
    else if (makes && (dg_path_ends(o->out, ".pth") || dg_path_ends(o->out, ".pt")))
        dg_say_error("detrgraph weights: --out %s: no PyTorch checkpoint is written here, but "
                     "safetensors or what --to says; "
                     "give it such a name\n",
                     o->out);
    else if ((o->half || o->free_size) && strcmp(o->to, "onnx") != 0)
        dg_say_error("detrgraph weights export: --%s is for --to onnx only\n",
                     o->half ? "half" : "free-size");
    else if (o->tolerance && (!dg_parse_f64(o->tolerance, &c->tolerance) || !(c->tolerance >= 0)))
        dg_say_error("detrgraph weights diff: --tolerance %s: a number from 0 is expected\n",
                     o->tolerance);
    else if (o->which && !dg_is_folder(words->v[1]) && !(words->n > 2 && dg_is_folder(words->v[2])))
        dg_say_error(
            "detrgraph weights: --which chooses among the files of a folder, and %s is none\n",
            words->v[1]);
    else
        return false;
    return true;
}

static int verb_weights(const void *self, const dg_words *words, dg_arena *a)
{
    const opts *o = self;
    int action = dg_action_find(actions, words->v[0]), rc;
    const bool makes = runs[action] == import || runs[action] == export;
    call c = { .o = o,
               .words = words->v + 1,
               .arena = a,
               .json = o->format && strcmp(o->format, "json") == 0 };

    if (misused(&c, words, makes))
        return DG_EXIT_USAGE;
    for (int i = 0; i + 1 < words->n && runs[action] != fetch; i++)
        c.files[i] = dg_archive_place(a, makes ? dg_trained_best(c.words[i], a) : c.words[i],
                                      o->which && strcmp(o->which, "model") == 0);
    c.d = dg_diag_open();
    rc = runs[action](&c);
    fflush(stdout);
    dg_print_diag_files(c.d);
    dg_diag_close(&c.d);
    return rc < 0 ? DG_EXIT_FAILED : rc;
}

static const dg_example examples[] = {
    { "weights inspect runs/first --statistics", "Print statistics of a run's weights." },
    { "weights import rtdetrv2_r18vd.pth --pipeline p.xml -o w.safetensors",
      "Import a checkpoint of the PyTorch reference." },
    { "weights fetch rtdetrv2_r18vd_coco", "Fetch a trained detector, to fine-tune or to use." },
    { "weights export runs/first --to hf -o first-hf",
      "Write a folder for from_pretrained of transformers." },
    { 0 },
};

const dg_verb dg_verb_weights = {
    .name = "weights",
    .args = "inspect|diff|import|export|fetch|list PATH... [OPTIONS]",
    .brief = "Inspect, compare, import, export and fetch weights.",
    .doc =
        "  inspect PATH                                list names, types and shapes\n"
        "  diff PATH PATH                              compare tensor by tensor, under the "
        "reference's names;\n"
        "                                              exits with 1 if anything differs\n"
        "  import PATH --pipeline P -o W.safetensors   convert any known names to those of P's "
        "model\n"
        "  export PATH --pipeline P --to hf -o DIR     write a new folder for Hugging Face "
        "transformers;\n"
        "                                              with -o FILE: onnx, or the reference's "
        "names\n"
        "  list                                        list published weights that are known by "
        "name\n"
        "  fetch NAME|URL                              fetch such weights into the cache, and say "
        "their SHA-256\n\n"
        "PATH is safetensors, a PyTorch checkpoint (no code in it is executed), an index of "
        "several files, or\n"
        "the folder of a run, a checkpoint or a transformers model. Of a run's folder import and "
        "export take\n"
        "the weights with the best score, as predict does; inspect and diff those of the last "
        "step.",
    .examples = examples,
    .options = options,
    .actions = actions,
    .size = sizeof(opts),
    .least = 1,
    .most = 3,
    .run = verb_weights,
};
