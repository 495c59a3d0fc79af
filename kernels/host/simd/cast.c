/* cast.c: f32 <-> bf16, rounding to nearest even; equal types are copied. And the sum of parts of a
 * long sum. */
#include "kernels/host/simd/cast.h"

#include "kernels/host/simd/simd.h"

typedef struct call {
    void *to;
    const void *from;
    bool low_to, low_from;
} call;

ALWAYS void convert(const call *c, int64_t begin, int64_t end, bool low_to, bool low_from)
{
    int64_t i = begin;

    for (; i + W <= end; i += W)
        st(c->to, i, ld(c->from, i, low_from), low_to);
    if (i < end)
        st_n(c->to, i, ld_n(c->from, i, end - i, low_from), end - i, low_to);
}

static void body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const call *c = ctx;
    size_t size = c->low_to ? 2 : 4;

    (void)thread;
    if (c->low_to == c->low_from)
        memcpy((char *)c->to + (size_t)begin * size, (const char *)c->from + (size_t)begin * size,
               (size_t)(end - begin) * size);
    else if (c->low_to)
        convert(c, begin, end, true, false);
    else
        convert(c, begin, end, false, true);
}

static void start(call c, int64_t n, int threads)
{
    dg_parallel_for(n < SERIAL ? 1 : threads, n, body, &c);
}

static void widen(void *to, const void *from, int64_t n, int threads)
{
    start((call){ to, from, false, true }, n, threads);
}

static void narrow(void *to, const void *from, int64_t n, int threads)
{
    start((call){ to, from, true, false }, n, threads);
}

typedef struct parts_call {
    float *to;
    const float *from, *bias;
    int64_t width, parts;
} parts_call;

static void parts_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const parts_call *c = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < c->width; k += W) {
            int64_t w = min64(c->width - k, W);
            vf sum = ld_n(c->from, i * c->parts * c->width + k, w, false);

            for (int64_t p = 1; p < c->parts; p++)
                sum += ld_n(c->from, (i * c->parts + p) * c->width + k, w, false);
            if (c->bias)
                sum += ld_n(c->bias, k, w, false);
            st_n(c->to, i * c->width + k, sum, w, false);
        }
}

static void add_parts(float *to, const float *from, const float *bias, int64_t n, int64_t width,
                      int64_t parts, int threads)
{
    parts_call c = { to, from, bias, width, parts };

    dg_parallel_for(n * width < SERIAL ? 1 : threads, n, parts_body, &c);
}

static int cast(const dg_args *a)
{
    start((call){ a->t[DG_CAST_Y].data, a->t[DG_CAST_X].data, is_low(a, DG_CAST_Y),
                  is_low(a, DG_CAST_X) },
          elements(a, DG_CAST_X), a->threads);
    return 0;
}

extern const dg_host_convert DG_SIMD_SYMBOL(convert);
const dg_host_convert DG_SIMD_SYMBOL(convert) = { widen, narrow, add_parts };
DG_SIMD(cast, NULL, cast);
