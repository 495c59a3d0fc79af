/* loss.c: twins of kernels/ref/loss.c, which has the formulas. A query looks for its pairs itself,
 * in their order, so that nothing is scattered. */
#include "kernels/cuda/box.h"
#include "kernels/cuda/total.h"

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Lists of pairs, P per image: of queries 0..q-1 and targets 0..m-1. */
typedef struct pairs {
    const int32_t *query, *gt; /* gt NULL: pair j belongs to target j */
    int64_t n, q, m;           /* n: P */
} pairs;

/* Target of pair b*P + j; -1: void. */
DEVICE int64_t target_of(const pairs *l, int64_t pair)
{
    int64_t slot = (uint32_t)pair % (uint32_t)l->n, q = l->query[pair];
    int64_t j = l->gt ? l->gt[pair] : slot;

    return q < 0 || q >= l->q || j < 0 || j >= l->m ? -1 : j;
}

/* q: operand whose axis 1 has the queries, m: the targets; query: the lists, gt? follows. */
static pairs pairs_of(const dg_args *a, int q, int m, int query)
{
    pairs l = { .query = ints(a, query), .gt = ints(a, query + 1) };

    l.n = dim(a, query, 1);
    l.q = dim(a, q, 1);
    l.m = dim(a, m, 1);
    return l;
}

/* ---- box_loss -------------------------------------------------------------------------------- */

typedef struct box_losses {
    pairs l;
    const real *boxes, *targets, *dl1, *dgiou;
    real *l1, *giou, *iou, *dboxes;
    int64_t batch;
} box_losses;

/* One block: there are some thousands of pairs. Shared memory: BLOCK_SUM_BYTES. */
KERNEL_MANY(box_loss_kernel, box_losses)
{
    wide l1 = 0, giou = 0;

    for (int64_t n = thread_id(); n < p->batch * p->l.n; n += block_size()) {
        int64_t b = n / p->l.n, j = target_of(&p->l, n);

        p->iou[n] = put(0);
        if (j < 0)
            continue;
        const real *box = p->boxes + (b * p->l.q + p->l.query[n]) * 4,
                   *target = p->targets + (b * p->l.m + j) * 4;
        overlap o = overlap_of(box, target);

        for (int k = 0; k < 4; k++)
            l1 += fabs(get(box[k]) - get(target[k]));
        giou += (wide)(1 - o.giou);
        p->iou[n] = put((wide)o.iou);
    }
    l1 = block_sum(l1, (wide *)shared_memory());
    giou = block_sum(giou, (wide *)shared_memory());
    if (thread_id() == 0) {
        *p->l1 = put(l1);
        *p->giou = put(giou);
    }
}

static int box_loss(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const dg_cuda_grid one = { 1, DG_CUDA_THREADS, BLOCK_SUM_BYTES };
    box_losses p = { .l = pairs_of(a, DG_BOX_LOSS_BOXES, DG_BOX_LOSS_TBOXES, DG_BOX_LOSS_QUERY),
                     .boxes = reals(a, DG_BOX_LOSS_BOXES),
                     .targets = reals(a, DG_BOX_LOSS_TBOXES),
                     .l1 = reals(a, DG_BOX_LOSS_L1),
                     .giou = reals(a, DG_BOX_LOSS_GIOU),
                     .iou = reals(a, DG_BOX_LOSS_IOU),
                     .batch = dim(a, DG_BOX_LOSS_BOXES, 0) };

    return LAUNCH_MANY(c, box_loss_kernel, one, &p);
}

DEVICE double share(double x, double y)
{
    return x > y ? 1 : x == y ? 0.5 : 0;
}

/* d (1 - GIoU) / d (centre, size) along an axis, 0 or 1. */
DEVICE void giou_slope(const overlap *o, int axis, double *centre, double *size)
{
    double across = axis ? o->inner_w : o->inner_h, hull = axis ? o->hull_w : o->hull_h;
    double other = axis ? o->a[2] - o->a[0] : o->a[3] - o->a[1], corner[2];
    double by_inner = o->both == 0 ? 0 : -1 / o->both;
    double by_both =
        (o->both == 0 ? 0 : o->inner / (o->both * o->both)) - (o->hull == 0 ? 0 : 1 / o->hull);
    double by_hull = o->hull == 0 ? 0 : o->both / (o->hull * o->hull);

    for (int end = 0; end < 2; end++) {
        double out = end ? 1 : -1; /* the direction in which this corner moves outwards */
        double own = end ? axis ? o->a[3] : o->a[2] : axis ? o->a[1] : o->a[0];
        double its = end ? axis ? o->b[3] : o->b[2] : axis ? o->b[1] : o->b[0];
        double inside = out * across * share(-out * own, -out * its);

        if (o->inner_w < 0 || o->inner_h < 0)
            inside = 0;
        corner[end] = by_inner * inside + by_both * (out * other - inside) +
                      by_hull * (out * hull * share(out * own, out * its));
    }
    *centre = corner[0] + corner[1];
    *size = 0.5 * (corner[1] - corner[0]);
}

