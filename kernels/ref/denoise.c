/* denoise.c: contrastive denoising queries, DINO (Zhang et al. 2022): noisy copies of the targets;
 * near ones are to be restored (positives), farther ones to be rejected (negatives).
 *
 * With M the most objects of any image of the global batch there are G = max(1, count div M)
 * groups, each of M positives and then M negatives: query q = g*2M + half*M + j belongs to target
 * j. Slots without a target are padding: label = classes, box 0; they are live and count as
 * negatives. Rows from 2 M G on are void: the same label and box, masked everywhere.
 *     label   where u_label < label_noise / 2, a real slot takes the label floor(u_class * classes)
 *     box     each corner coordinate moves by sign * size * box_noise * (half the width or height),
 *             sign from u_sign, size = u_size, plus 1 for negatives; then it is clipped to [0,1].
 *             The box is rounded to f32 in every precision: an f64 run trains on the same queries
 * If no image has an object (M = 0): with on_empty, M = G = 1 and every image has two queries with
 * the padding label and the box (1/2, 1/2, 1/10, 1/10), so that every loss term exists at every
 * step; without it no query is live.
 *
 * labels [B,m] boxes [B,m,4] count [B] most [] u_label u_class [B,N] u_sign u_size [B,N,4] ->
 * dn_labels [B,N] dn_boxes [B,N,4] dn = (M, G, 2MG, 2M) query gt [B,N/2] Pairs (query, gt) are in
 * ascending order, then -1. */
#include <math.h>

#include "kernels/ref/ref.h"

static double clip01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void noisy_box(const real *box, const real *u_sign, const real *u_size, double at_least,
                      double noise, real *to)
{
    double c[4];

    for (int k = 0; k < 4; k++) {
        double half = 0.5 * box[2 + k % 2], sign = u_sign[k] < (real)0.5 ? -1 : 1;
        double edge = k < 2 ? box[k] - half : box[k - 2] + half;

        c[k] = clip01(edge + sign * (u_size[k] + at_least) * half * noise);
    }
    to[0] = (float)(0.5 * (c[0] + c[2]));
    to[1] = (float)(0.5 * (c[1] + c[3]));
    to[2] = (float)(c[2] - c[0]);
    to[3] = (float)(c[3] - c[1]);
}

static int32_t noisy_label(const dg_args *a, int64_t at, int32_t label)
{
    const dg_denoise_attr *f = a->attr;
    int32_t drawn;

    if (!(in(a, DG_DENOISE_U_LABEL)[at] < 0.5 * f->label_noise))
        return label;
    drawn = (int32_t)floor(in(a, DG_DENOISE_U_CLASS)[at] * (double)f->classes);
    return drawn < f->classes ? drawn : (int32_t)f->classes - 1;
}

static int denoise(const dg_args *a)
{
    static const real nothing[4] = { 0 }, dummy[4] = { (real)0.5, (real)0.5, (real)0.1, (real)0.1 };
    const dg_denoise_attr *f = a->attr;
    int64_t n = f->capacity, slots = dim(a, DG_DENOISE_LABELS, 1),
            most = in_i32(a, DG_DENOISE_MOST)[0];
    bool empty = most < 1;
    int64_t m = empty ? f->on_empty != 0 : most < n / 2 ? most : n / 2;
    int64_t groups = m == 0 ? 0 : empty || f->count < m ? 1 : f->count / m, live = 2 * m * groups;
    const int64_t dn[4] = { m, groups, live, 2 * m };

    for (int k = 0; k < 4; k++)
        out_i32(a, DG_DENOISE_DN)[k] = (int32_t)dn[k];
    for (int64_t b = 0; b < dim(a, DG_DENOISE_LABELS, 0); b++) {
        const int32_t *labels = in_i32(a, DG_DENOISE_LABELS) + b * slots;
        const real *boxes = in(a, DG_DENOISE_BOXES) + b * slots * 4;
        int32_t *query = out_i32(a, DG_DENOISE_QUERY) + b * (n / 2),
                *gt = out_i32(a, DG_DENOISE_GT) + b * (n / 2);
        int64_t pairs = 0, count = in_i32(a, DG_DENOISE_COUNT)[b] < slots
                                       ? in_i32(a, DG_DENOISE_COUNT)[b]
                                       : slots;

        for (int64_t q = 0; q < n; q++) {
            int64_t at = b * n + q, j = m ? q % m : 0, negative = m ? q / m % 2 : 0;
            bool real_slot = q < live && j < count;
            const real *box = real_slot ? boxes + j * 4 : q < live && empty ? dummy : nothing;

            out_i32(a, DG_DENOISE_DN_LABELS)[at] =
                real_slot ? noisy_label(a, at, labels[j]) : (int32_t)f->classes;
            noisy_box(box, in(a, DG_DENOISE_U_SIGN) + at * 4, in(a, DG_DENOISE_U_SIZE) + at * 4,
                      (double)negative, f->box_noise, out(a, DG_DENOISE_DN_BOXES) + at * 4);
            if (real_slot && !negative) {
                query[pairs] = (int32_t)q;
                gt[pairs++] = (int32_t)j;
            }
        }
        for (; pairs < n / 2; pairs++)
            query[pairs] = gt[pairs] = -1;
    }
    return 0;
}

DG_REF(denoise, NULL, denoise);
