/* pickle: any bytes as a pickle. */
#include "weights/pickle.h"

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_pickle *out = NULL;
    size_t used = 0;

    if (dg_pickle_parse(&out, a, data, n, &used, NULL, "fuzz.pkl", d) == 0)
        (void)dg_pickle_get(out, "ema");
    (void)dg_diag_text(d);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return 0;
}
