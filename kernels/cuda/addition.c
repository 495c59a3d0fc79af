/* addition.c: adds up what the ranks brought, in the order of ranks: the bits of
 * kernels/host/addition.c. */
#include "kernels/cuda/device.h"

typedef struct adding {
    const void *own, *others;
    void *to;
    int64_t n, stride; /* elements */
    int32_t rank, ranks, op, unused;
} adding;

/* NaN wins. */
#define TAKE_SUM(a, v) ((a) + (v))
#define TAKE_MAX(a, v) ((v) > (a) || (v) != (v) ? (v) : (a))
#define TAKE_MIN(a, v) ((v) < (a) || (v) != (v) ? (v) : (a))

#define MEAN_F32(x, ranks) ((x) * (float)(1.0 / (ranks)))
#define MEAN_F64(x, ranks) ((x) * (1.0 / (ranks)))
#define MEAN_I32(x, ranks) ((x) / (ranks))

/* T: type of the values; A: type of the sums. */
#define ADD_UP(name, T, A, MEAN)                                                    \
    KERNEL(name, adding)                                                            \
    {                                                                               \
        const T *own = (const T *)p->own, *others = (const T *)p->others;           \
        T *to = (T *)p->to;                                                         \
                                                                                    \
        for (int64_t i = first(); i < p->n; i += step()) {                          \
            A sum = 0;                                                              \
                                                                                    \
            for (int32_t r = 0; r < p->ranks; r++) {                                \
                const A v = (A)(r == p->rank ? own[i] : others[r * p->stride + i]); \
                                                                                    \
                if (r == 0)                                                         \
                    sum = v;                                                        \
                else if (p->op == DG_MAX)                                           \
                    sum = TAKE_MAX(sum, v);                                         \
                else if (p->op == DG_MIN)                                           \
                    sum = TAKE_MIN(sum, v);                                         \
                else                                                                \
                    sum = TAKE_SUM(sum, v);                                         \
            }                                                                       \
            to[i] = (T)(p->op == DG_MEAN ? MEAN(sum, p->ranks) : sum);              \
        }                                                                           \
    }

ADD_UP(add_f32_kernel, float, float, MEAN_F32)
ADD_UP(add_f64_kernel, double, double, MEAN_F64)
ADD_UP(add_i32_kernel, int32_t, int64_t, MEAN_I32)

int dg_cuda_add_up(dg_cuda_queue *q, const dg_cuda_addition *a)
{
    const adding p = { a->own,  a->others, a->to,          a->n, a->stride,
                       a->rank, a->ranks,  (int32_t)a->op, 0 };
    dg_cuda_function f = (dg_cuda_function)(a->type == DG_F32   ? add_f32_kernel
                                            : a->type == DG_F64 ? add_f64_kernel
                                                                : add_i32_kernel);

    if (a->n == 0)
        return 0;
    return q->launch(q, f, grid_of(a->n), &p, sizeof p, NULL);
}
