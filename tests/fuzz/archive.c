/* archive: any bytes as a weight file, safetensors or .pth, through a file in memory; every entry
 * is read, and all are translated from whatever dialect their names are of. */
#include "weights/archive.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "weights/weight_names.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 1 << 20 }; /* elements of an entry that is looked at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char name[64];
    dg_archive *a = NULL;
    dg_diag *d = dg_diag_open();
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd >= 0 && write(fd, data, n) == (ssize_t)n) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (dg_archive_open(&a, name, d) < 0)
            (void)dg_diag_text(d);
        for (int i = 0; a && i < a->n; i++) {
            const dg_entry *e = &a->entries[i];
            double *out = e->n <= MOST ? dg_try_alloc((size_t)e->n * sizeof *out) : NULL;

            if (out)
                dg_entry_read(e, out);
            dg_free(out);
        }
        if (a && dg_archive_translate(a, dg_weight_names_all[1], d) < 0)
            (void)dg_diag_text(d);
        dg_archive_close(&a);
    }
    if (fd >= 0)
        close(fd);
    dg_diag_close(&d);
    return 0;
}
