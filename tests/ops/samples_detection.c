/* samples_detection.c: draws, denoising, matching, losses, detections, masks, updates. */
#include "tests/ops/samples.h"

#include <math.h>

static void denoise(samples *s, const char *what, int on_empty, int64_t slots, const int *labels,
                    const int *count, int most)
{
    enum { ASKED = 6 };
    int64_t n = 2 * (slots > ASKED ? slots : ASKED);

    ADD(s, denoise, what, dg_denoise_attr, ASKED, n, 5, 0.5, 1.0, on_empty);
    sample_i32_list(s, DG_SHAPE(3, slots), labels);
    sample_fixed(s, 0.2, 0.6, DG_SHAPE(3, slots, 4));
    sample_i32_list(s, DG_SHAPE(3), count);
    sample_i32_list(s, DG_SCALAR, &most);
    sample_fixed(s, 0, 1, DG_SHAPE(3, n));
    sample_fixed(s, 0, 1, DG_SHAPE(3, n));
    sample_fixed(s, 0, 1, DG_SHAPE(3, n, 4));
    sample_fixed(s, 0, 1, DG_SHAPE(3, n, 4));
}

static void draws(samples *s)
{
    static const int labels[27] = { 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3,
                                    4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1 };

    ADD(s, uniform, "boxes", uniform_attr, 0x123456789ABCDEF, 3, { 2, 5, 4 });
    ADD(s, uniform, "one number a sample", uniform_attr, -5, 1, { 3 });
    ADD(s, ramp, "in the middle", ramp_attr, 40, 0.3, 0, 0.1);
    ADD(s, ramp, "its last step", ramp_attr, 4, 0.3, 0.1, 0);
    ADD(s, ramp, "behind its end", ramp_attr, 3, 0, 0, 0.2);
    denoise(s, "two, one and none", 1, 3, labels, INTS(2, 1, 0), 2);
    denoise(s, "the most is elsewhere", 1, 3, labels, INTS(1, 0, 1), 3);
    denoise(s, "more than half of what is asked", 1, 9, labels, INTS(9, 4, 0), 9);
    denoise(s, "all empty", 1, 3, labels, INTS(0, 0, 0), 0);
    denoise(s, "all empty, left out", 0, 3, labels, INTS(0, 0, 0), 0);
}

/* ---- matching -------------------------------------------------------------------------------- */

static void match(samples *s, const char *what, int64_t groups, int64_t m, int64_t q,
                  const int *count)
{
    ADD(s, match, what, index_attr, .n = groups);
    sample_fixed(s, -2, 2, DG_SHAPE(2, m, q));
    sample_i32_list(s, DG_SHAPE(2), count);
}

