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

typedef struct hierarchy {
    const char *controller, *root, *limit, *used, *cache;
} hierarchy;

/* The path of this process's control group, "/a/b"; "" for the root, and where nobody says. */
static void own_group(char *path, size_t n, const char *controller)
{
    FILE  *f = fopen("/proc/self/cgroup", "re");
    char   line[4096];
    bool   found = false;

    path[0] = '\0';
    while (f && !found && fgets(line, sizeof line, f)) { /* "4:cpu,memory:/a/b"; of version 2 "0::/a/b" */
        char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;

        if (!at)
            continue;
        *at = '\0';
        for (char *word = list + 1, *end; word && !found; word = *end ? end + 1 : NULL) {
            end = word + strcspn(word, ",");
            found = strlen(controller) == (size_t)(end - word) && strncmp(word, controller, (size_t)(end - word)) == 0;
        }
        if (found)
            snprintf(path, n, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    }
    if (f)
        fclose(f);
    if (strcmp(path, "/") == 0)
        path[0] = '\0';
}

/* What one group leaves; the page cache that it counts can be taken back. "max" is no number: no limit. */
static int64_t one_left(int64_t left, const hierarchy *h, const char *group)
{
    char    path[4400];
    int64_t limit, used, cache = 0;

    snprintf(path, sizeof path, "%s%s/%s", h->root, group, h->limit);
    if (!read_number(path, NULL, &limit))
        return left;
    snprintf(path, sizeof path, "%s%s/%s", h->root, group, h->used);
    if (!read_number(path, NULL, &used))
        return left;
    snprintf(path, sizeof path, "%s%s/memory.stat", h->root, group);
    if (read_number(path, h->cache, &cache)) /* read a moment later: may be the larger */
        used = used > cache ? used - cache : 0;
    return least(left, limit > used ? limit - used : 0);
}

/* The least that this process's group and those around it leave. In a container the mount may begin at its own group,
 * while the path is that of the host: what is not there is passed over. */
static int64_t group_left(int64_t left)
{
    static const hierarchy all[] = {
        { "", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file " },
        { "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file " },
    };

    for (int i = 0; i < 2; i++) {
        char group[4096], *slash;

        own_group(group, sizeof group, all[i].controller);
        for (;;) {
            left = one_left(left, &all[i], group);
            slash = strrchr(group, '/');
            if (!slash)
                break;
            *slash = '\0';
        }
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

int64_t dg_memory_resident(void)
{
    FILE     *f = fopen("/proc/self/statm", "re");
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
