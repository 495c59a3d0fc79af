/* keys.h: what collectives do to one value, done to each key of a record. */
#ifndef DG_NODES_KEYS_H
#define DG_NODES_KEYS_H

#include <detrgraph/node.h>

typedef dg_val dg_key_fn(dg_build *b, const void *conf, dg_val v);

/* one(v); of a record, one of each value, in the order of its keys. What is absent stays so. */
dg_val dg_each_key(dg_build *b, const void *conf, dg_val v, dg_key_fn *one);
/* one(v) in the steps that have v; in others the result is missing, too. */
dg_val dg_where_present(dg_build *b, const void *conf, dg_val v, dg_key_fn *one);

#endif
