/* diag.h: collects the diagnostics of dg_fail and dg_warn, and prints them. */
#ifndef DG_BASE_DIAG_H
#define DG_BASE_DIAG_H

#include "base/arena.h"
#include "base/str.h"

enum { DG_DIAG_MAX = 64 }; /* per severity; further ones are only counted */

typedef struct dg_remark { /* a note or a help line; at may be DG_NOWHERE */
    bool help;
    dg_where at;
    const char *text;
} dg_remark;

typedef struct dg_err {
    dg_severity severity;
    dg_code code;
    const char *id; /* kebab-case, e.g. "attr-unknown" */
    const char *text;
    dg_where at;
    int n_remarks;
    dg_remark *remarks;
    bool folded; /* a consequence of another error: in JSON, but not printed or counted */
} dg_err;

/* this and the next two are also declared in run.h, for embedding */
DG_PUBLIC dg_diag *dg_diag_open(void);
DG_PUBLIC void dg_diag_close(dg_diag **d);
/* without source lines and colour; valid until d changes or closes */
DG_PUBLIC const char *dg_diag_text(dg_diag *d);
void dg_diag_clear(dg_diag *d);
int dg_diag_errors(const dg_diag *d); /* including those not kept */
int dg_diag_warnings(const dg_diag *d);
int dg_diag_n(const dg_diag *d); /* kept errors and warnings */
const dg_err *dg_diag_at(const dg_diag *d, int i);
/* Marks the latest as a consequence of another: not printed, not counted, only in JSON. */
void dg_fold(dg_diag *d);
/* An error of the operating system, by errno, about a file or (path NULL) about none:
 * "PATH: error[ID]: FMT...: No such file or directory". Returns -DG_EIO. */
int dg_fail_os(dg_diag *d, int error, const char *path, const char *id, const char *fmt, ...)
    DG_PRINTF(5, 6);
#ifdef __clang_analyzer__ /* as of dg_fail */
#define dg_fail_os(...) ((void)dg_fail_os(__VA_ARGS__), -DG_EIO)
#endif
/* Appends copies of from's diagnostics, e.g. a worker's to its session's. */
void dg_diag_merge(dg_diag *d, const dg_diag *from);
/* Sorts by file, line and column, stably; of equal neighbours one is kept. */
void dg_diag_sort(dg_diag *d);

/* The text of a file by name, to show the line of an error; NULL if unknown. */
typedef const char *(dg_source_fn)(void *ctx, const char *file, size_t *n);

/* Prints all as
 *     file:line:col: error[id]: text
 *        12 |   <conv k="3x"/>
 *           |           ^
 *       note: file:3:1: ...
 *       help: ...
 * with colour escapes if asked. Columns count bytes; the caret's line repeats tabs and counts
 * characters, so that it points at the right letter. */
void dg_diag_print(dg_str *out, const dg_diag *d, dg_source_fn *source, void *ctx, bool colour);
/* The same as one JSON array of objects {severity,id,message,file,line,column,node,notes[],help[]};
 * folded ones also have "folded". */
void dg_diag_json(dg_str *out, const dg_diag *d);

#endif
