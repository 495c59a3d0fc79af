/* program: bytes as a program, sensible or not; what the builder takes must pass differentiation,
 * every pass, the planner, and the proofs of both. */
#include <stdlib.h>

#include "tensor/passes.h"
#include "tensor/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tensor/wild.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_diag *d = dg_diag_open();
    dg_params *params = dg_params_open();
    dg_program *p = dg_program_open(params, n && data[0] % 4);
    dg_build *b = dg_build_open(p, d);
    dg_plan *plan = NULL;
    dg_str text = { 0 };

    p->keep_names = n && data[0] % 8 == 1;
    wild_program(b, data, n < 600 ? n : 600, n && data[0] % 16 < 8, WILD_SUMS);
    dg_program_print(&text, p);
    if (!dg_build_failed(b)) {
        if (dg_passes(p, DG_F32, n && data[0] % 32 < 16 ? DG_F32 : DG_BF16, NULL, 1, d) < 0 ||
            dg_plan_open(&plan, p, &wild_backend, 2, d) < 0 || dg_plan_verify(plan, d) < 0)
            abort();
        dg_plan_print(&text, plan, true);
    }
    dg_str_free(&text);
    dg_plan_close(&plan);
    dg_build_close(&b);
    dg_program_close(&p);
    dg_params_close(&params);
    dg_diag_close(&d);
    return 0;
}
