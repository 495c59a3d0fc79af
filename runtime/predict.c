/* predict.c: detections on images outside any data set, prepared and computed as in an
 * evaluation. */
#include "runtime/predict.h"

#include <stdlib.h>
#include <string.h>

#include "media/draw.h"
#include "nodes/evaluate/masks.h"
#include "runtime/programs.h"
#include "runtime/step.h"

struct dg_predictor {
    dg_run *run;
    dg_chain chain;
    dg_size size;
    int batch, n_feeds;
    dg_feed feeds[DG_MAX_FEEDS];
    void *data[DG_MAX_FEEDS];
    dg_arena *arena, *results; /* results: of the current batch */
    dg_scratch *scratch;
    int n;              /* images in the batch */
    dg_image *images;   /* of the batch, as read */
    const char **paths; /* of the batch */
    dg_dataset *names;
};

/* Takes class names from the evaluation's data, if available, without opening its images. */
static void open_names(dg_predictor *p)
{
    dg_diag *d = dg_diag_open();

    if (p->chain.loader->class->open(&p->names, p->chain.loader->conf,
                                     dg_run_pipeline(p->run)->seed, d) < 0) {
        p->names = NULL;
        dg_log_line(dg_run_env(p->run), DG_WARN,
                    "the evaluation's data cannot be opened: classes are shown by number");
    }
    dg_diag_close(&d);
}

static int open_batch(dg_predictor *p, dg_diag *d)
{
    const dg_node *node = p->chain.batch;

    p->n_feeds = node->class->feeds(node->conf, p->size, p->batch, p->feeds, DG_MAX_FEEDS);
    for (int i = 0; i < p->n_feeds; i++) {
        /* f32 or i32 */
        p->data[i] = dg_try_alloc((size_t)dg_shape_elements(p->feeds[i].shape) * 4);
        if (!p->data[i])
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan",
                           "no memory for a batch of %d images", p->batch);
    }
    p->images = DG_NEW_N(p->arena, p->batch, dg_image);
    p->paths = DG_NEW_N(p->arena, p->batch, const char *);
    p->scratch = dg_scratch_open(0);
    return p->scratch ? 0
                      : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for images");
}

int dg_predictor_add(dg_predictor *p, const char *path, const void *bytes, size_t n, dg_diag *d)
{
    const dg_node *node = p->chain.batch;
    dg_sample sm = { .size = sizeof sm, .item = p->n, .path = path, .scratch = p->scratch };
    dg_image *im = &p->images[p->n];
    dg_object none;
    dg_clock clock = { 0 };
    int rc;

    if (p->n == 0)
        dg_scratch_reset(p->scratch);
    if (bytes)
        DG_TRY(dg_image_decode(im, p->scratch, bytes, n, path, d));
    else
        DG_TRY(dg_image_read(im, p->scratch, path, d));
    DG_TRY(dg_image_copy(&sm.image, p->scratch, im, d));
    sm.orig_w = sm.image.w;
    sm.orig_h = sm.image.h;
    sm.objects = &none;
    for (int i = 0; i < p->chain.n_items; i++) {
        dg_draw draw = dg_draw_begin(dg_run_pipeline(p->run)->seed, p->chain.items[i]->path, 0);

        DG_TRY(p->chain.items[i]->class->item(p->chain.items[i]->conf, &sm, &draw, &clock, d));
    }
    DG_TRY(node->class->fill(node->conf, p->size, p->batch, p->n, &sm, p->data, d));
    p->paths[p->n++] = path;
out:
    return rc;
}

static int compute_batch(dg_predictor *p, dg_diag *d)
{
    const dg_progress *now = dg_run_progress(p->run);
    dg_feeder_batch b = { .n = p->batch,
                          .n_feeds = p->n_feeds,
                          .clock = { .step = now->step, .epoch = now->epoch } };
    int rc;

    memcpy(b.feeds, p->feeds, sizeof b.feeds);
    memcpy(b.data, p->data, sizeof b.data);
    DG_TRY(dg_run_feed_batch(p->run, &b, d));
    DG_TRY(dg_run_forward_batch(p->run, d));
out:
    return rc;
}

static double *read_result(dg_predictor *p, const char *field, dg_shape *shape, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(p->run)->current;
    int32_t v = dg_program_taken(c->program, field);

    if (v) {
        *shape = c->program->values.items[v].shape;
        double *x = DG_NEW_N(p->results, dg_shape_elements(*shape), double);

        return dg_exec_get(c->exec, v, x, d) < 0 ? NULL : x;
    }
    dg_fail(d, DG_EINPUT, p->chain.batch->scope->where, "predict-no-detections",
            "the evaluation gives no detections (%s): it needs <detect> and <evaluate.coco>",
            field);
    return NULL;
}

/* Logits of masks [B,K,H,W] of the current batch, at a place for all; no data: there are none. */
static int read_masks(dg_predictor *p, dg_tensor *out, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(p->run)->current;
    int32_t v = dg_program_taken(c->program, "masks");
    double *x;

    if (!v)
        return 0;
    *out = (dg_tensor){ .dtype = DG_F64, .shape = c->program->values.items[v].shape };
    out->data = x = DG_NEW_N(p->results, dg_shape_elements(out->shape), double);
    return dg_exec_get(c->exec, v, x, d);
}

