/* shape.c: twins of the first half of kernels/ref/shape.c: ops that move elements. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/layout.h"

/* y[at_y + place 1] = x[at_x + place 0] of n elements; x NULL: y becomes `value`. */
typedef struct move {
    const real *x;
    real *y;
    int64_t n, at_x, at_y;
    double value;
    layout l;
} move;

KERNEL_MANY(move_kernel, move)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[p->at_y + place(&p->l, 1, n)] = p->x[p->at_x + place(&p->l, 0, n)];
}

/* The same where y's axis before the last is the one that x has side by side: a block takes a tile
 * of both through shared memory, so that it reads and writes neighbours. Shared memory:
 * TILE_BYTES. */
enum { TILE = 32, TILE_BYTES = TILE * (TILE + 1) * sizeof(real) };
KERNEL(turn_kernel, move)
{
    real *shared = (real *)shared_memory();
    int outer = p->l.rank - 3;
    int64_t height = p->l.d[p->l.rank - 2], width = p->l.d[p->l.rank - 1];
    int64_t across = parts(width, TILE), tiles = parts(height, TILE) * across;
    int64_t image = block_id() / tiles, row = block_id() % tiles / across * TILE,
            column = block_id() % across * TILE;
    const real *x = p->x + (outer < 0 ? 0 : image * p->l.step[0][outer]);
    real *y = p->y + image * height * width;

    for (int k = warp_id(); k < TILE; k += DG_CUDA_THREADS / DG_CUDA_WARP)
        if (row + lane_id() < height && column + k < width)
            shared[k * (TILE + 1) + lane_id()] =
                x[row + lane_id() + (column + k) * p->l.step[0][p->l.rank - 1]];
    barrier();
    for (int k = warp_id(); k < TILE; k += DG_CUDA_THREADS / DG_CUDA_WARP)
        if (row + k < height && column + lane_id() < width)
            y[(row + k) * width + column + lane_id()] = shared[lane_id() * (TILE + 1) + k];
}

KERNEL_MANY(fill_kernel, move)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[n] = put((wide)p->value);
}

KERNEL(copy_kernel, move)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[n] = p->x[n];
}

static int reshape(const dg_cuda_call *c)
{
    move m = { .x = reals(c->a, DG_RESHAPE_X),
               .y = reals(c->a, DG_RESHAPE_Y),
               .n = elements(c->a, DG_RESHAPE_Y) };

    return m.x == m.y ? 0 : LAUNCH(c, copy_kernel, grid_of(m.n), &m);
}

typedef struct move_i32 {
    const int32_t *x;
    int32_t *y;
    int64_t n;
} move_i32;

KERNEL(copy_i32_kernel, move_i32)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[n] = p->x[n];
}

static int reshape_i32(const dg_cuda_call *c)
{
    move_i32 m = { .x = ints(c->a, DG_RESHAPE_I32_X),
                   .y = ints(c->a, DG_RESHAPE_I32_Y),
                   .n = elements(c->a, DG_RESHAPE_I32_Y) };

    return m.x == m.y ? 0 : LAUNCH(c, copy_i32_kernel, grid_of(m.n), &m);
}

static bool is_turn(const layout *l)
{
    enum { LEAST = 8 }; /* below that most of a tile is empty */
    int last = l->rank - 1;

    return (l->rank == 2 || l->rank == 3) && l->step[0][last - 1] == 1 && l->d[last] >= LEAST &&
           l->d[last - 1] >= LEAST;
}

static dg_cuda_grid grid_of_tiles(const layout *l)
{
    int last = l->rank - 1;
    dg_cuda_grid g = { parts(l->d[last], TILE) * parts(l->d[last - 1], TILE), DG_CUDA_THREADS,
                       TILE_BYTES };

    g.blocks *= l->rank == 3 ? l->d[0] : 1;
    return g;
}

/* Axis k of y is axis d[k] of x. */
static int permute(const dg_cuda_call *c)
{
    const shape_attr *f = (const shape_attr *)c->a->attr;
    const dg_shape *x = &c->a->t[DG_PERMUTE_X].shape, *y = &c->a->t[DG_PERMUTE_Y].shape;
    move m = { .x = reals(c->a, DG_PERMUTE_X),
               .y = reals(c->a, DG_PERMUTE_Y),
               .n = elements(c->a, DG_PERMUTE_Y) };

    for (int k = 0; k < y->rank; k++) {
        int64_t steps[2] = { 1, 1 };

        for (int64_t axis = f->d[k] + 1; axis < x->rank; axis++)
            steps[0] *= x->d[axis];
        for (int axis = k + 1; axis < y->rank; axis++)
            steps[1] *= y->d[axis];
        layout_axis(&m.l, y->d[k], 2, steps);
    }
    if (is_turn(&m.l))
        return LAUNCH(c, turn_kernel, grid_of_tiles(&m.l), &m);
    return LAUNCH_MANY(c, move_kernel, grid_of(m.n), &m);
}

static int expand(const dg_cuda_call *c)
{
    move m = { .x = reals(c->a, DG_EXPAND_X),
               .y = reals(c->a, DG_EXPAND_Y),
               .n = elements(c->a, DG_EXPAND_Y),
               .l = layout_of(c->a, DG_EXPAND_Y, 2, DG_EXPAND_X) };

    return LAUNCH_MANY(c, move_kernel, grid_of(m.n), &m);
}

