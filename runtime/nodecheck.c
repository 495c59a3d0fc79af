/* nodecheck.c: the list of tests, and how each is repeated over draws. */
#include "runtime/nodecheck.h"

#include <string.h>

#include "graph/attr.h"
#include "runtime/nodecheck_self.h"

struct dg_node_test {
    dg_arena   *arena;
    dg_finding  f;
    int         tried; /* of what, in all draws */
    const char *what;
    double      worst;
};

typedef struct test {
    const char   *name;
    dg_trial_kind kind;
    int64_t       ranks;
    bool (*run)(dg_node_test *k, dg_trial *t);
} test;

static const test tensor_tests[] = {
    { "shapes are those of the ports", DG_TRIAL_DRAWN, 0, dg_test_shapes },
    { "parameters are the same in training and evaluation", DG_TRIAL_DRAWN, 0, dg_test_parameters },
    { "gradients are central differences", DG_TRIAL_DRAWN, 0, dg_test_gradients },
    { "kernels write their outputs and nothing else", DG_TRIAL_DRAWN, 0, dg_test_kernels },
    { "the same bits when it is run again", DG_TRIAL_DRAWN, 0, dg_test_repeat },
    { "f32 agrees with f64", DG_TRIAL_DRAWN, 0, dg_test_f32 },
    { "bf16 agrees with f32", DG_TRIAL_DRAWN, 0, dg_test_bf16 },
    { "an empty batch gives finite numbers", DG_TRIAL_SMALLEST, 0, dg_test_empty },
    { "what is declared for several ranks holds", DG_TRIAL_DEFAULT, 2, dg_test_ranks },
    { 0 },
};

static const test item_tests[] = {
    { "samples come out whole", DG_TRIAL_DRAWN, 0, dg_test_item },
    { "the same sample on every thread", DG_TRIAL_DRAWN, 0, dg_test_item_repeat },
    { "one pixel without objects", DG_TRIAL_SMALLEST, 0, dg_test_item },
    { 0 },
};

bool dg_test_miss(dg_node_test *k, const dg_trial *t, const char *port, const char *help, const char *fmt, ...)
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
    k->what = what;
    k->worst = worst > k->worst ? worst : k->worst;
}

static const char *first_text(const dg_diag *d)
{
    return dg_diag_n(d) ? dg_diag_at(d, 0)->text : "for a reason that it keeps to itself";
}

/* A seed is tried with defaults if it is odd, so that the first draw is one of these. */
static dg_trial trial_of(const dg_node_class *c, dg_registry *r, const dg_node_check *how, const test *one, uint64_t seed)
{
    dg_trial_kind kind = one->kind == DG_TRIAL_DRAWN && seed % 2 ? DG_TRIAL_DEFAULT : one->kind;

    return (dg_trial){ .class = c, .registry = r, .how = how, .seed = seed, .kind = kind, .ranks = one->ranks };
}

/* Is every draw refused? Then nothing was tested, which is a fault as well. */
static void conclude(dg_node_test *k, int n, int refused, const char *why)
{
    if (k->f.verdict == DG_VERDICT_FAILED)
        return;
    if (refused == n) {
        k->f.verdict = DG_VERDICT_FAILED;
        k->f.text = dg_printf(k->arena, "it refuses whatever is drawn: %s", why);
        k->f.help = "give what it needs: --set NAME=VALUE for an attribute, --dim LETTER=N for a dimension";
        return;
    }
    k->f.text = dg_printf(k->arena, "%d draw%s%s%s%s", n - refused, n - refused == 1 ? "" : "s",
                          refused ? dg_printf(k->arena, ", %d refused by the class", refused) : "",
                          k->what ? dg_printf(k->arena, "; %d %s", k->tried, k->what) : "",
                          k->worst >= 0 ? dg_printf(k->arena, ", worst error %.2g of a tensor's largest", k->worst) : "");
}

/* Does lower refuse this draw, by dg_error? */
static bool is_refused(dg_trial *t, const char **why, dg_arena *a)
{
    dg_probe pr;
    bool     refused;

    if (!t->class->lower)
        return false;
    refused = dg_probe_open(&pr, t, true) == 1;
    if (refused)
        *why = dg_strdup(a, first_text(pr.d));
    dg_probe_close(&pr);
    return refused;
}

