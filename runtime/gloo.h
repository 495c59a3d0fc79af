/* gloo.h: Gloo, which is C++, as runtime/comm_gloo.c sees it: connections between all ranks, and one exchange of bytes at a
 * time over them. Calls come from one thread, but dg_gloo_stop, which ends the others'. 0, or -DG_E... with the reason in
 * why. */
#ifndef DG_RUNTIME_GLOO_H
#define DG_RUNTIME_GLOO_H

#include "runtime/comm_gloo.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DG_GLOO_WHY = 192 };
typedef struct dg_gloo dg_gloo;

/* Bytes for or from one rank; none: there is nothing to say, and the other rank knows it. */
typedef struct dg_gloo_part {
    void  *p;
    size_t bytes;
} dg_gloo_part;

int  dg_gloo_open(dg_gloo **g, const char *address, int rank, int ranks, const dg_rendezvous *board, char why[DG_GLOO_WHY]);
void dg_gloo_close(dg_gloo **g);
void dg_gloo_stop(dg_gloo *g);
/* send and take have one entry a rank, this one's unused. number: of the exchange, the same on all ranks. */
int  dg_gloo_exchange(dg_gloo *g, const dg_gloo_part send[], const dg_gloo_part take[], uint64_t number, char why[DG_GLOO_WHY]);

#ifdef __cplusplus
}
#endif
#endif
