/* unit.c: see unit.h. */
#include "tests/nodes/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/ops/formula.h"
#include "tests/ops/head_draws.h"

void unit_open(unit *u, int bits, bool training)
{
    *u = (unit){ .arena = dg_arena_open(), .d = dg_diag_open(), .bits = bits };
    u->params = dg_params_open();
    u->p = dg_program_open(u->params, training);
    u->p->accumulate = 2; /* so that every gradient has an instruction that says whose it is */
    u->b = dg_build_open(u->p, u->d);
}

void unit_close(unit *u)
{
    dg_build_close(&u->b);
    dg_program_close(&u->p);
    dg_params_close(&u->params);
    dg_diag_close(&u->d);
    dg_arena_close(&u->arena);
}

void unit_enter(unit *u, const char *name)
{
    dg_build_enter(u->b, (dg_origin){ .node = -1, .where.node = name }, name, name);
}

dg_val unit_input(unit *u, dg_dtype type, bool live, const char *name, dg_shape shape,
                  const double *values)
{
    dg_val v =
        live ? dg_param(u->b, name, shape, dg_init_zero()) : dg_input(u->b, name, type, shape);

    DG_PUSH(u->arena, u->set, ((unit_value){ v, values }));
    return v;
}

void *unit_conf(unit *u, const dg_node_class *class)
{
    char *conf = dg_alloc(u->arena, class->conf_size);

    for (const dg_attr *a = class->attrs; a->name; a++)
        unit_set(class, conf, a->name, a->def);
    return conf;
}

void unit_set(const dg_node_class *class, void *conf, const char *name, double value)
{
    for (const dg_attr *a = class->attrs; a->name; a++) {
        void *at = (char *)conf + a->offset;

        if (strcmp(a->name, name) != 0)
            continue;
        if (a->kind == DG_ATTR_NUM)
            *(double *)at = value;
        else if (a->kind == DG_ATTR_BOOL)
            *(bool *)at = value != 0;
        else if (a->kind == DG_ATTR_INT || a->kind == DG_ATTR_ENUM)
            *(int64_t *)at = (int64_t)value;
    }
}

void unit_lower(unit *u, const dg_node_class *class, const void *conf, const dg_val in[],
                dg_val out[])
{
    class->lower(u->b, conf, in, out);
    if (dg_build_failed(u->b) || dg_diag_n(u->d))
        fail_msg("%s does not build: %s", class->name, dg_diag_text(u->d));
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Element i of a parameter: matrices by their fan-in, weights of norms about 1, biases about 0. */
static double parameter(const char *name, dg_shape shape, int64_t i)
{
    double fan_in = shape.rank ? (double)dg_shape_elements(shape) / (double)shape.d[0] : 1,
           u = formula_u(name, i);

    if (shape.rank > 1)
        return (double)(float)((2 * u - 1) * sqrt(3 / fan_in));
    return (double)(float)(ends_in(name, "bias") ? 0.2 * (u - 0.5) : 0.5 + u);
}

static void fill_parameters(unit *u)
{
    for (int32_t v = 1; v < u->p->values.n; v++) {
        const dg_value *x = &u->p->values.items[v];
        double *values;

        if (x->param < 0 || x->producer >= 0 || x->space != DG_WEIGHTS)
            continue;
        values = DG_NEW_N(u->arena, dg_shape_elements(x->shape), double);
        for (int64_t i = 0; i < dg_shape_elements(x->shape); i++)
            values[i] = parameter(dg_params_at(u->params, x->param)->name, x->shape, i);
        dg_interpreter_set(u->m, v, values);
    }
}

static void fill_draws(unit *u)
{
    for (int k = 0; k < u->p->draws.n; k++) {
        const dg_binding *draw = &u->p->draws.items[k];
        dg_tensor t = dg_interpreter_tensor(u->m, draw->value);

        for (int64_t i = 0; u->draw && i < dg_shape_elements(t.shape); i++)
            dg_tensor_set(&t, i,
                          u->draw(u->ctx, draw->name, i,
                                  dg_shape_elements(t.shape) / t.shape.d[0]));
    }
}

void unit_rerun(unit *u)
{
    for (int i = 0; i < u->p->instrs.n; i++) {
        const dg_instr *instr = &u->p->instrs.items[i];
        dg_tensor t[DG_MAX_OPERANDS];
        int n = dg_interpreter_operands(u->m, instr, t);

        if (instr->op == DG_OP(uniform) && u->draw)
            continue;
        assert_int_equal(dg_interpreter_kernel(u->bits == 64 ? instr->op->ref64 : instr->op->ref32,
                                               t, n, instr->attr, &u->m->control, 1),
                         0);
    }
}

void unit_run(unit *u, dg_val loss)
{
    if (dg_has(loss))
        (void)dg_autodiff(u->b, (int32_t)loss.id, NULL);
    if (dg_build_failed(u->b))
        fail_msg("%s", dg_diag_text(u->d));
    u->m = dg_interpreter_open(u->arena, u->p, u->bits);
    fill_parameters(u);
    fill_draws(u);
    for (int i = 0; i < u->set.n; i++)
        dg_interpreter_set(u->m, (int32_t)u->set.items[i].v.id, u->set.items[i].values);
    unit_rerun(u);
}

int32_t unit_named(const unit *u, const char *name)
{
    for (int32_t v = 1; v < u->p->values.n; v++)
        if (u->p->values.items[v].name && strcmp(u->p->values.items[v].name, name) == 0)
            return v;
    fail_msg("there is no value %s", name);
    return 0;
}

double unit_get(const unit *u, const char *name, int64_t i)
{
    return dg_interpreter_get(u->m, unit_named(u, name), i);
}

int32_t unit_gradient(const unit *u, const char *param)
{
    int i = dg_params_find(u->params, param);

    if (i < 0)
        fail_msg("there is no parameter %s", param);
    return dg_interpreter_gradient(u->p, i);
}

double unit_head_key(void *ctx, const char *name, int64_t i, int64_t each)
{
    char full[32];

    (void)ctx;
    for (int k = 0; k < N_HEAD_DRAWS; k++)
        if (strcmp(head_draws[k].ours, name) == 0) {
            snprintf(full, sizeof full, "%s.%d", head_draws[k].theirs, (int)(i / each));
            return formula_u(full, i % each);
        }
    fail_msg("no keys for %s", name);
    return 0;
}
