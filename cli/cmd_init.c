/* cmd_init.c: `detrgraph init`: writes a pipeline for a data set that runs unchanged, with remarks
 * on what to change. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/init_plan.h"
#include "cli/init_refuse.h"
#include "runtime/fit_batch.h"
#include "runtime/fit_time.h"
#include "runtime/trained.h"
#include "weights/published.h"
#include "weights/weight_names.h"

enum { MOST_MINUTES = 1000000 };

typedef struct opts {
    const char *data, *model, *out, *pretrained, *split, *batch, *minutes;
    int64_t steps;
    bool force;
} opts;

static const dg_option options[] = {
    { "data", DG_OPTION_STR, offsetof(opts, data), "PATH", NULL,
      "data set in " DG_FORM_TITLES " format" },
    { "model", DG_OPTION_STR, offsetof(opts, model), "NAME", NULL,
      "one of the models listed above (rtdetrv2_r18vd)" },
    { "pretrained", DG_OPTION_STR, offsetof(opts, pretrained), "PATH", NULL,
      "initial weights of a backbone or a whole model: a file, a folder, or a name of `weights "
      "list` "
      "(default: random)" },
    { "batch", DG_OPTION_STR, offsetof(opts, batch), "N", NULL,
      "images of a batch on each rank; auto: `run` takes as many as fit into memory (by the "
      "data)" },
    { "steps", DG_OPTION_COUNT, offsetof(opts, steps), "N", NULL,
      "train about so many steps, in whole epochs (by the data: at least 1500)" },
    { "minutes", DG_OPTION_STR, offsetof(opts, minutes), "M", NULL,
      "train about so long on this machine, with smaller images if they have to be" },
    { "split", DG_OPTION_STR, offsetof(opts, split), "NAME,...", NULL, "use these splits only" },
    { "out", DG_OPTION_STR, offsetof(opts, out), "FILE", NULL, "pipeline to write (pipeline.xml)" },
    { "force", DG_OPTION_FLAG, offsetof(opts, force), NULL, NULL, "overwrite it" },
    { 0 },
};

typedef dg_init_plan plan;

static const dg_init_family *const families[] = {
    [DG_SYSTEM_RTDETR] = &dg_init_rtdetr,
    [DG_SYSTEM_RFDETR] = &dg_init_rfdetr,
    [DG_SYSTEM_CODINO] = &dg_init_codino,
};

/* ---- numbers that follow from the data ------------------------------------------------------- */

