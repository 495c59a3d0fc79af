/* tensor.c: helpers for dtypes and shapes, shared by every room and by plugins. */
#include <detrgraph/tensor.h>

#include <stdio.h>

static const struct {
    size_t bytes;
    const char *name;
} dtypes[DG_N_DTYPES] = {
    /* abstract: has no storage */
    [DG_REAL] = { 0, "real" }, [DG_F32] = { 4, "f32" }, [DG_F64] = { 8, "f64" },
    [DG_BF16] = { 2, "bf16" }, [DG_I32] = { 4, "i32" }, [DG_I64] = { 8, "i64" },
    [DG_U8] = { 1, "u8" },
};

size_t dg_dtype_size(dg_dtype t)
{
    return t < DG_N_DTYPES ? dtypes[t].bytes : 0;
}

const char *dg_dtype_name(dg_dtype t)
{
    return t < DG_N_DTYPES ? dtypes[t].name : "?";
}

int64_t dg_shape_elements(dg_shape s)
{
    int64_t n = 1;

    for (int i = 0; i < s.rank; i++)
        n *= s.d[i];
    return n;
}

bool dg_shape_equal(dg_shape a, dg_shape b)
{
    bool same = a.rank == b.rank;

    for (int i = 0; same && i < a.rank; i++)
        same = a.d[i] == b.d[i];
    return same;
}

char *dg_shape_print(dg_shape s, char *buf, size_t n)
{
    char text[DG_MAX_DIMS * 21 + 3] = "[";
    size_t o = 1;

    for (int i = 0; i < s.rank; i++)
        o += (size_t)snprintf(text + o, sizeof text - o, "%s%lld", i ? "," : "", (long long)s.d[i]);
    snprintf(text + o, sizeof text - o, "]");
    snprintf(buf, n, "%s", text);
    return buf;
}
