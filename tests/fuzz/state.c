/* state: any bytes as state.json of a checkpoint, as they are and with their checksum made right,
 * so that damage beyond it is met, too. What can be read is compared with a run. */
#include "runtime/checkpoint_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "tests/fuzz/fuzz.h"

static void try_state(const void *text, size_t n)
{
    const dg_identity now = {
        .batch = 4,
        .accumulate = 1,
        .per_epoch = 10,
        .precision = "f32",
        .threads = 2,
        .ranks = 1,
        .by_ranks = true,
        .cpu = "AVX-512",
        .versions = "detrgraph",
    };
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_checkpoint_state s;
    char name[64];
    bool same;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || write(fd, text, n) != (ssize_t)n)
        abort();
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (dg_checkpoint_state_read(&s, a, name, d) < 0 ||
        dg_checkpoint_state_compare(&s, &now, &same, d) < 0)
        (void)dg_diag_text(d);
    close(fd);
    dg_diag_close(&d);
    dg_arena_close(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char key[] = "  \"checksum\": \"", end[] = "\"\n}\n";
    const size_t tail = strlen(key) + 16 + strlen(end);
    dg_str right = { 0 };

    try_state(data, n);
    if (n > tail && memcmp(data + n - tail, key, strlen(key)) == 0) {
        dg_str_fmt(&right, "%.*s%s%016llx%s", (int)(n - tail), (const char *)data, key,
                   (unsigned long long)dg_fnv1a(data, n - tail), end);
        try_state(right.s, right.n);
    }
    dg_str_free(&right);
    return 0;
}
