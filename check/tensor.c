/* tensor.c: tests nodes with `lower`. */
#include "check/check_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tensor/params.h"

/* Tolerances relative to each tensor's largest magnitude. bf16 has 8 bits of mantissa, and every op
 * rounds. */
static const double STEP = 1e-5, GRADIENT = 1e-6, F32 = 1e-3, BF16 = 5e-2;
enum { ELEMENTS = 24 }; /* most elements per tensor whose derivatives are tried */

static bool probe_gradient(dg_node_test *k, dg_trial *t, dg_probe *pr, bool training, bool *refused)
{
    int rc = dg_probe_open(pr, t, training);

    *refused = rc == 1;
    if (rc >= 0)
        return true;
    if (pr->missing)
        return dg_test_miss(k, t, pr->missing->name,
                            "set out[] for every output, or declare it with DG_PORT_EMPTY_ABSENT",
                            "lower gives nothing to the output \"%s\"%s", pr->missing->name,
                            training ? "" : " in evaluation");
    if (pr->wrong)
        return dg_test_miss(k, t, pr->wrong_port,
                            "the port's type, or what lower makes, has to change",
                            "output \"%s\": %s", pr->wrong_port, pr->wrong);
    return dg_test_miss(k, t, NULL,
                        "the ports' types allow these dimensions: say in them what must be equal "
                        "or fixed, or refuse in lower by dg_error",
                        "lower cannot be built: %s",
                        dg_diag_n(pr->d) ? dg_diag_at(pr->d, 0)->text : "?");
}

