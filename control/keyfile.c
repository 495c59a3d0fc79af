/* keyfile.c: see keyfile.h. */
#include "control/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"

/* a key's NUL takes the place of its line's newline */
enum { LINE = DG_KEY_TEXT, SIZE = 2 * LINE };

int dg_key_file_make(const char *path, dg_diag *d)
{
    dg_key_pair server, ranks;
    char text[SIZE + 1];
    ssize_t n = 0;
    int fd, rc;

    DG_TRY(dg_key_make(&server, d));
    DG_TRY(dg_key_make(&ranks, d));
    snprintf(text, sizeof text, "%s\n%s\n", server.secret_key, ranks.secret_key);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || (n = write(fd, text, SIZE)) != SIZE) {
        rc = dg_fail_os(d, n > 0 ? ENOSPC : errno, path, "key-file", "the key cannot be written");
        if (fd >= 0)
            unlink(path);
    }
    if (fd >= 0)
        close(fd);
    explicit_bzero(text, sizeof text);
out:
    explicit_bzero(&server, sizeof server);
    explicit_bzero(&ranks, sizeof ranks);
    return rc;
}

/* Fails if others may read the file: they could join the run. */
static int check_owner_alone(const char *path, dg_diag *d)
{
    dg_str word = { 0 };
    struct stat st;

    if (stat(path, &st) < 0 || (st.st_mode & 077) == 0) /* if it is missing, reading reports that */
        return 0;
    dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "key-file",
            "others may read or write it (mode %03o): a key is its owner's alone",
            (unsigned)(st.st_mode & 0777));
    dg_str_shell(&word, path);
    dg_help(d, "chmod 600 %s", word.s);
    dg_str_free(&word);
    return -DG_EINPUT;
}

int dg_key_file_read(const char *path, dg_key_pair *server, dg_key_pair *ranks, dg_diag *d)
{
    char *text = NULL;
    size_t n;
    int rc;

    DG_TRY(check_owner_alone(path, d));
    DG_TRY(dg_file_read(&text, &n, path, 4096, d));
    if (n != SIZE || text[LINE - 1] != '\n') {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "key-file",
                     "it is no key of a run on several machines");
        dg_help(d, "detrgraph key FILE makes one; copy it to every machine");
        goto out;
    }
    *server = *ranks = (dg_key_pair){ 0 };
    memcpy(server->secret_key, text, LINE - 1);
    memcpy(ranks->secret_key, text + LINE, LINE - 1);
    DG_TRY(dg_key_derive(server, d));
    DG_TRY(dg_key_derive(ranks, d));
out:
    if (text)
        explicit_bzero(text, n);
    dg_free(text);
    return rc;
}
