/* loss.c: losses over pairs of queries and targets, query, gt [B,P]. A query of -1 is void; without
 * gt, pair j belongs to target j.
 *
 * box_loss    l1   = sum over pairs of |cxcywh difference|
 *            giou = sum over pairs of 1 - GIoU
 *            iou [B,P]: plain IoU of each pair, a constant for gradients
 * class_loss  sum over queries and classes, with x the logit, p = sigmoid(x), y = 1 at the pair's
 *            label and else 0, bce(x, s) = -s log p - (1-s) log(1-p):
 *  varifocal (Zhang et al. 2021), s = y * iou; the weight is a constant for gradients
 *            (alpha p^gamma (1-y) + s) * bce(x, s)      d/dx = weight * (p - s)
 *  focal (Lin et al. 2017), q = 1-p at y = 1 and p elsewhere, a = alpha at y = 1, else 1-alpha
 *            a q^gamma * bce(x, y)
 *  aligned (Cai et al. 2023, in LW-DETR's form), u = max(0.01, p^alpha iou^(1-alpha)) is a constant
 *            for gradients
 *            bce(x, u) at y = 1, p^gamma bce(x, 0) elsewhere
 *  quality (Li et al. 2020), s = y * iou is a constant, the weight is not
 *            |s - p|^gamma bce(x, s)
 *            If two pairs name one query, the later one counts. Rows from dn's live count on are
 *            void. */
#include <math.h>
#include <string.h>

#include "kernels/ref/box.h"

/* Target of pair n = b*P + j of image b; -1: void. operands query and gt; m: targets per image. */
static int64_t target_of(const dg_args *a, int query, int64_t n, int64_t m, int64_t n_queries)
{
    int64_t j = has(a, query + 1) ? in_i32(a, query + 1)[n] : n % dim(a, query, 1);
    int64_t q = in_i32(a, query)[n];

    return q < 0 || q >= n_queries || j < 0 || j >= m ? -1 : j;
}

/* ---- box_loss: boxes [B,Q,4] tboxes [B,M,4] query gt? -> l1 [] giou [] iou [B,P] ------------- */

static int box_loss(const dg_args *a)
{
    int64_t q = dim(a, DG_BOX_LOSS_BOXES, 1), m = dim(a, DG_BOX_LOSS_TBOXES, 1),
            p = dim(a, DG_BOX_LOSS_QUERY, 1);
    double l1 = 0, giou = 0;

    for (int64_t n = 0; n < elements(a, DG_BOX_LOSS_QUERY); n++) {
        int64_t b = n / p, j = target_of(a, DG_BOX_LOSS_QUERY, n, m, q);

        out(a, DG_BOX_LOSS_IOU)[n] = 0;
        if (j < 0)
            continue;
        const real *box = in(a, DG_BOX_LOSS_BOXES) + (b * q + in_i32(a, DG_BOX_LOSS_QUERY)[n]) * 4;
        const real *target = in(a, DG_BOX_LOSS_TBOXES) + (b * m + j) * 4;
        overlap o = overlap_of(box, target);

        for (int k = 0; k < 4; k++)
            l1 += fabs((double)box[k] - target[k]);
        giou += 1 - o.giou;
        out(a, DG_BOX_LOSS_IOU)[n] = (real)o.iou;
    }
    out(a, DG_BOX_LOSS_L1)[0] = (real)l1;
    out(a, DG_BOX_LOSS_GIOU)[0] = (real)giou;
    return 0;
}

/* Derivative of max(x, y) by x: 1/2 at equality. */
static double share(double x, double y)
{
    return x > y ? 1 : x == y ? 0.5 : 0;
}

/* d (1 - GIoU) / d box, box = (cx, cy, w, h), from the derivatives by its corners. 1 - GIoU = 2 -
 * I/U - U/H with areas I, U, H of intersection, union, hull and U = |A| + |B| - I. */
