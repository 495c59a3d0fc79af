/* core.h: status codes, source positions and diagnostics.
 *
 * A fallible function returns 0 or -DG_E...; the caller's dg_diag collects what went wrong, where,
 * and how to fix it. There is no thread-local "last error". */
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

/* Status of a fallible call, returned negated. Code acts on the class; people read the
 * diagnostic. */
typedef enum dg_code {
    DG_OK = 0,
    DG_EINPUT,       /* bad input: XML, JSON, image, checkpoint, argument */
    DG_EIO,          /* the operating system refused: missing file, full disk, no permission */
    DG_EMEMORY,      /* an allocation failed, or a plan does not fit */
    DG_ENUMERIC,     /* a number that must be finite is not */
    DG_EUNSUPPORTED, /* legal, but this build, machine or device cannot do it */
    DG_ESTOP,        /* asked to stop: by a signal, a limit or early stopping */
    DG_EINTERNAL,    /* a bug: an invariant of our own code is broken */
} dg_code;

/* A position in a file. line and column count from 1; 0: unknown. The creator of the
 * position owns the strings, which outlive every diagnostic about it. */
typedef struct dg_where {
    const char *file;
    int line, column;
    const char *node; /* path of the node, "train/loss"; NULL: none */
} dg_where;

#define DG_NOWHERE ((dg_where){ NULL, 0, 0, NULL })

typedef enum dg_severity { DG_ERROR, DG_WARNING } dg_severity;

typedef struct dg_diag dg_diag; /* collects diagnostics; base/diag.h prints them */

/* Adds an error and returns -code. id is a stable kebab-case name ("attr-unknown") that tests and
 * scripts match; the text tells what was found and what was expected. */
DG_PUBLIC int dg_fail(dg_diag *d, dg_code code, dg_where at, const char *id, const char *fmt, ...)
    DG_PRINTF(5, 6);
#ifdef __clang_analyzer__ /* which cannot see that the result is negative */
#define dg_fail(...) ((void)dg_fail(__VA_ARGS__), -DG_EINTERNAL)
#endif
DG_PUBLIC void dg_warn(dg_diag *d, dg_where at, const char *id, const char *fmt, ...)
    DG_PRINTF(4, 5);

/* Add to the latest diagnostic: a related place, and how to fix the problem. */
DG_PUBLIC void dg_note(dg_diag *d, dg_where at, const char *fmt, ...) DG_PRINTF(3, 4);
DG_PUBLIC void dg_help(dg_diag *d, const char *fmt, ...) DG_PRINTF(2, 3);

/* Runs a fallible call; on failure stores the status in the local `rc` and jumps to `out:`. */
#define DG_TRY(call)  \
    do {              \
        rc = (call);  \
        if (rc < 0)   \
            goto out; \
    } while (0)

/* FNV-1a, 64 bit: extends digest h by n bytes. Start with DG_DIGEST; splitting the bytes over
 * several calls gives the same digest. */
#define DG_DIGEST UINT64_C(0xcbf29ce484222325)
static inline uint64_t dg_digest(uint64_t h, const void *p, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)p;

    for (size_t i = 0; i < n; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.*): it loses track of an integer's bytes */
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

#ifdef __cplusplus
}
#endif
#endif
