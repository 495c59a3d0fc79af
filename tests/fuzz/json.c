/* json: any bytes as a JSON tree. */
#include "media/json.h"

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    const dg_json *out = NULL;

    if (dg_json_parse(&out, a, (const char *)data, n, "fuzz.json", d) < 0)
        (void)dg_diag_text(d);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return 0;
}
