/* stored: ops and small compositions against the numbers of data/ops.json and data/ops_rfdetr.json,
 * which the PyTorch references produced in f64 (tests/parity describes the form): in f64 to 1e-10
 * and in f32 to 5e-6 of each array's maximum. */
#include "tests/ops/stored.h"

#include <stdlib.h>

void stored_run(fixture *f, const dg_json *file, const char *name, void (*fn)(model *m))
{
    for (int bits = 32; bits <= 64; bits += 32) {
        model m;

        model_open(&m, file, name, bits, f->worst);
        fn(&m);
        model_close(&m);
    }
    f->entries++;
}

static int read_file(fixture *f, const dg_json **file, const char *name)
{
    const char *top = getenv("srcdir"),
               *path = dg_printf(f->arena, "%s/tests/ops/data/%s", top ? top : ".", name);

    if (dg_json_read(file, f->arena, path, f->d) == 0)
        return 0;
    print_error("# %s\n", dg_diag_text(f->d));
    return -1;
}

static int open_file(void **state)
{
    dg_arena *a = dg_arena_open();
    fixture *f = DG_NEW(a, fixture);

    f->arena = a;
    f->d = dg_diag_open();
    *state = f;
    return read_file(f, &f->file, "ops.json") || read_file(f, &f->rfdetr, "ops_rfdetr.json") ? -1
                                                                                             : 0;
}

static int close_file(void **state)
{
    fixture *f = *state;
    dg_arena *a = f->arena;

    print_message("# %d entries; worst error of an array's maximum: f32 %.2g (%s), f64 %.2g (%s)\n",
                  f->entries, f->worst[0].error, f->worst[0].where, f->worst[1].error,
                  f->worst[1].where);
    dg_diag_close(&f->d);
    dg_arena_close(&a);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test(stored_##name),
#define RFDETR_TEST(name) TEST(rfdetr_##name)
    const struct CMUnitTest tests[] = { STORED_CASES(TEST) RFDETR_CASES(RFDETR_TEST) };

    return cmocka_run_group_tests_name("stored", tests, open_file, close_file);
}
