/* build_param.c: parameters, buffers, exports and constants. */
#include <math.h>
#include <string.h>

#include "tensor/build_internal.h"
#include "tensor/params.h"

dg_init dg_init_zero(void)
{
    return (dg_init){ .kind = DG_INIT_ZERO };
}

dg_init dg_init_const(double value)
{
    return (dg_init){ .kind = DG_INIT_CONST, .a = value };
}

dg_init dg_init_uniform(double bound)
{
    return (dg_init){ .kind = DG_INIT_UNIFORM, .a = bound };
}

dg_init dg_init_normal(double std)
{
    return (dg_init){ .kind = DG_INIT_NORMAL, .a = std };
}

dg_init dg_init_fan_in(int64_t fan_in)
{
    return dg_init_uniform(1 / sqrt((double)(fan_in > 0 ? fan_in : 1)));
}

dg_init dg_init_xavier(int64_t fan_in, int64_t fan_out)
{
    return dg_init_uniform(sqrt(6.0 / (double)(fan_in + fan_out > 0 ? fan_in + fan_out : 1)));
}

dg_init dg_init_data(dg_build *b, const double *values, int64_t n)
{
    return (dg_init){
        .kind = DG_INIT_DATA,
        .n = (int32_t)n,
        .p = dg_memdup(b->arena, values, (size_t)n * sizeof *values),
    };
}

static const char *join(dg_build *b, const char *prefix, const char *path)
{
    size_t n = strlen(prefix), m = strlen(path);
    char *joined = dg_alloc(b->arena, n + m + 2);

    memcpy(joined, prefix, n);
    if (n)
        joined[n++] = '.';
    memcpy(joined + n, path, m);
    return joined;
}

dg_init dg_init_like(dg_build *b, const char *path)
{
    return (dg_init){ .kind = DG_INIT_LIKE, .p = join(b, b->prefix, path) };
}

dg_init dg_init_zero_row(dg_init rest, int64_t row)
{
    rest.kind |= DG_INIT_ZERO_ROW;
    rest.n = (int32_t)row;
    return rest;
}

static int declare(dg_build *b, const char *path, dg_param_kind kind, dg_dtype stored,
                   dg_shape shape, dg_init init, const double *values)
{
    int i = dg_params_declare(b->p->params,
                              &(dg_param_info){
                                  .path = join(b, b->prefix, path),
                                  .name = join(b, b->reference, path),
                                  .kind = kind,
                                  .shape = shape,
                                  .stored = stored,
                                  .init = init,
                                  .like = init.kind == DG_INIT_LIKE ? init.p : NULL,
                                  .values = values,
                                  .where = b->origin.where,
                              },
                              b->d);

    if (i < 0)
        b->failed = true;
    return i;
}

static dg_val param(dg_build *b, const char *path, dg_param_kind kind, dg_shape shape, dg_init init)
{
    int i = declare(b, path, kind, DG_REAL, shape, init, NULL);

    if (i < 0)
        return DG_POISON;
    while (b->params.n <= i)
        DG_PUSH(b->arena, b->params, 0);
    if (!b->params.items[i])
        b->params.items[i] = dg_program_value(b->p, (dg_value){
                                                        .shape = shape,
                                                        .space = DG_WEIGHTS,
                                                        .producer = -1,
                                                        .param = i,
                                                        .needs_gradient = kind == DG_TRAINABLE,
                                                    });
    return (dg_val){ b->params.items[i] };
}

dg_val dg_param(dg_build *b, const char *path, dg_shape shape, dg_init init)
{
    return param(b, path, b->frozen ? DG_FROZEN : DG_TRAINABLE, shape, init);
}

dg_val dg_param_frozen(dg_build *b, const char *path, dg_shape shape, dg_init init)
{
    return param(b, path, DG_FROZEN, shape, init);
}

dg_val dg_buffer(dg_build *b, const char *path, dg_shape shape, dg_init init)
{
    return param(b, path, DG_BUFFER, shape, init);
}

