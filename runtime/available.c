/* available.c: /proc/meminfo and control groups (version 2, then 1), where a container's limit stands. */
#include "runtime/available.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The first number of a file; with a key, the number behind that word at a line's start. */
static bool read_number(const char *path, const char *key, int64_t *out)
{
    FILE  *f = fopen(path, "re");
    char   line[160];
    size_t n = key ? strlen(key) : 0;
    bool   found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = strncmp(line, key ? key : "", n) == 0 && sscanf(line + n, "%" SCNd64, out) == 1;
    if (f)
        fclose(f);
    return found;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < 0 || b < a ? b : a;
}

/* What a control group leaves; the page cache that it counts can be taken back. "max" is no number: no limit. */
static int64_t group_left(int64_t left)
{
    static const struct {
        const char *limit, *used, *stat, *cache;
    } groups[] = {
        { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file " },
        { "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
          "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file " },
    };

    for (int i = 0; i < 2; i++) {
        int64_t limit, used, cache = 0;

        if (!read_number(groups[i].limit, NULL, &limit) || !read_number(groups[i].used, NULL, &used))
            continue;
        if (read_number(groups[i].stat, groups[i].cache, &cache)) /* read a moment later: may be the larger */
            used = used > cache ? used - cache : 0;
        left = least(left, limit > used ? limit - used : 0);
    }
    return left;
}

/* What a limit on the address space leaves (ulimit -v). */
static int64_t address_space_left(int64_t left)
{
    struct rlimit space;
    int64_t       pages = 0;

    if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY || space.rlim_cur > INT64_MAX)
        return left;
    if (read_number("/proc/self/statm", NULL, &pages))
        pages *= sysconf(_SC_PAGESIZE);
    return least(left, (int64_t)space.rlim_cur > pages ? (int64_t)space.rlim_cur - pages : 0);
}

int64_t dg_memory_available(void)
{
    int64_t kib;

    return address_space_left(group_left(read_number("/proc/meminfo", "MemAvailable:", &kib) ? kib * 1024 : -1));
}

int64_t dg_memory_peak(void)
{
    struct rusage use;

    return getrusage(RUSAGE_SELF, &use) ? 0 : (int64_t)use.ru_maxrss * 1024;
}
