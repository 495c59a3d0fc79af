/* hf.h: models in the format of Hugging Face transformers: a folder with model.safetensors,
 * config.json and preprocessor_config.json. */
#ifndef DG_WEIGHTS_HF_H
#define DG_WEIGHTS_HF_H

#include "exec/store.h"
#include "graph/graph.h"

/* Fails if transformers' RTDetr (version 1) or RTDetrV2 cannot express the pipeline's model. Class
 * names are those that the run noted beside its pipeline, else the evaluation data's, else the
 * training data's, else LABEL_0, LABEL_1, ... */
int dg_hf_write(const dg_graph *graph, const dg_store *store, dg_space space, const char *folder,
                dg_diag *d) DG_MUST_USE;
/* Warns where the folder's two files, if present, contradict the pipeline's computation. */
int dg_hf_check(const dg_graph *graph, const char *folder, dg_diag *d) DG_MUST_USE;

#endif
