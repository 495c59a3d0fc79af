/* beside.c: see beside.h. */
#include "base/beside.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool dg_find_beside(char *out, size_t size, const char *file)
{
    static const char *const places[] = { "", "../lib/detrgraph/", "../lib/" };
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash;

    program[n < 0 ? 0 : n] = '\0';
    slash = strrchr(program, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if ((size_t)snprintf(out, size, "%s%s%s", program, places[i], file) < size &&
            access(out, F_OK) == 0)
            return true;
    return false;
}
