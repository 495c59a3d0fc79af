/* supply: numbers from outside the graph, and a run that they end. */
#include "tests/check.h"

#include <string.h>

#include <detrgraph/run.h>

#include "nodes/builtin.h"

static double supply(const dg_node_class *c, const void *conf, int rank, uint64_t seed)
{
    dg_supply_args a = {
        .clock = { .step = 3, .epoch = 2 }, .rank = rank, .seconds = 1.5, .free_bytes = 7
    };

    a.shared = dg_draw_begin(seed, "n", 3);
    a.own = dg_draw_begin(seed, rank ? "n/1" : "n/0", 3);
    return c->supply(conf, &a);
}

static void values(void **state)
{
    struct {
        double low, high;
        int64_t seed;
    } draw = { 2, 3, 0 }; /* as in nodes/control/source.c */
    struct {
        const char *path;
    } there = { "/" }, gone = { "/no/such/file" };

    (void)state;
    assert_true(supply(&dg_node_source_step, NULL, 1, 5) == 3 &&
                supply(&dg_node_source_epoch, NULL, 1, 5) == 2);
    assert_true(supply(&dg_node_source_rank, NULL, 1, 5) == 1 &&
                supply(&dg_node_source_clock, NULL, 1, 5) == 1.5);
    assert_true(supply(&dg_node_source_memory, NULL, 1, 5) == 7);
    assert_true(supply(&dg_node_source_file, &there, 0, 5) == 1 &&
                supply(&dg_node_source_file, &gone, 0, 5) == 0);
    for (draw.seed = 0; draw.seed < 2; draw.seed++) {
        double a = supply(&dg_node_source_random, &draw, 0, 5),
               b = supply(&dg_node_source_random, &draw, 1, 5);

        assert_true(a >= 2 && a < 3 && b >= 2 && b < 3);
        assert_true((a < b || a > b) == (draw.seed == 0)); /* each rank's own, or the same */
    }
}

static const char text[] =
    "<pipeline version='1' seed='5'><mesh dp='1'/><model id='net'><input id='images'/>"
    "<layer.linear id='l' in='@images' width='2'/></model><train steps='40'>"
    "<loader.synthetic id='data' images='8' width='32' height='32'/>"
    "<sampler.plain id='pick' in='@data' batch='2' size='32' tail='drop' axis='dp'/>"
    "<batch id='b' in='@pick'/><use id='out' model='net' images='@b.images'/><loss.mean id='loss' "
    "in='@out'/>"
    "<backward id='grad' loss='@loss'/><allreduce id='sync' in='@grad' axis='dp'/>"
    "<optimizer.adamw id='opt' gradients='@sync'/>"
    "<source.step id='n'/><test id='late' in='@n' is='above' than='3'/><stop "
    "when='@late'/></train></pipeline>";

/* Steps 0 to 4: the one in which the number is above 3 is the last. */
static void ends_a_run(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_run *run;
    dg_run_options o = { .size = sizeof o, .file = "t.xml", .text = text, .threads = 1 };
    dg_run_train_options t = { .size = sizeof t };

    (void)state;
    if (dg_run_open(&run, &o, d) < 0)
        fail_msg("%s", dg_diag_text(d));
    (void)!dg_run_train(run, &t, d);
    assert_int_equal(dg_run_step_number(run), 5);
    dg_run_close(&run);
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(ends_a_run) };

    return cmocka_run_group_tests_name("supply", tests, NULL, NULL);
}
