/* copies.c: see copies.h. Files are parted by length, those left with others of their length by
 * their last bytes, and what is still together by a hash of everything. */
#include "media/copies.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"

enum { TAIL = 4096 };

typedef struct suspect {
    int64_t bytes;
    uint64_t hash;
    int file;
} suspect;

static int by_hash(const void *p, const void *q)
{
    const suspect *a = p, *b = q;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->file - b->file;
}

static bool alike(const suspect *a, const suspect *b)
{
    return a->bytes == b->bytes && a->hash == b->hash;
}

/* Hashes the last `most` bytes. False: the file cannot be read. */
static bool hash_end(suspect *s, const char *path, size_t most, dg_diag *quiet)
{
    dg_mapping m = { 0 };
    bool fine = dg_file_map(&m, path, quiet) == 0;

    if (fine)
        s->hash = dg_fnv1a(m.p + (m.n > most ? m.n - most : 0), m.n > most ? most : m.n);
    dg_file_unmap(&m);
    dg_diag_clear(quiet);
    return fine;
}

/* Sorts, keeps those that are alike with another, and hashes their last `most` bytes. */
static int keep_alike(suspect *v, int n, const char *const *paths, size_t most, dg_diag *quiet)
{
    int kept = 0;

    if (n > 1)
        qsort(v, (size_t)n, sizeof *v, by_hash);
    for (int i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && alike(&v[i], &v[k]);)
            k++;
        for (int j = i; k - i > 1 && j < k; j++) {
            suspect s = v[j];

            if (hash_end(&s, paths[s.file], most, quiet))
                v[kept++] = s;
        }
    }
    return kept;
}

int *dg_copies_find(dg_arena *a, const char *const *paths, int n)
{
    int *first = DG_NEW_N(a, n + 1, int), m = 0;
    suspect *v = DG_NEW_N(a, n + 1, suspect);
    dg_diag *quiet = dg_diag_open();
    struct stat st;

    for (int i = 0; i < n; i++) {
        first[i] = i;
        if (stat(paths[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
            v[m++] = (suspect){ .bytes = st.st_size, .file = i };
    }
    m = keep_alike(v, m, paths, TAIL, quiet);
    m = keep_alike(v, m, paths, SIZE_MAX, quiet);
    if (m > 1)
        qsort(v, (size_t)m, sizeof *v, by_hash);
    for (int i = 1, lead = 0; i < m; i++) {
        lead = alike(&v[lead], &v[i]) ? lead : i;
        first[v[i].file] = v[lead].file;
    }
    dg_diag_close(&quiet);
    return first;
}
