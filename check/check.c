/* check.c: the list of tests, and how each is repeated over draws. */
#include "check/check.h"

#include <pthread.h>
#include <string.h>

#include "graph/attr.h"
#include "check/check_internal.h"

struct dg_node_test {
    dg_arena *arena;
    dg_finding f;
    int tried; /* number of things tested, over all draws */
    const char *what;
    double worst;
    bool refused;     /* the class refuses this draw */
    const char *why;  /* with this message */
    int n_idle;       /* draws for which nothing is declared */
    const char *idle; /* what is not declared */
};

typedef bool run_fn(dg_node_test *k, dg_trial *t);
typedef struct test {
    const char *name;
    dg_trial_kind kind;
    int64_t ranks;
    run_fn *run;
    run_fn *after; /* the test that must pass before this one; NULL: none */
} test;

static const test tensor_tests[] = {
    { "shapes are those of the ports", DG_TRIAL_DRAWN, 0, dg_test_shapes, NULL },
    { "parameters are the same in training and evaluation", DG_TRIAL_DRAWN, 0, dg_test_parameters,
      dg_test_shapes },
    { "kernels write their outputs and nothing else", DG_TRIAL_DRAWN, 0, dg_test_kernels,
      dg_test_shapes },
    { "gradients are central differences", DG_TRIAL_DRAWN, 0, dg_test_gradients, dg_test_kernels },
    { "the same bits when it is run again", DG_TRIAL_DRAWN, 0, dg_test_repeat, dg_test_kernels },
    { "f32 agrees with f64", DG_TRIAL_DRAWN, 0, dg_test_f32, dg_test_repeat },
    { "bf16 agrees with f32", DG_TRIAL_DRAWN, 0, dg_test_bf16, dg_test_repeat },
    { "an empty batch gives finite numbers", DG_TRIAL_SMALLEST, 0, dg_test_empty, dg_test_kernels },
    { "what is declared for several ranks holds", DG_TRIAL_DEFAULT, 2, dg_test_ranks,
      dg_test_shapes },
    { 0 },
};

static const test item_tests[] = {
    { "samples come out whole", DG_TRIAL_DRAWN, 0, dg_test_item, NULL },
    { "the same sample on every thread", DG_TRIAL_DRAWN, 0, dg_test_item_repeat, dg_test_item },
    { "one pixel without objects", DG_TRIAL_SMALLEST, 0, dg_test_item, NULL },
    { 0 },
};

static const test loader_tests[] = {
    { "items are what the data set says of them", DG_TRIAL_DRAWN, 0, dg_test_items, NULL },
    { "the same items in any order, on threads side by side", DG_TRIAL_DRAWN, 0,
      dg_test_items_repeat, dg_test_items },
    { "the same data when they are opened again", DG_TRIAL_DRAWN, 0, dg_test_reopen,
      dg_test_items_repeat },
    { "other data have another digest", DG_TRIAL_DRAWN, 0, dg_test_digest, dg_test_reopen },
    { 0 },
};

static const test sampler_tests[] = {
    { "plans have items that exist, at sizes that are listed", DG_TRIAL_DRAWN, 0, dg_test_plan,
      NULL },
    { "the same plan of an epoch, in any order, on threads side by side", DG_TRIAL_DRAWN, 0,
      dg_test_plan_repeat, dg_test_plan },
    { "ranks plan alike, or it is declared", DG_TRIAL_DRAWN, 3, dg_test_plan_ranks,
      dg_test_plan_repeat },
    { "plans follow from what items hold only where it is declared", DG_TRIAL_DRAWN, 0,
      dg_test_plan_content, dg_test_plan_repeat },
    { "one item, and none", DG_TRIAL_SMALLEST, 0, dg_test_plan_few, dg_test_plan },
    { 0 },
};

static const test sizes_tests[] = {
    { "sizes are listed", DG_TRIAL_DRAWN, 0, dg_test_sizes, NULL },
    { 0 },
};

