/* inventory.h: what stands in files of weights, and in what two of them differ, as text or JSON. */
#ifndef DG_RUNTIME_INVENTORY_H
#define DG_RUNTIME_INVENTORY_H

#include "base/str.h"
#include "runtime/archive.h"

/* Name, type and shape of every tensor; statistics: also least, largest, mean, root of the mean square and how many
 * elements are not finite. */
int dg_weights_inspect(dg_str *out, const char *file, bool statistics, bool json, dg_diag *d) DG_MUST_USE;

/* Tensor by tensor, under the reference's names whatever the files' own. *same: nothing is missing or of another shape,
 * and no element differs by more than tolerance. */
int dg_weights_diff(dg_str *out, const char *first, const char *second, double tolerance, bool json, bool *same,
                    dg_diag *d) DG_MUST_USE;

#endif
