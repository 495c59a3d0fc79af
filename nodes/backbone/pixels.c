/* pixels.c: see pixels.h. */
#include "nodes/backbone/pixels.h"

#include "nodes/decoder/padded.h"

dg_val dg_pixels_normalised(dg_build *b, dg_val images, dg_val sizes)
{
    static const double mean[3] = { 123.675 / 255, 116.28 / 255, 103.53 / 255 },
                        over[3] = { 255 / 58.395, 255 / 57.12, 255 / 57.375 };
    dg_val x = dg_mul(b, dg_sub(b, images, dg_const(b, DG_SHAPE(3), mean)),
                      dg_const(b, DG_SHAPE(3), over));

    return dg_has(sizes) ? dg_mul(b, x, dg_padded_pixels(b, images, sizes)) : x;
}
