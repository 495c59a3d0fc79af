/* limit.c: with OMP_THREAD_LIMIT=1, set before libgomp is loaded, the pool's check refuses two
 * threads. */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"

static void fewer_threads_than_asked_for_are_refused(void **state)
{
#ifdef DG_NO_OPENMP
    (void)state;
    skip(); /* only libgomp has this limit */
#else
    dg_diag *d = dg_diag_open();

    (void)state;
    assert_int_equal(dg_pool_check(2, d), -DG_EUNSUPPORTED);
    assert_non_null(strstr(dg_diag_at(d, 0)->text, "2 threads are wanted"));
    assert_int_equal(dg_diag_at(d, 0)->n_remarks, 1);
    check_only(d, "threads-missing");
    dg_diag_close(&d);
#endif
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_threads_than_asked_for_are_refused),
    };

    if (argc == 1) {
        char *again[] = { argv[0], (char[]){ "limited" }, NULL };

        setenv("OMP_THREAD_LIMIT", "1", 1);
        execv("/proc/self/exe", again);
        return 1;
    }
    return cmocka_run_group_tests_name("limit", tests, NULL, NULL);
}
