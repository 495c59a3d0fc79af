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
#include "cli/fetch.h"
#include "cli/init_plan.h"
#include "cli/init_refuse.h"
#include "cli/published.h"
#include "weights/weight_names.h"

typedef struct opts {
    const char *data, *model, *out, *pretrained, *split;
    bool force;
} opts;

static const dg_option options[] = {
    { "data", DG_OPTION_STR, offsetof(opts, data), "PATH", NULL,
      "data set in COCO, VOC or YOLO format" },
    { "model", DG_OPTION_STR, offsetof(opts, model), "NAME", NULL,
      "one of the models listed above (rtdetrv2_r18vd)" },
    { "pretrained", DG_OPTION_STR, offsetof(opts, pretrained), "PATH", NULL,
      "initial weights of a backbone or a whole model: a file, a folder, or a name of `weights "
      "list` "
      "(default: random)" },
    { "split", DG_OPTION_STR, offsetof(opts, split), "NAME,...", NULL, "use these splits only" },
    { "out", DG_OPTION_STR, offsetof(opts, out), "FILE", NULL, "pipeline to write (pipeline.xml)" },
    { "force", DG_OPTION_FLAG, offsetof(opts, force), NULL, NULL, "overwrite it" },
    { 0 },
};

typedef dg_init_plan plan;

/* ---- numbers that follow from the data ------------------------------------------------------- */

