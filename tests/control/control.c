/* control.c: the control plane over real sockets: a coordinator and the links of several ranks, all
 * threads of this program. */
#include "tests/control/control_rig.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- ranks as threads ------------------------------------------------------------------------ */

typedef struct actor {
    fixture *f;
    int rank, steps, stopped_at, saved_at;
    int fail_at; /* reports an error before this batch; 0: never */
    int odd_at;  /* reports a different digest at this batch */
    const char *precision;
    double lr; /* in the last batch */
    int rc;
    double over_s; /* when it received the run's end, in seconds */
    atomic_int told, saves;
} actor;

static void on_over(void *ctx)
{
    actor *x = ctx;

    x->over_s = dg_monotonic_s();
    atomic_fetch_add(&x->told, 1);
}

static int act(actor *x, dg_link *l, dg_diag *d)
{
    const dg_row rows[] = { { DG_ROW_SAME, "precision", x->precision ? x->precision : "f32" } };
    const dg_rows facts = { 1, rows };
    int rc;

    x->stopped_at = x->saved_at = -1;
    DG_TRY(dg_link_meet(l, &facts, d));
    for (int b = 0; b < x->steps; b++) {
        dg_word w = { .step = b,
                      .batch = b,
                      .n_in_epoch = x->steps,
                      .schedule = b == x->odd_at && b ? 7 : 1,
                      .saved = -1 };
        dg_orders o;

        if (x->fail_at && b == x->fail_at)
            return dg_fail(d, DG_EINPUT, (dg_where){ "p.xml", 31, 5, "train/crop" }, "image-read",
                           "it cannot be read");
        DG_TRY(dg_link_begin(l, &w, d));
        x->lr = dg_link_lr(l);
        DG_TRY(dg_link_orders(l, &o, d));
        if (o.save) {
            x->saved_at = b;
            atomic_fetch_add(&x->saves, 1);
        }
        if (o.stop) {
            x->stopped_at = b;
            break;
        }
        if (x->steps > 1000)
            usleep(500);
    }
out:
    return rc;
}

static void *run_actor(void *ctx)
{
    actor *x = ctx;
    dg_diag *d = dg_diag_open();
    dg_link *l;

    x->rc = dg_link_open(&l,
                         &(dg_link_conf){ .ticket = &x->f->ticket,
                                          .rank = (uint32_t)x->rank,
                                          .on_over = on_over,
                                          .ctx = x },
                         d);
    if (x->rc == 0) {
        if (x->rank == 0)
            dg_link_folder(l, x->f->folder);
        x->rc = act(x, l, d);
        if (x->rc < 0 && x->rc != -DG_ESTOP)
            dg_link_fail(l, d, x->rc);
        dg_link_bye(l);
    }
    dg_link_close(&l);
    dg_diag_close(&d);
    return NULL;
}

static void start(pthread_t *threads, actor *x, fixture *f, int steps)
{
    for (int i = 0; i < RANKS; i++) {
        x[i].f = f;
        x[i].rank = i;
        x[i].steps = steps;
        pthread_create(&threads[i], NULL, run_actor, &x[i]);
    }
}

static void join(pthread_t *threads)
{
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

static void test_whole_run(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { 0 };
    pthread_t t[RANKS];

    start(t, x, f, 200);
    join(t);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(x[i].rc, 0);
    for (int i = 0; i < PATIENCE && look(f).left < RANKS; i++)
        usleep(10000);
    assert_int_equal(look(f).left, RANKS);
    assert_int_equal(look(f).over, DG_OVER_NO);
    assert_string_equal(look(f).folder, f->folder);
}

/* All ranks take an order after the same batch. */
static void test_orders(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { 0 };
    pthread_t t[RANKS];

    start(t, x, f, 100000);
    for (int i = 0; i < PATIENCE && !*look(f).folder; i++)
        usleep(10000);
    dg_coordinator_ask(f->c, "set", "lr=0.5");
    dg_coordinator_ask(f->c, "save", "");
    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < PATIENCE && !atomic_load(&x[i].saves); k++)
            usleep(10000);
    dg_coordinator_ask(f->c, "stop", "");
    join(t);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(x[i].rc, 0);
        assert_true(x[i].stopped_at > x[i].saved_at && x[i].saved_at >= 0);
        assert_int_equal(x[i].stopped_at, x[0].stopped_at);
        assert_int_equal(x[i].saved_at, x[0].saved_at);
        assert_true(x[i].lr == 0.5);
    }
}

