/* fetched.h: what is noted of a file that was fetched: FILE.json keeps its address, size and
 * SHA-256. */
#ifndef DG_WEIGHTS_FETCHED_H
#define DG_WEIGHTS_FETCHED_H

#include "base/arena.h"

typedef struct dg_fetched {
    int64_t bytes;
    char sha256[65];
    bool was_there;  /* nothing was fetched: the file is as it was */
    int64_t resumed; /* bytes that an earlier attempt had left; 0: none */
} dg_fetched;

/* Reads the file for its size and sum. */
int dg_fetched_sum(dg_fetched *out, const char *path, dg_diag *d) DG_MUST_USE;
/* The SHA-256 noted beside the file; "" if none is. A note that is damaged is an error: without it
 * the file would not be compared. */
int dg_fetched_noted(const char **sum, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;
int dg_fetched_note(const dg_fetched *x, const char *url, const char *path, dg_diag *d) DG_MUST_USE;
/* Compares a file with what was noted when it was fetched; a file without a note passes. Errors:
 * "fetch-damaged". */
int dg_fetched_check(dg_fetched *out, const char *path, dg_diag *d) DG_MUST_USE;

#endif
