/* precision.c: chooses the storage type of every real value, and inserts casts where a reader wants
 * another. base is f32 (f64 if everything runs on reference kernels), low is bf16 or base. By the
 * op's class:
 *
 *    LOW      low in and out; parameters are read as they are; their gradients are base, and so
 *             is a product that only base readers read
 *    F32STAT  low if any operand is low, except operands marked :f
 *    ANY      base if any operand is base; parameters and constants follow the others
 *    WIDE     base
 *
 * Where the device wants it, LOW ops read parameters in their type, cast once for all readers.
 * A LOW op that the backend runs faster in base (on the host a convolution of three channels) is
 * base, and so are values computed from parameters alone; readers that may choose take both as low.
 * A product with a constant is base, too: it resamples, and its weights are exact.
 * Master weights, gradients, statistics, constants and the batch are base. */
#include <string.h>

#include "tensor/ops.h"
#include "tensor/passes.h"

typedef struct precision {
    dg_program *p;
    dg_backend *backend; /* NULL: no preferences */
    dg_dtype base, low;
    DG_VEC(dg_instr) out;
    int n_values;       /* number of values before casts */
    bool *hand_low;     /* per value: base, but readers that may choose take it as low */
    bool *wide_readers; /* per value: no reader wants it low */
    bool *constant;     /* per value: a constant in another form */
    int32_t *reshaped;  /* per value: the input it is a reshape of; 0: none */
    bool *result;
    int32_t *cast[2]; /* per value: its version as base [0], as low [1] */
} precision;

static dg_value *value(precision *s, int32_t v)
{
    return &s->p->values.items[v];
}

static bool is_fixed(precision *s, int32_t v)
{
    dg_space space = value(s, v)->space;

    return space == DG_WEIGHTS || space == DG_CONSTANTS;
}

static bool is_real(precision *s, int32_t v)
{
    return v && dg_dtype_is_real(value(s, v)->dtype);
}

static bool is_low(precision *s, int32_t v)
{
    return value(s, v)->dtype == s->low || s->hand_low[v];
}

static bool stays_base(precision *s, const dg_instr *in)
{
    dg_tensor t[DG_MAX_OPERANDS];
    int n = in->n_in + in->n_out;

    if (!s->backend || n > DG_MAX_OPERANDS)
        return false;
    for (int k = 0; k < n; k++)
        t[k] = (dg_tensor){ s->low, in->v[k] ? value(s, in->v[k])->shape : (dg_shape){ -1, { 0 } },
                            NULL };
    return s->backend->prefers_wide(s->backend, in->op, t, n);
}

/* The device wants parameters of this op in the type that it computes in. */
static bool casts_parameters(precision *s, const dg_instr *in)
{
    return s->backend && s->backend->wants_casts && s->backend->wants_casts(s->backend, in->op);
}

static bool is_constant(precision *s, int32_t v)
{
    return v && (value(s, v)->space == DG_CONSTANTS || s->constant[v]);
}

static bool resamples(precision *s, const dg_instr *in)
{
    return in->op == DG_OP(matmul) && (is_constant(s, in->v[0]) || is_constant(s, in->v[1]));
}

/* The type of the instruction's operands that are not :f. */
static dg_dtype type_of(precision *s, const dg_instr *in, const dg_signature *sig)
{
    bool any_low = false, any_base = false;

    for (int k = in->n_in; k < in->n_in + in->n_out;
         /* a parameter's gradient is base, unless :f made it so */
         k++)
        if (in->op->precision != DG_LOW && is_real(s, in->v[k]) &&
            value(s, in->v[k])->space == DG_GRADIENTS && !dg_signature_at(sig, in->n_in, k)->wide)
            return s->base;
    for (int k = 0; k < in->n_in; k++) {
        if (!is_real(s, in->v[k]) || dg_signature_at(sig, in->n_in, k)->wide ||
            is_fixed(s, in->v[k]))
            continue;
        any_low |= is_low(s, in->v[k]);
        any_base |= !is_low(s, in->v[k]);
    }
    switch (in->op->effect == DG_PURE ? in->op->precision : DG_WIDE) {
    case DG_LOW:
        return stays_base(s, in) || resamples(s, in) ? s->base : s->low;
    case DG_F32STAT:
        return any_low ? s->low : s->base;
    case DG_ANY:
        return any_low && !any_base ? s->low : s->base;
    default:
        return s->base;
    }
}

