/* old_data.c: a loader, a sampler, a batch and an evaluation with what the headers of version 1
 * have, and an augmentation that knows the clock: what `abi/compare` builds with these headers and
 * runs with today's program. */
#include <detrgraph/plugin.h>

#include <stdlib.h>

/* ---- loader: 6 images of 32x32, of which i has one object if i is odd; image i is gray 10 i ---
 */

enum { N = 6, SIDE = 32 };
static const dg_port loader_ports[] = { DG_OUT("out", "dataset", "images"), { 0 } };
static const dg_coco_class classes[] = { { 4, "thing" } };
static const dg_coco_annotation truths[] = {
    { .id = 1, .image = 1, .x = 2, .y = 3, .w = 8, .h = 9, .area = 72 },
    { .id = 2, .image = 3, .x = 2, .y = 3, .w = 8, .h = 9, .area = 72 },
    { .id = 3, .image = 5, .x = 2, .y = 3, .w = 8, .h = 9, .area = 72 }
};

static void info(void *self, int item, dg_item_info *out)
{
    (void)self;
    *out = (dg_item_info){ 100 + item, "gray", SIDE, SIDE, item % 2 };
}

static int sample(void *self, int item, dg_sample *out, dg_scratch *scratch, dg_diag *d)
{
    int rc;

    (void)self;
    *out = (dg_sample){ .size = sizeof *out,
                        .item = item,
                        .image_id = 100 + item,
                        .path = "gray",
                        .orig_w = SIDE,
                        .orig_h = SIDE,
                        .n_objects = item % 2,
                        .objects = dg_scratch_alloc(scratch, sizeof(dg_object)),
                        .scratch = scratch };
    rc = dg_image_new(&out->image, scratch, SIDE, SIDE, d);
    for (int i = 0; rc == 0 && i < 3 * SIDE * SIDE; i++)
        out->image.rgb[i] = (uint8_t)(10 * item);
    if (out->objects)
        out->objects[0] = (dg_object){ { 2, 3, 10, 12 }, 0, false, 72 };
    return out->objects ? rc : -DG_EMEMORY;
}

static void close_set(void *self)
{
    free(self);
}

static int open_set(dg_dataset **data, const void *conf, uint64_t seed, dg_diag *d)
{
    dg_dataset *s = calloc(1, sizeof *s);

    (void)conf, (void)seed;
    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory");
    *s = (dg_dataset){ .size = sizeof *s,
                       .n_items = N,
                       .n_classes = 1,
                       .classes = classes,
                       .truths = truths,
                       .n_truths = 3,
                       .digest = 6,
                       .name = "gray images",
                       .self = s,
                       .info = info,
                       .sample = sample,
                       .close = close_set };
    *data = s;
    return 0;
}

static const dg_node_class loader = { DG_NODE_CLASS,
                                     .name = "old.loader",
                                     .role = DG_ROLE_LOADER,
                                     .brief = "Gray images.",
                                     .ports = loader_ports,
                                     .open = open_set };

/* ---- sampler: two images at a time ----------------------------------------------------------- */

static const dg_port sampler_ports[] = { DG_IN("in", "dataset", "items"),
                                         DG_OUT("out", "picks", "batches"),
                                         { 0 } };
static const dg_size size = { SIDE, SIDE };

static int schedule(dg_schedule *out, const void *conf, const dg_schedule_args *a, dg_diag *d)
{
    int64_t n = a->data->n_items / (2 * a->ranks);
    int32_t *items = a->alloc(a->arena, (size_t)(a->data->n_items + 1) * sizeof *items);
    dg_pick *picks = a->alloc(a->arena, (size_t)(n + 1) * sizeof *picks);

    (void)conf;
    if (!n)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "old-empty", "%d images are not one batch",
                       a->data->n_items);
    for (int i = 0; i < a->data->n_items; i++)
        items[i] = i;
    for (int64_t i = 0; i < n; i++)
        picks[i] = (dg_pick){ SIDE, SIDE, items + i * 2 * a->ranks };
    *out = (dg_schedule){
        .n_picks = n, .picks = picks, .batch = 2, .dropped = a->data->n_items - n * 2 * a->ranks
    };
    return 0;
}

