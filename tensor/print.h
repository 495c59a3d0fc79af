/* print.h: parts of listings that programs and plans share. */
#ifndef DG_TENSOR_PRINT_H
#define DG_TENSOR_PRINT_H

#include "tensor/program.h"

/* " {stride=1 pad=0}" */
void dg_print_attr(dg_str *out, const dg_op *op, const void *attr);
/* "%7:f32[2,3]'memory'"; "-" for none */
void dg_print_value(dg_str *out, const dg_program *p, int32_t v);
void dg_print_guard(dg_str *out, const dg_instr *in); /* " if %12 else %7" */
void dg_print_origin(dg_str *out, dg_where at);       /* "  ; node file:line:col" */

#endif