static int64_t ceiling(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t warmup_steps(const plan *p)
{
    return p->steps < 5000 ? 200 : p->steps < 50000 ? 1000 : 2000;
}

/* Chooses the length: at least 1500 steps and 36 epochs, 72 from 500 images on; small data sets are
 * repeated more often. */
static void size_up(plan *p)
{
    int64_t per_epoch;

    p->batch = p->n_train < 1000 ? 4 : p->n_train < 10000 ? 8 : 16;
    if (p->batch > p->n_train)
        p->batch = (int)p->n_train;
    per_epoch = p->n_train / p->batch;
    p->epochs = p->n_train < 500 ? 36 : 72;
    if (p->epochs * per_epoch < 1500)
        p->epochs = (int)ceiling(1500, per_epoch);
    p->steps = p->epochs * per_epoch;
    p->every = per_epoch >= 500 ? 1 : (int)ceiling(100, per_epoch);
    if (p->every > p->epochs)
        p->every = p->epochs;
    p->size = p->survey->advice.size;
    p->queries = p->survey->advice.queries;
    if (p->model->vit)
        dg_init_rfdetr_size(p);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Appends text as an attribute's value, escaping `$` and a leading `@`. */
static void value(dg_str *out, const char *text)
{
    dg_str literal = { 0 };

    if (*text == '@')
        dg_str_add(&literal, "@");
    for (; *text; text++)
        dg_str_fmt(&literal, *text == '$' ? "$%c" : "%c", *text);
    dg_str_xml(out, literal.s ? literal.s : "");
    dg_str_free(&literal);
}

/* Appends text inside a comment: without its end mark and control characters. */
static void remark(dg_str *out, const char *text)
{
    for (size_t n; *text; text += n ? n : 1) {
        const bool bad = (n = dg_utf8_bytes(text)) == 0 || (unsigned char)*text < ' ' ||
                         (*text == '-' && text[1] == '-');

        dg_str_add_n(out, bad ? "_" : text, bad ? 1 : n);
    }
}

/* True if the loader must replace some images. */
static bool broken(const dg_survey *s)
{
    return s->faults.of[DG_FAULT_IMAGE_MISSING].n || s->faults.of[DG_FAULT_IMAGE_UNREADABLE].n ||
           s->faults.of[DG_FAULT_IMAGE_SIZE].n || s->faults.of[DG_FAULT_IMAGE_CUT].n;
}

static void loader(dg_str *out, const plan *p, const dg_split *s, const char *part)
{
    const dg_survey *v = p->survey;

    assert(s);
    dg_str_fmt(out, "    <loader.%-8s id=\"data\" root=\"$data\"", dg_form_name(v->layout.form));
    if (v->layout.form == DG_FORM_COCO && !(s->split && strcmp(s->images, "images") == 0)) {
        dg_str_add(out, " annotations=\"");
        value(out, s->annotations);
        dg_str_add(out, "\" images=\"");
        value(out, s->images);
        dg_str_add(out, "\"");
    } else if (s->split) {
        dg_str_add(out, " split=\"");
        value(out, s->split);
        dg_str_add(out, "\"");
    }
    if (dg_model_has_masks(p->model))
        dg_str_add(out, " masks=\"true\"");
    if (p->hold_out > 0)
        dg_str_fmt(out, " hold_out=\"$hold_out\" part=\"%s\"", part);
    dg_str_add(
        out,
        broken(v)
            ? " on_error=\"replace\"/> <!-- some images cannot be read: data check names them -->\n"
            : "/>\n");
}

static void lets(dg_str *out, const plan *p)
{
    dg_str_fmt(out,
               "  <!-- size: pixels of a side, a multiple of 32; half of it is about four times as "
               "fast and sees smaller\n"
               "       objects worse. batch: images of a step on each rank; take more where memory "
               "allows.\n"
               "       queries: how many objects the network looks for, most of them in vain; tiny "
               "sizes have room for "
               "fewer.\n"
               "       denoising: noisy copies of the truth that training looks for as well.\n"
               "       precision: bf16 is fast on new processors, f32 exact.\n"
               "       max_objects: room for the objects of an image; it has to be enough for the "
               "fullest one. -->\n"
               "  <let size=\"%d\" batch=\"%d\" classes=\"%d\" max_objects=\"%d\" queries=\"%d\" "
               "denoising=\"%d\" precision=\"bf16\"/>\n",
               p->size, p->batch, p->survey->n_classes, p->survey->advice.max_objects, p->queries,
               p->survey->advice.denoising);
}

static void head(dg_str *out, const plan *p)
{
    const dg_survey *v = p->survey;

    dg_str_fmt(out, "<!-- %s on ", p->model->name);
    remark(out, p->root);
    dg_str_fmt(out, ":\n     %lld image%s to train on, %d class%s (", (long long)p->n_train,
               p->n_train == 1 ? "" : "s", v->n_classes, v->n_classes == 1 ? "" : "es");
    for (int k = 0; k < v->n_classes && k < 10; k++) {
        dg_str_add(out, k ? ", " : "");
        remark(out, v->classes[k]);
    }
    dg_str_fmt(out,
               "%s), at most %d objects in one.\n     Written by detrgraph init. The option set of "
               "detrgraph run replaces "
               "what stands in <let>, as in set size=320. -->\n",
               v->n_classes > 10 ? ", ..." : "", (int)v->most_objects);
    dg_str_fmt(out, "<pipeline version=\"1\" name=\"%s_%s\" seed=\"0\">\n", p->model->name,
               dg_form_name(v->layout.form));
    dg_str_add(out, "  <let data=\"");
    value(out, p->root);
    dg_str_add(out, "\"/>\n");
    if (p->pretrained) {
        dg_str_add(out, "  <let pretrained=\"");
        value(out, p->pretrained);
        dg_str_add(out, "\"/>\n");
    }
    if (p->hold_out > 0)
        dg_str_fmt(out,
                   "  <!-- There is no split for validation: this share of the images and of each "
                   "class's objects is kept from training\n"
                   "       and evaluated on. Copies stay together. Other pictures of one scene "
                   "that come to both parts make the "
                   "scores too good:\n"
                   "       where there are such, deal them out into splits yourself. -->\n"
                   "  <let hold_out=\"%g\"/>\n",
                   p->hold_out);
    if (p->model->vit)
        dg_init_rfdetr_lets(out, p);
    else
        lets(out, p);
    dg_str_fmt(
        out,
        "  <!-- epochs: how often all images are gone through, here in %lld steps. Shares of "
        "the run: for `warmup` of it the\n"
        "       learning rate rises, from `hold` on it falls, from `still` on images come as "
        "they are; if the score has not\n"
        "       risen for `patience`, the run ends. -->\n"
        "  <let epochs=\"%d\" warmup=\"%.2g %%\" hold=\"55 %%\" still=\"90 %%\" "
        "patience=\"30 %%\"/>\n"
        "  <!-- lr: the first number to try others of. -->\n"
        "  <let lr=\"%s\"/>\n"
        "  <mesh dp=\"ranks\"/>\n\n",
        (long long)p->steps, p->epochs,
        fmin(100.0 * (double)warmup_steps(p) / (double)p->steps, 20),
        p->pretrained || p->model->vit ? "1e-4" : "4e-4");
}

static void network(dg_str *out, const plan *p)
{
    const dg_model *m = p->model;
    const char *head = p->whole_model ? " pretrained=\"$pretrained\"" : "";

    if (m->vit) {
        dg_init_rfdetr_network(out, p);
        return;
    }
    dg_str_fmt(out, "  <model id=\"detr\">\n    <input id=\"images\"/> <input id=\"denoising\" "
                    "optional=\"true\"/>\n");
    if (!p->pretrained)
        dg_str_add(out, "    <!-- Everything begins at random. Weights of a backbone that was "
                        "trained on ImageNet "
                        "help small data\n"
                        "         sets most: init with the option pretrained. -->\n");
    dg_str_fmt(out, "    <backbone.presnet id=\"backbone\" in=\"@images\" depth=\"%d\"%s%s/>\n",
               m->depth,
               p->pretrained && m->freeze ? " freeze_at=\"0\" freeze_norm=\"true\""
                                          : " norm=\"sync\"",
               p->pretrained ? " pretrained=\"$pretrained\"" : "");
    dg_str_fmt(
        out,
        "    <encoder.hybrid   id=\"encoder\"  s8=\"@backbone.s8\" s16=\"@backbone.s16\" "
        "s32=\"@backbone.s32\" version=\"%d\"\n"
        "                      width=\"%d\" ffn=\"%d\" expansion=\"%s\" norm=\"sync\"%s/>\n"
        "    <decoder.rtdetr   id=\"decoder\"  memory=\"@encoder.out\" denoising=\"@denoising\" "
        "version=\"%d\" classes=\"$classes\"\n"
        "                      queries=\"$queries\" layers=\"%d\" eval_idx=\"%d\" "
        "eval_size=\"$size\" "
        "norm=\"sync\"%s/>\n"
        "  </model>\n\n",
        m->version, m->width, m->ffn, m->expansion, head, m->version, m->layers, m->eval_idx, head);
}

static void training(dg_str *out, const plan *p)
{
    const double zoom = p->survey->advice.zoom;

    dg_str_fmt(out,
               "  <train epochs=\"$epochs\"%s precision=\"$precision\" "
               "patience=\"$patience\">\n",
               p->model->vit ? " accumulate=\"$accumulate\"" : "");
    loader(out, p, p->train, "rest");
    if (p->model->vit) {
        dg_init_rfdetr_training(out, p);
        return;
    }
    dg_str_fmt(out,
               "    <sampler.bucket  id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"$size\" "
               "tail=\"%s\" axis=\"dp\"/>\n"
               "    <!-- What makes new pictures of old ones. Take flip out where left and right "
               "differ (letters, traffic\n"
               "         signs), photometric where colours tell classes apart. -->\n"
               "    <augment         id=\"aug\"  in=\"@pick\">\n"
               "      <photometric p=\"0.5\" until=\"$still\"/>\n",
               p->n_train < 64 ? "pad" : "drop");
    if (zoom > 1.1)
        dg_str_fmt(out, "      <zoom_out    p=\"0.5\" most=\"%g\" until=\"$still\"/>\n", zoom);
    dg_str_add(out,
               "      <iou_crop    p=\"0.8\" until=\"$still\"/>\n"
               "      <flip        p=\"0.5\"/>\n"
               "    </augment>\n"
               "    <batch           id=\"b\"    in=\"@aug\" max_objects=\"$max_objects\"/>\n");
    dg_str_add(
        out,
        "    <!-- Boxes of the truth with noise on them, which the decoder learns to mend; in "
        "training alone. -->\n"
        "    <denoising       id=\"dn\"   targets=\"@b.targets\" classes=\"$classes\" "
        "count=\"$denoising\" "
        "empty=\"pad\" axis=\"dp\"/>\n"
        "    <use             id=\"out\"  model=\"detr\" images=\"@b.images\" denoising=\"@dn\"/>\n"
        "    <loss.rtdetr     id=\"loss\" predictions=\"@out\" targets=\"@b.targets\" "
        "axis=\"dp\"/>\n"
        "    <backward        id=\"grad\" loss=\"@loss.total\"/>\n"
        "    <allreduce       id=\"sync\" in=\"@grad\" axis=\"dp\" op=\"mean\"/>\n"
        "    <allreduce       id=\"terms\" in=\"@loss.terms\" axis=\"dp\" op=\"mean\"/>\n"
        "    <log             in=\"@terms\"/>\n"
        "    <!-- lr rises for `warmup` steps, stays, and "
        "falls to `to` of itself;\n"
        "         clip bounds the length of a step's gradient. -->\n");
    dg_str_fmt(
        out,
        "    <optimizer.adamw id=\"opt\"  gradients=\"@sync\" lr=\"$lr\" weight_decay=\"1e-4\" "
        "clip=\"0.1\">\n%s"
        "      <schedule warmup=\"$warmup\" hold=\"$hold\" decay=\"cosine\" to=\"0.02\"/>\n"
        "    </optimizer.adamw>\n"
        "    <!-- An average of the weights over their last steps, which is what is evaluated. "
        "-->\n"
        "    <ema id=\"ema\" of=\"@opt\" decay=\"%s\" warmup=\"%lld\"/>\n"
        "  </train>\n\n",
        p->pretrained ? p->model->groups : DG_NORM_GROUP,
        p->steps < 5000    ? "0.997"
        : p->steps < 50000 ? "0.9995"
                           : "0.9999",
        (long long)warmup_steps(p));
}

static void evaluation(dg_str *out, const plan *p)
{
    if (!p->val && p->hold_out <= 0)
        dg_str_add(out, "  <!-- There is no split for validation: these numbers say how well the "
                        "training images are "
                        "known by heart,\n"
                        "       not how well others will be. Set some images aside. -->\n");
    dg_str_fmt(out, "  <evaluate every=\"%d epoch%s\" weights=\"@ema\">\n", p->every,
               p->every == 1 ? "" : "s");
    loader(out, p, p->val ? p->val : p->train, "held");
    dg_str_add(out, "    <sampler.bucket  id=\"pick\" in=\"@data\" batch=\"$batch\" "
                    "sizes=\"$size\" shuffle=\"false\" "
                    "tail=\"pad\" axis=\"dp\"/>\n"
                    "    <batch           id=\"b\"    in=\"@pick\" max_objects=\"$max_objects\"/>\n"
                    "    <use             id=\"out\"  model=\"detr\" images=\"@b.images\"/>\n"
                    "    <detect          id=\"found\" in=\"@out\" most=\"300\"/>\n"
                    "    <evaluate.coco   id=\"coco\" in=\"@found\" axis=\"dp\"/>\n"
                    "  </evaluate>\n"
                    "  <!-- to: the run's folder, below the one where detrgraph is started. best: "
                    "the weights with this number at its\n"
                    "       highest are kept as checkpoints/best. -->\n"
                    "  <checkpoint to=\"");
    value(out, p->folder);
    dg_str_fmt(out, "\" every=\"%d epoch%s\" best=\"@coco.AP\" keep=\"3\"/>\n</pipeline>\n",
               p->every, p->every == 1 ? "" : "s");
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
    s->layout.replace = broken(s);
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

/* Finds out whether the weights are a backbone's or a whole model's; refuses broken files. */
static int look_at_weights(plan *p, const opts *o, dg_diag *d)
{
    dg_archive *a = NULL;
    int rc;

    DG_TRY(dg_archive_open(&a, p->pretrained, d));
    DG_TRY(dg_archive_translate(a, dg_weight_names_all[0], d));
    for (int i = 0; i < a->n; i++)
        p->whole_model |= strncmp(a->entries[i].name, "decoder.", 8) == 0 ||
                          strncmp(a->entries[i].name, "transformer.decoder.", 20) == 0;
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

/* The file of --pretrained, which may be the name of published weights in the cache. NULL: there is
 * no such file, which is said. */
static const char *find_weights(const char *given, dg_arena *a, dg_diag *d)
{
    const dg_published *published = dg_exists(given) ? NULL : dg_published_find(given);
    const char *path = published ? dg_published_place(a, published->name) : given;
    char *real = path ? realpath(path, NULL) : NULL;
    dg_fetched x;

    if (!real) {
        dg_fail(d, DG_EIO, (dg_where){ .file = given }, "init-pretrained",
                published ? "these weights are not fetched yet" : "there is no such file");
        if (published)
            dg_help(d, "detrgraph weights fetch %s", published->name);
        return NULL;
    }
    path = dg_strdup(a, real);
    free(real);
    return published && dg_fetch_check(&x, path, d) < 0 ? NULL : path;
}

static int make_plan(plan *p, dg_survey *s, const opts *o, const char *to, dg_arena *a, dg_diag *d)
{
    char *real = realpath(s->layout.root, NULL);
    int rc = 0;

    p->survey = s;
    p->folder = run_folder(to, a);
    p->root = dg_strdup(a, real ? real : s->layout.root);
    p->pretrained = o->pretrained ? find_weights(o->pretrained, a, d) : NULL;
    free(real);
    if (o->pretrained && !p->pretrained)
        return -DG_EIO;
    if (p->pretrained)
        DG_TRY(look_at_weights(p, o, d));
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

static int write_pipeline(const opts *o, const dg_model *m, dg_arena *a, dg_diag *d)
{
    const char *to = o->out ? o->out : "pipeline.xml";
    const dg_survey_options how = { .splits = o->split, .threads = dg_threads_available() };
    plan p = { .model = m };
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
    DG_TRY(make_plan(&p, s, o, to, a, d));
    head(&text, &p);
    network(&text, &p);
    training(&text, &p);
    evaluation(&text, &p);
    DG_TRY(dg_file_write(to, text.s, text.n, d));
    dg_say("%s: %s, %lld image%s, %d class%s, size %d, batch %d, %d epochs (%lld steps)\n", to,
           p.model->name, (long long)p.n_train, p.n_train == 1 ? "" : "s", s->n_classes,
           s->n_classes == 1 ? "" : "es", p.size, p.batch, p.epochs, (long long)p.steps);
    if (p.pretrained)
        dg_say("  begins with %s: %s\n", o->pretrained,
               p.whole_model ? "a whole model" : "a backbone");
    if (dg_faults_errors(&s->faults) + dg_faults_warnings(&s->faults))
        dg_say("  errors in the data: %lld, warnings: %lld; detrgraph data check %s names them\n",
               (long long)dg_faults_errors(&s->faults), (long long)dg_faults_warnings(&s->faults),
               o->data);
    if (p.hold_out > 0)
        dg_say("  there is no split for validation: %d more are held out for it\n", p.n_held);
    else if (!p.val)
        dg_warn(d, (dg_where){ .file = o->data }, "init-no-validation",
                "there is no split for validation: the pipeline is evaluated on the images that it "
                "trains on");
    if (!dg_model_has_masks(p.model) && dg_init_has_masks(s, p.train))
        dg_say("  each object has a mask: --model rfdetr_seg_nano finds masks, too\n");
    dg_next("run %s", to);
out:
    dg_str_free(&text);
    dg_survey_close(&s);
    return rc;
}

static int verb_init(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    const dg_model *m = dg_model_find(o->model ? o->model : "rtdetrv2_r18vd");
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
    if (!m) {
        near = dg_model_near(o->model);
        dg_say_error("detrgraph init: there is no model \"%s\"", o->model);
        dg_say_error(near ? "; did you mean %s?\n" : "; detrgraph init --help lists them\n", near);
        return DG_EXIT_USAGE;
    }
    d = dg_diag_open();
    rc = write_pipeline(o, m, a, d);
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
           "  rfdetr_large_deprecated, and with masks: rfdetr_seg_nano, rfdetr_seg_small",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .most = 1, /* a second word gets an error that suggests --data */
    .run = verb_init,
};
