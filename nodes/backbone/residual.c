/* residual.c: see residual.h. */
#include "nodes/backbone/residual.h"

#include "nodes/layers.h"

const dg_resnet_depth dg_resnet_depths[] = {
    { { 2, 2, 2, 2 }, false },
    { { 3, 4, 6, 3 }, false },
    { { 3, 4, 6, 3 }, true },
    { { 3, 4, 23, 3 }, true },
};

void dg_resnet_check_norm(dg_check *k, bool freeze_norm, int64_t norm, const char *axis)
{
    if (freeze_norm && !dg_check_has_pretrained(k)) {
        dg_check_fail(
            k, "freeze_norm", "frozen-without-pretrained",
            "fixed norms of a backbone that starts from random weights normalise nothing");
        dg_check_help(k, "give pretrained=\"weights.safetensors\", or freeze_norm=\"false\"");
    }
    if (freeze_norm && norm == DG_NORM_SYNC)
        dg_check_fail(k, "norm", "norm-fixed", "joins statistics, and freeze_norm leaves none");
    dg_norm_check(k, norm, axis);
}
