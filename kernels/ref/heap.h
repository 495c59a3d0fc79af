/* heap.h: heaps of indices of numbers x[...], by an order that the caller gives. */
#ifndef DG_KERNELS_REF_HEAP_H
#define DG_KERNELS_REF_HEAP_H

#include "kernels/ref/ref.h"

/* True if index i belongs above k; never for i = k. */
typedef bool heap_above(const real *x, int32_t i, int32_t k);

/* The largest number on top, of equal ones that of the lower index, NaN last, so that every backend
 * picks the same. */
static inline bool heap_better(const real *x, int32_t i, int32_t k)
{
    bool i_nan = x[i] != x[i], k_nan = x[k] != x[k];

    if (i_nan || k_nan)
        return i_nan == k_nan ? i < k : k_nan;
    return x[i] > x[k] || (i < k && x[i] == x[k]);
}

static inline void heap_sink(const real *x, int32_t *heap, int64_t n, int64_t at, heap_above *above)
{
    for (;;) {
        int64_t child = 2 * at + 1;

        if (child >= n)
            return;
        if (child + 1 < n && above(x, heap[child + 1], heap[child]))
            child++;
        if (above(x, heap[at], heap[child]))
            return;
        int32_t swap = heap[at];

        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

/* Orders n indices in any order. */
static inline void heap_make(const real *x, int32_t *heap, int64_t n, heap_above *above)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        heap_sink(x, heap, n, i, above);
}

/* Removes the top of *n, which is at least 1. */
static inline int32_t heap_take(const real *x, int32_t *heap, int64_t *n, heap_above *above)
{
    int32_t top = heap[0];

    heap[0] = heap[--*n];
    heap_sink(x, heap, *n, 0, above);
    return top;
}

/* Turns a heap into a list, its top last. */
static inline void heap_list(const real *x, int32_t *heap, int64_t n, heap_above *above)
{
    for (int64_t left = n; left > 1;) {
        int32_t top = heap_take(x, heap, &left, above);

        heap[left] = top;
    }
}

#endif
