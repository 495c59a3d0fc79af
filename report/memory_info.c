/* memory_info.c: reads /proc/meminfo, and control groups for a container's limit. */
#include "report/memory_info.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"

/* The first number of a file; with a key, the first number after that word at a line's start. */
static bool read_number(const char *path, const char *key, int64_t *out)
{
    FILE *f = fopen(path, "re");
    char line[160];
    size_t n = key ? strlen(key) : 0;
    bool found = false;

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

/* What a group leaves; its page cache counts as free. "max": no limit. */
static void take_left(void *ctx, const char *folder, int version)
{
    static const struct {
        const char *limit, *used, *cache;
    } names[] = {
        [1] = { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file " },
        [2] = { "memory.max", "memory.current", "inactive_file " },
    };
    char path[2 * PATH_MAX + 32];
    int64_t *left = ctx, limit, used, cache = 0;

    snprintf(path, sizeof path, "%s/%s", folder, names[version].limit);
    if (!read_number(path, NULL, &limit))
        return;
    snprintf(path, sizeof path, "%s/%s", folder, names[version].used);
    if (!read_number(path, NULL, &used))
        return;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (read_number(path, names[version].cache, &cache)) /* read later, so it may exceed `used` */
        used = used > cache ? used - cache : 0;
    *left = least(*left, limit > used ? limit - used : 0);
}

/* The least that this process's control group and its ancestors leave. */
static int64_t group_left(int64_t left)
{
    dg_cgroup_each("", "memory", take_left, &left);
    return left;
}

/* What the limit on the address space (ulimit -v) leaves. */
static int64_t address_space_left(int64_t left)
{
    struct rlimit space;
    int64_t pages = 0;

    if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY ||
        space.rlim_cur > INT64_MAX)
        return left;
    if (read_number("/proc/self/statm", NULL, &pages))
        pages *= sysconf(_SC_PAGESIZE);
    return least(left, (int64_t)space.rlim_cur > pages ? (int64_t)space.rlim_cur - pages : 0);
}

int64_t dg_memory_available(void)
{
    int64_t kib;

    return address_space_left(
        group_left(read_number("/proc/meminfo", "MemAvailable:", &kib) ? kib * 1024 : -1));
}

int64_t dg_memory_resident(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long long pages = 0;

    if (f && fscanf(f, "%*d %lld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

int64_t dg_memory_peak(void)
{
    struct rusage use;

    return getrusage(RUSAGE_SELF, &use) ? 0 : (int64_t)use.ru_maxrss * 1024;
}
