/* terminal.c: the one door to standard output and standard error; errors for people and for
 * programs; the registry with the built-in classes. */
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

static FILE *stream_of(int fd)
{
    if (fd == STDOUT_FILENO)
        return stdout;
    fflush(stdout); /* what was said before comes first */
    return stderr;
}

static void say(int fd, const char *fmt, va_list ap) DG_PRINTF(2, 0);
static void say(int fd, const char *fmt, va_list ap)
{
    dg_str text = { 0 }, shown = { 0 };

    dg_str_vfmt(&text, fmt, ap);
    dg_str_shown(&shown, text.s ? text.s : "");
    if (shown.n)
        fwrite(shown.s, 1, shown.n, stream_of(fd));
    dg_str_free(&text);
    dg_str_free(&shown);
}

void dg_say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(STDOUT_FILENO, fmt, ap);
    va_end(ap);
}

void dg_say_error(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(STDERR_FILENO, fmt, ap);
    va_end(ap);
}

/* Length of one of the program's own colours at text, or 0. */
static size_t colour_bytes(const char *text)
{
    static const char *const own[] = { "\033[0m",    "\033[1m",    "\033[33m",
                                       "\033[36m",   "\033[1;31m", "\033[1;32m",
                                       "\033[1;33m", "\033[1;35m", "\033[1;36m" };

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(text, own[i], strlen(own[i])) == 0)
            return strlen(own[i]);
    return 0;
}

static void add_painted(dg_str *out, const char *text, size_t n)
{
    for (size_t k, skip; n; text += k, n -= k) {
        k = *text == '\n' || *text == '\t' ? 1 : *text == '\033' ? colour_bytes(text) : 0;
        k = k && k <= n ? k : dg_shown_bytes(text, n, &skip);
        dg_str_add_n(out, k ? text : "?", k ? k : 1);
        k = k ? k : skip;
    }
}

void dg_say_painted(int fd, const char *text)
{
    dg_str shown = { 0 };

    add_painted(&shown, text, strlen(text));
    if (shown.n)
        fwrite(shown.s, 1, shown.n, stream_of(fd));
    dg_str_free(&shown);
}

void dg_line_clear(int fd)
{
    fputs("\r\033[K", stream_of(fd));
}

void dg_screen_clear(void)
{
    fputs("\033[H\033[J", stdout);
}

/* Bytes of a line that fill at most `columns` columns; escapes and continuation bytes fill none. */
static size_t fits(const char *line, size_t n, int columns)
{
    bool escape = false;

    for (size_t i = 0; i < n; i++) {
        escape |= line[i] == '\033';
        if (!escape && ((unsigned char)line[i] & 0xC0) != 0x80 && columns-- == 0)
            return i;
        escape = escape && line[i] != 'm';
    }
    return n;
}

int dg_screen_redraw(const char *text, int drawn, int columns)
{
    dg_str out = { 0 };
    int lines = 0;

    if (drawn)
        dg_str_fmt(&out, "\033[%dA", drawn);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, lines++) {
        dg_str_add(&out, "\r");
        add_painted(&out, line, fits(line, strcspn(line, "\n"), columns));
        dg_str_add(&out, "\033[0m\033[K\n");
    }
    dg_str_add(&out, "\033[J");
    fwrite(out.s, 1, out.n, stdout);
    fflush(stdout);
    dg_str_free(&out);
    return lines;
}

void dg_next(const char *fmt, ...)
{
    /* called by bin/detrgraph */
    bool bundled = strstr(program_invocation_name, "/libexec/") != NULL;
    dg_str program = { 0 };
    va_list args;

    if (!isatty(STDERR_FILENO))
        return;
    dg_str_shell(&program, bundled ? program_invocation_short_name : program_invocation_name);
    dg_say_error("next: %s ", program.s);
    dg_str_free(&program);
    va_start(args, fmt);
    say(STDERR_FILENO, fmt, args);
    va_end(args);
    dg_say_error("\n");
}

static const char *source(void *g, const char *file, size_t *n)
{
    return g ? dg_graph_source(g, file, n) : NULL;
}

void dg_print_diag(const dg_diag *d, dg_graph *g)
{
    dg_str out = { 0 };

    dg_diag_print(&out, d, source, g, dg_colour(STDERR_FILENO));
    if (out.s)
        dg_say_painted(STDERR_FILENO, out.s);
    dg_str_free(&out);
}

void dg_print_diag_json(const dg_diag *d)
{
    dg_str out = { 0 };

    dg_diag_json(&out, d);
    dg_say("%s", out.s);
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