/* A thread for a query and an axis: centre and size. */
KERNEL_MANY(box_loss_grad_kernel, box_losses)
{
    double dl1 = p->dl1 ? (double)get(*p->dl1) : 0, dgiou = p->dgiou ? (double)get(*p->dgiou) : 0;

    for (int64_t n = first(); n < p->batch * p->l.q * 2; n += step()) {
        int64_t b = n / 2 / p->l.q, at = n / 2 * 4;
        int axis = (int)(n % 2);
        wide sums[2] = { 0, 0 };

        for (int64_t pair = b * p->l.n; pair < (b + 1) * p->l.n; pair++) {
            int64_t j = target_of(&p->l, pair);

            if (j < 0 || p->l.query[pair] != n / 2 % p->l.q)
                continue;
            const real *box = p->boxes + at, *target = p->targets + (b * p->l.m + j) * 4;
            overlap o = overlap_of(box, target);
            double slope[2];

            giou_slope(&o, axis, &slope[0], &slope[1]);
            if (get(box[axis + 2]) < 0) /* it counts as 0 */
                slope[1] = 0;
            for (int k = 0; k < 2; k++) {
                wide x = get(box[axis + 2 * k]), y = get(target[axis + 2 * k]);

                sums[k] += (wide)(dl1 * (x > y   ? 1
                                         : x < y ? -1
                                                 : 0) +
                                  (p->dgiou ? dgiou * slope[k] : 0));
            }
        }
        p->dboxes[at + axis] = put(sums[0]);
        p->dboxes[at + axis + 2] = put(sums[1]);
    }
}

static int box_loss_grad(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    box_losses p = { .l = pairs_of(a, DG_BOX_LOSS_GRAD_BOXES, DG_BOX_LOSS_GRAD_TBOXES,
                                   DG_BOX_LOSS_GRAD_QUERY),
                     .boxes = reals(a, DG_BOX_LOSS_GRAD_BOXES),
                     .targets = reals(a, DG_BOX_LOSS_GRAD_TBOXES),
                     .dl1 = reals(a, DG_BOX_LOSS_GRAD_DL1),
                     .dgiou = reals(a, DG_BOX_LOSS_GRAD_DGIOU),
                     .dboxes = reals(a, DG_BOX_LOSS_GRAD_DBOXES),
                     .batch = dim(a, DG_BOX_LOSS_GRAD_BOXES, 0) };

    return LAUNCH_MANY(c, box_loss_grad_kernel, grid_of(p.batch * p.l.q * 2), &p);
}

/* ---- class_loss ------------------------------------------------------------------------------ */

typedef struct class_losses {
    pairs l;
    const real *logits, *iou, *dloss;
    const int32_t *labels, *dn;
    int32_t *pair; /* of each query; -1: none */
    double *parts;
    real *dlogits;
    int64_t batch, c, focal;
    double alpha, gamma;
} class_losses;

DEVICE wide power(wide x, double y)
{
    return y == 2 ? x * x : pow(x, (wide)y);
}

DEVICE wide bce(wide x, wide s)
{
    return (x > 0 ? x : 0) - x * s + log1p(exp(-fabs(x)));
}

/* Loss term of one logit, and its derivative in *slope. */
DEVICE wide term(const class_losses *p, wide x, bool y, wide iou, wide *slope)
{
    wide q = 1 / (1 + exp(-x)), s = y ? iou : 0, wrong, a, loss;

    if (p->focal == DG_CLASS_ALIGNED && y) {
        s = larger((wide)0.01, pow(q, (wide)p->alpha) * pow(iou, (wide)(1 - p->alpha)));
        *slope = q - s;
        return bce(x, s);
    }
    if (p->focal == DG_CLASS_VARIFOCAL) {
        wide weight = y ? s : (wide)p->alpha * power(q, p->gamma);

        *slope = weight * (q - s);
        return weight * bce(x, s);
    }
    if (p->focal == DG_CLASS_QUALITY) {
        wide off = fabs(q - s), weight = power(off, p->gamma);
        wide grown = p->gamma > 0 && off > 0 ? (wide)p->gamma * weight / off : 0;

        loss = bce(x, s);
        *slope = weight * (q - s) + grown * (q < s ? -1 : 1) * q * (1 / (1 + exp(x))) * loss;
        return weight * loss;
    }
    wrong = y ? 1 / (1 + exp(x)) : q;
    a = (wide)(p->focal == DG_CLASS_ALIGNED ? 1 : y ? p->alpha : 1 - p->alpha);
    loss = bce(x, (wide)y);
    *slope = a * power(wrong, p->gamma) * ((wide)p->gamma * (1 - wrong) * loss + wrong);
    *slope = y ? -*slope : *slope;
    return a * power(wrong, p->gamma) * loss;
}

/* A thread for a query: the last of its pairs counts. */
KERNEL_MANY(pairs_kernel, class_losses)
{
    for (int64_t n = first(); n < p->batch * p->l.q; n += step()) {
        int64_t b = n / p->l.q, pair = (b + 1) * p->l.n - 1;

        while (pair >= b * p->l.n && (p->l.query[pair] != n % p->l.q || target_of(&p->l, pair) < 0))
            pair--;
        p->pair[n] = pair < b * p->l.n ? -1 : (int32_t)pair;
    }
}

