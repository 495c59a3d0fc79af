/* gloo_shim.h: a C interface to Gloo (C++) for comm/gloo.c: connections between all ranks, and one
 * exchange of bytes at a time over them. One thread calls it; only dg_gloo_stop, which aborts the
 * calls, may come from another. Functions return 0, or -DG_E... with the reason in why. */
#ifndef DG_COMM_GLOO_SHIM_H
#define DG_COMM_GLOO_SHIM_H

#include "comm/gloo.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DG_GLOO_WHY = 512 };
typedef struct dg_gloo dg_gloo;

/* Bytes to or from one rank; 0 bytes: nothing is sent, and the other side knows it. */
typedef struct dg_gloo_part {
    void *p;
    size_t bytes;
} dg_gloo_part;

int dg_gloo_open(dg_gloo **g, const char *address, int rank, int ranks, const dg_rendezvous *board,
                 char why[DG_GLOO_WHY]);
void dg_gloo_close(dg_gloo **g);
void dg_gloo_stop(dg_gloo *g);
/* What each rank tells the others before an exchange: `bytes` bytes, sent with the data but
 * received before them. differs returns true, with the reason in why, if the data must not be
 * used. */
typedef struct dg_gloo_greeting {
    const void *mine;
    void *all; /* in rank order; this rank's is unused */
    size_t bytes;
    uint64_t number; /* the next one, too, must be free: after a difference the ranks take leave */
    bool (*differs)(void *ctx, char why[DG_GLOO_WHY]);
    void *ctx;
} dg_gloo_greeting;

/* send and take have one entry per rank; this rank's is unused. number: identifies the exchange,
 * equal on all ranks. greeting: NULL for none. -DG_EINTERNAL: it differs. */
int dg_gloo_exchange(dg_gloo *g, const dg_gloo_part send[], const dg_gloo_part take[],
                     uint64_t number, const dg_gloo_greeting *greeting, char why[DG_GLOO_WHY]);

#ifdef __cplusplus
}
#endif
#endif
