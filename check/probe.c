/* probe.c: turns a draw into a program. Real inputs are parameters, so that autodiff gives their
 * gradients; integers are inputs of the batch. The loss weights every element of every real output
 * with a different number. Gradients are accumulated, so that each has an instruction naming its
 * parameter. */
#include "check/check_internal.h"

#include <math.h>
#include <string.h>

#include "kernels/backend.h"
#include "exec/exec.h"
#include "tensor/params.h"
#include "tensor/passes.h"

/* ---- numbers --------------------------------------------------------------------------------- */

const dg_number_range *dg_trial_range(const dg_trial *t, const char *name)
{
    for (int i = 0; i < t->how->n_ranges; i++)
        if (strcmp(t->how->ranges[i].name, name) == 0)
            return &t->how->ranges[i];
    return NULL;
}

static void draw_numbers(const dg_trial *t, const char *name, double lo, double hi, bool whole,
                         int64_t n, double *out)
{
    const dg_number_range *given = dg_trial_range(t, name);
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, name), 1, 0);

    for (int64_t i = 0; i < n; i++) {
        double x = given ? dg_rng_range(&r, given->lo, given->hi) : dg_rng_range(&r, lo, hi);

        out[i] = t->kind == DG_TRIAL_SMALLEST && !given ? 0 : whole ? floor(x) : x;
    }
}

bool dg_probe_is_input(const dg_probe *pr, int param)
{
    return strncmp(dg_params_at(pr->params, param)->path, "input.", 6) == 0;
}

/* Numbers for a parameter: an input's, or the node's initial values, moved slightly away from
 * zero. */
static double *numbers_of(const dg_probe *pr, int param)
{
    const dg_param_info *info = dg_params_at(pr->params, param);
    int64_t n = dg_shape_elements(info->shape);
    double *out = DG_NEW_N(pr->trial->arena, n, double);
    double *moved = DG_NEW_N(pr->trial->arena, n, double);

    if (dg_probe_is_input(pr, param)) {
        draw_numbers(pr->trial, info->path + 6, -1, 1, false, n, out);
        return out;
    }
    dg_params_init(pr->params, param, pr->trial->seed, out);
    draw_numbers(pr->trial, info->path, -0.3, 0.3, false, n, moved);
    for (int64_t i = 0; i < n && info->kind == DG_TRAINABLE; i++)
        out[i] += moved[i];
    return out;
}

/* The same for an integer input. */
static double *integers_of(const dg_probe *pr, const dg_leaf *leaf)
{
    int64_t n = dg_shape_elements(pr->p->values.items[leaf->value].shape), below = pr->trial->least;
    double *out = DG_NEW_N(pr->trial->arena, n, double);

    draw_numbers(pr->trial, leaf->name, 0, (double)(below < 3 ? below : 3), true, n, out);
    return out;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

dg_shape dg_trial_shape(const dg_trial *t, const dg_contract *c)
{
    dg_shape s = { 0 };
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "ellipsis"), 0, 0);
    int more = c->ellipsis < 0                ? 0
               : t->kind == DG_TRIAL_SMALLEST ? 1
                                              : (int)dg_rng_below(&r, 3) + (c->n_dims == 0);

    for (int i = 0; i < c->n_dims + more; i++) {
        int k = c->ellipsis < 0 || i < c->ellipsis ? i : i < c->ellipsis + more ? -1 : i - more;
        int var = k < 0 ? 0 : c->dims[k].size.var;

        if (s.rank == DG_MAX_DIMS)
            break;
        if (k >= 0 && c->dims[k].size.n)
            s.d[s.rank++] = c->dims[k].size.n;
        else if (k < 0)
            s.d[s.rank++] = t->kind == DG_TRIAL_SMALLEST ? 1 : 2 + i % 3;
        else {
            while (t->g->dims.vars.items[var].parent >= 0)
                var = t->g->dims.vars.items[var].parent;
            s.d[s.rank++] = t->sizes[var] ? t->sizes[var] : 1;
        }
    }
    return s;
}

static dg_val feed_inputs(dg_probe *pr, dg_build *b, const dg_contract *c, const char *name);

