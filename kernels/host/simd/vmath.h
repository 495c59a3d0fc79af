/* vmath.h: exp, log, erf and functions made of them, on vectors, to about two units in the last
 * place. The polynomials are Chebyshev fits of the stated functions on the stated ranges. */
#ifndef DG_KERNELS_HOST_SIMD_VMATH_H
#define DG_KERNELS_HOST_SIMD_VMATH_H

#include "kernels/host/simd/simd.h"

#define POLY_(x, acc, c) vf_fma(acc, x, vf_set(c))

/* x 2^n for integral -252 <= n <= 254, in two steps: 2^n alone may overflow or underflow. */
#ifndef __AVX512F__
ALWAYS vf vf_scale(vf x, vf n)
{
    vi k = __builtin_convertvector(n, vi), half = k >> 1;

    return x * (vf)((vu)(half + 127) << 23) * (vf)((vu)(k - half + 127) << 23);
}
#endif

/* x = n ln2 + r, |r| <= ln2/2; e^r = 1 + r + r^2 P(r). Beyond the bounds the result is 0 or
 * infinite. */
ALWAYS vf vf_exp(vf x)
{
    vf t = vf_min(vf_set(89), vf_max(vf_set(-105), x)); /* NaN stays NaN */
    vf n = vf_round(t * 1.442695041f);
    vf r = vf_fnma(n, vf_set(-2.12194440e-4f), vf_fnma(n, vf_set(0.693359375f), t));
    vf p = vf_set(0.00139263919f);

    p = POLY_(r, p, 0.008363345811f);
    p = POLY_(r, p, 0.04166655336f);
    p = POLY_(r, p, 0.1666657599f);
    p = POLY_(r, p, 0.5f);
    return vf_scale(vf_fma(p, r * r, r) + 1.0f, n);
}

/* x = 2^n (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 P(f). x normal and
 * positive, 0 (gives -inf) or infinite; else NaN. */
ALWAYS vf vf_log(vf x)
{
    vi bits = (vi)((vu)x - 0x3f3504f3u); /* bits of sqrt(1/2) */
    vi n = bits >> 23;
    vf f = (vf)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f, e = __builtin_convertvector(n, vf);
    vf p = vf_set(0.06971611471f), y;

    p = POLY_(f, p, -0.1147973385f);
    p = POLY_(f, p, 0.1168541992f);
    p = POLY_(f, p, -0.1242568733f);
    p = POLY_(f, p, 0.1424905765f);
    p = POLY_(f, p, -0.1666780232f);
    p = POLY_(f, p, 0.2000071575f);
    p = POLY_(f, p, -0.2499999696f);
    p = POLY_(f, p, 0.3333333118f);
    y = vf_fma(f * f, vf_fma(p, f, vf_set(-0.5f)), vf_fma(e, vf_set(-2.12194440e-4f), f));
    y = vf_fma(e, vf_set(0.693359375f), y);
    y = vf_pick(vf_lt(vf_set(3.402823466e38f), x), vf_set(INFINITY), y);
    y = vf_pick(vf_le(vf_set(0), x), y, vf_set(NAN));
    return vf_pick(vf_eq(x, vf_set(0)), vf_set(-INFINITY), y);
}

/* log(1 + e) = 2 artanh(s), s = e / (2 + e), for 0 <= e <= 1; artanh(s) = s + s^3 P(s^2). */
ALWAYS vf vf_log1p_unit(vf e)
{
    vf s = e / (e + 2.0f), z = s * s, p = vf_set(0.1161216461f);

    p = POLY_(z, p, 0.108532879f);
    p = POLY_(z, p, 0.14296179f);
    p = POLY_(z, p, 0.1999985317f);
    p = POLY_(z, p, 0.3333333366f);
    s = s + s;
    return vf_fma(p * z, s, s);
}

/* 1/x for 1 <= x <= 2^126. With a hardware estimate, one Newton step is accurate to about one unit
 * in the last place and cheaper than a division. */
ALWAYS vf vf_inverse(vf x)
{
#ifdef __AVX512F__
    vf guess = vf_guess(x);

    return vf_fma(guess, vf_fnma(x, guess, vf_set(1)), guess);
#else
    return 1.0f / x;
#endif
}

ALWAYS vf vf_sigmoid(vf x)
{
    return vf_inverse(1.0f + vf_exp(vf_min(vf_set(87), -x)));
}

/* The same to about 13 bits, which is enough where the result is rounded to bf16. */
ALWAYS vf vf_sigmoid_low(vf x)
{
#ifdef __AVX512F__
    vf t = vf_min(vf_set(126), x * -1.442695041f), n = vf_round(t), f = t - n,
       p = vf_set(0.05517166907f);

    p = POLY_(f, p, 0.2426111222f);
    p = POLY_(f, p, 0.6932609855f);
    p = POLY_(f, p, 0.9999280735f);
    return vf_guess(1.0f + vf_scale(p, n));
#else
    return vf_sigmoid(x);
#endif
}

ALWAYS vf vf_abs(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* erf(x) = x P(x^2) for |x| < 1; 1 - exp(Q(|x|)) with Q = log erfc up to 4; 1 beyond. */
ALWAYS vf vf_erf(vf x)
{
    vf a = vf_abs(x), z = x * x, t = vf_min(vf_set(4.0f), a);
    vf p = vf_set(7.875875063e-5f), q = vf_set(1.622679171e-6f), big;

    p = POLY_(z, p, -0.0008016864287f);
    p = POLY_(z, p, 0.005189087423f);
    p = POLY_(z, p, -0.02685421201f);
    p = POLY_(z, p, 0.1128359472f);
    p = POLY_(z, p, -0.3761262667f);
    p = POLY_(z, p, 1.128379166f);
    q = POLY_(t, q, -4.5786247e-5f);
    q = POLY_(t, q, 0.0005946317951f);
    q = POLY_(t, q, -0.004749935118f);
    q = POLY_(t, q, 0.02639505451f);
    q = POLY_(t, q, -0.1100362846f);
    q = POLY_(t, q, -0.6318707643f);
    q = POLY_(t, q, -1.13020803f);
    q = POLY_(t, q, 0.0003139770934f);
    big = 1.0f - vf_exp(q);
    big = (vf)((vi)big | ((vi)x & (int32_t)0x80000000));
    return vf_pick(vf_lt(a, vf_set(1.0f)), x * p, vf_pick(vf_le(a, a), big, x));
}

#endif
