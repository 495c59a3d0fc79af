/* str.h: a growing string, and the few text helpers that more than one room needs. */
#ifndef DG_BASE_STR_H
#define DG_BASE_STR_H

#include <detrgraph/core.h>

/* Zero-initialise to begin; s is NUL-terminated once anything was added, else NULL. */
typedef struct dg_str {
    char  *s;
    size_t n, cap;
} dg_str;

void dg_str_free(dg_str *s); /* frees and resets */
void dg_str_add(dg_str *s, const char *text);
void dg_str_add_n(dg_str *s, const char *text, size_t n);
void dg_str_fmt(dg_str *s, const char *fmt, ...) DG_PRINTF(2, 3);
void dg_str_vfmt(dg_str *s, const char *fmt, va_list ap) DG_PRINTF(2, 0);
void dg_str_json(dg_str *s, const char *text);  /* as a quoted JSON string; NULL is null */
void dg_str_xml(dg_str *s, const char *text);   /* escaped for XML text and attribute values */
void dg_str_plain(dg_str *s, const char *text); /* for a line of a terminal: what is no character of UTF-8, or controls, is "?" */
void dg_str_base64(dg_str *s, const void *p, size_t n); /* RFC 4648, padded, one line */
void dg_str_json_real(dg_str *s, double v);     /* shortest that reads back; else null */

size_t dg_utf8_bytes(const char *s);    /* of the well-formed UTF-8 character at s; 0: there is none */
bool   dg_is_utf8(const char *text);
size_t dg_mark_bytes(const char *text); /* of the byte order mark that some editors begin a file with: 3 or 0 */

/* Whole-string numbers: true if all of text was read and it is in range. No locale. */
bool dg_parse_i64(const char *text, int64_t *out);
bool dg_parse_f64(const char *text, double *out);

/* The candidate nearest to name by edit distance, or NULL if none is near enough to be meant. */
const char *dg_nearest(const char *name, const char *const candidates[], int n);

/* "1.2 GiB", "118 287", "3 min 20 s" into buf, which is returned. */
char *dg_human_bytes(double bytes, char *buf, size_t n);
char *dg_human_count(int64_t count, char *buf, size_t n);
char *dg_human_time(double seconds, char *buf, size_t n);

uint64_t dg_hash(const void *p, size_t n); /* FNV-1a, 64 bit */
uint64_t dg_hash_str(const char *s);
uint64_t dg_hash_more(uint64_t h, const void *p, size_t n); /* for much memory: eight bytes at a time; begin with 0 */

#endif
