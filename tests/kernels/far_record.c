/* far_record: what is recorded is done at each replay, in its order, with the memory's content of
 * that time; a recording whose launches, events or memory are gone is a fault. */
#include "tests/kernels/far.h"

/* A step: pinned -> x on COPY, y = x + 1 on COMPUTE behind it, the word; `done` at its end. */
typedef struct step {
    far f;
    job j;
    dg_event *begun, *copied, *done;
    dg_recording *r;
} step;

static void step_open(step *s, const char *options)
{
    far *f = &s->f;
    dg_backend *b;

    far_open(f, options);
    b = f->b;
    s->begun = b->event_open(b);
    s->copied = b->event_open(b);
    s->done = b->event_open(b);
    job_set(&s->j, f, f->y, f->x, 1);
    assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->event_record(b, s->begun, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->lane_wait(b, DG_LANE_COPY, s->begun), 0);
    assert_int_equal(b->upload(b, DG_LANE_COPY, f->x, f->pinned, BYTES), 0);
    assert_int_equal(b->event_record(b, s->copied, DG_LANE_COPY), 0);
    assert_int_equal(b->lane_wait(b, DG_LANE_COMPUTE, s->copied), 0);
    assert_int_equal(b->launch(b, DG_LANE_COMPUTE, &s->j.launch), 0);
    assert_int_equal(b->sign(b, DG_LANE_COMPUTE, &f->word, 5), 0);
    assert_int_equal(b->event_record(b, s->done, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->record_end(b, &s->r), 0);
    assert_int_equal(b->event_wait(b, s->done), 0); /* that is no record of now */
    assert_int_equal(b->finish(b), 0);
    assert_int_equal(far_ran(f), 0); /* nor is that work */
}

static void step_close(step *s, const char *why)
{
    dg_backend *b = s->f.b;

    b->recording_close(b, &s->r);
    assert_null(s->r);
    if (s->begun)
        b->event_close(b, &s->begun);
    if (s->copied)
        b->event_close(b, &s->copied);
    b->event_close(b, &s->done);
    far_close(&s->f, why);
}

static void replays_do_the_work_again(void **state)
{
    (void)state;
    for (int seed = 0; seed < 8; seed++) {
        step s;
        char options[24];

        snprintf(options, sizeof options, "seed=%d", seed);
        step_open(&s, options);
        for (int i = 0; i < 3; i++) {
            fill(s.f.pinned, (float)(10 * i));
            s.f.word = 0;
            assert_int_equal(s.f.b->replay(s.f.b, DG_LANE_COMPUTE, s.r), 0);
            if (seed == 0)
                assert_int_equal(far_ran(&s.f), i);
            assert_int_equal(s.f.b->event_wait(s.f.b, s.done), 0);
            assert_int_equal(far_ran(&s.f), i + 1);
            assert_int_equal(s.f.word, 5);
            assert_true(far_read(&s.f, DG_LANE_COMPUTE, s.f.y) == (float)(10 * i + 1));
        }
        step_close(&s, NULL);
    }
}

/* Two replays one behind the other: both read the same pinned memory, which may not change
 * before both have. */
static void a_replay_holds_pinned_memory(void **state)
{
    step s;

    (void)state;
    step_open(&s, "");
    fill(s.f.pinned, 1);
    assert_int_equal(s.f.b->replay(s.f.b, DG_LANE_COMPUTE, s.r), 0);
    fill(s.f.pinned, 2);
    assert_int_equal(s.f.b->replay(s.f.b, DG_LANE_COMPUTE, s.r), 0);
    assert_int_equal(s.f.b->finish(s.f.b), -DG_EINTERNAL);
    step_close(&s, "pinned memory changed");
}

static void a_stale_recording_is_a_fault(void **state)
{
    static const char *const why[] = { NULL,
                                       "recording is stale: a launch",
                                       "recording is stale: a launch",
                                       "recording is stale: an event",
                                       "not in device memory",
                                       "not in pinned memory",
                                       "recording is stale" };

    (void)state;
    for (int what = 0; what < 7; what++) {
        step s;
        dg_backend *b;

        step_open(&s, "");
        b = s.f.b;
        fill(s.f.pinned, 1);
        if (what == 1)
            s.j.t[0].data = s.f.z;
        if (what == 2)
            s.j.args.threads = 2;
        if (what == 3)
            b->event_close(b, &s.copied);
        if (what == 4)
            b->free(b, s.f.x);
        if (what == 5)
            b->free_pinned(b, s.f.pinned);
        assert_int_equal(b->replay(b, DG_LANE_COMPUTE, s.r), what && what < 6 ? -DG_EINTERNAL : 0);
        if (what == 6)
            s.j.t[0].data = s.f.z; /* before it has run */
        assert_int_equal(b->finish(b), what ? -DG_EINTERNAL : 0);
        assert_int_equal(far_ran(&s.f), what ? 0 : 1);
        assert_int_equal(b->fault(b), what == 1 || what == 2 || what == 6 ? 101 : DG_NO_MARK);
        step_close(&s, why[what]);
    }
}

static void some_calls_cannot_be_recorded(void **state)
{
    float heap[N] = { 0 };
    dg_recording *r;
    dg_event *e;
    dg_backend *b;
    far f;

    (void)state;
    far_open(&f, "");
    b = f.b;
    e = b->event_open(b);
    assert_int_equal(b->record_end(b, &r), -DG_EUNSUPPORTED);
    assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), -DG_EUNSUPPORTED);
    assert_int_equal(b->upload(b, DG_LANE_COMPUTE, f.x, heap, BYTES), -DG_EUNSUPPORTED);
    assert_int_equal(b->download(b, DG_LANE_COMPUTE, heap, f.x, BYTES), -DG_EUNSUPPORTED);
    assert_int_equal(b->event_wait(b, e), -DG_EUNSUPPORTED);
    assert_int_equal(b->finish(b), -DG_EUNSUPPORTED);
    /* another lane, which nothing has brought in */
    assert_int_equal(b->clear(b, DG_LANE_COPY, f.x, BYTES), -DG_EUNSUPPORTED);
    assert_int_equal(b->clear(b, DG_LANE_COMPUTE, f.x, BYTES), 0);
    assert_int_equal(b->record_end(b, &r), 0);
    assert_int_equal(b->replay(b, DG_LANE_COMM, r), 0); /* on any lane */
    assert_int_equal(b->finish(b), 0);
    assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->replay(b, DG_LANE_COMPUTE, r), -DG_EUNSUPPORTED);
    b->recording_close(b, &r);
    b->event_close(b, &e);
    far_close(&f, NULL); /* with a recording under way */
}

