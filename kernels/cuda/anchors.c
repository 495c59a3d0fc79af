/* anchors.c: twins of kernels/ref/anchors.c, which has the formulas; in double where a choice hangs
 * on a number. */
#include <detrgraph/heads.h>

#include "kernels/cuda/iou.h"

/* ---- anchor_grid ----------------------------------------------------------------------------- */

typedef struct grid_of_boxes {
    dg_anchor_attr f;
    const int32_t *size;
    real *boxes;
    int32_t *valid;
    int64_t batch, n;
} grid_of_boxes;

KERNEL(anchor_grid_kernel, grid_of_boxes)
{
    int64_t each = p->f.ratios * p->f.octaves;

    for (int64_t n = first(); n < p->n; n += step()) {
        int64_t i = n, l = 0;

        for (; i >= p->f.h[l] * p->f.w[l] * each; l++)
            i -= p->f.h[l] * p->f.w[l] * each;
        int64_t cell = i / each, shape = i % each, stride = p->f.stride[l];
        int64_t x = cell % p->f.w[l] * stride, y = cell / p->f.w[l] * stride;
        double octave = (double)(shape % p->f.octaves) / (double)p->f.octaves;
        double length = (double)stride * p->f.base * exp2(octave),
               root = sqrt(p->f.ratio[shape / p->f.octaves]);

        p->boxes[n * 4] = put((wide)x);
        p->boxes[n * 4 + 1] = put((wide)y);
        p->boxes[n * 4 + 2] = put((wide)(length / root));
        p->boxes[n * 4 + 3] = put((wide)(length * root));
        for (int64_t b = 0; b < p->batch; b++)
            p->valid[b * p->n + n] = y < p->size[b * 2] && x < p->size[b * 2 + 1];
    }
}

static int anchor_grid(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    grid_of_boxes p = { .f = *(const dg_anchor_attr *)a->attr,
                        .size = ints(a, DG_ANCHOR_GRID_SIZE),
                        .boxes = reals(a, DG_ANCHOR_GRID_BOXES),
                        .valid = ints(a, DG_ANCHOR_GRID_VALID),
                        .batch = dim(a, DG_ANCHOR_GRID_SIZE, 0),
                        .n = dim(a, DG_ANCHOR_GRID_BOXES, 0) };

    return LAUNCH(c, anchor_grid_kernel, grid_of(p.n), &p);
}

/* ---- delta_decode ---------------------------------------------------------------------------- */

typedef struct moves {
    const real *dy, *d, *box;
    real *y;   /* or dd */
    int64_t n; /* boxes */
    double centre_std, side_std, limit;
} moves;

