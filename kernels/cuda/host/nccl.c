/* nccl.c: finds and loads NCCL: by its name, which reaches NVIDIA's and Debian's packages and
 * LD_LIBRARY_PATH, and else where CUDA's toolkit and wheels of PyPI have it. */
#include "kernels/cuda/host/nccl.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnccl.so.2"

/* Patterns; the first ones are relative to the program: its own lib (a bundle), and the packages
 * beside its own. */
static const char *const beside[] = { "",
                                      "lib/",
                                      "../lib/",
                                      "../nvidia/nccl/lib/",
                                      "../../nvidia/nccl/lib/",
                                      "../lib/python3*/site-packages/nvidia/nccl/lib/" };
static const char *const places[] = {
    "/usr/local/cuda/lib64/",
    "/usr/local/cuda/lib/",
    "/usr/local/nccl*/lib/",
    "/opt/nvidia/hpc_sdk/Linux_x86_64/*/comm_libs/nccl/lib/",
    "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/",
    "/usr/lib/python3/dist-packages/nvidia/nccl/lib/",
    "/opt/conda/lib/python3*/site-packages/nvidia/nccl/lib/",
    "~/.local/lib/python3*/site-packages/nvidia/nccl/lib/",
};

static void *open_matching(const char *folder)
{
    char pattern[PATH_MAX + 128];
    glob_t found;
    void *handle = NULL;

    snprintf(pattern, sizeof pattern, "%s" LIBRARY, folder);
    if (glob(pattern, GLOB_TILDE, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !handle; i++)
            handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return handle;
}

static void *open_anywhere(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    char program[PATH_MAX], folder[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash;

    program[n < 0 ? 0 : n] = '\0';
    slash = strrchr(program, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof beside[0] && slash && !handle; i++) {
        snprintf(folder, sizeof folder, "%s%s", program, beside[i]);
        handle = open_matching(folder);
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !handle; i++)
        handle = open_matching(places[i]);
    return handle;
}

/* The name of the first function that the library lacks, or NULL. */
static const char *find_functions(dg_nccl *n)
{
    const struct {
        void *to; /* a pointer to a function */
        const char *name;
    } table[] = {
        { &n->get_version, "ncclGetVersion" },
        { &n->get_id, "ncclGetUniqueId" },
        { &n->open, "ncclCommInitRankConfig" },
        { &n->finalize, "ncclCommFinalize" },
        { &n->destroy, "ncclCommDestroy" },
        { &n->abort, "ncclCommAbort" },
        { &n->async_error, "ncclCommGetAsyncError" },
        { &n->group_begin, "ncclGroupStart" },
        { &n->group_end, "ncclGroupEnd" },
        { &n->send, "ncclSend" },
        { &n->take, "ncclRecv" },
        { &n->gather, "ncclAllGather" },
        { &n->broadcast, "ncclBroadcast" },
        { &n->error, "ncclGetErrorString" },
        { &n->last_error, "ncclGetLastError" },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        void *symbol = dlsym(n->handle, table[i].name);

        if (!symbol)
            return table[i].name;
        memcpy(table[i].to, &symbol, sizeof symbol);
    }
    return NULL;
}

bool dg_nccl_load(dg_nccl *n, const char *path, char *why, size_t size)
{
    const char *lacks;
    char version[32];

    *n = (dg_nccl){ .handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : open_anywhere() };
    if (!n->handle) {
        snprintf(why, size, "%s", path ? dlerror() : LIBRARY " is not installed");
        return false;
    }
    lacks = find_functions(n);
    if (lacks)
        snprintf(why, size, LIBRARY " has no %s", lacks);
    else if (n->get_version(&n->version) != DG_NCCL_OK)
        snprintf(why, size, LIBRARY " does not say its version");
    else if (n->version < DG_NCCL_LEAST)
        snprintf(why, size, "NCCL %s is too old: 2.14 or later is needed",
                 dg_nccl_version(n->version, version, sizeof version));
    else
        return true;
    dg_nccl_unload(n);
    return false;
}

void dg_nccl_unload(dg_nccl *n)
{
    if (n->handle)
        dlclose(n->handle);
    n->handle = NULL;
}

const char *dg_nccl_version(int version, char *buf, size_t size)
{
    snprintf(buf, size, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
    return buf;
}
