/* sink.c: tests nodes with `begin`, `take` and `finish` (evaluations, logs): feeds results drawn
 * per image, in batches. A rule DG_RULE_METRIC declares a metric a number about all images: then
 * neither their order nor the division into batches may matter, and ranks must merge to the same
 * number. */
#include "check/check_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "graph/rule.h"

enum { MOST = 12, RANKS = 3 };    /* images */
static const double CLOSE = 1e-6; /* tolerance for sums in another order */

/* An input: a tensor, or one key of a record. */
typedef struct entry {
    const char *key;
    const dg_contract *type;
    bool by_image; /* its leading dimension counts images */
} entry;

typedef struct results {
    const dg_trial *t;
    const dg_dataset *data;
    DG_VEC(entry) entries;
    bool by_image;      /* true if all entries are */
    int order[MOST], n; /* images in order of arrival */
    int batch;          /* slots */
} results;

static int leading_of(const dg_trial *t, const dg_contract *c)
{
    int var = c->kind == DG_TYPE_TENSOR && c->n_dims && c->ellipsis != 0 && !c->dims[0].size.n
                  ? c->dims[0].size.var
                  : -1;

    while (var >= 0 && t->g->dims.vars.items[var].parent >= 0)
        var = t->g->dims.vars.items[var].parent;
    return var;
}

static void add_entries(results *r, const char *name, const dg_contract *c)
{
    if (c->kind == DG_TYPE_RECORD)
        for (int i = 0; i < c->n_fields; i++)
            add_entries(r,
                        dg_printf(r->t->arena, "%s.%s%s", name, c->fields[i].key,
                                  c->fields[i].wildcard ? "x" : ""),
                        c->fields[i].type);
    else
        DG_PUSH(r->t->arena, r->entries, ((entry){ name, c, false }));
}

static results results_of(const dg_trial *t, int n)
{
    results r = { .t = t, .data = dg_trial_data(t, n, 0), .by_image = true, .n = n, .batch = 2 };
    int64_t slots;

    for (int i = 0; i < t->node->n_in; i++)
        if (t->node->in[i].from)
            add_entries(&r, t->node->in_ports[i]->name, t->node->in_types[i]);
    for (int i = 0; i < r.entries.n; i++) {
        entry *e = &r.entries.items[i];

        e->by_image = leading_of(t, e->type) >= 0 &&
                      leading_of(t, e->type) == leading_of(t, r.entries.items[0].type);
        r.by_image = r.by_image && e->by_image;
    }
    for (int i = 0; i < n; i++)
        r.order[i] = i;
    slots = r.entries.n && leading_of(t, r.entries.items[0].type) >= 0
                ? t->sizes[leading_of(t, r.entries.items[0].type)]
                : r.batch;
    r.batch = slots < MOST ? (int)slots : MOST;
    return r;
}

static int n_images(const dg_trial *t)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "images"), 0, 0);

    return t->kind == DG_TRIAL_SMALLEST ? 1 : 3 + (int)dg_rng_below(&r, MOST - 2);
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* Draws the numbers of one image; spoilt: different ones, which must not matter. */
static void draw_numbers(const results *r, const entry *e, int image, bool spoilt, int64_t n,
                         void *out)
{
    const dg_number_range *given = dg_trial_range(r->t, e->key);
    bool whole = e->type->dtype == DG_I32;
    double lo = given   ? given->lo
                : whole ? 0
                        : -1,
           hi = given   ? given->hi
                : whole ? DG_DRAWN_CLASSES
                        : 1;
    dg_rng draw = dg_rng_begin(dg_rng_named(r->t->seed + spoilt, e->key), (uint64_t)image, 7);

    for (int64_t i = 0; i < n; i++) {
        double x = r->t->kind == DG_TRIAL_SMALLEST && !given ? 0 : dg_rng_range(&draw, lo, hi);

        if (whole)
            ((int32_t *)out)[i] = (int32_t)floor(x);
        else
            ((float *)out)[i] = (float)x;
    }
}

typedef struct slots { /* the images of a batch; those from n_live on are padding */
    const int *images;
    int n, n_live;
    bool spoilt; /* padding has different numbers */
} slots;