static int hand_over(dg_predictor *p, double threshold, dg_prediction_fn *take, void *ctx,
                     dg_diag *d)
{
    dg_shape shape = DG_SCALAR, s;
    double *labels = read_result(p, "labels", &shape, d),
           *scores = labels ? read_result(p, "scores", &s, d) : NULL,
           *boxes = scores ? read_result(p, "boxes", &s, d) : NULL;
    dg_tensor logits = { 0 };
    int rc = boxes ? read_masks(p, &logits, d) : -DG_EINPUT;

    for (int slot = 0; rc == 0 && slot < p->n; slot++) {
        int64_t k = shape.d[1];
        const dg_image *im = &p->images[slot];
        dg_mark *marks = DG_NEW_N(p->results, k, dg_mark);
        dg_rle *masks = logits.data ? DG_NEW_N(p->results, k, dg_rle) : NULL;
        dg_prediction one = { p->paths[slot], im, 0, marks, p->names, masks };

        for (int64_t j = slot * k; rc == 0 && j < (slot + 1) * k; j++) {
            const double *c = boxes + 4 * j;

            if (labels[j] < 0 || scores[j] < threshold) /* void rows have the label -1 */
                continue;
            if (masks)
                rc = dg_detected_mask(&masks[one.n], &logits, j, im->w, im->h, d);
            marks[one.n++] = (dg_mark){ { (c[0] - c[2] / 2) * im->w, (c[1] - c[3] / 2) * im->h,
                                          (c[0] + c[2] / 2) * im->w, (c[1] + c[3] / 2) * im->h },
                                        (int)labels[j],
                                        scores[j] };
        }
        rc = rc ? rc : take(ctx, &one, d);
        for (int i = 0; masks && i < one.n; i++)
            dg_rle_free(&masks[i]);
    }
    return rc;
}

int dg_predictor_compute(dg_predictor *p, double threshold, dg_prediction_fn *take, void *ctx,
                         dg_diag *d)
{
    int rc;

    p->results = dg_arena_open();
    DG_TRY(compute_batch(p, d));
    DG_TRY(hand_over(p, threshold, take, ctx, d));
out:
    dg_arena_close(&p->results);
    p->n = 0;
    return rc;
}

int dg_predictor_room(const dg_predictor *p)
{
    return p->batch - p->n;
}

const dg_dataset *dg_predictor_names(const dg_predictor *p)
{
    return p->names;
}

int dg_predictor_open(dg_predictor **out, dg_run *run, bool ema, dg_diag *d)
{
    const dg_graph *g = dg_run_pipeline(run)->graph;
    const dg_scope *scope = g->n_evaluates ? g->evaluates[0] : NULL;
    dg_arena *a = dg_arena_open();
    dg_predictor *p = DG_NEW(a, dg_predictor);
    dg_size *sizes;
    int n_sizes, rc;

    *out = p;
    p->arena = a;
    p->run = run;
    if (!scope) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "pipeline-without-evaluate",
                     "the pipeline has no <evaluate>");
        goto out;
    }
    DG_TRY(dg_scope_chain(&p->chain, scope, d));
    DG_TRY(dg_scope_sizes(scope, p->arena, &sizes, &n_sizes, &p->batch, d));
    p->size = sizes[0];
    DG_TRY(open_batch(p, d));
    DG_TRY(dg_programs_use(dg_run_programs(run), scope, p->size, ema, d));
    open_names(p);
out:
    if (rc < 0)
        dg_predictor_close(out);
    return rc;
}

void dg_predictor_close(dg_predictor **p)
{
    dg_arena *a;

    if (!*p)
        return;
    for (int i = 0; i < (*p)->n_feeds; i++)
        dg_free((*p)->data[i]);
    if ((*p)->names)
        (*p)->names->close((*p)->names->self);
    dg_scratch_close(&(*p)->scratch);
    a = (*p)->arena;
    dg_arena_close(&a);
    *p = NULL;
}

int dg_run_predict(dg_run *run, const char *const *paths, int n, double threshold, bool ema,
                   dg_prediction_fn *take, void *ctx, dg_diag *d)
{
    dg_predictor *p = NULL;
    int rc, failed = 0;

    DG_TRY(dg_predictor_open(&p, run, ema, d));
    for (int at = 0; at < n;) {
        while (at < n && dg_predictor_room(p)) {
            /* What cannot be read is left out: its error is in d. */
            rc = dg_predictor_add(p, paths[at++], NULL, 0, d);
            if (rc < 0 && rc != -DG_EINPUT && rc != -DG_EIO)
                goto out;
            failed = failed ? failed : rc;
        }
        if (dg_predictor_room(p) < p->batch)
            DG_TRY(dg_predictor_compute(p, threshold, take, ctx, d));
    }
    rc = failed;
out:
    dg_predictor_close(&p);
    return rc;
}
