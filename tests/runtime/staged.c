/* staged: each op of a training and an evaluation in turn is one that the device lacks, and all at
 * once are. The host runs them, with the same bits. */
#include "tests/train/toy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/programs.h"
#include "tensor/ops.h"

enum { BATCH = 4, SIDE = 32, SLOTS = 4, N_SCORES = BATCH * 20, N_BATCHES = 3 };

static dg_run *open_on(toy *t, const char *device, const char *precision)
{
    const dg_run_options o = {
        .size = sizeof o,
        .file = "toy.xml",
        .text = toy_pipeline(t->arena, (toy_text){ .train = "steps=\"12\" accumulate=\"2\"" }),
        .threads = 1,
        .classes = toy_classes,
        .device = device,
        .precision = precision,
    };
    dg_run *run;

    if (dg_run_open(&run, &o, t->d) < 0)
        fail_msg("%s", dg_diag_text(t->d));
    return run;
}

static void feed(toy *t, dg_run *run, int batch)
{
    static double images[BATCH * SIDE * SIDE * 3], boxes[BATCH * SLOTS * 4];
    static int32_t labels[BATCH * SLOTS], count[BATCH] = { 1, 0, 2, 3 };

    for (int i = 0; i < BATCH * SIDE * SIDE * 3; i++)
        images[i] = 0.5 + 0.5 * sin(i * 0.37 + batch);
    for (int i = 0; i < BATCH * SLOTS * 4; i++)
        boxes[i] = 0.25 + 0.02 * (i % 7);
    assert_int_equal(dg_run_feed(run, "b.images", images, BATCH * SIDE * SIDE * 3, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.targets.boxes", boxes, BATCH * SLOTS * 4, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.targets.labels", labels, BATCH * SLOTS, t->d), 0);
    assert_int_equal(dg_run_feed(run, "b.targets.count", count, BATCH, t->d), 0);
}

/* Weights, averages and scores. */
typedef struct outcome {
    double x[3000];
    int64_t n;
} outcome;

static void read_space(toy *t, dg_run *run, dg_run_space space, outcome *o)
{
    for (int i = 0; i < dg_run_n_params(run); i++) {
        dg_run_param p = dg_run_param_at(run, i);
        int64_t n = dg_shape_elements(p.shape);

        assert_true(o->n + n + N_SCORES < (int64_t)(sizeof o->x / sizeof o->x[0]));
        assert_int_equal(dg_run_get(run, space, p.name, o->x + o->n, n, t->d), 0);
        o->n += n;
    }
}

static void mark_ops(bool used[DG_N_OPS], const dg_plan *plan)
{
    for (int i = 0; i < plan->program->instrs.n; i++)
        if (plan->instrs[i].kernel)
            used[plan->program->instrs.items[i].op - dg_ops] = true;
}

/* used: the ops whose kernels run; lacking: what the log is to say. */
static void run_on(toy *t, const char *device, const char *precision, const char *lacking,
                   bool used[DG_N_OPS], outcome *o)
{
    dg_run *run = open_on(t, device, precision);
    const dg_programs *g = dg_run_programs(run);
    dg_str staged = { 0 };

    *o = (outcome){ 0 };
    assert_int_equal(dg_run_select(run, "train", SIDE, SIDE, t->d), 0);
    for (int i = 0; i < 2 * N_BATCHES; i++) {
        feed(t, run, i);
        if (dg_run_step(run, t->d) < 0)
            fail_msg("%s: %s", device, dg_diag_text(t->d));
    }
    mark_ops(used, g->current->plan);
    dg_plan_staged(&staged, g->current->plan);
    read_space(t, run, DG_RUN_WEIGHTS, o);
    read_space(t, run, DG_RUN_EMA, o);
    assert_int_equal(dg_run_select(run, "evaluate", SIDE, SIDE, t->d), 0);
    feed(t, run, 0);
    if (dg_run_forward(run, true, t->d) < 0)
        fail_msg("%s: %s", device, dg_diag_text(t->d));
    assert_int_equal(dg_run_read(run, "coco.in.scores", o->x + o->n, N_SCORES, t->d), 0);
    o->n += N_SCORES;
    mark_ops(used, g->current->plan);
    dg_plan_staged(&staged, g->current->plan);
    assert_true(lacking ? staged.n && strstr(staged.s, lacking) : staged.n == 0);
    dg_str_free(&staged);
    dg_run_close(&run);
}

static void compare(toy *t, const char *precision)
{
    bool used[DG_N_OPS] = { false }, ignored[DG_N_OPS];
    outcome *host = malloc(sizeof *host), *far = malloc(sizeof *far);
    int n = 0;

    run_on(t, "cpu", precision, NULL, used, host);
    for (int i = 0; i < DG_N_OPS; i++) {
        if (!used[i])
            continue;
        run_on(t, dg_printf(t->arena, "far:lacks=%s", dg_ops[i].name), precision, dg_ops[i].name,
               ignored, far);
        if (far->n != host->n || memcmp(far->x, host->x, (size_t)host->n * sizeof *host->x) != 0)
            fail_msg("%s: other bits than on the host", dg_ops[i].name);
        n++;
    }
    run_on(t, "far:lacks=all", precision, "conv2d", ignored, far);
    assert_memory_equal(far->x, host->x, (size_t)host->n * sizeof *host->x);
    assert_true(n > 20);
    free(far);
    free(host);
}

static void every_op_in_turn(void **state)
{
    compare(*state, "f32");
    compare(*state, "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_op_in_turn, toy_set_up, toy_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