static const test choice_tests[] = {
    { "what is left are items, and padding stays padding", DG_TRIAL_DRAWN, 0, dg_test_choice,
      NULL },
    { "the same choice for an epoch, in any order, on threads side by side", DG_TRIAL_DRAWN, 0,
      dg_test_choice_repeat, dg_test_choice },
    { "ranks are left what is declared", DG_TRIAL_DRAWN, 3, dg_test_choice_ranks,
      dg_test_choice_repeat },
    { "how many stay follows from what items hold only where it is declared", DG_TRIAL_DRAWN, 0,
      dg_test_choice_content, dg_test_choice_repeat },
    { "one item, and none", DG_TRIAL_SMALLEST, 0, dg_test_choice, NULL },
    { 0 },
};

static const test batch_tests[] = {
    { "tensors are those of the ports", DG_TRIAL_DRAWN, 0, dg_test_feeds, NULL },
    { "a slot is filled, and nothing beside it", DG_TRIAL_DRAWN, 0, dg_test_fill, dg_test_feeds },
    { "the same bits on every thread", DG_TRIAL_DRAWN, 0, dg_test_fill_repeat, dg_test_fill },
    { "no objects, and as many as it says", DG_TRIAL_DRAWN, 0, dg_test_capacity, dg_test_fill },
    { 0 },
};

static const test sink_tests[] = {
    { "every number has a name of its own", DG_TRIAL_DRAWN, 0, dg_test_metrics, NULL },
    { "the same numbers again, beside another evaluation", DG_TRIAL_DRAWN, 0,
      dg_test_metrics_repeat, dg_test_metrics },
    { "padding does not count", DG_TRIAL_DRAWN, 0, dg_test_padding, dg_test_metrics_repeat },
    { "the order of images and the cut of batches do not matter, where that is declared",
      DG_TRIAL_DRAWN, 0, dg_test_order, dg_test_padding },
    { "ranks join to what one rank has, where that is declared", DG_TRIAL_DRAWN, 3, dg_test_joined,
      dg_test_order },
    { "an evaluation of nothing, and one that is abandoned", DG_TRIAL_SMALLEST, 0, dg_test_nothing,
      dg_test_metrics },
    { 0 },
};

static const test number_tests[] = {
    { "a number that its output can hold", DG_TRIAL_DRAWN, 0, dg_test_number, NULL },
    { "it follows from what is declared alone", DG_TRIAL_DRAWN, 0, dg_test_number_ranks,
      dg_test_number },
    { 0 },
};

/* Tests by function of the class. */
static const struct kind {
    size_t does; /* offset of that function in dg_node_class */
    const test *tests;
} kinds[] = {
    { offsetof(dg_node_class, lower), tensor_tests },
    { offsetof(dg_node_class, open), loader_tests },
    { offsetof(dg_node_class, choose), choice_tests },
    { offsetof(dg_node_class, schedule), sampler_tests },
    { offsetof(dg_node_class, sizes), sizes_tests },
    { offsetof(dg_node_class, item), item_tests },
    { offsetof(dg_node_class, feeds), batch_tests },
    { offsetof(dg_node_class, begin), sink_tests },
    { offsetof(dg_node_class, supply), number_tests },
};

bool dg_test_miss(dg_node_test *k, const dg_trial *t, const char *port, const char *help,
                  const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    k->f.text = dg_vprintf(k->arena, fmt, ap);
    va_end(ap);
    k->f.verdict = DG_VERDICT_FAILED;
    k->f.port = port ? dg_strdup(k->arena, port) : NULL;
    k->f.help = help ? dg_strdup(k->arena, help) : NULL;
    k->f.element = t->element ? dg_strdup(k->arena, t->element) : NULL;
    k->f.dims = t->dims.n ? dg_strdup(k->arena, t->dims.s) : NULL;
    k->f.seed = t->seed;
    return false;
}

void dg_test_tally(dg_node_test *k, int n, const char *what, double worst)
{
    k->tried += n;
    k->what = dg_strdup(k->arena, what);
    k->worst = worst > k->worst ? worst : k->worst;
}

const char *dg_test_why(dg_arena *a, const dg_diag *d)
{
    const dg_err *e = dg_diag_n(d) ? dg_diag_at(d, 0) : NULL;

    if (!e)
        return "it does not say why";
    if (!e->at.file || strcmp(e->at.file, DG_TRIAL_FILE) == 0)
        return e->text;
    return e->at.line ? dg_printf(a, "%s:%d: %s", e->at.file, e->at.line, e->text)
                      : dg_printf(a, "%s: %s", e->at.file, e->text);
}

