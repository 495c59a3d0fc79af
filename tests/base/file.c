/* file.c: reading, mapping and paths; writes are atomic, also when the disk is full. */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"

typedef struct place {
    char folder[64];
    dg_arena *arena;
    dg_diag *d;
} place;

static int set_up(void **state)
{
    place *p = calloc(1, sizeof *p);

    snprintf(p->folder, sizeof p->folder, "/tmp/detrgraph-file-XXXXXX");
    if (!mkdtemp(p->folder)) {
        free(p);
        return -1;
    }
    p->arena = dg_arena_open();
    p->d = dg_diag_open();
    *state = p;
    return 0;
}

static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static int tear_down(void **state)
{
    place *p = *state;
    char *command = dg_printf(p->arena, "rm -rf '%s'", p->folder);
    int rc = system(command);

    dg_arena_close(&p->arena);
    dg_diag_close(&p->d);
    free(p);
    return rc;
}

static char *in(place *p, const char *name)
{
    return dg_path_join(p->arena, p->folder, name);
}

static void written_and_read(void **state)
{
    place *p = *state;
    char *path = in(p, "a.json"), *text;
    size_t n;
    dg_mapping m;

    assert_int_equal(dg_file_write(path, "{\"a\":1}\n", 8, p->d), 0);
    assert_int_equal(dg_file_read(&text, &n, path, 8, p->d), 0);
    assert_int_equal(n, 8);
    assert_string_equal(text, "{\"a\":1}\n");
    dg_free(text);
    assert_int_equal(dg_file_map(&m, path, p->d), 0);
    assert_int_equal(m.n, 8);
    assert_memory_equal(m.p, "{\"a\":1}\n", 8);
    dg_file_unmap(&m);
    assert_null(m.p);
    assert_int_equal(entries(p->folder), 1);
    assert_int_equal(dg_diag_n(p->d), 0);
}

static void empty_files(void **state)
{
    place *p = *state;
    char *path = in(p, "empty"), *text;
    size_t n;
    dg_mapping m;

    assert_int_equal(dg_file_write(path, NULL, 0, p->d), 0);
    assert_int_equal(dg_file_read(&text, &n, path, 0, p->d), 0);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    dg_free(text);
    assert_int_equal(dg_file_map(&m, path, p->d), 0);
    assert_non_null(m.p);
    assert_int_equal(m.n, 0);
    dg_file_unmap(&m);
}

