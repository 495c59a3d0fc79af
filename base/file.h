/* file.h: whole files and paths. Every error names the file and what the operating system said. */
#ifndef DG_BASE_FILE_H
#define DG_BASE_FILE_H

#include "base/arena.h"

/* Reads all of path into the heap (dg_free), NUL-terminated beyond *n. max: refuse larger files
 * (0: no limit). */
int dg_file_read(char **text, size_t *n, const char *path, size_t max, dg_diag *d) DG_MUST_USE;

/* Maps path for reading. */
typedef struct dg_mapping {
    const uint8_t *p;
    size_t         n;
} dg_mapping;
int  dg_file_map(dg_mapping *m, const char *path, dg_diag *d) DG_MUST_USE;
/* The first n bytes are not needed now: their memory is given back. They can be read again. */
void dg_file_forget(const dg_mapping *m, size_t n);
void dg_file_unmap(dg_mapping *m);

/* A file that appears whole or not at all: written as PATH.tmp-PID beside it, fsynced, renamed
 * over path, and the folder fsynced. Without commit, close removes the partial file. What is no file of a file system (a pipe,
 * a terminal, /dev/stdout) is written as it is, and stays. */
typedef struct dg_outfile dg_outfile;
int  dg_outfile_open(dg_outfile **f, const char *path, dg_diag *d) DG_MUST_USE;
int  dg_outfile_write(dg_outfile *f, const void *p, size_t n, dg_diag *d) DG_MUST_USE;
int  dg_outfile_commit(dg_outfile *f, dg_diag *d) DG_MUST_USE;
void dg_outfile_close(dg_outfile **f);
/* All in one. */
int dg_file_write(const char *path, const void *p, size_t n, dg_diag *d) DG_MUST_USE;

int  dg_mkdirs(const char *path, dg_diag *d) DG_MUST_USE; /* like mkdir -p */
bool dg_exists(const char *path);
bool dg_is_folder(const char *path);
char *dg_path_join(dg_arena *a, const char *folder, const char *name); /* name alone if absolute */
char *dg_path_folder(dg_arena *a, const char *path);        /* "a/b/c" -> "a/b"; "c" -> "." */
const char *dg_path_name(const char *path);                 /* "a/b/c" -> "c" */
char *dg_path_stem(dg_arena *a, const char *path);          /* "a/b.c" -> "a/b" */
bool  dg_path_ends(const char *path, const char *end);      /* in ".jpg", whatever the case */

#endif
