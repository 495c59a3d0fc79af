/* samples_ranks.c: what is computed of the values of several ranks. */
#include "tests/ops/samples.h"

void samples_of_ranks(samples *s)
{
    ADD(s, pack_rows, "three ranks, one empty, one full", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(9, 2, 5));
    sample_i32_list(s, DG_SHAPE(3), INTS(2, 0, 3));
    ADD(s, pack_rows, "counts out of range", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(4));
    sample_i32_list(s, DG_SHAPE(2), INTS(-1, 7));
    ADD(s, pack_rows_i32, "one rank", no_attr, 0);
    sample_i32_list(s, DG_SHAPE(3, 2), INTS(1, 2, 3, 4, 5, 6));
    sample_i32_list(s, DG_SHAPE(1), INTS(2));
}
