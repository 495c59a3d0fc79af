/* course: what a step leaves out. A node under `when` that fires is the node without it, and one
 * that does not is the pipeline without the node, every bit; so is what hangs on it. A skipped step
 * changes nothing; a vote asks every rank, this one too; <stop> ends the run. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <detrgraph/run.h>

enum { SIDE = 32, BATCH = 2, PIXELS = BATCH * SIDE * SIDE * 3 };

static const char frame[] =
    "<pipeline version='1' seed='5'><mesh dp='1'/>"
    "<train steps='40' %s><loader.synthetic id='data' images='8' width='32' height='32' "
    "classes='2'/>"
    "<sampler.bucket id='pick' in='@data' axis='dp' batch='2' sizes='32' tail='drop'/>"
    "<augment id='aug' in='@pick'/><batch id='b' in='@aug' max_objects='4'/>"
    "<layer.linear id='x' in='@b.images' width='4'/>"
    "%s"
    "<optimizer.adamw id='opt' gradients='@grad' lr='1e-2'/><ema id='ema' of='@opt' decay='0.9'/>"
    "%s</train></pipeline>";

typedef struct course {
    dg_diag *d;
    dg_run *run;
} course;

static course open_with(const char *train, const char *middle, const char *end)
{
    char text[4096];
    course c = { .d = dg_diag_open() };
    dg_run_options o = { .size = sizeof o, .file = "course.xml", .text = text, .threads = 1 };

    snprintf(text, sizeof text, frame, train, middle, end);
    if (dg_run_open(&c.run, &o, c.d) < 0 || dg_run_select(c.run, "train", SIDE, SIDE, c.d) < 0)
        fail_msg("%s", dg_diag_text(c.d));
    return c;
}

static void close_course(course *c)
{
    dg_run_close(&c->run);
    dg_diag_close(&c->d);
}

static void feed(course *c, int objects, double first)
{
    static double images[PIXELS];
    int32_t count[BATCH] = { objects, 0 };

    for (int i = 0; i < PIXELS; i++)
        images[i] = 0.5 + 0.4 * sin(0.37 * i);
    images[0] = first;
    if (dg_run_feed(c->run, "b.images", images, PIXELS, c->d) < 0 ||
        dg_run_feed(c->run, "b.targets.count", count, BATCH, c->d) < 0)
        fail_msg("%s", dg_diag_text(c->d));
}

static void get(course *c, dg_run_space space, const char *name, double *out, int64_t n)
{
    if (dg_run_get(c->run, space, name, out, n, c->d) < 0)
        fail_msg("%s", dg_diag_text(c->d));
}

static void step(course *c, int objects, double first)
{
    feed(c, objects, first);
    if (dg_run_step(c->run, c->d) < 0)
        fail_msg("%s", dg_diag_text(c->d));
}

/* Everything of a parameter that both runs have. */
static void check_same(course *a, course *b)
{
    int shared = 0;

    for (int i = 0; i < dg_run_n_params(a->run); i++) {
        dg_run_param p = dg_run_param_at(a->run, i);
        int64_t n = dg_shape_elements(p.shape);
        double x[256], y[256];

        for (dg_run_space s = DG_RUN_WEIGHTS; s <= DG_RUN_EMA; s++) {
            if (!p.trainable && s != DG_RUN_WEIGHTS && s != DG_RUN_EMA)
                continue;
            if (dg_run_get(b->run, s, p.name, y, n, NULL) < 0)
                continue;
            assert_int_equal(dg_run_get(a->run, s, p.name, x, n, a->d), 0);
            if (memcmp(x, y, (size_t)n * sizeof *x) != 0)
                fail_msg("%s differs in space %d: %g, %g", p.name, (int)s, x[0], y[0]);
            shared++;
        }
    }
    assert_true(shared >= 10);
}

#define LOSS(y) "<loss.mean id='loss' in='" y "'/><backward id='grad' loss='@loss.total'/>"
#define SOME "<test id='some' in='@b.targets.count' is='positive'/>"

/* The pipelines with and without a node, against the one that has it under `when`. */
static void compare(const char *guarded, const char *with, const char *without)
{
    course a = open_with("", guarded, ""), b = open_with("", with, ""),
           c = open_with("", guarded, ""), d = open_with("", without, "");

    for (int i = 0; i < 3; i++) {
        step(&a, 1, 0.1 * i);
        step(&b, 1, 0.1 * i);
        check_same(&a, &b);
        step(&c, 0, 0.1 * i);
        step(&d, 0, 0.1 * i);
        check_same(&c, &d);
    }
    close_course(&a);
    close_course(&b);
    close_course(&c);
    close_course(&d);
}

