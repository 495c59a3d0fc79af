/* formula.h: the value formula of parity fixtures (section 1 of their description). */
#ifndef TESTS_PARITY_FORMULA_H
#define TESTS_PARITY_FORMULA_H

#include <detrgraph/tensor.h>

double formula_u(const char *name, int64_t i);   /* [0,1) */
float formula_draw(const char *name, int64_t i); /* rounded to single precision */
/* The values of a state-dict entry. */
void formula_fill(const char *name, dg_shape shape, double *out);
/* Images [n,h,w,3] to [n,to_h,to_w,3]: bilinear between the centres of pixels, no antialiasing. */
void formula_resize(const double *in, int64_t n, int64_t h, int64_t w, double *out, int64_t to_h,
                    int64_t to_w);

#endif
