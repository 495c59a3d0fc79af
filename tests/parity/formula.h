/* formula.h: the value formula of parity fixtures (section 1 of their description). */
#ifndef TESTS_PARITY_FORMULA_H
#define TESTS_PARITY_FORMULA_H

#include <detrgraph/tensor.h>

double formula_u(const char *name, int64_t i);   /* [0,1) */
float formula_draw(const char *name, int64_t i); /* rounded to single precision */
/* The values of a state-dict entry. */
void formula_fill(const char *name, dg_shape shape, double *out);

#endif
