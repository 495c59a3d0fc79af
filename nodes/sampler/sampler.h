/* sampler.h: plans an epoch for all samplers: which items form which batch, at which image size.
 *
 * The plan is global: a pure function of (data set, seed, epoch), made identically on every rank
 * and then divided, so that at each step all ranks have the same size, and all have the same number
 * of batches. Without axis the plan is this rank's alone; with seed="rank" its draws are, too. */
#ifndef DG_NODES_SAMPLER_SAMPLER_H
#define DG_NODES_SAMPLER_SAMPLER_H

#include <detrgraph/node.h>

enum { DG_TAIL_DROP, DG_TAIL_PAD, DG_TAIL_KEEP };
enum { DG_SAMPLER_SHARED, DG_SAMPLER_OWN };  /* seed */
enum { DG_SAMPLER_SEED, DG_SAMPLER_PYTHON }; /* draw */

typedef struct dg_sampler_conf {
    int64_t batch, tail, seed, alike, draw;
    dg_sizes sizes;
    bool shuffle, repeat;
    dg_when until; /* from this moment on use only `base` */
    dg_sizes base;
    const char *axis;
} dg_sampler_conf;

/* Callbacks of the node classes; conf is a dg_sampler_conf. */
int dg_sampler_schedule(dg_schedule *out, const void *conf, const dg_schedule_args *args,
                        dg_diag *d);
int dg_sampler_sizes(const void *conf, const dg_size **sizes, int *batch);

#endif
