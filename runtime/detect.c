/* detect.c: detections on images outside any data set, prepared and computed as in an evaluation.
 */
#include "runtime/detect.h"

#include <string.h>

#include "base/file.h"
#include "nodes/evaluate/masks.h"
#include "runtime/programs.h"
#include "runtime/run.h"
#include "runtime/step.h"
#include "runtime/trained.h"
#include "weights/coco_names.h"

struct dg_detector {
    dg_run *run, *own; /* own: closed with the detector; or NULL */
    double threshold;
    dg_chain chain;
    dg_size size;
    int batch, n_feeds;
    dg_feed feeds[DG_MAX_FEEDS];
    void *filled[DG_MAX_FEEDS]; /* the feeds of the batch */
    dg_arena *arena, *results;  /* results: of the last batch; NULL: there are none */
    dg_scratch *scratch;        /* of the batch's images */
    int n;                      /* images in the batch */
    dg_image *images;           /* of the batch, as read */
    const char **names;         /* of the batch's images */
    dg_detected *found;         /* of the last batch, in results */
    int n_found;
    dg_dataset *data; /* of the evaluation, for the names of classes; NULL: it cannot be opened */
    const dg_coco_class *classes; /* instead */
    int n_classes;
};

/* Takes class names from the evaluation's data, if available, without opening its images. */
static void open_names(dg_detector *p)
{
    dg_diag *d = dg_diag_open();

    if (p->chain.loader->class->open(&p->data, p->chain.loader->conf, dg_run_pipeline(p->run)->seed,
                                     d) < 0) {
        p->data = NULL;
        dg_log_line(dg_run_env(p->run), DG_WARN,
                    "the evaluation's data cannot be opened: classes are shown by number");
    }
    dg_diag_close(&d);
}

static int open_batch(dg_detector *p, dg_diag *d)
{
    const dg_node *node = p->chain.batch;

    p->n_feeds = node->class->feeds(node->conf, p->size, p->batch, p->feeds, DG_MAX_FEEDS);
    for (int i = 0; i < p->n_feeds; i++) {
        /* f32 or i32 */
        p->filled[i] = dg_try_alloc((size_t)dg_shape_elements(p->feeds[i].shape) * 4);
        if (!p->filled[i])
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan",
                           "no memory for a batch of %d images", p->batch);
    }
    p->images = DG_NEW_N(p->arena, p->batch, dg_image);
    p->names = DG_NEW_N(p->arena, p->batch, const char *);
    p->scratch = dg_scratch_open(0);
    return p->scratch ? 0
                      : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for images");
}

/* ---- images ---------------------------------------------------------------------------------- */

static void drop_results(dg_detector *p)
{
    for (int i = 0; i < p->n_found; i++)
        for (int k = 0; p->found[i].masks && k < p->found[i].n; k++)
            dg_rle_free((dg_rle *)&p->found[i].masks[k]);
    p->n_found = 0;
    dg_arena_close(&p->results);
}

/* Where the next image goes; NULL: nowhere. */
static dg_image *begin_image(dg_detector *p, const char *name, dg_diag *d)
{
    if (p->n == p->batch) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "detector-full",
                "the batch has its %d images already", p->batch);
        dg_help(d, "dg_detector_run computes and empties it; dg_detector_room says how many more "
                   "it takes");
        return NULL;
    }
    if (p->n == 0) {
        drop_results(p);
        p->results = dg_arena_open();
        dg_scratch_reset(p->scratch);
    }
    return &p->images[p->n];
}

/* Prepares the image that begin_image gave room for. */
static int end_image(dg_detector *p, const char *name, dg_diag *d)
{
    const dg_node *node = p->chain.batch;
    dg_sample sm = { .size = sizeof sm, .item = p->n, .path = name, .scratch = p->scratch };
    dg_object none;
    dg_clock clock = { 0 };
    int rc;

    DG_TRY(dg_image_copy(&sm.image, p->scratch, &p->images[p->n], d));
    sm.orig_w = sm.image.w;
    sm.orig_h = sm.image.h;
    sm.objects = &none;
    for (int i = 0; i < p->chain.n_items; i++) {
        dg_draw draw = dg_draw_begin(dg_run_pipeline(p->run)->seed, p->chain.items[i]->path, 0);

        DG_TRY(p->chain.items[i]->class->item(p->chain.items[i]->conf, &sm, &draw, &clock, d));
    }
    DG_TRY(node->class->fill(node->conf, p->size, p->batch, p->n, &sm, p->filled, d));
    p->names[p->n++] = dg_strdup(p->results, name);
out:
    return rc;
}

int dg_detector_add_file(dg_detector *p, const char *path, dg_diag *d)
{
    dg_image *im = begin_image(p, path, d);
    int rc = 0;

    if (!im)
        return -DG_EINPUT;
    DG_TRY(dg_image_read(im, p->scratch, path, d));
    DG_TRY(end_image(p, path, d));
out:
    return rc;
}