/* Elements of one step along an axis. */
static int64_t after(const dg_tensor *t, int64_t axis)
{
    int64_t n = 1;

    for (int64_t k = axis + 1; k < t->shape.rank; k++)
        n *= t->shape.d[k];
    return n;
}

/* Copies n rows of an axis, from row from_row of operand x to row to_row of operand y, which differ
 * only in the size of that axis. */
static int copy_rows(const dg_cuda_call *c, int64_t axis, int x, int64_t from_row, int y,
                     int64_t to_row, int64_t n)
{
    const dg_tensor *from = &c->a->t[x], *to = &c->a->t[y];
    int64_t each = after(to, axis);
    int64_t outer = elements(c->a, y) / (each * to->shape.d[axis]);
    const int64_t outer_steps[2] = { from->shape.d[axis] * each, to->shape.d[axis] * each };
    const int64_t steps[2] = { 1, 1 };
    move m = { .x = reals(c->a, x),
               .y = reals(c->a, y),
               .n = outer * n * each,
               .at_x = from_row * each,
               .at_y = to_row * each };

    layout_axis(&m.l, outer, 2, outer_steps);
    layout_axis(&m.l, n * each, 2, steps);
    return LAUNCH_MANY(c, move_kernel, grid_of(m.n), &m);
}

/* Rows of y side by side from several operands: n elements of y in rows of `width`, of which those
 * from first[i] on are x[i]'s; the last first[i] is the end of what is written. NULL: zeros. */
enum { PIECES = 8 };
typedef struct pieces {
    const real *x[PIECES];
    real *y;
    int64_t n, width, many;
    int64_t first[PIECES + 1];
} pieces;

KERNEL_MANY(pieces_kernel, pieces)
{
    int64_t size = p->first[p->many] - p->first[0], all = p->n / p->width * size;

    for (int64_t n = first(); n < all; n += step()) {
        int64_t row = (uint32_t)n / (uint32_t)size, at = p->first[0] + (uint32_t)n % (uint32_t)size;
        int i = 0;

        while (at >= p->first[i + 1])
            i++;
        p->y[row * p->width + at] =
            p->x[i] ? p->x[i][row * (p->first[i + 1] - p->first[i]) + at - p->first[i]] : put(0);
    }
}

static int put_pieces(const dg_cuda_call *c, const pieces *p)
{
    int64_t size = p->first[p->many] - p->first[0];

    return size ? LAUNCH_MANY(c, pieces_kernel, grid_of(p->n / p->width * size), p) : 0;
}

static pieces pieces_of(const dg_cuda_call *c, int y, int64_t axis)
{
    const dg_tensor *t = &c->a->t[y];
    pieces p = { .y = reals(c->a, y), .n = elements(c->a, y) };

    p.width = t->shape.d[axis] * after(t, axis);
    return p;
}

static int concat(const dg_cuda_call *c)
{
    const axis_attr *f = (const axis_attr *)c->a->attr;
    int y = c->a->n - 1, rc = 0;
    pieces p = pieces_of(c, y, f->axis);

    for (int i = 0; i < y && rc == 0; i++) {
        const dg_tensor *x = &c->a->t[i];

        p.x[p.many] = reals(c->a, i);
        p.first[p.many + 1] = p.first[p.many] + x->shape.d[f->axis] * after(x, f->axis);
        p.many++;
        if (i < y - 1 && p.many < PIECES)
            continue;
        rc = put_pieces(c, &p);
        p.first[0] = p.first[p.many];
        p.many = 0;
    }
    return rc;
}

static int slice(const dg_cuda_call *c)
{
    const axis_attr *f = (const axis_attr *)c->a->attr;

    return copy_rows(c, f->axis, DG_SLICE_X, f->begin, DG_SLICE_Y, 0,
                     c->a->t[DG_SLICE_Y].shape.d[f->axis]);
}

static int pad(const dg_cuda_call *c)
{
    const axis_attr *f = (const axis_attr *)c->a->attr;
    const dg_tensor *x = &c->a->t[DG_PAD_X];
    pieces p = pieces_of(c, DG_PAD_Y, f->axis);
    int64_t each = after(x, f->axis);

    p.x[1] = reals(c->a, DG_PAD_X);
    p.first[1] = f->begin * each;
    p.first[2] = p.first[1] + x->shape.d[f->axis] * each;
    p.first[3] = p.width;
    p.many = 3;
    return put_pieces(c, &p);
}

static int fill(const dg_cuda_call *c)
{
    const fill_attr *f = (const fill_attr *)c->a->attr;
    move m = { .y = reals(c->a, DG_FILL_Y), .n = elements(c->a, DG_FILL_Y), .value = f->a };

    return LAUNCH_MANY(c, fill_kernel, grid_of(m.n), &m);
}

DG_CUDA(reshape, NULL, reshape);
DG_CUDA(reshape_i32, NULL, reshape_i32);
DG_CUDA(permute, NULL, permute);
DG_CUDA_JOINED(expand, NULL, expand, DG_JOIN_SIDE);
DG_CUDA_JOINED(concat, NULL, concat, DG_JOIN_SIDE);
DG_CUDA_JOINED(slice, NULL, slice, DG_JOIN_SIDE);
DG_CUDA_JOINED(pad, NULL, pad, DG_JOIN_SIDE);
DG_CUDA_JOINED(fill, NULL, fill, DG_JOIN_SIDE);
