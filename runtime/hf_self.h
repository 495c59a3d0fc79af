/* hf_self.h: what hf_config.c (the two texts) and hf.c (folders) share. */
#ifndef DG_RUNTIME_HF_SELF_H
#define DG_RUNTIME_HF_SELF_H

#include "base/str.h"
#include "runtime/session.h"

enum { DG_HF_PARTS = 3 }; /* backbone, encoder, decoder */

typedef struct dg_hf_model {
    dg_run        *run;
    const dg_node *nodes[DG_HF_PARTS];
    int64_t        version, n_layers; /* 1 or 2; decoder layers up to the one that evaluation reads */
    dg_size        size;
    int            n_names; /* of classes; 0: not known */
    const char   **names;
} dg_hf_model;

/* Where images come from: the first <evaluate>, else <train>. */
const dg_scope *dg_hf_scope(const dg_run *run);
/* All but the names. Fails where transformers has no place for what the model does. */
int  dg_hf_describe(dg_hf_model *m, dg_run *run, dg_diag *d) DG_MUST_USE;
void dg_hf_config(dg_str *s, const dg_hf_model *m);
void dg_hf_preprocessor(dg_str *s, const dg_hf_model *m);

#endif
