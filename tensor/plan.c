/* plan.c: lays out a program's memory. Values form classes that share memory: a reshape with its
 * input, and an output marked (=x) with x if x dies there. A slab class is a block that lives from
 * its first writer to its last reader; results live to the end, workspaces during one
 * instruction. */
#include "tensor/plan.h"

#include <string.h>

#include "tensor/ops.h"
#include "tensor/slab.h"

typedef struct layout {
    dg_plan *plan;
    dg_program *p;
    dg_backend *backend;
    dg_diag *d;
    int *begin, *end; /* per instruction: the first and last of those that run at the same time */
    int32_t *same;    /* per value: another value of its class, or itself (the head) */
    int *last;        /* last reader, per class head */
    int *block;
} layout;

size_t dg_plan_value_bytes(const dg_program *p, int32_t v)
{
    const dg_value *x = &p->values.items[v];

    return (size_t)dg_shape_elements(x->shape) * dg_dtype_size(x->dtype);
}

static dg_value *value(const layout *l, int32_t v)
{
    return &l->p->values.items[v];
}

static int32_t head(const layout *l, int32_t v)
{
    while (l->same[v] != v)
        v = l->same[v];
    return v;
}

/* ---- spaces outside the slab ----------------------------------------------------------------- */

static void size_spaces(const layout *l)
{
    const dg_params *params = l->p->params;
    int64_t all = dg_params_elements(params), trained = dg_params_trainable(params);

    for (int32_t v = 1; v < l->p->values.n; v++) {
        dg_value *x = value(l, v);

        if (x->producer == -1 && x->param < 0 && x->space >= DG_WEIGHTS && x->space <= DG_EMA) {
            bool whole = x->space == DG_WEIGHTS || x->space == DG_EMA;

            x->shape = DG_SHAPE(whole ? (all ? all : 1) : trained ? trained : 1);
        }
        if (x->param >= 0)
            x->offset = dg_params_at(params, x->param)->offset * (int64_t)dg_dtype_size(x->dtype);
    }
}

