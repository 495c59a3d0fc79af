/* load_error.c: reports each error of a pipeline once. */
#include "graph/load_error.h"

#include <string.h>

enum { LISTED = 12 }; /* most names listed if none is similar */

/* True for the first error of that kind at that place. */
static bool is_new(dg_load_errors *r, dg_where at, const char *id, const char *text)
{
    const char *key = dg_printf(r->arena, "%s:%d:%d:%s:%s", at.file ? at.file : "", at.line,
                                at.column, id, at.line ? "" : text);

    r->muted = dg_map_has(r->seen, key);
    if (!r->muted)
        dg_map_set(r->seen, key, r);
    return !r->muted;
}

static void note_frames(dg_load_errors *r, const dg_frame *f)
{
    for (; f; f = f->up)
        if (!f->stack)
            dg_note(r->diag, f->at, "included here");
}

static DG_PRINTF(5, 0) int error_v(dg_load_errors *r, const dg_frame *frame, dg_where at,
                                   const char *id, const char *fmt, va_list ap)
{
    const char *text = dg_vprintf(r->arena, fmt, ap);

    r->n++;
    if (!is_new(r, at, id, text))
        return -DG_EINPUT;
    int rc = dg_fail(r->diag, DG_EINPUT, at, id, "%s", text);

    if (dg_diag_errors(r->diag) > DG_DIAG_MAX)
        r->muted = true; /* it was only counted */
    else
        note_frames(r, frame);
    return rc;
}

int dg_load_error(dg_load_errors *r, const dg_frame *frame, dg_where at, const char *id,
                  const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int rc = error_v(r, frame, at, id, fmt, ap);
    va_end(ap);
    return rc;
}

int dg_load_error_unless_holes(dg_load_errors *r, const dg_frame *frame, dg_where at,
                               const char *id, const char *fmt, ...)
{
    va_list ap;

    r->n += r->holes;
    r->muted = r->holes;
    if (r->holes)
        return -DG_EINPUT;
    va_start(ap, fmt);
    int rc = error_v(r, frame, at, id, fmt, ap);
    va_end(ap);
    return rc;
}

void dg_load_error_warn(dg_load_errors *r, const dg_frame *frame, dg_where at, const char *id,
                        const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *text = dg_vprintf(r->arena, fmt, ap);
    va_end(ap);
    if (!is_new(r, at, id, text))
        return;
    dg_warn(r->diag, at, id, "%s", text);
    note_frames(r, frame);
}

void dg_load_error_note(dg_load_errors *r, dg_where at, const char *fmt, ...)
{
    va_list ap;

    if (r->muted)
        return;
    va_start(ap, fmt);
    dg_note(r->diag, at, "%s", dg_vprintf(r->arena, fmt, ap));
    va_end(ap);
}

void dg_load_error_help(dg_load_errors *r, const char *fmt, ...)
{
    va_list ap;

    if (r->muted)
        return;
    va_start(ap, fmt);
    dg_help(r->diag, "%s", dg_vprintf(r->arena, fmt, ap));
    va_end(ap);
}

void dg_load_error_nearest(dg_load_errors *r, const char *name, const char *const names[], int n,
                           const char *what)
{
    const char *near = dg_nearest(name, names, n);
    dg_str list = { 0 };

    if (near) {
        dg_load_error_help(r, "did you mean \"%s\"?", near);
        return;
    }
    if (n == 0 || n > LISTED)
        return;
    for (int i = 0; i < n; i++)
        dg_str_fmt(&list, "%s%s", i ? ", " : "", names[i]);
    dg_load_error_help(r, "%s: %s", what, list.s);
    dg_str_free(&list);
}
