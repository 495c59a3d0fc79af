/* fuse.c: merges chains that one kernel computes in one pass over memory:
 *     batch_norm (+ add) (+ relu | silu)      -> batch_norm with residual and activation, for all
 *                                                kinds of statistics
 *     adamw, ema                              -> adamw that also moves the averages
 *                                                of what it trains
 * Values that have other readers, or are results, are kept. */
#include "tensor/fuse.h"

#include <string.h>

#include "tensor/ops.h"
#include "tensor/passes.h"

static void count_uses(dg_fusion *f)
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

static bool same_shape(const dg_fusion *f, int32_t a, int32_t b)
{
    return dg_shape_equal(f->p->values.items[a].shape, f->p->values.items[b].shape);
}

int dg_fusion_reader(const dg_fusion *f, int32_t v, int i)
{
    const dg_instr *from = &f->p->instrs.items[i], *to = &f->p->instrs.items[f->reader[v]];

    if (f->uses[v] != 1 || to->phase != from->phase || to->segment != from->segment ||
        to->origin.node != from->origin.node || to->guard != from->guard)
        return -1;
    return f->reader[v];
}

/* Moves the norm of slot i to slot j; it then produces j's output. */
static int absorb_norm(dg_fusion *f, int i, int j)
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
static bool may_move(const dg_fusion *f, int i, int j)
{
    const dg_instr *in = &f->p->instrs.items[i];

    for (int k = 1; k < in->n_out; k++)
        for (int r = i + 1; r < j; r++)
            for (int o = 0; o < f->p->instrs.items[r].n_in; o++)
                if (f->p->instrs.items[r].v[o] == in->v[in->n_in + k])
                    return false;
    return true;
}

static void fuse_norm(dg_fusion *f, int i)
{
    dg_instr *in = &f->p->instrs.items[i];
    int res = in->n_in - 1;
    int32_t y = in->v[in->n_in];
    norm_attr *a = in->attr;
    int j = dg_fusion_reader(f, y, i);

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
        j = dg_fusion_reader(f, y, i);
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
static void fuse_ema(dg_fusion *f, int i)
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

dg_fusion dg_fusion_open(dg_program *p, dg_arena *scratch)
{
    dg_fusion f = {
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
    dg_fusion f = dg_fusion_open(p, scratch);

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
