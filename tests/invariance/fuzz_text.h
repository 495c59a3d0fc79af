/* fuzz_text.h: the printed program, read again as text: what `detrgraph plan` prints of the
 * instructions, and what a program's own listing says of its inputs, constants and results. The
 * simulator executes this and nothing else: it knows no struct of the engine. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_TEXT_H
#define DG_TESTS_INVARIANCE_FUZZ_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fz_space {
    FZ_P_SLAB,
    FZ_P_WEIGHTS,
    FZ_P_GRADIENTS,
    FZ_P_MOMENT1,
    FZ_P_MOMENT2,
    FZ_P_EMA,
    FZ_P_SPACES, /* those that keep something */
    FZ_P_IO,
    FZ_P_CONSTANTS,
} fz_space;

enum { FZ_T_NAME = 64, FZ_T_OUTS = 8, FZ_T_UNKNOWN = -2 };

typedef struct fz_t_value {
    fz_space space;
    long offset, elements; /* offset: bytes, in a space that keeps something */
    bool whole;            /* i32 */
    char name[FZ_T_NAME];  /* of an input: "b.images" */
    uint64_t content;      /* of a constant */
    double number;
} fz_t_value;

/* What the machine knows of an operation, by its name; all others are some function. */
typedef enum fz_trait {
    FZ_TRUTH = 1 << 0,
    FZ_COPY = 1 << 1, /* of a single number */
    FZ_ADD = 1 << 2,
    FZ_SUB = 1 << 3,
    FZ_MUL = 1 << 4,
    FZ_LARGER = 1 << 5,
    FZ_SMALLER = 1 << 6,
    FZ_AT_LEAST = 1 << 7,
    FZ_SCALE = 1 << 8,
    FZ_SUMS = 1 << 9,     /* a sum is known of many, too: a value's number is their sum */
    FZ_PRODUCT = 1 << 10, /* zero if one operand is */
    FZ_VANISHES = 1 << 11,
    FZ_RESHAPE = 1 << 12,
    FZ_FINITE_OP = 1 << 13,
    FZ_DRAW = 1 << 14,
    FZ_OF_TOY = 1 << 15, /* "toy_..." */
    FZ_LENGTH = 1 << 16,
    FZ_UPDATES = 1 << 17,
    FZ_MEETS = 1 << 18,    /* a collective, and which: */
    FZ_OF_SPACE = 1 << 19, /* of the gradients */
    FZ_BEGINS = 1 << 20,
    FZ_AWAITS = 1 << 21,
    FZ_TO_ROOT = 1 << 22,
    FZ_FROM_ROOT = 1 << 23,
    FZ_GATHERS = 1 << 24,
} fz_trait;

typedef struct fz_t_instr {
    char op[32], node[FZ_T_NAME]; /* node: "train/sync" */
    uint32_t traits;
    int at;        /* the model's node; FZ_T_UNKNOWN: not looked up yet */
    uint64_t what; /* op and attributes */
    uint64_t line; /* that, and the place in the pipeline */
    long how, axis, root, ranks, begin, end, bucket, negate;
    double a, c;
    int n_in, n_out, first_in, out[FZ_T_OUTS]; /* value numbers; 0: none */
    int guard, otherwise;
} fz_t_instr;

typedef struct fz_t_result {
    char name[FZ_T_NAME]; /* "stop/late", "score.in", "fired/score", "watch/3" */
    int value, made;      /* made: by which instruction; -1: none */
    enum { FZ_T_NAMED, FZ_T_THERE, FZ_T_WATCH, FZ_T_FIRES } kind;
    int index, there; /* of a monitor; there: 0, or the flag of WATCH */
} fz_t_result;

typedef struct fz_text {
    int n_values, n_instrs, n_ins, n_results;
    int accumulate, update; /* batches of an update, and its first instruction, if more than one */
    fz_t_value *value;
    fz_t_instr *instr;
    int *in; /* of all instructions */
    fz_t_result *result;
} fz_text;

/* Reads the two listings; aborts at what it does not understand, with the line. */
fz_text *fz_text_read(const char *plan, const char *program);
void fz_text_free(fz_text **t);

/* Where texts come from: the program of a rank, for a scope and an image size; NULL: there is none.
 * A batch that is not full has padding: it runs the same program. */
typedef struct fz_texts fz_texts;
typedef struct fz_printer {
    /* the program's own listing; NULL: it cannot be made */
    char *(*program)(void *ctx, bool train, int rank, int w, int h);
    char *(*plan)(void *ctx);     /* what `plan` prints of that program; NULL: no plan */
    char *(*monitors)(void *ctx); /* what `plan --monitors` prints; NULL: nothing */
} fz_printer;
fz_texts *fz_texts_open(const fz_printer *print, void *ctx);
void fz_texts_close(fz_texts **t);
const fz_text *fz_texts_of(fz_texts *t, bool train, int rank, int w, int h);

/* The i-th monitor: its node's path, what it watches, and the axes over which that is the same;
 * false: there are fewer. */
typedef struct fz_t_monitor {
    char path[FZ_T_NAME], what[16]; /* "train/pick.out"; "value" */
    int axes;
} fz_t_monitor;
bool fz_texts_monitor(fz_texts *t, int i, fz_t_monitor *out);

/* realloc, or the end. */
void *fz_grown(void *old, size_t bytes);

#endif
