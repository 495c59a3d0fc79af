/* program.c: a program's memory, lookups and listing. */
#include "tensor/program.h"

#include <stddef.h>
#include <string.h>

#include "tensor/ops.h"
#include "tensor/params.h"
#include "tensor/print.h"

const char *dg_space_name(dg_space s)
{
    static const char *const names[DG_N_SPACES] = {
        [DG_SLAB] = "slab",       [DG_WEIGHTS] = "weights",     [DG_GRADIENTS] = "gradients",
        [DG_MOMENT1] = "moment1", [DG_MOMENT2] = "moment2",     [DG_EMA] = "ema",
        [DG_IO] = "io",           [DG_CONSTANTS] = "constants", [DG_REPORT] = "report",
    };

    return s < DG_N_SPACES ? names[s] : "?";
}

dg_program *dg_program_open(dg_params *params, bool training)
{
    dg_arena *a = dg_arena_open();
    dg_program *p = DG_NEW(a, dg_program);
    int values, instrs;

    dg_params_length(params, &values, &instrs);
    if (values)
        DG_RESERVE(a, p->values, values);
    if (instrs)
        DG_RESERVE(a, p->instrs, instrs);
    p->arena = a;
    p->params = params;
    p->training = training;
    p->accumulate = 1;
    DG_PUSH(a, p->values, ((dg_value){ .producer = -1, .param = -1 })); /* value 0 means "none" */
    return p;
}

void dg_program_close(dg_program **p)
{
    if (!*p)
        return;
    dg_arena *a = (*p)->arena;

    dg_arena_close(&a);
    *p = NULL;
}

int32_t dg_program_value(dg_program *p, dg_value v)
{
    DG_PUSH(p->arena, p->values, v);
    return p->values.n - 1;
}

static int32_t find(const dg_binding *items, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(items[i].name, name) == 0)
            return items[i].value;
    return 0;
}

int32_t dg_program_result_of(const dg_program *p, dg_result_kind kind, int index)
{
    for (int i = 0; i < p->results.n; i++)
        if (p->results.items[i].kind == kind && p->results.items[i].index == index)
            return p->results.items[i].value;
    return 0;
}

int32_t dg_program_taken(const dg_program *p, const char *key)
{
    for (int i = 0; i < p->results.n; i++) {
        const dg_binding *r = &p->results.items[i];
        const char *dot = r->kind == DG_RESULT_TAKEN ? strrchr(r->key, '.') : NULL;

        if (r->kind == DG_RESULT_TAKEN && strcmp(dot ? dot + 1 : r->key, key) == 0)
            return r->value;
    }
    return 0;
}

bool dg_result_is_monitored(const dg_binding *r)
{
    return r->kind == DG_RESULT_MONITOR_VALUE || r->kind == DG_RESULT_MONITOR_FIRING ||
           r->kind == DG_RESULT_MONITOR_THERE;
}

int32_t dg_program_result(const dg_program *p, const char *name)
{
    return find(p->results.items, p->results.n, name);
}

int32_t dg_program_input_of(const dg_program *p, int index, const char *key)
{
    for (int i = 0; i < p->inputs.n; i++) {
        const dg_binding *in = &p->inputs.items[i];

        if (in->index == index && in->key && strcmp(in->key, key) == 0)
            return in->value;
    }
    return 0;
}

int32_t dg_program_input(const dg_program *p, const char *name)
{
    return find(p->inputs.items, p->inputs.n, name);
}

int32_t dg_program_named(const dg_program *p, const char *name)
{
    for (int32_t v = p->values.n - 1; v > 0; v--)
        if (p->values.items[v].name && p->values.items[v].producer > -2 &&
            !strcmp(p->values.items[v].name, name))
            return v;
    return 0;
}

int32_t dg_program_guard(const dg_program *p, int32_t v)
{
    for (int i = p->values.items[v].producer; i >= 0; i = p->values.items[v].producer) {
        const dg_instr *in = &p->instrs.items[i];

        if (!in->otherwise)
            return in->guard;
        v = in->v[in->otherwise - 1];
    }
    return 0;
}

/* A reshape under a guard that its input lacks is a copy instead: it is zeros when skipped, its
 * input is not. */
bool dg_program_is_alias(const dg_program *p, int i)
{
    const dg_instr *in = &p->instrs.items[i];

    return (in->op == DG_OP(reshape) || in->op == DG_OP(reshape_i32)) &&
           (!in->guard || in->guard == dg_program_guard(p, in->v[0]));
}

void dg_program_renumber(dg_program *p)
{
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = in->n_in; k < in->n_in + in->n_out; k++)
            if (in->v[k])
                p->values.items[in->v[k]].producer = i;
    }
}

void dg_program_compact(dg_program *p, const bool *keep)
{
    int n = 0;

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = in->n_in; !keep[i] && k < in->n_in + in->n_out; k++)
            if (in->v[k] && p->values.items[in->v[k]].producer == i)
                p->values.items[in->v[k]].producer = -2;
        if (keep[i])
            p->instrs.items[n++] = *in;
    }
    p->instrs.n = n;
    dg_program_renumber(p);
}

/* ---- listing --------------------------------------------------------------------------------- */

static int64_t int_at(const void *attr, size_t offset)
{
    int64_t v;

    memcpy(&v, (const char *)attr + offset, sizeof v);
    return v;
}