bool dg_test_shapes(dg_node_test *k, dg_trial *t)
{
    for (int training = 1; training >= 0; training--) {
        dg_probe pr;
        bool refused, fine = probe_gradient(k, t, &pr, training, &refused);

        dg_probe_close(&pr);
        if (!fine)
            return false;
    }
    return true;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static bool same_parameters(dg_node_test *k, dg_trial *t, const dg_probe *a, const dg_probe *b,
                            const char *only)
{
    for (int i = 0; i < dg_params_n(a->params); i++) {
        const dg_param_info *x = dg_params_at(a->params, i);
        int j = dg_params_find_path(b->params, x->path);

        if (dg_probe_is_input(a, i))
            continue;
        if (j < 0)
            return dg_test_miss(
                k, t, x->path + 5,
                "declare parameters whatever dg_training says: checkpoints hold all of them",
                "parameter \"%s\" is declared in %s only", x->path + 5, only);
        if (!dg_shape_equal(x->shape, dg_params_at(b->params, j)->shape))
            return dg_test_miss(k, t, x->path + 5, NULL,
                                "parameter \"%s\" has another shape in evaluation", x->path + 5);
    }
    return true;
}

static bool all_reached(dg_node_test *k, dg_trial *t, const dg_probe *pr)
{
    for (int i = 0; i < dg_params_n(pr->params); i++) {
        const dg_param_info *x = dg_params_at(pr->params, i);

        if (!dg_probe_is_input(pr, i) && x->kind == DG_TRAINABLE &&
            !dg_interpreter_gradient(pr->p, i))
            return dg_test_miss(k, t, x->path + 5, "use it, or declare it with dg_param_frozen",
                                "parameter \"%s\" reaches no output: no pipeline with this node "
                                "would validate (DG-GRAD)",
                                x->path + 5);
    }
    return true;
}

bool dg_test_parameters(dg_node_test *k, dg_trial *t)
{
    dg_probe train, other;
    bool refused, fine = probe_gradient(k, t, &train, true, &refused);
    int n = 0;

    if (fine && !refused) {
        fine = probe_gradient(k, t, &other, false, &refused);
        fine = fine && (refused || (same_parameters(k, t, &train, &other, "training") &&
                                    same_parameters(k, t, &other, &train, "evaluation") &&
                                    (!train.loss || all_reached(k, t, &train))));
        for (int i = 0; i < dg_params_n(train.params); i++)
            n += !dg_probe_is_input(&train, i);
        dg_test_tally(k, n, "parameters", -1);
        dg_probe_close(&other);
    }
    dg_probe_close(&train);
    return fine;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* "[0,2,1]" */
static const char *place(dg_trial *t, dg_shape s, int64_t i)
{
    dg_shape at = { .rank = s.rank };
    char buf[96];

    for (int k = s.rank - 1; k >= 0; k--) {
        at.d[k] = i % s.d[k];
        i /= s.d[k];
    }
    return s.rank ? dg_strdup(t->arena, dg_shape_print(at, buf, sizeof buf)) : "";
}

/* The plugin's own ops in the forward pass. */
static const char *own_ops(const dg_probe *pr)
{
    dg_str list = { 0 };
    const char *text;

    for (int i = 0; i < pr->p->instrs.n; i++) {
        const dg_instr *instr = &pr->p->instrs.items[i];
        bool own = instr->op < dg_ops || instr->op >= dg_ops + DG_N_OPS;

        if (own && instr->phase == DG_FORWARD && !(list.s && strstr(list.s, instr->op->name)))
            dg_str_fmt(&list, "%s\"%s\"", list.n ? ", " : "", instr->op->name);
    }
    text = list.n ? dg_printf(pr->trial->arena,
                              "the gradient rule of %s, or the kernel that it emits", list.s)
                  : NULL;
    dg_str_free(&list);
    return text;
}

/* Why no output has a gradient. */
static const char *why_none(const dg_probe *pr)
{
    for (int i = 0; i < pr->p->instrs.n; i++) {
        const dg_op *op = pr->p->instrs.items[i].op;

        if ((op < dg_ops || op >= dg_ops + DG_N_OPS) && !op->grad)
            return dg_printf(pr->trial->arena, "no gradient flows: the op \"%s\" has no grad",
                             op->name);
    }
    return "no gradient flows from its outputs to an input or a parameter";
}

static double loss_at(dg_interpreter *m, const dg_probe *pr, int32_t v, int64_t i, double x)
{
    dg_tensor t = dg_interpreter_tensor(m, v);
    double before = dg_tensor_get(&t, i), loss;

    dg_tensor_set(&t, i, x);
    loss = dg_interpreter_run(m, true) == 0 ? dg_interpreter_get(m, pr->loss, 0) : NAN;
    dg_tensor_set(&t, i, before);
    return loss;
}

/* (L(x + h) - L(x - h)) / 2h; NaN if that does not converge: at a corner or jump. */
static double slope_at(dg_interpreter *m, const dg_probe *pr, int32_t v, int64_t i)
{
    dg_tensor t = dg_interpreter_tensor(m, v);
    double x = dg_tensor_get(&t, i), h = STEP * fmax(1, fabs(x)), far, near;

    far = (loss_at(m, pr, v, i, x + h) - loss_at(m, pr, v, i, x - h)) / (2 * h);
    near = (loss_at(m, pr, v, i, x + h / 4) - loss_at(m, pr, v, i, x - h / 4)) / (h / 2);
    return fabs(far - near) <= 1e-4 * fmax(1, fabs(far)) ? far : NAN;
}

/* Compares one input's gradient. lost: an input that the outputs depend on but that gets no
 * gradient. */
static bool check_leaf(dg_node_test *k, dg_trial *t, const dg_probe *pr, dg_interpreter *m,
                       int32_t v, int *tried, double *worst, const char **lost)
{
    int param = pr->p->values.items[v].param;
    const char *path = dg_params_at(pr->params, param)->path, *name = path + strcspn(path, ".") + 1;
    int32_t g = dg_interpreter_gradient(pr->p, param);
    dg_shape shape = pr->p->values.items[v].shape;
    int64_t n = dg_shape_elements(shape), stride = (n + ELEMENTS - 1) / ELEMENTS;
    double most = 1e-3;
    const char *what = dg_probe_is_input(pr, param) ? "input" : "parameter";

    for (int64_t i = 0; g && i < n; i++)
        most = fmax(most, fabs(dg_interpreter_get(m, g, i)));
    for (int64_t i = 0; i < n; i += stride) {
        double own = g ? dg_interpreter_get(m, g, i) : 0, slope = slope_at(m, pr, v, i), off;

        if (!isfinite(slope) && isfinite(own))
            continue;
        ++*tried;
        most = fmax(most, isfinite(slope) ? fabs(slope) : 0);
        off = isfinite(own) ? fabs(own - slope) / most : INFINITY;
        if (!g && off > GRADIENT && dg_probe_is_input(pr, param)) {
            *lost =
                /* detached on purpose: it acts as a constant */
                name;
            return true;
        }
        *worst = fmax(*worst, off);
        if (off > GRADIENT)
            return dg_test_miss(k, t, name, own_ops(pr),
                                "%s \"%s\"%s: a weighted sum of the outputs has the slope %.6g "
                                "(central differences in f64), the gradient says %.6g",
                                what, name, place(t, shape, i), slope, own);
    }
    return true;
}

bool dg_test_gradients(dg_node_test *k, dg_trial *t)
{
    dg_probe pr;
    bool refused, fine = probe_gradient(k, t, &pr, true, &refused);
    int tried = 0;
    double worst = 0;
    const char *lost = NULL;

    if (fine && !refused && !pr.loss)
        fine = dg_test_idle(k, why_none(&pr));
    if (fine && !refused && pr.loss) {
        dg_interpreter *m = dg_probe_interpreter(&pr, 64);
        int values = pr.p->values.n;

        if (dg_interpreter_run(m, false) != 0)
            fine = dg_test_miss(k, t, NULL, NULL, "the op \"%s\" fails",
                                pr.p->instrs.items[m->fault.instr].op->name);
        m->frozen = true;
        for (int32_t v = 1; v < values && fine; v++)
            if (pr.p->values.items[v].space == DG_WEIGHTS && pr.p->values.items[v].param >= 0 &&
                dg_params_at(pr.params, pr.p->values.items[v].param)->kind == DG_TRAINABLE)
                fine = check_leaf(k, t, &pr, m, v, &tried, &worst, &lost);
        dg_test_tally(
            k, tried,
            lost ? dg_printf(
                       t->arena,
                       "derivatives; outputs follow from input \"%s\", to which no gradient flows",
                       lost)
                 : "derivatives",
            worst);
    }
    dg_probe_close(&pr);
    return fine;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const char *fault_text(dg_trial *t, const dg_instr *instr, const dg_kernel_fault *f)
{
    dg_signature s;
    const char *operand = "workspace";

    if (f->operand >= 0 && dg_signature_parse(&s, instr->op->signature) == 0) {
        const dg_operand *o = dg_signature_at(&s, instr->n_in, f->operand);

        operand = dg_printf(t->arena, "operand \"%.*s\"", o->len, o->name);
    }
    switch (f->kind) {
    case DG_KERNEL_MISSING:
        return "is not there";
    case DG_KERNEL_STATE:
        return dg_printf(t->arena,
                         "gives its %s other numbers when it is called again with the same "
                         "operands: it keeps something between calls",
                         operand);
    case DG_KERNEL_OUTSIDE:
        return dg_printf(t->arena, "writes beside its %s", operand);
    case DG_KERNEL_INPUT:
        return dg_printf(t->arena, "changes its %s, which is an input", operand);
    case DG_KERNEL_GARBAGE:
        return dg_printf(t->arena,
                         "gives its %s from what stood in memory before: an element is not "
                         "written, or workspace is read before it is",
                         operand);
    case DG_KERNEL_THREADS:
        return dg_printf(t->arena, "gives its %s other bits with more threads", operand);
    default:
        return "returns an error";
    }
}

bool dg_test_kernels(dg_node_test *k, dg_trial *t)
{
    static const struct {
        int bits;
        bool host;
        const char *name;
    } ways[] = { { 64, false, "reference kernel in f64" },
                 { 32, false, "reference kernel in f32" },
                 { 32, true, "kernel of the host" } };
    dg_probe pr;
    bool refused, fine = probe_gradient(k, t, &pr, true, &refused);

    for (int i = 0; fine && !refused && i < 3; i++) {
        dg_interpreter *m = dg_probe_interpreter(&pr, ways[i].bits);

        m->checked = true;
        m->host = ways[i].host;
        if (dg_interpreter_run(m, false) < 0) {
            const dg_instr *instr = &pr.p->instrs.items[m->fault.instr];
            const char *help = m->fault.kind == DG_KERNEL_MISSING
                                   ? "every op has ref32, and ref64, in which gradients are checked"
                                   : NULL;

            fine = dg_test_miss(k, t, NULL, help, "op \"%s\", %s: it %s", instr->op->name,
                                ways[i].name, fault_text(t, instr, &m->fault));
        }
    }
    dg_probe_close(&pr);
    return fine;
}

/* ---- executions ------------------------------------------------------------------------------ */

static bool execute(dg_node_test *k, dg_trial *t, dg_outcome *o, dg_dtype low, int threads,
                    bool *refused)
{
    dg_probe pr;
    bool fine = probe_gradient(k, t, &pr, true, refused);

    if (fine && !*refused && dg_probe_execute(o, &pr, low, threads, pr.d) < 0)
        fine = dg_test_miss(k, t, NULL, NULL, "it cannot be run: %s",
                            dg_diag_n(pr.d) ? dg_diag_at(pr.d, 0)->text : "?");
    dg_probe_close(&pr);
    return fine;
}

static const char *result_name(dg_trial *t, const dg_outcome *o, int i)
{
    return dg_printf(t->arena, o->is_gradient[i] ? "the gradient of \"%s\"" : "output \"%s\"",
                     o->names[i]);
}

bool dg_test_repeat(dg_node_test *k, dg_trial *t)
{
    dg_outcome a = { 0 }, b = { 0 };
    bool refused;

    if (!execute(k, t, &a, DG_F32, 2, &refused))
        return false;
    if (refused)
        return true;
    if (!execute(k, t, &b, DG_F32, 2, &refused))
        return false;
    assert(a.numbers && b.numbers);
    for (int i = 0; i < a.n; i++)
        for (int64_t e = 0; e < dg_shape_elements(a.shapes[i]); e++)
            if (memcmp(&a.numbers[i][e], &b.numbers[i][e], sizeof(double)) != 0)
                return dg_test_miss(
                    k, t, a.names[i],
                    "the same inputs have to give the same bits: no clock, no address, no rand",
                    "%s%s is %.9g, and %.9g when it is run again", result_name(t, &a, i),
                    place(t, a.shapes[i], e), a.numbers[i][e], b.numbers[i][e]);
    return true;
}

static double largest(const double *x, int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = isfinite(x[i]) ? fmax(most, fabs(x[i])) : most;
    return most;
}

/* Largest difference relative to the largest magnitude, or to `least` if that is larger; *at: its
 * index. */
static double distance(const double *x, const double *y, int64_t n, double least, int64_t *at)
{
    double worst = 0, most = fmax(least, largest(y, n));

    *at = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = isfinite(x[i]) && isfinite(y[i])               ? fabs(x[i] - y[i])
                   : (isnan(x[i]) && isnan(y[i])) || x[i] == y[i] ? 0
                                                                  : INFINITY;

        *at = d > worst ? i : *at;
        worst = fmax(worst, d);
    }
    return worst / most;
}

static bool compare(dg_node_test *k, dg_trial *t, const dg_outcome *a, const dg_outcome *b,
                    const char *types, double tolerance, bool gradients)
{
    /* smaller values vanish beside the largest gradient: noise */
    double worst = 0, least = 1e-3;
    int64_t at = 0;

    for (int i = 0; i < b->n; i++)
        least = fmax(least, 0.01 * largest(b->numbers[i], dg_shape_elements(b->shapes[i])));
    for (int i = 0; i < a->n; i++) {
        double d = !gradients && a->is_gradient[i]
                       ? 0
                       : distance(a->numbers[i], b->numbers[i], dg_shape_elements(a->shapes[i]),
                                  a->is_gradient[i] ? least : 1e-3, &at);

        if (d > tolerance)
            return dg_test_miss(
                k, t, a->names[i], NULL,
                "%s%s is %.6g in %s %.6g: off by %.2g of its largest, at most %.2g is allowed",
                result_name(t, a, i), place(t, a->shapes[i], at), a->numbers[i][at], types,
                b->numbers[i][at], d, tolerance);
        worst = fmax(worst, d);
    }
    dg_test_tally(k, a->n, "tensors", worst);
    return true;
}

bool dg_test_f32(dg_node_test *k, dg_trial *t)
{
    dg_outcome a = { 0 }, b = { 0 };
    dg_probe pr;
    bool refused, fine = probe_gradient(k, t, &pr, true, &refused);

    if (fine && !refused) {
        dg_interpreter *m = dg_probe_interpreter(&pr, 64);

        fine = dg_interpreter_run(m, false) == 0;
        dg_interpreter_outcome(&b, &pr, m);
        fine = fine ? execute(k, t, &a, DG_F32, 2, &refused) &&
                          compare(k, t, &a, &b, "f32, and in f64", F32, true)
                    : dg_test_miss(k, t, NULL, NULL, "the op \"%s\" fails in f64",
                                   pr.p->instrs.items[m->fault.instr].op->name);
    }
    dg_probe_close(&pr);
    return fine;
}

/* True if the node selects by numbers (topk, a comparison): rounding may change the selection. */
static bool chooses(const dg_probe *pr)
{
    bool found = false;

    for (int i = 0; i < pr->p->instrs.n; i++) {
        const dg_instr *instr = &pr->p->instrs.items[i];

        for (int k = 0; k < instr->n_in; k++)
            for (int j = instr->n_in; j < instr->n_in + instr->n_out; j++)
                found = found || (instr->phase == DG_FORWARD && instr->v[k] && instr->v[j] &&
                                  pr->p->values.items[instr->v[k]].dtype == DG_REAL &&
                                  pr->p->values.items[instr->v[j]].dtype == DG_I32);
    }
    return found;
}

bool dg_test_bf16(dg_node_test *k, dg_trial *t)
{
    dg_outcome a = { 0 }, b = { 0 };
    dg_probe pr;
    bool refused, choice;

    if (!probe_gradient(k, t, &pr, true, &refused)) {
        dg_probe_close(&pr);
        return false;
    }
    choice = chooses(&pr);
    dg_probe_close(&pr);

    if (!execute(k, t, &b, DG_F32, 2, &refused))
        return false;
    if (refused)
        return true;
    if (!execute(k, t, &a, DG_BF16, 2, &refused))
        return false;
    if (!choice)
        return compare(k, t, &a, &b, "bf16, and in f32", BF16, false);
    dg_test_tally(k, 0, "tensors compared: it chooses by numbers, which rounding moves", -1);
    return true;
}

bool dg_test_empty(dg_node_test *k, dg_trial *t)
{
    dg_outcome a;
    bool refused;

    if (!execute(k, t, &a, DG_F32, 1, &refused) || refused)
        return refused;
    for (int i = 0; i < a.n; i++)
        for (int64_t e = 0; e < dg_shape_elements(a.shapes[i]); e++)
            if (!isfinite(a.numbers[i][e]))
                return dg_test_miss(k, t, a.names[i],
                                    "a batch without objects is all zeros: divide by max(n, 1), "
                                    "take no logarithm of 0",
                                    "%s%s is %s where every dimension is 1 and every number 0",
                                    result_name(t, &a, i), place(t, a.shapes[i], e),
                                    isnan(a.numbers[i][e]) ? "nan" : "infinite");
    return true;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool has_row(const dg_node_class *c, dg_rule_kind from, dg_rule_kind to, const char *output)
{
    for (const dg_rule *r = c->rules; r && r->kind != DG_RULE_END; r++)
        if (r->kind >= from && r->kind <= to && (!output || !r->to || strcmp(r->to, output) == 0))
            return true;
    return from == DG_RULE_ALLREDUCE && c->collectives && c->collectives[0].kind;
}

enum { OF_INPUT = 1, OF_DRAW = 2 };

/* The ranks' inputs that each value depends on without a collective in between. */
static uint8_t *trace_inputs(const dg_probe *pr)
{
    uint8_t *from = DG_NEW_N(pr->trial->arena, pr->p->values.n, uint8_t);

    for (int i = 0; i < pr->in.n; i++)
        from[pr->in.items[i].value] = OF_INPUT;
    for (int i = 0; i < pr->p->instrs.n; i++) {
        const dg_instr *instr = &pr->p->instrs.items[i];
        uint8_t all = instr->op == DG_OP(uniform) ? OF_DRAW : 0;

        for (int k = 0; k < instr->n_in && instr->op->effect != DG_COLLECTIVE; k++)
            all |= from[instr->v[k]];
        for (int k = instr->n_in; k < instr->n_in + instr->n_out; k++)
            from[instr->v[k]] |= all;
    }
    return from;
}

static uint32_t flags_of(const dg_node_class *c, const char *output)
{
    for (const dg_port *p = c->ports; p && p->name; p++)
        if (p->flags & DG_PORT_OUT && strncmp(p->name, output, strlen(p->name)) == 0 &&
            (!output[strlen(p->name)] || output[strlen(p->name)] == '.'))
            return p->flags;
    return 0;
}

static bool check_ranks(dg_node_test *k, dg_trial *t, const dg_probe *pr)
{
    const dg_node_class *c = t->class;
    const uint8_t *from = trace_inputs(pr);

    for (int i = 0; i < pr->p->instrs.n; i++)
        if (pr->p->instrs.items[i].op->effect == DG_COLLECTIVE &&
            !has_row(c, DG_RULE_ALLREDUCE, DG_RULE_ALLGATHERV, NULL))
            return dg_test_miss(k, t, NULL,
                                "add a row of its kind to the class's rules (docs/invariance.md)",
                                "lower emits the collective \"%s\", and the class declares none: "
                                "validate would prove what does not hold",
                                pr->p->instrs.items[i].op->name);
    for (int i = 0; i < pr->out.n; i++) {
        const char *name = pr->out.items[i].name;
        uint32_t flags = flags_of(c, name);

        if (flags & DG_PORT_INVARIANT && from[pr->out.items[i].value] & OF_INPUT)
            return dg_test_miss(k, t, name, "reduce it over the axis first, or take the flag away",
                                "output \"%s\" is declared DG_PORT_INVARIANT, and follows from "
                                "inputs that no collective has joined",
                                name);
        if (from[pr->out.items[i].value] & OF_DRAW && !(flags & DG_PORT_VARIES) &&
            !has_row(c, DG_RULE_VALUE, DG_RULE_VALUE, name))
            return dg_test_miss(
                k, t, name, "declare it with DG_PORT_VARIES",
                "output \"%s\" follows from random numbers of its own, and is not declared to vary",
                name);
    }
    return true;
}

bool dg_test_ranks(dg_node_test *k, dg_trial *t)
{
    dg_probe pr;
    bool refused, fine = probe_gradient(k, t, &pr, false, &refused);

    if (fine && !refused)
        fine = check_ranks(k, t, &pr);
    dg_probe_close(&pr);
    return fine;
}