static int64_t lay_in_a_row(const layout *l, dg_space space)
{
    int64_t bytes = 0;

    for (int32_t v = 1; v < l->p->values.n; v++)
        if (value(l, v)->space == space && value(l, v)->producer == -1) {
            value(l, v)->offset = bytes;
            bytes += dg_align((int64_t)dg_plan_value_bytes(l->p, v));
        }
    return bytes;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Bytes moved for a bucket: the part of the gradient space that it names. */
static double bucket_bytes(const dg_instr *in, dg_dtype type)
{
    const bucket_attr *a = in->attr;

    return in->op == DG_OP(reduce_begin) ? (double)(a->end - a->begin) * (double)dg_dtype_size(type)
                                         : 0;
}

static int choose_kernel(layout *l, int i)
{
    const dg_instr *in = &l->p->instrs.items[i];
    dg_plan_instr *pi = &l->plan->instrs[i];
    int n = in->n_in + in->n_out, rc = 0;
    dg_prepare prepare = { .n = n, .attr = in->attr, .threads = l->plan->threads };

    pi->t = DG_NEW_N(l->plan->arena, n, dg_tensor);
    for (int k = 0; k < n; k++) {
        const dg_value *x = value(l, in->v[k]);

        pi->t[k] =
            in->v[k] ? (dg_tensor){ x->dtype, x->shape, NULL } : (dg_tensor){ .shape.rank = -1 };
        pi->bytes += in->v[k] ? (double)dg_plan_value_bytes(l->p, in->v[k]) : 0;
    }
    pi->alias = dg_program_is_alias(l->p, i);
    if (pi->alias || in->op->effect == DG_COLLECTIVE) {
        pi->bytes = pi->alias ? 0 : pi->bytes;
        if (in->op == DG_OP(reduce_begin) || in->op == DG_OP(reduce_end))
            pi->bytes = bucket_bytes(in, pi->t[0].dtype);
        return 0;
    }
    pi->flops = dg_op_flops(in->op, pi->t, n, in->attr);
    pi->kernel = l->backend->select(l->backend, in->op, pi->t, n, &pi->is_ref);
    if (!pi->kernel && !l->backend->immediate) {
        pi->kernel = dg_host_kernel(in->op, pi->t, n, &pi->is_ref);
        pi->staged = pi->kernel != NULL;
    }
    if (!pi->kernel)
        return dg_fail(l->d, DG_EUNSUPPORTED, in->origin.where, "kernel-missing",
                       "backend %s has no kernel for %s on %s", l->backend->name, in->op->name,
                       dg_dtype_name(n ? pi->t[0].dtype : DG_REAL));
    if (!pi->kernel->prepare)
        return 0;
    prepare.t = pi->t;
    rc = pi->kernel->prepare(&prepare);
    if (rc < 0)
        return dg_fail(l->d, (dg_code)-rc, in->origin.where, "kernel-prepare",
                       "backend %s cannot prepare %s (%d)", l->backend->name, in->op->name, rc);
    pi->handle = prepare.handle;
    pi->workspace_bytes = prepare.workspace_bytes;
    if ((int64_t)pi->workspace_bytes > l->plan->workspace_bytes)
        l->plan->workspace_bytes = (int64_t)pi->workspace_bytes;
    return 0;
}

/* ---- launches that go together --------------------------------------------------------------- */

static dg_join join_of(const layout *l, int i)
{
    const dg_instr *in = &l->p->instrs.items[i];
    const dg_plan_instr *pi = &l->plan->instrs[i];

    if (!l->backend->joins || !pi->kernel || pi->alias || pi->staged)
        return DG_JOIN_NONE;
    return l->backend->joins(l->backend, in->op, pi->t, in->n_in + in->n_out);
}

/* Instruction i reads or writes what the one before writes, or writes what that reads. */
static bool depends(const layout *l, int i, int before)
{
    const dg_instr *x = &l->p->instrs.items[before], *y = &l->p->instrs.items[i];
    dg_signature sig;

    if (dg_signature_parse(&sig, y->op->signature) < 0)
        return true;
    for (int o = 0; o < x->n_in + x->n_out; o++) {
        bool written = o >= x->n_in || dg_signature_at(&sig, x->n_in, o)->state;

        for (int k = 0; k < y->n_in + y->n_out && x->v[o]; k++)
            if (y->v[k] == x->v[o] &&
                (written || k >= y->n_in || dg_signature_at(&sig, y->n_in, k)->state))
                return true;
        if (written && x->v[o] && y->guard == x->v[o])
            return true;
    }
    return false;
}

/* How many launches from i on go together. One of several in turn has no guard: the zeros of what
 * is skipped come behind all of them, and may lie where a later one has written. */
static int find_group(const layout *l, int i, bool *in_turn)
{
    const dg_instr *first = &l->p->instrs.items[i];
    dg_join kind = join_of(l, i);
    bool guarded = first->guard != 0;
    int n = 1;

    *in_turn = false;
    for (; kind != DG_JOIN_NONE && i + n < l->p->instrs.n; n++) {
        const dg_instr *in = &l->p->instrs.items[i + n];
        bool needs = false;

        if (in->op != first->op || in->segment != first->segment || join_of(l, i + n) != kind)
            break;
        for (int k = i; k < i + n; k++)
            needs |= depends(l, i + n, k);
        guarded |= in->guard != 0;
        if ((needs || *in_turn) && (kind != DG_JOIN_TURN || guarded))
            break;
        *in_turn |= needs;
    }
    return n;
}

static void join_launches(layout *l)
{
    int n;

    for (int i = 0; i < l->p->instrs.n; i += n) {
        bool in_turn;

        n = find_group(l, i, &in_turn);
        for (int k = i; k < i + n; k++) {
            l->begin[k] = in_turn ? k : i;
            l->end[k] = in_turn ? k : i + n - 1;
            l->plan->instrs[k].joined = n == 1 ? 0 : k == i ? n : -1;
            l->plan->instrs[k].in_turn = in_turn;
        }
    }
}

/* ---- classes and their lives ----------------------------------------------------------------- */

static void join_reshapes(layout *l)
{
    for (int32_t v = 0; v < l->p->values.n; v++)
        l->same[v] = v;
    for (int i = 0; i < l->p->instrs.n; i++)
        if (l->plan->instrs[i].alias)
            l->same[l->p->instrs.items[i].v[1]] = head(l, l->p->instrs.items[i].v[0]);
}

static void survive(layout *l, int32_t v)
{
    if (v)
        l->last[head(l, v)] = l->p->instrs.n;
}

static void find_last_readers(layout *l)
{
    const dg_program *p = l->p;

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = 0; k < in->n_in + in->n_out; k++)
            l->last[head(l, in->v[k])] = l->end[i];
        l->last[head(l, in->guard)] = l->end[i];
    }
    for (int i = 0; i < p->results.n; i++)
        survive(l, p->results.items[i].value);
    for (int32_t v = 1; p->keep_names && v < p->values.n; v++)
        if (p->values.items[v].name && p->values.items[v].producer >= 0)
            survive(l, v);
    survive(l, p->ok);
    survive(l, p->ok_batch);
}

