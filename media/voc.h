/* voc.h: data sets in Pascal VOC's form; data.h declares dg_voc_open. */
#ifndef DG_MEDIA_VOC_H
#define DG_MEDIA_VOC_H

#include "media/marks.h"

/* Parses one .xml file with libxml2. Other elements are skipped, boxes of <part>s too. Fails with
 * "voc-syntax", "voc-value", "voc-object". Thread-safe after dg_voc_prepare. */
int dg_voc_parse(dg_marked_image *out, dg_arena *a, const char *text, size_t n, const char *name,
                 dg_diag *d) DG_MUST_USE;
void dg_voc_prepare(void);

#endif