static void giou_slope(const real *box, const overlap *o, double slope[4])
{
    double size[2] = { o->a[2] - o->a[0], o->a[3] - o->a[1] };
    double inner[2] = { o->inner_w, o->inner_h }, hull[2] = { o->hull_w, o->hull_h }, corner[4];
    double by_inner = o->both == 0 ? 0 : -1 / o->both;
    double by_both =
        (o->both == 0 ? 0 : o->inner / (o->both * o->both)) - (o->hull == 0 ? 0 : 1 / o->hull);
    double by_hull = o->hull == 0 ? 0 : o->both / (o->hull * o->hull);

    for (int k = 0; k < 4; k++) {
        int axis = k % 2, other = 1 - axis;
        double outward = k < 2 ? -1 : 1; /* direction in which this corner moves outwards */
        double inside = outward * inner[other] * share(-outward * o->a[k], -outward * o->b[k]);
        double outside = outward * hull[other] * share(outward * o->a[k], outward * o->b[k]);
        double area = outward * size[other];

        if (inner[0] < 0 || inner[1] < 0)
            inside = 0;

        corner[k] = by_inner * inside + by_both * (area - inside) + by_hull * outside;
    }
    for (int k = 0; k < 2; k++) {
        slope[k] = corner[k] + corner[k + 2];
        slope[k + 2] = box[k + 2] < 0 ? 0 : 0.5 * (corner[k + 2] - corner[k]);
    }
}

/* dl1? dgiou? boxes tboxes query gt? -> dboxes */
static int box_loss_grad(const dg_args *a)
{
    int64_t q = dim(a, DG_BOX_LOSS_GRAD_BOXES, 1), m = dim(a, DG_BOX_LOSS_GRAD_TBOXES, 1),
            p = dim(a, DG_BOX_LOSS_GRAD_QUERY, 1);
    double dl1 = has(a, DG_BOX_LOSS_GRAD_DL1) ? in(a, DG_BOX_LOSS_GRAD_DL1)[0] : 0,
           dgiou = has(a, DG_BOX_LOSS_GRAD_DGIOU) ? in(a, DG_BOX_LOSS_GRAD_DGIOU)[0] : 0;

    memset(out(a, DG_BOX_LOSS_GRAD_DBOXES), 0,
           (size_t)elements(a, DG_BOX_LOSS_GRAD_DBOXES) * sizeof(real));
    for (int64_t n = 0; n < elements(a, DG_BOX_LOSS_GRAD_QUERY); n++) {
        int64_t b = n / p, j = target_of(a, DG_BOX_LOSS_GRAD_QUERY, n, m, q);

        if (j < 0)
            continue;
        int64_t at = (b * q + in_i32(a, DG_BOX_LOSS_GRAD_QUERY)[n]) * 4;
        const real *box = in(a, DG_BOX_LOSS_GRAD_BOXES) + at,
                   *target = in(a, DG_BOX_LOSS_GRAD_TBOXES) + (b * m + j) * 4;
        overlap o = overlap_of(box, target);
        double slope[4];

        giou_slope(box, &o, slope);
        for (int k = 0; k < 4; k++) {
            double sign = box[k] > target[k] ? 1 : box[k] < target[k] ? -1 : 0;

            out(a, DG_BOX_LOSS_GRAD_DBOXES)[at + k] +=
                (real)(dl1 * sign + (has(a, DG_BOX_LOSS_GRAD_DGIOU) ? dgiou * slope[k] : 0));
        }
    }
    return 0;
}

/* ---- class_loss: logits [B,Q,C] labels [B,M] query gt? iou? [B,P] dn? -> loss [] ------------- */

static double power(double x, double y)
{
    return y == 2 ? x * x : pow(x, y);
}

static double bce(double x, double s)
{
    return (x > 0 ? x : 0) - x * s + log1p(exp(-fabs(x)));
}

