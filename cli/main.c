/* main.c: detrgraph VERB ...: finds the verb, reads its options, runs it. */
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config.h"

static bool is_word(const char *arg, const char *a, const char *b)
{
    return strcmp(arg, a) == 0 || strcmp(arg, b) == 0;
}

static int run_verb(const dg_verb *v, int argc, char **argv)
{
    dg_arena *a = dg_arena_open();
    void *options = dg_alloc(a, v->size);
    dg_words words = { 0 };
    int rc = dg_options_read(v, argc, argv, options, &words, a);

    if (rc == 0)
        rc = v->run(options, &words, a);
    dg_arena_close(&a);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        char reason[128];

        dg_say_error("detrgraph: cannot write to standard output: %s\n",
                     strerror_r(errno, reason, sizeof reason));
        rc = rc ? rc : DG_EXIT_FAILED;
    }
    return rc;
}

/* An object of this process that holds an address. */
typedef struct object {
    uintptr_t at, base;
    const char *name; /* NULL: none holds it */
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

/* The library whose constructor these calls, the innermost first, are in: the dynamic linker has
 * called it. NULL: none. */
static const char *being_loaded(void *const *calls, int n)
{
    const char *inner = NULL;

    for (int i = 0; i < n; i++) {
        object o = { .at = (uintptr_t)calls[i] };

        (void)dl_iterate_phdr(find_object, &o);
        if (o.name && o.base == getauxval(AT_BASE))
            return inner;
        inner = o.name;
    }
    return NULL;
}

/* Names a plugin whose constructor crashes. A large file is mapped, and reading what is not there
 * any more cannot be continued from. */
static void say_crash(int signal_number)
{
    enum { OWN = 2 }; /* calls: this one, and the kernel's return from it */
    void *calls[64];
    const int n = backtrace(calls, 64);
    const char *name = being_loaded(calls + OWN, n - OWN);
    char text[8192] = "";

    if (name) {
        snprintf(text, sizeof text, "detrgraph: %s crashed while it was loaded (SIG%s)\n", name,
                 sigabbrev_np(signal_number));
        for (char *c = text; c[0] && c[1]; c++)
            *c = *c >= ' ' && *c <= '~' ? *c : '?'; /* a terminal takes nothing from a path */
    } else if (signal_number == SIGBUS) {
        snprintf(text, sizeof text,
                 "detrgraph: a file was cut while it was read, or its disk has failed (SIGBUS): "
                 "files of data and weights must not change during a run\n");
    }
    (void)!write(STDERR_FILENO, text, strlen(text));
    raise(signal_number); /* delivered on return, with its default action */
}

static void guard(void)
{
    static const int crashes[] = { SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS };
    const struct sigaction say = { .sa_handler = say_crash, .sa_flags = (int)SA_RESETHAND };
    struct sigaction now;
    void *call;

    (void)backtrace(&call, 1); /* loads what it needs */
    signal(SIGXFSZ, SIG_IGN);  /* writing beyond `ulimit -f` fails with EFBIG, which is reported */
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        /* a sanitizer has its own */
        if (crashes[i] == SIGBUS ||
            (sigaction(crashes[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL))
            sigaction(crashes[i], &say, NULL);
}

/* Ranks are started as /proc/self/exe, and would be called exe in ps and top. */
static void name_process(const char *program)
{
    const char *slash = program ? strrchr(program, '/') : NULL;

    if (program && *program)
        prctl(PR_SET_NAME, slash ? slash + 1 : program);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    name_process(argc > 0 ? argv[0] : NULL);
    guard();

    if (is_word(name, "--help", "-h"))
        return run_verb(&dg_verb_help, 0, NULL);
    if (is_word(name, "--version", "version")) {
        dg_say("detrgraph %s\n", PACKAGE_VERSION);
        return DG_EXIT_OK;
    }
    if (!*name) {
        dg_say_error("usage: detrgraph VERB ...\n"
                     "detrgraph --help lists the verbs, detrgraph init --data DIR begins with "
                     "data of yours\n");
        return DG_EXIT_USAGE;
    }
    const dg_verb *v = dg_verb_find(name);

    if (!v)
        return dg_verb_unknown(name);
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_word(argv[i], "--help", "-h"))
            return run_verb(&dg_verb_help, 1, &argv[1]);
    return run_verb(v, argc - 2, argv + 2);
}
