/* arena.c: allocations are zeroed, aligned and disjoint; an impossible size aborts the process. */
#include "tests/check.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    enum { N = 2000 };
    dg_arena *a = dg_arena_open();
    unsigned char *p[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        size_t n = (size_t)i * 7 % 5000;

        p[i] = dg_alloc(a, n);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(p[i][k], 0);
        memset(p[i], i % 251, n);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < (size_t)i * 7 % 5000; k++)
            assert_int_equal(p[i][k], i % 251);
    dg_arena_close(&a);
    assert_null(a);
    dg_arena_close(&a);
}

static void a_large_piece_fits(void **state)
{
    dg_arena *a = dg_arena_open();
    char *big = dg_alloc(a, 10 << 20), *small = dg_alloc(a, 1);

    (void)state;
    big[0] = big[(10 << 20) - 1] = 'x';
    *small = 'y';
    assert_int_equal(big[0], 'x');
    dg_arena_close(&a);
}

static void strings(void **state)
{
    dg_arena *a = dg_arena_open();

    (void)state;
    assert_string_equal(dg_strdup(a, "backbone"), "backbone");
    assert_string_equal(dg_strndup(a, "backbone", 4), "back");
    assert_string_equal(dg_strndup(a, "a", 4), "a");
    assert_string_equal(dg_printf(a, "%s.%d", "s", 32), "s.32");
    assert_string_equal(dg_printf(a, "%300d", 7) + 299, "7");
    assert_memory_equal(dg_memdup(a, "a\0b", 4), "a\0b", 4);
    assert_non_null(dg_memdup(a, NULL, 0));
    dg_arena_close(&a);
}

static void vectors_grow(void **state)
{
    dg_arena *a = dg_arena_open();
    DG_VEC(int) v = { 0 };

    (void)state;
    for (int i = 0; i < 1000; i++)
        DG_PUSH(a, v, i * i);
    assert_int_equal(v.n, 1000);
    assert_true(v.cap >= 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.items[i], i * i);
    dg_arena_close(&a);
}

static void heap_pieces(void **state)
{
    (void)state;
    for (size_t n = 0; n < 300; n++) {
        unsigned char *p = dg_try_alloc(n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(p[k], 0);
        memset(p, 1, n);
        dg_free(p);
    }
    dg_free(NULL);
    assert_null(dg_try_alloc(SIZE_MAX));
    assert_null(dg_try_alloc((size_t)1 << 60));
}

static void an_impossible_size_stops_the_process(void **state)
{
    int ends[2], status;
    char said[128] = { 0 };

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();

    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        dg_alloc_n(dg_arena_open(), SIZE_MAX / 2, 4);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "detrgraph: out of memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_large_piece_fits),
        cmocka_unit_test(strings),
        cmocka_unit_test(vectors_grow),
        cmocka_unit_test(heap_pieces),
        cmocka_unit_test(an_impossible_size_stops_the_process),
    };

    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