/* Loss term of one logit, and its derivative in *slope. */
static double term(const dg_class_loss_attr *f, double x, bool y, double iou, double *slope)
{
    double p = 1 / (1 + exp(-x)), s = y ? iou : 0;

    if (f->focal == DG_CLASS_ALIGNED && y) {
        s = fmax(0.01, pow(p, f->alpha) * pow(iou, 1 - f->alpha));
        *slope = p - s;
        return bce(x, s);
    }
    if (f->focal == DG_CLASS_VARIFOCAL) {
        double weight = y ? s : f->alpha * power(p, f->gamma);

        *slope = weight * (p - s);
        return weight * bce(x, s);
    }
    if (f->focal == DG_CLASS_QUALITY) {
        double off = fabs(p - s), weight = power(off, f->gamma), loss = bce(x, s);
        double grown = f->gamma > 0 && off > 0 ? f->gamma * weight / off : 0; /* d weight / d off */

        *slope = weight * (p - s) + grown * (p < s ? -1 : 1) * p * (1 - p) * loss;
        return weight * loss;
    }
    double wrong = y ? 1 - p : p, loss = bce(x, y);
    double a = f->focal == DG_CLASS_ALIGNED ? 1 : y ? f->alpha : 1 - f->alpha;

    *slope = a * power(wrong, f->gamma) * (f->gamma * (1 - wrong) * loss + wrong) * (y ? -1 : 1);
    return a * power(wrong, f->gamma) * loss;
}

/* Fills pair with the index of the pair of each query of image b; -1: none. */
static void pairs_of(const dg_args *a, int first, int64_t b, int32_t *pair)
{
    int64_t q = dim(a, first, 1), m = dim(a, first + 1, 1), p = dim(a, first + 2, 1);

    for (int64_t i = 0; i < q; i++)
        pair[i] = -1;
    for (int64_t n = b * p; n < (b + 1) * p; n++)
        if (target_of(a, first + 2, n, m, q) >= 0)
            pair[in_i32(a, first + 2)[n]] = (int32_t)(n - b * p);
}

/* Loss and gradient: the operands from `first` on are those of class_loss. Returns the sum; writes
 * slopes times scale to dlogits unless it is NULL. */
static double class_terms(const dg_args *a, int first, double scale, real *dlogits)
{
    int64_t q = dim(a, first, 1), c = dim(a, first, 2), m = dim(a, first + 1, 1),
            p = dim(a, first + 2, 1);
    int64_t live = has(a, first + 5) ? in_i32(a, first + 5)[2] : q;
    int32_t *pair = a->workspace;
    double total = 0;

    for (int64_t b = 0; b < dim(a, first, 0); b++) {
        pairs_of(a, first, b, pair);
        for (int64_t i = 0; i < q; i++) {
            int64_t n = b * p + pair[i], j = pair[i] < 0 ? 0 : target_of(a, first + 2, n, m, q);
            int32_t label = pair[i] < 0 ? -1 : in_i32(a, first + 1)[b * m + j];
            double iou = pair[i] >= 0 && has(a, first + 4) ? in(a, first + 4)[n] : 0;

            for (int64_t k = 0; k < c; k++) {
                int64_t at = (b * q + i) * c + k;
                double slope = 0;

                if (i < live)
                    total += term(a->attr, in(a, first)[at], k == label, iou, &slope);
                if (dlogits)
                    dlogits[at] = (real)(scale * slope);
            }
        }
    }
    return total;
}

static int prepare_class(dg_prepare *p)
{
    p->workspace_bytes = (size_t)p->t[DG_CLASS_LOSS_LOGITS].shape.d[1] * sizeof(int32_t);
    return 0;
}

static int prepare_class_grad(dg_prepare *p)
{
    p->workspace_bytes = (size_t)p->t[DG_CLASS_LOSS_GRAD_LOGITS].shape.d[1] * sizeof(int32_t);
    return 0;
}

static int class_loss(const dg_args *a)
{
    out(a, DG_CLASS_LOSS_LOSS)[0] = (real)class_terms(a, DG_CLASS_LOSS_LOGITS, 0, NULL);
    return 0;
}

/* dloss logits labels query gt? iou? dn? -> dlogits */
static int class_loss_grad(const dg_args *a)
{
    class_terms(a, DG_CLASS_LOSS_GRAD_LOGITS, in(a, DG_CLASS_LOSS_GRAD_DLOSS)[0],
                out(a, DG_CLASS_LOSS_GRAD_DLOGITS));
    return 0;
}

DG_REF(box_loss, NULL, box_loss);
DG_REF(box_loss_grad, NULL, box_loss_grad);
DG_REF(class_loss, prepare_class, class_loss);
DG_REF(class_loss_grad, prepare_class_grad, class_loss_grad);