/* True if output y of instruction i may take the memory of its input k. */
static bool may_take(const layout *l, int i, int32_t y, int k)
{
    const dg_instr *in = &l->p->instrs.items[i];
    int32_t x = in->v[k], h = head(l, x);

    if (l->begin[i] != l->end[i]) /* others may still read it */
        return false;
    if (!x || !y || value(l, y)->space != DG_SLAB || value(l, h)->space != DG_SLAB ||
        value(l, h)->producer < 0 || l->last[h] != i || value(l, x)->dtype != value(l, y)->dtype ||
        !dg_shape_equal(value(l, x)->shape, value(l, y)->shape))
        return false;
    for (int o = 0; o < in->n_in; o++)
        if (o != k && in->v[o] && head(l, in->v[o]) == h)
            return false;
    return true;
}

static void take_places(layout *l)
{
    dg_signature sig;

    for (int i = 0; i < l->p->instrs.n; i++) {
        const dg_instr *in = &l->p->instrs.items[i];

        if (l->plan->instrs[i].alias || dg_signature_parse(&sig, in->op->signature) < 0)
            continue;
        for (int k = in->n_in; k < in->n_in + in->n_out; k++) {
            int alias = dg_signature_at(&sig, in->n_in, k)->alias;

            if (alias < 0 || !may_take(l, i, in->v[k], alias))
                continue;
            int32_t h = head(l, in->v[alias]);

            l->last[h] = l->last[in->v[k]];
            l->same[in->v[k]] = h;
        }
    }
}

/* Lays the results side by side, for one copy to the host. They live to the end of the run, so the
 * slab could not reuse their bytes. */
static void lay_report(layout *l)
{
    const dg_program *p = l->p;

    for (int i = 0; i < p->results.n + 2; i++) {
        int32_t v = i < p->results.n   ? p->results.items[i].value
                    : i > p->results.n ? p->ok
                                       : p->ok_batch;
        int32_t h = head(l, v);

        if (!v || value(l, h)->space != DG_SLAB || value(l, h)->producer < 0)
            continue;
        value(l, h)->space = DG_REPORT;
        value(l, h)->offset = l->plan->report_bytes;
        l->plan->report_bytes += dg_align((int64_t)dg_plan_value_bytes(p, h));
    }
}

/* Of the device's memory. */
static size_t workspace_of(const layout *l, int i)
{
    const dg_plan_instr *pi = &l->plan->instrs[i];

    return pi->staged ? 0 : pi->workspace_bytes;
}

/* Packs the slab classes in order of birth, then the workspaces; stores the offsets in the
 * values. */
