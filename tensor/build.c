/* build.c: the builder: appends instructions and infers their shapes. An invalid call is reported
 * once and returns poison, which later calls absorb silently. */
#include <assert.h>
#include <string.h>

#include "tensor/build_internal.h"
#include "tensor/params.h"

dg_build *dg_build_open(dg_program *p, dg_diag *d)
{
    dg_build *b = DG_NEW(p->arena, dg_build);

    b->p = p;
    b->d = d;
    b->arena = p->arena;
    b->origin = (dg_origin){ .node = -1 };
    b->prefix = b->reference = "";
    b->signatures.arena = p->arena;
    b->constants = dg_map_new(p->arena);
    return b;
}

void dg_build_close(dg_build **b)
{
    if (*b)
        dg_params_note_length((*b)->p->params, (*b)->p->values.n, (*b)->p->instrs.n);
    *b = NULL; /* the program's arena owns it */
}

dg_program *dg_build_program(dg_build *b)
{
    return b->p;
}

bool dg_build_failed(const dg_build *b)
{
    return b->failed;
}

void dg_build_enter(dg_build *b, dg_origin origin, const char *prefix, const char *reference)
{
    b->origin = origin;
    b->whole = origin.recompute;
    b->origin.where.file = origin.where.file ? dg_strdup(b->arena, origin.where.file) : NULL;
    b->origin.where.node = origin.where.node ? dg_strdup(b->arena, origin.where.node) : NULL;
    b->prefix = dg_strdup(b->arena, prefix ? prefix : "");
    b->reference = dg_strdup(b->arena, reference ? reference : "");
}

void dg_build_freeze(dg_build *b, bool frozen)
{
    b->frozen = frozen;
}

void dg_part(dg_build *b, int part, bool again)
{
    b->origin.part = part;
    b->origin.recompute = b->whole || again;
}

void dg_build_axis(dg_build *b, const char *axis, int64_t size)
{
    DG_PUSH(b->arena, b->axes, ((dg_axis){ dg_strdup(b->arena, axis), size, 0 }));
}

void dg_build_place(dg_build *b, const char *axis, int64_t place)
{
    for (int i = 0; i < b->axes.n; i++)
        if (strcmp(b->axes.items[i].name, axis) == 0)
            b->axes.items[i].place = place;
}

int64_t dg_axis_size(const dg_build *b, const char *axis)
{
    int64_t size = 1;

    for (const char *s = axis; s && *s; s += strcspn(s, "+"), s += *s == '+')
        for (int i = 0; i < b->axes.n; i++)
            if (strlen(b->axes.items[i].name) == strcspn(s, "+") &&
                strncmp(b->axes.items[i].name, s, strcspn(s, "+")) == 0)
                size *= b->axes.items[i].size;
    return size;
}

bool dg_training(const dg_build *b)
{
    return b->p->training;
}

bool dg_is_record(dg_val v)
{
    return v.id >= DG_RECORDS;
}

bool dg_is_poison(dg_val v)
{
    return v.id < 0;
}

dg_kind dg_kind_of(dg_build *b, dg_val v)
{
    const dg_value *x;

    if (dg_is_record(v))
        return DG_KIND_RECORD;
    x = v.id > 0 && v.id < b->p->values.n ? &b->p->values.items[v.id] : NULL;
    if (!x)
        return DG_KIND_NONE;
    if (x->producer != -1 || x->param >= 0)
        return DG_KIND_TENSOR;
    return x->space == DG_GRADIENTS                       ? DG_KIND_GRADIENTS
           : x->space == DG_WEIGHTS || x->space == DG_EMA ? DG_KIND_PARAMETERS
                                                          : DG_KIND_TENSOR;
}

dg_val dg_error(dg_build *b, const char *id, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *text = dg_vprintf(b->arena, fmt, ap);
    va_end(ap);
    b->failed = true;
    (void)dg_fail(b->d, DG_EINPUT, b->origin.where, id, "%s", text);
    return DG_POISON;
}

static void refuse_record(dg_build *b, dg_val v)
{
    const char *names = "";

    dg_error(b, "record-as-value", "a record stands where a single value is expected");
    for (int i = 0; i < dg_record_n(b, v); i++)
        names = dg_printf(b->arena, "%s%s.%s", names, i ? ", " : "", dg_record_key(b, v, i));
    dg_help(b->d, "take one of its fields: %s", *names ? names : "it has none");
}

