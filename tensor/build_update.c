/* build_update.c: op.h's functions for the whole model: backward, and the update after it. */
#include <regex.h>
#include <string.h>

#include "tensor/build_internal.h"
#include "tensor/passes.h"

void dg_stat_update(dg_build *b, dg_val running_mean, dg_val running_var, dg_val mean, dg_val var,
                    int64_t count, double momentum)
{
    DG_PUSH(b->arena, b->pending,
            ((dg_pending){
                .origin = b->origin,
                .guard = b->guard,
                .in = { running_mean, running_var, mean, var },
                .attr = { .momentum = momentum, .count = count },
            }));
}

void dg_stat_update_counted(dg_build *b, dg_val running_mean, dg_val running_var, dg_val mean,
                            dg_val var, dg_val count, double momentum)
{
    DG_PUSH(b->arena, b->pending,
            ((dg_pending){
                .origin = b->origin,
                .guard = b->guard,
                .in = { running_mean, running_var, mean, var, count },
                .attr = { .momentum = momentum },
            }));
}

int dg_build_pending(const dg_build *b)
{
    return b->pending.n;
}

/* Emits the waiting updates of statistics, under `ok`: a batch whose loss is not finite must not
 * change them. */
static void flush_statistics(dg_build *b)
{
    dg_origin origin = b->origin;
    int32_t guard = b->guard;

    for (int i = 0; i < b->pending.n; i++) {
        const dg_pending *s = &b->pending.items[i];

        b->origin = s->origin;
        b->guard = dg_guard_both(b, guard, s->guard);
        dg_emit(b, DG_OP(stat_update), &s->attr, 6,
                (dg_val[]){ s->in[0], s->in[1], s->in[2], s->in[3], s->in[4], { b->p->ok } }, NULL);
    }
    b->pending.n = 0;
    b->origin = origin;
    b->guard = guard;
}

/* Emits the finiteness check, unguarded: skipped values are zeros, hence finite. */
static dg_val finite(dg_build *b, int n, const dg_val x[])
{
    dg_val out[DG_MAX_SIGNATURE] = { DG_POISON };
    int32_t guard = b->guard;

    b->guard = 0;
    dg_emit(b, DG_OP(finite), NULL, n, x, out);
    for (int i = 0; i < b->axes.n; i++) /* if one rank must not update, none may */
        out[0] = dg_all_reduce(b, out[0], DG_MIN, b->axes.items[i].name);
    b->guard = guard;
    if (out[0].id > 0)
        b->p->ok = (int32_t)out[0].id;
    return out[0];
}

static dg_val backward(dg_build *b, dg_val loss, int accumulate, bool mean)
{
    dg_val seed = loss;
    const dg_value *x = dg_value_of(b, loss);
    char shape[64];

    if (!x)
        return dg_has(loss) ? DG_POISON
                            : dg_error(b, "operand-missing", "backward: there is no loss");
    if (b->p->grads)
        return dg_error(b, "backward-twice", "a program has one backward");
    if (x->shape.rank != 0 || !dg_dtype_is_real(x->dtype))
        return dg_error(b, "loss-not-scalar", "the loss must be one real number, found %s%s",
                        dg_dtype_name(x->dtype), dg_shape_print(x->shape, shape, sizeof shape));
    b->p->severed = x->severed;
    if (!x->needs_gradient && !x->severed)
        return dg_error(b, "loss-without-parameters", "no trainable parameter reaches the loss");
    if (accumulate == 0) /* 0: as the training scope says */
        accumulate = b->p->accumulate > 0 ? b->p->accumulate : 1;
    if (accumulate > 0)
        b->p->accumulate = accumulate;
    if (b->guard && b->p->accumulate > 1)
        return dg_error(
            b, "skip-accumulate",
            "this gradient may be skipped, and one of %d batches of an update cannot be: "
            "the update would hang on the last of them",
            b->p->accumulate);
    b->loss = loss;
    if (mean && b->p->accumulate > 1) /* the share of this batch in the mean */
        seed = dg_scale(b, loss, 1 / (double)b->p->accumulate, 0);
    dg_pass_fuse(b->p);
    if (dg_autodiff(b, (int32_t)seed.id, NULL) < 0)
        return DG_POISON;
    b->phase = DG_OPTIMIZE;
    finite(b, 1, &loss);
    b->p->ok_batch = b->p->ok;
    flush_statistics(b);
    b->segment = DG_SEG_UPDATE;
    return dg_whole_space(b, DG_GRADIENTS);
}

dg_val dg_backward(dg_build *b, dg_val loss, int accumulate)
{
    return backward(b, loss, accumulate, false);
}

