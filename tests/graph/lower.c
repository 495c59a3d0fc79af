/* lower: programs made of scopes: inputs, results, names of parameters, models used twice, and
 * what is found only while lowering. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/lower.h"
#include "proof/proof.h"
#include "tests/graph/toy.h"

#define NET                                                                                        \
    "<model id='net'><input id='images'/><input id='hint' optional='true'/>"                       \
    "<toy.conv id='conv' in='@images' recompute='true'/><toy.conv id='two' in='@conv'/><toy.head " \
    "id='head' in='@two' hint='@hint' classes='3'/></model>"
#define DATA                                                              \
    "<toy.loader id='data'/><toy.sampler id='pick' in='@data' batch='2' " \
    "sizes='32,64x32,32'/><toy.batch id='b' in='@pick'/>"
#define STEP                                                                                \
    "<toy.loss id='loss' predictions='@out' targets='@b.targets'/><toy.backward id='grad' " \
    "loss='@loss'/><toy.step id='opt' gradients='@grad'/>"

typedef struct world {
    dg_diag *d;
    dg_registry *r;
    dg_graph *g;
    dg_params *params;
    dg_program *p;
} world;

static void load(world *w, const char *text)
{
    *w = (world){ .d = dg_diag_open() };
    w->r = toy_registry(w->d);
    w->params = dg_params_open();
    if (toy_load(&w->g, w->r, text, false, w->d) < 0)
        fail_msg("%s", toy_print(w->d, w->g));
}

static void lower(world *w, const dg_scope *scope, int64_t width, int64_t height)
{
    if (dg_graph_lower(&w->p, w->g, scope, (dg_size){ width, height }, w->params, w->d) < 0)
        fail_msg("%s", toy_print(w->d, w->g));
}

static void done(world *w)
{
    dg_program_close(&w->p);
    dg_params_close(&w->params);
    dg_graph_close(&w->g);
    dg_registry_close(&w->r);
    dg_diag_close(&w->d);
}

static void shape_is(const world *w, int32_t value, const char *want)
{
    char text[96];

    assert_true(value > 0);
    assert_string_equal(dg_shape_print(w->p->values.items[value].shape, text, sizeof text), want);
}

static void kind_is(world *w, const char *name, dg_result_kind kind, int index, const char *key)
{
    for (int i = 0; i < w->p->results.n; i++) {
        const dg_binding *r = &w->p->results.items[i];

        if (strcmp(r->name, name) != 0)
            continue;
        assert_int_equal(r->kind, kind);
        assert_int_equal(r->index, index);
        assert_true(!r->key == !key && (!key || strcmp(r->key, key) == 0));
        assert_int_equal(dg_result_is_monitored(r), false);
        return;
    }
    fail_msg("there is no result %s", name);
}

static int number_of(const world *w, const char *id)
{
    for (int i = 0; i < w->g->train->n_nodes; i++)
        if (strcmp(w->g->train->nodes[i]->id, id) == 0)
            return w->g->train->nodes[i]->number;
    return -1;
}

static void train(void **state)
{
    world w;

    (void)state;
    load(&w,
         "<pipeline version='1'>" NET "<train steps='1' accumulate='3'>" DATA
         "<use id='out' model='net' images='@b.images'/>" STEP
         "<toy.log id='log' in='@loss.terms'/><toy.ema id='ema' of='@opt'/></train></pipeline>");
    lower(&w, w.g->train, 64, 32);
    assert_true(w.p->training);
    assert_int_equal(w.p->accumulate, 3);
    assert_int_equal(w.p->inputs.n, 3);
    shape_is(&w, dg_program_input(w.p, "b.images"), "[2,32,64,3]");
    shape_is(&w, dg_program_input(w.p, "b.targets.labels"), "[2,8]");
    shape_is(&w, dg_program_input(w.p, "b.targets.boxes"), "[2,8,4]");
    shape_is(&w, dg_program_input_of(w.p, number_of(&w, "b"), "targets.boxes"), "[2,8,4]");
    assert_int_equal(dg_program_input_of(w.p, number_of(&w, "b"), "boxes"), 0);
    assert_int_equal(dg_program_input_of(w.p, number_of(&w, "out"), "images"), 0);
    shape_is(&w, dg_program_result(w.p, "loss.total"), "[]");
    shape_is(&w, dg_program_result(w.p, "loss.loss_a"), "[]");
    shape_is(&w, dg_program_result(w.p, "loss.loss_b"), "[]");
    shape_is(&w, dg_program_result(w.p, "log.in.loss_a"), "[]");
    assert_int_equal(dg_program_result(w.p, "opt.gradients"), 0);
    kind_is(&w, "loss.total", DG_RESULT_LOSS_TOTAL, 0, NULL);
    kind_is(&w, "loss.loss_a", DG_RESULT_LOSS_TERM, 0, NULL);
    kind_is(&w, "log.in.loss_a", DG_RESULT_TAKEN, number_of(&w, "log"), "in.loss_a");
    assert_int_equal(dg_program_taken(w.p, "loss_a"), dg_program_result(w.p, "log.in.loss_a"));
    assert_int_equal(dg_program_taken(w.p, "total"), 0); /* no node takes it */
    /* paths are model and node; names begin with the class's reference, but for its second node
     * with the node's id */
    assert_int_equal(dg_params_n(w.params), 3);
    assert_string_equal(dg_params_at(w.params, 0)->path, "net.conv.weight");
    assert_string_equal(dg_params_at(w.params, 0)->name, "net.weight");
    assert_string_equal(dg_params_at(w.params, 1)->path, "net.two.weight");
    assert_string_equal(dg_params_at(w.params, 1)->name, "two.weight");
    assert_string_equal(dg_params_at(w.params, 2)->name, "head.weight");
    assert_string_equal(dg_params_at(w.params, 0)->where.node, "net/conv");
    bool marked = false, others = false;

    for (int i = 0; i < w.p->instrs.n; i++) {
        const dg_origin *o = &w.p->instrs.items[i].origin;

        if (o->where.node && strcmp(o->where.node, "net/conv") == 0)
            marked |= o->recompute;
        else
            others |= o->recompute;
    }
    assert_true(marked && !others);
    done(&w);
}

