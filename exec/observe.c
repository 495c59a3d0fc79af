/* observe.c: calls the observers of an executing plan. */
#include <assert.h>

#include "exec/exec_internal.h"

static void note_wishes(dg_exec *x)
{
    bool values = false;

    x->timed = x->at_once = x->host_places = false;
    for (int k = 0; k < x->n_observers; k++) {
        x->timed = x->timed || x->observed[k].by->ran;
        x->at_once = x->at_once || x->observed[k].by->at_once;
        values = values || x->observed[k].by->value;
        x->host_places = x->host_places || (x->observed[k].by->at && !x->observed[k].by->word);
    }
    if (!values)
        x->probe = NULL;
    else if (!x->probe)
        x->probe = dg_monitor_probe_find(x->arena, x->p);
}

void dg_exec_observe(dg_exec *x, const dg_exec_observer *o)
{
    int k = x->n_observers++;

    assert(k < DG_MAX_OBSERVERS);
    x->observed[k].by = o;
    x->observed[k].places = o->place ? DG_NEW_N(x->arena, x->p->instrs.n + 1, uint32_t) : NULL;
    for (int i = 0; o->place && i < x->p->instrs.n; i++)
        x->observed[k].places[i] = o->place(o->ctx, &x->p->instrs.items[i].origin.where);
    if (o->at)
        dg_replay_forget(x);
    note_wishes(x);
}

void dg_exec_unobserve(dg_exec *x, const dg_exec_observer *o)
{
    int n = 0;

    for (int k = 0; k < x->n_observers; k++)
        if (x->observed[k].by != o)
            x->observed[n++] = x->observed[k];
    x->n_observers = n;
    if (o->at)
        dg_replay_forget(x);
    note_wishes(x);
}

/* Passes the collected values to every observer that wants them. */
static int show_values(dg_exec *x, dg_diag *d)
{
    int rc = x->probe && dg_monitor_probe_has_some(x->probe) ? dg_exec_settle(x, d) : 0;

    for (int k = 0; k < x->n_observers && x->probe && rc == 0; k++)
        if (x->observed[k].by->value)
            rc = dg_monitor_probe_show(x->probe, x->observed[k].by, x, d);
    if (x->probe)
        dg_monitor_probe_empty(x->probe);
    return rc;
}

int dg_exec_show_inputs(dg_exec *x, dg_diag *d)
{
    if (x->probe)
        dg_monitor_probe_collect(x->probe, x->p->instrs.n);
    return show_values(x, d);
}

/* Reports the place; on an asynchronous device its lane does. */
static void say_place(dg_exec *x, const dg_exec_observer *o, uint32_t place)
{
    if (x->backend->immediate || !o->word)
        o->at(o->ctx, place);
    else
        /* an error is reported by the next wait */
        (void)x->backend->sign(x->backend, DG_LANE_COMPUTE, o->word, place);
}

void dg_observe_place(dg_exec *x, int instr, int before)
{
    for (int k = 0; k < x->n_observers; k++) {
        const dg_exec_observer *o = x->observed[k].by;
        const uint32_t *places = x->observed[k].places;

        if (o->at && places && (before < 0 || places[before] != places[instr]))
            say_place(x, o, places[instr]);
    }
}

void dg_observe_ran(dg_exec *x, int instr, const dg_ran *how)
{
    for (int k = 0; k < x->n_observers; k++)
        if (x->observed[k].by->ran)
            x->observed[k].by->ran(x->observed[k].by->ctx, instr, how);
}

int dg_observe_before_wait(dg_exec *x, dg_diag *d)
{
    int rc = show_values(x, d);

    for (int k = 0; k < x->n_observers; k++)
        if (x->observed[k].by->before_wait)
            x->observed[k].by->before_wait(x->observed[k].by->ctx);
    return rc;
}
