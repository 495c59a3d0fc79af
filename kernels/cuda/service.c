/* service.c: kernels that no op has: what a skipped launch leaves, and the place of a lane. */
#include "kernels/cuda/device.h"

typedef struct signing {
    uint32_t *word;
    uint32_t value, unused; /* no padding is copied */
} signing;

KERNEL(sign_kernel, signing)
{
    if (thread_id() == 0)
        write_word(p->word, p->value);
}

int dg_cuda_sign(dg_cuda_queue *q, uint32_t *word, uint32_t value)
{
    const dg_cuda_grid one = { 1, DG_CUDA_WARP, 0 };
    const signing p = { word, value, 0 };

    return q->launch(q, (dg_cuda_function)sign_kernel, one, &p, sizeof p, NULL);
}

/* Every operand begins at a multiple of a word; what is behind the last whole one is bytes. */
typedef struct skipping {
    const int32_t *guard; /* not the launch's: this runs where it is 0 */
    uint32_t *to;
    const uint32_t *from; /* NULL: zeros */
    int64_t words, bytes;
} skipping;

KERNEL(skip_kernel, skipping)
{
    if (*p->guard)
        return;
    for (int64_t n = first(); n < p->words; n += step())
        p->to[n] = p->from ? p->from[n] : 0;
    for (int64_t n = 4 * p->words + first(); n < p->bytes; n += step())
        ((uint8_t *)p->to)[n] = p->from ? ((const uint8_t *)p->from)[n] : 0;
}

int dg_cuda_skip(dg_cuda_queue *q, const int32_t *guard, void *to, const void *from, size_t bytes)
{
    const skipping p = { guard, (uint32_t *)to, (const uint32_t *)from, (int64_t)(bytes / 4),
                         (int64_t)bytes };

    if (!bytes)
        return 0;
    return q->launch(q, (dg_cuda_function)skip_kernel, grid_of(p.words + 3), &p, sizeof p, NULL);
}
