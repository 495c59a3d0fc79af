/* beside.c: see beside.h. */
#include "base/beside.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* True if FOLDER FILE is there; its path is in out then. */
static bool is_in(char *out, size_t size, const char *folder, const char *place, const char *file)
{
    return (size_t)snprintf(out, size, "%s%s%s", folder, place, file) < size &&
           access(out, F_OK) == 0;
}

bool dg_find_beside(char *out, size_t size, const char *file)
{
    static const char *const places[] = { "", "../lib/detrgraph/", "../lib/" };
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash;

    program[n < 0 ? 0 : n] = '\0';
    slash = strrchr(program, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++)
        if (is_in(out, size, program, places[i], file))
            return true;
    return is_in(out, size, DG_MODULESDIR "/", "", file);
}
