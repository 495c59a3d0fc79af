/* plane.h: a launcher's end of the control plane: the coordinator on the first machine, a link to
 * it on every further one, and the keys and endpoints that its ranks receive. */
#ifndef DG_CONTROL_PLANE_H
#define DG_CONTROL_PLANE_H

#include "control/coordinator.h"
#include "control/keyfile.h"
#include "control/launch.h"
#include "control/link.h"

typedef struct dg_plane_conf {
    const dg_launch_conf *launch;
    bool (*look)(void *ctx, int rank, dg_arena *a, dg_beat *out); /* see coordinator.h */
    void *ctx;
} dg_plane_conf;

typedef struct dg_plane {
    const dg_launch_conf *c;
    dg_coordinator *coordinator; /* NULL on further machines */
    dg_link *link;               /* NULL on the first one */
    dg_key_pair server, rank_key, ctl_key;
    const char *commands, *events; /* endpoints for this machine's ranks */
    const char *asks;              /* endpoint for detrgraph ctl, on this machine */
    int over_fd;                   /* readable once the link says that the run is over; else -1 */
} dg_plane;

/* Opens the coordinator, or on a further machine the endpoints for dg_plane_link. Texts lie in the
 * arena; *p is closed with dg_plane_close also after a failure. */
int dg_plane_open(dg_plane *p, const dg_plane_conf *conf, dg_arena *a, dg_diag *d) DG_MUST_USE;

/* Connects a further machine, whose ranks are of the seat, for the attempt; again after a restart.
 * Does nothing on the first machine. */
int dg_plane_link(dg_plane *p, const dg_seat *seat, uint32_t attempt, dg_diag *d) DG_MUST_USE;

/* Closes what is open and wipes the keys. */
void dg_plane_close(dg_plane *p);

#endif
