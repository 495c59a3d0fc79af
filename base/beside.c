/* beside.c: see beside.h. */
#include "base/beside.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* True if FOLDER PLACE FILE is there; its path is in out then. */
static bool is_in(char *out, size_t size, const char *folder, const char *place, const char *file)
{
    return (size_t)snprintf(out, size, "%s%s%s", folder, place, file) < size &&
           access(out, F_OK) == 0;
}

/* The same for places beside the file at path, which loses its name. */
static bool is_beside(char *out, size_t size, char *path, const char *const *places,
                      const char *file)
{
    char *slash = strrchr(path, '/');

    if (!slash)
        return false;
    slash[1] = '\0';
    for (; *places; places++)
        if (is_in(out, size, path, *places, file))
            return true;
    return false;
}

bool dg_find_beside(char *out, size_t size, const char *file)
{
    static const char *const of_program[] = { "", "../lib/detrgraph/", "../lib/",
                                              "../share/detrgraph/", NULL };
    static const char *const of_library[] = { "", "detrgraph/", "../" /* it is in .libs */,
                                              "../share/detrgraph/", NULL };
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    Dl_info info;

    path[n < 0 ? 0 : n] = '\0';
    if (is_beside(out, size, path, of_program, file))
        return true;
    if (dladdr(of_library, &info) && info.dli_fname && strstr(info.dli_fname, ".so")) {
        snprintf(path, sizeof path, "%s", info.dli_fname);
        if (is_beside(out, size, path, of_library, file))
            return true;
    }
    return is_in(out, size, DG_MODULESDIR "/", "", file) ||
           is_in(out, size, DG_PKGDATADIR "/", "", file);
}
