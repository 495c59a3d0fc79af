/* json.c: a thin layer over yajl's event parser: positions, a depth limit, locale-free numbers. */
#include "media/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <yajl/yajl_parse.h>

#include "base/str.h"

enum { MAX_NUMBER = 400, PASSED = 16 << 20 };

struct dg_json_reader {
    const dg_json_events *events;
    void *ctx;
    const char *text, *file;
    size_t n, start; /* start: offset of the token being reported */
    size_t base;     /* offset of the piece that yajl is parsing */
    yajl_handle yajl;
    int depth, skip_depth;
    bool skip, finishing;
    int rc;
    dg_diag *d;
};

const char *dg_json_kind_name(dg_json_kind kind)
{
    static const char *const names[] = { "null",     "true or false", "a number",
                                         "a string", "an array",      "an object" };

    return names[kind];
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Parses a real of up to 15 digits times a power of ten that f64 holds exactly: one rounding gives
 * the nearest f64 (Clinger 1990). False: text is not of that kind. */
static bool simple_real(const char *p, size_t n, double *out)
{
    static const double ten[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const char *const end = p + n;
    const bool minus = p < end && *p == '-';
    uint64_t digits = 0;
    int n_digits = 0, n_after = 0;
    bool point = false;

    for (p += minus; p < end; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9' || n_digits == 15)
            return false;
        digits = digits * 10 + (uint64_t)(*p - '0');
        n_digits += digits != 0;
        n_after += point;
        if (n_after > 22)
            return false;
    }
    *out = (double)digits / ten[n_after];
    if (minus)
        *out = -*out;
    return true;
}

bool dg_json_real(const dg_json_scalar *v, double *out)
{
    char copy[MAX_NUMBER + 1];

    if (v->kind != DG_JSON_NUMBER || v->n > MAX_NUMBER)
        return false;
    if (simple_real(v->text, v->n, out))
        return true;
    memcpy(copy, v->text, v->n);
    copy[v->n] = '\0';
    if (!dg_parse_f64(copy, out)) /* well-formed, so it overflows */
        *out = copy[0] == '-' ? -INFINITY : INFINITY;
    return true;
}

bool dg_json_int(const dg_json_scalar *v, int64_t *out)
{
    char copy[32];
    double real;

    if (v->kind != DG_JSON_NUMBER)
        return false;
    if (v->n < sizeof copy && !memchr(v->text, '.', v->n) && !memchr(v->text, 'e', v->n) &&
        !memchr(v->text, 'E', v->n)) {
        memcpy(copy, v->text, v->n);
        copy[v->n] = '\0';
        return dg_parse_i64(copy, out);
    }
    if (!dg_json_real(v, &real) || !(fabs(real) <= 0x1p53) || real != floor(real))
        return false;
    *out = (int64_t)real;
    return true;
}

/* ---- positions and errors -------------------------------------------------------------------- */

dg_where dg_json_where(const char *text, size_t n, const char *file, size_t offset)
{
    dg_where at = { file, 1, 1, NULL };
    const char *line = text, *end = text + (offset < n ? offset : n);

    for (const char *p; (p = memchr(line, '\n', (size_t)(end - line))) != NULL; line = p + 1)
        at.line++;
    at.column = (int)(end - line) + 1;
    return at;
}

size_t dg_json_offset(const dg_json_reader *r)
{
    return r->start;
}

DG_PRINTF(4, 0)
static int fail_at(const dg_json_reader *r, size_t offset, const char *id, const char *fmt,
                   va_list ap)
{
    dg_str text = { 0 };
    int rc;

    dg_str_vfmt(&text, fmt, ap);
    rc = dg_fail(r->d, DG_EINPUT, dg_json_where(r->text, r->n, r->file, offset), id, "%s", text.s);
    dg_str_free(&text);
    return rc;
}

int dg_json_fail(const dg_json_reader *r, const char *id, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = fail_at(r, r->start, id, fmt, ap);
    va_end(ap);
    return rc;
}

int dg_json_fail_at(const dg_json_reader *r, size_t offset, const char *id, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = fail_at(r, offset, id, fmt, ap);
    va_end(ap);
    return rc;
}

void dg_json_skip(dg_json_reader *r)
{
    r->skip = true;
    r->skip_depth = r->depth;
}

/* ---- yajl's callbacks: 0 stops it ------------------------------------------------------------ */

/* Records the start of the token of `length` bytes that the parser has just read. */
static void mark_token(dg_json_reader *r, size_t length)
{
    size_t end = r->finishing ? r->n : r->base + yajl_get_bytes_consumed(r->yajl);

    r->start = end >= length ? end - length : 0;
}

static int scalar(dg_json_reader *r, const dg_json_scalar *v, size_t length)
{
    if (r->skip) {
        r->skip = r->depth != r->skip_depth;
        return 1;
    }
    mark_token(r, length);
    if (v->kind == DG_JSON_NUMBER && v->n > MAX_NUMBER)
        r->rc = dg_json_fail(r, "json-syntax", "a number of %zu characters; at most %d are read",
                             v->n, MAX_NUMBER);
    else
        r->rc = r->events->value(r->ctx, r, v);
    return r->rc == 0;
}

static int on_null(void *ctx)
{
    return scalar(ctx, &(dg_json_scalar){ .kind = DG_JSON_NULL }, 4);
}

static int on_bool(void *ctx, int truth)
{
    return scalar(ctx, &(dg_json_scalar){ .kind = DG_JSON_BOOL, .truth = truth != 0 },
                  truth ? 4 : 5);
}

static int on_number(void *ctx, const char *text, size_t n)
{
    return scalar(ctx, &(dg_json_scalar){ .kind = DG_JSON_NUMBER, .text = text, .n = n }, n);
}

/* Text ends at the first NUL everywhere else: a name with one would be another name. */
static int has_nul(dg_json_reader *r, const unsigned char *text, size_t n)
{
    if (r->skip || !memchr(text, '\0', n))
        return 0;
    mark_token(r, n + 2);
    return r->rc = dg_json_fail(r, "json-syntax", "a text with a NUL character, \\u0000");
}

static int on_string(void *ctx, const unsigned char *text, size_t n)
{
    if (has_nul(ctx, text, n) < 0)
        return 0;
    return scalar(ctx,
                  &(dg_json_scalar){ .kind = DG_JSON_STRING, .text = (const char *)text, .n = n },
                  n + 2);
}

static int on_key(void *ctx, const unsigned char *text, size_t n)
{
    dg_json_reader *r = ctx;

    if (r->skip)
        return 1;
    if (has_nul(r, text, n) < 0)
        return 0;
    mark_token(r, n + 2);
    r->rc = r->events->key(r->ctx, r, (const char *)text, n);
    return r->rc == 0;
}

static int begin(dg_json_reader *r, dg_json_kind kind)
{
    if (r->depth == DG_JSON_MAX_DEPTH) {
        mark_token(r, 1);
        r->rc = dg_json_fail(r, "json-depth", "nested more than %d deep", DG_JSON_MAX_DEPTH);
        return 0;
    }
    r->depth++;
    if (r->skip)
        return 1;
    mark_token(r, 1);
    r->rc = r->events->begin(r->ctx, r, kind);
    return r->rc == 0;
}

static int end(dg_json_reader *r, dg_json_kind kind)
{
    r->depth--;
    if (r->skip) {
        r->skip = r->depth != r->skip_depth;
        return 1;
    }
    mark_token(r, 1);
    r->rc = r->events->end(r->ctx, r, kind);
    return r->rc == 0;
}

static int on_begin_object(void *ctx)
{
    return begin(ctx, DG_JSON_OBJECT);
}

static int on_end_object(void *ctx)
{
    return end(ctx, DG_JSON_OBJECT);
}

static int on_begin_array(void *ctx)
{
    return begin(ctx, DG_JSON_ARRAY);
}

static int on_end_array(void *ctx)
{
    return end(ctx, DG_JSON_ARRAY);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_begin_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end_object,
    .yajl_start_array = on_begin_array,
    .yajl_end_array = on_end_array,
};

/* True if reading stopped at NaN or Infinity. */
static bool is_infinite(const dg_json_reader *r)
{
    const size_t begin = r->start > 8 ? r->start - 8 : 0, n = r->n - begin < 20 ? r->n - begin : 20;

    return memmem(r->text + begin, n, "NaN", 3) || memmem(r->text + begin, n, "Infinity", 8);
}

static int syntax_error(dg_json_reader *r)
{
    unsigned char *text = yajl_get_error(r->yajl, 0, NULL, 0);
    size_t n = text ? strcspn((char *)text, "\n") : 0;

    n -= n && text[n - 1] == '.';
    mark_token(r, 0);
    (void)dg_json_fail(r, "json-syntax", "not valid JSON: %.*s", (int)n, text ? (char *)text : "");
    if (is_infinite(r))
        dg_help(r->d, "JSON has no NaN and no Infinity, which Python's json.dump writes all the "
                      "same: take them out");
    if (r->finishing)
        dg_help(r->d, "the file ends too early: it may have been cut short while it was copied or "
                      "downloaded");
    if (text)
        yajl_free_error(r->yajl, text);
    return -DG_EINPUT;
}

/* ---- skipped values -------------------------------------------------------------------------- */

static size_t past_blanks(const dg_json_reader *r, size_t i)
{
    while (i < r->n && memchr(" \t\r\n", r->text[i], 4))
        i++;
    return i;
}

/* Offset of the next list or object under events->drop, from byte i on; n: none. A key's opening
 * quote has no backslash before it, unlike a quote inside a string. */
static size_t next_dropped(const dg_json_reader *r, size_t i)
{
    const size_t len = strlen(r->events->drop);

    for (const char *p; (p = memmem(r->text + i, r->n - i, r->events->drop, len)); i++) {
        i = (size_t)(p - r->text);
        if (i == 0 || p[-1] != '"' || (i > 1 && p[-2] == '\\') || i + len >= r->n || p[len] != '"')
            continue;

        size_t at = past_blanks(r, i + len + 1);

        if (at == r->n || r->text[at] != ':')
            continue;
        at = past_blanks(r, at + 1);
        if (at < r->n && (r->text[at] == '[' || r->text[at] == '{'))
            return at;
    }
    return r->n;
}

/* Offset past the list or object that begins at byte i; n if it does not end. */
static size_t step_over(const dg_json_reader *r, size_t i)
{
    int depth = 0;

    for (; i < r->n; i++) {
        const char c = r->text[i];

        if (c < '[' && c != '"') /* digits, commas, blanks */
            continue;
        if (c == '"') {
            for (i++; i < r->n && r->text[i] != '"'; i++)
                i += r->text[i] == '\\';
        } else if (c == '[' || c == '{') {
            depth++;
        } else if ((c == ']' || c == '}') && --depth == 0) {
            return i + 1;
        }
    }
    return r->n;
}

static yajl_status parse(dg_json_reader *r)
{
    yajl_status status = yajl_status_ok;
    size_t passed = 0, value;

    for (size_t at = 0; at < r->n && status == yajl_status_ok; at = step_over(r, value)) {
        value = r->events->drop ? next_dropped(r, at) : r->n;
        r->base = at;
        status = yajl_parse(r->yajl, (const unsigned char *)r->text + at, value - at);
        if (value == r->n || status != yajl_status_ok)
            break;
        r->base = value;
        status = yajl_parse(r->yajl, (const unsigned char *)"null", 4);
        if (r->events->passed && at - passed >= PASSED)
            r->events->passed(r->ctx, passed = at);
    }
    return status;
}

int dg_json_events_read(const char *text, size_t n, const char *file, const dg_json_events *events,
                        void *ctx, dg_diag *d)
{
    /* skip a byte order mark, which is not JSON */
    const bool marked = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    dg_json_reader r = { .events = events,
                         .ctx = ctx,
                         .text = text + 3 * marked,
                         .file = file,
                         .n = n - 3 * (size_t)marked,
                         .d = d };
    yajl_status status;

    r.yajl = yajl_alloc(&callbacks, NULL, &r);
    if (!r.yajl)
        dg_oom(sizeof r);
    status = parse(&r);
    if (status == yajl_status_ok) {
        r.finishing = true;
        status = yajl_complete_parse(r.yajl);
    }
    if (status == yajl_status_error)
        r.rc = syntax_error(&r);
    yajl_free(r.yajl);
    return r.rc;
}
