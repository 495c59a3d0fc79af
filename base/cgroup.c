/* cgroup.c: finds the group in /proc/self/cgroup and walks up the tree below /sys/fs/cgroup. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* True if `word` is in a list like "cpu,cpuacct"; "" is in the empty list alone. */
static bool is_listed(const char *list, const char *word)
{
    size_t n = strlen(word), length;

    for (;; list += length + 1) {
        length = strcspn(list, ",");
        if (length == n && strncmp(list, word, n) == 0)
            return true;
        if (!list[length])
            return false;
    }
}

/* This process's group, "/a/b"; "" for the root or if unknown. Lines are "4:cpu,cpuacct:/a/b", and
 * "0::/a/b" for version 2. */
static void own_group(const char *root, const char *controller, char *group, size_t n)
{
    char path[PATH_MAX], line[PATH_MAX];
    FILE *f;

    group[0] = '\0';
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;

        if (!at)
            continue;
        *at++ = '\0';
        at[strcspn(at, "\n")] = '\0';
        if (!is_listed(list + 1, controller))
            continue;
        snprintf(group, n, "%s", strcmp(at, "/") == 0 ? "" : at);
        break;
    }
    if (f)
        fclose(f);
}

void dg_cgroup_each(const char *root, const char *controller, dg_cgroup_fn *visit, void *ctx)
{
    for (int version = 2; version > 0; version--) {
        char group[PATH_MAX], folder[2 * PATH_MAX], *slash;

        own_group(root, version == 2 ? "" : controller, group, sizeof group);
        for (;;) {
            snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s%s", root, version == 2 ? "" : "/",
                     version == 2 ? "" : controller, group);
            visit(ctx, folder, version);
            slash = strrchr(group, '/');
            if (!slash)
                break;
            *slash = '\0';
        }
    }
}

/* The number that a file begins with, and the next one; false: there are not so many ("max"). */
static bool read_numbers(const char *folder, const char *name, int n, double v[2])
{
    char path[2 * PATH_MAX];
    FILE *f;
    bool read;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "re");
    read = f && fscanf(f, "%lf %lf", &v[0], &v[1]) >= n;
    if (f)
        fclose(f);
    return read;
}

/* cpu.max: "150000 100000" is 1.5 cores, "max 100000" no limit. Version 1 has a file for each
 * number, and -1 for no limit. */
static void take_least(void *ctx, const char *folder, int version)
{
    double *least = ctx, v[2] = { 0, 0 }, period[2] = { 0, 0 };

    if (version == 2) {
        if (!read_numbers(folder, "cpu.max", 2, v))
            return;
    } else {
        if (!read_numbers(folder, "cpu.cfs_quota_us", 1, v) ||
            !read_numbers(folder, "cpu.cfs_period_us", 1, period))
            return;
        v[1] = period[0];
    }
    if (v[0] > 0 && v[1] > 0 && (*least <= 0 || v[0] / v[1] < *least))
        *least = v[0] / v[1];
}

double dg_cgroup_cores(const char *root)
{
    double least = 0;

    dg_cgroup_each(root, "cpu", take_least, &least);
    return least;
}