int dg_detector_add_bytes(dg_detector *p, const char *name, const void *bytes, size_t n, dg_diag *d)
{
    dg_image *im = begin_image(p, name, d);
    int rc = 0;

    if (!im)
        return -DG_EINPUT;
    DG_TRY(dg_image_decode(im, p->scratch, bytes, n, name, d));
    DG_TRY(end_image(p, name, d));
out:
    return rc;
}

static const struct {
    int bytes, r, g, b;
} orders[] = {
    [DG_PIXELS_RGB] = { 3, 0, 1, 2 },  [DG_PIXELS_BGR] = { 3, 2, 1, 0 },
    [DG_PIXELS_RGBA] = { 4, 0, 1, 2 }, [DG_PIXELS_BGRA] = { 4, 2, 1, 0 },
    [DG_PIXELS_GRAY] = { 1, 0, 0, 0 },
};

/* Bytes from a row to the next; 0: too few for a row, or so many that the last row would be behind
 * all addresses. */
static int64_t stride_of(const dg_pixels *in, int64_t row)
{
    static const int64_t most = INT64_C(1) << 40;
    const int64_t s = in->stride ? in->stride : row;

    return s > most || s < -most || (s < row && s > -row) ? 0 : s;
}

int dg_detector_add_pixels(dg_detector *p, const char *name, const dg_pixels *in, dg_diag *d)
{
    const bool known = in->order >= DG_PIXELS_RGB && in->order <= DG_PIXELS_GRAY;
    const int bytes = known ? orders[in->order].bytes : 0;
    const int64_t row = (int64_t)in->w * bytes, stride = stride_of(in, row);
    dg_image *im = begin_image(p, name, d);
    int rc;

    if (!im)
        return -DG_EINPUT;
    if (!known || !in->data || (row > 0 && stride == 0))
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "image-pixels",
                       "no pixels, an unknown order (%d), or rows of %d pixels that are %lld bytes "
                       "apart",
                       (int)in->order, in->w, (long long)(in->stride ? in->stride : row));
    DG_TRY(dg_image_new(im, p->scratch, in->w, in->h, d));
    for (int y = 0; y < in->h; y++) {
        const uint8_t *from = in->data + y * stride;
        uint8_t *to = im->rgb + (size_t)y * (size_t)in->w * 3;

        for (int x = 0; x < in->w; x++, from += bytes, to += 3) {
            to[0] = from[orders[in->order].r];
            to[1] = from[orders[in->order].g];
            to[2] = from[orders[in->order].b];
        }
    }
    DG_TRY(end_image(p, name, d));
out:
    return rc;
}

/* ---- detections ------------------------------------------------------------------------------ */

static int compute_batch(dg_detector *p, dg_diag *d)
{
    const dg_progress *now = dg_run_progress(p->run);
    dg_feeder_batch b = { .n = p->batch,
                          .n_feeds = p->n_feeds,
                          .clock = { .step = now->step, .epoch = now->epoch } };
    int rc;

    memcpy(b.feeds, p->feeds, sizeof b.feeds);
    memcpy(b.data, p->filled, sizeof b.data);
    DG_TRY(dg_run_feed_batch(p->run, &b, d));
    DG_TRY(dg_run_forward_batch(p->run, d));
out:
    return rc;
}

static double *read_result(dg_detector *p, const char *field, dg_shape *shape, dg_diag *d)
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
static int read_masks(dg_detector *p, dg_tensor *out, dg_diag *d)
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

/* What was found in one image of the batch. rows: [K] of labels and scores, [K,4] of boxes. */
static int find_in(dg_detector *p, int slot, int64_t k, const double *labels, const double *scores,
                   const double *boxes, const dg_tensor *logits, double threshold, dg_diag *d)
{
    const dg_image *im = &p->images[slot];
    dg_hit *items = DG_NEW_N(p->results, k, dg_hit);
    dg_rle *masks = logits->data ? DG_NEW_N(p->results, k, dg_rle) : NULL;
    dg_detected *one = &p->found[slot];

    *one = (dg_detected){ p->names[slot], im, 0, items, masks };
    for (int64_t j = slot * k; j < (slot + 1) * k; j++) {
        const double *c = boxes + 4 * j;

        if (labels[j] < 0 || scores[j] < threshold) /* void rows have the label -1 */
            continue;
        if (masks && dg_detected_mask(&masks[one->n], logits, j, im->w, im->h, d) < 0)
            return -DG_EMEMORY;
        items[one->n++] = (dg_hit){ { (c[0] - c[2] / 2) * im->w, (c[1] - c[3] / 2) * im->h,
                                      (c[0] + c[2] / 2) * im->w, (c[1] + c[3] / 2) * im->h },
                                    (int)labels[j],
                                    scores[j] };
    }
    return 0;
}

