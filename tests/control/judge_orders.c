/* judge_orders.c: what people ask of the coordinator, and how a learning rate that was set goes on.
 */
#include "tests/control/judge_rig.h"

#include <math.h>
#include <string.h>

#include "control/facts.h"

static bool ask(fixture *f, const char *verb, const char *text, const char *answer)
{
    dg_str s = { 0 };
    bool done = dg_judge_ask(f->r, verb, text, &s, 1);

    if (!strstr(s.s ? s.s : "", answer))
        fail_msg("%s: %s", verb, s.s ? s.s : "");
    dg_str_free(&s);
    return done;
}

static void test_orders(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 0, 0, 1, 0);
    word(f, 1, 0, 1, 0);
    word(f, 0, 1, 1, 0);
    assert_true(ask(f, "save", "", "saving after batch 2"));
    /* rank 1 may have ended batch 0, and learns of the order before it ends batch 1 */
    assert_int_equal(state_of(f)->save_after, 1);
    assert_true(ask(f, "set", "lr=1e-3", "learning rate 0.001 from batch 3 on"));
    assert_true(dg_rates_at(&state_of(f)->rates, 2) == 1e-3 &&
                dg_rates_at(&state_of(f)->rates, 1) == 0);
    assert_false(ask(f, "set", "lr=1e-4", "has not taken effect yet"));
    word(f, 1, 1, 1, 0);
    word(f, 0, 2, 1, 0);
    word(f, 1, 2, 1, 0);
    assert_true(ask(f, "set", "lr=1e-4", "from batch 5 on"));
    assert_true(dg_rates_at(&state_of(f)->rates, 3) == 1e-3 &&
                dg_rates_at(&state_of(f)->rates, 4) == 1e-4);
    assert_true(ask(f, "save", "", "saving after batch 4"));
    assert_true(ask(f, "save", "", "saving after batch 4")); /* the pending one is repeated */
    assert_true(ask(f, "stop", "", "stopping after batch 4"));
    word(f, 0, 3, 1, 0);
    word(f, 1, 3, 1, 0);
    assert_true(ask(f, "stop", "", "stopping after batch 4")); /* a stop is not revised */
    assert_true(ask(f, "status", "", "2 ranks, stopping"));
    assert_false(ask(f, "set", "lr=-1", "a learning rate above 0"));
    assert_false(ask(f, "set", "lr=1e30", "above 0 and up to 10"));
    assert_false(ask(f, "set", "lr=nan", "above 0 and up to 10"));
    assert_false(ask(f, "set", "lr=inf", "a learning rate above 0"));
    assert_false(ask(f, "dance", "", "there is no \"dance\""));
    dg_judge_end(f->r, "asked");
    assert_int_equal(state_of(f)->over, DG_OVER_AT_ONCE);
    assert_false(ask(f, "save", "", "the run is ending"));
}

/* Rates set in an earlier attempt hold from the same batch on, unless a new one is set before. */
static void test_rate_done_again(void **state)
{
    fixture *f = *state;
    const dg_rates earlier = { 3, { { 20, 0.25 }, { 101, 0.5 }, { 120, -1 } } };

    f->r = dg_judge_open(&(dg_judge_conf){ .ranks = 1,
                                           .attempt = 5,
                                           .lost_after_s = 2,
                                           .rates = earlier,
                                           .env = &f->env },
                         0);
    assert_true(dg_rates_at(&state_of(f)->rates, 100) == 0.25 &&
                dg_rates_at(&state_of(f)->rates, 119) == 0.5);
    /* its first batch is not known yet */
    assert_false(ask(f, "set", "lr=0.125", "has not taken effect yet"));
    word(f, 0, 80, 1, 0);
    assert_true(ask(
        f, "status", "",
        "learning rate 0.25, as it was set\nlearning rate 0.5 from batch 102 on, as it was set\n"
        "learning rate of the schedule from batch 121 on"));
    assert_true(ask(f, "set", "lr=0.125", "learning rate 0.125 from batch 83 on"));
    assert_true(dg_rates_at(&state_of(f)->rates, 81) == 0.25 &&
                dg_rates_at(&state_of(f)->rates, 1000) == 0.125);
    assert_false(ask(f, "set", "lr=1", "has not taken effect yet"));
}

static void test_rates_are_many(void **state)
{
    dg_rates r = { 0 };

    (void)state;
    for (int i = 0; i < 2 * DG_RATES_MAX; i++)
        dg_rates_set(&r, 10 * i, i + 1);
    assert_int_equal(r.n, DG_RATES_MAX);
    assert_true(dg_rates_at(&r, 10 * (2 * DG_RATES_MAX - 1)) == 2 * DG_RATES_MAX);
    assert_true(dg_rates_at(&r, 10 * DG_RATES_MAX + 9) == DG_RATES_MAX + 1);
    /* dropped: only the latest are kept */
    assert_true(dg_rates_at(&r, 10 * DG_RATES_MAX - 1) == 0);
    dg_rates_set(&r, 10 * DG_RATES_MAX + 5, 0.5);
    assert_int_equal(r.n, 2);
}

/* A learning rate set by hand survives restarts. */
static void test_rate_kept(void **state)
{
    fixture *f = *state;

    f->r = dg_judge_open(&(dg_judge_conf){ .ranks = 1,
                                           .attempt = 5,
                                           .lost_after_s = 2,
                                           .rates = { 1, { { 0, 0.5 } } },
                                           .env = &f->env },
                         0);
    assert_true(dg_rates_at(&state_of(f)->rates, 0) == 0.5);
    assert_true(ask(f, "status", "", "learning rate 0.5, as it was set"));
}

/* It holds until the schedule's rate is restored; a rate given at resume is reported too. */
static void test_rate_of_schedule(void **state)
{
    fixture *f = *state;
    const dg_row fact = { DG_ROW_SAME, dg_fact_rate, "0.25" };

    begin(f, 1);
    say(f, 0, (dg_message){ .kind = DG_SAY_MEET, .meet = { 2, { 1, &fact } } }, 0);
    assert_true(
        ask(f, "status", "", "learning rate 0.25, as it was set before the run was resumed"));
    assert_true(ask(f, "set", "lr=schedule", "learning rate of the schedule from batch 2 on"));
    assert_true(dg_rates_at(&state_of(f)->rates, 1) < 0);
    assert_true(
        ask(f, "status", "", "learning rate of the schedule from batch 2 on, as it was set"));
    assert_false(ask(f, "set", "lr=scheduled", "or lr=schedule"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_orders, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_rate_done_again, roster_set_up, roster_tear_down),
        cmocka_unit_test(test_rates_are_many),
        cmocka_unit_test_setup_teardown(test_rate_kept, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_rate_of_schedule, roster_set_up, roster_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
