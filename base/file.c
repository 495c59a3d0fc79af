/* file.c: reads files whole or mapped; writes them beside their place, fsyncs and renames. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/str.h"

enum { BUFFER = 1 << 16, COPIED = 16 << 20, READER_MS = 2000 };

struct dg_outfile {
    int fd; /* -1 after close */
    char *path, *partial;
    size_t used;
    bool failed, done;
    char buffer[BUFFER];
};

static int not_a_file(dg_diag *d, const char *path, bool folder)
{
    return dg_fail(d, DG_EIO, (dg_where){ .file = path }, "file-kind",
                   "a file is expected, this is %s", folder ? "a folder" : "a device or pipe");
}

/* What a link in a run's folder leads to is not the run's. */
static int is_link(const char *path, dg_diag *d)
{
    dg_fail(d, DG_EIO, (dg_where){ .file = path }, "file-link",
            "it is a symbolic link, and what it leads to would be written to");
    dg_help(d, "remove the link; folders may be links");
    return -DG_EIO;
}

static int open_regular(int *fd, size_t *n, const char *path, int flags, dg_diag *d)
{
    const int links = (flags & O_ACCMODE) == O_RDONLY ? 0 : O_NOFOLLOW;
    struct stat st;

    /* O_NONBLOCK: a pipe without a peer is opened or refused at once; files do not know it */
    *fd = open(path, flags | links | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (*fd < 0 && errno == ELOOP && links)
        return is_link(path, d);
    if (*fd < 0 && (errno == ENXIO || errno == EISDIR)) /* a pipe or socket; a folder to write to */
        return not_a_file(d, path, errno == EISDIR);
    if (*fd < 0)
        return dg_fail_os(d, errno, path, "file-open", "cannot open");
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *n = (size_t)st.st_size;
        return 0;
    }
    close(*fd);
    return not_a_file(d, path, S_ISDIR(st.st_mode));
}

int dg_file_open(int *fd, const char *path, int flags, dg_diag *d)
{
    size_t n;

    return open_regular(fd, &n, path, flags, d);
}

static int too_large(dg_diag *d, const char *path, size_t n, size_t max)
{
    char have[32], most[32];

    return dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "file-too-large",
                   "%s, but at most %s are read here", dg_human_bytes((double)n, have, sizeof have),
                   dg_human_bytes((double)max, most, sizeof most));
}

/* Reads what a file holds, up to its size when it was opened. */
static int read_open(int fd, const char *path, size_t size, char **text, size_t *n, dg_diag *d)
{
    char *buf = dg_try_alloc(size + 1);
    size_t got = 0;
    int rc = 0;

    if (!buf)
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = path }, "file-memory",
                       "no memory for its %zu bytes", size);
    while (rc == 0 && got < size) {
        ssize_t k = read(fd, buf + got, size - got);

        if (k > 0)
            got += (size_t)k;
        else if (k == 0)
            break; /* truncated since fstat: return what there is */
        else if (errno != EINTR)
            rc = dg_fail_os(d, errno, path, "file-read", "cannot read");
    }
    if (rc < 0) {
        dg_free(buf);
        return rc;
    }
    buf[got] = '\0';
    *text = buf;
    *n = got;
    return 0;
}

int dg_file_read(char **text, size_t *n, const char *path, size_t max, dg_diag *d)
{
    int fd, rc;
    size_t size;

    *text = NULL;
    *n = 0;
    rc = open_regular(&fd, &size, path, O_RDONLY, d);
    if (rc < 0)
        return rc;
    rc = max && size > max ? too_large(d, path, size, max) : read_open(fd, path, size, text, n, d);
    close(fd);
    return rc;
}

char *dg_file_line(dg_arena *a, const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    char line[1024], *found = NULL;

    while (f && !found && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) {
            char *value = line + strlen(key);

            value += strspn(value, " \t:");
            value[strcspn(value, "\n")] = '\0';
            found = dg_strdup(a, value);
        }
    if (f)
        fclose(f);
    return found;
}

int dg_file_map(dg_mapping *m, const char *path, dg_diag *d)
{
    int fd, rc;

    *m = (dg_mapping){ 0 };
    rc = open_regular(&fd, &m->n, path, O_RDONLY, d);
    if (rc < 0)
        return rc;
    if (m->n <= COPIED) {
        rc = read_open(fd, path, m->n, &m->copy, &m->n, d);
        m->p = (const uint8_t *)m->copy;
        if (rc < 0)
            *m = (dg_mapping){ 0 };
    } else {
        void *p = mmap(NULL, m->n, PROT_READ, MAP_PRIVATE, fd, 0);

        if (p == MAP_FAILED) {
            rc = dg_fail_os(d, errno, path, "file-map", "cannot map");
            *m = (dg_mapping){ 0 };
        } else {
            m->p = p;
        }
    }
    close(fd);
    return rc;
}

