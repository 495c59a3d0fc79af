/* limits.c: see limits.h. Libraries do not survive a missing descriptor, stack or byte with a
 * message, so limits are looked at before anything is started. */
#include "control/limits.h"

#include <sys/resource.h>

#include "base/str.h"

/* descriptors of a launcher, and for each rank; bytes of a thread's stack */
enum { FILES = 64, FILES_PER_RANK = 8, STACK = 1 << 20, STACK_WISH = 8 << 20 };

static int raise_one(int what, const char *name, const char *flag, rlim_t least, rlim_t wish,
                     rlim_t unit, dg_diag *d)
{
    struct rlimit now, more;

    if (getrlimit((__rlimit_resource_t)what, &now) != 0 || now.rlim_cur >= least)
        return 0;
    more = now;
    more.rlim_cur = now.rlim_max < wish ? now.rlim_max : wish;
    if (more.rlim_cur >= least && setrlimit((__rlimit_resource_t)what, &more) == 0)
        return 0;
    dg_fail(d, DG_EIO, DG_NOWHERE, "limit", "the limit of %s is %llu, and a run needs %llu", name,
            (unsigned long long)(now.rlim_max / unit), (unsigned long long)(least / unit));
    dg_help(d,
            "ulimit %s %llu in the shell before; where that is refused, the machine's "
            "administrator can raise the hard limit",
            flag, (unsigned long long)(wish / unit));
    return -DG_EIO;
}

int dg_limits_raise(int ranks, dg_diag *d)
{
    const rlim_t files = FILES + (rlim_t)ranks * FILES_PER_RANK;
    int rc = raise_one(RLIMIT_NOFILE, "open files", "-n", files, 4 * files, 1, d);

    return rc < 0 ? rc
                  : raise_one(RLIMIT_STACK, "the stack in KiB", "-s", STACK, STACK_WISH, 1024, d);
}

bool dg_limits_memory(dg_str *out)
{
    static const struct {
        int what;
        char flag;
    } limits[] = { { RLIMIT_AS, 'v' }, { RLIMIT_DATA, 'd' } };
    struct rlimit now;
    char text[32];

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (getrlimit((__rlimit_resource_t)limits[i].what, &now) != 0 ||
            now.rlim_cur == RLIM_INFINITY)
            continue;
        dg_str_fmt(out,
                   "memory is limited to %s (ulimit -%c), and libraries crash when they get none: "
                   "ulimit -%c unlimited, or a smaller batch",
                   dg_human_bytes((double)now.rlim_cur, text, sizeof text), limits[i].flag,
                   limits[i].flag);
        return true;
    }
    return false;
}

void dg_limits_help(dg_diag *d)
{
    dg_str s = { 0 };

    if (dg_limits_memory(&s))
        dg_help(d, "%s", s.s);
    dg_str_free(&s);
}
