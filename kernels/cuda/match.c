/* match.c: twins of kernels/ref/match.c, which has the formulas. The assignment is computed in
 * double with the reference's rules for ties, so that every device finds the same one. A block has
 * an image: one warp, or several where there may be many objects. Its threads share the columns
 * (thread t of n has columns t, t + n, ...) and find the nearest one together. */
#include "kernels/cuda/box.h"

/* ---- cost ------------------------------------------------------------------------------------ */

typedef struct costs {
    const real *logits, *boxes, *targets;
    const int32_t *labels, *count;
    real *cost;
    int64_t batch, q, m, c;
    double class_weight, l1_weight, giou_weight, alpha, gamma, eps;
} costs;

DEVICE wide power(wide x, double y)
{
    return y == 2 ? x * x : pow(x, (wide)y);
}

/* p and 1 - p are computed apart: near 1 a difference has no digits. */
DEVICE wide class_cost(const costs *p, wide logit)
{
    wide yes = 1 / (1 + exp(-logit)), no = 1 / (1 + exp(logit)), eps = (wide)p->eps;
    wide soft = log1p(exp(-fabs(logit)));
    wide positive = eps > 0 ? -log(yes + eps) : (logit < 0 ? -logit : 0) + soft,
         negative = eps > 0 ? -log(no + eps) : (logit > 0 ? logit : 0) + soft;

    return (wide)p->alpha * power(no, p->gamma) * positive -
           (wide)(1 - p->alpha) * power(yes, p->gamma) * negative;
}

KERNEL_MANY(cost_kernel, costs)
{
    for (int64_t n = first(); n < p->batch * p->m * p->q; n += step()) {
        int64_t row = (uint32_t)n / (uint32_t)p->q, i = (uint32_t)n % (uint32_t)p->q;
        int64_t b = (uint32_t)row / (uint32_t)p->m, query = b * p->q + i;
        const real *box = p->boxes + query * 4, *target = p->targets + row * 4;
        int32_t label = p->labels[row];
        wide l1 = 0, kind = 0;

        if (row % p->m >= p->count[b]) {
            p->cost[n] = put(0);
            continue;
        }
        if (label >= 0 && label < p->c)
            kind = class_cost(p, get(p->logits[query * p->c + label]));
        for (int k = 0; k < 4; k++)
            l1 += fabs(get(box[k]) - get(target[k]));
        p->cost[n] = put((wide)p->class_weight * kind + (wide)p->l1_weight * l1 -
                         (wide)(p->giou_weight * overlap_of(box, target).giou));
    }
}

static int match_cost(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const match_attr *f = (const match_attr *)a->attr;
    costs p = { .logits = reals(a, DG_MATCH_COST_LOGITS),
                .boxes = reals(a, DG_MATCH_COST_BOXES),
                .targets = reals(a, DG_MATCH_COST_TBOXES),
                .labels = ints(a, DG_MATCH_COST_LABELS),
                .count = ints(a, DG_MATCH_COST_COUNT),
                .cost = reals(a, DG_MATCH_COST_COST),
                .batch = dim(a, DG_MATCH_COST_LOGITS, 0),
                .q = dim(a, DG_MATCH_COST_LOGITS, 1),
                .m = dim(a, DG_MATCH_COST_LABELS, 1),
                .c = dim(a, DG_MATCH_COST_LOGITS, 2),
                .class_weight = f->class_weight,
                .l1_weight = f->l1_weight,
                .giou_weight = f->giou_weight,
                .alpha = f->alpha,
                .gamma = f->gamma,
                .eps = f->eps };

    return LAUNCH_MANY(c, cost_kernel, grid_of(p.batch * p.m * p.q), &p);
}

/* ---- assignment ------------------------------------------------------------------------------ */

typedef struct matching {
    const real *cost;
    const int32_t *count;
    int32_t *query;
    char *space;          /* bytes_of(m + q) for each problem; NULL: in shared memory */
    int64_t groups, m, q; /* q: queries of a group */
} matching;

/* As in the reference. Of n threads, thread r mod n writes the row_ members of row r, thread c mod
 * n the column members of column c, but for links along a path, which thread 0 writes. */
typedef struct problem {
    int64_t rows, columns, row_step, column_step;
    const real *cost;
    double large;
    double *row_price, *column_price, *distance;
    int32_t *column_of, *row_of, *from;
    bool *row_done, *column_done;
} problem;

