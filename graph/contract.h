/* contract.h: the types of ports, in parsed form, and how they agree along a wire.
 *
 * A dimension is a number or a variable. Variables stand in one table for the whole graph: the
 * letters of one node are variables of that node, and a wire makes the producer's and the
 * consumer's equal. */
#ifndef DG_GRAPH_CONTRACT_H
#define DG_GRAPH_CONTRACT_H

#include "base/arena.h"
#include "base/str.h"
#include <detrgraph/node.h>

typedef enum dg_type_kind {
    DG_TYPE_ANY,
    DG_TYPE_TENSOR,
    DG_TYPE_RECORD,
    DG_TYPE_DATASET,
    DG_TYPE_PICKS,
    DG_TYPE_SAMPLES,
    DG_TYPE_STREAM, /* one of those three */
    DG_TYPE_BATCH,  /* data on its way */
    DG_TYPE_GRADIENTS,
    DG_TYPE_PARAMETERS, /* whole-model values */
    DG_TYPE_METRICS,
} dg_type_kind;

typedef struct dg_dim_term {
    int64_t n; /* the number; 0: a variable */
    int     var;
} dg_dim_term;

typedef struct dg_dim_type {
    dg_dim_term size;     /* what stands in memory */
    bool        capacity; /* `live<=size`: only so many rows count */
    dg_dim_term live;
} dg_dim_type;

typedef struct dg_contract dg_contract;
typedef struct dg_field_type {
    const char        *key;
    bool               optional;
    bool               wildcard; /* "c_*": all keys that begin with key */
    const dg_contract *type;
} dg_field_type;

struct dg_contract {
    dg_type_kind kind;
    uint32_t
        flags; /* of the port: presence, rate, invariance (DG_PORT_...); of its fields the same */
    dg_dtype             dtype;    /* DG_REAL or DG_I32 */
    int                  ellipsis; /* of a tensor: dimensions left of "..."; -1: none */
    int                  n_dims;
    dg_dim_type          dims[DG_MAX_DIMS];
    int                  n_fields;
    const dg_field_type *fields;
};

/* The table of dimension variables. */
typedef struct dg_dims {
    dg_arena *arena;
    DG_VEC(struct dg_dim_var {
        int         parent; /* -1: a root */
        int64_t     n;      /* of a root: its number, 0: not known */
        const char *name;
    }) vars;
} dg_dims;

/* The letters of one node. */
typedef struct dg_letters {
    dg_dims *dims;
    int      n;
    int      vars[64];
} dg_letters;

/* NULL where text is not a type; then *at is the offset of the fault and *why says what is
 * wrong. */
const dg_contract *dg_contract_parse(dg_letters *letters, const char *text, uint32_t flags, int *at,
                                     const char **why);
/* Back to text, with what is known of the dimensions. */
void dg_contract_print(dg_str *out, const dg_dims *dims, const dg_contract *c);

/* Makes `to` accept what `from` gives: shared dimensions become equal. False, with the reason in
 * why, if they cannot. */
bool dg_contract_unify(dg_dims *dims, const dg_contract *from, const dg_contract *to, dg_str *why);

/* A copy with fresh variables; variables that were equal stay equal, in all copies by one map. */
typedef struct dg_renamed {
    int from, to;
} dg_renamed;
typedef DG_VEC(dg_renamed) dg_renaming;
const dg_contract *dg_contract_copy(dg_dims *dims, const dg_contract *c, dg_renaming *map);

/* A value of a program, not data or metrics on the host. */
bool dg_contract_flows(const dg_contract *c);
/* A data set, picks or samples. */
bool dg_contract_is_stream(const dg_contract *c);

/* The type below a record's key ("targets.boxes"). NULL if there is none: *record is then where
 * it was looked for. Below DG_TYPE_ANY everything is any. *optional is set where a key on the
 * way may be missing. */
const dg_contract *dg_contract_key(const dg_contract *c, const char *key,
                                   const dg_contract **record, bool *optional);

extern const dg_contract dg_contract_any;

/* A tensor's shape against a type, letters bound to numbers in bound (one entry per variable, 0:
 * not yet). */
bool dg_contract_holds(const dg_dims *dims, const dg_contract *c, dg_dtype dtype, dg_shape shape,
                       int64_t *bound);
/* Sets the entries of a type's letters in bound back to 0. */
void dg_contract_unbind(const dg_dims *dims, const dg_contract *c, int64_t *bound);

#endif