static dg_val feed_record(dg_probe *pr, dg_build *b, const dg_contract *c, const char *name)
{
    dg_val record = dg_record(b);
    dg_rng r = dg_rng_begin(dg_rng_named(pr->trial->seed, name), 2, 0);

    for (int i = 0; i < c->n_fields; i++) {
        const dg_field_type *f = &c->fields[i];
        const char *key = f->wildcard ? dg_printf(pr->trial->arena, "%sx", f->key) : f->key;

        if (f->optional && pr->trial->kind == DG_TRIAL_DRAWN && dg_rng_uniform(&r) < 0.5)
            continue;
        dg_record_set(b, record, key,
                      feed_inputs(pr, b, f->type, dg_printf(pr->trial->arena, "%s.%s", name, key)));
    }
    return record;
}

static dg_val feed_inputs(dg_probe *pr, dg_build *b, const dg_contract *c, const char *name)
{
    dg_shape shape = c->kind == DG_TYPE_ANY ? DG_SHAPE(2, 3) : dg_trial_shape(pr->trial, c);
    dg_leaf leaf = { name, 0, -1 };
    dg_val v;

    if (c->kind == DG_TYPE_RECORD)
        return feed_record(pr, b, c, name);
    if (c->kind == DG_TYPE_TENSOR && c->dtype == DG_I32) {
        v = dg_input(b, name, DG_I32, shape);
    } else {
        v = dg_param(b, name, shape, dg_init_zero());
        leaf.param = dg_params_find_path(pr->params, dg_printf(pr->trial->arena, "input.%s", name));
    }
    leaf.value = (int32_t)v.id;
    DG_PUSH(pr->trial->arena, pr->in, leaf);
    return v;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void describe(dg_probe *pr, const char *name, const dg_contract *c, const char *found)
{
    dg_str type = { 0 };

    if (pr->wrong)
        return;
    dg_contract_print(&type, &pr->trial->g->dims, c);
    pr->wrong =
        dg_printf(pr->trial->arena, "it is declared as %s, and lower makes %s", type.s, found);
    pr->wrong_port = name;
    dg_str_free(&type);
}

/* The sizes of the letters that inputs have; nothing if an output uses others. */
static const char *expected(const dg_trial *t, const dg_contract *c)
{
    char shape[96];

    for (int i = 0; i < c->n_dims; i++) {
        int var = c->dims[i].size.var;

        while (!c->dims[i].size.n && t->g->dims.vars.items[var].parent >= 0)
            var = t->g->dims.vars.items[var].parent;
        if (!c->dims[i].size.n && !t->sizes[var])
            return "";
    }
    return c->ellipsis >= 0
               ? ""
               : dg_printf(t->arena, ": here that is %s%s", c->dtype == DG_I32 ? "i32 " : "",
                           dg_shape_print(dg_trial_shape(t, c), shape, sizeof shape));
}

/* Records an output. The program decides whether a value is real, i32 or u8; dg_contract_holds
 * compares it with the contract. */
static void take_output(dg_probe *pr, dg_build *b, const dg_contract *c, const char *name, dg_val v,
                        int64_t *bound)
{
    char shape[96];

    if (dg_is_record(v) && c->kind == DG_TYPE_RECORD) {
        for (int i = 0; i < c->n_fields; i++)
            if (!c->fields[i].wildcard && !c->fields[i].optional &&
                !dg_record_has(b, v, c->fields[i].key))
                describe(pr, name, c,
                         dg_printf(pr->trial->arena, "a record without the key \"%s\"",
                                   c->fields[i].key));
    } else if (dg_is_record(v) != (c->kind == DG_TYPE_RECORD) && c->kind != DG_TYPE_ANY) {
        describe(pr, name, c, dg_is_record(v) ? "a record" : "a tensor");
        return;
    }
    for (int i = 0; dg_is_record(v) && i < dg_record_n(b, v); i++) {
        const char *key = dg_record_key(b, v, i);
        const dg_contract *type = &dg_contract_any;

        for (int k = 0; c->kind == DG_TYPE_RECORD && k < c->n_fields; k++)
            if (strcmp(c->fields[k].key, key) == 0)
                type = c->fields[k].type;
        take_output(pr, b, type, dg_printf(pr->trial->arena, "%s.%s", name, key),
                    dg_record_get(b, v, key), bound);
    }
    if (dg_kind_of(b, v) != DG_KIND_TENSOR)
        return;
    DG_PUSH(pr->trial->arena, pr->out, ((dg_leaf){ name, (int32_t)v.id, -1 }));
    dg_result(b, name, v);
    dg_dtype dtype = pr->p->values.items[v.id].dtype;

    if (c->kind == DG_TYPE_TENSOR &&
        !dg_contract_holds(&pr->trial->g->dims, c, dtype, dg_shape_of(b, v), bound))
        describe(pr, name, c,
                 dg_printf(pr->trial->arena, "%s%s%s", dtype == DG_I32 ? "i32 " : "",
                           dg_shape_print(dg_shape_of(b, v), shape, sizeof shape),
                           expected(pr->trial, c)));
}

static dg_val weighted_sum(dg_probe *pr, dg_build *b, const dg_leaf *leaf)
{
    dg_val y = { leaf->value };
    dg_shape shape = dg_shape_of(b, y);
    double *weights = DG_NEW_N(pr->trial->arena, dg_shape_elements(shape), double);
    dg_rng r = dg_rng_begin(dg_rng_named(pr->trial->seed, leaf->name), 3, 0);

    for (int64_t i = 0; i < dg_shape_elements(shape); i++)
        weights[i] = dg_rng_range(&r, 0.25, 1) * (i % 2 ? 1 : -1);
    return dg_sum(b, dg_mul(b, y, dg_const(b, shape, weights)), DG_ALL_AXES, false);
}

static void differentiate(dg_probe *pr, dg_build *b)
{
    dg_val loss = DG_NONE;

    for (int i = 0; i < pr->out.n; i++)
        if (pr->p->values.items[pr->out.items[i].value].dtype == DG_REAL) {
            dg_val term = weighted_sum(pr, b, &pr->out.items[i]);

            loss = dg_has(loss) ? dg_add(b, loss, term) : term;
        }
    if (!dg_has(loss) || dg_is_poison(loss) || !pr->p->values.items[loss.id].needs_gradient)
        return;
    dg_result(b, "loss", loss);
    if (dg_autodiff(b, (int32_t)loss.id, NULL) == 0)
        pr->loss = (int32_t)loss.id;
}

/* True for ids of the builder; others come from nodes' dg_error. */
static bool is_builders(const char *id)
{
    return strncmp(id, "shape-", 6) == 0 || strncmp(id, "param-", 6) == 0;
}

int dg_probe_open(dg_probe *pr, dg_trial *t, bool training)
{
    const dg_node *node = t->node;
    dg_val *in = DG_NEW_N(t->arena, node->n_in, dg_val),
           *out = DG_NEW_N(t->arena, node->n_out, dg_val);
    int64_t *bound = DG_NEW_N(t->arena, t->g->dims.vars.n + 1, int64_t);

    *pr = (dg_probe){ .trial = t, .params = dg_params_open(), .d = dg_diag_open() };
    pr->p = dg_program_open(pr->params, training);
    pr->p->accumulate = 2;
    dg_build *b = dg_build_open(pr->p, pr->d);

    if (t->ranks)
        dg_build_axis(b, "dp", t->ranks);
    dg_build_enter(b, (dg_origin){ DG_NOWHERE, -1, false, 0 }, "input", "input");
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].from)
            in[i] = feed_inputs(pr, b, node->in_types[i], node->in_ports[i]->name);
    for (int i = 0; i < node->n_in; i++)
        if (node->in_types[i]->kind == DG_TYPE_TENSOR && dg_has(in[i]))
            (void)dg_contract_holds(&t->g->dims, node->in_types[i],
                                    pr->p->values.items[in[i].id].dtype, dg_shape_of(b, in[i]),
                                    bound);
    dg_build_enter(b, (dg_origin){ { NULL, 0, 0, node->id }, 0, false, 0 }, "node", "node");
    t->class->lower(b, node->conf, in, out);
    for (int i = 0; i < node->n_out && !dg_build_failed(b); i++) {
        if (!dg_has(out[i]) && !(node->out_ports[i]->flags & DG_PORT_EMPTY_ABSENT))
            pr->missing = node->out_ports[i];
        else if (dg_has(out[i]))
            take_output(pr, b, node->out_contracts[i], node->out_ports[i]->name, out[i], bound);
    }
    dg_build_enter(b, (dg_origin){ DG_NOWHERE, -1, false, 0 }, "", "");
    if (training && !dg_build_failed(b))
        differentiate(pr, b);
    bool failed = dg_build_failed(b);

    dg_build_close(&b);
    if (failed)
        return dg_diag_n(pr->d) && !is_builders(dg_diag_at(pr->d, 0)->id) ? 1 : -DG_EINPUT;
    return pr->wrong || pr->missing ? -DG_EINPUT : 0;
}

