/* cli.h: shared by the verbs: their table, options, and how errors reach the terminal.
 *
 * A verb is one const struct in cmd_<verb>.c, listed in verbs.c. Its table of options drives the
 * parser, `--help`, the man page, the completions of bash and zsh, and the error for an unknown
 * option. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. */
#ifndef DG_CLI_CLI_H
#define DG_CLI_CLI_H

#include "base/diag.h"
#include "graph/graph.h"

enum { DG_EXIT_OK = 0, DG_EXIT_FAILED = 1, DG_EXIT_USAGE = 2, DG_EXIT_INTERRUPTED = 130 };

typedef enum dg_option_kind {
    DG_OPTION_FLAG,  /* bool */
    DG_OPTION_INT,   /* int64_t, 0..INT32_MAX */
    DG_OPTION_COUNT, /* int64_t, 1..INT32_MAX; 0: not given */
    DG_OPTION_NUM,   /* double */
    DG_OPTION_STR,   /* const char * */
    DG_OPTION_WORD,  /* const char *; one of `words` */
    DG_OPTION_SIZE,  /* dg_size: "640" or "640x480", width x height */
    /* const char *; "" without a value. A value follows "=", or is the next word if that is auto, a
     * folder, or cannot be one of the verb's words */
    DG_OPTION_MAYBE,
    DG_OPTION_LIST, /* dg_words: may be repeated */
} dg_option_kind;

typedef struct dg_words {
    int n;
    const char **v;
} dg_words;

/* Placeholders in a verb's args and an option's value, which completions understand: FILE IMAGE
 * IMAGE|VIDEO PICTURE OTHER PIPELINE LIBRARY: files; DIR RUN PATH: folders (PATH: also files);
 * CLASS: node classes; NAME=VALUE: lets of the preceding pipeline; small|words: themselves;
 * anything else is not completed. */

/* An option: --name VALUE or --name=VALUE, stored at offset in the verb's struct. */
typedef struct dg_option {
    const char *name; /* without dashes; NULL terminates the table */
    dg_option_kind kind;
    size_t offset;
    const char *value; /* its placeholder on the help page: "FILE" */
    const char *words; /* "text|json" */
    const char *doc;
} dg_option;

/* Rows that verbs share; `type` is the verb's struct. */
#define DG_OPTION_SETS(type)                              \
    { "set",        DG_OPTION_LIST, offsetof(type, sets), \
      "NAME=VALUE", NULL,           "override a top-level <let>; may be repeated" }
#define DG_OPTION_PRECISION(type)                                  \
    { "precision", DG_OPTION_WORD,      offsetof(type, precision), \
      NULL,        "f32|bf16|f64|tf32", "override the pipeline's precision" }
#define DG_OPTION_DEVICE(type) \
    { "device",                \
      DG_OPTION_STR,           \
      offsetof(type, device),  \
      "NAME",                  \
      NULL,                    \
      "where kernels run: cpu, ref (reference kernels), far (a test device), cuda, cuda:N (cpu)" }
#define DG_OPTION_WHICH(type) \
    { "which",                \
      DG_OPTION_WORD,         \
      offsetof(type, which),  \
      NULL,                   \
      "best|last",            \
      "which weights of a run: those with the best score, or the last (best)" }
#define DG_OPTION_THREADS(type) \
    { "threads", DG_OPTION_INT, offsetof(type, threads), "N", NULL, "kernel threads (all cores)" }

typedef struct dg_example {
    const char *command; /* without "detrgraph "; NULL terminates the table */
    const char *what;
} dg_example;

/* An action, for verbs whose first word is one. needs (required options) and takes (further allowed
 * ones) are names separated by spaces; "images=skip|look" allows only these values. */
typedef struct dg_action {
    const char *name; /* NULL terminates the table */
    const char *args; /* the words after it: "FROM TO" */
    const char *needs, *takes;
} dg_action;

/* doc and manual are paragraphs separated by empty lines; lines that begin with two spaces are kept
 * as they are; `words` in backquotes are bold. */
