/* guard.c: foreign code that ends the program is found by the calls that are open then. */
#include "cli/guard.h"

#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cli/cli.h"

enum { MOST_CALLS = 64 };

/* An object of this process that holds an address. */
typedef struct object {
    uintptr_t at, base;
    const char *name; /* "": the program; NULL: none holds it */
} object;

static int find_object(struct dl_phdr_info *o, size_t size, void *ctx)
{
    object *found = ctx;

    (void)size;
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD &&
            found->at - (o->dlpi_addr + o->dlpi_phdr[i].p_vaddr) < o->dlpi_phdr[i].p_memsz) {
            found->base = o->dlpi_addr;
            found->name = o->dlpi_name;
            return 1;
        }
    return 0;
}

static object object_of(const void *address)
{
    object o = { .at = (uintptr_t)address };

    (void)dl_iterate_phdr(find_object, &o);
    return o;
}

/* The library whose constructor these calls, the innermost first, are in: the dynamic linker has
 * called it. NULL: none. */
static const char *being_loaded(void *const *calls, int n)
{
    const char *inner = NULL;

    for (int i = 0; i < n; i++) {
        object o = object_of(calls[i]);

        if (o.name && o.base == getauxval(AT_BASE))
            return inner;
        inner = o.name;
    }
    return NULL;
}

/* The library that called exit(): where these calls leave the one that has it. "": the program. */
static const char *exit_caller(void *const *calls, int n)
{
    uintptr_t libc = object_of((const void *)(uintptr_t)exit).base;
    bool inside = false;

    for (int i = 0; i < n; i++) {
        object o = object_of(calls[i]);

        if (inside && o.base != libc)
            return o.name ? o.name : "";
        inside |= o.base == libc;
    }
    return "";
}

static void say(char *text)
{
    for (char *c = text; c[0] && c[1]; c++)
        *c = *c >= ' ' && *c <= '~' ? *c : '?'; /* a terminal takes nothing from a path */
    (void)!write(STDERR_FILENO, text, strlen(text));
}

/* A large file is mapped, and reading what is not there any more cannot be continued from. */
static void say_crash(int signal_number)
{
    enum { OWN = 2 }; /* calls: this one, and the kernel's return from it */
    void *calls[MOST_CALLS];
    const int n = backtrace(calls, MOST_CALLS);
    const char *name = being_loaded(calls + OWN, n - OWN);
    char text[8192] = "";

    if (name)
        snprintf(text, sizeof text, "detrgraph: %s crashed while it was loaded (SIG%s)\n", name,
                 sigabbrev_np(signal_number));
    else if (signal_number == SIGBUS)
        snprintf(text, sizeof text,
                 "detrgraph: a file was cut while it was read, or its disk has failed (SIGBUS): "
                 "files of data and weights must not change during a run\n");
    say(text);
    raise(signal_number); /* delivered on return, with its default action */
}

/* A library that leaves with exit(0) would look like success. Processes that it has forked may. */
static void say_exit(int status, void *guarded)
{
    void *calls[MOST_CALLS];
    const char *name = "";
    char text[8192];

    if (getpid() == (pid_t)(intptr_t)guarded)
        name = exit_caller(calls, backtrace(calls, MOST_CALLS));
    if (!*name)
        return;
    fflush(NULL);
    snprintf(text, sizeof text, "detrgraph: %s ended the program: it called exit(%d)\n", name,
             status);
    say(text);
    _exit(DG_EXIT_FAILED);
}

void dg_guard_foreign(void)
{
    static const int crashes[] = { SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS };
    const struct sigaction handler = { .sa_handler = say_crash, .sa_flags = (int)SA_RESETHAND };
    struct sigaction now;
    void *call;

    (void)backtrace(&call, 1); /* loads what it needs */
    signal(SIGXFSZ, SIG_IGN);  /* writing beyond `ulimit -f` fails with EFBIG, which is reported */
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        /* a sanitizer has its own */
        if (crashes[i] == SIGBUS ||
            (sigaction(crashes[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL))
            sigaction(crashes[i], &handler, NULL);
    (void)on_exit(say_exit, (void *)(intptr_t)getpid());
}
