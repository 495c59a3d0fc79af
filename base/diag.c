/* diag.c: keeps up to DG_DIAG_MAX errors and as many warnings, copied into its own arena; prints
 * them for people (place, line, caret, notes, help) or as JSON. */
#include "base/diag.h"

#include <errno.h>
#include <string.h>

/* bytes of a source line that are shown; longer lines are cut around the column */
enum { EXCERPT = 100 };

struct dg_diag {
    dg_arena *arena;
    DG_VEC(dg_err) kept;
    int count[2]; /* by severity, including those not kept */
    int n_kept[2];
    bool last_is_kept; /* false: the latest diagnostic was dropped, and so are its notes and help */
};

dg_diag *dg_diag_open(void)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = DG_NEW(a, dg_diag);

    d->arena = a;
    return d;
}

void dg_diag_close(dg_diag **d)
{
    if (!*d)
        return;
    dg_arena *a = (*d)->arena;

    dg_arena_close(&a);
    *d = NULL;
}

void dg_diag_clear(dg_diag *d)
{
    *d = (dg_diag){ .arena = d->arena };
}

int dg_diag_errors(const dg_diag *d)
{
    return d->count[DG_ERROR];
}

int dg_diag_warnings(const dg_diag *d)
{
    return d->count[DG_WARNING];
}

int dg_diag_n(const dg_diag *d)
{
    return d->kept.n;
}

const dg_err *dg_diag_at(const dg_diag *d, int i)
{
    return &d->kept.items[i];
}

static dg_where copy_where(dg_arena *a, dg_where at)
{
    at.file = at.file ? dg_strdup(a, at.file) : NULL;
    at.node = at.node ? dg_strdup(a, at.node) : NULL;
    return at;
}

/* Adds a diagnostic; NULL when DG_DIAG_MAX of its severity are kept already. */
static dg_err *add(dg_diag *d, dg_severity severity)
{
    d->count[severity]++;
    d->last_is_kept = d->n_kept[severity] < DG_DIAG_MAX;
    if (!d->last_is_kept)
        return NULL;
    d->n_kept[severity]++;
    DG_PUSH(d->arena, d->kept, ((dg_err){ .severity = severity }));
    return &d->kept.items[d->kept.n - 1];
}

static void add_text(dg_diag *d, dg_severity severity, dg_code code, dg_where at, const char *id,
                     const char *fmt, va_list ap) DG_PRINTF(6, 0);
static void add_text(dg_diag *d, dg_severity severity, dg_code code, dg_where at, const char *id,
                     const char *fmt, va_list ap)
{
    dg_err *e = d ? add(d, severity) : NULL;

    if (!e)
        return;
    e->code = code;
    e->id = dg_strdup(d->arena, id);
    e->text = dg_vprintf(d->arena, fmt, ap);
    e->at = copy_where(d->arena, at);
}

#undef dg_fail
#undef dg_fail_os
int dg_fail(dg_diag *d, dg_code code, dg_where at, const char *id, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_text(d, DG_ERROR, code, at, id, fmt, ap);
    va_end(ap);
    return -(int)code;
}

int dg_fail_os(dg_diag *d, int error, const char *path, const char *id, const char *fmt, ...)
{
    char why[128];
    dg_str what = { 0 };
    va_list ap;
    int rc;

    va_start(ap, fmt);
    dg_str_vfmt(&what, fmt, ap);
    va_end(ap);
    rc = dg_fail(d, DG_EIO, (dg_where){ .file = path }, id, "%s: %s", what.s,
                 strerror_r(error, why, sizeof why));
    if (error == EFBIG)
        dg_help(d, "if ulimit -f of the shell says a number, start from one without such a limit");
    dg_str_free(&what);
    return rc;
}

void dg_warn(dg_diag *d, dg_where at, const char *id, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_text(d, DG_WARNING, DG_OK, at, id, fmt, ap);
    va_end(ap);
}

static void add_remark(dg_diag *d, bool help, dg_where at, const char *text)
{
    dg_err *e = &d->kept.items[d->kept.n - 1];

    if ((e->n_remarks & (e->n_remarks - 1)) == 0) { /* remarks are full at 0, 1, 2, 4, ... */
        dg_remark *grown = DG_NEW_N(d->arena, e->n_remarks ? 2 * e->n_remarks : 1, dg_remark);

        if (e->n_remarks)
            memcpy(grown, e->remarks, (size_t)e->n_remarks * sizeof *grown);
        e->remarks = grown;
    }
    e->remarks[e->n_remarks++] = (dg_remark){ help, copy_where(d->arena, at), text };
}

void dg_note(dg_diag *d, dg_where at, const char *fmt, ...)
{
    va_list ap;

    if (!d || !d->last_is_kept)
        return;
    va_start(ap, fmt);
    add_remark(d, false, at, dg_vprintf(d->arena, fmt, ap));
    va_end(ap);
}

