/* comm_gloo.h: the communicator between CPU ranks of several machines, over Gloo and TCP. The ranks find each other
 * through whoever started them. */
#ifndef DG_RUNTIME_COMM_GLOO_H
#define DG_RUNTIME_COMM_GLOO_H

#include "kernels/comm.h"

/* A board on which ranks leave words for each other. 0, or -DG_E... */
typedef struct dg_rendezvous {
    void *ctx;
    int (*put)(void *ctx, const char *key, const void *bytes, size_t n);
    /* Waits until somebody has put it, at most so long; *bytes is malloc'ed, the caller frees it. */
    int (*get)(void *ctx, const char *key, double seconds, void **bytes, size_t *n);
} dg_rendezvous;

/* address: of this machine, as the other machines reach it. Waits for all ranks. Where the build has no Gloo it is refused. */
int dg_comm_gloo_open(dg_comm **comm, const char *address, int rank, int ranks, const dg_rendezvous *board,
                      dg_diag *d) DG_MUST_USE;

#endif