ANYWHERE int64_t bytes_of(int64_t both)
{
    return (both * 2 * (int64_t)(sizeof(double) + sizeof(int32_t) + sizeof(bool)) + 7) / 8 * 8;
}

DEVICE void lay_out(problem *p, char *space, int64_t both)
{
    p->row_price = (double *)(void *)space;
    p->column_price = p->row_price + p->rows;
    p->distance = p->row_price + both;
    p->column_of = (int32_t *)(p->row_price + 2 * both);
    p->row_of = p->column_of + p->rows;
    p->from = p->column_of + both;
    p->row_done = (bool *)(p->column_of + 2 * both);
    p->column_done = p->row_done + p->rows;
}

/* What a warp tells the others of its block: shared memory begins with one for each warp. */
typedef struct told {
    double number;
    int64_t column;
} told;
enum { TOLD_BYTES = DG_CUDA_THREADS / DG_CUDA_WARP * sizeof(told) };

/* The largest of the numbers of all threads. */
DEVICE double block_largest(double v)
{
    told *shared = (told *)shared_memory();

    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
        v = largest(v, shuffle_xor(v, mask));
    if (block_size() == DG_CUDA_WARP)
        return v;
    if (lane_id() == 0)
        shared[warp_id()].number = v;
    barrier();
    for (int w = 0; w < block_size() / DG_CUDA_WARP; w++)
        v = largest(v, shared[w].number);
    barrier();
    return v;
}

DEVICE double large_cost(const problem *p)
{
    double most = 0;

    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = thread_id(); c < p->columns; c += block_size()) {
            double size = fabs((double)get(p->cost[r * p->row_step + c * p->column_step]));

            most = size < (double)INFINITY && size > most ? size : most;
        }
    return (1 + block_largest(most)) * 1048576;
}

DEVICE double cost_at(const problem *p, int64_t row, int64_t column)
{
    double c = (double)get(p->cost[row * p->row_step + column * p->column_step]);

    return fabs(c) < (double)INFINITY ? c : p->large;
}

DEVICE void take_nearer(double *distance, int32_t *column, double d, int32_t c)
{
    if (d < *distance || (d == *distance && c < *column)) {
        *distance = d;
        *column = c;
    }
}

/* Every thread's nearest becomes the nearest of all; ties go to the lowest column. */
DEVICE void block_nearest(double *distance, int32_t *column)
{
    told *shared = (told *)shared_memory();

    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2) {
        double d = shuffle_xor(*distance, mask);
        int32_t c = shuffle_xor(*column, mask);

        take_nearer(distance, column, d, c);
    }
    if (block_size() == DG_CUDA_WARP)
        return;
    if (lane_id() == 0) {
        shared[warp_id()].number = *distance;
        shared[warp_id()].column = *column;
    }
    barrier();
    for (int w = 0; w < block_size() / DG_CUDA_WARP; w++)
        take_nearer(distance, column, shared[w].number, (int32_t)shared[w].column);
    barrier();
}

/* One step of the search from `row`: shortens the distances, finds the nearest column. */
DEVICE int64_t reach(const problem *p, int64_t row, double *length)
{
    double nearest_d = (double)INFINITY;
    int32_t nearest = INT32_MAX;

    for (int64_t c = thread_id(); c < p->columns; c += block_size()) {
        double d;

        if (p->column_done[c])
            continue;
        d = *length + cost_at(p, row, c) - p->row_price[row] - p->column_price[c];
        if (d < p->distance[c]) {
            p->distance[c] = d;
            p->from[c] = (int32_t)row;
        }
        if (p->distance[c] < nearest_d) {
            nearest_d = p->distance[c];
            nearest = (int32_t)c;
        }
    }
    block_nearest(&nearest_d, &nearest);
    *length = nearest_d;
    return nearest;
}

DEVICE int64_t shortest_path(const problem *p, int64_t row, double *length)
{
    int64_t nearest;

    for (int64_t r = thread_id(); r < p->rows; r += block_size())
        p->row_done[r] = false;
    for (int64_t c = thread_id(); c < p->columns; c += block_size()) {
        p->column_done[c] = false;
        p->distance[c] = (double)INFINITY;
    }
    *length = 0;
    for (;;) {
        if (row % block_size() == thread_id())
            p->row_done[row] = true;
        nearest = reach(p, row, length);
        if (nearest % block_size() == thread_id())
            p->column_done[nearest] = true;
        if (p->row_of[nearest] < 0)
            return nearest;
        row = p->row_of[nearest];
    }
}

