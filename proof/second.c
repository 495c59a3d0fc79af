/* second.c: see second.h. One walk over the instructions in order. Values are in single-assignment
 * form; the gradient space is followed by parameter, because its reduction is cut into buckets. All
 * other spaces are the same on all ranks as long as every update is. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "proof/second_internal.h"
#include "tensor/ops.h"

/* ---- what ops do ----------------------------------------------------------------------------- */

typedef enum deed {
    PASSES,  /* outputs differ where inputs do */
    REDUCES, /* all ranks get the same */
    TELLS,   /* all ranks get the root's */
    GIVES,   /* only the root gets the result */
    GATHERS,
    REDUCES_SPACE,
    BEGINS, /* a bucket of the gradient space */
    ENDS,
    DRAWS,
    UPDATES,
} deed;

typedef struct row {
    deed deed;
    uint32_t updates; /* operands that it writes, as bits */
} row;

static const row rows[DG_N_OPS] = {
    [DG_OP_all_reduce] = { REDUCES, 0 },
    [DG_OP_all_reduce_i32] = { REDUCES, 0 },
    [DG_OP_broadcast] = { TELLS, 0 },
    [DG_OP_broadcast_i32] = { TELLS, 0 },
    [DG_OP_reduce_to] = { GIVES, 0 },
    [DG_OP_reduce_to_i32] = { GIVES, 0 },
    [DG_OP_all_gather] = { GATHERS, 0 },
    [DG_OP_all_gather_i32] = { GATHERS, 0 },
    [DG_OP_all_reduce_space] = { REDUCES_SPACE, 0 },
    [DG_OP_reduce_begin] = { BEGINS, 0 },
    [DG_OP_reduce_end] = { ENDS, 0 },
    [DG_OP_uniform] = { DRAWS, 0 },
    [DG_OP_stat_update] = { UPDATES, 1 << 0 | 1 << 1 },
    [DG_OP_accumulate] = { UPDATES, 1 << 0 },
    [DG_OP_adamw] = { UPDATES, 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 },
    [DG_OP_ema] = { UPDATES, 1 << 0 },
};

static bool is_built_in(const dg_op *op)
{
    const uintptr_t at = (uintptr_t)op, first = (uintptr_t)dg_ops;

    return at >= first && at < first + sizeof dg_ops;
}

/* A plugin's op passes on what it gets, or updates what its signature says. */
static row row_of(const dg_op *op)
{
    row r = { op->effect == DG_STATE ? UPDATES : PASSES, 0 };
    dg_signature sig;

    if (is_built_in(op))
        return rows[op - dg_ops];
    if (op->effect == DG_STATE && dg_signature_parse(&sig, op->signature) == 0)
        for (int k = 0; k < sig.n_in; k++)
            r.updates |= sig.operand[k].state ? 1u << k : 0;
    return r;
}