typedef struct dg_verb {
    const char *name;
    const char *args; /* "FILE [OPTIONS]" */
    const char *brief;
    const char *doc;    /* further text for --help and the man page, or NULL */
    const char *manual; /* further text for the man page only, or NULL */
    const dg_example *examples;
    const dg_option *options;
    const dg_action *actions; /* NULL: the verb has no actions */
    size_t size;              /* of the struct that options fill; zeroed first */
    int least, most;          /* number of words besides options; most -1: unlimited */
    /* options: the filled struct; words: the other words. Returns an exit code. */
    int (*run)(const void *options, const dg_words *words, dg_arena *a);
} dg_verb;

extern const dg_verb dg_verb_run, dg_verb_evaluate, dg_verb_predict, dg_verb_score, dg_verb_bench;
extern const dg_verb dg_verb_data, dg_verb_init;
extern const dg_verb dg_verb_ctl, dg_verb_doctor, dg_verb_key, dg_verb_report, dg_verb_top;
extern const dg_verb dg_verb_serve, dg_verb_weights;
extern const dg_verb dg_verb_validate, dg_verb_render, dg_verb_plan, dg_verb_nodes;
extern const dg_verb dg_verb_new, dg_verb_check_node;
extern const dg_verb dg_verb_help;

/* All verbs (verbs.c), in the groups of `detrgraph help`. */
typedef struct dg_verb_group {
    const char *title;           /* NULL terminates the table */
    const dg_verb *const *verbs; /* NULL-terminated */
} dg_verb_group;
extern const dg_verb_group dg_verb_groups[];
const dg_verb *dg_verb_find(const char *name);
int dg_verb_unknown(const char *name); /* reports it to standard error; returns DG_EXIT_USAGE */

/* Fills options and words from argv (without program and verb). Returns 0, or DG_EXIT_USAGE after
 * reporting an error. */
int dg_options_read(const dg_verb *v, int argc, char **argv, void *options, dg_words *words,
                    dg_arena *a);
/* its index in the table, or -1 */
int dg_action_find(const dg_action *actions, const char *name);
/* Pages and scripts generated from the tables. v NULL: the whole program. */
void dg_help_text(dg_str *out, const dg_verb *v);
void dg_help_man(dg_str *out, const dg_verb *v);
void dg_help_bash(dg_str *out);
void dg_help_zsh(dg_str *out);

/* The "name=value" words of --set as dg_set. */
const dg_set *dg_sets(const dg_words *words, dg_arena *a);

/* A registry with the built-in classes. */
dg_registry *dg_builtin_registry(dg_diag *d);

/* The one door to standard output and standard error (tests/lint/words): text comes from files,
 * names and the network as well, and what of it could control a terminal is shown as "?". */
void dg_say(const char *fmt, ...) DG_PRINTF(1, 2);       /* to standard output */
void dg_say_error(const char *fmt, ...) DG_PRINTF(1, 2); /* to standard error */
void dg_say_painted(int fd, const char *text);           /* with the program's own colours */
void dg_line_clear(int fd);                              /* the line that the cursor is in */
void dg_screen_clear(void);
/* Writes over the `drawn` lines before the cursor; returns how many are drawn now. */
int dg_screen_redraw(const char *text, int drawn, int columns);

bool dg_rewrites(int fd); /* a terminal whose lines can be rewritten */
bool dg_colour(int fd);   /* the same, and NO_COLOR is not set */
/* Suggests a next command, "next: ./detrgraph run mine.xml", with the name that the program was
 * called by; to standard error, only on terminals. */
void dg_next(const char *fmt, ...) DG_PRINTF(1, 2);
/* Prints all of d to standard error, with source lines from g (may be NULL). */
void dg_print_diag(const dg_diag *d, dg_graph *g);
/* Prints d as one JSON array to standard output. */
void dg_print_diag_json(const dg_diag *d);

/* The device of --device, else of the environment variable DETRGRAPH_DEVICE; NULL: the default. */
const char *dg_device_asked(const char *option);

#endif
