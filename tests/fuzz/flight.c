/* flight: any bytes as what a failed run left in OUT/flight: the recorders of two ranks and the
 * verdict, separated by bytes 0. The doctor names what it cannot read and goes on. */
#include "control/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

enum { FILES = 3 };

/* The bytes up to the next 0; all that is left for the last file. */
static size_t part(const uint8_t *data, size_t n, int i)
{
    const uint8_t *end = i < FILES - 1 && n ? memchr(data, 0, n) : NULL;

    return end ? (size_t)(end - data) : n;
}

static void put(const char *path, const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wbe");

    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const names[FILES] = { "rank-0.jsonl", "rank-1.jsonl", "verdict.json" };
    char folder[] = "/tmp/fuzz-flight-XXXXXX", flight[64], path[FILES][96];
    dg_diag *d = dg_diag_open();
    dg_str out = { 0 };

    if (!mkdtemp(folder))
        abort();
    snprintf(flight, sizeof flight, "%s/flight", folder);
    if (mkdir(flight, 0700) < 0)
        abort();
    for (int i = 0; i < FILES; i++) {
        size_t len = part(data, n, i), next = len < n ? len + 1 : len;

        snprintf(path[i], sizeof path[i], "%s/%s", flight, names[i]);
        put(path[i], data, len);
        data += next;
        n -= next;
    }
    if (dg_doctor_examine(&out, folder, d) < 0 || dg_doctor_compare(&out, folder, d) < 0)
        (void)dg_diag_text(d);
    dg_str_free(&out);
    dg_diag_close(&d);
    for (int i = 0; i < FILES; i++)
        unlink(path[i]);
    rmdir(flight);
    rmdir(folder);
    return 0;
}
