/* str.c: growing strings, locale-free numbers, nearest names, readable quantities. */
#include "base/str.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/arena.h"

enum { NEAREST_MAX = 63 }; /* longer names have no suggestions */

static void reserve(dg_str *s, size_t more)
{
    if (more >= SIZE_MAX / 4 || s->n >= SIZE_MAX / 4)
        dg_oom(more);
    size_t need = s->n + more + 1, cap = s->cap ? s->cap : 64;

    if (need <= s->cap)
        return;
    while (cap < need)
        cap *= 2;
    char *grown = realloc(s->s, cap);

    if (!grown)
        dg_oom(cap);
    s->s = grown;
    s->cap = cap;
}

void dg_str_free(dg_str *s)
{
    free(s->s);
    *s = (dg_str){ 0 };
}

void dg_str_add_n(dg_str *s, const char *text, size_t n)
{
    reserve(s, n);
    if (n)
        memcpy(s->s + s->n, text, n);
    s->n += n;
    s->s[s->n] = '\0';
}

void dg_str_add(dg_str *s, const char *text)
{
    dg_str_add_n(s, text, strlen(text));
}

void dg_str_vfmt(dg_str *s, const char *fmt, va_list ap)
{
    va_list again;

    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        n = 0;
    reserve(s, (size_t)n);
    vsnprintf(s->s + s->n, (size_t)n + 1, fmt, ap);
    s->n += (size_t)n;
    s->s[s->n] = '\0';
}

void dg_str_fmt(dg_str *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    dg_str_vfmt(s, fmt, ap);
    va_end(ap);
}

/* Well-formed sequences: Unicode 15, table 3-7. */
size_t dg_utf8_within(const char *text, size_t most)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char lo = 0x80, hi = 0xBF;
    size_t n = 4;

    if (s[0] < 0x80)
        n = 1;
    else if (s[0] < 0xC2 || s[0] > 0xF4)
        n = 0;
    else if (s[0] < 0xF0)
        n = s[0] < 0xE0 ? 2 : 3;
    if (s[0] == 0xE0)
        lo = 0xA0;
    else if (s[0] == 0xED)
        hi = 0x9F;
    else if (s[0] == 0xF0)
        lo = 0x90;
    else if (s[0] == 0xF4)
        hi = 0x8F;
    for (size_t i = 1; i < n; i++, lo = 0x80, hi = 0xBF)
        if (i >= most || s[i] < lo || s[i] > hi)
            return 0;
    return n;
}

size_t dg_utf8_bytes(const char *text)
{
    return dg_utf8_within(text, 4); /* a NUL ends a character that is cut */
}

bool dg_is_utf8(const char *text)
{
    for (size_t n; *text; text += n)
        if ((n = dg_utf8_bytes(text)) == 0)
            return false;
    return true;
}

size_t dg_mark_bytes(const char *text)
{
    return strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

/* C1 controls; marks and overrides of direction; line and paragraph separators */
static bool is_invisible(uint32_t c)
{
    return (c >= 0x80 && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

size_t dg_shown_bytes(const char *text, size_t most, size_t *skip)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = dg_utf8_within(text, most);
    uint32_t c = n < 2 ? *p : *p & (0xFFu >> (n + 1));

    *skip = 1;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3Fu);
    if (n == 0 || c < 0x20 || c == 0x7F)
        return 0;
    if (!is_invisible(c))
        return n;
    *skip = n;
    return 0;
}

static void add_shown(dg_str *s, const char *text, const char *keep)
{
    size_t left = strlen(text), skip;

    while (left) {
        size_t n = strchr(keep, *text) ? 1 : dg_shown_bytes(text, left, &skip);

        dg_str_add_n(s, n ? text : "?", n ? n : 1);
        n = n ? n : skip;
        text += n;
        left -= n;
    }
}

void dg_str_plain(dg_str *s, const char *text)
{
    add_shown(s, text, "");
}

void dg_str_shown(dg_str *s, const char *text)
{
    add_shown(s, text, "\n\t");
}

void dg_str_json(dg_str *s, const char *text)
{
    if (!text) {
        dg_str_add(s, "null");
        return;
    }
    dg_str_add(s, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = dg_utf8_bytes((const char *)p);

        if (n == 0) {
            dg_str_add(s, "\\ufffd");
            n = 1;
        } else if (*p == '"' || *p == '\\') {
            dg_str_fmt(s, "\\%c", *p);
        } else if (*p == '\n') {
            dg_str_add(s, "\\n");
        } else if (*p == '\t') {
            dg_str_add(s, "\\t");
        } else if (*p < 0x20 || *p == 0x7F) {
            dg_str_fmt(s, "\\u%04x", *p);
        } else if (n > 1 && dg_shown_bytes((const char *)p, n, &(size_t){ 0 }) == 0) {
            const uint32_t c = n == 2 ? (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)
                                      : (p[0] & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);

            dg_str_fmt(s, "\\u%04x", c); /* JSON is printed, too */
        } else {
            dg_str_add_n(s, (const char *)p, n);
        }
        p += n;
    }
    dg_str_add(s, "\"");
}

void dg_str_xml(dg_str *s, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = dg_utf8_bytes((const char *)p);

        if (*p == '&')
            dg_str_add(s, "&amp;");
        else if (*p == '<')
            dg_str_add(s, "&lt;");
        else if (*p == '>')
            dg_str_add(s, "&gt;");
        else if (*p == '"')
            dg_str_add(s, "&quot;");
        else if (*p == '\t' || *p == '\n' || *p == '\r')
            dg_str_fmt(s, "&#%d;", *p); /* parsers turn literal ones in attributes into spaces */
        else if (n == 0 || *p < 0x20)
            dg_str_add(s, "\xEF\xBF\xBD"); /* not allowed in XML text: becomes U+FFFD */
        else
            dg_str_add_n(s, (const char *)p, n);
        p += n ? n : 1;
    }
    reserve(s, 0);
    s->s[s->n] = '\0';
}

