/* statistics.c: twins of join_stats and stat_update of kernels/ref/norm.c, in double as there: some
 * hundred numbers, and every rank must find the same. */
#include "kernels/cuda/device.h"

typedef struct ranks {
    const wide *all;
    wide *mean, *var, *n;
    int64_t ranks, c;
} ranks;

KERNEL(join_stats_kernel, ranks)
{
    for (int64_t k = first(); k < p->c; k += step()) {
        double mean = 0, square = 0, n = 0;

        for (int64_t r = 0; r < p->ranks; r++) {
            const wide *one = p->all + r * (2 * p->c + 1);
            double more = (double)one[2 * p->c], d = (double)one[k] - mean;

            if (more <= 0)
                continue;
            square += (double)one[p->c + k] + d * d * (n * more / (n + more));
            mean += d * (more / (n + more));
            n += more;
        }
        p->mean[k] = (wide)mean;
        p->var[k] = (wide)(n > 0 ? square / n : 0);
        p->n[0] = (wide)n; /* all write the same number */
    }
}

static int join_stats(const dg_cuda_call *c)
{
    ranks p = { .all = wides(c->a, DG_JOIN_STATS_ALL),
                .mean = wides(c->a, DG_JOIN_STATS_MEAN),
                .var = wides(c->a, DG_JOIN_STATS_VAR),
                .n = wides(c->a, DG_JOIN_STATS_N),
                .ranks = rows(c->a, DG_JOIN_STATS_ALL),
                .c = elements(c->a, DG_JOIN_STATS_MEAN) };

    return LAUNCH(c, join_stats_kernel, grid_of(p.c), &p);
}

typedef struct running {
    real *mean, *var;
    const real *batch_mean, *batch_var, *n;
    const int32_t *ok;
    int64_t c, count;
    double momentum;
} running;

KERNEL_MANY(stat_update_kernel, running)
{
    double n = p->n ? (double)get(*p->n) : (double)p->count, unbias = n > 1 ? n / (n - 1) : 1;

    if (!*p->ok || n == 0)
        return;
    for (int64_t k = first(); k < p->c; k += step()) {
        double mean = (1 - p->momentum) * (double)get(p->mean[k]),
               var = (1 - p->momentum) * (double)get(p->var[k]);

        p->mean[k] = put((wide)(mean + p->momentum * (double)get(p->batch_mean[k])));
        p->var[k] = put((wide)(var + p->momentum * ((double)get(p->batch_var[k]) * unbias)));
    }
}

static int stat_update(const dg_cuda_call *c)
{
    const stat_attr *f = (const stat_attr *)c->a->attr;
    running p = { .mean = reals(c->a, DG_STAT_UPDATE_RUNNING_MEAN),
                  .var = reals(c->a, DG_STAT_UPDATE_RUNNING_VAR),
                  .batch_mean = reals(c->a, DG_STAT_UPDATE_MEAN),
                  .batch_var = reals(c->a, DG_STAT_UPDATE_VAR),
                  .n = reals(c->a, DG_STAT_UPDATE_N),
                  .ok = ints(c->a, DG_STAT_UPDATE_OK),
                  .c = elements(c->a, DG_STAT_UPDATE_RUNNING_MEAN),
                  .count = f->count,
                  .momentum = f->momentum };

    return LAUNCH_MANY(c, stat_update_kernel, grid_of(p.c), &p);
}

DG_CUDA(join_stats, NULL, join_stats);
DG_CUDA_JOINED(stat_update, NULL, stat_update, DG_JOIN_SIDE);
