/* core.h: status codes, source positions and diagnostics.
 *
 * A fallible function returns 0 or -DG_E...; what went wrong, where, and the way out are collected in a
 * dg_diag that the caller passes in. There is no thread-local "last error". */
#ifndef DETRGRAPH_CORE_H
#define DETRGRAPH_CORE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DG_MUST_USE __attribute__((warn_unused_result))
#define DG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define DG_PUBLIC __attribute__((visibility("default")))
#else
#define DG_MUST_USE
#define DG_PRINTF(fmt, args)
#define DG_PUBLIC
#endif

/* Status of a fallible call, returned negated. A caller acts on the class; a person reads the diagnostic. */
typedef enum dg_code {
    DG_OK = 0,
    DG_EINPUT,       /* bad input: XML, JSON, image, checkpoint, argument */
    DG_EIO,          /* the operating system refused: missing file, full disk, no permission */
    DG_EMEMORY,      /* an allocation or a plan that does not fit */
    DG_ENUMERIC,     /* a number that must be finite is not */
    DG_EUNSUPPORTED, /* legal, but this build, machine or device cannot do it */
    DG_ESTOP,        /* asked to stop: a signal, a limit, early stopping */
    DG_EINTERNAL,    /* a promise of our own code is broken */
} dg_code;

/* Where something stands in a file. line and column count from 1; 0 is unknown. Strings belong to the
 * arena of what carries the position and outlive every diagnostic about it. */
typedef struct dg_where {
    const char *file;
    int         line, column;
    const char *node; /* path of the node, "train/loss"; NULL where there is none */
} dg_where;

#define DG_NOWHERE ((dg_where){ NULL, 0, 0, NULL })

typedef enum dg_severity { DG_ERROR, DG_WARNING } dg_severity;

typedef struct dg_diag dg_diag; /* collects diagnostics; see base/diag.h for who prints them */

/* Adds an error and returns -code. id is a stable kebab-case name ("attr-unknown") that tests and scripts
 * match; the text says what was found and what was expected. */
DG_PUBLIC int dg_fail(dg_diag *d, dg_code code, dg_where at, const char *id, const char *fmt, ...)
    DG_PRINTF(5, 6);
DG_PUBLIC void dg_warn(dg_diag *d, dg_where at, const char *id, const char *fmt, ...) DG_PRINTF(4, 5);

/* Attach to the diagnostic added last: a related place, and the way out. */
DG_PUBLIC void dg_note(dg_diag *d, dg_where at, const char *fmt, ...) DG_PRINTF(3, 4);
DG_PUBLIC void dg_help(dg_diag *d, const char *fmt, ...) DG_PRINTF(2, 3);

/* Runs a fallible call; on failure keeps its status in the local `rc` and leaves through `out:`. */
#define DG_TRY(call)         \
    do {                     \
        rc = (call);         \
        if (rc < 0)          \
            goto out;        \
    } while (0)

/* FNV-1a, 64 bit: h after n bytes more. It begins with DG_DIGEST; the same bytes in several calls give the same. */
#define DG_DIGEST UINT64_C(0xcbf29ce484222325)
static inline uint64_t dg_digest(uint64_t h, const void *p, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)p;

    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

#ifdef __cplusplus
}
#endif
#endif
