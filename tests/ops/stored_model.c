/* stored_model.c: see stored_model.h. */
#include "tests/ops/stored_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/ops/formula.h"

void model_open(model *m, const dg_json *file, const char *name, int bits, stored_worst *worst)
{
    *m = (model){
        .arena = dg_arena_open(), .name = name, .bits = bits, .worst = &worst[bits == 64]
    };
    m->entry = dg_json_get(file, name);
    assert_non_null(m->entry);
    m->prefix =
        dg_json_get(m->entry, "param_prefix") ? dg_json_get(m->entry, "param_prefix")->text : "";
    m->d = dg_diag_open();
    m->params = dg_params_open();
    m->p = dg_program_open(m->params, true);
    m->p->accumulate = 2; /* so that every gradient has an instruction that says whose it is */
    m->b = dg_build_open(m->p, m->d);
}

void model_close(model *m)
{
    dg_build_close(&m->b);
    dg_program_close(&m->p);
    dg_params_close(&m->params);
    dg_diag_close(&m->d);
    dg_arena_close(&m->arena);
}

const dg_json *model_at(const model *m, const char *path)
{
    const dg_json *at = m->entry;

    while (*path) {
        size_t n = strcspn(path, "/");

        at = dg_json_get(at, dg_strndup(m->arena, path, n));
        path += path[n] ? n + 1 : n;
    }
    if (!at)
        fail_msg("%s has no such entry", m->name);
    return at;
}

/* Where element i of a stored array lies in ours; s is the stored shape. */
static int64_t place(dg_shape s, bool image, int64_t i)
{
    int64_t w = s.d[3], h = s.d[2], c = s.d[1];

    if (!image)
        return i;
    return (((i / (c * h * w)) * h + i / w % h) * w + i % w) * c + i / (h * w) % c;
}

static dg_shape shape_of(const dg_json *list, bool image)
{
    dg_shape s = { .rank = list->n };

    for (int i = 0; i < list->n; i++)
        s.d[i] = (int64_t)list->items[i].number;
    return image ? DG_SHAPE(s.d[0], s.d[2], s.d[3], s.d[1]) : s;
}

double *model_numbers(model *m, const char *key, bool image, dg_shape *shape)
{
    const dg_json *in = dg_json_get(model_at(m, "inputs"), key);

    assert_non_null(in);
    dg_shape stored = shape_of(dg_json_get(in, "shape"), false);
    int64_t n = dg_shape_elements(stored);
    double *values = DG_NEW_N(m->arena, n, double);

    for (int64_t i = 0; i < n; i++)
        values[place(stored, image, i)] =
            formula(dg_json_get(in, "name")->text, i, dg_json_get(in, "a")->number,
                    dg_json_get(in, "b")->number);
    *shape = shape_of(dg_json_get(in, "shape"), image);
    return values;
}

static dg_val keep(model *m, dg_val v, const double *values)
{
    DG_PUSH(m->arena, m->set, ((stored_value){ v, values }));
    return v;
}

dg_val model_live(model *m, const char *name, dg_shape shape, const double *values)
{
    return keep(m, dg_param(m->b, name, shape, dg_init_zero()), values);
}

dg_val model_fixed(model *m, dg_dtype type, const char *name, dg_shape shape, const double *values)
{
    return keep(m, dg_input(m->b, name, type, shape), values);
}