dg_val dg_backward_mean(dg_build *b, dg_val loss)
{
    return backward(b, loss, 0, true);
}

/* Reports and returns false unless v is the whole space s. */
static bool want_space(dg_build *b, dg_val v, dg_space s, const char *id, const char *what)
{
    const dg_value *x = dg_value_of(b, v);

    if (x && x->space == s && x->param < 0 && x->producer == -1)
        return true;
    if (!dg_is_poison(v))
        dg_error(b, id, "%s is expected here", what);
    return false;
}

static bool want_gradients(dg_build *b, dg_val g)
{
    return want_space(b, g, DG_GRADIENTS, "not-gradients", "the gradient that <backward> gave");
}

dg_val dg_all_reduce_gradients(dg_build *b, dg_val gradients, const char *axis)
{
    reduce_attr a = dg_reduce_attr(b, DG_MEAN, 0, axis);

    if (!want_gradients(b, gradients))
        return DG_POISON;
    if (dg_axis_size(b, axis) > 1)
        dg_emit(b, DG_OP(all_reduce_space), &a, 1, &gradients, NULL);
    return gradients;
}

dg_val dg_gradient_norm(dg_build *b, dg_val gradients)
{
    if (!want_gradients(b, gradients))
        return DG_POISON;
    return dg_emit1(b, DG_OP(grad_norm), NULL, gradients, DG_NONE, DG_NONE, 1);
}

/* ---- AdamW ----------------------------------------------------------------------------------- */

typedef struct pattern {
    regex_t match, unless;
    bool has_match, has_unless;
    int claimed;
} pattern;

/* Parameters that two groups claim: how many, and the first one with its groups. */
typedef struct overlap {
    int n, groups[2];
    const char *name;
} overlap;

static bool compile(dg_build *b, regex_t *re, const char *text)
{
    char why[128];
    int rc = regcomp(re, text, REG_EXTENDED | REG_NOSUB);

    if (rc) {
        regerror(rc, re, why, sizeof why);
        dg_error(b, "group-pattern", "\"%s\" is not a regular expression: %s", text, why);
    }
    return rc == 0;
}

static bool compile_all(dg_build *b, pattern *p, const dg_adamw_attr *attr)
{
    bool ok = true;

    for (int i = 0; i < attr->n_groups && ok; i++) {
        const dg_group *g = &attr->groups[i];

        ok = p[i].has_match = g->match && compile(b, &p[i].match, g->match);
        ok |= !g->match;
        if (ok && g->unless)
            ok = p[i].has_unless = compile(b, &p[i].unless, g->unless);
    }
    return ok;
}

static bool claims(const pattern *p, const char *name)
{
    return p->has_match && regexec(&p->match, name, 0, NULL, 0) == 0 &&
           !(p->has_unless && regexec(&p->unless, name, 0, NULL, 0) == 0);
}

/* The group whose pattern claims the parameter, or `rest`; -1 if two claim it. */
static int group_of(pattern *p, const dg_adamw_attr *attr, int rest, const dg_param_info *info,
                    overlap *o)
{
    int found = -1;

    for (int i = 0; i < attr->n_groups; i++) {
        if (!claims(&p[i], info->name))
            continue;
        p[i].claimed++;
        if (found >= 0) {
            if (o->n++ == 0)
                *o = (overlap){ 1, { found, i }, info->name };
            return -1;
        }
        found = i;
    }
    return found >= 0 ? found : rest;
}

/* Reports groups that claim nothing, all at once: layers="12" makes twelve. */
static bool all_claim(dg_build *b, const pattern *p, const dg_adamw_attr *attr)
{
    const dg_params *params = b->p->params;
    int first = -1, n = 0, frozen = 0;

    for (int i = 0; i < attr->n_groups; i++)
        if (attr->groups[i].match && !p[i].claimed) {
            first = n++ ? first : i;
            for (int k = 0; k < dg_params_n(params); k++)
                frozen += dg_params_at(params, k)->kind != DG_TRAINABLE &&
                          claims(&p[i], dg_params_at(params, k)->name);
        }
    if (n)
        dg_error(b, "group-empty",
                 "no trainable parameter is claimed by the group \"%s\"%s%s%s%s%s",
                 attr->groups[first].match, attr->groups[first].unless ? " unless \"" : "",
                 attr->groups[first].unless ? attr->groups[first].unless : "",
                 attr->groups[first].unless ? "\"" : "",
                 n > 1 ? dg_printf(b->arena, ", nor by %d more", n - 1) : "",
                 frozen ? ": what it matches is not trained" : "");
    return !n;
}

/* Makes ranges of equal group over all trainable parameters; padding belongs to the parameter
 * before it. */
