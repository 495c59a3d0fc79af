/* records.h: JSON files that are lists of like objects (COCO annotations, detections), read by
 * events. What is wanted of an object stands in a table; the rest is skipped without being
 * stored. */
#ifndef DG_MEDIA_RECORDS_H
#define DG_MEDIA_RECORDS_H

#include "media/json.h"

typedef enum dg_field_kind {
    DG_FIELD_INT,  /* int64_t; a whole number */
    DG_FIELD_REAL, /* double; finite */
    DG_FIELD_TEXT, /* const char *, in the arena */
    DG_FIELD_FLAG, /* bool; 0, 1, false or true */
    DG_FIELD_BOX,  /* double[4]: left, top, width, height; finite; a side may be negative */
} dg_field_kind;

typedef struct dg_field {
    const char   *name;
    dg_field_kind kind;
    bool          needed; /* absent otherwise is 0; null counts as absent */
    size_t        offset; /* in the record */
} dg_field;

typedef struct dg_section {
    const char     *key;    /* of the list in the top object; NULL: the file itself is the list */
    const char     *noun;   /* "image" */
    const dg_field *fields; /* ends with a name of NULL; at most 32 */
    /* One object was read: bit k of has is set if field k was there. offset: where it begins. */
    int (*take)(void *ctx, dg_json_reader *r, const void *record, uint32_t has, size_t offset);
    /* As dg_json_events has them; those of the first section count. */
    const char *drop;
    void (*passed)(void *ctx, size_t offset);
} dg_section;

enum { DG_RECORD_MAX = 256 }; /* bytes */

/* Reads all of text. Each section that has a key must be there once. Fails with "record-kind" (a
 * value of the wrong type), "record-value" (out of range), "record-key" (something needed is
 * missing), "record-section", or as dg_json_events_read. */
int dg_records_read(const char *text, size_t n, const char *file, const dg_section *sections,
                    int n_sections, dg_arena *a, void *ctx, dg_diag *d) DG_MUST_USE;

#endif
