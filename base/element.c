/* element.c: elements of memory, by type. */
#include "base/element.h"

#include <assert.h>

double dg_element(const void *p, dg_dtype t, int64_t i)
{
    switch (t) {
    case DG_F32:
        return (double)((const float *)p)[i];
    case DG_F64:
        return ((const double *)p)[i];
    case DG_BF16:
        return (double)dg_f32_of_bf16(((const uint16_t *)p)[i]);
    case DG_I32:
        return ((const int32_t *)p)[i];
    case DG_I64:
        return (double)((const int64_t *)p)[i];
    default:
        assert(t == DG_U8);
        return ((const uint8_t *)p)[i];
    }
}

void dg_element_set(void *p, dg_dtype t, int64_t i, double v)
{
    switch (t) {
    case DG_F32:
        ((float *)p)[i] = (float)v;
        break;
    case DG_F64:
        ((double *)p)[i] = v;
        break;
    case DG_BF16:
        ((uint16_t *)p)[i] = dg_bf16_of_f32((float)v);
        break;
    case DG_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case DG_I64:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    default:
        assert(t == DG_U8);
        ((uint8_t *)p)[i] = (uint8_t)v;
    }
}

void dg_elements_convert(void *to, dg_dtype to_type, const void *from, dg_dtype from_type,
                         int64_t n)
{
    if (to_type == from_type)
        memcpy(to, from, (size_t)n * dg_dtype_size(to_type));
    else if (to_type == DG_F32 && from_type == DG_F64) /* whole batches of images */
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = (float)((const double *)from)[i];
    else
        for (int64_t i = 0; i < n; i++)
            dg_element_set(to, to_type, i, dg_element(from, from_type, i));
}
