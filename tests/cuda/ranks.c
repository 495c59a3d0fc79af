/* ranks: a training on several ranks whose devices exchange among themselves has the bits of one
 * that exchanges through host memory; it resumes with the same bits, and a rank that is killed is
 * named. On the stand-ins of CUDA and NCCL. */
#include "tests/ranks/toy_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* nccl: a file below the stand-in's folder, or "none". */
static void choose_device(const char *nccl)
{
    const char *top = getenv("builddir") ? getenv("builddir") : ".";
    const bool none = strcmp(nccl, "none") == 0;
    char name[4096];

    snprintf(name, sizeof name, "cuda:module=%s/tests/cuda/.libs/standin.so,nccl=%s%s%s", top,
             none ? "" : top, none ? "" : "/tests/cuda/.libs/", nccl);
    setenv("DETRGRAPH_DEVICE", name, 1);
}

static char *log_of(toy *t, const char *out)
{
    char *text = NULL, *copy;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, dg_printf(t->arena, "%s/run.log", out)), 0,
                                  t->d),
                     0);
    copy = dg_strdup(t->arena, text);
    dg_free(text);
    return copy;
}

static const start small = { .ranks = 2, .global = 4, .precision = "f32" };

static start started(const char *out, int64_t steps)
{
    start s = small;

    s.out = out;
    s.steps = steps;
    return s;
}

static void the_bits_of_host_memory(void **state)
{
    toy *t = *state;
    start again = started("cut", 6);

    choose_device("none");
    toy_ranks_well(t, started("host", 6));
    choose_device("nccl.so");
    toy_ranks_well(t, started("cut", 3));
    again.resume = true;
    toy_ranks_well(t, again);
    toy_same_run(t, "host", "cut");
    assert_non_null(strstr(log_of(t, "host"), "GPUs exchange through host memory, which is slow: "
                                              "rank 0: nccl=none was asked for"));
    assert_non_null(strstr(log_of(t, "cut"), "collectives over shm, between GPUs by NCCL 2.28.9"));
}

static void a_killed_rank_is_named(void **state)
{
    toy *t = *state;
    start s = started("killed", 0);
    outcome o;

    choose_device("nccl.so");
    s.odd = 1;
    s.trick = "kill 2";
    o = toy_ranks_run(t, s);
    assert_int_equal(o.status[1], 128 + 9);
    assert_in_range(-o.status[0], 1, 7);
    assert_non_null(strstr(o.said[0], "collective-failed"));
    assert_non_null(strstr(o.said[0], "rank 1 (process "));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_bits_of_host_memory),
        TEST(a_killed_rank_is_named),
    };
    int status;

    if (toy_rank_main(argc, argv, &status))
        return status;
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