void dg_str_base64(dg_str *s, const void *p, size_t n)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = p;

    reserve(s, (n + 2) / 3 * 4);
    for (; n; in += 3) {
        uint32_t v =
            (uint32_t)in[0] << 16 | (n > 1 ? (uint32_t)in[1] << 8 : 0) | (n > 2 ? in[2] : 0);

        s->s[s->n++] = letters[v >> 18];
        s->s[s->n++] = letters[v >> 12 & 63];
        s->s[s->n++] = n > 1 ? letters[v >> 6 & 63] : '=';
        s->s[s->n++] = n > 2 ? letters[v & 63] : '=';
        n = n > 3 ? n - 3 : 0;
    }
    s->s[s->n] = '\0';
}

/* Makes the "C" locale on each call: glibc makes that free, and caching it would need a global. */
void dg_str_json_real(dg_str *s, double v)
{
    if (!isfinite(v)) {
        dg_str_add(s, "null");
        return;
    }
    locale_t c = newlocale(LC_ALL_MASK, "C", NULL), before = uselocale(c);
    char buf[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        double back = strtod(buf, NULL);

        if (memcmp(&back, &v, sizeof v) == 0)
            break;
    }
    uselocale(before);
    freelocale(c);
    dg_str_add(s, buf);
}

int dg_str_padding(const char *text, int columns)
{
    locale_t c = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL), before = c ? uselocale(c) : NULL;
    size_t n = strlen(text), bytes;
    mbstate_t state = { 0 };

    for (size_t i = 0; i < n; i += bytes) {
        wchar_t letter;
        int width = -1;

        bytes = mbrtowc(&letter, text + i, n - i, &state);
        if (bytes > 0 && bytes <= n - i)
            width = wcwidth(letter);
        else
            bytes = 1;
        columns -= width < 0 ? 1 : width; /* shown as "?" */
    }
    if (c) {
        uselocale(before);
        freelocale(c);
    }
    return columns > 0 ? columns : 0;
}

bool dg_parse_i64(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    char *end = NULL;

    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    long long v = strtoll(text, &end, 10);

    if (errno || *end)
        return false;
    *out = v;
    return true;
}

bool dg_parse_f64(const char *text, double *out)
{
    if (!*text || text[strspn(text, "0123456789+-.eE")]) /* no spaces, inf, nan or hexadecimal */
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", NULL);
    char *end = NULL;
    double v = strtod_l(text, &end, c);

    freelocale(c);
    /* what is no 0 must not become one: 1e-400 */
    if (end == text || *end || !isfinite(v) ||
        (v == 0 && strcspn(text, "123456789") < strcspn(text, "eE")))
        return false;
    *out = v;
    return true;
}

