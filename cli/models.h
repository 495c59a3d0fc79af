/* models.h: the architectures of the presets, for init: their numbers, and which of them a file of weights is of. */
#ifndef DG_CLI_MODELS_H
#define DG_CLI_MODELS_H

#include "runtime/archive.h"

#define DG_NORM_GROUP "      <group match=\"norm|bn\" weight_decay=\"0\"/>\n"

typedef struct dg_model {
    const char *name;
    int         version, depth, width, ffn, layers, eval_idx;
    const char *expansion, *groups; /* groups: of the optimizer, those that train a pretrained backbone */
    bool        freeze; /* a pretrained backbone's first stage and norms */
} dg_model;

const dg_model *dg_model_find(const char *name); /* NULL: there is none */
const char     *dg_model_near(const char *name); /* one that was meant, perhaps; NULL */
/* The one that a whole model's tensors, under the reference's names, are of; NULL: none of these. */
const dg_model *dg_model_of(const dg_archive *a);
/* Do weights of one fit the other? Versions 1 and 2 have the same tensors. */
bool            dg_models_alike(const dg_model *a, const dg_model *b);

#endif
