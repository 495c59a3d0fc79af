/* dir.h: folders: what stands in them, and whole folders that appear at once. */
#ifndef DG_BASE_DIR_H
#define DG_BASE_DIR_H

#include "base/arena.h"

/* Names in the order of their bytes. */
typedef struct dg_listing {
    const char **v;
    int          n;
} dg_listing;

/* Files and folders (links are followed) directly in path; names that begin with '.' are left out.
 * Either list may be NULL. */
int dg_dir_list(dg_listing *files, dg_listing *folders, dg_arena *a, const char *path,
                dg_diag *d) DG_MUST_USE;
/* All files below path, at most 8 folders deep, by names relative to it; links that lead back up are not followed. */
int dg_dir_list_deep(dg_listing *files, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;

/* A folder that appears whole or not at all: is made as PATH.tmp-PID, whose name is *partial, is
 * filled, and takes its place. A PATH that is there already is refused ("dir-exists"). */
int dg_dir_begin(char **partial, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;
int dg_dir_commit(const char *partial, const char *path, dg_diag *d) DG_MUST_USE;
/* Removes the folder with all that is in it; links are not followed. */
void dg_dir_remove(const char *path);

/* A file inside a folder that has not its place yet: nothing is synced before dg_dir_commit. */
int dg_dir_put(const char *path, const void *p, size_t n, dg_diag *d) DG_MUST_USE;

#endif
