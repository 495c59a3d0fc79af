/* gpu_info.c: see gpu_info.h. The driver lists its GPUs in /proc, the kernel says in /sys where
 * their buses lead, and NVML, which comes with the driver, knows NVLinks; its binary interface is
 * stated here, so that a build needs no header of it. */
#include "report/gpu_info.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

/* ---- NVML ------------------------------------------------------------------------------------ */

enum { MOST_LINKS = 64, SUCCESS = 0, ACTIVE = 1 };

typedef struct nvml_device nvml_device;

typedef struct nvml_pci {
    char old_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} nvml_pci;

typedef struct library {
    void *handle;
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus, nvml_device **device);
    int (*state)(nvml_device *device, unsigned link, int *active);
    int (*remote)(nvml_device *device, unsigned link, nvml_pci *pci);
} library;

static bool open_nvml(library *m, const char *name)
{
    *m = (library){ .handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) };
    if (!m->handle)
        return false;
    /* POSIX lets an object pointer become a function's in this way */
    *(void **)&m->init = dlsym(m->handle, "nvmlInit_v2");
    *(void **)&m->shutdown = dlsym(m->handle, "nvmlShutdown");
    *(void **)&m->find = dlsym(m->handle, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&m->state = dlsym(m->handle, "nvmlDeviceGetNvLinkState");
    *(void **)&m->remote = dlsym(m->handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    if (m->init && m->shutdown && m->find && m->state && m->remote && m->init() == SUCCESS)
        return true;
    dlclose(m->handle);
    return false;
}

static bool is_at(const dg_gpu *gpu, const nvml_pci *pci)
{
    unsigned domain, bus, device;

    return sscanf(gpu->bus, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == pci->domain &&
           bus == pci->bus && device == pci->device;
}

/* Counts GPU i's links to each other one; returns those to switches. */
static int count_links(const dg_gpus *g, const library *m, int i)
{
    nvml_device *device;
    int active, n = 0;

    if (m->find(g->at[i].bus, &device) != SUCCESS)
        return 0;
    for (unsigned link = 0; link < MOST_LINKS && m->state(device, link, &active) == SUCCESS;
         link++) {
        nvml_pci pci = { 0 };
        int k = 0;

        if (active != ACTIVE || m->remote(device, link, &pci) != SUCCESS)
            continue;
        while (k < g->n && !is_at(&g->at[k], &pci))
            k++;
        if (k < g->n)
            g->links[i * g->n + k].n++;
        else
            n++;
    }
    return n;
}

static void find_nvlinks(dg_gpus *g, const char *nvml, dg_arena *a)
{
    int *to_switch = DG_NEW_N(a, g->n + 1, int);
    library m;

    if (!open_nvml(&m, nvml))
        return;
    for (int i = 0; i < g->n; i++)
        to_switch[i] = count_links(g, &m, i);
    m.shutdown();
    dlclose(m.handle);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->n; k++) {
            dg_gpu_link *link = &g->links[i * g->n + k];
            const int n = to_switch[i] < to_switch[k] ? to_switch[i] : to_switch[k];

            if (link->n)
                link->way = DG_GPU_NVLINK;
            else if (n && i != k)
                *link = (dg_gpu_link){ DG_GPU_NVSWITCH, n };
        }
}

/* ---- the driver and PCI ---------------------------------------------------------------------- */

static char *device_line(const char *root, const char *bus, const char *name, dg_arena *a)
{
    return dg_file_line(a, dg_printf(a, "%s/sys/bus/pci/devices/%s/%s", root, bus, name), "");
}

static int64_t device_number(const char *root, const char *bus, const char *name, dg_arena *a)
{
    const char *text = device_line(root, bus, name, a);

    return text && *text ? strtol(text, NULL, 10) : -1;
}

static dg_gpu read_gpu(const char *root, const char *folder, dg_arena *a)
{
    const char *bus = dg_path_name(folder);
    char real[PATH_MAX];
    const char *devices =
        realpath(dg_printf(a, "%s/sys/bus/pci/devices/%s", root, bus), real) ? real : "";
    const char *path = strstr(devices, "/pci");

    return (dg_gpu){
        .bus = dg_strdup(a, bus),
        .model = dg_file_line(a, dg_printf(a, "%s/information", folder), "Model"),
        .path = path ? dg_strdup(a, path) : NULL,
        .speed = device_line(root, bus, "current_link_speed", a),
        .lanes = device_number(root, bus, "current_link_width", a),
        .most_lanes = device_number(root, bus, "max_link_width", a),
        .node = device_number(root, bus, "numa_node", a),
    };
}

/* How many parts of two paths are equal: 1 for the root, 2 for its port as well. */
static int common_parts(const char *a, const char *b)
{
    int n = 0;

    for (size_t i = 0; a && b; i++) {
        const bool ends = !a[i] || a[i] == '/', other = !b[i] || b[i] == '/';

        if (i > 0 && ends && other)
            n++;
        if (a[i] != b[i] || !a[i])
            return n;
    }
    return 0;
}

static dg_gpu_way way_on_pcie(const dg_gpu *a, const dg_gpu *b)
{
    const int parts = common_parts(a->path, b->path);

    return parts >= 2                           ? DG_GPU_PCIE_SWITCH
           : parts == 1                         ? DG_GPU_PCIE_ROOT
           : a->node >= 0 && a->node == b->node ? DG_GPU_PROCESSOR
                                                : DG_GPU_PROCESSORS;
}

void dg_gpus_find(dg_gpus *g, const char *root, const char *nvml, dg_arena *a)
{
    glob_t found;

    *g = (dg_gpus){ 0 };
    if (glob(dg_printf(a, "%s/proc/driver/nvidia/gpus/*", root), GLOB_ONLYDIR, NULL, &found) == 0) {
        g->n = (int)found.gl_pathc;
        g->at = DG_NEW_N(a, g->n, dg_gpu);
        g->links = DG_NEW_N(a, g->n * g->n, dg_gpu_link);
        for (int i = 0; i < g->n; i++)
            g->at[i] = read_gpu(root, found.gl_pathv[i], a);
        globfree(&found);
    }
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->n; k++)
            g->links[i * g->n + k].way = way_on_pcie(&g->at[i], &g->at[k]);
    if (g->n > 1)
        find_nvlinks(g, nvml, a);
}

