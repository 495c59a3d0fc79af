/* voc: any bytes as an annotation in the form of VOC. */
#include "media/voc.h"

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_marked_image out;

    dg_voc_prepare();
    if (dg_voc_parse(&out, a, (const char *)data, n, "fuzz.xml", d) < 0)
        (void)dg_diag_text(d);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return 0;
}
