/* random.c: uniform random numbers that depend only on seed, name and sample.
 *
 * Number i of sample b of this batch is word i mod 4 of Philox4x32-10 with
 *     key     = the run's seed, mixed with the hash of node path and name (base/rng.h)
 *     counter = (i div 4, low half of n, low half of step, high half of n xor the step's, rotated)
 * where n = control.sample + b is the sample's number in the run's global order. Threads, ranks and
 * restarts change no number; f32 and f64 engines draw the same ones, k * 2^-24. */
#include "base/rng.h"
#include "kernels/ref/ref.h"

static int uniform(const dg_args *a)
{
    const uniform_attr *f = a->attr;
    dg_rng_key key = dg_rng_hashed(a->control->seed, (uint64_t)f->key);
    uint64_t step = (uint64_t)a->control->step;
    int64_t batch = a->t[DG_UNIFORM_U].shape.rank ? dim(a, DG_UNIFORM_U, 0) : 1,
            each = elements(a, DG_UNIFORM_U) / batch;

    for (int64_t b = 0; b < batch; b++) {
        uint64_t n = (uint64_t)(a->control->sample + b);
        uint32_t high = (uint32_t)(step >> 32), word[4];

        for (int64_t i = 0; i < each; i++) {
            const uint32_t counter[4] = { (uint32_t)(i / 4), (uint32_t)n, (uint32_t)step,
                                          (uint32_t)(n >> 32) ^ (high << 16 | high >> 16) };

            if (i % 4 == 0)
                dg_philox(key, counter, word);
            out(a, DG_UNIFORM_U)[b * each + i] = (real)dg_u32_to_unit(word[i % 4]);
        }
    }
    return 0;
}

DG_REF(uniform, NULL, uniform);