static void insert(precision *s, const dg_op *op, const void *attr, int32_t from, int32_t v,
                   dg_dtype to, const dg_instr *near)
{
    dg_value copy = *value(s, v);
    dg_instr in = {
        .op = op,
        .attr = dg_memdup(s->p->arena, attr, op->attr_bytes),
        .n_in = 1,
        .n_out = 1,
        .v = DG_NEW_N(s->p->arena, 2, int32_t),
        .segment = near->segment,
        .phase = near->phase,
        .origin = near->origin,
        .guard = dg_program_guard(s->p, v), /* other readers may have another guard than `near` */
    };

    copy.dtype = to;
    copy.space = DG_SLAB;
    copy.param = -1;
    copy.constant = NULL;
    copy.name = NULL;
    in.v[0] = from;
    in.v[1] = dg_program_value(s->p, copy);
    s->cast[to == s->low][v] = in.v[1];
    DG_PUSH(s->p->arena, s->out, in);
}

static void insert_cast(precision *s, int32_t v, dg_dtype to, const dg_instr *near)
{
    insert(s, DG_OP(cast), &(cast_attr){ to }, v, v, to, near);
}

static void insert_reshape(precision *s, int32_t v, int32_t from, const dg_instr *near)
{
    dg_shape shape = value(s, v)->shape;
    shape_attr attr = { .rank = shape.rank };

    memcpy(attr.d, shape.d, sizeof attr.d);
    insert(s, DG_OP(reshape), &attr, from, v, value(s, from)->dtype, near);
}

/* v as `type`. A reshape's version is a reshape of its input's version, so that shared memory is
 * cast once. */
static int32_t as_type(precision *s, int32_t v, dg_dtype type, const dg_instr *near)
{
    int32_t from = s->reshaped[v];

    if (value(s, v)->dtype == type)
        return v;
    if (s->cast[type == s->low][v])
        return s->cast[type == s->low][v];
    if (from && as_type(s, from, type, near) != from)
        insert_reshape(s, v, as_type(s, from, type, near), near);
    else
        insert_cast(s, v, type, near);
    return s->cast[type == s->low][v];
}

static dg_dtype out_type(precision *s, const dg_instr *in, int32_t v, dg_dtype type)
{
    if (in->op == DG_OP(matmul) && (value(s, v)->space == DG_GRADIENTS || s->wide_readers[v]))
        return s->base;
    return value(s, v)->space == DG_GRADIENTS ? s->base : type;
}

/* True if readers may take a base output as low: the stem's, and those of parameters alone (not of
 * constants, which are mostly coordinates). */
static bool may_hand_low(precision *s, const dg_instr *in, const dg_signature *sig)
{
    bool any = false;

    if (resamples(s, in)) {
        int32_t of = in->v[is_constant(s, in->v[0]) ? 1 : 0];

        return value(s, of)->space == DG_WEIGHTS || s->hand_low[of];
    }
    if (in->op->precision == DG_LOW)
        return stays_base(s, in);
    for (int k = 0; k < in->n_in; k++) {
        if (!is_real(s, in->v[k]) || dg_signature_at(sig, in->n_in, k)->wide)
            continue;
        if (value(s, in->v[k])->space != DG_WEIGHTS && !s->hand_low[in->v[k]])
            return false;
        any = true;
    }
    return any && in->op->precision == DG_ANY;
}