void dg_file_forget(const dg_mapping *m, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (!m->copy && m->n && n >= page)
        (void)madvise((void *)(uintptr_t)m->p, n / page * page, MADV_DONTNEED);
}

void dg_file_unmap(dg_mapping *m)
{
    if (m->copy)
        dg_free(m->copy);
    else if (m->n)
        munmap((void *)(uintptr_t)m->p, m->n);
    *m = (dg_mapping){ 0 };
}

/* Paths that must be written in place rather than replaced: devices, pipes, and /dev/fd links to
 * this process's open files (which may be regular files). */
static bool is_stream(const char *path)
{
    static const char *const open_ones[] = { "/dev/std", "/dev/fd/", "/proc/" };
    struct stat st;

    if (stat(path, &st))
        return false;
    for (size_t i = 0; i < sizeof open_ones / sizeof *open_ones; i++)
        if (strncmp(path, open_ones[i], strlen(open_ones[i])) == 0)
            return true;
    return !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Opens a stream for writing, at its end, because `>>FILE` is opened anew here. A pipe without a
 * reader is an error after a while: it must not stop a run. */
static int open_stream(const char *path)
{
    int fd = -1;

    for (int ms = 0; fd < 0 && ms < READER_MS; ms += 10) {
        fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 && errno != ENXIO)
            return -1;
        if (fd < 0 && usleep(10000) == 0)
            errno = ENXIO;
    }
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, O_APPEND); /* writes wait again */
    return fd;
}

int dg_outfile_open(dg_outfile **f, const char *path, dg_diag *d)
{
    const bool stream = is_stream(path);
    dg_str partial = { 0 };

    *f = NULL;
    if (!stream)
        dg_str_fmt(&partial, "%s.tmp-%ld", path, (long)getpid());
    int fd = stream ? open_stream(path)
                    : open(partial.s, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);

    if (fd < 0) {
        int error = errno;

        dg_str_free(&partial);
        if (error == ENXIO)
            return dg_fail(d, DG_EIO, (dg_where){ .file = path }, "file-kind",
                           "it is a pipe that no program reads, or a socket");
        return dg_fail_os(d, error, path, "file-create", "cannot create");
    }
    dg_outfile *o = malloc(sizeof *o);
    char *copy = strdup(path);

    if (!o || !copy)
        dg_oom(sizeof *o);
    o->fd = fd;
    o->path = copy;
    o->partial = partial.s;
    o->used = 0;
    o->failed = o->done = false;
    *f = o;
    return 0;
}