/* A lane that was brought in has to be waited for, by way of a third one if need be. */
static void lanes_of_a_recording_join(void **state)
{
    (void)state;
    for (int joins = 0; joins < 3; joins++) {
        far f;
        dg_event *e[3];
        dg_recording *r;
        dg_backend *b;

        far_open(&f, "");
        b = f.b;
        for (int i = 0; i < 3; i++)
            e[i] = b->event_open(b);
        assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), 0);
        b->event_record(b, e[0], DG_LANE_COMPUTE);
        b->lane_wait(b, DG_LANE_COPY, e[0]);
        assert_int_equal(b->clear(b, DG_LANE_COPY, f.x, BYTES), 0);
        b->event_record(b, e[1], DG_LANE_COPY);
        b->lane_wait(b, DG_LANE_COMM, e[1]);
        assert_int_equal(b->clear(b, DG_LANE_COMM, f.y, BYTES), 0);
        b->event_record(b, e[2], DG_LANE_COMM);
        if (joins)
            b->lane_wait(b, DG_LANE_COMPUTE, e[joins]);
        assert_int_equal(b->record_end(b, &r), joins == 2 ? 0 : -DG_EUNSUPPORTED);
        if (joins == 2)
            assert_int_equal(b->replay(b, DG_LANE_COPY, r), -DG_EUNSUPPORTED); /* has work of it */
        else
            assert_null(r);
        b->recording_close(b, &r);
        for (int i = 0; i < 3; i++)
            b->event_close(b, &e[i]);
        far_close(&f, NULL);
    }
}

/* An event may be closed before the recording that has it, and the recording before its work has
 * run. */
static void closing_comes_in_any_order(void **state)
{
    step s;
    dg_backend *b;

    (void)state;
    step_open(&s, "");
    b = s.f.b;
    assert_int_equal(b->replay(b, DG_LANE_COMPUTE, s.r), 0);
    b->event_close(b, &s.begun);
    b->event_close(b, &s.copied);
    b->recording_close(b, &s.r);
    assert_int_equal(b->finish(b), 0);
    assert_int_equal(far_ran(&s.f), 1);
    step_close(&s, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_do_the_work_again),
        cmocka_unit_test(a_replay_holds_pinned_memory),
        cmocka_unit_test(a_stale_recording_is_a_fault),
        cmocka_unit_test(some_calls_cannot_be_recorded),
        cmocka_unit_test(lanes_of_a_recording_join),
        cmocka_unit_test(closing_comes_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
