/* weights.h: loads files into the store and saves it, by name, and reports mismatches. */
#ifndef DG_WEIGHTS_WEIGHTS_H
#define DG_WEIGHTS_WEIGHTS_H

#include "base/log.h"
#include "graph/graph.h"
#include "weights/archive.h"
#include "weights/weight_names.h"
#include "exec/store.h"

/* Loads all parameters and buffers from an archive into one space; `prefix` ("moment1.") precedes
 * each name in the file. Each must be present, of the right shape and finite; unused names are a
 * warning. */
int dg_weights_load(dg_store *s, dg_space space, const dg_archive *a, const char *prefix,
                    dg_diag *d) DG_MUST_USE;
/* Loads the weights from an archive with any known names, which are translated. partial: tensors
 * that are missing or of another shape keep their values, with a warning; *n (or NULL) receives the
 * number loaded. */
int dg_weights_adopt(dg_store *s, dg_archive *a, bool partial, int64_t *n, dg_diag *d) DG_MUST_USE;

/* Loads a node's `pretrained=` file: its parameters, by reference name with or without the class's
 * first part. Those missing or of another shape keep their initial values, and are named in the log
 * and a warning; frozen ones must all be found. */
int dg_weights_pretrained(dg_store *s, const dg_node *node, const dg_env *env, dg_diag *d)
    DG_MUST_USE;

/* Saves one space in the reference's names and layouts, including the entries that exist only in
 * checkpoints. WEIGHTS and EMA; counters are 0 in EMA, because the reference never averages
 * them. *checksum (or NULL): the file's. */
int dg_weights_save(const dg_store *s, dg_space space, const char *file, const char *const *meta,
                    uint64_t *checksum, dg_diag *d) DG_MUST_USE;
/* The same with other names, without the decoder's layers from n_layers on (-1: with all). */
typedef struct dg_export {
    const dg_weight_names *to;
    int64_t n_layers;
    const char *const *meta; /* as in dg_safetensors_write */
    int n_left;              /* results: number of the model's tensors that were left out, */
    uint64_t checksum;       /* the file's checksum */
} dg_export;
int dg_weights_export(const dg_store *s, dg_space space, const char *file, dg_export *how,
                      dg_diag *d) DG_MUST_USE;
/* Saves both moments, as "moment1.NAME" and "moment2.NAME". */
int dg_moments_save(const dg_store *s, const char *file, uint64_t *checksum, dg_diag *d)
    DG_MUST_USE;

#endif
