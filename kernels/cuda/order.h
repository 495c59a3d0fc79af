/* order.h: the first k of a list by a number of their own, for a block. The number of an entry is
 * larger if it comes before: its value, turned into an integer of the same order, and below that
 * its index, inverted; 0 is no entry. The block finds the k-th largest number digit by digit, with
 * counts of the digits in shared memory; stores the k numbers that are not below it, in any order;
 * and then every number counts the larger ones, which is its place. */
#ifndef DG_KERNELS_CUDA_ORDER_H
#define DG_KERNELS_CUDA_ORDER_H

#include "kernels/cuda/device.h"

enum { DIGITS = 256, DIGIT_BITS = 8, INDEX_BITS = 32, FIRST_BYTES = DIGITS * sizeof(int32_t) };

#if DG_CUDA_BITS == 64
__extension__ typedef unsigned __int128 order;
#else
typedef uint64_t order;
#endif
enum { ORDER_BITS = 8 * (int)sizeof(wide) + INDEX_BITS };

/* Larger values first, NaN last. */
DEVICE order order_of(wide v, int64_t i)
{
    wide x = v + 0; /* -0 becomes 0: they are equal */
#if DG_CUDA_BITS == 64
    uint64_t bits, sign = 1ull << 63;
#else
    uint32_t bits, sign = 1u << 31;
#endif

    memcpy(&bits, &x, sizeof bits);
    bits = x != x ? 0 : bits & sign ? ~bits : bits | sign;
    return (order)bits << INDEX_BITS | (uint32_t)~(uint32_t)i;
}

DEVICE int64_t entry_of(order o)
{
    return (int64_t)(uint32_t)~(uint32_t)o;
}

/* Number of entries; counts: FIRST_BYTES of shared memory. */
DEVICE int64_t count_entries(const order *o, int64_t n, int32_t *counts)
{
    int64_t all;

    barrier();
    if (thread_id() == 0)
        counts[0] = 0;
    barrier();
    for (int64_t i = thread_id(); i < n; i += block_size())
        if (o[i])
            (void)atomic_add(&counts[0], 1);
    barrier();
    all = counts[0];
    barrier();
    return all;
}

/* Where a block's numbers come from: they are stored, or made of values anew at each reading. */
typedef struct numbers {
    bool anew;
    const order *stored;
    const real *values;
} numbers;

DEVICE order number_at(numbers s, int64_t i)
{
    return s.anew ? order_of(get(s.values[i]), i) : s.stored[i];
}

/* The least of the k largest numbers, without its lowest *shift bits; 1 <= k <= entries. */
DEVICE order least_of_first(numbers s, int64_t n, int64_t k, int32_t *counts, int *shift)
{
    order prefix = 0;
    int64_t left = k;

    for (*shift = ORDER_BITS - DIGIT_BITS;; *shift -= DIGIT_BITS) {
        int digit = DIGITS - 1;

        for (int i = thread_id(); i < DIGITS; i += block_size())
            counts[i] = 0;
        barrier();
        for (int64_t i = thread_id(); i < n; i += block_size()) {
            order o = number_at(s, i);

            if (o && o >> *shift >> DIGIT_BITS == prefix)
                (void)atomic_add(&counts[(int)(o >> *shift & (DIGITS - 1))], 1);
        }
        barrier();
        for (; counts[digit] < left; digit--) /* every thread does this */
            left -= counts[digit];
        prefix = prefix << DIGIT_BITS | (uint32_t)digit;
        if (counts[digit] == left || *shift == 0)
            break;
        barrier(); /* counts are read before they are cleared */
    }
    barrier();
    return prefix;
}

/* Stores the k largest numbers in any order; 1 <= k <= entries. counts: FIRST_BYTES of shared
 * memory. */
DEVICE void keep_first(numbers s, int64_t n, int64_t k, order *kept, int32_t *counts)
{
    int shift;
    order least = least_of_first(s, n, k, counts, &shift);

    if (thread_id() == 0)
        counts[0] = 0;
    barrier();
    for (int64_t i = thread_id(); i < n; i += block_size()) {
        order o = number_at(s, i);

        if (o && o >> shift >= least)
            kept[atomic_add(&counts[0], 1)] = o;
    }
    barrier();
}

/* Lists the first k entries, or all if there are fewer, in their order or by index; returns their
 * number. kept: k numbers; counts: FIRST_BYTES of shared memory, free again afterwards. */
DEVICE int64_t list_first(const order *o, int64_t n, int64_t k, bool by_index, order *kept,
                          int32_t *list, int32_t *counts)
{
    int64_t all = count_entries(o, n, counts);
    numbers s = { false, o, NULL };

    k = k < all ? k : all;
    if (k < 1)
        return 0;
    keep_first(s, n, k, kept, counts);
    for (int64_t i = thread_id(); i < k; i += block_size()) {
        int64_t place = 0;

        for (int64_t j = 0; j < k; j++)
            place += by_index ? entry_of(kept[j]) < entry_of(kept[i]) : kept[j] > kept[i];
        list[place] = (int32_t)entry_of(kept[i]);
    }
    barrier();
    return k;
}

#endif