/* A model used twice has its parameters once; the optional input is absent in one use. */
static void used_twice(void **state)
{
    world w;

    (void)state;
    load(
        &w,
        "<pipeline version='1'>" NET
        "<model id='twice'><input id='x'/><use id='inner' model='net' images='@x'/>"
        "<use id='outer' model='net' images='@x'/></model>"
        "<train steps='1'>" DATA
        "<use id='out' model='net' images='@b.images' hint='@b.targets.boxes'/>" STEP "</train>"
        "<evaluate>" DATA
        "<use id='out' model='net' images='@b.images'/><use id='more' model='twice' x='@b.images'/>"
        "<toy.score id='score' in='@out'/><toy.score id='again' "
        "in='@more'/></evaluate></pipeline>");
    assert_int_equal(dg_graph_check(w.g, w.d), 0);
    lower(&w, w.g->train, 32, 32);
    assert_int_equal(dg_params_n(w.params), 3);
    dg_program_close(&w.p);
    lower(&w, w.g->evaluates[0], 32, 32);
    assert_int_equal(dg_params_n(w.params), 3);
    assert_false(w.p->training);
    shape_is(&w, dg_program_result(w.p, "score.in.logits"), "[2,3]");
    shape_is(&w, dg_program_result(w.p, "again.in.logits"), "[2,3]");
    assert_int_equal(dg_program_result(w.p, "loss.total"), 0);
    done(&w);
}