void dg_probe_close(dg_probe *pr)
{
    dg_program_close(&pr->p);
    dg_params_close(&pr->params);
    dg_diag_close(&pr->d);
}

/* ---- execution ------------------------------------------------------------------------------- */

static dg_control control_of(const dg_trial *t)
{
    return (dg_control){ .seed = t->seed,
                         .step = 3,
                         .sample = 11,
                         .n_groups = 1,
                         .bias1 = 0.1,
                         .bias2 = 0.001,
                         .ema_decay = 0.5 };
}

dg_interpreter *dg_probe_interpreter(const dg_probe *pr, int bits)
{
    dg_interpreter *m = dg_interpreter_open(pr->trial->arena, pr->p, bits);

    m->control = control_of(pr->trial);
    for (int32_t v = 1; v < pr->p->values.n; v++)
        if (pr->p->values.items[v].space == DG_WEIGHTS && pr->p->values.items[v].param >= 0)
            dg_interpreter_set(m, v, numbers_of(pr, pr->p->values.items[v].param));
    for (int i = 0; i < pr->in.n; i++)
        if (pr->in.items[i].param < 0)
            dg_interpreter_set(m, pr->in.items[i].value, integers_of(pr, &pr->in.items[i]));
    return m;
}

static void begin_outcome(dg_outcome *o, const dg_probe *pr)
{
    dg_arena *a = pr->trial->arena;
    int most = pr->out.n + dg_params_n(pr->params);

    *o = (dg_outcome){ 0, DG_NEW_N(a, most, const char *), DG_NEW_N(a, most, bool),
                       DG_NEW_N(a, most, dg_shape), DG_NEW_N(a, most, double *) };
}

