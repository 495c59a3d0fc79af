/* params.h: declares parameters; used by the builder, besides program.h. */
#ifndef DG_TENSOR_PARAMS_H
#define DG_TENSOR_PARAMS_H

#include "tensor/program.h"

/* dg_init.kind. DG_INIT_ZERO_ROW is a flag added to UNIFORM or NORMAL; dg_init.n is the row. */
enum { DG_INIT_ZERO, DG_INIT_CONST, DG_INIT_UNIFORM, DG_INIT_NORMAL, DG_INIT_DATA, DG_INIT_LIKE };
enum { DG_INIT_ZERO_ROW = 0x100 };
enum { DG_PARAM_ALIGN = 16 }; /* elements */

/* Declares info->path and returns its index, or a negative status. If it exists already, kind and
 * shape must agree. Copies *info. With DG_INIT_LIKE, info->like must be declared before. */
int dg_params_declare(dg_params *p, const dg_param_info *info, dg_diag *d) DG_MUST_USE;
int dg_params_find_path(const dg_params *p, const char *path); /* -1 if unknown */
/* The length of the longest program so far: most of a run are as long, so the next one gets room
 * for that at once. Programs may be made by several threads. */
void dg_params_note_length(dg_params *p, int values, int instrs);
void dg_params_length(const dg_params *p, int *values, int *instrs);
/* True if every dimension is at least 1 and the number of elements is at most 2^40. */
bool dg_shape_fits(dg_shape s);

#endif
