/* gloo.h: the communicator between CPU ranks of several machines, over Gloo and TCP. A
 * dg_rendezvous lets the ranks exchange addresses. */
#ifndef DG_COMM_GLOO_H
#define DG_COMM_GLOO_H

#include "kernels/comm.h"

/* A store shared by the ranks. Functions return 0 or -DG_E... */
typedef struct dg_rendezvous {
    void *ctx;
    int (*put)(void *ctx, const char *key, const void *bytes, size_t n);
    /* waits up to `seconds` until some rank has put key; the caller frees *bytes with free() */
    int (*get)(void *ctx, const char *key, double seconds, void **bytes, size_t *n);
} dg_rendezvous;

/* address: this machine's, as other machines reach it. Waits for all ranks. Fails in builds without
 * Gloo. */
int dg_comm_gloo_open(dg_comm **comm, const char *address, int rank, int ranks,
                      const dg_rendezvous *board, dg_diag *d) DG_MUST_USE;

#endif
