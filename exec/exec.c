/* exec.c: executes a plan. Operand addresses are computed once, when memory is bound; a step is
 * then a loop over launches. */
#include "exec/exec.h"

#include <string.h>

#include "base/log.h"
#include "exec/exec_internal.h"

/* ---- binding --------------------------------------------------------------------------------- */

static int write_constants(dg_exec *x, dg_diag *d)
{
    for (int32_t v = 1; v < x->p->values.n; v++) {
        const dg_value *value = &x->p->values.items[v];
        int rc;

        if (value->space != DG_CONSTANTS || !value->constant)
            continue;
        rc = dg_exec_upload(x, dg_exec_tensor(x, v), value->constant,
                            value->dtype == DG_I32 ? DG_I32 : DG_F64, d);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void bind_launch(dg_exec *x, int i)
{
    const dg_instr *in = &x->p->instrs.items[i];
    const dg_plan_instr *pi = &x->plan->instrs[i];

    x->args[i] = (dg_args){
        .t = x->t[i],
        .n = in->n_in + in->n_out,
        .attr = in->attr,
        .control = x->control_at,
        .workspace = pi->workspace_bytes && !pi->staged
                         ? (char *)x->spaces.at[DG_SLAB] + pi->workspace
                         : NULL,
        .handle = pi->handle,
        .threads = x->plan->threads,
    };
    x->launches[i] = (dg_launch){
        .kernel = pi->kernel,
        .args = &x->args[i],
        .guard = in->guard ? dg_exec_tensor(x, in->guard).data : NULL,
        .otherwise = in->otherwise - 1,
        .zero_outputs = pi->zero_outputs,
        .n_in = in->n_in,
        .mark = x->first_mark + i,
    };
}

int dg_exec_bind(dg_exec *x, const dg_spaces *spaces, dg_diag *d)
{
    bool constants = spaces->at[DG_CONSTANTS] != x->spaces.at[DG_CONSTANTS];

    int rc = dg_exec_settle(x, d);

    if (rc < 0)
        return rc;
    dg_replay_forget(x);
    x->n.bindings++;
    x->spaces = *spaces;
    x->spaces.at[DG_REPORT] = x->report;
    for (int i = 0; i < x->p->instrs.n; i++) {
        const dg_instr *in = &x->p->instrs.items[i];
        dg_tensor *t = x->t[i];

        for (int k = 0; k < in->n_in + in->n_out; k++) {
            t[k] = in->v[k] ? dg_exec_tensor(x, in->v[k]) : x->plan->instrs[i].t[k];
            if (in->v[k] && !t[k].data)
                return dg_fail(d, DG_EINTERNAL, in->origin.where, "space-unbound",
                               "%s needs space %s, which has no memory", in->op->name,
                               dg_space_name(x->p->values.items[in->v[k]].space));
        }
        bind_launch(x, i);
    }
    return constants ? write_constants(x, d) : 0;
}

static int no_device_memory(dg_diag *d, const char *what)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for %s", what);
}

/* Allocates the control struct and the report: on the host the device's memory itself, elsewhere
 * pinned copies. */
static int open_report(dg_exec *x, dg_diag *d)
{
    dg_backend *b = x->backend;
    size_t n = x->plan->report_bytes ? (size_t)x->plan->report_bytes : b->alignment;

    x->report = b->alloc(b, n);
    x->control = b->alloc_pinned(b, sizeof *x->control);
    if (!x->report || !x->control)
        return no_device_memory(d, "the report of a step");
    x->report_host = x->report;
    x->control_at = x->control;
    if (b->immediate)
        return 0;
    x->report_host = b->alloc_pinned(b, n);
    x->control_at = b->alloc(b, sizeof *x->control);
    x->event = b->event_open(b);
    return x->report_host && x->control_at && x->event
               ? 0
               : no_device_memory(d, "the report of a step");
}

static void close_report(dg_exec *x)
{
    dg_backend *b = x->backend;

    if (x->report_host != x->report)
        b->free_pinned(b, x->report_host);
    if (x->control_at != x->control)
        b->free(b, x->control_at);
    b->free_pinned(b, x->control);
    b->free(b, x->report);
    if (x->event)
        b->event_close(b, &x->event);
}

int dg_exec_open(dg_exec **out, const dg_plan *plan, dg_backend *backend, const dg_spaces *spaces,
                 dg_comm *comm, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_exec *x = DG_NEW(a, dg_exec);
    int rc, n = plan->program->instrs.n;

    x->arena = a;
    x->plan = plan;
    x->p = plan->program;
    x->backend = backend;
    x->comm = comm;
    x->settled = true;
    x->first_mark = backend->n_marks;
    backend->n_marks += n;
    x->args = DG_NEW_N(a, n + 1, dg_args);
    x->launches = DG_NEW_N(a, n + 1, dg_launch);
    x->t = DG_NEW_N(a, n + 1, dg_tensor *);
    for (int i = 0; i < n; i++)
        x->t[i] = DG_NEW_N(a, x->p->instrs.items[i].n_in + x->p->instrs.items[i].n_out, dg_tensor);
    x->draws = DG_NEW_N(a, n + 1, dg_drawn);
    x->landed = spaces->landing ? DG_NEW_N(a, x->p->inputs.n + 1, int32_t) : NULL;
    x->pieces = backend->record_begin ? DG_NEW_N(a, n + 1, dg_piece) : NULL;
    DG_TRY(open_report(x, d));
    DG_TRY(dg_staging_open(&x->staging, a, x->p, backend, comm, d));
    DG_TRY(dg_staged_open(x, d));
    DG_TRY(dg_exec_bind(x, spaces, d));
out:
    if (rc < 0)
        dg_exec_close(&x);
    *out = x;
    return rc;
}

void dg_exec_close(dg_exec **x)
{
    dg_arena *a = *x ? (*x)->arena : NULL;

    if (*x) {
        (void)(*x)->backend->finish((*x)->backend);
        dg_replay_forget(*x);
        dg_timing_close(*x);
        close_report(*x);
        dg_staging_close(&(*x)->staging, (*x)->backend);
        dg_staged_close(*x);
        dg_free((*x)->piece);
    }
    dg_arena_close(&a);
    *x = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

int dg_exec_failed(const dg_exec *x, int instr, int rc, dg_diag *d)
{
    int late = x->backend->fault(x->backend);
    int at = late == DG_NO_MARK ? instr : late - x->first_mark;
    bool ours = at >= 0 && at < x->p->instrs.n; /* or another plan's */
    const dg_instr *in = ours ? &x->p->instrs.items[at] : NULL;
    char why[320];

    /* without a reason of the communicator, an I/O error is the device's */
    if (in && in->op->effect == DG_COLLECTIVE && x->comm &&
        (dg_collective_why(x->comm)[0] || rc != -DG_EIO))
        return dg_collective_failed(in, x->comm, rc, d);
    dg_fail(d, (dg_code)-rc, in ? in->origin.where : DG_NOWHERE, "kernel-failed", "%s failed: %s",
            in ? in->op->name : "the device",
            rc == -DG_ENUMERIC       ? "a number is not finite"
            : rc == -DG_EIO          ? "the device failed"
            : rc == -DG_EMEMORY      ? "out of memory"
            : rc == -DG_EUNSUPPORTED ? "not possible on this device"
            : rc == -DG_ESTOP        ? "stopped"
                                     : "an operand is not what it should be");
    if (rc == -DG_EIO)
        dg_note(d, DG_NOWHERE, "%s", x->backend->describe(x->backend, why, sizeof why));
    return rc;
}

/* Reads the guard of instruction i, which the host runs: *zero is true if it is 0. */
static int guard_is_zero(dg_exec *x, int i, bool *zero)
{
    const dg_launch *l = &x->launches[i];
    int32_t flag = 1;
    int rc = 0;

    if (l->guard && x->backend->immediate)
        flag = *l->guard;
    else if (l->guard)
        rc = x->backend->download(x->backend, DG_LANE_COMPUTE, &flag, l->guard, sizeof flag);
    x->n.waits += l->guard && !x->backend->immediate;
    *zero = flag == 0;
    return rc;
}

/* Writes the outputs of such an instruction where it is skipped: one of its inputs, or zeros if
 * others read them. */
static int write_skipped_outputs(dg_exec *x, int i)
{
    const dg_launch *l = &x->launches[i];
    const dg_tensor *t = x->t[i], *out = t + l->n_in;
    dg_backend *b = x->backend;
    int rc = 0;

    if (l->otherwise >= 0)
        return t[l->otherwise].data == out->data
                   ? 0
                   : b->copy(b, DG_LANE_COMPUTE, out->data, t[l->otherwise].data,
                             dg_exec_tensor_bytes(out));
    for (int k = 0; k < l->args->n - l->n_in && rc == 0; k++)
        if (l->zero_outputs >> k & 1)
            rc = b->clear(b, DG_LANE_COMPUTE, out[k].data, dg_exec_tensor_bytes(&out[k]));
    return rc;
}

static int run_on_host(dg_exec *x, int i, dg_diag *d)
{
    bool skipped;
    const dg_collective_call c = {
        .comm = x->comm,
        .backend = x->backend,
        .program = x->p,
        .in = &x->p->instrs.items[i],
        .args = &x->args[i],
        .control = x->control,
        .staging = &x->staging,
        .mark = x->first_mark + i,
    };
    int rc = guard_is_zero(x, i, &skipped);

    if (rc < 0)
        return rc;
    if (skipped)
        return write_skipped_outputs(x, i);
    return x->plan->instrs[i].staged ? dg_staged_run(x, i) : dg_collective_run(&c, d);
}

bool dg_exec_has_work(const dg_exec *x, int i)
{
    return !x->plan->instrs[i].alias || x->launches[i].guard;
}

/* The first of the launches that i goes with; -1: it goes alone, as each does where the host looks
 * at single instructions or brings numbers of its own. */
static int first_of_joined(const dg_exec *x, int i)
{
    const dg_plan_instr *pi = x->plan->instrs;
    int first = i;

    if (!pi[i].joined || x->debug.what || x->at_once)
        return -1;
    while (pi[first].joined < 0)
        first--;
    for (int k = first; k < first + pi[first].joined; k++)
        if (x->draws[k].values)
            return -1;
    return first;
}

int dg_exec_launch(dg_exec *x, int i)
{
    dg_backend *b = x->backend;
    const dg_plan_instr *pi = &x->plan->instrs[i];
    int first = first_of_joined(x, i);

    if (first >= 0 && first < i)
        return 0;
    return first < 0
               ? b->launch(b, DG_LANE_COMPUTE, &x->launches[i])
               : b->launch_joined(b, DG_LANE_COMPUTE, &x->launches[i], pi->joined, pi->in_turn);
}

int dg_exec_run_instr(dg_exec *x, int i, dg_diag *d)
{
    const dg_drawn *drawn = &x->draws[i];
    int errors = dg_diag_errors(d), rc = 0;

    x->settled = false;
    if (x->p->instrs.items[i].op->effect == DG_COLLECTIVE || x->plan->instrs[i].staged)
        rc = run_on_host(x, i, d);
    /* otherwise nothing is left to compute */
    else if (!drawn->values || x->p->instrs.items[i].n_out > 1) {
        rc = dg_exec_launch(x, i);
        x->n.launches += x->plan->instrs[i].joined >= 0;
    }
    if (drawn->values && rc == 0)
        rc = dg_exec_upload(x, x->t[i][drawn->operand], drawn->values, DG_F64, d);
    return rc < 0 && dg_diag_errors(d) == errors ? dg_exec_failed(x, i, rc, d) : rc;
}

int dg_exec_run_one(dg_exec *x, int i, dg_diag *d)
{
    return x->timed ? dg_timing_run(x, i, d) : dg_exec_run_instr(x, i, d);
}

/* Sends the control struct in one copy; an update has the struct of its batch. */
static int send_control(dg_exec *x, const dg_control *control, dg_diag *d)
{
    dg_backend *b = x->backend;
    int rc = 0;

    if (x->told && memcmp(x->control, control, sizeof *control) == 0)
        return 0;
    if (!b->immediate)
        rc = dg_exec_settle(x, d); /* the lane may still be reading the previous one */
    if (rc < 0)
        return rc;
    memcpy(x->control, control, sizeof *control);
    x->told = true;
    x->settled = false;
    return b->immediate ? 0
                        : b->upload(b, DG_LANE_COMPUTE, x->control_at, x->control, sizeof *control);
}

/* before: the segment's instruction before these, or -1. */
static int walk(dg_exec *x, int begin, int end, dg_segment segment, int *before, dg_diag *d)
{
    int rc = 0;

    for (int i = begin; i < end && rc == 0; i++) {
        if (x->p->instrs.items[i].segment != segment)
            continue;
        dg_observe_place(x, i, *before);
        *before = i;
        if (x->p->instrs.items[i].op->effect == DG_COLLECTIVE)
            rc = dg_observe_before_wait(x, d);
        if (rc == 0 && dg_exec_has_work(x, i))
            rc = x->debug.what ? dg_debug_run(x, i, d) : dg_exec_run_one(x, i, d);
        if (rc == 0 && x->probe)
            dg_monitor_probe_collect(x->probe, i);
    }
    return rc;
}

/* Replays instead of walking where the device can do without the host. */
static int replay(dg_exec *x, int begin, int end, dg_segment segment, int *before, dg_diag *d)
{
    bool done = false;
    int rc = dg_timing_stretch_begin(x);

    rc = rc ? rc : dg_replay(x, begin, end, segment, &done);
    if (rc < 0)
        return dg_exec_failed(x, DG_NO_MARK, rc, d);
    if (!done)
        DG_TRY(walk(x, begin, end, segment, before, d));
    for (int i = begin; done && i < end; i++) {
        if (x->p->instrs.items[i].segment != segment)
            continue;
        *before = i;
        if (x->probe)
            dg_monitor_probe_collect(x->probe, i);
    }
    rc = dg_timing_stretch_end(x);
    rc = rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : 0;
out:
    return rc;
}

static int take_batch(dg_exec *x, dg_diag *d)
{
    int rc = dg_landing_take(x);

    return rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : 0;
}

int dg_exec_run(dg_exec *x, dg_segment segment, const dg_control *control, dg_diag *d)
{
    int n = x->p->instrs.n, before = -1, rc = send_control(x, control, d);

    if (rc == 0)
        rc = take_batch(x, d);
    if (rc == 0 && x->timed) {
        rc = dg_timing_begin(x);
        rc = rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : 0;
    }
    if (rc == 0 && !dg_replay_possible(x))
        rc = walk(x, 0, n, segment, &before, d);
    else
        for (int i = 0, end; i < n && rc == 0; i = end + 1) {
            while (i < n && x->p->instrs.items[i].segment != segment)
                i++;
            end = dg_replay_end(x, i, segment);
            if (end > i)
                rc = replay(x, i, end, segment, &before, d);
            if (rc == 0 && end < n)
                rc = walk(x, end, end + 1, segment, &before, d);
        }
    if (rc == 0 && x->timed)
        rc = dg_timing_end(x, d);
    return rc < 0 ? rc : dg_observe_before_wait(x, d);
}
