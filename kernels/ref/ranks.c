/* ranks.c: what is computed of the values of all ranks once they are here. Ranks stand in their
 * order, so that every rank comes to the same bits. */
#include <string.h>

#include "kernels/ref/ref.h"

/* Moves the first counts[r] of the N rows of every rank together and clears the rest: x, y [R*N,..].
 * A count outside 0..N is taken as the nearer of the two. */
static int pack(const dg_args *a, size_t each)
{
    int64_t ranks = elements(a, 1), n = dim(a, 0, 0) / ranks;
    size_t  row = (size_t)(elements(a, 0) / dim(a, 0, 0)) * each;
    char   *to = a->t[2].data, *end = to + (size_t)elements(a, 0) * each;

    for (int64_t r = 0; r < ranks; r++) {
        int64_t live = in_i32(a, 1)[r] < 0 ? 0 : in_i32(a, 1)[r] > n ? n : in_i32(a, 1)[r];

        memcpy(to, (const char *)a->t[0].data + (size_t)(r * n) * row, (size_t)live * row);
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

DG_REF(pack_rows, NULL, pack_rows);
DG_REF(pack_rows_i32, NULL, pack_rows_i32);