DEVICE double bound(double x, double limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

/* A thread for a box and an axis. y may be d. */
KERNEL(decode_kernel, moves)
{
    for (int64_t i = first(); i < p->n * 2; i += step()) {
        int64_t at = i / 2 * 4 + i % 2;
        double side = (double)get(p->box[at + 2]), t = (double)get(p->d[at + 2]) * p->side_std;
        double centre = (double)get(p->box[at]) + (double)get(p->d[at]) * p->centre_std * side;

        p->y[at + 2] = put((wide)(side * (double)exp((wide)bound(t, p->limit))));
        p->y[at] = put((wide)centre);
    }
}

KERNEL(decode_grad_kernel, moves)
{
    for (int64_t i = first(); i < p->n * 2; i += step()) {
        int64_t at = i / 2 * 4 + i % 2;
        double side = (double)get(p->box[at + 2]), t = (double)get(p->d[at + 2]) * p->side_std;
        double by_side =
            (double)get(p->dy[at + 2]) * side * p->side_std * (double)exp((wide)bound(t, p->limit));
        bool clamped = t > p->limit || t < -p->limit;

        p->y[at] = put((wide)((double)get(p->dy[at]) * p->centre_std * side));
        p->y[at + 2] = put((wide)(clamped ? 0 : by_side));
    }
}

static moves moves_of(const dg_args *a, int d)
{
    const dg_delta_attr *f = (const dg_delta_attr *)a->attr;
    moves p = { .d = reals(a, d), .box = reals(a, d + 1), .y = reals(a, d + 2) };

    p.n = elements(a, d) / 4;
    p.centre_std = f->centre_std;
    p.side_std = f->side_std;
    p.limit = f->limit;
    return p;
}

static int delta_decode(const dg_cuda_call *c)
{
    moves p = moves_of(c->a, DG_DELTA_DECODE_D);

    return LAUNCH(c, decode_kernel, grid_of(p.n * 2), &p);
}

static int delta_decode_grad(const dg_cuda_call *c)
{
    moves p = moves_of(c->a, DG_DELTA_DECODE_GRAD_D);

    p.dy = reals(c->a, DG_DELTA_DECODE_GRAD_DY);
    return LAUNCH(c, decode_grad_kernel, grid_of(p.n * 2), &p);
}

/* ---- iou_assign ------------------------------------------------------------------------------ */

typedef struct overlaps {
    dg_assign_attr f;
    const real *boxes, *tboxes;
    const int32_t *valid, *count;
    int32_t *gt;
    double *best; /* [B,M] */
    int64_t batch, n, m;
    bool shared; /* boxes are those of all images */
} overlaps;

DEVICE int64_t objects_of(const int32_t *count, int64_t b, int64_t m)
{
    return count[b] < 0 ? 0 : count[b] < m ? count[b] : m;
}

/* Box i of image b; NULL: it does not take part. */
DEVICE const real *box_at(const overlaps *p, int64_t b, int64_t i)
{
    const real *box = p->boxes + (p->shared ? i : b * p->n + i) * 4;

    return (p->valid && !p->valid[b * p->n + i]) || !has_area(box) ? NULL : box;
}

/* A block for an object. Shared memory: BLOCK_BEST_BYTES. */
KERNEL(best_kernel, overlaps)
{
    int64_t k = block_id(), b = k / p->m;
    contender own = { 0, thread_id() };

    if (k % p->m < objects_of(p->count, b, p->m)) {
        sides object = sides_of(p->tboxes + k * 4);

        for (int64_t i = thread_id(); i < p->n; i += block_size()) {
            const real *box = box_at(p, b, i);

            if (!box)
                continue;
            sides s = sides_of(box);
            double iou = iou_of(&s, &object);

            own.value = iou > own.value ? iou : own.value;
        }
    }
    own = block_best(own, (contender *)shared_memory());
    if (thread_id() == 0)
        p->best[k] = own.value;
}

DEVICE int32_t object_of(const overlaps *p, int64_t b, const real *box)
{
    int64_t count = objects_of(p->count, b, p->m);
    const double *best = p->best + b * p->m;
    int32_t most = -1, own = -1;
    double largest = 0;
    sides s = sides_of(box);

    for (int64_t j = 0; j < count; j++) {
        sides object = sides_of(p->tboxes + (b * p->m + j) * 4);
        double iou = iou_of(&s, &object);

        if (most < 0 || iou > largest) {
            most = (int32_t)j;
            largest = iou;
        }
        if (best[j] >= p->f.low_quality && iou >= best[j] - p->f.tie)
            own = (int32_t)j;
    }
    if (own >= 0 || (most >= 0 && largest >= p->f.positive))
        return own >= 0 ? own : most;
    return largest < p->f.negative ? DG_ASSIGNED_NONE : DG_ASSIGNED_VOID;
}

KERNEL(assign_kernel, overlaps)
{
    for (int64_t k = first(); k < p->batch * p->n; k += step()) {
        const real *box = box_at(p, k / p->n, k % p->n);
        int32_t gt = DG_ASSIGNED_VOID;

        if (p->f.own_rows && k % p->n < p->m)
            gt = k % p->n < objects_of(p->count, k / p->n, p->m) ? (int32_t)(k % p->n) : gt;
        else if (box)
            gt = object_of(p, k / p->n, box);
        p->gt[k] = gt;
    }
}

static int prepare_iou(dg_prepare *p)
{
    const dg_shape *t = &p->t[DG_IOU_ASSIGN_TBOXES].shape;

    p->workspace_bytes = (size_t)(t->d[0] * t->d[1]) * sizeof(double);
    return 0;
}

static int iou_assign(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    overlaps p = { .f = *(const dg_assign_attr *)a->attr,
                   .boxes = reals(a, DG_IOU_ASSIGN_BOXES),
                   .tboxes = reals(a, DG_IOU_ASSIGN_TBOXES),
                   .valid = ints(a, DG_IOU_ASSIGN_VALID),
                   .count = ints(a, DG_IOU_ASSIGN_COUNT),
                   .gt = ints(a, DG_IOU_ASSIGN_GT),
                   .best = (double *)a->workspace,
                   .batch = dim(a, DG_IOU_ASSIGN_GT, 0),
                   .n = dim(a, DG_IOU_ASSIGN_GT, 1),
                   .m = dim(a, DG_IOU_ASSIGN_TBOXES, 1),
                   .shared = a->t[DG_IOU_ASSIGN_BOXES].shape.rank == 2 };
    dg_cuda_grid g = { p.batch * p.m, DG_CUDA_THREADS, BLOCK_BEST_BYTES };
    int rc = LAUNCH(c, best_kernel, g, &p);

    return rc ? rc : LAUNCH(c, assign_kernel, grid_of(p.batch * p.n), &p);
}

/* ---- atss_assign ----------------------------------------------------------------------------- */

typedef struct thresholds {
    dg_atss_attr f;
    const real *boxes, *tboxes;
    const int32_t *valid, *count;
    int32_t *gt, *list; /* list: candidates [B,M,levels*nearest] */
    real *threshold, *centerness;
    int64_t batch, n, m;
} thresholds;

/* The next box of begin..end-1 by distance after `last`, for every thread. Values are minus
 * distances. */
DEVICE contender next_nearest(const thresholds *p, int64_t k, int64_t begin, int64_t end,
                              contender last, contender *shared)
{
    const int32_t *valid = p->valid + k / p->m * p->n;
    const real *object = p->tboxes + k * 4;
    contender own = { 0, -1 };

    for (int64_t i = begin + thread_id(); i < end; i += block_size()) {
        double x = (double)get(p->boxes[i * 4]) - (double)get(object[0]),
               y = (double)get(p->boxes[i * 4 + 1]) - (double)get(object[1]);
        contender here = { -(x * x + y * y), (int32_t)i };
        bool after = last.of < 0 || here.value < last.value ||
                     (here.value == last.value && here.of > last.of);

        if (valid[i] && after)
            own = better_of(own, here);
    }
    return block_best(own, shared);
}

/* A block for an object. Shared memory: BLOCK_BEST_BYTES. */
KERNEL(candidates_kernel, thresholds)
{
    contender *shared = (contender *)shared_memory();
    int64_t k = block_id(), each = p->f.n_levels * p->f.nearest, n = 0, begin = 0;
    int32_t *list = p->list + k * each;
    bool object = k % p->m < objects_of(p->count, k / p->m, p->m);

    for (int64_t l = 0; object && l < p->f.n_levels; begin += p->f.n[l++]) {
        contender last = { 0, -1 };

        for (int64_t i = 0; i < p->f.nearest; i++) {
            last = next_nearest(p, k, begin, begin + p->f.n[l], last, shared);
            if (last.of < 0)
                break;
            if (thread_id() == 0)
                list[n] = last.of;
            n++;
        }
    }
    if (thread_id())
        return;
    sides o = sides_of(p->tboxes + k * 4);
    double mean = 0, square = 0;

    for (int64_t i = n; i < each; i++)
        list[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        sides s = sides_of(p->boxes + (int64_t)list[i] * 4);

        mean += iou_of(&s, &o) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        sides s = sides_of(p->boxes + (int64_t)list[i] * 4);
        double d = iou_of(&s, &o) - mean;

        square += d * d;
    }
    p->threshold[k] = put((wide)(!object ? 0 : n < 2 ? 2 : mean + sqrt(square / (double)(n - 1))));
}

DEVICE double lesser(double x, double y)
{
    return x < y ? x : y;
}

DEVICE double greater(double x, double y)
{
    return x < y ? y : x;
}

/* Object j of the image takes its candidate i, unless another one overlaps it more. */
DEVICE void claim(const thresholds *p, int64_t b, int64_t j, int64_t i)
{
    int64_t k = b * p->m + j, each = p->f.n_levels * p->f.nearest;
    int32_t at = p->list[k * each + i], other = at < 0 ? -1 : p->gt[b * p->n + at];

    if (at < 0)
        return;
    const real *box = p->boxes + (int64_t)at * 4;
    sides s = sides_of(box), o = sides_of(p->tboxes + k * 4);
    double iou = iou_of(&s, &o), x = (double)get(box[0]), y = (double)get(box[1]);
    double l = x - o.x0, t = y - o.y0, r = o.x1 - x, d = o.y1 - y;

    if (!(iou >= (double)get(p->threshold[k])) || !(lesser(lesser(l, r), lesser(t, d)) > 0.01))
        return;
    if (other >= 0) {
        sides its = sides_of(p->tboxes + (b * p->m + other) * 4);

        if (!(iou > iou_of(&s, &its)))
            return;
    }
    p->gt[b * p->n + at] = (int32_t)j;
    p->centerness[b * p->n + at] =
        put((wide)sqrt(lesser(l, r) / greater(l, r) * (lesser(t, d) / greater(t, d))));
}

/* A block for an image: its objects one after another. */
KERNEL(claim_kernel, thresholds)
{
    int64_t b = block_id();

    for (int64_t i = b * p->n + thread_id(); i < (b + 1) * p->n; i += block_size()) {
        p->gt[i] = p->valid[i] ? DG_ASSIGNED_NONE : DG_ASSIGNED_VOID;
        p->centerness[i] = put(0);
    }
    barrier();
    for (int64_t j = 0; j < objects_of(p->count, b, p->m); j++) {
        for (int64_t i = thread_id(); i < p->f.n_levels * p->f.nearest; i += block_size())
            claim(p, b, j, i);
        barrier();
    }
}

static int prepare_atss(dg_prepare *p)
{
    const dg_atss_attr *f = (const dg_atss_attr *)p->attr;
    const dg_shape *t = &p->t[DG_ATSS_ASSIGN_TBOXES].shape;

    p->workspace_bytes = (size_t)(t->d[0] * t->d[1] * f->n_levels * f->nearest) * sizeof(int32_t);
    return 0;
}

static int atss_assign(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    thresholds p = { .f = *(const dg_atss_attr *)a->attr,
                     .boxes = reals(a, DG_ATSS_ASSIGN_BOXES),
                     .tboxes = reals(a, DG_ATSS_ASSIGN_TBOXES),
                     .valid = ints(a, DG_ATSS_ASSIGN_VALID),
                     .count = ints(a, DG_ATSS_ASSIGN_COUNT),
                     .gt = ints(a, DG_ATSS_ASSIGN_GT),
                     .list = (int32_t *)a->workspace,
                     .threshold = reals(a, DG_ATSS_ASSIGN_THRESHOLD),
                     .centerness = reals(a, DG_ATSS_ASSIGN_CENTERNESS),
                     .batch = dim(a, DG_ATSS_ASSIGN_GT, 0),
                     .n = dim(a, DG_ATSS_ASSIGN_GT, 1),
                     .m = dim(a, DG_ATSS_ASSIGN_TBOXES, 1) };
    dg_cuda_grid objects = { p.batch * p.m, DG_CUDA_THREADS, BLOCK_BEST_BYTES },
                 images = { p.batch, DG_CUDA_THREADS, 0 };
    int rc = LAUNCH(c, candidates_kernel, objects, &p);

    return rc ? rc : LAUNCH(c, claim_kernel, images, &p);
}

DG_CUDA(anchor_grid, NULL, anchor_grid);
DG_CUDA(delta_decode, NULL, delta_decode);
DG_CUDA(delta_decode_grad, NULL, delta_decode_grad);
DG_CUDA(iou_assign, prepare_iou, iou_assign);
DG_CUDA(atss_assign, prepare_atss, atss_assign);
