/* terms.h: what set prediction losses share: the number of objects, and weighted terms by name. */
#ifndef DG_NODES_LOSS_TERMS_H
#define DG_NODES_LOSS_TERMS_H

#include <detrgraph/node.h>

typedef struct dg_loss_terms {
    dg_build *b;
    dg_val record; /* {loss_*:f[]} */
    dg_val total;  /* their sum; DG_NONE: there is no term yet */
} dg_loss_terms;

/* Adds weight * sum / normaliser as loss_<kind><set>. */
void dg_loss_add(dg_loss_terms *t, const char *kind, const char *set, dg_val sum, double weight,
                 dg_val normaliser);

/* An error if the predictions have one of the keys in `unread`, like "groups sets", which this loss
 * does not read: their queries would be matched wrong, or trained by nothing. Else DG_NONE. */
dg_val dg_loss_misfit(dg_build *b, dg_val predictions, const char *unread);

/* [] real: the sum of the elements of count (i32), over all ranks of `axis` unless that is NULL. */
dg_val dg_loss_count(dg_build *b, dg_val count, const char *axis);

#endif
