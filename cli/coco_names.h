/* coco_names.h: the classes of COCO, which published detectors know. */
#ifndef DG_CLI_COCO_NAMES_H
#define DG_CLI_COCO_NAMES_H

enum { DG_COCO_NAMES = 80 };
extern const char *const dg_coco_names[DG_COCO_NAMES]; /* by label */
/* The category id of a label: ids go from 1 to 90 and leave ten numbers out. */
int dg_coco_id(int label);

#endif
