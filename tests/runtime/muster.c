/* Which machines go on after a loss, with which ranks. */
#include "tests/runtime/roster_rig.h"

#include "runtime/muster.h"

static void has_seat(const dg_muster *m, int node, dg_seat want)
{
    dg_seat s = dg_muster_seat(m, node);

    assert_int_equal(s.first, want.first);
    assert_int_equal(s.ranks, want.ranks);
    assert_int_equal(s.all, want.all);
    assert_int_equal(s.machines, want.machines);
}

/* Two machines with two ranks each: the first loses one; then its other one, and the second does not come. */
static void test_muster(void **state)
{
    fixture  *f = *state;
    dg_arena *a = dg_arena_open();
    dg_muster m;

    dg_muster_open(&m, a, 2, 2);
    has_seat(&m, 1, (dg_seat){ 2, 2, 4, 2 });
    begin(f, 4);
    dg_roster_gone(f->r, 1, 9, 0.1);
    dg_muster_call(&m, 1, f->r);
    assert_false(dg_muster_complete(&m));
    dg_muster_come(&m, 1);
    dg_muster_come(&m, 7);
    assert_true(dg_muster_complete(&m));
    dg_muster_close(&m);
    has_seat(&m, 0, (dg_seat){ 0, 1, 3, 2 });
    has_seat(&m, 1, (dg_seat){ 1, 2, 3, 2 });
    dg_roster_close(&f->r);

    begin(f, 3);
    dg_roster_gone(f->r, 0, 9, 0.1); /* the first machine's last one: it keeps one */
    dg_muster_call(&m, 2, f->r);
    dg_muster_close(&m); /* the other one has not come, */
    dg_muster_come(&m, 1);
    has_seat(&m, 0, (dg_seat){ 0, 1, 1, 1 });
    has_seat(&m, 1, (dg_seat){ 1, 0, 1, 1 }); /* and it is too late */
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
