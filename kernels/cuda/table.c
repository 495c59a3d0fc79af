/* table.c: finds the CUDA kernel of an op. table.awk makes table.def from the sources beside it. */
#include <string.h>

#include "kernels/cuda/cuda.h"

#define K(name) \
    extern const dg_cuda_kernel dg_cuda_##name##_bf16, dg_cuda_##name##_f32, dg_cuda_##name##_f64;
#include "kernels/cuda/table.def"
#undef K

#define K(name) { #name, { &dg_cuda_##name##_bf16, &dg_cuda_##name##_f32, &dg_cuda_##name##_f64 } },
static const struct {
    const char *op;
    const dg_cuda_kernel *kernels[3]; /* bf16, f32, f64 */
} table[] = {
#include "kernels/cuda/table.def"
};
#undef K

/* The kernels divide numbers of elements in 32 bits. */
static bool is_large(const dg_tensor *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i].shape.rank >= 0 && dg_shape_elements(t[i].shape) > INT32_MAX)
            return true;
    return false;
}

const dg_cuda_kernel *dg_cuda_find(const char *op, const dg_tensor *t, int n)
{
    int precision = dg_any_of(t, n, DG_F64) ? 2 : dg_any_of(t, n, DG_BF16) ? 0 : 1;

    for (size_t i = 0; i < sizeof table / sizeof table[0] && !is_large(t, n); i++)
        if (strcmp(table[i].op, op) == 0)
            return table[i].kernels[precision];
    return NULL;
}
