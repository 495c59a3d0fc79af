/* landing.h: how a batch reaches a late device. The host writes it to pinned memory, the copy lane
 * copies it to a landing in device memory, and the next run begins by moving it from there to
 * DG_IO. So a batch can arrive while the previous run still computes, operands are bound only once,
 * and no lane waits for the host. Programs that share DG_IO share the landing. */
#ifndef DG_EXEC_LANDING_H
#define DG_EXEC_LANDING_H

#include "base/diag.h"
#include "kernels/backend.h"

enum { DG_LANDING_SIDES = 2 }; /* one fills while the other one's copies are under way */

typedef struct dg_landing {
    dg_backend *backend;
    char *device;
    char *pinned[DG_LANDING_SIDES];
    dg_event *copied[DG_LANDING_SIDES]; /* the side's last copy to the device */
    dg_event *taken;                    /* the last move to DG_IO */
    int side;
    const void *owner; /* the executor whose batch is here, until it takes it; NULL: none */
    bool ahead;        /* the batch is for a later run: number `batch` */
    int64_t batch;
} dg_landing;

int dg_landing_open(dg_landing *l, dg_backend *backend, int64_t bytes, dg_diag *d) DG_MUST_USE;
/* Waits for its copies. */
void dg_landing_close(dg_landing *l);

#endif
