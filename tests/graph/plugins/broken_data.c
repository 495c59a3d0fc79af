/* broken_data.c: loaders, samplers, filters, batches, evaluations and numbers that break their
 * contracts, one way each: what `detrgraph check-node` has to find. Those called fine keep theirs.
 */
#include <detrgraph/plugin.h>

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int calls; /* what no node must have */

#define CLASS(id, text, table, ...)                                                    \
    static const dg_node_class id = { DG_NODE_CLASS, .name = "data." text,             \
                                      .brief = "Breaks its contract.", .ports = table, \
                                      __VA_ARGS__ }

/* ---- loaders: n images of 8x8 with one object each ------------------------------------------- */

enum { FINE, ORDER, THREADS, REOPEN, DIGEST, COUNTS, LABEL, SIZES, PROBE };
typedef struct loader_conf {
    int64_t images;
} loader_conf;
static const dg_attr loader_attrs[] = { DG_INT(loader_conf, images, 5, 1, 20, "how many"), { 0 } };
static const dg_port loader_ports[] = { DG_OUT("out", "dataset", "images"), { 0 } };
static const dg_coco_class names[] = { { 1, "thing" } };

typedef struct set {
    dg_dataset ds;
    int fault;
    dg_coco_annotation truths[32];
} set;

static void set_info(void *self, int item, dg_item_info *out)
{
    const set *s = self;

    *out = (dg_item_info){ item + 1, "an image", s->fault == SIZES ? 9 : 8, 8,
                           s->fault == COUNTS ? 2 : 1 };
}

static int set_sample(void *self, int item, dg_sample *out, dg_scratch *scratch, dg_diag *d)
{
    static _Thread_local char here;
    const set *s = self;
    int rc;

    *out = (dg_sample){ .size = sizeof *out,
                        .item = item,
                        .image_id = item + 1,
                        .path = "an image",
                        .orig_w = 8,
                        .orig_h = 8,
                        .n_objects = 1,
                        .objects = dg_scratch_alloc(scratch, sizeof(dg_object)),
                        .scratch = scratch };
    rc = dg_image_new(&out->image, scratch, 8, 8, d);
    if (rc < 0 || !out->objects)
        return -DG_EMEMORY;
    out->objects[0] = (dg_object){ { 1, 1, 5, 5 }, 0, false, 16 };
    out->image.rgb[0] = (uint8_t)item;
    if (s->fault == ORDER)
        out->image.rgb[1] = (uint8_t)atomic_fetch_add(&calls, 1);
    if (s->fault == THREADS)
        memcpy(&out->image.rgb[1], &(char *){ &here }, sizeof(char *));
    return 0;
}

static int set_probe(void *self, int item, dg_diag *d)
{
    const set *s = self;

    return s->fault == PROBE && item == 0
               ? dg_fail(d, DG_EIO, DG_NOWHERE, "gone", "the file is gone")
               : 0;
}

static int set_open(dg_dataset **data, const loader_conf *c, int fault, dg_diag *d)
{
    set *s = calloc(1, sizeof *s);

    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory");
    s->fault = fault;
    s->ds = (dg_dataset){ .size = sizeof s->ds,
                          .n_items = (int)c->images,
                          .n_classes = 1,
                          .classes = names,
                          .truths = s->truths,
                          .name = "a set",
                          .self = s,
                          .info = set_info,
                          .sample = set_sample,
                          .probe = set_probe,
                          .close = free };
    s->ds.n_items += fault == REOPEN ? atomic_fetch_add(&calls, 1) % 2 : 0;
    s->ds.n_truths = s->ds.n_items;
    s->ds.digest = fault == DIGEST ? 1 : (uint64_t)s->ds.n_items;
    for (int i = 0; i < s->ds.n_items; i++)
        s->truths[i] =
            (dg_coco_annotation){ i + 1, i, fault == LABEL, 1, 1, 4, 4, 16, false, false };
    *data = &s->ds;
    return 0;
}

