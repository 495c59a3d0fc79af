/* mask.h: geometry of masks, for sample.c. */
#ifndef DG_MEDIA_MASK_H
#define DG_MEDIA_MASK_H

#include <detrgraph/data.h>

/* A mask of w x h pixels, of any content. */
int dg_mask_alloc(dg_mask *out, dg_scratch *s, int w, int h, dg_diag *d) DG_MUST_USE;
/* The sample's masks, one for each object; NULL: it has none. */
dg_mask *dg_sample_masks(const dg_sample *sm);
int dg_mask_crop(dg_mask *out, dg_scratch *s, const dg_mask *in, int x, int y, int w, int h,
                 dg_diag *d) DG_MUST_USE;
/* The mask at (x, y) of one of w x h that is 0 elsewhere. */
int dg_mask_paste(dg_mask *out, dg_scratch *s, const dg_mask *in, int w, int h, int x, int y,
                  dg_diag *d) DG_MUST_USE;
void dg_mask_flip(dg_mask *m, int w); /* mirrors the first w columns */

#endif