static int64_t ceiling(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The batch: what was given, else by the number of images; and what memory has room for. */
static void size_batch(plan *p)
{
    const dg_init_family *f = p->family;
    const int64_t epoch_of_eight = p->n_train < 8 ? 1 : p->n_train / 8;

    if (!p->is_given)
        p->batch = p->automatic && !f->most_at_once ? f->most_images
                   : p->n_train < 1000              ? 4
                   : p->n_train < 10000             ? 8
                                                    : 16;
    if (!p->is_given && p->batch > f->most_images)
        p->batch = f->most_images;
    if (p->automatic && p->batch > epoch_of_eight)
        p->batch = (int)epoch_of_eight;
    if (p->batch > p->n_train)
        p->batch = (int)p->n_train;
    p->at_once =
        f->most_at_once && !p->is_given && p->batch > f->most_at_once ? f->most_at_once : p->batch;
    snprintf(p->let, sizeof p->let, p->automatic ? "auto:%d" : "%d", p->at_once);
    if (p->memory && p->at_once > p->memory) {
        p->at_once = p->memory;
        if (!p->automatic)
            snprintf(p->let, sizeof p->let, "%d", p->at_once);
    }
    p->batch = f->most_at_once ? p->batch / p->at_once * p->at_once : p->at_once;
}

/* Chooses the length, unless it was given: at least 1500 steps and 36 epochs, 72 from 500 images
 * on; small data sets are repeated more often. */
static void size_up(plan *p)
{
    int64_t per_epoch;

    size_batch(p);
    per_epoch = p->n_train / p->batch;
    p->epochs = p->n_train < 500 ? 36 : 72;
    if (p->epochs * per_epoch < 1500)
        p->epochs = (int)ceiling(1500, per_epoch);
    if (p->asked)
        p->epochs = p->asked > per_epoch ? (int)((p->asked + per_epoch / 2) / per_epoch) : 1;
    p->steps = p->epochs * per_epoch;
    p->every = per_epoch >= 500 ? 1 : (int)ceiling(100, per_epoch);
    if (p->every > p->epochs)
        p->every = p->epochs;
    p->size = p->smaller ? p->smaller : p->survey->advice.size;
    p->queries = p->survey->advice.queries;
    if (p->family->choose)
        p->family->choose(p);
}

/* ---- what the data have ---------------------------------------------------------------------- */

static const dg_split *split_for(const dg_survey *s, const char *word)
{
    for (int i = 0; i < s->n_splits; i++)
        if (dg_split_is(s->splits[i].split, word))
            return s->splits[i].split;
    return NULL;
}

static const dg_coco *index_of(const dg_survey *s, const dg_split *split)
{
    for (int i = 0; i < s->n_splits; i++)
        if (s->splits[i].split == split)
            return s->splits[i].index;
    return NULL;
}

/* Refuses a split with the errors that a run would give. */
static int must_open(const plan *p, dg_survey *s, const dg_split *split, dg_diag *d)
{
    int rc = 0;

    assert(split);
    s->layout.replace = dg_init_broken(s);
    DG_TRY(dg_init_split(s, split, d));
    if (dg_model_has_masks(p->model))
        DG_TRY(dg_init_masks(s, split, d));
out:
    return rc;
}

/* How many images are held out: copies of one another are, or are not, together. */
static int count_held(plan *p, dg_survey *s, dg_diag *d)
{
    dg_coco *c = NULL;
    int rc;

    DG_TRY(dg_layout_open(&c, &s->layout, (int)(p->train - s->layout.splits.items), NULL, d));
    DG_TRY(dg_coco_hold_out(c, p->hold_out, true, d));
    p->n_held = c->n_images;
out:
    dg_coco_close(&c);
    return rc;
}

/* A whole model determines the model, unless --model is given. */
static void choose_model(plan *p, const dg_archive *a, const opts *o, dg_diag *d)
{
    const dg_model *theirs = dg_model_of(a);

    if (theirs && !o->model)
        p->model = theirs;
    if (!theirs || !dg_models_alike(theirs, p->model))
        dg_warn(
            d, (dg_where){ .file = o->pretrained }, "init-model",
            "these weights are of %s, the pipeline is for %s: what does not fit begins at random",
            theirs ? theirs->name : "a model that init does not know", p->model->name);
}

static bool is_of_decoder(const char *name)
{
    static const char *const begins[] = { "decoder.", "transformer.decoder.",
                                          "query_head.transformer.decoder." };

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* Finds out whether the weights are a backbone's or a whole model's; refuses broken files. */
static int look_at_weights(plan *p, const opts *o, dg_diag *d)
{
    const dg_entry *classes;
    dg_archive *a = NULL;
    int rc;

    DG_TRY(dg_archive_open(&a, p->pretrained, d));
    DG_TRY(dg_archive_translate(a, dg_weight_names_all[0], d));
    for (int i = 0; i < a->n; i++)
        p->whole_model |= is_of_decoder(a->entries[i].name);
    classes = dg_archive_find(a, "decoder.enc_score_head.bias");
    p->new_classes =
        classes && classes->shape.rank == 1 && classes->shape.d[0] != p->survey->n_classes;
    if (p->whole_model)
        choose_model(p, a, o, d);
out:
    dg_archive_close(&a);
    return rc;
}

/* "sets/mine.xml" -> "runs/mine" */
static const char *run_folder(const char *pipeline, dg_arena *a)
{
    const char *name = dg_path_name(pipeline), *end = strrchr(name, '.');

    return dg_printf(a, "runs/%.*s", end && end > name ? (int)(end - name) : (int)strlen(name),
                     name);
}

/* The whole path of the file of --pretrained, which may be the name of published weights in the
 * cache. */
static int find_weights(const char **path, const char *given, dg_arena *a, dg_diag *d)
{
    char *real;
    int rc;

    DG_TRY(dg_published_file(path, given, a, d));
    real = realpath(*path, NULL);
    if (!real)
        return dg_fail(d, DG_EIO, (dg_where){ .file = given }, "init-pretrained",
                       "there is no such file");
    *path = dg_trained_best(dg_strdup(a, real), a);
    free(real);
out:
    return rc;
}

static int make_plan(plan *p, dg_survey *s, const opts *o, const char *to, dg_arena *a, dg_diag *d)
{
    char *real = realpath(s->layout.root, NULL);
    int rc = 0;

    p->survey = s;
    p->asked = o->steps;
    p->folder = run_folder(to, a);
    p->root = dg_strdup(a, real ? real : s->layout.root);
    free(real);
    if (o->pretrained) {
        DG_TRY(find_weights(&p->pretrained, o->pretrained, a, d));
        DG_TRY(look_at_weights(p, o, d));
    }
    p->family = families[dg_model_system(p->model)];
    if (s->layout.form == DG_FORM_PLAIN)
        return dg_init_plain(s, d);
    p->train = split_for(s, "train");
    if (!p->train)
        p->train = s->splits[0].split;
    p->val = split_for(s, "val");
    if (!p->val)
        p->val = split_for(s, "test");
    if (p->val == p->train)
        p->val = NULL;
    DG_TRY(dg_init_name(p->root, d));
    DG_TRY(dg_init_name(p->pretrained, d));
    DG_TRY(dg_init_images(s, d));
    DG_TRY(dg_init_boxes(s, d));
    DG_TRY(must_open(p, s, p->train, d));
    if (p->val)
        DG_TRY(must_open(p, s, p->val, d));
    if (p->val)
        DG_TRY(dg_init_classes(index_of(s, p->train), index_of(s, p->val), d));
    p->n_train = index_of(s, p->train)->n_images;
    if (!p->val && p->n_train >= 10)
        p->hold_out = p->n_train < 500 ? 0.2 : 0.1;
    if (p->hold_out > 0)
        DG_TRY(count_held(p, s, d));
    p->n_train -= p->n_held;
    size_up(p);
out:
    return rc;
}

/* Writes the text. A batch that was not given is one that fits into this machine's memory; the
 * length follows from it. */
static void write_fitting(dg_str *text, plan *p, const char *to, dg_arena *a)
{
    const dg_world alone = { .ranks = 1, .nodes = 1, .local_ranks = 1 };
    dg_run_options how = { .size = sizeof how, .file = to, .device = dg_device_asked(NULL) };
    dg_fit fit;

    dg_init_write(text, p);
    if (p->is_given)
        return;
    how.text = dg_strndup(a, text->s, text->n);
    dg_fit_batch(&fit, &how, &alone, p->at_once, NULL);
    if (fit.batch == p->at_once)
        return;
    p->memory = fit.batch;
    size_up(p);
    dg_str_free(text);
    dg_init_write(text, p);
}

/* ---- the time that there is ------------------------------------------------------------------ */

/* Images become no smaller than LEAST_SIZE, and small objects in them than LEAST_BOX pixels, and
 * only until there is time for ENOUGH_STEPS. */
enum { LEAST_SIZE = 320, LEAST_BOX = 10, ENOUGH_STEPS = 500 };
static const double training_share = 0.8; /* of the time; the rest: evaluations and saves */

static int smaller_size(const plan *p)
{
    const int size = p->size - 64 > LEAST_SIZE ? p->size - 64 : LEAST_SIZE;

    return p->family->any_size && size < p->size && dg_survey_small(p->survey, size) >= LEAST_BOX
               ? size
               : 0;
}

/* Takes the largest size of images at which there is time for enough steps, or the smallest one,
 * and as many steps as there is time for. */
static void fit_time(dg_str *text, plan *p, const char *to, dg_arena *a, dg_diag *d)
{
    dg_run_options how = { .size = sizeof how, .file = to, .device = dg_device_asked(NULL) };

    for (bool again = true; again;) {
        how.text = dg_strndup(a, text->s, text->n);
        const double step_s = dg_fit_step_seconds(&how);

        if (!(step_s > 0)) {
            dg_warn(d, DG_NOWHERE, "init-minutes",
                    "how long a step takes is not known on this device before it runs: the length "
                    "follows from the data; --steps sets it");
            return;
        }
        p->asked = (int64_t)fmin(fmax(training_share * 60 * p->minutes / step_s, 1), INT32_MAX);
        const int smaller = p->asked < ENOUGH_STEPS ? smaller_size(p) : 0;
        const bool refit = smaller > 0 && p->memory > 0; /* it has room for more of these */

        again = smaller > 0;
        p->smaller = again ? smaller : p->smaller;
        p->memory = refit ? 0 : p->memory;
        size_up(p);
        dg_str_free(text);
        if (refit)
            write_fitting(text, p, to, a);
        else
            dg_init_write(text, p);
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Reads --batch: nothing, "auto" or a number. */
static bool read_batch(plan *p, const char *text)
{
    int64_t n = 0;

    p->automatic = text && strcmp(text, "auto") == 0;
    p->is_given = text && !p->automatic;
    if (p->is_given && (!dg_parse_i64(text, &n) || n < 1 || n > 4096)) {
        dg_say_error("detrgraph init: --batch %s: auto, or a number of images from 1 to 4096, is "
                     "expected\n",
                     text);
        return false;
    }
    p->batch = (int)n;
    return true;
}

/* Reads --minutes. */
static bool read_minutes(plan *p, const opts *o)
{
    if (!o->minutes)
        return true;
    if (o->steps) {
        dg_say_error("detrgraph init: --steps and --minutes: one of them is enough\n");
        return false;
    }
    if (dg_parse_f64(o->minutes, &p->minutes) && p->minutes > 0 && p->minutes <= MOST_MINUTES)
        return true;
    dg_say_error("detrgraph init: --minutes %s: a number above 0, up to %d, is expected\n",
                 o->minutes, MOST_MINUTES);
    return false;
}

static int write_pipeline(const opts *o, plan *p, dg_arena *a, dg_diag *d)
{
    const char *to = o->out ? o->out : "pipeline.xml";
    const dg_survey_options how = { .splits = o->split, .threads = dg_threads_available() };
    dg_survey *s = NULL;
    dg_str text = { 0 };
    int rc;

    if (!o->force && dg_exists(to)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = to }, "init-exists",
                "there is such a file already");
        dg_help(d, "--force overwrites it, --out names another");
        return -DG_EINPUT;
    }
    DG_TRY(dg_survey_open(&s, o->data, &how, d));
    DG_TRY(make_plan(p, s, o, to, a, d));
    write_fitting(&text, p, to, a);
    if (p->minutes > 0)
        fit_time(&text, p, to, a, d);
    DG_TRY(dg_file_write(to, text.s, text.n, d));
    dg_say("%s: %s, %lld image%s, %d class%s, size %d, batch %d, %d epoch%s (%lld step%s)\n", to,
           p->model->name, (long long)p->n_train, dg_plural(p->n_train, "s"), s->n_classes,
           dg_plural(s->n_classes, "es"), p->size, p->batch, p->epochs, dg_plural(p->epochs, "s"),
           (long long)p->steps, dg_plural(p->steps, "s"));
    if (p->memory)
        dg_say("  memory has room for %d image%s at a time\n", p->memory,
               dg_plural(p->memory, "s"));
    else if (p->automatic)
        dg_say("  batch: run takes as many as fit into memory, at most %d\n", p->at_once);
    if (p->pretrained)
        dg_say("  begins with %s: %s\n", o->pretrained,
               p->whole_model ? "a whole model" : "a backbone");
    if (dg_faults_errors(&s->faults) + dg_faults_warnings(&s->faults))
        dg_say("  errors in the data: %lld, warnings: %lld; detrgraph data check %s names them\n",
               (long long)dg_faults_errors(&s->faults), (long long)dg_faults_warnings(&s->faults),
               dg_shell(a, o->data));
    if (p->hold_out > 0)
        dg_say("  there is no split for validation: %d more are held out for it\n", p->n_held);
    else if (!p->val)
        dg_warn(d, (dg_where){ .file = o->data }, "init-no-validation",
                "there is no split for validation: the pipeline is evaluated on the images that it "
                "trains on");
    if (!dg_model_has_masks(p->model) && dg_init_has_masks(s, p->train))
        dg_say("  each object has a mask: --model rfdetr_seg_nano finds masks, too\n");
    dg_next("run %s", dg_shell(a, to));
out:
    dg_str_free(&text);
    dg_survey_close(&s);
    return rc;
}

static int verb_init(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    plan p = { .model = dg_model_find(o->model ? o->model : "rtdetrv2_r18vd") };
    const char *near;
    dg_diag *d;
    int rc;

    if (!o->data || words->n) {
        dg_say_error("detrgraph init: %s%s\nusage: detrgraph init --data PATH [OPTIONS]\n",
                     words->n ? "the data set is named by --data, found the word "
                              : "--data PATH is missing",
                     words->n ? words->v[0] : "");
        return DG_EXIT_USAGE;
    }
    if (!p.model) {
        near = dg_model_near(o->model);
        dg_say_error("detrgraph init: there is no model \"%s\"", o->model);
        dg_say_error(near ? "; did you mean %s?\n" : "; detrgraph init --help lists them\n", near);
        return DG_EXIT_USAGE;
    }
    if (!read_batch(&p, o->batch) || !read_minutes(&p, o))
        return DG_EXIT_USAGE;
    d = dg_diag_open();
    rc = write_pipeline(o, &p, a, d);
    fflush(stdout);
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static const dg_example examples[] = {
    { "init --data DIR --out mine.xml", "Train a small network from random weights." },
    { "init --data DIR --model rtdetrv2_r50vd --pretrained "
      "ResNet50_vd_ssld_v2_pretrained_from_paddle.pth",
      "Train a larger one from a pretrained backbone." },
    { "init --data DIR --model rtdetr_r18vd --pretrained rtdetr_r18vd-hf",
      "Fine-tune a trained detector, here a Hugging Face folder, on new classes." },
    { 0 },
};

const dg_verb dg_verb_init = {
    .name = "init",
    .args = "--data PATH [OPTIONS]",
    .brief = "Write a pipeline for a data set.",
    .doc = "Examines the data as `data check` does and chooses loader, classes, sizes, capacity, "
           "batch and\n"
           "epochs to suit. If there is no validation split, a share of the images is held out.\n\n"
           "Models:\n\n"
           "  rtdetrv2_r18vd, rtdetrv2_r34vd, rtdetrv2_r50vd_m, rtdetrv2_r50vd, rtdetrv2_r101vd,\n"
           "  rtdetr_r18vd, rtdetr_r34vd, rtdetr_r50vd_m, rtdetr_r50vd, rtdetr_r101vd,\n"
           "  rfdetr_nano, rfdetr_small, rfdetr_medium, rfdetr_large, rfdetr_base,\n"
           "  rfdetr_large_deprecated, and with masks: rfdetr_seg_nano, rfdetr_seg_small,\n"
           "  codino_r18, codino_r34, codino_r50, codino_swin_t, codino_swin_l",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .most = 1, /* a second word gets an error that suggests --data */
    .run = verb_init,
};
