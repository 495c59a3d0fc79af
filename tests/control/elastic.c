/* elastic.c: which machines continue after a loss, and with which ranks. */
#include "tests/control/judge_rig.h"

#include "control/elastic.h"

static void has_seat(const dg_elastic *m, int node, dg_seat want)
{
    dg_seat s = dg_elastic_seat(m, node);

    assert_int_equal(s.first, want.first);
    assert_int_equal(s.ranks, want.ranks);
    assert_int_equal(s.all, want.all);
    assert_int_equal(s.machines, want.machines);
}

/* Two machines with two ranks each: the first loses a rank; then it loses its other one, and the
 * second machine does not join. */
static void test_muster(void **state)
{
    fixture *f = *state;
    dg_arena *a = dg_arena_open();
    dg_elastic m;

    dg_elastic_open(&m, a, 2, 2);
    has_seat(&m, 1, (dg_seat){ 2, 2, 4, 2 });
    begin(f, 4);
    dg_judge_gone(f->r, 1, 9, 0.1);
    dg_elastic_reopen(&m, 1, f->r);
    assert_false(dg_elastic_complete(&m));
    dg_elastic_join(&m, 1);
    dg_elastic_join(&m, 7);
    assert_true(dg_elastic_complete(&m));
    dg_elastic_close(&m);
    has_seat(&m, 0, (dg_seat){ 0, 1, 3, 2 });
    has_seat(&m, 1, (dg_seat){ 1, 2, 3, 2 });
    dg_judge_close(&f->r);

    begin(f, 3);
    dg_judge_gone(f->r, 0, 9, 0.1); /* the first machine loses its last rank; it keeps one seat */
    dg_elastic_reopen(&m, 2, f->r);
    dg_elastic_close(&m); /* the other machine has not joined */
    dg_elastic_join(&m, 1);
    has_seat(&m, 0, (dg_seat){ 0, 1, 1, 1 });
    has_seat(&m, 1, (dg_seat){ 1, 0, 1, 1 }); /* joined too late */
    has_seat(&m, 2, (dg_seat){ 0 });
    dg_arena_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_muster, roster_set_up, roster_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