/* The next attempt repeats, at the original rate, the batches before the learning rate was set. */
static void test_rate_next_attempt(void **state)
{
    fixture *f = *state;
    dg_link *l;
    dg_state s = { 0 };
    char reason[64];

    f->ticket.ranks = 1;
    dg_coordinator_begin(f->c, 1, 1);
    dg_coordinator_ask(f->c, "set", "lr=0.5");
    dg_coordinator_begin(f->c, 1, 2);
    assert_int_equal(dg_link_open(&l, &(dg_link_conf){ .ticket = &f->ticket, .attempt = 2 }, f->d),
                     0);
    for (int i = 0; i < PATIENCE && !dg_link_state(l, &s, reason, sizeof reason); i++)
        usleep(10000);
    assert_int_equal(s.rates.n, 1);
    assert_true(dg_rates_at(&s.rates, 1) == 0.5);
    assert_true(dg_rates_at(&s.rates, 0) == 0);
    dg_link_close(&l);
}

/* A launcher that waits for a seat learns that the run was stopped, and keeps its former seat. */
static void test_no_seat(void **state)
{
    fixture *f = *state;
    dg_link *l;
    dg_state s = { 0 };
    dg_seat seat = { 1, 1, 2, 2 };
    char reason[64];

    dg_coordinator_reopen(f->c, 1);
    assert_int_equal(dg_link_open(&l,
                                  &(dg_link_conf){ .ticket = &f->ticket,
                                                   .rank = 1,
                                                   .attempt = 1,
                                                   .launcher = true },
                                  f->d),
                     0);
    for (int i = 0; i < PATIENCE && !dg_coordinator_gathered(f->c); i++) {
        assert_false(dg_link_join(l, 1, &seat));
        usleep(10000);
    }
    assert_true(dg_coordinator_gathered(f->c));
    dg_coordinator_begin(f->c, 1, 1);
    dg_coordinator_end(f->c, "it was asked to stop at once");
    for (int i = 0; i < PATIENCE && !s.over; i++) {
        (void)dg_link_state(l, &s, reason, sizeof reason);
        usleep(10000);
    }
    assert_int_equal(s.over, DG_OVER_AT_ONCE);
    assert_string_equal(reason, "it was asked to stop at once");
    assert_false(dg_link_join(l, 1, &seat));
    assert_int_equal(seat.first, 1);
    assert_int_equal(seat.ranks, 1);
    assert_int_equal(seat.all, 2);
    dg_link_close(&l);
}

static void test_error(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { { .fail_at = 0 }, { .fail_at = 40 } };
    pthread_t t[RANKS];

    start(t, x, f, 100000);
    join(t);
    failed_with(f, "image-read", "rank 1 of 3: it cannot be read");
    assert_int_equal(x[0].rc, -DG_ESTOP);
    assert_int_equal(x[2].rc, -DG_ESTOP);
    assert_int_equal(atomic_load(&x[0].told), 1);
}

static void test_odd_word(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { { .odd_at = 0 }, { .odd_at = 0 }, { .odd_at = 60 } };
    pthread_t t[RANKS];

    start(t, x, f, 100000);
    join(t);
    failed_with(f, "words-differ", "rank 2 (");
}

static void test_digest(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { { .precision = "f32" }, { .precision = "bf16" }, { .precision = "f32" } };
    pthread_t t[RANKS];

    start(t, x, f, 10);
    join(t);
    failed_with(f, "DG-DIGEST", "precision: rank 1 (");
    assert_int_equal(x[2].rc, -DG_ESTOP);
}

/* A run that is ended by hand ends for every rank. */
static void test_end(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { 0 };
    pthread_t t[RANKS];
    double asked;

    start(t, x, f, 100000);
    usleep(300000);
    asked = dg_monotonic_s();
    dg_coordinator_end(f->c, "asked twice to stop");
    join(t);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(x[i].rc, -DG_ESTOP);
        assert_true(x[i].over_s >= asked);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_run, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_orders, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_rate_next_attempt, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_no_seat, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_error, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_odd_word, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_digest, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_end, control_set_up, control_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