void dg_help(dg_diag *d, const char *fmt, ...)
{
    va_list ap;

    if (!d || !d->last_is_kept)
        return;
    va_start(ap, fmt);
    add_remark(d, true, DG_NOWHERE, dg_vprintf(d->arena, fmt, ap));
    va_end(ap);
}

void dg_fold(dg_diag *d)
{
    dg_err *e;

    if (!d || !d->last_is_kept)
        return;
    e = &d->kept.items[d->kept.n - 1];
    e->folded = true;
    d->count[e->severity]--;
    d->n_kept[e->severity]--;
}

void dg_diag_merge(dg_diag *d, const dg_diag *from)
{
    for (int i = 0; i < from->kept.n; i++) {
        const dg_err *e = &from->kept.items[i];
        dg_err *copy = add(d, e->severity);

        if (!copy)
            continue;
        *copy = (dg_err){
            .severity = e->severity,
            .code = e->code,
            .id = dg_strdup(d->arena, e->id),
            .text = dg_strdup(d->arena, e->text),
            .at = copy_where(d->arena, e->at),
        };
        for (int k = 0; k < e->n_remarks; k++)
            add_remark(d, e->remarks[k].help, e->remarks[k].at,
                       dg_strdup(d->arena, e->remarks[k].text));
        if (e->folded)
            dg_fold(d);
    }
    for (int s = 0; s < 2; s++)
        d->count[s] += from->count[s] - from->n_kept[s];
}

static int compare(dg_where a, dg_where b)
{
    int files = strcmp(a.file ? a.file : "", b.file ? b.file : "");

    return files ? files : a.line != b.line ? a.line - b.line : a.column - b.column;
}

static bool same(const dg_err *a, const dg_err *b)
{
    return a->severity == b->severity && compare(a->at, b->at) == 0 && strcmp(a->id, b->id) == 0 &&
           strcmp(a->text, b->text) == 0;
}

/* Drops repeats of the neighbour: two users of one model report its fault twice. */
static void drop_repeats(dg_diag *d)
{
    int n = 0;

    for (int i = 0; i < d->kept.n; i++) {
        const dg_err e = d->kept.items[i];

        if (n > 0 && same(&d->kept.items[n - 1], &e)) {
            d->count[e.severity] -= !e.folded;
            d->n_kept[e.severity] -= !e.folded;
        } else {
            d->kept.items[n++] = e;
        }
    }
    d->kept.n = n;
}

void dg_diag_sort(dg_diag *d)
{
    for (int i = 1; i < d->kept.n; i++) /* insertion sort: few items, mostly in order */
        for (int k = i; k > 0 && compare(d->kept.items[k - 1].at, d->kept.items[k].at) > 0; k--) {
            dg_err swap = d->kept.items[k];

            d->kept.items[k] = d->kept.items[k - 1];
            d->kept.items[k - 1] = swap;
        }
    drop_repeats(d);
    d->last_is_kept = false; /* sorting may have moved the latest */
}

/* ---- printing -------------------------------------------------------------------------------- */

typedef struct printer {
    dg_str *out;
    dg_source_fn *source;
    void *ctx;
    bool colour;
} printer;

static void paint(const printer *p, const char *escape)
{
    if (p->colour)
        dg_str_add(p->out, escape);
}

/* Prints text from files as dg_str_plain does; indents the lines after the first. */
static void add_clean(const printer *p, const char *text)
{
    for (size_t n = strlen(text), k, skip; n; text += k, n -= k) {
        k = dg_shown_bytes(text, n, &skip);
        if (*text == '\n')
            dg_str_add(p->out, "\n    ");
        else
            dg_str_add_n(p->out, k || *text == '\t' ? text : "?", k ? k : 1);
        k = k ? k : skip;
    }
}

static void add_place(const printer *p, dg_where at)
{
    const char *name = at.file ? at.file : at.node;

    if (!name)
        return;
    add_clean(p, name);
    if (at.file && at.line > 0)
        dg_str_fmt(p->out, ":%d", at.line);
    if (at.file && at.line > 0 && at.column > 0)
        dg_str_fmt(p->out, ":%d", at.column);
    dg_str_add(p->out, ": ");
}

