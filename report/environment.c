/* environment.c: reads /proc, /sys, and the shared libraries that are loaded or could be. */
#include "report/environment.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/str.h"
#include "kernels/backend.h"
#include "kernels/cuda/host/host.h"
#include "report/gpu_info.h"
#include "report/memory_info.h"

typedef struct reader {
    dg_environment *e;
    dg_arena *a;
    const char *topic;
} reader;

static void add(reader *r, const char *name, const char *brings, const char *fmt, ...)
    DG_PRINTF(4, 5);
static void add(reader *r, const char *name, const char *brings, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    DG_PUSH(r->a, *r->e, ((dg_finding_row){ r->topic, name, dg_vprintf(r->a, fmt, ap), brings }));
    va_end(ap);
}

static const char *bytes(dg_arena *a, double n)
{
    char buf[32];

    return dg_strdup(a, dg_human_bytes(n, buf, sizeof buf));
}

/* ---- processor ------------------------------------------------------------------------------- */

static void read_quota(reader *r)
{
    double quota = dg_cgroup_cores("");

    if (quota > 0)
        add(r, "limit",
            quota < dg_threads_available()
                ? "fewer --threads than cores: the control group stops those above its limit"
                : NULL,
            "%.3g cores (control group)", quota);
}

static void add_precision(reader *r)
{
    const char *why = "the backend cpu does not open";
    dg_diag *d = dg_diag_open();
    dg_backend *cpu = NULL;

    if (dg_backend_open(&cpu, "cpu", d) == 0)
        cpu->low_precision(cpu, &why);
    add(r, "precision", NULL, "%s", why);
    dg_backend_close(&cpu);
    dg_diag_close(&d);
}

static void read_processor(reader *r)
{
    char features[96];
    const char *model = dg_file_line(r->a, "/proc/cpuinfo", "model name");
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    r->topic = "processor";
    add(r, "model", NULL, "%s", model ? model : "not known");
    add(r, "features", NULL, "%s", dg_cpu_features(features, sizeof features));
    add(r, "cores",
        dg_threads_available() < online
            ? "more cores: this process is bound to some of them (taskset, a batch system)"
            : NULL,
        "%d of %ld", dg_threads_available(), online);
    read_quota(r);
    add_precision(r);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void read_memory(reader *r)
{
    static const double small = 1 << 28;
    struct statvfs shm;
    struct rlimit files, space;
    const char *pages = dg_file_line(r->a, "/sys/kernel/mm/transparent_hugepage/enabled", "");
    const char *total = dg_file_line(r->a, "/proc/meminfo", "MemTotal");

    r->topic = "memory";
    add(r, "total", NULL, "%s", bytes(r->a, total ? 1024 * strtod(total, NULL) : 0));
    if (dg_memory_available() >= 0)
        add(r, "left", NULL, "%s for this process", bytes(r->a, (double)dg_memory_available()));
    if (statvfs("/dev/shm", &shm) == 0) {
        double left = (double)shm.f_bavail * (double)shm.f_frsize;

        add(r, "shared",
            left < small
                ? "several ranks: their gradients stand in /dev/shm (of containers: --shm-size)"
                : NULL,
            "%s left in /dev/shm", bytes(r->a, left));
    }
    if (pages)
        add(r, "huge pages",
            strstr(pages, "[never]")
                ? "a first step without half a gigabyte of page faults (madvise)"
                : NULL,
            "%s", pages);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        add(r, "address space", "no limit (ulimit -v): memory is reserved in one piece", "%s",
            bytes(r->a, (double)space.rlim_cur));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        add(r, "open files",
            files.rlim_cur < 256 ? "more of them (ulimit -n): loaders and ranks each need some"
                                 : NULL,
            "%llu at most", (unsigned long long)files.rlim_cur);
}

/* ---- libraries ------------------------------------------------------------------------------- */

/* Adds "libzmq", "5.2.4" for .../libzmq.so.5.2.4, following links. */
static void add_library(reader *r, const char *path, const char *brings)
{
    char real[4096];
    const char *name = dg_path_name(realpath(path, real) ? real : path), *so = strstr(name, ".so");

    if (so)
        add(r, dg_strndup(r->a, name, (size_t)(so - name)), brings, "%s",
            so[3] == '.' ? so + 4 : path);
}

static int each_library(struct dl_phdr_info *info, size_t size, void *ctx)
{
    static const char *const used[] = { "libxml2", "libcgraph", "libgvc",   "libzmq",  "libgloo",
                                        "libgomp", "libjpeg",   "libpng16", "libyajl", "libexif",
                                        "libzip",  "libcairo",  NULL };
    const char *name = dg_path_name(info->dlpi_name);

    (void)size;
    for (const char *const *u = used; *u; u++)
        if (strncmp(name, *u, strlen(*u)) == 0 && strncmp(name + strlen(*u), ".so", 3) == 0)
            add_library(ctx, info->dlpi_name, NULL);
    return 0;
}

static void read_libraries(reader *r)
{
    char versions[64];

    r->topic = "libraries";
    add(r, "libdnnl", NULL, "%s", dg_library_versions(versions, sizeof versions));
    dl_iterate_phdr(each_library, r);
#ifndef DG_GLOO
    add(r, "libgloo", "ranks on several machines: libgloo-dev, then ./configure and make",
        "not built in");
#endif
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* Adds a library that could be loaded, or reports that it could not. */
static void try_library(reader *r, const char *name, const char *brings)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map;

    if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        add_library(r, map->l_name, NULL);
    else
        add(r, name, brings, "not found");
    if (handle)
        dlclose(handle);
}

static void add_gpus(reader *r, const dg_gpus *g)
{
    for (int i = 0; i < g->n; i++)
        add(r, dg_printf(r->a, "GPU %d", i),
            g->at[i].lanes > 0 && g->at[i].lanes < g->at[i].most_lanes
                ? "all of its PCIe lanes: another slot, or seat it anew"
                : NULL,
            "%s", dg_gpu_text(&g->at[i], r->a));
    if (g->n > 1 && dg_gpus_alike(g))
        add(r, "between them", NULL, "%s", dg_gpu_link_text(g->links[1], r->a));
    for (int i = 0; i < g->n && !dg_gpus_alike(g); i++)
        add(r, dg_printf(r->a, "from GPU %d", i), NULL, "%s", dg_gpu_links_text(g, i, r->a));
}

static void read_gpus(reader *r)
{
    const char *help;
    char text[600];
    dg_gpus g;

    r->topic = "GPUs";
    dg_gpus_find(&g, "", "libnvidia-ml.so.1", r->a);
    add_gpus(r, &g);
    if (g.n == 0)
        add(r, "NVIDIA", NULL, "none found");
    else
        add(r, "driver", NULL, "%s",
            dg_file_line(r->a, "/proc/driver/nvidia/version", "NVRM version"));
    /* what is missing is worth something where there is a GPU */
    if (dg_cuda_look(text, sizeof text, &help))
        add(r, "CUDA", NULL, "%s; not confirmed: no GPU has run detrgraph yet", text);
    else
        add(r, "CUDA", g.n ? help : NULL, "%s; trains on CPUs", text);
    if (g.n == 0)
        return;
    try_library(r, "libcuda.so.1", NULL);
    try_library(r, "libnccl.so.2", NULL);
    if (g.n > 1)
        try_library(r, "libnvidia-ml.so.1", "the NVLinks between GPUs in this list");
}

void dg_environment_read(dg_environment *e, dg_arena *a)
{
    reader r = { e, a, NULL };

    read_processor(&r);
    read_memory(&r);
    read_libraries(&r);
    read_gpus(&r);
}
