/* simd.h: a vector of W floats, and helpers for every file of this folder. The files are compiled
 * once per instruction set (DG_ISA = base, avx2, avx512; some also for bf16, AVX-512 with BF16,
 * and conv_weights.c for that alone); ../dispatch.c chooses the variant at run time.
 *
 * Mostly GCC's vector extensions; intrinsics where compilers turn those into poor code (maximum,
 * selection, masks, fused multiply-add, bf16 conversion). */
#ifndef DG_KERNELS_HOST_SIMD_SIMD_H
#define DG_KERNELS_HOST_SIMD_SIMD_H

#include "base/element.h"
#include "base/pool.h"
#include "kernels/attrs.h"
#include "kernels/operands.h"

#include <math.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifndef DG_ISA
#define DG_ISA base /* for compiling this header alone */
#endif

#define DG_SIMD_PASTE_(name, isa) dg_host_##name##_##isa
#define DG_SIMD_NAME_(name, isa) DG_SIMD_PASTE_(name, isa)
#define DG_SIMD_SYMBOL(name) DG_SIMD_NAME_(name, DG_ISA)
#define DG_SIMD(name, prepare_fn, run_fn)        \
    extern const dg_kernel DG_SIMD_SYMBOL(name); \
    const dg_kernel DG_SIMD_SYMBOL(name) = {     \
        .prepare = (prepare_fn),                 \
        .run = (run_fn),                         \
    }

#define ALWAYS static inline __attribute__((always_inline))

#if defined(__AVX512F__)
enum { W = 16 };
#elif defined(__AVX2__)
enum { W = 8 };
#else
enum { W = 4 };
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));
typedef uint16_t vh __attribute__((vector_size(W * 2)));

ALWAYS vf vf_set(float x)
{
    return x - (vf){ 0 };
}

ALWAYS vf vf_load(const float *p)
{
    vf x;

    memcpy(&x, p, sizeof x);
    return x;
}

ALWAYS void vf_store(float *p, vf x)
{
    memcpy(p, &x, sizeof x);
}

/* ---- what differs between instruction sets --------------------------------------------------- */

/* clang-format off */
#define NEAREST_ (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define DOWN_ (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)

#if defined(__AVX512F__)

typedef __mmask16 vm; /* one bit per lane */

ALWAYS vf vf_fma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
ALWAYS vf vf_fnma(vf a, vf b, vf c)
{
    return (vf)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
/* max, min: y if either is NaN. */
ALWAYS vf vf_max(vf x, vf y) { return (vf)_mm512_max_ps((__m512)x, (__m512)y); }
ALWAYS vf vf_min(vf x, vf y) { return (vf)_mm512_min_ps((__m512)x, (__m512)y); }
ALWAYS vf vf_round(vf x) { return (vf)_mm512_roundscale_ps((__m512)x, NEAREST_); }
ALWAYS vf vf_floor(vf x) { return (vf)_mm512_roundscale_ps((__m512)x, DOWN_); }
ALWAYS vm vf_lt(vf x, vf y) { return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ); }
ALWAYS vm vf_le(vf x, vf y) { return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LE_OQ); }
ALWAYS vm vf_eq(vf x, vf y) { return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_EQ_OQ); }
ALWAYS vm vm_and(vm a, vm b) { return _kand_mask16(a, b); }
/* x where m, else y. */
ALWAYS vf vf_pick(vm m, vf x, vf y) { return (vf)_mm512_mask_blend_ps(m, (__m512)y, (__m512)x); }
ALWAYS vf vf_sqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
/* x 2^n for integral n; and about 1/x (14 bits; 0 on underflow). */
ALWAYS vf vf_scale(vf x, vf n) { return (vf)_mm512_scalef_ps((__m512)x, (__m512)n); }
ALWAYS vf vf_guess(vf x) { return (vf)_mm512_rcp14_ps((__m512)x); }
/* A mask of the first n <= W lanes. */
ALWAYS vm vm_first(int64_t n) { return (vm)((1u << n) - 1u); }
ALWAYS vf vf_load_n(const float *p, int64_t n) { return (vf)_mm512_maskz_loadu_ps(vm_first(n), p); }
ALWAYS void vf_store_n(float *p, vf x, int64_t n)
{
    _mm512_mask_storeu_ps(p, vm_first(n), (__m512)x);
}
ALWAYS vf vf_from_bits(vh h)
{
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
}
ALWAYS vh vf_to_bits(vu u) { return (vh)_mm512_cvtepi32_epi16((__m512i)u); }
ALWAYS vh vh_load_n(const uint16_t *p, int64_t n)
{
    return (vh)_mm256_maskz_loadu_epi16(vm_first(n), p);
}
ALWAYS void vh_store_n(uint16_t *p, vh h, int64_t n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), (__m256i)h);
}

