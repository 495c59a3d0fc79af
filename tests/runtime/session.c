/* session: a pipeline fed, stepped and read by hand; what it says when it is asked for what it has
 * not. */
#include "tests/train/toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "media/image.h"
#include "nodes/builtin.h"
#include "runtime/programs.h"
#include "exec/estimate.h"
#include "runtime/detect.h"

enum { BATCH = 4, SIDE = 32, SLOTS = 4 };

/* A sampler of a plugin, perhaps, that finds nothing to pick. */
static int pick_nothing(dg_schedule *out, const void *conf, const dg_schedule_args *args,
                        dg_diag *d)
{
    (void)conf, (void)args, (void)d;
    *out = (dg_schedule){ .batch = BATCH };
    return 0;
}

static dg_run *open_with(toy *t, dg_run_options o)
{
    dg_node_class *nobody = dg_memdup(t->arena, &dg_node_sampler_bucket, sizeof *nobody);
    const dg_node_class **classes = DG_NEW_N(t->arena, 4, const dg_node_class *);
    dg_run *run;

    nobody->name = "sampler.nobody";
    nobody->schedule = pick_nothing;
    classes[0] = toy_classes[0];
    classes[1] = toy_classes[1];
    classes[2] = nobody;

    o.size = sizeof o;
    o.file = "toy.xml";
    o.text = o.text ? o.text : toy_pipeline(t->arena, (toy_text){ 0 });
    o.threads = 1;
    o.classes = classes;
    o.device = getenv("DETRGRAPH_DEVICE");
    return dg_run_open(&run, &o, t->d) < 0 ? NULL : run;
}