static double *add_numbers(dg_outcome *o, const dg_probe *pr, const char *name, bool is_gradient,
                           dg_shape shape)
{
    int i = o->n++;

    o->names[i] = name;
    o->is_gradient[i] = is_gradient;
    o->shapes[i] = shape;
    o->numbers[i] = DG_NEW_N(pr->trial->arena, dg_shape_elements(shape), double);
    return o->numbers[i];
}

/* "b" for an input, "weight" for the node's own. */
static const char *name_of(const dg_probe *pr, int param)
{
    const char *path = dg_params_at(pr->params, param)->path;

    return path + strcspn(path, ".") + 1;
}

void dg_interpreter_outcome(dg_outcome *o, const dg_probe *pr, const dg_interpreter *m)
{
    begin_outcome(o, pr);
    for (int i = 0; i < pr->out.n; i++) {
        dg_tensor t = dg_interpreter_tensor(m, pr->out.items[i].value);
        double *to = add_numbers(o, pr, pr->out.items[i].name, false, t.shape);

        for (int64_t k = 0; k < dg_shape_elements(t.shape); k++)
            to[k] = dg_tensor_get(&t, k);
    }
    for (int i = 0; i < dg_params_n(pr->params); i++) {
        int32_t g = dg_interpreter_gradient(pr->p, i);

        if (!g)
            continue;
        dg_tensor t = dg_interpreter_tensor(m, g);
        double *to = add_numbers(o, pr, name_of(pr, i), true, t.shape);

        for (int64_t k = 0; k < dg_shape_elements(t.shape); k++)
            to[k] = dg_tensor_get(&t, k);
    }
}

typedef struct memory {
    dg_spaces spaces;
    int64_t bytes[DG_N_SPACES];
} memory;

