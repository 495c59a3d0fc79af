/* json.h: JSON in: events for files of any size, and a small tree for files of a page or a few
 * thousand. JSON out goes through base/str.h. */
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

const char *dg_json_kind_name(dg_json_kind kind); /* "a number" */

/* ---- events -------------------------------------------------------------------------------- */

typedef struct dg_json_scalar {
    dg_json_kind kind; /* null, bool, number or string */
    bool         truth;
    const char  *text; /* a string without its escapes, a number as written; not terminated */
    size_t       n;    /* its bytes */
} dg_json_scalar;

typedef struct dg_json_reader dg_json_reader;

/* What is called as the text is read; the first four must be there. A negative result ends the
 * reading and becomes its result; say why with dg_json_fail. kind is an array's or an object's. */
typedef struct dg_json_events {
    int (*value)(void *ctx, dg_json_reader *r, const dg_json_scalar *v);
    int (*key)(void *ctx, dg_json_reader *r, const char *text, size_t n);
    int (*begin)(void *ctx, dg_json_reader *r, dg_json_kind kind);
    int (*end)(void *ctx, dg_json_reader *r, dg_json_kind kind);
    /* NULL, or a key whose lists and objects nobody wants, wherever they stand: null is reported
     * in their place, and of what is inside only the end is looked for. */
    const char *drop;
    /* NULL, or called now and then when all before offset has been read. */
    void (*passed)(void *ctx, size_t offset);
} dg_json_events;

/* Reads one JSON value that fills the n bytes at text. Fails with "json-syntax" or "json-depth". */
int dg_json_events_read(const char *text, size_t n, const char *file, const dg_json_events *events,
                        void *ctx, dg_diag *d) DG_MUST_USE;

/* Called in key: no events for the value that follows. */
void dg_json_skip(dg_json_reader *r);
/* First byte of what is being reported. */
size_t dg_json_offset(const dg_json_reader *r);
/* An error there, or at another byte. */
int dg_json_fail(const dg_json_reader *r, const char *id, const char *fmt, ...) DG_PRINTF(3, 4);
int dg_json_fail_at(const dg_json_reader *r, size_t offset, const char *id, const char *fmt, ...)
    DG_PRINTF(4, 5);
/* Line and column of a byte. */
dg_where dg_json_where(const char *text, size_t n, const char *file, size_t offset);

/* Numbers, whatever the locale. False: not a number; dg_json_int also: not whole or beyond 64
 * bit. 3.0 is whole. A real beyond f64 is infinite. */
bool dg_json_real(const dg_json_scalar *v, double *out);
bool dg_json_int(const dg_json_scalar *v, int64_t *out);

/* ---- tree ---------------------------------------------------------------------------------- */

typedef struct dg_json {
    dg_json_kind          kind;
    bool                  truth;
    int                   n; /* items of an array or object */
    double                number;
    const char           *text; /* of a string */
    const char           *key;  /* within an object, else NULL */
    const struct dg_json *items;
    dg_where              at;
} dg_json;

enum { DG_JSON_MAX_VALUES = 1 << 20, DG_JSON_MAX_BYTES = 64 << 20 };

/* Everything lives in a. Fails as above, or with "json-size". */
int dg_json_parse(const dg_json **out, dg_arena *a, const char *text, size_t n, const char *file,
                  dg_diag *d) DG_MUST_USE;
int dg_json_read(const dg_json **out, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;

/* The last of that key, or NULL; NULL also if o is NULL or no object. */
const dg_json *dg_json_get(const dg_json *o, const char *key);
/* The same as a value: "" where there is no such string, NaN where there is no such number. */
const char *dg_json_text(const dg_json *o, const char *key);
double      dg_json_number(const dg_json *o, const char *key);
/* The same, where it must be there and of that kind: "json-key", "json-kind". */
int dg_json_need(const dg_json **out, const dg_json *o, const char *key, dg_json_kind kind,
                 dg_diag *d) DG_MUST_USE;

#endif
