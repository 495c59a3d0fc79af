/* diag.h: the collector behind dg_fail and dg_warn, and how it is printed. */
#ifndef DG_BASE_DIAG_H
#define DG_BASE_DIAG_H

#include "base/arena.h"
#include "base/str.h"

enum { DG_DIAG_MAX = 64 }; /* further errors are counted, not kept */

typedef struct dg_remark { /* a note (at != DG_NOWHERE or not) or a help line */
    bool        help;
    dg_where    at;
    const char *text;
} dg_remark;

typedef struct dg_err {
    dg_severity severity;
    dg_code     code;
    const char *id;   /* "attr-unknown" */
    const char *text;
    dg_where    at;
    int         n_remarks;
    dg_remark  *remarks;
    bool        folded; /* follows from another one: JSON has it, people do not read it */
} dg_err;

DG_PUBLIC dg_diag *dg_diag_open(void);      /* these three also in run.h, for embedding */
DG_PUBLIC void     dg_diag_close(dg_diag **d);
DG_PUBLIC const char *dg_diag_text(dg_diag *d); /* without sources and colour; belongs to d */
void     dg_diag_clear(dg_diag *d);
int      dg_diag_errors(const dg_diag *d);   /* all, kept or not */
int      dg_diag_warnings(const dg_diag *d);
int      dg_diag_n(const dg_diag *d);        /* kept, errors and warnings */
const dg_err *dg_diag_at(const dg_diag *d, int i);
/* The one added last follows from another: it is neither printed nor counted, only in JSON. */
void dg_fold(dg_diag *d);
/* Appends copies of all of from's diagnostics: a worker's to its session's. */
void dg_diag_merge(dg_diag *d, const dg_diag *from);
/* Sorts by file, line and column; equal places keep their order; what is said twice in a row is
 * kept once. */
void dg_diag_sort(dg_diag *d);

/* The text of a file by name, so that an error can show its line; NULL where there is none. */
typedef const char *(dg_source_fn)(void *ctx, const char *file, size_t *n);

/* Prints all as
 *     file:line:col: error[id]: text
 *        12 |   <conv k="3x"/>
 *           |           ^
 *       note: file:3:1: ...
 *       help: ...
 * with colour escapes if asked. A tab in the line is kept in the caret's line. Columns count
 * bytes; the caret stands under the right letter all the same. */
void dg_diag_print(dg_str *out, const dg_diag *d, dg_source_fn *source, void *ctx, bool colour);
/* The same as one JSON array of objects
 * {severity,id,message,file,line,column,node,notes[],help[]}, and folded where it is. */
void dg_diag_json(dg_str *out, const dg_diag *d);

#endif
