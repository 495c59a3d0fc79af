/* records.h: reads JSON files that are lists of like objects (COCO annotations, detections) by
 * events. A table names the wanted fields; the rest is skipped without being stored. */
#ifndef DG_MEDIA_RECORDS_H
#define DG_MEDIA_RECORDS_H

#include "media/json.h"

typedef enum dg_json_field_kind {
    DG_JSON_INT, /* int64_t; whole */
    /* int64_t: a whole number, also as text; other text: a number made of it by a hash, from 2^52
     * to 2^53, the same in every file */
    DG_JSON_ID,
    DG_JSON_REAL, /* double; finite */
    DG_JSON_TEXT, /* const char *, in the arena */
    DG_JSON_FLAG, /* bool, from 0, 1, false or true */
    DG_JSON_BOX,  /* double[4]: left, top, width, height; finite; sides may be negative */
    /* size_t: offset of the value, of any kind; for the key that `drop` names */
    DG_JSON_PLACE,
} dg_json_field_kind;

typedef struct dg_json_field {
    const char *name;
    dg_json_field_kind kind;
    bool needed;   /* else 0 if absent; null counts as absent */
    size_t offset; /* in the record, bytes */
} dg_json_field;

typedef struct dg_section {
    const char *key;  /* the list's key in the top object; NULL: the file itself is the list */
    const char *noun; /* for messages, e.g. "image" */
    const dg_json_field *fields; /* at most 32; terminated by a NULL name */
    /* called for each object, which begins at byte `offset`; bit k of has: field k was present */
    int (*take)(void *ctx, dg_json_reader *r, const void *record, uint32_t has, size_t offset);
    /* as in dg_json_events; only the first section's are used */
    const char *drop;
    void (*passed)(void *ctx, size_t offset);
} dg_section;

enum { DG_RECORD_MAX = 256 }; /* largest record, bytes */

/* Reads all of text; each section with a key must occur exactly once. Fails with "record-kind"
 * (wrong type), "record-value" (out of range), "record-key" (a needed field is missing),
 * "record-section", or as dg_json_events_read does. */
int dg_records_read(const char *text, size_t n, const char *file, const dg_section *sections,
                    int n_sections, dg_arena *a, void *ctx, dg_diag *d) DG_MUST_USE;

#endif