/* ---- for people ------------------------------------------------------------------------------ */

const char *dg_gpu_text(const dg_gpu *gpu, dg_arena *a)
{
    const char *lanes = gpu->lanes > 0 && gpu->speed
                            ? dg_printf(a, ", %d lane%s of %s", (int)gpu->lanes,
                                        dg_plural(gpu->lanes, "s"), gpu->speed)
                            : "";
    const char *node = gpu->node >= 0 ? dg_printf(a, ", memory node %d", (int)gpu->node) : "";

    return dg_printf(a, "%s, %s%s%s", gpu->model ? gpu->model : "a GPU", gpu->bus, lanes, node);
}

static bool equal_links(dg_gpu_link a, dg_gpu_link b)
{
    return a.way == b.way && a.n == b.n;
}

bool dg_gpus_alike(const dg_gpus *g)
{
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->n; k++)
            if (i != k && !equal_links(g->links[i * g->n + k], g->links[1]))
                return false;
    return true;
}

const char *dg_gpu_link_text(dg_gpu_link link, dg_arena *a)
{
    static const char *const texts[] = { "",
                                         " and a switch",
                                         "through a PCIe switch",
                                         "through a PCIe root",
                                         "within a processor",
                                         "across processors" };

    return link.n
               ? dg_printf(a, "by %d NVLink%s%s", link.n, dg_plural(link.n, "s"), texts[link.way])
               : texts[link.way];
}

/* The first other GPU that i reaches as it does k. */
static int first_alike(const dg_gpus *g, int i, int k)
{
    int first = 0;

    while (first == i || !equal_links(g->links[i * g->n + first], g->links[i * g->n + k]))
        first++;
    return first;
}

const char *dg_gpu_links_text(const dg_gpus *g, int i, dg_arena *a)
{
    const char *text = "";

    for (int k = 0; k < g->n; k++) {
        if (k == i || first_alike(g, i, k) != k)
            continue;
        text = dg_printf(a, "%s%s%s to", text, *text ? "; " : "",
                         dg_gpu_link_text(g->links[i * g->n + k], a));
        for (int other = k; other < g->n; other++)
            if (other != i && first_alike(g, i, other) == k)
                text = dg_printf(a, "%s%s %d", text, other > k ? "," : "", other);
    }
    return text;
}