#define LOADER(id, text, fault)                                                          \
    static int id##_open(dg_dataset **data, const void *self, uint64_t seed, dg_diag *d) \
    {                                                                                    \
        (void)seed;                                                                      \
        return set_open(data, self, fault, d);                                           \
    }                                                                                    \
    CLASS(id, text, loader_ports, .role = DG_ROLE_LOADER, .attrs = loader_attrs,         \
          .conf_size = sizeof(loader_conf), .open = id##_open)

LOADER(l_fine, "loader", FINE);
LOADER(l_order, "order", ORDER);
LOADER(l_threads, "threads", THREADS);
LOADER(l_reopen, "reopen", REOPEN);
LOADER(l_digest, "digest", DIGEST);
LOADER(l_counts, "counts", COUNTS);
LOADER(l_label, "label", LABEL);
LOADER(l_sizes, "sizes", SIZES);
LOADER(l_probe, "probe", PROBE);

/* ---- samplers: batches of two, in order ------------------------------------------------------ */

enum { UNLISTED = 1, OUTSIDE, DROPPED, REPEATED, RANK, CONTENT, DIMS };
static const dg_port sampler_ports[] = { DG_IN("in", "dataset", "items"),
                                         DG_OUT("out", "picks", "batches"),
                                         { 0 } };
static const dg_size listed[] = { { 32, 32 }, { 64, 64 } };

static int list_sizes(const void *self, const dg_size **sizes, int *batch)
{
    (void)self;
    *sizes = listed;
    *batch = 2;
    return 2;
}

static int64_t n_wide(const dg_dataset *data)
{
    int64_t n = 0;

    for (int i = 0; i < data->n_items; i++) {
        dg_item_info info;

        data->info(data->self, i, &info);
        n += info.w > info.h;
    }
    return n;
}

static int plan(dg_schedule *out, const dg_schedule_args *a, int fault, dg_diag *d)
{
    int64_t n = a->data->n_items / (2 * a->ranks), wide = n_wide(a->data);
    int32_t *items = a->alloc(a->arena, ((size_t)a->data->n_items + 1) * sizeof *items);
    dg_pick *picks = a->alloc(a->arena, ((size_t)n + 1) * sizeof *picks);

    n = fault == CONTENT && wide / 2 < n ? wide / 2 : n;
    if (!n)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "sampler-empty", "not one batch");
    for (int i = 0; i < a->data->n_items; i++)
        items[i] = i;
    for (int64_t i = 0; i < n; i++)
        picks[i] = (dg_pick){ 32, 32, items + i * 2 * a->ranks };
    if (fault == DIMS)
        picks[0].w = picks[0].h = wide % 2 ? 32 : 64;
    if (fault == UNLISTED)
        picks[n - 1].w = 96;
    if (fault == OUTSIDE)
        items[1] = a->data->n_items;
    if (fault == REPEATED && atomic_fetch_add(&calls, 1) % 2)
        items[0] = 1, items[1] = 0;
    if (fault == RANK && a->rank)
        items[0] = 1, items[1] = 0;
    *out = (dg_schedule){ .n_picks = n,
                          .picks = picks,
                          .batch = 2,
                          .dropped = fault == DROPPED ? 0 : a->data->n_items - n * 2 * a->ranks };
    return 0;
}

#define SAMPLER(id, text, fault)                                                               \
    static int id##_schedule(dg_schedule *out, const void *self, const dg_schedule_args *args, \
                             dg_diag *d)                                                       \
    {                                                                                          \
        (void)self;                                                                            \
        return plan(out, args, fault, d);                                                      \
    }                                                                                          \
    CLASS(id, text, sampler_ports, .role = DG_ROLE_SAMPLER, .schedule = id##_schedule,         \
          .sizes = list_sizes)

SAMPLER(s_fine, "sampler", FINE);
SAMPLER(s_unlisted, "unlisted", UNLISTED);
SAMPLER(s_outside, "outside", OUTSIDE);
SAMPLER(s_dropped, "dropped", DROPPED);
SAMPLER(s_repeated, "repeated", REPEATED);
SAMPLER(s_rank, "rank", RANK);
SAMPLER(s_content, "content", CONTENT);
SAMPLER(s_dims, "dims", DIMS);

/* ---- choices --------------------------------------------------------------------------------- */

typedef struct axis_conf {
    const char *axis;
} axis_conf;
static const dg_attr axis_attrs[] = { DG_AXES_REQUIRED(axis_conf, axis, "mesh axis"), { 0 } };
static const dg_port stream_ports[] = { DG_IN("in", "stream", "items"),
                                        DG_OUT("out", "stream", "what stays"),
                                        { 0 } };
