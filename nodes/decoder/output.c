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

dg_val dg_prediction_rows(dg_build *b, dg_val logits, dg_val boxes, int64_t begin, int64_t end,
                          const char *part, int i)
{
    if (begin || end != dg_dim(b, logits, 1)) {
        logits = dg_slice(b, logits, 1, begin, end);
        boxes = dg_slice(b, boxes, 1, begin, end);
    }
    return dg_prediction_of(b, dg_name(b, logits, "%s.%d.logits", part, i),
                            dg_name(b, boxes, "%s.%d.boxes", part, i));
}

void dg_predictions_add(dg_build *b, dg_val record, int i, dg_val v)
{
    char key[16];

    snprintf(key, sizeof key, "%d", i);
    dg_record_set(b, record, key, v);
}
