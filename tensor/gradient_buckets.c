/* gradient_buckets.c: reduces gradients over ranks in buckets that start while backward still runs.
 *
 * The gradient space is cut in document order into buckets of about equal size, at parameter
 * boundaries. The reduction of a bucket starts after the last instruction of the batch that touches
 * one of its gradients; the waits take the place of the whole reduction, in the order of the
 * starts. This order is a function of the program alone, hence equal on every rank. */
#include "tensor/ops.h"
#include "tensor/passes.h"

typedef struct bucket {
    int64_t begin, end; /* elements */
    int after;          /* start after this instruction */
} bucket;

typedef struct cut {
    dg_program *p;
    DG_VEC(bucket) buckets;
    int *bucket_of; /* per parameter; -1: not trained */
} cut;

static void cut_space(cut *c, dg_arena *a, int64_t elements)
{
    const dg_params *params = c->p->params;

    c->bucket_of = DG_NEW_N(a, dg_params_n(params) + 1, int);
    for (int i = 0; i < dg_params_n(params); i++) {
        const dg_param_info *info = dg_params_at(params, i);

        c->bucket_of[i] = -1;
        if (info->kind != DG_TRAINABLE)
            continue;
        if (!c->buckets.n || info->offset - c->buckets.items[c->buckets.n - 1].begin >= elements) {
            if (c->buckets.n)
                c->buckets.items[c->buckets.n - 1].end = info->offset;
            DG_PUSH(a, c->buckets, ((bucket){ info->offset, 0, -1 }));
        }
        c->bucket_of[i] = c->buckets.n - 1;
    }
    if (c->buckets.n)
        c->buckets.items[c->buckets.n - 1].end = dg_params_trainable(params);
}

/* Finds the last instruction that touches each bucket; an untouched bucket starts at the end of the
 * batch. */
static void find_last_touches(cut *c)
{
    int last = 0;

    for (int i = 0; i < c->p->instrs.n; i++) {
        const dg_instr *in = &c->p->instrs.items[i];

        if (in->segment != DG_SEG_BATCH)
            continue;
        last = i;
        for (int k = 0; k < in->n_in + in->n_out; k++) {
            const dg_value *x = &c->p->values.items[in->v[k]];

            for (int b = 0; in->v[k] && x->space == DG_GRADIENTS && b < c->buckets.n; b++)
                if (x->param < 0 || c->bucket_of[x->param] == b)
                    c->buckets.items[b].after = i;
        }
    }
    for (int b = 0; b < c->buckets.n; b++)
        if (c->buckets.items[b].after < 0)
            c->buckets.items[b].after = last;
}

static dg_instr part(const cut *c, const dg_instr *whole, const dg_op *op, int b)
{
    const reduce_attr *from = whole->attr;
    bucket_attr *attr = DG_NEW(c->p->arena, bucket_attr);
    dg_instr in = *whole;

    *attr = (bucket_attr){ from->op, from->axis, b, c->buckets.items[b].begin,
                           c->buckets.items[b].end };
    in.op = op;
    in.attr = attr;
    in.v = dg_memdup(c->p->arena, whole->v, (size_t)(in.n_in + in.n_out) * sizeof *in.v);
    if (op == DG_OP(reduce_begin)) {
        in.segment = DG_SEG_BATCH;
        in.phase = DG_GRADIENT;
    }
    return in;
}

/* The buckets in the order of their starts. */
static int *by_start(const cut *c, dg_arena *a)
{
    const bucket *items = c->buckets.items;
    int *order = DG_NEW_N(a, c->buckets.n, int);

    for (int b = 0; b < c->buckets.n; b++) {
        int at = b;

        for (; at > 0 && items[order[at - 1]].after > items[b].after; at--)
            order[at] = order[at - 1];
        order[at] = b;
    }
    return order;
}

static void insert(cut *c, dg_arena *a, int whole)
{
    dg_program *p = c->p;
    const int *order = by_start(c, a), n = c->buckets.n;
    const dg_instr it = p->instrs.items[whole];
    dg_instr *out = DG_NEW_N(p->arena, p->instrs.n + 2 * n, dg_instr);
    int at = 0, started = 0;

    for (int i = 0; i < p->instrs.n; i++) {
        if (i != whole)
            out[at++] = p->instrs.items[i];
        for (; started < n && c->buckets.items[order[started]].after == i; started++)
            out[at++] = part(c, &it, DG_OP(reduce_begin), order[started]);
        for (int k = 0; i == whole && k < started; k++)
            out[at++] = part(c, &it, DG_OP(reduce_end), order[k]);
    }
    p->instrs.items = out;
    p->instrs.n = at;
    p->instrs.cap = at;
    dg_program_renumber(p);
}

/* True if the guard of the whole reduction is computed before the update, so that its buckets may
 * start earlier. */
static bool guard_is_early(const dg_program *p, int32_t guard)
{
    int producer = p->values.items[guard].producer;

    return producer < 0 || p->instrs.items[producer].segment == DG_SEG_BATCH;
}

void dg_pass_buckets(dg_program *p, int64_t elements)
{
    dg_arena *scratch = dg_arena_open();
    cut c = { .p = p };
    int whole = -1;

    for (int i = 0; i < p->instrs.n; i++)
        if (p->instrs.items[i].op == DG_OP(all_reduce_space))
            whole = i;
    if (whole >= 0 && guard_is_early(p, p->instrs.items[whole].guard)) {
        cut_space(&c, scratch, elements);
        find_last_touches(&c);
        if (c.buckets.n)
            insert(&c, scratch, whole);
    }
    dg_arena_close(&scratch);
}