static const dg_rule shares[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .why = "deals items" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .why = "deals what there is" },
    { DG_RULE_DIMS, .to = "out", .axis = "axis", .why = "deals items of any size" },
    { DG_RULE_SEED, .to = "out", .from = "in", .axis = "axis", .why = "shares out its input" },
    { 0 }
};
static const dg_rule differs[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .why = "deals items" },
    { DG_RULE_DIMS, .to = "out", .axis = "axis", .why = "deals items of any size" },
    { 0 }
};
static const dg_rule equal[] = {
    { DG_RULE_EQUAL, .to = "out", .axis = "axis", .why = "keeps the least count" }, { 0 }
};

static int n_objects(const dg_dataset *data, int32_t item)
{
    dg_item_info info;

    data->info(data->self, item < 0 ? ~item : item, &info);
    return info.n_objects;
}

#define CHOICE(id, text, rows, ...)                                                               \
    static int id##_choose(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d) \
    {                                                                                             \
        int32_t *kept = a->alloc(a->arena, ((size_t)a->n + 1) * sizeof *kept);                    \
        int64_t n = 0;                                                                            \
                                                                                                  \
        (void)self, (void)d;                                                                      \
        __VA_ARGS__;                                                                              \
        *out = (dg_choice){ n, kept };                                                            \
        return 0;                                                                                 \
    }                                                                                             \
    CLASS(id, text, stream_ports, .role = DG_ROLE_SAMPLER, .attrs = axis_attrs,                   \
          .conf_size = sizeof(axis_conf), .rules = rows, .choose = id##_choose)
#define EACH(condition, value)         \
    for (int64_t i = 0; i < a->n; i++) \
        if (condition)                 \
    kept[n++] = value

CHOICE(c_fine, "choice", shares, EACH(i % a->ranks == a->rank, a->items[i]));
CHOICE(c_padding, "padding", NULL, EACH(true, a->items[i] < 0 ? ~a->items[i] : a->items[i]));
CHOICE(c_input, "input", NULL, EACH(true, a->items[i]);
       if (a->n) memset((void *)(uintptr_t)a->items, 0, sizeof *a->items));
CHOICE(c_twice, "twice", shares, EACH(i % a->ranks == a->rank || i == 0, a->items[i]));
CHOICE(c_beyond, "beyond", shares,
       EACH(i % a->ranks == a->rank, a->ranks > 1 ? 1000000 : a->items[i]));
CHOICE(c_value, "value", NULL, EACH(i != a->rank, a->items[i]));
CHOICE(c_rate, "rate", differs, EACH(i % a->ranks == a->rank, a->items[i]));
CHOICE(c_filter, "filter", NULL, EACH(n_objects(a->data, a->items[i]) > 2, a->items[i]));
CHOICE(c_draws, "draws", NULL, int skip = atomic_fetch_add(&calls, 1) % 3;
       EACH(i != skip, a->items[i]));
CHOICE(c_asks, "asks", NULL, EACH(true, a->items[i]); (void)a->least(a->ctx, n));
CHOICE(c_hangs, "hangs", equal, EACH(true, a->items[i]);
       if (a->rank == 0)(void) a->least(a->ctx, n));
CHOICE(c_deaf, "deaf", equal, EACH(true, a->items[i]); int64_t least = a->least(a->ctx, n);
       n = least >= 0 && least < n ? least : n);
CHOICE(c_unequal, "unequal", equal, EACH(true, a->items[i]));

/* ---- batches --------------------------------------------------------------------------------- */

static const dg_port batch_ports[] = { DG_IN("in", "samples", "samples"),
                                       DG_OUT_MAIN("images", "f[B,H,W,3]", "pixels"),
                                       DG_OUT("count", "i[B]", "objects"),
                                       { 0 } };
#define BATCH(id, text, key, channels, most, ...)                                                 \
    static int id##_feeds(const void *self, dg_size size, int batch, dg_feed out[], int n)        \
    {                                                                                             \
        const dg_feed all[] = { { "images", DG_REAL, DG_SHAPE(batch, size.h, size.w, channels) }, \
                                { key, DG_I32, DG_SHAPE(batch) } };                               \
                                                                                                  \
        (void)self;                                                                               \
        for (int i = 0; i < 2 && i < n; i++)                                                      \
            out[i] = all[i];                                                                      \
        return 2;                                                                                 \
    }                                                                                             \
    static int id##_fill(const void *self, dg_size size, int batch, int slot, dg_sample *sm,      \
                         void *const data[], dg_diag *d)                                          \
    {                                                                                             \
        float *image = data[0] ? (float *)data[0] + slot * size.w * size.h * 3 : NULL;            \
                                                                                                  \
        (void)self, (void)batch, (void)d;                                                         \
        if (data[1])                                                                              \
            ((int32_t *)data[1])[slot] = sm->n_objects;                                           \
        for (int64_t i = 0; image && i < size.w * size.h * 3; i++)                                \
            image[i] = sm->image.rgb[0];                                                          \
        __VA_ARGS__;                                                                              \
        return 0;                                                                                 \
    }                                                                                             \
    static int64_t id##_capacity(const void *self)                                                \
    {                                                                                             \
        (void)self;                                                                               \
        return most;                                                                              \
    }                                                                                             \
    CLASS(id, text, batch_ports, .role = DG_ROLE_BATCH, .feeds = id##_feeds, .fill = id##_fill,   \
          .capacity = id##_capacity)
#define LIMIT(most)           \
    if (sm->n_objects > most) \
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "many", "too many objects")