static void a_node_under_when(void **state)
{
    (void)state;
    compare(SOME
            "<layer.linear id='e' in='@x' width='4' when='@some'/><sum id='y' a='@x' b='@e'/>" LOSS(
                "@y"),
            "<layer.linear id='e' in='@x' width='4'/><sum id='y' a='@x' b='@e'/>" LOSS("@y"),
            "<sum id='y' a='@x'/>" LOSS("@y"));
}

/* What always needs it does not fire either. */
static void what_hangs_on_it(void **state)
{
    (void)state;
    compare(SOME "<layer.linear id='e' in='@x' width='4' when='@some'/><layer.norm id='n' in='@e'/>"
                 "<layer.linear id='f' in='@n' width='4'/><sum id='y' b='@f' a='@x'/>" LOSS("@y"),
            "<layer.linear id='e' in='@x' width='4'/><layer.norm id='n' in='@e'/>"
            "<layer.linear id='f' in='@n' width='4'/><sum id='y' b='@f' a='@x'/>" LOSS("@y"),
            "<sum id='y' a='@x'/>" LOSS("@y"));
}

/* Recomputed, the same. */
static void recomputed(void **state)
{
    (void)state;
    compare(SOME
            "<layer.linear id='e' in='@x' width='4' when='@some' recompute='true'/>"
            "<layer.norm id='n' in='@e' recompute='true'/><sum id='y' b='@n' a='@x'/>" LOSS("@y"),
            "<layer.linear id='e' in='@x' width='4'/><layer.norm id='n' in='@e'/>"
            "<sum id='y' b='@n' a='@x'/>" LOSS("@y"),
            "<sum id='y' a='@x'/>" LOSS("@y"));
}

#define NORM(words)                                              \
    "<layer.norm id='n' in='@x' count='@b.targets.count' " words \
    "/><sum id='y' a='@x' b='@n'/>" LOSS("@y")

/* A norm of no rows: early, it gives zeros and keeps its statistics; by the rows of this rank. */
static void a_norm_of_no_rows(void **state)
{
    (void)state;
    compare(NORM("norm='sync' empty='absent'"), NORM("norm='sync' empty='zero'"),
            "<sum id='y' a='@x'/>" LOSS("@y"));
    compare(NORM("norm='batch'"), NORM("norm='sync' empty='zero'"),
            "<sum id='y' a='@x'/>" LOSS("@y"));
}

/* connect: zeros that are there, so that what follows fires, and gets a gradient of zero. */
static void connected(void **state)
{
    double g[16], loss;
    course c =
        open_with("",
                  SOME
                  "<layer.linear id='e' in='@x' width='4' when='@some' connect='zero'/>"
                  "<layer.linear id='f' in='@e' width='4'/><sum id='y' a='@x' b='@f'/>" LOSS("@y"),
                  "");

    (void)state;
    for (int some = 1; some >= 0; some--) {
        step(&c, some, 0);
        get(&c, DG_RUN_GRADIENTS, "train.e.weight", g, 16);
        assert_true((g[0] != 0) == some);
        get(&c, DG_RUN_GRADIENTS, "train.f.weight", g, 16);
        assert_true((g[0] != 0) == some);
        get(&c, DG_RUN_GRADIENTS, "train.f.bias", g, 4);
        assert_true(g[0] != 0); /* it fires */
        assert_int_equal(dg_run_read(c.run, "loss.total", &loss, 1, c.d), 0);
        assert_true(isfinite(loss));
    }
    close_course(&c);
}

/* A loss that is not there: nothing is updated, and nothing is wrong. */
static void no_loss(void **state)
{
    course c = open_with(
        "",
        SOME "<loss.mean id='loss' in='@x' when='@some'/><backward id='grad' loss='@loss.total'/>",
        "");
    double before[12], after[12];

    (void)state;
    step(&c, 1, 0);
    get(&c, DG_RUN_WEIGHTS, "train.x.weight", before, 12);
    step(&c, 0, 0);
    get(&c, DG_RUN_WEIGHTS, "train.x.weight", after, 12);
    assert_memory_equal(before, after, sizeof before);
    step(&c, 1, 0);
    get(&c, DG_RUN_WEIGHTS, "train.x.weight", after, 12);
    assert_memory_not_equal(before, after, sizeof before);
    close_course(&c);
}