static bool make_ranges(dg_build *b, pattern *p, const dg_adamw_attr *attr, adamw_attr *out)
{
    const dg_params *params = b->p->params;
    adamw_range *r = DG_NEW_N(b->arena, dg_params_n(params) + 1, adamw_range);
    int rest = attr->n_groups;
    overlap twice = { 0 };
    bool ok = true;

    for (int i = 0; i < attr->n_groups; i++)
        rest = attr->groups[i].match ? rest : i;
    out->ranges = r;
    for (int i = 0; i < dg_params_n(params); i++) {
        const dg_param_info *info = dg_params_at(params, i);
        int group = info->kind == DG_TRAINABLE ? group_of(p, attr, rest, info, &twice) : 0;

        ok &= group >= 0;
        if (info->kind != DG_TRAINABLE || group < 0)
            continue;
        double decay =
            group < attr->n_groups ? attr->groups[group].weight_decay : attr->weight_decay;

        if (out->n_ranges && r[out->n_ranges - 1].group == group)
            continue;
        if (out->n_ranges)
            r[out->n_ranges - 1].end = info->offset;
        r[out->n_ranges++] = (adamw_range){ info->offset, 0, group, decay };
    }
    if (out->n_ranges)
        r[out->n_ranges - 1].end = dg_params_trainable(params);
    if (twice.n)
        dg_error(b, "group-overlap",
                 "parameter %s%s claimed by two groups, \"%s\" and \"%s\": narrow one with unless",
                 twice.name,
                 twice.n > 1 ? dg_printf(b->arena, " and %d more are", twice.n - 1) : " is",
                 attr->groups[twice.groups[0]].match, attr->groups[twice.groups[1]].match);
    if (ok)
        ok = all_claim(b, p, attr);
    return ok;
}

static bool resolve_groups(dg_build *b, const dg_adamw_attr *attr, adamw_attr *out)
{
    pattern p[DG_MAX_GROUPS] = { 0 };
    bool ok;

    if (attr->n_groups < 0 || attr->n_groups >= DG_MAX_GROUPS) {
        dg_error(b, "group-count", "%d groups; at most %d are possible", attr->n_groups,
                 DG_MAX_GROUPS - 1);
        return false;
    }
    ok = compile_all(b, p, attr) && make_ranges(b, p, attr, out);
    for (int i = 0; i < attr->n_groups; i++) {
        if (p[i].has_match)
            regfree(&p[i].match);
        if (p[i].has_unless)
            regfree(&p[i].unless);
    }
    return ok;
}

static bool emitted(const dg_build *b, const dg_op *op)
{
    for (int i = 0; i < b->p->instrs.n; i++)
        if (b->p->instrs.items[i].op == op)
            return true;
    return false;
}

dg_val dg_adamw(dg_build *b, dg_val gradients, dg_val norm, const dg_adamw_attr *attr)
{
    adamw_attr a = {
        .beta1 = attr->beta1, .beta2 = attr->beta2, .eps = attr->eps, .clip = attr->clip
    };

    if (!want_gradients(b, gradients) || dg_is_poison(norm) || !resolve_groups(b, attr, &a))
        return DG_POISON;
    if (emitted(b, DG_OP(adamw)))
        return dg_error(b, "optimizer-twice",
                        "there is an optimizer already: parameters have one pair of moments");
    dg_val w = dg_whole_space(b, DG_WEIGHTS);
    dg_val seen = dg_has(norm) ? norm : dg_gradient_norm(b, gradients);
    dg_val ok = finite(b, 2, (dg_val[]){ b->loss, seen });

    b->p->norm = (int32_t)seen.id;
    dg_emit(b, DG_OP(adamw), &a, 7,
            (dg_val[]){ w, gradients, dg_whole_space(b, DG_MOMENT1), dg_whole_space(b, DG_MOMENT2),
                        DG_NONE, norm, ok },
            NULL);
    return w;
}

dg_val dg_ema(dg_build *b, dg_val parameters)
{
    dg_val e;

    if (!want_space(b, parameters, DG_WEIGHTS, "not-parameters",
                    "the parameter set that an optimizer gave"))
        return DG_POISON;
    if (!b->p->ok)
        return dg_error(b, "ema-without-update",
                        "an average of parameters follows an optimizer of the same program");
    if (emitted(b, DG_OP(ema)))
        return dg_error(b, "ema-twice", "there is an average of the parameters already");
    e = dg_whole_space(b, DG_EMA);
    dg_emit(b, DG_OP(ema), NULL, 3, (dg_val[]){ e, parameters, { b->p->ok } }, NULL);
    return e;
}
