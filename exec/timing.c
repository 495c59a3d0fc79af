/* timing.c: how long instructions take. Where the device has a clock, a pair of its events stands
 * around each instruction and is read behind the run; the run begins on an idle device. Elsewhere
 * the host waits for each instruction. */
#include "base/log.h"
#include "exec/exec_internal.h"

typedef struct timed {
    dg_event *begin, *end;
    int instr;
    int64_t pieces;
} timed;

struct dg_timing {
    double zero_s;  /* of the monotonic clock, when the run began */
    dg_event *zero; /* the same moment, on the lane */
    DG_VEC(timed) all;
    int n; /* of this run */
};

/* Debugging waits for every instruction. */
bool dg_timing_possible(const dg_exec *x)
{
    return x->backend->stamp_open && !x->debug.what && !x->at_once;
}

/* The lane is empty then, so that both clocks show the same moment. */
int dg_timing_begin(dg_exec *x)
{
    dg_backend *b = x->backend;
    int rc;

    if (!dg_timing_possible(x))
        return 0;
    if (!x->timing) {
        x->timing = DG_NEW(x->arena, dg_timing);
        x->timing->zero = b->stamp_open(b);
    }
    if (!x->timing->zero)
        return -DG_EMEMORY;
    x->timing->n = 0;
    rc = b->finish(b);
    rc = rc ? rc : b->event_record(b, x->timing->zero, DG_LANE_COMPUTE);
    rc = rc ? rc : b->event_wait(b, x->timing->zero);
    x->timing->zero_s = dg_monotonic_s();
    return rc;
}

static timed *next(dg_exec *x)
{
    dg_timing *m = x->timing;

    if (m->n == m->all.n) {
        timed one = { .begin = x->backend->stamp_open(x->backend),
                      .end = x->backend->stamp_open(x->backend) };

        DG_PUSH(x->arena, m->all, one);
    }
    return m->all.items[m->n].begin && m->all.items[m->n].end ? &m->all.items[m->n++] : NULL;
}

static int run_by_its_clock(dg_exec *x, int i, dg_diag *d)
{
    dg_backend *b = x->backend;
    int64_t before = b->n_put;
    timed *t = next(x);
    int rc = t ? b->event_record(b, t->begin, DG_LANE_COMPUTE) : -DG_EMEMORY;

    if (rc < 0)
        return dg_exec_failed(x, i, rc, d);
    DG_TRY(dg_exec_run_instr(x, i, d));
    t->instr = i;
    t->pieces = b->n_put - before;
    rc = b->event_record(b, t->end, DG_LANE_COMPUTE);
    rc = rc < 0 ? dg_exec_failed(x, i, rc, d) : 0;
out:
    return rc;
}

int dg_timing_run(dg_exec *x, int i, dg_diag *d)
{
    dg_ran how = { .begin_s = dg_monotonic_s() };
    int64_t before = x->backend->n_put;
    int rc;

    if (dg_timing_possible(x))
        return run_by_its_clock(x, i, d);
    DG_TRY(dg_exec_run_instr(x, i, d));
    rc = x->backend->finish(x->backend);
    if (rc < 0)
        return dg_exec_failed(x, i, rc, d);
    how.end_s = dg_monotonic_s();
    how.pieces = x->backend->n_put - before;
    dg_observe_ran(x, i, &how);
out:
    return rc;
}

int dg_timing_end(dg_exec *x, dg_diag *d)
{
    dg_backend *b = x->backend;
    dg_timing *m = x->timing;
    int rc;

    if (!dg_timing_possible(x))
        return 0;
    DG_TRY(dg_exec_settle(x, d));
    for (int k = 0; k < m->n && rc == 0; k++) {
        const timed *t = &m->all.items[k];
        dg_ran how = { .pieces = t->pieces };

        rc = b->seconds(b, m->zero, t->begin, &how.begin_s);
        rc = rc ? rc : b->seconds(b, m->zero, t->end, &how.end_s);
        how.begin_s += m->zero_s;
        how.end_s += m->zero_s;
        if (rc == 0)
            dg_observe_ran(x, t->instr, &how);
    }
    if (rc < 0)
        return dg_exec_failed(x, DG_NO_MARK, rc, d);
out:
    return rc;
}

void dg_timing_close(dg_exec *x)
{
    dg_backend *b = x->backend;

    if (!x->timing)
        return;
    for (int k = 0; k < x->timing->all.n; k++) {
        if (x->timing->all.items[k].begin)
            b->event_close(b, &x->timing->all.items[k].begin);
        if (x->timing->all.items[k].end)
            b->event_close(b, &x->timing->all.items[k].end);
    }
    if (x->timing->zero)
        b->event_close(b, &x->timing->zero);
}