static void feed(toy *t, dg_run *run)
{
    static double images[BATCH * SIDE * SIDE * 3], boxes[BATCH * SLOTS * 4];
    static int32_t labels[BATCH * SLOTS], count[BATCH] = { 1, 0, 2, 3 };

    for (int i = 0; i < BATCH * SIDE * SIDE * 3; i++)
        images[i] = 0.5 + 0.5 * sin(i * 0.37);
    for (int i = 0; i < BATCH * SLOTS * 4; i++)
        boxes[i] = 0.25 + 0.02 * (i % 7);
    assert_int_equal(dg_run_feed(run, "b.images", images, BATCH * SIDE * SIDE * 3, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.targets.boxes", boxes, BATCH * SLOTS * 4, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.targets.labels", labels, BATCH * SLOTS, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.targets.count", count, BATCH, t->d), 0);
}

static double read_one(toy *t, dg_run *run, const char *name)
{
    double v;

    assert_int_equal(dg_run_read(run, name, &v, 1, t->d), 0);
    return v;
}

static void full_rate(void *ctx, dg_control *c)
{
    (void)ctx;
    for (int i = 0; i < c->n_groups; i++)
        c->lr[i] = 1e-3;
}

/* The first step of AdamW moves every weight by lr c / (|c| + eps) with the clipped gradient c. */
static void one_step(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ .precision = "f64", .control = full_rate });
    double before[2], after[2], gradient[2], moment[2], norm, clip;

    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    assert_int_equal(dg_run_n_params(run), 9);
    assert_string_equal(dg_run_param_at(run, 0).name, "net.conv.weight");
    assert_true(dg_run_param_at(run, 0).trainable && !dg_run_param_at(run, 0).buffer);
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    assert_int_equal(dg_run_n_inputs(run), 5);
    feed(t, run);
    assert_int_equal(dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bias", before, 2, t->d), 0);
    assert_int_equal(dg_run_step(run, t->d), 0);
    assert_int_equal(dg_run_step_number(run), 1);
    assert_int_equal(dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bias", after, 2, t->d), 0);
    assert_int_equal(dg_run_get(run, DG_RUN_GRADIENTS, "net.score.bias", gradient, 2, t->d), 0);
    assert_int_equal(dg_run_get(run, DG_RUN_MOMENT1, "net.score.bias", moment, 2, t->d), 0);
    assert_true(fabs(read_one(t, run, "loss.total") - read_one(t, run, "loss.loss_class") -
                     read_one(t, run, "loss.loss_box")) < 1e-12);
    norm = read_one(t, run, "grad_norm");
    clip = norm > 1 ? 1 / (norm + 1e-6) : 1;
    for (int i = 0; i < 2; i++) {
        double c = gradient[i] * clip, decayed = before[i] * (1 - 1e-3 * 1e-4);

        assert_true(fabs(after[i] - (decayed - 1e-3 * c / (fabs(c) + 1e-8))) < 1e-12);
        assert_true(fabs(moment[i] - 0.1 * c) < 1e-12);
    }
    dg_run_close(&run);
}

static void draws_and_names(void **state)
{
    toy *t = *state;
    const dg_run_options o = { .feed_draws = true, .keep_named = true };
    dg_run *run = open_with(t, o);
    double zero[BATCH * 4] = { 0 }, one[BATCH * 4], shaken, still, *logits;
    const char *draw = NULL;
    int64_t n = 0;

    assert_non_null(run);
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    for (int i = 0; i < dg_run_n_inputs(run); i++)
        if (strstr(dg_run_input_at(run, i).name, "shake"))
            draw = dg_run_input_at(run, i).name;
    assert_non_null(draw);
    for (int i = 0; i < BATCH * 4; i++)
        one[i] = 1;
    feed(t, run);
    assert_int_equal(dg_run_feed(run, draw, zero, BATCH * 4, t->d), 0);
    assert_int_equal(dg_run_step(run, t->d), 0);
    still = read_one(t, run, "loss.loss_box");
    dg_run_close(&run);
    run = open_with(t, o);
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    feed(t, run);
    assert_int_equal(dg_run_feed(run, "train/loss/shake", one, BATCH * 4, t->d), 0);
    assert_int_equal(dg_run_step(run, t->d), 0);
    shaken = read_one(t, run, "loss.loss_box");
    assert_true(fabs(shaken - still) > 1e-3);
    for (int i = 0; i < dg_run_n_values(run); i++)
        if (strcmp(dg_run_value_at(run, i).name, "logits") == 0)
            n = dg_shape_elements(dg_run_value_at(run, i).shape);
    assert_int_equal(n, BATCH * 16 * 16 * 2);
    logits = calloc((size_t)n, sizeof *logits);
    assert_int_equal(dg_run_read(run, "logits", logits, n, t->d), 0);
    assert_true(logits[0] != 0);
    free(logits);
    dg_run_close(&run);
}

static void evaluates(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    double weights[BATCH * 20], averages[BATCH * 20];

    assert_non_null(run);
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    feed(t, run);
    assert_int_equal(dg_run_step(run, t->d), 0);
    assert_int_equal(dg_run_forward(run, false, t->d), -DG_EINPUT);
    check_only(t->d, "run-training");
    assert_int_equal(dg_run_select(run, "evaluate", SIDE, SIDE, t->d), 0);
    assert_int_equal(dg_run_step(run, t->d), -DG_EINPUT);
    check_only(t->d, "run-not-training");
    feed(t, run);
    assert_int_equal(dg_run_forward(run, false, t->d), 0);
    assert_int_equal(dg_run_read(run, "coco.in.scores", weights, BATCH * 20, t->d), 0);
    assert_int_equal(dg_run_forward(run, true, t->d), 0);
    assert_int_equal(dg_run_read(run, "coco.in.scores", averages, BATCH * 20, t->d), 0);
    assert_true(weights[0] != averages[0]);
    assert_int_equal(dg_run_reset_ema(run, t->d), 0);
    assert_int_equal(dg_run_forward(run, true, t->d), 0);
    assert_int_equal(dg_run_read(run, "coco.in.scores", averages, BATCH * 20, t->d), 0);
    assert_memory_equal(weights, averages, sizeof weights);
    dg_run_close(&run);
}

/* Operands are bound to memory when they come to be or the memory moves, not at every batch. */
static void is_bound_once(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    const dg_programs *g;
    double first[BATCH * 20], moved[BATCH * 20];

    assert_non_null(run);
    g = dg_run_programs(run);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
        feed(t, run);
        assert_int_equal(dg_run_step(run, t->d), 0);
        assert_int_equal(dg_exec_count(g->current->exec).bindings, 1);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dg_run_select(run, "evaluate", SIDE, SIDE, t->d), 0);
        feed(t, run);
        assert_int_equal(dg_run_forward(run, true, t->d), 0);
        assert_int_equal(dg_run_forward(run, true, t->d), 0);
        assert_int_equal(dg_exec_count(g->current->exec).bindings, 2 + 2 * i); /* weights, ema */
    }
    assert_int_equal(dg_run_read(run, "coco.in.scores", first, BATCH * 20, t->d), 0);
    assert_int_equal(dg_run_select(run, "train", 2 * SIDE, 2 * SIDE, t->d), 0); /* needs more */
    assert_int_equal(dg_run_select(run, "evaluate", SIDE, SIDE, t->d), 0);
    feed(t, run);
    assert_int_equal(dg_run_forward(run, true, t->d), 0);
    assert_int_equal(dg_exec_count(g->current->exec).bindings, 6);
    assert_int_equal(dg_run_read(run, "coco.in.scores", moved, BATCH * 20, t->d), 0);
    assert_memory_equal(first, moved, sizeof first);
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    assert_int_equal(dg_exec_count(g->current->exec).bindings, 2);
    dg_run_close(&run);
}