BATCH(b_fine, "batch", "count", 3, 4, LIMIT(4));
BATCH(b_wide, "feed", "count", 4, 4, LIMIT(4));
BATCH(b_key, "key", "counts", 3, 4, LIMIT(4));
BATCH(b_slot, "slot", "count", 3, 4, LIMIT(4);
      if (data[1] && batch > 1)((int32_t *)data[1])[batch - 1 - slot] = 0);
BATCH(b_silent, "silent", "count", 3, 4, (void)0);
BATCH(b_empty, "empty", "count", 3, 4, LIMIT(4);
      if (!sm->n_objects) return dg_fail(d, DG_EINPUT, DG_NOWHERE, "none", "no objects"));
BATCH(b_state, "state", "count", 3, 4, LIMIT(4);
      if (image) image[0] = (float)atomic_fetch_add(&calls, 1));

/* ---- evaluations: the mean of a score -------------------------------------------------------- */

typedef struct tally {
    double sum;
    double n, batches;
} tally;
static tally common; /* what no evaluation must have */

static const dg_port sink_ports[] = { DG_IN("in", "{score:f[B]}", "a number for each image"),
                                      DG_OUT("metrics", "metrics", "mean"),
                                      { 0 } };
static const dg_attr sink_attrs[] = { DG_AXES(axis_conf, axis, NULL, "mesh axis"), { 0 } };
static const dg_rule sink_rules[] = { { DG_RULE_METRIC, .to = "metrics", .from = "in",
                                        .axis = "axis", .why = "is about all images" },
                                      { 0 } };

static int sink_begin(void **state, const void *self, const dg_sink_args *args, dg_diag *d)
{
    (void)self, (void)args;
    *state = calloc(1, sizeof(tally));
    return *state ? 0 : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory");
}

static int add_scores(tally *s, const dg_sink_batch *b, bool all)
{
    const float *x = b->in[0].data;

    for (int i = 0; i < b->n; i++)
        if (all || !b->padding[i]) {
            s->sum += (double)x[i];
            s->n++;
        }
    s->batches++;
    return 0;
}

static int sink_pack(void *state, void **bytes, size_t *n, dg_diag *d)
{
    *n = sizeof(tally);
    *bytes = malloc(*n);
    if (!*bytes)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory");
    memcpy(*bytes, state, *n);
    return 0;
}

static int sink_merge(void *state, const void *bytes, size_t n, dg_diag *d)
{
    tally *s = state, other;

    (void)n, (void)d;
    memcpy(&other, bytes, sizeof other);
    s->sum += other.sum;
    s->n += other.n;
    return 0;
}

static int sink_forget(void *state, const void *bytes, size_t n, dg_diag *d)
{
    (void)state, (void)bytes, (void)n, (void)d;
    return 0;
}

