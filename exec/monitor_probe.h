/* monitor_probe.h: finds the results of a program that monitors check, by the instruction that
 * makes them. */
#ifndef DG_EXEC_MONITOR_PROBE_H
#define DG_EXEC_MONITOR_PROBE_H

#include "exec/exec.h"

typedef struct dg_monitor_probe dg_monitor_probe;

dg_monitor_probe *dg_monitor_probe_find(dg_arena *a, const dg_program *p);
/* Collects the values of instruction i, which has run or was skipped (outputs are zeros); i =
 * number of instructions: the values that the host wrote. Each is collected once before it is
 * shown. */
void dg_monitor_probe_collect(dg_monitor_probe *l, int i);
bool dg_monitor_probe_has_some(const dg_monitor_probe *l);
/* show passes the collected values of x to the observer; empty discards them. */
int dg_monitor_probe_show(const dg_monitor_probe *l, const dg_exec_observer *by, dg_exec *x,
                          dg_diag *d) DG_MUST_USE;
void dg_monitor_probe_empty(dg_monitor_probe *l);

#endif
