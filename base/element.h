/* element.h: single elements of memory of any type, as double; and bf16, the upper half of an f32.
 */
#ifndef DG_BASE_ELEMENT_H
#define DG_BASE_ELEMENT_H

#include <string.h>

#include <detrgraph/tensor.h>

static inline float dg_f32_of_bf16(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* To nearest, ties to even; a NaN stays one. */
static inline uint16_t dg_bf16_of_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}

/* Element i of p, which holds elements of type t, not DG_REAL. dg_element_set rounds to the type; a
 * number for an integer type must be in its range. */
double dg_element(const void *p, dg_dtype t, int64_t i);
void dg_element_set(void *p, dg_dtype t, int64_t i, double v);

/* n elements of another type, or of the same, as the two above one by one. */
void dg_elements_convert(void *to, dg_dtype to_type, const void *from, dg_dtype from_type,
                         int64_t n);

static inline double dg_tensor_get(const dg_tensor *t, int64_t i)
{
    return dg_element(t->data, t->dtype, i);
}

static inline void dg_tensor_set(const dg_tensor *t, int64_t i, double v)
{
    dg_element_set(t->data, t->dtype, i, v);
}

#endif
