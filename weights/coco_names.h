/* coco_names.h: the classes of COCO, which published detectors know. */
#ifndef DG_WEIGHTS_COCO_NAMES_H
#define DG_WEIGHTS_COCO_NAMES_H

#include <detrgraph/data.h>

#include "base/arena.h"

enum { DG_COCO_NAMES = 80 };
/* Names and category ids by label; ids go from 1 to 90 and leave ten numbers out. */
const dg_coco_class *dg_coco_classes(dg_arena *a);

#endif