bool dg_test_refuse(dg_node_test *k, const dg_diag *d)
{
    k->refused = true;
    k->why = dg_strdup(k->arena, dg_test_why(k->arena, d));
    return true;
}

bool dg_test_idle(dg_node_test *k, const char *why)
{
    k->n_idle++;
    k->idle = dg_strdup(k->arena, why);
    return true;
}

bool dg_test_refused(const dg_node_test *k)
{
    return k->refused;
}

bool dg_test_objects(dg_node_test *k, dg_trial *t, const dg_sample *s, int n_classes)
{
    const double slack = 1e-6;

    for (int i = 0; i < s->n_objects; i++) {
        dg_box b = s->objects[i].box;

        if (!(b.x1 >= -slack && b.y1 >= -slack && b.x2 <= s->image.w + slack &&
              b.y2 <= s->image.h + slack && b.x1 <= b.x2 + slack && b.y1 <= b.y2 + slack))
            return dg_test_miss(k, t, "objects",
                                "move boxes with the pixels, and cut them to the image "
                                "(dg_sample_crop, dg_sample_sanitize)",
                                "object %d has the box %g,%g,%g,%g in an image of %dx%d", i, b.x1,
                                b.y1, b.x2, b.y2, s->image.w, s->image.h);
        if (s->objects[i].label < 0 || s->objects[i].label >= n_classes)
            return dg_test_miss(k, t, "objects", NULL,
                                "object %d has the label %d, and labels are 0 to %d", i,
                                s->objects[i].label, n_classes - 1);
    }
    return true;
}

void *dg_test_alloc(void *arena, size_t bytes)
{
    return dg_alloc(arena, bytes);
}

