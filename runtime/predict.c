/* predict.c: detections on images outside any data set, prepared and computed as in an
 * evaluation. */
#include "runtime/predict.h"

#include <stdlib.h>
#include <string.h>

#include "media/draw.h"
#include "nodes/evaluate/masks.h"
#include "runtime/programs.h"
#include "runtime/step.h"

typedef struct predictor {
    dg_run *run;
    dg_chain chain;
    dg_size size;
    int batch, n_feeds;
    dg_feed feeds[DG_MAX_FEEDS];
    void *data[DG_MAX_FEEDS];
    dg_arena *arena, *results; /* results: of the current batch */
    dg_scratch *scratch;
    dg_image *images; /* of the batch, as read */
    dg_dataset *names;
    double threshold;
} predictor;

/* Takes class names from the evaluation's data, if available, without opening its images. */
static void open_names(predictor *p)
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

static int open_batch(predictor *p, dg_diag *d)
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
    p->scratch = dg_scratch_open(0);
    return p->scratch ? 0
                      : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for images");
}

static int fill_slot(predictor *p, int slot, const char *path, dg_diag *d)
{
    const dg_node *node = p->chain.batch;
    dg_sample sm = { .size = sizeof sm, .item = slot, .path = path, .scratch = p->scratch };
    dg_object none;
    dg_clock clock = { 0 };
    int rc;

    DG_TRY(dg_image_read(&p->images[slot], p->scratch, path, d));
    DG_TRY(dg_image_copy(&sm.image, p->scratch, &p->images[slot], d));
    sm.orig_w = sm.image.w;
    sm.orig_h = sm.image.h;
    sm.objects = &none;
    for (int i = 0; i < p->chain.n_items; i++) {
        dg_draw draw = dg_draw_begin(dg_run_pipeline(p->run)->seed, p->chain.items[i]->path, 0);

        DG_TRY(p->chain.items[i]->class->item(p->chain.items[i]->conf, &sm, &draw, &clock, d));
    }
    DG_TRY(node->class->fill(node->conf, p->size, p->batch, slot, &sm, p->data, d));
out:
    return rc;
}

/* Fills a batch from paths[*at] on; *n images of it, whose paths are in `used`. What cannot be read
 * is left out: its error is in d, and *failed is the first one's code. */
static int fill_batch(predictor *p, const char *const *paths, int n_paths, int *at,
                      const char **used, int *n, int *failed, dg_diag *d)
{
    int rc = 0;

    dg_scratch_reset(p->scratch);
    for (*n = 0; *n < p->batch && *at < n_paths && rc == 0; ++*at) {
        rc = fill_slot(p, *n, paths[*at], d);
        if (rc == -DG_EINPUT || rc == -DG_EIO) {
            *failed = *failed ? *failed : rc;
            rc = 0;
        } else if (rc == 0) {
            used[(*n)++] = paths[*at];
        }
    }
    return rc;
}

static int compute_batch(predictor *p, dg_diag *d)
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

static double *read_result(predictor *p, const char *field, dg_shape *shape, dg_diag *d)
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
static int read_masks(predictor *p, dg_tensor *out, dg_diag *d)
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

static int hand_over(predictor *p, const char *const *paths, int n, dg_prediction_fn *take,
                     void *ctx, dg_diag *d)
{
    dg_shape shape = DG_SCALAR, s;
    double *labels = read_result(p, "labels", &shape, d),
           *scores = labels ? read_result(p, "scores", &s, d) : NULL,
           *boxes = scores ? read_result(p, "boxes", &s, d) : NULL;
    dg_tensor logits = { 0 };
    int rc = boxes ? read_masks(p, &logits, d) : -DG_EINPUT;

    for (int slot = 0; rc == 0 && slot < n; slot++) {
        int64_t k = shape.d[1];
        const dg_image *im = &p->images[slot];
        dg_mark *marks = DG_NEW_N(p->results, k, dg_mark);
        dg_rle *masks = logits.data ? DG_NEW_N(p->results, k, dg_rle) : NULL;
        dg_prediction one = { paths[slot], im, 0, marks, p->names, masks };

        for (int64_t j = slot * k; rc == 0 && j < (slot + 1) * k; j++) {
            const double *c = boxes + 4 * j;

            if (labels[j] < 0 || scores[j] < p->threshold) /* void rows have the label -1 */
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

int dg_run_predict(dg_run *run, const char *const *paths, int n, double threshold, bool ema,
                   dg_prediction_fn *take, void *ctx, dg_diag *d)
{
    predictor p = { .run = run, .arena = dg_arena_open(), .threshold = threshold };
    const dg_graph *g = dg_run_pipeline(run)->graph;
    const dg_scope *scope = g->n_evaluates ? g->evaluates[0] : NULL;
    const char **used;
    dg_size *sizes;
    int n_sizes, rc, failed = 0;

    if (!scope) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "pipeline-without-evaluate",
                     "the pipeline has no <evaluate>");
        goto out;
    }
    DG_TRY(dg_scope_chain(&p.chain, scope, d));
    DG_TRY(dg_scope_sizes(scope, p.arena, &sizes, &n_sizes, &p.batch, d));
    p.size = sizes[0];
    DG_TRY(open_batch(&p, d));
    DG_TRY(dg_programs_use(dg_run_programs(run), scope, p.size, ema, d));
    open_names(&p);
    used = DG_NEW_N(p.arena, p.batch, const char *);
    for (int at = 0, m; at < n;) {
        DG_TRY(fill_batch(&p, paths, n, &at, used, &m, &failed, d));
        if (m == 0)
            continue;
        DG_TRY(compute_batch(&p, d));
        p.results = dg_arena_open();
        rc = hand_over(&p, used, m, take, ctx, d);
        dg_arena_close(&p.results);
        if (rc < 0)
            goto out;
    }
    rc = failed;
out:
    for (int i = 0; i < p.n_feeds; i++)
        dg_free(p.data[i]);
    if (p.names)
        p.names->close(p.names->self);
    dg_scratch_close(&p.scratch);
    dg_arena_close(&p.arena);
    return rc;
}
