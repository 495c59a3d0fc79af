/* guard.c: guarded instructions, which run only if a flag is nonzero. A guard is an i32 scalar.
 * Nested guards, and the backward pass of a guarded part, use a guard that is the conjunction of
 * two, made once per pair. The instructions that compute guards are unguarded. */
#include "tensor/build_internal.h"

/* Emits the conjunction of `of` (negated if asked) and `also` (0: none), or returns the one emitted
 * before. */
static int32_t guard_of(dg_build *b, int32_t of, int32_t also, bool negate)
{
    int32_t guard = b->guard;
    truth_attr a = { .negate = negate };
    dg_val v;

    for (int i = 0; i < b->conditions.n; i++) {
        const dg_condition *c = &b->conditions.items[i];

        if (c->of == of && c->also == also && c->negate == negate)
            return c->guard;
    }
    b->guard = 0;
    if (b->p->values.items[of].dtype == DG_I32)
        v = dg_emit1(b, DG_OP(truth_i32), &a, (dg_val){ of }, (dg_val){ also }, DG_NONE, 2);
    else
        v = dg_emit1(b, DG_OP(truth), &a, (dg_val){ of }, DG_NONE, DG_NONE, 1);
    b->guard = guard;
    if (dg_is_poison(v))
        return 0;
    DG_PUSH(b->arena, b->conditions, ((dg_condition){ (int32_t)v.id, of, also, negate }));
    return (int32_t)v.id;
}

int32_t dg_guard_both(dg_build *b, int32_t x, int32_t y)
{
    if (dg_guard_implies(b, x, y))
        return x;
    return dg_guard_implies(b, y, x) ? y : guard_of(b, x, y, false);
}

bool dg_guard_implies(const dg_build *b, int32_t x, int32_t y)
{
    if (x == y || y == 0)
        return true;
    for (int i = 0; i < b->conditions.n; i++) {
        const dg_condition *c = &b->conditions.items[i];

        if (c->guard == x && c->also)
            return (!c->negate && dg_guard_implies(b, c->of, y)) || dg_guard_implies(b, c->also, y);
    }
    return false;
}

/* The flag as an i32 scalar; 0 after reporting that it is not one number. */
static int32_t scalar_flag(dg_build *b, dg_val flag)
{
    const dg_value *x = dg_value_of(b, flag);
    char shape[64];
    int32_t guard = b->guard;

    if (!x && !dg_has(flag))
        dg_error(b, "operand-missing", "a guard has no value");
    if (!x)
        return 0;
    if ((x->dtype != DG_I32 && !dg_dtype_is_real(x->dtype)) || dg_shape_elements(x->shape) != 1) {
        dg_error(b, "guard-not-scalar", "a guard must be one number, found %s%s",
                 dg_dtype_name(x->dtype), dg_shape_print(x->shape, shape, sizeof shape));
        return 0;
    }
    b->guard = 0;
    flag = dg_reshape(b, flag, DG_SCALAR);
    b->guard = guard;
    return (int32_t)flag.id;
}

/* The flag, negated if asked, and the current guard; 0 after an error. */
static int32_t narrow_guard(dg_build *b, dg_val flag, bool negate)
{
    int32_t x = scalar_flag(b, flag);

    if (x && b->p->values.items[x].dtype != DG_I32)
        x = guard_of(b, x, 0, negate);
    else if (x && negate)
        x = guard_of(b, x, 0, true);
    return x ? dg_guard_both(b, x, b->guard) : 0;
}

void dg_guard_begin(dg_build *b, dg_val flag)
{
    int32_t guard = narrow_guard(b, flag, false);

    DG_PUSH(b->arena, b->guards, b->guard);
    b->guard = guard ? guard : b->guard;
}

/* False for nothing, records and whole spaces. */
static bool is_tensor(dg_build *b, dg_val v)
{
    return dg_kind_of(b, v) == DG_KIND_TENSOR;
}

/* A copy of v under the current guard (a reshape to its own shape). */
static dg_val guarded_copy(dg_build *b, dg_val v)
{
    const dg_value *x = dg_value_of(b, v);
    dg_shape s = x->shape;
    shape_attr a = { .rank = s.rank };

    for (int i = 0; i < s.rank; i++)
        a.d[i] = s.d[i];
    return dg_emit1(b, x->dtype == DG_I32 ? DG_OP(reshape_i32) : DG_OP(reshape), &a, v, DG_NONE,
                    DG_NONE, 1);
}

dg_val dg_guard_copy(dg_build *b, dg_val v)
{
    if (!is_tensor(b, v) || dg_guard_implies(b, dg_program_guard(b->p, (int32_t)v.id), b->guard))
        return v;
    return guarded_copy(b, v);
}

static dg_val connect_tensor(dg_build *b, dg_val v)
{
    return is_tensor(b, v) && dg_program_guard(b->p, (int32_t)v.id) != b->guard ? guarded_copy(b, v)
                                                                                : v;
}

typedef dg_val change_fn(dg_build *b, dg_val v);

/* Applies fn to v, or to every field of a record. */
static dg_val map_tensors(dg_build *b, dg_val v, change_fn *fn)
{
    dg_val out;

    if (!dg_is_record(v))
        return fn(b, v);
    out = dg_record(b);
    for (int i = 0; i < dg_record_n(b, v); i++) {
        const char *key = dg_record_key(b, v, i);

        dg_record_set(b, out, key, map_tensors(b, dg_record_get(b, v, key), fn));
    }
    return out;
}

void dg_guard_end(dg_build *b, int n, dg_val out[])
{
    for (int i = 0; i < n; i++)
        out[i] = map_tensors(b, out[i], dg_guard_copy);
    b->guard = b->guards.items[--b->guards.n];
}

void dg_guard_connect(dg_build *b, int n, dg_val v[])
{
    for (int i = 0; i < n; i++)
        v[i] = map_tensors(b, v[i], connect_tensor);
}

void dg_guard_rest(dg_build *b, dg_val flag)
{
    int32_t guard = narrow_guard(b, flag, true);

    b->guard = guard ? guard : b->guard;
}

/* Not (none of them holds). */
dg_val dg_guard_either(dg_build *b, int n, const dg_val guards[])
{
    int32_t none = 0;

    for (int i = 0; i < n; i++) {
        if (guards[i].id <= 0)
            return DG_POISON;
        none = dg_guard_both(b, none, guard_of(b, (int32_t)guards[i].id, 0, true));
    }
    return n == 1 ? guards[0] : (dg_val){ guard_of(b, none, 0, true) };
}

dg_val dg_guard_now(const dg_build *b)
{
    return (dg_val){ b->guard };
}

dg_val dg_present(dg_build *b, dg_val v)
{
    return v.id > 0 && dg_value_of(b, v) ? (dg_val){ dg_program_guard(b->p, (int32_t)v.id) }
                                         : DG_NONE;
}
