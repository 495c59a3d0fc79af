/* network.h: a small network of convolutions and norms, its training, and a comparison of two
 * trainings: what the tests of passes share. */
#ifndef DG_TESTS_TENSOR_NETWORK_H
#define DG_TESTS_TENSOR_NETWORK_H

#include "tests/tensor/rig.h"

/* x [B,H,W,I] -> [B,H,W,out]; the kernel size x size is the parameter `name`. */
dg_val net_conv(rig *r, const char *name, dg_val x, int64_t out, int size);
/* A batch norm, frozen in evaluation; its parameters are name.0 to name.3. */
dg_val net_norm(rig *r, const char *name, dg_val x);
/* The loss of a stem, two blocks that may be recomputed, and a head, from "images" [2,4,4,3].
 * unfused: what lies between ops is a result, so that it stays. */
dg_val net_blocks(rig *r, bool unfused, bool recompute);

extern const dg_adamw_attr net_adamw;
/* Gradients, clip, AdamW and moving average. */
void net_train(rig *r, dg_val loss);
/* Compiles in f32 and runs one batch, with its update in training. "images" has 96 elements. */
void net_run(rig *r);
/* Compares every element of every parameter space, within tolerance of the space's largest
 * magnitude; 0: every bit. */
void net_same(rig *a, rig *b, double tolerance);

#endif
