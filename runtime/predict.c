/* predict.c: detections on images of no data set. Preparation, program and results are those of an evaluation. */
#include <stdlib.h>
#include <string.h>

#include "media/draw.h"
#include "runtime/session.h"

typedef struct predictor {
    dg_run         *run;
    dg_chain        chain;
    dg_size         size;
    int             batch, n_feeds;
    dg_feed         feeds[DG_MAX_FEEDS];
    void           *data[DG_MAX_FEEDS];
    dg_arena       *arena, *results; /* results: of the batch on its way */
    dg_scratch     *scratch;
    dg_image       *images; /* of the batch, as read */
    dg_dataset     *names;
    double          threshold;
} predictor;

/* Class names come from the evaluation's data, if they are there. Its images are not looked at. */
static void open_names(predictor *p)
{
    dg_diag *d = dg_diag_open();

    if (p->chain.loader->class->open(&p->names, p->chain.loader->conf, p->run->seed, d) < 0) {
        p->names = NULL;
        dg_log_line(&p->run->env, DG_WARN, "the evaluation's data cannot be opened: classes are shown by number");
    }
    dg_diag_close(&d);
}

static int open_batch(predictor *p, dg_diag *d)
{
    const dg_node *node = p->chain.batch;

    p->n_feeds = node->class->feeds(node->conf, p->size, p->batch, p->feeds, DG_MAX_FEEDS);
    for (int i = 0; i < p->n_feeds; i++) {
        p->data[i] = dg_try_alloc((size_t)dg_shape_elements(p->feeds[i].shape) * 4); /* f32 or i32 */
        if (!p->data[i])
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for a batch of %d images", p->batch);
    }
    p->images = DG_NEW_N(p->arena, p->batch, dg_image);
    p->scratch = dg_scratch_open(0);
    return p->scratch ? 0 : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for images");
}

static int fill(predictor *p, int slot, const char *path, dg_diag *d)
{
    const dg_node *node = p->chain.batch;
    dg_sample      sm = { .size = sizeof sm, .item = slot, .path = path, .scratch = p->scratch };
    dg_object      none;
    dg_clock       clock = { 0 };
    int            rc;

    DG_TRY(dg_image_read(&p->images[slot], p->scratch, path, d));
    DG_TRY(dg_image_copy(&sm.image, p->scratch, &p->images[slot], d));
    sm.orig_w = sm.image.w;
    sm.orig_h = sm.image.h;
    sm.objects = &none;
    for (int i = 0; i < p->chain.n_items; i++) {
        dg_draw draw = dg_draw_begin(p->run->seed, p->chain.items[i]->path, 0);

        DG_TRY(p->chain.items[i]->class->item(p->chain.items[i]->conf, &sm, &draw, &clock, d));
    }
    DG_TRY(node->class->fill(node->conf, p->size, p->batch, slot, &sm, p->data, d));
out:
    return rc;
}

static int compute(predictor *p, dg_diag *d)
{
    dg_stream_batch b = { .n = p->batch, .n_feeds = p->n_feeds, .clock = { .step = p->run->progress.step, .epoch = p->run->progress.epoch } };
    int             rc;

    memcpy(b.feeds, p->feeds, sizeof b.feeds);
    memcpy(b.data, p->data, sizeof b.data);
    DG_TRY(dg_run_feed_batch(p->run, &b, d));
    dg_run_compute_control(p->run);
    DG_TRY(dg_exec_run(p->run->current->exec, DG_SEG_BATCH, &p->run->control, d));
out:
    return rc;
}

static double *result(predictor *p, const char *field, dg_shape *shape, dg_diag *d)
{
    const dg_program *g = p->run->current->program;

    for (int i = 0; i < g->results.n; i++) {
        const char *dot = strrchr(g->results.items[i].name, '.');
        int32_t     v = g->results.items[i].value;

        if (!dot || strcmp(dot + 1, field) != 0)
            continue;
        *shape = g->values.items[v].shape;
        double *x = DG_NEW_N(p->results, dg_shape_elements(*shape), double);

        return dg_exec_get(p->run->current->exec, v, x, d) < 0 ? NULL : x;
    }
    dg_fail(d, DG_EINPUT, p->chain.batch->scope->where, "predict-no-detections",
            "the evaluation gives no detections (%s): it needs <detect> and <evaluate.coco>", field);
    return NULL;
}

static int hand_over(predictor *p, const char *const *paths, int n, dg_prediction_fn *take, void *ctx, dg_diag *d)
{
    dg_shape shape = DG_SCALAR, s;
    double  *labels = result(p, "labels", &shape, d), *scores = labels ? result(p, "scores", &s, d) : NULL,
           *boxes = scores ? result(p, "boxes", &s, d) : NULL;
    int rc = boxes ? 0 : -DG_EINPUT;

    for (int slot = 0; rc == 0 && slot < n; slot++) {
        int64_t         k = shape.d[1];
        const dg_image *im = &p->images[slot];
        dg_mark        *marks = DG_NEW_N(p->results, k, dg_mark);
        dg_prediction   one = { paths[slot], im, 0, marks, p->names };

        for (int64_t j = slot * k; j < (slot + 1) * k; j++) {
            const double *c = boxes + 4 * j;

            if (scores[j] >= p->threshold)
                marks[one.n++] = (dg_mark){ { (c[0] - c[2] / 2) * im->w, (c[1] - c[3] / 2) * im->h, (c[0] + c[2] / 2) * im->w,
                                              (c[1] + c[3] / 2) * im->h },
                                            (int)labels[j], scores[j] };
        }
        rc = take(ctx, &one, d);
    }
    return rc;
}

int dg_run_predict(dg_run *run, const char *const *paths, int n, double threshold, bool ema, dg_prediction_fn *take,
                   void *ctx, dg_diag *d)
{
    predictor       p = { .run = run, .arena = dg_arena_open(), .threshold = threshold };
    const dg_scope *scope = run->graph->n_evaluates ? run->graph->evaluates[0] : NULL;
    dg_size        *sizes;
    int             n_sizes, rc;

    if (!scope) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = run->graph->file }, "pipeline-without-evaluate",
                     "the pipeline has no <evaluate>");
        goto out;
    }
    DG_TRY(dg_run_chain(scope, &p.chain, d));
    DG_TRY(dg_run_sizes(run, scope, p.arena, &sizes, &n_sizes, &p.batch, d));
    p.size = sizes[0];
    DG_TRY(open_batch(&p, d));
    DG_TRY(dg_run_use(run, scope, p.size, ema, d));
    open_names(&p);
    for (int at = 0; at < n; at += p.batch) {
        int m = n - at < p.batch ? n - at : p.batch;

        dg_scratch_reset(p.scratch);
        for (int slot = 0; slot < m; slot++)
            DG_TRY(fill(&p, slot, paths[at + slot], d));
        DG_TRY(compute(&p, d));
        p.results = dg_arena_open();
        rc = hand_over(&p, paths + at, m, take, ctx, d);
        dg_arena_close(&p.results);
        if (rc < 0)
            goto out;
    }
out:
    for (int i = 0; i < p.n_feeds; i++)
        dg_free(p.data[i]);
    if (p.names)
        p.names->close(p.names->self);
    dg_scratch_close(&p.scratch);
    dg_arena_close(&p.arena);
    return rc;
}