/* On a late device batches land while the one before is computed: the same bits. */
static void sends_batches_ahead(void **state)
{
    static const char *const devices[] = { "cpu", "far", "far:seed=1", "far:eager" };
    const dg_run_train_options o = { .size = sizeof o };
    double bias[2], first[2] = { 0 };
    toy *t = *state;

    for (int i = 0; i < 4; i++) {
        const dg_run_options how = { .size = sizeof how,
                                     .file = "toy.xml",
                                     .text = toy_pipeline(t->arena, (toy_text){ 0 }),
                                     .threads = 1,
                                     .classes = toy_classes,
                                     .device = devices[i] };
        const dg_compiled *c;
        dg_run *run;

        assert_int_equal(dg_run_open(&run, &how, t->d), 0);
        assert_int_equal(dg_run_train(run, &o, t->d), 0);
        assert_int_equal(dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bias", bias, 2, t->d), 0);
        c = dg_programs_of(dg_run_programs(run), dg_run_pipeline(run)->graph->train);
        assert_true((dg_exec_count(c->exec).ahead > 0) == (i > 0));
        if (i == 0)
            memcpy(first, bias, sizeof first);
        assert_memory_equal(bias, first, sizeof first);
        dg_run_close(&run);
    }
}

static void saves_and_loads(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    double w[2] = { 3, 4 }, got[2];

    assert_non_null(run);
    assert_int_equal(dg_run_set(run, DG_RUN_WEIGHTS, "net.score.bias", w, 2, t->d), 0);
    assert_int_equal(dg_run_save(run, DG_RUN_WEIGHTS, toy_path(t, "x.safetensors"), t->d), 0);
    assert_int_equal(dg_run_save(run, DG_RUN_GRADIENTS, toy_path(t, "x.safetensors"), t->d),
                     -DG_EINPUT);
    check_only(t->d, "save-space");
    w[0] = 5;
    assert_int_equal(dg_run_set(run, DG_RUN_WEIGHTS, "net.score.bias", w, 2, t->d), 0);
    assert_int_equal(dg_run_load(run, toy_path(t, "x.safetensors"), t->d), 0);
    assert_int_equal(dg_run_get(run, DG_RUN_EMA, "net.score.bias", got, 2, t->d), 0);
    assert_true(got[0] == 3 && got[1] == 4);
    dg_run_close(&run);
}

static void asked_for_what_is_not_there(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    double v[8];

    assert_non_null(run);
    assert_int_equal(dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bais", v, 2, t->d), -DG_EINPUT);
    check_only(t->d, "parameter-unknown");
    assert_int_equal(dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bias", v, 3, t->d), -DG_EINPUT);
    check_only(t->d, "parameter-size");
    assert_int_equal(dg_run_get(run, DG_RUN_GRADIENTS, "net.norm.running_mean", v, 8, t->d),
                     -DG_EINPUT);
    check_only(t->d, "parameter-space");
    assert_int_equal(dg_run_step(run, t->d), -DG_EINPUT);
    check_only(t->d, "run-not-selected");
    assert_int_equal(dg_run_select(run, "test", SIDE, SIDE, t->d), -DG_EINPUT);
    check_only(t->d, "scope-unknown");
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.image", v, 2, t->d), -DG_EINPUT);
    check_only(t->d, "feed-unknown");
    assert_int_equal(dg_run_feed(run, "b.images", v, 2, t->d), -DG_EINPUT);
    check_only(t->d, "feed-size");
    assert_int_equal(dg_run_read(run, "loss", v, 2, t->d), -DG_EINPUT);
    check_only(t->d, "read-unknown");
    assert_int_equal(dg_run_read(run, "loss.total", v, 2, t->d), -DG_EINPUT);
    check_only(t->d, "read-size");
    dg_run_close(&run);
}

static void will_not_open(void **state)
{
    static const char *const bad_set[] = { "lr" };
    toy *t = *state;

    assert_null(open_with(t, (dg_run_options){ .precision = "f16" }));
    check_only(t->d, "precision-unknown");
    assert_null(open_with(t, (dg_run_options){ .debug = "nan,poisson" }));
    check_only(t->d, "debug-unknown");
    assert_null(open_with(t, (dg_run_options){ .n_sets = 1, .sets = bad_set }));
    check_only(t->d, "set-form");
    assert_null(open_with(t, (dg_run_options){ .text = "<pipeline version=\"1\" name=\"x\"/>" }));
    check_only(t->d, "pipeline-empty");
}

/* Parts of runs that a pipeline lacks. */
static void half_pipelines(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ 0 });
    char *only_train = dg_strdup(t->arena, text), *evaluate = strstr(only_train, "  <evaluate");
    char *few = dg_strdup(t->arena, text), *from_weights;
    dg_run *run;

    strcpy(evaluate, "</pipeline>\n");
    run = open_with(t, (dg_run_options){ .text = only_train });
    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    assert_int_equal(dg_run_evaluate(run, NULL, false, NULL, NULL, t->d), -DG_EINPUT);
    check_only(t->d, "pipeline-without-evaluate");
    dg_run_close(&run);

    evaluate = strstr(only_train = dg_strdup(t->arena, text), "  <train");
    char *end = strstr(only_train, "</train>") + strlen("</train>");

    memmove(evaluate, end, strlen(end) + 1);
    from_weights = strstr(only_train, " weights=\"@ema\"");
    memset(from_weights, ' ', strlen(" weights=\"@ema\""));
    run = open_with(t, (dg_run_options){ .text = only_train });
    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    assert_int_equal(dg_run_train(run,
                                  &(dg_run_train_options){ .size = sizeof(dg_run_train_options) },
                                  t->d),
                     -DG_EINPUT);
    check_only(t->d, "pipeline-without-train");
    dg_run_close(&run);

    memcpy(strstr(few, "<sampler.bucket"), "<sampler.nobody", 15);
    run = open_with(t, (dg_run_options){ .text = few });
    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    assert_int_equal(dg_run_train(run,
                                  &(dg_run_train_options){ .size = sizeof(dg_run_train_options) },
                                  t->d),
                     -DG_EINPUT);
    check_only(t->d, "epoch-empty");
    dg_run_close(&run);
}

static const char head[] = "<pipeline version=\"1\" name=\"x\">";

static void scopes_without_parts(void **state)
{
    toy *t = *state;
    dg_run *run =
        open_with(t, (dg_run_options){
                         .text = dg_printf(t->arena, "%s<train steps=\"1\"/></pipeline>", head) });

    assert_null(run);
    check_only(t->d, "scope-without-data");
}

/* ---- predict --------------------------------------------------------------------------------- */

static void check_found(const dg_detected *f)
{
    assert_int_equal(f->image->w, 64);
    assert_true(f->n > 0 && f->n <= 20);
    for (int i = 1; i < f->n; i++)
        assert_true(f->items[i].score <= f->items[i - 1].score);
}

static void predicts(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    dg_scratch *s = dg_scratch_open(0);
    dg_image im;
    const char *paths[5];
    char *blind = dg_strdup(t->arena, toy_pipeline(t->arena, (toy_text){ 0 })), *from;
    const dg_detected *found;
    dg_detector *detector;
    int n;

    assert_int_equal(dg_image_new(&im, s, 64, 48, t->d), 0);
    for (int i = 0; i < 5; i++) {
        paths[i] = toy_path(t, dg_printf(t->arena, "%d.png", i));
        assert_int_equal(dg_image_write(paths[i], &im, t->d), 0);
    }
    assert_non_null(run);
    assert_int_equal(dg_detector_on(&detector, run, t->d), 0);
    assert_string_equal(dg_detector_classes(detector, &n)[0].name, "disc");
    paths[1] = toy_path(t, "none.png"); /* leaves the batch as it was */
    for (int batch = 0; batch < 2; batch++) {
        assert_int_equal(dg_detector_room(detector), BATCH);
        for (int i = 0; i < 3 - batch; i++)
            if (strstr(paths[i], "none")) {
                assert_int_equal(dg_detector_add_file(detector, paths[i], t->d), -DG_EIO);
                check_only(t->d, "file-open");
            } else {
                assert_int_equal(dg_detector_add_file(detector, paths[i], t->d), 0);
            }
        assert_int_equal(dg_detector_room(detector), BATCH - 2 + batch);
        assert_int_equal(dg_detector_run(detector, 0, &found, &n, t->d), 0);
        assert_int_equal(n, 2 - batch);
        for (int i = 0; i < n; i++)
            check_found(&found[i]);
        assert_string_equal(found[n - 1].name, paths[batch ? 0 : 2]);
    }
    assert_int_equal(dg_detector_run(detector, 0, &found, &n, t->d), 0); /* nothing was added */
    assert_int_equal(n, 0);
    dg_detector_close(&detector);
    dg_run_close(&run);

    from = strstr(blind, "    <evaluate.coco");
    memset(from, ' ', (size_t)(strchr(from, '>') + 1 - from));
    run = open_with(t, (dg_run_options){ .text = blind });
    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    assert_int_equal(dg_detector_on(&detector, run, t->d), 0);
    assert_int_equal(dg_detector_add_file(detector, paths[0], t->d), 0);
    assert_int_equal(dg_detector_run(detector, 0, &found, &n, t->d), -DG_EINPUT);
    assert_int_equal(n, 0);
    check_only(t->d, "predict-no-detections");
    dg_detector_close(&detector);
    dg_run_close(&run);
    dg_scratch_close(&s);
}

/* ---- what a run will take -------------------------------------------------------------------- */

static int n_slow;

static int run_slowly(const dg_args *a)
{
    const struct timespec most = { 0, 310000000 }; /* more than all probes may take */

    (void)a;
    n_slow++;
    nanosleep(&most, NULL);
    return 0;
}

/* A kernel that takes all the time there is runs once. */
static void probe_slowly(toy *t, const dg_plan *plan, dg_backend *backend)
{
    static const dg_kernel slow = { .run = run_slowly };
    dg_plan other = *plan;
    dg_speed r;

    other.instrs = DG_NEW_N(t->arena, plan->program->instrs.n, dg_plan_instr);
    for (int i = 0; i < plan->program->instrs.n; i++) {
        other.instrs[i] = plan->instrs[i];
        other.instrs[i].kernel = plan->instrs[i].kernel ? &slow : NULL;
    }
    n_slow = 0;
    assert_true(dg_speed_measure(&r, &other, backend));
    assert_int_equal(n_slow, 1);
    assert_true(r.flops > 0);
}

static void estimates(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    const dg_speed slow = { 1e6, 1e6 }, fast = { 2e6, 2e6 }, free_bytes = { 1e6, 1e300 };
    const dg_programs *g;
    const dg_plan *plan;
    bool probed;
    dg_speed r;

    assert_non_null(run);
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    g = dg_run_programs(run);
    plan = g->current->plan;
    for (int s = DG_SEG_BATCH; s < DG_N_SEGMENTS; s++) {
        const double all = dg_speed_seconds(&slow, plan, (dg_segment)s);

        assert_true(all > 0);
        assert_true(fabs(all / dg_speed_seconds(&fast, plan, (dg_segment)s) - 2) < 1e-9);
    }
    /* products are a batch's, not its update's */
    assert_true(dg_speed_seconds(&free_bytes, plan, DG_SEG_BATCH) > 1e-6);
    assert_true(dg_speed_seconds(&free_bytes, plan, DG_SEG_UPDATE) < 1e-9);
    probed = g->conf.backend->immediate;
    assert_int_equal(dg_speed_measure(&r, plan, g->conf.backend), probed);
    assert_int_equal(r.flops > 0 && r.bytes > 0, probed);
    if (probed)
        probe_slowly(t, plan, g->conf.backend);
    dg_run_close(&run);
}

/* Before its first step a run says how long it will take, and how much memory. */
static void says_what_it_will_take(void **state)
{
    toy *t = *state;
    dg_run *run = open_with(t, (dg_run_options){ 0 });
    const bool probed = run && dg_run_programs(run)->conf.backend->immediate;
    const char *said, *step;

    dg_run_close(&run);
    assert_int_equal(toy_train(t, toy_pipeline(t->arena, (toy_text){ 0 }),
                               (dg_run_train_options){ .steps = 2 }),
                     0);
    said = strstr(t->log.s, "of memory for parameters and a batch");
    step = strstr(t->log.s, " steps in all");
    assert_non_null(said);
    assert_true(step && step < said);
    assert_int_equal(strstr(t->log.s, " by a short probe, ") != NULL, probed);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_step),
        TEST(draws_and_names),
        TEST(evaluates),
        TEST(is_bound_once),
        TEST(sends_batches_ahead),
        TEST(saves_and_loads),
        TEST(asked_for_what_is_not_there),
        TEST(will_not_open),
        TEST(half_pipelines),
        TEST(scopes_without_parts),
        TEST(predicts),
        TEST(estimates),
        TEST(says_what_it_will_take),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
