/* cgroup.c: the least limit of a group and its ancestors counts, in both versions, in trees made
 * for the test. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cgroup.h"
#include "base/str.h"

typedef struct tree {
    dg_arena *arena;
    char root[64];
} tree;

static int set_up(void **state)
{
    tree *t = calloc(1, sizeof *t);

    if (!t)
        return -1;
    snprintf(t->root, sizeof t->root, "/tmp/detrgraph-cgroup-XXXXXX");
    if (!mkdtemp(t->root)) {
        free(t);
        return -1;
    }
    t->arena = dg_arena_open();
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    tree *t = *state;
    int rc = system(dg_printf(t->arena, "rm -rf '%s'", t->root));

    dg_arena_close(&t->arena);
    free(t);
    return rc;
}

/* Writes a file below the root; its folders come with it. */
static void put(tree *t, const char *path, const char *text)
{
    char *full = dg_printf(t->arena, "%s/%s", t->root, path);
    FILE *f;

    assert_int_equal(system(dg_printf(t->arena, "mkdir -p \"$(dirname '%s')\"", full)), 0);
    f = fopen(full, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void without_groups_there_is_no_limit(void **state)
{
    tree *t = *state;

    assert_true(is_near(dg_cgroup_cores(t->root), 0));
    put(t, "proc/self/cgroup", "0::/\n");
    put(t, "sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_true(is_near(dg_cgroup_cores(t->root), 0));
}

static void the_least_of_the_ancestors_counts(void **state)
{
    tree *t = *state;

    put(t, "proc/self/cgroup", "0::/batch.slice/job-7/step\n");
    put(t, "sys/fs/cgroup/batch.slice/cpu.max", "400000 100000\n");
    put(t, "sys/fs/cgroup/batch.slice/job-7/cpu.max", "150000 100000\n");
    put(t, "sys/fs/cgroup/batch.slice/job-7/step/cpu.max", "max 100000\n");
    put(t, "sys/fs/cgroup/batch.slice/job-8/cpu.max", "10000 100000\n");
    assert_true(is_near(dg_cgroup_cores(t->root), 1.5));
}

/* In a container: /proc tells the host's path, and the mount begins at the group itself. */
static void the_root_counts_when_the_path_is_the_hosts(void **state)
{
    tree *t = *state;

    put(t, "proc/self/cgroup", "0::/docker/0123\n");
    put(t, "sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_true(is_near(dg_cgroup_cores(t->root), 0.5));
}

static void version_1_has_its_own_files(void **state)
{
    tree *t = *state;

    put(t, "proc/self/cgroup", "12:pids:/a\n3:cpu,cpuacct:/docker/9\n1:name=systemd:/b\n");
    put(t, "sys/fs/cgroup/cpu/docker/9/cpu.cfs_quota_us", "300000\n");
    put(t, "sys/fs/cgroup/cpu/docker/9/cpu.cfs_period_us", "100000\n");
    put(t, "sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n");
    put(t, "sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
    assert_true(is_near(dg_cgroup_cores(t->root), 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_groups_there_is_no_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_least_of_the_ancestors_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_root_counts_when_the_path_is_the_hosts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(version_1_has_its_own_files, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
