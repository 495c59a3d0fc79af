/* str.h: a growing string, and text helpers that several rooms need. */
#ifndef DG_BASE_STR_H
#define DG_BASE_STR_H

#include <detrgraph/core.h>

#include "base/arena.h"

/* Zero-initialise before use; s is NULL until something is added, then NUL-terminated. */
typedef struct dg_str {
    char *s;
    size_t n, cap;
} dg_str;

void dg_str_free(dg_str *s); /* frees and resets to empty */
void dg_str_add(dg_str *s, const char *text);
void dg_str_add_n(dg_str *s, const char *text, size_t n);
void dg_str_fmt(dg_str *s, const char *fmt, ...) DG_PRINTF(2, 3);
void dg_str_vfmt(dg_str *s, const char *fmt, va_list ap) DG_PRINTF(2, 0);
/* words in lines of `room` characters; indents the lines after the first */
void dg_str_wrap(dg_str *s, const char *text, int indent, int room);
void dg_str_json(dg_str *s, const char *text);       /* as a quoted JSON string; NULL is null */
void dg_str_shell(dg_str *s, const char *word);      /* as one word for a shell; NULL is empty */
const char *dg_shell(dg_arena *a, const char *word); /* the same, in the arena */
void dg_str_xml(dg_str *s, const char *text);        /* escaped for XML text and attribute values */
/* Makes text from files, people and other machines safe to show: malformed UTF-8 becomes "?", and
 * so do C0 and C1 controls, which begin escape sequences, and characters that turn the direction of
 * writing (U+202E) or break lines. plain: one line; shown: lines and tabs stay. */
void dg_str_plain(dg_str *s, const char *text);
void dg_str_shown(dg_str *s, const char *text);
/* Length of the character at text if it may be shown; 0: replace *skip bytes by "?". Reads at most
 * `most` bytes. */
size_t dg_shown_bytes(const char *text, size_t most, size_t *skip);
void dg_str_base64(dg_str *s, const void *p, size_t n); /* RFC 4648, padded, one line */
/* shortest text that reads back exactly; not finite: null */
void dg_str_json_real(dg_str *s, double v);

/* Length of the well-formed UTF-8 character at s; 0: malformed. dg_utf8_within: it has at most
 * `most` bytes, 1 or more; s need not end in NUL. */
size_t dg_utf8_bytes(const char *s);
size_t dg_utf8_within(const char *s, size_t most);
bool dg_is_utf8(const char *text);
/* length of the UTF-8 byte order mark at the start of text: 3 or 0 */
size_t dg_mark_bytes(const char *text);

/* Blanks behind text that is to fill so many columns of a terminal; wide letters take two. */
int dg_str_padding(const char *text, int columns);

/* Numbers that fill the whole string: true if all of text was read and the value is in range.
 * Locale-free. */
bool dg_parse_i64(const char *text, int64_t *out);
bool dg_parse_f64(const char *text, double *out);

/* The candidate nearest to name by edit distance; NULL if none is close enough to suggest. */
const char *dg_nearest(const char *name, const char *const candidates[], int n);

/* The end of a counted noun: "" for one, else `ending`: "%d thread%s", n, dg_plural(n, "s"). */
const char *dg_plural(int64_t n, const char *ending);

/* "1.2 GiB", "118 287", "3 min 20 s", written to buf, which is returned. */
char *dg_human_bytes(double bytes, char *buf, size_t n);
char *dg_human_count(int64_t count, char *buf, size_t n);
char *dg_human_time(double seconds, char *buf, size_t n);

uint64_t dg_fnv1a(const void *p, size_t n); /* FNV-1a, 64 bit */
uint64_t dg_fnv1a_text(const char *s);
/* for bulk data, eight bytes at a time; begin with h = 0, chain calls */
uint64_t dg_hash64(uint64_t h, const void *p, size_t n);

#endif
