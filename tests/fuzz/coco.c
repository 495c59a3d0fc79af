/* coco: any bytes as an annotation file, whose images are dealt out, and as detections of its first
 * part. */
#include "media/coco.h"

#include <string.h>

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

/* Up to the first zero byte, if there is one, stands the annotation file, behind it detections. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    size_t head = strnlen(text, n);
    dg_diag *d = dg_diag_open();
    dg_coco *c = NULL;
    dg_found found = { 0 };

    if (dg_coco_parse(&c, text, head, "fuzz.json", n % 2, (size_t)64 << 20, d) == 0) {
        if (head < n &&
            dg_detections_parse(&found, text + head + 1, n - head - 1, "found.json", c, d) == 0)
            dg_detections_free(&found);
        (void)!dg_coco_hold_out(c, 0.3, n % 3 == 0, d);
    }
    (void)dg_diag_text(d);
    dg_coco_close(&c);
    dg_diag_close(&d);
    return 0;
}
