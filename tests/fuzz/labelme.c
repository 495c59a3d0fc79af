/* labelme: any bytes as a file of LabelMe. */
#include "media/marks.h"

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_marked_image out;

    if (dg_labelme_form.parse(&out, a, (const char *)data, n, "fuzz.json", d) < 0)
        (void)dg_diag_text(d);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return 0;
}