dg_val model_input(model *m, const char *key, bool image)
{
    dg_shape shape;
    const double *values = model_numbers(m, key, image, &shape);

    return model_live(m, dg_printf(m->arena, "input.%s", key), shape, values);
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

/* The rule for element i of a parameter, before it is rounded. */
static double parameter(const char *name, dg_shape shape, int64_t i)
{
    double fan_in = (double)dg_shape_elements(shape) / (double)shape.d[0], u = formula_u(name, i);
    double gain = ends_in(name, "sampling_offsets.weight") ? 0.25 : 1;

    if (shape.rank > 1)
        return (2 * u - 1) * (gain * sqrt(3 / fan_in));
    return ends_in(name, "weight") || ends_in(name, "running_var") ? 0.5 + u : 0.2 * (u - 0.5);
}

dg_val model_param(model *m, const char *key, dg_shape shape)
{
    const char *name = dg_printf(m->arena, "%s%s", m->prefix, key);
    bool state = strstr(key, "running_") != NULL;
    double *values = DG_NEW_N(m->arena, dg_shape_elements(shape), double);

    for (int64_t i = 0; i < dg_shape_elements(shape); i++)
        values[i] = (double)(float)parameter(name, shape, i);
    return keep(m,
                state ? dg_buffer(m->b, key, shape, dg_init_zero())
                      : dg_param(m->b, key, shape, dg_init_zero()),
                values);
}

void model_scalar_loss(model *m, dg_val y)
{
    m->loss = dg_has(m->loss) ? dg_add(m->b, m->loss, y) : y;
}

void model_loss(model *m, dg_val y, bool image)
{
    dg_shape shape;
    double *weight = model_numbers(m, "grad_out", image, &shape);

    model_scalar_loss(m, dg_sum(m->b, dg_mul(m->b, y, dg_const(m->b, shape, weight)), DG_ALL_AXES,
                                false));
}

void model_run(model *m)
{
    if (dg_has(m->loss) && !dg_build_failed(m->b))
        (void)dg_autodiff(m->b, (int32_t)m->loss.id, NULL);
    if (dg_build_failed(m->b))
        fail_msg("%s does not build: %s", m->name, dg_diag_text(m->d));
    m->m = dg_interpreter_open(m->arena, m->p, m->bits);
    for (int i = 0; i < m->set.n; i++)
        dg_interpreter_set(m->m, (int32_t)m->set.items[i].v.id, m->set.items[i].values);
    assert_int_equal(dg_interpreter_run(m->m, false), 0);
}

static void judge(model *m, double error, const char *what)
{
    double bound = m->bits == 64 ? 1e-10 : m->loose > 0 ? m->loose * 5e-6 : 5e-6;

    if (!(error <= m->worst->error)) {
        m->worst->error = error;
        snprintf(m->worst->where, sizeof m->worst->where, "%s %s", m->name, what);
    }
    if (!(error <= bound))
        fail_msg("%s %s in f%d is off by %.3g of its maximum, at most %.0e was allowed", m->name,
                 what, m->bits, error, bound);
}

void model_check_number(model *m, double own, double stored, double most, const char *what)
{
    judge(m, fabs(own - stored) / fmax(most, 1e-12), what);
}

static void check(model *m, int32_t v, const dg_json *stored, bool image, double scale,
                  const char *what)
{
    dg_json number = { .items = stored };
    const dg_json *list = stored->kind == DG_JSON_NUMBER  ? &number
                          : stored->kind == DG_JSON_ARRAY ? stored
                                                          : dg_json_get(stored, "data");
    dg_shape shape = { 0 };
    double worst = 0, most = 0;
    int n = stored->kind == DG_JSON_NUMBER ? 1 : list->n;

    if (stored->kind == DG_JSON_OBJECT)
        shape = shape_of(dg_json_get(stored, "shape"), false);
    assert_int_equal(dg_shape_elements(dg_interpreter_tensor(m->m, v).shape), n);
    for (int i = 0; i < n; i++) {
        double own = dg_interpreter_get(m->m, v, place(shape, image, i)) * scale;

        worst = fmax(worst, isfinite(own) ? fabs(own - list->items[i].number) : INFINITY);
        most = fmax(most, fabs(list->items[i].number));
    }
    judge(m, worst / fmax(most, 1e-12), what);
}

void model_check(model *m, dg_val v, const dg_json *stored, bool image, const char *what)
{
    check(m, (int32_t)v.id, stored, image, 1, what);
}

void model_check_gradient(model *m, dg_val v, const dg_json *stored, bool image, double scale,
                          const char *what)
{
    int32_t g = dg_interpreter_gradient(m->p, m->p->values.items[v.id].param);

    if (!g)
        fail_msg("%s: no gradient of %s", m->name, what);
    check(m, g, stored, image, scale, what);
}

void model_check_parameters(model *m)
{
    const dg_json *grads = dg_json_get(m->entry, "param_grad");

    grads = grads ? grads : model_at(m, "grad");
    for (int i = 0; i < grads->n; i++) {
        if (dg_json_get(model_at(m, "inputs"), grads->items[i].key))
            continue;
        int param = dg_params_find(m->params, grads->items[i].key);
        int32_t g = param < 0 ? 0 : dg_interpreter_gradient(m->p, param);

        if (!g)
            fail_msg("%s: no gradient of %s", m->name, grads->items[i].key);
        check(m, g, &grads->items[i], false, 1, grads->items[i].key);
    }
}
