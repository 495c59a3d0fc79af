/* output.h: what decoders give: a record of predictions. */
#ifndef DG_NODES_DECODER_OUTPUT_H
#define DG_NODES_DECODER_OUTPUT_H

#include <detrgraph/node.h>

/* {logits, boxes} */
dg_val dg_prediction_of(dg_build *b, dg_val logits, dg_val boxes);
/* Sets the key "i" of a record. */
void dg_predictions_add(dg_build *b, dg_val record, int i, dg_val v);

#endif
