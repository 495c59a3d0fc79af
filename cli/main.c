/* main.c: detrgraph VERB ...: finds the verb, reads its options, runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/guard.h"
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
    return rc;
}

/* A file, pipe or socket that this program opens must not become a standard stream that it was
 * started without: what is said would be written to it. In its place stands what refuses the other
 * direction, so that this fails as on a closed one. */
static void fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) {
            const int null = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);

            if (null != fd)
                return;
        }
}

static int check_output(int rc)
{
    char reason[128] = "a part of it is lost";
    const bool lost = ferror(stdout); /* earlier; a byte more tells the reason */
    const bool failed = fflush(stdout) != 0 || (lost && write(STDOUT_FILENO, "\n", 1) < 0);

    if (!failed && !lost)
        return rc;
    dg_say_error("detrgraph: cannot write to standard output: %s\n",
                 failed ? strerror_r(errno, reason, sizeof reason) : reason);
    return rc ? rc : DG_EXIT_FAILED;
}

/* Ranks are started as /proc/self/exe, and would be called exe in ps and top. */
static void name_process(const char *program)
{
    const char *slash = program ? strrchr(program, '/') : NULL;

    if (program && *program)
        prctl(PR_SET_NAME, slash ? slash + 1 : program);
}

static int run_words(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

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

int main(int argc, char **argv)
{
    fill_streams();
    name_process(argc > 0 ? argv[0] : NULL);
    dg_guard_foreign();
    return check_output(run_words(argc, argv));
}
