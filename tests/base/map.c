/* map.c: thousands of keys, replacement, insertion order. */
#include "tests/check.h"

#include <stdio.h>

#include "base/map.h"

static void keeps_what_was_set(void **state)
{
    enum { N = 5000 };
    dg_arena *a = dg_arena_open();
    dg_map *m = dg_map_new(a);
    int values[N];
    char key[32];

    (void)state;
    assert_null(dg_map_get(m, "absent"));
    assert_false(dg_map_has(m, "absent"));
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "backbone.conv%d.weight", i);
        dg_map_set(m, key, &values[i]); /* the map copies the key: the buffer is reused */
    }
    dg_map_set(m, "backbone.conv7.weight", &values[0]);
    dg_map_set(m, "nothing", NULL);
    assert_int_equal(dg_map_n(m), N + 1);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "backbone.conv%d.weight", i);
        assert_string_equal(dg_map_key(m, i), key);
        assert_ptr_equal(dg_map_value(m, i), &values[i == 7 ? 0 : i]);
        assert_ptr_equal(dg_map_get(m, key), &values[i == 7 ? 0 : i]);
    }
    assert_true(dg_map_has(m, "nothing"));
    assert_null(dg_map_get(m, "nothing"));
    assert_null(dg_map_get(m, "backbone.conv5000.weight"));
    dg_arena_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_was_set),
    };

    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
