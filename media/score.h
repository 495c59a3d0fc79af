/* score.h: COCO scores as text; the scores themselves are dg_score_open and friends in data.h. */
#ifndef DG_MEDIA_SCORE_H
#define DG_MEDIA_SCORE_H

#include <detrgraph/data.h>

#include "base/str.h"

/* The 12 numbers with what each means, then a line a class: AP and AP50 with the class's name.
 * classes may be NULL: no class lines. */
void dg_score_print(dg_str *out, const dg_score *s, const dg_coco_class *classes, int n_classes);
/* {"AP":..,"AP50":..,...,"classes":[{"id":..,"name":..,"AP":..,"AP50":..},...]}; -1 is
 * undefined. */
void dg_score_print_json(dg_str *out, const dg_score *s, const dg_coco_class *classes,
                         int n_classes);

#endif
