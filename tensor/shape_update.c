/* shape_update.c: shapes of ops on losses and whole spaces: no output, or one number. */
#include "tensor/rules.h"

int dg_shape_none(dg_infer *s)
{
    (void)s;
    return 0;
}

int dg_shape_scalar(dg_infer *s)
{
    s->out[0] = DG_SCALAR;
    return 0;
}

int dg_shape_scalar_i32(dg_infer *s)
{
    return dg_shape_scalar(s);
}