static int open_memory(memory *m, const dg_probe *pr, const dg_plan *plan, dg_diag *d)
{
    for (int s = 0; s < DG_N_SPACES; s++) {
        m->bytes[s] = s == DG_SLAB        ? plan->slab_bytes
                      : s == DG_IO        ? plan->io_bytes
                      : s == DG_CONSTANTS ? plan->constant_bytes
                                          : 4 * dg_params_elements(pr->params);
        m->spaces.at[s] = dg_try_alloc((size_t)m->bytes[s] + 64);
        if (!m->spaces.at[s])
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for %lld bytes",
                           (long long)m->bytes[s]);
    }
    /* NaN: unwritten values must not be read */
    memset(m->spaces.at[DG_SLAB], 0xFF, (size_t)m->bytes[DG_SLAB]);
    return 0;
}

static void put_numbers(const memory *m, const dg_probe *pr)
{
    for (int i = 0; i < dg_params_n(pr->params); i++) {
        const dg_param_info *info = dg_params_at(pr->params, i);
        double *numbers = info->offset < 0 ? NULL : numbers_of(pr, i);

        for (int64_t k = 0; numbers && k < dg_shape_elements(info->shape); k++)
            ((float *)m->spaces.at[DG_WEIGHTS])[info->offset + k] = (float)numbers[k];
    }
}

static int put_integers(dg_exec *x, const dg_probe *pr, dg_diag *d)
{
    for (int i = 0; i < pr->in.n; i++) {
        const dg_leaf *leaf = &pr->in.items[i];

        int rc = leaf->param >= 0 ? 0
                                  : dg_exec_set(x, dg_program_input(pr->p, leaf->name),
                                                integers_of(pr, leaf), d);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_outcome(dg_outcome *o, const dg_probe *pr, const memory *m, dg_exec *x,
                        const bool *reached, dg_diag *d)
{
    int rc = 0;

    begin_outcome(o, pr);
    for (int i = 0; i < pr->out.n && rc == 0; i++) {
        int32_t v = dg_program_result(pr->p, pr->out.items[i].name);

        rc = dg_exec_get(x, v,
                         add_numbers(o, pr, pr->out.items[i].name, false,
                                     pr->p->values.items[v].shape),
                         d);
    }
    for (int i = 0; i < dg_params_n(pr->params) && rc == 0; i++) {
        const dg_param_info *info = dg_params_at(pr->params, i);

        if (!reached[i])
            continue;
        double *to = add_numbers(o, pr, name_of(pr, i), true, info->shape);

        for (int64_t k = 0; k < dg_shape_elements(info->shape); k++)
            to[k] = (double)((const float *)m->spaces.at[DG_GRADIENTS])[info->offset + k];
    }
    return rc;
}

int dg_probe_execute(dg_outcome *o, dg_probe *pr, dg_dtype low, int threads, dg_diag *d)
{
    dg_control control = control_of(pr->trial);
    dg_backend *backend = NULL;
    dg_plan *plan = NULL;
    dg_exec *x = NULL;
    memory m = { 0 };
    bool *reached = DG_NEW_N(pr->trial->arena, dg_params_n(pr->params) + 1, bool);
    int rc;

    for (int i = 0; i < dg_params_n(pr->params); i++)
        reached[i] = dg_interpreter_gradient(pr->p, i) != 0;
    DG_TRY(dg_backend_open(&backend, "cpu", d));
    DG_TRY(dg_passes(pr->p, DG_F32, low, backend, 1, d));
    DG_TRY(dg_plan_open(&plan, pr->p, backend, threads, d));
    DG_TRY(open_memory(&m, pr, plan, d));
    put_numbers(&m, pr);
    DG_TRY(dg_exec_open(&x, plan, backend, &m.spaces, NULL, d));
    DG_TRY(put_integers(x, pr, d));
    DG_TRY(dg_exec_run(x, DG_SEG_BATCH, &control, d));
    DG_TRY(read_outcome(o, pr, &m, x, reached, d));
out:
    if (x)
        dg_exec_close(&x);
    dg_plan_close(&plan);
    dg_backend_close(&backend);
    for (int s = 0; s < DG_N_SPACES; s++)
        dg_free(m.spaces.at[s]);
    return rc;
}