static void run_test(dg_node_test *k, const dg_node_class *c, dg_registry *r, const dg_node_check *how, const test *one)
{
    int         n = one->kind == DG_TRIAL_DRAWN ? how->draws : 1, refused = 0;
    const char *why = NULL; /* the first refusal: of the defaults, if there is one */

    for (int i = 0; i < n && k->f.verdict != DG_VERDICT_FAILED; i++) {
        dg_trial    t = trial_of(c, r, how, one, how->seed + (uint64_t)i);
        int         rc = dg_trial_open(&t);
        const char *said = NULL;

        if (rc == 1 && one->ranks && !t.unasked) { /* an axis that only some settings ask */
            dg_trial_close(&t);
            t = trial_of(c, r, how, one, how->seed + (uint64_t)i);
            t.unasked = true;
            rc = dg_trial_open(&t);
        }
        if (rc == 1)
            said = first_text(t.d);
        else if (is_refused(&t, &said, k->arena))
            rc = 1;
        else
            (void)one->run(k, &t);
        refused += rc == 1;
        why = rc == 1 && !why ? dg_strdup(k->arena, said) : why;
        dg_trial_close(&t);
    }
    conclude(k, n, refused, why);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Ends of the range and words of an attribute, as text; returns how many. */
static int edges_of(const char *list[], const dg_attr *a, dg_arena *arena)
{
    const char *const *words;
    int                n = 0;

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

/* The class's check or lower may refuse a value in words of its own; it must not end in an error of the builder. */
static bool try_edge(dg_node_test *k, const dg_node_class *c, dg_registry *r, const dg_node_check *how, const dg_attr *a, const char *value)
{
    static const test one = { "", DG_TRIAL_DEFAULT, 0, NULL };
    dg_set            given = { a->name, value };
    dg_trial          t = trial_of(c, r, how, &one, how->seed);
    bool              fine = true;

    t.given = &given;
    if (dg_trial_open(&t) == 0 && c->lower)
        fine = dg_test_shapes(k, &t);
    if (!fine)
        k->f.port = a->name;
    dg_trial_close(&t);
    return fine;
}

static void test_attributes(dg_node_test *k, const dg_node_class *c, dg_registry *r, const dg_node_check *how)
{
    const char *edges[16];
    int         tried = 0;

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

/* Why the class cannot be tested by itself; NULL: it can. */
static const char *unsuited(const dg_node_class *c, dg_registry *r, const dg_node_check *how, dg_arena *a)
{
    static const test one = { "", DG_TRIAL_DEFAULT, 0, NULL };
    dg_trial          t = trial_of(c, r, how, &one, how->seed);
    const char       *why = NULL;

    if (!c->lower && !c->item)
        return "what it does with data or results shows in a run: this command tries nodes that compute (lower) or change samples (item)";
    if (c->item)
        return NULL;
    if (dg_trial_open(&t) == 0)
        for (int i = 0; i < t.node->n_in; i++)
            if (t.node->in[i].from && !is_testable(t.node->in_types[i]))
                why = dg_printf(a, "its input \"%s\" is no tensor: it shows in a run", t.node->in_ports[i]->name);
    dg_trial_close(&t);
    return why;
}

int dg_node_check_class(const dg_node_class *c, dg_registry *r, const dg_node_check *how,
                        void (*found)(void *ctx, const dg_finding *f), void *ctx)
{
    dg_arena   *a = dg_arena_open();
    const test *tests = c->lower ? tensor_tests : item_tests;
    const char *why = unsuited(c, r, how, a);
    int         failed = 0;

    for (int i = -1; i < 0 || tests[i].run; i++) {
        dg_node_test k = { .arena = a, .f = { .class = c->name, .test = i < 0 ? "attributes have usable defaults and ranges" : tests[i].name },
                           .worst = -1 };

        if (why) {
            k.f.verdict = DG_VERDICT_SKIPPED;
            k.f.text = why;
        } else if (i < 0) {
            test_attributes(&k, c, r, how);
        } else {
            run_test(&k, c, r, how, &tests[i]);
        }
        failed += k.f.verdict == DG_VERDICT_FAILED;
        found(ctx, &k.f);
        if (k.f.verdict == DG_VERDICT_FAILED && i >= 0 && tests[i].run == dg_test_shapes)
            why = "shapes come first";
    }
    dg_arena_close(&a);
    return failed;
}
