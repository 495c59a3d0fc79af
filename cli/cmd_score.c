/* cmd_score.c: `detrgraph score`: COCO scores of a file of detections against an annotation
 * file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "media/coco.h"
#include "media/score.h"

typedef struct opts {
    const char *truth, *detections, *format;
    bool masks;
} opts;

static const dg_option options[] = {
    { "truth", DG_OPTION_STR, offsetof(opts, truth), "FILE", NULL, "annotations in COCO format" },
    { "detections", DG_OPTION_STR, offsetof(opts, detections), "FILE", NULL,
      "detections in COCO result format" },
    { "masks", DG_OPTION_FLAG, offsetof(opts, masks), NULL, NULL,
      "score masks (\"segmentation\") and not boxes" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json", "output format (text)" },
    { 0 },
};

/* Warns if detections are of a part of the images: the objects of all others count as missed. */
static void look_at_part(const dg_coco *truth, const dg_found *found, const char *file, dg_diag *d)
{
    const int n = dg_coco_n_images(truth);
    dg_arena *a = dg_arena_open();
    bool *has = DG_NEW_N(a, n + 1, bool);
    int with = 0, without = 0;

    for (int64_t i = 0; i < found->n; i++) {
        with += !has[found->items[i].image];
        has[found->items[i].image] = true;
    }
    for (int i = 0; i < n; i++)
        without += !has[i] && dg_coco_image_at(truth, i)->n > 0;
    if (without > n / 10) {
        dg_warn(d, (dg_where){ .file = file }, "detections-part",
                "detections for %d of %d images: the objects of %d other%s count as missed", with,
                n, without, dg_plural(without, "s"));
        dg_help(d, "if only a part was looked at, score it by an annotation file of that part; an "
                   "evaluation's images.txt lists its images");
    }
    dg_arena_close(&a);
}

static int score_boxes(dg_score **out, const dg_coco *truth, const dg_found *found, dg_diag *d)
{
    return dg_score_open(out, dg_coco_n_images(truth), dg_coco_n_classes(truth),
                         dg_coco_annotations(truth), dg_coco_n_annotations(truth), found->items,
                         found->n, d);
}

static int score_masks(dg_score **out, const dg_coco *truth, const dg_found *found, dg_diag *d)
{
    const int64_t n = dg_coco_n_annotations(truth);
    dg_rle *masks = calloc((size_t)n + 1, sizeof *masks);
    int rc = masks ? 0
                   : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "coco-memory",
                             "no memory for the masks of %lld objects", (long long)n);

    for (int64_t i = 0; i < n && rc == 0; i++)
        rc = dg_coco_mask(&masks[i], truth, i, d);
    if (rc == 0)
        rc = dg_score_open_masks(out, dg_coco_n_images(truth), dg_coco_n_classes(truth),
                                 dg_coco_annotations(truth), masks, n, found->items, found->masks,
                                 found->n, d);
    for (int64_t i = 0; masks && i < n; i++)
        dg_rle_free(&masks[i]);
    free(masks);
    return rc;
}

static int score_files(const opts *o, dg_diag *d)
{
    dg_coco *truth = NULL;
    dg_found found = { 0 };
    dg_score *score = NULL;
    dg_str out = { 0 };
    int rc, n;

    rc = o->masks ? dg_coco_open_masks(&truth, o->truth, d)
                  : dg_coco_open_as(&truth, o->truth, false, 0, d);
    if (rc < 0 && o->masks)
        dg_help(d, "without --masks the boxes are scored");
    DG_TRY(rc);
    DG_TRY(o->masks ? dg_detections_read_masks(&found, o->detections, truth, d)
                    : dg_detections_read(&found, o->detections, truth, d));
    look_at_part(truth, &found, o->detections, d);
    n = dg_coco_n_classes(truth);
    DG_TRY(o->masks ? score_masks(&score, truth, &found, d)
                    : score_boxes(&score, truth, &found, d));
    if (o->format && strcmp(o->format, "json") == 0) {
        dg_score_print_json(&out, score, n ? dg_coco_class_at(truth, 0) : NULL, n);
        dg_str_add(&out, "\n");
    } else {
        dg_score_print(&out, score, n ? dg_coco_class_at(truth, 0) : NULL, n);
    }
    dg_say("%s", out.s);
out:
    dg_str_free(&out);
    dg_score_close(&score);
    dg_detections_free(&found);
    dg_coco_close(&truth);
    return rc;
}

static int verb_score(const void *options_of, const dg_words *words, dg_arena *a)
{
    const opts *o = options_of;
    dg_diag *d = dg_diag_open();
    int rc;

    (void)words;
    (void)a;
    if (!o->truth || !o->detections) {
        dg_say_error("detrgraph score: --truth and --detections are both needed\n");
        dg_diag_close(&d);
        return DG_EXIT_USAGE;
    }
    rc = score_files(o, d);
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static const dg_example examples[] = {
    { "score --truth instances_val2017.json --detections dets.json",
      "Score the result file of any detector." },
    { "score --masks --truth instances_val2017.json --detections segm.json", "Score its masks." },
    { 0 },
};

const dg_verb dg_verb_score = {
    .name = "score",
    .args = "--truth FILE --detections FILE [--masks] [--format json]",
    .brief = "Compute the COCO scores of a detection file.",
    .doc = "Prints the 12 numbers of the official evaluator, including crowds and areas, and AP "
           "per class.\n"
           "-1 means that there is no ground truth. With --masks they are those of masks "
           "(\"segm\"): each\n"
           "detection needs \"segmentation\", run lengths of its image's size or polygons, and no "
           "\"bbox\".",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .most = 0,
    .run = verb_score,
};
