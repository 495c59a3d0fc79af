/* output.h: what decoders give: a record of predictions. */
#ifndef DG_NODES_DECODER_OUTPUT_H
#define DG_NODES_DECODER_OUTPUT_H

#include <detrgraph/node.h>

/* {logits, boxes} */
dg_val dg_prediction_of(dg_build *b, dg_val logits, dg_val boxes);
/* Rows begin..end-1 of a layer's logits and boxes, [B,N,...], named "part.i.logits" and
 * "part.i.boxes". */
dg_val dg_prediction_rows(dg_build *b, dg_val logits, dg_val boxes, int64_t begin, int64_t end,
                          const char *part, int i);
/* Sets the key "i" of a record. */
void dg_predictions_add(dg_build *b, dg_val record, int i, dg_val v);

#endif
