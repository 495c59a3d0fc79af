/* attention.c: twins of kernels/ref/attention.c, which has the formulas.
 *
 * Softmax: a warp for a row. Attention: a warp for a row of a head. The warps of a block walk over
 * the columns together, a tile of 32 at a time in shared memory. First a lane has a column (scores,
 * probabilities), then it has channels (sums of products with them). Forward, sums are rescaled
 * when a tile raises the maximum, so scores are computed once. Backward runs twice over the pairs:
 * for dq with a warp for a row, for dk and dv with a warp for a column. */
#include "kernels/cuda/device.h"

enum { TILE = DG_CUDA_WARP };

typedef struct softmax_rows {
    const real *x, *dy; /* softmax_grad: x is its y */
    real *y;
    int64_t rows, d;
} softmax_rows;

KERNEL(softmax_kernel, softmax_rows)
{
    for (int64_t r = first() / DG_CUDA_WARP; r < p->rows; r += step() / DG_CUDA_WARP) {
        const real *x = p->x + r * p->d;
        wide most = minus_infinity(), sum = 0;

        for (int64_t k = lane_id(); k < p->d; k += DG_CUDA_WARP)
            most = larger(get(x[k]), most);
        most = warp_max(most);
        for (int64_t k = lane_id(); k < p->d; k += DG_CUDA_WARP)
            sum += exp(get(x[k]) - most);
        sum = warp_sum(sum);
        for (int64_t k = lane_id(); k < p->d; k += DG_CUDA_WARP)
            p->y[r * p->d + k] = put(exp(get(x[k]) - most) / sum);
    }
}

static int softmax(const dg_cuda_call *c)
{
    softmax_rows p = { .x = reals(c->a, DG_SOFTMAX_X),
                       .y = reals(c->a, DG_SOFTMAX_Y),
                       .rows = rows(c->a, DG_SOFTMAX_X),
                       .d = width(c->a, DG_SOFTMAX_X) };

    return LAUNCH(c, softmax_kernel, grid_of_warps(p.rows), &p);
}

KERNEL(softmax_grad_kernel, softmax_rows)
{
    for (int64_t r = first() / DG_CUDA_WARP; r < p->rows; r += step() / DG_CUDA_WARP) {
        const real *dy = p->dy + r * p->d, *y = p->x + r * p->d;
        wide dot = 0;

        for (int64_t k = lane_id(); k < p->d; k += DG_CUDA_WARP)
            dot += get(dy[k]) * get(y[k]);
        dot = warp_sum(dot);
        for (int64_t k = lane_id(); k < p->d; k += DG_CUDA_WARP)
            p->y[r * p->d + k] = put(get(y[k]) * (get(dy[k]) - dot));
    }
}

