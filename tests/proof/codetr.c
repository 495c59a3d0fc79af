/* codetr: pipelines/codino_r50_coco.xml with one thing wrong, for two ranks: each variant is
 * refused with its error, and a way out works. Where the error has lines of help that are edits
 * they are all followed word by word; where its text says what is asked for, that is written, and
 * the pipeline must be accepted.
 *
 *     tests/proof/codetr [whole]
 *
 * Without "whole" the model has fewer layers, which takes less than half of the time. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/str.h"
#include "tests/proof/followed.h"

#define MAIN "codino_r50_coco.xml"
#define DATA "parts/codino_data.xml"
#define EVALUATE "parts/codino_evaluate.xml"
#define HEADS "parts/codino_heads.xml"
#define TRUNK "parts/codino_trunk.xml"
#define UPDATE "parts/codino_update.xml"

typedef struct edit {
    const char *file, *from, *to;
} edit;

/* mended.file NULL: the error's help is followed. */
typedef struct variant {
    const char *what, *id;
    edit wrong, mended;
} variant;

#define ADDED "<layer.linear id=\"added\" in=\"@encoder.out.p4\" width=\"256\"/>\n    "
#define SUM "<sum       id=\"loss\" dino=\"@dino.total\" rpn=\"@out.rpn\""

