/* dir.h: lists folders, and makes whole folders that appear at once. */
#ifndef DG_BASE_DIR_H
#define DG_BASE_DIR_H

#include "base/arena.h"

/* Names in byte order. */
typedef struct dg_listing {
    const char **v;
    int n;
} dg_listing;

/* Files and folders directly in path, following links; names that begin with '.' are skipped.
 * Either list may be NULL. */
int dg_dir_list(dg_listing *files, dg_listing *folders, dg_arena *a, const char *path, dg_diag *d)
    DG_MUST_USE;
/* All files below path, at most 8 folders deep, by name relative to it. Links back to a parent are
 * not followed. */
int dg_dir_list_deep(dg_listing *files, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;

/* A folder that appears whole or not at all. begin creates PATH.tmp-PID (*partial); fill it, then
 * commit renames it to PATH. An existing PATH is refused ("dir-exists"). */
int dg_dir_begin(char **partial, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;
int dg_dir_commit(const char *partial, const char *path, dg_diag *d) DG_MUST_USE;
/* Removes the folder and its contents; does not follow links. */
void dg_dir_remove(const char *path);

/* Writes a file into a folder that is not committed yet, without fsync: dg_dir_commit syncs. */
int dg_dir_put(const char *path, const void *p, size_t n, dg_diag *d) DG_MUST_USE;

#endif