static int softmax_grad(const dg_cuda_call *c)
{
    softmax_rows p = { .x = reals(c->a, DG_SOFTMAX_GRAD_Y),
                       .dy = reals(c->a, DG_SOFTMAX_GRAD_DY),
                       .y = reals(c->a, DG_SOFTMAX_GRAD_DX),
                       .rows = rows(c->a, DG_SOFTMAX_GRAD_DY),
                       .d = width(c->a, DG_SOFTMAX_GRAD_DY) };

    return LAUNCH(c, softmax_grad_kernel, grid_of_warps(p.rows), &p);
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attention {
    const real *q, *k, *v, *y, *dy;
    const int32_t *dn; /* NULL: no mask */
    real *out, *dq, *dk, *dv;
    wide *lse, *own; /* own [B,heads,N]: dy . y of each row */
    const wide *given_lse;
    int64_t batch, n, s, width, heads, d, capacity;
    double scale;
} attention;

DEVICE bool is_void(const attention *p, int64_t n)
{
    return p->dn && n >= p->dn[2] && n < p->capacity;
}

DEVICE bool sees(const attention *p, int64_t row, int64_t column)
{
    if (!p->dn || (column >= p->capacity && !is_void(p, row)))
        return true;
    return row < p->dn[2] && column < p->dn[2] && row / p->dn[3] == column / p->dn[3];
}

/* Offset of row n of a head = b*heads + h, in a tensor of `rows` rows per image. */
DEVICE int64_t at_row(const attention *p, int64_t head, int64_t rows, int64_t n)
{
    return (head / p->heads * rows + n) * p->width + head % p->heads * p->d;
}

/* Rows of two tensors to shared memory, d + 1 apart: lanes that read one channel of 32 rows then
 * read from 32 banks. Rows past `rows` become zeros. */
DEVICE void load_tile(const attention *p, const real *a, const real *b, int64_t head, int64_t rows,
                      int64_t from, wide *to_a, wide *to_b)
{
    for (int64_t i = thread_id(); i < TILE * p->d; i += block_size()) {
        int64_t row = i / p->d, k = i % p->d, at = at_row(p, head, rows, from + row) + k;
        bool inside = from + row < rows;

        to_a[row * (p->d + 1) + k] = inside ? get(a[at]) : 0;
        to_b[row * (p->d + 1) + k] = inside ? get(b[at]) : 0;
    }
}

DEVICE wide dot(const wide *a, const wide *b, int64_t d)
{
    wide sum = 0;

    for (int64_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

/* to[i] = to[i] * keep + sum over the tile of the lanes' weights times rows of the tile. weights:
 * TILE numbers of the warp, free again after the next barrier. */
DEVICE void add_products(const attention *p, wide weight, wide keep, const wide *tile,
                         wide *weights, wide *to)
{
    weights[lane_id()] = weight;
    warp_barrier();
    for (int64_t i = lane_id(); i < p->d; i += DG_CUDA_WARP) {
        wide sum = to[i] * keep;

        for (int j = 0; j < TILE; j++)
            sum += weights[j] * tile[j * (p->d + 1) + i];
        to[i] = sum;
    }
}

/* Where a warp's own rows begin behind the tiles. */
DEVICE int64_t own_place(const attention *p)
{
    return warp_id() * (4 * p->d + 2 * TILE);
}

/* Shared memory: two tiles, then for each warp two rows of its own, two rows of sums and two rows
 * of weights. */
static size_t shared_bytes(int64_t d, int warps)
{
    return (size_t)(2 * TILE * (d + 1) + warps * (4 * d + 2 * TILE)) * sizeof(wide);
}

/* Rows, or columns, of a block: one for each warp. */
DEVICE int64_t block_rows(void)
{
    return block_size() / DG_CUDA_WARP;
}

KERNEL(attention_kernel, attention)
{
    wide *tile_k = (wide *)shared_memory(), *tile_v = tile_k + TILE * (p->d + 1);
    wide *q = tile_v + TILE * (p->d + 1) + own_place(p), *sum = q + 2 * p->d;
    int64_t blocks = parts(p->n, block_rows()), head = block_id() / blocks;
    int64_t n = block_id() % blocks * block_rows() + warp_id();
    wide most = minus_infinity(), total = 0;

    for (int64_t i = lane_id(); i < p->d; i += DG_CUDA_WARP) {
        q[i] = n < p->n ? get(p->q[at_row(p, head, p->n, n) + i]) : 0;
        sum[i] = 0;
    }
    for (int64_t s0 = 0; s0 < p->s; s0 += TILE) {
        int64_t s = s0 + lane_id();
        wide score = minus_infinity(), raised, keep, weight;

        barrier();
        load_tile(p, p->k, p->v, head, p->s, s0, tile_k, tile_v);
        barrier();
        if (s < p->s && n < p->n && !is_void(p, n) && sees(p, n, s))
            score = dot(q, tile_k + lane_id() * (p->d + 1), p->d) * (wide)p->scale;
        raised = larger(warp_max(score), most);
        if (raised == minus_infinity())
            continue; /* for all lanes: no column of this tile, nor one before, is seen */
        keep = exp(most - raised);
        weight = exp(score - raised);
        most = raised;
        total = total * keep + warp_sum(weight);
        add_products(p, weight, keep, tile_v, sum + 2 * p->d, sum);
    }
    for (int64_t i = lane_id(); i < p->d && n < p->n; i += DG_CUDA_WARP)
        p->out[at_row(p, head, p->n, n) + i] = put(total > 0 ? sum[i] / total : 0);
    if (lane_id() == 0 && n < p->n)
        p->lse[head * p->n + n] = total > 0 ? most + log(total) : 0;
}

/* q is operand i, k and v follow. */
static attention attention_of(const dg_args *a, int i)
{
    const attention_attr *f = (const attention_attr *)a->attr;
    attention p = { .q = reals(a, i), .k = reals(a, i + 1), .v = reals(a, i + 2) };

    p.batch = dim(a, i, 0);
    p.n = dim(a, i, 1);
    p.s = dim(a, i + 1, 1);
    p.width = dim(a, i, 2);
    p.heads = f->heads;
    p.d = p.width / f->heads;
    p.capacity = f->capacity;
    p.scale = 1 / sqrt((double)p.d);
    return p;
}

/* Runs a kernel with a warp for each of n rows (or columns) of every head: as many warps in a block
 * as its shared memory allows, which changes no number. */
static int enqueue_heads(const dg_cuda_call *c, dg_cuda_function f, const attention *p, int64_t n)
{
    int warps = DG_CUDA_THREADS / DG_CUDA_WARP;
    dg_cuda_grid g;

    while (warps > 1 && shared_bytes(p->d, warps) > c->queue->shared_limit)
        warps /= 2;
    g.blocks = p->batch * p->heads * parts(n, warps);
    g.threads = warps * DG_CUDA_WARP;
    g.shared = shared_bytes(p->d, warps);
    return g.shared > c->queue->shared_limit ? -DG_EUNSUPPORTED : LAUNCH(c, f, g, p);
}

static int run_attention(const dg_cuda_call *c)
{
    attention p = attention_of(c->a, DG_ATTENTION_Q);

    p.dn = ints(c->a, DG_ATTENTION_DN);
    p.out = reals(c->a, DG_ATTENTION_Y);
    p.lse = wides(c->a, DG_ATTENTION_LSE);
    return enqueue_heads(c, (dg_cuda_function)attention_kernel, &p, p.n);
}

/* ---- its gradient ---------------------------------------------------------------------------- */

/* A warp for a row: own, then dq = sum over columns of g k. */
KERNEL(rows_kernel, attention)
{
    wide *tile_k = (wide *)shared_memory(), *tile_v = tile_k + TILE * (p->d + 1);
    wide *q = tile_v + TILE * (p->d + 1) + own_place(p), *dy = q + p->d, *dq = dy + p->d;
    int64_t blocks = parts(p->n, block_rows()), head = block_id() / blocks;
    int64_t n = block_id() % blocks * block_rows() + warp_id(), at = at_row(p, head, p->n, n);
    wide own = 0, lse = n < p->n ? p->given_lse[head * p->n + n] : 0;

    for (int64_t i = lane_id(); i < p->d; i += DG_CUDA_WARP) {
        q[i] = n < p->n ? get(p->q[at + i]) : 0;
        dy[i] = n < p->n ? get(p->dy[at + i]) : 0;
        dq[i] = 0;
        own += n < p->n ? dy[i] * get(p->y[at + i]) : 0;
    }
    own = warp_sum(own);
    if (lane_id() == 0 && n < p->n)
        p->own[head * p->n + n] = own;
    for (int64_t s0 = 0; s0 < p->s; s0 += TILE) {
        int64_t s = s0 + lane_id();
        const wide *k = tile_k + lane_id() * (p->d + 1), *v = tile_v + lane_id() * (p->d + 1);
        wide g = 0;

        barrier();
        load_tile(p, p->k, p->v, head, p->s, s0, tile_k, tile_v);
        barrier();
        if (s < p->s && n < p->n && !is_void(p, n) && sees(p, n, s))
            g = exp(dot(q, k, p->d) * (wide)p->scale - lse) * (dot(dy, v, p->d) - own) *
                (wide)p->scale;
        add_products(p, g, 1, tile_k, dq + 2 * p->d, dq);
    }
    for (int64_t i = lane_id(); i < p->d && n < p->n; i += DG_CUDA_WARP)
        p->dq[at + i] = put(dq[i]);
}

/* A warp for a column: dk = sum over rows of g q, dv = sum over rows of p dy. */
KERNEL(columns_kernel, attention)
{
    wide *tile_q = (wide *)shared_memory(), *tile_dy = tile_q + TILE * (p->d + 1);
    wide *k = tile_dy + TILE * (p->d + 1) + own_place(p), *v = k + p->d, *dk = v + p->d,
         *dv = dk + p->d;
    int64_t blocks = parts(p->s, block_rows()), head = block_id() / blocks;
    int64_t s = block_id() % blocks * block_rows() + warp_id(), at = at_row(p, head, p->s, s);

    for (int64_t i = lane_id(); i < p->d; i += DG_CUDA_WARP) {
        k[i] = s < p->s ? get(p->k[at + i]) : 0;
        v[i] = s < p->s ? get(p->v[at + i]) : 0;
        dk[i] = dv[i] = 0;
    }
    for (int64_t n0 = 0; n0 < p->n; n0 += TILE) {
        int64_t n = n0 + lane_id();
        const wide *q = tile_q + lane_id() * (p->d + 1), *dy = tile_dy + lane_id() * (p->d + 1);
        wide share = 0, g = 0;

        barrier();
        load_tile(p, p->q, p->dy, head, p->n, n0, tile_q, tile_dy);
        barrier();
        if (s < p->s && n < p->n && !is_void(p, n) && sees(p, n, s)) {
            share = exp(dot(q, k, p->d) * (wide)p->scale - p->given_lse[head * p->n + n]);
            g = share * (dot(dy, v, p->d) - p->own[head * p->n + n]) * (wide)p->scale;
        }
        add_products(p, g, 1, tile_q, dv + p->d, dk);
        add_products(p, share, 1, tile_dy, dv + p->d + TILE, dv);
    }
    for (int64_t i = lane_id(); i < p->d && s < p->s; i += DG_CUDA_WARP) {
        p->dk[at + i] = put(dk[i]);
        p->dv[at + i] = put(dv[i]);
    }
}

/* Workspace: own. */
static int prepare_grad(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)dg_shape_elements(p->t[DG_ATTENTION_GRAD_LSE].shape) * sizeof(wide);
    return 0;
}

static int attention_grad(const dg_cuda_call *c)
{
    attention p = attention_of(c->a, DG_ATTENTION_GRAD_Q);
    int rc;

    p.dy = reals(c->a, DG_ATTENTION_GRAD_DY);
    p.y = reals(c->a, DG_ATTENTION_GRAD_Y);
    p.given_lse = wides(c->a, DG_ATTENTION_GRAD_LSE);
    p.dn = ints(c->a, DG_ATTENTION_GRAD_DN);
    p.dq = reals(c->a, DG_ATTENTION_GRAD_DQ);
    p.dk = reals(c->a, DG_ATTENTION_GRAD_DK);
    p.dv = reals(c->a, DG_ATTENTION_GRAD_DV);
    p.own = (wide *)c->a->workspace;
    rc = enqueue_heads(c, (dg_cuda_function)rows_kernel, &p, p.n);
    return rc ? rc : enqueue_heads(c, (dg_cuda_function)columns_kernel, &p, p.s);
}

DG_CUDA(softmax, NULL, softmax);
DG_CUDA(softmax_grad, NULL, softmax_grad);
DG_CUDA(attention, NULL, run_attention);
DG_CUDA(attention_grad, prepare_grad, attention_grad);
