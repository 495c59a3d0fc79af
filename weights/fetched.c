/* fetched.c: see fetched.h. */
#include "weights/fetched.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <glib.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"
#include "media/json.h"

int dg_fetched_sum(dg_fetched *out, const char *path, dg_diag *d)
{
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    FILE *f = fopen(path, "rbe");
    static const size_t chunk = 1 << 20;
    uint8_t *buffer = dg_try_alloc(chunk);
    size_t n = f && buffer ? chunk : 0;
    int rc = 0;

    out->bytes = 0;
    while (n == chunk) {
        n = fread(buffer, 1, chunk, f);
        g_checksum_update(sum, buffer, (gssize)n);
        out->bytes += (int64_t)n;
    }
    if (!f || !buffer || ferror(f))
        rc = dg_fail_os(d, errno, path, "file-open", "cannot be read");
    snprintf(out->sha256, sizeof out->sha256, "%s", g_checksum_get_string(sum));
    if (f)
        fclose(f);
    dg_free(buffer);
    g_checksum_free(sum);
    return rc;
}

int dg_fetched_noted(const char **sum, dg_arena *a, const char *path, dg_diag *d)
{
    const char *note = dg_printf(a, "%s.json", path);
    const dg_json *root = NULL;
    int rc = 0;

    *sum = "";
    if (!dg_exists(note))
        return 0;
    DG_TRY(dg_json_read(&root, a, note, d));
    *sum = dg_json_text(root, "sha256");
    if (strlen(*sum) != 64)
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = note }, "fetch-note",
                     "it has no SHA-256 of the file");
out:
    if (rc < 0)
        dg_help(d, "detrgraph weights fetch --force fetches the file anew");
    return rc;
}

int dg_fetched_note(const dg_fetched *x, const char *url, const char *path, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_str s = { 0 };
    int rc;

    dg_str_add(&s, "{\"url\":");
    dg_str_json(&s, url);
    dg_str_fmt(&s, ",\"bytes\":%lld,\"sha256\":\"%s\"}\n", (long long)x->bytes, x->sha256);
    rc = dg_file_write(dg_printf(a, "%s.json", path), s.s, s.n, d);
    dg_str_free(&s);
    dg_arena_close(&a);
    return rc;
}

int dg_fetched_check(dg_fetched *out, const char *path, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const char *noted = "";
    int rc = dg_fetched_noted(&noted, a, path, d);

    out->was_there = true;
    if (rc == 0)
        rc = dg_fetched_sum(out, path, d);
    if (rc == 0 && *noted && strcmp(noted, out->sha256) != 0) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "fetch-damaged",
                     "its SHA-256 is %s, and was %s when it was fetched", out->sha256, noted);
        dg_help(d, "detrgraph weights fetch --force fetches it anew");
    }
    dg_arena_close(&a);
    return rc;
}
