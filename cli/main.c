/* main.c: detrgraph VERB ...: finds the verb, reads its options, runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "config.h"

static const dg_verb *const verbs[] = {
    &dg_verb_run,      &dg_verb_evaluate, &dg_verb_predict, &dg_verb_score, &dg_verb_bench,
    &dg_verb_ctl,      &dg_verb_doctor,   &dg_verb_key,
    &dg_verb_validate, &dg_verb_render,   &dg_verb_plan,    &dg_verb_nodes,
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static void print_help(void)
{
    printf("detrgraph trains DETR-family object detectors from XML pipelines.\n\n"
           "usage: detrgraph VERB ...\n\n");
    for (int i = 0; i < N_VERBS; i++)
        printf("  %-9s %s\n", verbs[i]->name, verbs[i]->brief);
    printf("\n"
           "  detrgraph VERB --help   options of a verb\n"
           "  detrgraph --version     version\n\n"
           "Exit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.\n");
}

static int unknown_verb(const char *name)
{
    const char *names[N_VERBS], *near;

    for (int i = 0; i < N_VERBS; i++)
        names[i] = verbs[i]->name;
    near = dg_nearest(name, names, N_VERBS);
    fprintf(stderr, "detrgraph: there is no verb \"%s\"", name);
    fprintf(stderr, near ? "; did you mean \"%s\"?\n" : "\n", near);
    fprintf(stderr, "detrgraph --help lists them\n");
    return DG_EXIT_USAGE;
}

static const dg_verb *find_verb(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

static bool is_word(const char *arg, const char *a, const char *b)
{
    return strcmp(arg, a) == 0 || strcmp(arg, b) == 0;
}

static int run_verb(const dg_verb *v, int argc, char **argv)
{
    dg_arena *a = dg_arena_open();
    void     *options = dg_alloc(a, v->size);
    dg_words  words = { 0 };
    int       rc = dg_options_read(v, argc, argv, options, &words, a);

    if (rc == 0)
        rc = v->run(options, &words, a);
    dg_arena_close(&a);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("detrgraph: cannot write to standard output");
        rc = rc ? rc : DG_EXIT_FAILED;
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (is_word(name, "--help", "-h") || (strcmp(name, "help") == 0 && argc == 2)) {
        print_help();
        return DG_EXIT_OK;
    }
    if (is_word(name, "--version", "version")) {
        printf("detrgraph %s\n", PACKAGE_VERSION);
        return DG_EXIT_OK;
    }
    if (!*name) {
        fprintf(stderr, "usage: detrgraph VERB ...\ndetrgraph --help lists the verbs\n");
        return DG_EXIT_USAGE;
    }
    bool           help = strcmp(name, "help") == 0;
    const dg_verb *v = find_verb(help ? argv[2] : name);

    if (!v)
        return unknown_verb(help ? argv[2] : name);
    for (int i = 2; i < argc; i++)
        help |= is_word(argv[i], "--help", "-h");
    if (help) {
        dg_verb_help(v);
        return DG_EXIT_OK;
    }
    return run_verb(v, argc - 2, argv + 2);
}
