/* weights.h: from files into the store, by name, with an account of what fitted and what did not. */
#ifndef DG_RUNTIME_WEIGHTS_H
#define DG_RUNTIME_WEIGHTS_H

#include "base/log.h"
#include "graph/graph.h"
#include "runtime/archive.h"
#include "runtime/dialect.h"
#include "runtime/store.h"

/* All parameters and buffers from an archive into one space; prefix stands before each name in the file ("moment1.").
 * Every one must be there, of its shape and finite; names that nobody wants are a warning. */
int dg_weights_load(dg_store *s, dg_space space, const dg_archive *a, const char *prefix, dg_diag *d) DG_MUST_USE;
/* The weights from an archive in any dialect, which it is translated from. partial: what is missing or of another shape
 * keeps its value, with a warning; *n (or NULL) receives how many tensors were taken. */
int dg_weights_adopt(dg_store *s, dg_archive *a, bool partial, int64_t *n, dg_diag *d) DG_MUST_USE;

/* What `pretrained=` of a node asks for: its parameters, by reference name with or without the class's first part.
 * Those whose shape differs or that are missing keep their initial values and are named in the log and a warning;
 * frozen ones must all be found. */
int dg_weights_pretrained(dg_store *s, const dg_node *node, const dg_env *env, dg_diag *d) DG_MUST_USE;

/* Writes one space in the reference's names and layouts, with the entries that only checkpoints see. WEIGHTS and
 * EMA; counters are 0 in EMA, as the reference never averages them. */
int dg_weights_save(const dg_store *s, dg_space space, const char *file, const char *const *meta, dg_diag *d) DG_MUST_USE;
/* The same in another dialect, without the decoder's layers from n_layers on (-1: with all). */
typedef struct dg_export {
    const dg_dialect  *to;
    int64_t            n_layers;
    const char *const *meta; /* as in dg_safetensors_write */
    int                n_left; /* out: of the model's tensors, those that this dialect or n_layers leave out */
} dg_export;
int dg_weights_export(const dg_store *s, dg_space space, const char *file, dg_export *how, dg_diag *d) DG_MUST_USE;
/* Both moments, as "moment1.NAME" and "moment2.NAME". */
int dg_moments_save(const dg_store *s, const char *file, dg_diag *d) DG_MUST_USE;

#endif
