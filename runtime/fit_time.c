/* fit_time.c: see fit_time.h. */
#include "runtime/fit_time.h"

#include "exec/estimate.h"
#include "runtime/programs.h"

double dg_fit_step_seconds(const dg_run_options *o)
{
    const dg_world alone = { .ranks = 1, .nodes = 1, .local_ranks = 1 };
    dg_diag *ignored = dg_diag_open();
    const dg_compiled *c;
    dg_run *run = NULL;
    dg_programs *g;
    dg_speed speed;
    double seconds = 0;

    if (dg_run_open_unmade(&run, o, &alone, ignored) == 0) {
        g = dg_run_programs(run);
        if (dg_programs_plan(g, true, false, ignored) == 0 &&
            (c = dg_programs_of(g, g->conf.graph->train)) && c->plan &&
            dg_speed_measure(&speed, c->plan, g->conf.backend))
            seconds = dg_speed_seconds(&speed, c->plan, DG_SEG_BATCH) *
                          (c->program->accumulate > 0 ? c->program->accumulate : 1) +
                      dg_speed_seconds(&speed, c->plan, DG_SEG_UPDATE);
    }
    dg_run_close(&run);
    dg_diag_close(&ignored);
    return seconds;
}
