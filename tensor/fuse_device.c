/* fuse_device.c: fusions for a device that has kernels for them, once types are chosen:
 *     matmul, relu                -> matmul_act
 *     matmul, add of one shape    -> matmul_act with a residual, in the place of the sum
 *     add, batch_norm_grad        -> batch_norm_sum_grad
 * Behind a product, reshapes may stand in between. What goes must have no other readers. Of a sum
 * of products the last becomes the sum, so that the others need not be kept until then. */
#include <string.h>

#include "tensor/fuse.h"
#include "tensor/ops.h"
#include "tensor/passes.h"

static dg_value *value(const dg_fusion *f, int32_t v)
{
    return &f->p->values.items[v];
}

static dg_instr *instr(const dg_fusion *f, int i)
{
    return &f->p->instrs.items[i];
}

/* The reader of instruction i's output behind all reshapes, or -1; *v: what it reads. */
static int reader_behind(const dg_fusion *f, int i, int32_t *v)
{
    int j;

    *v = instr(f, i)->v[instr(f, i)->n_in];
    for (j = dg_fusion_reader(f, *v, i); j >= 0 && instr(f, j)->op == DG_OP(reshape);
         j = dg_fusion_reader(f, *v, j))
        *v = instr(f, j)->v[1];
    return j;
}

/* The device has a kernel for it that is no reference kernel. */
static bool is_known(const dg_fusion *f, dg_backend *backend, const dg_instr *in)
{
    dg_tensor t[DG_MAX_SIGNATURE];
    bool is_ref = false;
    int n = in->n_in + in->n_out;

    for (int k = 0; k < n; k++)
        t[k] = in->v[k] ? (dg_tensor){ value(f, in->v[k])->dtype, value(f, in->v[k])->shape, NULL }
                        : (dg_tensor){ .shape = { .rank = -1 } };
    return backend->select(backend, in->op, t, n, &is_ref) && !is_ref;
}

/* The product of instruction i, with this residual (0: none), if the device knows that. */
static bool make(const dg_fusion *f, dg_backend *backend, int i, int32_t res, dg_act act, int32_t y,
                 dg_instr *made)
{
    const matmul_act_attr attr = { *(const matmul_attr *)instr(f, i)->attr, act };
    const int32_t *from = instr(f, i)->v;
    const int32_t v[] = { from[0], from[1], from[2], res, y };

    *made = *instr(f, i);
    made->op = DG_OP(matmul_act);
    made->attr = dg_memdup(f->p->arena, &attr, sizeof attr);
    made->n_in = 4;
    made->v = dg_memdup(f->p->arena, v, sizeof v);
    return is_known(f, backend, made);
}

/* What instruction i read, j reads now. */
static void move_reads(dg_fusion *f, int i, int j)
{
    const dg_instr *from = instr(f, i);

    for (int k = 0; k < from->n_in; k++)
        if (f->reader[from->v[k]] == i)
            f->reader[from->v[k]] = j;
}

/* The last value before relu, in slot j, becomes what relu makes. */
static void fuse_relu(dg_fusion *f, dg_backend *backend, int i, int j, int32_t last)
{
    int32_t y = instr(f, i)->v[3], z = instr(f, j)->v[1];
    int at = value(f, last)->producer;
    dg_instr *from = instr(f, at), made;

    if (value(f, z)->dtype != value(f, y)->dtype ||
        !make(f, backend, i, 0, DG_ACT_RELU, last == y ? z : y, &made))
        return;
    *instr(f, i) = made;
    if (last != y)
        from->v[1] = z;
    value(f, z)->producer = at;
    value(f, last)->producer = -2;
    f->keep[j] = false;
}

/* The sum in slot j becomes the product of slot i. */
static void fuse_add(dg_fusion *f, dg_backend *backend, int i, int j, int32_t last)
{
    const dg_instr *add = instr(f, j), *from = instr(f, i);
    int32_t y = from->v[3], z = add->v[2], other = add->v[0] == last ? add->v[1] : add->v[0];
    dg_instr made;

    if (!dg_shape_equal(value(f, other)->shape, value(f, last)->shape) ||
        value(f, other)->dtype != value(f, y)->dtype || value(f, z)->dtype != value(f, y)->dtype ||
        !make(f, backend, i, other, DG_ACT_NONE, z, &made))
        return;
    move_reads(f, i, j);
    for (int at = i; at != j; at = f->reader[y]) { /* and the reshapes */
        y = instr(f, at)->v[instr(f, at)->n_in];
        value(f, y)->producer = -2;
        f->keep[at] = false;
    }
    *instr(f, j) = made;
}

/* The sum of instruction i is the gradient that the norm in slot j is given. */
static void fuse_sum(dg_fusion *f, dg_backend *backend, int i)
{
    const dg_instr *add = instr(f, i);
    int32_t z = add->v[2], *v;
    int j = dg_fusion_reader(f, z, i);
    dg_instr made;

    if (j < 0 || instr(f, j)->op != DG_OP(batch_norm_grad) || instr(f, j)->v[0] != z)
        return;
    for (int k = 0; k < 2; k++)
        if (!dg_shape_equal(value(f, add->v[k])->shape, value(f, z)->shape) ||
            value(f, add->v[k])->dtype != value(f, z)->dtype)
            return;
    made = *instr(f, j);
    v = DG_NEW_N(f->p->arena, made.n_in + 1 + made.n_out, int32_t);
    memcpy(v, made.v, (size_t)made.n_in * sizeof *v);
    memcpy(v + made.n_in + 1, made.v + made.n_in, (size_t)made.n_out * sizeof *v);
    v[0] = add->v[0];
    v[made.n_in++] = add->v[1];
    made.v = v;
    made.op = DG_OP(batch_norm_sum_grad);
    if (!is_known(f, backend, &made))
        return;
    *instr(f, j) = made;
    move_reads(f, i, j);
    value(f, z)->producer = -2;
    f->keep[i] = false;
}

void dg_pass_fuse_device(dg_program *p, dg_backend *backend)
{
    dg_arena *scratch = dg_arena_open();
    dg_fusion f = dg_fusion_open(p, scratch);

    for (int i = p->instrs.n - 1; i >= 0 && backend; i--) {
        int32_t last;
        int j = instr(&f, i)->op == DG_OP(matmul) ? reader_behind(&f, i, &last) : -1;

        if (j >= 0 && instr(&f, j)->op == DG_OP(relu))
            fuse_relu(&f, backend, i, j, last);
        else if (j >= 0 && instr(&f, j)->op == DG_OP(add))
            fuse_add(&f, backend, i, j, last);
        else if (instr(&f, i)->op == DG_OP(add))
            fuse_sum(&f, backend, i);
    }
    dg_program_compact(p, f.keep);
    dg_arena_close(&scratch);
}
