/* image: any bytes as a JPEG, PNG, BMP, WebP or TIFF, its header, its pixels, and
 * whether it is whole. */
#include "media/image.h"

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_scratch *s = dg_scratch_open((size_t)64 << 20);
    dg_diag *d = dg_diag_open();
    dg_image im = { 0 };
    dg_image_header h = { 0 };

    if (dg_image_header_decode(&h, data, n, "fuzz", d) < 0 ||
        dg_image_decode_as(&im, s, data, n, "fuzz", (dg_decode){ .reduce = n % 2 ? 2 : 1 }, d) < 0)
        (void)dg_diag_text(d);
    if (dg_is_webp(data, n))
        (void)dg_webp_is_whole(data, n);
    if (dg_is_tiff(data, n))
        (void)dg_tiff_is_whole(data, n);
    dg_diag_close(&d);
    dg_scratch_close(&s);
    return 0;
}
