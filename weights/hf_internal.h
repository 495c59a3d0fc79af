/* hf_internal.h: shared by hf_config.c (the two texts) and hf.c (folders). */
#ifndef DG_WEIGHTS_HF_INTERNAL_H
#define DG_WEIGHTS_HF_INTERNAL_H

#include "base/str.h"
#include "graph/graph.h"

enum { DG_HF_PARTS = 3 }; /* backbone, encoder, decoder */

typedef struct dg_hf_model {
    const dg_graph *graph;
    dg_arena *arena; /* owns the texts */
    const dg_node *nodes[DG_HF_PARTS];
    int64_t version, n_layers; /* 1 or 2; decoder layers up to the evaluated one */
    dg_size size;
    int n_names; /* number of classes; 0: names unknown */
    const char *const *names;
} dg_hf_model;

/* The scope that images come from: the first <evaluate>, else <train>. */
const dg_scope *dg_hf_scope(const dg_graph *graph);
/* Fills all but the names. Fails if transformers cannot express the model. */
int dg_hf_describe(dg_hf_model *m, const dg_graph *graph, dg_arena *a, dg_diag *d) DG_MUST_USE;
void dg_hf_config(dg_str *s, const dg_hf_model *m);
void dg_hf_preprocessor(dg_str *s, const dg_hf_model *m);

#endif
