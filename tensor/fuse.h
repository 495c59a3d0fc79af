/* fuse.h: the readers of every value, for passes that replace several instructions by one: fuse.c,
 * fuse_device.c, pack.c. */
#ifndef DG_TENSOR_FUSE_H
#define DG_TENSOR_FUSE_H

#include "tensor/program.h"

typedef struct dg_fusion {
    dg_program *p;
    int *uses;   /* readers of every value, counting results and kept names */
    int *reader; /* last instruction that reads each value */
    bool *keep;  /* per instruction; false: remove it */
} dg_fusion;

dg_fusion dg_fusion_open(dg_program *p, dg_arena *scratch);
/* The only reader of v, if it may merge with instruction i; else -1. */
int dg_fusion_reader(const dg_fusion *f, int32_t v, int i);

#endif
