/* hf.h: a model as Hugging Face transformers reads it: a folder with model.safetensors, config.json and
 * preprocessor_config.json. */
#ifndef DG_RUNTIME_HF_H
#define DG_RUNTIME_HF_H

#include "runtime/session.h"

/* Fails where transformers' RTDetr (version 1) or RTDetrV2 has no place for what the pipeline's model does. Class names
 * are those that a run noted beside its pipeline, else of the data of the pipeline's evaluation, else of its training;
 * without any of them they are LABEL_0, LABEL_1. */
int dg_hf_write(dg_run *run, dg_space space, const char *folder, dg_diag *d) DG_MUST_USE;
/* Warns where the two files of a folder, as far as they are there, say otherwise than the pipeline what is computed. */
int dg_hf_check(dg_run *run, const char *folder, dg_diag *d) DG_MUST_USE;

#endif
