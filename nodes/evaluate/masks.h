/* masks.h: detected masks on the host: from logits to pixels, and between ranks. */
#ifndef DG_NODES_EVALUATE_MASKS_H
#define DG_NODES_EVALUATE_MASKS_H

#include <detrgraph/node.h>

/* Mask j of logits [B,K,H,W], resized to w x h pixels: those whose logit is above 0. Bilinear,
 * corners of pixels aligned, no antialiasing. Fails with "out-of-memory". */
int dg_detected_mask(dg_rle *out, const dg_tensor *logits, int64_t j, int w, int h, dg_diag *d)
    DG_MUST_USE;

/* n masks one after another, as bytes. */
size_t dg_masks_bytes(const dg_rle *masks, int64_t n);
void dg_masks_pack(char *to, const dg_rle *masks, int64_t n);
/* Reads the next mask at *from, which moves behind it. */
int dg_mask_unpack(dg_rle *out, const char **from, dg_diag *d) DG_MUST_USE;

#endif
