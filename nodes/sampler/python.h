/* python.h: the one draw of Python's random module that the reference's sizes follow from. */
#ifndef DG_NODES_SAMPLER_PYTHON_H
#define DG_NODES_SAMPLER_PYTHON_H

#include <stdint.h>

/* The index that random.seed(seed); random.choice(sequence of n) takes, n > 0. */
int dg_python_choice(uint64_t seed, int n);

#endif
