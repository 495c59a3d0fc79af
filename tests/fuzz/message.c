/* message: any bytes as a frame of the control protocol. What can be read is written and read
 * again, and must be the same bytes. */
#include "control/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_str again = { 0 };
    dg_message m;

    if (dg_message_read(&m, a, data, n, d) == 0) {
        dg_message_write(&again, &m);
        if (again.n != n || memcmp(again.s, data, n) != 0)
            abort();
    } else {
        (void)dg_diag_text(d);
    }
    dg_str_free(&again);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return 0;
}