static void convert(precision *s, dg_instr in)
{
    dg_signature sig;
    dg_dtype type;
    bool casts;

    if (dg_signature_parse(&sig, in.op->signature) < 0)
        return;
    type = type_of(s, &in, &sig);
    casts = in.op->precision == DG_LOW && casts_parameters(s, &in);
    for (int k = 0; k < in.n_in; k++) {
        bool is_wide = dg_signature_at(&sig, in.n_in, k)->wide;

        if (!is_real(s, in.v[k]) || dg_signature_at(&sig, in.n_in, k)->state)
            continue;
        if (casts)
            is_wide = is_wide && out_type(s, &in, in.v[in.n_in], type) == s->base;
        else if (in.op->precision == DG_LOW && value(s, in.v[k])->space == DG_WEIGHTS)
            continue; /* it takes parameters as they are */
        in.v[k] = as_type(s, in.v[k], is_wide ? s->base : type, &in);
    }
    for (int k = in.n_in; k < in.n_in + in.n_out; k++) {
        if (!is_real(s, in.v[k]))
            continue;
        bool wide = dg_signature_at(&sig, in.n_in, k)->wide;

        value(s, in.v[k])->dtype = in.op == DG_OP(cast) ? (dg_dtype)((cast_attr *)in.attr)->to
                                   : wide               ? s->base
                                                        : out_type(s, &in, in.v[k], type);
        s->hand_low[in.v[k]] = !wide && may_hand_low(s, &in, &sig);
    }
    if (in.op == DG_OP(reshape))
        s->reshaped[in.v[1]] = in.v[0];
    if (in.op == DG_OP(reshape) || in.op == DG_OP(expand) || in.op == DG_OP(permute))
        s->constant[in.v[1]] = is_constant(s, in.v[0]);
    DG_PUSH(s->p->arena, s->out, in);
    for (int k = in.n_in; k < in.n_in + in.n_out; k++)
        if (is_real(s, in.v[k]) && s->result[in.v[k]])
            (void)as_type(s, in.v[k], s->base, &in);
}

/* Finds values that only base readers read, directly or through other ops; products of these are
 * written as base. */
static void find_readers(precision *s)
{
    memset(s->wide_readers, 1, (size_t)s->n_values);
    for (int i = s->p->instrs.n - 1; i >= 0; i--) {
        const dg_instr *in = &s->p->instrs.items[i];
        dg_signature sig;
        bool wide = in->op->effect != DG_PURE || in->op->precision == DG_WIDE ||
                    in->op->precision == DG_ANY;

        for (int k = in->n_in; k < in->n_in + in->n_out && in->op->precision == DG_ANY; k++)
            wide &= s->wide_readers[in->v[k]];
        if (dg_signature_parse(&sig, in->op->signature) < 0)
            continue;
        for (int k = 0; k < in->n_in; k++)
            s->wide_readers[in->v[k]] &= wide || dg_signature_at(&sig, in->n_in, k)->wide;
    }
}

static void assign_all(dg_program *p, dg_dtype type, bool slab_too)
{
    for (int32_t v = 1; v < p->values.n; v++)
        if (p->values.items[v].dtype == DG_REAL && (slab_too || p->values.items[v].producer < 0))
            p->values.items[v].dtype = type;
}

void dg_pass_precision(dg_program *p, dg_dtype base, dg_dtype low, dg_backend *backend)
{
    dg_arena *scratch;
    precision s = { .p = p, .backend = backend, .base = base, .low = low, .n_values = p->values.n };
    size_t room = (size_t)p->values.n * 4 + 1; /* a cast each way per value, and one per cast */

    assign_all(p, base, base == low);
    if (base == low)
        return;
    scratch = dg_arena_open();
    s.hand_low = DG_NEW_N(scratch, room, bool);
    s.wide_readers = DG_NEW_N(scratch, room, bool);
    s.constant = DG_NEW_N(scratch, room, bool);
    s.result = DG_NEW_N(scratch, room, bool);
    s.reshaped = DG_NEW_N(scratch, room, int32_t);
    s.cast[0] = DG_NEW_N(scratch, room, int32_t);
    s.cast[1] = DG_NEW_N(scratch, room, int32_t);
    find_readers(&s);
    for (int i = 0; i < p->results.n; i++)
        s.result[p->results.items[i].value] = true;
    for (int i = 0; i < p->instrs.n; i++)
        convert(&s, p->instrs.items[i]);
    p->instrs.items = s.out.items;
    p->instrs.n = s.out.n;
    p->instrs.cap = s.out.cap;
    dg_program_renumber(p);
    for (int i = 0; i < p->results.n; i++)
        if (s.cast[0][p->results.items[i].value])
            p->results.items[i].value = s.cast[0][p->results.items[i].value];
    dg_arena_close(&scratch);
}