void dg_export_const(dg_build *b, const char *path, dg_dtype stored, dg_shape shape,
                     const double *values)
{
    (void)declare(b, path, DG_EXPORT_CONST, stored, shape, dg_init_zero(), values);
}

void dg_export_counter(dg_build *b, const char *path)
{
    (void)declare(b, path, DG_EXPORT_COUNTER, DG_I64, DG_SCALAR, dg_init_zero(), NULL);
}

/* ---- constants ------------------------------------------------------------------------------- */

static dg_val constant(dg_build *b, dg_dtype dtype, dg_shape shape, const void *values,
                       size_t bytes)
{
    char text[64];
    const char *key;
    int32_t *known;

    for (int i = 0; i < shape.rank; i++)
        if (shape.d[i] < 1)
            return dg_error(b, "constant-empty", "a constant has a dimension of %lld",
                            (long long)shape.d[i]);
    key = dg_printf(b->arena, "%s%s %llx", dg_dtype_name(dtype),
                    dg_shape_print(shape, text, sizeof text),
                    (unsigned long long)dg_hash64(0, values, bytes));
    known = dg_map_get(b->constants, key);
    if (known && memcmp(b->p->values.items[*known].constant, values, bytes) == 0)
        return (dg_val){ *known };
    known = DG_NEW(b->arena, int32_t);
    *known = dg_program_value(b->p, (dg_value){
                                        .dtype = dtype,
                                        .shape = shape,
                                        .space = DG_CONSTANTS,
                                        .producer = -1,
                                        .param = -1,
                                        .constant = dg_memdup(b->arena, values, bytes),
                                    });
    dg_map_set(b->constants, key, known);
    return (dg_val){ *known };
}

dg_val dg_const(dg_build *b, dg_shape shape, const double *values)
{
    return constant(b, DG_REAL, shape, values, (size_t)dg_shape_elements(shape) * sizeof *values);
}

dg_val dg_const_of_maps(dg_build *b, dg_val constant, dg_of_maps rule, const dg_levels *levels)
{
    dg_value *v = dg_value_of(b, constant);

    if (v)
        v->maps = dg_memdup(b->arena, &(dg_maps){ rule, *levels }, sizeof *v->maps);
    return constant;
}

dg_val dg_const_i32(dg_build *b, dg_shape shape, const int32_t *values)
{
    return constant(b, DG_I32, shape, values, (size_t)dg_shape_elements(shape) * sizeof *values);
}

/* Not shared with equal constants, which are the same on all ranks. */
static dg_val own_constant(dg_build *b, int64_t axis, dg_shape shape, const int32_t *data)
{
    size_t n = (size_t)dg_shape_elements(shape);

    return (
        dg_val){ dg_program_value(b->p, (dg_value){
                                            .dtype = DG_I32,
                                            .shape = shape,
                                            .space = DG_CONSTANTS,
                                            .producer = -1,
                                            .param = -1,
                                            .own = true,
                                            .own_axis = axis,
                                            .constant = dg_memdup(b->arena, data, n * sizeof *data),
                                        }) };
}

dg_val dg_own_flag(dg_build *b, int64_t axis, bool flag)
{
    return own_constant(b, axis, DG_SCALAR, &(int32_t){ flag });
}

dg_val dg_own_choice(dg_build *b, int64_t axis, int64_t n, int64_t which)
{
    int32_t *data = DG_NEW_N(b->arena, n, int32_t);

    data[which] = 1;
    return own_constant(b, axis, DG_SHAPE(n), data);
}

dg_val dg_number(dg_build *b, double value)
{
    return dg_const(b, DG_SCALAR, &value);
}

dg_val dg_zeros(dg_build *b, dg_shape shape)
{
    fill_attr a = { .a = 0, .rank = shape.rank };

    memcpy(a.d, shape.d, sizeof a.d);
    return dg_emit1(b, DG_OP(fill), &a, DG_NONE, DG_NONE, DG_NONE, 0);
}
