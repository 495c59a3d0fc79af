/* random.c: twin of kernels/ref/random.c, which tells what a number depends on. */
#include "base/philox.h"
#include "kernels/cuda/device.h"

typedef struct draws {
    const dg_control *control;
    real *u;
    int64_t batch, each; /* numbers of a sample */
    int64_t key;
} draws;

/* A thread for four numbers. */
KERNEL_MANY(uniform_kernel, draws)
{
    uint64_t key = dg_philox_key(p->control->seed, (uint64_t)p->key);
    uint64_t step_number = (uint64_t)p->control->step;
    uint32_t high = (uint32_t)(step_number >> 32);
    int64_t fours = parts(p->each, 4);

    for (int64_t i = first(); i < p->batch * fours; i += step()) {
        int64_t b = i / fours, four = i % fours;
        uint64_t n = (uint64_t)(p->control->sample + b);
        const uint32_t counter[4] = { (uint32_t)four, (uint32_t)n, (uint32_t)step_number,
                                      (uint32_t)(n >> 32) ^ (high << 16 | high >> 16) };
        uint32_t word[4];

        dg_philox_words(key, counter, word);
        for (int k = 0; k < 4; k++)
            if (four * 4 + k < p->each)
                p->u[b * p->each + four * 4 + k] =
                    put((wide)(word[k] >> 8) * (wide)(1.0 / (1 << 24)));
    }
}

static int uniform(const dg_cuda_call *c)
{
    const uniform_attr *f = (const uniform_attr *)c->a->attr;
    draws p = { .control = c->a->control, .u = reals(c->a, DG_UNIFORM_U), .batch = 1 };

    if (c->a->t[DG_UNIFORM_U].shape.rank)
        p.batch = dim(c->a, DG_UNIFORM_U, 0);
    p.each = elements(c->a, DG_UNIFORM_U) / p.batch;
    p.key = f->key;
    return LAUNCH_MANY(c, uniform_kernel, grid_of(p.batch * parts(p.each, 4)), &p);
}

DG_CUDA_JOINED(uniform, NULL, uniform, DG_JOIN_SIDE);
