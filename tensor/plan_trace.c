/* plan_trace.c: lists what a rank exchanges with others in one run of a plan. Ranks compare the
 * lists before they start: if all are equal, no rank can wait for a collective that another never
 * enters. */
#include "tensor/ops.h"
#include "tensor/plan.h"

static bool has_root(const dg_op *op)
{
    return op == DG_OP(broadcast) || op == DG_OP(broadcast_i32) || op == DG_OP(reduce_to) ||
           op == DG_OP(reduce_to_i32);
}

static bool is_bucket(const dg_op *op)
{
    return op == DG_OP(reduce_begin);
}

static bool joins_values(const dg_op *op)
{
    return is_bucket(op) || op == DG_OP(all_reduce) || op == DG_OP(all_reduce_i32) ||
           op == DG_OP(all_reduce_space) || op == DG_OP(reduce_to) || op == DG_OP(reduce_to_i32);
}

/* Describes one exchange: "loss/main all_reduce sum 1 f32", with "(root 0)" or "(guarded)". False
 * for other instructions, including the wait for a bucket. */
static bool describe(dg_str *out, const dg_program *p, const dg_instr *in)
{
    static const char *const joins[] = {
        [DG_SUM] = " sum",
        [DG_MAX] = " max",
        [DG_MIN] = " min",
        [DG_MEAN] = " mean",
    };
    const dg_value *x = in->n_in ? &p->values.items[in->v[0]] : NULL;

    if (in->op->effect != DG_COLLECTIVE || in->op == DG_OP(reduce_end) || !x)
        return false;
    const reduce_attr *r = in->attr;
    const bucket_attr *b = in->attr; /* both structs begin with op and axis */
    int64_t n = is_bucket(in->op) ? b->end - b->begin : dg_shape_elements(x->shape);

    dg_str_fmt(out, "%s %s%s %lld %s", in->origin.where.node ? in->origin.where.node : "-",
               in->op->name, joins_values(in->op) ? joins[r->op] : "", (long long)n,
               dg_dtype_name(x->dtype));
    if (has_root(in->op))
        dg_str_fmt(out, " (root %lld)", (long long)r->root);
    dg_str_add(out, in->guard ? " (guarded)\n" : "\n");
    return true;
}

void dg_plan_exchange(dg_str *out, const dg_plan *plan)
{
    const dg_program *p = plan->program;

    for (int i = 0; i < p->instrs.n; i++) {
        dg_str line = { 0 };

        if (describe(&line, p, &p->instrs.items[i]))
            dg_str_fmt(out, "%5d  %s", i, line.s);
        dg_str_free(&line);
    }
}

uint64_t dg_plan_digest(const dg_plan *plan)
{
    const dg_program *p = plan->program;
    dg_str all = { 0 };
    uint64_t digest;

    for (int i = 0; i < p->instrs.n; i++)
        (void)describe(&all, p, &p->instrs.items[i]);
    digest = dg_fnv1a(all.n ? all.s : "", all.n);
    dg_str_free(&all);
    return digest;
}
