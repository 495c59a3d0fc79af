/* far_faults: what fails on the far device fails late, once, and with its mark; a promise about
 * host memory that is broken is a fault. */
#include "tests/kernels/far.h"

/* ---- kernels that fail ----------------------------------------------------------------------- */

static void a_fault_comes_late_and_drops_the_rest(void **state)
{
    far f;
    job j[5];
    dg_event *e;
    float got[N];

    (void)state;
    far_open(&f, "");
    e = f.b->event_open(f.b);
    assert_int_equal(f.b->fault(f.b), DG_NO_MARK);
    for (int i = 0; i < 5; i++) {
        job_set(&j[i], &f, f.y, f.x, (float)(i + 1));
        j[i].status = i == 2 ? -DG_ENUMERIC : i == 3 ? -DG_EMEMORY : 0;
        job_queue(&j[i], i < 4 ? DG_LANE_COMPUTE : DG_LANE_COPY); /* nothing is known yet */
        if (i == 0)
            f.b->event_record(f.b, e, DG_LANE_COMPUTE);
    }
    f.b->sign(f.b, DG_LANE_COMPUTE, &f.word, 1);
    assert_int_equal(f.b->event_wait(f.b, e), 0); /* the failure is behind it */
    f.b->event_record(f.b, e, DG_LANE_COMPUTE);
    assert_int_equal(f.b->fault(f.b), DG_NO_MARK);
    assert_int_equal(f.b->event_wait(f.b, e), -DG_ENUMERIC);
    assert_int_equal(f.b->fault(f.b), 103);
    assert_int_equal(f.word, 0);
    assert_int_equal(f.b->finish(f.b), -DG_ENUMERIC); /* other lanes, too */
    assert_int_equal(far_ran(&f), 3);
    job_queue(&j[0], DG_LANE_COMM);
    assert_int_equal(f.b->download(f.b, DG_LANE_COMM, got, f.x, BYTES), -DG_ENUMERIC);
    assert_int_equal(f.b->finish(f.b), -DG_ENUMERIC);
    assert_int_equal(far_ran(&f), 3);
    assert_int_equal(f.b->fault(f.b), 103);
    f.b->event_close(f.b, &e);
    far_close(&f, "fault at mark 103: launch: its kernel failed");
}

static int return_it(void *status)
{
    return *(int *)status;
}

static void a_call_that_fails_is_a_fault(void **state)
{
    int stop = -DG_ESTOP;
    far f;

    (void)state;
    far_open(&f, "");
    assert_int_equal(f.b->call(f.b, DG_LANE_COMM, return_it, &stop, 17), 0);
    assert_int_equal(f.b->finish(f.b), -DG_ESTOP);
    assert_int_equal(f.b->fault(f.b), 17);
    far_close(&f, "call: its function failed");
}

static void a_fault_can_be_asked_for(void **state)
{
    far f;
    job j[3];

    (void)state;
    far_open(&f, "fault=2");
    for (int i = 0; i < 3; i++) {
        job_set(&j[i], &f, f.y, f.x, (float)i);
        job_queue(&j[i], DG_LANE_COMPUTE);
    }
    assert_int_equal(f.b->finish(f.b), -DG_EIO);
    assert_int_equal(f.b->fault(f.b), 101);
    assert_int_equal(far_ran(&f), 1);
    far_close(&f, "fault=N");
}

/* ---- pinned memory --------------------------------------------------------------------------- */

static void a_pinned_upload_must_not_change(void **state)
{
    (void)state;
    for (int changed = 0; changed < 2; changed++) {
        far f;

        far_open(&f, "");
        fill(f.pinned, 3);
        assert_int_equal(f.b->upload(f.b, DG_LANE_COPY, f.x, f.pinned, BYTES), 0);
        f.pinned[N - 1] += (float)changed;
        assert_int_equal(f.b->finish(f.b), changed ? -DG_EINTERNAL : 0);
        assert_int_equal(f.b->fault(f.b), DG_NO_MARK);
        far_close(&f, changed ? "upload: pinned memory changed" : NULL);
    }
}