static void matching(samples *s)
{
    ADD(s, match_cost, "two images", match_attr, 2, 5, 2, 0.25, 2, 1e-8);
    sample_fixed(s, -5, 3, DG_SHAPE(2, 7, 3));
    sample_fixed(s, 0.2, 0.6, DG_SHAPE(2, 7, 4));
    sample_i32_list(s, DG_SHAPE(2, 4), INTS(2, 0, 1, 1, 1, 0, 0, 0));
    sample_fixed(s, 0.2, 0.6, DG_SHAPE(2, 4, 4));
    sample_i32_list(s, DG_SHAPE(2), INTS(4, 1));
    ADD(s, match_cost, "other weights, an empty image", match_attr, 1, 2, 0.5, 0.75, 1.5, 1e-8);
    sample_fixed(s, -5, 3, DG_SHAPE(2, 33, 1));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 33, 4));
    sample_i32_list(s, DG_SHAPE(2, 2), INTS(0, 0, 0, 0));
    sample_fixed(s, 0.2, 0.6, DG_SHAPE(2, 2, 4));
    sample_i32_list(s, DG_SHAPE(2), INTS(2, 0));
    ADD(s, match_cost, "boxes without an area, equal", match_attr, 2, 5, 2, 0.25, 2, 1e-8);
    sample_fixed(s, -5, 3, DG_SHAPE(1, 2, 2));
    sample_real_list(s, DG_SHAPE(1, 2, 4), REALS(0.5, 0.5, 0, 0, 0.5, 0.5, 0.1, 0));
    sample_i32_list(s, DG_SHAPE(1, 1), INTS(1));
    sample_real_list(s, DG_SHAPE(1, 1, 4), REALS(0.5, 0.5, 0, 0));
    sample_i32_list(s, DG_SHAPE(1), INTS(1));

    ADD(s, match_cost, "exact, logits far out, a negative side", match_attr, 2, 5, 2, 0.25, 2, 0);
    sample_real_list(s, DG_SHAPE(1, 2, 2), REALS(-60, 60, 0.5, -40));
    sample_real_list(s, DG_SHAPE(1, 2, 4), REALS(0.5, 0.5, -0.2, 0.1, 0.5, 0.4, 0.3, 0.2));
    sample_i32_list(s, DG_SHAPE(1, 2), INTS(0, 1));
    sample_real_list(s, DG_SHAPE(1, 2, 4), REALS(0.5, 0.5, 0.3, 0.2, 0.4, 0.6, 0.1, 0.2));
    sample_i32_list(s, DG_SHAPE(1), INTS(2));

    match(s, "few targets", 1, 3, 9, INTS(3, 2));
    match(s, "none", 1, 3, 9, INTS(0, 0));
    match(s, "as many as queries", 1, 6, 6, INTS(6, 5));
    match(s, "more than queries", 1, 7, 4, INTS(7, 5));
    match(s, "many", 1, 40, 60, INTS(40, 33));
    match(s, "more than a warp likes", 1, 70, 90, INTS(70, 11));
    match(s, "so many, and fewer queries", 1, 75, 40, INTS(75, 8));
    match(s, "three groups", 3, 3, 12, INTS(3, 2));
    match(s, "groups smaller than the targets", 4, 5, 12, INTS(5, 0));
    ADD(s, match, "equal costs", index_attr, .n = 1);
    sample_fixed(s, 0.5, 0.5, DG_SHAPE(2, 3, 5));
    sample_i32_list(s, DG_SHAPE(2), INTS(3, 2));
    ADD(s, match, "costs that are not finite", index_attr, .n = 1);
    sample_real_list(s, DG_SHAPE(2, 2, 3),
                     REALS(NAN, 1, 2, NAN, 1, 3, NAN, NAN, NAN, INFINITY, -INFINITY, NAN));
    sample_i32_list(s, DG_SHAPE(2), INTS(2, 2));
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static void boxes(samples *s)
{
    ADD(s, box_decode, "plain", no_attr, 0);
    sample_real(s, -1, 1, DG_SHAPE(3, 7, 4));
    sample_real(s, 0.1, 0.9, DG_SHAPE(3, 7, 4));
    ADD(s, box_decode, "one operand is constant", no_attr, 0);
    sample_real(s, -1, 1, DG_SHAPE(5, 4));
    sample_fixed(s, 0, 1, DG_SHAPE(5, 4));
    ADD(s, box_decode, "boxes without an area", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(1, 17, 4));
    sample_real(s, 0, 0, DG_SHAPE(1, 17, 4));
    ADD(s, sine_embed, "plain", sine_attr, 10, 10000);
    sample_real(s, -0.2, 1.2, DG_SHAPE(2, 5, 4));
    ADD(s, sine_embed, "many turns", sine_attr, 64, 10000)->edges = true;
    sample_fixed(s, -20, 20, DG_SHAPE(3, 4));
    ADD(s, sine_embed, "quarters of a turn", sine_attr, 2, 10000)->edges = true;
    sample_real_list(s, DG_SHAPE(2, 4), REALS(0, 0.25, 0.5, 0.75, 1, -0.25, -0.5, 2.5));
    ADD(s, sine_embed, "points, another temperature", sine_attr, 34, 20);
    sample_real(s, -0.2, 1.2, DG_SHAPE(2, 5, 2));
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void box_loss(samples *s, const char *what, const int *query, const int *gt)
{
    ADD(s, box_loss, what, no_attr, 0)->loss = 3;
    sample_real(s, 0.2, 0.6, DG_SHAPE(2, 6, 4));
    sample_fixed(s, 0.2, 0.6, DG_SHAPE(2, 4, 4));
    sample_i32_list(s, gt ? DG_SHAPE(2, 5) : DG_SHAPE(2, 4), query);
    if (gt)
        sample_i32_list(s, DG_SHAPE(2, 5), gt);
    else
        sample_none(s);
}

static void class_loss(samples *s, const char *what, dg_class_loss_attr f, const int *query,
                       const int *gt, const int *dn)
{
    dg_shape pairs = gt ? DG_SHAPE(2, 5) : DG_SHAPE(2, 4);

    sample_add(s, DG_OP(class_loss), what, &f, sizeof f);
    if (f.focal == DG_CLASS_VARIFOCAL || (f.focal == DG_CLASS_ALIGNED && f.alpha > 0))
        s->list.items[s->list.n - 1]->edges =
            true; /* the weight is a constant, by decree; ops.json has numbers */
    sample_real(s, -6, 3, DG_SHAPE(2, 6, 3));
    sample_i32_list(s, DG_SHAPE(2, 4), INTS(2, 0, 1, 1, 0, 2, 2, 1));
    sample_i32_list(s, pairs, query);
    if (gt)
        sample_i32_list(s, pairs, gt);
    else
        sample_none(s);
    if (f.focal == DG_CLASS_FOCAL)
        sample_none(s);
    else
        sample_fixed(s, 0, 0.9, pairs);
    if (dn)
        sample_i32_list(s, DG_SHAPE(4), dn);
    else
        sample_none(s);
}

static void losses(samples *s)
{
    const int *matched = INTS(3, 0, -1, -1, 5, 1, 2, 0),
              *none = INTS(-1, -1, -1, -1, -1, -1, -1, -1);
    const int *query = INTS(0, 1, 4, 5, -1, 0, 4, -1, -1, -1),
              *gt = INTS(0, 1, 0, 1, -1, 2, 2, -1, -1, -1);
    const dg_class_loss_attr varifocal = { 0, 0.75, 2 }, focal = { 1, 0.25, 2 },
                             steep = { 1, 0.6, 1.5 }, aligned = { DG_CLASS_ALIGNED, 0.25, 2 },
                             iou_alone = { DG_CLASS_ALIGNED, 0, 1.5 },
                             quality = { DG_CLASS_QUALITY, 0, 2 },
                             cubic = { DG_CLASS_QUALITY, 0, 3 };

    box_loss(s, "matched", matched, NULL);
    box_loss(s, "denoising", query, gt);
    box_loss(s, "no pair", none, NULL);
    ADD(s, box_loss, "negative sides", no_attr, 0)->loss = 3;
    sample_real(s, -0.4, 0.6, DG_SHAPE(1, 5, 4));
    sample_fixed(s, 0.1, 0.5, DG_SHAPE(1, 5, 4));
    sample_i32_list(s, DG_SHAPE(1, 5), INTS(0, 1, 2, 3, 4));
    sample_none(s);
    ADD(s, box_loss, "boxes without an area, equal", no_attr, 0)->edges = true;
    sample_real_list(s, DG_SHAPE(1, 2, 4), REALS(0.5, 0.5, 0, 0, 0.5, 0.5, 0.1, 0));
    sample_real_list(s, DG_SHAPE(1, 2, 4), REALS(0.5, 0.5, 0, 0, 0.3, 0.3, 0, 0.1));
    sample_i32_list(s, DG_SHAPE(1, 2), INTS(0, 1));
    sample_none(s);

    class_loss(s, "varifocal, matched", varifocal, matched, NULL, NULL);
    class_loss(s, "varifocal, denoising", varifocal, query, gt, INTS(2, 1, 5, 4));
    class_loss(s, "varifocal, no pair, no live row", varifocal, none, NULL, INTS(0, 0, 0, 0));
    class_loss(s, "focal, matched", focal, matched, NULL, NULL);
    class_loss(s, "focal, denoising", steep, query, gt, INTS(2, 1, 4, 4));
    class_loss(s, "focal, one query twice", focal, INTS(1, 1, -1, -1, 0, 2, 2, -1), NULL, NULL);

    class_loss(s, "aligned, matched", aligned, matched, NULL, NULL);
    class_loss(s, "aligned, by groups", aligned, query, gt, NULL);
    class_loss(s, "aligned to the IoU alone", iou_alone, query, gt, INTS(2, 1, 5, 4));

    class_loss(s, "quality, matched", quality, matched, NULL, NULL);
    class_loss(s, "quality, denoising", quality, query, gt, INTS(2, 1, 5, 4));
    class_loss(s, "quality, cubic", cubic, query, gt, NULL);

    ADD(s, detect, "plain", index_attr, .n = 5);
    sample_fixed(s, -4, 4, DG_SHAPE(2, 6, 3));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 6, 4));
    ADD(s, detect, "all, sigmoids saturated", index_attr, .n = 12);
    sample_fixed(s, 90, 100, DG_SHAPE(1, 6, 2));
    sample_fixed(s, 0, 1, DG_SHAPE(1, 6, 4));
}