void dg_test_at_once(void *(*run)(void *each), void *things, size_t bytes, int n)
{
    pthread_t thread[8];
    bool started[8];

    for (int i = 0; i < n && i < 8; i++)
        started[i] = pthread_create(&thread[i], NULL, run, (char *)things + (size_t)i * bytes) == 0;
    for (int i = 0; i < n && i < 8; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
        else
            run((char *)things + (size_t)i * bytes);
}

/* Odd seeds use default attributes, so that the first draw does. */
static dg_trial trial_of(const dg_node_class *c, dg_registry *r, const dg_check_node *how,
                         const test *one, uint64_t seed)
{
    dg_trial_kind kind = one->kind == DG_TRIAL_DRAWN && seed % 2 ? DG_TRIAL_DEFAULT : one->kind;

    return (dg_trial){
        .class = c, .registry = r, .how = how, .seed = seed, .kind = kind, .ranks = one->ranks
    };
}

/* Concludes a test. If every draw was refused, nothing was tested: a failure. */
static void conclude(dg_node_test *k, int n, int refused, const char *why)
{
    if (k->f.verdict == DG_VERDICT_FAILED)
        return;
    if (refused == n) {
        k->f.verdict = DG_VERDICT_FAILED;
        k->f.text = dg_printf(k->arena, "it refuses whatever is drawn: %s", why);
        k->f.help =
            "give what it needs: --set NAME=VALUE for an attribute, --dim LETTER=N for a dimension";
        k->refused = true;
        return;
    }
    if (k->n_idle == n - refused) {
        k->f.verdict = DG_VERDICT_SKIPPED;
        k->f.text = k->idle;
        return;
    }
    k->f.text =
        dg_printf(k->arena, "%d draw%s%s%s%s", n - refused, dg_plural(n - refused, "s"),
                  refused ? dg_printf(k->arena, ", %d refused by the class", refused) : "",
                  k->what ? dg_printf(k->arena, "; %d %s", k->tried, k->what) : "",
                  k->worst >= 0
                      ? dg_printf(k->arena, ", worst error %.2g of a tensor's largest", k->worst)
                      : "");
}

/* True if lower refuses this draw with dg_error. */
static bool is_refused(dg_trial *t, const char **why, dg_arena *a)
{
    dg_probe pr;
    bool refused;

    if (!t->class->lower)
        return false;
    refused = dg_probe_open(&pr, t, true) == 1;
    if (refused)
        *why = dg_strdup(a, dg_test_why(a, pr.d));
    dg_probe_close(&pr);
    return refused;
}

/* Announces the draw before trying it. */
static void announce(const dg_check_node *how, const dg_node_test *k, const dg_trial *t)
{
    const dg_finding f = { .class = k->f.class,
                           .test = k->f.test,
                           .verdict = DG_VERDICT_FAILED,
                           .text = "it crashes the program",
                           .element = t ? t->element : NULL,
                           .seed = t ? t->seed : how->seed };

    if (how->trying)
        how->trying(how->ctx, &f);
}

static void run_test(dg_node_test *k, const dg_node_class *c, dg_registry *r,
                     const dg_check_node *how, const test *one)
{
    int n = one->kind == DG_TRIAL_DRAWN ? how->draws : 1, refused = 0;
    const char *why = NULL; /* of the first refusal; that is the defaults', if they are refused */

    for (int i = 0; i < n && k->f.verdict != DG_VERDICT_FAILED; i++) {
        dg_trial t = trial_of(c, r, how, one, how->seed + (uint64_t)i);
        int rc = dg_trial_open(&t);
        const char *said = NULL;

        /* an axis that is allowed only with some settings */
        if (rc == 1 && one->ranks && !t.unasked) {
            dg_trial_close(&t);
            t = trial_of(c, r, how, one, how->seed + (uint64_t)i);
            t.unasked = true;
            rc = dg_trial_open(&t);
        }
        announce(how, k, &t);
        if (rc == 1)
            said = dg_test_why(k->arena, t.d);
        else if (is_refused(&t, &said, k->arena))
            rc = 1;
        else
            rc = one->run(k, &t) && k->refused;
        said = k->refused ? k->why : said;
        k->refused = false;
        refused += rc == 1;
        why = rc == 1 && !why ? dg_strdup(k->arena, said) : why;
        dg_trial_close(&t);
    }
    conclude(k, n, refused, why);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Lists the attribute's extreme values and words as text; returns their number. */
static int edges_of(const char *list[], const dg_attr *a, dg_arena *arena)
{
    const char *const *words;
    int n = 0;

    if (a->kind == DG_ATTR_NUM || a->kind == DG_ATTR_INT) {
        list[n++] = dg_printf(arena, "%.15g", a->lo);
        list[n++] = dg_printf(arena, "%.15g", a->hi);
    } else if (a->kind == DG_ATTR_BOOL) {
        list[n++] = "false";
        list[n++] = "true";
    } else if (a->kind == DG_ATTR_ENUM) {
        int most = dg_attr_words(&words, a, arena);

        for (; n < most && n < 16; n++)
            list[n] = words[n];
    }
    return n;
}

/* Tries one value. check or lower may refuse it with its own error; an error of the builder is a
 * failure. a NULL: no attribute is given. */
static bool try_edge(dg_node_test *k, const dg_node_class *c, dg_registry *r,
                     const dg_check_node *how, const dg_attr *a, const char *value)
{
    static const test one = { "", DG_TRIAL_DEFAULT, 0, NULL, NULL };
    dg_set given = { a ? a->name : NULL, value };
    dg_trial t = trial_of(c, r, how, &one, how->seed);
    bool fine = true;

    t.given = a ? &given : NULL;
    if (dg_trial_open(&t) == 0 && c->lower) {
        announce(how, k, &t);
        fine = dg_test_shapes(k, &t);
    }
    if (!fine && a)
        k->f.port = a->name;
    dg_trial_close(&t);
    return fine;
}

static void test_attributes(dg_node_test *k, const dg_node_class *c, dg_registry *r,
                            const dg_check_node *how)
{
    const char *edges[16];
    int tried = 0;
    dg_node_test plain = *k;

    if (!try_edge(&plain, c, r, how, NULL, NULL)) {
        k->f.verdict = DG_VERDICT_SKIPPED;
        k->f.text = "shapes come first";
        return;
    }
    for (const dg_attr *a = c->attrs; a && a->name; a++) {
        int n = edges_of(edges, a, k->arena);

        for (int i = 0; i < n; i++, tried++)
            if (!try_edge(k, c, r, how, a, edges[i]))
                return;
    }
    k->f.text = dg_printf(k->arena, "%d values", tried);
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool is_testable(const dg_contract *c)
{
    bool fine = c->kind == DG_TYPE_TENSOR || c->kind == DG_TYPE_RECORD || c->kind == DG_TYPE_ANY;

    for (int i = 0; i < c->n_fields; i++)
        fine = fine && is_testable(c->fields[i].type);
    return fine;
}

/* Why lower cannot be tested on its own; NULL: it can. */
static const char *why_untestable(const dg_node_class *c, dg_registry *r, const dg_check_node *how,
                                  dg_arena *a)
{
    static const test one = { "", DG_TRIAL_DEFAULT, 0, NULL, NULL };
    dg_trial t = trial_of(c, r, how, &one, how->seed);
    const char *why = NULL;

    if (dg_trial_open(&t) == 0)
        for (int i = 0; i < t.node->n_in; i++)
            if (t.node->in[i].from && !is_testable(t.node->in_types[i]))
                why = dg_printf(a, "its input \"%s\" is no tensor: it shows in a run",
                                t.node->in_ports[i]->name);
    dg_trial_close(&t);
    return why;
}

static bool has_function(const dg_node_class *c, const struct kind *kind)
{
    void (*function)(void);

    memcpy(&function, (const char *)c + kind->does, sizeof function);
    return function != NULL && (kind->tests != sizes_tests || !c->schedule);
}

typedef struct report {
    dg_arena *arena;
    const dg_check_node *how;
    void (*found)(void *ctx, const dg_finding *f);
    void *ctx;
    int failed;
    DG_VEC(const test *) broken; /* tests that failed, or were skipped because of a failed one */
} report;

static dg_node_test begin_test(const report *r, const dg_node_class *c, const char *name,
                               const char *skipped)
{
    dg_finding f = { .class = c->name,
                     .test = name,
                     .text = skipped,
                     .verdict = skipped ? DG_VERDICT_SKIPPED : DG_VERDICT_OK };
    dg_node_test k = { .arena = r->arena, .f = f, .worst = -1 };

    announce(r->how, &k, NULL);
    return k;
}

/* Reports a test; returns true if it failed. */
static bool end_test(report *r, const dg_node_test *k)
{
    bool failed = k->f.verdict == DG_VERDICT_FAILED;

    r->failed += failed;
    r->found(r->ctx, &k->f);
    return failed;
}

static const char *comes_after(const report *r, const test *one)
{
    for (int i = 0; one->after && i < r->broken.n; i++)
        if (r->broken.items[i]->run == one->after)
            return dg_printf(r->arena, "it comes after: %s", r->broken.items[i]->name);
    return NULL;
}

int dg_check_node_class(const dg_node_class *c, dg_registry *registry, const dg_check_node *how,
                        void (*found)(void *ctx, const dg_finding *f), void *ctx)
{
    report r = { .arena = dg_arena_open(), .how = how, .found = found, .ctx = ctx };
    const char *why = c->lower ? why_untestable(c, registry, how, r.arena) : NULL;
    dg_node_test k = begin_test(&r, c, "attributes have usable defaults and ranges", why);
    int n = 0;

    if (!why)
        test_attributes(&k, c, registry, how);
    (void)end_test(&r, &k);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *none = kinds[i].tests == tensor_tests ? why : NULL;

        for (const test *one = kinds[i].tests; has_function(c, &kinds[i]) && one->run; one++, n++) {
            const char *skip = none ? none : comes_after(&r, one);

            k = begin_test(&r, c, one->name, skip);
            if (!skip)
                run_test(&k, c, registry, how, one);
            if (end_test(&r, &k) || (skip && !none))
                DG_PUSH(r.arena, r.broken, one);
            if (k.refused)
                none = "it refuses whatever is drawn";
        }
    }
    if (!n) {
        k = begin_test(
            &r, c, "what it does",
            "it has none of the functions that can be tried by themselves: it shows in a run");
        (void)end_test(&r, &k);
    }
    dg_arena_close(&r.arena);
    return r.failed;
}
