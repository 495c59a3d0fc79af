/* ranks.c: local computations on values gathered from all ranks. They go in rank order, so that
 * every rank gets the same bits. */
#include <string.h>

#include "kernels/ref/ref.h"

/* Packs the first counts[r] of each rank's N rows together and clears the rest: x, y [R*N,..].
 * Counts are clamped to 0..N. */
static int pack(const dg_args *a, size_t each)
{
    int64_t ranks = elements(a, DG_PACK_ROWS_COUNTS), n = dim(a, DG_PACK_ROWS_X, 0) / ranks;
    size_t row = (size_t)(elements(a, DG_PACK_ROWS_X) / dim(a, DG_PACK_ROWS_X, 0)) * each;
    char *to = a->t[DG_PACK_ROWS_Y].data, *end = to + (size_t)elements(a, DG_PACK_ROWS_X) * each;

    for (int64_t r = 0; r < ranks; r++) {
        int64_t live = in_i32(a, DG_PACK_ROWS_COUNTS)[r] < 0   ? 0
                       : in_i32(a, DG_PACK_ROWS_COUNTS)[r] > n ? n
                                                               : in_i32(a, DG_PACK_ROWS_COUNTS)[r];

        memcpy(to, (const char *)a->t[DG_PACK_ROWS_X].data + (size_t)(r * n) * row,
               (size_t)live * row);
        to += (size_t)live * row;
    }
    memset(to, 0, (size_t)(end - to));
    return 0;
}

static int pack_rows(const dg_args *a)
{
    return pack(a, sizeof(real));
}

static int pack_rows_i32(const dg_args *a)
{
    return pack(a, sizeof(int32_t));
}

DG_SAME_PLACE(DG_PACK_ROWS_X, DG_PACK_ROWS_I32_X);
DG_SAME_PLACE(DG_PACK_ROWS_COUNTS, DG_PACK_ROWS_I32_COUNTS);
DG_SAME_PLACE(DG_PACK_ROWS_Y, DG_PACK_ROWS_I32_Y);
DG_REF(pack_rows, NULL, pack_rows);
DG_REF(pack_rows_i32, NULL, pack_rows_i32);
