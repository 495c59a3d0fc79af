/* pickle.h: reads the part of Python's pickle format that torch.save writes for state dictionaries.
 * Nothing is ever executed: a class or function is only a name, and names that tensors do not need
 * are refused. */
#ifndef DG_WEIGHTS_PICKLE_H
#define DG_WEIGHTS_PICKLE_H

#include "base/arena.h"

typedef enum dg_pickle_kind {
    DG_PK_NONE,
    DG_PK_BOOL,
    DG_PK_INT,
    DG_PK_REAL,
    DG_PK_TEXT,
    DG_PK_TUPLE,
    DG_PK_LIST,
    DG_PK_DICT,
    DG_PK_NAME,    /* a class or function: text is "module.name" */
    DG_PK_STORAGE, /* a persistent id; items: its tuple */
    DG_PK_TENSOR,  /* items: the arguments of torch._utils._rebuild_tensor_v2 */
    DG_PK_OTHER,   /* allowed, but not interpreted */
} dg_pickle_kind;

/* A list or tuple has n items, a dictionary n keys and values alternating (2n items), latest last.
 * Containers may contain themselves: bound every traversal. */
typedef struct dg_pickle {
    dg_pickle_kind kind;
    int64_t integer; /* for INT and BOOL; integers beyond 64 bits are OTHER */
    const char *text;
    int n, cap;
    struct dg_pickle **items;
} dg_pickle;

const char *dg_pickle_kind_name(dg_pickle_kind kind);

/* Reads the one value of the pickle at bytes. *used (or NULL) receives the pickle's length, the
 * items of storages (or NULL) every storage named in it. Errors name `file`. */
int dg_pickle_parse(dg_pickle **out, dg_arena *a, const uint8_t *bytes, size_t n, size_t *used,
                    dg_pickle *storages, const char *file, dg_diag *d) DG_MUST_USE;

/* The latest value of a text key; NULL if absent or v is not a dictionary. */
const dg_pickle *dg_pickle_get(const dg_pickle *v, const char *key);

#endif
