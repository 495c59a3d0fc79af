/* keys.c: see keys.h. */
#include "nodes/keys.h"

dg_val dg_each_key(dg_build *b, const void *conf, dg_val v, dg_key_fn *one)
{
    dg_val out;

    if (!dg_has(v) || dg_kind_of(b, v) != DG_KIND_RECORD)
        return dg_has(v) ? one(b, conf, v) : v;
    out = dg_record(b);
    for (int i = 0; i < dg_record_n(b, v); i++) {
        const char *key = dg_record_key(b, v, i);

        dg_record_set(b, out, key, dg_each_key(b, conf, dg_record_get(b, v, key), one));
    }
    return out;
}

dg_val dg_where_present(dg_build *b, const void *conf, dg_val v, dg_key_fn *one)
{
    const dg_val there = dg_present(b, v);

    if (!dg_has(there))
        return one(b, conf, v);
    dg_guard_begin(b, there);
    v = one(b, conf, v);
    dg_guard_end(b, 1, &v);
    return v;
}
