/* contract.h: parsed port types, and whether two agree along a wire.
 *
 * A dimension is a number or a variable. One table holds the variables of the whole graph: a node's
 * letters are its own variables, and a wire makes the producer's and the consumer's equal. */
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
    DG_TYPE_STREAM, /* any of the three above */
    DG_TYPE_BATCH,  /* samples being collected */
    DG_TYPE_GRADIENTS,
    DG_TYPE_PARAMETERS, /* both: values of the whole model */
    DG_TYPE_METRICS,
} dg_type_kind;

typedef struct dg_dim_term {
    int64_t n; /* a number; 0: a variable */
    int var;
} dg_dim_term;

typedef struct dg_dim_type {
    dg_dim_term size; /* size in memory */
    bool capacity;    /* `live<=size`: only `live` rows count */
    dg_dim_term live;
} dg_dim_type;

typedef struct dg_contract dg_contract;
typedef struct dg_field_type {
    const char *key;
    bool optional;
    bool wildcard; /* "c_*": all keys with this prefix */
    const dg_contract *type;
} dg_field_type;

struct dg_contract {
    dg_type_kind kind;
    /* DG_PORT_... of the port (presence, rate, invariance); inherited by its fields */
    uint32_t flags;
    dg_dtype dtype; /* DG_REAL or DG_I32 */
    int ellipsis;   /* tensors: number of dimensions left of "..."; -1: none */
    int n_dims;
    dg_dim_type dims[DG_MAX_DIMS];
    int n_fields;
    const dg_field_type *fields;
};

/* The dimension variables of a graph. */
typedef struct dg_dims {
    dg_arena *arena;
    DG_VEC(struct dg_dim_var {
        int parent; /* union-find parent; -1: a root */
        int64_t n;  /* for roots: the size, or 0 if unknown */
        const char *name;
    }) vars;
} dg_dims;

/* The letters of one node. */
typedef struct dg_letters {
    dg_dims *dims;
    int n;
    int vars[64];
} dg_letters;

/* Parses a type. NULL on failure: *at is the offset of the error and *why describes it. */
const dg_contract *dg_contract_parse(dg_letters *letters, const char *text, uint32_t flags, int *at,
                                     const char **why);
/* Appends the type as text, with known dimensions as numbers. */
void dg_contract_print(dg_str *out, const dg_dims *dims, const dg_contract *c);

/* Unifies the types at both ends of a wire: shared dimensions become equal. False if they conflict;
 * the reason is appended to why. */
bool dg_contract_unify(dg_dims *dims, const dg_contract *from, const dg_contract *to, dg_str *why);

/* A copy with new variables. Variables that were equal remain equal, in all copies made with one
 * map. */
typedef struct dg_renamed {
    int from, to;
} dg_renamed;
typedef DG_VEC(dg_renamed) dg_renaming;
const dg_contract *dg_contract_copy(dg_dims *dims, const dg_contract *c, dg_renaming *map);

/* True for values of a program, false for data and metrics on the host. */
bool dg_contract_flows(const dg_contract *c);
/* True for a data set, picks or samples. */
bool dg_contract_is_stream(const dg_contract *c);

/* The type of a record's key path ("targets.boxes"). NULL if absent; *record is then the record
 * that lacks the key. Keys of DG_TYPE_ANY are any. Sets *optional if a key on the path may be
 * missing. */
const dg_contract *dg_contract_key(const dg_contract *c, const char *key,
                                   const dg_contract **record, bool *optional);

extern const dg_contract dg_contract_any;

/* True if a tensor matches a type. bound[variable] is a letter's size (0: unbound); unbound letters
 * are bound. */
bool dg_contract_holds(const dg_dims *dims, const dg_contract *c, dg_dtype dtype, dg_shape shape,
                       int64_t *bound);
/* Unbinds a type's letters in bound (sets them to 0). */
void dg_contract_unbind(const dg_dims *dims, const dg_contract *c, int64_t *bound);

#endif