/* Edit distance with transpositions of neighbours (optimal string alignment). */
static int distance(const char *a, int n, const char *b, int m)
{
    int rows[3][NEAREST_MAX + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];

    for (int j = 0; j <= m; j++)
        above[j] = j;
    for (int i = 1; i <= n; i++) {
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);

            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int *spare = before;

        before = above;
        above = row;
        row = spare;
    }
    return above[m];
}

const char *dg_nearest(const char *name, const char *const candidates[], int n)
{
    size_t len = strlen(name);
    const char *nearest = NULL;
    int best = 0;

    if (len == 0 || len > NEAREST_MAX)
        return NULL;
    for (int i = 0; i < n; i++) {
        size_t m = strlen(candidates[i]), longer = m > len ? m : len;

        if (m > NEAREST_MAX)
            continue;
        int d = distance(name, (int)len, candidates[i], (int)m);

        if (d <= (int)(longer + 2) / 3 && d < (int)longer && (!nearest || d < best)) {
            nearest = candidates[i];
            best = d;
        }
    }
    return nearest;
}

char *dg_human_bytes(double bytes, char *buf, size_t n)
{
    static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t u = 0;

    while (fabs(bytes) >= (u ? 1023.95 : 1024) && u < sizeof units / sizeof *units - 1) {
        bytes /= 1024;
        u++;
    }
    snprintf(buf, n, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return buf;
}

const char *dg_plural(int64_t n, const char *ending)
{
    return n == 1 ? "" : ending;
}

char *dg_human_count(int64_t count, char *buf, size_t n)
{
    char digits[24], spaced[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)count), o = 0;

    for (int i = 0; i < len; i++) {
        if (i && digits[i - 1] != '-' && (len - i) % 3 == 0)
            spaced[o++] = ' ';
        spaced[o++] = digits[i];
    }
    spaced[o] = '\0';
    snprintf(buf, n, "%s", spaced);
    return buf;
}

char *dg_human_time(double seconds, char *buf, size_t n)
{
    long long s = isfinite(seconds) && fabs(seconds) < 1e15 ? llround(seconds) : -1;

    if (!(seconds >= 0) || s < 0)
        snprintf(buf, n, "?");
    else if (seconds < 0.9995)
        snprintf(buf, n, "%.0f ms", seconds * 1e3);
    else if (seconds < 9.95)
        snprintf(buf, n, "%.1f s", seconds);
    else if (s < 60)
        snprintf(buf, n, "%lld s", s);
    else if (s < 3600)
        snprintf(buf, n, "%lld min %02lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, n, "%lld h %02lld min", s / 3600, s / 60 % 60);
    else
        snprintf(buf, n, "%lld d %02lld h", s / 86400, s / 3600 % 24);
    return buf;
}

uint64_t dg_fnv1a(const void *p, size_t n)
{
    return dg_digest(DG_DIGEST, p, n);
}

uint64_t dg_fnv1a_text(const char *s)
{
    return dg_fnv1a(s, strlen(s));
}

uint64_t dg_hash64(uint64_t h, const void *p, size_t n)
{
    const char *bytes = p;
    size_t i = 0;

    for (; i + sizeof h <= n; i += sizeof h) {
        uint64_t word;

        memcpy(&word, bytes + i, sizeof word);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 32; /* a product carries only upwards: fold the high bits down */
    }
    return i < n ? (h ^ dg_fnv1a(bytes + i, n - i)) * 0x100000001b3u : h;
}

void dg_str_shell(dg_str *s, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,+@%";

    if (word && *word && !word[strspn(word, plain)]) {
        dg_str_add(s, word);
        return;
    }
    dg_str_add(s, "'");
    for (; word && *word; word++)
        dg_str_add_n(s, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    dg_str_add(s, "'");
}

const char *dg_shell(dg_arena *a, const char *word)
{
    dg_str s = { 0 };
    const char *quoted;

    dg_str_shell(&s, word);
    quoted = dg_strdup(a, s.s);
    dg_str_free(&s);
    return quoted;
}

void dg_str_wrap(dg_str *out, const char *text, int indent, int room)
{
    int used = 0;

    for (const char *word = text; *word;) {
        int n = (int)strcspn(word, " ");

        if (used && used + 1 + n > room) {
            dg_str_fmt(out, "\n%*s", indent, "");
            used = 0;
        }
        dg_str_fmt(out, "%s%.*s", used ? " " : "", n, word);
        used += (used ? 1 : 0) + n;
        word += n;
        word += strspn(word, " ");
    }
}
