/* cli.h: what verbs share: their table, options, and how errors reach the terminal.
 *
 * A verb is one const struct in cmd_<verb>.c, listed in verbs.c. Its options are a table; the
 * parser, `--help`, the man page, the completions of bash and zsh and the error for an unknown
 * option come from it. Exit codes: 0 done, 1 failed, 2 used wrongly, 130 interrupted. */
#ifndef DG_CLI_CLI_H
#define DG_CLI_CLI_H

#include "base/diag.h"
#include "graph/graph.h"

enum { DG_EXIT_OK = 0, DG_EXIT_FAILED = 1, DG_EXIT_USAGE = 2, DG_EXIT_INTERRUPTED = 130 };

typedef enum dg_option_kind {
    DG_OPTION_FLAG, /* bool */
    DG_OPTION_INT,  /* int64_t, from 0 to INT32_MAX */
    DG_OPTION_NUM,  /* double */
    DG_OPTION_STR,  /* const char * */
    DG_OPTION_WORD, /* const char *; one of the words in `words` */
    DG_OPTION_SIZE, /* dg_size: "640" or "640x480", width x height */
    DG_OPTION_MAYBE, /* const char *; "" where the option stands alone; its value follows "=", or is auto, a folder, or
                        what cannot be one of the words */
    DG_OPTION_LIST, /* dg_words: may be given several times */
} dg_option_kind;

typedef struct dg_words {
    int          n;
    const char **v;
} dg_words;

/* What stands somewhere is said by a word, in a verb's args and in an option's value, and shells
 * complete by it: FILE IMAGE PICTURE OTHER PIPELINE LIBRARY files, DIR RUN PATH folders (PATH: files too),
 * CLASS node classes, NAME=VALUE lets of the pipeline that is named before, small|words themselves;
 * anything else is typed. */

/* A row of a verb's options: --name VALUE or --name=VALUE, stored at offset in the verb's
 * struct. */
typedef struct dg_option {
    const char    *name; /* without the dashes; NULL ends the table */
    dg_option_kind kind;
    size_t         offset;
    const char    *value; /* what the help page calls it: "FILE" */
    const char    *words; /* "text|json" */
    const char    *doc;
} dg_option;

typedef struct dg_example {
    const char *command; /* without "detrgraph "; NULL ends the table */
    const char *what;
} dg_example;

/* What a verb does, where its first word says so. In needs (options that must be given) and takes (further ones that mean
 * something to it) names are separated by spaces; "images=skip|look": with these words alone. */
typedef struct dg_action {
    const char *name; /* NULL ends the table */
    const char *args; /* the words behind it: "FROM TO" */
    const char *needs, *takes;
} dg_action;

/* doc and manual are paragraphs: an empty line parts them, a line that begins with two spaces stays
 * as it is, `words` in backquotes are printed bold. */
typedef struct dg_verb {
    const char       *name;
    const char       *args;   /* "FILE [OPTIONS]" */
    const char       *brief;
    const char       *doc;    /* more for --help and the man page, or NULL */
    const char       *manual; /* still more, for the man page alone, or NULL */
    const dg_example *examples;
    const dg_option  *options;
    const dg_action  *actions;    /* NULL: its words are no actions */
    size_t           size;        /* of the struct that options fill; it begins zeroed */
    int              least, most; /* words that are not options; most -1: any number */
    /* options: the filled struct; words: the others. Returns an exit code. */
    int (*run)(const void *options, const dg_words *words, dg_arena *a);
} dg_verb;

extern const dg_verb dg_verb_run, dg_verb_evaluate, dg_verb_predict, dg_verb_score, dg_verb_bench;
extern const dg_verb dg_verb_data, dg_verb_init;
extern const dg_verb dg_verb_ctl, dg_verb_doctor, dg_verb_key, dg_verb_report, dg_verb_top;
extern const dg_verb dg_verb_weights;
extern const dg_verb dg_verb_validate, dg_verb_render, dg_verb_plan, dg_verb_nodes;
extern const dg_verb dg_verb_new, dg_verb_check_node;
extern const dg_verb dg_verb_help;

/* All verbs (verbs.c), in groups that `detrgraph help` prints. */
typedef struct dg_verb_group {
    const char           *title; /* NULL ends the table */
    const dg_verb *const *verbs; /* NULL ends the list */
} dg_verb_group;
extern const dg_verb_group dg_verb_groups[];
const dg_verb *dg_verb_find(const char *name);
int            dg_verb_unknown(const char *name); /* says so, to standard error; returns DG_EXIT_USAGE */

/* Fills options and words from argv (without program and verb). Returns 0, or DG_EXIT_USAGE
 * after saying why. */
int  dg_options_read(const dg_verb *v, int argc, char **argv, void *options, dg_words *words,
                     dg_arena *a);
int  dg_action_find(const dg_action *actions, const char *name); /* its place in the table, or -1 */
/* Pages and scripts that are printed from the tables. v NULL: the program as a whole. */
void dg_help_text(dg_str *out, const dg_verb *v);
void dg_help_man(dg_str *out, const dg_verb *v);
void dg_help_bash(dg_str *out);
void dg_help_zsh(dg_str *out);

/* The "name=value" words of --set, as the option's table has them. */
const dg_set *dg_sets(const dg_words *words, dg_arena *a);

/* A registry with the classes that come with the engine. */
dg_registry *dg_builtin_registry(dg_diag *d);

bool dg_rewrites(int fd); /* a terminal whose lines can be written anew */
bool dg_colour(int fd);   /* such a terminal, and NO_COLOR is not set */
/* "next: ./detrgraph run mine.xml": what people may type now, under the name by which they called the program; to standard
 * error, and on terminals alone. */
void dg_next(const char *fmt, ...) DG_PRINTF(1, 2);
/* Prints all of d to standard error; g (may be NULL) gives the lines. */
void dg_print_diag(const dg_diag *d, dg_graph *g);
/* The same as one JSON array to standard output. */
void dg_print_diag_json(const dg_diag *d);

#endif