static dg_tensor tensor_of(dg_arena *a, const results *r, const entry *e, const slots *s)
{
    dg_shape shape = e->type->kind == DG_TYPE_TENSOR ? dg_trial_shape(r->t, e->type) : DG_SCALAR;
    dg_tensor x = { e->type->dtype == DG_I32 ? DG_I32 : DG_F32, shape, NULL };
    int64_t each;

    if (e->by_image)
        x.shape.d[0] = s->n;
    each = dg_shape_elements(x.shape) / (e->by_image ? s->n : 1);
    x.data = dg_alloc(a, (size_t)dg_shape_elements(x.shape) * 4 + 4);
    for (int i = 0; i < (e->by_image ? s->n : 1); i++)
        draw_numbers(r, e, s->images[i], s->spoilt && i >= s->n_live, each,
                     (char *)x.data + 4 * each * i);
    return x;
}

static int take_batch(void *state, const results *r, const slots *s, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_sample *samples = DG_NEW_N(a, s->n, dg_sample);
    bool *padding = DG_NEW_N(a, s->n, bool);
    const char **keys = DG_NEW_N(a, r->entries.n + 1, const char *);
    dg_tensor *in = DG_NEW_N(a, r->entries.n + 1, dg_tensor);
    dg_sink_batch b = { .n = s->n,
                        .samples = samples,
                        .padding = padding,
                        .n_in = r->entries.n,
                        .keys = keys,
                        .in = in };
    int rc;

    for (int i = 0; i < s->n; i++) {
        dg_item_info info;

        r->data->info(r->data->self, s->images[i], &info);
        samples[i] = (dg_sample){ .size = sizeof(dg_sample),
                                  .index = (uint64_t)s->images[i],
                                  .item = s->images[i],
                                  .image_id = info.id,
                                  .path = info.name,
                                  .orig_w = info.w,
                                  .orig_h = info.h,
                                  .image = { info.w, info.h, NULL } };
        padding[i] = i >= s->n_live;
    }
    for (int i = 0; i < r->entries.n; i++) {
        keys[i] = r->entries.items[i].key;
        in[i] = tensor_of(a, r, &r->entries.items[i], s);
    }
    rc = r->t->class->take(state, &b, d);
    dg_arena_close(&a);
    return rc;
}

/* ---- an evaluation --------------------------------------------------------------------------- */

typedef struct evaluation {
    const results *r;
    void *state;
    dg_metrics *m;
    dg_diag *d;
    int rc;
} evaluation;

static evaluation begin_evaluation(const results *r)
{
    evaluation e = { .r = r, .m = dg_metrics_open(), .d = dg_diag_open() };
    const dg_sink_args args = {
        .data = r->data, .scope = "evaluate", .step = 10, .ema_weight = 1, .n_loaded = -1
    };

    e.rc = r->t->class->begin(&e.state, r->t->node->conf, &args, e.d);
    return e;
}

/* Passes the images in batches of `batch` slots; the last one is filled up with padding. */
static void take_images(evaluation *e, const int *images, int n, int batch, bool spoilt)
{
    int filled[MOST + 4];

    for (int i = 0; i < n && e->rc >= 0; i += batch) {
        slots s = { filled, batch, n - i < batch ? n - i : batch, spoilt };

        for (int k = 0; k < batch; k++)
            filled[k] = images[(i + k) % n];
        e->rc = take_batch(e->state, e->r, &s, e->d);
    }
}

static void finish_evaluation(evaluation *e, bool report)
{
    int rc =
        e->state ? e->r->t->class->finish(&e->state, report && e->rc >= 0 ? e->m : NULL, e->d) : 0;

    e->rc = e->rc < 0 ? e->rc : rc;
}

static evaluation evaluated(const results *r, int batch, bool spoilt)
{
    evaluation e = begin_evaluation(r);

    take_images(&e, r->order, r->n, batch, spoilt);
    finish_evaluation(&e, true);
    return e;
}

static void forget(evaluation *e)
{
    dg_metrics_close(&e->m);
    dg_diag_close(&e->d);
}

static bool failed(dg_node_test *k, dg_trial *t, const evaluation *e, const char *what)
{
    return e->rc < 0 &&
           !dg_test_miss(k, t, NULL, NULL, "it fails %s: %s", what, dg_test_why(t->arena, e->d));
}

