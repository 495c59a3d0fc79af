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

enum { FZ_T_NAME = 64, FZ_T_OUTS = 8 };

typedef struct fz_t_value {
    fz_space space;
    long offset, elements; /* offset: bytes, in a space that keeps something */
    bool whole;            /* i32 */
    char name[FZ_T_NAME];  /* of an input: "b.images" */
    uint64_t content;      /* of a constant */
    double number;
} fz_t_value;

typedef struct fz_t_instr {
    char op[32], node[FZ_T_NAME]; /* node: "train/sync" */
    uint64_t what;                /* op and attributes */
    uint64_t line;                /* that, and the place in the pipeline */
    long how, axis, root, ranks, begin, end, bucket, negate;
    double a, c;
    int n_in, n_out, first_in, out[FZ_T_OUTS]; /* value numbers; 0: none */
    int guard, otherwise;
} fz_t_instr;

typedef struct fz_t_result {
    char name[FZ_T_NAME]; /* "stop/late", "score.in", "fired/score" */
    int value;
} fz_t_result;

typedef struct fz_text {
    int n_values, n_instrs, n_ins, n_results;
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
typedef char *fz_print_fn(void *ctx, bool train, int rank, int w, int h, char **program);
fz_texts *fz_texts_open(fz_print_fn *print, void *ctx);
void fz_texts_close(fz_texts **t);
const fz_text *fz_texts_of(fz_texts *t, bool train, int rank, int w, int h);

/* realloc, or the end. */
void *fz_grown(void *old, size_t bytes);

#endif
