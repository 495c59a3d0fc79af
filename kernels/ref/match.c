/* match.c: assigns queries to targets.
 *
 * match_cost: with p = sigmoid(logit of the target's label)
 *     class = alpha (1-p)^gamma (-log(p + eps)) - (1-alpha) p^gamma (-log(1 - p + eps))
 *     cost[b,m,q] = class_weight class + l1_weight |cxcywh difference| - giou_weight GIoU
 * (Carion et al. 2020 with the focal class cost of Deformable DETR.) With eps 0, the logarithms are
 * those of the sigmoid, without overflow. Rows past an image's count are 0.
 *
 * match: for each image and each of n equal groups of its queries, the assignment of least total
 * cost, in double, by shortest augmenting paths (Jonker & Volgenant 1987, in the form of Crouse,
 * "On implementing 2D rectangular assignment algorithms", 2016). Ties go to the lowest column, so
 * that every backend finds the same assignment. A cost that is not finite is replaced by one larger
 * than any sum of finite ones: the search terminates, and uses that pair only if it must. */
#include <math.h>
#include <string.h>

#include "kernels/ref/box.h"

/* --- cost: logits [B,Q,C] boxes [B,Q,4] labels [B,M] tboxes [B,M,4] count [B] -> cost [B,M,Q] - */

static double power(double x, double y)
{
    return y == 2 ? x * x : pow(x, y);
}

/* -log sigmoid(x) */
static double surprise(double x)
{
    return (x < 0 ? -x : 0) + log1p(exp(-fabs(x)));
}

static double class_cost(double logit, const match_attr *f)
{
    bool exact = f->eps == 0;
    double p = 1 / (1 + exp(-logit));
    double positive = exact ? surprise(logit) : -log(p + f->eps);
    double negative = exact ? surprise(-logit) : -log(1 - p + f->eps);

    return f->alpha * power(1 - p, f->gamma) * positive -
           (1 - f->alpha) * power(p, f->gamma) * negative;
}

static int match_cost(const dg_args *a)
{
    const match_attr *f = a->attr;
    int64_t q = dim(a, DG_MATCH_COST_LOGITS, 1), c = dim(a, DG_MATCH_COST_LOGITS, 2),
            m = dim(a, DG_MATCH_COST_LABELS, 1);

    for (int64_t row = 0; row < dim(a, DG_MATCH_COST_LOGITS, 0) * m;
         row++) { /* row = b*M + target */
        int64_t b = row / m;
        int32_t label = in_i32(a, DG_MATCH_COST_LABELS)[row];
        const real *target = in(a, DG_MATCH_COST_TBOXES) + row * 4;

        for (int64_t i = 0; i < q; i++) {
            const real *box = in(a, DG_MATCH_COST_BOXES) + (b * q + i) * 4;
            double l1 = 0, class = 0;

            if (label >= 0 && label < c)
                class = class_cost(in(a, DG_MATCH_COST_LOGITS)[(b * q + i) * c + label], f);
            for (int k = 0; k < 4; k++)
                l1 += fabs((double)box[k] - target[k]);
            double cost = f->class_weight * class + f->l1_weight * l1 -
                          f->giou_weight * overlap_of(box, target).giou;

            out(a, DG_MATCH_COST_COST)[row * q + i] =
                row % m < in_i32(a, DG_MATCH_COST_COUNT)[b] ? (real)cost : 0;
        }
    }
    return 0;
}

/* ---- assignment: cost [B,M,n Q] count [B] -> query [B,n M] ----------------------------------- */

/* Rows are the shorter side: targets, unless there are more targets than queries. */
typedef struct problem {
    int64_t rows, columns;
    int64_t row_step, column_step; /* strides in cost, elements */
    const real *cost;
    double large;                                /* replaces costs that are not finite */
    double *row_price, *column_price, *distance; /* [rows], [columns], [columns] */
    int32_t *column_of, *row_of, *from;          /* [rows], [columns], [columns]; -1: free */
    bool *row_done, *column_done;
} problem;

static double cost_at(const problem *p, int64_t row, int64_t column)
{
    double c = p->cost[row * p->row_step + column * p->column_step];

    return isfinite(c) ? c : p->large;
}

static double large_cost(const problem *p)
{
    double most = 0;

    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < p->columns; c++) {
            double size = fabs((double)p->cost[r * p->row_step + c * p->column_step]);

            most = isfinite(size) && size > most ? size : most;
        }
    return (1 + most) * 0x1p20;
}

/* Dijkstra over reduced costs from a free row to the nearest free column, which it returns; *length
 * is the distance. from[c] is the row through which column c was reached. */