/* ---- masks ----------------------------------------------------------------------------------- */

static void mask_sample(samples *s, const char *what, int64_t pairs, const int *query)
{
    ADD(s, mask_sample, what, no_attr, 0);
    sample_real(s, -1, 1, DG_SHAPE(2, 5, 3, 7));
    sample_real(s, -1, 1, DG_SHAPE(2, 4, 7));
    sample_fixed(s, -0.1, 1.1, DG_SHAPE(2, pairs, 6, 2));
    sample_i32_list(s, DG_SHAPE(2, pairs), query);
}

static void mask_planes(samples *s, int64_t layers)
{
    int bits[2 * 2 * 5 * 3];

    for (int i = 0; i < 2 * (int)layers * 5 * 3; i++)
        bits[i] = (int)((unsigned)i * 2654435761u);
    sample_i32_list(s, DG_SHAPE(2, layers, 5, 3), bits);
}

static void mask_loss(samples *s, const char *what, const int *query, const int *gt, int64_t layers)
{
    ADD(s, mask_loss, what, no_attr, 0)->loss = 3;
    sample_real(s, -4, 4, DG_SHAPE(2, 5, 9));
    mask_planes(s, layers);
    sample_i32_list(s, DG_SHAPE(2, 5), query);
    if (gt)
        sample_i32_list(s, DG_SHAPE(2, 5), gt);
    else
        sample_none(s);
    sample_fixed(s, 0, 1, DG_SHAPE(2, 5, 9, 2));
}