static int write_all(dg_outfile *f, const char *p, size_t n, dg_diag *d)
{
    while (n) {
        ssize_t k = write(f->fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            f->failed = true;
            return dg_fail_os(d, errno, f->path, "file-write", "cannot write");
        }
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

static int flush(dg_outfile *f, dg_diag *d)
{
    size_t n = f->used;

    f->used = 0;
    return write_all(f, f->buffer, n, d);
}

int dg_outfile_write(dg_outfile *f, const void *p, size_t n, dg_diag *d)
{
    int rc = 0;

    if (f->failed)
        return -DG_EIO; /* reported when writing failed */
    /* a piece larger than half the buffer is written directly, after the buffered bytes */
    if (n > BUFFER - f->used || n > BUFFER / 2)
        rc = flush(f, d);
    if (rc == 0 && n > BUFFER / 2)
        return write_all(f, p, n, d);
    if (rc == 0 && n) {
        memcpy(f->buffer + f->used, p, n);
        f->used += n;
    }
    return rc;
}

bool dg_outfile_is_stream(const dg_outfile *f)
{
    return !f->partial;
}

const char *dg_outfile_partial(const dg_outfile *f)
{
    return f->partial ? f->partial : f->path;
}

int dg_outfile_patch(dg_outfile *f, size_t at, const void *p, size_t n, dg_diag *d)
{
    int rc = f->failed ? -DG_EIO : flush(f, d);

    if (rc == 0 && pwrite(f->fd, p, n, (off_t)at) != (ssize_t)n) {
        f->failed = true;
        rc = dg_fail_os(d, errno, f->path, "file-write", "cannot write");
    }
    return rc;
}

/* A rename survives a power cut only after its folder is synced. */
static int sync_folder(const char *path, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int fd = open(dg_path_folder(a, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* EINVAL: the file system cannot sync folders */
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int error = errno;

    if (fd >= 0)
        close(fd);
    dg_arena_close(&a);
    return synced ? 0 : dg_fail_os(d, error, path, "file-sync", "cannot sync its folder");
}

int dg_outfile_commit(dg_outfile *f, dg_diag *d)
{
    int rc = f->failed ? -DG_EIO : flush(f, d);

    if (rc < 0)
        return rc;
    bool synced = fsync(f->fd) == 0 || errno == EINVAL;
    int error = errno;

    if (close(f->fd) && synced) {
        synced = false;
        error = errno;
    }
    f->fd = -1;
    if (!synced)
        return dg_fail_os(d, error, f->path, "file-write", "cannot write");
    if (!f->partial)
        return 0;
    if (rename(f->partial, f->path))
        return dg_fail_os(d, errno, f->path, "file-rename",
                          "cannot put the new file into its place");
    f->done = true;
    return sync_folder(f->path, d);
}

void dg_outfile_close(dg_outfile **f)
{
    dg_outfile *o = *f;

    if (!o)
        return;
    if (o->fd >= 0)
        close(o->fd);
    if (!o->done && o->partial)
        unlink(o->partial);
    free(o->partial);
    free(o->path);
    free(o);
    *f = NULL;
}

int dg_file_write(const char *path, const void *p, size_t n, dg_diag *d)
{
    dg_outfile *f = NULL;
    int rc;

    DG_TRY(dg_outfile_open(&f, path, d));
    DG_TRY(dg_outfile_write(f, p, n, d));
    DG_TRY(dg_outfile_commit(f, d));
out:
    dg_outfile_close(&f);
    return rc;
}

int dg_file_rescue(int fd, const char *path, dg_diag *d)
{
    char own[40], *text = NULL;
    size_t n;
    int rc;

    snprintf(own, sizeof own, "/proc/self/fd/%d", fd); /* readable, though opened for writing */
    rc = dg_file_read(&text, &n, own, 0, d);
    if (rc == 0)
        rc = dg_file_write(path, text, n, d);
    dg_free(text);
    return rc;
}

int dg_mkdir(const char *path, dg_diag *d)
{
    int error = mkdir(path, 0777) ? errno : 0, rc;
    char end;

    if (!error || dg_is_folder(path))
        return 0;
    rc = dg_fail_os(d, error, path, "folder-create", "cannot create the folder");
    if (error == EEXIST)
        dg_help(d, readlink(path, &end, 1) == 1 && !dg_exists(path)
                       ? "it is a link that leads nowhere: take it away, or make what it leads to"
                       : "a file of that name is in the way");
    return rc;
}

int dg_mkdirs(const char *path, dg_diag *d)
{
    dg_str s = { 0 };
    int rc = 0;

    dg_str_add(&s, path);
    for (size_t i = 1; rc == 0 && i <= s.n; i++) {
        char c = s.s[i];

        if ((c != '/' && c != '\0') || s.s[i - 1] == '/')
            continue;
        s.s[i] = '\0';
        rc = dg_mkdir(s.s, d);
        s.s[i] = c;
    }
    dg_str_free(&s);
    return rc;
}

bool dg_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

bool dg_is_locked(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;

    if (fd >= 0)
        close(fd);
    return locked;
}

bool dg_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *dg_path_join(dg_arena *a, const char *folder, const char *name)
{
    size_t n = strlen(folder);

    if (name[0] == '/' || n == 0)
        return dg_strdup(a, name);
    while (name[0] == '.' && name[1] == '/') /* people see joined paths: a/b, not a/./b */
        name += 1 + strspn(name + 1, "/");
    if (!*name || strcmp(name, ".") == 0)
        return dg_strdup(a, folder);
    return dg_printf(a, "%s%s%s", folder, folder[n - 1] == '/' ? "" : "/", name);
}

char *dg_path_folder(dg_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return dg_strdup(a, ".");
    return dg_strndup(a, path, slash == path ? 1 : (size_t)(slash - path));
}

const char *dg_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

char *dg_path_stem(dg_arena *a, const char *path)
{
    const char *name = dg_path_name(path), *dot = strrchr(name, '.');

    return dot && dot > name ? dg_strndup(a, path, (size_t)(dot - path)) : dg_strdup(a, path);
}

bool dg_path_ends(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);

    return n > k && strcasecmp(path + n - k, end) == 0;
}
