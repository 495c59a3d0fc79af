/* A matrix in blocks of pairs (kernels/host/simd/pack.h), against its definition: sizes that fill
 * the blocks and that do not, either axis along memory, f32 and bf16. */
#include "tests/check.h"

#include <stdlib.h>

#include "base/element.h"
#include "kernels/host/host.h"

enum { DEPTH = DG_HOST_PACKED_DEPTH, GUARD = 0x7777 };

static uint16_t element(const dg_host_matrix *m, int64_t k, int64_t n)
{
    int64_t at = k * m->k_step + n * m->n_step;

    if (k >= m->k || n >= m->n)
        return 0;
    return m->low ? ((const uint16_t *)m->data)[at] : dg_bf16_of_f32(((const float *)m->data)[at]);
}

static void check(int64_t k, int64_t n, int64_t width, bool along, bool low, int threads)
{
    int64_t deep = (k + DEPTH - 1) / DEPTH, blocks = (n + width - 1) / width * deep;
    int64_t each = DEPTH * width, size = blocks * each, step = (along ? n : k) + 3;
    int64_t room = step * (along ? k : n);
    uint16_t *to = malloc((size_t)(size + 1) * sizeof *to);
    void *from = malloc((size_t)room * sizeof(float));
    dg_host_matrix m = { from, k, n, along ? step : 1, along ? 1 : step, low };
    uint32_t state = 5;

    assert_non_null(to);
    assert_non_null(from);
    for (int64_t i = 0; i < room; i++) {
        state = state * 1664525u + 1013904223u;
        if (low)
            ((uint16_t *)from)[i] = (uint16_t)(0x3f00 | state >> 25);
        else
            ((float *)from)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    for (int64_t i = 0; i <= size; i++)
        to[i] = GUARD;
    dg_host_pack(to, &m, width, threads);
    for (int64_t i = 0; i < size; i++) {
        int64_t block = i / each, q = i % each / (2 * width), column = i % (2 * width) / 2;
        uint16_t want =
            element(&m, block % deep * DEPTH + 2 * q + i % 2, block / deep * width + column);

        if (to[i] != want)
            fail_msg("%lld x %lld, %s, %s: element %lld is %04x, not %04x", (long long)k,
                     (long long)n, along ? "along rows" : "across rows", low ? "bf16" : "f32",
                     (long long)i, to[i], want);
    }
    assert_int_equal(to[size], GUARD);
    free(to);
    free(from);
}

static void every_element_is_in_its_place(void **state)
{
    const int64_t sizes[] = { 1, 2, 15, 16, 31, 32, 33, 64, 80, 129 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (int kind = 0; kind < 4; kind++)
                check(sizes[i], sizes[j], 16 * (1 + (int64_t)(i + j) % 4), kind % 2, kind / 2, 1);
}

static void threads_share_blocks(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++)
        check(300, 250, 64, kind % 2, kind / 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_element_is_in_its_place),
                                        cmocka_unit_test(threads_share_blocks) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
