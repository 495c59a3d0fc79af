/* standby.c: see standby.h. The first process listens at a name that disappears with it; another
 * one connects and reads one byte, the exit code. Each speaks only with processes of its user. */
#include "cli/standby.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"

static const double patience_s = 60, /* until the first process is there */
    late_s = 10;                     /* for others that come when the run is over */

static socklen_t address_of(const dg_standby *s, struct sockaddr_un *at)
{
    int n;

    *at = (struct sockaddr_un){ .sun_family = AF_UNIX };
    n = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "detrgraph-%u-%s", (unsigned)getuid(),
                 s->name);
    if (n > (int)sizeof at->sun_path - 2)
        n = (int)sizeof at->sun_path - 2;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_this_user(int fd)
{
    struct ucred who = { .uid = (uid_t)-1 };
    socklen_t n = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == getuid();
}

int dg_standby_open(const dg_standby *s)
{
    struct sockaddr_un at;
    socklen_t n = address_of(s, &at);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[128];

    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, n) == 0 && listen(fd, s->others + 1) == 0)
        return fd;
    dg_say_error("detrgraph run: the other processes of this machine cannot be told when it ends: "
                 "%s\n",
                 strerror_r(errno, text, sizeof text));
    if (fd >= 0)
        close(fd);
    return -1;
}

void dg_standby_tell(const dg_standby *s, int fd, int code)
{
    const unsigned char byte = (unsigned char)code;
    double end = dg_monotonic_s() + late_s;

    for (int told = 0; told < s->others;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        double left = end - dg_monotonic_s();
        struct sockaddr_un from;
        socklen_t size = sizeof from;
        int peer;

        if (left <= 0)
            break;
        if (poll(&p, 1, (int)(1e3 * left) + 1) <= 0)
            continue;
        peer = accept4(fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
        if (peer < 0)
            continue;
        if (is_this_user(peer))
            told += send(peer, &byte, 1, MSG_NOSIGNAL) == 1;
        close(peer);
    }
    close(fd);
}

static bool connect_first(int fd, const dg_standby *s)
{
    struct sockaddr_un at;
    socklen_t n = address_of(s, &at);

    return fd >= 0 && connect(fd, (struct sockaddr *)&at, n) == 0 && is_this_user(fd);
}

/* Connected to the first process; from then on signals are left to it. -1: it did not come. */
static int find_first(const dg_standby *s)
{
    static const int left[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    double end = dg_monotonic_s() + patience_s;
    sigset_t blocked, before;

    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        sigaddset(&blocked, left[i]);
    do {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool found;

        sigprocmask(SIG_BLOCK, &blocked, &before); /* none ends it between the two */
        found = connect_first(fd, s);
        for (size_t i = 0; found && i < sizeof left / sizeof left[0]; i++)
            (void)signal(left[i], SIG_IGN);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (found)
            return fd;
        if (fd >= 0)
            close(fd);
        (void)poll(NULL, 0, 50);
    } while (dg_monotonic_s() < end);
    return -1;
}

int dg_standby_wait(const dg_standby *s)
{
    int fd = find_first(s);
    unsigned char code = DG_EXIT_FAILED;
    ssize_t n;

    if (fd < 0) {
        dg_say_error("detrgraph run: the first process of this machine (LOCAL_RANK=0) did not come "
                     "within %g s\n",
                     patience_s);
        return DG_EXIT_FAILED;
    }
    do
        n = read(fd, &code, 1);
    while (n < 0 && errno == EINTR);
    close(fd);
    return code;
}