dg_value *dg_value_of(dg_build *b, dg_val v)
{
    if (v.id > 0 && v.id < b->p->values.n)
        return &b->p->values.items[v.id];
    if (dg_is_record(v))
        refuse_record(b, v);
    return NULL;
}

void dg_stop_gradient(dg_build *b, dg_val v)
{
    dg_value_of(b, v)->needs_gradient = false;
    dg_value_of(b, v)->severed = 0;
}

dg_shape dg_shape_of(dg_build *b, dg_val v)
{
    const dg_value *x = dg_value_of(b, v);

    return x ? x->shape : (dg_shape){ 0, { 1, 1, 1, 1, 1, 1 } };
}

int64_t dg_dim(dg_build *b, dg_val v, int axis)
{
    const dg_value *x = dg_value_of(b, v);

    if (!x)
        return 1;
    if (axis < -x->shape.rank || axis >= x->shape.rank) {
        dg_error(b, "axis-range", "axis %d of a tensor of rank %d", axis, x->shape.rank);
        return 1;
    }
    return x->shape.d[axis < 0 ? axis + x->shape.rank : axis];
}

dg_val dg_name(dg_build *b, dg_val v, const char *fmt, ...)
{
    dg_value *x = dg_is_record(v) ? NULL : dg_value_of(b, v);
    va_list ap;

    if (x) {
        va_start(ap, fmt);
        x->name = dg_vprintf(b->arena, fmt, ap);
        va_end(ap);
    }
    return v;
}

/* ---- instructions ---------------------------------------------------------------------------- */

typedef struct inference {
    dg_diag *d;
    dg_where at;
    const dg_op *op;
} inference;

/* Fails with the op's name, the reason and the operands: "conv2d: x has 3 channels, w expects 4;
 * operands [1,8,8,3] [4,4,3,3] -". */
int dg_infer_fail(dg_infer *s, const char *fmt, ...)
{
    inference *ctx = s->ctx;
    dg_str text = { 0 };
    char shape[64];
    va_list ap;

    va_start(ap, fmt);
    dg_str_vfmt(&text, fmt, ap);
    va_end(ap);
    dg_str_add(&text, s->n_in ? "; operands" : "");
    for (int i = 0; i < s->n_in && i < 10; i++)
        dg_str_fmt(&text, " %s",
                   s->in[i].rank < 0 ? "-" : dg_shape_print(s->in[i], shape, sizeof shape));
    dg_str_add(&text, s->n_in > 10 ? " ..." : "");
    (void)dg_fail(ctx->d, DG_EINPUT, ctx->at, "shape-mismatch", "%s: %s", ctx->op->name, text.s);
    dg_str_free(&text);
    return -DG_EINPUT;
}

int dg_infer_run(const dg_op *op, const dg_signature *sig, dg_infer *s, dg_where at, dg_diag *d)
{
    static const int64_t zeros[64] = { 0 };

    s->attr = s->attr ? s->attr : op->attr_bytes <= sizeof zeros ? zeros : NULL;
    s->n_out = sig->n_out;
    s->ctx = &(inference){ d, at, op };
    for (int i = 0; i < sig->n_out; i++) {
        s->out[i] = (dg_shape){ .rank = -1 };
        s->out_type[i] = sig->operand[sig->n_in + i].dtype;
    }
    int rc = op->shape(s);

    for (int i = 0; i < s->n_out && rc == 0; i++)
        if (s->out[i].rank >= 0 && !dg_shape_fits(s->out[i]))
            rc = dg_infer_fail(s, "output %d is empty, or larger than any memory", i);
    return rc;
}

/* Reports and returns false if v does not fit operand o. */
static bool suits(dg_build *b, const dg_op *op, const dg_operand *o, dg_val v)
{
    const dg_value *x = dg_value_of(b, v);

    if (!x && !o->optional && !dg_is_record(v))
        dg_error(b, "operand-missing", "%s: operand %.*s is missing", op->name, o->len, o->name);
    if (!x)
        return o->optional && !dg_is_record(v);
    if (x->producer == -2) {
        dg_error(b, "value-fused",
                 "%s: operand %.*s was an intermediate of a fused operation and is gone; use it "
                 "before the gradient is asked for, or give it a name as a result",
                 op->name, o->len, o->name);
        return false;
    }
    if (o->dtype == DG_REAL ? !dg_dtype_is_real(x->dtype) : x->dtype != o->dtype) {
        dg_error(b, "type-mismatch", "%s: operand %.*s must be %s, found %s", op->name, o->len,
                 o->name, dg_dtype_name(o->dtype), dg_dtype_name(x->dtype));
        return false;
    }
    return true;
}

