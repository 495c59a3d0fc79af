/* cmd_help.c: `detrgraph help`: prints the tables of verbs and options as pages and completions. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct opts {
    const char *format;
} opts;

static const dg_option options[] = {
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|man|bash|zsh",
      "output format (text); man: source of a man page; bash, zsh: completions for all verbs" },
    { 0 },
};

static int verb_help(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    const char *format = o->format ? o->format : "text";
    const dg_verb *v = words->n ? dg_verb_find(words->v[0]) : NULL;
    dg_str out = { 0 };

    (void)a;
    if (words->n && !v)
        return dg_verb_unknown(words->v[0]);
    if (strcmp(format, "bash") == 0)
        dg_help_bash(&out);
    else if (strcmp(format, "zsh") == 0)
        dg_help_zsh(&out);
    else if (strcmp(format, "man") == 0)
        dg_help_man(&out, v);
    else
        dg_help_text(&out, v);
    dg_say("%s", out.s);
    dg_str_free(&out);
    return DG_EXIT_OK;
}

static const dg_example examples[] = {
    { "help run", "Print the options of `run`, as `detrgraph run --help` does." },
    { "help --format bash > ~/.local/share/bash-completion/completions/detrgraph",
      "Install completions for one user; `make install` does so for all." },
    { 0 },
};

const dg_verb dg_verb_help = {
    .name = "help",
    .args = "[VERB] [--format text|man|bash|zsh]",
    .brief = "List the verbs, or the options of one.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .most = 1,
    .run = verb_help,
};
