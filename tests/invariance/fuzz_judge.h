/* fuzz_judge.h: what the engine says of a pipeline. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_JUDGE_H
#define DG_TESTS_INVARIANCE_FUZZ_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/invariance/fuzz_text.h"

enum { FZ_CODES = 10, FZ_WARNINGS = 2 };
extern const char *const fz_codes[FZ_CODES]; /* "DG-PRES", ... */
extern const char *const fz_warnings[FZ_WARNINGS];

typedef struct fz_opinion {
    uint32_t codes;    /* bit i: fz_codes[i] */
    uint32_t warnings; /* fz_warnings[i] */
    bool unsaid;       /* a batch of several that add up may be skipped: the language has no such */
    bool broken;       /* it has other errors */
} fz_opinion;

typedef struct fz_judge fz_judge;
fz_judge *fz_judge_open(void);
void fz_judge_close(fz_judge **j);
/* other: NULL, or the file of another rank. text: NULL, or receives what was reported. */
fz_opinion fz_judge_ask(fz_judge *j, const char *xml, const char *other, char *text, size_t n);
/* The printed programs of what was asked last, until the next question. */
fz_texts *fz_judge_texts(fz_judge *j);
/* How often a program was asked for and the engine could not make it. */
int fz_judge_unlowered(const fz_judge *j);

#endif