static void print_ints(dg_str *out, const void *attr, size_t offset, int64_t n)
{
    dg_str_add(out, "[");
    for (int64_t i = 0; i < n; i++)
        dg_str_fmt(out, "%s%lld", i ? "," : "",
                   (long long)int_at(attr, offset + (size_t)i * sizeof(int64_t)));
    dg_str_add(out, "]");
}

static void print_field(dg_str *out, const dg_field *f, const void *attr)
{
    int64_t n = f->count;
    double real;

    dg_str_fmt(out, "%s=", f->name);
    switch (f->kind) {
    case DG_FIELD_INT:
        dg_str_fmt(out, "%lld", (long long)int_at(attr, f->offset));
        break;
    case DG_FIELD_INTS:
        while (n > 1 && int_at(attr, f->offset + (size_t)(n - 1) * sizeof(int64_t)) == 0)
            n--;
        print_ints(out, attr, f->offset, n);
        break;
    case DG_FIELD_REAL:
        memcpy(&real, (const char *)attr + f->offset, sizeof real);
        dg_str_fmt(out, "%.9g", real);
        break;
    case DG_FIELD_DTYPE:
        dg_str_add(out, dg_dtype_name((dg_dtype)int_at(attr, f->offset)));
        break;
    case DG_FIELD_SHAPE:
        n = int_at(attr, f->offset);
        print_ints(out, attr, f->offset + sizeof(int64_t), n >= 0 && n <= DG_MAX_DIMS ? n : 0);
        break;
    }
}

void dg_print_attr(dg_str *out, const dg_op *op, const void *attr)
{
    if (!op->fields || !op->fields->name)
        return;
    dg_str_add(out, " {");
    for (const dg_field *f = op->fields; f->name; f++) {
        dg_str_add(out, f == op->fields ? "" : " ");
        print_field(out, f, attr);
    }
    dg_str_add(out, "}");
}

void dg_print_value(dg_str *out, const dg_program *p, int32_t v)
{
    const dg_value *x = &p->values.items[v];
    char shape[64];

    if (!v) {
        dg_str_add(out, "-");
        return;
    }
    dg_str_fmt(out, "%%%d:%s%s", (int)v, dg_dtype_name(x->dtype),
               dg_shape_print(x->shape, shape, sizeof shape));
    if (x->name)
        dg_str_fmt(out, "'%s'", x->name);
}

void dg_print_guard(dg_str *out, const dg_instr *in)
{
    if (in->guard)
        dg_str_fmt(out, " if %%%d", (int)in->guard);
    if (in->otherwise)
        dg_str_fmt(out, " else %%%d", (int)in->v[in->otherwise - 1]);
}

void dg_print_origin(dg_str *out, dg_where at)
{
    if (!at.node && !at.file)
        return;
    dg_str_add(out, "  ;");
    if (at.node)
        dg_str_fmt(out, " %s", at.node);
    if (at.file)
        dg_str_fmt(out, " %s:%d:%d", at.file, at.line, at.column);
}

static const char *const phases[] = {
    [DG_FORWARD] = "forward",
    [DG_GRADIENT] = "gradient",
    [DG_RECOMPUTE] = "recompute",
    [DG_OPTIMIZE] = "optimize",
};

/* Prints the origin of a value without producer. */
static void print_source(dg_str *out, const dg_program *p, int32_t v)
{
    const dg_value *x = &p->values.items[v];
    size_t n = (size_t)dg_shape_elements(x->shape);

    dg_print_value(out, p, v);
    dg_str_fmt(out, " = %s", dg_space_name(x->space));
    if (x->param >= 0)
        dg_str_fmt(out, " %s", dg_params_at(p->params, x->param)->path);
    for (int i = 0; x->space == DG_IO && i < p->inputs.n; i++)
        if (p->inputs.items[i].value == v)
            dg_str_fmt(out, " %s", p->inputs.items[i].name);
    for (size_t i = 0; x->constant && i < n && i < 8; i++) {
        if (x->dtype == DG_I32)
            dg_str_fmt(out, " %d", (int)((const int32_t *)x->constant)[i]);
        else
            dg_str_fmt(out, " %.9g", ((const double *)x->constant)[i]);
    }
    dg_str_add(out, x->constant && n > 8 ? " ...\n" : "\n");
}

void dg_program_print(dg_str *out, const dg_program *p)
{
    dg_str_fmt(out, "program %s, %d instruction%s\n", p->training ? "train" : "eval", p->instrs.n,
               dg_plural(p->instrs.n, "s"));
    for (int32_t v = 1; v < p->values.n; v++)
        if (p->values.items[v].producer == -1)
            print_source(out, p, v);
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        if (i == 0 || in->phase != in[-1].phase)
            dg_str_fmt(out, "-- %s\n", phases[in->phase]);
        for (int k = 0; k < in->n_out; k++) {
            dg_str_add(out, k ? ", " : "");
            dg_print_value(out, p, in->v[in->n_in + k]);
        }
        dg_str_fmt(out, "%s%s", in->n_out ? " = " : "", in->op->name);
        for (int k = 0; k < in->n_in; k++)
            dg_str_fmt(out, in->v[k] ? " %%%d" : " -", (int)in->v[k]);
        dg_print_attr(out, in->op, in->attr);
        dg_print_guard(out, in);
        dg_print_origin(out, in->origin.where);
        dg_str_add(out, "\n");
    }
    for (int i = 0; i < p->results.n; i++)
        dg_str_fmt(out, "result %s %%%d\n", p->results.items[i].name,
                   (int)p->results.items[i].value);
}