static const variant variants[] = {
    { "objects counted by each rank for itself",
      "DG-VALUE",
      { MAIN, "targets=\"@b.targets\" axis=\"dp\"/>", "targets=\"@b.targets\"/>" },
      { 0 } },
    { "ATSS positives counted by each rank for itself",
      "DG-VALUE",
      { HEADS, "queries=\"$positives\"\n             axis=\"dp\"/>", "queries=\"$positives\"/>" },
      { 0 } },
    { "boxes sampled for the RPN counted by each rank for itself",
      "DG-VALUE",
      { HEADS, "proposals=\"$proposals\" axis=\"dp\"/>", "proposals=\"$proposals\"/>" },
      { 0 } },
    { "regions counted by each rank for itself",
      "DG-VALUE",
      { HEADS, "queries=\"$positives\" axis=\"dp\"/>", "queries=\"$positives\"/>" },
      { 0 } },
    { "gradients that stay each rank's own",
      "DG-STATE",
      { UPDATE, "gradients=\"@sync\"", "gradients=\"@grad\"" },
      { 0 } },
    { "gradients that are added up",
      "allreduce-gradients",
      { UPDATE, "in=\"@grad\" axis=\"dp\" op=\"mean\"", "in=\"@grad\" axis=\"dp\" op=\"sum\"" },
      { 0 } },
    { "a last batch that not every rank has",
      "DG-RATE",
      { DATA, "tail=\"pad\"", "tail=\"keep\"" },
      { 0 } },
    { "a plan of batches that each rank draws",
      "DG-SEED",
      { DATA, "tail=\"pad\"", "tail=\"pad\" seed=\"rank\"" },
      { 0 } },
    { "norms trained on each rank's images",
      "DG-STATE",
      { TRUNK, "frozen_stages=\"1\"", "frozen_stages=\"1\" freeze_norm=\"false\"" },
      { 0 } },
    { "an added layer that reaches no loss",
      "DG-GRAD",
      { MAIN, "<decoder.dino ", ADDED "<decoder.dino " },
      { 0 } },
    { "a head that learns on some ranks",
      "DG-GRAD",
      { MAIN, SUM,
        "<test id=\"any\" in=\"@b.targets.count\" is=\"positive\"/>\n"
        "    <loss.mean id=\"some\" in=\"@out.rpn\" when=\"@any\"/>\n"
        "    <sum id=\"loss\" dino=\"@dino.total\" rpn=\"@some\"" },
      { 0 } },
    { "a head whose loss is not added",
      "DG-GRAD",
      { MAIN, " roi=\"@out.roi\" atss=\"@out.atss\"/>", " roi=\"@out.roi\"/>" },
      { 0 } },
    { "denoising for more classes",
      "classes-differ",
      { MAIN, "targets=\"@b.targets\" classes=\"$classes\"",
        "targets=\"@b.targets\" classes=\"81\"" },
      { 0 } },
    { "a decoder of fewer classes",
      "classes-differ",
      { MAIN, "sets=\"2\" classes=\"$classes\"", "sets=\"2\" classes=\"79\"" },
      { 0 } },
    { "the best checkpoint by each rank's own score",
      "DG-VALUE",
      { EVALUATE, "in=\"@found\" axis=\"dp\"", "in=\"@found\"" },
      { 0 } },
    { "a model on a device of its own",
      "DG-DEVICE",
      { MAIN, "model=\"detr\" images", "model=\"detr\" device=\"cuda:1\" images" },
      { 0 } },
    { "padded images that are stretched too",
      "batch-base",
      { DATA, "fit=\"pad\"", "fit=\"pad\" base=\"1344\"" },
      { DATA, " base=\"1344\"", "" } },
    { "channels that groups do not divide",
      "neck-width",
      { TRUNK, "width=\"256\"", "width=\"200\"" },
      { TRUNK, "width=\"200\"", "width=\"224\"" } },
    { "fewer levels than feature maps",
      "neck-levels",
      { TRUNK, "width=\"256\" levels=\"$levels\"", "width=\"256\" levels=\"3\"" },
      { TRUNK, "levels=\"3\"", "levels=\"5\"" } },
    { "an encoder of fewer levels than the neck makes",
      "encoder-levels",
      { TRUNK, "layers=\"6\" levels=\"$levels\"", "layers=\"6\" levels=\"4\"" },
      { TRUNK, "levels=\"4\"", "levels=\"5\"" } },
    { "heads that do not divide the channels",
      "encoder-heads",
      { TRUNK, "layers=\"6\" levels", "heads=\"7\" layers=\"6\" levels" },
      { TRUNK, "heads=\"7\"", "heads=\"4\"" } },
    { "sizes of images whose canvas is not known",
      "encoder-canvas",
      { TRUNK, "in=\"@neck\" images=\"@images\"", "in=\"@neck\"" },
      { TRUNK, "in=\"@neck\"", "in=\"@neck\" images=\"@images\"" } },
    { "more layers to compute again than there are",
      "encoder-recompute",
      { MAIN, "recompute_layers=\"0\"", "recompute_layers=\"7\"" },
      { MAIN, "recompute_layers=\"7\"", "recompute_layers=\"1\"" } },
    { "fewer sets of queries than heads give",
      "decoder-sets",
      { MAIN, "sets=\"2\"", "sets=\"1\"" },
      { MAIN, "sets=\"1\"", "sets=\"2\"" } },
    { "more queries than tokens",
      "decoder-queries",
      { MAIN, "queries=\"900\"", "queries=\"50000\"" },
      { MAIN, "queries=\"50000\"", "queries=\"300\"" } },
    { "a set of queries that has no boxes",
      "decoder-set",
      { HEADS, "atss=\"@atss.positives\"", "atss=\"@atss.terms\"" },
      { HEADS, "atss=\"@atss.terms\"", "atss=\"@atss.positives\"" } },
    { "padding of other maps than the decoder's",
      "decoder-padding",
      { MAIN, "memory=\"@encoder.out\"", "memory=\"@pyramid\"" },
      { MAIN, "memory=\"@pyramid\"", "memory=\"@encoder.out\"" } },
    { "boxes without proposals",
      "head-proposals",
      { HEADS, " proposals=\"@rpn\"", "" },
      { HEADS, "id=\"roi\"  memory=\"@pyramid\"",
        "id=\"roi\"  memory=\"@pyramid\" proposals=\"@rpn\"" } },
    { "heads that train without objects",
      "head-targets",
      { MAIN, " targets=\"@b.targets\" denoising=\"@dn\"", " denoising=\"@dn\"" },
      { MAIN, " denoising=\"@dn\"/>", " targets=\"@b.targets\" denoising=\"@dn\"/>" } },
    { "thresholds in the wrong order",
      "head-thresholds",
      { HEADS, "samples=\"$rpn_samples\"", "samples=\"$rpn_samples\" negative=\"0.8\"" },
      { HEADS, "negative=\"0.8\"", "negative=\"0.7\"" } },
    { "more positives than samples",
      "head-samples",
      { MAIN, "roi_positives=\"128\"", "roi_positives=\"600\"" },
      { MAIN, "roi_positives=\"600\"", "roi_positives=\"512\"" } },
    { "a coarser level of one map",
      "contract-mismatch",
      { HEADS, "in=\"@encoder\"", "in=\"@neck.p0\"" },
      { HEADS, "in=\"@neck.p0\"", "in=\"@neck\"" } },
    { "rates for parameters that are not there",
      "group-empty",
      { UPDATE, "match=\"backbone\"", "match=\"^body\"" },
      { UPDATE, "match=\"^body\"", "match=\"^backbone\"" } },
    { "fixed norms of random weights",
      "frozen-without-pretrained",
      { TRUNK, "normalize=\"$normalize\"\n                      pretrained=\"$pretrained\"",
        "normalize=\"$normalize\"" },
      { TRUNK, "normalize=\"$normalize\"",
        "normalize=\"$normalize\" pretrained=\"weights.safetensors\"" } },
};
enum { N = sizeof variants / sizeof *variants };