static void lay_slab(layout *l)
{
    DG_VEC(dg_block) blocks = { 0 };
    dg_program *p = l->p;
    dg_arena *a = dg_arena_open();
    int n_values;

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = in->n_in; k < in->n_in + in->n_out; k++) {
            int32_t v = in->v[k];

            if (!v || head(l, v) != v || value(l, v)->space != DG_SLAB)
                continue;
            l->block[v] = blocks.n;
            DG_PUSH(a, blocks,
                    ((dg_block){ dg_align((int64_t)dg_plan_value_bytes(p, v)), l->begin[i],
                                 l->last[v], 0 }));
        }
    }
    n_values = blocks.n;
    for (int i = 0; i < p->instrs.n; i++)
        if (workspace_of(l, i))
            DG_PUSH(a, blocks,
                    ((dg_block){ dg_align((int64_t)workspace_of(l, i)), l->begin[i], l->end[i],
                                 0 }));
    l->plan->slab_bytes = blocks.n ? dg_slab_pack(blocks.items, blocks.n) : 0;
    l->plan->live_peak_bytes = dg_live_peak(blocks.items, blocks.n);
    for (int i = 0, w = n_values; i < p->instrs.n; i++)
        if (workspace_of(l, i))
            l->plan->instrs[i].workspace = blocks.items[w++].offset;
    for (int32_t v = 1; v < p->values.n; v++) {
        int32_t h = head(l, v);
        dg_value *x = value(l, v);

        if (x->producer < 0)
            continue;
        x->space = value(l, h)->space;
        x->offset = x->space == DG_SLAB ? blocks.items[l->block[h]].offset : value(l, h)->offset;
        x->param = value(l, h)->param;
    }
    dg_arena_close(&a);
}

/* Finds outputs of guarded instructions that must be zeros when skipped: those read under another
 * guard, passed on (`otherwise`), or read from outside. */
static void find_zeros(layout *l)
{
    const dg_program *p = l->p;
    dg_arena *a = dg_arena_open();
    bool *seen = DG_NEW_N(a, p->values.n, bool);

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = 0; k < in->n_in; k++) {
            int producer = value(l, in->v[k])->producer;

            seen[in->v[k]] |= producer >= 0 && (p->instrs.items[producer].guard != in->guard ||
                                                in->otherwise == k + 1);
        }
        seen[in->guard] = true;
    }
    for (int i = 0; i < p->results.n; i++)
        seen[p->results.items[i].value] = true;
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = 0; in->guard && k < in->n_out; k++) {
            int32_t v = in->v[in->n_in + k];

            if (v && (seen[v] || value(l, v)->space != DG_SLAB || v == p->ok ||
                      (p->keep_names && value(l, v)->name)))
                l->plan->instrs[i].zero_outputs |= 1u << k;
        }
    }
    dg_arena_close(&a);
}

int dg_plan_open(dg_plan **out, dg_program *p, dg_backend *backend, int threads, dg_diag *d)
{
    dg_arena *a = dg_arena_open(), *scratch = dg_arena_open();
    dg_plan *plan = DG_NEW(a, dg_plan);
    int rc = 0;
    layout l = {
        .plan = plan,
        .p = p,
        .backend = backend,
        .d = d,
        .begin = DG_NEW_N(scratch, p->instrs.n + 1, int),
        .end = DG_NEW_N(scratch, p->instrs.n + 1, int),
        .same = DG_NEW_N(scratch, p->values.n, int32_t),
        .last = DG_NEW_N(scratch, p->values.n, int),
        .block = DG_NEW_N(scratch, p->values.n, int),
    };

    plan->arena = a;
    plan->program = p;
    plan->threads = threads;
    plan->instrs = DG_NEW_N(a, p->instrs.n + 1, dg_plan_instr);
    dg_params_seal(p->params);
    size_spaces(&l);
    for (int i = 0; i < p->instrs.n; i++)
        DG_TRY(choose_kernel(&l, i));
    plan->constant_bytes = lay_in_a_row(&l, DG_CONSTANTS);
    plan->io_bytes = lay_in_a_row(&l, DG_IO);
    join_launches(&l);
    join_reshapes(&l);
    find_last_readers(&l);
    take_places(&l);
    lay_report(&l);
    lay_slab(&l);
    find_zeros(&l);
out:
    dg_arena_close(&scratch);
    if (rc < 0)
        dg_plan_close(&plan);
    *out = plan;
    return rc;
}

void dg_plan_close(dg_plan **plan)
{
    if (!*plan)
        return;
    dg_arena *a = (*plan)->arena;

    for (int i = 0; i < (*plan)->program->instrs.n; i++) {
        const dg_plan_instr *pi = &(*plan)->instrs[i];

        if (pi->kernel && pi->kernel->release && pi->handle)
            pi->kernel->release(pi->handle);
    }
    dg_arena_close(&a);
    *plan = NULL;
}
