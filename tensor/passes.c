/* passes.c: runs the passes in order; the small ones: dead code, collectives of one rank. */
#include "tensor/passes.h"

#include <string.h>

#include "tensor/ops.h"

static bool is_root(const dg_program *p, int32_t v)
{
    const dg_value *x = &p->values.items[v];

    return x->space == DG_GRADIENTS || v == p->ok || (p->keep_names && x->name);
}

/* True if the instruction is needed; drops its unread optional outputs. */
static bool is_needed(dg_program *p, dg_instr *in, const bool *read)
{
    dg_signature sig;
    bool any = in->op->effect != DG_PURE, all = true;

    for (int k = in->n_in; k < in->n_in + in->n_out; k++) {
        any |= in->v[k] && read[in->v[k]];
        all &= !in->v[k] || read[in->v[k]];
    }
    if (!any || all || dg_signature_parse(&sig, in->op->signature) < 0)
        return any;
    for (int k = in->n_in; k < in->n_in + in->n_out; k++)
        if (in->v[k] && !read[in->v[k]] && dg_signature_at(&sig, in->n_in, k)->optional) {
            p->values.items[in->v[k]].producer = -2;
            in->v[k] = 0;
        }
    return true;
}

void dg_pass_dead(dg_program *p)
{
    dg_arena *scratch = dg_arena_open();
    bool *read = DG_NEW_N(scratch, p->values.n, bool);
    bool *keep = DG_NEW_N(scratch, p->instrs.n + 1, bool);
    int n = 0;

    for (int32_t v = 1; v < p->values.n; v++)
        read[v] = is_root(p, v);
    for (int i = 0; i < p->results.n; i++)
        read[p->results.items[i].value] = true;
    for (int i = p->instrs.n - 1; i >= 0; i--) {
        dg_instr *in = &p->instrs.items[i];

        keep[i] = is_needed(p, in, read);
        for (int k = 0; keep[i] && k < in->n_in; k++)
            read[in->v[k]] = true;
        if (keep[i])
            read[in->guard] = true;
    }
    dg_program_compact(p, keep);
    for (int i = 0; i < p->draws.n; i++)
        if (p->values.items[p->draws.items[i].value].producer >= 0)
            p->draws.items[n++] = p->draws.items[i];
    p->draws.n = n;
    dg_arena_close(&scratch);
}

/* Replaces a collective under a guard that its operand lacks by a copy: the value must be zeros
 * when skipped. */
static void replace_by_copy(dg_program *p, dg_instr *in)
{
    dg_shape s = p->values.items[in->v[0]].shape;
    shape_attr a = { .rank = s.rank };

    memcpy(a.d, s.d, sizeof a.d);
    in->op = p->values.items[in->v[0]].dtype == DG_I32 ? DG_OP(reshape_i32) : DG_OP(reshape);
    in->attr = dg_memdup(p->arena, &a, sizeof a);
}

/* True if a collective over one rank returns its operand unchanged, so that readers can read that.
 * One whose output is longer (several ranks) stays; the executor then reports that there is only
 * one rank. */
static bool is_identity(const dg_program *p, const dg_instr *in)
{
    return in->op->effect == DG_COLLECTIVE &&
           (!in->n_out || dg_shape_equal(p->values.items[in->v[0]].shape,
                                         p->values.items[in->v[in->n_in]].shape));
}

static void pass_collectives(dg_program *p, int ranks)
{
    dg_arena *scratch;
    bool *keep;
    int32_t *instead;

    if (ranks > 1)
        return;
    scratch = dg_arena_open();
    keep = DG_NEW_N(scratch, p->instrs.n + 1, bool);
    instead = DG_NEW_N(scratch, p->values.n, int32_t);
    for (int32_t v = 0; v < p->values.n; v++)
        instead[v] = v;
    for (int i = 0; i < p->instrs.n; i++) {
        dg_instr *in = &p->instrs.items[i];

        for (int k = 0; k < in->n_in; k++)
            in->v[k] = instead[in->v[k]];
        in->guard = instead[in->guard];
        keep[i] = !is_identity(p, in);
        if (keep[i] || !in->n_out)
            continue;
        keep[i] = in->guard && in->guard != dg_program_guard(p, in->v[0]);
        if (keep[i])
            replace_by_copy(p, in);
        else
            instead[in->v[in->n_in]] = in->v[0];
    }
    for (int i = 0; i < p->results.n; i++)
        p->results.items[i].value = instead[p->results.items[i].value];
    p->ok = instead[p->ok];
    p->ok_batch = instead[p->ok_batch];
    dg_program_compact(p, keep);
    dg_arena_close(&scratch);
}

int dg_passes(dg_program *p, dg_dtype base, dg_dtype low, dg_backend *backend, int ranks,
              dg_diag *d)
{
    dg_params_seal(p->params);
    dg_pass_fuse(p);
    dg_pass_dead(p);
    pass_collectives(p, ranks);
    dg_pass_precision(p, base, low, backend);
    dg_pass_pack(p, backend);
    dg_pass_fuse_device(p, backend);
    dg_pass_recompute(p);
    dg_pass_dead(p);
    dg_pass_join(p, backend);
    dg_pass_buckets(p, DG_BUCKET_ELEMENTS);
    return dg_program_verify(p, d);
}