/* The rows on the path to `column` move to the next column; thread 0 alone. */
DEVICE void move_rows(const problem *p, int64_t free_row, int64_t column)
{
    for (int64_t row = -1; row != free_row;) {
        int32_t next;

        row = p->from[column];
        p->row_of[column] = (int32_t)row;
        next = p->column_of[row];
        p->column_of[row] = (int32_t)column;
        column = next;
    }
}

DEVICE void assign(const problem *p)
{
    for (int64_t r = thread_id(); r < p->rows; r += block_size()) {
        p->row_price[r] = 0;
        p->column_of[r] = -1;
    }
    for (int64_t c = thread_id(); c < p->columns; c += block_size()) {
        p->column_price[c] = 0;
        p->row_of[c] = -1;
    }
    barrier();
    for (int64_t free_row = 0; free_row < p->rows; free_row++) {
        double length;
        int64_t column = shortest_path(p, free_row, &length);

        barrier(); /* distances and flags of other threads */
        for (int64_t r = thread_id(); r < p->rows; r += block_size())
            if (p->row_done[r])
                p->row_price[r] += length - (r == free_row ? 0 : p->distance[p->column_of[r]]);
        for (int64_t c = thread_id(); c < p->columns; c += block_size())
            if (p->column_done[c])
                p->column_price[c] -= length - p->distance[c];
        barrier();
        if (thread_id() == 0)
            move_rows(p, free_row, column);
        barrier();
    }
}

/* A block for a group of an image. Shared memory: TOLD_BYTES, then the problem, if it fits. */
KERNEL_MANY(match_kernel, matching)
{
    int64_t n = block_id(), b = n / p->groups, group_first = n % p->groups * p->q,
            all = p->groups * p->q, count = p->count[b];
    int32_t *query = p->query + n * p->m;
    problem o;

    count = count < 0 ? 0 : count > p->m ? p->m : count;
    o.cost = p->cost + b * p->m * all + group_first;
    o.rows = count > p->q ? p->q : count; /* the shorter side */
    o.columns = count > p->q ? count : p->q;
    o.row_step = count > p->q ? 1 : all;
    o.column_step = count > p->q ? all : 1;
    lay_out(&o,
            p->space ? p->space + n * bytes_of(p->m + p->q) : (char *)shared_memory() + TOLD_BYTES,
            p->m + p->q);
    o.large = large_cost(&o);
    assign(&o);
    for (int64_t t = thread_id(); t < p->m; t += block_size()) {
        int32_t found = t >= count ? -1 : count > p->q ? o.row_of[t] : o.column_of[t];

        query[t] = found < 0 ? -1 : (int32_t)group_first + found;
    }
}

static int prepare(dg_prepare *p)
{
    const dg_shape *cost = &p->t[DG_MATCH_COST].shape;
    int64_t groups = ((const index_attr *)p->attr)->n;

    p->workspace_bytes = (size_t)(cost->d[0] * groups * bytes_of(cost->d[1] + cost->d[2] / groups));
    return 0;
}

static int match(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    matching p = { .cost = reals(a, DG_MATCH_COST),
                   .count = ints(a, DG_MATCH_COUNT),
                   .query = ints(a, DG_MATCH_QUERY),
                   .groups = ((const index_attr *)a->attr)->n,
                   .m = dim(a, DG_MATCH_COST, 1) };
    enum { FEW = 64, MANY_THREADS = 4 * DG_CUDA_WARP };
    dg_cuda_grid g = { dim(a, DG_MATCH_COST, 0) * p.groups,
                       p.m > FEW ? (int)MANY_THREADS : (int)DG_CUDA_WARP, 0 };

    p.q = dim(a, DG_MATCH_COST, 2) / p.groups;
    g.shared = TOLD_BYTES + (size_t)bytes_of(p.m + p.q);
    if (g.shared > c->queue->shared_limit) {
        p.space = (char *)a->workspace;
        g.shared = TOLD_BYTES;
    }
    return LAUNCH_MANY(c, match_kernel, g, &p);
}

DG_CUDA_JOINED(match_cost, NULL, match_cost, DG_JOIN_SIDE);
DG_CUDA_JOINED(match, prepare, match, DG_JOIN_SIDE);
