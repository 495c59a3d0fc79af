/* windows.c: see windows.h. */
#include "nodes/backbone/windows.h"

static const int swapped[] = { 0, 1, 3, 2, 4, 5 };

dg_val dg_windows_cut(dg_build *b, dg_val map, int64_t rows, int64_t columns)
{
    dg_shape s = dg_shape_of(b, map);
    int64_t h = s.d[1] / rows, w = s.d[2] / columns;
    dg_val x = dg_reshape(b, map, DG_SHAPE(s.d[0], rows, h, columns, w, s.d[3]));

    return dg_reshape(b, dg_permute(b, x, 6, swapped),
                      DG_SHAPE(s.d[0] * rows * columns, h * w, s.d[3]));
}

dg_val dg_windows_join(dg_build *b, dg_val windows, int64_t rows, int64_t columns, int64_t batch,
                       int64_t h, int64_t w)
{
    int64_t width = dg_dim(b, windows, -1);
    dg_val x = dg_reshape(b, windows, DG_SHAPE(batch, rows, columns, h / rows, w / columns, width));

    return dg_reshape(b, dg_permute(b, x, 6, swapped), DG_SHAPE(batch, h, w, width));
}