static void masks(samples *s)
{
    mask_sample(s, "points on and beyond the edge, void pairs", 3, INTS(3, -1, 0, 2, 2, 4));
    mask_sample(s, "no pair", 2, INTS(-1, -1, -1, -1));
    ADD(s, mask_sample, "many channels", no_attr, 0);
    sample_real(s, -1, 1, DG_SHAPE(1, 2, 2, 130));
    sample_real(s, -1, 1, DG_SHAPE(1, 2, 130));
    sample_fixed(s, 0, 1, DG_SHAPE(1, 3, 2, 2));
    sample_i32_list(s, DG_SHAPE(1, 3), INTS(1, 0, 1));
    ADD(s, mask_sample, "a map of one pixel, points far out and nowhere", no_attr, 0)->edges = true;
    sample_real(s, -1, 1, DG_SHAPE(1, 1, 1, 3));
    sample_real(s, -1, 1, DG_SHAPE(1, 1, 3));
    sample_real_list(s, DG_SHAPE(1, 1, 4, 2), REALS(-9, 9, NAN, 0.5, 0, 1, INFINITY, -INFINITY));
    sample_i32_list(s, DG_SHAPE(1, 1), INTS(0));
    ADD(s, mask_cost, "an empty image", mask_attr, 5, 2);
    sample_fixed(s, -2, 2, DG_SHAPE(2, 3, 5));
    sample_fixed(s, -6, 6, DG_SHAPE(2, 5, 8));
    mask_planes(s, 1);
    sample_i32_list(s, DG_SHAPE(2), INTS(2, 0));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 8, 2));
    ADD(s, mask_cost, "more targets than bits, logits far out", mask_attr, 1, 1);
    sample_fixed(s, -2, 2, DG_SHAPE(2, 40, 2));
    sample_fixed(s, -90, 90, DG_SHAPE(2, 2, 4));
    mask_planes(s, 2);
    sample_i32_list(s, DG_SHAPE(2), INTS(40, 33));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 4, 2));
    mask_loss(s, "pair j is target j", INTS(0, 3, -1, 2, 1, -1, -1, 0, 0, 0), NULL, 1);
    mask_loss(s, "by groups", INTS(0, 3, -1, 2, 1, -1, -1, 0, 0, 0),
              INTS(0, 33, 2, 40, -1, 0, 1, 31, 32, 63), 2);
    mask_loss(s, "no pair", INTS(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1), NULL, 1);
}

