/* score.h: COCO scores as text and JSON. data.h declares the scores themselves (dg_score_open). */
#ifndef DG_MEDIA_SCORE_H
#define DG_MEDIA_SCORE_H

#include <detrgraph/data.h>

#include "base/str.h"

/* Prints the 12 numbers with their meaning, then one line per class: AP, AP50, name. classes NULL:
 * no class lines. */
void dg_score_print(dg_str *out, const dg_score *s, const dg_coco_class *classes, int n_classes);
/* {"AP":..,"AP50":..,...,"classes":[{"id":..,"name":..,"AP":..,"AP50":..},...]}; undefined: -1. */
void dg_score_print_json(dg_str *out, const dg_score *s, const dg_coco_class *classes,
                         int n_classes);

#endif
