/* metrics_jsonl.c: appends to metrics.jsonl. Each line is written with one call, so a killed run
 * leaves complete lines. What a full disk refuses waits in memory. */
#include "report/metrics_jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"

enum { WAITING_MAX = 64 << 20 };

struct dg_metrics_jsonl {
    int fd;
    char *path;
    dg_str waiting; /* not written yet */
};

/* The step of a line; lines written by this file begin with {"step":N, . */
static int64_t step_of(const char *line, size_t n)
{
    static const char head[] = "{\"step\":";
    size_t len = sizeof head - 1;

    return n > len && memcmp(line, head, len) == 0 ? strtoll(line + len, NULL, 10) : -1;
}

static int drop_after(const char *path, int64_t step, dg_diag *d)
{
    char *text;
    size_t n;
    dg_str kept = { 0 };
    int rc;

    if (!dg_exists(path))
        return 0;
    DG_TRY(dg_file_read(&text, &n, path, 0, d));
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t len = newline ? (size_t)(newline - text) + 1 - at : n - at;
        int64_t s = step_of(text + at, len);

        if (newline && s >= 0 && s <= step)
            dg_str_add_n(&kept, text + at, len);
        at += len;
    }
    dg_free(text);
    rc = dg_file_write(path, kept.s ? kept.s : "", kept.n, d);
out:
    dg_str_free(&kept);
    return rc;
}

int dg_metrics_jsonl_open(dg_metrics_jsonl **out, const char *path, int64_t step, dg_diag *d)
{
    dg_metrics_jsonl *j;
    int fd, rc;

    *out = NULL;
    DG_TRY(drop_after(path, step, d));
    DG_TRY(dg_file_open(&fd, path, O_WRONLY | O_CREAT | O_APPEND, d));
    j = malloc(sizeof *j);
    if (!j)
        dg_oom(sizeof *j);
    j->fd = fd;
    j->path = strdup(path);
    j->waiting = (dg_str){ 0 };
    *out = j;
out:
    return rc;
}

void dg_metrics_jsonl_close(dg_metrics_jsonl **j)
{
    if (!*j)
        return;
    close((*j)->fd);
    free((*j)->path);
    dg_str_free(&(*j)->waiting);
    free(*j);
    *j = NULL;
}

int dg_metrics_jsonl_flush(dg_metrics_jsonl *j, dg_diag *d)
{
    dg_str *s = &j->waiting;
    size_t at = 0;
    int rc = 0;

    while (rc == 0 && at < s->n) {
        ssize_t k = write(j->fd, s->s + at, s->n - at);

        if (k > 0)
            at += (size_t)k;
        else if (errno != EINTR)
            rc = dg_fail_os(d, errno, j->path, "journal-write", "cannot write");
    }
    if (at)
        memmove(s->s, s->s + at, s->n - at);
    s->n -= at;
    return rc;
}

bool dg_metrics_jsonl_is_full(const dg_metrics_jsonl *j)
{
    return j->waiting.n > WAITING_MAX;
}

bool dg_metrics_jsonl_is_gone(const dg_metrics_jsonl *j)
{
    struct stat st;

    return j && fstat(j->fd, &st) == 0 && st.st_nlink == 0;
}

int dg_metrics_jsonl_again(dg_metrics_jsonl *j, dg_diag *d)
{
    int fd, rc = dg_file_rescue(j->fd, j->path, d);

    if (rc < 0)
        return rc;
    rc = dg_file_open(&fd, j->path, O_WRONLY | O_APPEND, d);
    if (rc < 0)
        return rc;
    close(j->fd);
    j->fd = fd;
    return 0;
}

int dg_metrics_jsonl_add(dg_metrics_jsonl *j, int64_t step, int64_t epoch, const char *scope,
                         const dg_metrics *m, dg_diag *d)
{
    dg_str s = { 0 };

    dg_str_fmt(&s, "{\"step\":%lld,\"epoch\":%lld", (long long)step, (long long)epoch);
    if (scope) {
        dg_str_add(&s, ",\"evaluate\":");
        dg_str_json(&s, scope);
    }
    for (int i = 0; i < m->names.n; i++) {
        dg_str_add(&s, ",");
        dg_str_json(&s, m->names.items[i]);
        dg_str_add(&s, ":");
        dg_str_json_real(&s, m->values.items[i]);
    }
    for (int i = 0; i < m->notes.n; i++) {
        dg_str_add(&s, i ? "," : ",\"notes\":[");
        dg_str_json(&s, m->notes.items[i]);
    }
    dg_str_add(&s, m->notes.n ? "]}\n" : "}\n");
    dg_str_add_n(&j->waiting, s.s, s.n);
    dg_str_free(&s);
    return dg_metrics_jsonl_flush(j, d);
}
