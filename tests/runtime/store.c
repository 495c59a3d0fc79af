/* store: copies of parameters between host and device: refused ones, and those that a save beside
 * the run takes. */
#include "tests/train/toy.h"

#include <stdlib.h>
#include <string.h>

#include "exec/store.h"
#include "runtime/programs.h"
#include "weights/weights.h"

static int refuse_upload(dg_backend *self, dg_lane lane, void *device, const void *host,
                         size_t bytes)
{
    (void)self, (void)lane, (void)device, (void)host, (void)bytes;
    return -DG_EIO;
}

static int refuse_download(dg_backend *self, dg_lane lane, void *host, const void *device,
                           size_t bytes)
{
    (void)self, (void)lane, (void)device, (void)host, (void)bytes;
    return -DG_EIO;
}

static void a_device_that_refuses_to_copy(void **state)
{
    toy *t = *state;
    dg_backend *ref, odd;
    dg_store *s;
    dg_run *run = toy_open(t, toy_pipeline(t->arena, (toy_text){ 0 }), 0, NULL);

    assert_non_null(run);
    assert_int_equal(dg_backend_open(&ref, "ref", t->d), 0);
    odd = *ref;
    odd.upload = refuse_upload;
    assert_int_equal(dg_store_open(&s, &odd, dg_run_programs(run)->conf.params, DG_F32, true, true,
                                   NULL, t->d),
                     0);
    assert_int_equal(dg_store_init(s, 1, 1, t->d), -DG_EIO);
    assert_string_equal(dg_diag_at(t->d, 0)->text, "the device refused to copy net.conv.weight");
    check_only(t->d, "device-copy");
    dg_store_close(&s);

    odd = *ref;
    odd.immediate = false;
    odd.download = refuse_download;
    assert_int_equal(dg_store_open(&s, &odd, dg_run_programs(run)->conf.params, DG_F32, true, true,
                                   NULL, t->d),
                     0);
    assert_int_equal(dg_weights_save(s, DG_WEIGHTS, toy_path(t, "w"), NULL, NULL, t->d), -DG_EIO);
    assert_string_equal(dg_diag_at(t->d, 0)->text, "the device refused to copy weights");
    check_only(t->d, "device-copy");
    dg_store_close(&s);
    dg_backend_close(&ref);
    dg_run_close(&run);
}

/* What the device is given later does not change a copy that was begun before. */
static void a_copy_is_of_its_moment(void **state)
{
    const char *asked = getenv("DETRGRAPH_DEVICE");
    toy *t = *state;
    dg_run *run = toy_open(t, toy_pipeline(t->arena, (toy_text){ 0 }), 0, NULL);
    dg_backend *late, *host;
    dg_event *now, *copied;
    dg_store *s, *copy;
    double first[1024], second[1024], got[1024];
    int param = 0;

    assert_non_null(run);
    assert_int_equal(dg_backend_open(&late, asked ? asked : "far", t->d), 0);
    assert_int_equal(dg_backend_open(&host, "cpu", t->d), 0);
    assert_int_equal(dg_store_open(&s, late, dg_run_programs(run)->conf.params, DG_F32, true, true,
                                   NULL, t->d),
                     0);
    while (!dg_store_has(s, DG_MOMENT1, param))
        param++;
    assert_true(dg_shape_elements(dg_params_at(s->params, param)->shape) <= 1024);
    copy = dg_store_open_copy(s, host);
    now = late->event_open(late);
    copied = late->event_open(late);
    assert_true(copy && now && copied);
    assert_null(copy->space[DG_GRADIENTS]);
    for (int i = 0; i < 1024; i++) {
        first[i] = i;
        second[i] = -i;
    }
    for (int round = 0; round < 3; round++) {
        s->counter = round;
        for (dg_space k = DG_WEIGHTS; k <= DG_EMA; k++)
            if (copy->space[k])
                assert_int_equal(dg_store_set(s, k, param, first, t->d), 0);
        assert_int_equal(dg_store_copy_out(s, copy, now, copied, t->d), 0);
        for (dg_space k = DG_WEIGHTS; k <= DG_EMA; k++)
            if (copy->space[k])
                assert_int_equal(dg_store_set(s, k, param, second, t->d), 0);
        assert_int_equal(late->event_wait(late, copied), 0);
        for (dg_space k = DG_WEIGHTS; k <= DG_EMA; k++) {
            if (!copy->space[k])
                continue;
            assert_int_equal(dg_store_get(copy, k, param, got, t->d), 0);
            assert_memory_equal(got, first,
                                (size_t)dg_shape_elements(dg_params_at(s->params, param)->shape) *
                                    sizeof *got);
        }
        assert_int_equal(copy->counter, round);
    }
    late->event_close(late, &now);
    late->event_close(late, &copied);
    dg_store_close(&copy);
    dg_store_close(&s);
    dg_backend_close(&host);
    dg_backend_close(&late);
    dg_run_close(&run);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_device_that_refuses_to_copy),
        TEST(a_copy_is_of_its_moment),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