/* The term of logit n. */
DEVICE wide term_at(const class_losses *p, int64_t n, wide *slope)
{
    int64_t query = (uint32_t)n / (uint32_t)p->c, k = (uint32_t)n % (uint32_t)p->c;
    int64_t b = (uint32_t)query / (uint32_t)p->l.q, i = (uint32_t)query % (uint32_t)p->l.q;
    int32_t pair = p->pair[query];

    *slope = 0;
    if (p->dn && i >= p->dn[2])
        return 0;
    return term(p, get(p->logits[n]),
                pair >= 0 && p->labels[b * p->l.m + target_of(&p->l, pair)] == k,
                pair >= 0 && p->iou ? get(p->iou[pair]) : 0, slope);
}

/* Shared memory: BLOCK_SUM_BYTES. */
KERNEL_MANY(class_loss_kernel, class_losses)
{
    wide sum = 0, slope;

    for (int64_t n = first(); n < p->batch * p->l.q * p->c; n += step())
        sum += term_at(p, n, &slope);
    sum = block_sum(sum, (wide *)shared_memory());
    if (thread_id() == 0)
        p->parts[block_id()] = (double)sum;
}

KERNEL_MANY(class_loss_grad_kernel, class_losses)
{
    for (int64_t n = first(); n < p->batch * p->l.q * p->c; n += step()) {
        wide slope;

        (void)term_at(p, n, &slope);
        p->dlogits[n] = put(get(*p->dloss) * slope);
    }
}

/* Workspace: parts of the sum, then the pair of each query. logits is operand i. */
static int64_t parts_bytes(const dg_shape *logits)
{
    return grid_of_total(dg_shape_elements(*logits)).blocks * (int64_t)sizeof(double);
}

static int prepare_class_of(dg_prepare *p, int i)
{
    const dg_shape *logits = &p->t[i].shape;

    p->workspace_bytes =
        (size_t)parts_bytes(logits) + (size_t)(logits->d[0] * logits->d[1]) * sizeof(int32_t);
    return 0;
}

static int prepare_class(dg_prepare *p)
{
    return prepare_class_of(p, DG_CLASS_LOSS_LOGITS);
}

static int prepare_class_grad(dg_prepare *p)
{
    return prepare_class_of(p, DG_CLASS_LOSS_GRAD_LOGITS);
}

/* The operands of class_loss begin at i: logits labels query gt? iou? dn?. */
static class_losses class_losses_of(const dg_args *a, int i)
{
    const dg_class_loss_attr *f = (const dg_class_loss_attr *)a->attr;
    class_losses p = { .l = pairs_of(a, i, i + 1, i + 2), .logits = reals(a, i) };

    p.labels = ints(a, i + 1);
    p.iou = reals(a, i + 4);
    p.dn = ints(a, i + 5);
    p.batch = dim(a, i, 0);
    p.c = dim(a, i, 2);
    p.focal = f->focal;
    p.alpha = f->alpha;
    p.gamma = f->gamma;
    p.parts = (double *)a->workspace;
    p.pair = (int32_t *)((char *)a->workspace + parts_bytes(&a->t[i].shape));
    return p;
}

static int class_loss(const dg_cuda_call *c)
{
    class_losses p = class_losses_of(c->a, DG_CLASS_LOSS_LOGITS);
    dg_cuda_grid g = grid_of_total(elements(c->a, DG_CLASS_LOSS_LOGITS));
    int rc = LAUNCH_MANY(c, pairs_kernel, grid_of(p.batch * p.l.q), &p);

    rc = rc ? rc : LAUNCH_MANY(c, class_loss_kernel, g, &p);
    return rc ? rc : enqueue_total(c, p.parts, g.blocks, reals(c->a, DG_CLASS_LOSS_LOSS), false);
}

static int class_loss_grad(const dg_cuda_call *c)
{
    class_losses p = class_losses_of(c->a, DG_CLASS_LOSS_GRAD_LOGITS);
    int rc = LAUNCH_MANY(c, pairs_kernel, grid_of(p.batch * p.l.q), &p);

    p.dloss = reals(c->a, DG_CLASS_LOSS_GRAD_DLOSS);
    p.dlogits = reals(c->a, DG_CLASS_LOSS_GRAD_DLOGITS);
    return rc ? rc
              : LAUNCH_MANY(c, class_loss_grad_kernel,
                            grid_of(elements(c->a, DG_CLASS_LOSS_GRAD_LOGITS)), &p);
}

DG_CUDA_JOINED(box_loss, NULL, box_loss, DG_JOIN_SIDE);
DG_CUDA_JOINED(box_loss_grad, NULL, box_loss_grad, DG_JOIN_SIDE);
DG_CUDA_JOINED(class_loss, prepare_class, class_loss, DG_JOIN_SIDE);
DG_CUDA_JOINED(class_loss_grad, prepare_class_grad, class_loss_grad, DG_JOIN_SIDE);