static int sizes(const void *conf, const dg_size **list, int *batch)
{
    (void)conf;
    *list = &size;
    *batch = 2;
    return 1;
}

static const dg_node_class sampler = { DG_NODE_CLASS,
                                      .name = "old.sampler",
                                      .role = DG_ROLE_SAMPLER,
                                      .brief = "Pairs.",
                                      .ports = sampler_ports,
                                      .schedule = schedule,
                                      .sizes = sizes };

/* ---- augmentation ---------------------------------------------------------------------------- */

static const dg_port item_ports[] = { DG_IN("in", "picks", "samples"),
                                      DG_OUT("out", "samples", "samples"),
                                      { 0 } };

static int item(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d)
{
    (void)conf, (void)d;
    if (clock->step >= 0 && dg_draw_uniform(draw) < 0.5)
        dg_sample_flip(sm);
    return 0;
}

static const dg_node_class flip = { DG_NODE_CLASS,
                                   .name = "old.flip",
                                   .role = DG_ROLE_AUGMENT,
                                   .brief = "Flips half of them.",
                                   .ports = item_ports,
                                   .item = item };

/* ---- batch: pixels as they are --------------------------------------------------------------- */

static const dg_port batch_ports[] = { DG_IN("in", "samples", "samples"),
                                       DG_OUT("images", "f[B,H,W,3]", "pixels"),
                                       { 0 } };

static int feeds(const void *conf, dg_size s, int batch, dg_feed out[], int n)
{
    (void)conf;
    if (n > 0)
        out[0] = (dg_feed){ "images", DG_REAL, DG_SHAPE(batch, s.h, s.w, 3) };
    return 1;
}

static int fill(const void *conf, dg_size s, int batch, int slot, dg_sample *sm, void *const data[],
                dg_diag *d)
{
    int rc = dg_sample_resize(sm, (int)s.w, (int)s.h, d);

    (void)conf, (void)batch;
    for (int64_t i = 0, n = 3 * s.w * s.h; rc == 0 && data[0] && i < n; i++)
        ((float *)data[0])[slot * n + i] = sm->image.rgb[i];
    return rc;
}

static int64_t capacity(const void *conf)
{
    (void)conf;
    return 0;
}

static const dg_node_class batch = { DG_NODE_CLASS,
                                    .name = "old.batch",
                                    .role = DG_ROLE_BATCH,
                                    .brief = "Pixels as they are.",
                                    .ports = batch_ports,
                                    .feeds = feeds,
                                    .fill = fill,
                                    .capacity = capacity };

/* ---- evaluation: the mean gray --------------------------------------------------------------- */

static const dg_port sink_ports[] = { DG_IN("in", "f[B,H,W,C]", "pixels"),
                                      DG_OUT("metrics", "metrics", "gray"),
                                      { 0 } };
typedef struct tally {
    double sum, n;
} tally;

static int begin(void **state, const void *conf, const dg_sink_args *args, dg_diag *d)
{
    (void)conf, (void)args;
    *state = calloc(1, sizeof(tally));
    return *state ? 0 : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory");
}

static int take(void *state, const dg_sink_batch *b, dg_diag *d)
{
    tally *s = state;
    int64_t each = dg_shape_elements(b->in[0].shape) / b->n;

    (void)d;
    for (int64_t i = 0; i < each * b->n; i++)
        if (!b->padding[i / each]) {
            s->sum += (double)((const float *)b->in[0].data)[i];
            s->n++;
        }
    return 0;
}

static int finish(void **state, dg_metrics *m, dg_diag *d)
{
    tally *s = *state;

    (void)d;
    if (m)
        dg_metric(m, s->n > 0 ? s->sum / s->n : 0, "gray");
    free(s);
    *state = NULL;
    return 0;
}

static const dg_node_class sink = { DG_NODE_CLASS,
                                   .name = "old.gray",
                                   .role = DG_ROLE_EVALUATE,
                                   .brief = "The mean gray.",
                                   .ports = sink_ports,
                                   .begin = begin,
                                   .take = take,
                                   .finish = finish };

DG_PLUGIN("old_data", "1.0", &loader, &sampler, &flip, &batch, &sink);