static files preset;
static counts sum;
static bool whole;

/* A copy of the files with one place changed. */
static files changed(const files *from, const edit *e)
{
    files out = { 0 };
    bool found = false;

    for (int i = 0; i < from->n; i++) {
        const char *text = from->text[i],
                   *at = strcmp(from->name[i], e->file) == 0 ? strstr(text, e->from) : NULL;
        dg_str now = { 0 };

        if (at) {
            dg_str_add_n(&now, text, (size_t)(at - text));
            dg_str_fmt(&now, "%s%s", e->to, at + strlen(e->from));
            found = true;
        }
        files_add(&out, from->name[i], at ? now.s : text);
        dg_str_free(&now);
    }
    if (!found)
        fail_msg("%s has no %s", e->file, e->from);
    return out;
}

/* The files with one place changed, and as many layers as are wanted. */
static files wrong_files(const variant *v)
{
    static const edit fewer[] = {
        { MAIN, "depth=\"50\"", "depth=\"18\"" },
        { MAIN, " sets=\"", " layers=\"1\" sets=\"" },
        { TRUNK, "layers=\"6\"", "layers=\"1\"" },
    };
    files f = changed(&preset, &v->wrong);

    for (size_t i = 0; !whole && i < sizeof fewer / sizeof *fewer; i++) {
        files next = changed(&f, &fewer[i]);

        files_close(&f);
        f = next;
    }
    return f;
}

static void check_refused(const variant *v, const loaded *x)
{
    if (dg_diag_errors(x->d) == 0)
        fail_msg("%s: is accepted", v->what);
    for (int i = 0; i < dg_diag_n(x->d); i++)
        if (dg_diag_at(x->d, i)->severity == DG_ERROR &&
            strcmp(dg_diag_at(x->d, i)->id, v->id) != 0)
            fail_msg("%s: expected %s alone:\n%s", v->what, v->id, dg_diag_text(x->d));
}

static void refused(void **state)
{
    const variant *v = *state;
    files wrong = wrong_files(v);
    loaded x;

    files_write(&wrong);
    prove(&x, wrong.text[0], MAIN);
    check_refused(v, &x);
    unload(&x);
    if (v->mended.file) {
        files right = changed(&wrong, &v->mended);

        files_write(&right);
        prove(&x, right.text[0], MAIN);
        if (dg_diag_errors(x.d))
            fail_msg("%s: the way out is none:\n%s", v->what, dg_diag_text(x.d));
        unload(&x);
        files_close(&right);
    } else {
        assert_true(follow_all(&wrong, &sum));
    }
    files_close(&wrong);
}

static void all_followed(void **state)
{
    (void)state;
    print_message(
        "# %d variants; of %d with lines of help, %d lines: %d make an accepted pipeline, "
        "%d show what is wrong next\n",
        N, sum.cases, sum.lines, sum.accepted, sum.next);
    assert_true(N >= 30 && sum.lines >= sum.cases);
    assert_int_equal(sum.lines, sum.accepted + sum.next);
}

static void take(const char *top, const char *name)
{
    char path[4096], *text;

    snprintf(path, sizeof path, "%s/pipelines/%s", top, name);
    text = read_file(path);
    files_add(&preset, name, text);
    dg_free(text);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { MAIN, DATA, EVALUATE, HEADS, TRUNK, UPDATE };
    struct CMUnitTest tests[N + 1];
    const char *top = getenv("srcdir");
    char folder[] = "/tmp/codetr-XXXXXX", command[64];
    int rc;

    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        take(top ? top : ".", names[i]);
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ variants[i].what, refused, NULL, NULL,
                                        (void *)(uintptr_t)&variants[i] };
    tests[N] = (struct CMUnitTest){ "all lines", all_followed, NULL, NULL, NULL };
    if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("parts", 0755) != 0)
        return 1;
    rc = _cmocka_run_group_tests("codetr", tests, N + 1, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", folder);
    rc = chdir("/") != 0 || system(command) != 0 ? 1 : rc;
    files_close(&preset);
    return rc;
}