/* Line number `line` (from 1) of text[0..n-1]; NULL if it has fewer lines. */
static const char *find_line(const char *text, size_t n, int line, size_t *len)
{
    const char *end = text + n;

    for (; line > 1; line--) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));

        if (!newline)
            return NULL;
        text = newline + 1;
    }
    const char *newline = memchr(text, '\n', (size_t)(end - text));

    *len = (size_t)((newline ? newline : end) - text);
    if (*len && text[*len - 1] == '\r')
        --*len;
    return text;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static void add_excerpt(const printer *p, dg_where at)
{
    size_t n = 0, len = 0;
    const char *text = p->source && at.file && at.line > 0 ? p->source(p->ctx, at.file, &n) : NULL;
    const char *line = text ? find_line(text, n, at.line, &len) : NULL;

    if (!line)
        return;
    size_t column = at.column > 0 && (size_t)at.column <= len + 1 ? (size_t)at.column - 1 : 0;
    size_t from = len > EXCERPT && column > EXCERPT / 2 ? column - EXCERPT / 2 : 0;
    size_t to = len - from > EXCERPT ? from + EXCERPT : len;

    while (from > 0 && continues(line[from]))
        from--;
    while (to < len && continues(line[to]))
        to++;
    dg_str_fmt(p->out, "%5d | %s", at.line, from ? "..." : "");
    for (size_t i = from, k; i < to; i += k) {
        size_t skip;

        k = dg_shown_bytes(line + i, to - i, &skip);
        dg_str_add_n(p->out, k || line[i] == '\t' ? line + i : "?", k ? k : 1);
        k = k ? k : skip;
    }
    dg_str_fmt(p->out, "%s\n", to < len ? "..." : "");
    if (at.column <= 0 || (size_t)at.column > len + 1)
        return;
    dg_str_fmt(p->out, "      | %s", from ? "   " : "");
    for (size_t i = from; i < column; i++)
        if (!continues(line[i]))
            dg_str_add(p->out, line[i] == '\t' ? "\t" : " ");
    paint(p, "\033[1;32m");
    dg_str_add(p->out, "^");
    paint(p, "\033[0m");
    dg_str_add(p->out, "\n");
}

static void print_one(const printer *p, const dg_err *e)
{
    bool error = e->severity == DG_ERROR;

    paint(p, "\033[1m");
    add_place(p, e->at);
    paint(p, error ? "\033[1;31m" : "\033[1;35m");
    dg_str_fmt(p->out, "%s[%s]: ", error ? "error" : "warning", e->id);
    paint(p, "\033[0m");
    add_clean(p, e->text);
    dg_str_add(p->out, "\n");
    add_excerpt(p, e->at);
    for (int k = 0; k < e->n_remarks; k++) {
        const dg_remark *r = &e->remarks[k];

        paint(p, r->help ? "\033[1;32m" : "\033[1;36m");
        dg_str_add(p->out, r->help ? "  help: " : "  note: ");
        paint(p, "\033[0m");
        add_place(p, r->at);
        add_clean(p, r->text);
        dg_str_add(p->out, "\n");
    }
}

void dg_diag_print(dg_str *out, const dg_diag *d, dg_source_fn *source, void *ctx, bool colour)
{
    static const char *const names[2] = { [DG_ERROR] = "error", [DG_WARNING] = "warning" };
    printer p = { out, source, ctx, colour };

    for (int i = 0; i < d->kept.n; i++)
        if (!d->kept.items[i].folded)
            print_one(&p, &d->kept.items[i]);
    for (int s = 0; s < 2; s++) {
        int more = d->count[s] - d->n_kept[s];

        if (more)
            dg_str_fmt(out, "and %d more %s%s\n", more, names[s], more > 1 ? "s" : "");
    }
}

const char *dg_diag_text(dg_diag *d)
{
    dg_str out = { 0 };
    const char *text;

    dg_diag_print(&out, d, NULL, NULL, false);
    text = dg_strdup(d->arena, out.s ? out.s : "");
    dg_str_free(&out);
    return text;
}

static void json_where(dg_str *out, dg_where at)
{
    dg_str_add(out, "\"file\":");
    dg_str_json(out, at.file);
    dg_str_fmt(out, ",\"line\":%d,\"column\":%d,\"node\":", at.line, at.column);
    dg_str_json(out, at.node);
}

static void json_remarks(dg_str *out, const dg_err *e, bool help)
{
    const char *comma = "";

    for (int k = 0; k < e->n_remarks; k++) {
        const dg_remark *r = &e->remarks[k];

        if (r->help != help)
            continue;
        dg_str_add(out, comma);
        comma = ",";
        if (!help) {
            dg_str_add(out, "{");
            json_where(out, r->at);
            dg_str_add(out, ",\"message\":");
        }
        dg_str_json(out, r->text);
        if (!help)
            dg_str_add(out, "}");
    }
}

void dg_diag_json(dg_str *out, const dg_diag *d)
{
    dg_str_add(out, "[");
    for (int i = 0; i < d->kept.n; i++) {
        const dg_err *e = &d->kept.items[i];

        dg_str_fmt(out, "%s\n{\"severity\":\"%s\",%s\"id\":", i ? "," : "",
                   e->severity == DG_ERROR ? "error" : "warning",
                   e->folded ? "\"folded\":true," : "");
        dg_str_json(out, e->id);
        dg_str_add(out, ",\"message\":");
        dg_str_json(out, e->text);
        dg_str_add(out, ",");
        json_where(out, e->at);
        dg_str_add(out, ",\"notes\":[");
        json_remarks(out, e, false);
        dg_str_add(out, "],\"help\":[");
        json_remarks(out, e, true);
        dg_str_add(out, "]}");
    }
    dg_str_add(out, d->kept.n ? "\n]\n" : "]\n");
}