/* Answers of tests and votes, read as results. */
static void questions(void **state)
{
    static const struct {
        const char *is;
        int objects, answer;
    } cases[] = {
        { "is='positive'", 2, 1 },       { "is='positive'", 0, 0 },
        { "is='zero'", 0, 1 },           { "is='zero'", 1, 0 },
        { "is='above' than='2'", 3, 1 }, { "is='above' than='2'", 2, 0 },
        { "is='below' than='0'", 2, 0 }, { "is='below' than='0'", -1, 1 },
        { "is='finite'", 1, 1 },         { "is='nonfinite'", 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        int32_t answer = -1;
        course c;

        snprintf(text, sizeof text,
                 "<test id='t' in='@b.targets.count' %s/>" LOSS("@x") "<log in='@t'/>",
                 cases[i].is);
        c = open_with("", text, "");
        step(&c, cases[i].objects, 0);
        for (int k = 0; k < dg_run_n_values(c.run); k++)
            if (strncmp(dg_run_value_at(c.run, k).name, "log", 3) == 0)
                assert_int_equal(dg_run_read(c.run, dg_run_value_at(c.run, k).name, &answer, 1,
                                             c.d),
                                 0);
        if (answer != cases[i].answer)
            fail_msg("%s of %d: %d", cases[i].is, cases[i].objects, (int)answer);
        close_course(&c);
    }
}

/* ---- skip and stop --------------------------------------------------------------------------- */

#define VOTE                                                                         \
    "<loss.mean id='loss' in='@x'/><test id='bad' in='@loss.total' is='nonfinite'/>" \
    "<agree id='any' in='@bad' op='any' axis='dp'/>"
#define BACKWARD "<backward id='grad' loss='@loss.total'/>"

typedef struct snapshot {
    double weights[12], moment[12], ema[12], mean[4];
} snapshot;

static snapshot take(course *c)
{
    snapshot s = { .mean = { 0 } };

    get(c, DG_RUN_WEIGHTS, "train.x.weight", s.weights, 12);
    get(c, DG_RUN_MOMENT1, "train.x.weight", s.moment, 12);
    get(c, DG_RUN_EMA, "train.x.weight", s.ema, 12);
    if (dg_run_get(c->run, DG_RUN_WEIGHTS, "train.n.running_mean", s.mean, 4, NULL) < 0)
        s.mean[0] = 0;
    return s;
}

/* A loss that is not finite ends a run; a vote lets it go on without the step. */
static void a_bad_step_is_skipped(void **state)
{
    const char *norm =
        "<layer.norm id='n' in='@x'/><loss.mean id='loss' in='@n'/>"
        "<test id='bad' in='@loss.total' is='nonfinite'/>"
        "<agree id='any' in='@bad' op='any' axis='dp'/><skip id='s' when='@any'/>" BACKWARD;
    course a = open_with("", VOTE "<skip id='s' when='@any'/>" BACKWARD, ""),
           b = open_with("", LOSS("@x"), ""), n = open_with("", norm, "");
    snapshot before, after;
    int32_t flag = 0;

    (void)state;
    step(&a, 1, 0.3);
    step(&b, 1, 0.3);
    check_same(&a, &b);
    feed(&b, 1, NAN);
    assert_int_equal(dg_run_step(b.run, b.d), -DG_ENUMERIC);
    for (int i = 0; i < 2; i++) {
        course *c = i ? &n : &a;

        step(c, 1, 0.3);
        before = take(c);
        step(c, 1, NAN);
        after = take(c);
        assert_memory_equal(&before, &after, sizeof before);
        assert_int_equal(dg_run_read(c->run, "skip/s", &flag, 1, c->d), 0);
        assert_int_equal(flag, 1);
        assert_int_equal(dg_run_step_number(c->run), i ? 2 : 3);
        step(c, 1, 0.3);
        after = take(c);
        assert_memory_not_equal(before.weights, after.weights, sizeof before.weights);
        assert_memory_not_equal(before.ema, after.ema, sizeof before.ema);
    }
    close_course(&a);
    close_course(&b);
    close_course(&n);
}

/* Behind <backward>, a skip leaves out the update alone: also of several batches. */
static void an_update_is_skipped(void **state)
{
    course c =
        open_with("accumulate='2'",
                  LOSS("@x") "<gradient.norm id='g' in='@grad'/><test id='big' in='@g' is='above' "
                             "than='0.5'/><skip when='@big'/>",
                  "");
    snapshot before = take(&c), after;

    (void)state;
    step(&c, 1, 1000);
    step(&c, 1, 1000);
    after = take(&c);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(dg_run_step_number(c.run), 1);
    close_course(&c);
}

static void one_batch_of_several_is_not(void **state)
{
    char text[4096];
    dg_diag *d = dg_diag_open();
    dg_run *run;
    dg_run_options o = { .size = sizeof o, .file = "course.xml", .text = text, .threads = 1 };

    (void)state;
    snprintf(text, sizeof text, frame, "accumulate='2'", VOTE "<skip when='@any'/>" BACKWARD, "");
    assert_int_equal(dg_run_open(&run, &o, d), -DG_EINPUT);
    assert_non_null(strstr(dg_diag_text(d), "skip-accumulate"));
    dg_run_close(&run);
    dg_diag_close(&d);
}

/* Denoising that does not fire: its terms are 0 and move nothing, the others are there. */
static void no_denoising(void **state)
{
    static const char text[] =
        "<pipeline version='1'><mesh dp='1'/><model id='m'><input id='images'/>"
        "<input id='denoising' optional='true'/>"
        "<backbone.presnet id='backbone' in='@images' depth='18'/>"
        "<encoder.hybrid id='encoder' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32' "
        "width='32' ffn='32' heads='4'/>"
        "<decoder.rtdetr id='decoder' memory='@encoder.out' denoising='@denoising' classes='3' "
        "queries='12' layers='1' width='32' ffn='32' heads='4'/></model>"
        "<train steps='9'><loader.synthetic id='data' images='8' classes='3'/>"
        "<sampler.bucket id='pick' in='@data' axis='dp' batch='2' sizes='64' tail='drop'/>"
        "<augment id='aug' in='@pick'/><batch id='b' in='@aug' max_objects='5'/>"
        "<test id='some' in='@b.targets.count' is='above' than='1'/>"
        "<denoising id='dn' targets='@b.targets' classes='3' count='4' axis='dp' when='@some'/>"
        "<use id='out' model='m' images='@b.images' denoising='@dn'/>"
        "<loss.rtdetr id='loss' predictions='@out' targets='@b.targets' axis='dp'/>"
        "<backward id='grad' loss='@loss.total'/>"
        "<optimizer.adamw id='opt' gradients='@grad' lr='1e-4'/></train></pipeline>";
    static double images[2 * 64 * 64 * 3];
    double boxes[2 * 5 * 4], term, g[4 * 32];
    int32_t labels[2 * 5] = { 1, 2, 0, 0, 0, 1 }, count[2];
    course c = { .d = dg_diag_open() };
    dg_run_options o = { .size = sizeof o, .file = "course.xml", .text = text, .threads = 1 };

    (void)state;
    if (dg_run_open(&c.run, &o, c.d) < 0 || dg_run_select(c.run, "train", 64, 64, c.d) < 0)
        fail_msg("%s", dg_diag_text(c.d));
    for (int i = 0; i < 2 * 64 * 64 * 3; i++)
        images[i] = 0.5 + 0.4 * sin(0.37 * i);
    for (int i = 0; i < 40; i++)
        boxes[i] = i % 4 < 2 ? 0.5 : 0.2;
    for (int some = 1; some >= 0; some--) {
        double total = 0;

        count[0] = 1 + some;
        count[1] = 1;
        if (dg_run_feed(c.run, "b.images", images, 2 * 64 * 64 * 3, c.d) < 0 ||
            dg_run_feed(c.run, "b.targets.boxes", boxes, 40, c.d) < 0 ||
            dg_run_feed(c.run, "b.targets.labels", labels, 10, c.d) < 0 ||
            dg_run_feed(c.run, "b.targets.count", count, 2, c.d) < 0 || dg_run_step(c.run, c.d) < 0)
            fail_msg("%s", dg_diag_text(c.d));
        for (int i = 0; i < dg_run_n_values(c.run); i++) {
            const char *name = dg_run_value_at(c.run, i).name;

            if (strncmp(name, "loss.loss_", 10) != 0)
                continue;
            assert_int_equal(dg_run_read(c.run, name, &term, 1, c.d), 0);
            assert_true(isfinite(term));
            assert_true((term != 0) == (some || !strstr(name, "_dn_")));
            total += term;
        }
        assert_int_equal(dg_run_read(c.run, "loss.total", &term, 1, c.d), 0);
        assert_true(fabs(term - total) < 1e-4 * total);
        get(&c, DG_RUN_GRADIENTS, "decoder.denoising_class_embed.weight", g, 4 * 32);
        for (int i = 0; i < 4 * 32 && !some; i++)
            assert_true(g[i] == 0);
    }
    close_course(&c);
}

typedef struct seen {
    int steps, names;
} seen;

static void report(void *ctx, const dg_run_report *r)
{
    seen *s = ctx;

    s->steps++;
    s->names += r->n;
}

static seen train(const char *end)
{
    seen s = { 0 };
    dg_run_train_options o = { .size = sizeof o, .steps = 5, .report = report, .ctx = &s };
    course c = open_with("", LOSS("@x"), end);

    if (dg_run_train(c.run, &o, c.d) < 0)
        fail_msg("%s", dg_diag_text(c.d));
    close_course(&c);
    return s;
}

static void a_run_stops(void **state)
{
    (void)state;
    assert_int_equal(train("").steps, 5);
    assert_int_equal(
        train("<test id='t' in='@b.targets.count' is='below' than='-1'/><stop when='@t'/>").steps,
        5);
    assert_int_equal(
        train("<test id='t' in='@loss.total' is='above' than='-1'/><stop when='@t'/>").steps, 1);
}

static void a_sink_does_not_fire(void **state)
{
    (void)state;
    assert_int_equal(train("<log in='@loss.total'/>").names, 5);
    assert_int_equal(train("<test id='t' in='@b.targets.count' is='below' than='-1'/><log "
                           "in='@loss.total' when='@t'/>")
                         .names,
                     0);
    assert_int_equal(train("<log in='@loss.total' on='0'/>").names, 5);
    assert_int_equal(train("<log in='@loss.total' on='1'/>").names, 0);
}

/* Ranks that have nothing to say do not count. */
static void silence(void **state)
{
    static const struct {
        const char *op;
        int some, none;
    } cases[] = { { "any", 1, 0 }, { "all", 1, 1 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int some = 0; some < 2; some++) {
            char text[512];
            int32_t answer = -1;
            course c;

            snprintf(text, sizeof text,
                     SOME
                     "<test id='t' in='@b.targets.count' is='positive' when='@some'/>"
                     "<agree id='v' in='@t' op='%s' axis='dp'/>" LOSS("@x") "<log id='l' in='@v'/>",
                     cases[i].op);
            c = open_with("", text, "");
            step(&c, some, 0);
            assert_int_equal(dg_run_read(c.run, "l.in", &answer, 1, c.d), 0);
            assert_int_equal(answer, some ? cases[i].some : cases[i].none);
            close_course(&c);
        }
}

/* Of what no rank has, there is no extreme: nothing is logged, and what reads it does not fire. */
static void no_extreme(void **state)
{
    static const char *const ops[] = { "min", "max" };

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int some = 0; some < 2; some++) {
            char text[512];
            double answer = -1;
            course c;

            snprintf(text, sizeof text,
                     SOME "<source.number id='n' value='7' when='@some'/>"
                          "<agree id='v' in='@n' op='%s' axis='dp'/>"
                          "<sum id='more' a='@x' b='@v'/>" LOSS("@more") "<log id='l' in='@v'/>",
                     ops[i]);
            c = open_with("", text, "");
            step(&c, some, 0);
            assert_int_equal(dg_run_read(c.run, "l.in", &answer, 1, c.d), 0);
            assert_true(answer == (some ? 7 : 0));
            close_course(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_under_when),
        cmocka_unit_test(what_hangs_on_it),
        cmocka_unit_test(recomputed),
        cmocka_unit_test(a_norm_of_no_rows),
        cmocka_unit_test(connected),
        cmocka_unit_test(no_loss),
        cmocka_unit_test(questions),
        cmocka_unit_test(a_bad_step_is_skipped),
        cmocka_unit_test(an_update_is_skipped),
        cmocka_unit_test(one_batch_of_several_is_not),
        cmocka_unit_test(a_run_stops),
        cmocka_unit_test(no_denoising),
        cmocka_unit_test(a_sink_does_not_fire),
        cmocka_unit_test(silence),
        cmocka_unit_test(no_extreme),
    };

    return cmocka_run_group_tests_name("course", tests, NULL, NULL);
}