static bool check_inputs(dg_build *b, const dg_op *op, const dg_signature *sig, int n_in,
                         const dg_val in[])
{
    if (!dg_signature_takes(sig, n_in) || n_in + sig->n_out > DG_MAX_OPERANDS) {
        dg_error(b, "op-arity", "%s takes \"%s\" and was given %d inputs", op->name, op->signature,
                 n_in);
        return false;
    }
    for (int i = 0; i < n_in; i++)
        if (!suits(b, op, dg_signature_at(sig, n_in, i), in[i]))
            return false;
    return true;
}

/* A sum or mean over ranks has a gradient, a maximum or minimum has none. */
static bool has_gradient(const dg_op *op, const void *attr)
{
    const reduce_attr *r = attr;

    return op->grad && !(op == DG_OP(all_reduce) && r->op != DG_SUM && r->op != DG_MEAN);
}

static bool carries_gradient(dg_build *b, const dg_op *op, const void *attr, int n_in,
                             const dg_val in[])
{
    for (int i = 0; has_gradient(op, attr) && i < n_in; i++)
        if (in[i].id > 0 && b->p->values.items[in[i].id].needs_gradient)
            return true;
    return false;
}

/* 1 + the index of the node whose collective keeps the results from having a gradient; 0: none. */
static int severs(dg_build *b, const dg_op *op, const void *attr, int n_in, const dg_val in[])
{
    const bool exchanges = op->effect == DG_COLLECTIVE || op == DG_OP(pack_rows);

    for (int i = 0; i < n_in; i++) {
        const dg_value *x = in[i].id > 0 ? &b->p->values.items[in[i].id] : NULL;

        if (x && x->severed && (op->grad || exchanges))
            return x->severed;
        if (x && x->needs_gradient && exchanges && !has_gradient(op, attr))
            return b->origin.node + 1;
    }
    return 0;
}

static void append(dg_build *b, const dg_op *op, const void *attr, int n_in, const dg_val in[],
                   const dg_infer *s, dg_val out[])
{
    dg_instr instr = {
        .op = op,
        .attr = dg_alloc(b->arena, op->attr_bytes),
        .n_in = n_in,
        .n_out = s->n_out,
        .v = DG_NEW_N(b->arena, n_in + s->n_out, int32_t),
        .segment = b->segment,
        .phase = b->phase,
        .origin = b->origin,
        .guard = b->guard,
    };
    bool gradient = b->phase == DG_FORWARD && carries_gradient(b, op, attr, n_in, in);
    int severed = b->phase == DG_FORWARD ? severs(b, op, attr, n_in, in) : 0;

    if (attr)
        memcpy(instr.attr, attr, op->attr_bytes);
    for (int i = 0; i < n_in; i++)
        instr.v[i] = (int32_t)in[i].id;
    for (int i = 0; i < s->n_out; i++) {
        if (s->out[i].rank < 0) {
            out[i] = DG_NONE;
            continue;
        }
        out[i].id = instr.v[n_in + i] =
            dg_program_value(b->p,
                             (dg_value){
                                 .dtype = s->out_type[i],
                                 .shape = s->out[i],
                                 .space = DG_SLAB,
                                 .producer = b->p->instrs.n,
                                 .param = -1,
                                 .needs_gradient = gradient && dg_dtype_is_real(s->out_type[i]),
                                 .severed = dg_dtype_is_real(s->out_type[i]) ? severed : 0,
                             });
    }
    DG_PUSH(b->arena, b->p->instrs, instr);
}