static void two_losses(void **state)
{
    world w;

    (void)state;
    load(&w, "<pipeline version='1'>" NET "<train steps='1'>" DATA
             "<use id='out' model='net' images='@b.images'/>" STEP
             "<toy.loss id='extra' predictions='@out' targets='@b.targets'/></train></pipeline>");
    lower(&w, w.g->train, 32, 32);
    assert_true(dg_program_result(w.p, "loss.total") > 0);
    assert_true(dg_program_result(w.p, "extra.total") > 0);
    kind_is(&w, "loss.total", DG_RESULT_LOSS_TOTAL, 0, NULL);
    kind_is(&w, "extra.total", DG_RESULT_LOSS_TOTAL, 1, NULL);
    kind_is(&w, "extra.loss_a", DG_RESULT_LOSS_TERM, 1, NULL);
    done(&w);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const dg_port void_ports[] = { DG_IN("in", "f[B,H,W,C]", "a map"),
                                      DG_OUT("out", "f[B,H,W,C]", "nothing"),
                                      { 0 } };
static void void_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)b, (void)conf, (void)in, (void)out;
}
static const dg_node_class void_class = { DG_NODE_CLASS,
                                         .name = "toy.void",
                                         .brief = "Forgets its output.",
                                         .ports = void_ports,
                                         .lower = void_lower };

static const dg_port nowhere_ports[] = { DG_IN("in", "dataset", "data"),
                                         DG_OUT("out", "picks", "none"),
                                         { 0 } };
static int nowhere_schedule(dg_schedule *out, const void *conf, const dg_schedule_args *args,
                            dg_diag *d)
{
    (void)out, (void)conf, (void)args, (void)d;
    return 0;
}
static int nowhere_sizes(const void *conf, const dg_size **sizes, int *batch)
{
    (void)conf, (void)sizes, (void)batch;
    return 0;
}
static const dg_node_class nowhere_class = {
    DG_NODE_CLASS,
    .name = "toy.nowhere",
    .brief = "Lists no size.",
    .ports = nowhere_ports,
    .schedule = nowhere_schedule,
    .sizes = nowhere_sizes,
};

static const dg_port misread_ports[] = { DG_IN("in", "f[B,H,W,C]", "a map"),
                                         DG_OUT("out", "{c_*:f[]}", "keys"),
                                         { 0 } };
static void misread_type(dg_typing *t, const void *conf)
{
    (void)conf;
    dg_type(t, "out", "{c_a:f[b]}");
    dg_type(t, "other", "f[]");
}
static const dg_node_class misread_class = { DG_NODE_CLASS,
                                            .name = "toy.misread",
                                            .brief = "Has a wrong type.",
                                            .ports = misread_ports,
                                            .type = misread_type };

/* The check of this pipeline gives exactly one error of this id. */
static void faulty(const char *text, const char *id)
{
    world w = { .d = dg_diag_open() };

    w.r = toy_registry(w.d);
    assert_int_equal(dg_registry_add(w.r, &void_class, w.d), 0);
    assert_int_equal(dg_registry_add(w.r, &nowhere_class, w.d), 0);
    assert_int_equal(dg_registry_add(w.r, &misread_class, w.d), 0);
    assert_true(toy_load(&w.g, w.r, text, true, w.d) < 0);
    if (dg_diag_errors(w.d) != 1 || strcmp(dg_diag_at(w.d, 0)->id, id) != 0)
        fail_msg("%s", toy_print(w.d, w.g));
    assert_true(dg_diag_at(w.d, 0)->at.line > 0);
    done(&w);
}

/* A loss within a model: the run still reports its total. */
static void inner_loss(void **state)
{
    world w;

    (void)state;
    load(&w, "<pipeline version='1'>" NET "<model id='judged'><input id='y'/><input id='t'/>"
             "<toy.loss id='loss' predictions='@y' targets='@t'/></model>"
             "<train steps='1'>" DATA "<use id='out' model='net' images='@b.images'/>"
             "<use id='l' model='judged' y='@out' t='@b.targets'/>"
             "<toy.backward id='grad' loss='@l'/><toy.step id='opt' gradients='@grad'/></train>"
             "</pipeline>");
    lower(&w, w.g->train, 32, 32);
    kind_is(&w, "loss.total", DG_RESULT_LOSS_TOTAL, 0, NULL);
    assert_int_equal(dg_program_result(w.p, "loss.loss_a"), 0);
    assert_int_equal(w.p->results.n, 1);
    done(&w);
}