static int find_all(dg_detector *p, double threshold, dg_diag *d)
{
    dg_shape shape = DG_SCALAR, s;
    double *labels = read_result(p, "labels", &shape, d),
           *scores = labels ? read_result(p, "scores", &s, d) : NULL,
           *boxes = scores ? read_result(p, "boxes", &s, d) : NULL;
    dg_tensor logits = { 0 };
    int rc = boxes ? read_masks(p, &logits, d) : -DG_EINPUT;

    p->found = DG_NEW_N(p->results, p->n, dg_detected);
    for (int slot = 0; rc == 0 && slot < p->n; slot++) {
        p->n_found = slot + 1;
        rc = find_in(p, slot, shape.d[1], labels, scores, boxes, &logits, threshold, d);
    }
    return rc;
}

int dg_detector_run(dg_detector *p, double threshold, const dg_detected **found, int *n, dg_diag *d)
{
    int rc = 0;

    if (p->n == 0) { /* nothing was added */
        drop_results(p);
        goto out;
    }
    DG_TRY(compute_batch(p, d));
    DG_TRY(find_all(p, threshold, d));
out:
    if (rc < 0)
        drop_results(p);
    p->n = 0;
    *n = p->n_found;
    *found = p->found;
    return rc;
}

int dg_detector_room(const dg_detector *p)
{
    return p->batch - p->n;
}

const dg_coco_class *dg_detector_classes(const dg_detector *p, int *n)
{
    *n = p->data ? p->data->n_classes : p->n_classes;
    return p->data ? p->data->classes : p->classes;
}

double dg_detector_threshold(const dg_detector *p)
{
    return p->threshold;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_scope(dg_detector *p, dg_diag *d)
{
    const dg_graph *g = dg_run_pipeline(p->run)->graph;
    const dg_scope *scope = g->n_evaluates ? g->evaluates[0] : NULL;
    dg_size *sizes;
    int n_sizes, rc;

    if (!scope)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "pipeline-without-evaluate",
                       "the pipeline has no <evaluate>");
    DG_TRY(dg_scope_chain(&p->chain, scope, d));
    DG_TRY(dg_scope_sizes(scope, p->arena, &sizes, &n_sizes, &p->batch, d));
    p->size = sizes[0];
    DG_TRY(open_batch(p, d));
    DG_TRY(dg_programs_fit(dg_run_programs(p->run), scope, p->size, dg_run_world(p->run), d));
    DG_TRY(dg_programs_use(dg_run_programs(p->run), scope, p->size, false, d));
    open_names(p);
out:
    return rc;
}

static dg_detector *new_detector(void)
{
    dg_arena *a = dg_arena_open();
    dg_detector *p = DG_NEW(a, dg_detector);

    p->arena = a;
    return p;
}

int dg_detector_on(dg_detector **out, dg_run *run, dg_diag *d)
{
    int rc;

    *out = new_detector();
    (*out)->run = run;
    rc = open_scope(*out, d);
    if (rc < 0)
        dg_detector_close(out);
    return rc;
}

static void keep_classes(dg_detector *p, const dg_coco_class *classes, int n)
{
    dg_coco_class *kept = DG_NEW_N(p->arena, n + 1, dg_coco_class);

    for (int i = 0; i < n; i++)
        kept[i] = (dg_coco_class){ classes[i].id, dg_strdup(p->arena, classes[i].name) };
    p->classes = kept;
    p->n_classes = n;
}

int dg_detector_open(dg_detector **out, const dg_detector_options *given, dg_diag *d)
{
    dg_detector *p = *out = new_detector();
    dg_detector_options o = { 0 };
    dg_trained t;
    int rc;

    memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    DG_TRY(dg_trained_find(&t, o.model, o.weights, o.last, o.n_sets, o.sets, p->arena, d));
    if (t.published) { /* that their data are not here is no news */
        o.log = NULL;
        if (!o.names) {
            o.names = dg_coco_classes(p->arena);
            o.n_names = DG_COCO_NAMES;
        }
    }
    DG_TRY(dg_trained_open(&p->own, &t,
                           (dg_run_options){ .precision = o.precision,
                                             .device = o.device,
                                             .threads = o.threads,
                                             .program = o.program,
                                             .log = o.log,
                                             .log_ctx = o.log_ctx },
                           d));
    p->run = p->own;
    keep_classes(p, o.names, o.n_names);
    DG_TRY(open_scope(p, d));
    p->threshold = dg_trained_threshold(&t, dg_run_pipeline(p->run)->graph->evaluates[0], d);
out:
    if (rc < 0)
        dg_detector_close(out);
    return rc;
}

void dg_detector_close(dg_detector **p)
{
    dg_arena *a;

    if (!*p)
        return;
    drop_results(*p);
    for (int i = 0; i < (*p)->n_feeds; i++)
        dg_free((*p)->filled[i]);
    if ((*p)->data)
        (*p)->data->close((*p)->data->self);
    dg_scratch_close(&(*p)->scratch);
    dg_run_close(&(*p)->own);
    a = (*p)->arena;
    dg_arena_close(&a);
    *p = NULL;
}