static const dg_metric_row metrics[] = { { .names = "mean AP/?" }, { 0 } };
#define SINK(id, text, packs, merges, adds, ...)                                    \
    static int id##_take(void *state, const dg_sink_batch *batch, dg_diag *d)       \
    {                                                                               \
        (void)d;                                                                    \
        return adds;                                                                \
    }                                                                               \
    static int id##_finish(void **state, dg_metrics *m, dg_diag *d)                 \
    {                                                                               \
        tally s = *(tally *)*state;                                                 \
                                                                                    \
        (void)d, (void)s;                                                           \
        if (m) {                                                                    \
            __VA_ARGS__;                                                            \
        }                                                                           \
        free(*state);                                                               \
        *state = NULL;                                                              \
        return 0;                                                                   \
    }                                                                               \
    CLASS(id, text, sink_ports, .role = DG_ROLE_EVALUATE, .attrs = sink_attrs,      \
          .conf_size = sizeof(axis_conf), .rules = sink_rules, .begin = sink_begin, \
          .take = id##_take, .finish = id##_finish, .pack = packs, .merge = merges, \
          .metrics = metrics)
#define MEAN(sum, n) dg_metric(m, (n) > 0 ? (sum) / (n) : 0, "mean")

SINK(m_fine, "sink", sink_pack, sink_merge, add_scores(state, batch, false), MEAN(s.sum, s.n));
SINK(m_padded, "padded", sink_pack, sink_merge, add_scores(state, batch, true), MEAN(s.sum, s.n));
SINK(m_batches, "batches", sink_pack, sink_merge, add_scores(state, batch, false),
     MEAN(s.sum, s.batches));
SINK(m_alone, "alone", NULL, NULL, add_scores(state, batch, false), MEAN(s.sum, s.n));
SINK(m_forgets, "forgets", sink_pack, sink_forget, add_scores(state, batch, false),
     MEAN(s.sum, s.n));
SINK(m_nan, "nothing", sink_pack, sink_merge, add_scores(state, batch, false),
     dg_metric(m, s.sum / s.n, "mean"));
SINK(m_common, "common", sink_pack, sink_merge,
     (add_scores(state, batch, false), add_scores(&common, batch, false)),
     MEAN(common.sum, common.n));
SINK(m_names, "names", sink_pack, sink_merge, add_scores(state, batch, false), MEAN(s.sum, s.n);
     MEAN(s.sum, s.n));
SINK(m_unlisted, "unknown_number", sink_pack, sink_merge, add_scores(state, batch, false),
     MEAN(s.sum, s.n);
     dg_metric(m, s.n, "AP/some"); dg_metric(m, s.n, "count"));

/* ---- numbers --------------------------------------------------------------------------------- */

static const dg_port whole_ports[] = { DG_OUT("out", "i[]", "a number"), { 0 } };
#define NUMBER(id, text, before, value)                            \
    static double id##_supply(const void *self, dg_supply_args *a) \
    {                                                              \
        (void)self;                                                \
        return (double)(value);                                    \
    }                                                              \
    CLASS(id, text, whole_ports, .role = DG_ROLE_CONTROL, .supply = id##_supply, .foreseen = before)

NUMBER(n_fine, "number", true, a->clock.step);
NUMBER(n_half, "half", true, (double)a->clock.step + 0.5);
NUMBER(n_rank, "one_rank", true, a->rank);
NUMBER(n_late, "late", true, a->seconds);
NUMBER(n_counts, "counter", true, ((void)a, atomic_fetch_add(&calls, 1)));

DG_PLUGIN("broken_data", "1", &l_fine, &l_order, &l_threads, &l_reopen, &l_digest, &l_counts,
          &l_label, &l_sizes, &l_probe, &s_fine, &s_unlisted, &s_outside, &s_dropped, &s_repeated,
          &s_rank, &s_content, &s_dims, &c_fine, &c_padding, &c_input, &c_twice, &c_beyond,
          &c_value, &c_rate, &c_filter, &c_draws, &c_asks, &c_hangs, &c_deaf, &c_unequal, &b_fine,
          &b_wide, &b_key, &b_slot, &b_silent, &b_empty, &b_state, &m_fine, &m_padded, &m_batches,
          &m_alone, &m_forgets, &m_nan, &m_common, &m_names, &m_unlisted, &n_fine, &n_half, &n_rank,
          &n_late, &n_counts);