/* ---- updates --------------------------------------------------------------------------------- */

static const adamw_range two_groups[] = { { 0, 21, 0, 0 }, { 32, 61, 1, 0.1 } };

static void adamw(samples *s, const char *what, double clip, bool e, bool norm, int ok)
{
    ADD(s, adamw, what, adamw_attr, 0.9, 0.999, 1e-8, clip, 2, two_groups);
    sample_fixed(s, -1, 1, DG_SHAPE(70));
    sample_fixed(s, -1, 1, DG_SHAPE(64));
    sample_fixed(s, -0.1, 0.1, DG_SHAPE(64));
    sample_fixed(s, 0, 0.01, DG_SHAPE(64));
    if (e)
        sample_fixed(s, -1, 1, DG_SHAPE(70));
    else
        sample_none(s);
    if (norm)
        sample_fixed(s, 4, 5, DG_SCALAR);
    else
        sample_none(s);
    sample_i32_list(s, DG_SCALAR, &ok);
}

static void ema(samples *s, const char *what, int64_t begin, int64_t end, int ok)
{
    ADD(s, ema, what, ema_attr, begin, end);
    sample_fixed(s, -1, 1, DG_SHAPE(70));
    sample_fixed(s, -1, 1, DG_SHAPE(70));
    sample_i32_list(s, DG_SCALAR, &ok);
}

static void updates(samples *s)
{
    ADD(s, accumulate, "second batch", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(3, 7));
    sample_fixed(s, -1, 1, DG_SHAPE(3, 7));
    ADD(s, accumulate, "first batch", no_attr, 0)->control.accumulated = 0;
    sample_real_list(s, DG_SHAPE(3), REALS(NAN, 1, 2));
    sample_fixed(s, -1, 1, DG_SHAPE(3));
    ADD(s, grad_norm, "several blocks", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(9001));
    ADD(s, grad_norm, "squares that no float holds", no_attr, 0)->edges = true;
    sample_real_list(s, DG_SHAPE(4), REALS(3e24, 0, -4e24, 1));
    ADD(s, finite, "all finite", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(5));
    sample_fixed(s, -1, 1, DG_SCALAR);
    ADD(s, finite, "infinite", no_attr, 0);
    sample_fixed(s, -1, 1, DG_SHAPE(5));
    sample_real_list(s, DG_SHAPE(3), REALS(0, -INFINITY, 1));
    ADD(s, finite, "not a number", no_attr, 0);
    sample_real_list(s, DG_SCALAR, REALS(NAN));
    adamw(s, "clipped, with a moving average", 0.1, true, true, 1);
    adamw(s, "below the clip", 10, true, true, 1);
    adamw(s, "no clip, no norm", 0, false, false, 1);
    adamw(s, "not finite", 0.1, true, true, 0);
    ema(s, "all", 0, 0, 1);
    ema(s, "a part", 17, 53, 1);
    ema(s, "not finite", 0, 0, 0);
}

void samples_of_detection(samples *s)
{
    draws(s);
    boxes(s);
    matching(s);
    losses(s);
    masks(s);
    updates(s);
}
