/* debug.h: `run --debug`: runs a program instruction by instruction and checks each. It costs
 * nothing unless it is asked for. */
#ifndef DG_EXEC_DEBUG_H
#define DG_EXEC_DEBUG_H

#include "base/diag.h"

enum {
    DG_DEBUG_SYNC = 1,   /* wait after each instruction: the failing one is named */
    DG_DEBUG_NAN = 2,    /* check each operand for numbers that are not finite */
    DG_DEBUG_POISON = 4, /* fill memory with NaN before its first write and after its last read */
    DG_DEBUG_NAMES = 8,  /* print each instruction as it starts */
};

typedef struct dg_debug {
    unsigned what;
    void (*tell)(void *ctx, const char *line);
    void *ctx;
} dg_debug;

/* "sync,nan": a set of the above. */
int dg_debug_parse(unsigned *what, const char *list, dg_diag *d) DG_MUST_USE;

#endif
