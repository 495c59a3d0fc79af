/* replay.c: runs a fuzz target over its corpus, each file as it is and then with a few hundred
 * changes that are the same in every run: bytes set, flipped, cut out, doubled, and the end cut
 * off. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"

enum { CHANGED = 300, ROOM = 256 };

static size_t change(uint8_t *p, size_t n, dg_rng *r)
{
    static const uint8_t telling[] = { 0, 1, 0x7F, 0x80, 0xFF, '"', '<', '[', '{', ',', '9' };

    for (uint64_t k = 1 + dg_rng_below(r, 4); k > 0 && n > 0; k--) {
        size_t at = dg_rng_below(r, n), len = 1 + dg_rng_below(r, n - at < 64 ? n - at : 64);

        switch (dg_rng_below(r, 5)) {
        case 0:
            p[at] = telling[dg_rng_below(r, sizeof telling)];
            break;
        case 1:
            p[at] ^= (uint8_t)(1u << dg_rng_below(r, 8));
            break;
        case 2:
            memmove(p + at, p + at + len, n - at - len);
            n -= len;
            break;
        case 3:
            if (dg_rng_below(r, 8) == 0)
                n = at;
            break;
        default:
            memmove(p + at + len, p + at, n - at);
            n += len;
        }
    }
    return n;
}

static int replay(const char *folder, const char *name, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    char *text = NULL;
    size_t n;
    int rc = dg_file_read(&text, &n, dg_path_join(a, folder, name), 0, d);

    if (rc == 0) {
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
        for (uint64_t k = 0; k < CHANGED; k++) {
            dg_rng r = dg_rng_begin(dg_rng_named(1, name), k, 0);
            uint8_t *p = dg_try_alloc(n + ROOM);

            if (!p)
                dg_oom(n + ROOM);
            memcpy(p, text, n);
            size_t m = change(p, n, &r);
            uint8_t *exact = dg_try_alloc(m); /* so that a sanitizer sees a step past the end */

            if (!exact)
                dg_oom(m);
            memcpy(exact, p, m);
            LLVMFuzzerTestOneInput(exact, m);
            dg_free(exact);
            dg_free(p);
        }
    }
    dg_free(text);
    dg_arena_close(&a);
    return rc;
}

int main(int argc, char **argv)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    const char *top = getenv("srcdir");
    const char *name = dg_path_name(argc > 0 ? argv[0] : "");
    char *folder = dg_printf(a, "%s/tests/fuzz/corpus/%s", top ? top : ".", name);
    struct dirent **names = NULL;
    int found = scandir(folder, &names, NULL, alphasort), n = 0, failed = 0;

    for (int i = 0; i < found; i++) {
        if (names[i]->d_name[0] != '.') {
            int rc = replay(folder, names[i]->d_name, d);

            printf("%s %d - %s\n", rc < 0 ? "not ok" : "ok", ++n, names[i]->d_name);
            failed += rc < 0;
        }
        free(names[i]);
    }
    free(names);
    printf("1..%d\n", n);
    if (n == 0)
        printf("not ok 1 - no files in %s\n", folder);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return failed || n == 0;
}