/* What the lane itself wrote there before is no breach; what another lane may have is one. */
static void a_download_may_come_before_an_upload(void **state)
{
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        far f;
        dg_event *e;

        far_open(&f, "");
        e = f.b->event_open(f.b);
        far_write(&f, f.x, 4);
        f.b->download(f.b, DG_LANE_COMPUTE, f.pinned, f.x, BYTES);
        f.b->event_record(f.b, e, DG_LANE_COMPUTE);
        if (ordered)
            f.b->lane_wait(f.b, DG_LANE_COPY, e);
        f.b->upload(f.b, DG_LANE_COPY, f.y, f.pinned, BYTES);
        assert_int_equal(f.b->event_wait(f.b, e), 0);
        assert_int_equal(f.b->finish(f.b), ordered ? 0 : -DG_EINTERNAL);
        if (ordered)
            assert_true(far_read(&f, DG_LANE_COPY, f.y) == 4);
        f.b->event_close(f.b, &e);
        far_close(&f, ordered ? NULL : "pinned memory changed");
    }
}

static int write_pinned(void *pinned)
{
    fill(pinned, 6);
    return 0;
}

static void a_call_may_write_before_an_upload(void **state)
{
    far f;

    (void)state;
    far_open(&f, "");
    f.b->call(f.b, DG_LANE_COMM, write_pinned, f.pinned, 1);
    f.b->upload(f.b, DG_LANE_COMM, f.x, f.pinned, BYTES);
    assert_true(far_read(&f, DG_LANE_COMM, f.x) == 6);
    far_close(&f, NULL);
}

static void pinned_memory_in_use_must_not_be_freed(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        far f;

        far_open(&f, "");
        if (what < 2)
            f.b->upload(f.b, DG_LANE_COPY, f.x, f.pinned, BYTES);
        else
            f.b->download(f.b, DG_LANE_COPY, f.pinned, f.x, BYTES);
        if (what == 0)
            assert_int_equal(f.b->finish(f.b), 0);
        f.b->free_pinned(f.b, f.pinned);
        assert_int_equal(f.b->finish(f.b), what ? -DG_EINTERNAL : 0);
        far_close(&f, what ? "was freed before" : NULL);
    }
}

static void memory_is_of_one_kind(void **state)
{
    (void)state;
    for (int what = 0; what < 12; what++) {
        static const char *const why[] = {
            "partly in pinned memory",
            "partly in pinned memory",
            "partly in device memory",
            "not in device memory",
            "not in device memory",
            "sign: 4 bytes",
            "overlap",
            "operand 0: ",
            "operand 1: ",
            "not in device memory",
            "in device memory",
            "is no device memory",
        };
        float *heap = calloc(2 * N, sizeof *heap);
        int32_t on_host = 1;
        job j;
        far f;
        int rc = -DG_EINTERNAL;

        far_open(&f, "");
        job_set(&j, &f, what == 8 ? heap : f.y, what == 7 ? heap : f.x, 1);
        if (what == 9)
            j.launch.guard = &on_host;
        switch (what) {
        case 0:
            rc = f.b->upload(f.b, DG_LANE_COPY, f.x, f.pinned + 1, BYTES);
            break;
        case 1:
            rc = f.b->download(f.b, DG_LANE_COPY, f.pinned - 1, f.x, BYTES);
            break;
        case 2:
            rc = f.b->clear(f.b, DG_LANE_COPY, f.x, BYTES + 1);
            break;
        case 3:
            rc = f.b->copy(f.b, DG_LANE_COPY, f.x, heap, BYTES);
            break;
        case 4:
            rc = f.b->upload(f.b, DG_LANE_COPY, heap, f.pinned, BYTES);
            break;
        case 5:
            rc = f.b->sign(f.b, DG_LANE_COPY, (uint32_t *)(void *)f.x, 1);
            break;
        case 6:
            rc = f.b->copy(f.b, DG_LANE_COPY, f.x + 1, f.x, BYTES - 4);
            break;
        case 10:
            rc = f.b->download(f.b, DG_LANE_COPY, f.y, f.x, BYTES);
            break;
        case 11:
            f.b->free(f.b, heap);
            break;
        default:
            rc = f.b->launch(f.b, DG_LANE_COPY, &j.launch);
        }
        assert_int_equal(rc, -DG_EINTERNAL);
        assert_int_equal(f.b->finish(f.b), -DG_EINTERNAL);
        assert_int_equal(f.b->fault(f.b), what >= 7 && what <= 9 ? 101 : DG_NO_MARK);
        far_close(&f, why[what]);
        free(heap);
    }
}