#else

typedef vi vm; /* all bits of a lane */

#ifdef __AVX2__
ALWAYS vf vf_fma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
ALWAYS vf vf_fnma(vf a, vf b, vf c)
{
    return (vf)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
ALWAYS vf vf_max(vf x, vf y) { return (vf)_mm256_max_ps((__m256)x, (__m256)y); }
ALWAYS vf vf_min(vf x, vf y) { return (vf)_mm256_min_ps((__m256)x, (__m256)y); }
ALWAYS vf vf_round(vf x) { return (vf)_mm256_round_ps((__m256)x, NEAREST_); }
ALWAYS vf vf_floor(vf x) { return (vf)_mm256_floor_ps((__m256)x); }
ALWAYS vf vf_pick(vm m, vf x, vf y)
{
    return (vf)_mm256_blendv_ps((__m256)y, (__m256)x, (__m256)m);
}
ALWAYS vf vf_sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
ALWAYS vf vf_from_bits(vh h)
{
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
}
ALWAYS vh vf_to_bits(vu u)
{
    __m256i packed = _mm256_packus_epi32((__m256i)u, (__m256i)u); /* lanes 0 0 1 1 */

    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
#else
ALWAYS vf vf_pick(vm m, vf x, vf y) { return (vf)(((vi)x & m) | ((vi)y & ~m)); }
ALWAYS vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
ALWAYS vf vf_fnma(vf a, vf b, vf c) { return c - a * b; }
ALWAYS vf vf_max(vf x, vf y) { return vf_pick(x > y, x, y); }
ALWAYS vf vf_min(vf x, vf y) { return vf_pick(x < y, x, y); }
/* Adding and subtracting 1.5 * 2^23 rounds to nearest, for |x| < 2^22. */
ALWAYS vf vf_round(vf x) { return x + 12582912.0f - 12582912.0f; }
ALWAYS vf vf_floor(vf x)
{
    vf t = __builtin_convertvector(__builtin_convertvector(x, vi), vf);

    return t - vf_pick(t > x, vf_set(1), vf_set(0));
}
ALWAYS vf vf_sqrt(vf x)
{
    for (int i = 0; i < W; i++)
        x[i] = sqrtf(x[i]);
    return x;
}
ALWAYS vf vf_from_bits(vh h) { return (vf)(__builtin_convertvector(h, vu) << 16); }
ALWAYS vh vf_to_bits(vu u) { return __builtin_convertvector(u, vh); }
#endif

ALWAYS vm vf_lt(vf x, vf y) { return x < y; }
ALWAYS vm vf_le(vf x, vf y) { return x <= y; }
ALWAYS vm vf_eq(vf x, vf y) { return x == y; }
ALWAYS vm vm_and(vm a, vm b) { return a & b; }
ALWAYS vf vf_load_n(const float *p, int64_t n)
{
    vf x = { 0 };

    if (n == W)
        return vf_load(p);
    memcpy(&x, p, (size_t)n * sizeof(float));
    return x;
}
ALWAYS void vf_store_n(float *p, vf x, int64_t n)
{
    if (n == W)
        vf_store(p, x);
    else
        memcpy(p, &x, (size_t)n * sizeof(float));
}
ALWAYS vh vh_load_n(const uint16_t *p, int64_t n)
{
    vh h = { 0 };

    if (n == W)
        memcpy(&h, p, sizeof h);
    else
        memcpy(&h, p, (size_t)n * sizeof(uint16_t));
    return h;
}
ALWAYS void vh_store_n(uint16_t *p, vh h, int64_t n)
{
    if (n == W)
        memcpy(p, &h, sizeof h);
    else
        memcpy(p, &h, (size_t)n * sizeof(uint16_t));
}

#endif

/* clang-format on */
/* x in the first n lanes, y in the rest. */
ALWAYS vf vf_keep(vf x, int64_t n, vf y)
{
#ifdef __AVX512F__
    return vf_pick(vm_first(n), x, y);
#else
    vi lane;

    for (int i = 0; i < W; i++)
        lane[i] = i;
    return vf_pick(lane < (int32_t)n, x, y);
#endif
}

/* 0, 1, 2, ... */
ALWAYS vf vf_count(void)
{
    vf x;

    for (int i = 0; i < W; i++)
        x[i] = (float)i;
    return x;
}

/* ---- storage: f32, or bf16 rounded to nearest even ------------------------------------------- */

ALWAYS vh vf_narrow(vf x)
{
#ifdef __AVX512BF16__
    return (vh)_mm512_cvtneps_pbh((__m512)x); /* the same, but subnormal numbers become 0 */
#else
    vu u = (vu)x, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;

    /* NaN stays NaN */
    return vf_to_bits((vu)vf_pick(vf_eq(x, x), (vf)rounded, (vf)((u >> 16) | 0x40u)));
#endif
}

/* Pairs of bf16: a's upper halves, below b's. */
ALWAYS vf zip(vf a, vf b)
{
    return (vf)((vu)a >> 16 | ((vu)b & 0xffff0000u));
}

/* Elements i..i+W-1 of an array; low: of bf16. _n: only the first n <= W; the other lanes load as
 * zeros. */
ALWAYS vf ld(const void *p, int64_t i, bool low)
{
    vh h;

    if (!low)
        return vf_load((const float *)p + i);
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return vf_from_bits(h);
}

ALWAYS vf ld_n(const void *p, int64_t i, int64_t n, bool low)
{
    return low ? vf_from_bits(vh_load_n((const uint16_t *)p + i, n))
               : vf_load_n((const float *)p + i, n);
}

ALWAYS void st(void *p, int64_t i, vf x, bool low)
{
    if (low) {
        vh h = vf_narrow(x);

        memcpy((uint16_t *)p + i, &h, sizeof h);
    } else {
        vf_store((float *)p + i, x);
    }
}

ALWAYS void st_n(void *p, int64_t i, vf x, int64_t n, bool low)
{
    if (low)
        vh_store_n((uint16_t *)p + i, vf_narrow(x), n);
    else
        vf_store_n((float *)p + i, x, n);
}

/* The same, for a `whole` that is a compile-time constant: full vectors, or n elements at a
 * time. */
ALWAYS vf ld_k(const void *p, int64_t i, int64_t n, bool low, bool whole)
{
    return whole ? ld(p, i, low) : ld_n(p, i, n, low);
}

ALWAYS void st_k(void *p, int64_t i, vf x, int64_t n, bool low, bool whole)
{
    if (whole)
        st(p, i, x, low);
    else
        st_n(p, i, x, n, low);
}

ALWAYS float ld1(const void *p, int64_t i, bool low)
{
    return low ? dg_f32_of_bf16(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

ALWAYS void st1(void *p, int64_t i, float x, bool low)
{
    if (low)
        ((uint16_t *)p)[i] = dg_bf16_of_f32(x);
    else
        ((float *)p)[i] = x;
}

/* Sum and maximum over the lanes, as a fixed tree of halves. */
#if defined(__AVX512F__)
ALWAYS float vf_sum(vf x)
{
    return _mm512_reduce_add_ps((__m512)x);
}
ALWAYS float vf_top(vf x)
{
    return _mm512_reduce_max_ps((__m512)x);
}
#else
ALWAYS float vf_sum(vf x)
{
    float v[W];

    vf_store(v, x);
    for (int h = W / 2; h > 0; h /= 2)
        for (int i = 0; i < h; i++)
            v[i] += v[i + h];
    return v[0];
}
ALWAYS float vf_top(vf x)
{
    float v[W];

    vf_store(v, x);
    for (int h = W / 2; h > 0; h /= 2)
        for (int i = 0; i < h; i++)
            v[i] = v[i] > v[i + h] ? v[i] : v[i + h];
    return v[0];
}
#endif

/* ---- W x W elements -------------------------------------------------------------------------- */

/* Row i becomes column i. */
#if defined(__AVX512F__)
static inline void vf_transpose(vf r[W])
{
    __m512 t[W];

    for (int i = 0; i < W; i += 2) {
        t[i] = _mm512_unpacklo_ps((__m512)r[i], (__m512)r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps((__m512)r[i], (__m512)r[i + 1]);
    }
    for (int i = 0; i < W; i += 4)
        for (int k = 0; k < 2; k++) {
            __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + k + 2]);

            r[i + 2 * k] = (vf)_mm512_unpacklo_pd(a, b);
            r[i + 2 * k + 1] = (vf)_mm512_unpackhi_pd(a, b);
        }
    for (int k = 0; k < 4; k++) {
        __m512 a = (__m512)r[k], b = (__m512)r[4 + k], c = (__m512)r[8 + k], d = (__m512)r[12 + k];
        __m512 ab = _mm512_shuffle_f32x4(a, b, 0x88), cd = _mm512_shuffle_f32x4(c, d, 0x88);

        r[k] = (vf)_mm512_shuffle_f32x4(ab, cd, 0x88);
        r[8 + k] = (vf)_mm512_shuffle_f32x4(ab, cd, 0xdd);
        ab = _mm512_shuffle_f32x4(a, b, 0xdd);
        cd = _mm512_shuffle_f32x4(c, d, 0xdd);
        r[4 + k] = (vf)_mm512_shuffle_f32x4(ab, cd, 0x88);
        r[12 + k] = (vf)_mm512_shuffle_f32x4(ab, cd, 0xdd);
    }
}
#else
static inline void vf_transpose(vf r[W])
{
    vf t[W];

    memcpy(t, r, sizeof t);
    for (int i = 0; i < W; i++)
        for (int k = 0; k < W; k++)
            r[i][k] = t[k][i];
}
#endif

/* ---- operands -------------------------------------------------------------------------------- */

static inline bool is_low(const dg_args *a, int i)
{
    return a->t[i].dtype == DG_BF16;
}

static inline int64_t elements(const dg_args *a, int i)
{
    return dg_shape_elements(a->t[i].shape);
}

/* Size of the last axis, and the number of rows of that size; a scalar is one row of one
 * element. */
static inline int64_t width_of(const dg_shape *s)
{
    return s->rank ? s->d[s->rank - 1] : 1;
}

static inline int64_t width(const dg_args *a, int i)
{
    return width_of(&a->t[i].shape);
}

static inline int64_t rows(const dg_args *a, int i)
{
    return elements(a, i) / width(a, i);
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Prefetches elements i..i+n-1 of an array. Rows of one head are a power of two bytes apart, which
 * hardware prefetchers miss. Prefetching for stores did not help. */
enum { AHEAD = 16 }; /* rows */

ALWAYS void ask(const void *p, int64_t i, int64_t n, bool low)
{
    int64_t size = low ? 2 : 4;

    for (int64_t k = 0; k < n * size; k += 64)
        __builtin_prefetch((const char *)p + i * size + k);
}

/* Prefetches 6 KB ahead of element i of an f32 array that is read in order. Hardware cannot follow
 * several such reads besides writes: batch norm's gradient on maps of 26 MB takes less than half
 * the time with it. bf16 is bound by arithmetic instead. */
ALWAYS void ask_far(const void *p, int64_t i, bool low)
{
    if (!low)
        __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)i * sizeof(float) + 6144));
}

/* Calls body over n indices, in parallel if n * work exceeds SERIAL elements: waking a thread costs
 * as much as that. */
enum { SERIAL = 1 << 15 };

static inline void parallel(const dg_args *a, int64_t n, int64_t work, dg_range_fn *body, void *ctx)
{
    dg_parallel_for(n * work < SERIAL ? 1 : a->threads, n, body, ctx);
}

#endif