static int64_t shortest_path(problem *p, int64_t row, double *length)
{
    memset(p->row_done, 0, (size_t)p->rows * sizeof(bool));
    memset(p->column_done, 0, (size_t)p->columns * sizeof(bool));
    for (int64_t c = 0; c < p->columns; c++)
        p->distance[c] = INFINITY;
    *length = 0;
    for (;;) {
        int64_t nearest = -1;

        p->row_done[row] = true;
        for (int64_t c = 0; c < p->columns; c++) {
            if (p->column_done[c])
                continue;
            double d = *length + cost_at(p, row, c) - p->row_price[row] - p->column_price[c];

            if (d < p->distance[c]) {
                p->distance[c] = d;
                p->from[c] = (int32_t)row;
            }
            if (nearest < 0 || p->distance[c] < p->distance[nearest])
                nearest = c;
        }
        *length = p->distance[nearest];
        p->column_done[nearest] = true;
        if (p->row_of[nearest] < 0)
            return nearest;
        row = p->row_of[nearest];
    }
}

static void assign(problem *p)
{
    for (int64_t r = 0; r < p->rows; r++) {
        p->row_price[r] = 0;
        p->column_of[r] = -1;
    }
    for (int64_t c = 0; c < p->columns; c++) {
        p->column_price[c] = 0;
        p->row_of[c] = -1;
    }
    for (int64_t free = 0; free < p->rows; free++) {
        double length;
        int64_t column = shortest_path(p, free, &length);

        for (int64_t r = 0; r < p->rows; r++) /* prices keep reduced costs >= 0 */
            if (p->row_done[r])
                p->row_price[r] += length - (r == free ? 0 : p->distance[p->column_of[r]]);
        for (int64_t c = 0; c < p->columns; c++)
            if (p->column_done[c])
                p->column_price[c] -= length - p->distance[c];
        for (int64_t row = -1; row != free;) { /* each row on the path moves to the next column */
            row = p->from[column];
            p->row_of[column] = (int32_t)row;

            int32_t next = p->column_of[row];

            p->column_of[row] = (int32_t)column;
            column = next;
        }
    }
}

/* Workspace of a thread: prices and distances, links, flags. Either side may be the rows. */
static int64_t workspace_of(int64_t both)
{
    size_t bytes = 2 * (size_t)both * (sizeof(double) + sizeof(int32_t) + sizeof(bool));

    return (int64_t)(bytes + sizeof(double) - 1) / (int64_t)sizeof(double);
}

static int prepare(dg_prepare *p)
{
    const index_attr *f = p->attr;
    const dg_shape *cost = &p->t[DG_MATCH_COST].shape;

    p->workspace_bytes = (size_t)(p->threads > 1 ? p->threads : 1) *
                         (size_t)workspace_of(cost->d[1] + cost->d[2] / f->n) * sizeof(double);
    return 0;
}

static void lay_out(problem *p, double *workspace, int64_t both)
{
    p->row_price = workspace;
    p->column_price = p->row_price + p->rows;
    p->distance = p->row_price + both;
    p->column_of = (int32_t *)(p->row_price + 2 * both);
    p->row_of = p->column_of + p->rows;
    p->from = p->column_of + both;
    p->row_done = (bool *)(p->column_of + 2 * both);
    p->column_done = p->row_done + p->rows;
}

static void match_groups(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    int64_t n = ((const index_attr *)a->attr)->n, m = dim(a, DG_MATCH_COST, 1),
            all = dim(a, DG_MATCH_COST, 2), q = all / n;

    for (int64_t i = begin; i < end; i++) { /* i = b*n + group */
        int64_t first = i % n * q, count = in_i32(a, DG_MATCH_COUNT)[i / n];
        int32_t *query = out_i32(a, DG_MATCH_QUERY) + i * m;

        count = count < 0 ? 0 : count > m ? m : count;
        problem p = { count, q, all, 1, .cost = in(a, DG_MATCH_COST) + i / n * m * all + first };

        if (count > q)
            p = (problem){ q, count, 1, all, .cost = p.cost };
        lay_out(&p, (double *)a->workspace + thread * workspace_of(m + q), m + q);
        p.large = large_cost(&p);
        assign(&p);
        for (int64_t t = 0; t < m; t++) {
            int32_t found = t >= count ? -1 : count > q ? p.row_of[t] : p.column_of[t];

            query[t] = found < 0 ? -1 : (int32_t)first + found;
        }
    }
}

static int match(const dg_args *a)
{
    parallel(a, dim(a, DG_MATCH_COST, 0) * ((const index_attr *)a->attr)->n, match_groups);
    return 0;
}

DG_REF(match_cost, NULL, match_cost);
DG_REF(match, prepare, match);