/* ---- other memory ---------------------------------------------------------------------------- */

static void pageable_memory_is_done_with_at_once(void **state)
{
    float from[N];
    far f;

    (void)state;
    far_open(&f, "");
    fill(from, 3);
    assert_int_equal(f.b->upload(f.b, DG_LANE_COMPUTE, f.x, from, BYTES), 0);
    fill(from, 4);
    assert_true(far_read(&f, DG_LANE_COMPUTE, f.x) == 3);
    assert_int_equal(f.b->upload(f.b, DG_LANE_COMPUTE, NULL, NULL, 0), 0);
    assert_int_equal(f.b->download(f.b, DG_LANE_COMPUTE, NULL, NULL, 0), 0);
    assert_int_equal(f.b->clear(f.b, DG_LANE_COMPUTE, NULL, 0), 0);
    assert_int_equal(f.b->finish(f.b), 0);
    far_close(&f, NULL);
}

static void free_waits_for_work_that_uses_the_memory(void **state)
{
    far f;
    job j[3];

    (void)state;
    far_open(&f, "");
    job_set(&j[0], &f, f.y, f.x, 1);
    job_set(&j[1], &f, f.y, f.z, 1);
    job_set(&j[2], &f, f.y, f.y, 1);
    job_queue(&j[0], DG_LANE_COMM);
    job_queue(&j[1], DG_LANE_COMPUTE);
    job_queue(&j[2], DG_LANE_COMPUTE);
    f.b->free(f.b, f.z);
    assert_int_equal(far_ran(&f), 1); /* that one, no more */
    f.b->free(f.b, f.y);
    assert_int_equal(far_ran(&f), 3);
    assert_int_equal(f.b->finish(f.b), 0);
    far_close(&f, NULL);
}

static void a_descriptor_stays_until_it_has_run(void **state)
{
    (void)state;
    for (int what = 0; what < 5; what++) {
        far f;
        job j;

        far_open(&f, "");
        job_set(&j, &f, f.y, f.x, 1);
        job_queue(&j, DG_LANE_COMPUTE);
        if (what == 1)
            j.launch.guard = (void *)f.x;
        if (what == 2)
            j.args.threads = 2;
        if (what == 3)
            j.t[0].data = f.z;
        if (what == 4)
            j.t[1].shape.d[0] = 2;
        assert_int_equal(f.b->finish(f.b), what ? -DG_EINTERNAL : 0);
        assert_int_equal(f.b->fault(f.b), what ? 101 : DG_NO_MARK);
        far_close(&f, what ? "its descriptor changed" : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_comes_late_and_drops_the_rest),
        cmocka_unit_test(a_call_that_fails_is_a_fault),
        cmocka_unit_test(a_fault_can_be_asked_for),
        cmocka_unit_test(a_pinned_upload_must_not_change),
        cmocka_unit_test(a_download_may_come_before_an_upload),
        cmocka_unit_test(a_call_may_write_before_an_upload),
        cmocka_unit_test(pinned_memory_in_use_must_not_be_freed),
        cmocka_unit_test(memory_is_of_one_kind),
        cmocka_unit_test(pageable_memory_is_done_with_at_once),
        cmocka_unit_test(free_waits_for_work_that_uses_the_memory),
        cmocka_unit_test(a_descriptor_stays_until_it_has_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
