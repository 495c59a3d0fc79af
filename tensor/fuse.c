/* fuse.c: merges chains that one kernel computes in one pass over memory:
 *     batch_norm (+ add) (+ relu | silu)      -> batch_norm with residual and activation, for all
 *                                                kinds of statistics
 *     adamw, ema                              -> adamw that also moves the averages
 *                                                of what it trains
 * and, once types are chosen, where the device has such a kernel,
 *     conv2d, batch_norm_fixed                -> conv2d_norm
 * Values that have other readers, or are results, are kept. */
#include <string.h>

#include "tensor/ops.h"
#include "tensor/passes.h"

typedef struct fusion {
    dg_program *p;
    int *uses;   /* readers of every value, counting results and kept names */
    int *reader; /* last instruction that reads each value */
    bool *keep;  /* per instruction; false: remove it */
} fusion;

static void count_uses(fusion *f)
{
    const dg_program *p = f->p;

    for (int i = 0; i < p->instrs.n; i++)
        for (int k = 0; k < p->instrs.items[i].n_in; k++) {
            f->uses[p->instrs.items[i].v[k]]++;
            f->reader[p->instrs.items[i].v[k]] = i;
        }
    for (int i = 0; i < p->results.n; i++)
        f->uses[p->results.items[i].value]++;
    for (int32_t v = 1; p->keep_names && v < p->values.n; v++)
        f->uses[v] += p->values.items[v].name != NULL;
}

static bool same_shape(const fusion *f, int32_t a, int32_t b)
{
    return dg_shape_equal(f->p->values.items[a].shape, f->p->values.items[b].shape);
}

/* The only reader of v, if it may merge with instruction i; else -1. */
static int only_reader(const fusion *f, int32_t v, int i)
{
    const dg_instr *from = &f->p->instrs.items[i], *to = &f->p->instrs.items[f->reader[v]];

    if (f->uses[v] != 1 || to->phase != from->phase || to->segment != from->segment ||
        to->origin.node != from->origin.node || to->guard != from->guard)
        return -1;
    return f->reader[v];
}

/* Moves the norm of slot i to slot j; it then produces j's output. */
static int absorb_norm(fusion *f, int i, int j)
{
    dg_instr *from = &f->p->instrs.items[i], *to = &f->p->instrs.items[j];
    int32_t gone = from->v[from->n_in], z = to->v[to->n_in];

    from->v[from->n_in] = z;
    *to = *from;
    f->p->values.items[gone].producer = -2;
    for (int k = 0; k < to->n_out; k++)
        f->p->values.items[to->v[to->n_in + k]].producer = j;
    for (int k = 0; k < to->n_in; k++)
        f->reader[to->v[k]] = f->reader[to->v[k]] == i ? j : f->reader[to->v[k]];
    f->keep[i] = false;
    return j;
}

/* False if the norm's statistics are read between i and j. */
static bool may_move(const fusion *f, int i, int j)
{
    const dg_instr *in = &f->p->instrs.items[i];

    for (int k = 1; k < in->n_out; k++)
        for (int r = i + 1; r < j; r++)
            for (int o = 0; o < f->p->instrs.items[r].n_in; o++)
                if (f->p->instrs.items[r].v[o] == in->v[in->n_in + k])
                    return false;
    return true;
}

static void fuse_norm(fusion *f, int i)
{
    dg_instr *in = &f->p->instrs.items[i];
    int res = in->n_in - 1;
    int32_t y = in->v[in->n_in];
    norm_attr *a = in->attr;
    int j = only_reader(f, y, i);

    if (a->act != DG_ACT_NONE || j < 0)
        return;
    const dg_instr *next = &f->p->instrs.items[j];

    if (next->op == DG_OP(add) && !in->v[res]) {
        int32_t other = next->v[0] == y ? next->v[1] : next->v[0];

        if (!same_shape(f, y, other) || !may_move(f, i, j))
            return;
        in->v[res] = other;
        i = absorb_norm(f, i, j);
        in = &f->p->instrs.items[i];
        y = in->v[in->n_in];
        j = only_reader(f, y, i);
        if (j < 0)
            return;
        next = &f->p->instrs.items[j];
    }
    if ((next->op == DG_OP(relu) || next->op == DG_OP(silu)) && may_move(f, i, j)) {
        a->act = next->op == DG_OP(relu) ? DG_ACT_RELU : DG_ACT_SILU;
        absorb_norm(f, i, j);
    }
}

/* Merges the averages of trained parameters into adamw; one ema remains for frozen parameters and
 * buffers. */
