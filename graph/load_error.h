/* load_error.h: errors of a pipeline. Reports each error once, however often a stack repeats it,
 * and notes the includes that lead to it. */
#ifndef DG_GRAPH_LOAD_ERROR_H
#define DG_GRAPH_LOAD_ERROR_H

#include "base/diag.h"
#include "base/map.h"
#include "graph/expand.h"

struct dg_load_errors {
    dg_arena *arena;
    dg_diag *diag;
    dg_map *seen; /* places and ids reported so far */
    int n;        /* errors, including repeated ones */
    bool muted;   /* the latest was a repetition: drop its notes, too */
    bool holes;   /* something was not expanded: unknown names may be defined in it */
};

/* frame may be NULL. All return -DG_EINPUT. */
int dg_load_error(dg_load_errors *r, const dg_frame *frame, dg_where at, const char *id,
                  const char *fmt, ...) DG_PRINTF(5, 6);
void dg_load_error_warn(dg_load_errors *r, const dg_frame *frame, dg_where at, const char *id,
                        const char *fmt, ...) DG_PRINTF(5, 6);
void dg_load_error_note(dg_load_errors *r, dg_where at, const char *fmt, ...) DG_PRINTF(3, 4);
void dg_load_error_help(dg_load_errors *r, const char *fmt, ...) DG_PRINTF(2, 3);
/* An error that may be the consequence of a hole: always counted, but reported only without
 * holes. */
int dg_load_error_unless_holes(dg_load_errors *r, const dg_frame *frame, dg_where at,
                               const char *id, const char *fmt, ...) DG_PRINTF(5, 6);
/* Adds the help "did you mean ..." if one of the n names is similar, else the list of names if it
 * is short. */
void dg_load_error_nearest(dg_load_errors *r, const char *name, const char *const names[], int n,
                           const char *what);

#endif
