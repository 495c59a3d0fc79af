/* mask_terms.h: losses of masks at points, as in Mask2Former (Cheng et al. 2022): part of
 * loss.rfdetr. */
#ifndef DG_NODES_LOSS_MASK_TERMS_H
#define DG_NODES_LOSS_MASK_TERMS_H

#include <detrgraph/node.h>

/* Predicted masks of a set, as decoder.masks gives them, and what they are held against. */
typedef struct dg_mask_set {
    dg_build *b;
    const char *set; /* suffix of the draws' names: "", "_0", "_enc" */
    dg_val masks;    /* {map, queries, bias} */
    dg_val targets;  /* i32 [B,L,H,W] */
} dg_mask_set;

/* cost [B,M,Q] plus the weighted losses of every query's mask at H W / 16 points of an image, drawn
 * at random. */
dg_val dg_mask_set_cost(const dg_mask_set *s, dg_val cost, dg_val count, double ce, double dice);

/* Sums of the losses over pairs [B,P], at max(H, H W / 16) points of each: three quarters are those
 * of three times as many that are drawn where the prediction is least certain, the rest is
 * drawn. */
dg_mask_losses dg_mask_set_loss(const dg_mask_set *s, dg_val query, dg_val gt);

#endif
