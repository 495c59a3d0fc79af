/* variants.h: the kernels that the host column of the op table stands for on this machine. */
#ifndef DG_TESTS_OPS_VARIANTS_H
#define DG_TESTS_OPS_VARIANTS_H

#include "tensor/ops.h"

enum { MAX_VARIANTS = 5 };

typedef struct variant {
    const char *name; /* "host", "host for avx2" */
    const dg_kernel *kernel;
} variant;

/* The kernel in use, then those compiled for other instruction sets that this CPU has; returns how
 * many, 0 for ops without a host kernel. */
int host_variants(const dg_op *op, variant list[MAX_VARIANTS]);

#endif
