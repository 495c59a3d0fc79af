/* init_refuse.h: data that `init` writes no pipeline for, and data check warns of. */
#ifndef DG_CLI_INIT_REFUSE_H
#define DG_CLI_INIT_REFUSE_H

#include "media/survey.h"

/* Names that attributes cannot contain: not UTF-8, or with control characters that XML excludes.
 * NULL is accepted. "init-name" */
int dg_init_name(const char *name, dg_diag *d) DG_MUST_USE;
/* A split that a run could not open. */
int dg_init_split(dg_survey *s, const dg_split *split, dg_diag *d) DG_MUST_USE;
/* Splits with different classes: a run scores one by what it learned from the other.
 * "init-classes" */
int dg_init_classes(const dg_coco *a, const dg_coco *b, dg_diag *d) DG_MUST_USE;
/* Data without any image; usually they are elsewhere than the annotations say. "init-images" */
int dg_init_images(const dg_survey *s, dg_diag *d) DG_MUST_USE;
/* What a run would learn nothing, or nonsense, from: "no-objects", "box-normalized", "box-form". */
int dg_init_boxes(const dg_survey *s, dg_diag *d) DG_MUST_USE;

/* For a model of masks, data that lack them: "layout-masks", "mask-missing". */
int dg_init_masks(const dg_survey *s, const dg_split *split, dg_diag *d) DG_MUST_USE;
bool dg_init_has_masks(const dg_survey *s, const dg_split *split); /* each object has a mask */

/* True if the loader must replace some images. */
bool dg_init_broken(const dg_survey *s);

/* Images without labels; says what was seen that may be meant for them. Always fails, with
 * "init-plain". */
int dg_init_plain(const dg_survey *s, dg_diag *d);
/* The same as a warning, "no-labels", if something was seen. */
void dg_warn_plain(const dg_survey *s, dg_diag *d);

#endif
