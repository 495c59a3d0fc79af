/* json.h: reads JSON: as events for files of any size, or as a small tree for files of up to some
 * thousand values. base/str.h writes JSON. */
#ifndef DG_MEDIA_JSON_H
#define DG_MEDIA_JSON_H

#include "base/arena.h"

typedef enum dg_json_kind {
    DG_JSON_NULL,
    DG_JSON_BOOL,
    DG_JSON_NUMBER,
    DG_JSON_STRING,
    DG_JSON_ARRAY,
    DG_JSON_OBJECT,
} dg_json_kind;

enum { DG_JSON_MAX_DEPTH = 256 };

const char *dg_json_kind_name(dg_json_kind kind); /* with its article: "a number" */

/* ---- events ---------------------------------------------------------------------------------- */

typedef struct dg_json_scalar {
    dg_json_kind kind; /* NULL, BOOL, NUMBER or STRING */
    bool truth;
    const char *text; /* a string unescaped, a number as written; not NUL-terminated */
    size_t n;         /* bytes of text */
} dg_json_scalar;

typedef struct dg_json_reader dg_json_reader;

/* Callbacks, in text order; the first four are required. A negative result stops reading and is
 * returned; report the reason with dg_json_fail first. kind is ARRAY or OBJECT. */
typedef struct dg_json_events {
    int (*value)(void *ctx, dg_json_reader *r, const dg_json_scalar *v);
    int (*key)(void *ctx, dg_json_reader *r, const char *text, size_t n);
    int (*begin)(void *ctx, dg_json_reader *r, dg_json_kind kind);
    int (*end)(void *ctx, dg_json_reader *r, dg_json_kind kind);
    /* NULL, or a key whose lists and objects are skipped at any depth: they are reported as null
     * and only scanned for their end. */
    const char *drop;
    /* NULL, or called now and then after everything before offset was read */
    void (*passed)(void *ctx, size_t offset);
} dg_json_events;

/* Reads one JSON value that fills the n bytes at text. Fails with "json-syntax" or "json-depth", or
 * with a callback's result. */
int dg_json_events_read(const char *text, size_t n, const char *file, const dg_json_events *events,
                        void *ctx, dg_diag *d) DG_MUST_USE;

/* From the key callback: suppresses the events of the value that follows. */
void dg_json_skip(dg_json_reader *r);
/* Offset of the first byte of the value being reported. */
size_t dg_json_offset(const dg_json_reader *r);
/* Reports an error at the current value, or at `offset`; returns a negative code. */
int dg_json_fail(const dg_json_reader *r, const char *id, const char *fmt, ...) DG_PRINTF(3, 4);
int dg_json_fail_at(const dg_json_reader *r, size_t offset, const char *id, const char *fmt, ...)
    DG_PRINTF(4, 5);
/* Line and column of the byte at offset. */
dg_where dg_json_where(const char *text, size_t n, const char *file, size_t offset);

/* Parses numbers, locale-free. False: not a number; dg_json_int also: not whole (3.0 is), or beyond
 * 64 bits. Reals beyond f64 become infinite. */
bool dg_json_real(const dg_json_scalar *v, double *out);
bool dg_json_int(const dg_json_scalar *v, int64_t *out);

/* ---- tree ------------------------------------------------------------------------------------ */

typedef struct dg_json {
    dg_json_kind kind;
    bool truth;
    int n; /* of an array or object */
    double number;
    const char *text; /* for STRING */
    const char *key;  /* inside an object; else NULL */
    const struct dg_json *items;
    dg_where at;
} dg_json;

enum { DG_JSON_MAX_VALUES = 1 << 20, DG_JSON_MAX_BYTES = 64 << 20 };

/* Parses into arena a. Fails as dg_json_events_read does, or with "json-size". */
int dg_json_parse(const dg_json **out, dg_arena *a, const char *text, size_t n, const char *file,
                  dg_diag *d) DG_MUST_USE;
int dg_json_read(const dg_json **out, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;

/* The last item of that key; NULL if absent, or if o is NULL or not an object. */
const dg_json *dg_json_get(const dg_json *o, const char *key);
/* The item's value: "" if it is not a string, NaN if it is not a number (or absent). */
const char *dg_json_text(const dg_json *o, const char *key);
double dg_json_number(const dg_json *o, const char *key);
/* The item, which must exist and be of that kind: "json-key", "json-kind". */
int dg_json_need(const dg_json **out, const dg_json *o, const char *key, dg_json_kind kind,
                 dg_diag *d) DG_MUST_USE;

#endif