void dg_emit(dg_build *b, const dg_op *op, const void *attr, int n_in, const dg_val in[],
             dg_val out[])
{
    dg_shape in_shape[DG_MAX_OPERANDS], out_shape[DG_MAX_SIGNATURE];
    dg_dtype in_type[DG_MAX_OPERANDS], out_type[DG_MAX_SIGNATURE];
    const dg_signature *sig = dg_signatures_get(&b->signatures, op);
    bool poisoned = false;

    if (!sig) {
        dg_val poison =
            dg_error(b, "op-signature", "%s: \"%s\" is not a signature", op->name, op->signature);

        if (out)
            out[0] = poison;
        return;
    }
    for (int i = 0; i < sig->n_out; i++)
        out[i] = DG_POISON;
    for (int i = 0; i < n_in; i++)
        poisoned |= dg_is_poison(in[i]);
    if (poisoned || !check_inputs(b, op, sig, n_in, in))
        return;
    for (int i = 0; i < n_in; i++) {
        const dg_value *x = in[i].id ? &b->p->values.items[in[i].id] : NULL;

        in_shape[i] = x ? x->shape : (dg_shape){ .rank = -1 };
        in_type[i] = x ? x->dtype : DG_REAL;
    }
    dg_infer s = {
        .n_in = n_in,
        .in = in_shape,
        .in_type = in_type,
        .attr = attr,
        .out = out_shape,
        .out_type = out_type,
    };
    if (dg_infer_run(op, sig, &s, b->origin.where, b->d) == 0)
        append(b, op, attr, n_in, in, &s, out);
    else
        b->failed = true;
}

dg_val dg_emit1(dg_build *b, const dg_op *op, const void *attr, dg_val x, dg_val y, dg_val z,
                int n_in)
{
    dg_val out[DG_MAX_SIGNATURE] = { DG_POISON };

    assert(n_in <= 3);
    dg_emit(b, op, attr, n_in, (dg_val[]){ x, y, z }, out);
    return out[0];
}

/* ---- inputs, results, spaces ----------------------------------------------------------------- */

static dg_binding renamed(const dg_binding *as, const char *name)
{
    dg_binding r = *as;

    r.name = name;
    r.key = as->key ? name + (as->key - as->name) : NULL;
    return r;
}

dg_val dg_input_as(dg_build *b, const dg_binding *as, dg_dtype dtype, dg_shape shape)
{
    dg_binding in = renamed(as, dg_strdup(b->arena, as->name));

    if (dg_program_input(b->p, as->name))
        return dg_error(b, "input-twice", "two inputs of the batch are named %s", as->name);
    in.value = dg_program_value(b->p, (dg_value){
                                          .dtype = dtype,
                                          .shape = shape,
                                          .space = DG_IO,
                                          .producer = -1,
                                          .param = -1,
                                          .name = in.name,
                                      });
    DG_PUSH(b->arena, b->p->inputs, in);
    return (dg_val){ in.value };
}

dg_val dg_input(dg_build *b, const char *name, dg_dtype dtype, dg_shape shape)
{
    return dg_input_as(b, &(dg_binding){ .name = name, .index = -1 }, dtype, shape);
}

void dg_result_as(dg_build *b, const dg_binding *as, dg_val v)
{
    if (dg_is_record(v)) {
        for (int i = 0; i < dg_record_n(b, v); i++) {
            const char *key = dg_record_key(b, v, i);
            dg_binding field = renamed(as, dg_printf(b->arena, "%s.%s", as->name, key));

            dg_result_as(b, &field, dg_record_get(b, v, key));
        }
        return;
    }
    const dg_value *x = dg_value_of(b, v);
    dg_binding r = renamed(as, dg_strdup(b->arena, as->name));

    r.value = (int32_t)v.id;
    if (x && x->producer == -2)
        dg_error(b, "value-fused", "result %s was an intermediate of a fused operation and is gone",
                 as->name);
    else if (x)
        DG_PUSH(b->arena, b->p->results, r);
}

void dg_result(dg_build *b, const char *name, dg_val v)
{
    dg_result_as(b, &(dg_binding){ .name = name }, v);
}

dg_val dg_whole_space(dg_build *b, dg_space s)
{
    int32_t *at = s == DG_GRADIENTS ? &b->p->grads
                  : s == DG_WEIGHTS ? &b->p->weights
                  : s == DG_MOMENT1 ? &b->p->moment1
                  : s == DG_MOMENT2 ? &b->p->moment2
                                    : &b->p->ema;

    if (!*at) /* its length is set when the parameters are sealed */
        *at = dg_program_value(b->p,
                               (dg_value){
                                   .shape = DG_SHAPE(1), .space = s, .producer = -1, .param = -1 });
    return (dg_val){ *at };
}
