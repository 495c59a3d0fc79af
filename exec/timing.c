/* timing.c: how long instructions take. Where the device has a clock, a pair of its events stands
 * around each instruction and is read behind the run; the run begins on an idle device. Elsewhere
 * the host waits for each instruction.
 *
 * Other runs have a pair of events around each stretch that needs no host. The pairs are read where
 * the host waits anyway, so it costs no wait to know how busy the device is. */
#include "base/log.h"
#include "exec/exec_internal.h"

typedef struct timed {
    dg_event *begin, *end;
    int instr;
    int64_t pieces;
} timed;

typedef struct times {
    DG_VEC(timed) all;
    int n; /* in use, of those */
} times;

struct dg_timing {
    double zero_s;   /* of the monotonic clock, when the run began */
    dg_event *zero;  /* the same moment, on the lane */
    times instrs;    /* of this run */
    times stretches; /* not read yet */
};

/* Debugging waits for every instruction. */
static bool is_possible(const dg_exec *x)
{
    return x->backend->stamp_open && !x->debug.what && !x->at_once;
}

/* NULL: no memory for its events. */
static dg_timing *open_timing(dg_exec *x)
{
    if (!x->timing) {
        x->timing = DG_NEW(x->arena, dg_timing);
        x->timing->zero = x->backend->stamp_open(x->backend);
    }
    return x->timing->zero ? x->timing : NULL;
}

/* The lane is empty then, so that both clocks show the same moment. */
int dg_timing_begin(dg_exec *x)
{
    dg_backend *b = x->backend;
    int rc;

    if (!is_possible(x))
        return 0;
    if (!open_timing(x))
        return -DG_EMEMORY;
    x->timing->instrs.n = 0;
    rc = b->finish(b);
    rc = rc ? rc : b->event_record(b, x->timing->zero, DG_LANE_COMPUTE);
    rc = rc ? rc : b->event_wait(b, x->timing->zero);
    x->timing->zero_s = dg_monotonic_s();
    return rc;
}

/* The first that is not in use; NULL: no memory. */
static timed *next(dg_exec *x, times *list)
{
    timed *t;

    if (list->n == list->all.n) {
        timed one = { .begin = x->backend->stamp_open(x->backend),
                      .end = x->backend->stamp_open(x->backend) };

        DG_PUSH(x->arena, list->all, one);
    }
    t = &list->all.items[list->n];
    return t->begin && t->end ? t : NULL;
}

static int run_by_its_clock(dg_exec *x, int i, dg_diag *d)
{
    dg_backend *b = x->backend;
    int64_t before = b->n_put;
    timed *t = next(x, &x->timing->instrs);
    int rc = t ? b->event_record(b, t->begin, DG_LANE_COMPUTE) : -DG_EMEMORY;

    if (rc < 0)
        return dg_exec_failed(x, i, rc, d);
    x->timing->instrs.n++;
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

    if (is_possible(x))
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

    if (!is_possible(x))
        return 0;
    DG_TRY(dg_exec_settle(x, d));
    for (int k = 0; k < m->instrs.n && rc == 0; k++) {
        const timed *t = &m->instrs.all.items[k];
        dg_ran how = { .pieces = t->pieces };

        rc = b->seconds(b, m->zero, t->begin, &how.begin_s);
        rc = rc ? rc : b->seconds(b, m->zero, t->end, &how.end_s);
        x->n.device_s += how.end_s - how.begin_s;
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

int dg_timing_stretch_begin(dg_exec *x)
{
    dg_backend *b = x->backend;
    timed *t;

    if (!is_possible(x))
        return 0;
    t = open_timing(x) ? next(x, &x->timing->stretches) : NULL;
    return t ? b->event_record(b, t->begin, DG_LANE_COMPUTE) : -DG_EMEMORY;
}

int dg_timing_stretch_end(dg_exec *x)
{
    times *list;

    if (!is_possible(x))
        return 0;
    list = &x->timing->stretches;
    return x->backend->event_record(x->backend, list->all.items[list->n++].end, DG_LANE_COMPUTE);
}

int dg_timing_read_stretches(dg_exec *x)
{
    dg_backend *b = x->backend;
    times *list = x->timing ? &x->timing->stretches : NULL;
    int rc = 0;

    for (int k = 0; list && k < list->n && rc == 0; k++) {
        double s = 0;

        rc = b->seconds(b, list->all.items[k].begin, list->all.items[k].end, &s);
        x->n.device_s += s;
    }
    if (list)
        list->n = 0;
    return rc;
}

static void close_times(dg_backend *b, times *list)
{
    for (int k = 0; k < list->all.n; k++) {
        if (list->all.items[k].begin)
            b->event_close(b, &list->all.items[k].begin);
        if (list->all.items[k].end)
            b->event_close(b, &list->all.items[k].end);
    }
}

void dg_timing_close(dg_exec *x)
{
    dg_backend *b = x->backend;

    if (!x->timing)
        return;
    close_times(b, &x->timing->instrs);
    close_times(b, &x->timing->stretches);
    if (x->timing->zero)
        b->event_close(b, &x->timing->zero);
}
