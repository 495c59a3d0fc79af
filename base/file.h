/* file.h: whole files and paths. Every error names the file and the operating system's reason. */
#ifndef DG_BASE_FILE_H
#define DG_BASE_FILE_H

#include "base/arena.h"

/* Reads all of path into heap memory (dg_free), with a NUL after *n bytes. Files larger than max
 * are refused (0: no limit). */
int dg_file_read(char **text, size_t *n, const char *path, size_t max, dg_diag *d) DG_MUST_USE;

/* The text after `key` at the start of a line, or with "" the first line, without its end and the
 * blanks and colons before it; up to 1 KiB. NULL: no such line or file. For files of /proc. */
char *dg_file_line(dg_arena *a, const char *path, const char *key);

/* Opens a regular file, with flags as for open; anything else is refused, because a pipe or a
 * device could block forever, or never end. A link is followed to read only. */
int dg_file_open(int *fd, const char *path, int flags, dg_diag *d) DG_MUST_USE;

/* A read-only view of a whole file. Small ones are copied: if a mapped file is truncated while it
 * is read, SIGBUS ends the process. */
typedef struct dg_mapping {
    const uint8_t *p;
    size_t n;
    char *copy; /* or NULL */
} dg_mapping;
int dg_file_map(dg_mapping *m, const char *path, dg_diag *d) DG_MUST_USE;
/* Releases the physical memory of the first n bytes; reading them again reloads them. */
void dg_file_forget(const dg_mapping *m, size_t n);
void dg_file_unmap(dg_mapping *m);

/* A file that appears whole or not at all: written as PATH.tmp-PID, fsynced, renamed over path, and
 * its folder fsynced. Closing without commit removes the partial file. Pipes, terminals and
 * /dev/stdout are written in place. */
typedef struct dg_outfile dg_outfile;
int dg_outfile_open(dg_outfile **f, const char *path, dg_diag *d) DG_MUST_USE;
int dg_outfile_write(dg_outfile *f, const void *p, size_t n, dg_diag *d) DG_MUST_USE;
/* Replaces bytes that were written before; not of a pipe (dg_outfile_is_stream). */
int dg_outfile_patch(dg_outfile *f, size_t at, const void *p, size_t n, dg_diag *d) DG_MUST_USE;
/* Copies to path what a file holds that this process has open, even if it was deleted. */
int dg_file_rescue(int fd, const char *path, dg_diag *d) DG_MUST_USE;
bool dg_outfile_is_stream(const dg_outfile *f);
/* The file that becomes PATH, for a library that writes it by its name, instead of
 * dg_outfile_write; of a stream PATH itself. */
const char *dg_outfile_partial(const dg_outfile *f);
int dg_outfile_commit(dg_outfile *f, dg_diag *d) DG_MUST_USE;
void dg_outfile_close(dg_outfile **f);
/* open, write, commit and close in one */
int dg_file_write(const char *path, const void *p, size_t n, dg_diag *d) DG_MUST_USE;

/* like mkdir -p; existing folders are fine */
int dg_mkdirs(const char *path, dg_diag *d) DG_MUST_USE;
int dg_mkdir(const char *path, dg_diag *d) DG_MUST_USE; /* its parent exists */
bool dg_exists(const char *path);
bool dg_is_locked(const char *path); /* another process holds its lock (flock) */
bool dg_is_folder(const char *path);
/* name itself if it is absolute */
char *dg_path_join(dg_arena *a, const char *folder, const char *name);
char *dg_path_folder(dg_arena *a, const char *path);  /* "a/b/c" -> "a/b"; "c" -> "." */
const char *dg_path_name(const char *path);           /* "a/b/c" -> "c" */
char *dg_path_stem(dg_arena *a, const char *path);    /* "a/b.c" -> "a/b" */
bool dg_path_ends(const char *path, const char *end); /* in ".jpg", ignoring case */

#endif