static bool is_collective(deed d)
{
    return d >= REDUCES && d <= ENDS;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static uint32_t axes_called(const dg_second_host *h, int64_t hash)
{
    char pair[64];

    for (int i = 0; i < h->n_axes; i++) {
        if (hash == (int64_t)dg_fnv1a_text(h->axis[i]))
            return 1u << i;
        for (int k = 0; k < h->n_axes; k++) {
            snprintf(pair, sizeof pair, "%s+%s", h->axis[i], h->axis[k]);
            if (i != k && hash == (int64_t)dg_fnv1a_text(pair))
                return 1u << i | 1u << k;
        }
    }
    return 0;
}

uint32_t dg_second_axes(const dg_instr *in, const dg_second_host *h)
{
    const deed d = row_of(in->op).deed;

    if (!is_collective(d))
        return 0;
    return axes_called(h, d == BEGINS || d == ENDS ? ((const bucket_attr *)in->attr)->axis
                                                   : ((const reduce_attr *)in->attr)->axis);
}

static int64_t ranks_of(const dg_second_host *h, uint32_t axes)
{
    int64_t n = 1;

    for (int i = 0; i < h->n_axes; i++)
        n *= axes >> i & 1 ? h->ranks[i] : 1;
    return n;
}

/* ---- the walk -------------------------------------------------------------------------------- */

const dg_second_node *dg_second_node_at(const dg_look *l, int number)
{
    static const dg_second_node nothing = { 0 };

    return number >= 0 && number < l->h->n_nodes ? &l->h->nodes[number] : &nothing;
}

const dg_binding *dg_second_input(const dg_look *l, int32_t v)
{
    for (int i = 0; i < l->p->inputs.n; i++)
        if (l->p->inputs.items[i].value == v)
            return &l->p->inputs.items[i];
    return NULL;
}

/* Over which axes a value differs that no instruction makes. */
static uint32_t given(const dg_look *l, int32_t v)
{
    const dg_value *x = &l->p->values.items[v];
    const dg_binding *input = x->space == DG_IO ? dg_second_input(l, v) : NULL;

    if (x->space == DG_IO)
        return input && input->index >= 0 && input->index < l->h->n_nodes
                   ? dg_second_node_at(l, input->index)->fed.axes & l->h->live
                   : l->h->live;
    if (!x->own)
        return 0;
    return x->own_axis ? axes_called(l->h, x->own_axis) & l->h->live : l->h->live;
}

uint32_t dg_second_read(const dg_look *l, int32_t v)
{
    const dg_value *x = &l->p->values.items[v];
    uint32_t all = 0;

    if (!v)
        return 0;
    if (x->space != DG_GRADIENTS)
        return l->varies[v];
    if (x->param >= 0)
        return l->gradient[x->param];
    for (int i = 0; i < dg_params_n(l->p->params); i++)
        all |= l->gradient[i];
    return all;
}

static uint32_t read_inputs(const dg_look *l, const dg_instr *in)
{
    uint32_t axes = 0;

    for (int k = 0; k < in->n_in; k++)
        axes |= dg_second_read(l, in->v[k]);
    return axes;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static int64_t elements(const dg_look *l, int32_t v)
{
    return dg_shape_elements(l->p->values.items[v].shape);
}

/* What all ranks must bring alike is a constant of the program: whether it makes sense. */
static void check_operand(dg_look *l, const dg_instr *in, deed what, uint32_t axes)
{
    const reduce_attr *attr = in->attr;
    const dg_value *x = &l->p->values.items[in->v[0]];
    int64_t n = ranks_of(l->h, axes), times = what == GATHERS ? n : 1;

    if (attr->ranks != n)
        dg_second_disagree(l, in, "is made for %lld ranks, and %s", (long long)attr->ranks,
                           dg_second_axes_text(l, axes));
    else if (attr->root < 0 || attr->root >= n)
        dg_second_disagree(l, in, "has the root %lld, and %s", (long long)attr->root,
                           dg_second_axes_text(l, axes));
    else if (attr->op < DG_SUM || attr->op > DG_MEAN || (attr->op == DG_MEAN && x->dtype == DG_I32))
        dg_second_disagree(l, in, "has no such reduction of %s: %lld", dg_dtype_name(x->dtype),
                           (long long)attr->op);
    else if (in->n_out && (elements(l, in->v[0]) * times != elements(l, in->v[1]) ||
                           x->dtype != l->p->values.items[in->v[1]].dtype))
        dg_second_disagree(l, in, "gives %lld %s of %lld %s", (long long)elements(l, in->v[1]),
                           dg_dtype_name(l->p->values.items[in->v[1]].dtype),
                           (long long)elements(l, in->v[0]), dg_dtype_name(x->dtype));
}

/* Elements begin..end-1 of the gradients are the same on all ranks of axes now. */
static void cleanse(dg_look *l, uint32_t axes, int64_t begin, int64_t end)
{
    for (int i = 0; i < dg_params_n(l->p->params); i++) {
        const dg_param_info *info = dg_params_at(l->p->params, i);

        if (info->kind == DG_TRAINABLE && info->offset >= begin &&
            info->offset + dg_shape_elements(info->shape) <= end)
            l->gradient[i] &= ~axes;
    }
}

/* A bucket is begun once, ended once, by the same ranks, and not written between. */
static void check_bucket(dg_look *l, const dg_instr *in, deed what, uint32_t axes)
{
    const bucket_attr *attr = in->attr;
    const dg_instr *first;
    int *begun;

    if (attr->bucket < 0 || attr->bucket >= l->n_buckets) {
        dg_second_disagree(l, in, "is of bucket %lld of %d", (long long)attr->bucket, l->n_buckets);
        return;
    }
    begun = &l->begun[attr->bucket];
    if (what == BEGINS) {
        if (*begun)
            dg_second_disagree(l, in, "begins a bucket that is under way");
        *begun = 1 + l->at;
        return;
    }
    first = *begun ? &l->p->instrs.items[*begun - 1] : NULL;
    *begun = 0;
    if (!first)
        dg_second_disagree(l, in, "waits for a bucket that was not begun");
    else if (first->guard != in->guard || memcmp(first->attr, attr, sizeof *attr) != 0)
        dg_second_disagree(l, in, "does not wait for what was begun by instruction %d",
                           (int)(first - l->p->instrs.items));
    else
        cleanse(l, axes, attr->begin, attr->end);
}

static void check_fires(dg_look *l, const dg_instr *in, uint32_t axes)
{
    if (l->h->alone & axes)
        dg_second_disagree(l, in,
                           "meets the other ranks of %s, and only one rank runs this program",
                           dg_second_axes_text(l, axes));
    if (dg_second_read(l, in->guard) & axes)
        dg_second_disagree_about(l, in, in->guard, dg_second_read(l, in->guard) & axes,
                                 dg_printf(l->a, "takes place where %%%d says so, and that differs",
                                           (int)in->guard));
}

/* Returns over which axes the result differs. */
static uint32_t collective(dg_look *l, const dg_instr *in, deed what)
{
    uint32_t axes = dg_second_axes(in, l->h), from = read_inputs(l, in);

    if (!axes) {
        dg_second_disagree(l, in, "works over an axis that the mesh does not have");
        return l->h->live;
    }
    check_fires(l, in, axes);
    if (what == BEGINS || what == ENDS)
        check_bucket(l, in, what, axes);
    else
        check_operand(l, in, what, axes);
    if (what == REDUCES_SPACE)
        cleanse(l, axes, 0, INT64_MAX);
    return what == GIVES ? from | axes : from & ~axes;
}

/* ---- updates --------------------------------------------------------------------------------- */

static bool is_replicated(dg_space s)
{
    return s == DG_WEIGHTS || s == DG_MOMENT1 || s == DG_MOMENT2 || s == DG_EMA;
}

static bool is_under_way(const dg_look *l, int param)
{
    const dg_param_info *info = param < 0 ? NULL : dg_params_at(l->p->params, param);

    for (int i = 0; i < l->n_buckets; i++) {
        const bucket_attr *b = l->begun[i] ? l->p->instrs.items[l->begun[i] - 1].attr : NULL;

        if (b && (!info || (info->offset < b->end &&
                            info->offset + dg_shape_elements(info->shape) > b->begin)))
            return true;
    }
    return false;
}

/* v, in a space of parameters, is written by what differs over axes. */
static void write(dg_look *l, const dg_instr *in, int32_t v, uint32_t axes)
{
    const dg_value *x = &l->p->values.items[v];
    const bool whole = x->param < 0;

    if (x->space == DG_GRADIENTS) {
        if (is_under_way(l, x->param))
            dg_second_disagree(l, in, "writes a gradient that is being reduced");
        for (int i = whole ? 0 : x->param; i < (whole ? dg_params_n(l->p->params) : x->param + 1);
             i++)
            if (axes & ~l->gradient[i]) {
                l->gradient[i] |= axes;
                l->writer[i] = l->at;
            }
    } else if (is_replicated(x->space) && axes) {
        dg_second_disagree_about(l, in, dg_second_culprit(l, in, axes), axes,
                                 "updates what all ranks hold alike by what differs");
    }
}

static void update(dg_look *l, const dg_instr *in, row r, uint32_t axes)
{
    for (int k = 0; k < in->n_in; k++)
        if (in->v[k] && r.updates >> (k < 32 ? k : 31) & 1)
            write(l, in, in->v[k], axes);
}

/* ---- the whole program ----------------------------------------------------------------------- */

static bool is_known(dg_look *l, const dg_instr *in, row r)
{
    bool known = in->op->effect == DG_PURE         ? !is_collective(r.deed) && r.deed != UPDATES
                 : in->op->effect == DG_COLLECTIVE ? is_collective(r.deed)
                                                   : r.deed == UPDATES;

    if (!known)
        dg_second_disagree(l, in, "is an op whose effect on other ranks is unknown");
    return known;
}

/* v, an output of the instruction, differs over axes. */
static void give(dg_look *l, const dg_instr *in, int32_t v, uint32_t axes)
{
    const dg_value *x = &l->p->values.items[v];

    /* whole numbers are exact, and what a communicator gives has the same bits everywhere */
    if (x->dtype != DG_I32 && in->op->effect != DG_COLLECTIVE)
        axes |= dg_second_node_at(l, in->origin.node)->inexact.axes & l->h->live;
    if (axes && x->dtype == DG_I32)
        axes &= dg_second_flag(l, v);
    l->varies[v] = axes;
    if (x->space == DG_GRADIENTS)
        write(l, in, v, axes);
}

static void step(dg_look *l, const dg_instr *in)
{
    const row r = row_of(in->op);
    const dg_second_node *node = dg_second_node_at(l, in->origin.node);
    const uint32_t fires = dg_second_read(l, in->guard) | l->h->alone;
    uint32_t axes;

    if (!is_known(l, in, r))
        return;
    axes = is_collective(r.deed) ? collective(l, in, r.deed) : read_inputs(l, in);
    if (r.deed == DRAWS)
        axes |= l->h->sample.axes;
    if (!is_built_in(in->op) || r.deed == DRAWS)
        axes = node->alike ? 0 : axes | node->own.axes;
    axes |= fires;
    if (r.deed == UPDATES)
        update(l, in, r, (axes | node->inexact.axes) & l->h->live);
    for (int k = in->n_in; k < in->n_in + in->n_out; k++)
        if (in->v[k])
            give(l, in, in->v[k], axes & l->h->live);
}

/* A loop that some ranks leave earlier must meet no others, and keep nothing that all hold
 * alike. */
static void check_clock(dg_look *l)
{
    uint32_t clock = l->h->rate.axes & l->h->live;
    int32_t flag = 0;

    for (int i = 0; i < l->p->results.n; i++) {
        const dg_binding *b = &l->p->results.items[i];

        if (b->kind == DG_RESULT_STOP && dg_second_read(l, b->value) & ~clock) {
            flag = b->value;
            clock |= dg_second_read(l, b->value);
        }
    }
    for (int i = 0; i < l->p->instrs.n && clock; i++) {
        const dg_instr *in = &l->p->instrs.items[i];
        const deed what = row_of(in->op).deed;
        bool keeps =
            what == UPDATES && in->n_in > 0 && is_replicated(l->p->values.items[in->v[0]].space);
        uint32_t axes = (keeps ? l->h->live : dg_second_axes(in, l->h)) & clock;

        if (!axes ||
            !dg_second_disagree(l, in,
                                "is executed as often as the loop runs, and that differs over "
                                "%s",
                                dg_second_axes_text(l, axes)))
            continue;
        if (l->h->rate.axes & axes)
            dg_second_say_cause(l, &l->h->rate, DG_NOWHERE, "the number of batches differs");
        else
            dg_second_say_path(l, flag, axes);
        dg_second_help(l, axes);
    }
}

static dg_look begin(const dg_program *p, const dg_second_host *h, dg_diag *d)
{
    dg_look l = { .p = p, .h = h, .d = d, .a = dg_arena_open() };

    l.varies = DG_NEW_N(l.a, p->values.n, uint32_t);
    l.gradient = DG_NEW_N(l.a, dg_params_n(p->params) + 1, uint32_t);
    l.writer = DG_NEW_N(l.a, dg_params_n(p->params) + 1, int);
    for (int i = 0; i < p->instrs.n; i++)
        l.n_buckets += row_of(p->instrs.items[i].op).deed == BEGINS;
    l.begun = DG_NEW_N(l.a, l.n_buckets + 1, int);
    for (int i = 0; i < dg_params_n(p->params); i++)
        l.writer[i] = -1;
    for (int32_t v = 1; v < p->values.n; v++)
        if (p->values.items[v].producer == -1)
            l.varies[v] = given(&l, v);
    return l;
}

/* due: the last batch of an update, and the update; else a batch before it, which only adds to the
 * gradients. */
static void walk(dg_look *l, bool due)
{
    for (l->at = 0; l->at < l->p->instrs.n && l->rc == 0; l->at++) {
        const dg_instr *in = &l->p->instrs.items[l->at];

        if (due || (in->segment == DG_SEG_BATCH && row_of(in->op).deed != BEGINS))
            step(l, in);
    }
}

int dg_second_look(const dg_program *p, const dg_second_host *h, dg_diag *d)
{
    dg_look l;
    int rc;

    if (!h->live)
        return 0;
    l = begin(p, h, d);
    if (p->accumulate > 1)
        walk(&l, false);
    walk(&l, true);
    for (int i = 0; i < l.n_buckets && l.rc == 0; i++)
        if (l.begun[i])
            dg_second_disagree(&l, &p->instrs.items[l.begun[i] - 1],
                               "begins a collective without a wait for it");
    if (l.rc == 0)
        check_clock(&l);
    rc = l.rc;
    dg_arena_close(&l.a);
    return rc;
}
