/* host.h: a CUDA device as a backend: streams are lanes, captured graphs are recordings. The file
 * knows no CUDA: a module brings it (kernels/cuda/runtime.h). */
#ifndef DG_KERNELS_CUDA_HOST_HOST_H
#define DG_KERNELS_CUDA_HOST_HOST_H

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

/* "cuda" is "cuda:0". After that, separated by commas: module=PATH, another module than the one
 * beside the program, nccl=PATH, the library of collectives, and words for that module.
 * -DG_EUNSUPPORTED: this build, machine or driver lacks something; the error says what, and how to
 * get it. */
int dg_cuda_open(dg_backend **b, const char *device, dg_diag *d) DG_MUST_USE;
/* The same with a module that is there already; number: of the device. */
int dg_cuda_open_with(dg_backend **b, const dg_cuda_module *m, int number, const char *options,
                      dg_diag *d) DG_MUST_USE;

/* How many GPUs there are, by the module that the device names; 0 is an error, too. */
int dg_cuda_count(int *n, const char *device, dg_diag *d) DG_MUST_USE;
/* Whether `--device cuda` opens. buf: the devices and versions, or what is missing, for people;
 * *help: how to get it, or NULL. */
bool dg_cuda_look(char *buf, size_t n, const char **help);

#endif
