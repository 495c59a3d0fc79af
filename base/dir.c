/* dir.c: lists, creates (atomically, by rename) and removes folders. */
#include "base/dir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"

enum { MAX_DEPTH = 8 };

/* ---- listing --------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static dg_listing sorted(const char **v, int n)
{
    if (n)
        qsort(v, (size_t)n, sizeof *v, by_bytes);
    return (dg_listing){ v, n };
}

static bool is_folder_at(int fd, const struct dirent *e, bool *file)
{
    struct stat st;

    assert(fd >= 0);
    *file = e->d_type == DT_REG;
    if (e->d_type == DT_REG || e->d_type == DT_DIR)
        return e->d_type == DT_DIR;
    /* a dangling link counts as a missing file */
    if (fstatat(fd, e->d_name, &st, 0) < 0) {
        *file = e->d_type == DT_LNK;
        return false;
    }
    *file = S_ISREG(st.st_mode);
    return S_ISDIR(st.st_mode);
}

int dg_dir_list(dg_listing *files, dg_listing *folders, dg_arena *a, const char *path, dg_diag *d)
{
    DG_VEC(const char *) found[2] = { { 0 }, { 0 } }; /* 0: files, 1: folders */
    DIR *dir = opendir(path);
    int error;

    if (!dir)
        return dg_fail_os(d, errno, path, "file-open", "cannot list the folder");
    for (struct dirent *e; errno = 0, (e = readdir(dir));) {
        bool file, folder;

        if (e->d_name[0] == '.')
            continue;
        folder = is_folder_at(dirfd(dir), e, &file);
        if (folder && folders)
            DG_PUSH(a, found[1], dg_strdup(a, e->d_name));
        else if (file && files)
            DG_PUSH(a, found[0], dg_strdup(a, e->d_name));
    }
    error = errno;
    closedir(dir);
    if (error)
        return dg_fail_os(d, error, path, "file-open", "cannot list the folder");
    if (files)
        *files = sorted(found[0].items, found[0].n);
    if (folders)
        *folders = sorted(found[1].items, found[1].n);
    return 0;
}

typedef struct walk {
    dg_arena *arena;
    DG_VEC(const char *) found;
    dg_diag *d;
} walk;

/* A folder and its parents, to detect links that lead back to one of them. */
typedef struct above {
    const struct above *up;
    dev_t dev;
    ino_t ino;
} above;

static bool leads_back(const above *here)
{
    for (const above *x = here->up; x; x = x->up)
        if (x->dev == here->dev && x->ino == here->ino)
            return true;
    return false;
}

static int list_below(walk *w, const char *path, const char *prefix, int depth, const above *up)
{
    dg_listing files, folders;
    struct stat st = { 0 };
    int rc;

    if (stat(path, &st) < 0)
        return dg_fail_os(w->d, errno, path, "file-open", "cannot list the folder");

    const above here = { up, st.st_dev, st.st_ino };

    if (leads_back(&here))
        return 0;
    rc = dg_dir_list(&files, &folders, w->arena, path, w->d);
    for (int i = 0; rc == 0 && i < files.n; i++)
        DG_PUSH(w->arena, w->found, dg_printf(w->arena, "%s%s", prefix, files.v[i]));
    for (int i = 0; rc == 0 && depth < MAX_DEPTH && i < folders.n; i++)
        rc = list_below(w, dg_path_join(w->arena, path, folders.v[i]),
                        dg_printf(w->arena, "%s%s/", prefix, folders.v[i]), depth + 1, &here);
    return rc;
}

int dg_dir_list_deep(dg_listing *files, dg_arena *a, const char *path, dg_diag *d)
{
    walk w = { .arena = a, .d = d };
    int rc = list_below(&w, path, "", 0, NULL);

    *files = sorted(w.found.items, w.found.n);
    return rc;
}

/* ---- making ---------------------------------------------------------------------------------- */

static bool is_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

int dg_dir_begin(char **partial, dg_arena *a, const char *path, dg_diag *d)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    if (is_there(path)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = dg_strdup(a, path) }, "dir-exists",
                "a new folder is to be made here, but this is there already");
        dg_help(d, "name another place, or remove it first");
        return -DG_EINPUT;
    }
    *partial = dg_printf(a, "%.*s.tmp-%ld", (int)n, path, (long)getpid());
    dg_dir_remove(*partial);
    return dg_mkdirs(*partial, d);
}

int dg_dir_commit(const char *partial, const char *path, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int fd = open(partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0, rc = 0;

    if (fd < 0 || syncfs(fd) < 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    if (error)
        rc = dg_fail_os(d, error, path, "file-sync", "cannot sync the new folder");
    else if (rename(partial, path))
        rc = dg_fail_os(d, errno, path, "file-rename", "cannot put the new folder into its place");
    else if ((fd = open(dg_path_folder(a, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
        /* Best effort: the folder is complete, and some file systems cannot sync a folder. */
        (void)fsync(fd);
        close(fd);
    }
    dg_arena_close(&a);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)place;
    if (kind == FTW_DP)
        (void)rmdir(path);
    else
        (void)unlink(path);
    return 0;
}

void dg_dir_remove(const char *path)
{
    if (is_there(path))
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int dg_dir_put(const char *path, const void *p, size_t n, dg_diag *d)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666), rc = 0;
    const char *from = p;

    if (fd < 0)
        return dg_fail_os(d, errno, path, "file-create", "cannot create");
    while (n && rc == 0) {
        ssize_t k = write(fd, from, n);

        if (k >= 0) {
            from += k;
            n -= (size_t)k;
        } else if (errno != EINTR) {
            rc = dg_fail_os(d, errno, path, "file-write", "cannot write");
        }
    }
    if (close(fd) && rc == 0)
        rc = dg_fail_os(d, errno, path, "file-write", "cannot write");
    return rc;
}