static void fuse_ema(fusion *f, int i)
{
    dg_program *p = f->p;
    dg_instr *ema = &p->instrs.items[i];
    int64_t trained = dg_params_trainable(p->params);

    for (int j = 0; j < i; j++) {
        dg_instr *adamw = &p->instrs.items[j];

        if (adamw->op != DG_OP(adamw) || adamw->v[4] || adamw->v[0] != ema->v[1] ||
            adamw->v[6] != ema->v[2] || adamw->guard != ema->guard)
            continue;
        adamw->v[4] = ema->v[0];
        ((ema_attr *)ema->attr)->begin = trained;
        f->keep[i] = trained < dg_params_elements(p->params);
        return;
    }
}

static fusion fusion_open(dg_program *p, dg_arena *scratch)
{
    fusion f = {
        .p = p,
        .uses = DG_NEW_N(scratch, p->values.n, int),
        .reader = DG_NEW_N(scratch, p->values.n, int),
        .keep = DG_NEW_N(scratch, p->instrs.n + 1, bool),
    };

    count_uses(&f);
    memset(f.keep, 1, (size_t)p->instrs.n);
    return f;
}

void dg_pass_fuse(dg_program *p)
{
    dg_arena *scratch = dg_arena_open();
    fusion f = fusion_open(p, scratch);

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_op *op = p->instrs.items[i].op;

        if (op == DG_OP(batch_norm) || op == DG_OP(batch_norm_fixed) ||
            op == DG_OP(batch_norm_sync))
            fuse_norm(&f, i);
        else if (op == DG_OP(ema))
            fuse_ema(&f, i);
    }
    dg_program_compact(p, f.keep);
    dg_arena_close(&scratch);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static dg_tensor operand(const fusion *f, int32_t v)
{
    const dg_value *x = &f->p->values.items[v];

    return v ? (dg_tensor){ x->dtype, x->shape, NULL } : (dg_tensor){ .shape = { .rank = -1 } };
}

/* The parameter of which v is a cast; or v. The norm's scale is multiplied into it before it is
 * rounded. */
static int32_t before_cast(const fusion *f, int32_t v)
{
    const int at = f->p->values.items[v].producer;
    const dg_instr *in = at < 0 ? NULL : &f->p->instrs.items[at];

    return in && in->op == DG_OP(cast) ? in->v[0] : v;
}

/* A convolution whose result only the norm in slot j reads becomes part of it. */
static void fuse_convolution(fusion *f, int i, dg_backend *backend)
{
    dg_instr *conv = &f->p->instrs.items[i];
    int32_t y = conv->v[conv->n_in], *v;
    int j = only_reader(f, y, i);
    dg_instr *norm = j < 0 ? NULL : &f->p->instrs.items[j];
    dg_tensor t[8];
    conv_norm_attr attr;
    const dg_kernel *k;
    bool is_ref = false;

    if (!norm || norm->op != DG_OP(batch_norm_fixed) || norm->v[0] != y || conv->v[2])
        return;
    v = DG_NEW_N(f->p->arena, 8, int32_t);
    v[0] = conv->v[0];
    v[1] = before_cast(f, conv->v[1]);
    memcpy(v + 2, norm->v + 1, 6 * sizeof *v); /* s b mean var res y */
    for (int n = 0; n < 8; n++)
        t[n] = operand(f, v[n]);
    /* kernels store all of them in one type */
    if (t[0].dtype != t[7].dtype || operand(f, y).dtype != t[7].dtype ||
        (v[6] && t[6].dtype != t[7].dtype) || t[1].dtype == DG_BF16)
        return;
    k = backend->select(backend, DG_OP(conv2d_norm), t, 8, &is_ref);
    if (!k || is_ref)
        return;
    attr = (conv_norm_attr){ *(const conv_attr *)conv->attr, *(const norm_attr *)norm->attr };
    norm->op = DG_OP(conv2d_norm);
    norm->attr = dg_memdup(f->p->arena, &attr, sizeof attr);
    norm->n_in = 7;
    norm->v = v;
    f->p->values.items[y].producer = -2;
    f->keep[i] = false;
}

void dg_pass_fuse_convolutions(dg_program *p, dg_backend *backend)
{
    dg_arena *scratch = dg_arena_open();
    fusion f = fusion_open(p, scratch);

    for (int i = 0; i < p->instrs.n && backend; i++)
        if (p->instrs.items[i].op == DG_OP(conv2d))
            fuse_convolution(&f, i, backend);
    dg_program_compact(p, f.keep);
    dg_arena_close(&scratch);
}
