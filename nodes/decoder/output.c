/* output.c: see output.h. */
#include "nodes/decoder/output.h"

#include <stdio.h>

dg_val dg_prediction_of(dg_build *b, dg_val logits, dg_val boxes)
{
    dg_val r = dg_record(b);

    dg_record_set(b, r, "logits", logits);
    dg_record_set(b, r, "boxes", boxes);
    return r;
}

void dg_predictions_add(dg_build *b, dg_val record, int i, dg_val v)
{
    char key[16];

    snprintf(key, sizeof key, "%d", i);
    dg_record_set(b, record, key, v);
}
