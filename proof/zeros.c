/* zeros.c: connect="zero" in a lowering without what may be missing: a node that lacks an input
 * takes zeros of the shape that the input has otherwise, with nothing behind them. */
#include <string.h>

#include "proof/vary.h"
#include "tensor/build.h"

void dg_vary_take(dg_proof *p, dg_build *b, const dg_node *node, int port, const char *key,
                  dg_val v)
{
    if (dg_kind_of(b, v) == DG_KIND_TENSOR)
        DG_PUSH(p->arena, p->taken,
                ((dg_taken){ node, port, key, dg_shape_of(b, v),
                             dg_build_program(b)->values.items[v.id].dtype == DG_I32 }));
    for (int i = 0; dg_kind_of(b, v) == DG_KIND_RECORD && i < dg_record_n(b, v); i++) {
        const char *name = dg_record_key(b, v, i);

        dg_vary_take(p, b, node, port, dg_printf(p->arena, "%s%s%s", key, *key ? "." : "", name),
                     dg_record_get(b, v, name));
    }
}

static dg_val zeros_like(dg_proof *p, dg_build *b, const dg_taken *t)
{
    size_t n = (size_t)dg_shape_elements(t->shape);

    return t->whole ? dg_const_i32(b, t->shape, DG_NEW_N(p->arena, n, int32_t))
                    : dg_zeros(b, t->shape);
}

static void set_key(dg_proof *p, dg_build *b, dg_val record, const char *path, dg_val v)
{
    size_t n = strcspn(path, ".");
    const char *key = dg_strndup(p->arena, path, n);

    if (!path[n]) {
        dg_record_set(b, record, key, v);
        return;
    }
    if (!dg_record_has(b, record, key))
        dg_record_set(b, record, key, dg_record(b));
    set_key(p, b, dg_record_get(b, record, key), path + n + 1, v);
}

dg_val dg_vary_zeros(dg_proof *p, dg_build *b, const dg_node *node, int port)
{
    dg_val out = DG_NONE;

    for (int i = 0; p->filled[node->number] == DG_FILLED && i < p->taken.n; i++) {
        const dg_taken *t = &p->taken.items[i];

        if (t->node != node || t->port != port)
            continue;
        if (*t->key && !dg_is_record(out))
            out = dg_record(b);
        if (*t->key)
            set_key(p, b, out, t->key, zeros_like(p, b, t));
        else
            out = zeros_like(p, b, t);
    }
    return out;
}
