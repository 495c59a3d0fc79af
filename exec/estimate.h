/* estimate.h: how long planned programs will take, before one runs. */
#ifndef DG_EXEC_ESTIMATE_H
#define DG_EXEC_ESTIMATE_H

#include "tensor/plan.h"

typedef struct dg_speed {
    double flops; /* of convolutions and products, per second */
    double bytes; /* read and written, per second */
} dg_speed;

/* Measures a backend for a part of a second: it runs some of the plan's convolutions and products
 * on zeros, small ones first, and copies memory. It counts the time in which threads work, so other
 * processes do not matter. False: it cannot be told, because the device works later than it is
 * called, the plan has no such op, or memory is short. */
bool dg_speed_measure(dg_speed *r, const dg_plan *plan, dg_backend *backend);
/* Seconds of one batch of a program, or of its update, with the reduction of gradients, which runs
 * as often: convolutions and products by their arithmetic, the other ops by their bytes. */
double dg_speed_seconds(const dg_speed *r, const dg_plan *plan, dg_segment segment);

#endif
