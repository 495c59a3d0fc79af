/* weights_inspect.h: lists the contents of weight files, and the differences of two, as text or
 * JSON. */
#ifndef DG_WEIGHTS_WEIGHTS_INSPECT_H
#define DG_WEIGHTS_WEIGHTS_INSPECT_H

#include "base/str.h"
#include "weights/archive.h"

/* Lists name, type and shape of every tensor; statistics: also least, largest, mean, root mean
 * square and the number of elements that are not finite. */
int dg_weights_inspect(dg_str *out, const char *file, bool statistics, bool json, dg_diag *d)
    DG_MUST_USE;

/* Compares tensor by tensor, under the reference's names whatever the files' own. *same: no tensor
 * is missing or of another shape, and no element differs by more than tolerance. */
int dg_weights_diff(dg_str *out, const char *first, const char *second, double tolerance, bool json,
                    bool *same, dg_diag *d) DG_MUST_USE;

#endif
