/* params.h: declaring parameters: what the builder uses beside program.h. */
#ifndef DG_TENSOR_PARAMS_H
#define DG_TENSOR_PARAMS_H

#include "tensor/program.h"

/* dg_init.kind; DG_INIT_ZERO_ROW is a flag beside uniform or normal, the row is dg_init.n. */
enum { DG_INIT_ZERO, DG_INIT_CONST, DG_INIT_UNIFORM, DG_INIT_NORMAL, DG_INIT_DATA, DG_INIT_LIKE };
enum { DG_INIT_ZERO_ROW = 0x100 };
enum { DG_PARAM_ALIGN = 16 }; /* elements */

/* Declares info->path, or finds it: then kind and shape must agree. Copies everything. For
 * DG_INIT_LIKE, info->like names a parameter declared before. Returns its index or a negative
 * status. */
int  dg_params_declare(dg_params *p, const dg_param_info *info, dg_diag *d) DG_MUST_USE;
int  dg_params_find_path(const dg_params *p, const char *path); /* -1 */
/* Every dimension is at least 1, and the elements are countable: what a parameter or value may be. */
bool dg_shape_fits(dg_shape s);

#endif