static void faults(void **state)
{
    (void)state;
    faulty("<pipeline version='1'><model id='m'><input id='x'/><toy.void id='v' in='@x'/><toy.conv "
           "id='c' in='@v'/></model><train steps='1'>" DATA
           "<use id='out' model='m' x='@b'/></train></pipeline>",
           "lower-missing");
    faulty("<pipeline version='1'><train steps='1'><toy.loader id='l'/><toy.nowhere id='n' "
           "in='@l'/><toy.batch id='b' in='@n'/></train></pipeline>",
           "sampler-sizes");
    dg_str deep = { 0 };

    dg_str_add(&deep, "<pipeline version='1'><train steps='1'><toy.loader id='l'/><toy.sampler "
                      "id='s' in='@l' batch='1'/>"
                      "<stack id='many' count='40' in='@s'><toy.augment id='a' "
                      "in='@in'/></stack><toy.batch id='b' in='@many'/></train></pipeline>");
    faulty(deep.s, "data-too-long");
    dg_str_free(&deep);
}

static void broken_type(void **state)
{
    world w = { .d = dg_diag_open() };

    (void)state;
    w.r = toy_registry(w.d);
    assert_int_equal(dg_registry_add(w.r, &misread_class, w.d), 0);
    assert_true(toy_load(&w.g, w.r,
                         "<pipeline version='1'><train steps='1'>" DATA
                         "<toy.misread id='m' in='@b'/></train></pipeline>",
                         false, w.d) < 0);
    assert_string_equal(dg_diag_at(w.d, 0)->id, "class-type");
    done(&w);
}

/* A batch that no sampler feeds: an augment that begins the chain. */
static const dg_port spring_ports[] = { DG_OUT("out", "samples", "from nowhere"), { 0 } };
static const dg_node_class spring_class = {
    DG_NODE_CLASS, .name = "toy.spring", .brief = "Has no input.", .ports = spring_ports
};

static void no_sampler(void **state)
{
    world w = { .d = dg_diag_open() };

    (void)state;
    w.r = toy_registry(w.d);
    assert_int_equal(dg_registry_add(w.r, &spring_class, w.d), 0);
    assert_true(toy_load(&w.g, w.r,
                         "<pipeline version='1'><train steps='1'><toy.spring id='s'/><toy.batch "
                         "id='b' in='@s'/></train></pipeline>",
                         true, w.d) < 0);
    check_only(w.d, "data-chain");
    done(&w);
}

/* What is watched: every node in document order, those of a model at each use. */
static void note(void *ctx, dg_build *b, const dg_node *node, const dg_val in[], const dg_val out[])
{
    (void)b, (void)in, (void)out;
    dg_str_fmt(ctx, "%s ", node->id);
}

static void watched(void **state)
{
    world w;
    dg_str seen = { 0 };

    (void)state;
    load(&w, "<pipeline version='1'>" NET "<evaluate>" DATA
             "<use id='out' model='net' images='@b.images'/></evaluate></pipeline>");
    assert_int_equal(dg_lower(&w.p, w.g, w.g->evaluates[0], (dg_size){ 32, 32 }, 1, w.params, note,
                              &seen, w.d),
                     0);
    assert_string_equal(seen.s, "data pick b images hint conv two head out ");
    shape_is(&w, dg_program_input(w.p, "b.images"), "[1,32,32,3]");
    dg_str_free(&seen);
    done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train),      cmocka_unit_test(used_twice), cmocka_unit_test(two_losses),
        cmocka_unit_test(inner_loss), cmocka_unit_test(faults),     cmocka_unit_test(broken_type),
        cmocka_unit_test(no_sampler), cmocka_unit_test(watched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