/* close: allow sums in another order. */
static bool same_metrics(dg_node_test *k, dg_trial *t, const evaluation *a, const evaluation *b,
                         bool close, const char *when, const char *help)
{
    if (a->m->names.n != b->m->names.n)
        return dg_test_miss(k, t, NULL, help, "it reports %d numbers, and %d %s", a->m->names.n,
                            b->m->names.n, when);
    for (int i = 0; i < a->m->names.n; i++) {
        double x = a->m->values.items[i], y = b->m->values.items[i];

        if (strcmp(a->m->names.items[i], b->m->names.items[i]) != 0)
            return dg_test_miss(k, t, NULL, help, "it reports \"%s\", and in its place \"%s\" %s",
                                a->m->names.items[i], b->m->names.items[i], when);
        if (memcmp(&x, &y, sizeof x) != 0 && !(close && fabs(x - y) <= CLOSE * fmax(1, fabs(x))))
            return dg_test_miss(k, t, NULL, help, "\"%s\" is %.9g, and %.9g %s",
                                a->m->names.items[i], x, y, when);
    }
    dg_test_tally(k, a->m->names.n, "numbers compared", -1);
    return true;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* True if a row of the class lists the name, or none says which there are. */
static bool is_listed(const dg_node_class *class, const char *name)
{
    for (const dg_metric_row *row = class->metrics; row && row->names; row++)
        if (dg_metric_listed(row, name))
            return true;
    return !class->metrics;
}

static bool check_names(dg_node_test *k, dg_trial *t, const dg_metrics *m)
{
    for (int i = 0; i < m->names.n; i++) {
        const char *name = m->names.items[i];

        if (!*name)
            return dg_test_miss(k, t, NULL, NULL, "number %d that it reports has no name", i + 1);
        for (int j = 0; j < i; j++)
            if (strcmp(name, m->names.items[j]) == 0)
                return dg_test_miss(k, t, NULL, NULL, "it reports two numbers called \"%s\"", name);
        if (!is_listed(t->node->class, name))
            return dg_test_miss(k, t, NULL, "a checkpoint cannot be chosen by what is not listed",
                                "it reports \"%s\", which its table of metrics does not list",
                                name);
        if (!isfinite(m->values.items[i]))
            return dg_test_miss(
                k, t, NULL,
                "divide by max(n, 1), or report -1 where nothing stands behind a number",
                "\"%s\" is %s", name, isnan(m->values.items[i]) ? "nan" : "infinite");
    }
    dg_test_tally(k, m->names.n, "numbers", -1);
    return true;
}

bool dg_test_metrics(dg_node_test *k, dg_trial *t)
{
    results r = results_of(t, n_images(t));
    evaluation e = evaluated(&r, r.batch, false);
    bool fine = !failed(k, t, &e, "on drawn results") && check_names(k, t, e.m);

    forget(&e);
    return fine;
}

bool dg_test_metrics_repeat(dg_node_test *k, dg_trial *t)
{
    results r = results_of(t, n_images(t)), backwards = r;
    evaluation a = evaluated(&r, r.batch, false), b = begin_evaluation(&r),
               beside = begin_evaluation(&backwards);
    bool fine;

    for (int i = 0; i < r.n; i++)
        backwards.order[i] = r.n - 1 - i;
    take_images(&beside, backwards.order, r.n, 1, false);
    take_images(&b, r.order, r.n, r.batch, false);
    finish_evaluation(&beside, true);
    finish_evaluation(&b, true);
    fine = !failed(k, t, &a, "on drawn results") && !failed(k, t, &b, "when it is done again") &&
           same_metrics(k, t, &a, &b, false, "when it is done again, beside another evaluation",
                        "`begin` makes a state of its own; nothing else is kept");
    forget(&a);
    forget(&b);
    forget(&beside);
    return fine;
}

bool dg_test_padding(dg_node_test *k, dg_trial *t)
{
    results r = results_of(t, n_images(t));
    evaluation a, b;
    bool fine;

    if (!r.by_image)
        return dg_test_idle(k, "its inputs are not of single images");
    r.batch = r.n - 1; /* leaves one image for the second batch */
    a = evaluated(&r, r.batch, false);
    b = evaluated(&r, r.batch, true);
    fine = !failed(k, t, &a, "on drawn results") &&
           !failed(k, t, &b, "where padding has other numbers") &&
           same_metrics(k, t, &a, &b, false, "where slots that are padding have other numbers",
                        "leave out slots whose batch->padding[slot] is true");
    forget(&a);
    forget(&b);
    return fine;
}

bool dg_test_order(dg_node_test *k, dg_trial *t)
{
    results r = results_of(t, n_images(t)), other = r;
    dg_rng draw = dg_rng_begin(dg_rng_named(t->seed, "order"), 0, 0);
    evaluation a, b;
    bool fine;

    if (!dg_node_has_row(t->node, DG_RULE_METRIC) || !r.by_image)
        return dg_test_idle(k, "no row DG_RULE_METRIC says that its numbers are about all images");
    for (int i = r.n - 1; i > 0; i--) {
        int j = (int)dg_rng_below(&draw, (uint64_t)i + 1), image = other.order[i];

        other.order[i] = other.order[j];
        other.order[j] = image;
    }
    a = evaluated(&r, r.n, false);
    b = evaluated(&other, other.batch, false);
    fine = !failed(k, t, &a, "on drawn results") &&
           !failed(k, t, &b, "on the same results in another order") &&
           same_metrics(k, t, &a, &b, true,
                        dg_printf(t->arena,
                                  "when the same %d images come in another order, %d to a batch",
                                  r.n, r.batch),
                        "it is declared to be about all images (DG_RULE_METRIC): sum over images, "
                        "divide in `finish`");
    forget(&a);
    forget(&b);
    return fine;
}

/* Evaluates on several ranks, each with every third image, and merges. */
static evaluation join_ranks(const results *r)
{
    evaluation ranks[RANKS];

    for (int i = 0; i < RANKS; i++) {
        int images[MOST], n = 0;

        for (int k = i; k < r->n; k += RANKS)
            images[n++] = r->order[k];
        ranks[i] = begin_evaluation(r);
        if (n)
            take_images(&ranks[i], images, n, r->batch, false);
        if (i) {
            void *bytes = NULL;
            size_t size = 0;
            int rc = ranks[i].rc < 0 ? ranks[i].rc
                                     : r->t->class->pack(ranks[i].state, &bytes, &size, ranks[i].d);

            if (rc >= 0)
                rc = r->t->class->merge(ranks[0].state, bytes, size, ranks[0].d);
            ranks[0].rc = ranks[0].rc < 0 ? ranks[0].rc : rc;
            free(bytes);
            finish_evaluation(&ranks[i], false);
            forget(&ranks[i]);
        }
    }
    finish_evaluation(&ranks[0], true);
    return ranks[0];
}

bool dg_test_joined(dg_node_test *k, dg_trial *t)
{
    const dg_rule *row = dg_node_row(t->node, DG_RULE_METRIC, NULL);
    results r = results_of(t, n_images(t));
    evaluation a, b;
    bool fine;

    if (!row || !row->axis || !dg_trial_shares(t) || !r.by_image)
        return dg_test_idle(k, "no row DG_RULE_METRIC with an axis says that ranks are joined");
    if (!t->class->pack || !t->class->merge)
        return dg_test_miss(k, t, NULL,
                            "give it `pack` and `merge`, or take .axis out of the row: then its "
                            "numbers are those of one rank's images",
                            "it is declared to be joined over the axis (DG_RULE_METRIC), and has "
                            "no `pack` and `merge`");
    a = evaluated(&r, r.batch, false);
    b = join_ranks(&r);
    fine = !failed(k, t, &a, "on drawn results") && !failed(k, t, &b, "when ranks are joined") &&
           same_metrics(k, t, &a, &b, true,
                        dg_printf(t->arena,
                                  "when %d ranks have a part of the %d images each, and are joined",
                                  RANKS, r.n),
                        "`pack` writes all that `finish` needs, `merge` adds it to rank 0's");
    forget(&a);
    forget(&b);
    return fine;
}

bool dg_test_nothing(dg_node_test *k, dg_trial *t)
{
    results r = results_of(t, n_images(t));
    evaluation none = begin_evaluation(&r), given_up = begin_evaluation(&r);
    bool fine;

    finish_evaluation(&none, true);
    take_images(&given_up, r.order, r.n, 2, false);
    finish_evaluation(&given_up, false);
    fine = !failed(k, t, &none, "where no image came") && check_names(k, t, none.m) &&
           !failed(k, t, &given_up, "when it is abandoned");
    if (fine && given_up.m->names.n)
        fine = dg_test_miss(k, t, NULL, "`finish` with m NULL frees and says nothing",
                            "it reports numbers when it is abandoned");
    forget(&none);
    forget(&given_up);
    return fine;
}