/* A file that somebody cuts while it is read; mapped, it would end the process by SIGBUS. */
static void cut_while_it_is_read(void **state)
{
    place *p = *state;
    char *path = in(p, "cut"), bytes[20000] = { 1 };
    dg_mapping m;

    assert_int_equal(dg_file_write(path, bytes, sizeof bytes, p->d), 0);
    assert_int_equal(dg_file_map(&m, path, p->d), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(m.n, sizeof bytes);
    dg_file_forget(&m, m.n); /* a mapping would be read anew */
    assert_memory_equal(m.p, bytes, sizeof bytes);
    dg_file_unmap(&m);
}

static void what_cannot_be_read(void **state)
{
    place *p = *state;
    char *text, *fifo = in(p, "fifo");
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, in(p, "absent"), 0, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot open: No such file or directory");
    assert_string_equal(dg_path_name(dg_diag_at(p->d, 0)->at.file), "absent");
    check_only(p->d, "file-open");
    assert_int_equal(dg_file_read(&text, &n, p->folder, 0, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "a file is expected, this is a folder");
    check_only(p->d, "file-kind");
    assert_int_equal(mkfifo(fifo, 0600), 0); /* a plain open would block until a writer opens it */
    assert_int_equal(dg_file_read(&text, &n, fifo, 0, p->d), -DG_EIO);
    check_only(p->d, "file-kind");
    assert_int_equal(dg_file_write(in(p, "big"), "123456789", 9, p->d), 0);
    assert_int_equal(dg_file_read(&text, &n, in(p, "big"), 8, p->d), -DG_EINPUT);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "9 B, but at most 8 B are read here");
    check_only(p->d, "file-too-large");
}

static void what_does_not_fit_into_memory(void **state)
{
    place *p = *state;
    char *text, *path = in(p, "big");
    size_t n;
    dg_mapping m;
    struct rlimit before, small = { (rlim_t)1 << 40, 0 };

    if (SANITIZED)
        skip();
    assert_int_equal(dg_file_write(path, "x", 1, p->d), 0);
    assert_int_equal(truncate(path, (off_t)1 << 42), 0); /* sparse: 4 TiB that take no disk space */
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    assert_int_equal(dg_file_read(&text, &n, path, 0, p->d), -DG_EMEMORY);
    check_only(p->d, "file-memory");
    assert_int_equal(dg_file_map(&m, path, p->d), -DG_EIO);
    check_only(p->d, "file-map");
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

static void a_read_error_is_told(void **state)
{
    /* can be opened and has a size, but read() fails */
    static const char refuses[] = "/sys/class/net/lo/speed";
    place *p = *state;
    char *text;
    size_t n;

    if (!dg_exists(refuses))
        skip();
    assert_int_equal(dg_file_read(&text, &n, refuses, 0, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot read: Invalid argument");
    check_only(p->d, "file-read");
}

static void without_commit_nothing_is_left(void **state)
{
    place *p = *state;
    dg_outfile *f;

    assert_int_equal(dg_outfile_open(&f, in(p, "x"), p->d), 0);
    assert_int_equal(dg_outfile_write(f, "abc", 3, p->d), 0);
    assert_int_equal(entries(p->folder), 1);
    assert_false(dg_exists(in(p, "x")));
    dg_outfile_close(&f);
    assert_null(f);
    dg_outfile_close(&f);
    assert_int_equal(entries(p->folder), 0);
}

static void large_writes_keep_their_order(void **state)
{
    place *p = *state;
    dg_outfile *f;
    char *big = dg_alloc(p->arena, 100000), *text;
    size_t n;

    memset(big, 'b', 100000);
    assert_int_equal(dg_outfile_open(&f, in(p, "x"), p->d), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dg_outfile_write(f, "a", 1, p->d), 0);
        /* fits the buffer, but is written directly */
        assert_int_equal(dg_outfile_write(f, big, 40000, p->d), 0);
        assert_int_equal(dg_outfile_write(f, big, 60000, p->d), 0);
        assert_int_equal(dg_outfile_write(f, big, 30000, p->d), 0);
    }
    assert_int_equal(dg_outfile_commit(f, p->d), 0);
    dg_outfile_close(&f);
    assert_int_equal(dg_file_read(&text, &n, in(p, "x"), 0, p->d), 0);
    assert_int_equal(n, 3 * 130001);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(text[i], i % 130001 ? 'b' : 'a');
    dg_free(text);
}

static void an_old_file_survives_a_failed_write(void **state)
{
    place *p = *state;
    char *path = in(p, "model"), *text, *big = dg_alloc(p->arena, 300000);
    size_t n;
    struct rlimit before, small = { 100000, 0 };

    assert_int_equal(dg_file_write(path, "old", 3, p->d), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = dg_file_write(path, big, 300000, p->d);

    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot write: File too large");
    check_only(p->d, "file-write");
    assert_int_equal(dg_file_read(&text, &n, path, 0, p->d), 0);
    assert_string_equal(text, "old");
    dg_free(text);
    assert_int_equal(entries(p->folder), 1);
}

static void a_full_disk(void **state)
{
    place *p = *state;
    dg_outfile *f;
    char *big = dg_alloc(p->arena, 100000), *disk = in(p, "disk");

    assert_int_equal(dg_mkdirs(disk, p->d), 0);
    bool own = unshare(CLONE_NEWNS) == 0;

    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL); /* fails in a chroot, harmlessly */
    if (!own || mount("tmpfs", disk, "tmpfs", 0, "size=64k"))
        skip(); /* mounting a small file system needs root */
    char *path = in(p, "disk/model");

    assert_int_equal(dg_outfile_open(&f, path, p->d), 0);
    assert_int_equal(dg_outfile_write(f, big, 100000, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot write: No space left on device");
    check_only(p->d, "file-write");
    assert_int_equal(dg_outfile_write(f, big, 1, p->d), -DG_EIO); /* reported only once */
    assert_int_equal(dg_outfile_commit(f, p->d), -DG_EIO);
    assert_int_equal(dg_diag_n(p->d), 0);
    dg_outfile_close(&f);
    assert_int_equal(entries(disk), 0);
    assert_int_equal(dg_file_write(path, big, 1000, p->d), 0);
    assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

static void what_cannot_be_written(void **state)
{
    place *p = *state;

    assert_int_equal(dg_file_write(in(p, "no/such/folder"), "x", 1, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot create: No such file or directory");
    check_only(p->d, "file-create");
    assert_int_equal(dg_mkdirs(in(p, "taken"), p->d), 0);
    /* the target is a folder */
    assert_int_equal(dg_file_write(in(p, "taken"), "x", 1, p->d), -DG_EIO);
    check_only(p->d, "file-rename");
    assert_int_equal(entries(p->folder), 1);
}

/* Writing to a pipe or a device keeps it one; writing to the file open as standard output keeps its
 * contents. */
static void what_is_no_file(void **state)
{
    place *p = *state;
    const char *path = dg_path_join(p->arena, p->folder, "pipe"),
               *file = dg_path_join(p->arena, p->folder, "file");
    char got[8] = "", *text;
    size_t n;
    struct stat st;
    int fd;

    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(dg_file_write(path, "abc", 3, p->d), 0);
    assert_int_equal(read(fd, got, 3), 3);
    assert_string_equal(got, "abc");
    close(fd);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    /* it has no reader now: a plain open would wait for ever */
    assert_int_equal(dg_file_write(path, "abc", 3, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text,
                        "it is a pipe that no program reads, or a socket");
    check_only(p->d, "file-kind");
    assert_int_equal(dg_file_open(&fd, path, O_WRONLY | O_APPEND, p->d), -DG_EIO);
    check_only(p->d, "file-kind");
    assert_int_equal(dg_file_open(&fd, p->folder, O_WRONLY | O_APPEND, p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "a file is expected, this is a folder");
    check_only(p->d, "file-kind");

    fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "old,", 4), 4);
    assert_int_equal(dg_file_write(dg_printf(p->arena, "/dev/fd/%d", fd), "new", 3, p->d), 0);
    close(fd);
    assert_int_equal(dg_file_read(&text, &n, file, 0, p->d), 0);
    assert_string_equal(text, "old,new");
    dg_free(text);
    assert_int_equal(dg_diag_n(p->d), 0);
}

/* Run as an unprivileged user, because root can open every folder. */
static void a_folder_that_cannot_be_synced(void **state)
{
    enum { NOBODY = 65534 };
    place *p = *state;
    bool root = geteuid() == 0;

    assert_int_equal(root ? chown(p->folder, NOBODY, NOBODY) : 0, 0);
    assert_int_equal(chmod(p->folder, 0300), 0);
    assert_int_equal(root ? seteuid(NOBODY) : 0, 0);
    /* a folder above may be closed to that user */
    bool enters = faccessat(AT_FDCWD, p->folder, X_OK, AT_EACCESS) == 0;
    int rc = enters ? dg_file_write(in(p, "x"), "x", 1, p->d) : 0;

    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(chmod(p->folder, 0700), 0);
    if (!enters)
        skip();
    assert_int_equal(rc, -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot sync its folder: Permission denied");
    check_only(p->d, "file-sync");
}

static void folders(void **state)
{
    place *p = *state;

    assert_int_equal(dg_mkdirs(in(p, "a//b/c/"), p->d), 0);
    assert_int_equal(dg_mkdirs(in(p, "a/b/c"), p->d), 0);
    assert_true(dg_is_folder(in(p, "a/b/c")));
    assert_int_equal(dg_file_write(in(p, "a/file"), "x", 1, p->d), 0);
    assert_false(dg_is_folder(in(p, "a/file")));
    assert_true(dg_exists(in(p, "a/file")));
    assert_int_equal(dg_mkdirs(in(p, "a/file/c"), p->d), -DG_EIO);
    assert_string_equal(dg_diag_at(p->d, 0)->text, "cannot create the folder: File exists");
    check_only(p->d, "folder-create");
}

/* A link to a parent folder is not followed: each file is found once. */
static void a_loop_of_folders(void **state)
{
    place *p = *state;
    dg_listing files;

    assert_int_equal(dg_mkdirs(in(p, "loop/in"), p->d), 0);
    assert_int_equal(dg_file_write(in(p, "loop/in/x"), "x", 1, p->d), 0);
    assert_int_equal(symlink("..", in(p, "loop/in/up")), 0);
    assert_int_equal(dg_dir_list_deep(&files, p->arena, in(p, "loop"), p->d), 0);
    assert_int_equal(files.n, 1);
    assert_string_equal(files.v[0], "in/x");
}

static void paths(void **state)
{
    place *p = *state;

    assert_string_equal(dg_path_join(p->arena, "a", "b"), "a/b");
    assert_string_equal(dg_path_join(p->arena, "a/", "b"), "a/b");
    assert_string_equal(dg_path_join(p->arena, "", "b"), "b");
    assert_string_equal(dg_path_join(p->arena, "a", "/b"), "/b");
    assert_string_equal(dg_path_join(p->arena, "a", "././/b/.c"), "a/b/.c");
    assert_string_equal(dg_path_join(p->arena, "a", ".b"), "a/.b");
    assert_string_equal(dg_path_join(p->arena, "a", "../b"), "a/../b");
    assert_string_equal(dg_path_join(p->arena, "a", "."), "a");
    assert_string_equal(dg_path_join(p->arena, "a", "./"), "a");
    assert_string_equal(dg_path_join(p->arena, "", "."), ".");
    assert_string_equal(dg_path_folder(p->arena, "a/b/c"), "a/b");
    assert_string_equal(dg_path_folder(p->arena, "c"), ".");
    assert_string_equal(dg_path_folder(p->arena, "/c"), "/");
    assert_string_equal(dg_path_name("a/b/c"), "c");
    assert_string_equal(dg_path_name("c"), "c");
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(written_and_read),
        IN_A_FOLDER(empty_files),
        IN_A_FOLDER(cut_while_it_is_read),
        IN_A_FOLDER(what_cannot_be_read),
        IN_A_FOLDER(what_does_not_fit_into_memory),
        IN_A_FOLDER(a_read_error_is_told),
        IN_A_FOLDER(without_commit_nothing_is_left),
        IN_A_FOLDER(large_writes_keep_their_order),
        IN_A_FOLDER(an_old_file_survives_a_failed_write),
        IN_A_FOLDER(a_full_disk),
        IN_A_FOLDER(what_cannot_be_written),
        IN_A_FOLDER(what_is_no_file),
        IN_A_FOLDER(a_folder_that_cannot_be_synced),
        IN_A_FOLDER(folders),
        IN_A_FOLDER(a_loop_of_folders),
        IN_A_FOLDER(paths),
    };

    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
