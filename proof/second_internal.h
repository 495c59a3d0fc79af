/* second_internal.h: shared by the files of the second look (second.h). */
#ifndef DG_PROOF_SECOND_INTERNAL_H
#define DG_PROOF_SECOND_INTERNAL_H

#include "proof/second.h"

/* A program being looked at. */
typedef struct dg_look {
    const dg_program *p;
    const dg_second_host *h;
    dg_diag *d;
    dg_arena *a;
    int at;             /* the instruction */
    uint32_t *varies;   /* by value */
    uint32_t *gradient; /* by parameter */
    int *writer;        /* by parameter: the instruction that made its gradient differ */
    int *begun;         /* by bucket: 1 + the instruction that began it; 0: none is under way */
    int n_buckets;
    int rc;
} dg_look;

const dg_second_node *dg_second_node_at(const dg_look *l, int number);
/* The input that v is; NULL: none. */
const dg_binding *dg_second_input(const dg_look *l, int32_t v);
/* The axes over which value v differs now; 0: none, or no value. */
uint32_t dg_second_read(const dg_look *l, int32_t v);

/* --- second_flags.c: guards */
/* Those of a flag that an instruction makes of other flags. It may differ less than they do: `a or
 * (a and b)` is `a`. */
uint32_t dg_second_flag(const dg_look *l, int32_t v);

/* --- second_say.c: messages */
/* Reports that the program's instruction is not what was proved, once: what follows is not
 * reported. True if it was. */
bool dg_second_disagree(dg_look *l, const dg_instr *in, const char *fmt, ...) DG_PRINTF(3, 4);
/* The same: what, and the way from v back to what a rank has for itself. */
void dg_second_disagree_about(dg_look *l, const dg_instr *in, int32_t v, uint32_t axes,
                              const char *what);
void dg_second_say_cause(const dg_look *l, const dg_second_cause *c, dg_where at, const char *what);
void dg_second_say_path(const dg_look *l, int32_t v, uint32_t axes);
void dg_second_help(const dg_look *l, uint32_t axes);
const char *dg_second_axes_text(const dg_look *l, uint32_t axes);
/* The guard or input of the instruction that differs over some of the axes; 0: none does. */
int32_t dg_second_culprit(const dg_look *l, const dg_instr *in, uint32_t axes);

#endif
