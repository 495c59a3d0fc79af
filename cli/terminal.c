/* terminal.c: prints errors for people and for programs; the registry with the built-in classes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "nodes/builtin.h"

bool dg_rewrites(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

bool dg_colour(int fd)
{
    const char *no = getenv("NO_COLOR");

    return dg_rewrites(fd) && !(no && *no);
}

void dg_next(const char *fmt, ...)
{
    /* called by bin/detrgraph */
    bool bundled = strstr(program_invocation_name, "/libexec/") != NULL;
    va_list args;

    if (!isatty(STDERR_FILENO))
        return;
    fflush(stdout);
    fprintf(stderr, "next: %s ", bundled ? program_invocation_short_name : program_invocation_name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

static const char *source(void *g, const char *file, size_t *n)
{
    return g ? dg_graph_source(g, file, n) : NULL;
}

void dg_print_diag(const dg_diag *d, dg_graph *g)
{
    dg_str out = { 0 };

    dg_diag_print(&out, d, source, g, dg_colour(STDERR_FILENO));
    if (out.s) {
        fflush(stdout);
        fputs(out.s, stderr);
    }
    dg_str_free(&out);
}

void dg_print_diag_json(const dg_diag *d)
{
    dg_str out = { 0 };

    dg_diag_json(&out, d);
    fputs(out.s, stdout);
    dg_str_free(&out);
}

dg_registry *dg_builtin_registry(dg_diag *d)
{
    dg_registry *r = dg_registry_open();

    for (int i = 0; dg_builtin_nodes[i]; i++)
        if (dg_registry_add(r, dg_builtin_nodes[i], d) < 0) {
            dg_registry_close(&r);
            return NULL;
        }
    return r;
}
